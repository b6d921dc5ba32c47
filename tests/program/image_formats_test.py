"""All kinds of PNG, TIFF, BMP and WebP images beside Pillow: gray, alpha, depths, orientation."""

import struct

import harness
import image_program
import numpy as np
import pytest
from image_files import bmp_of, png_chunk, png_of, tiff_of
from image_program import decode, error_of, make_image
from PIL import Image, ImageOps, TiffImagePlugin


def pixels_of(path, channels=3, **job):
    width, height = Image.open(path).size
    if job.get("orient"):
        width, height = ImageOps.exif_transpose(Image.open(path)).size
    pixels = decode({"path": path, "size": (height, width), "channels": channels, **job})
    return pixels[..., 0] if channels == 1 else pixels


def check_beside_pillow(path):
    image = Image.open(path).convert("RGBA")
    colors = np.asarray(image)[..., :3]
    np.testing.assert_array_equal(pixels_of(path), colors)
    np.testing.assert_array_equal(pixels_of(path, channels=1),
                                  np.asarray(Image.fromarray(colors).convert("L")))


# ---- PNG


@pytest.mark.parametrize("chunk", [b"", png_chunk(b"gAMA", struct.pack(">I", 45455)),
                                   png_chunk(b"gAMA", struct.pack(">I", 100000)),
                                   png_chunk(b"sRGB", b"\0")])
def test_gray_of_png_depends_on_its_pixels_alone(tmp_path, chunk):
    make_image(40, 30).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[:33] + chunk + whole[33:])
    check_beside_pillow(tmp_path / "a.png")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("bits", [None, 1, 2, 4])
def test_kinds_of_png(tmp_path, mode, bits):
    if bits is not None and mode != "P":
        pytest.skip("bits are for palettes")
    image = make_image(41, 30)
    if mode == "P":
        image = image.quantize(2 ** (bits or 8))
    elif mode in ("LA", "RGBA"):
        image = image.convert(mode)
        image.putalpha(Image.fromarray((np.arange(41 * 30) % 256).astype(np.uint8).reshape(30, 41)))
    else:
        image = image.convert(mode)
    image.save(tmp_path / "a.png", **({"bits": bits} if bits else {}))
    check_beside_pillow(tmp_path / "a.png")


def test_transparent_colors_of_a_palette_stay(tmp_path):
    make_image(20, 20).quantize(16).save(tmp_path / "a.png", transparency=bytes(range(0, 256, 16)))
    check_beside_pillow(tmp_path / "a.png")


def test_interlaced_png(tmp_path):
    """Adam7 with 1 to 16 bits of gray; all rows have the same values."""
    for bits in (1, 2, 4, 8, 16):
        values = np.arange(19 * 13).reshape(13, 19) % 2 ** bits
        (tmp_path / "a.png").write_bytes(png_of(values, bits, interlaced=True))
        expected = values >> 8 if bits == 16 else values * 255 // (2 ** bits - 1)
        np.testing.assert_array_equal(pixels_of(tmp_path / "a.png", channels=1), expected)


# ---- TIFF


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_kinds_of_tiff(tmp_path, mode, compression):
    image = make_image(40, 30)
    image = image.quantize(200) if mode == "P" else image.convert(mode)
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.fromarray((np.arange(1200) % 256).astype(np.uint8).reshape(30, 40)))
    image.save(tmp_path / "a.tiff", compression=compression)
    if mode == "CMYK":
        expected = np.asarray(Image.open(tmp_path / "a.tiff").convert("RGB")).astype(int)
        assert np.abs(pixels_of(tmp_path / "a.tiff") - expected).max() <= 1
    else:
        check_beside_pillow(tmp_path / "a.tiff")


def test_alpha_of_tiff(tmp_path):
    levels = np.array([[200, 100, 50, 128], [255, 0, 7, 0], [10, 20, 30, 255], [60, 60, 60, 120]],
                      np.uint8)
    data = np.tile(levels, (2, 1)).tobytes()
    (tmp_path / "a.tiff").write_bytes(tiff_of(4, 8, extra=[2], data=data))
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.tiff")[0], levels[:, :3])
    # Multiplied by alpha in the file.
    (tmp_path / "b.tiff").write_bytes(tiff_of(4, 8, extra=[1], data=data))
    assert pixels_of(tmp_path / "b.tiff")[0].tolist() == [
        [255, 199, 99], [0, 0, 0], [10, 20, 30], [127, 127, 127]]
    check_beside_pillow(tmp_path / "b.tiff")


