"""The package: steps of chains, their orders, parts, lengths and errors."""

import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from harness import REPOSITORY
from package_data import RECORDS, SPEC, dataset, numbers, parsed, run_python, sf


def test_steps_as_tf_data(tf):
    ours, theirs = sf.range(100), tf.data.Dataset.range(100)

    def same(mine, other):
        assert [e["value"].tolist() if hasattr(e["value"], "tolist") else e["value"] for e in mine
                ] == [e.numpy().tolist() for e in other]
        assert len(mine) == int(other.cardinality())

    same(ours.take(7), theirs.take(7))
    odd = tf.data.experimental.assert_cardinality(50)
    same(ours.filter(lambda e: e["value"] % 2 == 1).assert_cardinality(50),
         theirs.filter(lambda e: e % 2 == 1).apply(odd))
    same(ours.skip(7).batch(10), theirs.skip(7).batch(10))
    same(ours.batch(8, drop_remainder=True), theirs.batch(8, drop_remainder=True))
    same(ours.shard(1, 3), theirs.shard(3, 1))
    same(ours.repeat(3).prefetch(2), theirs.repeat(3).prefetch(2))
    same(ours.concatenate(sf.range(5)), theirs.concatenate(tf.data.Dataset.range(5)))
    assert [e["value"] for e in ours.map(lambda e: {"value": e["value"] ** 2}).filter(
        lambda e: e["value"] % 3 == 0)] == [
            int(e) for e in theirs.map(lambda e: e ** 2).filter(lambda e: e % 3 == 0)]


def test_lengths_that_are_asserted():
    evens = sf.range(100).filter(lambda row: row["value"] % 2 == 0)
    chain = evens.assert_cardinality(50).batch(8)
    assert len(chain) == 7 and len(list(chain)) == 7
    assert len(evens.assert_cardinality(50).repeat(2)) == len(list(evens.assert_cardinality(50).repeat(2)))
    for count, has in [(51, "50"), (49, "at least 5"), (0, "at least ")]:
        with pytest.raises(RuntimeError, match=f"assert_cardinality: the epoch has {has}.* elements?, and {count} were"):
            list(evens.assert_cardinality(count))
    it = evens.assert_cardinality(50).start(epoch=0)
    first = [next(it)["value"] for _ in range(20)]
    again = evens.assert_cardinality(50).start()
    again.load_state_dict(it.state_dict())
    assert first + [row["value"] for row in again] == list(range(0, 100, 2))
    with evens.assert_cardinality(10).start() as fewer:
        fewer.load_state_dict(it.state_dict())
        with pytest.raises(RuntimeError, match="the epoch has at least 2.* elements, and 10 were asserted"):
            next(fewer)


def test_padded_batches_and_buckets(parsed):
    batch = next(iter(parsed.padded_batch(10, {"some": -1})))
    assert batch["some"].shape == (10, 4)
    assert batch["some"][1].tolist() == [4, 4, 4, 4]
    assert batch["some"][2].tolist() == [8, 8, 8, -1]
    batch = next(iter(parsed.padded_batch(10, {"some": (6, 0)})))
    assert batch["some"].shape == (10, 6)
    ragged = next(iter(parsed.batch(10)))["some"]
    assert np.array_equal(ragged.padded(-1), next(iter(parsed.padded_batch(10, {"some": -1})))["some"])
    for batch in parsed.bucket_by_length("some", [2, 4], [8, 8, 8]):
        lengths = batch["some"].lengths()
        assert (lengths < 2).all() or ((lengths >= 2) & (lengths < 4)).all() or (lengths >= 4).all()


def test_pack(parsed):
    batch = next(iter(parsed.select("some").pack("some", 16).batch(4)))
    assert batch["some"].shape == (4, 16)
    assert batch["some_segment_ids"].dtype == np.int32


def test_mix_interleave_zip_enumerate():
    a, b = sf.range(10), sf.range(100, 110)
    assert sorted(e["value"] for e in sf.mix([a, b], [1, 2], seed=3)) == [*range(10), *range(100, 110)]
    assert list(a.mix(b, weights=[1, 2], seed=3)) == list(sf.mix([a, b], [1, 2], seed=3))
    assert [e["value"] for e in sf.interleave([a, b], 2)][:4] == [0, 100, 1, 101]
    assert list(sf.zip(a, sf.range(5, name="other")))[1] == {"value": 1, "other": 1}
    assert list(a.enumerate(start=5))[0] == {"value": 0, "index": 5}


