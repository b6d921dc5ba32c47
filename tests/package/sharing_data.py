"""Common parts of the tests of sf.share."""

import sys
import threading
import uuid

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

from sharing_chains import CHAINS, digest

RECORDS = 1000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("sharing") / "train@4"
    with sf.write(spec) as writer:
        for i in range(RECORDS):
            writer.write({"n": i, "x": np.full(1200, i, np.float32), "text": b"%d " % i * (i % 300),
                          "some": [i] * (i % 4)})
    return str(spec)


@pytest.fixture
def name():
    return uuid.uuid4().hex


def run_of(it, most=10 ** 9):
    """What an iterator delivers: (digest, padding, state) of each batch."""
    made = []
    for batch in it:
        made.append((digest(batch), it.padded, it.state_dict()))
        if len(made) == most:
            break
    return made


def run_all(iterators):
    """Runs iterators side by side, each in a thread of its own."""
    made = [None] * len(iterators)

    def run(i):
        made[i] = run_of(iterators[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(iterators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def shared(spec, chain, world, name, **options):
    options = {"ranks": world, **options}
    return [sf.share(CHAINS[chain](spec, r, world), name=name, **options) for r in range(world)]


# The text of these states depends on the blocks that were read, although all of them mean the same place.
VARYING_STATES = ("shard last", "generated", "filtered", "flat")


def compared(chain, runs):
    return [[tuple(one)[:2 if chain in VARYING_STATES else 3] for one in run] for run in runs]
