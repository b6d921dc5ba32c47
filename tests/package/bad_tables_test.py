"""Broken and hostile files of the kinds that Python reads: status and message of each, and that nothing is left."""

import contextlib
import json
import os
import pickle
import sqlite3
import struct
import warnings
import zipfile

import harness
import numpy as np
import pytest
from harness import DEFECTS, IO_FAILED, USAGE
from package_data import sf
from tables_test import database, datum, pa, pq, shardfeed, varint, write_lmdb  # noqa: F401  (a fixture)

h5py = pytest.importorskip("h5py", reason="h5py is not installed")


def write_arrow(path, table):
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)


def fail(status, *arguments, cwd):
    """The message, without the folder, of a conversion that must fail and leave nothing."""
    result = shardfeed("convert", *arguments, cwd=cwd)
    assert result.status == status, (result.status, result.err, result.out)
    assert result.err.startswith("shardfeed: ") and result.err.count("\n") == (2 if "Run '" in result.err else 1), result.err
    assert not result.out
    assert not [p for p in (cwd / "out").rglob("*") if p.is_file()], arguments
    return result.err.removeprefix("shardfeed: ").splitlines()[0]


def refused(table, *options, cwd, status=DEFECTS):
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), cwd / "t.parquet")
    return fail(status, "parquet", "t.parquet", "out/t@2", *options, cwd=cwd)


def text_that_is_not_utf8(values):
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())


# ---- Files


@pytest.mark.parametrize("size", [0, 3, 100, 3000, -1, -8])
def test_truncated_parquet(tmp_path, size):
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data[:size])
    message = fail(DEFECTS, "parquet", "t.parquet", "out/t@2", cwd=tmp_path)
    assert message.startswith(f"t.parquet: not a file of Parquet, or cut off ({len(data[:size])} bytes): ")


def test_a_damaged_page_names_its_row_group(tmp_path):
    pq.write_table(pa.table({"n": np.arange(4000)}), tmp_path / "t.parquet", row_group_size=1000,
                   write_page_checksum=True, compression="none", use_dictionary=False)
    harness.flip(tmp_path / "t.parquet", 20000)
    message = fail(DEFECTS, "parquet", "t.parquet", "out/t@2", cwd=tmp_path)
    assert message.startswith("t.parquet: row group 2, rows 2000 to 2999: "), message
    assert "CRC" in message


@pytest.mark.parametrize("size", [0, 4, 8, 300, -10])
def test_truncated_arrow(tmp_path, size):
    table = pa.table({"n": range(1000)})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    data = (tmp_path / "t.arrow").read_bytes()
    (tmp_path / "t.arrow").write_bytes(data[:size])
    message = fail(DEFECTS, "arrow", "t.arrow", "out/t@2", cwd=tmp_path)
    assert message.startswith("t.arrow: "), message


def test_offsets_of_arrow_that_lead_elsewhere(tmp_path):
    table = pa.table({"s": ["hello", "world!"]})
    with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    data = (tmp_path / "t.arrow").read_bytes()
    offsets = struct.pack("<3i", 0, 5, 11)
    assert data.count(offsets) == 1
    for wrong in ((0, 5, 2**30), (0, 11, 5), (-7, 5, 11)):
        (tmp_path / "t.arrow").write_bytes(data.replace(offsets, struct.pack("<3i", *wrong)))
        message = fail(DEFECTS, "arrow", "t.arrow", "out/t@2", cwd=tmp_path)
        assert message.startswith("t.arrow: record batch 0: "), message


@pytest.mark.parametrize("kind", ["parquet", "arrow", "hdf5", "npz", "sqlite", "lmdb"])
def test_other_files_and_none(tmp_path, kind):
    if kind == "lmdb":
        pytest.importorskip("lmdb", reason="lmdb is not installed")
    (tmp_path / "text").write_text("this is no such file, and long enough to hold the header of one\n" * 200)
    (tmp_path / "empty").write_bytes(b"")
    assert fail(DEFECTS, kind, "text", "out/t@2", cwd=tmp_path).startswith("text: ")
    message = fail(USAGE if kind == "sqlite" else DEFECTS, kind, "empty", "out/t@2", cwd=tmp_path)
    assert message.startswith("empty: ")
    assert fail(IO_FAILED, kind, "none", "out/t@2", cwd=tmp_path) == "none: cannot open: No such file or directory"
    assert fail(IO_FAILED, kind, "none*", "out/t@2", cwd=tmp_path) == "none*: no file matches"


