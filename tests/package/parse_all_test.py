"""parse() without names: what it knows of datasets without a manifest, and that it drops nothing."""

import json
import shutil
import subprocess

import harness
import pytest
from package_data import sf

HERE_AND_IN_STORE = True


def without_kind(*names):
    """An Example of features that have no kind, as TFX writes missing values."""
    entries = b""
    for name in names:
        entry = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12\x00"
        entries += b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(entries)]) + entries


def foreign(tmp_path, records, shards=2):
    """A dataset as others write it: shards alone."""
    name = tmp_path / f"d@{shards}"
    with sf.write(name) as writer:
        for record in records:
            writer.write(record)
    shutil.rmtree(tmp_path / ".shardfeed")
    return name


def bench(name, *options):
    from shardfeed.command import program
    return subprocess.run([program(), "bench", str(name), "--parse", "--json", *options], capture_output=True, text=True)


def test_a_feature_of_late_records_is_known(tmp_path):
    name = foreign(tmp_path, ({"n": i, **({"late": 0.5} if i >= 4990 else {})} for i in range(5000)))
    ds = sf.read(name).parse()
    assert ds.element_spec == {"n": ("int64", (), False), "late": ("float32", (), True)}
    assert sum(len(row["late"]) for row in ds) == 10


def test_values_that_are_missing_in_late_records(tmp_path):
    name = foreign(tmp_path, ({"n": i} if i < 4990 else {"m": 1} for i in range(5000)))
    assert sum(len(row["n"]) for row in sf.read(name).parse()) == 4990
    done = bench(name, "--batch", "100")
    assert done.returncode == 0 and json.loads(done.stdout)["rows"] == 5000, done.stderr


def test_features_without_any_value_are_empty_columns(tmp_path):
    name = foreign(tmp_path, [without_kind("a", "b"), without_kind("a"), {"b": 1}])
    ds = sf.read(name).parse()
    assert ds.element_spec == {"a": ("bytes", (), True), "b": ("int64", (), True)}
    assert [len(row["a"]) for row in ds] == [0, 0, 0]
    assert bench(name).returncode == 0


def test_what_a_sample_does_not_know_is_an_error(tmp_path):
    big = b"x" * 100_000
    name = foreign(tmp_path, ({"image": big, "n": i, **({"late": 0.5} if i == 600 else {})} for i in range(800)))
    message = ("d-00000-of-00002: record 300 at byte ", "feature 'late' is not known. The features were found in some of "
               "the records, since the dataset has no manifest (which 'shardfeed index' can write): name the features to "
               "parse; 'shardfeed inspect' lists all")
    with pytest.raises(ValueError) as info:
        for _ in sf.read(name).parse().batch(10):
            pass
    assert all(part in str(info.value) for part in message), str(info.value)
    assert sum(len(b["n"]) for b in sf.read(name).parse({"n": sf.int64}).batch(10)) == 800
    done = bench(name)
    assert done.returncode != 0 and all(part in done.stderr for part in message), done.stderr
    (split,) = sf.splits(name, n=1)
    with pytest.raises(ValueError) as info:
        for _ in split.arrow():
            pass
    assert all(part in str(info.value) for part in message), str(info.value)
    assert sum(len(batch) for batch in split.arrow(["n"])) == 800


def test_features_of_several_kinds_are_an_error(tmp_path):
    name = foreign(tmp_path, [{"n": 1}])
    (one,) = sf.read(name)
    shutil.rmtree(tmp_path / ".shardfeed", ignore_errors=True)
    other = foreign(tmp_path / "other", [{"n": 0.5}], 1)
    with pytest.raises(TypeError, match="record 1: feature 'n': floats, where record 0 has integers"):
        foreign(tmp_path / "refused", [one, *sf.read(other)], 1)
    mixed = tmp_path / "mixed@1"
    (tmp_path / "mixed-00000-of-00001").write_bytes(b"".join(
        path.read_bytes() for path in [*sorted(tmp_path.glob("d-*")), *sorted(tmp_path.glob("other/d-*"))]))
    with pytest.raises(ValueError, match="parse: feature 'n' is int64 in some records and of another kind in 1: name the features"):
        sf.read(mixed).parse()
    done = bench(mixed)
    assert done.returncode != 0 and "feature 'n' is int64 in some records" in done.stderr


