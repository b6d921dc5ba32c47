"""reshard, merge, split and sample: records into other shards."""

import json
import os
import shutil
import signal
import subprocess

import harness
import pytest
from harness import DEFECTS, DONE, IO_FAILED, TESTDATA, USAGE, convert, fail, succeed, verify

HERE_AND_IN_STORE = True

POEM = TESTDATA / "tables/poem.txt"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    path.write_text("".join(json.dumps({"i": i, "text": "x" * (i % 300)}) + "\n"
                            for i in range(20_000)))
    return path


@pytest.fixture
def dataset(lines, tmp_path):
    convert("jsonl", lines, tmp_path / "in/a@5")
    return tmp_path / "in/a@5"


def numbers(spec):
    return [row["i"][0] for row in harness.payloads(spec)]


def sound(spec):
    report = verify(spec, "--level", "examples")
    assert report["num_defects"] == 0
    return report["records"]


def manifest(folder, stem):
    return json.loads((folder / f".shardfeed/{stem}.manifest.json").read_text())


# ---- the four


@pytest.mark.parametrize("shards, compression", [(1, "keep"), (64, "gzip"), (5, "zlib")])
def test_tensorflow_reads_what_reshard_writes(tf, dataset, out, shards, compression):
    report = succeed("reshard", dataset, out / f"b@{shards}", "--compression", compression,
                     "--json").json
    assert report["datasets"] == [{"dataset": str(out / f"b@{shards}"), "shards": shards,
                                   "records": 20_000, "bytes": report["datasets"][0]["bytes"]}]
    found = harness.read_by_tensorflow(tf, harness.shards(out, "b"),
                                       "" if compression == "keep" else compression.upper())
    assert found == harness.read_by_tensorflow(tf, harness.shards(dataset.parent, "a"))
    assert sound(out / f"b@{shards}") == 20_000
    told = manifest(out, "b")
    assert told["features"] == manifest(dataset.parent, "a")["features"]
    assert told["made_by"]["command"] == "reshard"


def test_reshard_reads_what_tensorflow_wrote(tf, tmp_path, out):
    records = [harness.example(tf, i=[i], text=[b"x" * (i % 97)]) for i in range(5000)]
    for kind in ("", "GZIP"):
        folder = tmp_path / (kind or "none")
        folder.mkdir()
        for shard in range(2):
            harness.write_by_tensorflow(tf, folder / f"t-{shard:05}-of-00002",
                                        records[shard * 2500:(shard + 1) * 2500], kind)
        succeed("reshard", folder / "t@2", out / f"b{kind}@3")
        assert numbers(out / f"b{kind}@3") == list(range(5000))
        assert sound(out / f"b{kind}@3") == 5000


def test_merge_puts_datasets_one_after_another(dataset, lines, out):
    convert("jsonl", lines, out / "few@2", "--limit", "100")
    succeed("merge", dataset, out / "few@2", out / "both")
    assert numbers(out / "both@7") == [*range(20_000), *range(100)]
    assert sound(out / "both@7") == 20_100
    # Each shard is copied whole, with the same bytes.
    assert (out / "both-00006-of-00007").read_bytes() == (out / "few-00001-of-00002").read_bytes()
    succeed("merge", dataset, out / "few@2", out / "two@2")
    assert numbers(out / "two@2") == [*range(20_000), *range(100)]


def test_merge_of_raw_and_compressed(dataset, lines, out):
    convert("jsonl", lines, out / "z@1", "--limit", "100", "--compression", "gzip")
    message = fail(USAGE, "merge", dataset, out / "z@1", out / "both@2")
    assert message == ("the shards are compressed in different ways; choose one with "
                       "--compression")
    succeed("merge", dataset, out / "z@1", out / "both@2", "--compression", "none")
    assert numbers(out / "both@2") == [*range(20_000), *range(100)]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_split_gives_each_its_share_in_order(lines, tmp_path, out, compression):
    convert("jsonl", lines, tmp_path / "in/a@8", "--compression", compression)
    succeed("split", tmp_path / "in/a@8", out / "a", "--shares", "train=0.8,dev=0.1,test=0.1")
    assert numbers(out / "a-train@7") == list(range(16_000))
    assert numbers(out / "a-dev@1") == list(range(16_000, 18_000))
    assert numbers(out / "a-test@1") == list(range(18_000, 20_000))
    for name in ("train@7", "dev@1", "test@1"):
        sound(out / f"a-{name}")
    assert manifest(out, "a-dev")["features"]["i"]["records"] == 2000
    assert manifest(out, "a-dev")["made_by"]["split"] == "train=0.8,dev=0.1,test=0.1"


