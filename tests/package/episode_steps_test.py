"""steps(): the steps of episodes, against a plain model, in any order, world and through resumes."""

import random
import struct
import sys

import numpy as np
import pytest
from harness import REPOSITORY, run
from random_worlds import check_random_worlds

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True
EPISODES = 230
ORDERS = {
    "in order": lambda ds: ds,
    "window": lambda ds: ds.shuffle(seed=3, window=64, chunk=2, lanes=4),
    "exact": lambda ds: ds.shuffle(seed=3, window=None),
}
FEATURES = {"steps/is_first": sf.ragged(sf.int64), "steps/image": sf.ragged(sf.bytes), "steps/action": sf.ragged(sf.float32, 2),
            "instruction": sf.bytes, "episode": sf.int64}
# What a row has of each column.
AROUND = {"steps/image": 0, "steps/action": (-1, 3)}


def length_of(episode):
    return (episode * 7919) % 23 if episode % 11 else 0


def action(episode, step):
    return [episode, step]


def write(spec, episodes=EPISODES, image=lambda episode, step: b"image %d of %d" % (step, episode)):
    with sf.write(spec, sync=False) as out:
        for e in range(episodes):
            steps = range(length_of(e))
            out.write({"steps/is_first": [int(s == 0) for s in steps], "steps/image": [image(e, s) for s in steps],
                       "steps/action": np.float32([action(e, s) for s in steps]).ravel(),
                       "instruction": b"do %d" % e, "episode": e})
    assert run("index", spec, "--length", "steps/is_first").status == 0


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    spec = str(tmp_path_factory.mktemp("episodes") / "robot@5")
    write(spec)
    return spec


def episodes(spec, order="window", rank=0, world=1, **reading):
    return ORDERS[order](sf.read(spec, **reading)).shard(rank, world).parse(FEATURES)


def steps(spec, *where, columns=AROUND, reading=None, **options):
    return episodes(spec, *where, **(reading or {})).steps(columns, lengths="steps/is_first",
                                                           **{"number": "step", **options})


def check(row):
    """Compares a row with the model; returns its episode and step."""
    e, s = int(row["episode"]), int(row["step"])
    assert row["steps/image"] == b"image %d of %d" % (s, e) and row["instruction"] == b"do %d" % e
    around = [s - 1, s, s + 1, s + 2]
    there = [min(max(at, 0), length_of(e) - 1) for at in around]
    assert row["steps/action"].tolist() == [action(e, at) for at in there]
    if "steps/action_mask" in row:
        assert row["steps/action_mask"].tolist() == [int(at == wanted) for at, wanted in zip(there, around)]
    return e, s


ALL = [(e, s) for e in range(EPISODES) for s in range(length_of(e))]


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("window", [None, 1, 40])
def test_every_step_comes_once_in_an_epoch(spec, order, window):
    ds = steps(spec, order, window=window)
    assert ds.element_spec["steps/image"] == ("bytes", (), False)
    assert ds.element_spec["steps/action"] == ("float32", (4, 2), False)
    assert ds.element_spec["steps/action_mask"] == ("uint8", (4,), False)
    assert "steps/is_first" not in ds.element_spec
    got = [check(row) for row in ds.start(epoch=0)]
    assert len(got) == len(ds) == len(ALL) and sorted(got) == ALL
    if order == "in order":
        numbers = [int(row["episode"]) for row in episodes(spec, order)]
        assert got == [(e, s) for e in numbers for s in range(length_of(e))]
    elif window != 1:
        # The steps of an episode are not next to each other, nor in order.
        assert sum(a[0] == b[0] for a, b in zip(got, got[1:])) < len(got) / 4
        again = [check(row) for row in ds.start(epoch=1)]
        assert sorted(again) == ALL and again != got
        other_seed = episodes(spec, "in order").steps(AROUND, lengths="steps/is_first", number="step")
        assert [check(row) for row in other_seed] != got


def test_rows_without_all_elements_are_left_out_on_request(spec):
    ds = steps(spec, ends="drop")
    assert "steps/action_mask" not in ds.element_spec
    got = [check(row) for row in ds]
    assert sorted(got) == [(e, s) for e, s in ALL if s >= 1 and s + 2 < length_of(e)] and len(got) == len(ds)
    later = steps(spec, columns={"steps/image": 0, "steps/is_first": 3}, ends="drop")
    assert sorted((int(row["episode"]), int(row["step"])) for row in later) == [
        (e, s) for e, s in ALL if s + 3 < length_of(e)]


