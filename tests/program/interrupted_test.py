"""convert is interrupted or killed: nothing incomplete may pass for a dataset."""

import base64
import fcntl
import gzip
import os
import random
import shutil
import signal
import subprocess
import time

import harness
import pytest
from harness import INTERRUPTED, TESTDATA, convert

POEM = TESTDATA / "tables/poem.txt"
EVENTS = TESTDATA / "tables/events.jsonl"


@pytest.fixture(scope="module")
def slow_source(tmp_path_factory):
    """Text that takes some seconds to compress."""
    path = tmp_path_factory.mktemp("slow") / "text"
    block = base64.b64encode(random.Random(1).randbytes(1 << 20))
    lines = b"\n".join(block[i:i + 100] for i in range(0, len(block), 100)) + b"\n"
    path.write_bytes(lines * 60)
    return path


def start(*arguments):
    return subprocess.Popen(harness.command(*arguments), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def wait_for(process, condition):
    """Returns once `condition` holds, while `process` still runs."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended too soon: " + process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def staged_bytes(out):
    """The size of staging, as far as it can be determined while it changes."""
    try:
        return sum(path.stat().st_size for path in out.glob(".shardfeed/*.incomplete/*"))
    except FileNotFoundError:
        return 0


SLOW = ["--compression", "gzip", "--level", "9", "-j", "1", "-q"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("options", [[], ["--shuffle", "1"]], ids=["order", "shuffled"])
def test_interrupt_ends_convert_and_leaves_nothing(slow_source, out, name, options):
    process = start("convert", "text", slow_source, out / "x@3", *SLOW, *options)
    wait_for(process, lambda: staged_bytes(out) > 0)
    process.send_signal(getattr(signal, name))
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == INTERRUPTED, error
    assert error == "shardfeed: interrupted; nothing was kept\n"
    assert harness.tree(out) == {}
    assert not (out / ".shardfeed").exists()
    convert("text", POEM, out / "x@3")


def test_interrupt_of_overwrite_keeps_the_old_dataset(slow_source, out):
    convert("text", POEM, out / "x@3")
    before = harness.tree(out)
    process = start("convert", "text", slow_source, out / "x@3", "--overwrite", *SLOW)
    wait_for(process, lambda: staged_bytes(out) > 0)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert harness.tree(out) == before


def test_two_writers_of_one_dataset_do_not_mix(slow_source, out):
    process = start("convert", "text", slow_source, out / "x@3", *SLOW)
    wait_for(process, lambda: staged_bytes(out) > 0)
    message = harness.fail(harness.USAGE, "convert", "text", POEM, out / "x@3")
    assert "another process is writing this dataset" in message
    message = harness.fail(harness.IO_FAILED, "verify", out / "x@3")
    assert "it is being written, or its writer did not finish" in message
    convert("text", POEM, out / "y@3")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED


@pytest.mark.parametrize("bytes_seen", [0, 1, 2_000_000])
def test_killed_convert_looks_incomplete_and_can_be_run_again(slow_source, out, bytes_seen):
    process = start("convert", "text", slow_source, out / "x@3", *SLOW)
    wait_for(process, lambda: (out / ".shardfeed/x.incomplete/lock").exists() and
             staged_bytes(out) >= bytes_seen)
    process.kill()
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == -signal.SIGKILL, error
    assert not harness.looks_complete(out, "x")
    message = harness.fail(harness.IO_FAILED, "verify", out / "x@*")
    assert "its writer did not finish" in message
    convert("text", POEM, out / "x@3")
    convert("text", POEM, out.parent / "fresh/x@3")
    assert harness.tree(out) == harness.tree(out.parent / "fresh")


# ---- at every single step


def each_step(faults, arguments, prepare, folder):
    """Runs the command once to the end, to count its steps, and then kills it before each step."""
    def run_with(**environment):
        return subprocess.run(harness.command(*arguments), capture_output=True, timeout=60,
                              env={**os.environ, "LD_PRELOAD": str(faults), **environment}).returncode

    prepare()
    count_to = folder.parent / "count"
    assert run_with(COUNT_TO=str(count_to)) == harness.DONE
    steps = len(count_to.read_text().split())
    if steps == 0:
        pytest.skip("the program cannot be preloaded into: it is linked statically")
    for step in range(1, steps + 1):
        shutil.rmtree(folder, ignore_errors=True)
        prepare()
        if run_with(KILL_AT=str(step)) == -signal.SIGKILL:
            yield step


def is_whole(out, expected):
    """Whether the shards are those of `expected`, no matter what other files exist."""
    shards = {name: data for name, data in expected.items() if "/" not in name}
    there = harness.tree(out)
    return all(there.get(name) == data for name, data in shards.items())


def test_killed_at_any_step_nothing_half_done_looks_complete(faults, out, tmp_path):
    arguments = ["convert", "text", POEM, out / "x@3", "-q", "-j", "1"]
    convert("text", POEM, tmp_path / "fresh/x@3")
    expected = harness.tree(tmp_path / "fresh")
    steps = 0
    for step in each_step(faults, arguments, lambda: None, out):
        steps += 1
        # The manifest is last.
        if (out / ".shardfeed/x.manifest.json").exists():
            assert is_whole(out, expected), step
        # The next reader finishes what was committed.
        committed = (out / ".shardfeed/x.commit").exists()
        assert harness.looks_complete(out, "x") == is_whole(out, expected), step
        assert not committed or is_whole(out, expected), step
    assert steps > 10


def test_killed_at_any_step_the_next_overwrite_leaves_no_trace(faults, out, tmp_path):
    arguments = ["convert", "text", POEM, out / "x@3", "-q", "-j", "1"]
    convert("text", POEM, tmp_path / "fresh/x@3")
    expected = harness.tree(tmp_path / "fresh")
    traces = {}
    for step in each_step(faults, arguments, lambda: None, out):
        convert("text", POEM, out / "x@3", "--overwrite")
        if harness.tree(out) != expected:
            traces[step] = sorted(set(harness.tree(out)) - set(expected))
    assert traces == {}


def test_killed_at_any_step_the_next_convert_needs_no_overwrite(faults, out, tmp_path):
    """The files of a process that was killed before it committed are not a dataset."""
    arguments = ["convert", "text", POEM, out / "x@3", "-q", "-j", "1"]
    refused = {}
    for step in each_step(faults, arguments, lambda: None, out):
        if any((out / ".shardfeed" / name).exists() for name in ("x.commit", "x.manifest.json")):
            continue
        again = harness.run("convert", "text", POEM, out / "x@3", "-q")
        if again.status != harness.DONE:
            refused[step] = again.err
    assert refused == {}


def test_overwrite_killed_at_any_step_leaves_the_old_or_the_new(faults, out, tmp_path):
    convert("jsonl", EVENTS, tmp_path / "old/x@2")
    convert("text", POEM, tmp_path / "new/x@2")
    old, new = harness.tree(tmp_path / "old"), harness.tree(tmp_path / "new")
    arguments = ["convert", "text", POEM, out / "x@2", "-q", "-j", "1", "--overwrite"]
    seen = set()
    for step in each_step(faults, arguments, lambda: shutil.copytree(tmp_path / "old", out), out):
        committed = (out / ".shardfeed/x.commit").exists()
        assert harness.run("verify", out / "x@2").status == harness.DONE, step
        assert is_whole(out, new if committed else old) or is_whole(out, new), step
        seen.add("old" if is_whole(out, old) else "new")
    assert seen == {"old", "new"}


def test_killed_index_leaves_the_old_index_or_none(faults, tmp_path):
    shard = tmp_path / "data/x.tfrecord"

    def prepare():
        shard.parent.mkdir()
        shard.write_bytes((TESTDATA / "tensorflow/examples.tfrecord").read_bytes())

    left = 0
    for _ in each_step(faults, ["index", shard, "-q"], prepare, shard.parent):
        temporary = list(shard.parent.glob(".shardfeed/*.tmp"))
        would = harness.run("clean", f"{shard.parent}/", "--dry-run", "--json").json["removed"]
        assert sorted(would) == sorted(map(str, temporary))
        left += len(temporary)
        harness.succeed("clean", f"{shard.parent}/")
        assert not list(shard.parent.glob(".shardfeed/*.tmp"))
        assert harness.verify(shard)["num_defects"] == 0
        harness.succeed("index", shard)
        assert harness.verify(shard.parent / "x*")["num_defects"] == 0
    assert left > 0


def test_killed_index_leaves_old_or_new_lengths(faults, tmp_path):
    data = tmp_path / "data"
    convert("jsonl", EVENTS, tmp_path / "old/x@2")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    feature = next(iter(harness.succeed("inspect", tmp_path / "old/x@2", "--json").json["features"]))
    harness.succeed("index", tmp_path / "new/x@2", "--length", feature)
    old, new = harness.tree(tmp_path / "old"), harness.tree(tmp_path / "new")
    changed = sorted(name for name in new if new[name] != old[name])
    assert changed == [".shardfeed/x-00000-of-00002.index", ".shardfeed/x-00001-of-00002.index", ".shardfeed/x.indexes"]
    arguments = ["index", data / "x@2", "--length", feature, "-q", "-j", "1"]
    seen = set()
    for step in each_step(faults, arguments, lambda: shutil.copytree(tmp_path / "old", data), data):
        left = harness.tree(data)
        assert all(left[name] in (old[name], new[name]) for name in new), step
        seen.add(tuple(left[name] == new[name] for name in changed))
        harness.succeed("index", data / "x@2", "--length", feature)
        assert harness.tree(data) == new, step
    assert {(False, False, False), (True, False, False), (True, True, False)} <= seen


def test_clean_leaves_what_a_process_writes(tmp_path):
    (tmp_path / ".shardfeed").mkdir()
    mine = [".shardfeed/a-00000-of-00001.index.tmp", ".shardfeed/a.manifest.json.1.tmp", ".shardfeed/b.indexes.tmp"]
    other = [".shardfeed/notes.tmp", ".shardfeed/a-00000-of-00001.index", ".shardfeed/x.12.tmp"]
    for name in mine + other:
        (tmp_path / name).write_bytes(b"")
    with open(tmp_path / mine[0], "rb+") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        harness.succeed("clean", tmp_path / "a")
        assert [(tmp_path / name).exists() for name in mine] == [True, False, True]
    harness.succeed("clean", f"{tmp_path}/")
    assert not any((tmp_path / name).exists() for name in mine)
    assert all((tmp_path / name).exists() for name in other)


@pytest.mark.parametrize("options", [[], ["--parse", "--batch", "4"]], ids=["records", "batches"])
def test_interrupt_ends_read(out, options):
    convert("text", POEM, out / "x@3")
    process = start("bench", out / "x@3", "--epochs", "1000000000", *options)
    # The first line of progress.
    assert process.stderr.readline()
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == INTERRUPTED, error
    assert error.endswith("shardfeed: interrupted\n")


@pytest.mark.parametrize("command", [["verify"], ["index"], ["index", "--length", "x"]], ids=" ".join)
def test_interrupt_ends_what_reads_whole_shards(tmp_path, command):
    # Small to store, and half a minute to inflate.
    member = gzip.compress(harness.frame(b"") * 4_000_000, 1)
    shard = tmp_path / "x.tfrecord.gz"
    shard.write_bytes(member * 200)
    process = start(*command, shard)
    time.sleep(0.5)
    assert process.poll() is None, "it ended too soon: " + process.stderr.read().decode()
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == INTERRUPTED, error
    assert error.splitlines()[-1].startswith("shardfeed: interrupted"), error
    assert not list(tmp_path.glob(".shardfeed/*"))


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_a_complete_dataset_without_a_shard_is_not_complete(out, harm):
    convert("text", POEM, out / "t@2")
    shard = out / "t-00001-of-00002"
    size = shard.stat().st_size
    if harm == "missing":
        shard.unlink()
    else:
        os.truncate(shard, 10)
    message = harness.fail(harness.DEFECTS, "convert", "text", POEM, out / "t@2", "--resume")
    assert message == f"{shard}: the dataset was complete, but this shard " + (
        "cannot be read: No such file or directory" if harm == "missing" else f"has 10 bytes instead of {size}"
    ) + "; pass --overwrite to write the dataset again"
    convert("text", POEM, out / "t@2", "--resume", "--overwrite")
    harness.succeed("verify", out / "t@2")


def test_what_a_complete_dataset_was_not_compared_with_is_told(out, tmp_path):
    schema, table = tmp_path / "schema.json", tmp_path / "t.csv"
    table.write_text("a\n1\n")
    schema.write_text('{"a": "int64"}')
    arguments = ["convert", "csv", table, out / "t@1", "--resume", "--schema", schema]
    assert b"kept" not in harness.succeed(*arguments).out
    assert b"although" not in harness.succeed(*arguments).out
    schema.write_text('{"a": "bytes"}')
    assert (f"note: the dataset was complete and is kept, although {schema} was modified after that; pass --overwrite to "
            "convert it again").encode() in harness.succeed(*arguments).out
    for _ in range(2):
        again = subprocess.run(harness.command("convert", "text", "-", out / "p@1", "--resume"), input=b"a\n",
                               capture_output=True)
        assert again.returncode == 0, again.stderr
    assert (b"note: the dataset was complete and is kept, although what standard input has now was not read; pass "
            b"--overwrite to convert it again") in again.stdout
