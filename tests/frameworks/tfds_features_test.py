"""What parse() makes of datasets of tensorflow-datasets (TFDS), compared with TFDS example by example.

The features are those of TFDS's own datasets, the examples are made by its own generator of mock data,
and TFDS writes the files. Nothing is downloaded.

    scripts/test --frameworks       installs TFDS, and runs these
"""

import json
import pathlib
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
for module in ("tensorflow", "tensorflow_datasets"):
    pytest.importorskip(module, reason=f"{module} is not installed: scripts/test --frameworks")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_datasets as tfds  # noqa: E402
import tfds_mock  # noqa: E402

DATASETS = [
    "ag_news_subset", "bair_robot_pushing_small", "celeb_a", "cifar10", "clevr", "coco/2017",
    "d4rl_adroit_door/v0-human", "davis/480p", "dsprites", "higgs", "imagenet2012", "iris", "kitti",
    "librispeech", "ljspeech", "mnist", "movielens/100k-ratings", "moving_mnist", "natural_questions/default",
    "nsynth", "ogbg_molpcba", "open_images_v4", "penguins/processed", "rlu_atari", "squad",
    "ted_multi_translate", "titanic", "trivia_qa/rc", "voc/2007", "wider_face", "wine_quality/red",
    "wmt14_translate/de-en", "youtube_vis"]
# The columns' types for types of TFDS that no column has.
TYPES = {"bool": "uint8", "uint32": "int64", "uint64": "int64"}


# ---- the comparison


def decoded(column, channels, dtype):
    """Encoded images as TFDS decodes them."""
    images = [column] if isinstance(column, bytes) else list(column)
    pixels = [tf.io.decode_image(image, channels=channels, dtype=dtype).numpy() for image in images]
    return pixels[0] if isinstance(column, bytes) else pixels


def assert_equal(ours, theirs, name, dtype):
    if theirs is None:  # an inner dataset without steps
        assert len(ours) == 0, name
        return
    strings = dtype == "bytes"
    if strings and theirs.dtype.kind in "OSU":
        assert np.shape(ours) == theirs.shape, name
        assert np.ravel(ours).tolist() == theirs.ravel().tolist(), name
    elif strings:
        # Images, which parse() leaves encoded.
        pixels = decoded(ours, theirs.shape[-1], theirs.dtype)
        assert len(ours) == 0 if len(theirs) == 0 else np.array_equal(pixels, theirs), name
    else:
        # Rows have single values as numbers of Python.
        found = np.asarray(ours, dtype if theirs.shape == () else None)
        expected = TYPES.get(theirs.dtype.name, theirs.dtype.name)
        assert dtype == expected, name
        assert (found.dtype.name, found.shape) == (expected, theirs.shape), name
        assert np.array_equal(found, theirs.astype(expected)), name


def compare(builder):
    features = builder.info.features
    ds = sf.read(str(pathlib.Path(builder.data_dir) / "train")).parse()
    rows = list(ds)
    examples = list(tfds.as_numpy(builder.as_dataset(split="train", shuffle_files=False)))
    assert len(rows) == len(examples) > 0
    for row, example in zip(rows, examples):
        theirs = tfds_mock.flat(features, example)
        assert sorted(row) == sorted(theirs)
        for name, value in theirs.items():
            assert_equal(row[name], value, name, ds.element_spec[name][0])
    return rows


@pytest.mark.parametrize("name", DATASETS)
def test_examples_of_tfds_are_those_of_tfds(name, tmp_path):
    features = tfds.builder(name, data_dir=str(tmp_path / "unused")).info.features
    compare(tfds_mock.made(features, tfds_mock.mock_examples(features), tmp_path))


# ---- features that none of these datasets has


def test_every_type_and_encoding(tmp_path):
    features, examples = tfds_mock.every_type(20)
    compare(tfds_mock.made(features, examples, tmp_path))


def test_what_nests(tmp_path):
    features, examples = tfds_mock.nested(20)
    builder = tfds_mock.made(features, examples, tmp_path)
    compare(builder)
    told = sf.inspect(str(pathlib.Path(builder.data_dir) / "train")).data
    assert told["classes"]["both/b/label"]["names"] == ["x", "y"]
    assert told["classes"]["masks"]["names"] == ["sky", "road"]


def test_lengths_in_several_dimensions_are_a_column(tmp_path):
    f = tfds.features
    features = f.FeaturesDict({"a": f.Tensor(shape=(None, None, 2), dtype=np.float32, encoding="zlib"),
                               "b": f.Tensor(shape=(2, None), dtype=np.int64)})
    rng = np.random.default_rng(7)
    examples = [{"a": rng.random((*rng.integers(0, 4, 2), 2)).astype(np.float32),
                 "b": rng.integers(0, 9, (2, rng.integers(1, 4)))} for _ in range(20)]
    builder = tfds_mock.made(features, examples, tmp_path)
    rows = list(sf.read(str(pathlib.Path(builder.data_dir) / "train")).parse())
    for row, example in zip(rows, tfds.as_numpy(builder.as_dataset(split="train"))):
        assert row["a/shape"].dtype == np.int32
        assert np.array_equal(row["a/value"].reshape(row["a/shape"]), example["a"])
        assert np.array_equal(row["b"].reshape(2, -1), example["b"])


def test_optional_features_have_the_values_of_tfds(tmp_path):
    f = tfds.features
    types = [np.bool_, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.str_]
    features = f.FeaturesDict({np.dtype(t).name: f.Scalar(t, optional=True) for t in types})
    present = {np.dtype(t).name: "x" if t is np.str_ else t(1) for t in types}
    compare(tfds_mock.made(features, [present, dict.fromkeys(present), present], tmp_path))


def test_images_of_one_size_decode_to_the_same_pixels(tmp_path):
    features = tfds.builder("mnist", data_dir=str(tmp_path / "unused")).info.features
    builder = tfds_mock.made(features, tfds_mock.mock_examples(features), tmp_path)
    rows = sf.read(str(pathlib.Path(builder.data_dir) / "train")).parse().decode_image(
        "image", 28, channels=1)
    for row, example in zip(rows, tfds.as_numpy(builder.as_dataset(split="train"))):
        assert np.array_equal(row["image"], example["image"])
        assert row["label"] == example["label"]


def test_the_older_form_of_the_description_means_the_same(tmp_path):
    features = tfds.builder("coco/2017", data_dir=str(tmp_path / "unused")).info.features
    builder = tfds_mock.made(features, tfds_mock.mock_examples(features), tmp_path)
    rows = compare(builder)
    folder = pathlib.Path(builder.data_dir)
    (folder / "features.json").write_text(json.dumps(features.to_json()))
    again = list(sf.read(str(folder / "train")).parse())
    assert [sorted(row) for row in again] == [sorted(row) for row in rows]
    for row, same in zip(rows, again):
        for name, value in row.items():
            assert np.array_equal(same[name], value), name