@pytest.mark.parametrize("kind", ["parquet", "arrow", "hdf5", "npz", "sqlite", "lmdb", "video"])
def test_compressed_files(tmp_path, kind, database):  # noqa: F811
    import bz2
    import gzip
    import lzma
    pytest.importorskip({"lmdb": "lmdb", "video": "cv2"}.get(kind, "pyarrow"), reason="a library is not installed")
    data = database.read_bytes()
    zstd = pa.compress(data, "zstd", asbytes=True)
    for name, content, command in [("gzip", gzip.compress(data), "zcat"), ("zstd", zstd, "zstdcat"),
                                   ("xz", lzma.compress(data), "xzcat"), ("bzip2", bz2.compress(data), "bzcat")]:
        (tmp_path / "x").write_bytes(content)
        remedy = f"{command} FILE > OTHER, and convert that" if kind in ("lmdb", "video") else \
            f"{command} FILE | shardfeed convert {kind} - OUT@N"
        assert fail(DEFECTS, kind, "x", "out/t@1", cwd=tmp_path) == f"x: it is compressed by {name}; decompress it: {remedy}"


@pytest.mark.parametrize("kind", ["parquet", "arrow", "hdf5", "npz", "sqlite"])
def test_folders(tmp_path, kind):
    (tmp_path / "data").mkdir()
    assert fail(USAGE, kind, "data", "out/t@1", cwd=tmp_path) == \
        f"data: it is a folder, and {kind} is read from files; name them, as in 'data/*'"
    assert shardfeed("convert", "csv", "data", "out/t@1", cwd=tmp_path).status == USAGE


def test_files_that_differ(tmp_path):
    def differ(**columns):
        pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
        pq.write_table(pa.table(columns), tmp_path / "2.parquet")
        return fail(DEFECTS, "parquet", "1.parquet", "2.parquet", "out/t@1", cwd=tmp_path)

    assert differ(a=[1]) == ("2.parquet: column 'b' is missing, which 1.parquet has; choose columns that all files have")
    assert differ(a=[1], b=["x"], c=[1]) == ("2.parquet: column 'c' is new: 1.parquet does not have it; choose columns "
                                             "that all files have")
    assert differ(a=[1.5], b=["x"]) == ("2.parquet: column 'a' is of type double here, and of type int64 in 1.parquet; "
                                        "declare its kind (schema), or leave it out (columns)")


# ---- Values


def test_values_without_a_counterpart(tmp_path):
    place = "t.parquet: row 1 (row group 0): column 'x': "
    in_list = place + "a value within a list is missing (null), and a feature has no place for that; fill it, leave out " \
                      "such rows, or choose other columns"
    for values in ([[1], [2, None]], [[[1]], [None]], [[{"a": 1}], [{"a": None}]], [[{"a": 1}], [None]]):
        message = refused({"x": values}, cwd=tmp_path)
        assert message.replace("'x.a'", "'x'") == in_list, values
    blocks = pa.array([[1, 2], [3, None]], pa.list_(pa.int8(), 2))
    assert refused({"x": blocks}, cwd=tmp_path) == in_list
    assert refused({"x": pa.array([1, 2**63], pa.uint64())}, cwd=tmp_path) == \
        place + "9223372036854775808 is beyond int64; declare the kind float, or bytes for text (schema)"
    assert refused({"x": [1.5, 1e300]}, cwd=tmp_path) == \
        place + "1e+300 is beyond the range of floats of 32 bits; declare the kind bytes to have text (schema)"
    assert refused({"x": text_that_is_not_utf8([b"a", b"\xff"])}, cwd=tmp_path) == \
        place + "text that is not UTF-8 (invalid start byte at byte 0); declare the kind bytes to keep it (schema)"
    (tmp_path / "s.json").write_text('{"x": "bytes"}')
    assert shardfeed("convert", "parquet", "t.parquet", "out/t@1", "--schema", "s.json", cwd=tmp_path).status == 0


