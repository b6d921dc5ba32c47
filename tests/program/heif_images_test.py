"""AVIF beside Pillow, HEIC beside what libheif encoded, and what is said where libheif is missing."""

import ctypes
import json
import os
import resource
import subprocess

import numpy as np
import pytest
from harness import TESTDATA
from image_program import IMAGE, decode, error_of, make_image, run
from PIL import Image, ImageOps, features

if not features.check("avif"):
    pytest.skip("this Pillow does not write AVIF", allow_module_level=True)

HEIF = TESTDATA / "heif"


def write(path, size=(96, 64), mode="RGB", **options):
    image = make_image(*size).convert(mode)
    if mode == "RGBA":
        image.putalpha(Image.fromarray((np.arange(size[0] * size[1]) % 256).astype(np.uint8).reshape(
            size[1], size[0])))
    image.save(path, quality=90, **options)
    return np.asarray(Image.open(path).convert("RGBA"))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:0:0"])
def test_pixels_are_pillows(tmp_path, mode, subsampling):
    """Pillow's conversion of halved chroma works in 64ths, by which a few values differ by 2."""
    path = tmp_path / "a.avif"
    wanted = write(path, mode=mode, subsampling=subsampling).astype(int)
    apart = np.abs(decode({"path": path, "size": (64, 96)}) - wanted[..., :3])
    assert apart.max() <= (1 if subsampling in ("4:4:4", "4:0:0") else 2)
    assert (apart <= 1).mean() > 0.99
    channels = (1 if subsampling == "4:0:0" else 3) + (mode == "RGBA")
    raw = decode({"path": path, "size": (64, 96), "raw": True, "channels": channels})
    assert np.abs(raw[..., 0] - wanted[..., 0]).max() <= 2
    if mode == "RGBA":
        np.testing.assert_array_equal(raw[..., -1], wanted[..., 3])
    assert error_of(path=path, size=(64, 96), raw=True, channels=9).startswith(
        f"avif stores {channels} channel")


class HeifError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("subcode", ctypes.c_int), ("message", ctypes.c_char_p)]


