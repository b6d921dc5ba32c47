"""shardfeed writes, TensorFlow and Python read."""

import csv
import gzip
import io
import json
import random
import struct
import subprocess
import zlib

import harness
import pytest
from harness import TESTDATA, convert, verify

COMPRESSIONS = ["none", "gzip", "zlib"]
TF_NAME = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}

IMAGES = TESTDATA / "images"
CITIES = TESTDATA / "tables/cities.csv"
EVENTS = TESTDATA / "tables/events.jsonl"
POEM = TESTDATA / "tables/poem.txt"

CLASSES = ["circles", "gradients", "stripes", "triangles"]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def inflated(path, compression):
    data = path.read_bytes()
    return {"none": lambda d: d, "gzip": gzip.decompress, "zlib": zlib.decompress}[compression](
        data)


def read_back(tf, folder, stem, compression, suffix=""):
    """The records of all shards in order, read by tf.data, and checked by verify and Python."""
    paths = harness.shards(folder, stem)
    report = verify(folder / f"{stem}@*{suffix}", "--level", "examples")
    records = harness.read_by_tensorflow(tf, paths, TF_NAME[compression])
    assert report["records"] == len(records)
    assert report["manifest"] is True
    framed = [payload for path in paths for _, payload in harness.frames(
        inflated(path, compression))]
    assert framed == records
    return records


def images():
    return sorted(str(p.relative_to(IMAGES)) for p in IMAGES.rglob("*")
                  if p.suffix.lower() in harness.IMAGE_SUFFIXES)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_images_become_records_of_their_bytes_size_and_class(tf, out, compression):
    from PIL import Image
    convert("imagefolder", IMAGES, out / "train@3", "--compression", compression, "--jpeg",
            "keep")
    spec = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/format": tf.io.FixedLenFeature([], tf.string),
        "image/height": tf.io.FixedLenFeature([], tf.int64),
        "image/width": tf.io.FixedLenFeature([], tf.int64),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        "image/class/text": tf.io.FixedLenFeature([], tf.string),
        "image/filename": tf.io.FixedLenFeature([], tf.string),
    }
    found = []
    for record in read_back(tf, out, "train", compression):
        assert set(harness.decoded(tf, record)) == set(spec)
        features = {k: v.numpy() for k, v in tf.io.parse_single_example(record, spec).items()}
        name = features["image/filename"].decode()
        found.append(name)
        assert features["image/encoded"] == (IMAGES / name).read_bytes()
        with Image.open(IMAGES / name) as image:
            assert (features["image/width"], features["image/height"]) == image.size
            assert features["image/format"].decode() == image.format.lower()
        text = features["image/class/text"].decode()
        assert text == name.split("/")[0]
        assert features["image/class/label"] == CLASSES.index(text)
    assert sorted(found) == images()
    assert found != images(), "not shuffled"


def test_images_decode_in_tensorflow(tf, out):
    convert("imagefolder", IMAGES, out / "train@1")
    for record in read_back(tf, out, "train", "none"):
        features = harness.decoded(tf, record)
        # TensorFlow's decoder refuses CMYK.
        if features["image/filename"] == [b"gradients/2.jpg"]:
            continue
        shape = tf.io.decode_image(features["image/encoded"][0]).shape
        assert shape[:2] == [features["image/height"][0], features["image/width"][0]]


def test_images_without_shuffle_come_sorted(tf, out):
    convert("imagefolder", IMAGES, out / "train@2", "--no-shuffle")
    names = [harness.decoded(tf, r)["image/filename"][0].decode()
             for r in read_back(tf, out, "train", "none")]
    assert names == images()


