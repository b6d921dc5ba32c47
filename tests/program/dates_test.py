"""`convert --dates` of tables and JSON: what becomes numbers, and notes on values that are not dates."""

import json

import pytest
from harness import DEFECTS, USAGE, fail, leave_out, payloads, succeed


def read(tmp_path, kind, text, *options):
    """The rows, and the notes on dates with the place only."""
    path = tmp_path / f"t.{kind}"
    path.write_text(text)
    notes = succeed("convert", kind, path, tmp_path / "out/x@1", "--overwrite", "--json", *options).json["notes"]
    rows = payloads(tmp_path / "out/x@1")
    return rows, [note.replace(f"{path}:", "line ") for note in notes if not note.startswith("read as CSV")]


@pytest.mark.parametrize("values, note", [
    ("2024-01-31,soon,2024-02-01", 'because of 1 value, "soon" at line 3; the other 2 values are dates'),
    ("2024-01-31,2024-13-01", 'because of 1 value, "2024-13-01" at line 3; the other 1 value is a date'),
    ("soon,late,2024-02-01", 'because of 2 values, the first, "soon" at line 2; the other 1 value is a date'),
    ("7,2024-02-01,2024-02-01", 'because of 1 value, "7" at line 2; the other 2 values are dates'),
    ("2024-02-01,true", 'because of 1 value, "true" at line 3; the other 1 value is a date')])
def test_a_cell_that_is_no_date_is_told(tmp_path, values, note):
    for unit in ("epoch", "epoch-us"):
        rows, told = read(tmp_path, "csv", "d\n" + values.replace(",", "\n") + "\n", "--dates", unit)
        assert [row["d"][0] for row in rows] == values.split(",")
        assert told == [f'column "d" is bytes {note}']


def test_numbers_among_dates_that_a_schema_makes_int64_are_told(tmp_path):
    (tmp_path / "s").write_text('{"d": "int64"}')
    options = ("--dates", "epoch", "--schema", tmp_path / "s")
    rows, told = read(tmp_path, "csv", "d\n1970-01-02\n7\n", *options)
    assert rows == [{"d": [86400]}, {"d": [7]}]
    assert told == ['column "d": dates became seconds since 1970 in UTC (1 value, all without a time zone)',
                    'column "d": 1 value is not a date but a number, the first is "7" at line 3']
    rows, told = read(tmp_path, "jsonl", '{"d": "1970-01-02"}\n{"d": 7}\n', *options)
    assert rows == [{"d": [86400]}, {"d": [7]}]
    assert told == ['key "d": dates became seconds since 1970 in UTC (1 value, all without a time zone); '
                    "1 value is not a date but a number, the first is 7 at line 2"]


def test_input_without_any_date_is_told(tmp_path):
    rest = "that may become numbers has dates, which are written as in 2024-01-31 or 2024-01-31T13:45:00Z"
    assert read(tmp_path, "csv", "d\n31.01.2024\n01.02.2024\n", "--dates", "epoch")[1] == [f"no column {rest}"]
    assert read(tmp_path, "jsonl", '{"d": "31.01.2024"}\n', "--dates", "epoch")[1] == [f"no key {rest}"]
    assert read(tmp_path, "jsonl", '{"d": "31.01.2024"}\n')[1] == []


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_dates_in_json(tmp_path, kind):
    objects = [{"day": "2024-01-31", "at": ["2024-01-31T13:45:00+01:00", "1970-01-01T00:00:01"],
                "lists": [["1970-01-02"], []], "of": [{"t": "1970-01-03"}], "n": 1},
               {"day": None, "at": [], "lists": [["1970-01-02", "1970-01-03"]], "of": [{"t": "1970-01-03"}, {}], "n": 2}]
    text = json.dumps(objects) if kind == "json" else "".join(json.dumps(one) + "\n" for one in objects)
    rows, told = read(tmp_path, kind, text, "--dates", "epoch")
    assert rows == [{"at": [1706705100, 1], "day": [1706659200], "lists": [86400], "lists_lengths": [1, 0], "n": [1],
                     "of.t": [172800], "of.t_lengths": [1]},
                    {"at": [], "lists": [86400, 172800], "lists_lengths": [2], "n": [2], "of.t": [172800],
                     "of.t_lengths": [1, 0]}]
    assert told[:2] == ['key "day": dates became seconds since 1970 in UTC (1 value, all without a time zone)',
                        'key "at": dates became seconds since 1970 in UTC (2 values, 1 of them without a time zone)']
    assert len(told) == 4
    # Without the option they are text, as they always were.
    assert read(tmp_path, kind, text)[0][0]["day"] == ["2024-01-31"]


def test_a_value_of_json_that_is_no_date_is_told(tmp_path):
    rows, told = read(tmp_path, "jsonl", '{"d": "1970-01-02"}\n{"d": ["1970-01-02", "soon"]}\n{"d": ""}\n', "--dates", "epoch")
    assert rows == [{"d": ["1970-01-02"]}, {"d": ["1970-01-02", "soon"]}, {"d": [""]}]
    assert told == ['key "d" is bytes because of 2 values, the first, "soon" at line 2; the other 2 values are dates']
    text = '{"d": "1970-01-01T00:00:00.5Z"}\n{"d": "1970-01-02Z"}\n{"d": "1970-01-02"}\n'.replace("02Z", "02T00:00Z")
    rows, told = read(tmp_path, "jsonl", text, "--dates", "epoch")
    assert told == ['key "d" is bytes because 1 of 3 dates have fractions of a second, the first is '
                    '"1970-01-01T00:00:00.5Z" at line 1; microseconds would keep them']
    rows, told = read(tmp_path, "jsonl", text, "--dates", "epoch-us")
    assert [row["d"][0] for row in rows] == [500_000, 86_400_000_000, 86_400_000_000]
    # An object that is left out teaches nothing about dates either.
    path = tmp_path / "bad.jsonl"
    path.write_text('{"d": "1970-01-02", "n": 1}\n{"d": "soon", "n": "x"}\n' + '{"d": "1970-01-02", "n": 1}\n' * 200)
    told = leave_out("convert", "jsonl", path, tmp_path / "out/y@1", "--dates", "epoch", "--on-error", "skip", "--json").json
    assert told["skipped"] == 1 and any("dates became seconds since 1970 in UTC (201 values" in n for n in told["notes"])


def test_wrong_dates_of_json_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"d": "1970-01-01T00:00:00.5Z"}\n')
    (tmp_path / "s").write_text('{"d": "int64"}')
    arguments = ("convert", "jsonl", path, tmp_path / "out/x@1")
    assert fail(USAGE, *arguments, "--dates", "unix") == "--dates unix: expected text, epoch or epoch-us"
    message = fail(DEFECTS, *arguments, "--dates", "epoch", "--schema", tmp_path / "s")
    assert message.startswith(f'{path}:1: "d": expected int64, as the schema says, got ')
    assert message.endswith("; pass --dates epoch-us to make dates microseconds since 1970")
    path.write_text('{"d": "1970-01-02"}\n{"d": 7}\n')
    assert fail(DEFECTS, *arguments, "--dates", "epoch") == f'{path}:2: "d": a number here, but text at {path}:1'