@pytest.mark.parametrize("order", list(ORDERS))
def test_random_worlds_kills_and_resumes(spec, order):
    draw = random.Random(order)
    wanted = [check(row) for row in steps(spec, order, window=50).start(epoch=0)]
    check_random_worlds(
        draw, wanted,
        lambda rank, world, batch: steps(spec, order, rank, world, window=50, reading={"batch": batch}).batch(batch),
        lambda made: list(zip(made["episode"].tolist(), made["step"].tolist())), sizes=[1, 2, 5], most=30, rounds=5)


def test_ranks_have_equally_many_steps_each_once(spec):
    ranks = [[check(row) for row in steps(spec, "window", rank, 4).start(epoch=0)] for rank in range(4)]
    assert {len(of_rank) for of_rank in ranks} == {len(ALL) // 4}
    assert len(set().union(*ranks)) == len(ALL) // 4 * 4


def test_images_of_steps_are_decoded(tmp_path):
    def bitmap(e, s):
        pixels = bytes([(e * 40 + s) % 256] * 48)
        return b"BM" + struct.pack("<IIIIiiHHIIiiII", 102, 0, 54, 40, 4, 4, 1, 24, 0, 48, 0, 0, 0, 0) + pixels

    spec = str(tmp_path / "d@2")
    write(spec, 12, bitmap)
    ds = steps(spec, "window", columns={"steps/image": 0}).decode_image("steps/image", 4, output="image").batch(8)
    seen = 0
    for batch in ds:
        for e, s, image in zip(batch["episode"], batch["step"], batch["image"]):
            assert (image == (e * 40 + s) % 256).all()
            seen += 1
    assert seen == sum(map(length_of, range(12)))


def test_a_damaged_episode_keeps_its_rows(tmp_path):
    spec = str(tmp_path / "d@1")
    write(spec, 40)
    shard = tmp_path / "d-00000-of-00001"
    content = bytearray(shard.read_bytes())
    at = content.index(b"image 2 of 7")
    content[at] ^= 1
    shard.write_bytes(content)
    with pytest.raises(sf.DataLossError, match="record 7 at byte"):
        list(steps(spec, "in order"))
    rows = list(steps(spec, "in order", reading={"skip_damaged": True}))
    assert len(rows) == sum(map(length_of, range(40)))
    lost = [row for row in rows if row["instruction"] == b""]
    assert len(lost) == length_of(7) and all(not row["steps/action"].any() for row in lost)
    assert sorted(check(row) for row in rows if row["instruction"]) == [(e, s) for e, s in ALL if e < 40 and e != 7]
    # The episode counts once, however many rows it has.
    assert length_of(7) > 1
    run_of = iter(steps(spec, "exact", reading={"skip_damaged": True, "max_skipped": 1}))
    assert len(list(run_of)) == len(rows)
    with pytest.raises(sf.DataLossError, match="1 of 40 records is damaged, which is more than allowed.*; "
                                               "pass max_skipped=N to skip more"):
        list(steps(spec, "exact", reading={"skip_damaged": True, "max_skipped": 0}))


BAD = {
    "no columns": ({"columns": {}}, "there are no columns"),
    "a column of one value": ({"columns": {"episode": 0}}, "'episode' must have one element for each step, but it is"),
    "no such column": ({"columns": {"steps/imag": 0}}, "steps/imag"),
    "nothing": ({"columns": {"steps/image": (2, 2)}}, "must be at least one"),
    "too far": ({"columns": {"steps/image": 1 << 40}}, "within 65536"),
    "three offsets": ({"columns": {"steps/image": (1, 2, 3)}}, "columns must be a dict"),
    "a taken name": ({"number": "episode"}, "column 'episode' would appear twice"),
    "a large window": ({"window": 1 << 21}, "between 1 and 1048576 records, got 2097152"),
    "no lengths": ({"lengths": ""}, "lengths must name lengths of the indexes$"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_what_makes_no_steps_is_refused(spec, case):
    options, message = BAD[case]
    options = {"columns": AROUND, "lengths": "steps/is_first", **options}
    with pytest.raises(ValueError, match=message):
        len(episodes(spec).steps(**options))


def test_what_cannot_precede_is_refused(spec):
    with pytest.raises(ValueError, match="steps: rows are planned by the lengths of records, .* which filter is not"):
        episodes(spec).filter(lambda row: True).steps(AROUND, lengths="steps/is_first")
    with pytest.raises(ValueError, match="takes random numbers or an index by a record's place"):
        episodes(spec).map(lambda row, rng: {"steps/image": row["steps/image"]}, seed=1,
                           output={"steps/image": sf.ragged(sf.bytes)}).steps({"steps/image": 0}, lengths="steps/is_first")
    with pytest.raises(TypeError, match="offset|integer"):
        episodes(spec).steps({"steps/image": "0"}, lengths="steps/is_first")
    with pytest.raises(RuntimeError, match='the index has no lengths of "steps/reward", only of "steps/is_first"'):
        len(episodes(spec).steps(AROUND, lengths="steps/reward"))


def test_an_episode_of_another_length_than_its_index_says_is_named(spec):
    ds = episodes(spec).map(lambda row: {"steps/action": row["steps/action"][1:]},
                            output={"steps/action": sf.ragged(sf.float32, 2)})
    with pytest.raises(ValueError, match=r"record \d+ at byte \d+: steps: 'steps/action' has \d+ elements, but the index"):
        list(ds.steps({"steps/action": 0}, lengths="steps/is_first"))


def test_a_state_of_other_steps_is_refused(spec):
    with steps(spec).start(epoch=0) as it:
        next(it)
        state = it.state_dict()
    for other in (steps(spec, ends="drop"), steps(spec, window=7)):
        with other.start(epoch=0) as it:
            with pytest.raises(RuntimeError, match="another chain"):
                it.load_state_dict(state)


def test_plan_and_replay_know_steps(spec):
    flags = ["--shuffle", "3", "--window", "64", "--chunk", "2", "--lanes", "4", "--steps", "--lengths", "steps/is_first"]
    plan = run("plan", spec, *flags, "--world", "3", "--batch", "4", "--json").json
    assert plan["packing"]["rows"] == len(ALL) and plan["batches_per_rank"] == len(ALL) // 12
    assert f"rows:    {len(ALL):,} steps, from the lengths 'steps/is_first'" in run("plan", spec, *flags).out.decode()
    batches = list(steps(spec, "window", 1, 3, reading={"batch": 4}).batch(4).start(epoch=0))
    for number in (0, 5, len(batches) - 1):
        parts = run("replay", spec, *flags, "--world", "3", "--rank", "1", "--batch", "4", "--step", str(number),
                    "--json").json
        # Episode i went to shard i mod 5.
        assert [(part["shard_record"] * 5 + int(part["shard"].split("-")[-3]), part["begin"], part["elements"])
                for part in parts] == [(e, s, 1) for e, s in zip(batches[number]["episode"].tolist(),
                                                                 batches[number]["step"].tolist())]
    inner = run("plan", spec, *flags, "--steps-before", "1", "--steps-after", "2", "--json").json["packing"]["rows"]
    assert inner == sum(s >= 1 and s + 2 < length_of(e) for e, s in ALL)
    found = run("replay", spec, *flags, "--find", "3", "--json").json
    assert sorted(part["begin"] for part in found) == list(range(length_of(15)))  # record 3 is the fourth of shard 0


@pytest.mark.parametrize("flags, message", [
    (["--steps"], "--steps requires --lengths"),
    (["--lengths", "steps/is_first"], "--lengths requires --pack or --steps"),
    (["--pack-window", "9"], "--pack-window requires --pack or --steps"),
    (["--steps", "--lengths", "steps/is_first", "--pack", "8"], "excludes"),
    (["--steps-before", "1"], "--steps-before requires --steps"),
    (["--steps", "--lengths", "steps/action"], 'no lengths of "steps/action"'),
])
def test_wrong_use_of_plan_is_told(spec, flags, message):
    done = run("plan", spec, *flags)
    assert done.status != 0 and message in done.err
