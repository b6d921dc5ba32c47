"""The program tests/decode/image, which decodes images: pixels as arrays, or the error."""

import json
import os
import pathlib
import subprocess

import numpy as np
from harness import REPOSITORY
from PIL import Image

IMAGE = pathlib.Path(
    os.environ.get("SHARDFEED_IMAGE", REPOSITORY / "bazel-bin/tests/decode/image")).resolve()


def run(*jobs):
    return subprocess.run([str(IMAGE), json.dumps(jobs, default=str)], capture_output=True,
                          timeout=120)


def decode(*jobs):
    """The images of all jobs; the image itself if there is only one."""
    done = run(*jobs)
    assert done.returncode == 0, done.stderr.decode()
    out = []
    at = 0
    for job in jobs:
        dtype = np.dtype(job.get("dtype", "uint8"))
        height, width = job["size"]
        channels = job.get("channels", 3)
        shape = (channels, height, width) if job.get("layout") == "NCHW" else (
            height, width, channels)
        count = height * width * channels
        out.append(np.frombuffer(done.stdout, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    assert at == len(done.stdout)
    return out[0] if len(jobs) == 1 else out


def error_of(**job):
    done = run(job)
    assert done.returncode == 1, done
    return done.stderr.decode()


def make_image(width, height, seed=1):
    """Waves of all lengths, with noise."""
    rng = np.random.default_rng(seed)
    y, x, c = np.mgrid[:height, :width, :3]
    wave = np.sin(x * 0.02 * (c + 1)) + np.cos(y * 0.05 + x * y * 1e-4)
    pixels = 128 + 50 * wave + rng.integers(-20, 21, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
