"""Raw samples of all formats: the values that the file stores, beside Pillow's and known ones."""

import struct

import image_program
import numpy as np
import pytest
from image_files import bmp_of, packed_row, png_chunk, png_of, tiff_of
from image_program import decode, error_of, make_image
from PIL import Image, ImageOps, TiffImagePlugin

SIZE = (30, 41)
ALPHA = Image.fromarray((np.arange(30 * 41) % 256).astype(np.uint8).reshape(SIZE))
DEPTH = (np.arange(30 * 41) * 53).astype(np.uint16).reshape(SIZE)


def raw_of(path, channels=1, size=SIZE, **job):
    return decode({"path": path, "size": size, "raw": True, "channels": channels, **job})


def raw_error_of(path, channels=1, size=SIZE, **job):
    return error_of(path=path, size=size, raw=True, channels=channels, **job)


def check(path, expected, **job):
    """In each type that can hold the values, and in planes."""
    expected = expected if expected.ndim == 3 else expected[..., None]
    job = {"channels": expected.shape[2], "size": expected.shape[:2], **job}
    for dtype in ["uint8"] * (expected.dtype == np.uint8) + ["uint16", "int32", "float32"]:
        np.testing.assert_array_equal(raw_of(path, dtype=dtype, **job), expected)
    planes = raw_of(path, dtype="uint16", layout="NCHW", **job)
    np.testing.assert_array_equal(planes, expected.transpose(2, 0, 1))


def image_of(mode, colors=200):
    image = make_image(SIZE[1], SIZE[0])
    if mode == "P":
        return image.quantize(colors)
    image = image.convert(mode)
    if mode in ("LA", "RGBA"):
        image.putalpha(ALPHA)
    return image


# ---- Palettes


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palette_of_png(tmp_path, bits):
    image = image_of("P", 2 ** bits)
    image.save(tmp_path / "a.png", bits=bits)
    check(tmp_path / "a.png", np.asarray(image))
    image.save(tmp_path / "a.png", bits=bits, transparency=bytes([0, 7]))
    check(tmp_path / "a.png", np.asarray(image))


@pytest.mark.parametrize("name", ["a.gif", "a.bmp", "a.tiff"])
def test_palette(tmp_path, name):
    image = image_of("P")
    image.save(tmp_path / name)
    check(tmp_path / name, np.asarray(Image.open(tmp_path / name)))


@pytest.mark.parametrize("transparency", [None, 2])
def test_part_of_a_gif(tmp_path, transparency):
    """Outside its first image, indices are 0, or the one that is transparent."""
    image = Image.new("P", (3, 2), 1)
    image.putpalette([9, 9, 9, 5, 5, 5, 7, 8, 7])
    image.putpixel((0, 0), 0)
    image.save(tmp_path / "a.gif", optimize=False, **({} if transparency is None else {"transparency": transparency}))
    indices = np.asarray(Image.open(tmp_path / "a.gif"))
    assert indices.any()
    data = bytearray((tmp_path / "a.gif").read_bytes())
    at = data.index(b"\x2c\0\0\0\0\x03\0\x02\0")
    data[6:10] = struct.pack("<HH", 5, 4)  # the canvas
    data[at + 1:at + 5] = struct.pack("<HH", 1, 2)  # the place of the image
    (tmp_path / "a.gif").write_bytes(data)
    expected = np.full((4, 5), transparency or 0, np.uint8)
    expected[2:, 1:4] = indices
    check(tmp_path / "a.gif", expected)
    with Image.open(tmp_path / "a.gif") as theirs:
        np.testing.assert_array_equal(np.asarray(theirs), expected)
        colors = np.asarray(theirs.convert("RGB"))
    np.testing.assert_array_equal(decode({"path": tmp_path / "a.gif", "size": (4, 5)}), colors)


