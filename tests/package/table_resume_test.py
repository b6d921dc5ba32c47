"""`convert KIND --resume` of the kinds that Python reads: whatever an interrupted run left, the result is that of one that
was not interrupted."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys

import harness
import pytest
import table_cases
from harness import DEFECTS, DONE, INTERRUPTED, USAGE, tree
from package_data import sf
from table_cases import NAMES, SHARDS, make_sources
from tables_test import ENVIRONMENT, convert, shardfeed


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


# Runs the command, and then puts back the job as a process leaves it that is killed after its commit.
LEAVE = """
import os, shutil, sys
from shardfeed import jobs
name, commit = sys.argv.pop(1), jobs.WriteJob.commit
def leave(job, *arguments, **options):
    folder = os.path.join(os.path.dirname(job.spec), ".shardfeed", "x.jobs")
    shutil.copytree(folder, folder + ".kept", copy_function=os.link)
    done = commit(job, *arguments, **options)
    os.rename(folder + ".kept", folder)
    os.rename(os.path.join(folder, job.id), os.path.join(folder, name.replace("ID", job.id)))
    return done
jobs.WriteJob.commit = leave
from shardfeed.tables import program
sys.exit(program.main("parquet", sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["ID", ".hidden-ID-0123456789abcdef"])
@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_what_a_run_left_that_was_killed_after_its_commit_is_removed(sources, tmp_path, name, options):
    out = tmp_path / f"out/x@{SHARDS}"
    if options:
        convert("parquet", sources["parquet"][1], out, "--limit", "5")
    command = [sys.executable, "-c", LEAVE, name, str(sources["parquet"][1]), str(out), "--resume", *options]
    assert subprocess.run(command, env=ENVIRONMENT, capture_output=True).returncode == DONE
    whole = {path: text for path, text in tree(tmp_path / "out").items() if ".jobs" not in str(path)}
    assert len(list((tmp_path / "out/.shardfeed/x.jobs").rglob("*.shard"))) == SHARDS
    assert convert("parquet", sources["parquet"][1], out, "--resume")["datasets_complete"] == 1
    assert not (tmp_path / "out/.shardfeed/x.jobs").exists() and tree(tmp_path / "out") == whole


def test_what_another_run_has_finished_is_kept_beside_a_complete_dataset(sources, tmp_path):
    kind, source = sources["parquet"]
    out = tmp_path / f"out/x@{SHARDS}"
    convert(kind, source, out)
    assert cut(4, "SIGKILL", (kind, source, "--overwrite"), out).status == -signal.SIGKILL
    assert convert(kind, source, out, "--resume")["datasets_complete"] == 1
    assert len(left(out)) == 1
    assert convert(kind, source, out, "--resume", "--overwrite")["shards_taken_over"] > 0


@pytest.mark.parametrize("damage, why", [("remove", "cannot be read: No such file or directory"),
                                         ("cut", "has 100 bytes instead of ")])
def test_a_dataset_that_lacks_a_shard_is_not_complete(sources, tmp_path, damage, why):
    kind, source = sources["parquet"]
    out = tmp_path / f"out/x@{SHARDS}"
    convert(kind, source, out)
    shard = tmp_path / f"out/x-00003-of-0000{SHARDS}"
    os.remove(shard) if damage == "remove" else os.truncate(shard, 100)
    result = shardfeed("convert", kind, source, out, "--resume")
    assert result.status == DEFECTS and result.err.startswith(
        f"shardfeed: {shard}: the dataset was complete, but this shard {why}"), result.err
    assert result.err.endswith("; pass --overwrite to write the dataset again\n")
    with pytest.raises(sf.DataLossError, match="pass overwrite=True to write the dataset again"):
        sf.convert(kind, source, out, resume=True)
    assert convert(kind, source, out, "--resume", "--overwrite")["records"] == 3000
    assert shardfeed("convert", kind, source, out, "--resume").status == DONE


def later(path):
    """Makes a file newer than all that there are."""
    os.utime(path, (4e9, 4e9))
    return path


def kept(*arguments):
    report = convert(*arguments, "--resume")
    assert report["datasets_complete"] == 1
    return [note for note in report["notes"] if "the dataset was complete and is kept" in note]


def test_a_note_names_what_was_modified_since(sources, tmp_path):
    kind, source = "parquet", tmp_path / "t.parquet"
    source.write_bytes(sources["parquet"][1].read_bytes())
    schema = tmp_path / "s.json"
    schema.write_text('{"i": "int64"}')
    model = tmp_path / "m/model@2"
    convert(kind, source, model)
    arguments = (kind, source, tmp_path / "out/x@3", "--schema", schema, "--like", model)
    convert(*arguments)
    assert kept(*arguments) == []
    for path in (model.parent / ".shardfeed/model.manifest.json", schema, source):  # the first of several is named
        later(path)
        assert kept(*arguments) == [f"the dataset was complete and is kept, although {path} was modified after that; "
                                    "pass --overwrite to convert it again"]


def test_a_schema_from_a_pipe_was_not_compared(sources, tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def run():
        writer = subprocess.Popen(["sh", "-c", f"echo '{{\"i\": \"int64\"}}' > {tmp_path}/pipe"])
        try:
            return convert("parquet", sources["parquet"][1], tmp_path / "out/x@3", "--columns", "i", "--schema",
                           tmp_path / "pipe", "--resume")
        finally:
            writer.wait(10)
    assert run()["notes"] == []
    assert run()["notes"] == [f"the dataset was complete and is kept, although what {tmp_path}/pipe has now was not "
                              "compared; pass --overwrite to convert it again"]


def test_a_folder_of_lmdb_that_was_modified_since(sources, tmp_path):
    if "lmdb" not in sources:
        pytest.skip("its library is not installed")
    shutil.copytree(sources["lmdb"][1], tmp_path / "db")
    arguments = ("lmdb", tmp_path / "db", tmp_path / "out/x@3", "--format", "raw")
    convert(*arguments)
    assert kept(*arguments) == []
    path = later(tmp_path / "db/data.mdb")
    assert f"although {path} was modified" in kept(*arguments)[0]


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
