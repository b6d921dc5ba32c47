"""The package shardfeed: its chains beside tf.data's, and what only Python has."""

import gc
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

import harness
import numpy as np
import pytest
from harness import REPOSITORY, TESTDATA

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

RECORDS = 1000


def features(i):
    return {"n": i, "x": np.arange(3, dtype=np.float32) + i, "text": b"record %d" % i,
            "some": np.full(i % 5, i, np.int64)}


SPEC = {"n": sf.int64, "x": sf.fixed(3, sf.float32), "text": sf.bytes, "some": sf.var(sf.int64)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("package") / "train@4"
    with sf.write(spec) as writer:
        for i in range(RECORDS):
            writer.write(features(i))
    return str(spec)


@pytest.fixture
def parsed(dataset):
    return sf.read(dataset).parse(SPEC)


def numbers(ds):
    return [int(n) for batch in ds for n in np.atleast_1d(batch["n"])]


def python(code, *arguments, timeout=60, **environment):
    """Runs a program of its own that has the package."""
    path = os.pathsep.join([str(REPOSITORY / "python"), str(pathlib.Path(__file__).parent)])
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, timeout=timeout,
                          env={**os.environ, "PYTHONPATH": path, **environment})


def run_python(code, *arguments, **options):
    done = python(code, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


# ---- Written and read


def test_what_is_written_is_what_tensorflow_reads(tf, dataset):
    paths = sorted(pathlib.Path(dataset).parent.glob("train-*"))
    assert len(paths) == 4
    for shard, path in enumerate(paths):
        for i, record in enumerate(harness.read_by_tensorflow(tf, [path])[:20]):
            found = harness.decoded(tf, record)
            wanted = features(4 * i + shard)
            assert found["n"] == [wanted["n"]]
            assert found["x"] == wanted["x"].tolist()
            assert found["text"] == [wanted["text"]]
            assert found["some"] == wanted["some"].tolist()


def test_records_are_bytes(tf, dataset):
    paths = sorted(pathlib.Path(dataset).parent.glob("train-*"))
    wanted = harness.read_by_tensorflow(tf, paths)
    ds = sf.read(dataset)
    assert len(ds) == RECORDS
    assert list(ds) == wanted
    blocks = list(ds.blocks())
    assert [record for block in blocks for record in block] == wanted
    joined, offsets = blocks[0].joined()
    assert bytes(joined[offsets[1]:offsets[2]]) == wanted[1]
    assert bytes(blocks[0].view(1)) == wanted[1]


def test_values_of_all_kinds_are_written(tf, tmp_path):
    wanted = {"int": 5, "bool": True, "float": 0.5, "bytes": b"\xff\0", "str": "é", "ints": [1, 2],
              "mixed": [1, 2.5], "floats": (0.5, 1.5), "names": ["a", b"b"], "none": [],
              "i8": np.int8([-1, 2]), "u16": np.uint16([65535]), "f64": np.float64([[1, 2], [3, 4]]),
              "mask": np.array([True, False]), "scalar": np.float32(2), "objects":
              np.array([b"x", b"yz"], dtype=object), "f16": np.float16([1.5]),
              "no_floats": np.zeros(0, np.float32)}
    with sf.write(tmp_path / "a@1") as writer:
        writer.write(wanted)
        writer.write(b"not an Example")
    assert writer.report["records"] == 2
    first, second = sf.read(tmp_path / "a@1")
    found = harness.decoded(tf, first)
    assert found == {
        "int": [5], "bool": [1], "float": [0.5], "bytes": [b"\xff\0"], "str": ["é".encode()],
        "ints": [1, 2], "mixed": [1.0, 2.5], "floats": [0.5, 1.5], "names": [b"a", b"b"],
        "no_floats": [], "i8": [-1, 2], "u16": [65535], "f64": [1, 2, 3, 4], "mask": [1, 0],
        "scalar": [2.0], "objects": [b"x", b"yz"], "f16": [1.5]}
    assert second == b"not an Example"


def test_empty_lists_have_no_type_of_their_own(tf, tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"x": [], "n": 1})
        writer.write({"x": [0.5], "n": 2})
    spec = {"x": tf.io.RaggedFeature(tf.float32), "n": tf.io.FixedLenFeature([], tf.int64)}
    theirs = tf.io.parse_example(list(sf.read(tmp_path / "a@1")), spec)
    assert theirs["x"].to_list() == [[], [0.5]]
    for ds in (sf.read(tmp_path / "a@1").parse(),
               sf.read(tmp_path / "a@1").parse({"x": sf.var(sf.float32), "n": sf.int64})):
        assert [row["x"].tolist() for row in ds] == [[], [0.5]]


