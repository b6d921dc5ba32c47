"""The package in one process with others: what it imports, in which order, and that codecs do not mix."""

import os
import re
import subprocess
import sys
import zlib

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def run_python(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_nothing_is_imported_that_is_not_needed():
    out = run_python("""
import sys, numpy
before = set(sys.modules)
import shardfeed
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - {"shardfeed"}))
""")
    heavy = {"torch", "tensorflow", "jax", "cv2", "PIL", "google", "multiprocessing", "concurrent",
             "subprocess", "json", "asyncio", "inspect"}
    assert not heavy & set(out.split())


def test_no_library_is_loaded_that_is_not_needed():
    out = run_python("""
import shardfeed
with open("/proc/self/maps") as maps:
    print(*{line.split()[-1].rsplit("/", 1)[-1] for line in maps if ".so" in line})
""")
    assert "_core" in out
    for name in ("libopencv", "libprotobuf", "libX11", "libGL", "libcuda", "libtbb", "liblapack"):
        assert name not in out


def png():
    """An image of 2 x 2 pixels for libpng, of which other modules have a copy too."""
    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    header = (2).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(b"\0ab\0cd")) + chunk(b"IEND", b""))


USES = {
    "shardfeed": """
ds = shardfeed.read(sys.argv[1]).parse({"image": shardfeed.bytes}).decode_image("image", 2)
assert next(iter(ds.batch(2)))["image"][0, :, :, 0].tolist() == [[97, 98], [99, 100]]
""",
    "tensorflow": """
record = next(iter(tensorflow.data.TFRecordDataset(__import__("glob").glob(sys.argv[1].replace("@2", "-0*"))[:1])))
image = tensorflow.io.parse_single_example(record, {"image": tensorflow.io.FixedLenFeature(
    [], tensorflow.string)})["image"]
assert tensorflow.io.decode_png(image).numpy()[:, :, 0].tolist() == [[97, 98], [99, 100]]
""",
    "torch": """
assert torch.from_numpy(numpy.ones((64, 64), numpy.float32)).mm(torch.ones(64, 64)).sum() == 64 ** 3
""",
    "cv2": """
image = numpy.arange(12, dtype=numpy.uint8).reshape(2, 2, 3)
assert (cv2.imdecode(cv2.imencode(".png", image)[1], cv2.IMREAD_COLOR) == image).all()
""",
    "google.protobuf": """
from google.protobuf import struct_pb2
assert struct_pb2.Value(number_value=1).SerializeToString()
""",
}


@pytest.mark.parametrize("order", [
    ["tensorflow", "shardfeed"], ["google.protobuf", "shardfeed"], ["shardfeed", "google.protobuf"],
    ["cv2", "shardfeed"], ["shardfeed", "cv2"], ["torch", "tensorflow", "cv2", "shardfeed"],
    ["shardfeed", "cv2", "tensorflow", "torch"]],
    ids="-".join)
def test_any_order(order, tmp_path):
    for name in order:
        if name != "shardfeed":
            pytest.importorskip(name, reason=f"{name} is not installed (pip install {name})")
    with sf.write(tmp_path / "a@2") as writer:
        for _ in range(2):
            writer.write({"image": png()})
    # All modules are imported, then used in that order and in reverse.
    code = "import sys, numpy\n" + "".join(f"import {name}\n" for name in order)
    code += "".join(USES[name] for name in [*order, *reversed(order)]) + "print('alive')"
    assert run_python(code, tmp_path / "a@2").endswith("alive")


def test_the_extension_has_no_macros_that_the_stable_abi_lacks():
    """The wheel for CPython 3.12 and later uses the stable ABI; other builds do not notice these."""
    macro = re.compile(r"\bPy(Bytes|Tuple|List|Float|Set|ByteArray|MemoryView)_(AS_|[GS]ET_)[A-Z]+\b|"
                       r"\bPyUnicode_(DATA|KIND|READ|1BYTE_DATA|GET_LENGTH|READY)\b")
    found = [f"{path.name}:{number}: {line.strip()}"
             for path in sorted((REPOSITORY / "python" / "core").glob("*.*"))
             for number, line in enumerate(path.read_text().splitlines(), 1) if macro.search(line)]
    assert not found
