"""Names of classes in manifests, datasets as class maps (--class-map, --like), tables of labels, and splits that
a column names."""

import gzip
import json
import os
import shutil
import subprocess

import harness
import numpy as np
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, fail, leave_out, payloads, run, succeed

IMAGES = TESTDATA / "images"
LABEL = "image/class/label"
NAMES = ["circles", "gradients", "stripes", "triangles"]


def manifest(out, stem):
    return json.loads((out / f".shardfeed/{stem}.manifest.json").read_text())


def classes(out, stem):
    return manifest(out, stem)["classes"][LABEL]


def pairs(dataset):
    """The names and numbers of the classes in the records."""
    return sorted({(row["image/class/text"][0], row[LABEL][0]) for row in payloads(dataset)})


@pytest.fixture
def train(out):
    convert("imagefolder", IMAGES, out / "train@2")
    return out / "train@2"


@pytest.fixture
def fewer(tmp_path):
    """Images of two of the classes."""
    folder = tmp_path / "fewer"
    for name in ("gradients", "triangles"):
        shutil.copytree(IMAGES / name, folder / name)
    return folder


# ---- the manifest


def test_the_manifest_names_the_classes(train, out):
    assert classes(out, "train") == {"names": NAMES}
    text = succeed("inspect", train, "--records", 0).out.decode()
    assert f'4 classes of {LABEL}: 0 "circles", 1 "gradients", 2 "stripes", 3 "triangles"\n' in text
    assert "classes of" not in succeed("inspect", train, "--feature", "image/encoded").out.decode()
    report = succeed("inspect", train, "--json").json
    assert report["classes"] == {LABEL: {"names": NAMES}}
    assert harness.verify(train, "--level", "examples")["num_defects"] == 0


def test_many_classes_with_any_names(out, tmp_path):
    names = [f'"{i}"\\ größe\t漢{i}' for i in range(22_000)]
    (tmp_path / "map").write_text("\n".join(names))
    folder = tmp_path / "images" / names[7]
    shutil.copytree(IMAGES / "circles", folder)
    convert("imagefolder", folder.parent, out / "a@1", "--class-map", tmp_path / "map")
    assert classes(out, "a") == {"names": names}
    succeed("reshard", out / "a@1", out / "b@2")
    assert classes(out, "b") == {"names": names}
    text = succeed("inspect", out / "a@1", "--records", 0).out.decode()
    assert f"22,000 classes of {LABEL}: 0 {json.dumps(names[0], ensure_ascii=False)}, 1 " in text
    assert len([line for line in text.splitlines() if "classes of" in line][0]) < 250
    convert("imagefolder", folder.parent, out / "c@1", "--class-map", out / "b@2")
    assert pairs(out / "c@1") == [(names[7], 7)]


def test_numbers_with_gaps(out, fewer, tmp_path):
    (tmp_path / "map.json").write_text('{"triangles": 3, "gradients": 1000000000000}')
    convert("imagefolder", fewer, out / "a@1", "--class-map", tmp_path / "map.json")
    assert classes(out, "a") == {"names": ["triangles", "gradients"], "numbers": [3, 10**12]}
    convert("imagefolder", fewer, out / "b@1", "--class-map", out / "a@1")
    assert pairs(out / "b@1") == [("gradients", 10**12), ("triangles", 3)]


def test_every_command_that_rewrites_a_dataset_keeps_the_names(train, out):
    succeed("reshard", train, out / "resharded@3")
    succeed("merge", train, out / "resharded@3", out / "merged@2")
    succeed("split", train, out / "part@2", "--shares", "a=0.5,b=0.5")
    succeed("sample", train, out / "sampled@1", "--count", 3)
    succeed("repair", train, out / "repaired@2")
    convert("tfrecord", train, out / "converted@1", "--shuffle", 1)
    for shards in ("0", "1"):
        succeed("reshard", train, out / "tasks@2", "--only-shards", shards, "--job", "7")
        succeed("convert", "imagefolder", IMAGES, out / "raw@2", "--only-shards", shards, "--job", "7")
    for stem in ("tasks", "raw"):
        succeed("commit", out / f"{stem}@2", "--job", "7")
    for stem in ("resharded", "merged", "part-a", "part-b", "sampled", "repaired", "converted", "tasks", "raw"):
        assert classes(out, stem) == {"names": NAMES}, stem


