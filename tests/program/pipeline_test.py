"""Chains beside tf.data's, step by step, on the same input; and read --parse."""

import json
import os
import pathlib
import subprocess

import pytest
import tensorflow as tf
from harness import DONE, REPOSITORY, USAGE, fail, run, succeed

CHAIN = pathlib.Path(
    os.environ.get("SHARDFEED_CHAIN", REPOSITORY / "bazel-bin/tests/pipeline/chain")).resolve()


def ours(*chain):
    """The elements of a chain: its source and steps."""
    done = subprocess.run([str(CHAIN), json.dumps(chain)], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def theirs(ds, name="value"):
    return [{name: element.numpy().tolist()} for element in ds]


def numbers(start, stop, step=1):
    return tf.data.Dataset.range(start, stop, step)


def ragged(n):
    """Row i has i mod 5 values of i."""
    return tf.data.Dataset.range(n).map(lambda i: tf.fill([i % 5], i))


@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 4, 1), (5, 5, 1), (10, -3, -4), (0, 5000, 7)])
def test_range(bounds):
    assert ours(["range", *bounds]) == theirs(numbers(*bounds))


@pytest.mark.parametrize("size", [1, 3, 10, 11])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_batch(size, drop_remainder):
    assert ours(["range", 0, 10], ["batch", size, drop_remainder]) == theirs(
        numbers(0, 10).batch(size, drop_remainder))


def test_map_filter_and_batch():
    assert ours(["range", 0, 3000], ["map_square"], ["filter_odd"], ["batch", 64, False]) == theirs(
        numbers(0, 3000).map(lambda x: x * x).filter(lambda x: x % 2 == 1).batch(64))


def test_flat_map():
    assert ours(["range", 0, 50], ["flat_map_range"]) == theirs(
        numbers(0, 50).flat_map(tf.data.Dataset.range))


@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("length", [0, 6])
def test_padded_batch(size, length):
    expected = ragged(23).padded_batch(
        size, padded_shapes=[length or None], padding_values=tf.constant(-1, tf.int64))
    assert ours(["ragged", 23], ["padded_batch", size, length, -1]) == theirs(expected, "values")


@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_ragged_batch(size, drop_remainder):
    expected = ragged(23).ragged_batch(size, drop_remainder)
    assert ours(["ragged", 23], ["batch", size, drop_remainder]) == [
        {"values": batch.to_list()} for batch in expected]


def test_bucket_by_sequence_length():
    expected = ragged(200).bucket_by_sequence_length(
        lambda row: tf.shape(row)[0], bucket_boundaries=[2, 4], bucket_batch_sizes=[3, 5, 2])
    mine = ours(["ragged", 200], ["bucket", [2, 4], [3, 5, 2]])
    # At the end, tf.data delivers the rest in the order in which the buckets were begun.
    count = len(theirs(ragged(200).bucket_by_sequence_length(
        lambda row: tf.shape(row)[0], bucket_boundaries=[2, 4], bucket_batch_sizes=[3, 5, 2],
        drop_remainder=True)))
    expected = theirs(expected, "values")
    assert mine[:count] == expected[:count]
    assert sorted(map(str, mine)) == sorted(map(str, expected))


@pytest.mark.parametrize("steps", [
    [["take", 0]], [["take", 4]], [["take", 99]], [["skip", 4]], [["skip", 99]],
    [["shard", 2, 3]], [["repeat", 3]], [["take", 3], ["repeat", 2], ["skip", 1]],
    [["batch", 3, False], ["take", 2]], [["batch", 3, False], ["skip", 2]],
    [["batch", 3, False], ["shard", 1, 2]], [["batch", 3, False], ["repeat", 2]],
    [["batch", 3, False], ["unbatch"], ["skip", 5]], [["cache"], ["repeat", 2]],
    [["prefetch", 3], ["batch", 4, True], ["prefetch", 1]],
], ids=str)
def test_elements(steps):
    expected = numbers(0, 10)
    for name, *arguments in steps:
        if name == "shard":
            arguments.reverse()  # tf.data has (number of shards, index)
        expected = getattr(expected, name)(*arguments)
    assert ours(["range", 0, 10], *steps) == theirs(expected)