def rows():
    with open(CITIES, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


CITY_KINDS = {
    "name": str.encode, "code": str.encode, "population": int,
    "area": lambda text: float32(float(text)), "founded": int,
    "height": lambda text: float32(float(text)), "remark": str.encode, "motto": str.encode,
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_table_rows_become_records_of_their_cells(tf, out, compression):
    convert("csv", CITIES, out / "cities@3.tfrecord", "--compression", compression)
    records = read_back(tf, out, "cities", compression, ".tfrecord")
    expected = [{name: [CITY_KINDS[name](cell)] for name, cell in row.items() if cell != ""}
                for row in rows()]
    assert [harness.decoded(tf, record) for record in records] == expected


def test_missing_cells_get_the_default_of_the_reader(tf, out):
    convert("csv", CITIES, out / "cities@1")
    spec = {"founded": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
            "motto": tf.io.FixedLenFeature([], tf.string, default_value="none"),
            "population": tf.io.FixedLenFeature([], tf.int64)}
    for record, row in zip(read_back(tf, out, "cities", "none"), rows()):
        features = {k: v.numpy() for k, v in tf.io.parse_single_example(record, spec).items()}
        assert features["founded"] == int(row["founded"] or -1)
        assert features["motto"].decode() == (row["motto"] or "none")
        assert features["population"] == int(row["population"])


def test_any_table_is_read_as_python_reads_it(tf, tmp_path, out):
    rng = random.Random(1)
    pieces = ["a", '"', ",", "\n", "\r\n", " ", "é", "日", "'", "\t", "1"]
    for round in range(30):
        width = rng.randrange(2, 5)
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]),
                           quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        table.writerow([f"column {i}" for i in range(width)])
        table.writerow(["text"] * width)  # so that all columns are bytes
        for _ in range(rng.randrange(30)):
            table.writerow(["".join(rng.choices(pieces, k=rng.randrange(6)))
                            for _ in range(width)])
        (tmp_path / "t.csv").write_bytes(text.getvalue().encode())
        convert("csv", tmp_path / "t.csv", out / f"t{round}@1")
        text.seek(0)
        expected = [{name: [cell.encode()] for name, cell in row.items() if cell}
                    for row in csv.DictReader(text)]
        records = harness.read_by_tensorflow(tf, harness.shards(out, f"t{round}"))
        assert [harness.decoded(tf, record) for record in records] == expected, text.getvalue()


def flattened(value, prefix=""):
    """A JSON value as features, as defined in jsonl.h; FLOATS names the float columns."""
    features = {}
    for key, item in value.items():
        name = prefix + key
        if item is None:
            continue
        if isinstance(item, dict):
            features |= flattened(item, name + ".")
            continue
        items = item if isinstance(item, list) else [item]
        if name in {"at", "scores", "sometimes"}:
            features[name] = [float32(v) for v in items]
        else:
            features[name] = [v.encode() if isinstance(v, str) else int(v) for v in items]
    return features


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_json_objects_become_records_of_their_values(tf, out, compression):
    convert("jsonl", EVENTS, out / "events@4", "--compression", compression)
    records = read_back(tf, out, "events", compression)
    lines = [line for line in EVENTS.read_text().splitlines() if line.strip()]
    assert [harness.decoded(tf, record) for record in records] == [
        flattened(json.loads(line)) for line in lines]


def test_json_empty_list_is_an_empty_tensor_not_a_missing_feature(tf, tmp_path, out):
    (tmp_path / "a.jsonl").write_text('{"x": []}\n{"x": [1, 2]}\n{}\n')
    convert("jsonl", tmp_path / "a.jsonl", out / "a@1")
    features = [harness.decoded(tf, r) for r in read_back(tf, out, "a", "none")]
    assert features == [{"x": []}, {"x": [1, 2]}, {}]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_lines_of_text_become_records(tf, out, compression):
    convert("text", POEM, out / "poem@2", "--compression", compression)
    records = read_back(tf, out, "poem", compression)
    lines = POEM.read_bytes().split(b"\n")
    assert len(lines) == 61 and b"" in lines
    assert [harness.decoded(tf, record)["text"] for record in records] == [[l] for l in lines]


def test_several_sources_follow_each_other(tf, tmp_path, out):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfthree\r\nfour")
    convert("text", [tmp_path / "a.txt", tmp_path / "b.txt"], out / "t@1")
    records = read_back(tf, out, "t", "none")
    assert [harness.decoded(tf, r)["text"][0] for r in records] == [b"one", b"two", b"three",
                                                                   b"four"]


def test_numbers_keep_every_bit(tf, tmp_path, out):
    values = [0, -1, 2**63 - 1, -(2**63), 2**53 + 1]
    (tmp_path / "n.csv").write_text("i,f\n" + "".join(
        f"{v},{f}\n" for v, f in zip(values, ["0.1", "-1e-40", "3.4e38", "nan", "1.17549435e-38"])))
    convert("csv", tmp_path / "n.csv", out / "n@1")
    features = [harness.decoded(tf, r) for r in read_back(tf, out, "n", "none")]
    assert [f["i"][0] for f in features] == values
    floats = [struct.pack("<f", f["f"][0]) for f in features]
    assert floats[:3] == [struct.pack("<f", v) for v in (0.1, -1e-40, 3.4e38)]
    assert features[3]["f"][0] != features[3]["f"][0]
    assert floats[4] == struct.pack("<f", 1.17549435e-38)


