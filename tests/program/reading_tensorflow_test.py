"""TensorFlow writes, shardfeed reads."""

import math
import struct

import harness
import pytest
from harness import TESTDATA, run, succeed, verify

SAME_EXAMPLES = ["examples.tfrecord", "examples.tfrecord.gz", "examples.tfrecord.zlib",
                 "examples.tfrecord.snappy"]
KIND = {"examples.tfrecord": "none", "examples.tfrecord.gz": "gzip",
        "examples.tfrecord.zlib": "zlib", "examples.tfrecord.snappy": "snappy"}
LEVELS = ["headers", "payload", "examples"]


def golden_records():
    raw = (TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
    return [payload for _, payload in harness.frames(raw)]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_verify_finds_files_of_tensorflow_sound(name, level):
    report = verify(TESTDATA / "tensorflow" / name, "--level", level)
    assert (report["records"], report["num_defects"], report["skipped_bytes"]) == (40, 0, 0)
    assert report["bytes"] == (TESTDATA / "tensorflow" / name).stat().st_size
    assert report["manifest"] is False


@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_verify_names_the_compression(name):
    line = succeed("verify", TESTDATA / "tensorflow" / name).out.decode()
    assert "40 records" in line and "all intact" in line
    assert name == "examples.tfrecord" or f"1 {KIND[name]}" in line


@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_cat_prints_the_payloads_that_tensorflow_wrote(name):
    result = succeed("cat", TESTDATA / "tensorflow" / name, "--format", "payload")
    assert result.out == b"".join(golden_records())


@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_cat_prints_the_values_that_tensorflow_reads(tf, name):
    path = TESTDATA / "tensorflow" / name
    kind = {"none": ""}.get(KIND[name], KIND[name].upper())
    expected = harness.read_by_tensorflow(tf, [path], kind)
    printed = succeed("cat", path).lines
    assert len(printed) == len(expected) == 40
    for line, record in zip(printed, expected):
        values = harness.as_cat_prints(harness.decoded(tf, record))
        weights = values.pop("weights")
        assert [float32(w) for w in line.pop("weights")] == weights
        assert line == values


def test_cat_prints_text_format_that_protocol_buffers_read(tf):
    from google.protobuf import text_format
    result = succeed("cat", TESTDATA / "tensorflow/examples.tfrecord", "-r", "3", "--format",
                     "text")
    message = text_format.Parse(result.out.decode(), tf.train.Example())
    assert message == tf.train.Example.FromString(golden_records()[3])


def test_cat_prints_values_that_json_lacks_as_strings(tf, tmp_path):
    record = harness.example(tf, x=[math.nan, math.inf, -math.inf, 0.1], raw=[b"\xff\x00"])
    harness.write_by_tensorflow(tf, tmp_path / "one", [record])
    assert succeed("cat", tmp_path / "one").lines == [
        {"raw": [{"base64": "/wA="}], "x": ["NaN", "Infinity", "-Infinity", 0.1]}]


@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_index_is_the_same_for_reading_as_none(name, copy_of):
    path = copy_of(f"tensorflow/{name}")
    before = succeed("cat", path, "-r", "7,30-33,39", "--format", "payload").out
    report = succeed("index", path, "--json").json
    assert (report["shards"], report["records"]) == (1, 40)
    index = path.parent / ".shardfeed" / f"{name}.index"
    assert report["index_bytes"] == index.stat().st_size
    assert verify(path)["num_defects"] == 0
    records = golden_records()
    assert succeed("cat", path, "-r", "7,30-33,39", "--format", "payload").out == before
    assert before == b"".join(records[i] for i in [7, 30, 31, 32, 33, 39])


@pytest.mark.parametrize("name", SAME_EXAMPLES)
def test_inspect_tells_counts_kinds_and_sizes(name):
    report = succeed("inspect", TESTDATA / "tensorflow" / name, "--json", "--records", "1").json
    sizes = [len(record) for record in golden_records()]
    assert report["records"] == 40
    assert report["record_bytes"]["min"] == min(sizes)
    assert report["record_bytes"]["max"] == max(sizes)
    assert report["record_bytes"]["sum"] == sum(sizes)
    assert sum(b["records"] for b in report["record_bytes"]["histogram"]) == 40
    assert set(report["features"]) == {"number", "negative", "weights", "name", "blob"}
    assert len(report["samples"]) == 1
    assert report["samples"][0]["number"] == [0]


@pytest.mark.parametrize("command", ["verify", "index", "inspect", "cat", "bench"])
@pytest.mark.parametrize("name", ["empty.tfrecord", "empty.tfrecord.gz"])
def test_file_without_records_is_sound(name, command, copy_of):
    path = copy_of(f"tensorflow/{name}")
    if command == "cat":
        assert succeed("cat", path).out == b""
    else:
        assert succeed(command, path, "--json").json["records"] == 0


def test_sequence_examples_are_examples(tf):
    path = TESTDATA / "tensorflow/sequence.tfrecord"
    assert verify(path, "--level", "examples")["records"] == 12
    for line, record in zip(succeed("cat", path).lines, harness.read_by_tensorflow(tf, [path])):
        message = tf.train.SequenceExample.FromString(record)
        assert line["context"]["id"] == list(message.context.feature["id"].int64_list.value)
        lists = message.feature_lists.feature_list
        assert set(line["feature_lists"]) == set(lists)
        assert line["feature_lists"]["steps"] == [
            list(step.int64_list.value) for step in lists["steps"].feature]
        assert line["feature_lists"]["words"] == [["word 0"], ["word 1"], ["word 2"]]


def test_inspect_shows_feature_lists():
    report = succeed("inspect", TESTDATA / "tensorflow/sequence.tfrecord", "--json").json
    assert {"id", "name", "steps", "words"} <= set(report["features"])


def test_records_without_content_are_records():
    path = TESTDATA / "tensorflow/odd.tfrecord"
    assert verify(path, "--level", "examples")["records"] == 4
    lines = succeed("cat", path).lines
    assert lines[:3] == [{}, {}, {"no_kind": [], "no_values": []}]
    assert lines[3]["number"] == [1]


def test_what_is_not_an_example_is_told_at_that_level_only(tf, tmp_path):
    harness.write_by_tensorflow(tf, tmp_path / "x", [b"\n\x00", b"not an Example", b"\n\x00"])
    assert verify(tmp_path / "x")["records"] == 3
    report = verify(tmp_path / "x", "--level", "examples", status=harness.DEFECTS)
    defect, = report["defects"]
    assert (defect["kind"], defect["record"], defect["offset"]) == ("not an Example", 1, 18)
    message = harness.fail(harness.DEFECTS, "cat", tmp_path / "x")
    assert "record 1" in message and "--format payload prints its bytes unchanged" in message


@pytest.mark.parametrize("kind", ["none", "GZIP"])
def test_many_records_are_verified_and_read(large, kind):
    records, folder = large
    for level in ("headers", "examples"):
        report = verify(folder / kind / "train@3", "--level", level)
        assert (report["shards"], report["records"], report["num_defects"]) == (3, 60_000, 0)
    report = succeed("bench", folder / kind / "train@*", "--json").json
    assert report["records"] == 60_000
    assert report["payload_bytes"] == sum(map(len, records))


@pytest.mark.parametrize("kind", ["none", "GZIP"])
def test_cat_reads_from_the_middle_with_and_without_index(large, kind):
    records, folder = large
    spec = folder / kind / "train@3"
    wanted = [0, 19_999, 20_000, 33_333, 59_999]
    picked = ",".join(map(str, wanted)) + ",39990-40010,59990-"
    expected = b"".join(records[i] for i in
                        wanted + list(range(39_990, 40_011)) + list(range(59_990, 60_000)))
    assert succeed("cat", spec, "-r", picked, "--format", "payload").out == expected
    succeed("index", spec)
    assert succeed("cat", spec, "-r", picked, "--format", "payload").out == expected
    assert verify(spec)["num_defects"] == 0


@pytest.mark.parametrize("kind", ["none", "GZIP"])
def test_cat_prints_everything_in_order(large, kind):
    records, folder = large
    assert succeed("cat", folder / kind, "--format", "payload").out == b"".join(records)


def test_record_number_past_the_end_is_refused():
    message = harness.fail(harness.USAGE, "cat", TESTDATA / "tensorflow/examples.tfrecord", "-r",
                           "40")
    assert "40" in message


def test_ranges_may_overlap_and_go_back():
    records = golden_records()
    result = succeed("cat", TESTDATA / "tensorflow/examples.tfrecord.gz", "-r", "30,2-4,3,0,38-",
                     "--format", "payload")
    assert result.out == b"".join(records[i] for i in [30, 2, 3, 4, 3, 0, 38, 39])


def test_range_that_ends_past_the_end_is_refused():
    path = TESTDATA / "tensorflow/examples.tfrecord"
    message = harness.fail(harness.USAGE, "cat", path, "-r", "5-40")
    assert "record 40 does not exist: there are 40 records, numbered from 0" in message


def test_range_that_is_none_is_refused():
    path = TESTDATA / "tensorflow/examples.tfrecord"
    assert "x" in harness.fail(harness.USAGE, "cat", path, "-r", "x")
    assert "9-3" in harness.fail(harness.USAGE, "cat", path, "-r", "9-3")


def test_gzip_of_many_members_is_one_stream(tf, tmp_path):
    """As made by 'cat a.gz b.gz' and other writers: members that divide records."""
    import gzip
    raw = (TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
    path = tmp_path / "members.gz"
    path.write_bytes(b"".join(gzip.compress(raw[i:i + 500]) for i in range(0, len(raw), 500)))
    assert harness.read_by_tensorflow(tf, [path], "GZIP") == golden_records()
    assert verify(path)["records"] == 40
    succeed("index", path)
    assert succeed("cat", path, "-r", "20-", "--format", "payload").out == b"".join(
        golden_records()[20:])


def test_standard_output_that_closes_ends_cat_quietly(large):
    import subprocess
    _, folder = large
    cat = subprocess.Popen(harness.command("cat", folder / "none"), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    cat.stdout.readline()
    cat.stdout.close()
    error = cat.stderr.read()
    cat.stderr.close()
    assert cat.wait(timeout=60) != harness.DONE
    assert b"terminate" not in error and error.count(b"\n") <= 2


def test_unknown_command_and_option_are_wrong_use():
    for arguments in ([], ["nothing"], ["verify"], ["verify", "x", "--no-such-option"],
                      ["verify", "x", "--level", "deep"], ["verify", "x", "-j", "0"]):
        assert run(*arguments).status == harness.USAGE, arguments


@pytest.mark.parametrize("command", ["convert", "verify", "index", "inspect", "cat", "bench"])
def test_each_command_has_help(command):
    assert "Example" in succeed(command, "--help").out.decode()