def test_declared_features_are_written_as_such(tf, tmp_path):
    with sf.write(tmp_path / "a@1", features={"x": sf.var(sf.float32), "y": sf.float32,
                                              "name": sf.bytes, "n": np.int32}) as writer:
        writer.write({"x": [], "y": 1, "name": [], "n": [], "other": 2})
        writer.write({"x": np.arange(2), "y": np.float64(0.5), "name": "a", "n": 3})
    first, second = [tf.train.Example.FromString(r).features.feature
                     for r in sf.read(tmp_path / "a@1")]
    assert {name: f.WhichOneof("kind") for name, f in first.items()} == {
        "x": "float_list", "y": "float_list", "name": "bytes_list", "n": "int64_list",
        "other": "int64_list"}
    assert first["y"].float_list.value == [1] and second["x"].float_list.value == [0, 1]
    for feature, value in (("x", b"a"), ("n", 0.5), ("name", 5), ("y", "a")):
        with pytest.raises(TypeError, match=f"feature '{feature}': .*, where .* are declared"):
            with sf.write(tmp_path / "b@1", features={"x": sf.float32, "n": sf.int64, "y": float,
                                                      "name": sf.bytes}) as writer:
                writer.write({feature: value})
    with pytest.raises(TypeError, match="write: features must be a dict .*, not"):
        sf.write(tmp_path / "b@1", features=["x"])


@pytest.mark.parametrize("value", [None, {"a": 1}, [b"a", 1], 1 << 70, object()])
def test_values_that_no_feature_can_have(tmp_path, value):
    with pytest.raises((TypeError, ValueError), match="feature 'odd'"):
        with sf.write(tmp_path / "a@1") as writer:
            writer.write({"odd": value})
    assert not list(tmp_path.glob("a-*"))


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyError):
        with sf.write(tmp_path / "a@2") as writer:
            writer.write({"n": 1})
            raise KeyError("stop")
    assert not list(tmp_path.glob("a-*"))
    with sf.write(tmp_path / "a@2", compression="gzip") as writer:
        writer.write({"n": 1})
    with pytest.raises(FileExistsError, match="overwrite"):
        sf.write(tmp_path / "a@2")
    with pytest.raises(ValueError, match="how many shards"):
        sf.write(tmp_path / "b")


def test_batches_as_tensorflow_parses_them(tf, dataset, parsed):
    spec = {"n": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([3], tf.float32),
            "text": tf.io.FixedLenFeature([], tf.string), "some": tf.io.RaggedFeature(tf.int64)}
    paths = sorted(str(p) for p in pathlib.Path(dataset).parent.glob("train-*"))
    theirs = tf.data.TFRecordDataset(paths).batch(64).map(lambda r: tf.io.parse_example(r, spec))
    count = 0
    for mine, other in zip(parsed.batch(64), theirs):
        assert np.array_equal(mine["n"], other["n"].numpy()) and mine["n"].dtype == np.int64
        assert np.array_equal(mine["x"], other["x"].numpy()) and mine["x"].dtype == np.float32
        assert np.array_equal(np.asarray(mine["text"]), other["text"].numpy())
        assert mine["some"].tolist() == other["some"].to_list()
        assert np.array_equal(mine["some"].row_splits, other["some"].row_splits.numpy())
        count += 1
    assert count == len(parsed.batch(64)) == 16


def test_rows(parsed):
    row = next(iter(parsed.skip(2)))
    i = row["n"]
    assert i == 8 and isinstance(i, int)
    assert row["text"] == b"record 8"
    assert row["x"].tolist() == [8, 9, 10]
    assert row["some"].tolist() == [8, 8, 8]


def test_parse_without_names_knows_all_features(dataset):
    ds = sf.read(dataset).parse()
    assert ds.element_spec["x"] == ("float32", (3,), False)
    assert ds.element_spec["some"] == ("int64", (), True)


def test_defaults_and_raw(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"raw": np.arange(4, dtype=np.int16).tobytes(), "some": 1})
        writer.write({"raw": np.arange(4, dtype=np.int16).tobytes()})
    batch = next(iter(sf.read(tmp_path / "a@1").parse({
        "raw": sf.fixed(4, np.int16, raw=True), "some": sf.fixed((), sf.int64, default=-1),
        "name": sf.fixed((), sf.bytes, default="?")}).batch(2)))
    assert batch["raw"].tolist() == [[0, 1, 2, 3]] * 2
    assert batch["some"].tolist() == [1, -1]
    assert batch["name"].tolist() == [b"?", b"?"]


