"""repair saves intact records, and its counts agree with those of verify, convert and read."""

import gzip
import json
import os
import random
import shutil

import harness
import pytest
from harness import DEFECTS, DONE, USAGE, fail, run, succeed


def make(tmp_path, compression="none", shards=2, records=3000):
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"i": i, "text": f"row {i * i}"}) + "\n"
                              for i in range(records)))
    succeed("convert", "jsonl", source, tmp_path / f"old@{shards}", "--compression", compression,
            "--no-shuffle", "-q", *([] if compression == "none" else ["--member-size", "4KiB"]))
    return sorted(tmp_path.glob("old-*"))


def flip(path, at, bits=1):
    raw = bytearray(path.read_bytes())
    raw[at] ^= bits
    path.write_bytes(raw)


def rows(dataset):
    return [record["i"][0] for record in harness.payloads(dataset)]



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
    copied = run("convert", "tfrecord", tmp_path / "old@2", tmp_path / "copy@2", "--on-error", "skip",
                 "--max-skipped", "100%", "--no-shuffle", "-q")
    assert copied.status == DEFECTS, copied.err
    assert harness.verify(tmp_path / "copy@2")["records"] == kept
    assert rows(tmp_path / "copy@2") == rows(tmp_path / "new@2")


def damages(raw, seed):
    """{what: bytes} of one shard: damage of each kind, at places that are the same in every run."""
    draw = random.Random(seed)
    page = len(raw) // 16
    found = {}
    for n, at in enumerate([0, 1, 2, 8, 11, 14, len(raw) - 1]
                           + draw.sample(range(16, len(raw) - 1), 6)):
        found[f"flip {at}"] = raw[:at] + bytes([raw[at] ^ 1 << n % 8]) + raw[at + 1:]
    for at in draw.sample(range(len(raw) - 2 * page), 2):
        found[f"cut {at}"] = raw[:at]
        found[f"insertion {at}"] = raw[:at] + b"abc" + raw[at:]
        found[f"zeroed {at}"] = raw[:at] + bytes(page) + raw[at + page:]
        found[f"doubled {at}"] = raw[:at + page] + raw[at:]
        found[f"swapped {at}"] = (raw[:at] + raw[at + page:at + 2 * page] + raw[at:at + page]
                                  + raw[at + 2 * page:])
    found["tail"] = raw + b"a tail of something else"
    return found


def tensorflow_shards(tf, folder, compression):
    """Two shards that TensorFlow wrote, with indexes."""
    written = []
    for shard in range(2):
        path = folder / f"old-{shard:05}-of-00002"
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for i in range(1500 * shard, 1500 * shard + 1500):
                writer.write(harness.example(tf, i=[i], text=[b"row %d" % (i * i)]))
        written.append(path)
    succeed("index", folder / "old@2", "-q")
    return written