def test_rows_are_numbered_in_the_file(tmp_path):
    pq.write_table(pa.table({"x": [[1]] * 2500 + [[1], [None]]}), tmp_path / "t.parquet", row_group_size=1000)
    message = fail(DEFECTS, "parquet", "t.parquet", "out/t@1", cwd=tmp_path)
    assert message.startswith("t.parquet: row 2501 (row group 2): column 'x': ")


def test_nan_and_infinity_stay(tmp_path):
    pq.write_table(pa.table({"x": [float("nan"), float("inf"), -0.0]}), tmp_path / "t.parquet")
    assert not sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1")["notes"]
    found = [float(row["x"]) for row in sf.read(tmp_path / "out/t@1").parse()]
    assert np.isnan(found[0]) and found[1] == np.inf and np.signbit(found[2])


def test_declared_kinds_that_do_not_fit(tmp_path):
    def declared(values, kind):
        (tmp_path / "s.json").write_text(json.dumps({"x": kind}))
        return refused({"x": values}, "--schema", "s.json", cwd=tmp_path)

    assert declared([1.0, 1.5], "int64").startswith("t.parquet: row 1 (row group 0): column 'x': '1.5' is not an integer (")
    assert declared(["1", "2", "three"], "int64").startswith("t.parquet: row 2 (row group 0): column 'x': 'three' is not an")
    assert declared(["1", "x"], "float").startswith("t.parquet: row 1 (row group 0): column 'x': 'x' is not a number; ")
    (tmp_path / "s.json").write_text('{"x_lengths": "float"}')
    assert refused({"x": [[[1]]]}, "--schema", "s.json", cwd=tmp_path, status=USAGE) == \
        "t.parquet: the schema declares float for 'x_lengths', whose values (lengths of lists) are int64"
    assert declared([b"1"], "int64") == "t.parquet: column 'x': values of the type binary are not an integer"


def test_schemas_that_are_none(tmp_path):
    for text in ("", "[]", '{"x": "int"}', '{"format": "shardfeed manifest"}', "[" * 100000,
                 '{"x": "int64", "x": "float"}'):
        (tmp_path / "s.json").write_text(text)
        message = refused({"x": [1]}, "--schema", "s.json", cwd=tmp_path)
        assert message.startswith("s.json: ") and message.endswith("or the manifest of a dataset"), message
    assert message.startswith("s.json: 'x' appears twice in an object; expected JSON such as")
    (tmp_path / "s.json").write_text('{"y": "int64"}')
    assert refused({"x": [1]}, "--schema", "s.json", cwd=tmp_path, status=USAGE) == \
        "t.parquet: the schema has 'y', and this feature does not exist; the features are 'x'"


def test_names(tmp_path):
    assert refused({"a.b": [1], "a": [{"b": 2}]}, cwd=tmp_path) == \
        "t.parquet: two columns would become the feature 'a.b'; rename one, or choose others (columns)"
    assert refused({"a": [[[1]]], "a_lengths": [2]}, cwd=tmp_path).startswith("t.parquet: two columns would become the")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    assert refused(twice, cwd=tmp_path) == "t.parquet: 2 columns are named 'a'; rename them"
    assert refused({"a": [1]}, "--columns", "b", cwd=tmp_path, status=USAGE) == \
        "t.parquet: column 'b' does not exist; the columns are 'a'"
    assert refused({"a": [{"b": 1}]}, "--columns", "a.c", cwd=tmp_path, status=USAGE).startswith("t.parquet: column 'a.c'")


def test_no_rows_and_no_columns(tmp_path):
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    report = sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "none/t@2")
    assert report["records"] == 0 and harness.verify(tmp_path / "none/t@2")["records"] == 0
    pq.write_table(pa.table({}), tmp_path / "t.parquet")
    assert fail(DEFECTS, "parquet", "t.parquet", "out/t@2", cwd=tmp_path) == "t.parquet: it has no columns"


# ---- Arrays