def test_cache_and_snapshot_in_files(tmp_path):
    expected = theirs(numbers(0, 3000).cache(str(tmp_path / "theirs")).batch(16).repeat(2))
    assert ours(["range", 0, 3000], ["cache_on_disk", str(tmp_path)], ["batch", 16, False],
                ["repeat", 2]) == expected
    expected = theirs(numbers(0, 3000).batch(16).snapshot(str(tmp_path / "snapshot")).repeat(2))
    for _ in range(2):  # written, and read
        assert ours(["range", 0, 3000], ["batch", 16, False],
                    ["snapshot", str(tmp_path / "mine")], ["repeat", 2]) == expected


def test_snapshots_are_verified_like_any_tfrecord(tmp_path):
    ours(["ragged", 500], ["batch", 16, False], ["snapshot", str(tmp_path / "mine")])
    assert succeed("verify", tmp_path / "mine", "--json").json["records"] == 32 + 3


def test_enumerate():
    expected = [{"index": int(i), "value": int(v)} for i, v in numbers(5, 9).enumerate(start=3)]
    assert ours(["range", 5, 9], ["enumerate", 3]) == expected


def test_zip():
    expected = [{"value": int(a), "other": int(b)}
                for a, b in tf.data.Dataset.zip(numbers(0, 5), numbers(10, 100, 9))]
    assert ours(["zip", [[["range", 0, 5]], [["range", 10, 100, 9, "other"]]]]) == expected


def test_concatenate():
    assert ours(["concatenate", [[["range", 0, 5]], [["range", 7, 7]], [["range", 10, 13]]]],
                ["batch", 3, False]) == theirs(
                    numbers(0, 5).concatenate(numbers(7, 7)).concatenate(numbers(10, 13)).batch(3))


@pytest.mark.parametrize("cycle", [1, 2, 3, 7])
@pytest.mark.parametrize("block", [1, 2, 5])
def test_interleave(cycle, block):
    sizes = [4, 1, 9, 3, 6]
    expected = tf.data.Dataset.from_tensor_slices(sizes).interleave(
        lambda n: tf.data.Dataset.range(10 * tf.cast(n, tf.int64), 11 * tf.cast(n, tf.int64)),
        cycle_length=cycle, block_length=block, deterministic=True)
    chains = [[["range", 10 * n, 11 * n]] for n in sizes]
    assert ours(["interleave", chains, cycle, block]) == theirs(expected)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    number = 0
    for shard, size in enumerate([30, 0, 45, 7]):
        with tf.io.TFRecordWriter(str(folder / f"e-{shard:05}-of-00004")) as writer:
            for _ in range(size):
                feature = {
                    "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[number, 0.5])),
                    "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%d" % number])),
                    "some": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=[number] * (number % 3))),
                }
                if number % 4 == 0:
                    del feature["some"]
                writer.write(tf.train.Example(
                    features=tf.train.Features(feature=feature)).SerializeToString())
                number += 1
    return folder / "e@4"


def test_parsed_batches_of_interleaved_shards(examples):
    files = sorted(str(path) for path in examples.parent.glob("e-*"))
    spec = {
        "n": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "text": tf.io.FixedLenFeature([], tf.string),
        "some": tf.io.RaggedFeature(tf.int64),
    }
    expected = []
    for batch in tf.data.Dataset.from_tensor_slices(files).interleave(
            tf.data.TFRecordDataset, cycle_length=3, block_length=2).batch(16).map(
                lambda records: tf.io.parse_example(records, spec)):
        expected.append({
            "n": batch["n"].numpy().tolist(),
            "x": batch["x"].numpy().tolist(),
            "text": [text.decode() for text in batch["text"].numpy()],
            "some": batch["some"].to_list(),
        })
    assert ours(["shards", str(examples)], ["interleave_shards", 3, 2], ["parse_all"],
                ["batch", 16, False]) == expected


def test_sparse_features(examples):
    spec = {"some": tf.io.VarLenFeature(tf.int64)}
    files = sorted(str(path) for path in examples.parent.glob("e-*"))
    mine = ours(["shards", str(examples)],
                ["parse", [["some", "int64", "ragged", []]], []], ["batch", 16, False],
                ["sparse", "some"])
    theirs_batches = list(tf.data.TFRecordDataset(files).batch(16).map(
        lambda records: tf.io.parse_example(records, spec)["some"]))
    assert len(mine) == len(theirs_batches)
    for batch, expected in zip(mine, theirs_batches):
        assert sum(batch["some"], []) == expected.values.numpy().tolist()
        assert sum(batch["some_indices"], []) == expected.indices.numpy().tolist()


