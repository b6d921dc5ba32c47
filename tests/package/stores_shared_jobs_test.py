"""Jobs in stores that tasks find by a name: convert and reshard --only-shards, then commit (those in folders:
tests/program/only_shards_test.py)."""

import json
import os
import random
import signal
import subprocess
import sys

import harness
import pytest
from harness import DEFECTS, IO_FAILED, REPOSITORY, USAGE, convert, fail, succeed
from servers import S3, Object
from stores_writing_test import files, moto, moto_server, place, s3, surroundings  # noqa: F401

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

SHARDS = 5
JOBS = ".shardfeed/a.jobs/"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    return harness.write_lines(tmp_path_factory.mktemp("lines") / "lines.jsonl", records=3_000, different=2_800)


@pytest.fixture(scope="module")
def sources(lines, tmp_path_factory):
    """Arguments of convert, by name, and of reshard."""
    folder = tmp_path_factory.mktemp("sources")
    table = folder / "table.csv"
    table.write_text("a,b\n" + "".join(f"{i},word{i % 7}\n" for i in range(500)))
    convert("jsonl", lines, folder / "records@3", "--compression", "zlib")
    return {
        "jsonl": ("convert", "jsonl", lines),
        "jsonl gzip shuffled": ("convert", "jsonl", lines, "--compression", "gzip", "--shuffle", "3"),
        "jsonl few": ("convert", "jsonl", lines, "--limit", "2"),
        "csv": ("convert", "csv", table, "--shuffle", "9"),
        "tfrecord": ("convert", "tfrecord", folder / "records@3"),
        "reshard": ("reshard", folder / "records@3"),
    }


def command(source, out, shards, job="7"):
    """The arguments of a task. `source` has the name of the command first, and then its input."""
    end = 3 if source[0] == "convert" else 2
    return [*source[:end], out / f"a@{SHARDS}", *source[end:], "-q", "--only-shards", shards, "--job", job]


def task(source, out, shards, *more, **options):
    return succeed(*command(source, out, shards, **options), *more)


def commit(out, *more, job="7"):
    return succeed("commit", out / f"a@{SHARDS}", "--job", job, *more)


def alone(source, folder):
    end = 3 if source[0] == "convert" else 2
    succeed(*source[:end], folder / f"a@{SHARDS}", *source[end:], "-q")
    return files(folder)


def dataset(place):
    """What is there beside jobs."""
    return {name: data for name, data in place.files().items() if not name.startswith(JOBS)}


@pytest.mark.parametrize("name", ["jsonl", "jsonl gzip shuffled", "jsonl few", "csv", "tfrecord", "reshard"])
def test_tasks_write_the_bytes_of_one_process(sources, name, place, tmp_path):
    wanted = alone(sources[name], tmp_path / "alone")
    ranges = ["0", "1,3", "2", "4-"]
    random.Random(name).shuffle(ranges)
    for shards in ranges:
        task(sources[name], place, shards)
        assert dataset(place) == {}
        assert "no such shards" in fail(IO_FAILED, "verify", place / f"a@{SHARDS}")
    commit(place, "-q")
    assert dataset(place) == wanted and place.uploads() == []
    assert {name.removeprefix(JOBS) for name in place.files() if name.startswith(JOBS)} == {"7/job", "7/committed"}
    assert harness.verify(place / f"a@{SHARDS}")["defects"] == []


def test_tasks_at_the_same_time(sources, place, tmp_path):
    """Each shard is written twice; one attempt at each becomes the dataset's, and nothing is left of the other."""
    wanted = alone(sources["jsonl gzip shuffled"], tmp_path / "alone")
    running = [subprocess.Popen(harness.command(*command(sources["jsonl gzip shuffled"], place, i % SHARDS)))
               for i in range(2 * SHARDS)]
    assert [process.wait() for process in running] == [0] * len(running)
    commit(place)
    assert dataset(place) == wanted and place.uploads() == []


