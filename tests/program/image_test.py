"""Decoding, cropping and resizing of images beside Pillow and TensorFlow; read --image."""

import json
import os
import random
import re
import resource
import struct

import numpy as np
import pytest
import tensorflow as tf
from harness import DEFECTS, DONE, IO_FAILED, USAGE, convert, fail, run, succeed
from image_program import decode, error_of, make_image
from PIL import Image

def test_crops_are_within_one_level_of_pillows(tmp_path):
    rng = random.Random(1)
    make_image(500, 375).save(tmp_path / "a.bmp")
    whole = Image.open(tmp_path / "a.bmp")
    jobs, expected = [], []
    resamplings = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    for i in range(1000):
        width, height = rng.randint(8, 500), rng.randint(8, 375)
        x, y = rng.randint(0, 500 - width), rng.randint(0, 375 - height)
        flip = rng.random() < 0.5
        interpolation = rng.choice(list(resamplings))
        size = rng.choice([(64, 64), (48, 80)])
        jobs.append({"path": tmp_path / "a.bmp", "size": size, "box": [x, y, width, height],
                     "flip": flip, "interpolation": interpolation})
        crop = whole.crop((x, y, x + width, y + height)).resize(
            size[::-1], resamplings[interpolation])
        pixels = np.asarray(crop)
        expected.append(pixels[:, ::-1] if flip else pixels)
    for begin in range(0, 1000, 100):
        for mine, theirs in zip(decode(*jobs[begin:begin + 100]), expected[begin:begin + 100]):
            apart = np.abs(mine.astype(int) - theirs)
            assert (apart <= 1).mean() >= 0.999
            assert apart.max() <= 2


@pytest.mark.parametrize("name, options", [
    ("a.png", {}), ("a.bmp", {}), ("a.tiff", {}), ("a.webp", {"lossless": True}),
    ("a.tiff", {"compression": "tiff_lzw"}), ("a.gif", {}), ("a.jpg", {"quality": 95}),
    ("a.jpg", {"progressive": True}), ("a.jpg", {"subsampling": 0}),
])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_formats(tmp_path, name, options, mode):
    source = make_image(101, 67).convert(mode)
    source.save(tmp_path / name, **options)
    expected = Image.open(tmp_path / name)
    color = decode({"path": tmp_path / name, "size": (67, 101)})
    if name.endswith(".jpg"):
        # The reference's chroma upsampling is libjpeg's, too.
        assert np.abs(color.astype(int) - np.asarray(expected.convert("RGB"))).max() <= 1
    else:
        np.testing.assert_array_equal(color, np.asarray(expected.convert("RGB")))
    gray = decode({"path": tmp_path / name, "size": (67, 101), "channels": 1})
    assert np.abs(gray[..., 0].astype(int) - np.asarray(expected.convert("RGB").convert("L"))
                  ).max() <= 2


def test_interlaced_gif_with_an_offset_and_transparency(tmp_path):
    source = make_image(40, 33).quantize(16)
    source.save(tmp_path / "a.gif", interlace=1)
    np.testing.assert_array_equal(
        decode({"path": tmp_path / "a.gif", "size": (33, 40)}),
        np.asarray(Image.open(tmp_path / "a.gif").convert("RGB")))


def test_first_of_an_animation(tmp_path):
    frames = [make_image(30, 20, seed) for seed in range(3)]
    for name in ["a.gif", "a.tiff", "a.png"]:
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        np.testing.assert_array_equal(
            decode({"path": tmp_path / name, "size": (20, 30)}),
            np.asarray(Image.open(tmp_path / name).convert("RGB")))


def test_16_bit_png_and_palette_and_alpha(tmp_path):
    values = (np.arange(50 * 40, dtype=np.uint16) * 32).reshape(40, 50)
    Image.fromarray(values).save(tmp_path / "deep.png")
    deep = decode({"path": tmp_path / "deep.png", "size": (40, 50), "channels": 1})
    np.testing.assert_array_equal(deep[..., 0], values >> 8)
    make_image(50, 40).quantize(64).save(tmp_path / "palette.png")
    rgba = make_image(50, 40).convert("RGBA")
    rgba.putalpha(Image.fromarray((np.arange(2000).reshape(40, 50) % 256).astype(np.uint8)))
    rgba.save(tmp_path / "alpha.png")
    for name in ["palette.png", "alpha.png"]:
        np.testing.assert_array_equal(
            decode({"path": tmp_path / name, "size": (40, 50)}),
            np.asarray(Image.open(tmp_path / name).convert("RGB")))


