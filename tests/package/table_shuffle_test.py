"""`convert KIND --shuffle SEED` of the kinds that Python reads: the order is that of the program's own shuffle."""

import os

import harness
import numpy as np
import pytest
from harness import payloads
from package_data import run_python, sf
from tables_test import convert

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")
from shardfeed.tables.shuffling import shuffled  # noqa: E402


def batches(rows, size=100):
    return [pa.record_batch({"i": range(first, min(first + size, rows)),
                             "s": [b"x" * (i % 50) for i in range(first, min(first + size, rows))],
                             "l": [[float(i)] * (i % 3) for i in range(first, min(first + size, rows))]})
            for first in range(0, rows, size)]


def order(*arguments, **options):
    return [row for batch in shuffled(*arguments, **options) for row in batch.to_pylist()]


@pytest.mark.parametrize("memory", [100, 5_000, 100_000])
def test_files_do_not_change_the_order(memory, tmp_path):
    rows = [row for batch in batches(5000) for row in batch.to_pylist()]
    whole = order(batches(5000), 3)
    assert sorted(whole, key=lambda row: row["i"]) == rows and whole != rows
    assert order(batches(5000), 3, str(tmp_path), memory=memory) == whole
    assert order(batches(5000, 1700), 3, str(tmp_path), memory=memory) == whole
    assert order(batches(5000), 4) != whole
    assert list(tmp_path.iterdir()) == []


def test_large_rows_take_no_files(tmp_path):
    rows = [pa.record_batch({"x": [bytes([i]) * 100_000]}) for i in range(20)]
    found = order(iter(rows), 1, str(tmp_path), memory=1000)
    assert sorted(row["x"][0] for row in found) == list(range(20))
    assert order(iter([]), 1) == []


@pytest.fixture
def files(tmp_path):
    """Two files with features of one kind, but columns of several types."""
    pq.write_table(pa.table({"i": range(5000), "s": [f"t{i}" for i in range(5000)], "l": [[i] * (i % 4) for i in range(5000)],
                             "n": pa.array([None if i % 3 else float(i) for i in range(5000)])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": pa.array(range(5000, 7000), pa.int32()), "s": pa.array(["u"] * 2000, pa.large_string()),
                             "l": pa.array([[i] for i in range(2000)], pa.list_(pa.int16())), "n": pa.nulls(2000)}),
                   tmp_path / "b.parquet")
    return [tmp_path / "a.parquet", tmp_path / "b.parquet"]


def test_the_order_is_that_of_the_program(files, tmp_path):
    report = convert("parquet", files, tmp_path / "out/x@3", "--shuffle", "7")
    convert("parquet", files, tmp_path / "out/plain@3")
    harness.convert("tfrecord", tmp_path / "out/plain@3", tmp_path / "out/y@3", "--shuffle", "7")
    for shard in range(3):
        assert (tmp_path / f"out/x-0000{shard}-of-00003").read_bytes() == (
            tmp_path / f"out/y-0000{shard}-of-00003").read_bytes()
    assert report["records"] == 7000
    assert sf.inspect(tmp_path / "out/x@3").data["made_by"]["shuffle"] == "seed 7"
    # The first of this order are a sample.
    convert("parquet", files, tmp_path / "out/few@1", "--shuffle", "7", "--limit", "50")
    assert payloads(tmp_path / "out/few@1") == payloads(tmp_path / "out/x@3")[:50]
    result = sf.convert("parquet", list(map(str, files)), tmp_path / "out/z@3", shuffle=7)
    assert result["records"] == 7000
    assert (tmp_path / "out/z-00000-of-00003").read_bytes() == (tmp_path / "out/x-00000-of-00003").read_bytes()


def test_files_with_several_types_of_columns(files, tmp_path):
    found = []
    for memory in (1 << 20, 3000):
        tables = [pq.read_table(path) for path in files]
        found.append(order((batch for table in tables for batch in table.to_batches(max_chunksize=300)), 7, memory=memory))
    plain = [[{name: value.encode() if isinstance(value, str) else value for name, value in row.items()} for row in rows]
             for rows in found]
    assert plain[0] == plain[1] and len(plain[0]) == 7000


@pytest.mark.parametrize("kind", ["npz", "sqlite"])
def test_other_kinds_are_shuffled_too(kind, tmp_path):
    if kind == "npz":
        np.savez(tmp_path / "t", x=np.arange(300))
        source = tmp_path / "t.npz"
    else:
        import sqlite3
        source = tmp_path / "t.db"
        with sqlite3.connect(source) as database:
            database.execute("CREATE TABLE t (x INTEGER)")
            database.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(300)])
    convert(kind, source, tmp_path / "out/x@1", "--shuffle", "0")
    found = [row["x"][0] for row in payloads(tmp_path / "out/x@1")]
    assert sorted(found) == list(range(300)) and found != sorted(found)


def test_a_disk_without_room_is_told():
    code = """
import pyarrow as pa, resource, signal
from shardfeed.tables.shuffling import shuffled
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    list(shuffled([pa.record_batch({"x": range(10_000)}), pa.record_batch({"x": range(10_000)})], 1, "/tmp", memory=1000))
except OSError as error:
    print(error)
"""
    assert "/tmp: cannot write a temporary file of the shuffle: " in run_python(code)


def test_memory_is_bounded(tmp_path):
    with pq.ParquetWriter(tmp_path / "t.parquet", pa.schema({"x": pa.binary()}), compression="none") as writer:
        for _ in range(40):
            writer.write_table(pa.table({"x": pa.array([os.urandom(10_000) for _ in range(1000)], pa.binary())}))
    plain = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/x@4", "--no-sync")
    report = convert("parquet", tmp_path / "t.parquet", tmp_path / "out/y@4", "--shuffle", "1", "--no-sync")
    assert report["records"] == 40_000
    assert report["peak_rss_bytes"] < plain["peak_rss_bytes"] + (160 << 20)
