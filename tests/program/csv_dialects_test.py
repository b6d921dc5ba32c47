"""Tables in many dialects: what `convert csv` guesses, and that its cells are those that were written.

The corpus is made here: tables of several shapes, written with Python's csv module in every combination of delimiter,
header, quoting, encoding, line ends and missing values. What is expected is known from the making, by the rules of
docs/convert.md. PyArrow's CSV reader, which was told the dialect, judges the same cells.
"""

import csv
import io
import itertools
import json
import random
import re
import struct

import harness
import pytest
from harness import DEFECTS, USAGE, convert, fail, payloads, succeed

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
QUOTING = {"minimal": csv.QUOTE_MINIMAL, "all": csv.QUOTE_ALL}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "windows-1252"]
MISSING = ["", "NA", "null", "-"]

NAMES = ["Zoë", "O'Brien, Pat", 'the "Small"', "a;b", "Müller|Söhne", "New York", "x", "-", "Anna", "two\nlines",
         "Ångström", "tab\there"]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


# Each shape of table gives names and, for a row, values: None is a missing value.
def people(rng, i):
    return {"name": rng.choice(NAMES), "age": rng.choice([None, rng.randrange(100)]),
            "size": rng.choice([None, round(rng.uniform(1, 2), 2)]), "active": rng.random() < 0.5}


def measures(rng, i):
    return {"t": i, "x": round(rng.gauss(0, 10), 3), "y": rng.choice([None, round(rng.gauss(0, 1), 4)])}


def orders(rng, i):
    return {"id": 10000 + i, "product": rng.choice(NAMES), "price": round(rng.uniform(1, 999), 2),
            "count": rng.choice([None, rng.randrange(1, 9)]), "date": f"2024-0{rng.randrange(1, 10)}-11"}


def words(rng, i):
    return {"key": f"k{i}", "text": rng.choice(NAMES), "lang": rng.choice(["de", "fr"])}


def wide(rng, i):
    return {"country": rng.choice(["Aruba", "Chad", "Oman"]),
            **{str(year): rng.randrange(100000) for year in range(1990, 2000)}}


SHAPES = [people, measures, orders, words, wide]


def written(value, decimal, missing):
    if value is None:
        return missing
    if isinstance(value, float):
        return repr(value).replace(".", decimal)
    return str(value)


