"""merge_states: chains whose ranks advance unevenly resume with any number of ranks."""

import json
import random
import sys

import numpy as np
import pytest
import worlds
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True

RECORDS = 211


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    spec = str(tmp_path_factory.mktemp("merging") / "d@5")
    with sf.write(spec) as writer:
        for n in range(RECORDS):
            writer.write({"n": n, "text": b"x" * (n % 7)})
    return spec


def rows_of(n):
    """The rows that flat_map makes of record n: none to four."""
    return [n * 10 + part for part in range(n * 7 % 5)]


ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(3, 2),
    "shuffle": lambda ds: ds.shuffle(seed=3),
    "window": lambda ds: ds.shuffle(seed=3, window=40),
    "exact": lambda ds: ds.shuffle(seed=3, window=None),
}


def parsed(ds):
    return ds.parse({"n": sf.int64, "text": sf.bytes})


def made(rows):
    return rows.flat_map(lambda row: [{"n": value} for value in rows_of(int(row["n"]))],
                         output={"n": sf.int64})


def keep_odd(row):
    return row["n"] % 2 == 1


def tokens_of(n):
    return [n * 10 + i for i in range(n % 7)]


def packed(rows):
    return rows.map(lambda row: {"n": tokens_of(int(row["n"]))},
                    output={"n": sf.ragged(sf.int64)}).pack("n", 9, open=4, pad=-1)