@pytest.mark.parametrize("name, form, wanted", [
    ("n", sf.int64, 4), ("n", sf.int64(), 4), ("n", sf.int64(1), [4]), ("n", int, 4), ("n", np.int32, 4),
    ("n", "int64", 4), ("n", np.dtype("int64"), 4), ("none", sf.int64(default=-1), -1),
    ("text", sf.bytes, b"record 4"), ("text", sf.bytes(), b"record 4"), ("text", bytes, b"record 4"),
    ("text", str, b"record 4"), ("none", sf.bytes(default=b"?"), b"?"),
    ("x", sf.fixed(3), [4, 5, 6]), ("x", sf.float32(3), [4, 5, 6]), ("x", sf.fixed([3], float), [4, 5, 6]),
    ("x", sf.var(float), [4, 5, 6]), ("x", sf.ragged(np.float32), [4, 5, 6]),
    ("some", sf.var(), [4] * 4), ("some", sf.ragged(), [4] * 4), ("some", sf.sparse(int), [4] * 4)])
def test_forms_of_features(dataset, name, form, wanted):
    value = sf.read(dataset).parse({name: form})[1][name]
    assert (value.tolist() if isinstance(value, np.ndarray) else value) == wanted


@pytest.mark.parametrize("form, why", [
    (sf.fixed, r"call it: sf\.fixed\("), (sf.var, r"call it: sf\.var\("), (None, "None is no type"),
    (5, "5 is no type"), ("string", "there is no type 'string'"), (dict, "there is no type 'object'")])
def test_forms_that_are_no_features(dataset, form, why):
    with pytest.raises((TypeError, ValueError), match=f"feature 'x': .*{why}"):
        sf.read(dataset).parse({"x": form})


# ---- Arrays


def test_arrays_are_views_that_live_on(parsed):
    it = iter(parsed.batch(100))
    first = next(it)
    x, some = first["x"], first["some"].values
    copies = x.copy(), some.copy()
    assert not x.flags.owndata
    text = first["text"]
    del first
    for _ in it:
        pass
    it.close()
    gc.collect()
    assert np.array_equal(x, copies[0]) and np.array_equal(some, copies[1])
    assert text[-1] == b"record 396"
    x[0] = 7  # nobody else has it


def test_cached_arrays_are_read_only(parsed):
    ds = parsed.batch(100).cache().repeat(2)
    for batch in ds:
        with pytest.raises(ValueError):
            batch["x"][0] = 7


def test_bytes_array(parsed):
    text = next(iter(parsed.batch(4)))["text"]
    assert len(text) == 4 and text.shape == (4,)
    assert text[1] == text[-3] == b"record 4"
    assert list(text[1:3]) == [b"record 4", b"record 8"]
    assert text[::-2].tolist() == [b"record 12", b"record 4"]
    assert text.nbytes == sum(map(len, text))
    with pytest.raises(IndexError):
        text[4]


def test_torch_tensors_share_the_memory(parsed):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    batch = next(iter(parsed.batch(10).torch()))
    assert batch["x"].shape == (10, 3) and batch["x"].dtype == torch.float32
    assert batch["some"].values.dtype == torch.int64
    array = next(iter(parsed.batch(10)))["x"]
    torch.from_numpy(array)[0, 0] = 5
    assert array[0, 0] == 5


def test_jax_arrays(parsed):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    batch = next(iter(parsed.batch(10).jax()))
    assert isinstance(batch["x"], jax.Array) and batch["x"].shape == (10, 3)


def test_tensorflow_tensors(tf, parsed):
    batch = next(iter(parsed.batch(10).tf()))
    assert batch["x"].shape == (10, 3)
    assert batch["text"].numpy()[1] == b"record 4"
    assert batch["some"].to_list()[2] == [8, 8, 8]


def test_tf_dataset(tf, parsed):
    ds = sf.tf.dataset(parsed.batch(100))
    assert ds.element_spec["x"] == tf.TensorSpec([None, 3], tf.float32)
    assert int(ds.cardinality()) == 10
    assert [n for batch in ds for n in batch["n"].numpy()] == numbers(parsed)


# ---- Steps


def test_steps_as_tf_data(tf):
    ours, theirs = sf.range(100), tf.data.Dataset.range(100)

    def same(mine, other):
        assert [e["value"].tolist() if hasattr(e["value"], "tolist") else e["value"] for e in mine
                ] == [e.numpy().tolist() for e in other]
        assert len(mine) == int(other.cardinality())

    same(ours.take(7), theirs.take(7))
    same(ours.skip(7).batch(10), theirs.skip(7).batch(10))
    same(ours.batch(8, drop_remainder=True), theirs.batch(8, drop_remainder=True))
    same(ours.shard(1, 3), theirs.shard(3, 1))
    same(ours.repeat(3).prefetch(2), theirs.repeat(3).prefetch(2))
    same(ours.concatenate(sf.range(5)), theirs.concatenate(tf.data.Dataset.range(5)))
    assert [e["value"] for e in ours.map(lambda e: {"value": e["value"] ** 2}).filter(
        lambda e: e["value"] % 3 == 0)] == [
            int(e) for e in theirs.map(lambda e: e ** 2).filter(lambda e: e % 3 == 0)]


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


