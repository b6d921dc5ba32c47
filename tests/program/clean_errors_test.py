"""`shardfeed clean` when a call on files fails: what it says was removed is gone, and what is young is kept."""

import errno
import os
import shutil
import time

import harness
import pytest
from harness import DONE, succeed


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"line {i}\n" for i in range(50)))
    return path


def every_failure(faults, tmp_path, make):
    """Runs clean on what make(folder) leaves, once for each call on files, which fails, and once without a
    failure. Yields the folder and what the command did."""
    number, calls = 0, 5
    while number <= calls:
        number += 1
        folder, counted = tmp_path / str(number), tmp_path / f"calls{number}"
        make(folder)
        done = harness.run("clean", folder / "d", "--older-than", "1h", env={
            **os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(folder), "FAULTS_CALLS": "all",
            "FAIL_AT": str(number), "FAIL_WITH": str(errno.EIO), "COUNT_TO": str(counted)})
        calls = len(counted.read_text().splitlines())
        assert done.status in (DONE, harness.IO_FAILED), done.err
        yield folder, done


def test_a_young_job_is_kept(faults, lines, tmp_path):
    """A job is as old as the latest change in it, which cannot be found if a folder cannot be listed."""
    def make(folder):
        succeed("convert", "text", lines, folder / "d@2", "--only-shards", "0", "--job", "7")
        old = time.time() - 7200
        os.utime(folder / ".shardfeed/d.jobs/7", (old, old))

    statuses = set()
    for folder, done in every_failure(faults, tmp_path, make):
        assert (folder / ".shardfeed/d.jobs/7/job").exists(), done.err
        statuses.add(done.status)
    assert statuses == {DONE, harness.IO_FAILED}


def test_what_a_killed_writer_left_is_gone_or_an_error_is_told(faults, lines, tmp_path):
    def make(folder):
        folder.mkdir()
        harness.run("convert", "text", lines, folder / "d@2", env={
            **os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(folder), "KILL_AT": "12"})
        assert (folder / ".shardfeed/d.incomplete").exists()

    statuses = set()
    for folder, done in every_failure(faults, tmp_path, make):
        if done.status == DONE and "removed" in done.out.decode():
            assert not (folder / ".shardfeed/d.incomplete").exists(), done.out
        statuses.add(done.status)
        shutil.rmtree(folder)
    assert statuses == {DONE, harness.IO_FAILED}
