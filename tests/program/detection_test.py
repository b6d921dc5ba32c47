"""Images with annotations of detection, beside independent readings of the same files by Python.

What TensorFlow parses of each record is compared with json's, ElementTree's and plain Python's view of the annotations."""

import csv
import json
import random
import shutil
import xml.etree.ElementTree as ElementTree

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, fail, leave_out, run, succeed, verify

PIL_Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
FILES = sorted(path for path in (TESTDATA / "images").rglob("*") if path.is_file())
FLOATS = ("image/object/bbox/", "image/object/area", "image/object/keypoint/x", "image/object/keypoint/y")
TEXTS = {"image/encoded", "image/filename", "image/format", "image/source_id", "image/caption",
         "image/object/class/text", "image/object/view", "image/object/rle_text",
         "image/object/keypoint/name"}
CLASSES = ["cat", "dog", "newt", "über"]


def size_of(path):
    with PIL_Image.open(path) as image:
        return image.size


def records(tf, dataset):
    """What TensorFlow parses: all features, each as a list."""
    verify(dataset, "--level", "examples")
    paths = harness.shards(dataset.parent, dataset.name.split("@")[0])
    found = []
    for record in harness.read_by_tensorflow(tf, paths):
        found.append(harness.decoded(tf, record))
        kinds = {name: tf.io.RaggedFeature(
            tf.float32 if name.startswith(FLOATS) or name == "image/object/polygon" else
            tf.string if name in TEXTS else tf.int64) for name in found[-1] if name.startswith("image/")}
        for name, values in tf.io.parse_single_example(record, kinds).items():
            assert values.numpy().tolist() == found[-1][name], name
    return found


def f32(tf, values):
    return [float(x) for x in tf.constant([float(v) for v in values], tf.float32).numpy()]


def check_image(features, path, name):
    width, height = size_of(path)
    assert features.pop("image/encoded") == [path.read_bytes()]
    assert features.pop("image/filename") == [name.encode()]
    assert features.pop("image/width") == [width]
    assert features.pop("image/height") == [height]
    assert features.pop("image/format")[0] in (b"jpeg", b"png")


# ---- COCO