@pytest.mark.parametrize("bits, extra, photometric", [(16, [], 1), (16, [], 0), (8, [2], 1), (8, [0], 0), (16, [1], 1), (4, [], 1)])
@pytest.mark.parametrize("size", [(20, 20), (53, 37), (16, 16), (5, 3)])
def test_gray_tiles_of_tiff(tmp_path, bits, extra, photometric, size):
    """libtiff itself places those of 16 bits, or with alpha, wrongly."""
    height, width = size
    channels = 1 + len(extra)
    rows, columns = -(-height // 16), -(-width // 16)
    values = np.random.default_rng(1).integers(1 << bits, size=(16 * rows, 16 * columns, channels))
    tiles = values.reshape(rows, 16, columns, 16, channels).swapaxes(1, 2)
    if bits == 4:
        data = (tiles.reshape(-1, 2) @ [16, 1]).astype(np.uint8).tobytes()
    else:
        data = tiles.astype(np.uint16 if bits == 16 else np.uint8).tobytes()
    each = len(data) // (rows * columns)
    path = tmp_path / "a.tiff"
    path.write_bytes(tiff_of(channels, bits, extra, data=data, size=size, photometric=photometric, tags=[
        (322, 3, [16]), (323, 3, [16]), (324, 4, [8 + i * each for i in range(rows * columns)]),
        (325, 4, [each] * (rows * columns))]))
    levels = (values >> 8 if bits == 16 else values * 255 // ((1 << bits) - 1))[:height, :width]
    expected = levels[..., 0] ^ (0 if photometric else 255)
    if extra == [1]:
        expected = np.where(levels[..., 1] > 0, np.minimum(255, expected * 255 // np.maximum(levels[..., 1], 1)), 0)
    for channels in (1, 3):
        assert (decode({"path": path, "size": size, "channels": channels}) == expected[..., None]).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_cmyk_of_tiff(tmp_path, bits):
    inks = np.random.default_rng(2).integers(256, size=(9, 7, 4), dtype=np.uint8)
    data = (inks if bits == 8 else inks.astype(np.uint16) << 8).tobytes()
    (tmp_path / "a.tiff").write_bytes(tiff_of(4, bits, data=data, size=(9, 7), photometric=5))
    expected = np.asarray(Image.fromarray(inks, "CMYK").convert("RGB"))
    assert (pixels_of(tmp_path / "a.tiff") == expected).all()
    assert (pixels_of(tmp_path / "a.tiff", 1) == np.asarray(Image.fromarray(expected).convert("L"))).all()


@pytest.mark.parametrize("orientation", [0, 9])
def test_a_wrong_orientation_of_tiff_is_none(tmp_path, orientation):
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, 8, tags=[(274, 3, [orientation])]))
    assert pixels_of(tmp_path / "a.tiff", 1).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    raw = decode({"path": tmp_path / "a.tiff", "size": (2, 4), "channels": 1, "raw": True})
    assert raw[..., 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_depths_of_tiff(tmp_path):
    data = np.array([0, 255, 256, 32767, 32768, 65279, 65280, 65535] * 3, "<u2")
    (tmp_path / "a.tiff").write_bytes(tiff_of(3, 16, data=data.tobytes()))
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.tiff").reshape(-1), data >> 8)
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, 16, data=data[:8].tobytes()))
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.tiff", 1).reshape(-1), data[:8] >> 8)
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, 4, data=bytes([0x01, 0x2f, 0xf0, 0x8a])))
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.tiff", 1),
                                  np.array([[0, 1, 2, 15], [15, 0, 8, 10]]) * 17)
    (tmp_path / "a.tiff").write_bytes(tiff_of(1, 2, data=bytes([0b00011011, 0b11100100])))
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.tiff", 1),
                                  np.array([[0, 1, 2, 3], [3, 2, 1, 0]]) * 85)


