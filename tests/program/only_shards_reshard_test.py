"""Many processes write one dataset: reshard --only-shards, then commit."""

import json
import random
import shutil
import subprocess

import harness
import pytest
from harness import DEFECTS, USAGE, convert, fail, succeed
from harness import tree_without_jobs as dataset

SHARDS = 5


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Datasets of the same records, by name."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = random.Random(1)
    lines = folder / "lines.jsonl"
    with open(lines, "w") as file:
        for i in range(6_000):
            file.write(json.dumps({"i": i, "text": "x" * rng.randrange(300)}) + "\n")
    for name, shards, compression in (("one", 1, "none"), ("raw", 3, "none"), ("many", 40, "none"),
                                      ("gzip", 3, "gzip"), ("zlib", SHARDS, "zlib")):
        convert("jsonl", lines, folder / name / f"d@{shards}", "--compression", compression)
    shutil.copytree(folder / "raw", folder / "unknown")
    shutil.rmtree(folder / "unknown/.shardfeed")
    succeed("index", folder / "unknown/d@3")
    return folder


def arguments(source, out, shards, *options, job="a.1"):
    return ["reshard", source, out / f"d@{SHARDS}", *options, "--only-shards", shards, "--job", job]


def commit(out, job="a.1"):
    return succeed("commit", out / f"d@{SHARDS}", "--job", job)


# Copied: raw to raw, and whole shards. Encoded: the others.
CASES = [("one", 1, []), ("raw", 3, []), ("many", 40, []), ("raw", 3, ["--compression", "gzip"]),
         ("gzip", 3, []), ("gzip", 3, ["--compression", "none"]), ("zlib", SHARDS, []),
         ("unknown", 3, []), ("unknown", 3, ["--compression", "zlib", "--level", "1", "--member-size", "8K"])]


@pytest.mark.parametrize(("name", "shards", "options"), CASES, ids=lambda value: str(value))
def test_tasks_write_the_bytes_of_one_process(inputs, tmp_path, name, shards, options):
    source = inputs / name / f"d@{shards}"
    succeed("reshard", source, tmp_path / f"alone/d@{SHARDS}", *options, "-q")
    out = tmp_path / "out"
    for i, some in enumerate(["3", "1-2", "0,4"]):
        succeed(*arguments(source, out, some, *options), "-q", "-j", i + 1)
    assert not dataset(out)
    commit(out)
    assert dataset(out) == dataset(tmp_path / "alone")
    harness.verify(out / f"d@{SHARDS}")


def test_tasks_at_the_same_time(inputs, tmp_path):
    """Each shard is written twice."""
    source = inputs / "many/d@40"
    succeed("reshard", source, tmp_path / f"alone/d@{SHARDS}")
    out = tmp_path / "out"
    running = [subprocess.Popen(harness.command(*arguments(source, out, i % SHARDS), "-q"))
               for i in range(2 * SHARDS)]
    assert [process.wait() for process in running] == [0] * len(running)
    commit(out)
    assert dataset(out) == dataset(tmp_path / "alone")


def test_what_is_printed(inputs, tmp_path):
    out = tmp_path / "out"
    text = succeed(*arguments(inputs / "raw/d@3", out, "1-2")).out.decode()
    assert f"{out}/d@5, shards 1-2 of job a.1: 2,400 records, " in text
    told = succeed(*arguments(inputs / "raw/d@3", out, "0-2"), "--json").json
    assert told["job"] == "a.1" and told["only_shards"] == "0-2" and told["shards_taken_over"] == 2
    assert told["datasets"][0]["dataset"] == f"{out}/d@5" and told["datasets"][0]["records"] == 1200
    text = succeed(*arguments(inputs / "raw/d@3", out, "0-2")).out.decode()
    assert "note: 3 shards were taken over" in text and "0 records" in text
    assert "parts 3-4 of 5 are missing; pass --only-shards 3-4 to tasks that write them" in fail(
        USAGE, "commit", out / "d@5", "--job", "a.1")
    succeed(*arguments(inputs / "raw/d@3", out, "3-"))
    assert f"{out}/d@5: 6,000 records, " in commit(out).out.decode()