def test_shuffles_are_permutations_by_epoch(dataset):
    ds = sf.read(dataset).shuffle(seed=1, window=None).parse({"n": sf.int64}).repeat(2)
    order = numbers(ds)
    assert order[:RECORDS] != order[RECORDS:]
    assert sorted(order[:RECORDS]) == sorted(order[RECORDS:]) == list(range(RECORDS))
    assert [row["n"] for row in ds.start(epoch=0)] == order


def test_chunks_and_lanes_are_parts_of_the_order(dataset):
    def order(**options):
        return list(sf.read(dataset).shuffle(3, **options))
    assert len({tuple(order(window=64, chunk=chunk, lanes=lanes))
                for chunk in (1, 4) for lanes in (1, 2)}) == 4
    assert sorted(order(window=64, chunk=4, lanes=2)) == sorted(order())
    assert order(lanes=64) == order() == order(chunk=0)
    with pytest.raises(ValueError, match="lanes must be from 1 to"):
        order(lanes=1 << 40)
    for wrong in ({"chunk": 2}, {"lanes": 2}):
        with pytest.raises(ValueError, match="chunk and lanes affect how shards are read"):
            sf.range(100).shuffle(1, window=10, **wrong)


def test_each_iterator_is_the_next_epoch(dataset):
    """Every process has the same epochs; a view, a copy of the chain and a loaded state continue alike."""
    def chain():
        return sf.read(dataset).shuffle(seed=1, window=None).parse({"n": sf.int64})

    epochs = [numbers(chain().repeat(3))[i * RECORDS:(i + 1) * RECORDS] for i in range(3)]
    ds = chain()
    assert [[row["n"] for row in ds] for _ in range(3)] == epochs
    batched = chain().batch(100)
    assert [[n for b in view for n in b["n"].tolist()]
            for view in (batched, batched.numpy(), batched)] == epochs
    ds = chain()
    assert [row["n"] for row in ds.start(epoch=2)] == epochs[2]
    assert [row["n"] for row in ds] == epochs[0]  # a named epoch does not count
    ds.set_epoch(1)
    it = iter(ds)
    for _ in range(10):
        next(it)
    state = it.state_dict()
    other = chain()
    resumed = iter(other)
    resumed.load_state_dict(state)
    assert [row["n"] for row in resumed] == epochs[1][10:]
    assert [row["n"] for row in other] == epochs[2]
    for wrong, error in [(-1, ValueError), (None, TypeError), ("1", TypeError)]:
        with pytest.raises(error, match="set_epoch: epoch must be"):
            ds.set_epoch(wrong)


def test_repetitions_of_repetitions_have_orders_of_their_own(dataset):
    ds = sf.read(dataset).shuffle(seed=1, window=None).repeat(2).repeat(3).parse({"n": sf.int64})
    order = numbers(ds)
    assert len({tuple(order[i * RECORDS:(i + 1) * RECORDS]) for i in range(6)}) == 6


def test_a_part_of_the_records_has_its_own_numbers(dataset):
    whole = numbers(sf.read(dataset).parse({"n": sf.int64}))
    part = sf.read(dataset, records=[(500, 100), (20, 5)])
    numbered = part.parse({"n": sf.int64})
    assert [row["n"] for row in numbered] == whole[500:600] + whole[20:25]
    assert [numbered[i]["n"] for i in (0, 99, 100, -1)] == [whole[i] for i in (500, 599, 20, 24)]
    assert part[3] == sf.read(dataset)[503]
    assert part.place(100) == sf.read(dataset).place(20)
    with pytest.raises(IndexError):
        part[105]
    for wrong, why in [([(500, RECORDS)], f"records 500 to {RECORDS + 499} do not exist: the dataset has {RECORDS} records"),
                       ("0-9,9", "record 9 appears twice")]:
        chain = sf.read(dataset, records=wrong)
        for use in (len, list, lambda ds: ds[0], lambda ds: len(ds.shuffle(1).shard(0, 2).batch(2))):
            with pytest.raises(ValueError, match=why):
                use(chain)