def check_not_decoded(folder, name, image, message):
    """That decoding fails with the message, and that `verify` does not count it as damage."""
    (folder / name).write_bytes(image)
    assert message in error_of(path=folder / name, size=(2, 4))
    (folder / "in").mkdir()
    (folder / "in" / name).write_bytes(image)
    harness.succeed("convert", "images", folder / "in", folder / "out/x@1")
    report = harness.verify(folder / "out/x@1", "--level", "images")
    assert report["images"]["broken"] == 0
    (why, count), = report["images"]["not_decoded"].items()
    assert why.startswith(name.split(".")[1] + ": ") and message in why and count == 1


@pytest.mark.parametrize("bits, sample_format, message", [
    (32, 3, "tiff with floating-point samples of 32 bits"),
    (32, 1, "tiff with samples of 32 bits"),
    (12, 1, "tiff with samples of 12 bits"),
    (8, 2, "tiff with signed samples of 8 bits"),
    (16, 2, "tiff with signed samples of 16 bits"),
])
def test_depths_that_cannot_be_decoded_are_not_damage(tmp_path, bits, sample_format, message):
    check_not_decoded(tmp_path, "a.tiff", tiff_of(1, bits, sample_format=sample_format), message)


@pytest.mark.parametrize("compression", [9, 10, 7777, 32908, 33003, 33005, 34712, 34892, 50002, 52546])
def test_compressions_that_libtiff_lacks_are_not_damage(tmp_path, compression):
    tiff = tiff_of(3, 8, tags=[(259, 3, [compression])])
    check_not_decoded(tmp_path, "a.tiff", tiff, f"tiff with compression {compression}, which libtiff cannot decode")
    assert f"compression {compression}, which" in error_of(path=tmp_path / "a.tiff", size=(2, 4), raw=True, channels=3)


def test_no_compression_has_the_number_0(tmp_path):
    (tmp_path / "a.tiff").write_bytes(tiff_of(3, 8, tags=[(259, 3, [0])]))
    assert "is cut off or damaged: Compression scheme 0" in error_of(path=tmp_path / "a.tiff", size=(2, 4))


# ---- Orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tiff"])
def test_orientation(tmp_path, name, orientation):
    source = make_image(40, 28)
    if name == "a.tiff":
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[0x0112] = orientation
        source.save(tmp_path / name, tiffinfo=tags)
    else:
        exif = Image.Exif()
        exif[0x0112] = orientation
        source.save(tmp_path / name, exif=exif, **({"lossless": True} if name == "a.webp" else {}))
    stored = decode({"path": tmp_path / name, "size": (28, 40)})
    np.testing.assert_array_equal(stored, np.asarray(source))
    jpeg = Image.Exif()
    jpeg[0x0112] = orientation
    source.info["exif"] = jpeg.tobytes()
    source.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(source))
    height, width = upright.shape[:2]
    turned = decode({"path": tmp_path / name, "size": (height, width), "orient": True})
    np.testing.assert_array_equal(turned, upright)


def exif_of(orientation, order, kind):
    """A directory that has only the orientation, as SHORT (3) or LONG (4)."""
    value = struct.pack(order + "HH", orientation, 0) if kind == 3 else struct.pack(order + "I", orientation)
    return ((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHI", 8, 1, 0x0112, kind, 1) + value +
            b"\0\0\0\0")


@pytest.mark.parametrize("kind", [3, 4])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "exif.png", "a.webp", "a.tiff"])
def test_unusual_exif(tmp_path, name, order, kind):
    """LONG numbers, and eXIf chunks of PNG that begin as in JPEG, are applied as Pillow does."""
    source, exif = make_image(40, 28), exif_of(6, order, kind)
    path = tmp_path / name
    if name == "a.tiff":
        path.write_bytes(tiff_of(3, 8, data=source.tobytes(), size=(28, 40), order=order, tags=[(0x0112, kind, [6])]))
    elif name == "a.webp":
        source.save(path, lossless=True, exif=b"Exif\0\0" + exif)
    elif name == "a.jpg":
        source.save(path, exif=b"Exif\0\0" + exif)
    else:
        start = b"Exif\0\0" if name == "exif.png" else b""
        path.write_bytes(png_of(np.asarray(source), 8, color=2, chunks=png_chunk(b"eXIf", start + exif)))
    upright = ImageOps.exif_transpose(Image.open(path))
    assert upright.size == (28, 40)
    stored = decode({"path": path, "size": (28, 40)})
    found = decode({"path": path, "size": (40, 28), "orient": True})
    np.testing.assert_array_equal(found, np.rot90(stored, -1))
    if name != "a.jpg":
        np.testing.assert_array_equal(found, np.asarray(upright.convert("RGB")))


