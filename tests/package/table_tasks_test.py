"""`convert KIND --only-shards A-B --job ID` of the kinds that Python reads: whatever happens to the tasks, `commit` makes the
dataset that a single process would have written."""

import os
import shutil
import signal
import threading

import harness
import pytest
from harness import DONE, INTERRUPTED, IO_FAILED, USAGE
from harness import tree_without_jobs as dataset
from package_data import sf
from table_cases import SHARDS, cut, make_sources
from tables_test import convert, shardfeed


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return make_sources(tmp_path_factory.mktemp("sources"))


def task(arguments, out, shards, *more):
    kind, source, *options = arguments
    return convert(kind, source, out, *options, "--only-shards", shards, "--job", "7", *more)


def refused(arguments, out, shards, *more, status=USAGE):
    kind, source, *options = arguments
    result = shardfeed("convert", kind, source, out, *options, "--only-shards", shards, "--job", "7", *more)
    assert result.status == status, result.err
    return result.err


def commit(out):
    result = shardfeed("commit", out, "--job", "7", "--json")
    assert result.status == DONE, result.err
    return result.json


@pytest.mark.parametrize("name", ["parquet shuffled", "parquet limited", "arrow", "npz", "sqlite query", "lmdb"])
def test_the_dataset_is_that_of_one_process(sources, tmp_path, name):
    if name not in sources:
        pytest.skip("its library is not installed")
    kind, source, *options = sources[name]
    whole = convert(kind, source, tmp_path / f"whole/x@{SHARDS}", *options)
    out = tmp_path / f"out/x@{SHARDS}"
    reports = [task(sources[name], out, "3,4", "-j1"), task(sources[name], out, "0-2", "-j2")]
    assert not harness.shards(tmp_path / "out", "x")
    assert [one["only_shards"] for one in reports] == ["3-4", "0-2"] and {one["job"] for one in reports} == {"7"}
    assert [one["shards"] for one in reports] == [2, 3]
    assert sum(one["records"] for one in reports) == whole["records"]
    assert sum(one["bytes"] for one in reports) == whole["bytes"]
    assert commit(out)["records"] == whole["records"]
    assert dataset(tmp_path / "out") == dataset(tmp_path / "whole")


def test_tasks_at_the_same_time(sources, tmp_path):
    convert(*sources["parquet"][:2], tmp_path / f"whole/x@{SHARDS}")
    out = tmp_path / f"out/x@{SHARDS}"
    threads = [threading.Thread(target=task, args=(sources["parquet"], out, shards)) for shards in ("0-1", "2-4", "1-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commit(out)
    assert dataset(tmp_path / "out") == dataset(tmp_path / "whole")


def test_a_task_that_ended_early_goes_on(sources, tmp_path):
    convert(*sources["parquet"][:2], tmp_path / f"whole/x@{SHARDS}")
    out = tmp_path / f"out/x@{SHARDS}"
    flags = ("--only-shards", "0-", "--job", "7")
    assert cut(3, "SIGKILL", sources["parquet"], out, *flags).status == -signal.SIGKILL
    assert cut(1, "SIGTERM", sources["parquet"], out, *flags).status == INTERRUPTED
    failed = cut(0, "error", sources["parquet"], out, *flags)
    assert failed.status == IO_FAILED and "no more" in failed.err
    assert "missing" in shardfeed("commit", out, "--job", "7").err
    report = task(sources["parquet"], out, "0-")
    assert 0 < report["shards_taken_over"] < SHARDS and report["shards"] == SHARDS - report["shards_taken_over"]
    again = task(sources["parquet"], out, "0-")
    assert (again["shards_taken_over"], again["records"], again["bytes"]) == (SHARDS, 0, 0)
    commit(out)
    assert dataset(tmp_path / "out") == dataset(tmp_path / "whole")


def test_notes_are_those_of_all_rows(sources, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1.0] * 99 + [1 + 2.0 ** -40]}), tmp_path / "t.parquet")  # the last loses digits
    arguments = ("parquet", tmp_path / "t.parquet")
    whole = convert(*arguments, tmp_path / "whole/x@4")
    assert whole["notes"]
    assert task(arguments, tmp_path / "out/x@4", "0-1")["notes"] == whole["notes"]
    assert task(arguments, tmp_path / "out/x@4", "2-3")["notes"] == whole["notes"]
    commit(tmp_path / "out/x@4")
    assert dataset(tmp_path / "out") == dataset(tmp_path / "whole")