def test_sample_by_chance_and_by_numbers(dataset, out):
    succeed("sample", dataset, out / "few@2", "--count", "500", "--seed", "3")
    few = numbers(out / "few@2")
    assert len(few) == 500 and few == sorted(set(few))
    succeed("sample", dataset, out / "again@3", "--count", "500", "--seed", "3")
    assert numbers(out / "again@3") == few
    succeed("sample", dataset, out / "other@1", "--share", "0.025")
    assert len(numbers(out / "other@1")) == 500
    assert numbers(out / "other@1") != few
    succeed("sample", dataset, out / "part@1", "--records", "19990-,5,100-102")
    assert numbers(out / "part@1") == [*range(19_990, 20_000), 5, 100, 101, 102]
    for name in ("few@2", "again@3", "other@1", "part@1"):
        sound(out / name)


def test_the_number_of_threads_does_not_show(lines, tmp_path):
    for compression in ("none", "gzip"):
        source = tmp_path / compression / "a@3"
        convert("jsonl", lines, source, "--compression", compression)
        trees = []
        for jobs in (1, 5):
            folder = tmp_path / f"{compression}{jobs}"
            succeed("reshard", source, folder / "b@4", "-j", jobs)
            succeed("sample", source, folder / "s@2", "--count", "1000", "-j", jobs)
            trees.append(harness.tree(folder))
        assert trees[0] == trees[1]


def test_a_dataset_can_be_resharded_in_its_place(dataset):
    message = fail(USAGE, "reshard", dataset, dataset.parent / "a@2")
    assert "there is a dataset of this name" in message
    succeed("reshard", dataset, dataset.parent / "a@2", "--overwrite")
    assert numbers(dataset.parent / "a@2") == list(range(20_000))
    assert len(harness.shards(dataset.parent, "a")) == 2


# ---- wrong use


@pytest.mark.parametrize("arguments, said", [
    (["reshard", "IN"], "1 name is given; usage: shardfeed reshard DATASET OUT"),
    (["reshard", "IN", "IN", "OUT@1"], "3 names are given; usage: shardfeed reshard DATASET OUT"),
    (["reshard", "IN", "OUT"],
     "the number of shards is missing: name the output as folder/name@N"),
    (["sample", "IN", "OUT@1"],
     "expected exactly one of --count K, --share P and --records 0-99,200-299"),
    (["sample", "IN", "OUT@1", "--count", "1", "--share", "0.5"],
     "expected exactly one of --count K, --share P and --records 0-99,200-299"),
    (["sample", "IN", "OUT@1", "--count", "20001"],
     "20001 records requested, but the dataset has only 20000"),
    (["split", "IN", "OUT", "--shares", "a=0.5"],
     "a=0.5: the shares add up to 0.5; they must add up to 1"),
    (["reshard", "IN", "OUT@1", "--member-size", "x"],
     "--member-size x: expected a size such as 256KiB")])
def test_wrong_use_is_told(dataset, out, arguments, said):
    arguments = [{"IN": dataset, "OUT": out / "b", "OUT@1": out / "b@1"}.get(a, a)
                 for a in arguments]
    assert fail(USAGE, *arguments) == said
    assert not out.exists() or harness.tree(out) == {}


def test_records_that_are_not_there_are_told(dataset, out):
    message = fail(USAGE, "sample", dataset, out / "b@1", "--records", "19999-20000")
    assert "20000" in message
    assert not out.exists()


# ---- bad input


