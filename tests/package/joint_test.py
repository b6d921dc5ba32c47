"""Masks, views, boxes and points that change with their image."""

import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
A = sf.augment

HEIGHT, WIDTH = 60, 80
GEOMETRIC = [
    A.RandomHorizontalFlip(), A.RandomVerticalFlip(), A.Pad((3, 1, 5, 2)),
    A.RandomRotation(40), A.RandomAffine(20, (0.1, 0.2), (0.7, 1.4), (-15, 15, -10, 10)),
    A.RandomPerspective(0.5, p=1), A.RandAugment(3), A.TrivialAugmentWide(),
]
EVERYTHING = [*GEOMETRIC, A.ColorJitter(0.4, 0.4, 0.4, 0.1), A.RandomErasing(1, value="random"),
              A.GaussianBlur(3), A.RandomApply([A.RandomInvert(1), A.RandomHorizontalFlip()])]
# Every move of pixels, alone and all in a row.
MOVES = [[step] for step in GEOMETRIC] + [GEOMETRIC]


def names(steps):
    return "+".join(step.name for step in steps)


def ragged(rows, dtype=np.float32, shape=()):
    values = [np.asarray(row, dtype).reshape(-1, *shape) for row in rows]
    return sf.Ragged(np.concatenate(values), np.cumsum([0] + [len(v) for v in values]))


def random_boxes(rng, count):
    x, y = rng.uniform(0, WIDTH - 4, count), rng.uniform(0, HEIGHT - 4, count)
    return np.stack([x, y, x + rng.uniform(4, WIDTH - x), y + rng.uniform(4, HEIGHT - y)], 1)


