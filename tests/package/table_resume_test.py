"""`convert KIND --resume` of the kinds that Python reads: whatever an interrupted run left, the result is that of one that
was not interrupted."""

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys

import harness
import numpy as np
import pytest
from harness import DONE, INTERRUPTED, USAGE, tree
from tables_test import ENVIRONMENT, convert, shardfeed

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

SHARDS = 5
# Runs the command, and ends with `how` at the write of the batch with this number.
CUT = """
import os, signal, sys
from shardfeed import writing
left, how = int(sys.argv.pop(1)), sys.argv.pop(1)
write = writing.RecordWriter.write_batch
def cut(writer, batch):
    global left
    left -= 1
    if left < 0:
        if how == "error":
            raise OSError("no more")
        os.kill(os.getpid(), getattr(signal, how))
    return write(writer, batch)
writing.RecordWriter.write_batch = cut
from shardfeed.tables import program
sys.exit(program.main(sys.argv[1], sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Arguments by name: kind, source and options."""
    folder = tmp_path_factory.mktemp("sources")
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


def cut(batches, how, arguments, out):
    kind, source, *options = arguments
    done = subprocess.run([sys.executable, "-c", CUT, str(batches), how, kind, str(source), str(out), "--resume", *options],
                          env=ENVIRONMENT, capture_output=True, timeout=120)
    return harness.Result(done.returncode, done.stdout, done.stderr.decode())


NAMES = ["parquet", "parquet shuffled", "parquet limited", "arrow", "npz", "sqlite table", "sqlite query", "hdf5", "lmdb"]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_ends_as_an_uninterrupted_one(sources, tmp_path, name):
    if name not in sources:
        pytest.skip("its library is not installed")
    kind, source, *options = sources[name]
    convert(kind, source, tmp_path / f"whole/x@{SHARDS}", *options)
    out = tmp_path / f"out/x@{SHARDS}"
    # At least one batch belongs to each shard, and a shard may have several.
    assert cut(1, "SIGKILL", sources[name], out).status == -signal.SIGKILL
    assert cut(2, "SIGTERM", sources[name], out).status == INTERRUPTED
    assert not harness.shards(tmp_path / "out", "x")
    report = convert(kind, source, out, "--resume", *options)
    assert report["shards_taken_over"] > 0 and report["shards"] == SHARDS
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    again = convert(kind, source, out, "--resume", *options)
    assert (again["datasets_complete"], again["records"]) == (1, report["records"])


def test_every_point(sources, tmp_path):
    kind, source = sources["parquet"]
    convert(kind, source, tmp_path / f"whole/x@{SHARDS}")
    out = tmp_path / f"out/x@{SHARDS}"
    for batches in range(0, 20):
        result = cut(batches, "error" if batches % 2 else "SIGKILL", sources["parquet"], out)
        if result.status == DONE:
            break
        if batches % 2:
            assert "no more" in result.err
    assert tree(tmp_path / "out") == tree(tmp_path / "whole") and batches > 2


def left(out):
    return list((out.parent / ".shardfeed/x.jobs").glob("*/resume"))


def test_another_input_or_other_options_begin_anew(sources, tmp_path):
    out = tmp_path / f"out/x@{SHARDS}"
    source = tmp_path / "t.parquet"
    source.write_bytes(sources["parquet"][1].read_bytes())
    assert cut(3, "SIGKILL", ("parquet", source), out).status == -signal.SIGKILL
    assert len(left(out)) == 1
    os.utime(source, ns=(1, 1))
    assert convert("parquet", source, out, "--resume")["shards_taken_over"] == 0
    assert left(out) == []
    assert cut(3, "SIGKILL", ("parquet", source, "--overwrite"), out).status == -signal.SIGKILL
    report = convert("parquet", source, out, "--resume", "--overwrite", "--compression", "gzip")
    assert report["shards_taken_over"] == 0 and left(out) == []
    result = shardfeed("convert", "parquet", source, out, "--resume")
    assert result.status == USAGE and "there is a dataset of this name" in result.err


def test_damaged_shards_are_written_again(sources, tmp_path):
    kind, source = sources["parquet"]
    convert(kind, source, tmp_path / f"whole/x@{SHARDS}")
    out = tmp_path / f"out/x@{SHARDS}"
    cut(3, "SIGKILL", sources["parquet"], out)
    first = min((tmp_path / "out/.shardfeed/x.jobs").glob("*/*/00000.shard"))
    harness.flip(first, 200)
    kept = len(left(out)[0].read_text().splitlines()) - 1
    with open(left(out)[0], "a") as file:
        file.write('{"part": 4, "mess')  # as a kill may leave it
    assert convert(kind, source, out, "--resume")["shards_taken_over"] == kept - 1
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_two_at_once_are_refused(sources, tmp_path):
    out = tmp_path / f"out/x@{SHARDS}"
    cut(3, "SIGKILL", sources["parquet"], out)
    with open(left(out)[0]) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = shardfeed("convert", "parquet", sources["parquet"][1], out, "--resume")
    assert result.status == USAGE and "another process is writing this dataset" in result.err
    assert len(list((tmp_path / "out/.shardfeed/x.jobs").iterdir())) == 1


def test_clean_removes_what_could_be_resumed(sources, tmp_path):
    out = tmp_path / f"out/x@{SHARDS}"
    cut(3, "SIGKILL", sources["parquet"], out)
    assert json.loads(left(out)[0].read_text().splitlines()[0])["format"] == "shardfeed resume 1"
    harness.succeed("clean", tmp_path / "out/x", "--older-than", "0s")
    assert left(out) == []


@pytest.mark.parametrize("arguments, message", [
    (("sqlite", "{db}", "{out}", "--query", "SELECT i FROM t"), "add ORDER BY"),
    (("parquet", "-", "{out}"), "standard input cannot be resumed"),
    (("parquet", "{parquet}", "s3://bucket/x@2"), "finished shards are kept in folders only"),
])
def test_what_cannot_be_resumed(sources, tmp_path, arguments, message):
    names = {"db": sources["sqlite table"][1], "parquet": sources["parquet"][1], "out": tmp_path / "out/x@2"}
    result = shardfeed("convert", *[one.format(**names) for one in arguments], "--resume")
    assert result.status == USAGE and message in result.err, result.err
    assert not (tmp_path / "out").exists()
