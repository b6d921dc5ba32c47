"""The package: writing, and reading back as batches and rows."""

import pathlib

import harness
import numpy as np
import pytest
from package_data import RECORDS, dataset, features, parsed, sf

HERE_AND_IN_STORE = True


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
                                              "name": sf.var(sf.bytes), "n": sf.var(np.int32)}) as writer:
        writer.write({"x": [], "y": 1, "name": [], "n": []})
        writer.write({"x": np.arange(2), "y": np.float64(0.5), "name": ["a"], "n": [3]})
    first, second = [tf.train.Example.FromString(r).features.feature
                     for r in sf.read(tmp_path / "a@1")]
    assert {name: f.WhichOneof("kind") for name, f in first.items()} == {
        "x": "float_list", "y": "float_list", "name": "bytes_list", "n": "int64_list"}
    assert first["y"].float_list.value == [1] and second["x"].float_list.value == [0, 1]
    for feature, value in (("x", b"a"), ("n", 0.5), ("name", 5), ("y", "a")):
        with pytest.raises(TypeError, match=f"feature '{feature}': .*, where .* are declared"):
            with sf.write(tmp_path / "b@1", features={"x": sf.float32, "n": sf.int64, "y": float,
                                                      "name": sf.bytes}) as writer:
                writer.write({feature: value})
    with pytest.raises(TypeError, match="write: features must be a dict .*, not"):
        sf.write(tmp_path / "b@1", features=["x"])


@pytest.mark.parametrize("value", [[None], {"a": 1}, [b"a", 1], 1 << 70, object()])
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
    with pytest.raises(FileExistsError, match="; pass overwrite=True to replace it$"):
        sf.write(tmp_path / "a@2")
    with pytest.raises(ValueError, match="the number of shards is missing"):
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
    (sf.fixed, r"call it: sf\.fixed\("), (sf.var, r"call it: sf\.var\("), (None, "None is not a type"),
    (5, "5 is not a type"), ("string", "type 'string' does not exist"), (dict, "type 'object' does not exist")])
def test_forms_that_are_no_features(dataset, form, why):
    with pytest.raises((TypeError, ValueError), match=f"feature 'x': .*{why}"):
        sf.read(dataset).parse({"x": form})
