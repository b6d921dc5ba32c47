"""Datasets of TensorFlow Datasets (TFDS), written and read. TFDS itself is optional, and large:

    pip install tensorflow-datasets
"""

import json
import shutil

import harness
import pytest
from harness import TESTDATA, USAGE, convert, fail, succeed, verify

IMAGES = TESTDATA / "images"
TABLE = "id,name,score\n" + "".join(f"{i},n{i},{i}.5\n" for i in range(100))


@pytest.fixture
def tfds(tf):
    return pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")


def features(folder):
    return json.loads((folder / "features.json").read_text())["featuresDict"]["features"]


def info(folder):
    return json.loads((folder / "dataset_info.json").read_text())


def split_names(folder):
    return [split["name"] for split in info(folder)["splits"]]


# ---- written


def test_images_open_in_tfds(tfds, tf, tmp_path):
    folder = tmp_path / "shapes/2.1.0"
    convert("imagefolder", IMAGES, folder / "shapes@4", "--split", "train=0.75,test=0.25",
            "--tfds")
    builder = tfds.builder_from_directory(str(folder))
    assert (builder.name, str(builder.version)) == ("shapes", "2.1.0")
    names = sorted(path.name for path in IMAGES.iterdir())
    assert builder.info.features["image/class/label"].names == names
    count = 0
    for split in ("train", "test"):
        ours = harness.payloads(folder / f"shapes-{split}@*")
        theirs = list(builder.as_dataset(split=split))
        assert builder.info.splits[split].num_examples == len(theirs) == len(ours)
        for a, b in zip(ours, theirs):
            assert b["image/encoded"].shape == (a["image/height"][0], a["image/width"][0], 3)
            assert b["image/class/label"].numpy() == a["image/class/label"][0]
            assert b["image/filename"].numpy().decode() == a["image/filename"][0]
        count += len(theirs)
    assert count == 24
    assert len(builder.as_dataset(split="train[:50%]")) > 0


def test_features_of_every_shape_open_in_tfds(tfds, tf, tmp_path):
    lines = tmp_path / "t.jsonl"
    rows = [{"one": i, "three": [i, i + 1, i + 2], "some": list(range(i % 3)), "text": f"t{i}",
             "x": i / 4, **({"rare": "r"} if i == 7 else {})} for i in range(20)]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "mixed"
    convert("jsonl", lines, folder / "train@3", "--tfds")
    builder = tfds.builder_from_directory(str(folder))
    assert (builder.name, str(builder.version), list(builder.info.splits)) == (
        "mixed", "1.0.0", ["train"])
    found = [{name: value.numpy() for name, value in row.items()}
             for row in builder.as_dataset(split="train")]
    assert len(found) == 20
    for row, theirs in zip(rows, found):
        assert theirs["one"] == row["one"] and theirs["x"] == row["x"]
        assert theirs["text"].decode() == row["text"]
        assert list(theirs["three"]) == row["three"] and list(theirs["some"]) == row["some"]
        assert list(theirs["rare"]) == ([b"r"] if "rare" in row else [])


def test_each_dataset_of_the_folder_is_a_split(tmp_path):
    folder = tmp_path / "flowers"
    (tmp_path / "t.csv").write_text(TABLE)
    convert("csv", tmp_path / "t.csv", folder / "train@2.tfrecord", "--tfds")
    assert split_names(folder) == ["train"]
    convert("csv", tmp_path / "t.csv", folder / "flowers-dev@1", "--tfds", "--limit", "10")
    assert split_names(folder) == ["dev", "train"]
    assert info(folder)["splits"][1] == {
        "name": "train", "numBytes": str(sum(p.stat().st_size for p in folder.glob("train-*"))),
        "shardLengths": ["50", "50"], "filepathTemplate": "train-{SHARD_X_OF_Y}.tfrecord"}
    assert set(features(folder)) == {"id", "name", "score"}
    succeed("split", folder / "train@2.tfrecord", folder / "part@2", "--shares", "a=0.5,b=0.5",
            "--tfds")
    assert split_names(folder) == ["dev", "part-a", "part-b", "train"]
    for split in ("dev", "part-a", "part-b", "train"):
        # Without the manifests the folder is read from dataset_info.json.
        assert verify(folder / split)["records"] == {"dev": 10, "train": 100}.get(split, 50)


