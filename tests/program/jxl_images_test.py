"""JPEG XL beside djxl and what cjxl was given, and what is said where libjxl is missing."""

import io
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from harness import TESTDATA, convert, run as shardfeed
from image_files import png_of
from image_program import IMAGE, decode, error_of, make_image, run
from PIL import Image, ImageOps

JXL = TESTDATA / "jxl"
if not shutil.which("cjxl"):
    pytest.skip("libjxl-tools is not installed; scripts/setup --tests installs it", allow_module_level=True)


def write(path, source, *options, suffix=".png"):
    """Writes a JPEG XL file of the bytes of another image."""
    path.with_suffix(suffix).write_bytes(source)
    subprocess.run(["cjxl", path.with_suffix(suffix), path, "--quiet", *options], check=True, capture_output=True)
    return path


def shown_by_djxl(path):
    """Upright, in the colors that the file says."""
    subprocess.run(["djxl", path, path.with_suffix(".djxl.png")], check=True, capture_output=True)
    return np.asarray(Image.open(path.with_suffix(".djxl.png")))


def pixels_of(mode, size=(96, 64)):
    image = make_image(*size).convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray((np.arange(size[0] * size[1]) % 256).astype(np.uint8).reshape(size[::-1])))
    return np.asarray(image)


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("options", [("-d", "0"), ("-d", "1"), ("-d", "2", "-p"), ("-d", "0", "-e", "1", "--container=1")])
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(96, 64), (61, 43), (300, 280), (1, 1)])
def test_pixels_are_djxls(tmp_path, mode, options, size):
    source = pixels_of(mode, size)
    path = write(tmp_path / "a.jxl", png(source), *options)
    job = {"path": path, "size": size[::-1]}
    wanted = shown_by_djxl(path)
    if options[1] == "0":
        np.testing.assert_array_equal(wanted, source)
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}[mode]
    wanted = wanted.reshape(*size[::-1], channels).astype(int)
    colors = wanted[..., :3] if channels > 2 else np.repeat(wanted[..., :1], 3, 2)
    assert np.abs(decode(job) - colors).max() <= (options[1] != "0")
    raw = decode({**job, "raw": True, "channels": channels})
    assert np.abs(raw - wanted).max() <= (options[1] != "0")
    gray = np.asarray(Image.fromarray(colors.astype(np.uint8)).convert("L")).astype(int)
    assert np.abs(decode({**job, "channels": 1})[..., 0] - gray).max() <= (options[1] != "0")
    other = channels % 4 + 1
    assert error_of(**job, raw=True, channels=other) == (
        f"jxl stores {channels} channel{'s' if channels > 1 else ''}, but channels is {other}\n")


@pytest.mark.parametrize("color, channels", [(0, 1), (2, 3)])
@pytest.mark.parametrize("bits", [10, 12, 16])
def test_deep_samples_are_as_stored(tmp_path, color, channels, bits):
    values = np.random.default_rng(1).integers(0, 1 << bits, (20, 31, channels))
    scaled = np.round(values * (65535 / ((1 << bits) - 1))).astype(int)
    path = write(tmp_path / "a.jxl", png_of(scaled, 16, color), "-d", "0", f"--override_bitdepth={bits}")
    job = {"path": path, "size": (20, 31)}
    raw = decode({**job, "raw": True, "channels": channels, "dtype": "uint16"})
    np.testing.assert_array_equal(raw, values)
    levels = decode(job).astype(int)
    assert np.abs(levels - (scaled >> 8)).max() <= (0 if bits == 16 else 1)
    assert error_of(**job, raw=True, channels=channels) == (
        f"jxl stores samples of {bits} bits, which uint8 cannot hold (dtype=\"uint16\" can)\n")