def write_heic(path, image):
    """With libheif's own encoder, if it has one."""
    library = ctypes.CDLL("libheif.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_int

    def call(name, *arguments, result=HeifError):
        function = getattr(library, name)
        function.restype = result
        found = function(*arguments)
        if result is HeifError and found.code != 0:
            pytest.skip(f"libheif does not encode HEIC: {found.message}")
        return found

    context = pointer(call("heif_context_alloc", result=pointer))
    encoder, made, row_bytes = pointer(), pointer(), number()
    hevc, rgb, interleaved = 1, 1, 10
    call("heif_context_get_encoder_for_format", context, hevc, ctypes.byref(encoder))
    call("heif_encoder_set_lossy_quality", encoder, 95)
    call("heif_image_create", image.width, image.height, rgb, interleaved, ctypes.byref(made))
    call("heif_image_add_plane", made, interleaved, image.width, image.height, 24)
    plane = call("heif_image_get_plane", made, interleaved, ctypes.byref(row_bytes), result=pointer)
    for y, row in enumerate(np.asarray(image)):
        ctypes.memmove(plane + y * row_bytes.value, row.tobytes(), row.size)
    call("heif_context_encode_image", context, made, encoder, None, None)
    call("heif_context_write_to_file", context, str(path).encode())
    call("heif_image_release", made, result=None)
    call("heif_encoder_release", encoder, result=None)
    call("heif_context_free", context, result=None)


def test_heic(tmp_path):
    image = make_image(96, 64)
    write_heic(tmp_path / "a.heic", image)
    for raw in (False, True):
        found = decode({"path": tmp_path / "a.heic", "size": (64, 96), "channels": 3, "raw": raw})
        assert np.abs(found.astype(int) - np.asarray(image)).mean() < 8
    assert "heic stores 3 channels" in error_of(path=tmp_path / "a.heic", size=(64, 96), raw=True, channels=1)
    (tmp_path / "a.heic").write_bytes((tmp_path / "a.heic").read_bytes()[:-300])
    assert "is cut off or damaged" in error_of(path=tmp_path / "a.heic", size=(64, 96))


def shown_by_libheif(path):
    """RGB, cropped, turned and mirrored."""
    library = ctypes.CDLL("libheif.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_int

    def call(name, *arguments, result=HeifError):
        function = getattr(library, name)
        function.restype = result
        found = function(*arguments)
        assert result is not HeifError or found.code == 0, found.message
        return found

    context = pointer(call("heif_context_alloc", result=pointer))
    handle, image, row_bytes = pointer(), pointer(), number()
    rgb, interleaved, plane = 1, 10, 10
    call("heif_context_read_from_file", context, str(path).encode(), None)
    call("heif_context_get_primary_image_handle", context, ctypes.byref(handle))
    call("heif_decode_image", handle, ctypes.byref(image), rgb, interleaved, None)
    width = call("heif_image_get_width", image, plane, result=number)
    height = call("heif_image_get_height", image, plane, result=number)
    data = call("heif_image_get_plane_readonly", image, plane, ctypes.byref(row_bytes), result=pointer)
    pixels = np.frombuffer(ctypes.string_at(data, height * row_bytes.value), np.uint8)
    pixels = pixels.reshape(height, -1)[:, :3 * width].reshape(height, width, 3)
    call("heif_image_release", image, result=None)
    call("heif_image_handle_release", handle, result=None)
    call("heif_context_free", context, result=None)
    return pixels


# Width and height, and how far the middle is to the right and down, each a fraction.
PARTS = [(61, 1, 43, 1, 0, 1, 0, 1), (61, 1, 43, 1, -35, 2, -21, 2), (192, 2, 64, 1, 0, 1, 0, 1), (1, 1, 1, 1, 95, 2, 63, 2),
         (20, 1, 33, 1, 1, 2, 1, 3), (95, 2, 99, 4, 3, 7, -5, 3), (40, 1, 20, 1, 5, 1, -6, 1)]


@pytest.mark.parametrize("turned", [1, 6, 8, 2])
@pytest.mark.parametrize("part", PARTS)
def test_only_the_part_that_clap_names_is_shown(tmp_path, part, turned):
    path, profile, exif = tmp_path / "a.avif", bytes(range(28)), Image.Exif()
    exif[0x0112] = turned
    write(path, icc_profile=profile, exif=exif, subsampling="4:4:4")
    before, data, after = path.read_bytes().partition(b"colrprof" + profile)
    assert data
    path.write_bytes(before + b"clap" + b"".join(n.to_bytes(4, "big", signed=True) for n in part) + after)
    wanted = shown_by_libheif(path).astype(int)
    job = {"path": path, "size": wanted.shape[:2], "orient": True}
    assert np.abs(decode(job) - wanted).max() <= 2
    assert np.abs(decode({**job, "raw": True, "channels": 3}) - wanted).max() <= 2
    assert "hidden ones is too large: the limit is 6143" in error_of(**job, max_pixels=6143) or part[0] == 192


def exchanged(data, *kinds):
    """Exchanges two properties of the first item in the order in which they hold."""
    at = data.index(b"ipco") + 4
    end = at - 8 + int.from_bytes(data[at - 8:at - 4], "big")
    numbers = {}
    while at < end:
        numbers[data[at + 4:at + 8]] = len(numbers) + 1
        at += int.from_bytes(data[at:at + 4], "big")
    start = data.index(b"ipma") + 4 + 4 + 4 + 2  # versions, how many items, the item
    count = data[start]
    order = list(data[start + 1:start + 1 + count])
    first, second = (next(i for i, one in enumerate(order) if one & 0x7f == numbers[kind]) for kind in kinds)
    order[first], order[second] = order[second], order[first]
    return data[:start + 1] + bytes(order) + data[start + 1 + count:]


@pytest.mark.parametrize("turned, kind", [(6, b"irot"), (8, b"irot"), (3, b"irot"), (2, b"imir"), (4, b"imir")])
def test_a_part_may_be_one_of_the_turned_image(tmp_path, turned, kind):
    path, profile, exif = tmp_path / "a.avif", bytes(range(28)), Image.Exif()
    exif[0x0112] = turned
    write(path, icc_profile=profile, exif=exif, subsampling="4:4:4")
    part = b"clap" + b"".join(n.to_bytes(4, "big", signed=True) for n in (31, 1, 43, 1, -7, 2, 5, 2))
    path.write_bytes(exchanged(path.read_bytes().replace(b"colrprof" + profile, part), b"clap", kind))
    wanted = shown_by_libheif(path).astype(int)
    assert wanted.shape == (43, 31, 3)
    assert np.abs(decode({"path": path, "size": (43, 31), "orient": True}) - wanted).max() <= 2


def test_a_part_that_does_not_exist_is_refused(tmp_path):
    path, profile = tmp_path / "a.avif", bytes(range(28))
    write(path, icc_profile=profile)
    part = b"".join(n.to_bytes(4, "big") for n in (97, 1, 43, 1, 0, 1, 0, 1))
    path.write_bytes(path.read_bytes().replace(b"colrprof" + profile, b"clap" + part))
    assert error_of(path=path, size=(64, 96)) == (
        "AVIF is damaged: the part that it shows (clap) is not in its 96 x 64 pixels\n")


def test_heic_of_an_odd_size():
    """x265 stores 64 x 64 pixels, of which the file shows 61 x 43."""
    wanted = np.asarray(Image.open(HEIF / "odd.png")).astype(int)
    assert wanted.shape == (43, 61, 3)
    found = decode({"path": HEIF / "odd.heic", "size": (43, 61)})
    assert np.abs(found - wanted).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(tmp_path, orientation):
    path = tmp_path / "a.avif"
    exif = Image.Exif()
    exif[0x0112] = orientation
    write(path, exif=exif, subsampling="4:4:4")
    stored = decode({"path": path, "size": (64, 96)})
    image = Image.fromarray(stored)
    image.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(image))
    found = decode({"path": path, "size": upright.shape[:2], "orient": True})
    np.testing.assert_array_equal(found, upright)


@pytest.mark.parametrize("size", [(96, 64), (64, 64)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_alpha_keeps_its_place_in_turned_images(tmp_path, orientation, size):
    """libheif 1.15 turns alpha even where it does not turn the colors."""
    path, exif = tmp_path / "a.avif", Image.Exif()
    exif[0x0112] = orientation
    wanted = write(path, size=size, mode="RGBA", exif=exif, subsampling="4:4:4").astype(int)
    job = {"path": path, "size": wanted.shape[:2]}
    found = decode({**job, "raw": True, "channels": 4})
    np.testing.assert_array_equal(found[..., 3], wanted[..., 3])
    assert np.abs(found - wanted).max() <= 1
    np.testing.assert_array_equal(decode(job), found[..., :3])
    image = Image.fromarray(found)
    image.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(image))
    job = {"path": path, "size": upright.shape[:2], "orient": True}
    np.testing.assert_array_equal(decode({**job, "raw": True, "channels": 4}), upright)
    np.testing.assert_array_equal(decode(job), upright[..., :3])


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_premultiplied_colors_are_divided_by_their_own_alpha(tmp_path, orientation):
    path, exif = tmp_path / "a.avif", Image.Exif()
    exif[0x0112] = orientation
    image = make_image(96, 64).convert("RGBA")
    image.putalpha(Image.fromarray(np.linspace(100, 255, 96 * 64).astype(np.uint8).reshape(64, 96)))
    image.save(path, quality=95, subsampling="4:4:4", alpha_premultiplied=True, exif=exif)
    wanted = np.asarray(Image.open(path))[..., :3].astype(int)
    apart = np.abs(decode({"path": path, "size": (64, 96)}) - wanted)
    assert apart.mean() < 1 and apart.max() <= 4


def test_alpha_of_the_part_that_clap_names(tmp_path):
    path, profile = tmp_path / "a.avif", bytes(range(28))
    wanted = write(path, mode="RGBA", icc_profile=profile, subsampling="4:4:4").astype(int)
    part = b"clap" + b"".join(n.to_bytes(4, "big", signed=True) for n in (40, 1, 20, 1, 5, 1, -6, 1))
    path.write_bytes(path.read_bytes().replace(b"colrprof" + profile, part))
    found = decode({"path": path, "size": (20, 40), "raw": True, "channels": 4})
    assert np.abs(found - wanted[16:36, 33:73]).max() <= 1
    np.testing.assert_array_equal(decode({"path": path, "size": (20, 40)}), found[..., :3])


@pytest.mark.parametrize("orient", [False, True])
def test_alpha_beside_halved_chroma_in_a_turned_image(orient):
    image = Image.open(HEIF / "turned.avif")
    wanted = np.asarray(ImageOps.exif_transpose(image) if orient else image).astype(int)
    job = {"path": HEIF / "turned.avif", "size": wanted.shape[:2], "orient": orient}
    found = decode({**job, "raw": True, "channels": 4})
    np.testing.assert_array_equal(found[..., 3], wanted[..., 3])
    assert np.abs(found - wanted).mean() < 2
    np.testing.assert_array_equal(decode(job), found[..., :3])


def test_damage_and_limits(tmp_path):
    path = tmp_path / "a.avif"
    write(path)
    assert "avif of 96 x 64 pixels is too large: the limit is 6143" in error_of(
        path=path, size=(64, 96), max_pixels=6143)
    whole = bytearray(path.read_bytes())
    for at in range(8, len(whole), len(whole) // 60):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:],
                        whole[:at] + b"\xff" * 8 + whole[at + 8:]):
            path.write_bytes(damaged)
            done = run({"path": path, "size": (64, 96)})
            assert done.returncode in (0, 1), done
            assert done.stderr.count(b"\n") == (done.returncode != 0), done.stderr
            assert len(damaged) == len(whole) or done.returncode == 1


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("size", [(48, 32), (95, 64), (96, 63), (97, 64), (96, 65), (3000, 2000)])
def test_pixels_that_the_header_does_not_announce_are_refused(tmp_path, mode, size):
    path = tmp_path / "a.avif"
    write(path, mode=mode)
    said, other = (b"ispe" + bytes(4) + b"".join(n.to_bytes(4, "big") for n in s) for s in ((96, 64), size))
    whole = path.read_bytes()
    assert said in whole
    path.write_bytes(whole.replace(said, other))
    for raw in (False, True):
        error = error_of(path=path, size=(8, 8), raw=raw, channels=len(mode) if raw else 3)
        assert error in (f"avif has 96 x 64 pixels, but its header says {size[0]} x {size[1]}\n",
                         "avif with planes of different sizes or depths\n"), error


def test_a_lack_of_memory_is_no_damage(tmp_path):
    """With limits from what does not load libheif to what decodes the image."""
    path = tmp_path / "a.avif"
    make_image(60, 40).resize((6000, 4000)).save(path, quality=30, speed=10)
    job = json.dumps([{"path": str(path), "size": [8, 8]}])
    told = set()
    for size in range(100 << 20, 2 << 30, 20 << 20):
        done = subprocess.run([str(IMAGE), job], capture_output=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        assert b"damaged" not in done.stderr, (size, done.stderr)
        told.add(done.stderr.decode())
        if done.returncode == 0:
            break
    assert {"", "no memory for an avif of 6000 x 4000 pixels\n"} <= told


def test_without_the_library(tmp_path):
    write(tmp_path / "a.avif")
    (tmp_path / "libheif.so.1").write_bytes(b"")  # found first, and no library
    done = subprocess.run(
        [str(IMAGE), json.dumps([{"path": str(tmp_path / "a.avif"), "size": [64, 96]}])],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(b"avif: libheif is not installed (")
    assert b"apt-get install libheif1" in done.stderr and done.stderr.count(b"\n") == 1
