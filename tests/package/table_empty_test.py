"""Columns that have no value in any row."""

import contextlib
import sqlite3

import numpy as np
import pytest
from table_types_test import noted
from tables_test import convert, datum, pa, pq, rows, sf, write_lmdb

NO_VALUE = "column 'x': it has no value in any row"


def test_columns_of_nulls_are_told(tmp_path):
    kinds = (pa.int32(), pa.string(), pa.list_(pa.float64(), 3), pa.list_(pa.int64()), pa.null(), pa.bool_(),
             pa.dictionary(pa.int8(), pa.string()))
    for kind in kinds:
        pq.write_table(pa.table({"a": [1, 2], "x": pa.nulls(2, kind)}), tmp_path / "t.parquet")
        for options in ([], ["--shuffle", "1"], ["--dry-run"]):
            notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@2", "--overwrite", *options)["notes"]
            assert notes == [NO_VALUE], (kind, options)
    pq.write_table(pa.table({"a": [1, 2], "x": [[[1]], None], "y": [{"z": None, "l": [[1]]}] * 2}), tmp_path / "t.parquet")
    assert convert("parquet", tmp_path / "t.parquet", tmp_path / "out/u@1")["notes"] == [
        "column 'y.z': it has no value in any row"]


EMPTY = pa.struct([])


@pytest.mark.parametrize("kind, values, name", [
    (EMPTY, [{}, {}, None], "x"), (pa.list_(EMPTY), [[{}], [], [{}, {}]], "x"), (pa.list_(EMPTY, 1), [[{}], [{}], None], "x"),
    (pa.list_(pa.list_(EMPTY)), [[[{}]], [], [[{}, {}], []]], "x"), (pa.struct([("b", EMPTY)]), [{"b": {}}] * 3, "x.b"),
    (pa.map_(pa.string(), EMPTY), [[("k", {})], [], [("k", {}), ("l", {})]], "x.value"),
    (pa.list_(pa.struct([("b", EMPTY), ("c", pa.int8())])), [[{"b": {}, "c": 1}]] * 3, "x.b")], ids=str)
def test_structs_without_fields_are_told(tmp_path, kind, values, name):
    table = pa.table({"a": [1, 2, 3], "x": pa.array(values, kind)})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=2)
    (tmp_path / "kinds.json").write_text('{"%s": "int64"}' % name)
    for options in ({}, {"columns": name}, {"schema": tmp_path / "kinds.json"}, {"dry_run": True}):
        report = sf.convert("arrow", tmp_path / "t.arrow", tmp_path / "out/t@2", overwrite=True, **options)
        assert report["notes"] == [f"column {name!r}: it has no value in any row"], options
        assert report["records"] == 3
    assert report["features"][name] == {
        "kind": "none", "type": "struct<>" + " in a list" * (kind not in (EMPTY, pa.struct([("b", EMPTY)]))),
        "records": 0, "min_values": 0, "max_values": 0}
    assert len(rows(tmp_path / "out/t@2")) == 3


def test_a_value_in_any_file_counts(tmp_path):
    pq.write_table(pa.table({"x": pa.nulls(2)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [None, 1]}), tmp_path / "b.parquet")
    for order in ("ab", "ba"):
        files = [tmp_path / f"{name}.parquet" for name in order]
        assert not convert("parquet", files, tmp_path / f"{order}@1")["notes"]
    assert convert("parquet", files, tmp_path / "limited", "--limit", 1)["notes"] == [NO_VALUE]


def test_tasks_tell_the_same(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "x": pa.nulls(2, pa.int8())}), tmp_path / "t.parquet")
    for shard in ("0", "1"):
        notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "t@2", "--only-shards", shard, "--job", "7")["notes"]
        assert notes == [NO_VALUE]


COLUMNS = pa.schema([("i", pa.int16()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("u", pa.uint32()),
                     ("l", pa.list_(pa.list_(pa.float32()))), ("p", pa.list_(pa.int64(), 2)), ("n", pa.null())])


@pytest.mark.parametrize("options", [[], ["--shuffle", "1"], ["--only-shards", "0-1", "--job", "7"]])
def test_tables_without_rows_keep_their_columns(tmp_path, options):
    pq.write_table(COLUMNS.empty_table(), tmp_path / "t.parquet")
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "t@2", *options)["notes"]
    assert notes == ["columns 'i', 'f', 's', 'b', 'u', 'l', 'p', 'n': they have no value in any row"]
    if options[-2:] == ["--job", "7"]:
        sf.commit(tmp_path / "t@2", job="7")
    assert noted(tmp_path, "t") == {
        "i": ("int16", None), "f": ("float64", None), "s": ("bytes", None), "b": ("uint8", None), "u": ("int64", None),
        "l": ("float32", [-1]), "l_lengths": ("int64", [-1]), "p": ("int64", [2])}
    assert list(sf.read(tmp_path / "t@2").parse()) == []


def test_arrays_and_databases_without_rows(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["x"] = np.zeros((0, 3), np.float32)
    notes = convert("hdf5", tmp_path / "t.h5", tmp_path / "h@1")["notes"]
    assert notes[-1] == NO_VALUE and noted(tmp_path, "h") == {"x": ("float32", [3])}
    np.savez(tmp_path / "t.npz", x=np.zeros(0, np.int8))
    assert convert("npz", tmp_path / "t.npz", tmp_path / "z@1")["notes"] == [NO_VALUE]
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    assert convert("sqlite", tmp_path / "t.db", tmp_path / "s@1")["notes"] == ["the only table, 't', was taken", NO_VALUE]
    write_lmdb(tmp_path / "db", {})
    assert convert("lmdb", tmp_path / "db", tmp_path / "l@1")["notes"] == [
        "columns 'key', 'value': they have no value in any row"]
    assert noted(tmp_path, "l") == {"key": ("bytes", None), "value": ("bytes", None)}


def test_datums_have_what_they_have(tmp_path):
    """What no Datum of a database has is no surprise, unless it was asked for; and planes are told of where they are."""
    write_lmdb(tmp_path / "db", {b"0": datum(data=b"\xff\xd8\xff", label=1, encoded=True)})
    first = "its values are Caffe's Datums, by the first of them"
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/a@1")["notes"] == [first]
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/b@1", "--columns", "key,float_data")["notes"] == [
        first, "column 'float_data': it has no value in any row"]
    write_lmdb(tmp_path / "db", {b"1": datum(1, 2, 2, b"abcd", 1), b"2": datum(1, 2, 2, b"abcd", 1)})
    planes = [first, "the planes of Datums become pixels, whose channels keep their order (BGR if Caffe's tools wrote them)"]
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/c@1")["notes"] == planes
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/e")["notes"] == planes
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/d@1", "--columns", "key")["notes"] == [first]
    assert len(rows(tmp_path / "out/c@1")) == 3
