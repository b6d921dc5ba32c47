"""The dataset of the tests on local clusters, and what they do to look at datasets.

    scripts/test --clusters

installs Dask, Ray, Spark, Beam and Hugging Face's library into an environment of their own and runs the tests of this
folder. Tasks are killed while they write: each dataset must have every record once, or not be there."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
# Workers are processes of their own, which also import this file.
os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "python"), os.path.dirname(__file__)])

import shardfeed as sf  # noqa: E402

ROWS = 1000
SHARDS = 4


def row(i):
    return {"n": i, "x": np.arange(3, dtype=np.float32) + i, "text": b"record %d" % i,
            **({"some": np.full(i % 5, i, np.int64)} if i % 7 else {})}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("clusters") / "train@4"
    with sf.write(spec) as writer:
        for i in range(ROWS):
            writer.write(row(i))
    return str(spec)


def damaged(folder):
    """A dataset of 20 records in one shard, of which record 7 is damaged."""
    with sf.write(folder / "damaged@1") as writer:
        for n in range(20):
            writer.write({"n": n})
    path = folder / "damaged-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[len(data) // 20 * 7 + 14] ^= 1
    path.write_bytes(data)
    return f"{folder}/damaged@1"


LATE_ROWS = 720


def sampled(folder):
    """A dataset without a manifest that is too large to be looked at completely. The last record alone has `late`."""
    with sf.write(folder / "sampled@2") as writer:
        for n in range(LATE_ROWS):
            writer.write({"big": bytes(100_000), "n": n, **({"late": 0.5} if n == LATE_ROWS - 1 else {})})
    shutil.rmtree(folder / ".shardfeed")
    return f"{folder}/sampled@2"


def in_order(spec):
    """The records' numbers, shard by shard."""
    return [int(r["n"]) for r in sf.read(spec).parse({"n": sf.int64})]


def records(spec):
    return sorted(sf.read(spec))


def left_behind(spec):
    folder = pathlib.Path(spec).parent / ".shardfeed"
    return sorted(p.name for p in folder.iterdir() if p.suffix in (".jobs", ".incomplete", ".commit"))


def nothing_is_left(spec):
    """Whether a write that failed shows no file of the dataset, and `clean` removes the rest.

    A task that still runs while the job is aborted may write after the abort."""
    assert not list(spec.parent.glob("new-*"))
    subprocess.run([sys.executable, "-m", "shardfeed", "clean", str(spec), "--older-than", "0s"],
                   check=True, capture_output=True)
    return not list(spec.parent.rglob("new*"))


def example(name):
    """Runs a program of examples/python, and returns what it prints."""
    done = subprocess.run([sys.executable, REPOSITORY / "examples/python" / name], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class DiesOnce:
    """A function of a batch that kills its process the first time that it meets a number."""

    def __init__(self, flag, number):
        self.flag = str(flag)
        self.number = number

    def __call__(self, numbers):
        if self.number in list(numbers) and not os.path.exists(self.flag):
            pathlib.Path(self.flag).write_bytes(b"")
            os.kill(os.getpid(), signal.SIGKILL)
