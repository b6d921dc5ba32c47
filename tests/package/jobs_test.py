"""Datasets that several processes write: parts, messages and commits, whatever happens to them."""

import json
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import threading
import time
import warnings

import harness
import numpy as np
import pytest
from package_data import run_python, sf

PARTS = 4


def rows_of(part):
    return [{"part": part, "n": i} for i in range(10 + part)]


def write_part(job, part, attempt=""):
    with job.shard(part, attempt) as writer:
        for row in rows_of(part):
            writer.write(row)
    return writer.message


def folder_of(path):
    """Names and bytes of all files."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.fixture
def wanted(tmp_path_factory):
    """What one process writes of the same rows."""
    folder = tmp_path_factory.mktemp("wanted")
    job = sf.write_job(folder / "a@4")
    job.commit([write_part(job, part) for part in range(PARTS)])
    return folder_of(folder)


def test_lost_digits_of_parts_are_noted(tmp_path):
    job = sf.write_job(tmp_path / "a@3")
    messages = []
    for part in range(3):
        with pytest.warns(UserWarning, match="loses digits"), job.shard(part) as writer:
            writer.write({"x": 16777217.0, "y": 1e-50 if part == 1 else 1.0})
        messages.append(writer.message)
    job.commit(messages)
    told = "1 value loses digits as floats of 32 bits; the first: record 0:"
    assert json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["notes"] == [
        f"feature 'x': {told} 16777217 becomes 16777216 (shard 0, and the like in 2 others)",
        f"feature 'y': {told} 1e-50 becomes 0 (shard 1)"]


def parts_of(job, *parts):
    messages = []
    for part, records in enumerate(parts):
        with job.shard(part) as writer:
            for record in records:
                writer.write(record)
        messages.append(pickle.loads(pickle.dumps(writer.message)))
    return messages


def test_features_without_values_in_any_part_are_told_once(tmp_path):
    job = sf.write_job(tmp_path / "a@3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a part alone cannot tell
        messages = parts_of(job, [{"n": 1, "x": None, "y": []}], [{"n": 2, "x": [], "y": None, "z": None}],
                            [{"n": 3, "y": 0.5}])
    with pytest.warns(UserWarning) as told:
        assert job.commit(messages)["records"] == 3
    assert [str(one.message) for one in told] == [
        f"feature {name!r} has no value in any record, so no record has it" for name in "xz"]
    assert told[0].filename == __file__
    assert set(sf.inspect(tmp_path / "a@3").features) == {"n", "y"}
    with pytest.warns(UserWarning, match="feature 'x' has no value"):
        assert job.commit(messages)["records"] == 3  # it may be repeated


def test_features_without_values_are_told_of_what_is_committed(tmp_path):
    job = sf.write_job(tmp_path / "a@2")
    first, last = parts_of(job, [{"n": 1, "x": None}], [{"n": 2}])
    late, = parts_of(job, [{"n": 1, "x": 3, "y": None}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="1 of 2 parts have no message"):
            job.commit([first])
    with pytest.warns(UserWarning) as told:
        job.commit([first, late, last])
    assert [str(warning.message) for warning in told] == ["feature 'x' has no value in any record, so no record has it"]


def test_types_without_values_in_parts_are_not_told(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        job = sf.write_job(tmp_path / "a@2")
        job.commit(parts_of(job, [{"n": 1, "x": None}], [{"n": 2, "x": np.zeros(0, np.float32)}]))
        job = sf.write_job(tmp_path / "b@1", features={"n": sf.int64, "x": sf.ragged(sf.int64)})
        job.commit(parts_of(job, [{"n": 1, "x": None}]))
    assert set(sf.inspect(tmp_path / "a@2").features) == set(sf.inspect(tmp_path / "b@1").features) == {"n", "x"}


def test_features_without_values_are_features_of_the_message(tmp_path):
    job = sf.write_job(tmp_path / "a@2")
    first, last = parts_of(job, [{"n": 1, "x": None, "y": []}], [{"n": 2, "x": np.ones(2, np.int16), "y": None}])
    assert json.loads(first)["shard"]["features"]["x"] == {"kind": "none", "records": 0, "min_values": 0, "max_values": 0}
    lying = harness.changed_message(first, lambda said: said["shard"]["features"]["x"].update(records=5))
    with pytest.raises(ValueError, match="message 0 is not that of a finished part: its totals are not those of a shard"):
        job.commit([lying, last])
    with pytest.warns(UserWarning, match="feature 'y' has no value in any record") as told:
        job.commit([first, last])
    assert len(told) == 1
    features = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["features"]
    assert set(features) == {"n", "x"}
    assert (features["x"]["dtype"], features["x"]["shape"]) == ("int16", [2])  # those of the part that has values
    assert harness.verify(tmp_path / "a@2", "--level", "examples")["manifest"]


def test_texts_of_other_versions_are_told_with_the_remedy(tmp_path):
    remedy = ("; if nothing has changed it, another version of shardfeed has written it; use the same version on all "
              "machines")
    job = sf.write_job(tmp_path / "a@1")
    [message] = parts_of(job, [{"n": 1}])
    earlier = json.dumps({**json.loads(message), "without_values": ["x"]})  # once, the package added it to the text
    fewer = harness.changed_message(message, lambda said: said.pop("index_bytes"))
    for other, why in ((earlier, "its checksum does not match it"), (fewer, "index_bytes")):
        with pytest.raises(ValueError, match="^message 0 is not that of a finished part: ") as told:
            job.commit([other])
        assert why in str(told.value) and str(told.value).endswith(remedy)
    job.commit([harness.changed_message(message, lambda said: said.update(more=[1]))])  # what is not known is no harm
    with pytest.raises(ValueError) as told:
        type(job)(job._core.text.replace("shardfeed job 1", "shardfeed job 2"), ())
    assert str(told.value) == "not the text of a job: unknown format" + remedy


@pytest.mark.parametrize("message", ['{"shard": 1}', '["shard"]', '"shard"', "{shard", '{"shard": []}'])
def test_messages_that_are_none_are_refused(tmp_path, message):
    job = sf.write_job(tmp_path / "a@1")
    with pytest.raises(ValueError, match="^message 0 is not that of a finished part: "):
        job.commit([message])
    job.abort()


def test_wrong_features_leave_no_job(tmp_path):
    with pytest.raises(TypeError, match="feature 'n': 3 is not a type"):
        sf.write_job(tmp_path / "a@2", features={"n": 3})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_parts_become_a_dataset(tmp_path, compression):
    job = sf.write_job(tmp_path / "a", PARTS, compression=compression)
    copy = pickle.loads(pickle.dumps(job))
    assert (copy.id, copy.spec, len(copy)) == (job.id, f"{tmp_path}/a@4", PARTS)
    messages = [write_part(copy, part) for part in (2, 0, 3, 1)]
    assert not list(tmp_path.glob("a-*"))
    with pytest.raises(FileNotFoundError):
        sf.read(tmp_path / "a@4")
    assert job.commit(messages) == {"shards": 4, "records": 46,
                                    "bytes": sum(p.stat().st_size for p in tmp_path.glob("a-*"))}
    ds = sf.read(tmp_path / "a@4").parse()
    assert [(int(r["part"]), int(r["n"])) for r in ds] == [
        (part, row["n"]) for part in range(PARTS) for row in rows_of(part)]
    assert harness.verify(tmp_path / "a@4", "--level", "examples")["manifest"]
    names = sorted(p.name for p in (tmp_path / ".shardfeed").iterdir())
    assert names == ["a-%05d-of-00004.index" % i for i in range(4)] + ["a.indexes", "a.manifest.json"]


def test_processes_write_parts_and_the_dataset_is_that_of_one(tmp_path, wanted):
    job = sf.write_job(tmp_path / "a@4")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        messages = pool.starmap(write_part, [(job, part) for part in range(PARTS)])
    job.commit(messages)
    assert folder_of(tmp_path) == wanted


def test_attempts_beside_each_other_count_once(tmp_path, wanted):
    job = sf.write_job(tmp_path / "a@4")
    late = job.shard(1, "late")
    late.write({"part": 99})
    messages = [write_part(job, part, attempt) for attempt in (0, 1) for part in range(PARTS)]
    with pytest.raises(ZeroDivisionError):
        with job.shard(2, "failing") as writer:
            writer.write({"part": 98})
            raise ZeroDivisionError
    job.commit(messages)
    with pytest.raises((OSError, RuntimeError)):
        late.write({"part": 99})
        late.close()
    late.abort()
    assert folder_of(tmp_path) == wanted
    with pytest.raises(RuntimeError, match="the folder of the job does not exist: the job has been "
                                           "committed, aborted"):
        job.shard(0)
    assert folder_of(tmp_path) == wanted


def test_commits_may_be_repeated(tmp_path, wanted):
    job = sf.write_job(tmp_path / "a@4")
    messages = [write_part(job, part) for part in range(PARTS)]
    report = job.commit(messages)
    assert pickle.loads(pickle.dumps(job)).commit(messages) == report
    assert folder_of(tmp_path) == wanted
    other = sf.write_job(tmp_path / "a@4", overwrite=True)
    again = [write_part(other, part) for part in range(PARTS)]
    assert other.commit(again, made_by={"by": "me"}) == report
    manifest = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_bytes())
    assert manifest["made_by"]["by"] == "me"


def test_a_commit_does_not_replace_what_was_written_meanwhile(tmp_path):
    job = sf.write_job(tmp_path / "a@4", overwrite=True)
    messages = [write_part(job, part) for part in range(PARTS)]
    with sf.write(tmp_path / "a@4") as writer:
        writer.write({"n": 1})
    with pytest.raises(RuntimeError, match="another dataset of this name has been written since the job "
                                           "was created; it stays"):
        job.commit(messages)
    assert len(list(sf.read(tmp_path / "a@4"))) == 1
    job.abort()
    assert not (tmp_path / ".shardfeed/a.jobs").exists()


def test_what_is_no_dataset_is_not_committed(tmp_path):
    job = sf.write_job(tmp_path / "a@4")
    messages = [write_part(job, part) for part in range(PARTS)]
    other = sf.write_job(tmp_path / "b@4")
    before = folder_of(tmp_path)
    cases = [
        (messages[:1] + messages[2:], "1 of 4 parts have no message: 1; a dataset is committed whole"),
        ([], "4 of 4 parts have no message: 0, 1, 2, 3"),
        ([*messages[:3], "x"], "message 3 is not that of a finished part"),
        ([*messages[:3], write_part(other, 3)], "message 3 is not that of a finished part: it is of another"),
        ([*messages[:3], messages[3].replace('"part":3', '"part":4')],
         "message 3 is not that of a finished part: its checksum does not match it"),
        ([*messages[:3], harness.changed_message(messages[3], lambda said: said.update(part=4))],
         "has 4 parts, and no part 4"),
        ([*messages[:3], harness.changed_message(messages[3], lambda said: said.update(folder="../../00003-x"))],
         "its folder is not that of an attempt"),
        ([*messages[:3], "[" * 100000], "message 3 is not that of a finished part"),
    ]
    for some, message in cases:
        with pytest.raises(ValueError, match=message):
            job.commit(some)
    other.abort()
    assert {k: v for k, v in folder_of(tmp_path).items()} == before
    assert job.commit(messages)["records"] == 46


def test_lost_and_changed_files_of_parts_are_told(tmp_path):
    job = sf.write_job(tmp_path / "a@4")
    messages = [write_part(job, part) for part in range(PARTS)]
    (shard,) = (tmp_path / ".shardfeed/a.jobs" / job.id).glob("00002-*/00002.shard")
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(sf.DataLossError, match=f"expected the file of a finished part with {len(data)} "
                                               f"bytes, found {len(data) - 1} bytes; write the part again"):
        job.commit(messages)
    shard.unlink()
    with pytest.raises(sf.DataLossError, match="the file of a finished part is gone; write the part again"):
        job.commit(messages)
    messages[2] = write_part(job, 2, "again")
    assert job.commit(messages)["records"] == 46


def test_names_that_are_taken(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"n": 1})
    before = folder_of(tmp_path)
    with pytest.raises(FileExistsError, match="there is a dataset of this name; pass overwrite=True"):
        sf.write_job(tmp_path / "a@4")
    job = sf.write_job(tmp_path / "a@4", overwrite=True)
    job.abort()
    assert folder_of(tmp_path) == before
    job = sf.write_job(tmp_path / "a@4", overwrite=True)
    messages = [write_part(job, part) for part in range(PARTS)]
    assert list(sf.read(tmp_path / "a@1"))
    job.commit(messages)
    assert not (tmp_path / "a-00000-of-00001").exists() and harness.verify(tmp_path / "a@4")
    job = sf.write_job(tmp_path / "b@4")
    messages = [write_part(job, part) for part in range(PARTS)]
    with sf.write(tmp_path / "b@1") as writer:
        writer.write({"n": 1})
    with pytest.raises((FileExistsError, RuntimeError)):
        job.commit(messages)
    assert len(list(sf.read(tmp_path / "b@1"))) == 1


def test_wrong_arguments_of_jobs(tmp_path):
    with pytest.raises(ValueError, match="the number of shards is missing"):
        sf.write_job(tmp_path / "a")
    with pytest.raises(ValueError, match="names a number of shards already"):
        sf.write_job(tmp_path / "a@4", 4)
    with pytest.raises(ValueError, match="^s3://data: the name is missing: write it as folder/name"):
        sf.write_job("s3://data", shards=2)
    job = sf.write_job(tmp_path / "a@4")
    with pytest.raises(IndexError, match="part 4 does not exist: the job has 4 parts"):
        job.shard(4)
    with pytest.raises(IndexError, match="part -1 does not exist: the job has 4 parts"):
        job.shard(-1)
    with pytest.raises(TypeError, match="WriteJob: text must be a str, not 5; sf.write_job makes one"):
        type(job)(5, ())
    with pytest.raises(TypeError, match="WriteJob: features must be a list, not 5; sf.write_job makes one"):
        type(job)(job._core.text, 5)
    with pytest.raises(ValueError, match=r"a@\*: @\* stands for any number of shards, and a new dataset needs one: name it "
                                         r"as .*a@16$"):
        sf.write_job(tmp_path / "a@*")
    with pytest.raises(ValueError, match=r"a@\*: @\* stands for any number of shards.*: leave it out where shards=3 gives one"):
        sf.write_job(tmp_path / "a@*", 3)
    with pytest.raises(ValueError, match="expected an attempt of at most 64 letters"):
        job.shard(0, "../x")
    with pytest.raises(ValueError, match="not the text of a job"):
        type(job)("{}", {})
    writer = job.shard(0)
    writer.close()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write({"n": 1})
    job.abort()
    job.abort()
    assert not (tmp_path / ".shardfeed").exists()


def test_aborted_jobs_remove_the_folders_that_they_have_made(tmp_path):
    (tmp_path / "mine").mkdir()
    sf.write_job(tmp_path / "mine/a@4").abort()
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
    job = sf.write_job(tmp_path / "mine/new/deep/a@4")
    write_part(job, 0)
    pickle.loads(pickle.dumps(job)).abort()
    assert not list((tmp_path / "mine").iterdir())
    job.abort()
    assert (tmp_path / "mine").exists()
    for name in ("deep/a.txt", "a.txt"):  # files of somebody else
        job = sf.write_job(tmp_path / "mine/new/deep/a@4")
        (tmp_path / "mine/new" / name).write_text("mine")
        job.abort()
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [pathlib.Path(name).name]
        (tmp_path / "mine/new" / name).unlink()
        for folder in ("mine/new/deep", "mine/new"):
            if (tmp_path / folder).exists():
                (tmp_path / folder).rmdir()
    # Another job writes there.
    first, second = sf.write_job(tmp_path / "mine/new/a@4"), sf.write_job(tmp_path / "mine/new/b@4")
    first.abort()
    second.commit([write_part(second, part) for part in range(PARTS)])
    assert harness.verify(tmp_path / "mine/new/b@4")
    with pytest.raises(FileExistsError):
        sf.write_job(tmp_path / "mine/new/b@4")
    assert harness.verify(tmp_path / "mine/new/b@4")
    with pytest.raises(ValueError, match="not the text of a job"):
        changed = job._core.text.replace('"made_folders":2', '"made_folders":-1')
        assert changed != job._core.text
        type(job)(changed, ())


def test_a_job_is_aborted_while_its_tasks_write(tmp_path):
    """Of the tasks, some have their folder, some make it, and some remove it; none is in the way."""
    stop = threading.Event()

    def write(part):
        while not stop.is_set():
            try:
                write_part(jobs[-1], part % PARTS)
            except (OSError, RuntimeError):
                pass  # the job is gone

    jobs = [sf.write_job(tmp_path / "a@4")]
    tasks = [threading.Thread(target=write, args=(part,)) for part in range(2 * PARTS)]
    for task in tasks:
        task.start()
    for _ in range(40):
        time.sleep(0.01)
        jobs[-1].abort()
        jobs.append(sf.write_job(tmp_path / "a@4"))
    stop.set()
    for task in tasks:
        task.join()
    jobs[-1].abort()
    assert not (tmp_path / ".shardfeed").exists()


def test_clean_removes_jobs_that_nobody_writes(tmp_path):
    job = sf.write_job(tmp_path / "a@4")
    write_part(job, 0)
    folder = tmp_path / ".shardfeed/a.jobs" / job.id
    out = harness.succeed("clean", tmp_path / "a").out.decode()
    assert "1 unfinished upload or job is younger than 24h and was kept" in out
    assert folder.exists()
    out = harness.succeed("clean", tmp_path / "a", "--older-than", "0s", "--dry-run").out.decode()
    assert f"{folder}: would be removed" in out and folder.exists()
    out = harness.succeed("clean", f"{tmp_path}/", "--older-than", "0s").out.decode()
    assert f"{folder}: removed" in out
    assert not (tmp_path / ".shardfeed").exists()


def batch_of_stream(spec, number, job_id="0" * 16 + "7" * 16):
    """The job of a micro-batch, as pyspark_shardfeed makes it."""
    job = sf.write_job(spec)
    job.abort()
    text = json.loads(job._core.text)
    text.update(id=job_id, stem=f"{text['stem']}-{number:08}")
    batch = type(job)(json.dumps(text), ())
    batch._core.ensure()
    return batch


def test_clean_removes_what_a_stream_has_left(tmp_path):
    """By the name of the stream; datasets whose names are alike, such as that of a day, stay as they are."""
    committed = batch_of_stream(tmp_path / "a@4", 6)
    committed.commit([write_part(committed, part) for part in range(PARTS)], made_by={"query": "q", "batch": "6"})
    wanted = folder_of(tmp_path)
    batch = batch_of_stream(tmp_path / "a@4", 7)
    write_part(batch, 0)
    # As if clean had been killed, and a commit.
    hidden = batch_of_stream(tmp_path / "a@4", 123456789)
    folder = tmp_path / ".shardfeed/a-123456789.jobs"
    (folder / hidden.id).rename(folder / f".hidden-{hidden.id}-{'8' * 16}")
    for stem in ("a-00000007", "a-20261129"):
        (tmp_path / f".shardfeed/{stem}.incomplete").mkdir()
    # Of a batch that was committed, only the manifest tells what it is.
    (tmp_path / ".shardfeed/a-00000006.incomplete").mkdir()
    day, short = sf.write_job(tmp_path / "a-20261129@4"), batch_of_stream(tmp_path / "a-b@4", 8)
    batches = [f".shardfeed/{stem}" for stem in (
        "a-00000006.incomplete", "a-00000007.incomplete", f"a-00000007.jobs/{batch.id}",
        f"a-123456789.jobs/.hidden-{hidden.id}-{'8' * 16}")]
    for spec, dry_run in (("a@4", True), ("a", False)):
        told = json.loads(harness.succeed("clean", tmp_path / spec, "--older-than", "0s", "--json",
                                          *["--dry-run"] * dry_run).out)
        assert sorted(told["removed"]) == [str(tmp_path / path) for path in batches]
        assert [(tmp_path / path).exists() for path in batches] == [dry_run] * 4
    for job in (day, short):
        job.shard(0).abort()  # it is there
    assert (tmp_path / ".shardfeed/a-20261129.incomplete").exists()
    assert json.loads(harness.succeed("clean", tmp_path / "a", "--older-than", "0s", "--json").out)["removed"] == []
    batch = batch_of_stream(tmp_path / "a@4", 7)
    told = json.loads(harness.succeed("clean", tmp_path / "a", "--json").out)
    assert (told["removed"], told["kept"]) == ([], [str(tmp_path / ".shardfeed/a-00000007.jobs" / batch.id)])
    harness.succeed("clean", f"{tmp_path}/", "--older-than", "0s")
    assert folder_of(tmp_path) == wanted


COMMIT = """
import os, pickle, signal, sys, threading, time
import shardfeed as sf
job, messages, wait = pickle.load(open(sys.argv[1], "rb"))
threading.Timer(wait, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
print(job.commit(messages)["records"], flush=True)
time.sleep(10)
"""


def test_commits_that_are_killed_are_finished_by_the_next(tmp_path, wanted):
    """By time alone; scripts/faults kills commits of the same kind at every call."""
    number = random.Random(1)
    for i in range(12):
        folder = tmp_path / str(i)
        job = sf.write_job(folder / "a@4")
        messages = [write_part(job, part) for part in range(PARTS)]
        (tmp_path / "job").write_bytes(pickle.dumps((job, messages, 0.02 * number.random())))
        with pytest.raises(AssertionError):
            run_python(COMMIT, tmp_path / "job")
        assert job.commit(messages)["records"] == 46
        assert folder_of(folder) == wanted


def write_and_die(job, part):
    writer = job.shard(part)
    for row in rows_of(part):
        writer.write(row)
    if part == 2 and not pathlib.Path(os.environ["DIED"]).exists():
        pathlib.Path(os.environ["DIED"]).write_bytes(b"")
        os.kill(os.getpid(), signal.SIGKILL)
    return writer.close()


def test_a_task_that_is_killed_is_repeated(tmp_path, wanted, monkeypatch):
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    folder = tmp_path / "d"
    folder.mkdir()
    job = sf.write_job(folder / "a@4")
    messages = {}
    for attempt in range(2):
        for part in range(PARTS):
            if part in messages:
                continue
            parent, child = multiprocessing.Pipe()
            if (pid := os.fork()) == 0:
                child.send(write_and_die(job, part))
                os._exit(0)
            child.close()
            try:
                messages[part] = parent.recv()
            except EOFError:
                assert attempt == 0
            os.waitpid(pid, 0)
    job.commit([messages[part] for part in range(PARTS)])
    assert folder_of(folder) == wanted


def test_jobs_of_commands_are_committed_by_name(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("n\n" + "\n".join(map(str, range(100))) + "\n")
    out = tmp_path / "out/d@4"
    with pytest.raises(FileNotFoundError, match="there is no such job"):
        sf.commit(out, job="7")
    sf.convert("csv", table, out, only_shards="0-1", job="7")
    with pytest.raises(RuntimeError, match="parts 2-3 of 4 are missing; pass only_shards=2-3 to tasks that write them"):
        sf.commit(out, job="7")
    sf.convert("csv", table, out, only_shards="2-3", job="7")
    wanted = {"shards": 4, "records": 100, "skipped": 0, "committed_earlier": False}
    for options in ({"dry_run": True}, {}):
        found = sf.commit(str(out), job="7", **options)
        assert found.pop("bytes") > 0 and found == wanted
    assert sf.commit(out, job="7")["committed_earlier"]
    assert sorted(row["n"] for row in sf.read(out).parse()) == list(range(100))
