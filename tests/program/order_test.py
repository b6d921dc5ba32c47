"""read, plan and replay: orders, ranks and what they report; interleave against tf.data."""

import json
import os
import re

import harness
import pytest
import tensorflow as tf
from harness import DEFECTS, IO_FAILED, USAGE, succeed

HERE_AND_IN_STORE = True

SIZES = [37, 0, 112, 64, 1, 30, 30, 7]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Uneven shards; each record is its number."""
    folder = tmp_path_factory.mktemp("order")
    number = 0
    for shard, size in enumerate(SIZES):
        with tf.io.TFRecordWriter(str(folder / f"d-{shard:05}-of-{len(SIZES):05}")) as writer:
            for _ in range(size):
                writer.write(b"%08d" % number)
                number += 1
    return folder / f"d@{len(SIZES)}"


def replayed(dataset, *options):
    return [entry["record"] for entry in succeed("replay", dataset, "--json", *options).json]


def all_records(dataset, *options):
    """The whole first epoch, on one rank."""
    return replayed(dataset, "--batch", str(sum(SIZES)), *options)


@pytest.mark.parametrize("cycle", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_interleave_is_that_of_tf_data(dataset, cycle, block):
    files = sorted(str(path) for path in dataset.parent.glob("d-*"))
    expected = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=cycle, block_length=block)
    expected = [int(record) for record in expected.as_numpy_iterator()]
    options = ["--order", "interleave", "--cycle", str(cycle), "--block", str(block)]
    assert all_records(dataset, *options) == expected


def test_sequential_is_the_order_of_the_shards(dataset):
    assert all_records(dataset) == list(range(sum(SIZES)))


@pytest.mark.parametrize("options", [[], ["--window", "all"], ["--window", "64", "--chunk", "4"]])
def test_shuffles_are_permutations_that_ranks_divide(dataset, options):
    whole = all_records(dataset, "--shuffle", "5", *options)
    assert sorted(whole) == list(range(sum(SIZES)))
    assert whole != all_records(dataset, "--shuffle", "6", *options)
    assert whole != all_records(dataset, "--shuffle", "5", "--epoch", "1", *options)
    for world in (2, 3):
        n = sum(SIZES) // world
        for rank in range(world):
            mine = replayed(dataset, "--shuffle", "5", "--world", str(world), "--rank", str(rank),
                            "--batch", str(n), *options)
            assert mine == whole[rank:n * world:world]


def test_find_is_the_reverse_of_replay(dataset):
    options = ["--shuffle", "5", "--batch", "10", "--world", "3"]
    for step in (0, 4):
        batch = replayed(dataset, *options, "--rank", "1", "--step", str(step))
        for index, record in enumerate(batch):
            found = succeed("replay", dataset, "--json", *options, "--find", str(record)).json
            assert (found["rank"], found["step"], found["index"]) == (1, step, index)
            assert found["delivered"]
    text = succeed("replay", dataset, *options, "--find", "3").out.decode()
    assert "record 3 " in text


@pytest.mark.parametrize("end", ["wrap", "pad"])
def test_find_also_tells_what_fills_up_the_epoch(dataset, end):
    options = ["--shuffle", "5", "--batch", "7", "--world", "3", "--end", end]
    last = sum(SIZES) // 21
    repeated = [record for rank in range(3)
                for record in replayed(dataset, *options, "--rank", str(rank), "--step", str(last))]
    whole = all_records(dataset, "--shuffle", "5")
    twice = set(repeated) & set(whole[:21])
    assert len(twice) == 21 - sum(SIZES) % 21
    for record in sorted(twice)[:3]:
        first, again = succeed("replay", dataset, "--json", *options, "--find", str(record)).json
        assert "repeated" not in first and again["repeated"] and again["step"] == last
        text = succeed("replay", dataset, *options, "--find", str(record)).out.decode()
        assert f"record {record} of epoch 0 is also at position" in text and "to fill up the epoch" in text


@pytest.mark.parametrize("io", ["auto", "uring", "threads", "mmap"])
@pytest.mark.parametrize("order", [[], ["--order", "interleave"], ["--shuffle"],
                                   ["--shuffle", "1", "--window", "all"]], ids=str)
def test_read_delivers_everything(dataset, io, order):
    result = harness.run("bench", dataset, "--json", "--io", io, "--epochs", "2", *order)
    if io == "uring" and result.status == IO_FAILED and "io_uring" in result.err:
        pytest.skip(result.err)
    assert result.status == harness.DONE, result.err
    report = result.json
    assert report["records"] == 2 * sum(SIZES)
    assert report["payload_bytes"] == 2 * 8 * sum(SIZES)
    assert io == "auto" or report["io"].startswith("http" if harness.STORE else io)
    for key in ("seconds", "records_per_second", "bytes_per_second", "bytes_read", "threads",
                "peak_rss_bytes", "max_queue_depth", "stalls", "io_reason"):
        assert key in report


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_shards_are_read_as_others(tmp_path, compression):
    # Data that deflate does not shrink, whose index says where blocks start.
    records = [os.urandom(5000) for _ in range(300)]
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(tmp_path / "d-00000-of-00001"), options) as writer:
        for record in records:
            writer.write(record)
    succeed("index", tmp_path)
    result = succeed("bench", tmp_path / "d@1", "--epochs", "2")
    assert "600 records" in result.out.decode()
    assert re.search(r"io: (uring|threads|http) .* 2 reads, up to \d at once", result.out.decode())
    succeed("verify", tmp_path)


@pytest.mark.folder_only("stores have one engine")
def test_environment_chooses_the_engine(dataset):
    env = {**os.environ, "SHARDFEED_IO": "mmap"}
    assert succeed("bench", dataset, "--json", env=env).json["io"] == "mmap"
    env["SHARDFEED_IO"] = "tape"
    result = harness.run("bench", dataset, env=env)
    assert result.status == USAGE
    assert "SHARDFEED_IO: expected the engine auto, uring, threads or mmap, got 'tape'" in result.err


def test_take_and_skip_to(dataset):
    assert succeed("bench", dataset, "--json", "--take", "5").json["records"] == 5
    assert succeed("bench", dataset, "--json", "--skip-to", "280").json["records"] == 1
    assert succeed("bench", dataset, "--json", "--records", "5,10-19").json["records"] == 11


@pytest.mark.parametrize("end, each", [("drop", 8), ("pad", 12), ("wrap", 12)])
def test_skip_to_counts_records_of_epochs_that_are_cut_to_batches(tmp_path, end, each):
    with tf.io.TFRecordWriter(str(tmp_path / "d-00000-of-00001")) as writer:
        for i in range(10):
            writer.write(b"%d" % i)
    succeed("index", tmp_path / "d@1")

    def records(skip_to):
        return succeed("bench", tmp_path / "d@1", "--epochs", "2", "--batch", "4", "--end", end,
                       "--skip-to", str(skip_to), "--json").json["records"]
    assert records(0) == 2 * each
    assert records(3) == 2 * each - 3
    assert records(9) == each + max(0, each - 9)
    assert records(10) == each
    assert records(13) == each - 3
    assert records(20) == records(100) == 0
    message = harness.fail(USAGE, "bench", tmp_path / "d@1", "--parse", "--skip-to", "3")
    assert "--skip-to" in message and "cannot be combined with --parse or --image" in message


def test_read_tells_of_damage_or_skips_it(dataset, tmp_path):
    for path in dataset.parent.glob("d-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    copy = tmp_path / dataset.name
    succeed("index", copy)
    harness.flip(tmp_path / "d-00002-of-00008", 3 * 24 + 13)
    message = harness.fail(DEFECTS, "bench", copy)
    assert "d-00002-of-00008: record 3 at byte 72: payload CRC" in message
    result = harness.run("bench", copy, "--json", "--skip-damaged")
    assert result.status == DEFECTS
    assert result.json["skipped"] == 1 and result.json["records"] == sum(SIZES) - 1
    assert "skipped: " in result.err and "record 3 at byte 72" in result.err
    harness.flip(tmp_path / "d-00002-of-00008", 13)
    result = harness.run("bench", copy, "--skip-damaged", "--max-skipped", "1")
    assert result.status == DEFECTS
    assert "2 of 281 records are damaged" in result.err and "shardfeed repair" in result.err
    assert "; pass --max-skipped N to skip more" in result.err
    assert "nothing is skipped" in harness.fail(harness.USAGE, "bench", copy, "--max-skipped", "1")


def test_plan_tells_what_an_order_means(dataset):
    plan = succeed("plan", dataset, "--json", "--shuffle", "1", "--world", "2", "--batch", "10").json
    assert plan["records"] == sum(SIZES)
    assert plan["batches_per_rank"] == sum(SIZES) // 20
    assert plan["left_over"] == sum(SIZES) % 20
    assert 0.8 < plan["displacement"] < 1.2
    assert plan["held_bytes"] <= plan["budget_bytes"]
    exact = succeed("plan", dataset, "--json", "--shuffle", "--window", "all").json
    assert exact["batch_neighbors"] == 0
    assert exact["window_records"] == sum(SIZES)
    assert succeed("plan", dataset, "--json").json["displacement"] == 0
    padded = succeed("plan", dataset, "--json", "--batch", "10", "--end", "pad").json
    assert padded["padding"] == -sum(SIZES) % 10
    text = succeed("plan", dataset, "--shuffle").out.decode()
    for word in ("order:", "window:", "mixing:", "reads:", "memory:"):
        assert word in text


@pytest.mark.folder_only("indexes of stores stay in memory")
def test_index_is_made_on_the_way_and_kept(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "x")) as writer:
        writer.write(b"record")
    result = harness.run("bench", tmp_path / "x")
    assert "1 of 1 shards had no index; they have one now" in result.err
    assert (tmp_path / ".shardfeed/x.index").exists()
    assert "had no index" not in harness.run("bench", tmp_path / "x").err


@pytest.mark.parametrize("options, message", [
    (["--rank", "2", "--world", "2"], "rank 2 of 2"),
    (["--window", "x"], "--window 'x': expected a number of records or a size"),
    (["--budget", "0"], "--budget '0'"),
    (["--shuffle", "--order", "interleave"], "cannot be combined with --order interleave"),
    (["--records", "999999"], "999999"),
    (["--batch", "0"], "0"),
    (["--io", "floppy"], "floppy"),
])
def test_wrong_use(dataset, options, message):
    result = harness.run("bench", dataset, *options)
    assert result.status == USAGE
    assert message in result.err


def test_replay_of_a_step_that_does_not_come(dataset):
    message = harness.fail(USAGE, "replay", dataset, "--batch", "100", "--step", "2")
    assert "an epoch has 2 batches" in message
    message = harness.fail(USAGE, "replay", dataset, "--records", "0-9", "--find", "10")
    assert "this record is not among the 10 records that are read" in message


def test_read_of_a_terminal_line(dataset):
    out = succeed("bench", dataset, "--shuffle").out.decode()
    assert "records/s" in out and "order: shuffle(seed=0" in out and "io: " in out
    assert json.loads(succeed("bench", dataset, "--json").out)


def test_read_is_an_alias_of_bench_that_says_so(dataset):
    old = harness.run("read", dataset, "--json")
    assert old.err == "shardfeed: 'read' is now called 'bench'; the next release drops 'read'\n"
    assert old.json["records"] == succeed("bench", dataset, "--json").json["records"]
    assert "  read " not in succeed("--help").out.decode()