def test_gzip_itself_accepts_the_shards(out):
    convert("jsonl", EVENTS, out / "events@2.tfrecord.gz", "--compression", "gzip",
            "--member-size", "4KiB")
    paths = harness.shards(out, "events")
    assert len(harness.members(paths[0].read_bytes())) > 1
    assert subprocess.run(["gzip", "-t", *paths], capture_output=True).returncode == 0
    inflated_by_gzip = subprocess.run(["gzip", "-dc", *paths], capture_output=True).stdout
    assert inflated_by_gzip == b"".join(gzip.decompress(p.read_bytes()) for p in paths)


def test_every_gzip_member_holds_whole_records(out):
    convert("jsonl", EVENTS, out / "events@1", "--compression", "gzip", "--member-size", "4KiB")
    path, = harness.shards(out, "events")
    for _, content in harness.members(path.read_bytes()):
        records = harness.frames(content)
        assert sum(len(r) + harness.HEADER + harness.FOOTER for _, r in records) == len(content)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
@pytest.mark.parametrize("level", ["1", "9"])
def test_levels_of_compression_hold_the_same(out, compression, level):
    convert("csv", CITIES, out / "plain@1")
    convert("csv", CITIES, out / "packed@1", "--compression", compression, "--level", level)
    plain, = harness.shards(out, "plain")
    packed, = harness.shards(out, "packed")
    assert inflated(packed, compression) == plain.read_bytes()
    assert packed.stat().st_size < plain.stat().st_size


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_indexes_that_convert_writes_are_those_that_index_writes(out, compression):
    convert("jsonl", EVENTS, out / "events@2", "--compression", compression)
    before = harness.payloads(out / "events@2", "-r", "150-160")
    folder = out / ".shardfeed"
    if compression == "none":  # compressed shards may get other restart points
        written = harness.tree(folder)
        harness.succeed("index", out / "events@2")
        assert harness.tree(folder) == written
    for index in folder.glob("*.index"):
        index.unlink()
    assert harness.payloads(out / "events@2", "-r", "150-160") == before
    assert verify(out / "events@2")["num_defects"] == 0


def test_shards_without_records_are_read(tf, tmp_path, out):
    (tmp_path / "a.txt").write_text("only\n")
    for compression in COMPRESSIONS:
        convert("text", tmp_path / "a.txt", out / f"{compression}@4", "--compression", compression)
        assert len(harness.shards(out, compression)) == 4
        assert len(read_back(tf, out, compression, compression)) == 1


def test_shards_hold_equal_parts_of_the_order(out):
    convert("text", POEM, out / "poem@4")
    manifest = json.loads((out / ".shardfeed/poem.manifest.json").read_text())
    assert [shard["records"] for shard in manifest["shards"]] == [15, 15, 15, 16]
    assert [shard["bytes"] for shard in manifest["shards"]] == [
        path.stat().st_size for path in harness.shards(out, "poem")]


def test_shard_size_decides_the_number_of_shards(out):
    report = harness.succeed("convert", "jsonl", EVENTS, out / "events", "--shard-size", "10KiB",
                             "--json").json
    paths = harness.shards(out, "events")
    assert report["shards"] == len(paths) > 2
    assert report["dataset"] == f"{out}/events@{len(paths)}"
    assert report["records"] == 200
    assert all(path.stat().st_size < 2 * 10240 for path in paths)


def test_inspect_reads_the_schema_from_the_manifest(out):
    convert("csv", CITIES, out / "cities@2")
    report = harness.succeed("inspect", out / "cities@2", "--json").json
    features = report["features"]
    assert report["made_by"]["command"] == "convert csv"
    assert {name: f["kind"] for name, f in features.items()} == {
        "name": "bytes", "code": "bytes", "population": "int64", "area": "float",
        "founded": "int64", "height": "float", "remark": "bytes", "motto": "bytes"}
    assert features["motto"]["records"] == sum(row["motto"] != "" for row in rows())