def test_files_made_before():
    """Also with parts whose depths differ, in boxes, of a JPEG's data."""
    def read(name, **options):
        return decode({"path": JXL / name, "size": (43, 61), **options})
    np.testing.assert_array_equal(read("rgba.jxl", raw=True, channels=4), np.asarray(Image.open(JXL / "rgba.png")))
    deep = np.asarray(Image.open(JXL / "gray16.png"))
    np.testing.assert_array_equal(read("gray16.jxl", raw=True, channels=1, dtype="uint16")[..., 0], deep)
    np.testing.assert_array_equal(read("gray16.jxl", channels=1)[..., 0], deep >> 8)
    for name in ("lossy.jxl", "progressive.jxl"):
        found = read(name)
        assert np.abs(found - np.asarray(Image.open(JXL / "rgba.png"))[..., :3].astype(int)).mean() < 4
    # The first frame.
    np.testing.assert_array_equal(read("animation.jxl"), np.asarray(Image.open(JXL / "animation.png")))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.fromarray(pixels_of("RGB")).save(out, "JPEG", exif=exif, quality=90)
    path = write(tmp_path / "a.jxl", out.getvalue(), suffix=".jpg")
    stored = decode({"path": path, "size": (64, 96)})
    image = Image.fromarray(stored)
    image.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(image))
    assert np.abs(shown_by_djxl(path).astype(int) - upright).max() <= 1
    found = decode({"path": path, "size": upright.shape[:2], "orient": True})
    np.testing.assert_array_equal(found, upright)


def with_alpha_described(path, source, described):
    """Writes RGBA of 96 x 64 pixels, in whose header `described`, 17 bits, stands for the one bit of a usual alpha. So the
    bytes that follow stay as they are. cjxl 0.7 does not write such files."""
    write(path, png(source), "-d", "0", "--container=0")
    bits = "".join(map(str, np.unpackbits(np.frombuffer(path.read_bytes(), np.uint8), bitorder="little")))
    at = 33
    # The size; samples of 8 bits; one extra channel, which is as usual.
    assert bits[16:at + 1] == "1" + "11100" + "001" + "0" + "0" + "0" + "00" + bits[30] + "10" + "1"
    assert len(described) == 17
    bits = bits[:at] + described + bits[at + 1:]
    path.write_bytes(np.packbits(np.array(list(bits), np.uint8), bitorder="little").tobytes())
    return path


def test_colors_multiplied_by_alpha_are_divided_by_it(tmp_path):
    source = pixels_of("RGBA")
    # Alpha, of integers of 8 bits, of the whole size, without a name, multiplied.
    path = with_alpha_described(tmp_path / "a.jxl", source, "0" + "00" + "0" + "11" + "111000" + "00" + "00" + "1")
    raw = decode({"path": path, "size": (64, 96), "raw": True, "channels": 4})
    np.testing.assert_array_equal(raw, source)
    colors, alpha = source[..., :3].astype(float), source[..., 3:]
    wanted = np.where(alpha == 0, 0, np.minimum(255, np.round(colors * 255 / np.maximum(alpha, 1))))
    assert np.abs(decode({"path": path, "size": (64, 96)}) - wanted).max() <= 1


def test_cmyk_is_refused(tmp_path):
    # Black, of integers of 8 bits, of half the size, without a name.
    path = with_alpha_described(tmp_path / "a.jxl", pixels_of("RGBA"),
                                "0" + "01" + "0100" + "0" + "00" + "11" + "000" + "00")
    for raw in (False, True):
        assert error_of(path=path, size=(64, 96), raw=raw) == (
            "jxl of CMYK cannot be decoded: convert it to JPEG or TIFF\n")


@pytest.mark.parametrize("space", ["RGB_D65_DCI_Rel_SRG", "RGB_D65_202_Rel_709", "RGB_D65_SRG_Rel_Lin"])
def test_only_xyb_becomes_srgb(tmp_path, space):
    source = pixels_of("RGB")
    lossless = write(tmp_path / "a.jxl", png(source), "-d", "0", "-x", f"color_space={space}")
    np.testing.assert_array_equal(decode({"path": lossless, "size": (64, 96)}), source)
    lossy = write(tmp_path / "b.jxl", png(source), "-d", "0.1", "-x", f"color_space={space}")
    subprocess.run(["djxl", lossy, tmp_path / "srgb.png", "--color_space=RGB_D65_SRG_Rel_SRG"], check=True,
                   capture_output=True)
    wanted = np.asarray(Image.open(tmp_path / "srgb.png")).astype(int)
    assert np.abs(wanted - source).max() > 20
    assert np.abs(decode({"path": lossy, "size": (64, 96)}) - wanted).max() <= 1


