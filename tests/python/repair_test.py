"""repair saves what is sound, and counts as verify and convert do."""

import gzip
import json
import shutil

import harness
import pytest
from harness import DEFECTS, DONE, USAGE, fail, run, succeed


def make(tmp_path, compression="none", shards=2, records=3000):
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"i": i, "text": f"row {i * i}"}) + "\n"
                              for i in range(records)))
    succeed("convert", "jsonl", source, tmp_path / f"old@{shards}", "--compression", compression,
            "--no-shuffle", "--member-size", "4KiB", "-q")
    return sorted(tmp_path.glob("old-*"))


def flip(path, at, bits=1):
    raw = bytearray(path.read_bytes())
    raw[at] ^= bits
    path.write_bytes(raw)


def rows(dataset):
    return [record["i"] for record in harness.payloads(dataset)]



@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_sound_data_lose_nothing(tmp_path, compression):
    make(tmp_path, compression)
    report = succeed("repair", tmp_path / "old@2", tmp_path / "new", "--json").json
    assert (report["records"], report["records_lost"]) == (3000, 0)
    assert rows(tmp_path / "new@2") == rows(tmp_path / "old@2")
    assert harness.verify(tmp_path / "new@2")["manifest"]


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
@pytest.mark.parametrize("indexed", [True, False])
def test_all_count_the_same(tmp_path, compression, indexed):
    shards = make(tmp_path, compression)
    before = [path.read_bytes() for path in shards]
    flip(shards[1], 40 if compression == "none" else len(before[1]) // 2)
    if not indexed:
        shutil.rmtree(tmp_path / ".shardfeed")
    damaged = shards[1].read_bytes()
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert result.status == DEFECTS
    kept = result.json["records"]
    assert 2500 < kept < 3000
    lost = result.json["records_lost"]
    assert lost == (3000 - kept if indexed or compression == "none" else None)
    assert shards[0].read_bytes() == before[0] and shards[1].read_bytes() == damaged
    assert harness.verify(tmp_path / "new@2")["records"] == kept
    assert harness.verify(tmp_path / "old@2", status=DEFECTS)["records"] == kept
    succeed("convert", "tfrecord", tmp_path / "old@2", tmp_path / "copy@2", "--on-error", "skip",
            "--max-skipped", "100%",
            "--no-shuffle", "-q")
    assert harness.verify(tmp_path / "copy@2")["records"] == kept
    assert rows(tmp_path / "copy@2") == rows(tmp_path / "new@2")


def test_dry_run_tells_and_writes_nothing(tmp_path):
    shards = make(tmp_path)
    flip(shards[0], 40)
    told = run("repair", tmp_path / "old@2", tmp_path / "new", "--json", "--dry-run")
    assert told.status == DEFECTS and not list(tmp_path.glob("new*"))
    done = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert told.json["shards"] == done.json["shards"]
    place, = done.json["shards"][0]["damage"]
    assert (place["kind"], place["record"], place["records_lost"]) == ("payload CRC", 0, 1)


def test_a_damaged_first_header_loses_nothing(tmp_path):
    shards = make(tmp_path, "gzip")
    flip(shards[0], 0)
    flip(shards[1], 1)
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert (result.status, result.json["records"]) == (DONE, 3000)


def test_a_missing_shard_is_lost_as_a_whole(tmp_path):
    shards = make(tmp_path)
    shards[1].unlink()
    result = run("repair", tmp_path / "old@2", tmp_path / "new")
    assert result.status == DEFECTS
    assert b"missing shard: " in result.out and b"1,500 lost" in result.out
    assert len(rows(tmp_path / "new@2")) == 1500


def test_foreign_gzip(tmp_path):
    records = (harness.TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
    path = tmp_path / "x.tfrecord.gz"
    path.write_bytes(gzip.compress(records) + gzip.compress(records))
    flip(path, 0)
    result = run("repair", path, tmp_path / "new", "--json")
    assert (result.status, result.json["records"]) == (DONE, 80)


def test_wrong_use(tmp_path):
    make(tmp_path)
    assert "never touches" in fail(USAGE, "repair", tmp_path / "old@2", tmp_path / "old")
    assert "cannot have 3" in fail(USAGE, "repair", tmp_path / "old@2", tmp_path / "new@3")
    (tmp_path / "new-00000-of-00002").touch()
    assert "--overwrite" in run("repair", tmp_path / "old@2", tmp_path / "new").err
