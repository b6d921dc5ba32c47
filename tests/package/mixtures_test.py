"""Mixtures by position, against a plain model of weights, passes and ranks."""

import collections
import json
import os
import pickle
import random
import re

import numpy as np
import pytest
from harness import run
from package_data import sf, write_sources

HERE_AND_IN_STORE = True
SIZES = {"a": 300, "b": 40, "c": 1000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = str(tmp_path_factory.mktemp("mixtures"))
    write_sources(at, SIZES, lambda number, length: np.arange(length, dtype=np.int64))
    return at


def sources(folder, names="abc"):
    return {name: f"{folder}/{name}@3" for name in names}


def ids(chain):
    parsed = chain.parse({"id": sf.int64})
    return [row["id"] for row in parsed]


def read_ids(folder, name):
    """The numbers of a source in the order of its shards."""
    return ids(sf.read(f"{folder}/{name}@3"))


def source_of(number):
    return "abc"[number // 1000]


def test_shares_hold_in_every_prefix_and_sources_repeat_by_passes(folder):
    weights = {"a": 5, "b": 2, "c": 3}
    mixed = sf.mix(sources(folder), weights, length=2500)
    got = ids(mixed.repeat(2))
    assert len(got) == 5000 and len(mixed) == 2500
    counts = collections.Counter()
    order = {name: read_ids(folder, name) for name in SIZES}
    for i, number in enumerate(got):
        for name, weight in weights.items():
            assert abs(counts[name] - i * weight / 10) < 1.2
        # Without a shuffle, each source is in its own order, over passes and epochs.
        name = source_of(number)
        assert number == order[name][counts[name] % SIZES[name]]
        counts[name] += 1


def test_a_shuffle_takes_every_record_once_in_a_pass(folder):
    mixed = sf.mix(sources(folder), {"a": 5, "b": 2, "c": 3}, length=2500)
    for window in (0, 200, None):
        got = ids(mixed.shuffle(seed=4, window=window))
        times = collections.Counter(got)
        assert abs(len([n for n in got if source_of(n) == "a"]) - 1250) <= 3
        assert all(times[n] in (3, 4, 5, 6) for n in range(300))
        assert all(times[1000 + n] in (11, 12, 13, 14) for n in range(40))
        assert all(times[2000 + n] in (0, 1) for n in range(1000))
        assert got != sorted(got)


def test_an_epoch_ends_before_a_source_would_repeat(folder):
    mixed = sf.mix(sources(folder), {"a": 5, "b": 2, "c": 3})
    got = ids(mixed)
    assert len(got) == len(mixed) == len(set(got))
    assert 196 <= len(got) <= 205
    # The next epoch continues with what the others have left.
    both = ids(mixed.repeat(2))
    assert both[:len(got)] == got
    first_of_c = [n for n in both if source_of(n) == "c"]
    assert first_of_c == read_ids(folder, "c")[:len(first_of_c)]


@pytest.mark.parametrize("window", [0, 200, None, "in order"])
def test_all_epochs_have_the_length_of_the_first_and_passes_have_every_record_once(folder, window):
    """A pass may end within an epoch that is not the first, which then has some records twice."""
    mixed = sf.mix(sources(folder), {"a": 5, "b": 2, "c": 3})
    length = len(mixed)
    chain = mixed if window == "in order" else mixed.shuffle(seed=4, window=window)
    got = ids(chain.repeat(6))
    epochs = [got[i:i + length] for i in range(0, len(got), length)]
    assert len(epochs) == 6 and len(set(epochs[0])) == len(epochs[0]) == len(epochs[5]) == length
    assert any(len(set(epoch)) < length for epoch in epochs)
    for name, size in SIZES.items():
        of_source = [n for n in got if source_of(n) == name]
        for first in range(0, len(of_source), size):
            assert len(set(of_source[first:first + size])) == len(of_source[first:first + size])


def test_without_weights_sources_have_as_many_as_records(folder):
    got = ids(sf.mix(sources(folder, "ac")))
    assert 1290 <= len(got) <= 1300
    assert got.count(0) == 1


def test_weights_change_by_schedule(folder):
    mixed = sf.mix(sources(folder), {"a": 1, "b": 0, "c": 1}, length=3000,
                   schedule=[(1000, {"a": 0, "b": 1, "c": 3})])
    got = "".join(map(source_of, ids(mixed)))
    assert abs(got[:1000].count("a") - 500) <= 1
    assert "b" not in got[:1000] and "a" not in got[1000:]
    assert abs(got[1000:].count("b") - 500) <= 1


def test_a_seed_draws_sources_at_random(folder):
    weights = {"a": 5, "b": 2, "c": 3}
    even = ids(sf.mix(sources(folder), weights, length=9000))
    drawn = {seed: ids(sf.mix(sources(folder), weights, length=9000, seed=seed)) for seed in (0, 1)}
    assert drawn[0] == ids(sf.mix(sources(folder), weights, length=9000, seed=0)) != drawn[1]
    assert len({tuple(even), *map(tuple, drawn.values())}) == 3
    for got in drawn.values():
        counts = collections.Counter()
        order = {name: read_ids(folder, name) for name in SIZES}
        for i, number in enumerate(got):
            name = source_of(number)
            assert number == order[name][counts[name] % SIZES[name]]
            counts[name] += 1
            if i + 1 == 8192:
                assert all(abs(counts[name] - 8192 * weight / 10) < 1.2 for name, weight in weights.items())
        # Runs of a source of share 1/2 are as long as those of a coin.
        runs = [len(run) for run in re.findall("a+", "".join(map(source_of, got)))]
        assert abs(np.mean(runs) - 2) < 0.2 and max(runs) > 6
    # All else holds as without a seed: passes, ranks, states, plans.
    mixed = sf.mix(sources(folder), weights, length=2500, seed=3)
    for window in (0, 200, None):
        got = ids(mixed.shuffle(seed=4, window=window))
        times = collections.Counter(got)
        assert all(times[n] in (2, 3, 4, 5, 6, 7) for n in range(300)) and all(times[2000 + n] <= 1 for n in range(1000))
        for world in (2, 3):
            ranks = [ids(mixed.shuffle(seed=4, window=window).shard(rank, world)) for rank in range(world)]
            assert [n for row in zip(*ranks) for n in row] == got[:2500 // world * world]
    rows = mixed.shuffle(seed=4).parse({"tokens": sf.var(sf.int64)}).pack("tokens", 64, lengths="tokens")
    assert sum(int((row["tokens_segment_ids"] > 0).sum()) for row in rows) > 0


def test_a_state_knows_the_seed_of_the_draws(folder):
    def chain(seed):
        return sf.mix(sources(folder), {"a": 1, "b": 1, "c": 1}, length=3000, seed=seed).parse({"id": sf.int64}).batch(10)
    it = iter(chain(7))
    next(it)
    state = it.state_dict()
    again = iter(chain(7))
    again.load_state_dict(state)
    assert next(again)["id"].tolist() == next(it)["id"].tolist()
    for other in (None, 8):
        with pytest.raises(RuntimeError, match="the seed of their draws differ"):
            iter(chain(other)).load_state_dict(state)
    with pytest.raises(ValueError, match="seed"):
        chain(-1)


def test_a_state_behind_the_end_of_shorter_epochs_is_refused(folder):
    def chain(length):
        return sf.mix(sources(folder), {"a": 1, "b": 1, "c": 1}, length=length).parse({"id": sf.int64}).batch(10)
    it = iter(chain(300))
    for _ in range(18):
        next(it)
    state = it.state_dict()
    iter(chain(200)).load_state_dict(state)
    with pytest.raises(RuntimeError, match="at position 180 of epoch 0, but epochs of this mixture have 133 records"):
        iter(chain(133)).load_state_dict(state)


def test_plan_and_replay_know_the_seed_of_the_draws(folder):
    specs = [f"{folder}/{name}@3" for name in "ab"]
    flags = ["--weights", "3,1", "--length", "1000", "--mix-seed", "5", "--batch", "10"]
    listed = run("replay", *specs, *flags, "--step", "7").out.decode()
    numbers = [int(line.split("\t")[0]) for line in listed.splitlines()]
    mixed = sf.mix(dict(zip("ab", specs)), {"a": 3, "b": 1}, length=1000, seed=5, number="number", source="source")
    batch = list(mixed.batch(10))[7]
    assert numbers == [int(n) + 300 * int(s) for n, s in zip(batch["number"], batch["source"])]
    assert run("plan", *specs, *flags).status == 0
    assert "--weights" in run("plan", specs[0], "--mix-seed", "5").err


def test_any_ranks_deliver_the_same_and_resume_each_other(folder):
    random.seed(7)
    for trial in range(5):
        mixed = sf.mix(sources(folder), {"a": random.random(), "b": 0.2, "c": 1}, length=1200)
        if trial % 3:
            mixed = mixed.shuffle(seed=trial, window=random.choice([0, 64, 300]), lanes=8)
        whole = ids(mixed.repeat(2))
        at = 0
        state = None
        while at < 1200 - 80:
            world, batch = random.randint(1, 6), random.randint(1, 4)
            steps = random.randint(1, 10)
            its = [iter(mixed.repeat(2).shard(rank, world).parse({"id": sf.int64}).batch(batch))
                   for rank in range(world)]
            for it in its:
                if state is not None:
                    it.load_state_dict(state)
            for _ in range(steps):
                if at >= 1200 - world * batch:
                    break
                got = np.stack([next(it)["id"] for it in its], 1).reshape(-1)
                assert got.tolist() == whole[at:at + len(got)]
                at += len(got)
                state = its[random.randrange(world)].state_dict()
                for it in its:
                    assert it.state_dict() == state


def test_a_run_goes_on_with_another_schedule_and_a_new_source(folder):
    def chain(schedule=(), **weights):
        return (sf.mix(sources(folder, "".join(weights)), weights, schedule=schedule, length=5000)
                .shuffle(seed=1).parse({"id": sf.int64}).batch(10))
    it = iter(chain(a=1, b=1))
    for _ in range(50):
        next(it)
    state = it.state_dict()
    rest = [next(it)["id"].tolist() for _ in range(14)]
    edited = iter(chain([(640, {"a": 1, "b": 0, "c": 2})], a=1, b=1, c=0))
    edited.load_state_dict(state)
    assert [next(edited)["id"].tolist() for _ in range(14)] == rest
    assert {source_of(n) for _ in range(20) for n in next(edited)["id"]} == {"a", "c"}
    message = ("the state belongs to another mixture: sources, their records, their weights or the seed of their draws "
               "differ before position 500 of epoch 0")
    for other in (chain(a=1, b=1.01), chain([(320, {"a": 1, "b": 2})], a=1, b=1), chain(a=1, c=1)):
        with pytest.raises(RuntimeError, match=message):
            iter(other).load_state_dict(state)
    with pytest.raises(RuntimeError, match="another chain"):
        iter(sf.read(f"{folder}/a@3").shuffle(seed=1).parse({"id": sf.int64}).batch(10)).load_state_dict(state)


def test_the_length_of_planned_rows_changes_after_whole_windows(folder):
    def chain(length):
        return (sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=length).shuffle(seed=3)
                .parse({"tokens": sf.var(sf.int64)})
                .pack("tokens", length=64, lengths="tokens", window=1024).batch(2))
    it = chain(1500).start(epoch=0)
    next(it)
    rest = [next(it)["tokens"].tolist() for _ in range(3)]
    it = chain(1500).start(epoch=0)
    next(it)
    for length in (1200, 1600, 3000):  # the first window is the same
        again = chain(length).start()
        again.load_state_dict(it.state_dict())
        assert [next(again)["tokens"].tolist() for _ in range(3)] == rest
    for _ in range(len(chain(1500)) - 2):
        next(it)
    for length in (1400, 1600):
        with pytest.raises(RuntimeError, match="their weights, the seed of their draws or the length of its epochs "
                                               "differ before position 2048 of epoch 0; weights and the length may "
                                               "change only after what was delivered, in whole windows of 1024 records"):
            chain(length).start().load_state_dict(it.state_dict())


def test_rows_are_planned_over_a_mixture(folder):
    mixed = (sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=1500).shuffle(seed=3))
    def rows(world):
        its = []
        for rank in range(world):
            chain = (mixed.shard(rank, world).parse({"tokens": sf.var(sf.int64)})
                     .pack("tokens", length=64, lengths="tokens").batch(2))
            its.append([batch["tokens"].tolist() for batch in chain])
            assert len(its[-1]) == len(chain)
        return [row for batches in zip(*its) for pair in zip(*batches) for row in pair]
    one = rows(1)
    assert sum(map(len, one)) == len(one) * 64
    for world in (2, 5):
        got = rows(world)
        assert got == one[:len(got)] and len(one) - len(got) < 2 * world


def test_elements_by_number_are_those_of_the_positions(folder):
    mixed = sf.mix({"a": f"{folder}/a@3", "b": sf.read(f"{folder}/b@3", records="10-29")},
                   {"a": 3, "b": 1}, length=500)
    parsed = mixed.parse({"id": sf.int64})
    got = ids(mixed)
    assert [parsed[i]["id"] for i in (0, 7, 499, -1)] == [got[i] for i in (0, 7, 499, -1)]
    assert [row["id"] for row in parsed[100:110]] == got[100:110]
    assert {n for n in got if n >= 1000} == set(read_ids(folder, "b")[10:30])
    path, record, _ = mixed.place(1)
    assert sf.read(path).parse({"id": sf.int64})[record]["id"] == got[1]
    with pytest.raises(TypeError, match="has no elements by number"):
        mixed.shuffle(seed=1)[0]


@pytest.mark.parametrize("order", ["in order", "window", "exact"])
def test_rows_have_the_numbers_of_their_sources_and_records(folder, order):
    mixed = sf.mix({"a": f"{folder}/a@3", "b": sf.read(f"{folder}/b@3", records="10-29"), "c": f"{folder}/c@3"},
                   {"a": 3, "b": 1, "c": 2}, length=700, source="source", number="number")
    if order != "in order":
        mixed = mixed.shuffle(seed=2, window=100 if order == "window" else None)
    assert mixed.element_spec["source"] == ("int32", (), False) and mixed.element_spec["number"] == ("int64", (), False)
    known = {name: read_ids(folder, name) for name in SIZES}
    rows = [row for world, rank in ((1, 0), (3, 1))
            for row in mixed.shard(rank, world).parse({"id": sf.int64}).repeat(2)]
    assert {int(row["source"]) for row in rows} == {0, 1, 2} and len(rows) > 1800
    for row in rows:
        assert known["abc"[row["source"]]][row["number"]] == row["id"]


def test_numbers_pass_through_packing_and_number_what_is_chosen(folder):
    mixed = sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=900, source="source", number="number")
    known = {name: read_ids(folder, name) for name in SIZES}
    chain = mixed.shuffle(seed=3, window=200).parse({"id": sf.int64, "tokens": sf.var(sf.int64)})
    rows = 0
    for batch in chain.pack("tokens", 64, lengths="tokens", keep=["id", "source", "number"]).batch(4):
        for ids_, sources_, numbers in zip(batch["id"], batch["source"], batch["number"]):
            for id_, source, number in zip(ids_, sources_, numbers):
                assert known["abc"[source]][number] == id_
                rows += 1
    assert rows == 900
    in_order = mixed.parse({"id": sf.int64})
    wanted = list(in_order)
    assert in_order[[5, 700, 899]] == [wanted[i] for i in (5, 700, 899)]
    row = mixed[5]
    assert (row["source"], row["number"]) == (wanted[5]["source"], wanted[5]["number"])
    assert isinstance(row["record"], bytes)
    only = sf.mix(sources(folder), length=50, source="from").parse({"id": sf.int64})
    assert all(source_of(row["id"]) == "abc"[row["from"]] for row in only)


