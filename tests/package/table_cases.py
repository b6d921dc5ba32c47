"""What tests of interrupted and of divided conversions convert, and how they interrupt them."""

import sqlite3
import subprocess
import sys

import harness
import numpy as np
import pytest
from tables_test import ENVIRONMENT

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

SHARDS = 5
# Runs the command, and ends with `how` at the write of the batch with this number.
CUT = """
import os, signal, sys
from shardfeed import writing
left, how = int(sys.argv.pop(1)), sys.argv.pop(1)
write = writing.RecordWriter._write_arrow
def cut(writer, *batch):
    global left
    left -= 1
    if left < 0:
        if how == "error":
            raise OSError("no more")
        os.kill(os.getpid(), getattr(signal, how))
    return write(writer, *batch)
writing.RecordWriter._write_arrow = cut
from shardfeed.tables import program
sys.exit(program.main(sys.argv[1], sys.argv[2:]))
"""


def make_sources(folder):
    """Arguments by name: kind, source and options."""
    table = pa.table({"i": range(3000), "s": [f"text {i % 77}" for i in range(3000)], "x": [float(i) / 3 for i in range(3000)]})
    pq.write_table(table, folder / "t.parquet", row_group_size=400)
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=300)
    np.savez(folder / "t.npz", a=np.arange(3000), b=np.ones((3000, 4), np.float32))
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (i INTEGER, x)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i if i % 2 else i / 2) for i in range(3000)])
    found = {
        "parquet": ("parquet", folder / "t.parquet"),
        "parquet shuffled": ("parquet", folder / "t.parquet", "--shuffle", "3", "--compression", "gzip"),
        "parquet limited": ("parquet", folder / "t.parquet", "--limit", "1001", "--columns", "s,x"),
        "arrow": ("arrow", folder / "t.arrow", "--compression", "zlib"),
        "npz": ("npz", folder / "t.npz"),
        "sqlite table": ("sqlite", folder / "t.db"),
        "sqlite query": ("sqlite", folder / "t.db", "--query", "SELECT i, x FROM t ORDER BY i DESC"),
    }
    try:
        import h5py
        with h5py.File(folder / "t.h5", "w") as file:
            file["a/b"] = np.arange(3000)
        found["hdf5"] = ("hdf5", folder / "t.h5")
    except ImportError:
        pass
    try:
        import lmdb
        with lmdb.open(str(folder / "lmdb")) as database, database.begin(write=True) as transaction:
            for i in range(3000):
                transaction.put(b"%06d" % i, b"value %d" % i)
        found["lmdb"] = ("lmdb", folder / "lmdb", "--format", "raw")
    except ImportError:
        pass
    return found


def cut(batches, how, arguments, out, *more):
    """Runs a conversion that ends with `how`, a signal or "error", when it writes another batch than so many."""
    kind, source, *options = arguments
    done = subprocess.run([sys.executable, "-c", CUT, str(batches), how, kind, str(source), str(out), *options, *more],
                          env=ENVIRONMENT, capture_output=True, timeout=120)
    return harness.Result(done.returncode, done.stdout, done.stderr.decode())


NAMES = ["parquet", "parquet shuffled", "parquet limited", "arrow", "npz", "sqlite table", "sqlite query", "hdf5", "lmdb"]
