"""`convert` of what libraries of Python read, value by value against these libraries, and as TensorFlow parses it."""

import base64
import contextlib
import datetime
import decimal
import json
import os
import pathlib
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from unittest.mock import ANY

import harness
import numpy as np
import pytest
from harness import DEFECTS, DONE, INTERRUPTED, REPOSITORY, USAGE
from package_data import run_python, sf

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}


def shardfeed(*arguments, cwd=None):
    """Runs the package's command."""
    done = subprocess.run([sys.executable, "-m", "shardfeed", *map(str, arguments)], cwd=cwd, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return harness.Result(done.returncode, done.stdout, done.stderr.decode())


def convert(kind, source, spec, *options):
    sources = source if isinstance(source, list) else [source]
    result = shardfeed("convert", kind, *sources, spec, "--json", *options)
    assert result.status == DONE, result.err
    return result.json


def rows(spec):
    """Records as `cat` prints them, with bytes that are no text decoded."""
    def value(v):
        return base64.b64decode(v["base64"]) if isinstance(v, dict) else v.encode() if isinstance(v, str) else v
    return [{name: [value(v) for v in values] for name, values in row.items()} for row in harness.payloads(spec)]


def encoded(value):
    return value.encode() if isinstance(value, str) else value


def as_features(table):
    """What the rows of a flat table of Arrow should become."""
    found = []
    for row in table.to_pylist():
        features = {}
        for name, value in row.items():
            if value is not None:
                values = value if isinstance(value, list) else [value]
                features[name] = [encoded(int(v) if isinstance(v, bool) else v) for v in values]
        found.append(features)
    return found


@pytest.fixture(scope="module")
def table():
    """Every type that has a counterpart, with nulls, in 1000 rows."""
    rng = np.random.default_rng(1)
    n = 1000
    missing = rng.random(n) < 0.2

    def column(values, kind=None):
        return pa.array([None if gone else v for v, gone in zip(values, missing)], kind)

    text = [f"täxt {i}" for i in range(n)]
    lists = [list(range(i % 4)) for i in range(n)]
    columns = {kind: column(rng.integers(0, 100, n).tolist(), getattr(pa, kind)())
               for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}
    columns |= {
        "truth": column((rng.random(n) < 0.5).tolist()),
        "half": column(rng.integers(0, 100, n).astype(float).tolist(), pa.float16()),
        "single": column(rng.random(n).astype(np.float32).tolist(), pa.float32()),
        "double": column((rng.integers(0, 1000, n) / 8).tolist(), pa.float64()),
        "string": column(text), "large_string": column(text, pa.large_string()),
        "string_view": column(text, pa.string_view()),
        "binary": column([bytes([i % 256, 255]) for i in range(n)]),
        "fixed": column([b"%04d" % i for i in range(n)], pa.binary(4)),
        "category": column([text[i % 3] for i in range(n)]).dictionary_encode(),
        "list": column(lists, pa.list_(pa.int32())), "large_list": column(lists, pa.large_list(pa.int64())),
        "texts": column([text[:len(one)] for one in lists]),
        "pair": column([[i, i + 1] for i in range(n)], pa.list_(pa.int64(), 2)),
    }
    return pa.table(columns)


def float32(features):
    return [{name: [np.float32(v) if isinstance(v, float) else v for v in values] for name, values in row.items()}
            for row in features]


# ---- Parquet and Arrow


@pytest.mark.parametrize("group", [1000, 333, 1])
def test_parquet_has_the_values_of_pyarrow(tmp_path, table, group):
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=group)
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@3")
    assert (report["records"], report["shards"], report["notes"]) == (1000, 3, [])
    assert float32(rows(tmp_path / "out/t@3")) == as_features(table)
    assert harness.verify(tmp_path / "out/t@3", "--level", "examples")["manifest"]