def test_a_read_numbers_its_records(folder):
    known = read_ids(folder, "c")
    ds = sf.read(f"{folder}/c@3", number="n")
    for chain in (ds, ds.shuffle(seed=1, window=50), ds.interleave(2), ds.shard(1, 3),
                  sf.read(f"{folder}/c@3", number="n", records="40-99,3")):
        rows = list(chain.parse({"id": sf.int64}))
        assert rows and all(known[row["n"]] == row["id"] for row in rows)
    padded = sf.read(f"{folder}/c@3", number="n", batch=7, end="pad").shuffle(seed=4).shard(2, 3)
    rows = list(padded.parse({"id": sf.int64}))
    assert len(rows) == 336 and all(known[row["n"]] == row["id"] for row in rows)
    assert ds.parse({"id": sf.int64})[17] == {"id": known[17], "n": 17}
    it = iter(ds.shuffle(seed=1).parse({"id": sf.int64}).batch(10))
    next(it)
    state = it.state_dict()
    wanted = next(it)
    other = iter(ds.shuffle(seed=1).parse({"id": sf.int64}).batch(10))
    other.load_state_dict(state)
    got = next(other)
    assert got["n"].tolist() == wanted["n"].tolist() and [known[n] for n in got["n"]] == got["id"].tolist()


