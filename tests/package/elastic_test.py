"""Jobs of 1 to 1,000 ranks that are restarted with other numbers of ranks, again and again in one epoch.

All ranks run. Unlike worlds.py, which compares a few ranks with a model, this one only counts."""

import math
import random
import sys

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

RECORDS = 24_000
BATCH = 4
MOST_WORLD = 1000


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    spec = tmp_path_factory.mktemp("elastic") / "d@8"
    with sf.write(spec, sync=False) as writer:
        writer.write_batch({"n": list(range(RECORDS))})
    return spec


def worlds(draw):
    """First 1,000 ranks; then as many small worlds as large ones."""
    yield MOST_WORLD
    while True:
        yield round(math.exp(draw.uniform(0, math.log(MOST_WORLD))))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_record_once_in_an_epoch(spec, seed):
    draw = random.Random(seed)
    state, left = None, RECORDS
    seen = bytearray(RECORDS)
    restarts = 0
    for world in worlds(draw):
        is_last = left < BATCH * 50
        if is_last:  # one rank leaves nothing over
            world = 1
        most = left // (world * BATCH)
        if most == 0:  # too few for so many ranks
            continue
        # After their last batch, these ranks have ended the epoch, and drop what is left.
        batches = most if is_last else draw.randint(0, min(most - 1, max(1, 3000 // world)))
        states = set()
        for rank in range(world):
            chain = (sf.read(spec, batch=BATCH, threads=1).shuffle(seed=seed).shard(rank, world)
                     .parse({"n": sf.int64}).batch(BATCH))
            with chain.start() as it:
                if state is not None:
                    it.load_state_dict(state)
                for _ in range(batches):
                    found = next(it)["n"]
                    assert len(found) == BATCH
                    for n in found.tolist():
                        seen[n] += 1
                if batches:
                    states.add(it.state_dict()["state"])
                if is_last:
                    assert next(it, None) is None
        if batches:
            assert len(states) == 1  # one rank's state serves all
            state = {"state": states.pop()}
        left -= batches * world * BATCH
        assert sum(seen) == RECORDS - left and max(seen) <= 1
        restarts += 1
        if left == 0:
            break
    assert restarts > 5
    assert bytes(seen) == b"\1" * RECORDS


def test_repeat_after_other_steps(spec):
    """A select before repeat works on rows as steps before it do."""
    def chain(rank, world):
        return (sf.read(spec, batch=BATCH).shuffle(seed=4).shard(rank, world).parse({"n": sf.int64})
                .select("n").map(lambda row: row).select("n").repeat(2).batch(BATCH))

    whole = [n for batch in chain(0, 1) for n in batch["n"].tolist()]
    assert len(whole) == 2 * RECORDS and whole[:RECORDS] != whole[RECORDS:]
    done = 0
    state = None
    for world, batches in ((3, 100), (5, 200), (2, 2500), (1, 3)):  # the third ends behind an epoch's end
        its = [chain(rank, world).start() for rank in range(world)]
        rows = []
        for it in its:
            if state is not None:
                it.load_state_dict(state)
            rows.append([n for _ in range(batches) for n in next(it)["n"].tolist()])
        # The ranks take the rows in turn.
        assert [n for turn in zip(*rows) for n in turn] == whole[done:done + world * batches * BATCH]
        done += world * batches * BATCH
        states = {it.state_dict()["state"] for it in its}
        assert len(states) == 1
        state = {"state": states.pop()}
    assert done > RECORDS