def test_npz_of_objects_is_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    np.savez(tmp_path / "x.npz", x=np.array([Bomb(), None], object))
    (tmp_path / "ran").unlink(missing_ok=True)
    message = fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path)
    assert message == ("x.npz: array 'x': values of type object have no counterpart in features, and pickles of them are "
                       "never loaded, since that runs code in them; save an array of another type, or choose others "
                       "(columns)")
    assert not (tmp_path / "ran").exists()


def test_other_arrays_of_npz(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "x.npz", **arrays)
        return fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path)

    assert save(a=np.zeros(3), b=np.zeros(4)) == ("x.npz: array 'a' has 3 rows, and array 'b' has 4; choose those that "
                                                  "belong together (columns)")
    assert save(a=np.zeros(3), c=np.zeros(3, complex)).startswith(
        "x.npz: array 'c': features have no counterpart of values of type complex128; ")
    assert save(a=np.float32(3)).startswith("x.npz: array 'a': a single value, which has no rows; ")
    assert save(a=np.asfortranarray(np.zeros((3, 4)))).startswith("x.npz: array 'a': in Fortran order; ")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.txt", "hello")
    assert fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path).startswith("x.npz: its member 'x.txt' is not an array")


def test_npz_whose_header_lies(tmp_path):
    for rows, said in ((4, "a is cut off"), (2**50, "is cut off"), (2, "more bytes follow than its header announces")):
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117).encode() + b"\n"
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(24))
        message = fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path)
        assert message.startswith("x.npz: array 'x'") and said.removeprefix("a ") in message, message


def test_damaged_npz(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.random.default_rng(1).random(10000))
    data = (tmp_path / "x.npz").read_bytes()
    harness.flip(tmp_path / "x.npz", 30000)
    assert fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path).startswith("x.npz: array 'x', from row ")
    (tmp_path / "x.npz").write_bytes(data[:-30])
    assert fail(DEFECTS, "npz", "x.npz", "out/x@1", cwd=tmp_path).startswith("x.npz: not an archive of NumPy (.npz), ")