def test_ranges_of_records_as_the_program_has_them(dataset):
    parse = {"n": sf.int64}
    whole = numbers(sf.read(dataset).parse(parse))
    open_ended = sf.read(dataset, records="7,2-4,990-")
    chosen = open_ended.parse(parse)
    assert numbers(chosen) == [whole[7]] + whole[2:5] + whole[990:]
    assert len(chosen) == RECORDS - 990 + 4 and chosen[-1]["n"] == whole[-1]
    assert open_ended.place(4) == sf.read(dataset).place(990)
    # The same records by other words: their states are of one chain.
    assert _state_after_one(chosen) == _state_after_one(sf.read(dataset, records=f"7,2-4,990-{RECORDS - 1}").parse(parse))
    mixtures = [sf.mix({"a": sf.read(dataset, records=records), "b": dataset}, length=20)
                for records in ("990-", f"990-{RECORDS - 1}")]
    assert len({ds._plan.fingerprint() for ds in mixtures}) == 1
    with pytest.raises(ValueError, match=f"record {RECORDS} does not exist: the dataset has {RECORDS} records"):
        list(sf.read(dataset, records=f"{RECORDS}-"))
    for wrong in ("-5", "1--", "1-2-3", "", "1,", "a"):
        with pytest.raises(ValueError, match="records must be numbers and ranges, which include both ends or go up to the "
                                             "last record, such as '7,0-5,990-', got " + re.escape(repr(wrong))):
            sf.read(dataset, records=wrong)


def _state_after_one(ds):
    with ds.start(epoch=0) as it:
        next(it)
        return it.state()


def test_a_shard_of_a_shard(dataset):
    ds = sf.read(dataset).parse({"n": sf.int64})
    whole = numbers(ds)
    assert numbers(sf.read(dataset).shard(1, 2).shard(0, 2).parse({"n": sf.int64})) == whole[1::4]
    assert numbers(ds.shard(1, 2).shard(0, 2)) == whole[1::4]


def test_the_rank_is_found_when_iteration_begins(dataset, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    ds = sf.read(dataset).shard().parse({"n": sf.int64})
    whole = numbers(ds)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert numbers(ds) == whole[1::4] and len(ds) == len(whole[1::4])
    assert numbers(pickle.loads(pickle.dumps(ds))) == whole[1::4]


def test_wrong_ranks_of_launchers_are_errors_when_the_chain_runs(dataset, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ds = sf.read(dataset, batch=4).shard().parse({"n": sf.int64}).batch(4)
    grouped = sf.read(dataset).shard(group=2)
    mixed = sf.read(dataset).concatenate(sf.read(dataset).shard())
    assert ds.batched and "n" in ds.element_spec and "shard()" in repr(ds)
    for chain in (ds, grouped, mixed, pickle.loads(pickle.dumps(grouped))):
        for run in (iter, lambda chain: chain.start(), len):
            with pytest.raises(ValueError, match="RANK=5, WORLD_SIZE=2: the rank must be below the number of ranks"):
                run(chain)
    with pytest.raises(ValueError, match="take"):  # what is wrong with the chain itself is told at once
        grouped.take(-1)
    monkeypatch.setenv("RANK", "1")
    assert len(list(grouped)) == len(list(sf.read(dataset)))
    assert list(mixed) == list(sf.read(dataset)) + list(sf.read(dataset).shard(1, 2))


@pytest.mark.parametrize("variables, found", [
    ({}, (0, 1)), ({"RANK": "2", "WORLD_SIZE": "3"}, (2, 3)),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
    ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
    ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, (5, 8)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1)),  # a script of sbatch, not of srun
    ({"TF_CONFIG": '{"cluster": {"chief": ["a"], "worker": ["b", "c"], "ps": ["d"]}, '
                   '"task": {"type": "worker", "index": 1}}'}, (2, 3)),
    ({"TF_CONFIG": '{"cluster": {"worker": ["b"]}, "task": {"type": "ps", "index": 0}}'}, (0, 1)),
    ({"RANK": "3", "WORLD_SIZE": "3"}, "RANK=3, WORLD_SIZE=3"),
    ({"RANK": "x", "WORLD_SIZE": "3"}, "RANK=x"), ({"TF_CONFIG": "{"}, "TF_CONFIG"),
    ({"RANK": "0", "WORLD_SIZE": "9" * 30}, "there can be at most 4294967295 ranks"),
    ({"TF_CONFIG": '{"cluster": {"worker": {"0": "a", "3": "b"}}, "task": {"type": "worker", "index": 3}}'}, (1, 2)),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 2}}'}, "no worker of index 2"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": -1}}'}, "no worker of index -1"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0.7}}'}, "must be an integer, not 0.7"),
    ({"TF_CONFIG": '{"cluster": {"worker": "a"}, "task": {"type": "worker", "index": 0}}'}, "expected a list of addresses"),
])
def test_launchers_tell_the_rank(monkeypatch, variables, found):
    from shardfeed.ranks import rank_and_world
    for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                 "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            rank_and_world()
    else:
        assert rank_and_world() == found