def coco_folder(folder, seed=1, ids=lambda n: 1000 + 7 * n):
    rng = random.Random(seed)
    images, annotations = [], []
    for n, path in enumerate(FILES):
        name = f"{path.parent.name}/{path.name}"
        (folder / "images" / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "images" / name)
        width, height = size_of(path)
        images.append({"license": 1, "id": ids(n), "width": width, "height": height,
                       "file_name": name})
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            x, y = rng.random() * width / 2, rng.randrange(height // 2)
            w, h = rng.random() * width / 2, rng.random() * height / 2
            category = rng.choice([1, 18, 90])
            kind = rng.choice(["polygons", "mask", "text", "none"])
            one = {"id": len(annotations) + 5, "image_id": ids(n), "category_id": category,
                   "bbox": [x, y, w, h], "area": w * h / 2, "iscrowd": int(kind == "mask")}
            if kind == "polygons":
                one["segmentation"] = [[rng.random() * width, rng.random() * height] * rng.randint(3, 6)
                                       for _ in range(rng.randint(1, 3))]
            elif kind == "mask":
                one["segmentation"] = {"counts": [rng.randrange(99) for _ in range(5)],
                                       "size": [height, width]}
            elif kind == "text":
                one["segmentation"] = {"counts": "\\]}[" + "x" * rng.randrange(9),
                                       "size": [height, width]}
            if category == 1 and rng.random() < 0.7:
                one["keypoints"] = [v for _ in range(2) for v in (
                    rng.randrange(width), rng.randrange(height), rng.randrange(3))]
                one["num_keypoints"] = sum(v > 0 for v in one["keypoints"][2::3])
            annotations.append(one)
    rng.shuffle(images)
    rng.shuffle(annotations)
    content = {"info": {"x": ["}{", {"y": "]"}]}, "images": images, "annotations": annotations,
               "categories": [{"id": 1, "name": "person", "keypoints": ["head", "tail"]},
                              {"id": 18, "name": "dog"}, {"id": 90, "name": "brush"}]}
    return content


def coco_expected(tf, content, image):
    width, height = image["width"], image["height"]
    categories = {c["id"]: c for c in content["categories"]}
    mine = [a for a in content["annotations"] if a["image_id"] == image["id"]]
    polygons = [a["segmentation"] if isinstance(a.get("segmentation"), list) else [] for a in mine]
    masks = [a["segmentation"] if isinstance(a.get("segmentation"), dict) else {} for a in mine]
    runs = [m.get("counts") if isinstance(m.get("counts"), list) else [] for m in masks]
    points = [a.get("keypoints", []) for a in mine]
    names = [categories[a["category_id"]].get("keypoints", []) if p else []
             for a, p in zip(mine, points)]
    return {
        "image/source_id": [str(image["id"]).encode()],
        "image/object/bbox/xmin": f32(tf, [a["bbox"][0] / width for a in mine]),
        "image/object/bbox/ymin": f32(tf, [a["bbox"][1] / height for a in mine]),
        "image/object/bbox/xmax": f32(tf, [(a["bbox"][0] + a["bbox"][2]) / width for a in mine]),
        "image/object/bbox/ymax": f32(tf, [(a["bbox"][1] + a["bbox"][3]) / height for a in mine]),
        "image/object/class/label": [a["category_id"] for a in mine],
        "image/object/class/text": [categories[a["category_id"]]["name"].encode() for a in mine],
        "image/object/area": f32(tf, [a["area"] for a in mine]),
        "image/object/is_crowd": [a["iscrowd"] for a in mine],
        "image/object/polygon": f32(tf, [v / (width, height)[i % 2] for object in polygons
                                         for polygon in object for i, v in enumerate(polygon)]),
        "image/object/polygon_lengths": [len(p) for object in polygons for p in object],
        "image/object/polygon_count": [len(object) for object in polygons],
        "image/object/rle": [run for r in runs for run in r],
        "image/object/rle_lengths": [len(r) for r in runs],
        "image/object/rle_text": [m["counts"].encode() if isinstance(m.get("counts"), str) else b""
                                  for m in masks],
        "image/object/rle_height": [m.get("size", [0, 0])[0] for m in masks],
        "image/object/rle_width": [m.get("size", [0, 0])[1] for m in masks],
        "image/object/keypoint/x": f32(tf, [v / width for p in points for v in p[::3]]),
        "image/object/keypoint/y": f32(tf, [v / height for p in points for v in p[1::3]]),
        "image/object/keypoint/visibility": [v for p in points for v in p[2::3]],
        "image/object/keypoint/num": [sum(v > 0 for v in p[2::3]) for p in points],
        "image/object/keypoint/lengths": [len(p) // 3 for p in points],
        "image/object/keypoint/name": [n.encode() for object in names for n in object],
    }


@pytest.mark.parametrize("indent, order", [(None, 1), (1, -1)])
def test_coco(tf, out, tmp_path, indent, order):
    content = coco_folder(tmp_path)
    content = dict(list(content.items())[::order])
    (tmp_path / "x.json").write_text(json.dumps(content, indent=indent))
    convert("coco", tmp_path / "x.json", out / "x@3", "--images", tmp_path / "images", "--jpeg", "keep")
    found = records(tf, out / "x@3")
    assert len(found) == len(FILES)
    for image, features in zip(content["images"], found):
        check_image(features, tmp_path / "images" / image["file_name"], image["file_name"])
        assert features == coco_expected(tf, content, image)


def test_coco_with_text_ids_and_threads(tf, out, tmp_path):
    content = coco_folder(tmp_path, ids=lambda n: f'"{n}\\')
    (tmp_path / "x.json").write_text(json.dumps(content))
    trees = []
    for threads in (1, 4):
        folder = out / str(threads)
        convert("coco", tmp_path / "x.json", folder / "x@3", "--images", tmp_path / "images",
                "--threads", threads, "--shuffle", 3)
        trees.append([path.read_bytes() for path in harness.shards(folder, "x")])
    assert trees[0] == trees[1]
    found = {record["image/source_id"][0].decode() for record in records(tf, folder / "x@3")}
    assert found == {image["id"] for image in content["images"]}


def test_coco_captions(tf, out, tmp_path):
    content = coco_folder(tmp_path)
    content["annotations"] = [{"id": n, "image_id": 1000 + 7 * (n % 5), "caption": f"no {n}"}
                              for n in range(12)]
    (tmp_path / "x.json").write_text(json.dumps(content))
    convert("coco", tmp_path / "x.json", out / "x@1", "--images", tmp_path / "images")
    for image, features in zip(content["images"], records(tf, out / "x@1")):
        assert features["image/caption"] == [
            a["caption"].encode() for a in content["annotations"] if a["image_id"] == image["id"]]
        assert not any("object" in name for name in features)


def test_coco_shrinks_images_and_keeps_fractions(tf, out, tmp_path):
    content = coco_folder(tmp_path)
    (tmp_path / "x.json").write_text(json.dumps(content))
    convert("coco", tmp_path / "x.json", out / "x@1", "--images", tmp_path / "images",
            "--resize-shorter", 16)
    found = records(tf, out / "x@1")
    assert min(min(r["image/width"][0], r["image/height"][0]) for r in found) == 16
    for image, features in zip(content["images"], found):
        assert features["image/object/bbox/xmin"] == coco_expected(tf, content, image)[
            "image/object/bbox/xmin"]


def test_coco_defects(out, tmp_path):
    content = coco_folder(tmp_path)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    first = content["images"][0]
    message = fail(IO_FAILED, "convert", "coco", path, out / "x@1")
    assert message == (f"{path}:1: image {first['id']}: {tmp_path}/{first['file_name']}: cannot open: "
                       "No such file or directory; pass --images FOLDER to name the folder that "
                       "file names begin in")
    content["annotations"][3]["category_id"] = 2
    path.write_text(json.dumps(content))
    broken = content["annotations"][3]
    message = fail(DEFECTS, "convert", "coco", path, out / "x@1", "--images", tmp_path / "images")
    assert message == f"{path}:1: annotation {broken['id']}: its category 2 is not among the categories"
    leave_out("convert", "coco", path, out / "x@1", "--images", tmp_path / "images",
              "--on-error", "skip", "--json")
    assert verify(out / "x@1")["records"] == len(FILES) - 1
    names = [row["image/filename"][0] for row in harness.payloads(out / "x@1")]
    left_out = {i["id"]: i["file_name"] for i in content["images"]}[broken["image_id"]]
    assert names == [i["file_name"] for i in content["images"] if i["file_name"] != left_out]


# ---- Pascal VOC


def voc_folder(folder, first=1, seed=2):
    """Writes the layout, with a set "some" of every third image."""
    rng = random.Random(seed)
    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    stems = []
    for n, path in enumerate(FILES):
        stem = f"{n:06}"
        stems.append(stem)
        shutil.copy(path, folder / f"JPEGImages/{stem}{path.suffix}")
        width, height = size_of(path)
        root = ElementTree.Element("annotation")
        ElementTree.SubElement(root, "filename").text = stem + path.suffix
        size = ElementTree.SubElement(root, "size")
        ElementTree.SubElement(size, "width").text = str(width)
        ElementTree.SubElement(size, "height").text = str(height)
        for _ in range(rng.randrange(4)):
            item = ElementTree.SubElement(root, "object")
            ElementTree.SubElement(item, "name").text = rng.choice(CLASSES)
            ElementTree.SubElement(item, "pose").text = rng.choice(["Left", "<&>"])
            ElementTree.SubElement(item, "truncated").text = str(rng.randrange(2))
            ElementTree.SubElement(item, "difficult").text = str(rng.randrange(2))
            box = ElementTree.SubElement(item, "bndbox")
            x, y = rng.randrange(first, width // 2), rng.randrange(first, height // 2)
            for key, value in (("xmax", width // 2 + x / 4), ("xmin", x), ("ymin", y),
                               ("ymax", height)):
                ElementTree.SubElement(box, key).text = str(value)
        ElementTree.indent(root)
        (folder / f"Annotations/{stem}.xml").write_bytes(
            ElementTree.tostring(root, "iso-8859-1" if n % 2 else "utf-8", xml_declaration=True))
    (folder / "ImageSets/Main/some.txt").write_text("".join(f"{s}\n" for s in stems[::3]))
    return stems


def voc_expected(tf, path, first=1, classes=CLASSES):
    root = ElementTree.parse(path).getroot()
    width, height = (int(root.find(f"size/{k}").text) for k in ("width", "height"))
    objects = root.findall("object")

    def edges(name, shift, by):
        return f32(tf, [(float(o.find(f"bndbox/{name}").text) - shift) / by for o in objects])
    return {
        "image/object/bbox/xmin": edges("xmin", first, width),
        "image/object/bbox/ymin": edges("ymin", first, height),
        "image/object/bbox/xmax": edges("xmax", 0, width),
        "image/object/bbox/ymax": edges("ymax", 0, height),
        "image/object/class/text": [o.find("name").text.encode() for o in objects],
        "image/object/class/label": [classes.index(o.find("name").text) for o in objects],
        "image/object/difficult": [int(o.find("difficult").text) for o in objects],
        "image/object/truncated": [int(o.find("truncated").text) for o in objects],
        "image/object/view": [o.find("pose").text.encode() for o in objects],
    }


@pytest.mark.parametrize("first", [0, 1])
def test_voc(tf, out, tmp_path, first):
    stems = voc_folder(tmp_path / "voc", first)
    zero = ["--zero-based"] if first == 0 else []
    convert("voc", tmp_path / "voc", out / "x@3", "--jpeg", "keep", *zero)
    found = records(tf, out / "x@3")
    assert len(found) == len(stems)
    for stem, path, features in zip(stems, FILES, found):
        check_image(features, path, stem + path.suffix)
        assert features.pop("image/source_id") == [(stem + path.suffix).encode()]
        assert features == voc_expected(tf, tmp_path / f"voc/Annotations/{stem}.xml", first)


def test_voc_subset_and_class_map(tf, out, tmp_path):
    stems = voc_folder(tmp_path / "voc")
    (tmp_path / "map").write_text("\n".join(CLASSES[::-1]) + "\n")
    convert("voc", tmp_path / "voc", out / "x@1", "--subset", "some", "--class-map", tmp_path / "map",
            "--threads", 3)
    found = records(tf, out / "x@1")
    assert len(found) == len(stems[::3])
    for stem, features in zip(stems[::3], found):
        expected = voc_expected(tf, tmp_path / f"voc/Annotations/{stem}.xml", classes=CLASSES[::-1])
        assert {name: features[name] for name in expected} == expected
    (tmp_path / "map").write_text("cat\n")
    message = fail(DEFECTS, "convert", "voc", tmp_path / "voc", out / "y@1", "--class-map",
                   tmp_path / "map")
    assert message.endswith(f" is not in {tmp_path}/map")


# ---- YOLO


def yolo_folder(folder, subsets=("train", "val"), seed=3):
    rng = random.Random(seed)
    for n, path in enumerate(FILES):
        subset = subsets[n % len(subsets)]
        image = folder / f"images/{subset}/{n:03}{path.suffix}"
        label = folder / f"labels/{subset}/{n:03}.txt"
        for file in (image, label):
            file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, image)
        lines = []
        for _ in range(rng.randrange(4)):
            if rng.random() < 0.5:
                x, y = 0.25 + rng.random() / 2, 0.25 + rng.random() / 2
                values = [x, y, rng.random() / 2, rng.random() / 2]
            else:
                values = [rng.random() for _ in range(2 * rng.randint(3, 7))]
            lines.append(" ".join([str(rng.randrange(len(CLASSES))), *map(repr, values)]) + "\n")
        if lines or n % 2:
            label.write_text("".join(lines))


def yolo_expected(tf, path):
    rows = [[float(v) for v in line.split()] for line in path.read_text().splitlines()] \
        if path.exists() else []
    boxes = []
    for _, *v in rows:
        if len(v) == 4:
            boxes.append((v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2))
        else:
            boxes.append((min(v[::2]), min(v[1::2]), max(v[::2]), max(v[1::2])))
    outlines = [v for _, *v in rows if len(v) > 4]
    return {
        **{f"image/object/bbox/{name}": f32(tf, [box[i] for box in boxes])
           for i, name in enumerate(("xmin", "ymin", "xmax", "ymax"))},
        "image/object/class/label": [int(row[0]) for row in rows],
        "image/object/class/text": [CLASSES[int(row[0])].encode() for row in rows],
        "image/object/polygon": f32(tf, [x for v in outlines for x in v]),
        "image/object/polygon_lengths": [len(v) for v in outlines],
        "image/object/polygon_count": [int(len(row) > 5) for row in rows],
    }


def test_yolo(tf, out, tmp_path):
    yolo_folder(tmp_path / "yolo")
    (tmp_path / "yolo/data.yaml").write_text(
        "path: .\ntrain: images/train\nval: images/val\nnc: 4\nnames:\n" +
        "".join(f"  {i}: {name}\n" for i, name in enumerate(CLASSES)))
    for subset, step in (("train", 0), ("val", 1)):
        convert("yolo", tmp_path / "yolo/data.yaml", out / f"{subset}@2", "--subset", subset, "--jpeg",
                "keep")
        found = records(tf, out / f"{subset}@2")
        assert len(found) == len(FILES[step::2])
        for n, features in enumerate(found):
            number = 2 * n + step
            check_image(features, FILES[number], f"{number:03}{FILES[number].suffix}")
            assert features == yolo_expected(
                tf, tmp_path / f"yolo/labels/{subset}/{number:03}.txt")
    message = fail(USAGE, "convert", "yolo", tmp_path / "yolo", out / "x@1")
    assert message == (f"{tmp_path}/yolo/data.yaml: several subsets: train, val; pass --subset NAME "
                       "to choose one")


def test_yolo_with_a_list_of_classes(tf, out, tmp_path):
    yolo_folder(tmp_path / "yolo", subsets=(".",))
    (tmp_path / "yolo/classes.txt").write_text("\n".join(CLASSES))
    trees = []
    for threads in (1, 4):
        folder = out / str(threads)
        convert("yolo", tmp_path / "yolo", folder / "x@2", "--threads", threads)
        trees.append([path.read_bytes() for path in harness.shards(folder, "x")])
    assert trees[0] == trees[1]
    for number, features in enumerate(records(tf, folder / "x@2")):
        expected = yolo_expected(tf, tmp_path / f"yolo/labels/{number:03}.txt")
        assert {name: features[name] for name in expected} == expected


# ---- Folders with a table


@pytest.mark.parametrize("kind", ["images", "imagefolder"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_folder_with_metadata(tf, out, tmp_path, kind, form):
    folder = tmp_path / "in"
    rows = []
    for n, path in enumerate(FILES):
        name = f"{path.parent.name}/{path.name}"
        (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
        rows.append({"file_name": name, "n": n, "score": n / 4 + 0.125, "text": f'"{n}, ü'})
    random.Random(4).shuffle(rows)
    if form == "csv":
        with open(folder / "metadata.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        for row in rows:
            row["box"] = {"x": [row["n"], 1]}
        (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "lost.jpg").write_bytes(FILES[0].read_bytes())
    done = succeed("convert", kind, folder, out / "x@2", "--jpeg", "keep", "--no-shuffle")
    assert f"took features and the order of the images from {folder}/metadata.{form}" in \
        done.out.decode()
    assert f"skipped 1 image without a row: {folder}/lost.jpg" in done.out.decode()
    for row, features in zip(rows, records(tf, out / "x@2"), strict=True):
        check_image(features, folder / row["file_name"], row["file_name"])
        expected = {"file_name": [row["file_name"].encode()], "n": [row["n"]],
                    "score": [row["score"]], "text": [row["text"].encode()]}
        if form == "jsonl":
            expected["box.x"] = row["box"]["x"]
        assert features == expected


def test_metadata_has_no_labels_and_takes_kinds(out, tmp_path):
    for name, x in (("a", "0.5"), ("b", "1")):
        (tmp_path / name).mkdir()
        shutil.copy(FILES[0], tmp_path / name / FILES[0].name)
        (tmp_path / name / "metadata.csv").write_text(f"file_name,x\n{FILES[0].name},{x}\n")
    table = tmp_path / "a/metadata.csv"
    for option in ("--label-column", "--split-column", "--class-map"):
        assert fail(USAGE, "convert", "images", tmp_path / "a", out / "x@1", option, "x") == (
            f"{table} describes the images, and all of its columns are features; --label-column, --split-column and "
            f"--class-map take --label-file {table}")
    succeed("convert", "images", tmp_path / "a", out / "a@1")
    succeed("convert", "images", tmp_path / "b", out / "b@1", "--like", out / "a@1")
    kinds = [json.loads((out / f".shardfeed/{name}.manifest.json").read_text())["features"]["x"]["kind"] for name in "ab"]
    assert kinds == ["float", "float"]


def test_folders_of_splits_with_metadata_are_told(out, tmp_path):
    for name in ("train", "test"):
        (tmp_path / "in" / name).mkdir(parents=True)
        shutil.copy(FILES[0], tmp_path / "in" / name / FILES[0].name)
        (tmp_path / "in" / name / "metadata.csv").write_text(f"file_name,x\n{FILES[0].name},1\n")
    message = fail(USAGE, "convert", "imagefolder", tmp_path / "in", out / "x@1")
    assert message == (f"{tmp_path}/in: its folders have a table of their images each; convert each "
                       "on its own, or rename the tables if they describe something else: "
                       f"{tmp_path}/in/test, {tmp_path}/in/train")
    convert("imagefolder", tmp_path / "in/train", out / "x@1")
    (tmp_path / "in/train/metadata.csv").write_text("file_name,x\nnone.jpg,1\n")
    message = fail(IO_FAILED, "convert", "images", tmp_path / "in/train", out / "y@1")
    assert message.startswith(f"{tmp_path}/in/train/metadata.csv:2: {tmp_path}/in/train/none.jpg: ")
    result = run("convert", "images", tmp_path / "in/train", out / "y@1", "--on-error", "skip")
    assert "no records: every row is broken" in result.err