def test_hdf5(tmp_path):

    def save(*options, status=DEFECTS, **datasets):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            for name, values in datasets.items():
                file[name] = values
        return fail(status, "hdf5", "x.h5", "out/x@1", *options, cwd=tmp_path)

    assert save(a=np.zeros(3), b=np.zeros(4)).startswith("x.h5: dataset 'a' has 3 rows, and dataset 'b' has 4; ")
    assert save("--columns", "c", status=USAGE, a=np.zeros(3)) == "x.h5: column 'c' does not exist; the columns are 'a'"
    assert save(a=np.zeros(3, complex)).startswith("x.h5: dataset 'a': features have no counterpart of values of type ")
    assert save() == "x.h5: it has no datasets with rows"
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = np.zeros(3)
        file["r"] = np.array([file["a"].ref] * 3, h5py.ref_dtype)
    assert fail(DEFECTS, "hdf5", "x.h5", "out/x@1", cwd=tmp_path).startswith("x.h5: dataset 'r': values of type object ")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=np.random.default_rng(1).random(100000), chunks=(1000,), fletcher32=True)
    size = (tmp_path / "x.h5").stat().st_size
    harness.flip(tmp_path / "x.h5", size // 2)
    assert fail(DEFECTS, "hdf5", "x.h5", "out/x@1", cwd=tmp_path).startswith("x.h5: dataset 'a', from row 0 on: ")
    (tmp_path / "x.h5").write_bytes((tmp_path / "x.h5").read_bytes()[:size // 2])
    assert fail(DEFECTS, "hdf5", "x.h5", "out/x@1", cwd=tmp_path).startswith("x.h5: not a file of HDF5, or cut off: ")


# ---- Databases


@pytest.mark.parametrize("query, said", [
    ("SELECT nope FROM sales", "d.db: no such column: nope"),
    ("SELECT * FROM nope", "d.db: no such table: nope"),
    ("SELEKT", 'd.db: near "SELEKT": syntax error'),
    ("", "the query is empty; expected a SELECT"),
    ("SELECT 1; SELECT 2", "d.db: You can only execute one statement at a time."),
    ("SELECT id, id FROM sales", "d.db: 2 columns are named 'id'; name them in the query: SELECT a AS b"),
    ("DELETE FROM sales", "d.db: the query does more than read (not authorized); give a SELECT"),
    ("ATTACH 'made.db' AS other", "d.db: the query does more than read (not authorized); give a SELECT"),
    ("PRAGMA writable_schema = 1", "d.db: the query does more than read (not authorized); give a SELECT"),
])
def test_queries_that_are_wrong(tmp_path, database, query, said):  # noqa: F811
    before = database.read_bytes()
    assert fail(USAGE, "sqlite", "d.db", "out/s@1", "--query", query, cwd=tmp_path) == said
    assert database.read_bytes() == before and not (tmp_path / "made.db").exists()


def test_strings_of_hdf5_that_are_declared_utf8(tmp_path):
    text, pair = h5py.string_dtype("utf-8", 4), np.dtype([("u", h5py.string_dtype("utf-8", 3), (2,)), ("n", "i4")])
    values = [b"\xc3\xa9", b"a\0b", b"\xff\xfe", b"ok"]
    pairs = np.zeros(4, pair)
    pairs["u"][1, 1] = b"a\xc3"
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["utf8"] = np.array(values, text)
        file["ascii"] = np.array(values, h5py.string_dtype("ascii", 4))
        file.create_dataset("any", data=np.array([b"", b"\xff"] * 2, object), dtype=h5py.string_dtype("utf-8"))
        file["g/rows"] = np.array([[b"a", b"b"]] * 3 + [[b"c", b"\x80"]], text)
        file["pairs"] = pairs
    keep = "; declare the kind bytes to keep it (schema)"
    for name, row, why in [("utf8", 2, "invalid start byte at byte 0"), ("any", 1, "invalid start byte at byte 0"),
                           ("g/rows", 3, "invalid start byte at byte 0"), ("pairs.u", 1, "unexpected end of data at byte 1")]:
        message = f"t.h5: row {row}: column {name!r}: text that is not UTF-8 ({why}){keep}"
        assert fail(DEFECTS, "hdf5", "t.h5", "out/t@1", "--columns", name, cwd=tmp_path) == message
    (tmp_path / "kinds.json").write_text('{"utf8": "bytes"}')
    # Bytes that are declared ASCII may be any.
    for name, options in [("ascii", {}), ("utf8", {"schema": tmp_path / "kinds.json"})]:
        sf.convert("hdf5", tmp_path / "t.h5", tmp_path / f"out/{name}@1", columns=name, **options)
        assert [row[name] for row in sf.read(tmp_path / f"out/{name}@1").parse()] == values


def write_sqlite(path, rows):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"text{i}") for i in range(rows)])
        connection.execute("COMMIT")
    return path.read_bytes()


@pytest.mark.parametrize("known", [True, False])
def test_truncated_sqlite(tmp_path, known):
    data = bytearray(write_sqlite(tmp_path / "whole.db", 300))
    assert len(data) == 16384
    if not known:  # as writers before SQLite 3.7.0 left the header: the size of the file says how many pages there are
        data[92:96] = bytes(4)
    for size in (16383, 12289, 12800, *([12288, 5000, 4097, 100] if known else [])):
        (tmp_path / "t.db").write_bytes(data[:size])
        assert fail(DEFECTS, "sqlite", "t.db", "out/t@1", cwd=tmp_path) == (
            f"t.db: the file is truncated: it has {size:,} bytes, and its 4 pages of 4,096 bytes take 16,384")
    (tmp_path / "t.db").write_bytes(data)
    assert sf.convert("sqlite", tmp_path / "t.db", tmp_path / "out/t@1")["records"] == 300


def test_sqlite_whose_last_pages_are_in_its_log(tmp_path):
    write_sqlite(tmp_path / "t.db", 300)
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO t VALUES (300, 'last')")  # changes the last page
        os.truncate(tmp_path / "t.db", 13000)
        report = sf.convert("sqlite", tmp_path / "t.db", tmp_path / "out/t@1")
        assert report["records"] == 301
        assert [row["a"] for row in sf.read(tmp_path / "out/t@1").parse()] == list(range(301))
        os.truncate(tmp_path / "t.db", 12000)
        with pytest.raises(sf.DataLossError, match="t.db: the file is truncated: it has 12,000 bytes"):
            sf.convert("sqlite", tmp_path / "t.db", tmp_path / "out/u@1")