def test_datasets_whose_classes_contradict_are_not_merged(train, out, fewer):
    convert("imagefolder", fewer, out / "fewer@1")
    remedy = ("; convert one of them again with the classes of the other ('shardfeed convert' takes a dataset as "
              "class map)")
    where = f'"image/class/label" differ: class 0 is "circles" in {train} and "gradients" in {out}/fewer@1'
    for command in (["merge", train, out / "fewer@1", out / "both"],
                    ["convert", "tfrecord", train, out / "fewer@1", out / "both@1"]):
        assert fail(USAGE, *command) == f"the classes of {where}{remedy}"
    convert("imagefolder", fewer, out / "fewer@1", "--overwrite", "--class-map", train)
    succeed("merge", train, out / "fewer@1", out / "both")
    assert classes(out, "both") == {"names": NAMES}


def test_merging_with_a_dataset_without_names_is_noted(train, out):
    shutil.copytree(out, out.parent / "old")
    other = out.parent / "old/train@2"
    old = out.parent / "old/.shardfeed/train.manifest.json"
    members = json.loads(old.read_text())
    del members["classes"]
    harness.write_manifest(old, members)
    report = succeed("merge", train, other, out / "both", "--json").json
    assert report["notes"] == [f'the names of the classes of "{LABEL}" are those of {train}; 1 of 2 datasets names none']
    assert classes(out, "both") == {"names": NAMES}


def test_lies_about_classes_are_refused(train, out):
    path = out / ".shardfeed/train.manifest.json"
    members = json.loads(path.read_text())
    members["classes"][LABEL]["names"][1] = "circles"
    harness.write_manifest(path, members)
    assert fail(DEFECTS, "inspect", train) == (
        f'{path}: not a shardfeed manifest: the classes of "{LABEL}": two classes are named "circles"')


# ---- the same numbers as another dataset


def test_a_dataset_is_a_class_map(train, out, fewer):
    for i, name in enumerate([train, out / "train", out / "train@*", out / ".shardfeed/train.manifest.json"]):
        report = succeed("convert", "imagefolder", fewer, out / f"val{i}@1", "--class-map", name, "--jpeg",
                         "keep", "--json").json
        assert report["notes"] == [f"{name}: 2 of 4 classes do not occur here: circles, stripes"]
        assert pairs(out / f"val{i}@1") == [("gradients", 1), ("triangles", 3)]
        assert classes(out, f"val{i}") == {"names": NAMES}


def test_a_class_that_the_dataset_lacks_is_named(train, out, fewer):
    shutil.copytree(IMAGES / "circles", fewer / "discs")
    assert fail(DEFECTS, "convert", "imagefolder", fewer, out / "val@1", "--class-map", train) == (
        f"{fewer}/discs: this class is not in {train}; leave it out, or convert both datasets with one list of all "
        "classes")
    missing = fail(IO_FAILED, "convert", "imagefolder", fewer, out / "val@1", "--class-map", out / "test@1")
    assert missing == f"{out}/test@1: no such shards; the folder has {train}"