@pytest.mark.parametrize("variables, arguments, why", [
    ({"WORLD_SIZE": "4"}, (), "WORLD_SIZE=4, without RANK"), ({"RANK": "3"}, (), "RANK=3, without WORLD_SIZE"),
    ({"RANK": "1", "WORLD_SIZE": "4"}, (0, 1), "WORLD_SIZE=4"),
    ({"RANK": "0", "WORLD_SIZE": "1", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}, (), "SLURM_STEP_NUM_TASKS=4"),
    ({"JAX_NUM_PROCESSES": "4"}, (), "JAX_NUM_PROCESSES=4"), ({"PMIX_RANK": "1"}, (), "PMIX_RANK=1"),
    ({"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, (), "LOCAL_WORLD_SIZE=2"),
    ({"RANK": "0", "WORLD_SIZE": "1", "TF_CONFIG": '{"cluster": {"master": ["a"], "worker": ["b"]}}'}, (),
     "TF_CONFIG with 2 workers"),
])
def test_the_only_rank_of_several_is_told(monkeypatch, variables, arguments, why):
    from shardfeed import ranks
    monkeypatch.setattr(ranks, "_warned", set())
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.range(4).shard(*arguments)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match=f"reads as the only rank, but its environment has {why};"):
        list(sf.range(4).shard(*arguments))
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        list(sf.range(4).shard(*arguments))


def test_groups_of_ranks_share_a_part(dataset, monkeypatch):
    def numbers(ds):
        return [row["n"] for row in ds.parse({"n": sf.int64})]
    parts = [numbers(sf.read(dataset).shard(rank, 6, group=2)) for rank in range(6)]
    assert parts == [numbers(sf.read(dataset).shard(rank // 2, 3)) for rank in range(6)]
    ds = sf.read(dataset).shard(group=3)
    monkeypatch.setenv("WORLD_SIZE", "6")
    for rank in range(6):
        monkeypatch.setenv("RANK", str(rank))
        assert numbers(ds) == numbers(sf.read(dataset).shard(rank // 3, 2))
        assert numbers(pickle.loads(pickle.dumps(ds))) == numbers(ds)
    assert "shard(group=3)" in repr(ds) and "shard(1, 6, group=2)" in repr(sf.read(dataset).shard(1, 6, group=2))
    with pytest.raises(ValueError, match="shard: 6 ranks are not groups of 4"):
        sf.read(dataset).shard(0, 6, group=4)
    with pytest.raises(ValueError, match="shard: 6 ranks are not groups of 4"):
        sf.read(dataset).shard(group=4)
    with pytest.raises(ValueError, match="rank 6 of 6"):
        sf.read(dataset).shard(6, 6, group=2)


def test_elements_are_kept_in_local_folders_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("s3://bucket/x", "s3:/bucket/x", "file:///tmp/x"):
        with pytest.raises(ValueError, match=f"cache: path must be a local folder, not the URL '{url}'"):
            list(sf.range(3).cache(path=url))
        with pytest.raises(ValueError, match=f"snapshot: path must be a file in a local folder, not the URL '{url}'"):
            list(sf.range(3).snapshot(url))
    assert list(tmp_path.iterdir()) == []


def test_snapshots_of_other_functions_and_parameters(dataset, tmp_path):
    ds = sf.read(dataset).parse({"n": sf.int64})
    path = tmp_path / "kept"

    def plus(n, version):
        return ds.map(lambda row: {"n": row["n"] + n}, version=version).batch(10).snapshot(path)

    assert next(iter(plus(1, "1")))["n"][0] == 1
    list(plus(1, "1"))
    assert path.exists()
    with pytest.raises(RuntimeError, match="other chain|another chain"):
        list(plus(2, "2"))
    for features in ({"n": sf.int32}, {"n": sf.fixed(1, sf.int64)},
                     {"n": sf.fixed((), sf.int64, default=3)}):
        other = sf.read(dataset).parse(features).map(lambda row: row, version="1").batch(10)
        with pytest.raises(RuntimeError, match="other chain|another chain"):
            list(other.snapshot(path))
    ragged = sf.from_arrays({"r": sf.Ragged(np.arange(3), np.array([0, 1, 3]))})
    padded = tmp_path / "padded"
    list(ragged.padded_batch(2).snapshot(padded))
    with pytest.raises(RuntimeError, match="other chain|another chain"):
        list(ragged.padded_batch(2, {"r": -1}).snapshot(padded))
    arrays = tmp_path / "arrays"
    list(sf.from_arrays({"a": [1, 2]}).snapshot(arrays))
    with pytest.raises(RuntimeError, match="other chain|another chain"):
        list(sf.from_arrays({"a": [1, 3]}).snapshot(arrays))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("use", ["write", "close", "drop", "leave"])
def test_a_writer_is_its_processs_own(tmp_path, use):
    """In a child, a writer neither hangs nor ends what the parent writes."""
    script = f"""
import os, sys
import shardfeed as sf
with sf.write({str(tmp_path / "d@2")!r}) as writer:
    writer.write({{"n": 1}})
    child = os.fork()
    if child == 0:
        use = {use!r}
        if use == "leave":
            sys.exit(7)
        if use == "drop":
            del writer
            os._exit(7)
        try:
            writer.write(b"x") if use == "write" else writer.close()
        except RuntimeError as e:
            os._exit(7 if "forked" in str(e) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writer.write({{"n": 2}})
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert done.returncode == 0, done.stderr
    assert sorted(row["n"] for row in sf.read(tmp_path / "d@2").parse({"n": sf.int64})) == [1, 2]


def test_a_snapshot_is_not_that_of_shards_written_since(tmp_path):
    """Their size, and so their indexes, did not change."""
    def write(folder, first):
        with sf.write(folder / "d@2") as writer:
            for n in range(100, 110):
                writer.write({"n": n + first})

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write(tmp_path / "a", 0)
    write(tmp_path / "b", 10)
    ds = sf.read(tmp_path / "a/d@2").parse({"n": sf.int64}).snapshot(tmp_path / "kept")
    first = [row["n"] for row in ds]
    assert sorted(first) == list(range(100, 110)) and [row["n"] for row in ds] == first
    shard = tmp_path / "a/d-00001-of-00002"
    same = shard.read_bytes()
    shard.write_bytes(same)
    assert [row["n"] for row in ds] == first
    shard.write_bytes((tmp_path / "b/d-00001-of-00002").read_bytes())
    with pytest.raises(RuntimeError, match="was modified after .*'shardfeed index'"):
        list(ds)


@pytest.mark.parametrize("batch", [None, 4])
def test_padding_is_told(tmp_path, batch):
    with sf.write(tmp_path / "d@2") as writer:
        for n in range(10):
            writer.write({"n": n})
    found = []
    for rank in range(3):
        ds = (sf.read(tmp_path / "d@2", batch=4, end="pad").shard(rank, 3)
              .parse({"n": sf.int64}))
        it = iter(ds if batch is None else ds.batch(batch))
        assert it.padded == 0
        for element in it:
            values = np.atleast_1d(element["n"])
            found += values[:len(values) - it.padded].tolist()
    assert sorted(found) == list(range(10))


def test_functions_get_a_generator_and_the_index(dataset, tmp_path):
    ds = sf.read(dataset).shuffle(seed=2, window=None).parse({"n": sf.int64})

    def noisy(row, index, rng):
        return {"n": row["n"], "index": index, "noise": rng.random(), "more": rng.integers(1000)}

    def rows(chain, **options):
        return [tuple(np.asarray(value).item() for value in row.values())
                for row in chain.start(**options)]

    chain = ds.map(noisy, seed=1, with_index=True)
    whole = rows(chain, epoch=0, threads=1)
    assert [row[1] for row in whole] == list(range(RECORDS))
    assert len({row[2] for row in whole}) == RECORDS
    assert rows(chain, epoch=0, threads=4) == whole
    assert {row[0]: row[2] for row in rows(chain, epoch=1)} != {row[0]: row[2] for row in whole}
    assert rows(ds.map(noisy, seed=2, with_index=True), epoch=0) != whole
    it = chain.start(epoch=0)
    for _ in range(37):
        next(it)
    other = iter(chain)
    other.load_state_dict(it.state_dict())
    assert [np.asarray(row["noise"]).item() for row in other] == [row[2] for row in whole[37:]]
    parts = sorted(row for rank in range(3) for row in rows(
        sf.read(dataset).shuffle(seed=2, window=None).shard(rank, 3).parse({"n": sf.int64})
        .map(noisy, seed=1, with_index=True), epoch=0))
    assert parts == sorted(whole[:len(parts)])
    assert [row["i"] for row in sf.range(5).map(lambda row, i: {"i": i}, with_index=True)] == [*range(5)]
    assert next(iter(sf.range(5).map(lambda row, rng: {"x": rng.normal()}, seed=0)))["x"] != 0
    with pytest.raises(TypeError, match="takes random numbers"):
        sf.read(dataset).map(lambda row, i: {"i": i}, with_index=True)[3]
    for options in ({"batched": True}, {"processes": 2}):
        chain = ds.batch(2) if "batched" in options else ds
        with pytest.raises(ValueError, match="with_index and seed are for functions of rows"):
            chain.map(noisy, seed=1, **options)
    for wrong, error in ((-1, ValueError), ("1", TypeError)):
        with pytest.raises(error, match="map: seed must be"):
            ds.map(noisy, seed=wrong)


def test_mixes_know_what_is_never_drawn(dataset):
    ds = sf.read(dataset)
    for weights in ([1, 0], [0, 1], [2, 1]):
        mixed = sf.mix([ds.take(10), ds.take(7)], weights)
        assert len(mixed) == sum(1 for _ in mixed)


def test_from_arrays():
    ds = sf.from_arrays({"a": np.arange(6).reshape(3, 2), "b": ["x", "y", "z"], "c": [1.5, 2, 3]})
    assert len(ds) == 3
    batch = next(iter(ds.batch(2)))
    assert batch["a"].tolist() == [[0, 1], [2, 3]]
    assert batch["b"].tolist() == [b"x", b"y"]
    assert next(iter(ds))["c"] == 1.5


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("end", ["drop", "pad"])
def test_lengths_are_exact(dataset, world, end):
    for rank in range(world):
        base = sf.read(dataset, records="0-996", end=end).shard(rank, world)
        parsed = base.parse({"n": sf.int64})
        for ds in [base, parsed, parsed.batch(64), parsed.batch(64, drop_remainder=True),
                   base.repeat(2), parsed.batch(64).repeat(2), parsed.take(5), parsed.skip(300),
                   parsed.batch(10).shard(1, 2)]:
            assert len(ds) == sum(1 for _ in ds), ds


@pytest.mark.parametrize("io", ["threads", "auto"])
def test_shards_without_an_index_are_the_same(dataset, tmp_path, io):
    indexed = numbers(sf.read(dataset).parse(SPEC).batch(7))

    def unindexed():
        # Another folder each time, because the files of a running iterator must remain.
        copy = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(pathlib.Path(dataset).parent, copy,
                        ignore=shutil.ignore_patterns(".shardfeed"))
        return sf.read(copy / "train@4", io=io).parse(SPEC)

    assert numbers(unindexed().batch(7)) == indexed
    it = iter(unindexed().batch(7))
    first = [int(n) for _ in range(3) for n in next(it)["n"]]
    state = it.state_dict()
    again = iter(unindexed().batch(7))
    again.load_state_dict(state)
    assert first + numbers(again) == indexed == first + numbers(it)
    assert len(unindexed()) == RECORDS
    assert [int(row["n"]) for row in unindexed().shard(1, 3)] == indexed[1:-1:3]
    assert unindexed()[17]["n"] == indexed[17]


def test_lengths_that_cannot_be_known(parsed):
    for ds, why in [(parsed.filter(lambda e: True), "filter drops"), (parsed.repeat(), "no end"),
                    (parsed.pack("some", 9), "pack")]:
        with pytest.raises(TypeError, match=why):
            len(ds)
    assert len(parsed.repeat().take(5)) == 5


def test_repr_reads_like_the_chain(dataset, parsed):
    ds = parsed.batch(8)
    assert repr(ds) == f"read({dataset!r}).parse(n, x, text, some).batch(8)"
    assert repr(sf.read(dataset).shuffle(1)) == f"read({dataset!r}).shuffle(1)"
    assert repr(sf.read(dataset).shuffle(1, window=9, chunk=3, lanes=2)) == \
        f"read({dataset!r}).shuffle(1, window=9, chunk=3, lanes=2)"
    assert repr(sf.zip(sf.range(1), sf.range(2, name="b"))) == "zip([range(0, 1, 1), range(0, 2, 1)])"
    assert "n0 --> n1" in str(ds.draw())
    assert ds.draw().svg.startswith("<svg")


def test_ranks_from_the_environment(dataset, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert sf.rank_and_world() == (1, 4)
    assert len(sf.read(dataset).shard()) == 250
    monkeypatch.delenv("RANK")
    assert sf.rank_and_world() == (0, 1)


def test_what_is_wrong_is_told_where_it_is_written(dataset, parsed):
    with pytest.raises(FileNotFoundError):
        sf.read("/nowhere/train@4")
    with pytest.raises(ValueError, match="no column 'y'"):
        parsed.select("y")
    with pytest.raises(ValueError, match="unbatch first"):
        parsed.batch(3).batch(3)
    with pytest.raises(ValueError, match="'uring'"):
        sf.read(dataset, io="carrier pigeon")
    with pytest.raises(ValueError, match="rank 4 of 4"):
        sf.read(dataset).shard(4, 4)
    with pytest.raises(ValueError, match="type 'float31' does not exist"):
        sf.fixed((), "float31")
    with pytest.raises(ValueError, match="batch: size must be at least 1, not -1"):
        parsed.batch(-1)
    with pytest.raises(TypeError, match="take: count must be an integer, not 'x'"):
        parsed.take("x")
    with pytest.raises(TypeError, match="parse: features must be .* or None, not"):
        sf.read(dataset).parse(["x"])
    with pytest.raises(TypeError, match="expected the number of a record"):
        parsed["n"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'"):
        parsed.with_options(thread=3)


def test_damage_is_named(dataset, tmp_path):
    paths = sorted(pathlib.Path(dataset).parent.glob("train-*"))
    for path in paths:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged = tmp_path / paths[1].name
    data = bytearray(damaged.read_bytes())
    data[40] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(sf.DataLossError, match="train-00001-of-00004.*CRC"):
        list(sf.read(tmp_path / "train@4"))
    report = sf.verify(tmp_path / "train@4")
    assert not report and report.defects[0].shard.endswith("train-00001-of-00004")
    it = iter(sf.read(tmp_path / "train@4", skip_damaged=True))
    assert list(it).count(b"") == 1 == it.stats()["damaged"]
    with pytest.raises(sf.DataLossError, match="1 of .* records is damaged.*shardfeed repair"):
        list(sf.read(tmp_path / "train@4", skip_damaged=True, max_skipped=0))
    for wrong in ("few", ""):
        with pytest.raises(ValueError, match=f"max_skipped must be a number of records or a share such as '5%', not '{wrong}'"):
            list(sf.read(tmp_path / "train@4", skip_damaged=True, max_skipped=wrong))
    with pytest.raises(sf.DataLossError):
        report.raise_if_damaged()
    page = report._repr_html_()
    assert str(report).splitlines()[0].endswith(" bytes: 1 defect") and str(report).startswith("4 shards, ")
    assert str(sf.VerifyReport(1, 1, 1, 0, [])) == "1 shard, 1 record, 1 byte: intact"
    assert "1 defect<" in page and "<table>" in page and "train-00001-of-00004" in page
    assert "&lt;" in sf.VerifyReport(1, 1, 1, 1, [sf.Defect("a<b", "crc", 0, 0, "")])._repr_html_()


def test_a_record_that_lacks_a_feature_is_named(dataset):
    ds = sf.read(dataset).parse({"missing": sf.int64}).batch(4)
    with pytest.raises(Exception, match="train-00000-of-00004: record 0 at byte 0: .*missing"):
        next(iter(ds))
