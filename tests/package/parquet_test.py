"""Chains of files of Parquet."""

import numpy as np
import pytest
from package_data import sf

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def files(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"n": range(3 * i, 3 * i + 3), "x": [0.5, None, 1.5], "l": [[1], [], [2, 3]]}),
                       tmp_path / f"{i}.parquet", row_group_size=2)
    return sorted(tmp_path.glob("*.parquet"))


def test_a_chain_has_the_rows_of_all_files(files):
    batch = next(iter(sf.from_parquet(files, defaults={"x": -1.0}).batch(6)))
    assert batch["n"].tolist() == list(range(6))
    assert batch["x"].tolist() == [0.5, -1, 1.5] * 2
    assert [row.tolist() for row in batch["l"]] == [[1], [], [2, 3]] * 2
    chain = sf.from_parquet(files[0], columns=["n"]).shuffle(seed=1, window=3)
    assert sorted(int(row["n"]) for row in chain) == [0, 1, 2]
    assert list(next(iter(sf.from_parquet(files, columns=["l", "n"]).batch(2)))) == ["l", "n"]


def test_what_is_wrong_is_named(files, tmp_path):
    with pytest.raises(ValueError, match="column 'x': row 1 has no value"):
        sf.from_parquet(files)
    with pytest.raises(ValueError, match="0.parquet: column 'y' does not exist; the columns are n, x, l"):
        sf.from_parquet(files, columns=["y"])
    with pytest.raises(ValueError, match="at least one path"):
        sf.from_parquet([])
    with pytest.raises(FileNotFoundError):
        sf.from_parquet(tmp_path / "none")
    pq.write_table(pa.table({"n": np.zeros(2)}), tmp_path / "other.parquet")
    with pytest.raises(sf.DataLossError, match="other.parquet: its columns are not those of"):
        sf.from_parquet([files[0], tmp_path / "other.parquet"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(sf.DataLossError, match="bad.parquet: not a file of Parquet, or cut off"):
        sf.from_parquet(tmp_path / "bad.parquet")


def rows_of(chain):
    return [{key: np.asarray(value).tolist() for key, value in row.items()} for row in chain]


def test_streams_have_the_same_rows(files, tmp_path):
    options = {"defaults": {"x": -1.0}}
    whole = rows_of(sf.from_parquet(files, **options))
    for paths in (files, str(tmp_path / "*.parquet"), [str(tmp_path / "0*"), files[1]], str(tmp_path / "{0..1}.parq*")):
        assert rows_of(sf.from_parquet(paths, stream=True, **options)) == whole
        assert rows_of(sf.from_parquet(paths, **options)) == whole
    chain = sf.from_parquet(files, stream=True, columns=["l", "n"])
    assert chain.element_spec == {"l": ("int64", (), True), "n": ("int64", (), False)}
    assert sorted(int(r["n"]) for r in chain.shuffle(seed=1, window=4)) == list(range(6))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        sf.from_parquet(str(tmp_path / "*.none"), stream=True)
    with pytest.raises(ValueError, match="from_parquet: defaults names 'y', and the columns are: n, x, l"):
        sf.from_parquet(files, stream=True, defaults={"y": 1})
    with pytest.raises(ValueError, match="0.parquet, row groups 0 to 1: column 'x': row 1 has no value"):
        list(sf.from_parquet(files, stream=True))
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert list(sf.from_parquet(tmp_path / "empty.parquet", stream=True)) == []


@pytest.fixture
def many(tmp_path, monkeypatch):
    """Files whose row groups are read one by one."""
    from shardfeed.tables import arrow_files
    monkeypatch.setattr(arrow_files, "BATCH_ROWS", 5)
    for i in range(3):
        pq.write_table(pa.table({"n": range(20 * i, 20 * i + 20), "t": ["a", "b"] * 10}).cast(
            pa.schema([("n", pa.int64()), ("t", pa.dictionary(pa.int32(), pa.string()))])), tmp_path / f"{i}.parquet", row_group_size=5)
    return str(tmp_path / "*.parquet")


def test_streams_go_on_from_their_states(many):
    chain = sf.from_parquet(many, stream=True)
    whole = rows_of(chain)
    assert [row["n"] for row in whole] == list(range(60))
    for done in (0, 3, 5, 23, 60):
        it = iter(chain)
        for _ in range(done):
            next(it)
        again = sf.from_parquet(many, stream=True).start()
        again.load_state_dict(it.state_dict())
        assert rows_of(again) == whole[done:]


def test_states_do_not_go_on_in_other_files(many, tmp_path):
    it = iter(sf.from_parquet(many, stream=True))
    next(it)
    state = it.state_dict()
    pq.write_table(pa.table({"n": range(3), "t": pa.array(["c"] * 3).dictionary_encode()}), tmp_path / "2.parquet")
    with pytest.raises(RuntimeError, match="the state belongs to another chain or other data"):
        sf.from_parquet(many, stream=True).start().load_state_dict(state)


def test_files_that_change_while_they_are_read(many, tmp_path):
    chain = sf.from_parquet(many, stream=True)
    pq.write_table(pa.table({"n": range(3), "t": pa.array(["c"] * 3).dictionary_encode()}), tmp_path / "2.parquet")
    with pytest.raises(sf.DataLossError, match=r"2.parquet: row groups 0 to 0: 3 rows, and 5 before: the file has changed"):
        list(chain)


def test_files_are_written_batch_by_batch(many, tmp_path):
    with sf.write(tmp_path / "out@2") as writer:
        assert writer.write_batch(sf.parquet_batches(many)) == 60
    rows = sorted(sf.read(tmp_path / "out@2").parse(), key=lambda row: row["n"])
    assert [row["n"] for row in rows] == list(range(60)) and rows[1]["t"] == b"b"
    reader = sf.parquet_batches(many, columns=["n"])
    assert reader.schema.names == ["n"] and all(batch.num_rows <= 5 for batch in reader)
    with pytest.raises(sf.DataLossError, match="3.parquet: its columns are not those of .*0.parquet .*x instead of n, t"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / "3.parquet")
        sf.parquet_batches(many)