def test_other_numbers_beside_are_noted(train, out, fewer):
    report = succeed("convert", "imagefolder", fewer, out / "val@1", "--jpeg", "keep", "--json").json
    assert report["notes"] == [
        f'{train} numbers its classes differently: class 0 is "gradients" in {out}/val@1 and "circles" in {train}; '
        f"--class-map {train} gives these the same numbers"]
    assert not manifest(out, "val").get("notes")
    report = succeed("convert", "imagefolder", fewer, out / "val@1", "--class-map", train, "--overwrite",
                     "--json").json
    assert "differently" not in str(report["notes"])
    # Whoever names one dataset is not advised to take another.
    succeed("convert", "imagefolder", fewer, out / "other@1", "--jpeg", "keep")
    report = succeed("convert", "imagefolder", fewer, out / "val@1", "--class-map", train, "--overwrite", "--json").json
    assert "differently" not in str(report["notes"])
    for path in (*out.glob("other-*"), *out.glob(".shardfeed/other*")):
        path.unlink()
    task = ("convert", "imagefolder", fewer, out / "job@1", "--only-shards", 0, "--job", 1, "--jpeg", "keep", "--json")
    assert succeed(*task).json["notes"] == []  # the dataset is not there yet
    notes = succeed("commit", out / "job@1", "--job", 1, "--json").json["notes"]
    assert [note.split(":")[0] for note in notes] == [f"{out}/{name} numbers its classes differently"
                                                      for name in ("train@2", "val@1")]
    (fewer / "gradients").rename(fewer / "x")
    (fewer / "triangles").rename(fewer / "y")
    report = succeed("convert", "imagefolder", fewer, out / "unrelated@1", "--jpeg", "keep", "--json").json
    assert report["notes"] == []


def test_like_takes_classes_compression_and_options(out, fewer):
    convert("imagefolder", IMAGES, out / "train@2", "--compression", "gzip", "--resize-shorter", 16, "--jpeg", "keep")
    like = ("--like", out / "train@2")
    report = succeed("convert", "imagefolder", fewer, out / "val@1", *like, "--json").json
    assert f"compressed with gzip, as {out}/train@2 is" in report["notes"]
    assert manifest(out, "val")["compression"] == "gzip"
    assert manifest(out, "val")["made_by"]["like"] == f"{out}/train@2"
    assert pairs(out / "val@1") == [("gradients", 1), ("triangles", 3)]
    rows = [row for row in payloads(out / "val@1") if row["image/format"] == ["jpeg"]]
    assert {min(row["image/height"][0], row["image/width"][0]) for row in rows} == {16}
    assert fail(USAGE, "convert", "imagefolder", fewer, out / "b@1", *like, "--resize-shorter", 32) == (
        f"--resize-shorter 32: {out}/train@2 was written with --resize-shorter 16; leave one of --resize-shorter and "
        "--like out")
    assert fail(USAGE, "convert", "imagefolder", fewer, out / "b@1", *like, "--quality", 50,
                "--resize-shorter", 16) == (
        f"--quality 50: {out}/train@2 was written without it; leave one of --quality and --like out")
    message = fail(USAGE, "convert", "imagefolder", fewer, out / "b@1", *like, "--class-map", out / "train@2")
    assert message == (f"--class-map cannot be combined with --like, which takes the classes from {out}/train@2")
    table = out.parent / "labels.csv"
    table.write_text("id,label\n" + "".join(f"{f.relative_to(fewer)},triangles\n" for f in fewer.rglob("*.*")))
    convert("images", fewer, out / "images@1", "--label-file", table, *like)
    assert pairs(out / "images@1") == [("triangles", 3)]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_like_takes_kinds_and_fails_where_tables_disagree(kind, out, tmp_path):
    def write(name, rows):
        path = tmp_path / f"{name}.{kind}"
        if kind == "csv":
            path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows), ""]))
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    train = write("train", [{"x": 0.5, "name": "a"}, {"x": 2, "name": "b"}])
    convert(kind, train, out / "train@1", "--compression", "zlib")
    like = ("--like", out / "train@1")
    convert(kind, write("val", [{"x": 1, "name": "c"}]), out / "val@1", *like)
    features = manifest(out, "val")["features"]
    assert {name: features[name]["kind"] for name in features} == {"name": "bytes", "x": "float"}
    bad = write("bad", [{"x": 1, "name": "c"}, {"x": "none", "name": "c"}])
    assert fail(DEFECTS, "convert", kind, bad, out / "bad@1", *like).startswith(f"{bad}:")
    more = write("more", [{"x": 1, "name": "c", "y": 3}])
    assert fail(USAGE, "convert", kind, more, out / "more@1", *like) == (
        f'{out}/more@1: has the feature "y", which {out}/train@1 does not have; leave it out here, or convert both '
        "alike")
    fewer = write("fewer", [{"x": 1}])
    assert fail(USAGE, "convert", kind, fewer, out / "fewer@1", *like) == (
        f'{out}/fewer@1: lacks the feature "name", which all records of {out}/train@1 have; convert both alike')
    empty = write("empty", [{"x": 1, "name": ""}] if kind == "csv" else [{"x": 1, "name": None}])
    assert fail(USAGE, "convert", kind, empty, out / "empty@1", *like) == (
        f'{out}/empty@1: lacks the feature "name", which all records of {out}/train@1 have; convert both alike')
    assert not list(out.glob("fewer-*")) and not list(out.glob("more-*"))
    schema = tmp_path / "schema.json"
    schema.write_text('{"x": "bytes"}')
    assert fail(USAGE, "convert", kind, train, out / "b@1", *like, "--schema", schema) == (
        f'{schema}: "x" is bytes, but float in {out}/train@1; leave one of --schema and --like out')


