"""`shardfeed clean --older-than 0s` beside a task that begins a job: both are stopped at calls on files,
and go on in another order."""

import os
import shutil
import signal
import subprocess

import harness
import pytest
from harness import DONE, succeed

GONE = "does not exist: the job has been committed, aborted or cleaned"


@pytest.fixture
def out(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{i},word{i}\n" for i in range(50)))
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


class Stopped:
    """A command that stops before its call number `at` on files below a folder."""

    def __init__(self, faults, folder, at, *arguments):
        self.process = subprocess.Popen(
            harness.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(folder),
                 "FAULTS_CALLS": "changes", "STOP_AT": str(at)})
        ended = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.is_stopped = ended.si_code == os.CLD_STOPPED

    def end(self):
        """Returns its status and what it says."""
        if self.is_stopped:
            self.process.send_signal(signal.SIGCONT)
        told = self.process.communicate(timeout=60)[1].decode()
        return self.process.returncode, told


def task(out, shards="0"):
    return ("convert", "csv", out.parent / "rows.csv", out / "d@2", "--only-shards", shards, "--job", "7",
            "-j", "1")


def clean(out):
    return "clean", out / "d", "--older-than", "0s"


def check(out, end):
    """A task that `clean` has met: it is done or says that its job is gone, and nothing stays forever."""
    status, told = end
    assert status == DONE or GONE in told, told
    job = out / ".shardfeed/d.jobs/7"
    assert not job.exists() or (job / "job").exists()
    if status == DONE and job.exists():
        succeed(*task(out, "0-1"))
        succeed("commit", out / "d@2", "--job", "7")
        assert succeed("verify", out / "d@2", "--json").json["records"] == 50
    succeed(*clean(out))
    assert not list(out.rglob("d.jobs"))


def empty(out):
    shutil.rmtree(out)
    out.mkdir()


def test_cleaning_at_every_call_of_a_task(faults, out):
    at = 1
    while True:
        stopped = Stopped(faults, out, at, *task(out))
        succeed(*clean(out))
        check(out, stopped.end())
        empty(out)
        if not stopped.is_stopped:
            break
        at += 1
    assert at > 10


def test_a_task_that_begins_at_every_call_of_cleaning(faults, out):
    calls = out.parent / "calls"
    subprocess.run(harness.command(*task(out)), check=True, capture_output=True,
                   env={**os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(out),
                        "FAULTS_CALLS": "changes", "COUNT_TO": str(calls)})
    succeed(*clean(out))
    # The first renames the description, the second gives the job its name.
    named = [i for i, name in enumerate(calls.read_text().split(), 1) if name == "rename"][1]
    at = 1
    while True:
        first = Stopped(faults, out, named, *task(out))
        assert first.is_stopped
        assert [p.name[:9] for p in (out / ".shardfeed/d.jobs").iterdir()] == [".hidden-7"]
        cleaning = Stopped(faults, out, at, *clean(out))
        end = first.end()
        assert cleaning.end()[0] == DONE
        check(out, end)
        empty(out)
        if not cleaning.is_stopped:
            break
        at += 1
    assert at > 3