def test_cmyk(tmp_path):
    source = make_image(64, 48).convert("CMYK")
    source.save(tmp_path / "a.jpg", quality=98)
    mine = decode({"path": tmp_path / "a.jpg", "size": (48, 64)}).astype(int)
    assert np.abs(mine - np.asarray(Image.open(tmp_path / "a.jpg").convert("RGB"))).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_orientation(tmp_path, orientation, dtype):
    from PIL import ImageOps
    source = make_image(80, 56)
    exif = Image.Exif()
    exif[0x0112] = orientation
    source.save(tmp_path / "a.jpg", quality=95, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(tmp_path / "a.jpg"))
    width, height = upright.size
    box = (7, 5, 40, 33)
    crop = np.asarray(upright)[5:38, 7:47]
    for flip in [False, True]:
        job = {"path": tmp_path / "a.jpg", "size": (33, 40), "box": box, "orient": True,
               "flip": flip, "dtype": dtype}
        mine = decode(job) * (255 if dtype == "float32" else 1)
        expected = crop[:, ::-1] if flip else crop
        assert np.abs(mine.astype(float) - expected).max() <= 1.01
    plain = decode({"path": tmp_path / "a.jpg", "size": (56, 80)})
    assert np.abs(plain.astype(int) - np.asarray(Image.open(tmp_path / "a.jpg"))).max() <= 1


def test_large_jpegs_are_scaled_in_their_transform(tmp_path):
    # Smooth, so that the method of scaling hardly matters.
    y, x, c = np.mgrid[:1200, :1600, :3]
    source = Image.fromarray(
        (128 + 60 * np.sin(x / 90 + c) + 60 * np.cos(y / 70)).clip(0, 255).astype(np.uint8))
    source.save(tmp_path / "a.jpg", quality=95)
    for box in [(0, 0, 1600, 1200), (101, 77, 903, 955), (3, 1, 448, 448)]:
        crop = source.crop((box[0], box[1], box[0] + box[2], box[1] + box[3]))
        expected = np.asarray(crop.resize((112, 112), Image.Resampling.BILINEAR)).astype(int)
        mine = decode({"path": tmp_path / "a.jpg", "size": (112, 112), "box": box})
        apart = np.abs(mine - expected)
        assert apart.mean() < 1.5 and apart.max() < 12


def test_layouts_and_normalization(tmp_path):
    make_image(90, 70).save(tmp_path / "a.png")
    base = {"path": tmp_path / "a.png", "size": (32, 48)}
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    levels = decode(base)
    np.testing.assert_array_equal(decode({**base, "layout": "NCHW"}), levels.transpose(2, 0, 1))
    exact = (levels / 255 - mean) / std
    single = decode({**base, "dtype": "float32", "mean": mean, "std": std})
    np.testing.assert_allclose(single, exact, atol=1e-6)
    half = decode({**base, "dtype": "float16", "layout": "NCHW", "mean": mean, "std": std})
    step = np.spacing(np.abs(exact.astype(np.float16)).transpose(2, 0, 1))
    assert (np.abs(half.astype(float) - exact.transpose(2, 0, 1)) <= step.astype(float)).all()
    np.testing.assert_allclose(decode({**base, "dtype": "float32"}), levels / 255, atol=1e-7)


def test_as_tensorflow_decodes(tmp_path):
    """decode_and_crop_jpeg with the accurate transform, and its plain bilinear resize."""
    make_image(500, 375).save(tmp_path / "a.jpg", quality=90)
    x, y, width, height = 33, 21, 301, 287
    cropped = tf.io.decode_and_crop_jpeg((tmp_path / "a.jpg").read_bytes(), [y, x, height, width],
                                         channels=3, dct_method="INTEGER_ACCURATE")
    expected = tf.image.resize(cropped, [224, 224], method="bilinear", antialias=False).numpy()
    mine = decode({"path": tmp_path / "a.jpg", "size": (224, 224), "box": (x, y, width, height),
                   "antialias": False})
    apart = np.abs(mine - expected)
    # At the crop's edges TensorFlow upsamples chroma without the pixels beyond them.
    assert np.quantile(apart, 0.999) <= 1.5 and apart.mean() < 0.3


