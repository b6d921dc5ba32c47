"""`convert KIND --resume` of the kinds that Python reads: whatever an interrupted run left, the result is that of one that
was not interrupted."""

import fcntl
import json
import os
import signal

import harness
import pytest
import table_cases
from harness import DONE, INTERRUPTED, USAGE, tree
from table_cases import NAMES, SHARDS, make_sources
from tables_test import convert, shardfeed


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return make_sources(tmp_path_factory.mktemp("sources"))


def cut(batches, how, arguments, out):
    return table_cases.cut(batches, how, arguments, out, "--resume")


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