def sequences(tmp_path, *records):
    """A dataset of TensorFlow's SequenceExamples, each of which has the steps of the feature list "t"."""
    tf = pytest.importorskip("tensorflow")
    with tf.io.TFRecordWriter(str(tmp_path / "s-00000-of-00001")) as writer:
        for steps in records:
            features = [tf.train.Feature(float_list=tf.train.FloatList(value=step)) for step in steps]
            lists = tf.train.FeatureLists(feature_list={"t": tf.train.FeatureList(feature=features)})
            writer.write(tf.train.SequenceExample(feature_lists=lists).SerializeToString())
    return tmp_path / "s@1"


@pytest.mark.parametrize("with_manifest", [False, True])
@pytest.mark.parametrize("records, spec, expected", [
    ([[[1], [2]], [[3]]], {"t": ("float32", (), True)}, [{"t": [1, 2]}, {"t": [3]}]),
    ([[[1, 2], [3, 4]], []], {"t": ("float32", (2,), True)}, [{"t": [[1, 2], [3, 4]]}, {"t": []}]),
    ([[[1], [2, 3]], [[4]]], {"t": ("float32", (), True), "t_lengths": ("int64", (), True)},
     [{"t": [1, 2, 3], "t_lengths": [1, 2]}, {"t": [4], "t_lengths": [1]}]),
    ([[[], [1, 2]]], {"t": ("float32", (), True), "t_lengths": ("int64", (), True)},
     [{"t": [1, 2], "t_lengths": [0, 2]}])])
def test_steps_of_any_length(tmp_path, records, spec, expected, with_manifest):
    name = sequences(tmp_path, *records)
    if with_manifest:
        sf.index(name, manifest=True)
        assert sf.verify(name, level="examples")
    ds = sf.read(name).parse()
    assert ds.element_spec == spec
    assert [{column: row[column].reshape(-1, *spec[column][1]).tolist() if len(row[column]) else []
             for column in row} for row in ds] == expected
    declared = sf.read(name).parse(feature_lists={"t": sf.ragged(sf.float32, ragged_steps=True)})
    assert [row["t_lengths"].tolist() for row in declared] == [[len(step) for step in steps] for steps in records]
    with pytest.raises(ValueError, match="parse: feature 't': ragged_steps is for the feature_lists of parse"):
        sf.read(name).parse({"t": sf.ragged(sf.float32, ragged_steps=True)})


def test_numbers_of_steps_take_no_feature_s_place(tmp_path):
    tf = pytest.importorskip("tensorflow")
    example = tf.train.SequenceExample()
    example.context.feature["a_lengths"].bytes_list.value.append(b"hello")
    for step in ([1], [2, 3]):
        example.feature_lists.feature_list["a"].feature.add().int64_list.value.extend(step)
    with tf.io.TFRecordWriter(str(tmp_path / "s-00000-of-00001")) as writer:
        writer.write(example.SerializeToString())
    ds = sf.read(tmp_path / "s@1")
    steps = {"a": sf.ragged(sf.int64, ragged_steps=True)}
    for arguments in ({}, {"features": {"a_lengths": sf.bytes}, "feature_lists": steps}):
        with pytest.raises(ValueError, match="parse: there are two columns 'a_lengths'"):
            ds.parse(**arguments)
    assert [row["a_lengths"].tolist() for row in ds.parse(feature_lists=steps)] == [[1, 2]]


def test_manifests_of_earlier_versions_are_completed(tmp_path):
    name = sequences(tmp_path, [[1, 2], [3, 4]], [[5, 6]])
    sf.index(name, manifest=True)
    path = tmp_path / ".shardfeed/s.manifest.json"
    manifest = json.loads(path.read_text())
    for key in ("min_step_values", "max_step_values"):
        del manifest["features"]["t"][key]
    harness.write_manifest(path, manifest)
    with pytest.raises(ValueError, match="The manifest, which an earlier version wrote.*which 'shardfeed index' can add"):
        list(sf.read(name).parse())
    sf.index(name, manifest=True)
    assert [row["t"].tolist() for row in sf.read(name).parse()] == [[[1, 2], [3, 4]], [[5, 6]]]
