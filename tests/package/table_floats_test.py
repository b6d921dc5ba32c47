"""Numbers of tables that become floats of 32 bits: what they lose is told."""

import decimal

import numpy as np
import pytest
from tables_test import convert, pa, pq


def test_floats_lose_digits_where_they_print_fewer(tmp_path):
    rng = np.random.default_rng(5)
    texts = [f"{x:.{digits}g}" for digits in range(1, 10) for x in rng.random(300) * 10.0 ** rng.integers(-8, 12, 300)]
    lost = sum(float(text) != float(str(np.float32(text))) for text in texts)
    pq.write_table(pa.table({"x": [float(text) for text in texts]}), tmp_path / "t.parquet")
    note, = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1")["notes"]
    count = int(note.split(": ")[1].split(" of ")[0].replace(",", ""))
    assert 300 < lost < 1000 and abs(count - lost) < 0.01 * lost, (count, lost)


@pytest.mark.parametrize("values, changed", [
    (["0.1", "1e30", "0", "0.0", "inf", None], 0), (["1e-400", "0"], 1), (["1e-99999999999999999999"], 1),
    (["9007199254740993", "-9007199254740993"], 2), (["9007199254740992", "18446744073709551616"], 0),
    ([decimal.Decimal(9007199254740993)], 1)])
def test_text_as_floats_tells_what_it_loses(tmp_path, values, changed):
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet")
    (tmp_path / "schema.json").write_text('{"x": "float"}')
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1", "--schema", tmp_path / "schema.json")["notes"]
    said = [note for note in notes if "lose digits" in note]
    assert len(said) == (changed > 0)
    if changed:
        assert f"{changed} of {len(values)} values" in said[0] and f"{values[0]} becomes" in said[0]


@pytest.mark.parametrize("value, exact", [(2**24, True), (2**24 + 1, False), (-(2**24) - 1, False), (2**62, True),
                                          (2**62 + 2**37, False), (-2**63, True), (0, True)])
def test_integers_as_floats_tell_what_they_lose(tmp_path, value, exact):
    pq.write_table(pa.table({"n": [value]}), tmp_path / "t.parquet")
    (tmp_path / "s.json").write_text('{"n": "float"}')
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1", "--schema", tmp_path / "s.json")["notes"]
    assert bool(notes) != exact