def test_the_current_folder(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    convert("csv", "t.csv", "train@1", "--tfds", cwd=tmp_path)
    assert info(tmp_path)["name"] == tmp_path.name
    assert split_names(tmp_path) == ["train"]


def test_classes_must_mean_the_same_in_all_splits(tmp_path):
    folder = tmp_path / "shapes"
    convert("imagefolder", IMAGES, folder / "train@1", "--tfds")
    names = (folder / "image.class.label.labels.txt").read_text()
    assert names == "".join(sorted(path.name + "\n" for path in IMAGES.iterdir()))
    assert features(folder)["image/class/label"]["classLabel"] == {
        "numClasses": str(names.count("\n"))}
    shutil.copytree(IMAGES / "circles", tmp_path / "few/circles")
    shutil.copytree(IMAGES / "stripes", tmp_path / "few/stripes")
    message = fail(USAGE, "convert", "imagefolder", tmp_path / "few", folder / "test@1", "--tfds")
    assert "image.class.label.labels.txt: lists other classes than this conversion" in message
    assert split_names(folder) == ["train"]
    (tmp_path / "classes").write_text(names)
    convert("imagefolder", tmp_path / "few", folder / "test@1", "--tfds", "--class-map",
            tmp_path / "classes", "--overwrite")
    assert split_names(folder) == ["test", "train"]


def test_what_tfds_cannot_read_is_told(tmp_path, out):
    (tmp_path / "t.csv").write_text(TABLE)
    message = fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "a@1", "--tfds",
                   "--compression", "gzip")
    assert message == "--tfds cannot be combined with --compression: TFDS reads raw shards only"
    assert not out.exists()
    convert("csv", tmp_path / "t.csv", out / "z@1", "--compression", "gzip")
    message = fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "a@1", "--tfds")
    assert ".shardfeed/z.manifest.json: cannot be a split of a TFDS dataset: it is compressed" in (
        message)
    assert verify(out / "a@1")["num_defects"] == 0  # the dataset exists nevertheless
    assert not (out / "dataset_info.json").exists()


def test_all_is_no_name_of_a_split(tmp_path, out):
    (tmp_path / "t.csv").write_text(TABLE)
    message = fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "all@1", "--tfds")
    assert message == (f"{out}/.shardfeed/all.manifest.json: 'all' means all splits in TFDS; "
                       "give the dataset another name")
    assert not (out / "dataset_info.json").exists()


def test_records_that_are_no_examples_are_told(out, tmp_path):
    raw = tmp_path / "raw.tfrecord"
    raw.write_bytes(harness.frame(b"\xff\xff") * 3)
    message = fail(USAGE, "convert", "tfrecord", raw, out / "a@1", "--tfds")
    assert "holds records that are not tf.train.Examples" in message


# ---- read


def test_what_tfds_writes_is_read(tfds, tf, tmp_path):
    def numbers(begin, end):
        return tf.data.Dataset.range(begin, end).map(
            lambda i: {"number": i, "text": tf.strings.as_string(i)})

    builder = tfds.dataset_builders.TfDataBuilder(
        name="numbers", version="1.0.0", data_dir=str(tmp_path), file_format="tfrecord",
        split_datasets={"train": numbers(0, 50), "test": numbers(50, 60)},
        features=tfds.features.FeaturesDict({"number": tf.int64, "text": tfds.features.Text()}))
    builder.download_and_prepare()
    folder = tmp_path / "numbers/1.0.0"
    for split, count in (("train", 50), ("test", 10)):
        assert verify(folder / split)["records"] == count
        ours = [row["number"][0] for row in harness.payloads(folder / split)]
        theirs = [row["number"].numpy() for row in builder.as_dataset(split=split)]
        assert ours == theirs
    message = fail(USAGE, "verify", folder)
    assert f"a TFDS dataset of 2 splits; name one: {folder}/" in message
    succeed("merge", folder / "train", folder / "test", tmp_path / "all@1")
    assert verify(tmp_path / "all@1")["records"] == 60
