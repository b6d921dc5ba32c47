"""Writes a HEIC file of a size that HEVC cannot store, so that it is a crop of larger pixels, the pixels that
pillow-heif shows, and an AVIF file. Takes pillow-heif 1.8.1 and Pillow 13.0.0: python3 testdata/heif/make.py"""

import pathlib

import numpy as np
import pillow_heif
from PIL import Image

FOLDER = pathlib.Path(__file__).parent
pillow_heif.register_heif_opener()

# Slow waves, with a frame that shows which pixels are at the edge.
y, x, c = np.mgrid[:43, :61, :3]
pixels = 128 + 60 * np.sin(0.09 * x * (c + 1)) + 60 * np.cos(0.11 * y)
pixels[[0, -1]] = (230, 30, 30)
pixels[:, [0, -1]] = (30, 30, 230)
Image.fromarray(pixels.round().astype(np.uint8)).save(FOLDER / "odd.heic", quality=90, chroma=444)
Image.fromarray(np.asarray(Image.open(FOLDER / "odd.heic"))).save(FOLDER / "odd.png", optimize=True)

# With alpha, halved chroma and a rotation.
exif = Image.Exif()
exif[0x0112] = 6
Image.fromarray(np.dstack([pixels, 4 * y[..., 0]]).round().astype(np.uint8)).save(
    FOLDER / "turned.avif", quality=60, exif=exif, subsampling="4:2:0")
