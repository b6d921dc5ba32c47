"""States of mixtures, resumed by the same mixture and by edited ones: what was delivered must be the same in both."""

import numpy as np
import pytest
from package_data import sf, write_sources

SIZES = {"a": 300, "b": 40, "c": 1000}
LENGTH = 5000  # records of an epoch
WINDOW = 1024  # of planned rows, in records
FEATURES = {"id": sf.int64, "tokens": sf.var(sf.int64)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = str(tmp_path_factory.mktemp("edits"))
    write_sources(at, SIZES, lambda number, length: np.full(length, number))
    return at


# What follows the mixture, and whether rows are planned.
KINDS = {
    "one to one": (lambda ds: ds.parse(FEATURES), False),
    "batch": (lambda ds: ds.parse(FEATURES).batch(7), False),
    "filter": (lambda ds: ds.parse(FEATURES).filter(lambda row: row["id"] % 3 > 0), False),
    "filter and batch": (lambda ds: ds.parse(FEATURES).filter(lambda row: row["id"] % 3 > 0).batch(2), False),
    "flat_map": (lambda ds: ds.parse(FEATURES).flat_map(lambda row: [{"id": row["id"]}] * 2, output={"id": sf.int64}),
                 False),
    "enumerate": (lambda ds: ds.parse(FEATURES).enumerate(), False),
    "take": (lambda ds: ds.parse(FEATURES).take(10 ** 6), False),
    "unbatch": (lambda ds: ds.parse(FEATURES).batch(8).unbatch(), False),
    "window of a shuffle": (lambda ds: ds.parse(FEATURES).shuffle(7, 50), False),
    "bucket": (lambda ds: ds.parse(FEATURES).bucket_by_length("tokens", [20, 40], [8, 4, 2]), False),
    "pack": (lambda ds: ds.parse(FEATURES).pack("tokens", 128), False),
    "planned pack": (lambda ds: ds.parse(FEATURES).pack("tokens", 128, lengths="tokens", window=WINDOW), True),
    "planned pieces": (lambda ds: ds.parse(FEATURES).pack(
        "tokens", 128, lengths="tokens", window=WINDOW, how="concatenate"), True),
    "planned batches": (lambda ds: ds.parse(FEATURES).batch_by_length(
        "tokens", 500, lengths="tokens", window=WINDOW), True),
}


def chain(folder, kind, schedule=(), length=LENGTH, epochs=1):
    mixed = sf.mix({name: f"{folder}/{name}@3" for name in SIZES}, {"a": 3, "b": 1, "c": 2}, schedule=schedule,
                   length=length)
    return KINDS[kind][0](mixed.shuffle(seed=1).repeat(epochs))


def shown(element):
    return {name: (values.values if isinstance(values, sf.Ragged) else np.asarray(values)).tolist()
            for name, values in sorted(element.items())}


def elements(it):
    return [shown(element) for element in it]


def state_after(ds, count):
    it = ds.start(epoch=0)
    for _ in range(count):
        next(it)
    return it.state_dict()


def resumed(ds, state):
    """The elements that follow, or None if the state is refused."""
    it = ds.start()
    try:
        it.load_state_dict(state)
    except RuntimeError as error:
        assert "the state belongs to another mixture" in str(error) or "its length has changed" in str(error), error
        return None
    return elements(it)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_mixture_goes_on(folder, kind):
    ds = chain(folder, kind, epochs=2)
    whole = elements(ds.start(epoch=0))
    for stop in range(0, len(whole) + 1, max(1, len(whole) // 13)):
        assert resumed(ds, state_after(ds, stop)) == whole[stop:], stop


@pytest.mark.parametrize("kind", KINDS)
def test_edits_of_what_was_delivered_are_refused_and_others_are_not(folder, kind):
    ds = chain(folder, kind)
    whole = elements(ds.start(epoch=0))
    edits = {at: chain(folder, kind, [(at, {"a": 1, "b": 0, "c": 1})]) for at in (64, 1088, 2048, 3520, 4608)}
    others = {at: elements(edited.start(epoch=0)) for at, edited in edits.items()}
    accepted = 0
    for stop in range(1, len(whole), max(1, len(whole) // 17)):
        state = state_after(ds, stop)
        for at, edited in edits.items():
            rest = resumed(edited, state)
            if rest is not None:
                accepted += 1
                assert others[at][:stop] == whole[:stop], (stop, at)
                assert rest == others[at][stop:], (stop, at)
            else:
                # What is read of a window or a buffer is part of the past.
                ahead = WINDOW if KINDS[kind][1] else 256
                done = round(LENGTH * stop / len(whole))
                assert done + ahead + 200 > at, (stop, at)
    assert accepted > 5


@pytest.mark.parametrize("kind", ["planned pack", "planned pieces", "planned batches"])
def test_another_length_is_refused_once_it_changes_a_window_that_was_begun(folder, kind):
    ds = chain(folder, kind)
    whole = elements(ds.start(epoch=0))
    for length in (2500, 4100, 5120, 7000):
        edited = chain(folder, kind, length=length)
        other = elements(edited.start(epoch=0))
        for stop in range(1, len(whole) + 1, max(1, len(whole) // 17)):
            rest = resumed(edited, state_after(ds, stop))
            if rest is not None:
                assert other[:stop] == whole[:stop] and rest == other[stop:], (length, stop)


@pytest.mark.parametrize("kind", ["filter", "pack"])
def test_merged_states_notice_an_edited_past(folder, kind):
    def rank(number, schedule=()):
        mixed = sf.mix({name: f"{folder}/{name}@3" for name in SIZES}, {"a": 3, "b": 1, "c": 2}, schedule=schedule,
                       length=LENGTH)
        return KINDS[kind][0](mixed.shuffle(seed=1).shard(number, 3))
    states = [state_after(rank(number), 30 + 5 * number) for number in range(3)]
    merged = sf.merge_states(states)
    rank(0).start().load_state_dict(merged)
    rank(0, [(4992, {"a": 1, "b": 1, "c": 1})]).start().load_state_dict(merged)
    with pytest.raises(RuntimeError, match="the state belongs to another mixture"):
        rank(0, [(64, {"a": 1, "b": 1, "c": 1})]).start().load_state_dict(merged)