def test_arrow_has_the_values_of_pyarrow(tmp_path, table):
    with pa.ipc.new_file(tmp_path / "file", table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    with pa.ipc.new_stream(tmp_path / "stream", table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(tmp_path / "zstd", table.schema, options=options) as writer:
        writer.write_table(table)
    for name in ("file", "stream", "zstd"):
        assert convert("arrow", tmp_path / name, tmp_path / f"out/{name}@2")["records"] == 1000
        assert float32(rows(tmp_path / f"out/{name}@2")) == as_features(table), name


def test_shards_are_those_of_the_program(tmp_path):
    """The same records in the same shards, with the same bytes, as of the same data in JSON."""
    data = [{"n": i, "s": f"text {i}", "l": [i, i + 1]} for i in range(100)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    pq.write_table(pa.Table.from_pylist(data), tmp_path / "t.parquet")
    harness.convert("jsonl", tmp_path / "t.jsonl", tmp_path / "a/t@7")
    convert("parquet", tmp_path / "t.parquet", tmp_path / "b/t@7")
    assert [p.read_bytes() for p in harness.shards(tmp_path / "a", "t")] == \
        [p.read_bytes() for p in harness.shards(tmp_path / "b", "t")]


def test_several_files_and_threads_keep_the_order(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"n": range(100 * i, 100 * (i + 1))}), tmp_path / f"{i}.parquet", row_group_size=30)
    for threads in (1, 4):
        convert("parquet", tmp_path / "*.parquet", tmp_path / f"{threads}/t@5", "-j", threads)
        assert [row["n"] for row in rows(tmp_path / f"{threads}/t@5")] == [[n] for n in range(300)]
    assert harness.tree(tmp_path / "1") == harness.tree(tmp_path / "4")
    convert("parquet", tmp_path / "*.parquet", tmp_path / "few/t@2", "--limit", 150, "--compression", "gzip")
    assert [row["n"] for row in rows(tmp_path / "few/t@2")] == [[n] for n in range(150)]


def test_tensorflow_parses_nested_columns(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    data = [{"boxes": [[1.0, 2.0], [3.0]], "user": {"name": "a", "tags": ["x"]},
             "objects": [{"id": 1, "points": [1, 2]}, {"id": 2, "points": []}]},
            {"boxes": [], "user": {"name": None, "tags": []}, "objects": []},
            {"boxes": [[4.0]], "user": None, "objects": [{"id": 3, "points": [5]}]}]
    pq.write_table(pa.Table.from_pylist(data), tmp_path / "t.parquet")
    convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1")
    ragged = tf.io.RaggedFeature
    spec = {"boxes": ragged(tf.float32, partitions=[ragged.RowLengths("boxes_lengths")]),
            "user.name": tf.io.FixedLenFeature([], tf.string, ""), "user.tags": ragged(tf.string),
            "objects.id": ragged(tf.int64),
            "objects.points": ragged(tf.int64, partitions=[ragged.RowLengths("objects.points_lengths")])}
    parsed = [tf.io.parse_single_example(record, spec) for record in
              harness.read_by_tensorflow(tf, harness.shards(tmp_path / "out", "t"))]
    assert [row["boxes"].to_list() for row in parsed] == [row["boxes"] for row in data]
    assert [row["user.name"].numpy() for row in parsed] == [b"a", b"", b""]
    assert [row["user.tags"].numpy().tolist() for row in parsed] == [[b"x"], [], []]
    assert [row["objects.id"].numpy().tolist() for row in parsed] == [[o["id"] for o in row["objects"]] for row in data]
    assert [row["objects.points"].to_list() for row in parsed] == [[o["points"] for o in row["objects"]] for row in data]


def test_lists_three_deep_and_arrays(tmp_path):
    deep = [[[[1], [2, 3]], []], [], None, [[[4]]]]
    blocks = pa.array([[[1, 2], [3, 4]], None, [[5, 6], [7, 8]], [[0, 0], [0, 1]]], pa.list_(pa.list_(pa.int8(), 2), 2))
    pairs = pa.array([[("k", 1)], [], None, [("l", 2), ("m", 3)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"deep": deep, "block": blocks, "map": pairs}), tmp_path / "t.parquet")
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1")["notes"]
    assert notes == ["column 'block': its arrays of shape [2, 2] are flat lists"]
    assert rows(tmp_path / "out/t@1") == [
        {"deep": [1, 2, 3], "deep_lengths": [1, 2], "deep_lengths_lengths": [2, 0], "block": [1, 2, 3, 4],
         "map.key": [b"k"], "map.value": [1]},
        {"deep": [], "deep_lengths": [], "deep_lengths_lengths": [], "map.key": [], "map.value": []},
        {"block": [5, 6, 7, 8]},
        {"deep": [4], "deep_lengths": [1], "deep_lengths_lengths": [1], "block": [0, 0, 0, 1],
         "map.key": [b"l", b"m"], "map.value": [2, 3]}]


def test_what_changes_is_told_once_per_column(tmp_path):
    when = datetime.datetime(2024, 1, 2, 3, 4, 5)
    pq.write_table(pa.table({
        "pi": [3.25, 31.95376472, 1700000001.5], "price": [decimal.Decimal("1.10")] * 3,
        "day": [datetime.date(2024, 1, 2)] * 3, "at": [datetime.time(1, 2, 3)] * 3, "when": [when] * 3,
        "zoned": pa.array([when] * 3, pa.timestamp("s", "Europe/Berlin")),
        "took": pa.array([1, 2, 3], pa.duration("ms")), "none": pa.nulls(3)}), tmp_path / "t.parquet")
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1")
    place = f"{tmp_path}/t.parquet: row 1 (row group 0)"
    assert len(report["notes"]) == 8
    assert report["notes"][-1] == (f"column 'pi': 2 of 3 values lose digits as floats of 32 bits; the first: {place}: "
                                   "31.95376472 becomes 31.953764")
    manifest = json.loads((tmp_path / "out/.shardfeed/t.manifest.json").read_text())
    assert manifest["notes"] == report["notes"]
    first = rows(tmp_path / "out/t@1")[0]
    assert first == {"pi": [3.25], "price": [b"1.10"], "day": [b"2024-01-02"], "at": [b"01:02:03.000000"],
                     "when": [b"2024-01-02T03:04:05.000000"], "zoned": [b"2024-01-02T03:04:05.000Z"], "took": [1]}


def test_kinds_can_be_declared(tmp_path):
    when = datetime.datetime(1970, 1, 1, 0, 0, 5)
    pq.write_table(pa.table({"price": [decimal.Decimal("1.50")], "when": [when], "day": [datetime.date(1970, 1, 3)],
                             "n": [7], "text": ["12"], "f": [3.0], "big": pa.array([2**64 - 1], pa.uint64())}),
                   tmp_path / "t.parquet")
    (tmp_path / "s.json").write_text(json.dumps({"price": "float", "when": "int64", "day": "int64", "n": "bytes",
                                                 "text": "int64", "f": "int64", "big": "bytes"}))
    convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1", "--schema", tmp_path / "s.json")
    assert rows(tmp_path / "out/t@1") == [{"price": [1.5], "when": [5000000], "day": [2], "n": [b"7"], "text": [12],
                                           "f": [3], "big": [b"18446744073709551615"]}]
    # The manifest of a dataset declares kinds, too.
    pq.write_table(pa.table({"n": [8], "f": [4]}), tmp_path / "u.parquet")
    manifest = tmp_path / "out/.shardfeed/t.manifest.json"
    convert("parquet", tmp_path / "u.parquet", tmp_path / "out/u@1", "--columns", "n,f", "--schema", manifest)
    assert rows(tmp_path / "out/u@1") == [{"n": [b"8"], "f": [4]}]


def test_columns_choose(tmp_path):
    pq.write_table(pa.table({"a": [1], "b.c": [2], "s": [{"x": 3, "y": [[4]], "when": datetime.timedelta(1)}],
                             "bad": [[1, None]]}), tmp_path / "t.parquet")
    convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@1", "--columns", "a,s.y,b.c")
    assert rows(tmp_path / "out/t@1") == [{"a": [1], "b.c": [2], "s.y": [4], "s.y_lengths": [1]}]
    convert("parquet", tmp_path / "t.parquet", tmp_path / "out/u@1", "--columns", "s", "--columns", "a")
    assert set(rows(tmp_path / "out/u@1")[0]) == {"a", "s.x", "s.y", "s.y_lengths", "s.when"}


# ---- Arrays


def test_hdf5_has_the_values_of_h5py(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (50, 4, 6, 3), np.uint8)
    data = {"group/f": rng.random((50, 2, 3)).astype("f4"), "n": np.arange(50), "big": np.arange(50).astype(">i4"),
            "flag": np.arange(50) % 2 == 0, "names": np.array([b"n%d" % i for i in range(50)]),
            "u8": np.arange(50, dtype=np.uint8)}
    with h5py.File(tmp_path / "d.h5", "w") as file:
        for name, values in data.items():
            file[name] = values
        file.create_dataset("images", data=images, chunks=(7, 4, 6, 3), compression="gzip")
        file["texts"] = [f"ü{i}" for i in range(50)]
        ragged = file.create_dataset("ragged", (50,), h5py.vlen_dtype("i4"))
        for i in range(50):
            ragged[i] = np.arange(i % 3)
        file["pairs"] = np.array([(i, i / 2) for i in range(50)], [("a", "i4"), ("b", "f8")])
        file["link"] = h5py.SoftLink("/n")
        file["version"] = 3
    report = convert("hdf5", tmp_path / "d.h5", tmp_path / "out/d@3")
    assert sorted(report["notes"]) == [
        "'link' was left out: it is a link", "'version' was left out: it has no rows",
        "column 'group/f': rows of shape [2, 3] are flat lists of 6 values",
        "column 'images': rows of shape [4, 6, 3] are bytes, value by value"]
    assert rows(tmp_path / "out/d@3") == [
        {**{name: list(values[i].ravel().tolist()) for name, values in data.items() if name not in ("flag",)},
         "flag": [int(data["flag"][i])], "images": [images[i].tobytes()], "texts": [f"ü{i}".encode()],
         "ragged": list(range(i % 3)), "pairs.a": [i], "pairs.b": [i / 2],
         "group/f": [pytest.approx(v) for v in data["group/f"][i].ravel().tolist()]} for i in range(50)]
    convert("hdf5", tmp_path / "d.h5", tmp_path / "out/one@1", "--columns", "n,pairs.b")
    assert set(rows(tmp_path / "out/one@1")[0]) == {"n", "pairs.b"}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_what_npy_is(tmp_path, save):
    rng = np.random.default_rng(3)
    data = {"images": rng.integers(0, 256, (40, 3, 5), np.uint8), "x": rng.random((40, 4)).astype("f4"),
            "label": np.arange(40), "flag": np.arange(40) % 3 == 0, "name": np.array([f"ä{i}" for i in range(40)]),
            "raw": np.array([b"b%d" % i for i in range(40)])}
    save(tmp_path / "d.npz", **data)
    sources = []
    for name, values in data.items():
        np.save(tmp_path / f"{name}.npy", values)
        sources.append(tmp_path / f"{name}.npy")
    convert("npz", tmp_path / "d.npz", tmp_path / "a/d@3")
    harness.convert("npy", sources, tmp_path / "b/d@3")
    assert [p.read_bytes() for p in harness.shards(tmp_path / "a", "d")] == \
        [p.read_bytes() for p in harness.shards(tmp_path / "b", "d")]


# ---- Databases


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("CREATE TABLE sales (id INTEGER, day TEXT, price REAL, photo BLOB, tip)")
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", [
            (i, f"dä{i}", None if i % 5 == 0 else i / 4, bytes([i % 256, 255]), i if i % 2 else i / 2)
            for i in range(10000)])
    connection.close()
    return tmp_path / "d.db"


