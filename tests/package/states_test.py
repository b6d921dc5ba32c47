"""The package: states and the end of iterators."""

import pickle

import pytest
from package_data import dataset, parsed, sf

HERE_AND_IN_STORE = True


def test_states_at_any_element(dataset):
    chains = [
        sf.read(dataset).shuffle(7, window=100).parse({"n": sf.int64}).repeat(2),
        sf.read(dataset).parse({"n": sf.int64}).map(lambda e: {"n": e["n"] + 1}).batch(7).repeat(2),
        sf.read(dataset).parse({"n": sf.int64}).filter(lambda e: e["n"] % 3 == 0).batch(5),
    ]
    for ds in chains:
        whole = list(map(str, ds))
        for stop in (0, 1, 13, len(whole) - 1, len(whole)):
            it = ds.start(epoch=0)
            for _ in range(stop):
                next(it)
            state = pickle.loads(pickle.dumps(it.state_dict()))
            it.close()
            other = iter(ds)
            other.load_state_dict(state)
            assert list(map(str, other)) == whole[stop:]


def test_states_go_on_with_another_number_of_ranks(dataset):
    def chain(rank, world, size):
        return sf.read(dataset).shuffle(3, window=64).shard(rank, world).parse(
            {"n": sf.int64}).batch(size)

    def global_batches(world, size, state, count):
        its = [iter(chain(r, world, size)) for r in range(world)]
        for it in its:
            if state:
                it.load_state_dict(state)
        batches = [frozenset(n for it in its for n in next(it)["n"].tolist()) for _ in range(count)]
        return batches, its[0].state_dict()

    whole, _ = global_batches(2, 20, None, 25)
    first, state = global_batches(2, 20, None, 10)
    assert first == whole[:10]
    for world in (1, 4):
        assert global_batches(world, 40 // world, state, 15)[0] == whole[10:]


def test_states_of_other_chains_are_refused(parsed):
    state = iter(parsed.batch(3)).state_dict()
    with pytest.raises(RuntimeError, match="another chain"):
        iter(parsed.skip(1).batch(3)).load_state_dict(state)
    with pytest.raises(ValueError):
        iter(parsed).load_state_dict({"x": 1})
    with pytest.raises(RuntimeError, match="deterministic"):
        parsed.start(deterministic=False).state_dict()


def test_states_with_each_element(parsed):
    whole = [batch["n"].tolist() for batch in parsed.batch(20)]
    for every in (1, 3, 12):
        it, found = iter(parsed.batch(20)), []
        for i, batch in enumerate(it):
            found.append(batch["n"].tolist())
            if i % every == 0:
                other = iter(parsed.batch(20))
                other.load_state_dict(it.state_dict())
                assert next(other, {"n": None})["n"].tolist() == whole[i + 1] if i < 49 else True
                other.close()
        assert found == whole


def test_stats_and_closing(parsed):
    with parsed.batch(10).start(threads=2) as it:
        next(it)
        stats = it.stats()
        assert stats["elements"] == 1 and stats["rows"] == 10 and stats["verdict"]
        assert stats["stages"][0]["threads"] == 2
    assert it.closed and "closed" in repr(it)
    with pytest.raises(ValueError, match="closed"):
        next(it)
    with pytest.raises(ValueError):
        it.stats()
