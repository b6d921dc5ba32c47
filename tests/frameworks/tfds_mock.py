"""Datasets with the features of TFDS's own ones and examples of its generator of mock data, written by
TFDS, and what TFDS reads of them. Nothing is downloaded. TFDS must be installed."""

import functools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.testing import mocking

EXAMPLES = 8


class Mock(tfds.core.GeneratorBasedBuilder):
    """A dataset with the features and the examples that it is given."""

    VERSION = tfds.core.Version("1.0.0")
    name = "mock"
    features, examples = None, ()

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, description="Mock data.", features=self.features)

    def _split_generators(self, _):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield from enumerate(self.examples)


def made(features, examples, folder):
    """Writes the examples with TFDS, and returns the builder that reads them."""
    Mock.features, Mock.examples = features, examples
    builder = Mock(data_dir=str(folder))
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(compute_stats=tfds.download.ComputeStatsMode.SKIP))
    return builder


def cut(feature, example, rng):
    """Cuts the sequences of an example of mock data, which all have one length, to random ones."""
    if isinstance(feature, tfds.features.TranslationVariableLanguages):
        known = feature.languages or list("abcdefghij")
        count = rng.integers(1, min(len(known), len(example["translation"])) + 1)
        return {str(language): str(text) for language, text in
                zip(rng.choice(known, count, replace=False), example["translation"])}
    if isinstance(feature, tfds.features.FeaturesDict):
        return {name: cut(inner, example[name], rng) for name, inner in feature.items()}
    if isinstance(feature, tfds.features.Dataset):
        return [cut(feature.feature, step, rng) for step in example[:rng.integers(0, 4)]]
    if isinstance(feature, tfds.features.Sequence):
        steps = tf.nest.flatten(example)[0].shape[0]
        length = steps if feature._length is not None else rng.integers(0, min(steps, 4) + 1)
        return [cut(feature.feature, tf.nest.map_structure(lambda column: column[i], example), rng)
                for i in range(length)]
    if isinstance(feature, tfds.features.BBoxFeature):
        (top, bottom), (left, right) = sorted(example[0::2]), sorted(example[1::2])
        return np.array([top, left, bottom, right])
    if isinstance(feature, tfds.features.Audio):
        return example[:rng.integers(1, 11)] if feature.shape[0] is None else example
    return example.item() if isinstance(example, np.ndarray) and example.shape == () else example


def mock_examples(features, count=EXAMPLES, seed=1):
    rng = np.random.default_rng(seed)
    generator = mocking.RandomFakeGenerator(features, count, num_sub_examples=5,
                                            constant_dynamic_shape=True, seed=seed)
    return [cut(features, example, rng) for example in generator]


# ---- features of our own


def every_type(count):
    """Features of each type and encoding, and examples of them."""
    types = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
             np.float16, np.float32, np.float64]
    features = {}
    for dtype in types:
        name = np.dtype(dtype).name
        features[f"one/{name}"] = tfds.features.Scalar(dtype)
        features[f"list/{name}"] = tfds.features.Sequence(dtype)
        if dtype is np.uint32:
            continue  # TFDS itself cannot read these when they are encoded
        for encoding in ("bytes", "zlib"):
            tensor = functools.partial(tfds.features.Tensor, dtype=dtype, encoding=encoding)
            features[f"fixed/{encoding}/{name}"] = tensor(shape=(2, 3))
            features[f"any/{encoding}/{name}"] = tensor(shape=(None, 3))
    rng = np.random.default_rng(5)
    examples = [{name: random_value(feature, rng) for name, feature in features.items()}
                for _ in range(count)]
    return tfds.features.FeaturesDict(features), examples