def test_run_lengths_of_bmp(tmp_path):
    palette = bytes(range(16))
    rle8 = bytes([4, 1, 0, 3, 2, 3, 2, 0, 0, 0, 2, 3, 0, 2, 3, 1, 1, 2, 0, 1])
    (tmp_path / "a.bmp").write_bytes(bmp_of(8, 1, rle8, 7, 3, palette=palette))
    check(tmp_path / "a.bmp", np.array(
        [[0, 0, 0, 0, 0, 2, 0], [3, 3, 0, 0, 0, 0, 0], [1, 1, 1, 1, 2, 3, 2]], np.uint8))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_indices_of_bmp(tmp_path, bits):
    values = np.random.default_rng(bits).integers(0, 2 ** bits, (5, 13)).astype(np.uint8)
    rows = [packed_row(row, bits).ljust((13 * bits + 31) // 32 * 4, b"\0") for row in values]
    (tmp_path / "a.bmp").write_bytes(
        bmp_of(bits, 0, b"".join(rows[::-1]), 13, 5, palette=bytes(4 * 2 ** bits)))
    check(tmp_path / "a.bmp", values)


# ---- Depths


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("interlaced", [False, True])
def test_gray_of_png_is_not_scaled(tmp_path, bits, interlaced):
    values = (np.arange(19 * 13) * 137).reshape(13, 19) % 2 ** bits
    chunks = png_chunk(b"gAMA", struct.pack(">I", 30000)) + png_chunk(b"tRNS", struct.pack(">H", 1))
    (tmp_path / "a.png").write_bytes(png_of(values, bits, interlaced=interlaced, chunks=chunks))
    check(tmp_path / "a.png", values.astype(np.uint16 if bits == 16 else np.uint8))


@pytest.mark.parametrize("channels, color", [(2, 4), (3, 2), (4, 6)])
def test_16_bits_of_png(tmp_path, channels, color):
    values = (np.arange(7 * 5 * channels) * 1873 % 65536).astype(np.uint16).reshape(5, 7, channels)
    (tmp_path / "a.png").write_bytes(png_of(values, 16, color))
    check(tmp_path / "a.png", values)


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
def test_depth_maps(tmp_path, name):
    Image.fromarray(DEPTH).save(tmp_path / name)
    check(tmp_path / name, DEPTH)
    assert raw_error_of(tmp_path / name) == (
        f'{name[2:]} stores samples of 16 bits, which uint8 cannot hold (dtype="uint16" can)\n')


@pytest.mark.parametrize("bits, photometric", [(1, 0), (1, 1), (2, 1), (4, 3), (8, 0), (16, 1)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_depths_of_tiff(tmp_path, bits, photometric, order):
    """Also of white at 0: no value is inverted."""
    values = np.random.default_rng(bits).integers(0, 2 ** bits, (6, 13))
    data = b"".join(packed_row(row, bits) for row in values)
    if bits == 16:
        data = values.astype(order + "u2").tobytes()
    palette = [(320, 3, [0] * 3 * 2 ** bits)] if photometric == 3 else []
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, bits, data=data, size=(6, 13), order=order,
                                              photometric=photometric, tags=palette))
    check(tmp_path / "a.tiff", values.astype(np.uint16 if bits == 16 else np.uint8))


@pytest.mark.parametrize("bits, sample_format, message", [
    (32, 1, "tiff with samples of 32 bits"), (12, 1, "tiff with samples of 12 bits"),
    (32, 3, "tiff with floating-point samples of 32 bits"), (16, 2, "tiff with signed samples of 16 bits"),
])
def test_depths_that_cannot_be_read(tmp_path, bits, sample_format, message):
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, bits, sample_format=sample_format))
    assert raw_error_of(tmp_path / "a.tiff", size=(2, 4), dtype="int32") == message + "\n"


