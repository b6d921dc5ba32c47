"""Presets beside Pillow and, where it is installed, torchvision."""

import io
import sys

import numpy as np
import pytest
from harness import REPOSITORY
from PIL import Image, ImageOps

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
P = sf.presets

# Larger and smaller than what they become, wide and high, with sizes that are rounded.
SIZES = [(640, 480), (333, 500), (501, 375), (300, 200), (90, 120), (257, 256), (224, 224), (1300, 301)]


def image_of(i):
    width, height = SIZES[i // 2]
    rng = np.random.default_rng(i)
    y, x, c = np.mgrid[:height, :width, :3]
    wave = 128 + 70 * np.sin(x * 0.05 * (c + 1) + i) + 50 * np.cos(y * 0.11)
    # Edges between black and white, beside which cubic filters leave the range of the levels.
    wave = np.where((x + 2 * y) % 90 < 30, 300.0 * ((x // 7 + y // 9) % 2), wave)
    return Image.fromarray((wave + rng.integers(-20, 21, wave.shape)).clip(0, 255).astype(np.uint8))


def encoded(i):
    file = io.BytesIO()
    image_of(i).save(file, "jpeg" if i % 2 else "png", **({"quality": 92} if i % 2 else {}))
    return file.getvalue()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("presets") / "x@1"
    with sf.write(spec) as writer:
        for i in range(2 * len(SIZES)):
            writer.write({"image/encoded": encoded(i), "i": i})
    return sf.read(spec)


def close(ours, theirs, cubic=False):
    """Within a level. A cubic filter multiplies the differences of its first pass, which are rounded, by up to 1.2."""
    apart = np.abs(np.asarray(ours, float) - theirs)
    return apart.max() <= 1.001 or (cubic and (apart <= 1.001).mean() > 0.9999 and apart.max() <= 2.001)


def resized_and_cropped(image, resize, size, filter):
    """torchvision's Resize and CenterCrop."""
    width, height = image.size
    short, long = min(width, height), max(width, height)
    other = int(resize * long / short)
    image = image.resize((resize, other) if width <= height else (other, resize), filter)
    x, y = round((image.width - size) / 2), round((image.height - size) / 2)
    return np.asarray(image.crop((x, y, x + size, y + size)))


EVALS = {
    "resnet50_v1": (P.resnet50_v1, 256, 224, "BILINEAR"), "resnet50_v2": (P.resnet50_v2, 232, 224, "BILINEAR"),
    "vit_b_16": (P.vit_b_16, 256, 224, "BILINEAR"), "clip": (P.clip, 224, 224, "BICUBIC"),
    "other": (lambda **kw: P.classification_eval(96, 101, **kw), 101, 96, "BILINEAR"),
}


@pytest.mark.parametrize("name", EVALS)
def test_evaluations_are_pillows(dataset, name):
    preset, resize, size, filter = EVALS[name]
    for row in dataset.decode_image(**preset(dtype="uint8")):
        image = Image.open(io.BytesIO(encoded(row["i"])))
        wanted = resized_and_cropped(image, resize, size, Image.Resampling[filter])
        assert close(row["image"], wanted, filter == "BICUBIC"), row["i"]


def test_values_are_normalized(dataset):
    levels = dataset.decode_image(**P.clip(dtype="uint8"))
    for row, other in zip(dataset.decode_image(**P.clip()), levels, strict=True):
        assert row["image"].shape == (3, 224, 224) and row["image"].dtype == np.float32
        wanted = (other["image"] / 255 - P.CLIP_MEAN) / P.CLIP_STD
        assert np.allclose(row["image"], wanted.transpose(2, 0, 1), atol=1e-5)
    row = next(iter(dataset.decode_image(**P.vit_b_16(dtype="float16", layout="NHWC"))))
    assert row["image"].shape == (224, 224, 3) and row["image"].dtype == np.float16


@pytest.mark.parametrize("name, weights", [
    ("resnet50_v1", "ResNet50_Weights.IMAGENET1K_V1"), ("resnet50_v2", "ResNet50_Weights.IMAGENET1K_V2"),
    ("vit_b_16", "ViT_B_16_Weights.IMAGENET1K_V1")])
def test_evaluations_are_torchvisions(dataset, name, weights):
    models = pytest.importorskip("torchvision.models")
    which, version = weights.split(".")
    transforms = getattr(models, which)[version].transforms()
    std = 255 * np.array(P.IMAGENET_STD).reshape(3, 1, 1)
    for row in dataset.decode_image(**getattr(P, name)()):
        theirs = transforms(Image.open(io.BytesIO(encoded(row["i"]))).convert("RGB")).numpy()
        assert close(row["image"] * std, theirs * std), row["i"]


def test_clip_is_torchvisions(dataset):
    transforms = pytest.importorskip("torchvision.transforms")
    theirs = transforms.Compose([
        transforms.Resize(224, interpolation=transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224),
        transforms.ToTensor(), transforms.Normalize(P.CLIP_MEAN, P.CLIP_STD)])
    std = 255 * np.array(P.CLIP_STD).reshape(3, 1, 1)
    for row in dataset.decode_image(**P.clip()):
        wanted = theirs(Image.open(io.BytesIO(encoded(row["i"]))).convert("RGB")).numpy()
        assert close(row["image"] * std, wanted * std, cubic=True), row["i"]


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_turned_and_thin_images_are_cropped_as_pillow_does(tmp_path, kind):
    files = []
    for width, height in [(97, 61), (61, 97), (300, 41), (1, 1), (1, 300), (5000, 3)]:
        y, x, c = np.mgrid[:height, :width, :3]
        image = Image.fromarray((128 + 100 * np.sin(x * 0.1 * (c + 1) + y * 0.07)).astype(np.uint8))
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            files.append(io.BytesIO())
            image.save(files[-1], kind, exif=exif)
    with sf.write(tmp_path / "x@1") as writer:
        for i, file in enumerate(files):
            writer.write({"image/encoded": file.getvalue(), "i": i})
    for row in sf.read(tmp_path / "x@1").decode_image(**P.classification_eval(32, 37, dtype="uint8"), orient=True):
        image = ImageOps.exif_transpose(Image.open(files[row["i"]]))
        wanted = resized_and_cropped(image, 37, 32, Image.Resampling.BILINEAR)
        assert close(row["image"], wanted), (image.size, row["i"] % 8 + 1)


def test_training_takes_pillows_crops(dataset):
    corners = np.array([[0, 0], [1, 1]], np.float64)
    ds = dataset.parse().map(lambda row: {**row, "corners": corners})
    ds = ds.decode_image(**P.classification_train(dtype="uint8"), dct_scaling=False, points="corners", normalized=True)
    flips = 0
    for row in ds:
        image = Image.open(io.BytesIO(encoded(row["i"])))
        # Where the image's corners went says which part was taken.
        (x0, y0), (x1, y1) = row["corners"]
        flipped = x1 < x0
        flips += flipped
        if flipped:
            x0, x1 = 1 - x0, 1 - x1
        left, top = -x0 / (x1 - x0) * image.width, -y0 / (y1 - y0) * image.height
        width, height = image.width / (x1 - x0), image.height / (y1 - y0)
        box = [round(left), round(top), round(left + width), round(top + height)]
        assert np.allclose(box, [left, top, left + width, top + height], atol=1e-6)
        wanted = np.asarray(image.crop(box).resize((224, 224), Image.Resampling.BILINEAR))
        assert close(row["image"][:, ::-1] if flipped else row["image"], wanted), row["i"]
    assert 0 < flips < 2 * len(SIZES)


def test_training_normalizes_or_augments(dataset):
    assert P.classification_train(flip=0)["mean"] == P.IMAGENET_MEAN
    row = next(iter(dataset.decode_image(**P.classification_train(64))))
    assert row["image"].shape == (3, 64, 64) and row["image"].dtype == np.float32
    steps = P.classification_augment("ta_wide", random_erase=0.25)
    assert [repr(step) for step in steps] == [
        "TrivialAugmentWide(num_magnitude_bins=31, interpolation='bilinear', fill=[])",
        repr(sf.augment.RandomErasing(0.25, value=[124, 116, 104]))]
    assert [step.name for step in P.classification_augment("ra", ra_magnitude=7)] == ["RandAugment"]
    assert P.classification_augment() == []
    ds = dataset.decode_image(**P.classification_train(32, dtype="uint8")).augment("image", steps, seed=1)
    assert next(iter(ds))["image"].shape == (32, 32, 3)


@pytest.mark.parametrize("options, message", [
    ({"resize_shorter": 200}, "resize_shorter must be at least the result's width and height, 224 x 224, and at most "
                              "65535, got 200"),
    ({"resize_shorter": 70000}, "at most 65535, got 70000"),
    ({"crop": "none"}, "resize_shorter goes with a center crop")])
def test_options_that_cannot_be(dataset, options, message):
    with pytest.raises(ValueError, match=message):
        dataset.decode_image(**{**P.resnet50_v1(), **options})