# ---- BMP


@pytest.mark.parametrize("bits, masks", [
    (16, None), (16, (0x7c00, 0x3e0, 0x1f)), (16, (0xf800, 0x7e0, 0x1f)), (16, (0xf00, 0xf0, 0xf)),
    (16, (0x1f, 0x3e0, 0x7c00)), (32, (0xff0000, 0xff00, 0xff)), (32, (0xff, 0xff00, 0xff0000)),
    (32, (0x3ff00000, 0xffc00, 0x3ff)), (32, (0xff000000, 0xff0000, 0xff00)), (16, (0xff00, 0, 0xff)),
])
@pytest.mark.parametrize("top_down", [False, True])
def test_masks_of_bmp(tmp_path, bits, masks, top_down):
    rng = np.random.default_rng(bits)
    width, height = 5, 4
    dtype = "<u2" if bits == 16 else "<u4"
    values = rng.integers(0, 2 ** bits, (height, width), dtype=np.uint64)
    values[0, 0], values[0, 1] = 2 ** bits - 1, 0
    row = (width * bits // 8 + 3) // 4 * 4
    rows = [line.astype(dtype).tobytes().ljust(row, b"\0") for line in values]
    (tmp_path / "a.bmp").write_bytes(bmp_of(
        bits, 0 if masks is None else 3, b"".join(rows if top_down else rows[::-1]), width,
        -height if top_down else height, b"" if masks is None else struct.pack("<III", *masks)))
    levels = []
    for mask in masks or (0x7c00, 0x3e0, 0x1f):
        low = mask & -mask
        levels.append((values & mask) // low * 255 // (mask // low) if mask else values * 0)
    pixels = decode({"path": tmp_path / "a.bmp", "size": (height, width)})
    np.testing.assert_array_equal(pixels, np.stack(levels, -1))
    assert pixels[0, 0].tolist() == [255 if level.any() else 0 for level in levels]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_kinds_of_bmp(tmp_path, mode):
    image = make_image(41, 30)
    image = image.quantize(100) if mode == "P" else image.convert(mode)
    image.save(tmp_path / "a.bmp")
    check_beside_pillow(tmp_path / "a.bmp")


def test_run_lengths_of_bmp(tmp_path):
    palette = bytes([0, 0, 0, 0, 10, 20, 30, 0, 90, 80, 70, 0, 255, 255, 255, 0])
    # A run, an absolute part with its padding, the end of the row; a step; the end.
    rle8 = bytes([4, 1, 0, 3, 2, 3, 2, 0, 0, 0, 2, 3, 0, 2, 3, 1, 1, 2, 0, 1])
    (tmp_path / "a.bmp").write_bytes(bmp_of(8, 1, rle8, 7, 3, palette=palette))
    colors = np.array([[0, 0, 0], [30, 20, 10], [70, 80, 90], [255, 255, 255]])
    indices = np.array([[0, 0, 0, 0, 0, 2, 0], [3, 3, 0, 0, 0, 0, 0], [1, 1, 1, 1, 2, 3, 2]])
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.bmp"), colors[indices])
    # Two colors in turn; 5 pixels in 3 bytes and one of padding.
    rle4 = bytes([5, 0x12, 0, 0, 0, 5, 0x12, 0x31, 0x20, 0, 0, 1])
    (tmp_path / "a.bmp").write_bytes(bmp_of(4, 2, rle4, 5, 2, palette=palette))
    indices = np.array([[1, 2, 3, 1, 2], [1, 2, 1, 2, 1]])
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.bmp"), colors[indices])
    for size in range(len(rle8) - 2):
        (tmp_path / "a.bmp").write_bytes(bmp_of(8, 1, rle8[:size], 7, 3, palette=palette))
        assert "bmp is cut off" in error_of(path=tmp_path / "a.bmp", size=(3, 7))


def test_bmp_that_cannot_be_decoded(tmp_path):
    (tmp_path / "a.bmp").write_bytes(bmp_of(24, 4, b"", 7, 3))
    assert error_of(path=tmp_path / "a.bmp", size=(3, 7)) == (
        "bmp of 24 bits with compression 4\n")
    (tmp_path / "a.bmp").write_bytes(
        bmp_of(16, 3, b"\0" * 60, 7, 3, masks=struct.pack("<III", 0x5000, 0x3e0, 0x1f)))
    assert error_of(path=tmp_path / "a.bmp", size=(3, 7)) == (
        "bmp is damaged: its mask 0x5000 has gaps\n")


@pytest.mark.parametrize("info_bytes, field, value", [
    (12, "bits", 111), (12, "planes", 9), (40, "bits", 111), (40, "bits", 53016), (40, "planes", 9), (40, "planes", 0),
    (40, "compression", 77), (64, "planes", 9), (64, "compression", 77)])
def test_header_values_that_no_bmp_has_are_damage(tmp_path, info_bytes, field, value):
    said = {"bits": 24, "planes": 1, "compression": 0, field: value}
    if info_bytes == 12:
        bmp = b"BM" + struct.pack("<IHHIIHHHH", 0, 0, 0, 26, 12, 4, 2, said["planes"], said["bits"]) + bytes(24)
    else:
        bmp = bytearray(bmp_of(24, 0, bytes(24), 4, 2, info_bytes=info_bytes))
        struct.pack_into("<HHI", bmp, 26, said["planes"], said["bits"], said["compression"])
    (tmp_path / "a.bmp").write_bytes(bmp)
    for raw in (False, True):
        assert error_of(path=tmp_path / "a.bmp", size=(2, 4), raw=raw, channels=3) == (
            f"bmp is damaged: its header says {said['bits']} bits, {said['planes']} planes and "
            f"compression {said['compression']}\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.bmp").write_bytes(bmp)
    harness.succeed("convert", "images", tmp_path / "in", tmp_path / "out/x@1")
    result = harness.run("verify", tmp_path / "out/x@1", "--level", "images", "--json")
    assert result.json["images"]["broken"] == 1 and result.json["images"]["not_decoded"] == {}


@pytest.mark.parametrize("bits, compression, info_bytes", [
    (0, 4, 40), (0, 5, 108), (64, 0, 40), (32, 11, 40), (8, 12, 40), (24, 4, 64), (1, 3, 64)])
def test_kinds_of_bmp_that_are_not_supported_are_not_damage(tmp_path, bits, compression, info_bytes):
    check_not_decoded(tmp_path, "a.bmp", bmp_of(bits, compression, bytes(24), 4, 2, info_bytes=info_bytes),
                      f"bmp of {bits} bits with compression {compression}")


# ---- WebP


def test_animated_webp(tmp_path):
    frames = [make_image(30, 20, seed) for seed in range(3)]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.webp"), np.asarray(frames[0]))
    check_beside_pillow(tmp_path / "a.webp")


def test_alpha_of_webp(tmp_path):
    image = make_image(40, 30).convert("RGBA")
    image.putalpha(Image.fromarray((np.arange(1200) % 256).astype(np.uint8).reshape(30, 40)))
    image.save(tmp_path / "a.webp", lossless=True, exact=True)
    check_beside_pillow(tmp_path / "a.webp")


# ---- Damage


@pytest.mark.parametrize("name", ["a.png", "a.tiff", "a.bmp", "a.webp"])
def test_libraries_print_nothing(tmp_path, name):
    """Their messages are part of shardfeed's error, which is one line."""
    make_image(64, 48).save(tmp_path / name, **({"compression": "tiff_lzw"} if name == "a.tiff" else {}))
    whole = bytearray((tmp_path / name).read_bytes())
    for at in range(30, len(whole), len(whole) // 40):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:],
                        whole[:at] + b"\xff" * 8 + whole[at + 8:]):
            (tmp_path / "damaged").write_bytes(damaged)
            done = image_program.run({"path": tmp_path / "damaged", "size": (48, 64)})
            assert done.stderr.count(b"\n") == (done.returncode != 0), done.stderr
