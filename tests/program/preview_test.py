"""convert --dry-run: what a conversion would make, and nothing written."""

import json
import struct
import subprocess
import tarfile

import harness
import numpy as np
import pytest
from harness import DEFECTS, TESTDATA, USAGE, command, fail, run, succeed, tree
from PIL import Image

TABLES = TESTDATA / "tables"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Arguments of convert for every kind of source."""
    folder = tmp_path_factory.mktemp("sources")
    images = TESTDATA / "images"
    (folder / "pairs").mkdir()
    for i, image in enumerate(sorted(images.rglob("*.jpg"))[:5]):
        (folder / "pairs" / f"{i}.jpg").write_bytes(image.read_bytes())
        (folder / "pairs" / f"{i}.txt").write_text(f"picture {i}")
    with tarfile.open(folder / "pairs.tar", "w") as tar:
        tar.add(folder / "pairs", arcname=".")
    (folder / "images.idx").write_bytes(struct.pack(">IIII", 0x803, 4, 2, 3) + bytes(range(24)))
    (folder / "labels.idx").write_bytes(struct.pack(">II", 0x801, 4) + bytes(4))
    (folder / "cifar.bin").write_bytes(b"".join(bytes([i]) + bytes([i]) * 3072 for i in range(5)))
    np.save(folder / "x.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    harness.convert("csv", TABLES / "cities.csv", folder / "d@2")
    (folder / "list.json").write_text(json.dumps([{"a": [1, 2], "b": "x"}, {"a": [3]}, {"a": [], "b": None}]))
    (folder / "t.tsv").write_text("a\tb\n1\t2.5\n2\tx\n")
    (folder / "detection/images").mkdir(parents=True)
    (folder / "detection/labels").mkdir()
    (folder / "voc").mkdir()
    image = next(images.rglob("*.jpg"))
    width, height = Image.open(image).size
    for copy in ("detection/images/a.jpg", "voc/a.jpg"):
        (folder / copy).write_bytes(image.read_bytes())
    (folder / "detection/labels/a.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    (folder / "detection/classes.txt").write_text("cat\n")
    (folder / "detection/coco.json").write_text(json.dumps({
        "images": [{"id": 1, "file_name": "images/a.jpg", "width": width, "height": height}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 3, "name": "cat"}]}))
    (folder / "voc/a.xml").write_text(
        f"<annotation><size><width>{width}</width><height>{height}</height></size><object><name>cat</name>"
        "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>")
    return {
        "coco": [folder / "detection/coco.json"],
        "voc": [folder / "voc"],
        "yolo": [folder / "detection"],
        "imagefolder": [images],
        "images": [images],
        "captions": [folder / "pairs"],
        "files": [folder / "pairs"],
        "csv": [TABLES / "cities.csv"],
        "tsv": [folder / "t.tsv"],
        "jsonl": [TABLES / "events.jsonl"],
        "json": [folder / "list.json"],
        "text": [TABLES / "poem.txt"],
        "tar": [folder / "pairs.tar"],
        "idx": [folder / "images.idx", folder / "labels.idx"],
        "cifar": [folder / "cifar.bin"],
        "npy": [folder / "x.npy"],
        "tfrecord": [folder / "d@2"],
    }


KINDS = ["imagefolder", "images", "captions", "files", "csv", "tsv", "jsonl", "json", "text", "tar", "idx",
         "cifar", "npy", "tfrecord", "coco", "voc", "yolo"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_preview_is_what_conversion_makes(kind, sources, tmp_path):
    out = tmp_path / "out/x@2"
    told = succeed("convert", kind, *sources[kind], out, "--no-shuffle", "--dry-run", "--json").json
    assert not (tmp_path / "out").exists()
    made = succeed("convert", kind, *sources[kind], out, "--no-shuffle", "--json").json
    dataset, = told["datasets"]
    assert dataset["dataset"] == str(out) and dataset["shards"] == 2
    assert dataset["records"] == made["records"] == told["sampled"]
    assert 0.4 * made["bytes"] <= dataset["bytes"] <= 2.5 * made["bytes"] + 1000
    assert told["dry_run"] is True and told["skipped"] == 0 and told["seconds"] >= 0
    inspected = succeed("inspect", out, "--json", "--records", "3").json
    first = {name: feature.pop("first", None) for name, feature in told["features"].items()}
    assert told["features"] == inspected["features"]
    assert all(first[name] is not None for name, feature in told["features"].items()
               if feature.get("max_values", 0) > 0)
    assert told["samples"] == inspected["samples"]
    for note in told["notes"]:
        assert note in made["notes"] or note.startswith("of the first "), note


def test_people_see_schema_guesses_sizes_time_and_records(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,größe,name,weights\n" + "".join(f"{i},{i}.5,数据{i},\n" for i in range(2000)) + "x,1,b,\n")
    before = tree(tmp_path)
    text = succeed("convert", "csv", path, tmp_path / "out/t@4", "--dry-run").out.decode()
    assert tree(tmp_path) == before and not (tmp_path / "out").exists()
    lines = text.splitlines()
    assert lines[0].startswith(f"{tmp_path}/out/t@4: 2,001 records, about ") and lines[0].endswith(" in 4 shards")
    assert lines[1].startswith("converting takes ") and " s on " in lines[1]
    assert any(line.startswith("note: ") and '"id"' in line for line in lines), text  # the guess
    assert "features of the first 1,000 records:" in lines
    begin = lines.index("features of the first 1,000 records:")
    row = {line.split()[0]: line for line in lines[begin + 1:begin + 6]}
    assert "int64" not in row["id"] and "bytes" in row["id"] and "scalar" in row["id"]
    assert "float" in row["größe"] and "0.5" in row["größe"]
    assert '"数据0"' in row["name"]
    for number in range(3):
        assert any(line.startswith(f"record {number} (") for line in lines)
    assert lines[-1] == "nothing was written"


def test_the_output_may_be_left_out_and_be_several(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("".join(f"line {i}\n" for i in range(1000)))
    told = succeed("convert", "text", path, "--dry-run", "--json").json
    assert told["datasets"] == [{"shards": 1, "records": 1000, "bytes": told["datasets"][0]["bytes"]}]
    assert succeed("convert", "text", path, "--dry-run").out.startswith(b"1,000 records, about ")
    told = succeed("convert", "text", path, tmp_path / "out/t@10", "--split", "train=0.9,test=0.1", "--dry-run",
                   "--json").json
    assert [(one["dataset"], one["records"], one["shards"]) for one in told["datasets"]] == [
        (f"{tmp_path}/out/t-train@9", 900, 9), (f"{tmp_path}/out/t-test@1", 100, 1)]
    told = succeed("convert", "text", path, tmp_path / "out/t", "--limit", "10", "--shard-size", "100", "--dry-run",
                   "--json").json
    assert told["datasets"][0]["records"] == told["sampled"] == 10
    made = succeed("convert", "text", path, tmp_path / "out/t", "--limit", "10", "--shard-size", "100", "--json")
    assert made.json["shards"] == told["datasets"][0]["shards"]


def test_standard_input_is_not_kept(tmp_path):
    done = subprocess.run(command("convert", "text", "-", tmp_path / "out/t@1", "--dry-run", "--json"),
                          input=b"a\nb\n", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["datasets"][0]["records"] == 2
    assert not (tmp_path / "out").exists()


def test_what_would_go_wrong_is_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    harness.convert("csv", path, tmp_path / "t@1")
    before = tree(tmp_path)
    told = run("convert", "csv", path, tmp_path / "t@1", "--dry-run", "--json")
    assert told.status == USAGE  # as the conversion would end
    note, read_as = told.json["notes"]
    assert note.startswith("the conversion would fail: ") and "--overwrite" in note
    assert succeed("convert", "csv", path, tmp_path / "t@1", "--dry-run", "--overwrite", "--json").json["notes"] == [read_as]
    assert tree(tmp_path) == before
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n4,5\n")
    assert "bad.csv:3: expected 2 cells" in fail(DEFECTS, "convert", "csv", tmp_path / "bad.csv", "--dry-run")
    told = run("convert", "csv", tmp_path / "bad.csv", "--dry-run", "--on-error", "skip")
    assert told.status == DEFECTS
    assert b"note: 1 broken record would be left out; the first is " in told.out
    (tmp_path / "more.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "less.csv").write_text("a\n1\n")
    for name in ("more", "less"):
        told = run("convert", "csv", tmp_path / f"{name}.csv", tmp_path / "u@1", "--like", tmp_path / "t@1", "--dry-run")
        assert told.status == USAGE and b"note: the conversion would fail: " in told.out
    # An image is only found to be broken when its record is built.
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jpg").write_bytes(b"no image")
    (tmp_path / "in/b.jpg").write_bytes(next((TESTDATA / "images").rglob("*.jpg")).read_bytes())
    assert "a.jpg" in fail(DEFECTS, "convert", "images", tmp_path / "in", "--dry-run")
    told = run("convert", "images", tmp_path / "in", "--dry-run", "--on-error", "skip", "--json")
    assert (told.status, told.json["skipped"], told.json["sampled"]) == (DEFECTS, 1, 1)


def test_wrong_use(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a\n")
    assert "--dry-run cannot be combined with --only-shards" in fail(
        USAGE, "convert", "text", path, tmp_path / "t@2", "--dry-run", "--only-shards", "0", "--job", "7")
    assert "a limit cannot be combined with splits" in fail(
        USAGE, "convert", "text", path, tmp_path / "t@2", "--dry-run", "--limit", "1", "--split", "a=0.5,b=0.5")
    assert succeed("convert", "text", path, "--dry-run", "-q").out == b""


def test_sizes_of_compressed_datasets_are_told_as_such(tmp_path):
    path = tmp_path / "t.gz.txt"
    path.write_text("a\n" * 1000)
    told = succeed("convert", "text", path, "--dry-run", "--compression", "gzip", "--json").json
    assert told["notes"] == ["sizes are those before compression"]