def test_bad_records_are_left_out_from_where_they_were_found(folder):
    def chain(bad):
        mixed = sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=600, source="source", number="number")
        return (mixed.shuffle(seed=5, window=100).parse({"id": sf.int64})
                .filter(lambda row: (int(row["source"]), int(row["number"])) not in bad).batch(10))

    it = iter(chain(set()))
    first = [next(it) for _ in range(20)]
    state = it.state_dict()
    rest = [row for batch in it for row in zip(batch["source"].tolist(), batch["number"].tolist())]
    # Records of the last batch, too: its loss may be what tells.
    bad = {rest[17], rest[200], *((int(batch["source"][k]), int(batch["number"][k]))
                                  for batch, k in [(first[0], 0), *((first[-1], k) for k in range(10))])}
    with chain(bad).start(epoch=0) as other:
        other.load_state_dict(state)
        got = [row for batch in other for row in zip(batch["source"].tolist(), batch["number"].tolist())]
    assert got == [row for row in rest if row not in bad] and len(got) < len(rest)


def test_a_map_hides_bad_records_from_planned_rows(folder):
    """The plan and its states stay as they are, in any world. A filter cannot precede it."""
    features = {"tokens": sf.var(sf.int64)}
    wanted = {**features, "mask": sf.var(sf.int64), "source": sf.int32, "number": sf.int64}

    def chain(bad, rank=0, world=1):
        def mask(row):
            is_bad = (int(row["source"]), int(row["number"])) in bad
            return {**row, "mask": np.full(len(row["tokens"]), 0 if is_bad else 1)}

        mixed = sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=1500, source="source", number="number")
        return (mixed.shuffle(seed=5).shard(rank, world).parse(features).map(mask, output=wanted)
                .pack(["tokens", "mask"], 64, lengths="tokens", window=1024, keep=["source", "number"]).batch(2))

    with chain(set()).start(epoch=0) as it:
        before = [next(it) for _ in range(20)]
        state = it.state_dict()
        rest = [row for batch in it for row in batch["tokens"].tolist()]
    bad = {(int(batch["source"][0][0]), int(batch["number"][0][0])) for batch in before}
    hidden = 0
    ranks = []
    for rank in range(2):
        ranks.append([])
        with chain(bad, rank, 2).start(epoch=0) as it:
            it.load_state_dict(state)
            for batch in it:
                ranks[-1] += batch["tokens"].tolist()
                for i in range(len(batch["tokens"])):
                    for k, record in enumerate(zip(batch["source"][i].tolist(), batch["number"][i].tolist()), 1):
                        of_record = batch["mask"][i][batch["tokens_segment_ids"][i] == k]
                        assert (of_record == (record not in bad)).all()
                        hidden += record in bad
    assert [row for rows in zip(*ranks) for row in rows] == rest[:len(rest) // 2 * 2] and hidden > 0
    mixed = sf.mix(sources(folder), {"a": 2, "b": 1, "c": 3}, length=1500).parse(features)
    with pytest.raises(ValueError, match="steps that keep each row may precede, which filter is not"):
        mixed.filter(lambda row: True).pack("tokens", 64, lengths="tokens")


@pytest.mark.parametrize("how", ["best_fit", "first_fit", "concatenate"])
def test_planned_rows_of_small_sources_have_every_token(folder, how):
    """Of sources that are repeated within a window, and of a window that is not full."""
    mixed = sf.mix(sources(folder), {"a": 2, "b": 5, "c": 1}, length=1500, source="source", number="number")
    parsed = mixed.shuffle(seed=5).parse({"id": sf.int64, "tokens": sf.var(sf.int64)})
    wanted = collections.Counter((int(row["id"]), len(row["tokens"])) for row in parsed)
    assert max(wanted.values()) > 20
    tokens = collections.Counter()
    for batch in parsed.pack("tokens", 64, lengths="tokens", window=1024, how=how, keep=["id"]).batch(4):
        for row, segments, numbers in zip(batch["tokens"], batch["tokens_segment_ids"], batch["id"]):
            for k, number in enumerate(numbers.tolist(), 1):
                tokens.update((number, token) for token in row[segments == k].tolist())
    assert tokens == {(number, token): times for (number, length), times in wanted.items() for token in range(length)}


def test_columns_of_numbers_take_no_name_that_is_taken(folder):
    with pytest.raises(ValueError, match="read: column 'record' would appear twice"):
        sf.read(f"{folder}/a@3", number="record")
    with pytest.raises(ValueError, match="mix: column 'n' would appear twice"):
        sf.mix(sources(folder), source="n", number="n")
    with pytest.raises(ValueError, match="there is already a column 'id', which is not a feature: give it another name"):
        sf.read(f"{folder}/a@3", number="id").parse({"id": sf.int64})
    with pytest.raises(ValueError, match="there is already a column 'tokens'"):
        sf.mix(sources(folder), source="tokens").parse()
    with pytest.raises(ValueError, match="mix: 'a' is read with number=; give it to mix, for all sources"):
        sf.mix({"a": sf.read(f"{folder}/a@3", number="n")})
    with pytest.raises(TypeError, match="number"):
        sf.read(f"{folder}/a@3", number=3)


def test_a_mixture_is_pickled_and_named(folder):
    mixed = sf.mix(sources(folder), {"a": 5, "b": 2, "c": 3}, length=100)
    assert ids(pickle.loads(pickle.dumps(mixed))) == ids(mixed)
    assert repr(mixed).startswith("mix({'a': ")


def test_sources_may_share_a_dataset_and_have_options(folder):
    mixed = sf.mix({"head": sf.read(f"{folder}/a@3", records="0-99", check_crc=False),
                    "tail": sf.read(f"{folder}/a@3", records="100-299", check_crc=False)},
                   {"head": 1, "tail": 1}, length=400)
    got = ids(mixed)
    head = set(read_ids(folder, "a")[:100])
    assert sum(n in head for n in got) == 200


SAME = {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("arguments, error, message", [
    ({"weights": {"a": 1, "b": 1}}, ValueError, "the weights from position 0 on lack 'c'; 0 leaves it out"),
    ({"weights": {"a": 1, "b": 1, "d": 1}}, ValueError, "there is a weight for 'd', but no such source"),
    ({"weights": {"a": 1, "b": -1, "c": 0}}, ValueError,
     "mix: the weight of 'b' must be a number of at least 0, got -1"),
    ({"weights": {"a": 1, "b": float("nan"), "c": 0}}, ValueError, "a finite number|weights"),
    ({"weights": {"a": 0, "b": 0, "c": 0}}, ValueError, "all weights are 0"),
    ({"weights": [1, 2, 3]}, TypeError, "weights"),
    *(({"schedule": [(7, SAME), (position, SAME)]}, error, re.escape(
        f"mix: schedule must be a list, each (an integer from 0 to {1 << 60}, a dict {{a str: a finite number}}), but "
        f"element 1 is ({position}, {{"))
      for error, positions in ((ValueError, (-1, (1 << 60) + 1, 1 << 63, 1 << 64)), (TypeError, (True, 1.5, None)))
      for position in positions),
    *(({"schedule": [(7, {**SAME, "b": weight})]}, error, "mix: schedule must be .*, not .*'b': " + re.escape(repr(weight)))
      for error, weights in ((ValueError, (float("nan"), float("inf"), (1 << 53) + 1)), (TypeError, (True, "1")))
      for weight in weights),
    ({"schedule": [(7, {**SAME, "b": -1})]}, ValueError, "mix: the weight of 'b' must be a number of at least 0, got -1"),
    ({"schedule": [(0, {"a": 1, "b": 1, "c": 1})]}, ValueError, "weights change at position 0, and again at 0"),
    ({"length": 0}, ValueError, "length"),
    ({"seed": "1"}, TypeError, "seed"),
    ({"seed": -1}, ValueError, "seed"),
    *(({name: value}, error, f"mix: {name} must be")
      for name in ("length", "seed")
      for value, error in ((1 << 64, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError))),
    ({"length": 1 << 63}, ValueError, "mix: length must be at most"),
    ({"exact": True}, TypeError, "exact"),
])
def test_wrong_arguments_are_refused(folder, arguments, error, message):
    with pytest.raises(error, match=message):
        sf.mix(sources(folder), **arguments)


def test_sources_with_steps_or_other_options_are_refused(folder):
    a = sf.read(f"{folder}/a@3")
    with pytest.raises(TypeError, match="mix: 'a' is read.*shuffle.*put the other steps after the mix"):
        sf.mix({"a": a.shuffle(seed=1), "b": f"{folder}/b@3"})
    with pytest.raises(ValueError, match="mix: 'b' is read with other options than 'a'"):
        sf.mix({"a": a, "b": sf.read(f"{folder}/b@3", check_crc=False)})
    unlike_others = sf.read(f"{folder}/b@3", check_crc=False)
    assert len(sf.mix({"a": f"{folder}/a@3", "b": unlike_others}, length=10)) == 10
    assert sf.read(f"{folder}/a@3")._arguments[2:] == sf.sources._READ_OPTIONS
    with pytest.raises(ValueError, match="there are no sources"):
        sf.mix({})
    with pytest.raises(FileNotFoundError):
        sf.mix({"a": a, "b": f"{folder}/none@3"})
    with sf.write(f"{folder}/empty@1", overwrite=True):
        pass
    with pytest.raises(ValueError, match="mix: 'e' has no records; leave it out, or set its weight to 0"):
        len(sf.mix({"a": a, "e": f"{folder}/empty@1"}, {"a": 1, "e": 1}))
    with pytest.raises(ValueError, match="their shards cannot be interleaved"):
        sf.mix({"a": a}).interleave(2)


def test_many_sources_are_one_reader(folder, tmp_path):
    names = {}
    for i in range(100):
        with sf.write(f"{tmp_path}/s{i}@1", sync=False) as out:
            for j in range(20):
                out.write({"id": i * 100 + j})
        names[f"s{i}"] = f"{tmp_path}/s{i}@1"
    got = ids(sf.mix(names, length=2000).shuffle(seed=1))
    assert len(got) == 2000
    # The shares are rounded, and met within one record.
    times = collections.Counter(n // 100 for n in got)
    assert len(times) == 100 and set(times.values()) <= {19, 20, 21}
    assert max(collections.Counter(got).values()) <= 2
    before = set(os.listdir("/proc/self/task"))
    it = iter(sf.mix(names, length=2000).shuffle(seed=1).batch(10))
    next(it)
    assert len(set(os.listdir("/proc/self/task")) - before) < 40


def test_plan_and_replay_know_mixtures(folder):
    specs = [f"{folder}/a@3", f"{folder}/b@3"]
    options = ["--weights", "3,1", "--weights", "600:1,1", "--length", "1000"]
    shuffled = [*options, "--shuffle", "5", "--window", "64", "--lanes", "8"]
    chain = (sf.mix({"a": specs[0], "b": specs[1]}, {"a": 3, "b": 1}, schedule=[(600, {"a": 1, "b": 1})], length=1000)
             .shuffle(seed=5, window=64, lanes=8))
    got = ids(chain)
    records = read_ids(folder, "a") + read_ids(folder, "b")
    done = run("replay", *specs, *shuffled, "--step", "3", "--batch", "10", "--world", "4", "--rank", "2")
    assert done.status == 0, done.err
    lines = done.out.decode().splitlines()
    assert [records[int(line.split("\t")[0])] for line in lines] == got[122:162:4]
    # A record of a mixture may come several times.
    for number in (7, 305):
        done = run("replay", *specs, *shuffled, "--find", str(number), "--json")
        places = json.loads(done.out)
        assert sorted(place["position"] for place in places) == [
            i for i, one in enumerate(got) if one == records[number]]
    done = run("replay", *specs, "--weights", "1,1", "--length", "10", "--find", "200")
    assert done.out == b"record 200 is not in epoch 0\n"
    done = run("replay", *specs, *options, "--pack", "64", "--lengths", "tokens", "--find", "305")
    assert done.status == 0 and done.out.count(b"elements 0 to") == sum(
        one == records[305] for one in ids(sf.mix({"a": specs[0], "b": specs[1]}, {"a": 3, "b": 1}, length=1000,
                                                  schedule=[(600, {"a": 1, "b": 1})])))
    plan = run("plan", *specs, *shuffled)
    assert b"data:    340 records in 6 shards" in plan.out
    assert b"b@3: 350, 35.0 % of an epoch, of 40 records" in plan.out
    assert b"mixing:" not in plan.out
    assert "displacement" not in json.loads(run("plan", *specs, *options, "--json").out)


@pytest.mark.parametrize("options, message", [
    (["--weights", "1"], "--weights '1': expected a number for each of 2 datasets"),
    (["--weights", "1,x"], "--weights '1,x': expected a number for each of 2 datasets"),
    (["--weights", "x:1,1"], "such as 0.8,0.2, or 1000000:0.5,0.5 from a position on"),
    (["--weights", "1,-1"], "must be a number of at least 0, got -1"),
    (["--length", "5"], "--weights"),
    (["--weights", "1,1", "--records", "0-3"], "records are selected in each source of a mixture"),
])
def test_wrong_options_are_refused(folder, options, message):
    done = run("plan", f"{folder}/a@3", f"{folder}/b@3", *options)
    assert done.status != 0 and message in done.err