def test_damage_is_told_and_leaves_nothing(dataset, out):
    shard = dataset.parent / "a-00002-of-00005"
    frames = harness.frames(shard.read_bytes())
    at = frames[1000][0]
    harness.flip(shard, at + 1)  # a length
    message = fail(DEFECTS, "reshard", dataset, out / "b@2")
    assert message.startswith(f"{shard}: record 1000 at byte {at}: its index does not match it; "
                              "'shardfeed verify' shows which of the two is damaged")
    harness.flip(shard, at + 1)
    harness.flip(shard, at + 20)  # a payload: noticed when it is read
    message = fail(DEFECTS, "reshard", dataset, out / "b@2", "--compression", "gzip")
    assert message == (f"{shard}: record 1000 at byte {at}: its payload's CRC is wrong; 'shardfeed "
                       "verify' lists all defects, 'shardfeed repair' saves what is sound")
    message = fail(DEFECTS, "sample", dataset, out / "b@1", "--records", "8500-9500")
    assert f"{shard}: record 1000 at byte {at}: its payload's CRC is wrong" in message
    assert harness.tree(out) == {}


@pytest.mark.folder_only("the manifest tells what there is, so a missing shard is an error of reading")
def test_a_cut_shard_is_told(dataset, out):
    shard = dataset.parent / "a-00004-of-00005"
    os.truncate(shard, shard.stat().st_size - 10)
    message = fail(DEFECTS, "reshard", dataset, out / "b@2")
    assert message.startswith(f"{shard}: ")
    assert not out.exists() or harness.tree(out) == {}
    shard.unlink()
    message = fail(DEFECTS, "reshard", dataset, out / "b@2")
    assert "missing: a-00004-of-00005" in message


def test_foreign_files_are_told(tmp_path, out):
    (tmp_path / "text").write_text("not a TFRecord\n" * 100)
    message = fail(DEFECTS, "reshard", tmp_path / "text", out / "b@2")
    assert message.startswith(f"{tmp_path}/text: ")
    assert fail(IO_FAILED, "reshard", tmp_path / "nothing@2", out / "b@2").startswith(
        f"{tmp_path}/nothing@2: ")


# ---- interrupted


def run_with(faults, arguments, **environment):
    return subprocess.run(harness.command(*arguments), capture_output=True, timeout=60,
                          env={**os.environ, "LD_PRELOAD": str(faults), **environment})


@pytest.mark.parametrize("compression", ["keep", "gzip"])
def test_killed_at_any_step_nothing_half_done_looks_complete(faults, out, tmp_path, compression):
    convert("text", POEM, tmp_path / "in/a@2")
    arguments = ["reshard", tmp_path / "in/a@2", out / "b@3", "--compression", compression, "-q",
                 "-j", "1"]
    assert run_with(faults, arguments, COUNT_TO=str(tmp_path / "count")).returncode == DONE
    steps = len((tmp_path / "count").read_text().split())
    if steps == 0:
        pytest.skip("the program cannot be preloaded into: it is linked statically")
    expected = harness.tree(out)
    shards = {name: data for name, data in expected.items() if "/" not in name}
    for step in range(1, steps + 1):
        shutil.rmtree(out, ignore_errors=True)
        if run_with(faults, arguments, KILL_AT=str(step)).returncode != -signal.SIGKILL:
            continue
        has_manifest = (out / ".shardfeed/b.manifest.json").exists()
        # The next reader finishes what was committed.
        complete = harness.looks_complete(out, "b")
        there = harness.tree(out) if out.exists() else {}
        assert complete == all(there.get(name) == data for name, data in shards.items()), step
        assert complete or not has_manifest, step
        succeed(*arguments, "--overwrite")
        assert harness.tree(out) == expected, step


@pytest.mark.folder_only("the files of a running writer; package/stores_writing_test.py has its uploads")
def test_interrupt_leaves_nothing(faults, lines, tmp_path, out):
    convert("jsonl", lines, tmp_path / "in/a@4", "--no-sync")
    process = subprocess.Popen(
        harness.command("reshard", tmp_path / "in/a@4", out / "b@40", "-q", "-j", "1"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "LD_PRELOAD": str(faults), "SLOW_WRITES_MS": "100"})
    while not list(out.glob(".shardfeed/b.incomplete/*.shard")):
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == harness.INTERRUPTED, error
    assert error == "shardfeed: interrupted; nothing was kept\n"
    assert harness.tree(out) == {}
