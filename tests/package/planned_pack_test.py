"""pack(lengths=...): rows that are planned from the indexes, against a plain model, in any world and through resumes."""

import os
import random
import re
import shutil
import sys

import numpy as np
import pytest
from harness import REPOSITORY, run
from random_worlds import check_random_worlds

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

DOCUMENTS = 2500
LENGTH = 96
ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(3, 2),
    "window": lambda ds: ds.shuffle(seed=3, window=600, chunk=10, lanes=4),
    "exact": lambda ds: ds.shuffle(seed=3, window=None),
}


def length_of(n):
    return 0 if n % 40 == 7 else (n * 2654435761) % 61 + (200 if n % 500 == 3 else 0)


def tokens_of(n):
    return np.arange(length_of(n), dtype=np.int64) + 1000 * n


def write(spec, compression="none"):
    with sf.write(spec, sync=False, compression=compression) as writer:
        for n in range(DOCUMENTS):
            writer.write({"ids": tokens_of(n), "labels": tokens_of(n) + 1, "n": n, "name": b"%d" % n})
    assert run("index", spec, "--length", "ids").status == 0


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    spec = str(tmp_path_factory.mktemp("packed") / "d@7")
    write(spec)
    return spec


def parsed(spec, order, rank=0, world=1, **reading):
    return ORDERS[order](sf.read(spec, **reading)).shard(rank, world).parse(
        {"ids": sf.var(sf.int64), "labels": sf.var(sf.int64), "n": sf.int64, "name": sf.bytes})


def packed(ds, **options):
    options = {"split": True, "window": 1024, **options}
    return ds.pack(["ids", "labels"], LENGTH, lengths="ids", pad={"labels": -100}, **options)


def segments(batch):
    """The segments of each row: their tokens."""
    rows = []
    for ids, labels, numbers, positions in zip(batch["ids"], batch["labels"], batch["ids_segment_ids"],
                                               batch["ids_positions"]):
        found = [ids[numbers == s] for s in range(1, numbers.max() + 1)]
        used = sum(map(len, found))
        assert np.array_equal(np.concatenate([[], *found]), ids[:used])
        assert np.array_equal(labels[:used], ids[:used] + 1)
        assert np.array_equal(positions[:used], np.concatenate([np.arange(len(f)) for f in found]))
        assert not ids[used:].any() and not positions[used:].any() and (labels[used:] == -100).all()
        rows.append([f.tolist() for f in found])
    return rows


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("how", ["best_fit", "first_fit", "concatenate"])
def test_every_token_is_in_one_row(spec, order, how):
    ds = packed(parsed(spec, order), how=how, keep=["n"], cu_seqlens=True).batch(8)
    seen = {}
    for batch in ds:
        rows = segments(batch)
        for row, numbers, ends in zip(rows, batch["n"], batch["ids_cu_seqlens"]):
            used = np.cumsum([0, *map(len, row)]).tolist()
            assert ends.tolist() == used + [LENGTH] * (used[-1] < LENGTH)
            for tokens, n in zip(row, numbers.tolist()):
                seen.setdefault(n, []).extend(tokens)
    for n in range(DOCUMENTS):
        assert sorted(seen.get(n, [])) == tokens_of(n).tolist()
    assert len(ds) == sum(1 for _ in ds.start(epoch=0))


@pytest.mark.parametrize("order, options", [*((order, {}) for order in ORDERS), ("exact", {"cost": "quadratic"}),
                                            ("window", {"cost": "quadratic", "how": "first_fit"})])
def test_random_worlds_kills_and_resumes(spec, order, options):
    draw = random.Random(order)
    wanted = [row for batch in packed(parsed(spec, order), **options).batch(1).start(epoch=0)
              for row in segments(batch)]
    check_random_worlds(
        draw, wanted,
        lambda rank, world, batch: packed(parsed(spec, order, rank, world, batch=batch), **options).batch(batch),
        segments, sizes=[1, 2, 3], most=12, rounds=6)