@pytest.mark.parametrize("masks, alpha, bits", [
    ((0x7c00, 0x3e0, 0x1f), 0, 16), ((0xf00, 0xf0, 0xf), 0xf000, 16),
    ((0xff0000, 0xff00, 0xff), 0xff000000, 32), ((0x3ff00000, 0xffc00, 0x3ff), 0, 32),
])
def test_masks_of_bmp(tmp_path, masks, alpha, bits):
    values = np.random.default_rng(bits).integers(0, 2 ** bits, (4, 6), dtype=np.uint64)
    rows = [row.astype(f"<u{bits // 8}").tobytes() for row in values]
    data = bytearray(bmp_of(bits, 3, b"".join(rows[::-1]), 6, 4, info_bytes=108))
    data[54:70] = struct.pack("<IIII", *masks, alpha)
    (tmp_path / "a.bmp").write_bytes(data)
    used = [*masks, alpha] if alpha else masks
    samples = np.stack([(values & mask) // (mask & -mask) for mask in used], -1)
    check(tmp_path / "a.bmp", samples.astype(np.uint16 if 0x3ff in masks else np.uint8))


def test_masks_of_more_than_16_bits(tmp_path):
    (tmp_path / "a.bmp").write_bytes(
        bmp_of(32, 3, bytes(4), 1, 1, masks=struct.pack("<III", 0xfffff000, 0xff0, 0xf)))
    assert raw_error_of(tmp_path / "a.bmp", 3, (1, 1), dtype="int32") == "bmp of 20 bits a channel\n"


# ---- Channels


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("name", ["a.png", "a.tiff", "a.bmp", "a.webp"])
def test_channels(tmp_path, name, mode):
    kinds = {"a.png": "1 L LA RGB RGBA", "a.tiff": "1 L LA RGB RGBA CMYK", "a.bmp": "1 L RGB",
             "a.webp": "RGB RGBA"}
    if mode not in kinds[name].split():
        pytest.skip("not in this format")
    image = image_of(mode)
    image.save(tmp_path / name, **({"lossless": True, "exact": True} if name == "a.webp" else {}))
    check(tmp_path / name, np.asarray(image).astype(np.uint8))
    channels = len(image.getbands())
    wrong = channels % 4 + 1
    plural = "" if channels == 1 else "s"
    assert raw_error_of(tmp_path / name, wrong) == (
        f"{name[2:]} stores {channels} channel{plural}, but channels is {wrong}\n")


def test_animated_webp(tmp_path):
    frames = [image_of("RGBA"), image_of("RGBA").rotate(90)]
    # libwebp clears the colors of what is wholly transparent.
    frames[0].putalpha(ALPHA.point(lambda level: level or 1))
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True,
                   exact=True)
    check(tmp_path / "a.webp", np.asarray(frames[0]))


@pytest.mark.parametrize("mode, channels", [("L", 1), ("RGB", 3), ("CMYK", 3)])
def test_jpeg(tmp_path, mode, channels):
    image_of(mode).save(tmp_path / "a.jpg", quality=90)
    np.testing.assert_array_equal(raw_of(tmp_path / "a.jpg", channels),
                                  decode({"path": tmp_path / "a.jpg", "size": SIZE,
                                          "channels": channels}))
    box = [5, 7, 20, 16]
    whole = raw_of(tmp_path / "a.jpg", channels)
    part = raw_of(tmp_path / "a.jpg", channels, size=(16, 20), box=box)
    np.testing.assert_array_equal(part, whole[7:23, 5:25])
    assert raw_error_of(tmp_path / "a.jpg", 4) == (
        f"jpeg stores {channels} channel{'' if channels == 1 else 's'}, but channels is 4\n")


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "group4",
                                         "jpeg"])
def test_compressions_of_tiff(tmp_path, compression):
    image = image_of("1" if compression == "group4" else "RGB")
    image.save(tmp_path / "a.tiff", compression=compression)
    check(tmp_path / "a.tiff", np.asarray(Image.open(tmp_path / "a.tiff")).astype(np.uint8))


def test_ycbcr_of_tiff(tmp_path):
    image = make_image(48, 32).convert("YCbCr")
    image.save(tmp_path / "a.tiff", compression="jpeg")
    wanted = np.asarray(Image.open(tmp_path / "a.tiff").convert("RGB")).astype(int)
    apart = np.abs(raw_of(tmp_path / "a.tiff", 3, size=(32, 48)) - wanted)
    assert apart.max() <= 2
    (tmp_path / "a.tiff").write_bytes(tiff_of(3, 8, photometric=6))
    assert raw_error_of(tmp_path / "a.tiff", 3, size=(2, 4)) == (
        "tiff with colors of kind 6 (PhotometricInterpretation)\n")