@pytest.mark.parametrize("options", [[], ["--compression", "gzip"]], ids=["copied", "encoded"])
def test_tasks_read_only_their_own_records(inputs, tmp_path, options):
    """Damage that tasks find if they read it: those of the other records do not."""
    source = tmp_path / "one"
    shutil.copytree(inputs / "one", source)
    shard = source / "d-00000-of-00001"
    harness.flip(shard, 7 * shard.stat().st_size // 10)  # in the records of shard 3
    out = tmp_path / "out"
    for some in ("1", "2", "4"):
        succeed(*arguments(source / "d@1", out, some, *options), "-q")
    if options:
        assert "its payload's CRC is wrong" in fail(
            DEFECTS, *arguments(source / "d@1", out, "3", *options))
        assert not list(out.glob(".shardfeed/d.jobs/a.1/*/00003.*"))


@pytest.mark.parametrize("options", [[], ["--compression", "gzip"]], ids=["copied", "encoded"])
def test_the_task_of_the_first_record_checks_the_index(inputs, tmp_path, options):
    """An index of other records that are as long."""
    for name, text in (("a", "x"), ("b", "y")):
        lines = tmp_path / f"{name}.jsonl"
        lines.write_text("".join(json.dumps({"i": i % 2, "text": text * 50}) + "\n" for i in range(1000)))
        convert("jsonl", lines, tmp_path / name / "d@1")
    if options:
        (tmp_path / "a/.shardfeed/d.manifest.json").unlink()
        shutil.copy(tmp_path / "b/.shardfeed/d-00000-of-00001.index", tmp_path / "a/.shardfeed")
    else:  # the manifest and the index agree
        shutil.copytree(tmp_path / "b/.shardfeed", tmp_path / "a/.shardfeed", dirs_exist_ok=True)
    out = tmp_path / "out"
    succeed(*arguments(tmp_path / "a/d@1", out, "1-4", *options))
    assert "stale, does not match the shard: digest" in fail(
        DEFECTS, *arguments(tmp_path / "a/d@1", out, "0", *options))
    assert "part 0 of 5 is missing" in fail(USAGE, "commit", out / "d@5", "--job", "a.1")
    assert not dataset(out)


def test_tasks_whose_input_was_replaced_are_refused(inputs, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(inputs / "raw", source)
    out = tmp_path / "out"
    succeed(*arguments(source / "d@3", out, "0-2"))
    shutil.rmtree(source)
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"i": 1}\n' * 6_000)
    convert("jsonl", lines, source / "d@3")
    assert "the tasks disagree about" in fail(USAGE, *arguments(source / "d@3", out, "3-4"))
    assert "source: " in fail(USAGE, *arguments(inputs / "raw/d@3", out, "3-4"))


def test_wrong_use(inputs, tmp_path):
    out = tmp_path / "out"
    base = ["reshard", inputs / "raw/d@3", out / "d@5"]
    for line, told in [
        ([*base, "--only-shards", "0"], "--only-shards: tasks that write some of the shards need a name"),
        ([*base, "--job", "7"], "--job: a task of a job needs the numbers of the shards that it writes"),
        ([*base, "--only-shards", "0", "--job", "7", "--tfds"],
         "--tfds cannot be combined with --only-shards: it describes complete datasets"),
        ([*base, "--only-shards", "5", "--job", "7"], "shard 5 does not exist: there are 5 shards"),
        ([*base[:2], out / "d", "--only-shards", "0", "--job", "7"], "the number of shards is missing"),
        ([*base[:2], "http://host/d@5", "--only-shards", "0", "--job", "7"], "HTTP servers are only read"),
    ]:
        assert told in fail(USAGE, *line), line
    assert not out.exists()
