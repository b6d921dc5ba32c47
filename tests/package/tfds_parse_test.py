"""parse() of datasets that TFDS has written: testdata/tfds holds what TFDS reads of them.

tests/frameworks/tfds_features_test.py compares many more, beside TFDS itself.
"""

import io
import json
import pathlib
import shutil

import numpy as np
import pytest
from package_data import sf
from PIL import Image

DATA = pathlib.Path(__file__).resolve().parents[2] / "testdata/tfds"
NAMES = sorted(path.parent.name for path in DATA.glob("*/features.json"))
# The columns' types for types of TFDS that no column has.
TYPES = {"bool": "uint8", "uint32": "int64", "uint64": "int64"}


def pixels(images):
    return [np.asarray(Image.open(io.BytesIO(image))) for image in images]


def check(ours, expected, name, column):
    if expected is None:
        assert len(ours) == 0, name
        return
    shape, dtype = tuple(expected["shape"]), expected["dtype"]
    if dtype == "bytes":
        assert np.shape(ours) == shape, name
        assert [value.decode("latin-1") for value in np.ravel(np.array(ours, object))] == expected["values"], name
        return
    values = np.array(expected["values"], TYPES.get(dtype, dtype)).reshape(shape)
    if column == "bytes":
        images = [ours] if isinstance(ours, bytes) else list(ours)
        found = np.array(pixels(images), dtype).ravel()
        # Decoders of JPEG differ in rounding.
        lossy = any(image.startswith(b"\xff\xd8") for image in images)
        assert found.shape == values.ravel().shape, name
        assert np.abs(found.astype(int) - values.ravel()).max(initial=0) <= (12 if lossy else 0), name
    else:
        # Rows have single values as numbers of Python.
        found = np.asarray(ours, column if shape == () else None)
        assert (column, found.dtype, found.shape) == (values.dtype.name, values.dtype, shape), name
        assert np.array_equal(found, values), name


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_those_of_tfds(name, tmp_path):
    expected = json.loads((DATA / name / "expected.json").read_text())
    # A copy, because indexes are written beside shards.
    ds = sf.read(shutil.copytree(DATA / name, tmp_path / name) / "train").parse()
    rows = list(ds)
    assert len(rows) == len(expected)
    for row, of_tfds in zip(rows, expected):
        assert sorted(row) == sorted(of_tfds) == sorted(ds.element_spec)
        for feature, value in of_tfds.items():
            check(row[feature], value, feature, ds.element_spec[feature][0])
    # In batches, and by number.
    batch = next(iter(ds.batch(2)))
    for feature in expected[0]:
        if not ds.element_spec[feature][2] and ds.element_spec[feature][0] != "bytes":
            assert np.array_equal(batch[feature][1], rows[1][feature]), feature


def test_what_is_declared_is_known_without_reading_records(tmp_path):
    folder = shutil.copytree(DATA / "movielens", tmp_path / "m")
    spec = sf.read(folder / "train").parse().element_spec
    assert spec["bucketized_user_age"] == ("float32", (), False)
    assert spec["user_gender"] == ("uint8", (), False)
    assert spec["movie_genres"] == ("int64", (), True)
    # Other names of the same files mean the same.
    for name in (folder, f"{folder}/mock-train.tfrecord@1", f"{folder}/mock-train.tfrecord-00000-of-00001"):
        assert sf.read(name).parse().element_spec == spec
    # Other files in the folder do not belong to it.
    shutil.copyfile(folder / "mock-train.tfrecord-00000-of-00001", folder / "other-00000-of-00001")
    assert sf.read(folder / "other@1").parse().element_spec["user_gender"] == ("int64", (), False)
    (folder / "dataset_info.json").unlink()
    assert sf.read(f"{folder}/mock-train.tfrecord@1").parse().element_spec["user_gender"] == ("int64", (), False)


def changed(tmp_path, change, name="movielens"):
    """A copy of a dataset whose features.json `change` has changed."""
    folder = shutil.copytree(DATA / name, tmp_path / "d")
    description = json.loads((folder / "features.json").read_text())
    replaced = change(description["featuresDict"]["features"])
    (folder / "features.json").write_text(json.dumps(description) if replaced is None else replaced)
    return folder


def fails(folder, error, *texts):
    with pytest.raises(error) as raised:
        list(sf.read(folder / "train").parse())
    for text in texts:
        assert text in str(raised.value), raised.value


def test_a_feature_that_is_not_declared_is_named_and_not_dropped(tmp_path):
    folder = changed(tmp_path, lambda features: features.pop("user_gender") and None)
    fails(folder, ValueError, "record 0 at byte 0", "feature 'user_gender' is not known. The features are those of "
          f"{folder}/features.json: name the features to parse; 'shardfeed inspect' lists all")


def test_a_class_that_only_its_own_code_knows_is_named(tmp_path):
    def change(features):
        features["user_gender"] = {"pythonClassName": "my.features.Graph", "jsonFeature": {"json": "{}"}}
    folder = changed(tmp_path, change)
    fails(folder, ValueError, f"parse: {folder}/features.json: feature 'user_gender' (Graph) is a my.features.Graph, and "
          "only that class knows what it stores: name the features to parse")
    told = sf.inspect(folder / "train").data["tfds"]["user_gender"]
    assert told["problem"].startswith("is a my.features.Graph")