@pytest.mark.parametrize("bits", [1, 4, 8, 16])
@pytest.mark.parametrize("channels", [1, 3, 13])
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("tiled", [False, True])
def test_many_channels(tmp_path, bits, channels, planes, tiled):
    height, width = 37, 41
    values = np.random.default_rng(bits).integers(0, 2 ** bits, (height, width, channels))

    def bytes_of(block):
        """Of [height, width, channels]."""
        if bits == 16:
            return block.astype("<u2").tobytes()
        return b"".join(packed_row(row, bits) for row in block)

    parts = [values] if planes == 1 else [values[..., c:c + 1] for c in range(channels)]
    if tiled:
        parts = [np.pad(part, ((0, 11), (0, 7), (0, 0)))[y:y + 16, x:x + 48]
                 for part in parts for y in range(0, 48, 16) for x in [0]]
    blocks = [bytes_of(part) for part in parts]
    places = [8 + sum(len(b) for b in blocks[:i]) for i in range(len(blocks))]
    sizes = [len(b) for b in blocks]
    tags = [(284, 3, [planes])] + (
        [(322, 3, [48]), (323, 3, [16]), (324, 4, places), (325, 4, sizes)] if tiled else
        [(273, 4, places), (279, 4, sizes)])
    extra = [0] * (channels - 1) if channels != 3 else []
    (tmp_path / "a.tiff").write_bytes(tiff_of(
        channels, bits, extra=extra, data=b"".join(blocks), size=(height, width), tags=tags))
    check(tmp_path / "a.tiff", values.astype(np.uint16 if bits == 16 else np.uint8))


def test_huge_tiles(tmp_path):
    tags = [(322, 4, [16 << 14]), (323, 4, [16 << 14]), (324, 4, [8]), (325, 4, [8])]
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, 8, tags=tags))
    assert raw_error_of(tmp_path / "a.tiff", size=(2, 4)) == (
        "tiff of 4 x 2 pixels with tiles of 262144 x 262144, which are too large\n")


# ---- Geometry


def check_nearest(found, values, box, size):
    """Beside Pillow, which adds up rounding errors where a middle lies between two pixels."""
    x, y, width, height = box
    wanted = np.asarray(Image.fromarray(values).resize(
        size[::-1], Image.Resampling.NEAREST, (x, y, x + width, y + height)))
    column, row = ((2 * np.arange(n) + 1) * whole % (2 * n) != 0
                   for n, whole in [(size[1], width), (size[0], height)])
    clear = row[:, None] & column
    np.testing.assert_array_equal(found[clear], wanted[clear])
    rows, columns = (first + (2 * np.arange(n) + 1) * whole // (2 * n)
                     for n, first, whole in [(size[0], y, height), (size[1], x, width)])
    np.testing.assert_array_equal(found, values[rows[:, None], columns])


def test_nearest_is_pillows(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 65536, (90, 120)).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    jobs = []
    for _ in range(150):
        width, height = int(rng.integers(1, 121)), int(rng.integers(1, 91))
        box = [int(rng.integers(0, 121 - width)), int(rng.integers(0, 91 - height)), width, height]
        size = (int(rng.integers(1, 200)), int(rng.integers(1, 200)))
        jobs.append({"path": tmp_path / "a.png", "size": size, "box": box, "raw": True, "channels": 1,
                     "dtype": "uint16"})
    for job, found in zip(jobs, decode(*jobs)):
        check_nearest(found[..., 0], values, job["box"], job["size"])
    for job, found in zip(jobs, decode(*({**job, "flip": True} for job in jobs))):
        check_nearest(found[:, ::-1, 0], values, job["box"], job["size"])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.tiff"])
