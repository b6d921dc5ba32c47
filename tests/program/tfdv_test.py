"""`inspect --export tfdv=FILE`, decoded by Protocol Buffers with a description of the messages made here."""

import json
import math

import harness
import numpy as np
import pytest
from harness import USAGE, convert, fail, run, succeed

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
from google.protobuf import descriptor_pool, message_factory  # noqa: E402

# Numbers and types of tensorflow_metadata/proto/v0/statistics.proto, for the members that are written.
# "*" is a list; a name in capitals is a message.
MESSAGES = {
    "List": {"datasets": (1, "*Dataset")},
    "Dataset": {"name": (1, "string"), "num_examples": (2, "uint64"), "features": (3, "*Feature")},
    "Feature": {"type": (2, "int32"), "num_stats": (3, "Numbers"), "string_stats": (4, "Strings"),
                "bytes_stats": (5, "Bytes"), "path": (8, "Path")},
    "Path": {"step": (1, "*string")},
    "Common": {"num_non_missing": (1, "uint64"), "num_missing": (2, "uint64"), "min_num_values": (3, "uint64"),
               "max_num_values": (4, "uint64"), "avg_num_values": (5, "float"), "tot_num_values": (8, "uint64"),
               "num_values_histogram": (6, "Histogram")},
    "Numbers": {"common_stats": (1, "Common"), "mean": (2, "double"), "std_dev": (3, "double"),
                "num_zeros": (4, "uint64"), "min": (5, "double"), "median": (6, "double"), "max": (7, "double"),
                "histograms": (8, "*Histogram")},
    "Strings": {"common_stats": (1, "Common"), "unique": (2, "uint64"), "top_values": (3, "*Frequency"),
                "avg_length": (4, "float"), "rank_histogram": (5, "Ranks")},
    "Frequency": {"value": (2, "string"), "frequency": (3, "double")},
    "Bytes": {"common_stats": (1, "Common"), "unique": (2, "uint64"), "avg_num_bytes": (3, "float"),
              "min_num_bytes": (4, "float"), "max_num_bytes": (5, "float"), "max_num_bytes_int": (6, "int64")},
    "Histogram": {"num_nan": (1, "uint64"), "num_undefined": (2, "uint64"), "buckets": (3, "*Bucket"),
                  "type": (4, "int32"), "name": (5, "string")},
    "Bucket": {"low_value": (1, "double"), "high_value": (2, "double"), "sample_count": (4, "double")},
    "Ranks": {"buckets": (1, "*Rank")},
    "Rank": {"low_rank": (1, "uint64"), "high_rank": (2, "uint64"), "label": (4, "string"),
             "sample_count": (5, "double")},
}
INT, FLOAT, STRING, BYTES = range(4)


def message_class():
    file = descriptor_pb2.FileDescriptorProto(name="statistics_of_test.proto", package="test", syntax="proto3")
    for name, members in MESSAGES.items():
        message = file.message_type.add(name=name)
        for member, (number, kind) in members.items():
            field = message.field.add(name=member, number=number, label=3 if kind[0] == "*" else 1)
            kind = kind.lstrip("*")
            if kind in MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".test.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.List"))


def decoded(data):
    message = message_class()()
    message.ParseFromString(data)
    # Nothing is in a member that the description lacks.
    message.DiscardUnknownFields()
    assert message.ByteSize() == len(data)
    return message


def exported(dataset, folder):
    """The one dataset of a file that tfdv.load_statistics would read, and its features by name."""
    path = folder / "stats.tfrecord"
    succeed("inspect", dataset, "--records", "0", "--export", f"tfdv={path}")
    (_, payload), = harness.frames(path.read_bytes())
    dataset, = decoded(payload).datasets
    return dataset, {feature.path.step[0]: feature for feature in dataset.features}


ROWS = 1000


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(3)
    return {"age": rng.integers(-5, 90, ROWS).tolist(),
            "score": rng.normal(10, 3, ROWS).astype(np.float32).tolist(),
            "same": [7] * ROWS,
            "city": rng.choice(["Rom", "Oslo", "Köln"], ROWS, p=[0.6, 0.3, 0.1]).tolist(),
            "list": [list(range(i % 4)) for i in range(ROWS)]}