# ---- What is not an image


def chunk(kind, data):
    import zlib
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.bmp", "a.webp", "a.tiff"])
def test_cut_anywhere(tmp_path, name):
    make_image(64, 48).save(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for size in [0, 1, 3, 10, 25, len(whole) // 3, len(whole) * 2 // 3]:
        (tmp_path / "cut").write_bytes(whole[:size])
        message = error_of(path=tmp_path / "cut", size=(32, 32))
        assert message.strip() and "Traceback" not in message


def test_huge_headers_are_refused(tmp_path):
    header = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 65535, 65535, 8, 2, 0, 0, 0))
    (tmp_path / "huge.png").write_bytes(header)
    message = error_of(path=tmp_path / "huge.png", size=(32, 32))
    assert message == "png of 65535 x 65535 pixels is too large: the limit is 134217728 in all (max_pixels)\n"


def test_accepting_damage(tmp_path):
    make_image(160, 120).save(tmp_path / "a.jpg", quality=90)
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    assert "cut off" in error_of(path=tmp_path / "cut.jpg", size=(120, 160))
    accepted = decode({"path": tmp_path / "cut.jpg", "size": (120, 160), "accept_damaged": True})
    expected = decode({"path": tmp_path / "a.jpg", "size": (120, 160)})
    np.testing.assert_array_equal(accepted[:48], expected[:48])


@pytest.mark.parametrize("job, message", [
    ({"size": (0, 5)}, "width and height must be 1 to 65535 pixels, got 5 x 0"),
    ({"size": (5, 5), "channels": 2}, "channels must be 3 (RGB) or 1 (gray), got 2"),
    ({"size": (5, 5), "mean": [0, 0, 0]}, "mean: uint8 pixels cannot be normalized"),
    ({"size": (5, 5), "dtype": "float32", "mean": [0]}, "mean has 1 values, expected one for each of 3 channels"),
    ({"size": (5, 5), "dtype": "float32", "std": [1, 0, 1]}, "std must be finite and positive, got 0"),
])
def test_wrong_options(tmp_path, job, message):
    make_image(8, 8).save(tmp_path / "a.png")
    assert message in error_of(path=tmp_path / "a.png", **job)


# ---- The command


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """40 images of two classes."""
    folder = tmp_path_factory.mktemp("images")
    for i in range(40):
        path = folder / "in" / "ab"[i % 2]
        path.mkdir(parents=True, exist_ok=True)
        make_image(90 + i, 70, seed=i).save(path / f"{i:02}.jpg")
    convert("imagefolder", folder / "in", folder / "out@3")
    return folder / "out@3"


def test_read_image(dataset, tmp_path):
    grid = tmp_path / "grid.png"
    out = succeed("bench", dataset, "--image", 32, "--batch", 16, "--shuffle", 1, "--json",
                  "--save-grid", grid).json
    assert out["records"] == 40 and out["batches"] == 3
    assert "image: uint8 [32, 32, 3]" in out["columns"]
    with Image.open(grid) as sheet:
        assert sheet.size == (4 * 34 - 2, 4 * 34 - 2)
    text = succeed("bench", dataset, "--image", 32, "--center", "--no-antialias", "--batch",
                   40).out.decode()
    assert "crop=center(0.875)" in text and "antialias=false" in text


def test_read_image_is_the_same_for_any_number_of_threads(dataset, tmp_path):
    sheets = []
    for threads in [1, 3]:
        path = tmp_path / f"{threads}.png"
        succeed("bench", dataset, "--image", 32, "--batch", 40, "--threads", threads, "--take", 1,
                "--save-grid", path, "-q")
        sheets.append(path.read_bytes())
    assert sheets[0] == sheets[1]