def test_orientation(tmp_path, name, orientation):
    source = make_image(40, 28)
    exif = Image.Exif()
    exif[0x0112] = orientation
    if name == "a.tiff":
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[0x0112] = orientation
        source.save(tmp_path / name, tiffinfo=tags)
    else:
        source.save(tmp_path / name, exif=exif, **({"lossless": True} if name == "a.webp" else {}))
    stored = raw_of(tmp_path / name, 3, size=(28, 40))
    if name != "a.jpg":
        np.testing.assert_array_equal(stored, np.asarray(source))
    image = Image.fromarray(stored)
    image.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(image))
    height, width = upright.shape[:2]
    for flip in (False, True):
        turned = raw_of(tmp_path / name, 3, size=(height, width), orient=True, flip=flip)
        np.testing.assert_array_equal(turned, upright[:, ::-1] if flip else upright)
        part = raw_of(tmp_path / name, 3, size=(9, 7), orient=True, flip=flip, box=[3, 5, 21, 18])
        rows, columns = 5 + np.arange(9) * 2 + 1, 3 + np.arange(7) * 3 + 1
        part = part[:, ::-1] if flip else part
        np.testing.assert_array_equal(part, upright[rows[:, None], columns])


# ---- Limits, options and damage


@pytest.mark.parametrize("options, message", [
    ({"channels": 0}, "channels of raw samples must be the number that the files store, 1 to 1024, got 0"),
    ({"channels": 1025}, "1 to 1024, got 1025"),
    ({"dtype": "float16"}, "dtype of raw samples must be uint8, uint16, int32 or float32, got float16"),
    ({"dtype": "int64"}, "dtype of raw samples must be uint8, uint16, int32 or float32, got int64"),
    ({"interpolation": "bilinear"}, "interpolation of raw samples must be nearest"),
    ({"dtype": "float32", "mean": [0.5]}, "mean: raw samples are not normalized"),
    ({"dtype": "float32", "std": [0.5]}, "std: raw samples are not normalized"),
])
def test_options(tmp_path, options, message):
    Image.fromarray(DEPTH).save(tmp_path / "a.png")
    assert message in raw_error_of(tmp_path / "a.png", **options)


def test_limits(tmp_path):
    image_of("RGBA").save(tmp_path / "a.png")
    pixels = SIZE[0] * SIZE[1]
    assert "(max_pixels)" in raw_error_of(tmp_path / "a.png", 4, max_pixels=pixels - 1)
    assert raw_of(tmp_path / "a.png", 4, max_pixels=pixels).any()
    data = np.zeros((2, 4, 5), "<u2").tobytes()
    (tmp_path / "a.tiff").write_bytes(tiff_of(5, 16, extra=[0] * 4, data=data))
    assert raw_error_of(tmp_path / "a.tiff", 5, size=(2, 4), dtype="uint16", max_pixels=8) == (
        "tiff of 4 x 2 pixels with 5 channels is too large: it takes 80 bytes, and the limit is 64 "
        "(8 for each of max_pixels)\n")


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.tiff", "a.bmp", "a.webp", "a.jpg"])
def test_damage(tmp_path, name):
    """What is cut off is an error of one line, and whatever is damaged ends the program in order."""
    image = image_of("RGB" if name in ("a.webp", "a.jpg") else "P")
    channels = len(image.getbands())
    image.save(tmp_path / name, **({"compression": "tiff_lzw"} if name == "a.tiff" else {}))
    whole = bytearray((tmp_path / name).read_bytes())
    for at in range(30, len(whole), len(whole) // 40):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:],
                        whole[:at] + b"\xff" * 8 + whole[at + 8:]):
            (tmp_path / "damaged").write_bytes(damaged)
            done = image_program.run({"path": tmp_path / "damaged", "size": SIZE, "raw": True,
                                      "channels": channels, "dtype": "uint16"})
            assert done.returncode in (0, 1)
            assert done.stderr.count(b"\n") == (done.returncode != 0), done.stderr
            # The directory of a TIFF stands at its end, and its palette is not needed.
            assert done.returncode == 1 or len(damaged) == len(whole) or (
                name == "a.tiff" and at > int.from_bytes(whole[4:8], "little"))