@pytest.mark.parametrize("written_by", ["shardfeed", "TensorFlow"])
@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_all_four_count_the_same_of_any_damage(tmp_path, compression, written_by):
    """They keep only records that were written, each once unless its bytes appear twice."""
    if written_by == "shardfeed":
        shards = make(tmp_path, compression)
    else:
        tf = pytest.importorskip("tensorflow")
        shards = tensorflow_shards(tf, tmp_path,
                                   "" if compression == "none" else compression.upper())
    old = tmp_path / "old@2"
    written = {json.dumps(record) for record in harness.payloads(old)}
    assert len(written) == 3000
    sound = shards[1].read_bytes()
    for what, damaged in damages(sound, f"{compression} {written_by}").items():
        shards[1].write_bytes(damaged)
        repaired = run("repair", old, tmp_path / "new", "--json", "--overwrite")
        assert repaired.status in (DONE, DEFECTS), (what, repaired.err)
        kept = repaired.json["records"]
        found = [json.dumps(record) for record in harness.payloads(tmp_path / "new@2")]
        assert len(found) == kept and written.issuperset(found), what
        assert len(found) == len(set(found)) or what.startswith("doubled"), what
        assert kept >= 1500, what
        assert run("verify", old, "--json").json["records"] == kept, what
        copied = run("convert", "tfrecord", old, tmp_path / "copy@2", "--on-error", "skip",
                     "--max-skipped", "100%", "--no-shuffle", "--overwrite", "-q")
        assert copied.status in (DONE, DEFECTS), (what, copied.err)
        assert harness.verify(tmp_path / "copy@2")["records"] == kept, what
        if repaired.json["records_lost"] is not None:
            manifest = json.loads((tmp_path / ".shardfeed/copy.manifest.json").read_text())
            left_out = manifest.get("skipped", {"records": 0})["records"]
            assert copied.status == (DEFECTS if left_out else DONE), what
            assert left_out == repaired.json["records_lost"], what
        read = run("bench", old, "--skip-damaged", "--max-skipped", "100%", "--json")
        assert read.status in (DONE, DEFECTS), (what, read.err)
        exact = all(place["record_exact"] and place["records_lost"] is not None
                    for shard in repaired.json["shards"] for place in shard["damage"])
        records = read.json["records"]
        assert records == kept if exact else records <= kept, (what, records, kept)


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_swapped_shards_lose_nothing_and_are_told(tmp_path, compression):
    shards = make(tmp_path, compression, shards=3, records=3001)
    aside = shards[0].rename(tmp_path / "aside")
    shards[1].rename(shards[0])
    aside.rename(shards[1])
    result = run("repair", tmp_path / "old@3", tmp_path / "new", "--json")
    assert (result.status, result.json["records"], result.json["records_lost"]) == (DONE, 3001, 0)
    told = [[(place["kind"], place["detail"]) for place in shard["damage"]]
            for shard in result.json["shards"]]
    says = "{}: holds the records that the manifest lists for {}"
    assert told == [[("other records", says.format(shards[0], shards[1].name))],
                    [("other records", says.format(shards[1], shards[0].name))], []]
    assert sorted(rows(tmp_path / "new@3")) == list(range(3001))


def test_another_shard_in_place_of_one_is_told(tmp_path):
    shards = make(tmp_path)
    (tmp_path / "other").mkdir()
    others = make(tmp_path / "other", records=4000)
    shutil.copy(others[1], shards[1])
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert (result.status, result.json["records"]) == (DEFECTS, 3500)
    assert result.json["records_lost"] is None
    place, = result.json["shards"][1]["damage"]
    assert place["detail"] == (f"{shards[1]}: holds other records than the manifest lists; they are "
                               "kept")


@pytest.mark.parametrize("indexed", [True, False])
def test_one_flip_in_gzip_of_many_records_loses_few(tmp_path, indexed):
    """At most those of one member. Of 40,000 records, convert once kept 3,775."""
    source = tmp_path / "a.jsonl"
    draw = random.Random(7)
    source.write_text("".join(json.dumps({"i": i, "text": draw.randbytes(150).hex()}) + "\n"
                              for i in range(40_000)))
    succeed("convert", "jsonl", source, tmp_path / "old@1", "--compression", "gzip", "--no-shuffle",
            "-q")
    path = tmp_path / "old-00000-of-00001"
    sound = path.read_bytes()
    if not indexed:
        shutil.rmtree(tmp_path / ".shardfeed")
    for at in [0, 1, 200, *draw.sample(range(len(sound)), 4)]:
        path.write_bytes(sound)
        flip(path, at, 4)
        result = run("convert", "tfrecord", tmp_path / "old@1", tmp_path / "new@1", "--on-error", "skip",
                     "--max-skipped", "2%", "--overwrite", "-q")
        assert result.status in (DONE, DEFECTS), result.err
        assert 39_200 <= harness.verify(tmp_path / "new@1")["records"] <= 40_000


