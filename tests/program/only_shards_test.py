"""Many processes write one dataset: convert --only-shards, then commit. For reshard --only-shards, see
only_shards_reshard_test.py."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time

import fault_points
import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, fail, succeed
from harness import tree_without_jobs as dataset

SHARDS = 7


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """Enough lines for several batches in each shard, some of them equal."""
    return harness.write_lines(tmp_path_factory.mktemp("lines") / "lines.jsonl", records=9_000, different=8_000)


@pytest.fixture(scope="module")
def sources(lines, tmp_path_factory):
    """Arguments of convert, by name: kind, source and options."""
    folder = tmp_path_factory.mktemp("sources")
    table = folder / "table.csv"
    table.write_text("a,b,empty\n" + "".join(f"{i},word{i % 7},\n" for i in range(500)))
    broken = folder / "broken.jsonl"
    broken.write_text("".join('{"i": %d}\n' % i if i % 50 else '{"i": "no\n' for i in range(500)))
    convert("jsonl", lines, folder / "records@3", "--compression", "zlib")
    shutil.copytree(TESTDATA / "images", folder / "images")
    (folder / "images/Thumbs.db").write_bytes(b"x")
    return {
        "jsonl": ("jsonl", lines),
        "jsonl shuffled": ("jsonl", lines, "--shuffle", "3"),
        "jsonl gzip": ("jsonl", lines, "--compression", "gzip", "--level", "1"),
        "jsonl zlib shuffled": ("jsonl", lines, "--compression", "zlib", "--shuffle", "1",
                                "--member-size", "8KiB"),
        "jsonl without duplicates": ("jsonl", lines, "--dedup"),
        "jsonl limited": ("jsonl", lines, "--limit", "100", "--shuffle", "2"),
        "jsonl few": ("jsonl", lines, "--limit", "3"),
        "jsonl none": ("jsonl", lines, "--limit", "0"),
        "jsonl broken": ("jsonl", broken, "--on-error", "skip", "--max-skipped", "5%"),
        "csv": ("csv", table),
        "csv shuffled": ("csv", table, "--shuffle", "9", "--columns", "b,a"),
        "imagefolder": ("imagefolder", folder / "images"),
        "imagefolder in order": ("imagefolder", folder / "images", "--no-shuffle", "--resize-shorter", "20"),
        "tfrecord": ("tfrecord", folder / "records@3"),
        "tfrecord shuffled": ("tfrecord", folder / "records@3", "--shuffle", "1"),
    }


NAMES = ["jsonl", "jsonl shuffled", "jsonl gzip", "jsonl zlib shuffled", "jsonl without duplicates",
         "jsonl limited", "jsonl few", "jsonl none", "jsonl broken", "csv", "csv shuffled", "imagefolder",
         "imagefolder in order", "tfrecord", "tfrecord shuffled"]


def arguments(source, out, shards, job="7", name=f"d@{SHARDS}"):
    kind, path, *options = source
    return ["convert", kind, path, out / name, *options, "--only-shards", shards, "--job", job]


def task(source, out, shards, *more, **options):
    return to_end(source)(*arguments(source, out, shards, **options), *more)


def commit(out, *more, job="7", name=f"d@{SHARDS}", end=succeed):
    return end("commit", out / name, "--job", job, *more)


def alone(source, folder):
    kind, path, *options = source
    to_end(source)("convert", kind, path, folder / f"d@{SHARDS}", "-q", *options)
    return dataset(folder)


def to_end(source):
    """What runs a command on the source: records are left out where that is allowed."""
    return harness.leave_out if "--on-error" in source else succeed


def job_of(out, job="7"):
    return out / ".shardfeed/d.jobs" / job


@pytest.mark.parametrize("name", NAMES)
def test_tasks_write_the_bytes_of_one_process(sources, name, tmp_path):
    wanted = alone(sources[name], tmp_path / "alone")
    ranges = ["0", "1-2,5", "3-4", "6-"]
    random.Random(name).shuffle(ranges)
    out = tmp_path / "out"
    for i, shards in enumerate(ranges):
        assert not dataset(out) if out.exists() else True
        task(sources[name], out, shards, "-q", "-j", i + 1)
    commit(out, "-q", end=to_end(sources[name]))
    assert dataset(out) == wanted
    assert harness.verify(out / f"d@{SHARDS}")["defects"] == []


def test_tasks_at_the_same_time(sources, tmp_path):
    """Each shard is written twice."""
    wanted = alone(sources["jsonl shuffled"], tmp_path / "alone")
    out = tmp_path / "out"
    running = [subprocess.Popen(harness.command(*arguments(sources["jsonl shuffled"], out, i % SHARDS), "-q"))
               for i in range(2 * SHARDS)]
    assert [process.wait() for process in running] == [0] * len(running)
    commit(out)
    assert dataset(out) == wanted
    assert sorted(os.listdir(job_of(out))) == ["committed", "job"]


def test_what_is_printed(sources, tmp_path):
    out = tmp_path / "out"
    first = task(sources["csv"], out, "2,0-1").out.decode()
    assert 'note: column "empty" is empty in every row' in first
    assert f"{out}/d@7, shards 0-2 of job 7: 214 records, " in first and " in 3 shards, " in first
    told = task(sources["csv"], out, "1-6", "--json").json
    assert told["dataset"] == f"{out}/d@7" and told["job"] == "7"
    assert told["only_shards"] == "1-6" and told["shards"] == 4 and told["shards_taken_over"] == 2
    assert told["records"] == 500 - 214
    would = commit(out, "--dry-run").out.decode()
    assert "note: all parts of job 7 are finished; nothing was changed" in would
    assert not dataset(out)
    kind, path, *_ = sources["csv"]
    one = convert(kind, path, tmp_path / "alone/d@7", "--json").json
    told = commit(out, "--json").json
    assert {key for key in one} < {key for key in told}
    for key in ("shards", "records", "bytes", "notes", "skipped"):
        assert told[key] == one[key]
    assert told["committed_earlier"] is False and told["dry_run"] is False
    assert commit(out, "--json").json["committed_earlier"] is True


def test_a_second_commit_says_so(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "0-6")
    text = commit(out).out.decode()
    assert f"{out}/d@7: 500 records, " in text and " in 7 shards, " in text and "earlier" not in text
    before = harness.tree(out)
    for name in ("d@7", "d"):
        text = commit(out, name=name).out.decode()
        assert "note: job 7 was committed earlier" in text
        assert f"{out}/d@7: 500 records, " in text
    assert harness.tree(out) == before
    convert("csv", sources["csv"][1], out / "d@5", "--overwrite")
    assert "its dataset has been replaced since" in fail(USAGE, "commit", out / "d@7", "--job", "7")
    shutil.rmtree(out)
    assert "there is no such job" in fail(IO_FAILED, "commit", out / "d@7", "--job", "7")


def test_missing_parts_are_listed(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "1,3-5")
    for more in ([], ["--dry-run"]):
        error = fail(USAGE, "commit", out / "d@7", "--job", "7", *more)
        assert error == (f"{job_of(out, '7')}: parts 0, 2, 6 of 7 are missing; "
                         "pass --only-shards 0,2,6 to tasks that write them")
    task(sources["csv"], out, "0,2")
    error = fail(USAGE, "commit", out / "d@7", "--job", "7")
    assert error == f"{job_of(out, '7')}: part 6 of 7 is missing; pass --only-shards 6 to a task that writes it"
    assert not dataset(out)
    task(sources["csv"], out, "6")
    (shard,) = job_of(out).glob("*/00003.shard")
    shard.unlink()
    error = fail(USAGE, "commit", out / "d@7", "--job", "7")
    assert error == (f"{job_of(out)}: part 3 of 7 is missing "
                     f"({shard}: the file of a finished part is gone; write the part again); "
                     "pass --only-shards 3 to a task that writes it")
    shutil.copy(next(job_of(out).glob("*/00002.shard")), shard)
    shard.write_bytes(b"")
    assert "00003.shard: expected the file of a finished part with" in fail(
        USAGE, "commit", out / "d@7", "--job", "7")
    task(sources["csv"], out, "0-6")
    commit(out)


def spoil_message(message):
    message.write_text(message.read_text().replace('"skipped":0', '"skipped":3'))


def spoil_totals(message):
    def change(said):
        said["shard"]["records"] += 1

    message.write_text(harness.changed_message(message.read_text(), change))


def spoil_index(message):
    index = message.with_suffix(".index")
    index.write_bytes(bytes(index.stat().st_size))


def spoil_input(message):
    (message.parent / "input").unlink()


def spoil_by_size(message):
    os.truncate(message, 65 << 20)


@pytest.mark.parametrize("spoil, told", [
    (spoil_message, "not the message of this part: its checksum does not match it; if nothing has changed it, another "
                    "version of shardfeed has written it"), (spoil_totals, "not the index of the shard"),
    (spoil_index, "00003.index: it is damaged"), (spoil_input, "the description of its input is missing"),
    (spoil_by_size, "not the message of this part: it is missing, too large, or no regular file")])
def test_parts_that_are_damaged_are_written_again(sources, tmp_path, spoil, told):
    """Tasks and the commit agree about which parts are finished."""
    out = tmp_path / "out"
    wanted = alone(sources["csv"], tmp_path / "alone")
    task(sources["csv"], out, "0-6")
    (message,) = job_of(out).glob("*/00003.message")
    spoil(message)
    for more in ([], ["--dry-run"]):
        assert told in fail(USAGE, "commit", out / "d@7", "--job", "7", *more)
    assert not dataset(out)
    task(sources["csv"], out, "0-6")
    commit(out)
    assert dataset(out) == wanted


def test_a_commit_tells_no_rates(sources, tmp_path):
    """The tasks have written the records, which took their time."""
    out = tmp_path / "out"
    task(sources["csv"], out, "0-6")
    for more in (["--dry-run"], [], []):
        told = succeed("commit", out / "d@7", "--job", "7", *more).out.decode()
        assert re.search(r"d@7: [\d,]+ records, .* in 7 shards, [\d.]+ s\n$", told), told


def test_dry_runs_tell_what_the_commit_would(sources, tmp_path):
    out = tmp_path / "out"
    convert("csv", sources["csv"][1], out / "d@3")
    succeed(*arguments(sources["csv"], out, "0-6"), "--overwrite")
    for more in ([], ["--dry-run"]):
        assert "there is a dataset of this name" in fail(USAGE, "commit", out / "d@7", "--job", "7", *more)
    convert("csv", sources["csv"][1], out / "d@5", "--overwrite")
    for more in ([], ["--dry-run"]):
        assert "another dataset of this name has been written" in fail(
            USAGE, "commit", out / "d@7", "--job", "7", "--overwrite", *more)


def test_cleaning_removes_jobs_alone(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "0-6")
    jobs = out / ".shardfeed/d.jobs"
    other = jobs / "notes"
    other.mkdir()
    (other / "file").write_text("mine")
    succeed("clean", out / "d", "--older-than", "0s")
    assert [p.name for p in jobs.iterdir()] == ["notes"]
    moved = tmp_path / "elsewhere"
    jobs.rename(moved)
    jobs.symlink_to(moved)
    assert "found a symbolic link" in fail(USAGE, "clean", out / "d", "--older-than", "0s")
    assert (moved / "notes/file").read_text() == "mine"


def test_parts_that_are_finished_are_not_written_again(sources, tmp_path):
    wanted = alone(sources["jsonl shuffled"], tmp_path / "alone")
    out = tmp_path / "out"
    task(sources["jsonl shuffled"], out, "2-3")
    assert "note: 2 shards were taken over" in task(sources["jsonl shuffled"], out, "1-4").out.decode()
    text = task(sources["jsonl shuffled"], out, "2-3").out.decode()
    assert "note: 2 shards were taken over" in text and "0 records" in text
    assert len(list(job_of(out).glob("*/00003.shard"))) == 1
    assert len([path for path in job_of(out).iterdir() if path.is_dir()]) == 2
    task(sources["jsonl shuffled"], out, "0-6")
    commit(out)
    assert dataset(out) == wanted


def test_tasks_do_not_build_records_of_others(tmp_path):
    """A broken image after the sample, whose records show the size of a record."""
    folder = tmp_path / "images/a"
    folder.mkdir(parents=True)
    image = (TESTDATA / "images").rglob("*.jpg")
    data = next(image).read_bytes()
    for i in range(1_400):
        (folder / f"{i:04}.jpg").write_bytes(data if i != 1_300 else data[:100])
    source = ("imagefolder", tmp_path / "images", "--no-shuffle")
    out = tmp_path / "out"
    task(source, out, "0-5")
    assert "1300.jpg" in fail(DEFECTS, *arguments(source, out, "6"))
    assert "part 6 of 7 is missing" in fail(USAGE, "commit", out / "d@7", "--job", "7")


def test_all_tasks_together_may_leave_out_only_so_many_records(tmp_path):
    images = tmp_path / "images/a"
    images.mkdir(parents=True)
    data = next((TESTDATA / "images").rglob("*.jpg")).read_bytes()
    for i in range(70):
        (images / f"{i:02}.jpg").write_bytes(data if i % 10 else b"no image")
    source = ("imagefolder", tmp_path / "images", "--on-error", "skip")
    kind, path, *options = source
    wanted = "at least 7 records are broken, and no more than 6 may be left out"
    assert wanted in fail(DEFECTS, "convert", kind, path, tmp_path / "x@7", *options, "-j1", "--max-skipped", "6")
    out = tmp_path / "out"
    for shards in ("0-2", "3-6"):
        task((*source, "--max-skipped", "6"), out, shards)
    assert wanted in fail(DEFECTS, "commit", out / "d@7", "--job", "7")
    assert not dataset(out)
    for shards in ("0-2", "3-6"):
        task((*source, "--max-skipped", "7"), out, shards, job="8")
    commit(out, job="8", end=harness.leave_out)
    assert dataset(out) == alone((*source, "--max-skipped", "7"), tmp_path / "alone")


def test_tasks_with_other_options_are_refused(sources, lines, tmp_path):
    out = tmp_path / "out"
    kind, path = sources["jsonl"]
    task(sources["jsonl"], out, "0")
    for more, told in [(["--compression", "gzip"], "compression: 'none', but this task has 'gzip'"),
                       (["--shuffle", "1"], "shuffle: 'no', but this task has 'seed 1'"),
                       (["--limit", "10"], "limit: none, but this task has '10'"),
                       (["--dedup"], "dedup: none, but this task has 'by content'"),
                       (["--no-sync"], "sync: 'yes', but this task has 'no'")]:
        error = fail(USAGE, *arguments((kind, path, *more), out, "1"))
        assert error == (f"{job_of(out)}: the job has another option, {told}; all tasks of a job need the same options, "
                         "and another job another name")
    assert "shards: '7', but this task has '8'" in fail(
        USAGE, *arguments(sources["jsonl"], out, "1", name="d@8"))
    assert "source: " in fail(USAGE, *arguments((kind, tmp_path / "other.jsonl"), out, "1"))
    assert "command: 'convert jsonl', but this task has 'convert text'" in fail(
        USAGE, *arguments(("text", path), out, "1"))
    assert "the job writes d@7, not d@8" in fail(USAGE, "commit", out / "d@8", "--job", "7")
    assert len(list(job_of(out).iterdir())) == 2


def test_tasks_that_disagree_about_the_input_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join('{"i": %d}\n' % i for i in range(100)))
    source = ("jsonl", path)
    out = tmp_path / "out"
    task(source, out, "0-3")
    shutil.copytree(job_of(out), tmp_path / "aside")
    os.utime(path, (1, 1))
    error = fail(USAGE, *arguments(source, out, "4-6"))
    assert "the tasks disagree about the names, sizes or times of the input's files; remove the folder" in error
    (older,) = job_of(out).glob("00000-*")
    shutil.rmtree(older)
    task(source, out, "4-6")
    shutil.copytree(tmp_path / "aside" / older.name, older)
    error = fail(USAGE, "commit", out / "d@7", "--job", "7")
    (newer,) = job_of(out).glob("00004-*")
    assert error == (f"{older}/input and {newer}/input: the tasks disagree about the names, sizes or times "
                     "of the input's files; remove the folder of the one that is wrong, and write its parts "
                     "again")
    assert not dataset(out)
    shutil.rmtree(older)
    task(source, out, "0-3")
    commit(out)
    assert dataset(out) == alone(source, tmp_path / "alone")


def test_a_task_that_finds_no_input_leaves_no_job(sources, tmp_path):
    out = tmp_path / "out"
    fail(IO_FAILED, *arguments(("jsonl", tmp_path / "wrong.jsonl"), out, "0"))
    assert not out.exists() or not list(out.rglob("*"))
    task(sources["jsonl"], out, "0")


def test_datasets_that_are_there_stay(sources, tmp_path):
    out = tmp_path / "out"
    other = alone(sources["jsonl"], out)
    assert "there is a dataset of this name; pass --overwrite to replace it" in fail(
        USAGE, *arguments(sources["csv"], out, "0"))
    task(sources["csv"], out, "0-6", "--overwrite")
    assert dataset(out) == other
    assert "there is a dataset of this name; pass --overwrite to replace it" in fail(
        USAGE, "commit", out / "d@7", "--job", "7")
    assert dataset(out) == other
    commit(out, "--overwrite")
    assert dataset(out) == alone(sources["csv"], tmp_path / "alone")
    task(sources["csv"], out, "0-6", "--overwrite", job="8")
    convert("jsonl", sources["jsonl"][1], out / f"d@{SHARDS}", "--overwrite")
    assert "another dataset of this name has been written since the job was created" in fail(
        USAGE, "commit", out / "d@7", "--job", "8", "--overwrite")
    assert dataset(out) == other


def test_late_tasks_change_nothing(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "0-6")
    commit(out)
    before = harness.tree(out)
    for more in ([], ["--overwrite"]):
        error = fail(USAGE, *arguments(sources["csv"], out, "3"), *more)
        assert error == (f"{job_of(out)}/committed: the job has been committed; choose another name for a "
                         "new one")
    assert harness.tree(out) == before


def wait_for(process, condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_tasks_that_are_killed_run_again(lines, tmp_path, name):
    source = ("jsonl", lines, "--compression", "gzip", "--level", "9", "--shuffle", "1")
    wanted = alone(source, tmp_path / "alone")
    out = tmp_path / "out"
    process = subprocess.Popen(harness.command(*arguments(source, out, "0-6"), "-q", "-j", "1"),
                               stderr=subprocess.PIPE)
    wait_for(process, lambda: list(out.glob(".shardfeed/d.jobs/7/*/*.message")))
    process.send_signal(getattr(signal, name))
    error = process.stderr.read().decode()
    assert process.wait() == (-signal.SIGKILL if name == "SIGKILL" else harness.INTERRUPTED)
    if name == "SIGTERM":
        assert "of 7 shards are finished and stay in the job" in error
    finished = len(list(job_of(out).glob("*/*.message")))
    assert 0 < finished < SHARDS
    assert "missing" in fail(USAGE, "commit", out / "d@7", "--job", "7")
    told = task(source, out, "0-6", "--json").json
    assert told["shards_taken_over"] == finished and told["shards"] == SHARDS - finished
    commit(out)
    assert dataset(out) == wanted
    assert sorted(os.listdir(job_of(out))) == ["committed", "job"]


def test_tasks_that_are_killed_anywhere_run_again(faults, sources, tmp_path):
    """At some of the calls on files, or with an error at them."""
    kind, path, *options = sources["csv"]
    wanted = alone(sources["csv"], tmp_path / "alone")
    line = harness.command("convert", kind, path, "o/d@7", *options, "-q", "-j", "1", "--only-shards", "2-4",
                           "--job", "7")

    def run(folder, **fault):
        return fault_points.run_in(folder, line, LD_PRELOAD=str(faults), FAULTS_CALLS="all",
                                   FAULTS_UNDER=fault_points.under(folder), **fault)

    (tmp_path / "whole").mkdir()
    done = run(tmp_path / "whole", COUNT_TO=str(tmp_path / "calls"))
    assert done.returncode == harness.DONE
    calls = (tmp_path / "calls").read_text().split()
    assert len(calls) > 50
    for number, call in list(enumerate(calls, 1))[::7]:
        for fault in ({"KILL_AT": str(number)},
                      {"FAIL_AT": str(number), "FAIL_WITH": str(errno.EIO), "FAIL_CALL": call}):
            folder = tmp_path / f"{number}{len(fault)}"
            folder.mkdir()
            done = run(folder, **fault)
            assert done.returncode in (harness.DONE, harness.IO_FAILED, -signal.SIGKILL), done.stderr
            done = fault_points.run_in(folder, line)
            assert done.returncode == harness.DONE, (number, call, fault, done.stderr)
            task(sources["csv"], folder / "o", "0-1,5-6", "-q")
            commit(folder / "o", "-q")
            assert dataset(folder / "o") == wanted
            assert sorted(os.listdir(job_of(folder / "o"))) == ["committed", "job"]


def test_commits_that_are_killed_are_finished_by_the_next(sources, tmp_path):
    """By time alone; scripts/faults kills commits of the same kind at every call."""
    number = random.Random(1)
    wanted = alone(sources["csv"], tmp_path / "alone")
    out = tmp_path / "ready"
    task(sources["csv"], out, "0-3")
    task(sources["csv"], out, "2-6")
    for i in range(15):
        copy = tmp_path / str(i)
        shutil.copytree(out, copy)
        process = subprocess.Popen(harness.command("commit", copy / "d@7", "--job", "7", "-q"))
        time.sleep(0.04 * number.random())
        process.kill()
        process.wait()
        commit(copy)
        assert dataset(copy) == wanted
        assert sorted(os.listdir(job_of(copy))) == ["committed", "job"]


def test_clean_removes_jobs(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "0-3")
    assert "1 unfinished upload or job is younger than 24h and was kept" in succeed(
        "clean", out / "d").out.decode()
    task(sources["csv"], out, "4-6")
    commit(out)
    assert succeed("clean", out / "d").out == b"nothing was left behind\n"
    assert succeed("clean", out).out.decode() == (
        f"nothing was left behind\nto clean all datasets in the folder, pass {out}/\n")
    assert job_of(out).exists()
    task(sources["csv"], out, "4-6", "--overwrite", job="8.b")
    text = succeed("clean", out / "d", "--older-than", "0s").out.decode()
    assert f"{job_of(out)}: removed" in text and f"{job_of(out, '8.b')}: removed" in text
    assert not job_of(out).parent.exists()
    harness.verify(out / "d@7")


def test_links_in_place_of_the_jobs_are_not_followed(sources, tmp_path):
    out = tmp_path / "out"
    task(sources["csv"], out, "0-6")
    jobs = out / ".shardfeed/d.jobs"
    jobs.rename(tmp_path / "elsewhere")
    jobs.symlink_to(tmp_path / "elsewhere")
    before = harness.tree(tmp_path)
    message = f"{jobs}: expected the folder of jobs, found a symbolic link; remove it"
    assert message in fail(USAGE, *arguments(sources["csv"], out, "0-6"))
    assert message in commit(out, end=lambda *command: fail(USAGE, *command))
    assert harness.tree(tmp_path) == before


def test_wrong_use(sources, tmp_path):
    out = tmp_path / "out"
    kind, path = sources["jsonl"]
    base = ["convert", kind, path, out / "d@7"]
    both = ["--only-shards", "0", "--job", "7"]
    for line, told in [
        ([*base, "--only-shards", "0"], "--only-shards: tasks that write some of the shards need a name"),
        ([*base, "--job", "7"], "--job: a task of a job needs the numbers of the shards that it writes"),
        ([*base, *both, "--resume"], "--resume cannot be combined with --only-shards: a task that runs again"),
        ([*base, *both, "--split", "a=0.5,b=0.5"], "--split cannot be combined with --only-shards: a job"),
        ([*base, *both, "--tfds"], "--tfds cannot be combined with --only-shards: it describes"),
        (["convert", kind, path, out / "d", *both, "--shard-size", "1M"],
         "--shard-size cannot be combined with --only-shards: all tasks need one number of shards"),
        (["convert", kind, "-", out / "d@7", *both],
         "standard input (-) or a pipe cannot be combined with --only-shards: each task reads the whole input"),
        (["convert", kind, path, out / "d", *both], "--only-shards: the number of shards is missing"),
        (["convert", kind, path, "http://host/d@7", *both], "http://host/d@7: HTTP servers are only read"),
        ([*base, "--only-shards", "7", "--job", "7"], "shard 7 does not exist: there are 7 shards"),
        ([*base, "--only-shards", "x", "--job", "7"], "'x': expected a list of shard numbers such as"),
        ([*base, "--only-shards", "0-18446744073709551615", "--job", "7"], "does not exist: there are 7"),
        ([*base, "--only-shards", "0", "--job", "a/b"], "expected the name of a job, which has at most 64"),
        ([*base, "--only-shards", "0", "--job", ".."], "expected the name of a job, which has at most 64"),
        (["commit", out / "d@7", "--job", "a b"], "expected the name of a job, which has at most 64"),
        (["commit", "http://host/d@7", "--job", "7"], "HTTP servers are only read"),
    ]:
        assert told in fail(USAGE, *line), line
    assert "--job is required" in harness.run("commit", out / "d@7").err
    assert not out.exists()
    assert "there is no such job: no task has begun it, or it has been cleaned" in fail(
        IO_FAILED, "commit", out / "d@7", "--job", "7")
