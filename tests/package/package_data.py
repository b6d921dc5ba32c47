"""Common parts of the tests of the package: a dataset, a chain over it, and programs in processes of their own."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY, run

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

RECORDS = 1000


def features(i):
    return {"n": i, "x": np.arange(3, dtype=np.float32) + i, "text": b"record %d" % i,
            "some": np.full(i % 5, i, np.int64)}


SPEC = {"n": sf.int64, "x": sf.fixed(3, sf.float32), "text": sf.bytes, "some": sf.var(sf.int64)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("package") / "train@4"
    with sf.write(spec) as writer:
        for i in range(RECORDS):
            writer.write(features(i))
    return str(spec)


@pytest.fixture
def parsed(dataset):
    return sf.read(dataset).parse(SPEC)


def write_sources(at, sizes, tokens):
    """Writes datasets of these sizes by name, `at`/NAME@3, with ids that no other source has, and indexes the
    lengths of their tokens: tokens(id, length)."""
    for number, (name, size) in enumerate(sizes.items()):
        with sf.write(f"{at}/{name}@3", sync=False) as out:
            for i in range(size):
                out.write({"id": 1000 * number + i, "tokens": tokens(1000 * number + i, 1 + (i * 37 + number) % 60)})
        assert run("index", f"{at}/{name}@3", "--length", "tokens").status == 0


def numbers(ds):
    return [int(n) for batch in ds for n in np.atleast_1d(batch["n"])]


def python(code, *arguments, timeout=60, **environment):
    """Runs code in a process of its own that has the package."""
    path = os.pathsep.join([str(REPOSITORY / "python"), str(pathlib.Path(__file__).parent)])
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, timeout=timeout,
                          env={**os.environ, "PYTHONPATH": path, **environment})


def run_python(code, *arguments, **options):
    done = python(code, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def double(element):
    return {"n": element["n"], "twice": element["x"] * 2}