def test_sqlite_has_the_rows_of_the_query(tmp_path, database):
    before = database.read_bytes()
    query = "SELECT id, day AS d, price, photo FROM sales WHERE id >= 5 ORDER BY id DESC;"
    convert("sqlite", database, tmp_path / "out/s@3", "--query", query)
    assert rows(tmp_path / "out/s@3") == [
        {"id": [i], "d": [f"dä{i}".encode()], "photo": [bytes([i % 256, 255])], **({"price": [i / 4]} if i % 5 else {})}
        for i in range(9999, 4, -1)]
    notes = convert("sqlite", database, tmp_path / "out/t@1")["notes"]
    assert notes == ["the only table, 'sales', was taken",
                     "column 'tip': 5,000 integers and 5,000 reals are floats"]
    assert rows(tmp_path / "out/t@1")[6]["tip"] == [3.0]
    assert database.read_bytes() == before and not list(database.parent.glob("d.db-*"))


def test_sqlite_tells_of_integers_that_lose_digits_beside_reals(tmp_path):
    path = tmp_path / "d.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x, y)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [
            (0.5, 0.5), (2 ** 53 + 1, 2 ** 60), (-2 ** 63 + 1, -2 ** 63), (2 ** 63 - 1, 3), (None, None)])
        connection.commit()
    notes = convert("sqlite", path, tmp_path / "out/t@1", "--table", "t")["notes"]
    assert [note for note in notes if "more digits" in note] == [
        "column 'x': 3 of 3 integers have more digits than the floats beside them can keep, such as -9223372036854775807; cast "
        "the column in the query to keep them: CAST(\"x\" AS TEXT)"]