def test_like_takes_options_from_a_dataset_that_took_them_itself(out, fewer):
    convert("imagefolder", IMAGES, out / "train@2", "--resize-shorter", 16, "--jpeg", "keep", "--quality", 80)
    convert("imagefolder", fewer, out / "val@1", "--like", out / "train@2")
    convert("imagefolder", fewer, out / "test@1", "--like", out / "val@1")
    assert manifest(out, "val")["made_by"]["options"] == "--jpeg keep --resize-shorter 16 --quality 80"
    assert payloads(out / "test@1") == payloads(out / "val@1")


def test_like_takes_the_unit_of_dates_and_the_texts_for_missing_values(out, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("d,x\n2024-01-01,1\n?,2\n2024-01-02,no data\n")
    convert("csv", table, out / "train@1", "--dates", "epoch-us", "--na", "?,no data")
    convert("csv", table, out / "val@1", "--like", out / "train@1")
    assert payloads(out / "val@1") == payloads(out / "train@1")
    assert fail(USAGE, "convert", "csv", table, out / "b@1", "--like", out / "train@1", "--dates", "epoch") == (
        f"--dates epoch: {out}/train@1 was written with --dates epoch-us; leave one of --dates and --like out")
    table.write_text("n,x\n1,1\n")
    convert("csv", table, out / "plain@1")
    table.write_text("n,x\n?,1\n2,3\n")
    convert("csv", table, out / "c@1", "--like", out / "plain@1", "--na", "?")


def test_classes_that_contradict_are_a_difference(out, tmp_path):
    for name, classes in (("a", "cat dog"), ("b", "cat dog"), ("c", "ant cat")):
        for label in classes.split():
            (tmp_path / name / label).mkdir(parents=True)
            shutil.copy(next(IMAGES.rglob("*.jpg")), tmp_path / name / label)
        convert("imagefolder", tmp_path / name, out / f"{name}@1")
    assert "the schemas are equal" in succeed("diff", out / "a@1", out / "b@1").out.decode()
    told = run("diff", out / "a@1", out / "c@1")
    assert told.status == DEFECTS
    assert f'schema: "image/class/label": class 0 is "cat" in {out}/a@1 and "ant" in {out}/c@1' in told.out.decode()


def test_like_is_checked_where_a_kind_takes_nothing_over(out, tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    convert("text", tmp_path / "t.txt", out / "text@1")
    convert("text", tmp_path / "t.txt", out / "again@1", "--like", out / "text@1")
    assert "has the feature" in fail(USAGE, "convert", "files", tmp_path / "t.txt", out / "files@1", "--like",
                                     out / "text@1")


# ---- tables of labels


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "labels.csv"
    files = sorted(f.relative_to(IMAGES) for f in IMAGES.rglob("*") if f.is_file())
    path.write_text("file,age,price,shape,split\n" + "".join(
        f"{f},{i},{i + 0.25},{f.parts[0]},{'train' if i % 3 else 'val'}\n" for i, f in enumerate(files)))
    return path


def test_other_columns_of_labels_are_features(table, out, tmp_path):
    assert fail(DEFECTS, "convert", "images", IMAGES, out / "a@1", "--label-file", table) == (
        f'{table}:1: expected a column named "label" among the 5 columns; pass --label-column NAME to say which one it '
        "is")
    convert("images", IMAGES, out / "a@1", "--label-file", table, "--label-column", "shape")
    # The same compressed, and from a pipe, whose name tells nothing.
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    convert("images", IMAGES, out / "z@1", "--label-file", tmp_path / "t.csv.gz", "--label-column", "shape")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"cat '{table}' > '{pipe}'"]):
        convert("images", IMAGES, out / "p@1", "--label-file", pipe, "--label-column", "shape")
    assert list(payloads(out / "z@1")) == list(payloads(out / "p@1")) == list(payloads(out / "a@1"))
    features = manifest(out, "a")["features"]
    assert {name: features[name]["kind"] for name in ("age", "price", "split", LABEL)} == {
        "age": "int64", "price": "float", "split": "bytes", LABEL: "int64"}
    assert classes(out, "a") == {"names": NAMES}
    report = succeed("convert", "images", IMAGES, out / "b@1", "--label-file", table, "--label-column", "price",
                     "--jpeg", "keep", "--json").json
    assert report["notes"] == [
        f'{table}: labels are numbers with fractions (the first is "0.25" at line 2): they become the feature "price" '
        "and not classes"]
    assert LABEL not in manifest(out, "b")["features"] and "classes" not in manifest(out, "b")