def test_read_image_names_what_is_broken(tmp_path):
    for i in range(6):
        (tmp_path / "in" / "a").mkdir(parents=True, exist_ok=True)
        make_image(160, 120, seed=i).save(tmp_path / "in" / "a" / f"{i}.jpg")
    convert("imagefolder", tmp_path / "in", tmp_path / "good@1", "--no-shuffle")
    examples = [tf.train.Example.FromString(record.numpy())
                for record in tf.data.TFRecordDataset(str(tmp_path / "good-00000-of-00001"))]
    encoded = examples[2].features.feature["image/encoded"].bytes_list.value
    encoded[0] = encoded[0][: len(encoded[0]) // 2]
    broken = str(tmp_path / "broken-00000-of-00001")
    with tf.io.TFRecordWriter(broken) as writer:
        for example in examples:
            writer.write(example.SerializeToString())
    message = fail(DEFECTS, "bench", broken, "--image", 32, "--batch", 6, "-q")
    assert "broken-00000-of-00001" in message and "record 2 at byte" in message
    assert "image/encoded" in message and "cut off" in message
    for policy in ["replace", "zero"]:
        result = run("bench", broken, "--image", 32, "--batch", 6, "--on-damage", policy, "--json")
        assert result.status == DEFECTS, result.err
        out = result.json
        assert out["records"] == 6
        assert sum(stage["invalid_rows"] for stage in out["stages"]) == 1
    out = succeed("bench", broken, "--image", 32, "--batch", 6, "--on-damage", "accept",
                  "--json").json
    assert sum(stage["invalid_rows"] for stage in out["stages"]) == 0


def test_read_image_names_what_is_too_large(tmp_path):
    """For verify it is no damage; it ends bench, or is filled in, as do images of a kind that cannot be decoded."""
    (tmp_path / "in").mkdir()
    make_image(40, 30).save(tmp_path / "in" / "a.png")
    whole = (tmp_path / "in" / "a.png").read_bytes()
    size = struct.pack(">IIBBBBB", 40000, 30000, 8, 2, 0, 0, 0)
    (tmp_path / "in" / "b.png").write_bytes(whole[:8] + chunk(b"IHDR", size) + whole[33:])
    (tmp_path / "in" / "c.png").write_bytes(whole)
    convert("images", tmp_path / "in", tmp_path / "out@1", "--no-shuffle")
    message = fail(DEFECTS, "bench", tmp_path / "out@1", "--image", 32, "-q")
    assert "out-00000-of-00001: record 1 at byte" in message
    assert message.endswith("feature 'image/encoded': png of 40000 x 30000 pixels is too large: the limit is "
                            "134217728 in all (max_pixels)")
    for policy in ["replace", "zero"]:
        result = run("bench", tmp_path / "out@1", "--image", 32, "--on-damage", policy, "--json")
        assert result.status == DEFECTS, result.err
        assert sum(stage["invalid_rows"] for stage in result.json["stages"]) == 1
    images = succeed("verify", tmp_path / "out@1", "--level", "images", "--json").json["images"]
    assert images == {"sound": 2, "broken": 0, "not_decoded": {"png: more than 134217728 pixels": 1}}
    text = succeed("verify", tmp_path / "out@1", "--level", "images").out.decode()
    assert "2 images decoded, 0 of them broken\n1 image not decoded: png: more than 134217728 pixels\n" in text


def test_verify_without_memory_for_an_image(tmp_path):
    """The system is to blame: that image is not one that is left out."""
    (tmp_path / "in").mkdir()
    make_image(40, 30).save(tmp_path / "in" / "a.png")
    Image.new("L", (10000, 10000)).save(tmp_path / "in" / "b.png")
    convert("images", tmp_path / "in", tmp_path / "out@1", "--no-shuffle")

    def verify(level, size):
        return run("verify", tmp_path / "out@1", "--level", level, "-j", 1,
                   preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))

    size = 32 << 20
    while verify("examples", size).status != DONE:
        size += 8 << 20
    result = verify("images", size + (100 << 20))
    assert result.status == IO_FAILED, result
    assert re.search(r"^unreadable: .*/out-00000-of-00001: record 1 at byte \d+: image/encoded: no memory for a png of "
                     "10000 x 10000 pixels$", result.out.decode(), re.M), result
    assert "all intact" not in result.out.decode()


def test_read_image_wrong_use(dataset):
    assert "--image SIZE" in fail(USAGE, "bench", dataset, "--center")
    assert "no column 'photo'" in fail(USAGE, "bench", dataset, "--image", 32, "--image-feature",
                                         "photo")