def test_standard_input_is_a_source(tmp_path, table):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    done = subprocess.run([sys.executable, "-m", "shardfeed", "convert", "parquet", "-", str(tmp_path / "out/t@1"), "--json"],
                          stdin=open(path, "rb"), capture_output=True, text=True, check=True, env=ENVIRONMENT)
    wanted = convert("parquet", path, tmp_path / "out/u@1")
    report = json.loads(done.stdout)
    assert (report["records"], report["bytes"], report["notes"]) == (wanted["records"], wanted["bytes"], wanted["notes"])
    assert rows(tmp_path / "out/t@1") == rows(tmp_path / "out/u@1")
    manifest = json.loads((tmp_path / "out/.shardfeed/t.manifest.json").read_text())
    assert manifest["made_by"]["source"] == "-" and "/tmp" not in json.dumps(manifest.get("notes"))
    for data, message in ((b"PAR1", "shardfeed: standard input: not a file of Parquet, or cut off (4 bytes): "),
                          (b"", "shardfeed: standard input: it is empty")):
        done = subprocess.run([sys.executable, "-m", "shardfeed", "convert", "parquet", "-", str(tmp_path / "out/v@1")],
                              input=data, capture_output=True, cwd=tmp_path, env=ENVIRONMENT)
        assert done.returncode == 1 and done.stderr.decode().startswith(message), done.stderr
    with pytest.raises(ValueError, match="parquet: standard input can only be read by the command line; name files"):
        sf.convert("parquet", "-", tmp_path / "out/v@1")