def test_types_without_a_counterpart_are_named(tmp_path):
    def change(features):
        features["user_gender"]["tensor"]["dtype"] = "complex64"
    fails(changed(tmp_path, change), ValueError, "'user_gender' (Tensor) has the type 'complex64', which has no counterpart")


def test_an_encoding_that_is_not_known_is_named(tmp_path):
    def change(features):
        features["user_gender"]["tensor"]["encoding"] = "brotli"
    fails(changed(tmp_path, change), ValueError, "has the encoding 'brotli', which is not known")


def test_values_that_do_not_fit_their_type_are_named(tmp_path):
    def change(features):
        features["timestamp"]["tensor"]["dtype"] = "int8"
    fails(changed(tmp_path, change), ValueError, "column 'timestamp': the value ",
          "does not fit int8, which TFDS declares")


def test_arrays_of_another_size_are_named(tmp_path):
    def change(features):
        features["fixed/bytes/int16"]["tensor"]["shape"]["dimensions"] = ["2", "4"]
    fails(changed(tmp_path, change, "types"), ValueError, "record 0 at byte 0",
          "column 'fixed/bytes/int16': an array has 12 bytes; int16 [2, 4] takes 16")


def test_arrays_that_cannot_be_decompressed_are_named(tmp_path):
    def change(features):
        features["fixed/bytes/int16"]["tensor"]["encoding"] = "zlib"
    fails(changed(tmp_path, change, "types"), sf.DataLossError, "record 0 at byte 0",
          "column 'fixed/bytes/int16': an array of 12 bytes cannot be decompressed (ZLIB)")


def test_arrays_that_decompress_to_more_than_their_shape_are_named(tmp_path):
    def change(features):
        features["fixed/zlib/int64"]["tensor"]["shape"]["dimensions"] = ["2"]
    fails(changed(tmp_path, change, "types"), ValueError, "column 'fixed/zlib/int64': a compressed array has more than 16 bytes")


@pytest.mark.parametrize("text, reason", [
    ("{", "features.json"),
    ("[]", "a feature names no class"),
    ('{"pythonClassName": "tensorflow_datasets.core.features.sequence_feature.Sequence", "sequence": {}}', "has no 'feature'"),
    ('{"pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor", "tensor": {"shape": '
     '{"dimensions": ["x"]}}}', "'shape' is not a size")])
def test_a_damaged_description_is_named(tmp_path, text, reason):
    folder = changed(tmp_path, lambda features: text)
    fails(folder, sf.DataLossError, f"{folder}/features.json: not TFDS's description of features: ", reason)
    # What the records hold can be seen nevertheless.
    told = sf.inspect(folder / "train").data
    assert "user_gender" in told["features"]
    assert "features.json: not TFDS's description of features" in told["notes"][0]


def test_inspect_shows_types_classes_and_connectors(tmp_path):
    told = sf.inspect(shutil.copytree(DATA / "nested", tmp_path / "n") / "train").data
    assert told["classes"] == {"both/b/label": {"names": ["x", "y"]}, "masks": {"names": ["sky", "road"]}}
    assert told["tfds"]["packed"] == {"connector": "Sequence(Tensor)", "dtype": "uint16", "shape": [-1, 2, 2],
                                      "encoding": "zlib"}
    assert told["tfds"]["deep/ragged_flat_values"]["connector"] == "Sequence(Sequence(Sequence(Tensor)))"
    assert told["features"]["boxes/bbox"]["shape"] == [-1, 4]
    assert told["features"]["boxes/bbox"]["dtype"] == "float32"


def test_names_of_classes_that_cannot_be_right_are_told(tmp_path):
    folder = shutil.copytree(DATA / "nested", tmp_path / "n")
    (folder / "both-b-label.labels.txt").write_text("x\n")
    told = sf.inspect(folder / "train").data
    assert told["notes"] == [f"{folder}/both-b-label.labels.txt: has 1 names, but features.json has 2 classes"]
    (folder / "both-b-label.labels.txt").write_text("x\nx\n")
    told = sf.inspect(folder / "train").data
    assert told["notes"] == [f"{folder}/both-b-label.labels.txt: a name of a class appears twice, or is not UTF-8"]


def test_chains_are_resumed_and_told_apart(tmp_path):
    ds = sf.read(shutil.copytree(DATA / "types", tmp_path / "t") / "train").parse().batch(1)
    it = iter(ds)
    next(it)
    state = it.state_dict()
    rest = [batch["one/int16"].tolist() for batch in it]
    again = iter(ds)
    again.load_state_dict(state)
    assert [batch["one/int16"].tolist() for batch in again] == rest

    def change(features):
        features["one/int16"]["tensor"]["dtype"] = "int64"
    other = sf.read(changed(tmp_path, change, "types") / "train").parse().batch(1)
    with pytest.raises(RuntimeError, match="belongs to another chain"):
        iter(other).load_state_dict(state)
