"""States of chains that repeat, saved at any point and loaded by any number of ranks."""

import sys

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

EPOCH, BATCH, STEPS = 24, 8, 12


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("resume") / "train@3"
    with sf.write(spec) as writer:
        for n in range(EPOCH):
            writer.write({"n": n})
    return spec


def run(dataset, rank, world, window):
    return iter(sf.read(dataset).shuffle(seed=1, window=window).shard(rank, world).repeat()
                .parse({"n": sf.int64}).batch(BATCH // world))


def step(iterators):
    return sorted(n for it in iterators for n in next(it)["n"].tolist())


@pytest.mark.parametrize("window", [0, 4, None])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_any_number_of_ranks_goes_on_in_any_epoch(dataset, window, world):
    iterators = [run(dataset, rank, 2, window) for rank in range(2)]
    steps, states = [], []
    for _ in range(STEPS):
        steps.append(step(iterators))
        states.append(iterators[0].state_dict())
    assert len({tuple(s) for s in steps}) > EPOCH // BATCH  # each epoch has its own order
    for done, state in enumerate(states, 1):
        others = [run(dataset, rank, world, window) for rank in range(world)]
        for it in others:
            it.load_state_dict(state)
        assert [step(others) for _ in range(STEPS - done)] == steps[done:]