def test_each_iterator_is_the_next_epoch(dataset):
    """In every process the same ones; a view, a copy of the chain and a loaded state go on likewise."""
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
    assert [row["n"] for row in ds] == epochs[0]  # what was named counts for itself
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
    """In a child, it neither hangs nor ends what the parent writes."""
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
    """Their size, and so their indexes, are as they were."""
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
    with pytest.raises(RuntimeError, match="was written to after .*'shardfeed index'"):
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
    with pytest.raises(TypeError, match="draws at random"):
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
        # Each time another folder: the files of an iterator that goes on must stay.
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
    with pytest.raises(ValueError, match="no type 'float31'"):
        sf.fixed((), "float31")
    with pytest.raises(ValueError, match="batch: size must be at least 1, not -1"):
        parsed.batch(-1)
    with pytest.raises(TypeError, match="take: count must be a whole number, not 'x'"):
        parsed.take("x")
    with pytest.raises(TypeError, match="parse: features must be .* or None, not"):
        sf.read(dataset).parse(["x"])
    with pytest.raises(TypeError, match="'n' is none"):
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
    with pytest.raises(sf.DataLossError, match="1 of .* records are damaged.*shardfeed repair"):
        list(sf.read(tmp_path / "train@4", skip_damaged=True, max_skipped=0))
    for wrong in ("few", ""):
        with pytest.raises(ValueError, match=f"max_skipped is .* a share such as '5%', not '{wrong}'"):
            list(sf.read(tmp_path / "train@4", skip_damaged=True, max_skipped=wrong))
    with pytest.raises(sf.DataLossError):
        report.raise_if_damaged()
    page = report._repr_html_()
    assert "1 defects" in page and "<table>" in page and "train-00001-of-00004" in page
    assert "&lt;" in sf.VerifyReport(1, 1, 1, 1, [sf.Defect("a<b", "crc", 0, 0, "")])._repr_html_()


def test_a_record_that_lacks_a_feature_is_named(dataset):
    ds = sf.read(dataset).parse({"missing": sf.int64}).batch(4)
    with pytest.raises(Exception, match="train-00000-of-00004: record 0 at byte 0: .*missing"):
        next(iter(ds))


# ---- Functions


def double(element):
    return {"n": element["n"], "twice": element["x"] * 2}


def test_map_of_rows(parsed):
    ds = parsed.map(double)
    assert ds.element_spec == {"n": ("int64", (), False), "twice": ("float32", (3,), False)}
    for batch in ds.batch(100):
        assert np.array_equal(batch["twice"][:, 0], 2.0 * batch["n"])


def test_map_of_batches(parsed):
    ds = parsed.batch(100).map(double, batched=True)
    for batch in ds:
        assert np.array_equal(batch["twice"][:, 0], 2.0 * batch["n"])
    kept = [b for b in parsed.batch(64).map(lambda b: {"n": b["n"], "t": b["text"], "s": b["some"]},
                                            batched=True)]
    assert kept[3]["t"].tolist() == [b"record %d" % n for n in kept[3]["n"]]
    assert kept[3]["s"].tolist() == [[n] * (n % 5) for n in kept[3]["n"].tolist()]


def test_map_of_padded_batches_of_any_length(parsed):
    ds = parsed.padded_batch(3).map(lambda b: {"some": b["some"] + 1}, batched=True)
    assert {batch["some"].shape[1] for batch in ds} > {3, 4}


def test_map_to_empty_lists(parsed):
    for kind in (sf.int64, sf.float32, sf.bytes):
        ds = parsed.map(lambda e: {"a": []}, output={"a": sf.var(kind)})
        assert [len(row["a"]) for row in ds.take(3)] == [0, 0, 0]
    ds = parsed.map(lambda e: {"a": [1] * (e["n"] % 2)}, output={"a": sf.var(sf.int64)})
    assert next(iter(ds.skip(249).batch(3)))["a"].tolist() == [[], [1], [1]]


def test_map_to_bytes_and_lists(parsed):
    ds = parsed.map(lambda e: {"words": e["text"].decode().split(), "upper": e["text"].upper(),
                               "half": [e["n"] / 2] * 2})
    assert ds.element_spec["words"] == ("bytes", (), True)
    assert ds.element_spec["half"] == ("float32", (), True)
    batches = list(ds.batch(300))
    gc.collect()
    batch = batches[1]
    assert batch["upper"][0] == b"RECORD " + batch["words"][0][1]
    assert [b"record", batch["words"][-1][1]] == batch["words"][-1].tolist()