def test_kinds_that_python_reads(place, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing")
    import pyarrow
    table = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"n": list(range(500)), "x": [f"text {i % 7}" for i in range(500)]}), table)
    sf.convert("parquet", table, tmp_path / f"alone/a@{SHARDS}", shuffle=1)
    wanted = files(tmp_path / "alone")
    for shards in ("3-4", [0, 1, 2]):
        sf.convert("parquet", table, place / f"a@{SHARDS}", shuffle=1, only_shards=shards, job="7")
    assert sf.commit(place / f"a@{SHARDS}", job="7")["records"] == 500
    assert dataset(place) == wanted and place.uploads() == []


def test_a_task_that_runs_again_writes_what_is_missing(sources, s3, tmp_path):
    wanted = alone(sources["jsonl"], tmp_path / "alone")
    task(sources["jsonl"], s3.place, "0-1")
    begun = len(s3.requests)
    task(sources["jsonl"], s3.place, "0-1")
    assert not [each for each in s3.requests[begun:] if "uploadId" in each[2]]
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "parts 2-4 of 5 are missing; pass --only-shards 2-4 to tasks that write them" in found
    task(sources["jsonl"], s3.place, "1-4")
    commit(s3.place)
    assert dataset(s3.place) == wanted and s3.place.uploads() == []


@pytest.mark.parametrize("s3", [S3], indirect=True)
def test_tasks_that_are_killed(sources, s3, tmp_path):
    """At any request: the next task writes what is missing, and the commit leaves nothing of the first."""
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    step, killed = 0, True
    while killed:
        begun = len(s3.requests)
        process = None

        def kill(number, *_):
            if number - begun == step and process is not None:
                process.send_signal(signal.SIGKILL)

        s3.fault = kill
        process = subprocess.Popen(harness.command(*command(source, s3.place, "0-2")))
        killed = process.wait() != 0
        s3.fault = None
        assert dataset(s3.place) == {}
        task(source, s3.place, "0-2")
        task(source, s3.place, "3-4")
        commit(s3.place)
        assert dataset(s3.place) == wanted
        for key in list(s3.objects):
            s3.times[key] -= 25 * 3600
        for upload in s3.uploads.values():
            upload["time"] = upload.get("time", 0) - 25 * 3600
        succeed("clean", s3.place / "a")
        assert dataset(s3.place) == s3.place.files() == wanted and s3.place.uploads() == []
        s3.objects.clear()
        step += 3
    assert step > 20


