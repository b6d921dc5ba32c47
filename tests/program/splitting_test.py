"""Splits, duplicates, and conversions that resume where an earlier one ended."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import harness
import pytest
from harness import TESTDATA, USAGE, convert, fail, payloads

HERE_AND_IN_STORE = True

IMAGES = TESTDATA / "images"


def column(dataset, name):
    return [row[name][0] for row in payloads(dataset)]


# ---- splits


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,patient\n" + "".join(f"{i},p{i // 10}\n" for i in range(2000)))
    return path


def test_each_record_is_in_one_split(table, out):
    report = harness.succeed("convert", "csv", table, out / "t@10.tfrecord", "--split",
                             "train=0.8,dev=0.1,test=0.1", "--json").json
    assert [d["dataset"].rsplit("/")[-1] for d in report["datasets"]] == [
        "t-train@8.tfrecord", "t-dev@1.tfrecord", "t-test@1.tfrecord"]
    found = {name: column(out / f"t-{name}@*.tfrecord", "id") for name in ("train", "dev", "test")}
    assert sorted(sum(found.values(), [])) == list(range(2000))
    assert 1500 < len(found["train"]) < 1700 and 150 < len(found["dev"]) < 250
    for name in found:
        assert harness.verify(out / f"t-{name}@*.tfrecord")["num_defects"] == 0
        manifest = json.loads((out / f".shardfeed/t-{name}.manifest.json").read_text())
        assert manifest["made_by"]["split"] == "train=0.8,dev=0.1,test=0.1"


def test_split_by_key_keeps_equal_values_together(table, out, tmp_path):
    convert("csv", table, out / "t@4", "--split", "a=0.5,b=0.5", "--split-key", "patient")
    a, b = (set(column(out / f"t-{name}@*", "patient")) for name in "ab")
    assert len(a) + len(b) == 200 and not a & b
    lines = tmp_path / "t.jsonl"
    lines.write_text("".join(json.dumps({"id": i, "who": {"name": f"p{i // 10}"}}) + "\n"
                             for i in range(2000)))
    convert("jsonl", lines, out / "j@4", "--split", "a=0.5,b=0.5", "--split-key", "who.name")
    a, b = (set(column(out / f"j-{name}@*", "who.name")) for name in "ab")
    assert len(a) + len(b) == 200 and not a & b
    message = fail(USAGE, "convert", "csv", table, out / "u@4", "--split", "a=0.5,b=0.5",
                   "--split-key", "name")
    assert message == f'{table}: column "name" does not exist; the columns are "id", "patient"'
    message = fail(USAGE, "convert", "csv", table, out / "u@4", "--split-key", "patient")
    assert message == "--split-key needs --split, such as --split train=0.9,val=0.1"


def test_an_image_keeps_its_split_when_others_come(out, tmp_path):
    shutil.copytree(IMAGES, tmp_path / "in")
    convert("imagefolder", tmp_path / "in", out / "x@2", "--split", "a=0.5,b=0.5")
    before = {name: column(out / f"x-{name}@*", "image/filename") for name in "ab"}
    for path in sorted((tmp_path / "in/circles").iterdir()):
        if path.is_file():
            shutil.copy(path, path.with_name("more-" + path.name))
    convert("imagefolder", tmp_path / "in", out / "y@2", "--split", "a=0.5,b=0.5")
    for name in "ab":
        assert set(before[name]) <= set(column(out / f"y-{name}@*", "image/filename"))


@pytest.mark.parametrize("splits, said", [
    ("a=0.5", "a=0.5: the shares add up to 0.5; they must add up to 1"),
    ("a,b", '"a": expected a list of splits such as train=0.9,test=0.1'),
    ("a=0.5,a=0.5", "the split a appears twice")])
def test_wrong_splits_are_told(table, out, splits, said):
    assert fail(USAGE, "convert", "csv", table, out / "x@1", "--split", splits) == said
    message = fail(USAGE, "convert", "csv", table, out / "x@1", "--split", "a=1", "--limit", "3")
    assert message == "a limit cannot be combined with splits"
    assert not out.exists() or harness.tree(out) == {}


def test_a_split_that_is_there_is_not_replaced_unasked(table, out):
    convert("csv", table, out / "x-b@1")
    before = harness.tree(out)
    message = fail(USAGE, "convert", "csv", table, out / "x@1", "--split", "a=0.5,b=0.5")
    assert "x-b.manifest.json: there is a dataset of this name" in message
    assert harness.tree(out) == before


# ---- duplicates


def test_duplicates_of_images_and_rows_are_left_out(out, tmp_path):
    shutil.copytree(IMAGES, tmp_path / "in")
    first = sorted(p for p in (tmp_path / "in").rglob("*") if p.is_file())[0]
    for n in range(3):
        shutil.copy(first, tmp_path / f"in/stripes/again{n}{first.suffix}")
    names = {}
    for options in ([], ["--dedup"]):
        report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "x@2", "--json",
                                 "--overwrite", *options).json
        names[len(options)] = set(column(out / "x@2", "image/filename"))
    assert report["records"] == 24
    assert "left out 3 of 27 records as duplicates of earlier ones" in report["notes"]
    assert names[0] - names[1] == {f"stripes/again{n}{first.suffix}" for n in range(3)}
    (tmp_path / "t.csv").write_text("a,b\n1,2\n1,3\n1,2\n\n1,2\n2,1\n")
    convert("csv", tmp_path / "t.csv", out / "t@1", "--dedup")
    assert column(out / "t@1", "b") == [2, 3, 1]


def test_duplicates_in_tars_have_other_keys(out, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("same" if name != "b" else "other")
    for tar, options in (("x.tar", []), ("x.tar.gz", ["--gzip"])):
        subprocess.run(["tar", "cf", tmp_path / tar, *options, "-C", tmp_path, "a.txt", "b.txt",
                        "c.txt"], check=True)
        convert("tar", tmp_path / tar, out / "x@1", "--dedup", "--overwrite")
        assert column(out / "x@1", "__key__") == ["a", "b"]


# ---- resumed


@pytest.fixture(scope="module")
def slow_source(tmp_path_factory):
    """Text that takes some seconds to compress."""
    path = tmp_path_factory.mktemp("slow") / "text"
    block = random.Random(1).randbytes(1 << 20).hex()
    path.write_text("\n".join(block[i:i + 100] for i in range(0, len(block), 100)) * 20)
    return path


SLOW = ["--compression", "gzip", "--level", "9", "-j", "1", "-q", "--resume"]


def staged(out, pattern):
    return len(list(out.glob(f".shardfeed/*.incomplete/{pattern}")))


def start_and_wait(arguments, condition):
    process = subprocess.Popen(harness.command(*arguments), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended too soon: " + process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return process


@pytest.mark.folder_only("resuming")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("order", [[], ["--shuffle", "1"]], ids=["order", "shuffled"])
def test_resumed_conversion_gives_the_same_bytes(slow_source, out, tmp_path, how, order):
    arguments = ["convert", "text", slow_source, out / "x@8", *SLOW, *order]
    process = start_and_wait(arguments, lambda: staged(out, "*.done") >= 3)
    process.send_signal(getattr(signal, how))
    error = process.communicate(timeout=60)[1].decode()
    done = staged(out, "*.done")
    assert done >= 3
    assert not harness.looks_complete(out, "x")
    if how == "SIGINT":
        assert error == (f"shardfeed: interrupted; {done} of 8 shards are finished; pass "
                         "--resume to continue from there\n")
        assert staged(out, "*.shard") == done  # and no half ones
    report = harness.succeed(*[a for a in arguments if a != "-q"], "--json").json
    assert report["shards_taken_over"] == done
    convert("text", slow_source, tmp_path / "fresh/x@8", *SLOW[:6], *order)
    assert harness.tree(out) == harness.tree(tmp_path / "fresh")


@pytest.mark.folder_only("resuming")
def test_what_differs_is_not_resumed(slow_source, out, tmp_path):
    arguments = ["convert", "text", slow_source, out / "x@8", *SLOW]
    process = start_and_wait(arguments, lambda: staged(out, "*.done") >= 2)
    process.kill()
    process.communicate()
    shutil.copytree(out, tmp_path / "kept")
    for change in (["--limit", "100"], ["--member-size", "1KiB"], ["--shuffle", "5"], ["--dedup"]):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "kept", out)
        report = harness.succeed("convert", "text", slow_source, out / "x@8", "--compression",
                                 "gzip", "--level", "9", "--resume", "--json", *change).json
        assert report["shards_taken_over"] == 0, change
    shutil.rmtree(out)
    shutil.copytree(tmp_path / "kept", out)
    os.utime(slow_source)
    report = harness.succeed("convert", "text", slow_source, out / "x@8", "--compression", "gzip",
                             "--level", "9", "--resume", "--json").json
    assert report["shards_taken_over"] == 0


@pytest.mark.folder_only("resuming")
def test_a_mended_image_lets_the_conversion_go_on(out, tmp_path):
    """A broken record also ends a conversion. Repairing the image changes the input, so everything is
    redone: no shard of the earlier input may remain."""
    shutil.copytree(IMAGES, tmp_path / "in")
    bad = tmp_path / "in/triangles/zzz.png"
    bad.write_bytes(b"?")
    arguments = ["convert", "imagefolder", tmp_path / "in", out / "x@4", "--no-shuffle", "--resume"]
    assert f"{bad}: " in fail(harness.DEFECTS, *arguments)
    shutil.copy(IMAGES / "circles/0.jpg", bad)
    report = harness.succeed(*arguments, "--json").json
    assert (report["records"], report["shards_taken_over"]) == (25, 0)
    convert("imagefolder", tmp_path / "in", tmp_path / "fresh/x@4", "--no-shuffle")
    assert harness.tree(out) == harness.tree(tmp_path / "fresh")


@pytest.mark.folder_only("resuming")
@pytest.mark.parametrize("kind, source", [("text", TESTDATA / "tables/poem.txt"),
                                          ("imagefolder", IMAGES)], ids=["text", "images"])
def test_killed_at_any_step_resuming_gives_the_same_bytes(faults, out, tmp_path, kind, source):
    arguments = ["convert", kind, source, out / "x@3", "-q", "-j", "1", "--resume"]
    convert(kind, source, tmp_path / "fresh/x@3")
    expected = harness.tree(tmp_path / "fresh")

    def run(**environment):
        return subprocess.run(harness.command(*arguments), capture_output=True, timeout=60,
                              env={**os.environ, "LD_PRELOAD": str(faults), **environment}).returncode

    assert run(COUNT_TO=str(tmp_path / "count")) == harness.DONE
    steps = len((tmp_path / "count").read_text().split())
    if steps == 0:
        pytest.skip("the program cannot be preloaded into: it is linked statically")
    taken = set()
    for step in range(1, steps + 1):
        shutil.rmtree(out)
        if run(KILL_AT=str(step)) != -signal.SIGKILL:
            continue
        result = harness.run(*[a for a in arguments if a != "-q"], "--json")
        assert result.status == harness.DONE, (step, result.err)
        taken.add(result.json["shards_taken_over"])
        assert harness.tree(out) == expected, step
    assert taken >= {0, 1, 2, 3}