def test_records_can_be_mapped(dataset):
    ds = sf.read(dataset).map(len)
    assert list(ds) == [len(record) for record in sf.read(dataset)]


def test_tuples(parsed):
    import collections
    Pair = collections.namedtuple("Pair", "x y")
    for kind in (lambda x, y: (x, y), Pair):
        ds = parsed.map(lambda e: kind(e["x"], e["n"])).batch(10)
        x, y = element = next(iter(ds))
        assert type(element) is (tuple if kind is not Pair else Pair)
        assert x.shape == (10, 3) and y.shape == (10,)
    nested = parsed.map(lambda e: ({"a": e["n"], "b": {"c": e["x"]}}, e["n"])).batch(4)
    first, label = next(iter(nested))
    assert first["a"].tolist() == label.tolist() and first["b"]["c"].shape == (4, 3)


def test_filters(parsed):
    odd = [n for n in numbers(parsed) if n % 2]
    assert numbers(parsed.filter(lambda e: e["n"] % 2 == 1)) == odd
    assert numbers(parsed.batch(10).filter(lambda b: b["n"] % 2 == 1, batched=True)) == odd


class Odd(Exception):
    pass


def refuse(element):
    if np.any(np.asarray(element["n"]) == 500):
        raise Odd("five hundred")
    return {"n": element["n"]}


@pytest.mark.parametrize("batched", [False, True])
def test_exceptions_keep_their_traceback_and_name_the_record(parsed, batched):
    ds = parsed.batch(10).map(refuse, batched=True) if batched else parsed.map(refuse).batch(10)
    with pytest.raises(Odd, match="five hundred") as caught:
        list(ds)
    assert "refuse" in "".join(traceback.format_tb(caught.value.__traceback__))
    if sys.version_info >= (3, 11):
        number = 120 if batched else 125
        assert f"train-00000-of-00004: record {number} at byte" in caught.value.__notes__[0]


def test_a_filter_that_raises(parsed):
    with pytest.raises(ZeroDivisionError):
        list(parsed.filter(lambda e: 1 / 0))


def test_functions_that_do_not_keep_to_their_word(parsed):
    with pytest.raises(ValueError, match="shape"):
        list(parsed.map(lambda e: {"a": np.zeros(1 + e["n"] % 2)}))
    with pytest.raises(TypeError, match="float64 where int64"):
        list(parsed.map(lambda e: {"a": e["n"] if e["n"] < 9 else np.float64(0.5)}))
    with pytest.raises(ValueError, match="no elements"):
        parsed.take(0).map(double)
    with pytest.raises(ValueError, match="batched=True"):
        parsed.batch(3).map(double)


def test_declared_outputs_are_not_learnt(parsed):
    calls = []

    def fn(element):
        calls.append(1)
        return {"a": element["n"]}

    ds = parsed.map(fn, output={"a": sf.float32})
    assert not calls and ds.element_spec == {"a": ("float32", (), False)}
    assert next(iter(ds)) == {"a": 0.0}


def test_map_on_processes(dataset):
    code = """
import sys, os, shardfeed as sf, process_functions
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(100)
    got = list(ds.map(process_functions.with_pid, batched=True, processes=2))
    print(len(got), os.getpid() in {int(p) for b in got for p in b["pid"]})
    try:
        list(ds.map(process_functions.die, batched=True, processes=1,
                    output={"n": sf.int64}))
    except RuntimeError as error:
        print(error)
"""
    out = run_python(code, dataset).splitlines()
    assert out[0] == "10 False"
    assert "a worker process of map(processes=1) died" in out[1]


# ---- State


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


# ---- By number


def test_elements_by_number(dataset, parsed):
    all_records = list(sf.read(dataset))
    ds = sf.read(dataset)
    assert ds[3] == all_records[3] and ds[-1] == all_records[-1]
    assert list(ds[10:20:3]) == all_records[10:20:3]
    rows = parsed[[5, 900, 5]]
    assert [row["n"] for row in rows] == [numbers(parsed)[i] for i in (5, 900, 5)]
    assert sf.read(dataset).parse()[7]["text"] == parsed[7]["text"]
    assert parsed.map(double)[1]["twice"].tolist() == [8, 10, 12]
    with pytest.raises(IndexError):
        ds[RECORDS]
    with pytest.raises(TypeError, match="shuffle"):
        ds.shuffle(1)[0]
    path, record, offset = ds.place(251)
    assert path.endswith("train-00001-of-00004") and record == 1 and offset > 0
    # Errors name it as they do when it comes by iterating.
    with pytest.raises(Exception, match=f"train-00001-of-00004: record 1 at byte {offset}: "):
        ds.parse({"n": sf.float32})[[251, 7]]