ROWS = 40


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(3)
    boxes = [random_boxes(rng, i % 4).astype(np.float32) for i in range(ROWS)]
    points = [rng.uniform(5, 55, (i % 5, 2)) for i in range(ROWS)]
    return {
        "image": rng.integers(0, 256, (ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "right": rng.integers(0, 256, (ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "mask": rng.integers(0, 9, (ROWS, HEIGHT, WIDTH), np.uint8),
        "depth": rng.uniform(1, 9, (ROWS, HEIGHT, WIDTH, 2)).astype(np.float32),
        "boxes": ragged(boxes, shape=(4,)), "points": ragged(points, np.float64, (2,)),
        "labels": ragged([np.arange(len(b)) + 10 * i for i, b in enumerate(boxes)], np.int64),
        "landmarks": rng.uniform(5, 55, (ROWS, 5, 2)).astype(np.float32),
    }


JOINT = {"masks": ("mask", "depth"), "views": "right", "boxes": "boxes", "box_columns": "labels",
         "points": ("points", "landmarks")}


def rows(ds):
    return list(ds.start(epoch=0))


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# ---- One draw


@pytest.mark.parametrize("steps", [*MOVES, EVERYTHING], ids=names)
def test_the_image_is_what_it_is_alone_and_views_get_its_changes(arrays, steps):
    ds = sf.from_arrays(arrays)
    alone = ds.augment("image", steps, seed=4)
    joint = rows(ds.augment("image", steps, seed=4, **JOINT))
    both = sf.from_arrays({**arrays, "right": arrays["image"]})
    views = rows(both.augment("image", steps, seed=4, views=["right"]))
    for row, other, view in zip(joint, alone, views, strict=True):
        assert np.array_equal(row["image"], other["image"])
        assert np.array_equal(view["image"], view["right"])
    right = rows(ds.select("right").augment("right", steps, seed=4))
    assert all(np.array_equal(a["right"], b["right"]) for a, b in zip(joint, right, strict=True))


@pytest.mark.parametrize("steps", MOVES, ids=names)
def test_masks_move_as_nearest_pixels_of_the_image(arrays, steps):
    # An image of labels with nearest sampling moves as a mask does; colors do not change masks.
    def nearest(step):
        fields = {k: "nearest" if k == "interpolation" else v for k, v in step.fields.items()}
        return step._replace(fields=fields)

    steps = [nearest(step) for step in steps if "Augment" not in step.name]
    gray = np.repeat(arrays["mask"][..., None], 1, 3)
    ds = sf.from_arrays({"image": gray, "mask": arrays["mask"], "wide": arrays["mask"].astype(np.int64),
                         "depth": arrays["depth"]})
    colors = [A.RandomInvert(1), A.RandomErasing(1), A.ColorJitter(0.5)]
    moved = rows(ds.augment("image", steps, seed=2, masks=("mask", "wide", "depth")))
    colored = rows(ds.augment("image", [*steps, *colors], seed=2, masks="mask"))
    for i, (row, other) in enumerate(zip(moved, colored, strict=True)):
        assert np.array_equal(row["mask"], row["image"][..., 0])
        assert np.array_equal(row["wide"], row["mask"]) and row["wide"].dtype == np.int64
        assert np.array_equal(other["mask"], row["mask"])
        assert set(np.unique(row["depth"])) <= set(np.unique(arrays["depth"][i])) | {0}


def test_fill_of_masks(arrays):
    ds = sf.from_arrays({k: arrays[k] for k in ("image", "mask", "depth")})
    row = rows(ds.augment("image", [A.Pad(2)], masks=("mask", "depth"), mask_fill=255))[0]
    assert np.array_equal(row["mask"], np.pad(arrays["mask"][0], 2, constant_values=255))
    assert row["depth"].shape == (HEIGHT + 4, WIDTH + 4, 2) and (row["depth"][:2] == 255).all()
    row = rows(ds.augment("image", [A.Pad(2, padding_mode="reflect")], masks="mask", mask_fill=9))[0]
    assert np.array_equal(row["mask"], np.pad(arrays["mask"][0], 2, "reflect"))


# ---- Boxes and points beside what is drawn at their places


# Horizons cross some boxes.
STRONG = [A.RandomPerspective(1, p=1)]


@pytest.mark.parametrize("steps", [*MOVES, STRONG], ids=names)
def test_boxes_surround_what_is_drawn_in_them(steps):
    rng = np.random.default_rng(7)
    boxes = np.round(random_boxes(rng, 300))
    mask = np.zeros((len(boxes), HEIGHT, WIDTH), np.uint8)
    for drawn, (x0, y0, x1, y1) in zip(mask, boxes.astype(int)):
        drawn[y0:y1, x0:x1] = 1
    ds = sf.from_arrays({"image": np.zeros((*mask.shape, 1), np.uint8), "mask": mask,
                         "boxes": ragged(boxes[:, None], shape=(4,))})
    tight = 0
    for row in ds.augment("image", steps, masks="mask", boxes="boxes"):
        y, x = np.nonzero(row["mask"])
        height, width = row["mask"].shape
        if len(row["boxes"]) == 0:
            assert len(x) <= 2  # less than a pixel remains
            continue
        x0, y0, x1, y1 = row["boxes"][0]
        assert 0 <= x0 <= x1 <= width and 0 <= y0 <= y1 <= height
        if len(x) == 0:
            continue
        # Nearest sampling moves edges by half a pixel of the source for each warp.
        some = 0.5 * len(steps) + (2 if steps == STRONG else 0.51)
        assert x.min() >= x0 - some and x.max() + 1 <= x1 + some
        assert y.min() >= y0 - some and y.max() + 1 <= y1 + some
        inside = x0 > 0 and y0 > 0 and x1 < width and y1 < height
        if inside and len(steps) == 1 and steps != STRONG and len(x) > 60:
            # A corner of a box that was turned is thinner than a pixel.
            tight += 1
            assert x.min() <= x0 + 2.5 and x.max() + 1 >= x1 - 2.5
            assert y.min() <= y0 + 2.5 and y.max() + 1 >= y1 - 2.5
    assert tight >= 40 or len(steps) > 1 or steps == STRONG


@pytest.mark.parametrize("steps", MOVES, ids=names)
def test_points_stay_where_they_are_in_the_image(steps):
    rng = np.random.default_rng(8)
    points = rng.integers(2, (WIDTH - 2, HEIGHT - 2), (300, 2))
    mask = np.zeros((len(points), HEIGHT, WIDTH), np.uint8)
    for drawn, (x, y) in zip(mask, points):
        drawn[y - 2:y + 3, x - 2:x + 3] = 1
    ds = sf.from_arrays({"image": np.zeros((*mask.shape, 1), np.uint8), "mask": mask,
                         "points": points + 0.5})
    seen = 0
    for row in ds.augment("image", steps, masks="mask", points="points"):
        y, x = np.nonzero(row["mask"])
        height, width = row["mask"].shape
        px, py = row["points"]
        assert row["points/visible"] == (0 <= px <= width and 0 <= py <= height)
        if len(x) and 4 < px < width - 4 and 4 < py < height - 4:
            seen += 1
            some = 0.5 * len(steps) + 1
            assert abs(x.mean() + 0.5 - px) <= some and abs(y.mean() + 0.5 - py) <= some
    assert seen > 100


# ---- Beside torchvision


CERTAIN = [
    (A.RandomHorizontalFlip(1), lambda F, x: F.horizontal_flip(x)),
    (A.RandomVerticalFlip(1), lambda F, x: F.vertical_flip(x)),
    (A.Pad((3, 1, 5, 2)), lambda F, x: F.pad(x, [3, 1, 5, 2])),
    (A.RandomRotation((25, 25)), lambda F, x: F.rotate(x, 25)),
    (A.RandomRotation((-70, -70), center=(10, 50)), lambda F, x: F.rotate(x, -70, center=[10, 50])),
    (A.RandomAffine((30, 30), scale=(1.3, 1.3), shear=(5, 5, -8, -8)),
     lambda F, x: F.affine(x, 30, [0, 0], 1.3, [5, -8])),
]


@pytest.mark.parametrize("step, theirs", CERTAIN, ids=lambda s: getattr(s, "name", ""))
def test_boxes_masks_and_points_are_torchvisions(arrays, step, theirs):
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from torchvision import tv_tensors
    size = (HEIGHT, WIDTH)
    ds = sf.from_arrays(arrays).augment("image", [step], min_area=0, **JOINT)
    for i, row in enumerate(ds):
        mask = theirs(v2.functional, tv_tensors.Mask(torch.from_numpy(arrays["mask"][i].copy())))
        # A point halfway between two pixels may take the other one.
        assert (mask.numpy() != row["mask"]).mean() < 0.005
        before = torch.from_numpy(np.array(arrays["boxes"][i]))
        boxes = theirs(v2.functional, tv_tensors.BoundingBoxes(before, format="XYXY", canvas_size=size))
        assert np.allclose(boxes.numpy(), row["boxes"], atol=1e-3)
        if "Flip" not in step.name:  # theirs are numbers of pixels then, and 0 becomes width - 1
            points = theirs(v2.functional, tv_tensors.KeyPoints(
                torch.from_numpy(arrays["landmarks"][i].copy()), canvas_size=size))
            last = np.array(row["image"].shape[1::-1]) - 1  # theirs may be clamped
            assert np.allclose(np.clip(points.numpy(), 0, last), np.clip(row["landmarks"], 0, last), atol=1e-3)


def test_perspectives_are_torchvisions(arrays):
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from torchvision import tv_tensors
    corners = np.array([[0, 0], [WIDTH, 0], [WIDTH, HEIGHT], [0, HEIGHT]], np.float64)
    columns = {name: arrays[name] for name in ("image", "boxes")}
    ds = sf.from_arrays({**columns, "corners": np.repeat(corners[None], ROWS, 0)})
    for i, row in enumerate(ds.augment("image", [A.RandomPerspective(p=1)], boxes="boxes", points="corners",
                                       min_area=0)):
        # The map from the result to the source is found from the corners.
        equations, right = [], []
        for (x, y), (u, v) in zip(row["corners"], corners):
            equations += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
            right += [u, v]
        found = np.linalg.solve(equations, right).tolist()
        image = v2.functional.perspective(torch.from_numpy(arrays["image"][i].transpose(2, 0, 1).copy()), None, None,
                                          coefficients=found, fill=0.0)
        apart = np.abs(image.numpy().transpose(1, 2, 0).astype(int) - row["image"])
        assert (apart > 0).mean() < 0.01 and apart.max() <= 1
        boxes = v2.functional.perspective(
            tv_tensors.BoundingBoxes(torch.from_numpy(np.array(arrays["boxes"][i])), format="XYXY",
                                     canvas_size=(HEIGHT, WIDTH)), None, None, coefficients=found)
        assert np.allclose(boxes.numpy(), row["boxes"], atol=1e-2)


# ---- Rules


def one(boxes, steps=(), height=20, width=40, **options):
    ds = sf.from_arrays({"image": np.zeros((1, height, width, 3), np.uint8),
                         "boxes": ragged([boxes], np.float64, (4,)),
                         "name": ragged([[f"b{i}" for i in range(len(boxes))]], object),
                         "pair": ragged([np.arange(2 * len(boxes)).reshape(-1, 2)], np.int32, (2,))})
    return rows(ds.augment("image", list(steps), boxes="boxes", box_columns=("name", "pair"), **options))[0]


def test_boxes_are_clipped_and_dropped_with_their_columns():
    row = one([[-5, -5, 10, 10], [39.5, 0, 50, 1], [35, 10, 45, 20], [8, 8, 8, 9], [9, 9, 3, 12]])
    assert row["boxes"].tolist() == [[0, 0, 10, 10], [35, 10, 40, 20]]
    assert list(row["name"]) == [b"b0", b"b2"] and row["pair"].tolist() == [[0, 1], [4, 5]]
    row = one([[-5, -5, 10, 10], [35, 10, 45, 20]], min_visible=0.5)
    assert list(row["name"]) == [b"b1"]
    row = one([[0, 0, 4, 4], [0, 0, 5, 4], [39.5, 0, 50, 1], [8, 8, 8, 9]], min_area=0.5)
    assert list(row["name"]) == [b"b0", b"b1", b"b2"]
    assert list(one([[0, 0, 4, 4], [0, 0, 5, 4]], min_area=20)["name"]) == [b"b1"]
    # Without a least area, even a box that left the image stays, as one without an area.
    row = one([[8, 8, 8, 9], [9, 9, 3, 12], [50, 1, 60, 2]], min_area=0)
    assert row["boxes"].tolist() == [[8, 8, 8, 9], [9, 9, 9, 12], [40, 1, 40, 2]]
    assert one([])["boxes"].shape == (0, 4)


@pytest.mark.parametrize("box_format, box, flipped", [
    ("xyxy", [2, 3, 10, 7], [30, 3, 38, 7]), ("yxyx", [3, 2, 7, 10], [3, 30, 7, 38]),
    ("xywh", [2, 3, 8, 4], [30, 3, 8, 4]), ("cxcywh", [6, 5, 8, 4], [34, 5, 8, 4])])
def test_formats_of_boxes(box_format, box, flipped):
    flip = [A.RandomHorizontalFlip(1)]
    assert one([box], flip, box_format=box_format)["boxes"].tolist() == [flipped]
    size = np.array([20, 40, 20, 40] if box_format == "yxyx" else [40, 20, 40, 20])
    row = one([box / size], [*flip, A.Pad((0, 0, 40, 20))], box_format=box_format, normalized=True)
    assert np.allclose(row["boxes"] * 2 * size, flipped)


def test_columns_as_convert_writes_them():
    image = np.zeros((2, 20, 40, 3), np.uint8)
    columns = {"image": image, "image/object/class/label": ragged([[1, 2], [3]], np.int64),
               "image/object/keypoint/x": ragged([[0.25], []]),
               "image/object/keypoint/y": ragged([[0.5], []])}
    for name, values in {"xmin": [[0.1, 0.95], [0]], "ymin": [[0, 0.2], [0]],
                         "xmax": [[0.5, 1], [1]], "ymax": [[0.5, 0.25], [1]]}.items():
        columns[f"image/object/bbox/{name}"] = ragged(values)
    boxes = [f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")]
    ds = sf.from_arrays(columns).augment(
        "image", [A.RandomHorizontalFlip(1)], boxes=boxes, box_columns="image/object/class/label",
        points=("image/object/keypoint/x", "image/object/keypoint/y"), normalized=True, min_area=4)
    first, second = rows(ds)
    assert np.allclose([first[name][0] for name in boxes], [0.5, 0, 0.9, 0.5])
    assert first["image/object/class/label"].tolist() == [1] and second[boxes[2]].tolist() == [1]
    assert first["image/object/keypoint/x"].tolist() == [0.75]
    assert first["image/object/keypoint/x/visible"].tolist() == [1]
    assert second["image/object/keypoint/y"].tolist() == []


def test_columns_with_one_number_of_boxes_become_ragged():
    # As parse() declares them if all records have the same number.
    image = np.zeros((2, 20, 40, 3), np.uint8)
    boxes = np.array([[[0, 0, 4, 4], [50, 0, 60, 4], [1, 1, 3, 5]]] * 2, np.float32)
    few = sf.from_arrays({"image": image, "boxes": boxes, "label": np.arange(6).reshape(2, 3),
                          "pair": np.arange(12).reshape(2, 3, 2)})
    row = rows(few.augment("image", [], boxes="boxes", box_columns=("label", "pair")))[1]
    assert row["boxes"].tolist() == [[0, 0, 4, 4], [1, 1, 3, 5]] and row["label"].tolist() == [3, 5]
    assert row["pair"].tolist() == [[6, 7], [10, 11]]
    single = sf.from_arrays({"image": image, "boxes": boxes[:, 1], "label": np.arange(2)})
    row = rows(single.augment("image", [], boxes="boxes", box_columns="label"))[1]
    assert row["boxes"].shape == (0, 4) and row["label"].shape == (0,)
    apart = sf.from_arrays({"image": image, "label": np.arange(2), **{
        name: boxes[:, 0, k] for k, name in enumerate("abcd")}})
    row = rows(apart.augment("image", [], boxes=list("abcd"), box_columns="label"))[1]
    assert [row[name].tolist() for name in "abcd"] == [[0], [0], [4], [4]] and row["label"].tolist() == [1]
    with pytest.raises(ValueError, match=r"expected columns with an element for each box, got label: int64 \[3\] for"):
        sf.from_arrays({"image": image, "boxes": boxes[:, :2], "label": np.zeros((2, 3), int)}).augment(
            "image", [], boxes="boxes", box_columns="label")


def test_points_of_objects_leave_with_their_boxes():
    points = np.arange(12).reshape(1, 2, 3, 2)
    ds = sf.from_arrays({
        "image": np.zeros((1, 20, 40, 3), np.uint8), "boxes": ragged([[[50, 0, 60, 5], [0, 0, 9, 9]]], int, (4,)),
        "points": ragged(points, np.int64, (3, 2))})
    row = rows(ds.augment("image", [], boxes="boxes", points="points", box_columns="points"))[0]
    assert row["boxes"].tolist() == [[0, 0, 9, 9]] and row["boxes"].dtype == np.float32
    assert row["points"].tolist() == points[0, 1:].tolist()
    assert row["points/visible"].tolist() == [[1, 1, 1]]


def test_points_that_are_nan_stay_so():
    points = np.array([[[np.nan, 3], [3, np.nan], [np.nan, np.nan], [4, 5]]], np.float32)
    ds = sf.from_arrays({"image": np.zeros((1, 20, 40, 3), np.uint8), "points": points})
    for steps in ([], [A.RandomHorizontalFlip(1)], [A.RandomAffine(30)]):
        row = rows(ds.augment("image", steps, points="points"))[0]
        assert row["points/visible"].tolist() == [0, 0, 0, 1]
        assert np.isnan(row["points"][:3]).any(axis=1).all() and np.isfinite(row["points"][3]).all()


def test_repeats_and_resumes(arrays):
    ds = sf.from_arrays(arrays).augment("image", EVERYTHING, seed=1, **JOINT)
    wanted = rows(ds)
    assert all(same(a, b) for a, b in zip(ds.start(epoch=0, threads=1), wanted, strict=True))
    # In place after another step, whose memory it uses.
    twice = ds.augment("image", [A.RandomHorizontalFlip(1), A.RandomPerspective(p=1)], seed=2,
                       masks=("mask", "depth"), points="landmarks", boxes="boxes",
                       box_columns=["labels"]).batch(7)
    batches = list(twice.start(epoch=0))
    it = twice.start(epoch=0)
    next(it), next(it)
    other = iter(twice)
    other.load_state_dict(it.state_dict())
    for a, b in zip(other, batches[2:], strict=True):
        assert np.array_equal(a["mask"], b["mask"])
        assert np.array_equal(a["boxes"].values, b["boxes"].values)
        assert np.array_equal(a["landmarks"], b["landmarks"])
    apart = rows(sf.from_arrays({k: np.stack([row[k] for row in wanted]) for k in ("image", "mask", "landmarks")})
                 .augment("image", [A.RandomHorizontalFlip(1)], masks="mask", points="landmarks"))
    chained = rows(ds.augment("image", [A.RandomHorizontalFlip(1)], masks="mask", points="landmarks"))
    for a, b in zip(apart, chained, strict=True):
        assert np.array_equal(a["mask"], b["mask"]) and np.array_equal(a["landmarks"], b["landmarks"])


def test_fingerprints_and_text(arrays):
    ds = sf.from_arrays(arrays)
    plain = ds.augment("image", [A.RandomInvert()])
    options = [{}, JOINT, {"masks": "mask"}, {"masks": "mask", "mask_fill": 255}, {"views": "right"},
               {"boxes": "boxes"}, {"boxes": "boxes", "box_format": "xywh"}, {"boxes": "boxes", "min_area": 2},
               {"boxes": "boxes", "min_visible": 0.5}, {"boxes": "boxes", "normalized": True},
               {"boxes": "boxes", "box_columns": "labels"}, {"points": "points"}]
    chains = [ds.augment("image", [A.RandomInvert()], **o) for o in options]
    assert chains[0]._core.fingerprint() == plain._core.fingerprint()
    assert len({chain._core.fingerprint() for chain in chains}) == len(options)
    assert repr(chains[10]).endswith("seed=0, boxes=['boxes'], box_columns=['labels'])")
    assert chains[4]._core.text().endswith("seed=0, views=[right])")


def test_damaged_records_and_caught_errors(tmp_path):
    with sf.write(tmp_path / "x@1", features={"boxes": sf.ragged(sf.float32, 4), "image": sf.fixed((4, 4, 1), sf.uint8),
                                              "labels": sf.ragged(sf.int64)}) as writer:
        for i in range(6):
            writer.write({"image": np.full((4, 4, 1), i, np.uint8), "boxes": np.full((2, 4), [0, 0, 4, 4], np.float32),
                          "labels": [i] * (3 if i == 2 else 2)})
    ds = sf.read(tmp_path / "x@1").parse().augment("image", [], boxes="boxes", box_columns="labels")
    with pytest.raises(ValueError, match=r"x-00000-of-00001.*record 2.*column 'labels' has 3 elements, but "
                                         "'boxes' has 2"):
        list(ds)
    assert [row["labels"].tolist() for row in ds.ignore_errors()] == [[i, i] for i in (0, 1, 3, 4, 5)]
    data = bytearray((tmp_path / "x-00000-of-00001").read_bytes())
    data[-6] ^= 1
    (tmp_path / "x-00000-of-00001").write_bytes(data)
    ds = sf.read(tmp_path / "x@1", skip_damaged=True).parse().augment("image", [], boxes="boxes", points=[])
    last = list(ds.batch(6))[0]
    assert np.diff(last["boxes"].row_splits).tolist() == [2, 2, 2, 2, 2, 0]


# ---- What is refused


@pytest.mark.parametrize("options, message", [
    ({"masks": "massk"}, "augment: masks: there is no column 'massk'; there are: .*mean 'mask'"),
    ({"masks": "labels"}, r"masks: expected \[60, 80\] or \[60, 80, channels\] as the image, got labels: int64 ragged"),
    ({"masks": "landmarks"}, r"masks: expected .* got landmarks: float32 \[5, 2\]"),
    ({"masks": "mask", "mask_fill": 256}, "mask_fill must be a value of uint8, got 256"),
    ({"masks": "mask", "mask_fill": 2**53 + 1}, "mask_fill must be a number that float64 holds exactly"),
    ({"masks": "mask", "mask_fill": np.int64(2**53 + 1)}, "mask_fill must be a number that float64 holds exactly"),
    ({"masks": "mask", "mask_fill": 2**53 + 2}, "mask_fill must be a value of uint8, got 9007199254740994"),
    ({"masks": "mask", "mask_fill": 0.5}, "mask_fill must be a value of uint8, got 0.5"),
    ({"masks": "half"}, "masks are integers, float32 or float64, not float16"),
    ({"views": "mask"}, r"views: expected the type and shape of the image, image: uint8 \[60, 80, 3\], got mask"),
    ({"views": "left"}, "views: there is no column 'left'"),
    ({"views": "image"}, "column 'image' appears twice"),
    ({"masks": ["mask", "mask"]}, "column 'mask' appears twice"),
    ({"boxes": "boxes", "box_columns": ["boxes"]}, "column 'boxes' appears twice"),
    ({"boxes": "labels"}, r"boxes: expected a column with elements \[4\], or four columns, got labels"),
    ({"boxes": "landmarks"}, "boxes: expected a column"),
    ({"boxes": "mask"}, r"boxes: expected float32, float64, int32 or int64, got mask: uint8"),
    ({"boxes": ["labels", "boxes"]}, "boxes are one column or four, got 2"),
    ({"boxes": ["labels", "boxes", "points", "mask"]}, "boxes: expected columns with one number for each"),
    ({"boxes": "box"}, "boxes: there is no column 'box'"),
    ({"box_columns": "labels"}, "no boxes are named"),
    ({"boxes": "boxes", "box_columns": "lables"}, "box_columns: there is no column 'lables'"),
    ({"boxes": "boxes", "box_columns": "mask"}, "box_columns: expected columns with an element for each box, got mask: .* for boxes: "),
    ({"boxes": "boxes", "points": "landmarks", "box_columns": "landmarks"}, "expected ragged points, got landmarks"),
    ({"points": "boxes"}, "points: expected a column whose last size is 2, or two columns of one shape"),
    ({"points": ["labels", "points"]}, "two columns of one shape for x and y, got labels: int64 ragged, points"),
    ({"points": "pts"}, "points: there is no column 'pts'"),
    ({"boxes": "boxes", "min_area": -1}, "min_area must be a number of pixels, got -1"),
    ({"boxes": "boxes", "min_visible": 1.5}, "min_visible must be from 0 to 1, got 1.5"),
    ({"boxes": "boxes", "box_format": "xy"}, "box_format must be one of"),
])
def test_options_that_cannot_be(arrays, options, message):
    ds = sf.from_arrays({**arrays, "half": arrays["mask"].astype(np.float16)})
    with pytest.raises(ValueError, match=message):
        ds.augment("image", [], **options)


@pytest.mark.parametrize("boxes, message", [
    ([0, 0, np.nan, 4], "column 'boxes': box 0 has the coordinate nan"),
    ([0, -np.inf, 1, 4], "column 'boxes': box 0 has the coordinate -inf")])
def test_boxes_that_cannot_be(boxes, message):
    with pytest.raises(ValueError, match=message):
        one([boxes])


def test_numbers_of_elements_must_agree():
    columns = {"image": np.zeros((1, 4, 4, 1), np.uint8), "a": ragged([[1]]), "b": ragged([[1, 2]])}
    ds = sf.from_arrays({**columns, "c": columns["b"], "d": columns["a"]})
    with pytest.raises(ValueError, match="column 'b' has 2 elements, but 'a' has 1"):
        rows(ds.augment("image", [], boxes=list("abcd")))
    with pytest.raises(ValueError, match="column 'b' has 2 elements, but 'a' has 1"):
        rows(ds.augment("image", [], points=("a", "b")))