def test_pipes_are_sources(tmp_path, table):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    wanted = convert("parquet", path, tmp_path / "out/u@1")
    for options, status in (((), DONE), (("--resume",), USAGE)):
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(path.read_bytes()), daemon=True)
        writer.start()
        done = shardfeed("convert", "parquet", tmp_path / "pipe", tmp_path / f"out/p{status}@1", "--json", *options)
        assert done.status == status, done
        if status == DONE:
            assert json.loads(done.out)["records"] == wanted["records"]
            assert rows(tmp_path / f"out/p{status}@1") == rows(tmp_path / "out/u@1")
        else:
            assert "pipe cannot be resumed; write it to a file first" in done.err
        (tmp_path / "pipe").unlink()


def varint(value):
    out = b""
    while True:
        byte, value = value & 127, value >> 7
        out += bytes([byte | (128 if value else 0)])
        if not value:
            return out


def datum(channels=0, height=0, width=0, data=None, label=None, floats=(), encoded=False, packed=False):
    out = b""
    for field, value in ((1, channels), (2, height), (3, width)):
        out += varint(field << 3) + varint(value)
    if data is not None:
        out += varint(4 << 3 | 2) + varint(len(data)) + data
    if label is not None:
        out += varint(5 << 3) + varint(label & (1 << 64) - 1)
    values = np.array(floats, "<f4")
    if packed:
        out += varint(6 << 3 | 2) + varint(values.nbytes) + values.tobytes()
    else:
        out += b"".join(varint(6 << 3 | 5) + one.tobytes() for one in values)
    return out + (varint(7 << 3) + b"\1" if encoded else b"")


def write_lmdb(path, entries, **options):
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
    with lmdb.open(str(path), map_size=1 << 24, **options) as environment:
        with environment.begin(write=True) as transaction:
            for key, value in entries.items():
                transaction.put(key, value)


def test_lmdb_of_caffe(tmp_path):
    planes = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    write_lmdb(tmp_path / "db", {b"0": datum(2, 3, 4, planes.tobytes(), 5),
                                 b"1": datum(data=b"\xff\xd8\xff", label=-1, encoded=True),
                                 b"2": datum(3, 1, 1, floats=[1.5, 2, 3]),
                                 b"3": datum(1, 1, 2, floats=[4, 5], label=0, packed=True)})
    (tmp_path / "db/lock.mdb").unlink()
    report = convert("lmdb", tmp_path / "db", tmp_path / "out/d@2")
    assert report["notes"][0] == "its values are Caffe's Datums, by the first of them"
    assert not (tmp_path / "db/lock.mdb").exists()
    size = {"image/height": [1], "image/width": [1], "image/channels": [3]}
    assert rows(tmp_path / "out/d@2") == [
        {"key": [b"0"], "image/raw": [planes.transpose(1, 2, 0).tobytes()], "image/height": [3], "image/width": [4],
         "image/channels": [2], "image/class/label": [5]},
        {"key": [b"1"], "image/encoded": [b"\xff\xd8\xff"], "image/class/label": [-1]},
        {"key": [b"2"], "float_data": [1.5, 2, 3], **size},
        {"key": [b"3"], "float_data": [4, 5], **size, "image/width": [2], "image/channels": [1], "image/class/label": [0]}]