@pytest.mark.parametrize("fault, length", [("refuse", 2), ("lost", 2), ("refuse", 10**6)])
def test_a_commit_that_fails_at_any_request_can_be_repeated(sources, s3, fault, length, tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    wanted = alone(sources["csv"], tmp_path / "alone")
    step, finished = 0, False
    while not finished:
        for shards in ("0-2", "3-4"):
            task(sources["csv"], s3.place, shards)
        begun = len(s3.requests)
        s3.fault = lambda number, *_: fault if number - begun in range(step, step + length) else None
        harness.run("commit", s3.place / f"a@{SHARDS}", "--job", "7")
        s3.fault = None
        finished = len(s3.requests) - begun <= step
        assert commit(s3.place, "--json").json["records"] == 500
        assert "job 7 was committed earlier" in commit(s3.place).out.decode()
        # Indexes that the first try had uploaded, and was not allowed to remove.
        succeed("clean", s3.place / "a", "--older-than", "0s")
        assert s3.place.files() == wanted and s3.place.uploads() == []
        s3.objects.clear()
        step += 3
    assert step > 40


def test_late_tasks_and_other_datasets(sources, s3):
    source = sources["csv"]
    for shards in ("0-2", "3-4"):
        task(source, s3.place, shards)
    commit(s3.place)
    found = fail(USAGE, *command(source, s3.place, "0"), "--overwrite")
    assert "the job has been committed; choose another name for a new one" in found
    # Nothing of a finished job is unfinished.
    assert succeed("clean", s3.place / "a").out == b"nothing was left behind\n"
    convert("csv", source[2], s3.place / f"a@{SHARDS}", "--overwrite", "--limit", "5")
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "the job has been committed, but its dataset has been replaced since" in found
    for key in list(s3.objects):
        s3.times[key] -= 25 * 3600
    succeed("clean", s3.place / "a")
    assert not any(name.startswith(JOBS) for name in s3.place.files())
    found = fail(IO_FAILED, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "there is no such job: no task has begun it, or it has been cleaned" in found
    assert len(sf.read(s3.place / f"a@{SHARDS}")) == 5


def test_a_task_that_is_late(sources, s3, tmp_path):
    """The job is committed, with another attempt, while a task is at work: it fails and leaves nothing."""
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    for shards in ("0-2", "3"):
        task(source, s3.place, shards)
    begun = len(s3.requests)
    done = []

    def overtake(number, method, *_):
        # Once the upload has begun.
        if method == "POST" and not done:
            done.append(number)
            task(source, s3.place, "4")
            commit(s3.place)

    s3.fault = overtake
    found = fail(USAGE, *command(source, s3.place, "4"))
    s3.fault = None
    assert "the job has been committed, aborted or cleaned" in found and len(s3.requests) > begun
    assert dataset(s3.place) == wanted and s3.place.uploads() == []


def test_tasks_that_differ(sources, s3):
    source = sources["csv"]
    task(source, s3.place, "0-2")
    found = fail(USAGE, *command(source, s3.place, "3"), "--compression", "gzip")
    assert "the job has another option, compression: 'none', but this task has 'gzip'" in found
    table, times = source[2], source[2].stat()
    text = table.read_text()
    table.write_text(text + "1,x\n")
    found = fail(USAGE, *command(source, s3.place, "3-4"))
    table.write_text(text)
    os.utime(table, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "/input and " in found and "the tasks disagree about the names, sizes or times" in found
    assert "begin a job with another name" in found
    assert not [name for name in s3.place.files() if "/00003-" in name]
    task(source, s3.place, "3-4")
    # A task that could not know of the others.
    key, = [key for key in s3.objects if "/00003-" in key and key.endswith("/input")]
    text = {**json.loads(s3.objects[key].data), "fingerprint": "another"}
    s3.objects[key] = Object(json.dumps(text).encode(), '"tag"', None)
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "/00003-" in found and "the tasks disagree about the names, sizes or times" in found
    assert dataset(s3.place) == {}


def test_parts_that_are_gone(sources, s3, tmp_path):
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    for shards in ("0-2", "3-4"):
        task(source, s3.place, shards)
    name, = [name for name, upload in s3.uploads.items() if "a-00003-" in upload.get("key", name)]
    del s3.uploads[name]
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "part 3 of 5 is missing" in found and "a-00003-of-00005: its uploaded parts were removed" in found
    assert dataset(s3.place) == {}
    task(source, s3.place, "3")
    commit(s3.place)
    assert dataset(s3.place) == wanted


def test_the_old_dataset_stays_until_the_commit(sources, s3, tmp_path):
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    convert("csv", source[2], s3.place / "a@2", "--limit", "7")
    assert "there is a dataset of this name" in fail(USAGE, *command(source, s3.place, "0"))
    for shards in ("0-2", "3-4"):
        task(source, s3.place, shards, "--overwrite")
        assert len(sf.read(s3.place / "a@2")) == 7
    assert "there is a dataset" in fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert commit(s3.place, "--overwrite", "--dry-run", "--json").json["records"] == 500
    assert len(sf.read(s3.place / "a@2")) == 7
    commit(s3.place, "--overwrite")
    assert dataset(s3.place) == wanted


def test_clean_keeps_jobs_at_work(sources, s3, tmp_path):
    source = sources["csv"]
    task(source, s3.place, "0-2")
    assert "younger than 24h and was kept" in succeed("clean", s3.place / "a").out.decode()
    for key in list(s3.objects):
        if not key.endswith(".message"):
            s3.times[key] -= 25 * 3600
    for upload in s3.uploads.values():
        upload["time"] = upload.get("time", 0) - 25 * 3600
    succeed("clean", s3.place / "a")
    task(source, s3.place, "3-4")
    commit(s3.place)
    assert len(sf.read(s3.place / f"a@{SHARDS}")) == 500


def test_parts_of_an_earlier_job_of_the_name_do_not_count(sources, s3, tmp_path):
    """As if `clean` had been killed when it had removed the name."""
    source = sources["reshard"]
    wanted = alone((*source, "--compression", "gzip"), tmp_path / "alone")
    task(source, s3.place, "0-2")
    name, = [key for key in s3.objects if key.endswith("a.jobs/7/job")]
    del s3.objects[name]
    task((*source, "--compression", "gzip"), s3.place, "3-4")
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    assert "parts 0-2 of 5 are missing" in found
    task((*source, "--compression", "gzip"), s3.place, "0-2")
    commit(s3.place)
    succeed("clean", s3.place / "a", "--older-than", "0s")
    assert s3.place.files() == wanted and s3.place.uploads() == []


def test_a_job_that_was_cleaned_is_begun_again(sources, s3, tmp_path):
    """Also if its name stayed, as when `clean` is killed."""
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    task(source, s3.place, "0-2")
    name, = [key for key in s3.objects if key.endswith("a.jobs/7/job")]
    text = s3.objects[name]
    succeed("clean", s3.place / "a", "--older-than", "0s")
    assert s3.place.files() == {} and s3.place.uploads() == []
    s3.objects[name], s3.times[name] = text, 0
    assert "has been committed, aborted or cleaned" in fail(
        USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7")
    task(source, s3.place, "0-4")
    commit(s3.place)
    assert dataset(s3.place) == wanted


@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "gone"])
@pytest.mark.parametrize("ending", ["index", "statistics", "message"])
def test_a_part_whose_objects_are_gone_or_damaged_is_written_again(sources, s3, ending, damaged, tmp_path):
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    task(source, s3.place, "0-4")
    key, = [key for key in s3.objects if key.endswith(f"00001.{ending}")]
    if damaged:
        s3.objects[key] = Object(b"x" * len(s3.objects[key].data), '"tag"', None)
    else:
        del s3.objects[key]
    found = fail(USAGE, "commit", s3.place / f"a@{SHARDS}", "--job", "7", "--dry-run")
    assert "part 1 of 5 is missing" in found
    task(source, s3.place, "1")
    commit(s3.place)
    succeed("clean", s3.place / "a", "--older-than", "0s")
    assert s3.place.files() == wanted


@pytest.mark.parametrize("s3", [S3], indirect=True)
def test_an_equal_dataset_is_replaced(sources, s3, tmp_path, monkeypatch):
    """By a commit that is killed at any request: its manifest does not tell that it was committed."""
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    source = sources["csv"]
    wanted = alone(source, tmp_path / "alone")
    convert("csv", source[2], s3.place / f"a@{SHARDS}", "--shuffle", "9")
    step, finished = 0, False
    while not finished:
        task(source, s3.place, "0-4", "--overwrite")
        begun = len(s3.requests)
        s3.fault = lambda number, *_: "refuse" if number - begun >= step else None
        harness.run("commit", s3.place / f"a@{SHARDS}", "--job", "7", "--overwrite")
        s3.fault = None
        finished = len(s3.requests) - begun <= step
        commit(s3.place, "--overwrite")
        succeed("clean", s3.place / "a", "--older-than", "0s")
        assert s3.place.files() == wanted and s3.place.uploads() == []
        step += 4
    assert step > 60