@pytest.mark.parametrize("indexed", [True, False])
def test_a_large_first_record_with_a_damaged_header_is_kept(tmp_path, indexed):
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"i": i, "text": "x" * (5_000_000 if i == 0 else 5)}) + "\n"
                              for i in range(100)))
    succeed("convert", "jsonl", source, tmp_path / "old@1", "--no-shuffle", "-q")
    path = tmp_path / "old-00000-of-00001"
    sound = path.read_bytes()
    if not indexed:
        shutil.rmtree(tmp_path / ".shardfeed")
    for at in range(harness.HEADER):
        path.write_bytes(sound)
        flip(path, at, 16)
        result = run("repair", tmp_path / "old@1", tmp_path / "new", "--dry-run", "--json")
        assert (result.status, result.json["records"]) == (DONE, 100), at


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
@pytest.mark.parametrize("manifest", [True, False])
def test_a_shard_that_was_cut_between_records_is_not_forgotten(tmp_path, compression, manifest):
    """Its index says that there were more records, so no command rebuilds it unasked."""
    shards = make(tmp_path, compression)
    if not manifest:
        (tmp_path / ".shardfeed/old.manifest.json").unlink()
    shards[0].write_bytes(b"")
    for command in (["bench"], ["bench", "--shuffle", "1"]):
        message = fail(DEFECTS, *command, tmp_path / "old@2")
        assert "ends before record 0 of the 1500 that its index lists" in message
    message = fail(DEFECTS, "reshard", tmp_path / "old@2", tmp_path / "r@3")
    assert manifest or "ends before record 0 of the 1500 that its index lists" in message
    result = run("bench", tmp_path / "old@2", "--skip-damaged", "--max-skipped", "1499")
    assert result.status == DEFECTS and "1500 of 3000 records are damaged" in result.err
    result = run("bench", tmp_path / "old@2", "--skip-damaged", "--max-skipped", "1500", "--json")
    assert (result.json["records"], result.json["skipped"]) == (1500, 1500)
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json", "--dry-run")
    assert (result.status, result.json["records_lost"]) == (DEFECTS, 1500)


@pytest.mark.parametrize("records", [0, 1, 100])
@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_an_index_of_another_shard_costs_nothing(tmp_path, records, compression):
    """Also if it begins with the same records."""
    shard, = make(tmp_path, compression, shards=1)
    (tmp_path / "x").mkdir()
    other = tmp_path / "x/a.jsonl"
    other.write_text("".join(json.dumps({"i": i, "text": f"row {i * i}" if i < 2 else "other"}) + "\n"
                             for i in range(records)))
    if records > 0:
        succeed("convert", "jsonl", other, tmp_path / "x/old@1", "--compression", compression,
                "--no-shuffle", "-q")
    else:
        (tmp_path / "x/old-00000-of-00001").touch()
        succeed("index", tmp_path / "x/old@1", "-q")
    sound = shard.read_bytes()
    (tmp_path / ".shardfeed/old.manifest.json").unlink()
    index = tmp_path / ".shardfeed/old-00000-of-00001.index"
    for damaged in (bytes(12) + sound[12:], sound[:200] + b"abcd" + sound[200:],
                    sound[:50] + bytes(50) + sound[100:]):
        shard.write_bytes(damaged)
        index.unlink(missing_ok=True)
        without = run("repair", tmp_path / "old@1", tmp_path / "new", "--json", "--dry-run")
        shutil.copy(tmp_path / "x/.shardfeed/old-00000-of-00001.index", index)
        with_it = run("repair", tmp_path / "old@1", tmp_path / "new", "--json", "--dry-run")
        assert with_it.status == without.status
        assert with_it.json["shards"] == without.json["shards"]
        assert with_it.json["records"] > 1500


def test_a_shard_with_a_damaged_beginning_does_not_stop_repair(tmp_path):
    for compression in ("gzip", "zlib"):
        folder = tmp_path / compression
        folder.mkdir()
        shards = make(folder, compression)
        shutil.rmtree(folder / ".shardfeed")
        shards[1].write_bytes(b"x")
        told = run("repair", folder / "old@2", folder / "new", "--json", "--dry-run")
        done = run("repair", folder / "old@2", folder / "new", "--json")
        assert told.status == done.status == DEFECTS
        assert done.json["records"] == 1500 and done.json["shards"] == told.json["shards"]


def test_a_fifo_in_place_of_an_index_is_no_index(tmp_path):
    shards = make(tmp_path)
    flip(shards[0], 40)
    index = tmp_path / ".shardfeed/old-00000-of-00002.index"
    index.unlink()
    os.mkfifo(index)
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert (result.status, result.json["records"]) == (DEFECTS, 2999)


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


@pytest.mark.parametrize("make_special", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_lost_as_a_whole(tmp_path, make_special):
    shards = make(tmp_path)
    shards[1].unlink()
    make_special(shards[1])
    result = run("repair", tmp_path / "old@2", tmp_path / "new", "--json")
    assert (result.status, result.json["records"]) == (DEFECTS, 1500)
    assert result.json["records_lost"] == 1500
    assert str(shards[1]) in result.json["shards"][1]["damage"][0]["detail"]


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