def test_columns_of_sqlite_that_have_several_types(tmp_path):
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("CREATE TABLE t (x, y)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), ('b', CAST(x'ff' AS TEXT))")
    connection.close()
    assert fail(DEFECTS, "sqlite", "d.db", "out/s@1", cwd=tmp_path) == (
        "d.db: column 'x' has values of several types (1 of type integer and 1 of type text), and a feature has one; cast "
        'it in the query: CAST("x" AS TEXT)')
    message = fail(DEFECTS, "sqlite", "d.db", "out/s@1", "--query", "SELECT 'a' AS z UNION ALL SELECT x'ff'", cwd=tmp_path)
    assert message.endswith('cast it in the query: CAST("z" AS BLOB)'), message
    message = fail(DEFECTS, "sqlite", "d.db", "out/s@1", "--query", "SELECT y FROM t", cwd=tmp_path)
    assert message.startswith("d.db: row 1: column 'y': text that is not UTF-8")
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("CREATE TABLE u (x)")
    connection.close()
    assert fail(USAGE, "sqlite", "d.db", "out/s@1", cwd=tmp_path) == \
        "d.db: it has 2 tables (t, u): choose one (table), or give a query"
    assert fail(USAGE, "sqlite", "d.db", "out/s@1", "--table", "v", cwd=tmp_path) == \
        "d.db: there is no table 'v'; it has: t, u"


def test_damaged_datums(tmp_path):
    good = datum(1, 2, 2, b"abcd", 1)
    for bad, said in ((good[:-5], "are announced where"), (b"\x80" * 20, "a number is cut off"),
                      (datum(1, 2, 3, b"abcd"), "its shape is 1 x 2 x 3, and it has 4 values"),
                      (datum(1, 2, 2), "it has neither data nor float_data"),
                      (good + varint(9 << 3) + b"\0", "Datums have no field 9 of wire type 0")):
        folder = tmp_path / "db"
        write_lmdb(folder, {b"a": good, b"b": bad})
        message = fail(DEFECTS, "lmdb", "db", "out/d@1", cwd=tmp_path)
        assert message.startswith("db: row 1, key b'b': not a Datum of Caffe: ") and said in message, message