def test_sequence_examples(tmp_path):
    def step(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(tmp_path / "s-00000-of-00001")) as writer:
        for n in range(9):
            writer.write(tf.train.SequenceExample(
                context=tf.train.Features(feature={"n": step([n])}),
                feature_lists=tf.train.FeatureLists(feature_list={
                    "pairs": tf.train.FeatureList(feature=[step([n, i]) for i in range(n % 4)]),
                    "words": tf.train.FeatureList(
                        feature=[step([i] * (n - i)) for i in range(n % 3)]),
                })).SerializeToString())
    mine = ours(["shards", str(tmp_path / "s@1")],
                ["parse", [["n", "int64", "fixed", []]],
                 [["pairs", "int64", "ragged", [2]], ["words", "int64", "steps", []]]],
                ["batch", 4, False])
    spec = {
        "pairs": tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.UniformRowLength(2)]),
        "words": tf.io.RaggedFeature(tf.int64),
    }
    batches = tf.data.TFRecordDataset(str(tmp_path / "s-00000-of-00001")).batch(4).map(
        lambda records: tf.io.parse_sequence_example(
            records, {"n": tf.io.FixedLenFeature([], tf.int64)}, spec)[:2])
    expected = []
    for context, lists in batches:
        words = lists["words"].to_list()
        expected.append({
            "n": context["n"].numpy().tolist(),
            "pairs": [[pair for step in row for pair in step]
                      for row in lists["pairs"].to_list()],
            "words": [sum(row, []) for row in words],
            "words_lengths": [[len(step) for step in row] for row in words],
        })
    assert mine == expected


def test_read_parse_tells_what_limits(examples, tmp_path):
    trace = tmp_path / "trace.json"
    report = succeed("bench", examples, "--parse", "--batch", "16", "--trace", trace, "--json").json
    assert report["batches"] == 6  # the last one short
    assert report["rows"] == 82
    assert report["columns"] == "n: int64, some: int64 ragged, text: bytes, x: float32 [2]"
    assert [stage["name"] for stage in report["stages"]] == ["read", "parse+batch"]
    assert report["limit"] in report["verdict"]
    assert report["autotune"] == []  # too short
    # Also when memory is reused.
    again = succeed("bench", examples, "--parse", "--batch", "16", "--epochs", "40", "--json").json
    assert max(stage["peak_bytes"] for stage in again["stages"]) < 1 << 30
    events = json.loads(trace.read_text())["traceEvents"]
    work = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in work} >= {"input", "parse+batch", "check"}
    assert {event["name"] for event in events if event["ph"] == "C"} == {"parse+batch ahead"}
    assert {event["tid"] for event in work} == {
        event["tid"] for event in events if event["ph"] == "M"}
    assert sum(event["args"]["rows"] for event in work if event["name"] == "input") == report["rows"]
    assert sum(event["args"]["rows"] for event in work if event["name"] == "check") == 82
    text = succeed("bench", examples, "--parse", "--batch", "16", "--take", "2").out.decode()
    assert "2 batches of 16 rows" in text
    assert "limit" in text
    assert succeed("bench", examples, "--parse", "--batch", "8", "--headspace", "--take", "50",
                   "--json").json["batches"] == 50


def test_damaged_records_keep_their_place(examples, tmp_path):
    for path in examples.parent.glob("e-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shard = tmp_path / "e-00002-of-00004"
    shard.write_bytes(shard.read_bytes()[:-3] + b"???")  # the last record's CRC
    assert run("bench", tmp_path / "e@4", "--parse").status != DONE
    result = run("bench", tmp_path / "e@4", "--parse", "--batch", "41", "--skip-damaged", "--json")
    assert result.status == 1
    assert result.json["rows"] == 82 and result.json["damaged"] == 1


def test_read_parse_of_what_are_no_examples(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "d-00000-of-00001")) as writer:
        writer.write(b"hello world")
    result = run("bench", tmp_path / "d@1", "--parse")
    assert result.status != DONE
    assert "not a tf.train.Example" in result.err and "d-00000-of-00001" in result.err


def test_options_that_need_parse(examples):
    assert "add --parse" in fail(USAGE, "bench", examples, "--headspace")
