"""What happens on a machine that lacks a library for a kind of images."""

import os
import subprocess
import sys

import pytest
from harness import REPOSITORY
from PIL import features

pytestmark = pytest.mark.skipif(not features.check("avif"), reason="Pillow writes no AVIF")

SCRIPT = """
import io, sys, shardfeed as sf
from PIL import Image
file = io.BytesIO()
Image.new("RGB", (20, 20)).save(file, "AVIF")
ds = sf.from_arrays({"image/encoded": [file.getvalue()] * 20}).decode_image(size=8, on_damage=sys.argv[1])
if sys.argv[2] == "ignore":
    ds = ds.ignore_errors(max_ignored="100%")
print(sum(1 for _ in ds), "rows")
"""


@pytest.mark.parametrize("on_damage", ["fail", "zero", "replace", "accept"])
@pytest.mark.parametrize("errors", ["ignore", "stop"])
def test_a_missing_library_ends_the_run(tmp_path, on_damage, errors):
    """A rank without it would get other rows than its neighbors."""
    (tmp_path / "libheif.so.1").touch()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT, on_damage, errors], env=environment, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "libheif1" in done.stderr.splitlines()[-1], (done.stdout, done.stderr)