def feature(value):
    """What a value becomes; a float is rounded to 32 bits."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return float32(value)
    return value if isinstance(value, (int, str)) else str(value)  # Arrow has dates


def corpus():
    combinations = itertools.product(SHAPES, DELIMITERS, [True, False], QUOTING, ENCODINGS)
    for number, (shape, delimiter, header, quoting, encoding) in enumerate(combinations):
        # Without a header, nothing tells text from names.
        if not header and shape in (words, wide):
            continue
        rng = random.Random(number)
        character = DELIMITERS[delimiter]
        decimal = "," if character == ";" and number % 2 else "."
        missing = MISSING[number % len(MISSING)]
        rows = [shape(rng, i) for i in range(rng.choice([3, 30, 300]))]
        rows[1] = {k: v if v is not None else 7 for k, v in rows[1].items()}  # no column is empty
        names = list(rows[0]) if header else [f"column{i + 1}" for i in range(len(rows[0]))]
        text = io.StringIO(newline="")
        table = csv.writer(text, delimiter=character, quoting=QUOTING[quoting],
                           lineterminator=rng.choice(["\n", "\r\n"]))
        if header:
            table.writerow(names)
        table.writerows([written(v, decimal, missing) for v in row.values()] for row in rows)
        floats = [any(isinstance(row[key], float) for row in rows) for key in rows[0]]
        expected = []
        for row in rows:
            cells = {}
            for name, value, is_float in zip(names, row.values(), floats):
                if value is not None:
                    cells[name] = float32(value) if is_float else feature(value)
            expected.append(cells)
        yield {
            "what": f"{shape.__name__} {delimiter} {'' if header else 'no '}header {quoting} {encoding}",
            "text": text.getvalue(), "encoding": encoding, "expected": expected,
            "read_as": {"delimiter": "tab" if delimiter == "tab" else f"'{character}'", "header": header,
                        "decimal": decimal if any(decimal in written(v, decimal, "") for row in rows
                                                  for v in row.values() if isinstance(v, float)) else "."},
        }


def notes(report):
    return report.json["datasets"][0]["notes"] if "datasets" in report.json else report.json["notes"]


def test_dialects_are_guessed_and_cells_read(tmp_path, out):
    right, wrong = 0, []
    for number, case in enumerate(corpus()):
        path = tmp_path / "t.csv"
        path.write_bytes(case["text"].encode(case["encoding"]))
        result = harness.run("convert", "csv", path, out / "x@1", "--json", "--overwrite", "--no-sync")
        if result.status != 0:
            wrong.append((case["what"], result.err))
            continue
        told = notes(result)[0]
        read_as = {"delimiter": re.search(r"delimiter ('.'|tab)", told)[1], "header": ", header" in told,
                   "decimal": "," if "decimal mark ','" in told else "."}
        found = [{name: feature(value[0]) for name, value in row.items()} for row in payloads(out / "x@1")]
        if read_as == case["read_as"] and found == case["expected"]:
            right += 1
        else:
            wrong.append((case["what"], told, next(((a, b) for a, b in zip(found, case["expected"]) if a != b), None)))
    assert right + len(wrong) > 200
    assert right >= 0.95 * (right + len(wrong)), (right, len(wrong), wrong[:10])


def test_cells_are_those_of_arrow(tmp_path, out):
    arrow = pytest.importorskip("pyarrow.csv")
    for case in itertools.islice(corpus(), 0, None, 7):
        read_as = case["read_as"]
        if case["encoding"] == "windows-1252":
            continue
        path = tmp_path / "t.csv"
        path.write_bytes(case["text"].encode(case["encoding"]))
        convert("csv", path, out / "x@1", "--overwrite", "--no-sync")
        table = arrow.read_csv(
            io.BytesIO(case["text"].encode()),
            read_options=arrow.ReadOptions(autogenerate_column_names=not read_as["header"]),
            parse_options=arrow.ParseOptions(
                delimiter="\t" if read_as["delimiter"] == "tab" else read_as["delimiter"][1],
                newlines_in_values=True),
            convert_options=arrow.ConvertOptions(
                null_values=["", "NA", "null", "-"], strings_can_be_null=False,
                decimal_point=read_as["decimal"]))
        names = {name: name if read_as["header"] else f"column{int(name[1:]) + 1}" for name in table.column_names}
        expected = [{names[name]: feature(value) for name, value in row.items() if value is not None and value != ""}
                    for row in table.to_pylist()]
        found = [{name: feature(value[0]) for name, value in row.items()} for row in payloads(out / "x@1")]
        assert found == expected, case["what"]


# ---- single cases, with the notes that they get


def read(tmp_path, out, content, *options):
    """The records and the notes of a file."""
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    report = succeed("convert", "csv", path, out / "x@1", "--json", "--overwrite", *options)
    told = [note.replace(f"{path}:", "line ") for note in notes(report)]
    return [{name: value[0] for name, value in row.items()} for row in payloads(out / "x@1")], told


def test_missing_words_and_the_option_that_names_them(tmp_path, out):
    rows, told = read(tmp_path, out, "n,country\nNA,DE\n1,NA\n2,FR\n")
    assert rows == [{"country": "DE"}, {"country": "NA", "n": 1}, {"country": "FR", "n": 2}]
    assert told == [
        "read as CSV: delimiter ',', header, UTF-8",
        'column "country" is text, so "NA" at line 3 is kept; --na usual makes it missing',
        'column "n": 1 value is missing, the first is "NA" at line 2']
    rows, told = read(tmp_path, out, "n,country\n?,DE\n1,NA\n", "--na", "NA,?")
    assert rows == [{"country": "DE"}, {"n": 1}]
    rows, _ = read(tmp_path, out, "n,c\nnan,x\n1,y\n", "--na", "")
    assert str(float(rows[0]["n"])) == "nan" and rows[1] == {"c": "y", "n": 1.0}


def test_marks_in_numbers(tmp_path, out):
    text = 'n\n"1,234"\n"12,345"\n7\n'
    rows, told = read(tmp_path, out, text)
    assert rows[0] == {"n": "1,234"}
    assert told[1:] == ['column "n" is bytes because of 2 values, the first, "1,234" at line 2; the other 1 value is a '
                        "number; --thousands , reads them as numbers, --decimal , as fractions"]
    rows, told = read(tmp_path, out, text, "--thousands", ",")
    assert rows == [{"n": 1234}, {"n": 12345}, {"n": 7}]
    assert told == ["read as CSV: one column, header, UTF-8, thousands mark ','"]
    # French and Swiss typesetting.
    assert read(tmp_path, out, "n;m\n1\u202f234,5;x\n1\u00a0000;y\n", "--thousands", " ")[0] == [
        {"m": "x", "n": 1234.5}, {"m": "y", "n": 1000.0}]
    assert read(tmp_path, out, "n\n1’234\n2'000\n", "--thousands", "’")[0] == [{"n": 1234}, {"n": 2000}]
    assert read(tmp_path, out, "n\n1\u2009234\n2 000\n", "--thousands", "\u2009")[0] == [{"n": 1234}, {"n": 2000}]
    rows, told = read(tmp_path, out, "n;m\n1.234,5;x\n7;y\n")
    assert told[1].endswith("; --thousands . reads them as numbers")
    assert read(tmp_path, out, "n;m\n1.234,5;x\n7;y\n", "--thousands", ".")[0] == [
        {"m": "x", "n": 1234.5}, {"m": "y", "n": 7.0}]


def test_encodings(tmp_path, out):
    table = "größe,n\nfünf €,1\n"
    for encoding, options, name in [("utf-8-sig", [], "UTF-8 with a byte order mark"), ("utf-16", [], "UTF-16"),
                                    ("utf-16-be", ["--encoding", "utf-16be"], "UTF-16"),
                                    ("cp1252", ["--encoding", "CP1252"], "Windows-1252"),
                                    ("cp1252", [], "Windows-1252 (a guess: not UTF-8)")]:
        rows, told = read(tmp_path, out, table.encode(encoding), *options)
        assert rows == [{"größe": "fünf €", "n": 1}]
        assert told == [f"read as CSV: delimiter ',', header, {name}"]
    # Cyrillic does not look like it, and the option is named.
    (tmp_path / "t.csv").write_bytes("слово,n\nпять,1\n".encode("koi8-r"))
    assert fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1") == (
        f"{tmp_path}/t.csv:1: not UTF-8 at byte 0 of the file (found 0xd3); it is damaged, or of another encoding, "
        "which iconv -t UTF-8 converts; pass --on-error skip to leave out such rows")
    # Nor is it guessed where the first MiB is ASCII: no other part of a file decides how its beginning is read.
    (tmp_path / "t.csv").write_bytes(b"name,n\n" + b"five,1\n" * 200000 + "fünf,1\n".encode("cp1252"))
    assert "it may be Windows-1252; pass --encoding" in fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1")
    # A byte order mark overrides the option.
    rows, told = read(tmp_path, out, table.encode("utf-8-sig"), "--encoding", "latin-1")
    assert rows[0]["größe"] == "fünf €" and told[0].endswith("UTF-8 with a byte order mark")
    assert fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--encoding", "koi8-r") == (
        "--encoding koi8-r: expected utf-8, utf-16, utf-16le, utf-16be, latin-1 or windows-1252; iconv converts other "
        "encodings")


def test_header_and_trim_options(tmp_path, out):
    assert read(tmp_path, out, "1,2\n3,4\n", "--header")[0] == [{"1": 3, "2": 4}]
    assert read(tmp_path, out, "a,b\nx,y\n", "--no-header")[0] == [
        {"column1": "a", "column2": "b"}, {"column1": "x", "column2": "y"}]
    assert read(tmp_path, out, "a,b\nx , y\n", "--trim")[0] == [{"a": "x", "b": "y"}]
    assert read(tmp_path, out, "a,b\nx, 1\n", "--no-trim")[0] == [{"a": "x", "b": " 1"}]
    assert read(tmp_path, out, "#a,b\nx,1\n", "--no-comments")[0] == [{"#a": "x", "b": 1}]
    assert read(tmp_path, out, "a\tb\nx\t1\n", "--delimiter", "tab")[0] == [{"a": "x", "b": 1}]
    assert fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--decimal", "..") == (
        "--decimal ..: expected one ASCII character")
    (tmp_path / "t.csv").write_text("1,2\n")
    assert fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1") == (
        f"{tmp_path}/t.csv: no records: nothing follows the header; pass --no-header to take the first row for a record")


def test_a_schema_takes_missing_words_and_long_numbers(tmp_path, out):
    (tmp_path / "s").write_text(json.dumps({"f": "float", "b": "bytes", "i": "int64"}))
    rows, told = read(tmp_path, out, "f,b,i\nNA,18446744073709551616,true\n1,NA, 7\n", "--schema", tmp_path / "s")
    assert rows == [{"b": "18446744073709551616", "i": 1}, {"b": "NA", "f": 1.0, "i": 7}]


def test_lost_digits_are_told(tmp_path, out):
    _, told = read(tmp_path, out, "t,x\n16777217.0,31.95376472\n1700000001.5,2\n")
    assert told[1:] == ['column "t": 2 values lose digits because floats have 32 bits, the first is "16777217.0" at line '
                        "2; declare the column as bytes with --schema FILE to keep them"]


def test_dates(tmp_path, out):
    table = "day,at,n\n2024-01-31,2024-01-31T13:45:00+01:00,1\n2024-02-29,NA,2\n"
    rows, told = read(tmp_path, out, table)
    assert rows[0] == {"at": "2024-01-31T13:45:00+01:00", "day": "2024-01-31", "n": 1}
    assert told[1:] == ['column "at" is text, so "NA" at line 3 is kept; --na usual makes it missing',
                        '2 columns of dates, kept as text: "at", "day"; --dates epoch makes them seconds since 1970']
    rows, told = read(tmp_path, out, table, "--dates", "epoch")
    assert rows == [{"at": 1706705100, "day": 1706659200, "n": 1}, {"day": 1709164800, "n": 2}]
    assert told[1:] == ['column "at": 1 value is missing, the first is "NA" at line 3',
                        'column "at": dates became seconds since 1970 in UTC (1 value)',
                        'column "day": dates became seconds since 1970 in UTC (2 values, all without a time zone)']
    rows, told = read(tmp_path, out, "t\n2024-01-31T13:45:00.25\n", "--dates", "epoch")
    assert rows == [{"t": "2024-01-31T13:45:00.25"}]
    assert told[1].endswith('; --dates epoch-us keeps them')
    rows, told = read(tmp_path, out, "t\n2024-01-31T13:45:00.25Z\n", "--dates", "epoch-us")
    assert rows == [{"t": 1706708700250000}]
    assert fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--dates", "unix") == (
        "--dates unix: expected text, epoch or epoch-us")
    # A schema says the kind, and the option the unit.
    (tmp_path / "s").write_text('{"t": "int64"}')
    assert fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--schema", tmp_path / "s").endswith(
        'as the schema says, got "2024-01-31T13:45:00.25Z"; pass --dates epoch-us to make dates microseconds since 1970')


def test_numbers_with_another_mark_after_the_rows_that_are_guessed_from(tmp_path, out):
    (tmp_path / "s").write_text('{"a": "float"}')
    (tmp_path / "t.csv").write_text("a;b\n" + "1;x\n" * 300 + "2,5;y\n")
    assert fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--schema", tmp_path / "s") == (
        f'{tmp_path}/t.csv:302: expected float in column "a", as the schema says, got "2,5"; pass --decimal , to read '
        "it as a number")


def test_values_that_do_not_fit_another_dataset_name_it(tmp_path, out):
    read(tmp_path, out, "a\n1\n")
    (tmp_path / "t.csv").write_text("a\n1\nx\n")
    assert fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--like", out / "x@1") == (
        f'{tmp_path}/t.csv:3: expected int64 in column "a", as in {out}/x@1, got "x"')
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": 1.5}\n')
    assert fail(DEFECTS, "convert", "jsonl", tmp_path / "t.jsonl", out / "y@1", "--like", out / "x@1") == (
        f'{tmp_path}/t.jsonl:2: "a": expected int64, as in {out}/x@1, got "1.5"')


def test_many_notes_and_names_do_not_flood_the_screen(tmp_path, out):
    path = tmp_path / "t.csv"
    names = [f"c{i}" for i in range(100)]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * 100) + "\n" + ",".join(["NA"] * 100) + "\n")
    report = succeed("convert", "csv", path, out / "x@1").out.decode().splitlines()
    assert len(report) == 22 and report[20] == "note: 81 more notes; the manifest has all"
    report = succeed("convert", "csv", path, "--dry-run").out.decode()
    assert report.count("note: ") == 21 and "note: 81 more notes; --json shows all\n" in report
    assert len(succeed("convert", "csv", path, "--dry-run", "--json").json["notes"]) == 101
    message = fail(USAGE, "convert", "csv", path, out / "y@1", "--columns", "x")
    assert message.endswith('"c18", "c19" and 80 more')