def test_columns_without_a_table_are_refused(out):
    for option in ("--label-column", "--split-column"):
        assert fail(USAGE, "convert", "images", IMAGES, out / "a@1", option, "x") == (
            "--label-column and --split-column name columns of a table: add --label-file")


# ---- splits that a column names


def test_a_column_divides_labels(table, out):
    report = succeed("convert", "images", IMAGES, out / "a@4", "--label-file", table, "--label-column", "shape",
                     "--split-column", "split", "--json").json
    names = [d["dataset"].rsplit("/")[-1] for d in report["datasets"]]
    assert names == ["a-val@2", "a-train@3"]
    for stem in ("a-val", "a-train"):
        assert classes(out, stem) == {"names": NAMES}
        assert {row["split"][0] for row in payloads(out / f"{stem}@*")} == {stem.removeprefix("a-")}


def test_a_column_divides_tables(out, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,fold\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(300)))
    convert("csv", path, out / "t@3.tfrecord", "--split-column", "fold")
    for i, name in enumerate("abc"):
        assert [row["i"][0] for row in payloads(out / f"t-{name}@1.tfrecord")] == list(range(i, 300, 3))
    again = succeed("convert", "csv", path, out / "t@3.tfrecord", "--split-column", "fold", "--resume", "--json").json
    assert again["datasets_complete"] == 3
    lines = tmp_path / "t.jsonl"
    lines.write_text("".join(json.dumps({"i": i, "of": {"fold": i % 2}}) + "\n" for i in range(10)))
    convert("jsonl", lines, out / "j@1", "--split-column", "of.fold", "--shuffle", 1)
    assert sorted(row["i"][0] for row in payloads(out / "j-1@1")) == [1, 3, 5, 7, 9]