def test_lmdb_of_keys_and_values(tmp_path):
    entries = {b"%04d" % i: b"\x89PNG %d" % i for i in range(500)}
    write_lmdb(tmp_path / "db.lmdb", {**entries, b"__len__": pickle.dumps(500), b"__keys__": pickle.dumps(list(entries))},
               subdir=False)
    report = convert("lmdb", tmp_path / "db.lmdb", tmp_path / "out/d@3")
    assert report["notes"] == ["__len__ and __keys__ hold no records and were left out",
                               "its values are bytes as such, and not Caffe's Datums, by the first of them"]
    assert rows(tmp_path / "out/d@3") == [{"key": [key], "value": [value]} for key, value in entries.items()]
    write_lmdb(tmp_path / "p", {b"0": pickle.dumps(("image", 1))})
    notes = convert("lmdb", tmp_path / "p", tmp_path / "out/p@1", "--format", "raw")["notes"]
    assert notes == ["its values look like pickles, which are kept as bytes: loading them would run code in them"]


# ---- The command


def test_a_dry_run_writes_nothing(tmp_path, table):
    pq.write_table(table.select(["int8", "string", "list"]), tmp_path / "t.parquet")
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@3", "--dry-run")
    assert {name: (one["kind"], one["type"]) for name, one in report["features"].items()} == {
        "int8": ("int64", "int8"), "string": ("bytes", "string"), "list": ("int64", "int32 in a list")}
    assert report["records"] == 1000 and len(report["first"]) == 3
    assert not (tmp_path / "out").exists()
    written = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@3")
    assert abs(report["bytes"] / written["bytes"] - 1) < 0.2
    shown = shardfeed("convert", "parquet", tmp_path / "t.parquet", tmp_path / "out/u@3", "--dry-run").out.decode()
    assert "/out/u@3: 1,000 records, about" in shown and shown.endswith("nothing was written\n")
    # OUT may be left out.
    assert convert("parquet", tmp_path / "t.parquet", "--dry-run") == {
        name: value for name, value in report.items() if name != "dataset"} | {"seconds": ANY, "shards": 1, "datasets": [
            {"shards": 1, "records": 1000, "bytes": report["bytes"]}]}
    shown = shardfeed("convert", "parquet", tmp_path / "t.parquet", "--dry-run").out.decode()
    assert shown.startswith("1,000 records, about")
    for out, said in [("out/t@0", "the number of shards must be from 1"), ("out/t@x", "after '@' expected a number"),
                      ("s3://", "the name of the bucket is missing"), ("s3://bucket", "the name is missing")]:
        result = shardfeed("convert", "parquet", tmp_path / "t.parquet", out, "--dry-run")
        assert result.status == USAGE and said in result.err, result.err


def test_names_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"t\xff.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    (tmp_path / "t.parquet").rename(tmp_path / name)
    convert("parquet", tmp_path / name, tmp_path / "out/t@1", "--resume")
    manifest = json.loads((tmp_path / "out/.shardfeed/t.manifest.json").read_text())
    assert manifest["made_by"]["source"].endswith("t\\xff.parquet")
    # The same command finds it complete, and a file with another name does not.
    again = shardfeed("convert", "parquet", tmp_path / name, tmp_path / "out/t@1", "--resume")
    said = again.out.decode()
    assert "the dataset was already complete and kept" in said and "records/s" not in said
    other = os.fsdecode(b"t\xfe.parquet")
    (tmp_path / name).rename(tmp_path / other)
    assert shardfeed("convert", "parquet", tmp_path / other, tmp_path / "out/t@1", "--resume").status != DONE
    (tmp_path / other).write_bytes(b"no table")
    failed = shardfeed("convert", "parquet", tmp_path / other, tmp_path / "out/u@1")
    assert failed.status == DEFECTS and "t\\xfe.parquet: " in failed.err
    refused = shardfeed("convert", "parquet", tmp_path / "t.parquet", os.fsdecode(b"u\xff@1"))
    assert refused.status == USAGE and "OUT must be in UTF-8, got u\\xff@1" in refused.err