ALL = range(RECORDS)
TOKENS = [token for n in ALL for token in tokens_of(n)]
MADE = [value for n in ALL for value in rows_of(n)]
# The steps after the reader, and the values that all ranks together deliver in an epoch.
CHAINS = {
    "filter": (lambda ds: parsed(ds).filter(keep_odd), [n for n in ALL if n % 2]),
    "filter and batches": (lambda ds: parsed(ds).filter(keep_odd).batch(4), [n for n in ALL if n % 2]),
    "flat_map": (lambda ds: made(parsed(ds)), MADE),
    "flat_map and batches": (lambda ds: made(parsed(ds)).batch(3), MADE),
    "flat_map and filter": (lambda ds: made(parsed(ds)).filter(keep_odd).batch(2),
                            [n for n in MADE if n % 2]),
    "batches taken apart": (lambda ds: parsed(ds).batch(5).unbatch().filter(keep_odd).batch(3),
                            [n for n in ALL if n % 2]),
    "batches, flat_map, batches": (
        lambda ds: made(parsed(ds).batch(5).unbatch()).batch(7).unbatch().batch(2), MADE),
    "batch_by_length": (lambda ds: parsed(ds).batch_by_length("text", 12), list(ALL)),
    "ignore_errors": (lambda ds: parsed(ds).map(worlds.fail_on_fifths, output={"n": sf.int64}).ignore_errors(
        max_ignored="100%").batch(3), [n for n in ALL if n % 5]),
    # Steps that hold rows back.
    "shuffle": (lambda ds: parsed(ds).filter(keep_odd).shuffle(seed=5, window=16),
                [n for n in ALL if n % 2]),
    "shuffle and batches": (lambda ds: parsed(ds).shuffle(seed=5, window=30).batch(4), list(ALL)),
    "shuffle of batches": (lambda ds: parsed(ds).batch(3).shuffle(seed=5, window=5), list(ALL)),
    "shuffle and filter": (lambda ds: parsed(ds).shuffle(seed=5, window=30).filter(keep_odd).batch(3),
                           [n for n in ALL if n % 2]),
    "two shuffles": (lambda ds: parsed(ds).shuffle(seed=5, window=9).shuffle(seed=6, window=20), list(ALL)),
    "flat_map and shuffle": (lambda ds: made(parsed(ds)).shuffle(seed=5, window=16).batch(3), MADE),
    "shuffle and flat_map": (lambda ds: made(parsed(ds).shuffle(seed=5, window=16)).batch(3), MADE),
    "shuffle, flat_map, shuffle": (
        lambda ds: made(parsed(ds).shuffle(seed=5, window=16)).shuffle(seed=6, window=7), MADE),
    "buckets": (lambda ds: parsed(ds).bucket_by_length("text", [2, 5], [3, 4, 2]), list(ALL)),
    "buckets by a function": (
        lambda ds: parsed(ds).bucket_by_length(boundaries=[2, 5], sizes=[3, 4, 2],
                                               length=lambda row: len(row["text"])), list(ALL)),
    "buckets, unbatched": (
        lambda ds: parsed(ds).bucket_by_length("text", [2, 5], [3, 4, 2]).unbatch(), list(ALL)),
    "groups": (lambda ds: made(parsed(ds)).group_by_window(lambda row: int(row["n"]) % 7, 5), MADE),
    "shuffle, flat_map, groups": (
        lambda ds: made(parsed(ds).shuffle(seed=5, window=16)).group_by_window(
            lambda row: int(row["n"]) % 7, 5).unbatch(), MADE),
    "packed": (lambda ds: packed(parsed(ds)), TOKENS),
    "packed batches": (lambda ds: packed(parsed(ds).filter(keep_odd)).batch(2),
                       [token for token in TOKENS if token // 10 % 2]),
    "packed by flat_map": (
        lambda ds: made(parsed(ds)).map(lambda row: {"n": [row["n"]] * 3},
                                        output={"n": sf.ragged(sf.int64)}).pack("n", 8, pad=-1),
        [value for value in MADE for _ in range(3)]),
}


def run(ds, chain, rank, world, states, elements, threads=2):
    """Runs rank `rank` of `world` from `states`, if there are any, for `elements` elements."""
    it = CHAINS[chain][0](ds.shard(rank, world)).start(epoch=0, threads=threads)
    if states:
        it.load_state_dict(sf.merge_states(states))
    got = []
    for _, element in zip(range(elements), it):
        got += [int(n) for n in np.ravel(element["n"]) if n >= 0]  # packed rows end with -1
    return got, it.state_dict()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chain", CHAINS)
def test_every_row_comes_once_however_often_the_ranks_change(spec, chain, order):
    draw = random.Random(f"{chain} {order}")
    for _ in range(4):
        ds = ORDERS[order](sf.read(spec))
        delivered, states = [], None
        for world in draw.choices([1, 2, 3, 4, 7], k=draw.randint(1, 4)):
            results = [run(ds, chain, rank, world, states, draw.choice([0, 1, 3, 8, 20]))
                       for rank in range(world)]
            states = [state for _, state in results]
            draw.shuffle(states)
            for got, _ in results:
                delivered += got
        # One rank takes the rest, so that none is dropped for equal numbers.
        delivered += run(ds, chain, 0, 1, states, 10**9)[0]
        assert sorted(delivered) == sorted(CHAINS[chain][1]), chain


def test_ranks_have_as_many_records_of_what_is_left(spec):
    states = []
    for rank, elements in enumerate([40, 3, 0]):
        it = parsed(sf.read(spec).shard(rank, 3)).filter(lambda row: True).start(epoch=0)
        for _ in range(elements):
            next(it)
        states.append(it.state_dict())
    merged = sf.merge_states(states)
    counts = []
    for rank in range(4):
        it = parsed(sf.read(spec).shard(rank, 4)).filter(lambda row: True).start()
        it.load_state_dict(merged)
        counts.append(sum(1 for _ in it))
    assert counts == [(RECORDS - 43) // 4] * 4


def test_a_merged_run_is_resumed_by_its_own_ranks_too(spec):
    ds = sf.read(spec).shuffle(seed=1)
    states = [run(ds, "flat_map and batches", rank, 2, None, 3 + 7 * rank)[1] for rank in range(2)]
    merged = sf.merge_states(states)
    for rank in range(3):
        def start(state):
            it = CHAINS["flat_map and batches"][0](ds.shard(rank, 3)).start(epoch=0)
            it.load_state_dict(state)
            return it
        whole = [worlds.values_of(b) for b in start(merged)]
        it = start(merged)
        for n, expected in enumerate(whole):
            assert worlds.values_of(next(it)) == expected
            if n % 4 == 0:
                it = start(json.loads(json.dumps(it.state_dict())))


def test_random_numbers_are_those_of_the_records(spec):
    def chain(rank, world):
        ds = parsed(sf.read(spec).shuffle(seed=2).shard(rank, world)).filter(keep_odd)
        return ds.map(lambda row, rng: {"n": row["n"], "draw": rng.integers(0, 1 << 40)},
                      seed=5, output={"n": sf.int64, "draw": sf.int64})

    expected = {int(row["n"]): int(row["draw"]) for row in chain(0, 1).start(epoch=0)}
    states, drawn = [], {}
    for rank in range(3):
        it = chain(rank, 3).start(epoch=0)
        for _ in range(5 * rank):
            row = next(it)
            drawn[int(row["n"])] = int(row["draw"])
        states.append(it.state_dict())
    it = chain(0, 1).start()
    it.load_state_dict(sf.merge_states(states))
    drawn.update((int(row["n"]), int(row["draw"])) for row in it)
    assert drawn == expected


def test_epochs_that_the_reader_repeats(spec):
    def chain(rank, world):
        return parsed(sf.read(spec).shuffle(seed=2).shard(rank, world).repeat(3)).filter(keep_odd)

    states, got = [], []
    for rank in range(2):
        it = chain(rank, 2).start(epoch=0)
        got += [int(next(it)["n"]) for _ in range(60 + 9 * rank)]  # within the second epoch
        states.append(it.state_dict())
    it = chain(0, 1).start(epoch=0)
    it.load_state_dict(sf.merge_states(states))
    got += [int(row["n"]) for row in it]
    # Two ranks have dropped the last record of the first epoch, whichever that was.
    odd = [n for n in ALL if n % 2]
    assert len(odd) * 3 - 1 <= len(got) <= len(odd) * 3
    assert all(got.count(n) in (2, 3) for n in odd)

    ahead = chain(1, 2).start(epoch=0)
    for _ in range(60):
        next(ahead)
    behind = chain(0, 2).start(epoch=0)
    next(behind)
    with pytest.raises(RuntimeError, match="rank 1 has delivered rows of epoch 1, but other ranks of epoch "
                                           "0: merge states of one epoch"):
        sf.merge_states([behind.state_dict(), ahead.state_dict()])


def test_states_of_chains_whose_ranks_advance_evenly_are_one(spec):
    its = [parsed(sf.read(spec).shard(rank, 2)).batch(4).start(epoch=0) for rank in range(2)]
    for it in its:
        next(it)
    states = [it.state_dict() for it in its]
    assert sf.merge_states(states) == states[0] == states[1]
    next(its[0])
    with pytest.raises(RuntimeError, match="ranks that have delivered different numbers of elements"):
        sf.merge_states([it.state_dict() for it in its])


@pytest.mark.parametrize(("step", "name"), [
    (lambda ds: ds.take(9), "take"),
    (lambda ds: ds.enumerate(), "enumerate"),
    (lambda ds: ds.unique("n"), "unique"),
    (lambda ds: ds.map(lambda row: row).flat_map(lambda row: [row, row]).flat_map(
        lambda row: [row, row]), "flat_map"),
    (lambda ds: sf.mix([ds, ds]), "mix"),
    (lambda ds: ds.filter(keep_odd).repeat(2), "repeat"),
    (lambda ds: ds.filter(keep_odd).batch(4).map(lambda b: {"n": b["n"][:2]}, batched=True), "map"),
])
def test_chains_that_cannot_be_merged_name_the_step(spec, step, name):
    states = []
    for rank in range(2):
        it = step(sf.read(spec).shard(rank, 2).parse({"n": sf.int64})).start()
        next(it)
        states.append(it.state_dict())
    with pytest.raises(RuntimeError, match=f"states of a chain with '{name}.*' cannot be merged"):
        sf.merge_states(states)


def test_wrong_states_are_refused(spec):
    def states(world, seed=1):
        return [run(sf.read(spec).shuffle(seed=seed), "filter", rank, world, None, 2)[1]
                for rank in range(world)]

    three = states(3)
    with pytest.raises(ValueError, match="no states were given"):
        sf.merge_states([])
    with pytest.raises(ValueError, match="expected a list with the state of each rank"):
        sf.merge_states(three[0])
    with pytest.raises(ValueError, match="expected a result of state_dict"):
        sf.merge_states(["x"])
    with pytest.raises(ValueError, match="not a state of a shardfeed pipeline"):
        sf.merge_states([{"state": "{}"}])
    with pytest.raises(RuntimeError, match="the state of rank 1 of 3 is missing"):
        sf.merge_states([three[0], three[2]])
    with pytest.raises(RuntimeError, match="the state of rank 2 of 3 is missing"):
        sf.merge_states(three[:2])
    with pytest.raises(RuntimeError, match="the state of rank 1 was given twice"):
        sf.merge_states([three[0], three[1], three[1]])
    with pytest.raises(RuntimeError, match="the states are of several runs"):
        sf.merge_states(three[:2] + states(2)[1:])
    with pytest.raises(RuntimeError, match="the states are of several runs: one of chain"):
        sf.merge_states(states(2)[:1] + states(2, seed=2)[1:])
    it = CHAINS["filter"][0](sf.read(spec).shuffle(seed=1).shard(0, 2)).start()
    with pytest.raises(RuntimeError, match="'filter', so a state is valid only for the same rank of the same "
                                           "number of ranks; merge_states merges"):
        it.load_state_dict(three[0])
    state = json.loads(sf.merge_states(three)["state"])
    for key, value in [("behind", 1 << 63), ("left", [0, 0, 5]), ("left", [7]), ("left", [5, 1, 10**9]),
                       ("parts", [1]), ("epoch", -1), ("behind", None)]:
        lying = {**state, "merged": {**state["merged"], key: value}}
        with pytest.raises(ValueError, match="the state is damaged"):
            it.load_state_dict({"state": json.dumps(lying)})
    state = json.loads(three[1]["state"])
    for delivered in ([0, 1 << 63, 0], [0, 0, 0], [0, 5, 0], [1]):
        lying = {"state": json.dumps({**state, "delivered": delivered})}
        with pytest.raises(ValueError, match="the state is damaged"):
            sf.merge_states([three[0], lying, three[2]])


def test_states_are_small(spec):
    states = [run(sf.read(spec).shuffle(seed=1), "flat_map and batches", rank, 8, None, rank)[1]
              for rank in range(8)]
    assert max(len(state["state"]) for state in states) < 400
    assert len(sf.merge_states(states)["state"]) < 1000


def test_rows_that_are_held_back_of_the_epoch_before_are_named(spec):
    it = parsed(sf.read(spec).shard(0, 1).repeat(2)).shuffle(seed=1, window=50).start(epoch=0)
    for _ in range(RECORDS - 2):
        next(it)
    with pytest.raises(RuntimeError, match="rank 0 has taken rows of epoch 1 but still holds back some of "
                                           "epoch 0: merge states saved in the middle of an epoch"):
        sf.merge_states([it.state_dict()])


def test_states_that_lie_about_what_is_held_back_are_damaged(spec):
    it = parsed(sf.read(spec).shard(0, 2)).shuffle(seed=1, window=9).start(epoch=0)
    next(it)
    state = json.loads(it.state_dict()["state"])
    other = parsed(sf.read(spec).shard(1, 2)).shuffle(seed=1, window=9).start(epoch=0).state_dict()
    assert sum(state["held"][4::3][:state["held"][1]]) == 8  # of runs, the numbers of records
    for held in ([0, 1, 1, 1, 1, 0], [0, 1, 500, 2, 1, 0], [0, 1, 0, 2, 99, 0], [0, 1, 0, 2, 5],
                 [0, 1, 0, 2, 2**62, 0], [0, 9, 0, 2, 1, 0], [0, 1, 0, 2**62, 3, 0], [0], "2",
                 [0, 0, 1, 2**63, 1], [0, 1, -1, 2, 1, 0]):
        with pytest.raises((ValueError, RuntimeError), match="the state is damaged"):
            sf.merge_states([{"state": json.dumps({**state, "held": held})}, other])