def test_truncated_lmdb(tmp_path):
    write_lmdb(tmp_path / "db", {b"%d" % i: bytes(5000) for i in range(100)})
    data = (tmp_path / "db/data.mdb").read_bytes()
    used = len(data.rstrip(b"\0"))
    for size in (100, 8192, used // 2):
        (tmp_path / "db/data.mdb").write_bytes(data[:size])
        assert fail(DEFECTS, "lmdb", "db", "out/d@1", cwd=tmp_path).startswith("db: ")


# ---- Wrong use


@pytest.mark.parametrize("arguments, said", [
    (["parquet"], "parquet: PATHS is required"),
    (["parquet", "t"], "parquet: only one path is given; usage: shardfeed convert parquet SOURCE... OUT"),
    (["parquet", "t", "out/t@2", "--shard-size", "1GB"], "parquet: out/t@2 already gives the number of shards: pass it or "
                                                         "--shard-size, not both"),
    (["parquet", "t", "out/t", "--shard-size", "x"], "parquet: --shard-size: 'x' is not a size such as 256KiB"),
    (["parquet", "t", "out/t@x"], "out/t@x: after '@' expected a number of shards or *, then nothing or .suffix, as in "
                                  "train@64.tfrecord; found 'x'"),
    (["parquet", "t", "out/t@1"], "t: cannot open: No such file or directory"),
    (["lmdb", "-", "out/t@1"], "lmdb: lmdb cannot be read from standard input: its files are mapped into memory; name them"),
    (["parquet", "-", "-", "out/t@1"], "parquet: standard input, -, is given twice"),
    (["parquet", "t", "out/t@1", "--shuffle", "x"], "parquet: --shuffle: 'x' is not an integer of at least 0"),
    (["parquet", "t", "out/t@1", "--shuffle", "1", "--no-shuffle"], "parquet: --no-shuffle: not allowed with argument "
                                                                    "--shuffle"),
    (["parquet", "-", "out/t@1", "--resume"], "parquet: standard input cannot be resumed; write it to a file first"),
    (["parquet", "t", "out/t@1", "--level", "x"], "parquet: --level: 'x' is not an integer of at least 1"),
    (["parquet", "t", "out/t@1", "--limit", "3", "--limit", "3"], "parquet: --limit: At Most 1 required but received 2"),
    (["parquet", "t", "out/t@1", "-j", "3", "--threads=4"], "parquet: --jobs: At Most 1 required but received 2"),
    (["parquet", "t", "out/t@1", "--schema", "a", "--schema=b"], "parquet: --schema: At Most 1 required but received 2"),
    (["sqlite", "t", "out/t@1", "--query", "a", "--query", "b"], "sqlite: --query: At Most 1 required but received 2"),
    (["parquet", "t", "out/t@1", "--foo"], "parquet: there is no option --foo"),
    (["parquet", "t", "out/t@1", "--query", "x"], "parquet: there is no option --query"),
    (["sqlite", "t", "out/t@1", "--limit"], "sqlite: --limit: expected a value"),
])
def test_wrong_use_is_explained(tmp_path, arguments, said):
    status = IO_FAILED if "cannot open" in said else USAGE
    assert fail(status, *arguments, cwd=tmp_path) == said


def test_options_of_compression_need_one(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    for option, value in (("--level", "9"), ("--member-size", "4KiB")):
        assert fail(USAGE, "parquet", "t.parquet", "out/t@1", option, value, cwd=tmp_path) == (
            f"parquet: {option}: nothing is compressed without --compression gzip or zlib")
        with pytest.raises(ValueError, match="(level|member_size): nothing is compressed without compression gzip or zlib$"):
            sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "u@1", **{option[2:].replace("-", "_"): value})
        sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "p@1", overwrite=True)
        with pytest.raises(ValueError, match="p@1 is not compressed, so its compression has no level .*; pass compression=gzip "):
            sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "q@1", like=tmp_path / "p@1",
                       **{option[2:].replace("-", "_"): value})
        options = {"overwrite": True, option[2:].replace("-", "_"): value}
        sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "m@1", compression="gzip", **options)
        sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "l@1", like=tmp_path / "m@1", **options)


def test_suffixes_that_name_another_compression_are_noted(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    note = "the suffix .gz does not choose a compression: the shards are not compressed; --compression does"
    for options in ({"dry_run": True}, {}):
        report = sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "u@1.gz", **options)
        assert [one for one in report["notes"] if "suffix" in one] == [note.replace("--", "the argument ")]
    (tmp_path / "t.csv").write_text("n\n1\n")
    report = sf.convert("csv", tmp_path / "t.csv", tmp_path / "c--compression@1.gz")
    assert [one for one in report["notes"] if "suffix" in one] == [note.replace("--", "the argument ")]
    result = shardfeed("convert", "parquet", "t.parquet", "v@1.gz", cwd=tmp_path)
    assert result.status == 0 and result.out.startswith(f"note: {note}\n".encode()) and not result.err
    assert not sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "w@1.gz", compression="gzip")["notes"]


