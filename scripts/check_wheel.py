"""Run by scripts/wheel in a root that has only Python, NumPy and the wheel: imports the package, writes and
reads a dataset, runs the command line, and checks that the code is in the extension alone."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import shardfeed as sf

PACKAGE = pathlib.Path(sf.__file__).parent
# Of another processor, whose programs the kernel does not start.
EMULATOR = os.environ.get("SHARDFEED_EMULATOR")


def check_that_code_is_there_once():
    program = PACKAGE / "bin/shardfeed"
    assert program.stat().st_size < 100_000, (  # of which aarch64, with large pages, takes 64 KiB to align
        f"{program} has {program.stat().st_size} bytes: it must only call the command line in the extension")
    extensions = [path.name for path in PACKAGE.rglob("*.so")]
    assert len(extensions) == 1, f"the wheel needs one extension, not {extensions}"
    assert not (PACKAGE.parent / "shardfeed.libs").exists(), "the wheel carries libraries"


def png(path):
    """Writes an image of 2 x 2 gray pixels."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(b"\0ab\0cd")) + chunk(b"IEND", b""))


def shardfeed(*arguments):
    command = [sys.executable, "-m", "shardfeed"]
    if EMULATOR:
        command = [EMULATOR, PACKAGE / "bin/shardfeed"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)


check_that_code_is_there_once()
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    with sf.write(folder / "train@2", compression="gzip") as writer:
        for i in range(100):
            writer.write({"n": i, "x": np.arange(3, dtype=np.float32) + i})
    ds = sf.read(folder / "train@2").shuffle(seed=1).parse({"n": sf.int64, "x": sf.fixed(3)}).batch(10)
    assert sorted(n for batch in ds for n in batch["n"].tolist()) == list(range(100))
    assert shardfeed("verify", folder / "train@2").returncode == 0
    assert EMULATOR or sf.verify(folder / "train@2")

    assert shardfeed("--version").stdout.strip() == f"shardfeed {sf.__version__}"
    (folder / "table.csv").write_text("a,b\n1,2\n3,4\n")
    done = shardfeed("convert", "csv", folder / "table.csv", folder / "table@1")
    assert done.returncode == 0, done.stderr
    assert len(sf.read(folder / "table@1")) == 2

    (folder / "images/gray").mkdir(parents=True)
    png(folder / "images/gray/a.png")
    done = shardfeed("convert", "imagefolder", folder / "images", folder / "images@1")
    assert done.returncode == 0, done.stderr
    done = shardfeed("bench", folder / "images@1", "--image", "2")
    assert done.returncode == 0, done.stderr

    # Errors and exceptions come out of the library, in the program and in Python.
    done = shardfeed("verify", folder / "nothing@1")
    assert done.returncode == 3 and "nothing@1: no such shards" in done.stderr, done
    try:
        sf.read(folder / "nothing@1")
        raise AssertionError("a dataset that is not there was read")
    except FileNotFoundError as error:
        assert "nothing@1: no such shards" in str(error), error

with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if ".so" in line}
outside = sorted(os.path.basename(path) for path in loaded if not path.startswith("/site/"))
print(f"loaded from outside: {', '.join(outside)}")
