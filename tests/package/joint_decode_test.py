"""Masks, views, boxes and points that are cropped, resized and flipped with their image."""

import io
import sys

import numpy as np
import pytest
from harness import REPOSITORY
from PIL import Image

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

COUNT = 24
DAMAGED = 5
BOXES = ["xmin", "ymin", "xmax", "ymax"]


def size_of(i):
    return 140 - 3 * i, 60 + i


def box_of(i):
    width, height = size_of(i)
    return np.array([width // 4, height // 3, width // 4 + 30, height // 3 + 20])


def encoded(array, kind="png", **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


def image_of(i):
    width, height = size_of(i)
    return np.random.default_rng(i).integers(0, 256, (height, width, 3), np.uint8)


def mask_of(i):
    width, height = size_of(i)
    x0, y0, x1, y1 = box_of(i)
    mask = np.zeros((height, width), np.uint8)
    mask[y0:y1, x0:x1] = 7
    return mask


def row_of(i, damage=""):
    image, mask = encoded(image_of(i)), encoded(mask_of(i))
    if damage == "mask" and i == DAMAGED:
        mask = mask[:60]
    if damage == "image" and i == DAMAGED:
        image = b"?"
    if damage == "size" and i == DAMAGED:
        mask = encoded(mask_of(i)[:-1])
    x0, y0, x1, y1 = box_of(i)
    # A second box without an area, and the middle and a corner of the first as points.
    return {"image/encoded": image, "mask/encoded": mask, "right/encoded": encoded(image_of(i)), "n": i,
            "boxes": np.array([[x0, y0, x1, y1], [3, 3, 3, 9]], np.float32), "label": [i, -1],
            "points": np.array([[(x0 + x1) / 2, (y0 + y1) / 2], [x0, y0]], np.float32)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    for damage in ("", "image", "mask", "size"):
        with sf.write(folder / f"{damage or 'good'}@3",
                      features={**dict.fromkeys(("image/encoded", "mask/encoded", "right/encoded"), sf.bytes),
                                "boxes": sf.ragged(sf.float32, 4), "points": sf.fixed((2, 2)),
                                "label": sf.ragged(sf.int64), "n": sf.int64}) as writer:
            for i in range(COUNT):
                writer.write(row_of(i, damage))
    return folder


@pytest.fixture(scope="module")
def records(folder):
    return sf.read(folder / "good@3")


JOINT = {"masks": "mask/encoded", "views": "right/encoded", "boxes": "boxes", "box_columns": "label",
         "points": "points"}
WAYS = {
    "whole": {"size": (40, 90), "flip": 0.5}, "center": {"size": 48, "crop": "center"},
    "resized": {"size": 48, "crop": "center", "resize_shorter": 52, "flip": 0.5},
    "random": {"size": (48, 64), "crop": "random", "flip": 0.5, "seed": 3},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_image_is_what_it_is_alone_and_others_get_its_draw(records, way):
    joint = list(records.decode_image(**WAYS[way], **JOINT).start(epoch=0))
    alone = records.decode_image(**WAYS[way])
    masks = records.decode_image("mask/encoded", **WAYS[way], raw=True)
    assert {"image", "mask", "right", "boxes", "label", "points", "points/visible", "n"} == set(joint[0])
    for row, image, mask in zip(joint, alone, masks, strict=True):
        assert np.array_equal(row["image"], image["image"]) and np.array_equal(row["right"], image["image"])
        assert np.array_equal(row["mask"], mask["mask"][..., 0])


@pytest.mark.parametrize("way", WAYS)
def test_boxes_and_points_stay_where_they_are_in_the_image(records, way):
    seen = 0
    for row in records.decode_image(**WAYS[way], **JOINT):
        y, x = np.nonzero(row["mask"])
        height, width = row["mask"].shape
        if len(row["boxes"]) == 0:
            assert len(x) <= 2 and len(row["label"]) == 0
            continue
        seen += 1
        assert row["label"].tolist() == [row["n"]]
        x0, y0, x1, y1 = row["boxes"][0]
        assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
        # A pixel shows what is under its middle.
        assert abs(x.min() - x0) <= 0.501 and abs(x.max() + 1 - x1) <= 0.501
        assert abs(y.min() - y0) <= 0.501 and abs(y.max() + 1 - y1) <= 0.501
        for (px, py), visible in zip(row["points"], row["points/visible"]):
            assert visible == (0 <= px <= width and 0 <= py <= height)
        px, py = row["points"][0]
        if row["points/visible"][0] and 1 < px < width - 1 and 1 < py < height - 1:
            assert row["mask"][int(py), int(px)] == 7
    assert seen > COUNT // 2


def test_fractions_stay_fractions(records):
    def fractions(row):
        size = np.array(size_of(int(row["n"])), np.float32)
        edges = {name: row["boxes"][:, k] / size[k % 2] for k, name in enumerate(BOXES)}
        return {**edges, "points": row["points"] / size, "image/encoded": row["image/encoded"]}

    way = WAYS["random"]
    ds = records.parse().map(fractions, output={**dict.fromkeys(BOXES, sf.ragged(sf.float32)),
                                                "points": sf.fixed((2, 2)), "image/encoded": sf.bytes})
    ours = ds.decode_image(**way, boxes=BOXES, points="points", normalized=True)
    for row, other in zip(ours, records.decode_image(**way, **JOINT), strict=True):
        boxes = np.stack([row[name] for name in BOXES], 1)
        assert np.allclose(boxes * [64, 48, 64, 48], other["boxes"], atol=1e-3)
        assert np.allclose(row["points"] * [64, 48], other["points"], atol=1e-3)


def test_turned_images_have_turned_boxes(tmp_path):
    # The camera was held so that the stored image must be turned by 90 degrees.
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.zeros((40, 60, 3), np.uint8)
    with sf.write(tmp_path / "x@1", features={"image/encoded": sf.bytes, "boxes": sf.ragged(sf.float32, 4)}) as writer:
        writer.write({"image/encoded": encoded(pixels, "jpeg", exif=exif), "boxes": np.array([[10., 20, 30, 50]])})
    for orient, wanted in [(True, [10, 20, 30, 50]), (False, [10 * 40 / 60, 20 * 60 / 40, 30 * 40 / 60, 60])]:
        row = next(iter(sf.read(tmp_path / "x@1").decode_image(size=(60, 40), orient=orient, boxes="boxes")))
        assert np.allclose(row["boxes"], [wanted]), row["boxes"]


@pytest.mark.parametrize("damage, message", [
    ("image", "feature 'image/encoded': "), ("mask", "feature 'mask/encoded': "),
    ("size", "feature 'mask/encoded': 125 x 64 pixels, but 'image/encoded' has 125 x 65")])
def test_a_row_is_damaged_if_one_of_its_images_is(folder, damage, message):
    ds = sf.read(folder / f"{damage}@3")
    with pytest.raises(sf.DataLossError, match=message):
        list(ds.decode_image(**WAYS["random"], **JOINT))
    good = list(sf.read(folder / "good@3").decode_image(**WAYS["random"], **JOINT).start(epoch=0))
    zero = list(ds.decode_image(**WAYS["random"], **JOINT, on_damage="zero").start(epoch=0))
    for i, (row, other) in enumerate(zip(zero, good, strict=True)):
        assert row.pop("image/valid") == (other["n"] != DAMAGED)
        if other["n"] != DAMAGED:
            assert all(np.array_equal(row[name], other[name]) for name in other)
        else:
            assert all(not np.any(row[name]) for name in ("image", "mask", "right", "points", "points/visible"))
            assert row["boxes"].shape == (0, 4) and row["label"].shape == (0,) and row["n"] == DAMAGED
    batch = next(iter(ds.decode_image(**WAYS["random"], **JOINT, on_damage="replace").batch(COUNT)))
    damaged, = np.nonzero(batch["image/valid"] == 0)[0]
    stand_in = np.flatnonzero(batch["n"] == batch["n"][damaged])
    assert len(stand_in) == 2 and batch["n"][damaged] != DAMAGED
    assert np.array_equal(*batch["mask"][stand_in]) and np.array_equal(*batch["points"][stand_in])
    assert np.array_equal(*[batch["boxes"][i] for i in stand_in])
    with pytest.raises(sf.DataLossError, match=message):
        list(ds.decode_image(**WAYS["random"], **JOINT, on_damage="accept"))
    left_out = ds.decode_image(**WAYS["random"], **JOINT).ignore_errors()
    assert sorted(int(row["n"]) for row in left_out) == [i for i in range(COUNT) if i != DAMAGED]


def test_repeats_and_resumes(records):
    ds = records.shuffle(1).decode_image(**WAYS["random"], **JOINT).batch(5)
    batches = list(ds.start(epoch=0, threads=1))
    it = ds.start(epoch=0, threads=4)
    next(it), next(it)
    other = iter(ds)
    other.load_state_dict(it.state_dict())
    for a, b in zip(other, batches[2:], strict=True):
        assert np.array_equal(a["mask"], b["mask"]) and np.array_equal(a["points"], b["points"])
        assert np.array_equal(a["boxes"].values, b["boxes"].values)


def test_text_and_fingerprints(records):
    ds = records.parse()
    options = [{}, JOINT, {"masks": "mask/encoded"}, {"views": "right/encoded"}, {"boxes": "boxes"},
               {"boxes": "boxes", "min_area": 2}, {"points": "points"}, {"crop": "center", "resize_shorter": 300},
               {"crop": "center", "resize_shorter": 301}, {"crop": "center"}]
    chains = [ds.decode_image("image/encoded", 224, **o) for o in options]
    assert len({chain._core.fingerprint() for chain in chains}) == len(options)
    assert repr(chains[2]).endswith("decode_image('image/encoded', 224, masks=['mask/encoded'])")
    assert repr(chains[7]).endswith("224, crop='center', resize_shorter=300)")
    assert "crop=center, resize_shorter=300" in chains[7]._core.text()
    assert chains[5]._core.text().endswith("224x224, boxes=[boxes], min_area=2)")


@pytest.mark.parametrize("options, message", [
    ({"masks": "mask"}, "decode_image: there is no column 'mask'; there are: .*"),
    ({"masks": "n"}, "decode_image: column 'n' does not have one bytes value per row"),
    ({"views": "boxes"}, "decode_image: column 'boxes' does not have one bytes value per row"),
    ({"views": "image/encoded"}, "decode_image: column 'image/encoded' appears twice"),
    ({"masks": "mask/encoded", "output": "mask"}, "two columns of the result would have the name 'mask'"),
    ({"boxes": "label"}, r"decode_image: boxes: expected a column with elements \[4\]"),
    ({"box_columns": "label"}, "decode_image: box_columns are .* but no boxes are named"),
    ({"points": "boxes"}, "decode_image: points: expected a column whose last size is 2")])
def test_options_that_cannot_be(records, options, message):
    with pytest.raises(ValueError, match=message):
        records.decode_image(**options)