def test_generators_are_not_drawn_far_ahead():
    drawn = []

    def slowly():
        for i in range(1000):
            drawn.append(i)
            time.sleep(0.03)
            yield {"n": i}

    def quickly():
        for i in range(1000):
            drawn.append(i)
            yield {"n": i}

    declared = {"n": sf.int64}
    for make, most in ((slowly, 10), (quickly, 70)):
        ds = sf.from_generator(make, declared).map(lambda row: row, output=declared)
        drawn.clear()
        with ds.start(threads=2) as it:
            assert next(it)["n"] == 0
            time.sleep(1)
            assert len(drawn) <= most
            assert [next(it)["n"] for _ in range(20)] == list(range(1, 21))


def test_datasets_can_be_pickled(parsed):
    ds = parsed.map(double).batch(10)
    copy = pickle.loads(pickle.dumps(ds))
    assert repr(copy) == repr(ds) and numbers(copy) == numbers(ds)


def test_map_dataset_and_iterable_dataset(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    # In a process without TensorFlow, which does not like fork.
    out = run_python("""
import sys, shardfeed as sf
from torch.utils.data import DataLoader, DistributedSampler
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64, "x": sf.fixed(3)})
    mapped = sf.torch.MapDataset(ds)
    order = [row["n"] for row in ds]
    for context in ("fork", "spawn"):
        loader = DataLoader(mapped, batch_size=50, num_workers=2, multiprocessing_context=context,
                            sampler=DistributedSampler(mapped, 2, 0, shuffle=False))
        print([n for b in loader for n in b["n"].tolist()] == order[::2])
        found = []
        for rank in range(2):
            part = sf.torch.IterableDataset(ds.batch(10), rank, 2)
            loader = DataLoader(part, batch_size=None, num_workers=2,
                                multiprocessing_context=context)
            found += [n for b in loader for n in b["n"].tolist()]
        print(sorted(found) == sorted(order))
""", dataset, timeout=300)
    assert out.split() == ["True"] * 4


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_iterable_datasets_count_for_all_workers_and_go_through_epochs(dataset, context):
    pytest.importorskip("torch", reason="torch is not installed")
    out = run_python("""
import sys, shardfeed as sf
from torch.utils.data import DataLoader

ds = sf.read(sys.argv[1]).shuffle(seed=1, window=None).parse({"n": sf.int64})

def loaded(chain, workers=2):
    return DataLoader(sf.torch.IterableDataset(chain), batch_size=None, num_workers=workers,
                      multiprocessing_context=sys.argv[2] if workers else None)

if __name__ == "__main__":
    first = [row["n"] for row in ds.take(10).start(epoch=0)]
    assert sorted(int(row["n"]) for row in loaded(ds.take(10))) == sorted(first)
    assert len(list(loaded(ds.skip(990)))) == 10
    assert sorted(int(row["index"]) for row in loaded(ds.take(20).enumerate())) == list(range(20))
    for workers in (0, 2):
        data = sf.torch.IterableDataset(ds.batch(10))
        loader = DataLoader(data, batch_size=None, num_workers=workers,
                            multiprocessing_context=sys.argv[2] if workers else None)
        epochs = [[n for b in loader for n in b["n"].tolist()] for _ in range(3)]
        assert len({tuple(e) for e in epochs}) == 3
        assert all(sorted(e) == list(range(1000)) for e in epochs)
        data.set_epoch(1)
        assert [n for b in loader for n in b["n"].tolist()] == epochs[1], workers
    try:
        sf.torch.IterableDataset(ds.take(5).shard(0, 2))
    except ValueError as e:
        assert "takes a rank's part already" in str(e)
        print("done")
""", dataset, context, timeout=300)
    assert out.split() == ["done"]


def test_the_order_of_distributed_sampler(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    out = run_python("""
import itertools, sys, shardfeed as sf
from torch.utils.data import DistributedSampler
ds = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))

class Few:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n

for data, world, shuffle, drop in itertools.product([ds, Few(11), Few(1)], [1, 2, 3], [True, False],
                                                    [True, False]):
    for rank in range(world):
        mine = sf.torch.DistributedSampler(data, world, rank, shuffle, 5, drop)
        theirs = DistributedSampler(data, world, rank, shuffle, 5, drop)
        for epoch in (0, 0, 3):
            mine.set_epoch(epoch)
            theirs.set_epoch(epoch)
            assert list(mine) == list(theirs) and len(mine) == len(theirs)

# From any place, with any number of ranks.
whole = list(sf.torch.DistributedSampler(Few(24), 1, 0, seed=1))
two = [sf.torch.DistributedSampler(Few(24), 2, rank, seed=1) for rank in range(2)]
begun = [list(itertools.islice(sampler, 4)) for sampler in two]
assert sorted(sum(begun, [])) == sorted(whole[:8])
for world in (1, 2, 4):
    rest = []
    for rank in range(world):
        sampler = sf.torch.DistributedSampler(Few(24), world, rank, seed=1)
        sampler.load_state_dict(two[0].state_dict())
        rest.append(list(sampler))
        assert len(list(sampler)) == 24 // world  # the next run is a whole one
    assert [n for step in zip(*rest) for n in step] == whole[8:]
print("done")
""", dataset, timeout=120)
    assert out == "done"


def test_ranks_of_the_sampler_are_found(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    code = """
import sys, shardfeed as sf
ds = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))
print(list(sf.torch.DistributedSampler(ds, shuffle=False))[:3])
"""
    assert run_python(code, dataset, timeout=120, RANK="1", WORLD_SIZE="4") == "[1, 5, 9]"


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader(dataset, workers):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torchdata", reason="torchdata is not installed (pip install torchdata)")
    out = run_python("""
import sys, shardfeed as sf
from torchdata.stateful_dataloader import StatefulDataLoader
workers = int(sys.argv[2])
ds = sf.read(sys.argv[1], records="0-199").shuffle(1, window=50).parse({"n": sf.int64})

def iterable():
    return StatefulDataLoader(sf.torch.IterableDataset(ds.batch(10), 0, 1), batch_size=None,
                              num_workers=workers)

def by_number():
    data = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))
    return StatefulDataLoader(data, batch_size=50, num_workers=workers,
                              sampler=sf.torch.DistributedSampler(data, 1, 0))

if __name__ == "__main__":
    for make in (iterable, by_number):
        whole = [b["n"].tolist() for b in make()]
        assert len({n for b in whole for n in b}) == sum(map(len, whole))
        for stop in (0, 1, 5, len(whole) - 1):
            loader = make()
            it = iter(loader)
            first = [next(it)["n"].tolist() for _ in range(stop)]
            state = loader.state_dict()
            del it
            other = make()
            other.load_state_dict(state)
            assert first + [b["n"].tolist() for b in other] == whole, (make, stop)
            after = [b["n"].tolist() for b in other]  # the next epoch
            assert sorted(sum(after, [])) == sorted(sum(whole, []))
            assert (after == whole) == (make is by_number), (make, stop)
    print("done")
""", dataset, workers, timeout=200)
    assert out.splitlines()[-1] == "done"


# ---- In a process


def test_the_import_is_light(dataset):
    out = run_python("""
import sys
import numpy, shardfeed
print([m for m in ("torch", "tensorflow", "jax", "cv2", "google.protobuf", "multiprocessing.pool",
                   "concurrent.futures") if m in sys.modules])
print(len([l for l in open("/proc/self/maps") if "opencv" in l or "protobuf" in l]))
""")
    assert out.split("\n") == ["[]", "0"]


@pytest.mark.parametrize("order", [["tensorflow", "shardfeed"], ["shardfeed", "tensorflow"],
                                   ["torch", "tensorflow", "shardfeed"], ["shardfeed", "torch"]])
def test_any_order_of_imports(dataset, order):
    for name in order:
        pytest.importorskip(name, reason=f"{name} is not installed")
    code = "\n".join(f"import {name}" for name in order) + """
import sys, shardfeed as sf
print(sum(b["n"].sum() for b in sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(64)))
"""
    if "tensorflow" in order:
        code += """
print(sum(int(tensorflow.io.parse_single_example(r, {"n": tensorflow.io.FixedLenFeature(
    [], tensorflow.int64)})["n"]) for r in list(sf.read(sys.argv[1]))[:9]) >= 0)
"""
    assert run_python(code, dataset, timeout=120).split()[0] == str(sum(range(RECORDS)))


def test_the_extension_shows_nothing():
    extension = next((REPOSITORY / "python/shardfeed").glob("_core.*.so"))
    symbols = subprocess.run(["nm", "-D", "--defined-only", extension], capture_output=True,
                             text=True).stdout
    names = {line.split()[-1] for line in symbols.splitlines()}
    # Instances of std::string that the C++ library wants to be one in the process.
    assert {name for name in names if not name.startswith("_ZNSt7__cxx1112basic_string")} == {
        "PyInit__core"}


SLOW = """
import os, sys, time, threading, shardfeed as sf
def slow(element):
    time.sleep(30)
    return element
ds = sf.range(1000).map(slow, output={"value": sf.int64})
it = iter(ds)
"""


def test_ctrl_c_is_seen_while_waiting():
    code = SLOW + """
import signal
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    next(it)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 5, flush=True)
os._exit(0)
"""
    assert run_python(code) == "interrupted True"


def test_an_interrupted_call_loses_nothing(dataset):
    code = """
import signal, sys, time, threading, os, shardfeed as sf
def slow(element):
    time.sleep(0.3 if element["value"] < 2 else 0)
    return element
it = iter(sf.range(10).map(slow, output={"value": sf.int64}))
class Seen(Exception): pass
def handler(*_): raise Seen
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    next(it)
except Seen:
    pass
print([e["value"] for e in it])
"""
    assert run_python(code) == str(list(range(10)))


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "sys.exit(0)", "it.close()", "del it",
                                 "threading.Thread(target=lambda: list(it), daemon=True).start()",
                                 "for _ in range(9):\n"
                                 "    threading.Thread(target=lambda: list(it), daemon=True).start()",
                                 "keep = [it]; keep.append(keep); del it"])
def test_the_process_ends_whatever_runs(dataset, end):
    code = """
import os, sys, threading, shardfeed as sf
def busy(element):
    return {"n": sum(range(1000)) + element["n"]}
it = iter(sf.read(sys.argv[1]).parse({"n": sf.int64}).map(busy).batch(8).repeat())
for _ in range(3):
    next(it)
print("end", flush=True)
""" + end
    done = python(code, dataset, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")


def test_exit_handlers_find_iterators_closed(dataset):
    code = """
import atexit, sys
def look():
    try:
        next(it)
    except ValueError as error:
        print(error)
atexit.register(look)  # runs after the package's
import shardfeed as sf
it = iter(sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(8))
next(it)
"""
    assert run_python(code, dataset) == "the iterator is closed"


def test_threads_that_make_iterators_while_the_program_ends(dataset):
    code = """
import sys, threading, shardfeed as sf
ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).map(lambda e: {"n": e["n"] + 1}).batch(8)
begun = threading.Semaphore(0)
def make():
    begun.release()
    while True:
        next(iter(ds))
for _ in range(4):
    threading.Thread(target=make, daemon=True).start()
for _ in range(4):
    begun.acquire()
print("end", flush=True)
"""
    done = python(code, dataset, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")


def test_children_after_fork(dataset):
    code = """
import os, sys, shardfeed as sf
ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(10)
it = iter(ds)
next(it)
child = os.fork()
if child == 0:
    try:
        next(it)
    except RuntimeError as error:
        ok = "fork" in str(error)
    it.close()
    del it
    # A run of its own.
    ok = ok and sum(len(b["n"]) for b in ds) == 1000
    sys.exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(1 + sum(1 for _ in it))
"""
    assert run_python(code, dataset) == "100"


def test_the_gil_is_free_while_waiting():
    out = run_python(SLOW.replace("30", "1").replace("1000", "2") + """
began = time.monotonic()
waiter = threading.Thread(target=lambda: next(it))
waiter.start()
spins = 0
while waiter.is_alive():
    spins += 1
print(spins > 1000)
""")
    assert out == "True"


def test_many_threads_share_an_iterator(parsed):
    it = iter(parsed)
    found = []

    def take():
        for row in it:
            found.append(row["n"])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(RECORDS))


def test_iterators_that_are_dropped_leave_nothing(parsed):
    def threads():
        return len(os.listdir("/proc/self/task"))

    ds = parsed.map(double).batch(10)
    next(iter(ds))
    gc.collect()
    before = threads()
    for _ in range(50):
        next(iter(ds))
    gc.collect()
    assert threads() <= before + 1


# ---- The program


def test_the_command_line():
    path = str(REPOSITORY / "python")
    done = subprocess.run([sys.executable, "-m", "shardfeed", "--version"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.strip() == f"shardfeed {sf.__version__}"


def test_convert_verify_index_inspect(tmp_path):
    out = tmp_path / "images@2"
    report = sf.convert("imagefolder", TESTDATA / "images", out, limit=8, no_sync=True)
    assert report["records"] == 8
    assert sf.verify(out)
    assert sf.index(out, export="dali")["records"] == 8
    seen = sf.inspect(out)
    assert seen.records == 8 and "feature" in repr(seen)
    assert "data:image/" in seen._repr_html_()
    with pytest.raises(ValueError, match="overwrite"):
        sf.convert("imagefolder", TESTDATA / "images", out)
    with pytest.raises(OSError, match="No such file"):
        sf.convert("csv", tmp_path / "nothing.csv", tmp_path / "b@1")
    assert "sound" in repr(sf.verify(out)) and "<table>" not in sf.verify(out)._repr_html_()
    # Images that are gone by the time of looking.
    for path in tmp_path.glob("images-*"):
        path.unlink()
    assert "<table>" in seen._repr_html_() and "data:image/" not in seen._repr_html_()
