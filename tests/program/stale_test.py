"""Indexes and manifests that do not match their shards, and text indexes of other programs."""

import json
import os
import subprocess

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, succeed, verify

EVENTS = TESTDATA / "tables/events.jsonl"


@pytest.fixture
def dataset(out):
    convert("jsonl", EVENTS, out / "events@3")
    return out


def shard(folder, number):
    return folder / f"events-{number:05}-of-00003"


def index(folder, number):
    return folder / ".shardfeed" / f"events-{number:05}-of-00003.index"


def defects(folder):
    report = verify(folder / "events@3", status=DEFECTS)
    return {d["kind"]: d for d in report["defects"]}


def test_replaced_shard_contradicts_index_and_manifest(dataset):
    shard(dataset, 1).write_bytes((TESTDATA / "tensorflow/examples.tfrecord").read_bytes())
    found = defects(dataset)
    assert set(found) == {"index", "manifest"}
    assert found["index"]["shard"] == str(shard(dataset, 1))
    assert "stale, does not match the shard" in found["index"]["detail"]
    assert "records 67 instead of 40" in found["index"]["detail"]
    assert "rebuild it with 'shardfeed index'" in found["index"]["detail"]
    assert "events-00001-of-00003" in found["manifest"]["detail"]
    assert "records 67 instead of 40" in found["manifest"]["detail"]


def test_same_size_with_other_content_contradicts_the_digest(dataset):
    path = shard(dataset, 2)
    frames = harness.frames(path.read_bytes())
    changed = frames[0][1].replace(b"00123", b"00124")
    assert changed != frames[0][1]
    path.write_bytes(harness.frame(changed) + path.read_bytes()[frames[1][0]:])
    found = defects(dataset)
    assert "does not match the shard: digest " in found["index"]["detail"]
    assert "records digest" in found["manifest"]["detail"]