def test_the_number_of_shards_follows_their_size(tmp_path):
    pq.write_table(pa.table({"x": [b"%1000d" % i for i in range(1000)], "f": [0.123456789] * 1000}), tmp_path / "t.parquet")
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t", "--shard-size", "256KiB")
    assert report["shards"] == 5 and report["dataset"] == f"{tmp_path}/out/t@5"
    assert report["notes"] == ["column 'f': 1,000 of 1,000 values lose digits as floats of 32 bits; the first: "
                               f"{tmp_path}/t.parquet: row 0 (row group 0): 0.123456789 becomes 0.12345679"]
    assert convert("parquet", tmp_path / "t.parquet", tmp_path / "out/u")["shards"] == 1


def test_notes_of_many_files_are_one(tmp_path):
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", x=np.zeros((4, 2)))
    notes = convert("npz", tmp_path / "*.npz", tmp_path / "out/t@1")["notes"]
    assert notes == ["column 'x': rows of shape [2] are flat lists of 2 values"]


def test_output_and_help(tmp_path):
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "t.parquet")
    result = shardfeed("convert", "parquet", "t.parquet", "out/t@1", cwd=tmp_path)
    assert result.out.decode().startswith(f"{tmp_path}/out/t@1: 2 records, ") and not result.err
    assert shardfeed("-q", "convert", "parquet", "t.parquet", "out/u@1", cwd=tmp_path) == harness.Result(DONE, b"", "")
    for kind in ("parquet", "arrow", "hdf5", "npz", "sqlite", "lmdb", "video"):
        help_text = shardfeed("convert", kind, "--help").out.decode()
        assert f"shardfeed convert {kind} " in help_text.split("Examples:")[1]
    # Other kinds are the program's.
    assert shardfeed("convert", "csv", "--help").out.startswith(b"Tables of comma-separated values")


def test_the_program_names_the_package(tmp_path):
    message = harness.fail(USAGE, "convert", "parquet", "t.parquet", "out/t@1", "--columns", "a", cwd=tmp_path)
    assert message == ("convert parquet comes with the Python package: pip install 'shardfeed[tables]', then "
                       "python -m shardfeed convert parquet")


def test_the_function_of_the_package(tmp_path):
    pq.write_table(pa.table({"n": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), tmp_path / "t.parquet")
    report = sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@2", columns="n", limit=2)
    assert report["records"] == 2
    assert [int(row["n"]) for row in sf.read(tmp_path / "out/t@2").parse()] == [1, 2]
    with pytest.raises(ValueError, match="pass overwrite=True to replace it"):
        sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@2")
    with pytest.raises(TypeError, match="parquet: there is no argument 'nope'"):
        sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@2", nope=1)


def test_an_interrupted_conversion_leaves_nothing(tmp_path):
    pq.write_table(pa.table({"n": range(2_000_000)}), tmp_path / "t.parquet", row_group_size=1000)
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "convert", "parquet", tmp_path / "t.parquet",
                                tmp_path / "out/t@4"], env=ENVIRONMENT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/.*/**/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == b"shardfeed: interrupted\n"
    assert process.returncode == INTERRUPTED
    assert harness.run("clean", tmp_path / "out").status == DONE
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


def test_an_endless_query_can_be_interrupted(tmp_path):
    database = tmp_path / "t.db"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.commit()
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    process = subprocess.Popen([sys.executable, "-m", "shardfeed", "convert", "sqlite", database,
                                tmp_path / "out/t@1", "--query", endless, "-q"], env=ENVIRONMENT,
                               stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if str(database.resolve()) in harness.open_files(process.pid):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == b"shardfeed: interrupted\n"
    assert process.returncode == INTERRUPTED


def test_memory_is_bounded_by_batches(tmp_path):
    """One row group of 400 MB, of whose pages some are read at a time."""
    schema = pa.schema([("x", pa.binary())])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema, compression="none", use_dictionary=False,
                          write_batch_size=1) as writer:
        data = os.urandom(1 << 20)
        writer.write_table(pa.table({"x": [data] * 400}, schema), row_group_size=400)
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/t@2", "--no-sync")
    assert report["bytes"] > 400 << 20
    assert report["peak_rss_bytes"] < 350 << 20


def test_nothing_optional_is_imported(tmp_path):
    assert run_python("""
import sys, shardfeed
print([name for name in ("pyarrow", "h5py", "lmdb", "sqlite3", "argparse") if name in sys.modules])
""") == "[]"