def test_kinds_that_cannot_be_decoded(tmp_path):
    values = np.linspace(0, 1, 4 * 3 * 3, dtype="<f4")
    path = write(tmp_path / "a.jxl", b"PF\n4 3\n-1.0\n" + values.tobytes(), "-d", "0", suffix=".pfm")
    wanted = "jxl with floating-point samples of 32 bits cannot be decoded\n"
    assert error_of(path=path, size=(3, 4)) == wanted
    assert error_of(path=path, size=(3, 4), raw=True, channels=3) == wanted


def test_damage_and_limits(tmp_path):
    path = tmp_path / "a.jxl"
    for name in ("lossy.jxl", "rgba.jxl", "turned.jxl", "animation.jxl"):
        whole = (JXL / name).read_bytes()
        path.write_bytes(whole)
        # More pixels are decoded if there are more than four channels.
        message = error_of(path=path, size=(43, 61), max_pixels=2622)
        assert "jxl of 61 x 43 pixels" in message and " is too large: the limit is 2622 in all (max_pixels)" in message
        for at in range(2, len(whole), len(whole) // 40):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:],
                            whole[:at] + b"\xff" * 8 + whole[at + 8:]):
                path.write_bytes(damaged)
                done = run({"path": path, "size": (43, 61)})
                assert done.returncode in (0, 1), done
                # libjxl prints what it finds, which must not come through.
                assert done.stderr.count(b"\n") == (done.returncode != 0), done.stderr
    path.write_bytes((JXL / "lossy.jxl").read_bytes()[:-100])
    size = path.stat().st_size
    assert error_of(path=path, size=(43, 61)) == f"jxl of {size} bytes is cut off or damaged\n"


def test_datasets_know_it(tmp_path):
    for name in ("lossy.jxl", "gray16.jxl", "rgba.jxl"):
        (tmp_path / "in/class").mkdir(parents=True, exist_ok=True)
        shutil.copy(JXL / name, tmp_path / "in/class" / name)
    convert("imagefolder", tmp_path / "in", tmp_path / "x@1")
    checked = shardfeed("verify", tmp_path / "x@1", "--level", "images", "--json")
    assert checked.status == 0, checked.err
    inspected = shardfeed("inspect", tmp_path / "x@1", "--statistics")
    assert b"jxl 3" in inspected.out.replace(b"3 jxl", b"jxl 3"), inspected.out.decode()


def without(tmp_path, stub):
    (tmp_path / "libjxl.so.0.7").write_bytes(stub)  # found first
    return subprocess.run(
        [str(IMAGE), json.dumps([{"path": str(JXL / "lossy.jxl"), "size": [43, 61]}])],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, timeout=60)


def test_without_the_library(tmp_path):
    done = without(tmp_path, b"")
    assert done.returncode == 1
    assert done.stderr.startswith(b"jxl: libjxl is not installed (")
    assert b"apt-get install libjxl0.7" in done.stderr and done.stderr.count(b"\n") == 1


def test_other_versions_of_the_library_are_refused(tmp_path):
    names = ["Create", "Destroy", "SubscribeEvents", "SetKeepOrientation", "SetRenderSpotcolors", "SetInput", "CloseInput",
             "ProcessInput", "GetBasicInfo", "GetExtraChannelInfo", "SetPreferredColorProfile", "ImageOutBufferSize",
             "SetImageOutBuffer", "ExtraChannelBufferSize", "SetExtraChannelBuffer"]
    for version, last in ((6999, names), (12000, names), (7000, names[:-1])):
        code = f"unsigned JxlDecoderVersion(void) {{ return {version}; }}\n"
        code += "".join(f"void JxlDecoder{name}(void) {{}}\n" for name in last)
        subprocess.run(["g++", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "library"], input=code.encode(),
                       check=True)
        done = without(tmp_path, (tmp_path / "library").read_bytes())
        assert done.stderr == b"jxl: libjxl is not one of the versions 0.7 to 0.11\n"
