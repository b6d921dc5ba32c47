"""Images on an emulated processor: every value has the same bits as on this one. Run by scripts/test --aarch64.

SHARDFEED_IMAGE is tests/decode/image for this processor, and SHARDFEED_EMULATED a command that runs the one for the other.
"""

import json
import os
import random
import shlex
import subprocess

import image_program
import pytest
from harness import TESTDATA
from PIL import Image

EMULATED = shlex.split(os.environ.get("SHARDFEED_EMULATED", ""))
pytestmark = pytest.mark.skipif(not EMULATED, reason="scripts/test --aarch64 runs it")


def write_images(folder):
    """One of each format, and JPEGs of every subsampling."""
    image = image_program.make_image(397, 271)
    for name, options in [("a.png", {}), ("a.webp", {"quality": 80}), ("lossless.webp", {"lossless": True}), ("a.bmp", {}),
                          ("a.gif", {}), ("a.tiff", {}), ("a444.jpg", {"subsampling": 0, "quality": 95}),
                          ("a422.jpg", {"subsampling": 1}), ("a420.jpg", {"subsampling": 2, "quality": 60}),
                          ("progressive.jpg", {"progressive": True})]:
        image.save(folder / name, **options)
    image.convert("L").save(folder / "gray.jpg")
    image.convert("LA").save(folder / "alpha.png")
    image.convert("P").save(folder / "palette.png")
    Image.frombytes("I;16", (64, 48), bytes(random.Random(2).randbytes(2 * 64 * 48))).save(folder / "deep.png")
    return sorted(folder.iterdir()) + sorted((TESTDATA / "images").rglob("*.jpg"))


def jobs_for(path, rng):
    for _ in range(12):
        job = {"path": str(path), "size": [rng.randint(1, 300), rng.randint(1, 300)], "channels": rng.choice([1, 3]),
               "interpolation": rng.choice(["nearest", "bilinear", "bicubic", "area"]), "antialias": rng.random() < 0.7,
               "layout": rng.choice(["NHWC", "NCHW"]), "flip": rng.random() < 0.5, "orient": rng.random() < 0.5,
               "dct_scaling": rng.random() < 0.7, "dtype": rng.choice(["uint8", "uint8", "float32", "float16"])}
        if job["dtype"] != "uint8":
            job["mean"] = [rng.uniform(0, 255) for _ in range(job["channels"])]
            job["std"] = [rng.uniform(1, 90) for _ in range(job["channels"])]
        if rng.random() < 0.7:
            with Image.open(path) as image:
                width, height = image.size
            x, y = rng.randrange(width), rng.randrange(height)
            job["box"] = [x, y, rng.randint(1, width - x), rng.randint(1, height - y)]
        yield job


def test_all_values_have_the_same_bits(tmp_path):
    rng = random.Random(1)
    paths = write_images(tmp_path)
    jobs = [job for path in paths for job in jobs_for(path, rng)]
    assert len(jobs) > 300
    compared = 0
    for at in range(0, len(jobs), 40):
        some = jobs[at:at + 40]
        here = image_program.run(*some)
        there = subprocess.run([*EMULATED, json.dumps(some)], capture_output=True, timeout=600)
        assert here.returncode == there.returncode == 0, (here.stderr, there.stderr)
        if here.stdout != there.stdout:
            # The single job, for the message.
            for job in some:
                assert image_program.run(job).stdout == subprocess.run([*EMULATED, json.dumps([job])], capture_output=True,
                                                                       timeout=600).stdout, job
        compared += len(here.stdout)
    assert compared > 10_000_000