@pytest.fixture(scope="module")
def dataset(values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfdv")
    with open(folder / "t.jsonl", "w") as lines:
        for i in range(ROWS):
            row = {name: column[i] for name, column in values.items()}
            if i % 10 == 0:
                del row["score"]
            lines.write(json.dumps(row) + "\n")
    convert("jsonl", folder / "t.jsonl", folder / "train@3")
    return folder / "train@3"


def test_counts_and_moments(dataset, values, tmp_path):
    whole, features = exported(dataset, tmp_path)
    assert (whole.name, whole.num_examples, sorted(features)) == ("", ROWS, sorted(values))
    age = np.array(values["age"])
    feature = features["age"]
    common = feature.num_stats.common_stats
    assert feature.type == INT
    assert (common.num_non_missing, common.num_missing, common.tot_num_values) == (ROWS, 0, ROWS)
    assert (common.min_num_values, common.max_num_values, common.avg_num_values) == (1, 1, 1)
    assert [bucket.sample_count for bucket in common.num_values_histogram.buckets] == [ROWS / 10] * 10
    stats = feature.num_stats
    assert (stats.min, stats.max, stats.num_zeros) == (age.min(), age.max(), (age == 0).sum())
    assert math.isclose(stats.mean, age.mean()) and math.isclose(stats.std_dev, age.std())
    assert stats.median == np.quantile(age, 0.5, method="inverted_cdf")
    score = features["score"]
    assert score.type == FLOAT
    assert (score.num_stats.common_stats.num_non_missing, score.num_stats.common_stats.num_missing) == (900, 100)
    present = np.array([value for i, value in enumerate(values["score"]) if i % 10], np.float32).astype(float)
    assert math.isclose(score.num_stats.mean, present.mean(), rel_tol=1e-9)
    assert abs(score.num_stats.median - np.median(present)) < 0.005 * np.median(present) + 0.02
    lengths = features["list"].num_stats.common_stats
    assert (lengths.min_num_values, lengths.max_num_values, lengths.tot_num_values) == (0, 3, 1500)
    assert not lengths.HasField("num_values_histogram")  # lengths differ, and are not counted


def test_histograms(dataset, values, tmp_path):
    _, features = exported(dataset, tmp_path)
    age = np.array(values["age"])
    standard, quantiles = features["age"].num_stats.histograms
    assert (standard.type, quantiles.type) == (0, 1)
    counts, borders = np.histogram(age, 10)
    assert np.allclose([bucket.low_value for bucket in standard.buckets], borders[:-1])
    assert np.allclose([bucket.high_value for bucket in standard.buckets], borders[1:])
    assert [bucket.sample_count for bucket in standard.buckets] == counts.tolist()
    assert [bucket.sample_count for bucket in quantiles.buckets] == [100] * 10
    expected = np.quantile(age, np.arange(1, 11) / 10, method="inverted_cdf")
    assert [bucket.high_value for bucket in quantiles.buckets] == expected.tolist()
    # More different values than are counted one by one: within the buckets of the sketch.
    standard = features["score"].num_stats.histograms[0]
    present = np.array([value for i, value in enumerate(values["score"]) if i % 10])
    counts, _ = np.histogram(present, 10)
    assert sum(bucket.sample_count for bucket in standard.buckets) == 900
    assert max(abs(bucket.sample_count - count) for bucket, count in zip(standard.buckets, counts)) <= 12
    same, = features["same"].num_stats.histograms[0].buckets
    assert (same.low_value, same.high_value, same.sample_count) == (7, 7, ROWS)


def test_text(dataset, values, tmp_path):
    _, features = exported(dataset, tmp_path)
    feature = features["city"]
    stats = feature.string_stats
    counts = {name: values["city"].count(name) for name in ("Rom", "Oslo", "Köln")}
    assert (feature.type, stats.unique) == (STRING, 3)
    assert [(top.value, top.frequency) for top in stats.top_values] == list(counts.items())
    assert [(rank.low_rank, rank.high_rank, rank.label, rank.sample_count) for rank in
            stats.rank_histogram.buckets] == [(i, i, *pair) for i, pair in enumerate(counts.items())]
    expected = sum(len(name.encode()) * count for name, count in counts.items()) / ROWS
    assert math.isclose(stats.avg_length, expected, rel_tol=1e-6)


def test_bytes_long_text_nan_and_features_without_values(tmp_path, tf):
    records = [harness.example(tf, image=[b"\xff\xd8\xff" + bytes(i)], text=[b"x" * 60], none=None,
                               x=[float("nan") if i == 0 else float(i)]) for i in range(4)]
    harness.write_by_tensorflow(tf, tmp_path / "d-00000-of-00001", records, "")
    _, features = exported(tmp_path / "d@1", tmp_path)
    image = features["image"]
    assert (image.type, image.bytes_stats.unique) == (BYTES, 4)
    assert (image.bytes_stats.min_num_bytes, image.bytes_stats.max_num_bytes) == (3, 6)
    assert (image.bytes_stats.max_num_bytes_int, image.bytes_stats.avg_num_bytes) == (6, 4.5)
    text = features["text"]
    assert (text.type, len(text.string_stats.top_values)) == (STRING, 0)  # too long to be kept
    assert text.string_stats.rank_histogram.buckets[0].sample_count == 4
    assert features["x"].num_stats.histograms[0].num_nan == 1
    assert features["x"].num_stats.mean == 2
    none = features["none"]
    assert (none.type, none.string_stats.common_stats.num_missing) == (STRING, 4)


def test_files_for_each_loader(dataset, tmp_path):
    name = str(dataset)
    succeed("inspect", name, "--records", "0", "--export", f"tfdv={tmp_path}/stats.pb")
    message = (tmp_path / "stats.pb").read_bytes()
    assert decoded(message).datasets[0].num_examples == ROWS
    result = run("inspect", name, "--export", "tfdv=-")
    assert result.status == 0
    (_, payload), = harness.frames(result.out)
    assert payload == message
    # The rest of the output remains.
    told = succeed("inspect", name, "--records", "0", "--json", "--export", f"tfdv={tmp_path}/again.pb").json
    assert told["records"] == ROWS and "statistics" not in told
    assert (tmp_path / "again.pb").read_bytes() == message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.pb", "stats.pb"]


def test_wrong_use_is_told(dataset, tmp_path):
    name = str(dataset)
    message = fail(USAGE, "inspect", name, "--export", "tfdw=x")
    assert message == "--export: there is no format 'tfdw', expected tfdv=FILE; did you mean 'tfdv'?"
    assert fail(USAGE, "inspect", name, "--export", "tfdv").startswith("--export: the file is missing")
    assert "is a URL; write a local file" in fail(USAGE, "inspect", name, "--export", "tfdv=s3://b/x")
    assert "--export tfdv=- takes standard output" in fail(USAGE, "inspect", name, "--export", "tfdv=-", "--json")
    result = run("inspect", name, "--export", f"tfdv={tmp_path}/none/x")
    assert result.status != 0 and f"{tmp_path}/none" in result.err


def test_a_folder_that_is_not_there_is_named_with_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    convert("csv", tmp_path / "t.csv", tmp_path / "out/t@1")
    file = tmp_path / "none/s.pb"
    assert fail(harness.IO_FAILED, "inspect", tmp_path / "out/t@1", "--export", f"tfdv={file}") == (
        f"{file}: cannot create: No such file or directory; the folder {file.parent} does not exist, create it first")
    assert fail(harness.IO_FAILED, "bench", tmp_path / "out/t@1", "--parse", "--batch", 1, "--trace", file) == (
        f"{file}: cannot create: No such file or directory; the folder {file.parent} does not exist, create it first")


def test_a_shard_is_not_replaced(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    succeed("convert", "csv", tmp_path / "t.csv", tmp_path / "t@1")
    shard = tmp_path / "t-00000-of-00001"
    before = shard.read_bytes()
    assert harness.fail(USAGE, "inspect", tmp_path / "t@1", "--records", "0", "--export", f"tfdv={shard}") == (
        f"--export: {shard} is a shard of the dataset; name another file")
    assert shard.read_bytes() == before
