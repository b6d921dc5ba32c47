"""What libraries (libpng, libtiff, libjpeg, libwebp, giflib, libheif, libjxl, protobuf) find wrong is part of our messages,
which name the file; they print nothing themselves."""

import io
import random

import harness
import numpy as np
import pytest
from harness import DEFECTS, TESTDATA, convert, run
from PIL import Image

FORMATS = {"png": {}, "tiff": {"compression": "tiff_lzw"}, "jpeg": {}, "webp": {}, "gif": {}, "bmp": {}, "avif": {},
           "heic": TESTDATA / "heif/odd.heic", "jxl": TESTDATA / "jxl/rgba.jxl"}


def image(kind):
    if kind in ("heic", "jxl"):  # which Pillow does not write
        return FORMATS[kind].read_bytes()
    pixels = np.random.default_rng(1).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, kind, **FORMATS[kind])
    return data.getvalue()


def only_ours(result):
    for line in result.err.splitlines():
        assert line.startswith("shardfeed: "), result.err


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_images(kind, tmp_path):
    sound = image(kind)
    draw = random.Random(kind)
    (tmp_path / "in").mkdir()
    for i in range(60):
        damaged = bytearray(sound)
        for _ in range(3):
            damaged[draw.randrange(16, len(sound))] = draw.randrange(256)
        (tmp_path / "in" / f"{i:02}").write_bytes(damaged if i % 10 else sound[:len(sound) // 2])
    convert("files", tmp_path / "in", tmp_path / "x@1")
    checked = run("verify", tmp_path / "x@1", "--level", "images")
    assert checked.status == DEFECTS
    only_ours(checked)
    assert f"{tmp_path}/x-00000-of-00001" in checked.out.decode()
    for policy in ("replace", "accept"):
        only_ours(run("bench", tmp_path / "x@1", "--image", "16", "--image-feature", "bytes", "--batch", "8",
                      "--on-damage", policy))
    failed = run("bench", tmp_path / "x@1", "--image", "16", "--image-feature", "bytes", "--batch", "8")
    assert failed.status == DEFECTS
    only_ours(failed)
    assert f"{tmp_path}/x-00000-of-00001" in failed.err and failed.err.count("\n") == 1
    only_ours(run("inspect", tmp_path / "x@1", "--records", "60", "--images", "kitty"))


def test_a_grid_that_cannot_be_written(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(image("bmp"))
    convert("files", tmp_path / "in", tmp_path / "x@1")
    (tmp_path / "grid.png").mkdir()
    result = run("bench", tmp_path / "x@1", "--image", "8", "--image-feature", "bytes", "--save-grid",
                 tmp_path / "grid.png")
    assert result.status != harness.DONE
    only_ours(result)
    assert str(tmp_path / "grid.png") in result.err


def test_names_that_are_not_utf8(tmp_path):
    # {feature: {"\\xff": [1]}} by hand: protobuf does not accept such a name.
    value = b"\x1a\x03\x0a\x01\x01"
    entry = b"\x0a\x01\xff\x12" + bytes([len(value)]) + value
    features = b"\x0a" + bytes([len(entry)]) + entry
    record = b"\x0a" + bytes([len(features)]) + features
    (tmp_path / "x.tfrecord").write_bytes(harness.frame(record))
    for command in (["cat"], ["cat", "--format", "text"], ["inspect"]):
        only_ours(run(*command, tmp_path / "x.tfrecord"))
    only_ours(run("convert", "tfrecord", tmp_path / "x.tfrecord", "--dry-run"))
