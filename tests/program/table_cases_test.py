"""Small tables with the corners of CSV and JSON, compared cell by cell with what pandas and DuckDB read.

testdata/table_cases/make.py made the cases and both readings. Where the two agree, shardfeed must agree with them; where
both refuse a file, it must refuse it as well. How often they agree is asserted, so the comparison cannot become empty.
"""

import base64
import json
import struct

import harness
import pytest
from harness import DEFECTS, TESTDATA, payloads

CASES = json.loads((TESTDATA / "table_cases/cases.json").read_text())["cases"]
DISAGREE = object()

# What shardfeed reads differently on purpose, see docs/convert.md.
DIFFERENT = {
    "integers_beyond_64_bits": "TFRecord has no such integers; they stay text",
    "text_after_a_quote": "an error, since the two only agree in that they guess",
}


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def same(a, b):
    """Whether two cells are the same value: numbers by value, and text only to text."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b and isinstance(a, str) == isinstance(b, str) and (a is None) == (b is None)


def agreed(case):
    """The rows in which cells that pandas and DuckDB read differently are DISAGREE; None if nothing can be compared."""
    ours = [case["pandas"], case["duckdb"]]
    if any("error" in reading for reading in ours):
        return None
    first, second = ours[0]["rows"], ours[1]["rows"]
    if len(first) != len(second) or len(ours[0]["names"]) != len(ours[1]["names"]):
        return None
    return [[a if same(a, b) else DISAGREE for a, b in zip(*rows)] for rows in zip(first, second)]


def own_names(case):
    """The names of the features, in the order of the columns: pandas' but for columns without a name."""
    names = case["pandas"]["names"]
    if case["kind"] == "csv" and names == [str(i) for i in range(len(names))]:
        return [f"column{i + 1}" for i in range(len(names))]
    return ["index" if name == "Unnamed: 0" else f"column{int(name[9:]) + 1}" if name.startswith("Unnamed: ") else name
            for name in names]


def stored(cell):
    """What a cell becomes: true and false are 1 and 0, floats have 32 bits."""
    if isinstance(cell, list):
        return [stored(one) for one in cell]
    return float32(cell) if isinstance(cell, float) else int(cell) if isinstance(cell, bool) else cell


def found(value):
    # pandas and DuckDB have one missing value, and a float NaN is that.
    if value is None or value == ["NaN"]:
        return None
    # `cat` writes these as text, since JSON has no such numbers.
    values = [float(one) if one in ("inf", "-inf") else float32(one) if isinstance(one, float) else one for one in value]
    return values[0] if len(values) == 1 else values


def read(case, tmp_path, out):
    path = tmp_path / "t"
    path.write_bytes(case["text"].encode() if "text" in case else base64.b64decode(case["base64"]))
    return harness.run("convert", case["kind"], path, out / "x@1", "--overwrite", "--no-sync", "-q",
                       *case.get("options", []))


@pytest.mark.parametrize("kind, least_cases, least_cells", [("csv", 120, 660), ("jsonl", 35, 265)])
def test_cells_are_those_that_pandas_and_duckdb_read(kind, least_cases, least_cells, tmp_path, out):
    cases = cells = 0
    wrong = []
    for case in CASES:
        expected = agreed(case) if case["kind"] == kind else None
        if not expected or case["name"].startswith("refuse ") or case["name"] in DIFFERENT:
            continue
        result = read(case, tmp_path, out)
        if result.status != harness.DONE:
            wrong.append((case["name"], result.err))
            continue
        cases += 1
        rows = payloads(out / "x@1")
        if len(rows) != len(expected):
            wrong.append((case["name"], rows, expected))
            continue
        for row, wanted in zip(rows, expected):
            for name, cell in zip(own_names(case), wanted, strict=True):
                if cell is DISAGREE:
                    continue
                cells += 1
                # An empty list and an empty cell are missing values, and an empty text in JSON is not.
                if not same(found(row.get(name)), stored(cell)):
                    wrong.append((case["name"], name, row.get(name), cell))
    assert not wrong
    assert cases >= least_cases and cells >= least_cells, (cases, cells)


def test_files_that_both_refuse_are_refused(tmp_path, out):
    refused = 0
    for case in CASES:
        if "error" not in case["pandas"] or "error" not in case["duckdb"]:
            continue
        result = read(case, tmp_path, out)
        if case["name"] == "not_utf_8":  # looks like Windows-1252, which the others do not guess
            notes = json.loads((out / ".shardfeed/x.manifest.json").read_text())["notes"]
            assert result.status == 0 and "Windows-1252 (a guess: not UTF-8)" in notes[0]
            continue
        assert result.status == DEFECTS and result.err.startswith(f"shardfeed: {tmp_path}/t:"), (case["name"], result)
        refused += 1
    assert refused >= 20


def test_json_that_the_grammar_refuses_is_refused(tmp_path, out):
    """Also where one of the two is lenient."""
    for case in CASES:
        if case["name"].startswith("refuse "):
            assert read(case, tmp_path, out).status == DEFECTS, case["name"]