def test_cat_does_not_trust_an_index_of_another_size(dataset):
    expected = (TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
    shard(dataset, 1).write_bytes(expected)
    assert succeed("cat", shard(dataset, 1), "-r", "5-7", "--format", "payload").out == b"".join(
        payload for _, payload in harness.frames(expected)[5:8])


def test_cat_finds_out_that_an_index_is_of_other_records(dataset):
    path = shard(dataset, 2)
    raw = path.read_bytes()
    frames = harness.frames(raw)
    path.write_bytes(raw[frames[1][0]:] + raw[:frames[1][0]])
    result = harness.run("cat", path, "-r", "20", "--format", "payload")
    assert result.status == DEFECTS or result.out == frames[21][1]


def test_index_makes_a_stale_index_right(dataset):
    shard(dataset, 1).write_bytes((TESTDATA / "tensorflow/examples.tfrecord").read_bytes())
    succeed("index", dataset / "events@3")
    assert set(defects(dataset)) == {"manifest"}


def test_damage_anywhere_in_an_index_is_told(dataset):
    path = index(dataset, 0)
    sound = path.read_bytes()
    for offset in [0, 5, 12, 20, 33, len(sound) // 2, len(sound) - 1]:
        path.write_bytes(sound)
        harness.flip(path, offset)
        found = defects(dataset)
        assert set(found) == {"index"}, offset
        assert str(path) in found["index"]["detail"]


def test_cut_and_empty_indexes_are_told(dataset):
    path = index(dataset, 0)
    sound = path.read_bytes()
    for size in [0, 1, 16, len(sound) // 2, len(sound) - 1]:
        path.write_bytes(sound[:size])
        assert set(defects(dataset)) == {"index"}, size


def test_damaged_index_does_not_keep_from_reading(dataset):
    expected = harness.payloads(dataset / "events@3", "-r", "10-20")
    harness.flip(index(dataset, 0), 20)
    assert harness.payloads(dataset / "events@3", "-r", "10-20") == expected


@pytest.mark.parametrize("spec", ["events@3", "events@*", ""])
@pytest.mark.parametrize("command", ["verify", "index", "inspect", "cat", "bench"])
def test_missing_shard_is_told_by_name(dataset, command, spec):
    shard(dataset, 1).unlink()
    message = harness.fail(DEFECTS, command, dataset / spec if spec else dataset)
    assert "1 of 3 shards is missing: events-00001-of-00003" in message


def test_exchanged_shards_contradict_the_manifest(dataset):
    first, second = shard(dataset, 0), shard(dataset, 1)
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    report = verify(dataset / "events@3", status=DEFECTS)
    assert sorted(d["kind"] for d in report["defects"]) == ["index", "index", "manifest",
                                                           "manifest"]


def test_broken_manifest_is_told(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    text = path.read_text()
    for broken in ["", "{", text[:-20], text.replace("shardfeed manifest", "other"),
                   text.replace('"version": 2', '"version": 1'),
                   text.replace('"version": 2', '"version": 9')]:
        path.write_text(broken)
        found = defects(dataset)
        assert set(found) == {"manifest"}
        assert f"{path}: not a shardfeed manifest" in found["manifest"]["detail"]


def test_flipped_bits_anywhere_in_a_manifest_are_told(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    sound = path.read_bytes()
    for offset in range(0, len(sound), 61):
        path.write_bytes(sound)
        harness.flip(path, offset)
        found = defects(dataset)
        assert set(found) == {"manifest"}, offset
        assert f"{path}: not a shardfeed manifest: " in found["manifest"]["detail"]


def test_manifest_ends_with_the_checksum_of_all_before_it(dataset):
    text = (dataset / ".shardfeed/events.manifest.json").read_bytes()
    manifest = json.loads(text)
    assert list(manifest)[-1] == "crc32c" and manifest["version"] == 2
    assert manifest["crc32c"] == f"{harness.crc32c(text[:-23]):08x}"


def test_manifest_of_version_1_is_read(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32c"]
    path.write_text(json.dumps(manifest | {"version": 1}))
    assert verify(dataset / "events@3")["manifest"] is True
    assert verify(dataset)["num_defects"] == 0


def test_manifest_that_names_a_file_elsewhere_deletes_nothing(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    precious = dataset.parent / "precious" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("years of work")
    for version in [1, 2]:
        manifest = json.loads(path.read_text())
        manifest["shards"][0]["file"] = "../precious/thesis.tex"
        if version == 1:
            del manifest["crc32c"]
            path.write_text(json.dumps(manifest | {"version": 1}))
        else:
            harness.write_manifest(path, manifest)
        assert "its shard 0 is called '../precious/thesis.tex' instead of 'events-00000" in (
            defects(dataset)["manifest"]["detail"])
        convert("jsonl", EVENTS, dataset / "events@3", "--overwrite")
        assert precious.read_text() == "years of work"


def test_changed_kind_of_a_feature_contradicts_the_records(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    manifest = json.loads(path.read_text())
    name, feature = next(iter(manifest["features"].items()))
    kind = feature["kind"]
    feature["kind"] = "float" if kind != "float" else "int64"
    harness.write_manifest(path, manifest)
    assert verify(dataset / "events@3")["num_defects"] == 0, "features are not looked into"
    for level in ["examples", "images"]:
        report = verify(dataset / "events@3", "--level", level, status=DEFECTS)
        assert [d["kind"] for d in report["defects"]] == ["manifest"]
        assert f"feature '{name}': kind {feature['kind']} instead of {kind}" in (
            report["defects"][0]["detail"])


@pytest.mark.parametrize("name", ["events-00001-of-00003.index", "events.manifest.json"])
def test_fifo_in_place_of_a_sidecar_is_unreadable(dataset, name):
    path = dataset / ".shardfeed" / name
    path.unlink()
    os.mkfifo(path)
    report = verify(dataset / "events@3", status=IO_FAILED)
    assert [d["kind"] for d in report["defects"]] == ["unreadable"]
    assert f"{path}: is a FIFO, not a file" in report["defects"][0]["detail"]
    if name.endswith(".index"):
        for command in ["cat", "bench"]:
            assert f"{path}: is a FIFO, not a file" in harness.fail(
                USAGE, command, dataset / "events@3", timeout=20)
    harness.succeed("index", dataset / "events@3", "-q", timeout=20)


def test_fifo_in_place_of_a_text_index_is_refused(copy_of):
    path = copy_of("tensorflow/examples.tfrecord")
    os.mkfifo(f"{path}.idx")
    assert f"{path}.idx: is a FIFO, not a file" in harness.fail(
        USAGE, "index", path, "--import", timeout=20)


@pytest.mark.parametrize("name", ["events-00001-of-00003.index", "events.manifest.json"])
def test_sidecar_that_may_not_be_read_is_no_defect_of_data(open_folder, run_without_privilege, name):
    convert("jsonl", EVENTS, open_folder / "out/events@3")
    path = open_folder / "out/.shardfeed" / name
    path.chmod(0)
    done = run_without_privilege("verify", open_folder / "out/events@3")
    assert done.returncode == IO_FAILED, done.stderr
    assert f"unreadable: {path}: cannot open: Permission denied" in done.stdout


def test_manifest_of_another_number_of_shards_is_told(dataset):
    path = dataset / ".shardfeed/events.manifest.json"
    manifest = json.loads(path.read_text())
    shard = manifest["shards"].pop()
    for key in ["records", "bytes"]:
        manifest[key] -= shard[key]
    manifest["num_shards"] = 2
    del manifest["statistics"]  # of other records
    for i, shard in enumerate(manifest["shards"]):
        shard["file"] = f"events-{i:05}-of-00002"
    for feature in manifest["features"].values():
        feature["records"] = min(feature["records"], manifest["records"])
        feature.pop("kinds", None)  # counts of other records, too
    harness.write_manifest(path, manifest)
    assert "describes 2 shards" in defects(dataset)["manifest"]["detail"]


def test_without_manifest_and_indexes_the_shards_are_sound_by_themselves(dataset):
    for path in (dataset / ".shardfeed").iterdir():
        path.unlink()
    report = verify(dataset / "events@3")
    assert (report["records"], report["manifest"]) == (200, False)


# ---- text indexes


def expected_lines(path):
    return "".join(f"{offset} {len(payload) + 16}\n"
                   for offset, payload in harness.frames(path.read_bytes()))


def test_dali_index_is_offset_and_size_of_each_frame(dataset):
    succeed("index", dataset / "events@3", "--export", "dali")
    for number in range(3):
        path = shard(dataset, number)
        assert (dataset / f"{path.name}.idx").read_text() == expected_lines(path)
    assert verify(dataset)["num_defects"] == 0, "the new files are no shards"


@pytest.mark.parametrize("name, index_name", [
    ("x.tfrecord", "x.tfindex"), ("x-00000-of-00001", "x-00000-of-00001.tfindex")])
def test_tfindex_takes_the_place_of_tfrecord_in_the_name(tmp_path, name, index_name):
    path = tmp_path / name
    path.write_bytes((TESTDATA / "tensorflow/examples.tfrecord").read_bytes())
    succeed("index", path, "--export", "tfindex")
    assert (tmp_path / index_name).read_text() == expected_lines(path)


def test_text_index_of_no_records_is_empty(copy_of):
    path = copy_of("tensorflow/empty.tfrecord")
    succeed("index", path, "--export", "dali")
    assert (path.parent / "empty.tfrecord.idx").read_text() == ""


@pytest.mark.parametrize("name", ["examples.tfrecord.gz", "examples.tfrecord.zlib"])
def test_text_index_of_a_compressed_shard_is_refused(copy_of, name):
    path = copy_of(f"tensorflow/{name}")
    message = harness.fail(USAGE, "index", path, "--export", "dali")
    assert f"{path}.idx: not written: its shard is compressed" in message
    assert not (path.parent / f"{name}.idx").exists()


@pytest.mark.parametrize("ending", [".idx", ".tfindex"])
def test_import_accepts_a_text_index_that_is_right(copy_of, ending):
    path = copy_of("tensorflow/examples.tfrecord")
    name = path.name + ".idx" if ending == ".idx" else path.stem + ".tfindex"
    (path.parent / name).write_text(expected_lines(path))
    succeed("index", path, "--import")
    # Without a line break at the end, as some tools write it.
    (path.parent / name).write_text(expected_lines(path).rstrip("\n"))
    succeed("index", path, "--import")


@pytest.mark.parametrize("line, said", [
    ("1234 99", "the record is at"), ("x", "the record is at"),
    ("", "the record is at"), ("-1 5", "the record is at")])
def test_import_names_the_line_that_is_wrong(copy_of, line, said):
    path = copy_of("tensorflow/examples.tfrecord")
    lines = expected_lines(path).splitlines()
    lines[6] = line
    (path.parent / f"{path.name}.idx").write_text("\n".join(lines) + "\n")
    message = harness.fail(DEFECTS, "index", path, "--import")
    assert f"{path}.idx: line 7 says '{line}', but {said}" in message


def test_import_tells_lines_too_few_and_too_many(copy_of):
    path = copy_of("tensorflow/examples.tfrecord")
    lines = expected_lines(path)
    idx = path.parent / f"{path.name}.idx"
    idx.write_text(lines[:lines.rstrip("\n").rindex("\n") + 1])
    assert "has 39 lines, but the shard has 40 records" in harness.fail(
        DEFECTS, "index", path, "--import")
    idx.write_text(lines + "99999 20\n")
    assert "line 41 says '99999 20', but the shard has 40 records" in harness.fail(
        DEFECTS, "index", path, "--import")


def test_import_without_a_text_index_says_what_it_looked_for(copy_of):
    path = copy_of("tensorflow/examples.tfrecord")
    message = harness.fail(harness.IO_FAILED, "index", path, "--import")
    assert f"there is neither {path}.idx nor {path.parent}/examples.tfindex" in message


def test_a_reader_beside_a_writer_gets_one_of_the_datasets_or_is_told(tmp_path):
    contents = []
    for name, numbers in (("n", range(3000)), ("m", range(1000, 7000))):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{i}\n" for i in numbers))
        convert("text", tmp_path / f"{name}.txt", tmp_path / f"{name}/d@3")
        contents.append(succeed("cat", tmp_path / f"{name}/d@3").out)
    convert("text", tmp_path / "n.txt", tmp_path / "o/d@3")
    for i in range(40):
        source = tmp_path / ("m.txt", "n.txt")[i % 2]
        writer = subprocess.Popen(harness.command("convert", "text", source, tmp_path / f"o/d@{2 + i % 3}", "-q",
                                                  "--overwrite", "--no-sync"))
        read = harness.run("cat", tmp_path / ("o/d@*", "o")[i % 4 // 2])
        assert writer.wait() == 0
        if read.status == 0:
            assert read.out in contents
        else:
            assert read.status == IO_FAILED
            assert "d.manifest.json: the dataset was replaced while it was in use; open it again" in read.err
            assert any(content.startswith(read.out) for content in contents)