def test_conversions_leave_the_filters_of_warnings_alone(tmp_path, monkeypatch):
    """They are those of all threads: one that restores them would undo what another has set meanwhile."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    filters = list(warnings.filters)
    monkeypatch.setattr(warnings, "simplefilter", lambda *_, **__: pytest.fail("a filter is set"))
    monkeypatch.setattr(warnings, "filterwarnings", lambda *_, **__: pytest.fail("a filter is set"))
    sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "u@1.gz")
    assert list(warnings.filters) == filters


def test_options_after_a_command_override_those_before_it(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    result = shardfeed("-j", "2", "--color", "always", "convert", "parquet", "t.parquet", "out/t@1", "-j", "1", "--color",
                       "never", "--json", cwd=tmp_path)
    assert result.status == 0 and result.json["records"] == 1, result.err
    result = shardfeed("-j", "2", "convert", "parquet", "t.parquet", "out/t@2", "-j", "1", "-j", "3", cwd=tmp_path)
    assert result.status == USAGE and "parquet: --jobs: At Most 1 required but received 2" in result.err


def test_a_missing_library_is_named(tmp_path):
    (tmp_path / "lmdb.py").write_text("raise ImportError('it is not here')")
    import os
    import subprocess
    import sys
    done = subprocess.run([sys.executable, "-m", "shardfeed", "convert", "lmdb", "x", "out/t@1"], cwd=tmp_path, text=True,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}:{harness.REPOSITORY}/python"}, capture_output=True)
    assert (done.returncode, done.stderr) == (IO_FAILED, "shardfeed: convert lmdb takes lmdb, which cannot be imported (it "
                                              "is not here); install it: pip install lmdb, or with all that such kinds "
                                              "take: pip install 'shardfeed[tables]'\n")


def test_pickles_as_values_are_not_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    write_lmdb(tmp_path / "db", {b"a": pickle.dumps(Bomb())})
    sf.convert("lmdb", tmp_path / "db", tmp_path / "out/d@1")
    assert not (tmp_path / "ran").exists()


def test_times_beyond_all_calendars_are_refused(tmp_path):
    for array, what in [(pa.array([1, 2**60], pa.timestamp("us")), r"1152921504606846976 \(timestamp\[us\]\)"),
                        (pa.array([None, 2**31 - 1], pa.date32()), r"2147483647 \(date32\[day\]\)")]:
        write_arrow(tmp_path / "t.arrow", pa.table({"when": array}))
        with pytest.raises(sf.DataLossError, match=rf"t.arrow: row 1: column 'when': {what} is not a time that can be written as text; "
                                                   "declare the kind int64"):
            sf.convert("arrow", tmp_path / "t.arrow", tmp_path / "out/t@1")


def test_unions_are_refused(tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    write_arrow(tmp_path / "t.arrow", pa.table({"u": union}))
    with pytest.raises(sf.DataLossError, match="t.arrow: column 'u': features have no counterpart of the type sparse_union"):
        sf.convert("arrow", tmp_path / "t.arrow", tmp_path / "out/t@1")


def test_hdf5_cannot_name_other_files(tmp_path):
    (tmp_path / "secret").write_bytes(b"ab")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["a"] = np.arange(2)
        file.create_dataset("outside", shape=(2,), dtype="u1", external=[(str(tmp_path / "secret"), 0, 2)])
        layout = h5py.VirtualLayout(shape=(2,), dtype="i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", shape=(2,))
        file.create_virtual_dataset("virtual", layout)
    notes = sf.convert("hdf5", tmp_path / "t.h5", tmp_path / "out/t@1")["notes"]
    assert [f"{name!r} was left out: its values are in other files" for name in ("outside", "virtual")] == notes


def test_strings_keep_the_nul_within_them(tmp_path):
    values = np.array([b"a\0b", b"c"])
    np.savez(tmp_path / "t.npz", s=values, u=np.array(["x\0é", "y"]))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["s"] = values
    sf.convert("npz", tmp_path / "t.npz", tmp_path / "out/z@1")
    sf.convert("hdf5", tmp_path / "t.h5", tmp_path / "out/h@1")
    assert sf.read(tmp_path / "out/z@1").parse()[0] == {"s": b"a\0b", "u": "x\0é".encode()}
    assert sf.read(tmp_path / "out/h@1").parse()[0] == {"s": b"a\0b"}


@pytest.mark.parametrize("text", ["1e400", "1e99999999999999999999"])
def test_text_beyond_floats(tmp_path, text):
    (tmp_path / "schema.json").write_text('{"x": "float"}')
    message = refused({"x": ["1", text]}, "--schema", "schema.json", cwd=tmp_path)
    assert message.startswith(f"t.parquet: row 1 (row group 0): column 'x': {text} is beyond the range of floats")