def test_tasks_with_another_input_or_other_options_are_refused(sources, tmp_path):
    out = tmp_path / f"out/x@{SHARDS}"
    source = shutil.copy(sources["parquet"][1], tmp_path / "t.parquet")
    task(("parquet", source), out, "0-2")
    assert "shuffle: 'no', but this task has 'seed 1'" in refused(("parquet", source), out, "3-4", "--shuffle", "1")
    assert "columns" in refused(("parquet", source), out, "3-4", "--columns", "s")
    assert "compression" in refused(("parquet", source), out, "3-4", "--compression", "gzip")
    os.utime(source, ns=(1, 1))
    assert "input" in refused(("parquet", source), out, "3-4")
    assert "parts 3-4 of 5 are missing" in shardfeed("commit", out, "--job", "7").err


def test_nothing_remains_of_a_task_without_input(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"no Parquet")
    refused(("parquet", tmp_path / "t.parquet"), tmp_path / "out/x@2", "0", status=harness.DEFECTS)
    assert not (tmp_path / "out").exists()


def test_an_existing_dataset_needs_overwrite(sources, tmp_path):
    out = tmp_path / f"out/x@{SHARDS}"
    convert(*sources["npz"][:2], out)
    assert "there is a dataset of this name; pass --overwrite to replace it" in refused(sources["parquet"], out, "0-4")
    task(sources["parquet"], out, "0-4", "--overwrite")
    assert "there is a dataset of this name" in shardfeed("commit", out, "--job", "7").err
    assert shardfeed("commit", out, "--job", "7", "--overwrite").status == DONE
    convert(*sources["parquet"][:2], tmp_path / f"whole/x@{SHARDS}")
    assert dataset(tmp_path / "out") == dataset(tmp_path / "whole")


def test_functions(sources, tmp_path):
    kind, source = sources["parquet"]
    out = tmp_path / f"out/x@{SHARDS}"
    assert sf.convert(kind, source, out, only_shards="0-3", job="7")["shards"] == 4
    with pytest.raises(RuntimeError, match="part 4 of 5 is missing"):
        sf.commit(out, job="7")
    sf.convert(kind, source, out, only_shards="4", job="7")
    assert sf.commit(out, job="7")["records"] == 3000
    with pytest.raises(RuntimeError, match="the job has been committed"):
        sf.convert(kind, source, out, only_shards="4", job="7", overwrite=True)


@pytest.mark.parametrize("arguments, said", [
    (["t", "o/x@5", "--only-shards", "0"], "--only-shards: tasks that write some of the shards need a name for their job, "
                                           "--job ID"),
    (["t", "o/x@5", "--job", "7"], "--job: a task of a job needs the numbers of the shards that it writes, --only-shards A-B"),
    (["t", "o/x", "--job", "7", "--only-shards", "0"], "--only-shards: the number of shards is missing: name the output as "
                                                       "folder/name@N"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "5"], "shard 5 does not exist: there are 5 shards, numbered from 0"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "1-9"], "shard 9 does not exist"),
    (["t", "o/x@99999999999", "--job", "7", "--only-shards", "0-"], "the number of shards must be from 1 to 1000000"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "3-1"], "'3-1': expected a list of shard numbers such as 0,5,10-19 or "
                                                           "100-"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "1,,2"], "'1,,2': expected a list"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "1", "--resume"], "--resume cannot be combined with --only-shards: a task "
                                                                     "that runs again keeps what is finished in any case"),
    (["t", "o/x", "--job", "7", "--only-shards", "1", "--shard-size", "1MB"], "--shard-size cannot be combined with "
     "--only-shards: all tasks need one number of shards, OUT@N"),
    (["-", "o/x@5", "--job", "7", "--only-shards", "1"], "standard input, -, cannot be combined with --only-shards: each task "
     "reads the whole input; name files"),
    (["t", "o/x@5", "--job", "7", "--only-shards", "1", "--dry-run"], "--dry-run cannot be combined with --only-shards: it "
     "shows the whole dataset"),
    (["t", "o/x@5", "--job", "a b", "--only-shards", "1"], "letters, digits"),
    (["t", "http://host/x@5", "--job", "7", "--only-shards", "1"], "HTTP servers are only read"),
])
def test_wrong_use(tmp_path, arguments, said):
    result = shardfeed("convert", "parquet", *arguments, cwd=tmp_path)
    assert result.status == USAGE and said in result.err, result.err
    assert not (tmp_path / "o").exists()


def test_a_query_needs_an_order(sources, tmp_path):
    arguments = ("sqlite", sources["sqlite table"][1], "--query", "SELECT i FROM t")
    said = refused(arguments, tmp_path / "out/x@5", "0")
    assert "tasks can divide the rows if rows come in the same order again" in said and "add ORDER BY" in said