def test_wrong_uses_of_split_columns_are_told(out, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,fold\n1,a\n2,\n")
    options = ("convert", "csv", path, out / "t@1", "--split-column")
    assert fail(DEFECTS, *options, "fold") == f'{path}:3: no value in "fold", which names the split'
    assert fail(USAGE, *options, "split") == f'{path}: column "split" does not exist; the columns are "i", "fold"'
    assert not (out / ".shardfeed").exists() or not list(out.glob("t-*"))
    report = leave_out(*options, "fold", "--on-error", "skip", "--json").json
    assert report["skipped"] == 1 and report["dataset"].endswith("/t-a@1")
    path.write_text("i,fold\n1,../x\n")
    assert fail(DEFECTS, *options, "fold", "--overwrite") == (
        f'{path}:2: "../x" in "fold" cannot name a split: the name of a dataset may contain only letters, digits, _ '
        "and - there")
    path.write_text("i,fold\n1,a\n")
    assert fail(USAGE, *options, "fold", "--split", "a=0.5,b=0.5") == (
        "the splits are given by a column and by shares; choose one of them")
    assert fail(USAGE, *options, "fold", "--limit", 1) == "a limit cannot be combined with splits"
    message = fail(USAGE, *options, "fold", "--only-shards", 0, "--job", "1")
    assert "--split-column" in message and "a job writes one dataset" in message


@pytest.mark.parametrize("labels, told", [
    (("cat", "", "dog"), 'no label for "b.png"'),
    ((1, "", 3), 'no label for "b.png"'),
    ((1, "NA", 3), 'no label for "b.png": "NA" means that a value is missing, since the other labels are numbers'),
    ((0.5, "NA", 3), 'no label for "b.png": "NA" means that a value is missing, since the other labels are numbers')])
def test_an_image_without_a_label_is_left_out(out, tmp_path, labels, told):
    (tmp_path / "in").mkdir()
    for name in "abc":
        shutil.copyfile(IMAGES / "circles/2.png", tmp_path / f"in/{name}.png")
    table = tmp_path / "l.csv"
    table.write_text("name,label\n" + "".join(f"{name}.png,{label}\n" for name, label in zip("abc", labels)))
    arguments = ("convert", "images", tmp_path / "in", out / "x@1", "--label-file", table)
    assert fail(DEFECTS, *arguments) == f"{table}:3: {told}"
    report = leave_out(*arguments, "--on-error", "skip", "--json").json
    assert (report["records"], report["skipped"]) == (2, 1)
    assert manifest(out, "x")["skipped"] == {"records": 1, "first": [f"{table}:3: {told}"]}
    rows = payloads(out / "x@1")
    assert [row["image/filename"][0] for row in rows] == ["a.png", "c.png"]
    if labels[0] == "cat":
        assert classes(out, "x")["names"] == ["cat", "dog"]
    if labels[0] == 0.5:
        assert [row["label"] for row in rows] == [[0.5], [3.0]]
    # All of them: nothing remains, as with any other broken records.
    table.write_text("name,label\na.png,\nb.png,\nc.png,\n")
    assert "3" in fail(DEFECTS, *arguments, "--overwrite", "--on-error", "skip", "--max-skipped", "1")


def test_arrays_of_another_shape_are_not_alike(out, tmp_path):
    for name, shape in (("train", (4, 2, 3)), ("val", (2, 2, 3)), ("other", (2, 3, 2)), ("flat", (2, 6))):
        np.save(tmp_path / f"{name}.npy", np.zeros(shape))
    convert("npy", f"x={tmp_path}/train.npy", out / "train@2")
    convert("npy", f"x={tmp_path}/val.npy", out / "val@1", "--like", out / "train@2")
    for name, shape in (("other", "3, 2"), ("flat", "6")):
        arguments = ["convert", "npy", f"x={tmp_path}/{name}.npy", out / f"{name}@1", "--like", out / "train@2"]
        told = (f'{out}/{name}@1: the feature "x" has the shape [{shape}] here and [2, 3] in {out}/train@2; convert '
                "both alike")
        assert fail(USAGE, *arguments) == told
        assert told in run(*arguments, "--dry-run").out.decode()
        assert not list(out.glob(f"{name}-*"))