def random_value(feature, rng):
    """A value with the whole range of its type."""
    if isinstance(feature, tfds.features.Sequence):
        return [random_value(feature.feature, rng) for _ in range(rng.integers(0, 4))]
    shape = tuple(rng.integers(0, 4) if size is None else size for size in feature.shape)
    dtype = np.dtype(feature.np_dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(np.float32).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    info = np.iinfo(dtype)
    # int64 stands for uint64.
    top = min(int(info.max), np.iinfo(np.int64).max)
    return rng.integers(info.min, top, shape, endpoint=True, dtype=np.int64).astype(dtype)


def nested(count):
    """Features in one another, and examples of them."""
    f = tfds.features
    features = f.FeaturesDict({
        "deep": f.Sequence(f.Sequence(f.Sequence(np.int32))),
        "boxes": f.Sequence({"bbox": f.BBoxFeature(), "names": f.Sequence(f.Text())}),
        "three": f.Sequence(np.float32, length=3),
        "pairs": f.Sequence(f.Tensor(shape=(2,), dtype=np.int16)),
        "packed": f.Sequence(f.Tensor(shape=(2, 2), dtype=np.uint16, encoding="zlib")),
        "masks": f.LabeledImage(labels=["sky", "road"], shape=(None, None, 1)),
        "sound": f.Audio(shape=(None, 2), dtype=np.int32),
        "both": {"a": np.int64, "b": {"c/d": f.Text(), "label": f.ClassLabel(names=["x", "y"])}},
        "episodes": f.Dataset({"reward": np.float32, "seen": f.Tensor(shape=(2,), dtype=np.bool_)})})
    rng = np.random.default_rng(6)

    def some(make, most=4):
        return [make() for _ in range(rng.integers(0, most))]

    def integer(top=100):
        return int(rng.integers(0, top))

    examples = [{
        "deep": some(lambda: some(lambda: some(integer))),
        "boxes": some(lambda: {"bbox": np.sort(rng.random(4)).reshape(2, 2).ravel(),
                               "names": some(lambda: f"n{integer()}")}),
        "three": rng.random(3).astype(np.float32),
        "pairs": some(lambda: rng.integers(-9, 9, 2).astype(np.int16)),
        "packed": some(lambda: rng.integers(0, 65536, (2, 2)).astype(np.uint16)),
        "masks": rng.integers(0, 2, (3, 4, 1)).astype(np.uint8),
        "sound": rng.integers(-9, 9, (integer(5), 2)).astype(np.int32),
        "both": {"a": integer(), "b": {"c/d": "text", "label": integer(2)}},
        "episodes": some(lambda: {"reward": np.float32(rng.random()),
                                  "seen": rng.integers(0, 2, 2).astype(bool)})}
        for _ in range(count)]
    return features, examples


# ---- what TFDS reads, by the names in records


def flat(feature, value, name="", depth=0):
    """{name: array} of an example that TFDS has read, `depth` sequences deep. Nested sequences are all of
    their values, and the lengths at each level but the first."""
    inner = f"{name}/" if name else ""
    if isinstance(feature, tfds.features.FeaturesDict):
        return {key: column for part, of_part in feature.items()
                for key, column in flat(of_part, value[part], inner + part, depth).items()}
    if isinstance(feature, tfds.features.Dataset):
        return stacked(feature.feature, list(value), name)
    if isinstance(feature, tfds.features.Sequence):
        return flat(feature.feature, value, name, depth + 1)
    if depth < 2:
        return {name: np.asarray(value)}
    columns = {f"{inner}ragged_flat_values": np.asarray(value.flat_values)}
    for level, splits in enumerate(value.nested_row_splits):
        columns[f"{inner}ragged_row_lengths_{level}"] = np.diff(np.asarray(splits))
    return columns


def stacked(feature, steps, name):
    """The steps of an inner dataset as records have them: one column of all steps."""
    columns = [flat(feature, step, name) for step in steps]
    return {key: np.stack([column[key] for column in columns]) if columns else None
            for key in flat_names(feature, name)}


def flat_names(feature, name):
    if isinstance(feature, tfds.features.FeaturesDict):
        return [key for part, inner in feature.items()
                for key in flat_names(inner, f"{name}/{part}" if name else part)]
    return [name]
