"""Writes small JPEG XL files of several kinds with cjxl 0.7.0 of Debian's libjxl-tools, and the pixels from which the
lossless ones were made. Takes Pillow 13.0.0: python3 testdata/jxl/make.py"""

import pathlib
import subprocess
import tempfile

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent


def picture(channels, shift=0.0):
    """Slow waves of 61 x 43 pixels."""
    y, x, c = np.mgrid[:43, :61, :channels]
    pixels = 128 + 60 * np.sin(0.09 * x * (c + 1) + shift) + 60 * np.cos(0.11 * y)
    return Image.fromarray(pixels.round().astype(np.uint8).squeeze())


with tempfile.TemporaryDirectory() as temporary:
    made = pathlib.Path(temporary)

    def write(name, source, *options):
        subprocess.run(["cjxl", made / source, FOLDER / name, "--quiet", *options], check=True)

    picture(3).save(made / "rgb.png")
    picture(4).save(FOLDER / "rgba.png")
    picture(4).save(made / "rgba.png")
    picture(1).save(made / "gray.png")
    deep = Image.fromarray(np.asarray(picture(1)).astype(np.uint16) * 257 // 3)
    deep.save(made / "gray16.png")
    deep.save(FOLDER / "gray16.png")
    picture(3).save(made / "animation.gif", save_all=True, append_images=[picture(3, 1.0), picture(3, 2.0)], duration=50)
    Image.open(made / "animation.gif").convert("RGB").save(FOLDER / "animation.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(3).save(made / "turned.jpg", exif=exif, quality=80)

    write("lossy.jxl", "rgb.png", "-d", "1")
    write("progressive.jxl", "rgb.png", "-d", "2", "-p")
    write("rgba.jxl", "rgba.png", "-d", "0", "--container=1")
    write("gray.jxl", "gray.png", "-d", "1")
    write("gray16.jxl", "gray16.png", "-d", "0")
    write("animation.jxl", "animation.gif", "-d", "0")
    write("turned.jxl", "turned.jpg")  # whose data are those of the JPEG