def test_all_ranks_have_equally_many_batches(spec):
    for world in (1, 3, 5):
        lengths = []
        for rank in range(world):
            ds = packed(parsed(spec, "window", rank, world, batch=4)).batch(4)
            assert len(ds) == sum(1 for _ in ds)
            lengths.append(len(ds))
        assert len(set(lengths)) == 1


def test_compressed_shards(tmp_path):
    write(str(tmp_path / "z@3"), compression="gzip")
    ds = packed(parsed(str(tmp_path / "z@3"), "window")).batch(8)
    tokens = sorted(token for batch in ds for row in segments(batch) for part in row for token in part)
    assert tokens == [token for n in range(DOCUMENTS) for token in tokens_of(n).tolist()]


def test_epochs_differ_and_repeat_from_any_place(spec):
    ds = packed(parsed(spec, "window").repeat(2)).batch(4)
    rows = [row for batch in ds.start(epoch=0) for row in segments(batch)]
    half = len(rows) // 2
    assert rows[:half] != rows[half:2 * half]
    with ds.start(epoch=0) as it:
        for _ in range(half // 4 + 5):
            next(it)
        state = it.state_dict()
        rest = [row for batch in it for row in segments(batch)]
    with ds.start(epoch=0) as it:
        it.load_state_dict(state)
        assert [row for batch in it for row in segments(batch)] == rest
    assert len(ds) == -(-len(rows) // 4)


def test_epochs_without_a_whole_round_are_passed_over(tmp_path):
    spec = str(tmp_path / "a@1")
    with sf.write(spec) as writer:
        for n in (30, 2, 2, 30, 2, 2, 30, 30, 30):
            writer.write({"ids": np.arange(n)})
    sf.index(spec, lengths=["ids"])
    for epochs, batches in [(2, 0), (3, 1), (0, 1)]:
        for rank in range(3):
            ds = (sf.mix({"a": spec}, length=3).shard(rank, 3).repeat(epochs).parse({"ids": sf.var(sf.int64)})
                  .pack("ids", 32, lengths="ids").batch(1))
            if epochs:
                assert len(ds) == batches
            with ds.start(epoch=0) as it:
                assert len([batch for batch, _ in zip(it, range(1))]) == batches


def test_an_index_made_anew_has_no_lengths_of_its_own_accord(tmp_path):
    spec = str(tmp_path / "d@2")
    with sf.write(spec) as writer:
        writer.write({"ids": [1, 2], "labels": [3, 4], "n": 1, "name": b""})
    with pytest.raises(RuntimeError, match="the index has no lengths of \"ids\"; index the dataset with these lengths by "
                                           "'shardfeed index' or sf.index"):
        next(iter(packed(parsed(spec, "sequential"))))


SEPARATORS = {"ids": -7, "labels": -8}


@pytest.mark.parametrize("options", [
    {}, {"truncate": True}, {"truncate": True, "lengths": "ids"}, {"split": True, "lengths": "ids"},
    {"truncate": True, "lengths": "ids", "how": "first_fit"}, {"lengths": "ids", "how": "concatenate"}])
def test_a_separator_follows_each_sequence(spec, options):
    """Of those that are cut, whatever the row has room for."""
    length = 512 if not options else 130
    ds = parsed(spec, "window").pack(["ids", "labels"], length, separator=SEPARATORS, keep=["n"],
                                     cu_seqlens=True, **options).batch(4)
    seen = {}
    for batch in ds:
        for row, numbers in enumerate(batch["n"]):
            ends = batch["ids_cu_seqlens"][row]
            for i, n in enumerate(numbers.tolist()):
                at = slice(ends[i], ends[i + 1])
                assert (batch["ids_segment_ids"][row][at] == i + 1).all()
                seen.setdefault(n, []).append((batch["ids"][row][at], batch["labels"][row][at]))
    for n in range(DOCUMENTS):
        if length_of(n) == 0:
            assert n not in seen
            continue
        ids, labels = (np.concatenate(parts) for parts in zip(*sorted(seen[n], key=lambda part: part[0][0] < 0)))
        whole = np.append(tokens_of(n), -7), np.append(tokens_of(n) + 1, -8)
        if options.get("truncate"):
            whole = whole[0][:length], whole[1][:length]
        assert sorted(ids.tolist()) == sorted(whole[0].tolist()) and sorted(labels.tolist()) == sorted(whole[1].tolist())
        if len(seen[n]) == 1:
            assert np.array_equal(ids, whole[0]) and np.array_equal(labels, whole[1])


def test_a_separator_must_fit_its_column(spec):
    ds = parsed(spec, "window").map(lambda row: {"small": row["ids"].astype(np.uint8)}, output={"small": sf.ragged(sf.uint8)})
    with pytest.raises(ValueError, match="pack: column 'small' of uint8 cannot hold the separator 256"):
        ds.pack("small", 512, separator=256)


def test_a_damaged_record_counts_once_however_it_is_cut(spec, tmp_path):
    shutil.copytree(os.path.dirname(spec), tmp_path / "d")
    shard = sorted(path for path in (tmp_path / "d").iterdir() if path.is_file())[0]
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1  # the last byte of a record, before its CRC
    shard.write_bytes(content)
    ds = sf.read(tmp_path / "d", skip_damaged=True, max_skipped=1).parse(
        {"ids": sf.var(sf.int64)})
    it = iter(ds.pack("ids", 2, split=True, lengths="ids"))
    assert sum(1 for _ in it) > 100 and it.stats()["damaged"] == 1


def test_a_sequence_must_fit_with_its_separator(spec):
    longest = max(map(length_of, range(DOCUMENTS)))
    ds = parsed(spec, "window")
    assert sum(1 for _ in ds.pack("ids", longest + 1, separator=0, lengths="ids"))
    assert sum(1 for _ in ds.pack("ids", longest + 1, separator=0))
    with pytest.raises(ValueError, match=rf'"ids" has {longest} elements and a separator, which do not fit into a row of '
                                         rf"{longest}; raise the length"):
        list(ds.pack("ids", longest, separator=0, lengths="ids"))
    with pytest.raises(ValueError, match=rf"a sequence of {longest} elements and a separator does not fit into a row of "
                                         rf"{longest}; raise the length or set truncate"):
        list(ds.pack("ids", longest, separator=0))
    done = run("plan", spec, "--pack", str(longest), "--lengths", "ids", "--separated")
    assert done.status != 0 and "and a separator, which do not fit" in done.err
    plain, separated = (run("plan", spec, "--pack", str(longest + 1), "--lengths", "ids", *flags, "--json").json
                        for flags in ([], ["--separated"]))
    with_tokens = sum(length_of(n) > 0 for n in range(DOCUMENTS))
    assert separated["packing"]["elements"] == plain["packing"]["elements"] + with_tokens


def test_ranks_share_attention_evenly(spec):
    def imbalance(*flags):
        return run("plan", spec, *PLAN, "--world", "8", *flags, "--json").json["packing"]["balance"]

    costs = {}
    for cost in ("linear", "quadratic"):
        ranks = [[[sum(len(tokens) ** 2 for tokens in row) for row in segments(batch)] for batch in
                  packed(parsed(spec, "window", rank, 8, batch=4), cost=cost).batch(4).start(epoch=0)]
                 for rank in range(8)]
        steps = [[sum(rows) for rows in of_ranks] for of_ranks in zip(*ranks)]
        costs[cost] = np.mean([max(step) / np.mean(step) for step in steps])
    assert imbalance("--cost", "quadratic") == pytest.approx(costs["quadratic"])
    assert costs["quadratic"] - 1 < 0.5 * (costs["linear"] - 1)
    assert imbalance() < 1.02
    assert "the rank with most attention has on average" in run(
        "plan", spec, *PLAN, "--world", "8", "--cost", "quadratic").out.decode()


BAD = {
    "separators for some": (lambda ds: ds.pack(["ids", "labels"], 8, separator={"ids": 1}),
                            "expected a value for each of the packed columns ids, labels, got those of ids"),
    "separators of other columns": (lambda ds: ds.pack("ids", 8, separator={"n": 1}), "got those of n"),
    "cost without lengths": (lambda ds: ds.pack("ids", 8, cost="quadratic"), "name the lengths"),
    "first fit without lengths": (lambda ds: ds.pack("ids", 8, how="first_fit"), "name the lengths"),
    "another cost": (lambda ds: packed(ds, cost="cubic"), "cost"),
    "another way": (lambda ds: packed(ds, how="worst_fit"), "how"),
    "filter": (lambda ds: packed(ds.filter(lambda row: True)), "which filter is not"),
    "take": (lambda ds: packed(ds.take(5)), r"which take\(5\) is not"),
    "batches": (lambda ds: packed(ds.batch(4)), "batch"),
    "merged ends": (lambda ds: packed(ds.select("ids", "labels").repeat(2).shuffle(1, window=8)),
                    "which shuffle"),
    "split without lengths": (lambda ds: ds.pack("ids", 8, split=True), "name the lengths"),
    "truncate and split": (lambda ds: packed(ds, truncate=True), "not both"),
    "padding of another column": (lambda ds: ds.pack("ids", 8, pad={"labels": 1}), "'labels' is not one of"),
    "kept ragged column": (lambda ds: ds.pack("ids", 8, keep=["labels"]), "cannot be kept for each segment"),
    "lengths without a name": (lambda ds: ds.pack("ids", 8, lengths=""), "lengths must name lengths of the indexes"),
    "batches without a name": (lambda ds: ds.batch_by_length("ids", 8, lengths=""), "lengths must name lengths"),
    "random numbers for pieces": (lambda ds: packed(ds.map(
        lambda row, rng: {"ids": rng.permutation(row["ids"]), "labels": row["labels"]}, seed=1,
        output={"ids": sf.var(sf.int64), "labels": sf.var(sf.int64)})),
                                  "takes random numbers or an index by a record's place"),
    "a window too small": (lambda ds: list(packed(ds, window=10)), "between 1024 and 1048576 records, got 10"),
    "a column twice": (lambda ds: ds.pack(["ids", "ids"], 8), "would appear twice"),
    "no column": (lambda ds: ds.pack([], 8), "there are no columns"),
    "no such column": (lambda ds: ds.pack(["id"], 8), "id"),
    "too long": (lambda ds: list(packed(ds, split=False)), "do not fit into a row of 96; raise the length, or truncate, "
                 "split or leave out longer sequences; pass max_length=96 to leave them out"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_what_cannot_be_planned_is_refused(spec, case):
    chain, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        chain(parsed(spec, "window"))


def test_out_of_order_runs_are_refused(spec):
    ds = packed(parsed(spec, "window")).with_options(deterministic=False)
    with pytest.raises(ValueError, match="run without deterministic=False"):
        next(iter(ds))


def test_lengths_that_are_not_true_name_the_record(spec):
    ds = parsed(spec, "window").map(lambda row: {"ids": np.append(row["ids"], 1)}, output={"ids": sf.var(sf.int64)})
    with pytest.raises(ValueError, match=r"record \d+ at byte \d+: pack: 'ids' has \d+ elements, but the index says"):
        list(ds.pack("ids", 400, lengths="ids"))


def test_rows_draw_random_numbers_of_their_own(spec):
    def draws(rank, world):
        ds = packed(parsed(spec, "window", rank, world)).map(lambda row, rng: {"x": rng.random()},
                                                              output={"x": sf.float64}, seed=1)
        return [row["x"] for row in ds.start(epoch=0)]

    alone = draws(0, 1)
    assert len(set(alone)) == len(alone)
    for rank in range(3):
        assert draws(rank, 3) == alone[rank::3][:len(alone) // 3]


@pytest.mark.parametrize("order", list(ORDERS))
def test_batches_of_similar_lengths(spec, order):
    def batches(*rank):
        return parsed(spec, order, *rank).batch_by_length("ids", 500, lengths="ids", window=1024)

    seen, room = [], 0
    for batch in batches():
        lengths = batch["ids"].lengths()
        assert len(lengths) * lengths.max() <= 500 or len(lengths) == 1
        room += len(lengths) * lengths.max()
        seen += batch["n"].tolist()
        assert [ids.tolist() for ids in batch["ids"]] == [tokens_of(n).tolist() for n in batch["n"].tolist()]
    assert sorted(seen) == list(range(DOCUMENTS))
    assert sum(map(length_of, range(DOCUMENTS))) > 0.8 * room
    ranks = [[batch["n"].tolist() for batch in batches(rank, 4).start(epoch=0)] for rank in range(4)]
    assert len({len(of_rank) for of_rank in ranks}) == 1
    wanted = [batch["n"].tolist() for batch in batches().start(epoch=0)]
    assert [batch for step in zip(*ranks) for batch in step] == wanted[:len(wanted) // 4 * 4]


def test_a_state_of_another_plan_is_refused(spec):
    with packed(parsed(spec, "window")).start(epoch=0) as it:
        next(it)
        state = it.state_dict()
    with packed(parsed(spec, "window"), window=2048).start(epoch=0) as it:
        with pytest.raises(RuntimeError, match="another chain"):
            it.load_state_dict(state)


PLAN = ["--shuffle", "3", "--window", "600", "--chunk", "10", "--lanes", "4", "--pack", str(LENGTH), "--lengths", "ids",
        "--longer", "split", "--pack-window", "1024", "--batch", "4"]


def test_plan_and_replay_say_what_runs_deliver(spec):
    world = 3
    batches = [list(packed(parsed(spec, "window", rank, world, batch=4), keep=["n"]).batch(4).start(epoch=0))
               for rank in range(world)]
    done = run("plan", spec, *PLAN, "--world", str(world), "--json")
    plan = done.json
    assert plan["batches_per_rank"] == len(batches[0]) and "records_per_rank" not in plan
    packing = plan["packing"]
    assert packing["elements"] == sum(map(length_of, range(DOCUMENTS)))
    assert packing["rows"] == len(batches[0]) * world * 4 + packing["left_over_rows"]
    assert packing["full"] == pytest.approx(packing["elements"] / packing["rows"] / LENGTH) and packing["full"] > 0.98
    assert 1 <= packing["balance"] < 1.02
    assert f"{packing['rows']} of 96 'ids', {100 * packing['full']:.1f} % full" in run(
        "plan", spec, *PLAN, "--world", str(world)).out.decode()
    for rank in range(world):
        for step in (0, 1, len(batches[rank]) - 1):
            parts = run("replay", spec, *PLAN, "--world", str(world), "--rank", str(rank), "--step", str(step),
                        "--json").json
            wanted = [(n, len(tokens)) for row, numbers in zip(segments(batches[rank][step]), batches[rank][step]["n"])
                      for n, tokens in zip(numbers.tolist(), row)]
            # Record i went to shard i mod 7.
            assert [(part["shard_record"] * 7 + int(part["shard"].split("-")[-3]), part["elements"])
                    for part in parts] == wanted
            rows = [part["row"] for part in parts]
            assert sorted(set(rows)) == [(step * 4 + i) * world + rank for i in range(4)]
    text = run("replay", spec, *PLAN, "--step", "1").out.decode().splitlines()
    assert text[0].split("\t")[0] == "4" and len(text[0].split("\t")) == 6


def test_records_are_left_out_by_their_lengths(spec):
    left = [n for n in range(DOCUMENTS) if 10 <= length_of(n) <= 50]
    lengths = {"min_length": 10, "max_length": 50}
    rows = [row for batch in packed(parsed(spec, "window"), **lengths).batch(4) for row in segments(batch)]
    assert sorted(int(tokens[0]) // 1000 for row in rows for tokens in row) == left
    batches = list(parsed(spec, "window").batch_by_length("ids", 400, lengths="ids", **lengths))
    assert sorted(n for batch in batches for n in batch["n"].tolist()) == left
    flags = ["--min-length", "10", "--max-length", "50"]
    packing = run("plan", spec, *PLAN, *flags, "--json").json["packing"]
    assert packing["left_out_records"] == DOCUMENTS - len(left)
    assert f"{DOCUMENTS - len(left):,} records are left out because of their lengths" in run(
        "plan", spec, *PLAN, *flags).out.decode()
    short = next(n for n in range(DOCUMENTS) if 0 < length_of(n) < 10)
    record = sum(-(-(DOCUMENTS - shard) // 7) for shard in range(short % 7)) + short // 7
    assert run("replay", spec, *PLAN, *flags, "--find", str(record)).out == (
        b"record %d has %d elements, and is left out because of its length, so no row has it\n"
        % (record, length_of(short)))
    for wrong in ({"min_length": -1}, {"max_length": -1}, {"max_length": 1.5}):
        with pytest.raises((ValueError, TypeError), match="_length"):
            packed(parsed(spec, "window"), **wrong)
    with pytest.raises(ValueError, match="no record has a length between min_length 6 and max_length 5"):
        list(packed(parsed(spec, "window"), min_length=6, max_length=5))
    with pytest.raises(ValueError, match="min_length, max_length and cost are for planned rows"):
        parsed(spec, "window").pack("ids", 8, min_length=3)
    with pytest.raises(ValueError, match="min_length and max_length are for batches that are planned"):
        parsed(spec, "window").batch_by_length("ids", 8, max_length=3)


def test_replay_finds_a_record(spec):
    for record in range(0, DOCUMENTS, 97):
        parts = run("replay", spec, *PLAN, "--world", "2", "--find", str(record), "--json").json
        for part in parts:
            listed = run("replay", spec, *PLAN, "--world", "2", "--rank", str(part["rank"]), "--step", str(part["step"]),
                         "--json")
            assert part["delivered"] == (listed.status == 0)
            if listed.status == 0:
                assert {name: part[name] for name in listed.json[0]} in listed.json
            else:
                assert "batches of rows, numbered from 0" in listed.err
    dropped = run("replay", spec, *PLAN, "--world", "1000000", "--find", "2").out.decode()
    assert re.fullmatch(r"(elements \d+ to \d+ are in row \d+, which is dropped at the end of the epoch\n)+", dropped)
    empty = next(n for n in range(DOCUMENTS) if length_of(n) == 0)
    record = sum(-(-(DOCUMENTS - shard) // 7) for shard in range(empty % 7)) + empty // 7
    assert run("replay", spec, *PLAN, "--find", str(record)).out == b"record %d has no elements, so no row has it\n" % record


@pytest.mark.parametrize("flags, message", [
    (["--pack", "96"], "--lengths"),
    (["--lengths", "ids"], "--pack"),
    (["--pack", "0", "--lengths", "ids"], "--pack"),
    (["--pack", "96", "--lengths", "id"], 'the index has no lengths of "id", only of "ids"'),
    (["--pack", "96", "--lengths", "ids"], '"ids" has'),
    (["--pack", "96", "--lengths", "ids"], "raise the length, or truncate, split or leave out longer sequences; "
                                           "pass --max-length 96 to leave them out"),
    (["--pack", "96", "--lengths", "i\nd" * 9000], 'no lengths of "i\\nd'),
    (["--pack", "400", "--lengths", "ids", "--end", "pad"], "end with the last whole round of batches"),
])
def test_wrong_use_of_plan_is_told(spec, flags, message):
    done = run("plan", spec, *flags)
    assert done.status != 0 and message in done.err
