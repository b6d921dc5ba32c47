"""verify finds each defect, says where it is, and reads on after it."""

import random
import zlib

import harness
import pytest
from harness import DEFECTS, TESTDATA, convert, verify

HERE_AND_IN_STORE = True

RAW = (TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
FRAMES = harness.frames(RAW)
OFFSETS = [offset for offset, _ in FRAMES] + [len(RAW)]
LAST = len(FRAMES) - 1


def only_defect(path, *options):
    report = verify(path, *options, status=DEFECTS)
    assert report["num_defects"] == 1
    defect, = report["defects"]
    assert defect["shard"] == str(path)
    assert defect["detail"].startswith(f"{path}: ")
    assert "\n" not in defect["detail"]
    return report, defect


# file: kind, record, offset, intact records, bytes skipped, text in the detail
RAW_DEFECTS = {
    "cut_header": ("cut header", LAST, OFFSETS[LAST], LAST, 5, "expected 12 bytes, got 5"),
    "cut_payload": ("cut payload", LAST, OFFSETS[LAST], LAST, 32, "cut payload: expected 1055 bytes, got 20"),
    "cut_footer": ("cut footer", LAST, OFFSETS[LAST], LAST, len(RAW) - 1 - OFFSETS[LAST],
                   "1 bytes of the payload's CRC are missing"),
    "flipped_payload": ("payload CRC", 17, OFFSETS[17], LAST, OFFSETS[18] - OFFSETS[17],
                        "payload CRC expected 0x"),
    "flipped_length": ("length CRC", 17, OFFSETS[17], 40, 0, "length CRC expected 0x"),
    "stray_1": ("cut header", 40, len(RAW), 40, 1, "expected 12 bytes, got 1"),
    "stray_8": ("cut header", 40, len(RAW), 40, 8, "expected 12 bytes, got 8"),
    "stray_11": ("cut header", 40, len(RAW), 40, 11, "expected 12 bytes, got 11"),
}


@pytest.mark.parametrize("level", ["headers", "payload", "examples"])
@pytest.mark.parametrize("name", RAW_DEFECTS)
def test_damage_of_a_raw_shard_is_located(name, level):
    kind, record, offset, sound, skipped, said = RAW_DEFECTS[name]
    path = TESTDATA / f"bad/{name}.tfrecord"
    if name == "flipped_payload" and level == "headers":
        assert verify(path, "--level", level)["records"] == 40
        return
    report, defect = only_defect(path, "--level", level)
    assert (defect["kind"], defect["record"], defect["offset"]) == (kind, record, offset)
    assert (report["records"], report["skipped_bytes"]) == (sound, skipped)
    assert f"record {record} at byte {offset}: " in defect["detail"] and said in defect["detail"]


def readable(gz):
    """What Python's zlib reads from a GZIP file before its end or its first defect."""
    inflater = zlib.decompressobj(31)
    content = b""
    try:
        for i in range(len(gz)):
            content += inflater.decompress(gz[i:i + 1])
    except zlib.error:
        pass
    return content


GZIP_DEFECTS = {
    "gzip_cut.tfrecord.gz": "ends prematurely",
    "gzip_no_trailer.tfrecord.gz": "ends prematurely",
    "gzip_wrong_crc.tfrecord.gz": "incorrect data check",
    "gzip_zero_padding.tfrecord.gz": "bytes follow the last GZIP member, at byte 10875",
    "zlib_two_streams.tfrecord.zlib": "bytes follow the end of the ZLIB stream, at byte 10863",
}


@pytest.mark.parametrize("name", GZIP_DEFECTS)
def test_damage_of_a_compressed_shard_is_told(name):
    _, defect = only_defect(TESTDATA / "bad" / name)
    assert defect["kind"] == "compressed data"
    assert GZIP_DEFECTS[name] in defect["detail"]


@pytest.mark.parametrize("name", GZIP_DEFECTS)
def test_records_before_damage_of_compressed_data_are_counted_and_it_is_located(name):
    content = RAW if "zlib" in name else readable((TESTDATA / "bad" / name).read_bytes())
    before = harness.frames(content)
    report, defect = only_defect(TESTDATA / "bad" / name)
    assert report["records"] == defect["record"] == len(before)
    assert defect["offset"] == OFFSETS[len(before)]


def test_text_is_not_a_tfrecord():
    path = TESTDATA / "bad/text.tfrecord"
    report, defect = only_defect(path)
    assert (defect["kind"], report["records"]) == ("not a TFRecord", 0)
    assert "starts with 54 68 69 73 20 69 73 20" in defect["detail"]


@pytest.mark.parametrize("command", ["index", "inspect", "cat", "bench"])
@pytest.mark.parametrize("name", ["cut_header", "cut_payload", "cut_footer", "flipped_length",
                                  "stray_1", "stray_11", "text"])
def test_other_commands_refuse_damage_and_say_where(name, command, copy_of):
    path = copy_of(f"bad/{name}.tfrecord")
    message = harness.fail(DEFECTS, command, path)
    assert str(path) in message
    if name != "text":
        assert f"record {RAW_DEFECTS[name][1]} at byte {RAW_DEFECTS[name][2]}" in message
    assert [p.name for p in path.parent.rglob("*") if p.is_file()] == [path.name]


@pytest.mark.parametrize("command", ["index", "inspect", "cat", "bench"])
@pytest.mark.parametrize("name", GZIP_DEFECTS)
def test_other_commands_refuse_damaged_compression(name, command, copy_of):
    path = copy_of(f"bad/{name}")
    assert str(path) in harness.fail(DEFECTS, command, path)


@pytest.mark.folder_only("indexes of stores are built first, from intact records")
def test_read_without_checksums_reads_past_a_flipped_payload():
    path = TESTDATA / "bad/flipped_payload.tfrecord"
    assert harness.succeed("bench", path, "--checksum", "header", "--json").json["records"] == 40
    assert "payload CRC" in harness.fail(DEFECTS, "bench", path)


def test_cat_prints_the_records_around_a_flipped_payload():
    path = TESTDATA / "bad/flipped_payload.tfrecord"
    assert len(harness.succeed("cat", path, "-r", "0-16").lines) == 17
    assert len(harness.succeed("cat", path, "-r", "18-39").lines) == 22
    assert "record 17" in harness.fail(DEFECTS, "cat", path, "-r", "17")


def test_several_defects_are_all_told(tmp_path):
    data = bytearray(RAW)
    for record, at in ((3, 20), (4, 2), (30, 9), (31, 40)):
        data[OFFSETS[record] + at] ^= 1
    path = tmp_path / "x.tfrecord"
    path.write_bytes(data[:-2])
    report = verify(path, status=DEFECTS)
    assert [(d["kind"], d["record"], d["offset"]) for d in report["defects"]] == [
        ("payload CRC", 3, OFFSETS[3]), ("length CRC", 4, OFFSETS[4]),
        ("length CRC", 30, OFFSETS[30]), ("payload CRC", 31, OFFSETS[31]),
        ("cut footer", 39, OFFSETS[39])]
    assert report["records"] == 37  # the lengths can be repaired


def test_damage_in_one_shard_leaves_the_others(tmp_path):
    for shard in range(3):
        (tmp_path / f"x-{shard:05}-of-00003").write_bytes(RAW)
    harness.flip(tmp_path / "x-00001-of-00003", OFFSETS[5] + 20)
    report = verify(tmp_path / "x@3", status=DEFECTS)
    assert report["records"] == 119
    assert [d["shard"] for d in report["defects"]] == [str(tmp_path / "x-00001-of-00003")]


def test_a_sound_header_of_a_length_beyond_the_file_is_a_cut(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(harness.frame(b"first") + harness.header(2**60) + b"rest")
    report, defect = only_defect(path)
    assert (defect["kind"], defect["record"], defect["offset"]) == ("cut payload", 1, 21)
    assert report["records"] == 1


def test_every_single_flipped_bit_is_found(tmp_path):
    """Anywhere in the first three records; the rest is still read."""
    path = tmp_path / "x.tfrecord"
    raw = RAW[:OFFSETS[3]]
    rng = random.Random(1)
    for offset in [*range(OFFSETS[1] - 4, OFFSETS[1] + 14), *rng.sample(range(len(raw)), 20)]:
        data = bytearray(raw)
        data[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        _, defect = only_defect(path)
        hit = max(i for i in range(3) if OFFSETS[i] <= offset)
        assert (defect["record"], defect["offset"]) == (hit, OFFSETS[hit]), offset


@pytest.mark.folder_only("a thousand runs of the program")
def test_every_cut_is_found(tmp_path):
    path = tmp_path / "x.tfrecord"
    for size in range(OFFSETS[2] + 1, OFFSETS[3]):
        path.write_bytes(RAW[:size])
        report, defect = only_defect(path)
        assert (report["records"], defect["record"]) == (2, 2), size
        assert defect["kind"].startswith("cut ")


def test_all_defects_are_counted_and_the_first_hundred_listed(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes((harness.frame(b"sound") + harness.frame(b"x")[:-1] + b"!") * 150)
    report = verify(path, status=DEFECTS)
    assert (report["records"], report["num_defects"], len(report["defects"])) == (150, 150, 100)
    lines = harness.run("verify", path).out.decode().splitlines()
    assert len(lines) == 102
    assert lines[100] == f"{path}: 50 more defects"


@pytest.mark.folder_only("links")
def test_a_shard_that_cannot_be_read_does_not_keep_the_others_from_it(tmp_path):
    (tmp_path / "x-00000-of-00002").write_bytes(RAW)
    (tmp_path / "x-00001-of-00002").symlink_to(tmp_path / "nowhere")
    report = verify(tmp_path / "x@2", status=harness.IO_FAILED)
    defect, = report["defects"]
    assert (defect["kind"], report["records"]) == ("unreadable", 40)
    assert "x-00001-of-00002: cannot open: No such file" in defect["detail"]


@pytest.mark.parametrize("name", ["examples.tfrecord.gz", "examples.tfrecord.zlib",
                                  "examples.tfrecord.snappy"])
def test_any_cut_or_flipped_bit_of_compressed_data_is_found(tmp_path, name):
    sound = (TESTDATA / "tensorflow" / name).read_bytes()
    path = tmp_path / name
    rng = random.Random(name)
    for _ in range(15):
        path.write_bytes(sound[:rng.randrange(1, len(sound))])
        assert verify(path, status=DEFECTS)["num_defects"] >= 1
        path.write_bytes(sound)
        # The first ten bytes of GZIP include a time and a system, which have no meaning here.
        harness.flip(path, rng.randrange(10, len(sound)), 1 << rng.randrange(8))
        assert verify(path, status=DEFECTS)["num_defects"] >= 1


def test_cut_snappy_keeps_the_blocks_before(tmp_path):
    sound = (TESTDATA / "tensorflow/examples.tfrecord.snappy").read_bytes()
    first = 4 + int.from_bytes(sound[:4], "big")
    (tmp_path / "x").write_bytes(sound[:first + 100])
    report, defect = only_defect(tmp_path / "x")
    before = len(harness.frames(RAW[:4096]))
    assert (report["records"], defect["record"], defect["offset"]) == (before, before,
                                                                       OFFSETS[before])


def test_large_cut_gzip_keeps_the_records_before(large, tmp_path):
    records, folder = large
    sound = (folder / "GZIP/train-00000-of-00003").read_bytes()
    cut = sound[:len(sound) * 2 // 3]
    path = tmp_path / "x.gz"
    path.write_bytes(cut)
    before = len(harness.frames(zlib.decompressobj(31).decompress(cut)))
    assert 0 < before < 20_000
    report, defect = only_defect(path)
    assert (report["records"], defect["record"]) == (before, before)


# ---- GZIP of shardfeed


@pytest.fixture
def gzip_dataset(out):
    convert("jsonl", TESTDATA / "tables/events.jsonl", out / "events@1", "--compression", "gzip",
            "--member-size", "4KiB")
    path, = harness.shards(out, "events")
    return path, harness.members(path.read_bytes())


@pytest.mark.parametrize("at", [30, 200, -6, -2], ids=["first", "middle", "crc", "size"])
@pytest.mark.parametrize("which", [0, 3, -1])
def test_damage_in_one_gzip_member_loses_no_other_member(gzip_dataset, which, at):
    path, members = gzip_dataset
    which %= len(members)
    end = members[which + 1][0] if which + 1 < len(members) else path.stat().st_size
    harness.flip(path, members[which][0] + at if at > 0 else end + at)
    lost = len(harness.frames(members[which][1]))
    assert 0 < lost < 200 / 3
    report = verify(path, status=DEFECTS)
    before = sum(len(harness.frames(content)) for _, content in members[:which])
    # What can be inflated of the member may appear as damaged records first.
    assert report["defects"][-1]["kind"] == "compressed data"
    assert all(before <= d["record"] <= before + lost for d in report["defects"])
    assert 200 - lost <= report["records"] <= 200


@pytest.mark.parametrize("at", [12, 13, 14])
def test_gzip_member_without_its_mark_is_an_ordinary_member(gzip_dataset, at):
    """GZIP has no CRC of the header, and nothing is lost with the extra field's name."""
    path, members = gzip_dataset
    harness.flip(path, members[3][0] + at, 0x04)
    assert verify(path)["records"] == 200


@pytest.mark.parametrize("at", [0, 1, 2, 3, 10, 16, 23])
def test_damage_in_a_gzip_members_header_loses_nothing(gzip_dataset, at):
    path, members = gzip_dataset
    harness.flip(path, members[3][0] + at, 0x04)
    report = verify(path, status=DEFECTS)
    assert report["records"] == 200
    assert report["defects"][0]["kind"] == "compressed data"
    assert report["num_defects"] == 1


def test_two_damaged_gzip_members_are_two_defects(gzip_dataset):
    path, members = gzip_dataset
    for which in (1, 4):
        harness.flip(path, members[which][0] + 100)
    report = verify(path, status=DEFECTS)
    assert [d["kind"] for d in report["defects"]].count("compressed data") == 2
    assert report["records"] >= 200 - sum(len(harness.frames(members[i][1])) for i in (1, 4))


def test_gzip_cut_in_a_member_keeps_the_members_before(gzip_dataset):
    path, members = gzip_dataset
    path.write_bytes(path.read_bytes()[:members[4][0] + 50])
    report = verify(path, status=DEFECTS)
    defect, = report["defects"]
    before = sum(len(harness.frames(content)) for _, content in members[:4])
    assert (report["records"], defect["record"]) == (before, before)
    assert "nothing after them can be inflated" in defect["detail"]


def test_gzip_cut_between_members_contradicts_index_and_manifest(gzip_dataset):
    path, members = gzip_dataset
    path.write_bytes(path.read_bytes()[:members[4][0]])
    report = verify(path.parent / "events@1", status=DEFECTS)
    assert {d["kind"] for d in report["defects"]} == {"index", "manifest"}


def test_verify_prints_a_line_for_each_defect():
    path = TESTDATA / "bad/flipped_payload.tfrecord"
    result = harness.run("verify", path)
    lines = result.out.decode().splitlines()
    assert result.status == DEFECTS
    assert lines[0].startswith(f"payload CRC: {path}: record 17 at byte {OFFSETS[17]}: ")
    assert "39 records" in lines[1] and "1 defects" in lines[1]


def test_quiet_verify_prints_defects_only():
    assert harness.succeed("verify", "-q", TESTDATA / "tensorflow/examples.tfrecord").out == b""
    result = harness.run("verify", "-q", TESTDATA / "bad/flipped_payload.tfrecord")
    assert result.out.count(b"\n") == 1
