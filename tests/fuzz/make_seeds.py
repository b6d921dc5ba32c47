"""Makes the seeds of the fuzz targets in testdata/fuzz, with Python's standard library and from
files of testdata. It gives the same bytes each time.

    python3 tests/fuzz/make_seeds.py
"""

import gzip
import io
import pathlib
import random
import struct
import tarfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = ROOT / "testdata"


def write(target, name, content):
    folder = TESTDATA / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def masked_crc(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload):
    length = struct.pack("<Q", len(payload))
    return (length + struct.pack("<I", masked_crc(length)) + payload +
            struct.pack("<I", masked_crc(payload)))


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def entry(name, value):
    return field(1, field(1, name) + field(2, value))


def example():
    features = (entry(b"b", field(1, field(1, b"one") + field(1, b""))) +
                entry(b"f", field(2, field(1, struct.pack("<3f", 1, -2.5, 3)))) +
                entry(b"i", field(3, field(1, varint(1) + varint(300) + b"\xff" * 9 + b"\x01"))))
    return field(1, features)


def sequence():
    steps = field(1, field(3, field(1, varint(7)))) + field(1, field(3, field(1, varint(9))))
    context = entry(b"b", field(1, field(1, b"one")))
    return field(1, context) + field(2, entry(b"i", steps))


def deflate(content, window_bits, level=6, strategy=zlib.Z_DEFAULT_STRATEGY, memory=1):
    compressor = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory, strategy)
    return compressor.compress(content) + compressor.flush()


def sized_member(content):
    """As AppendGzipMember lays it out: docs/compression.md."""
    body = deflate(content, -15) + struct.pack("<II", zlib.crc32(content), len(content))
    return (b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x0c\x00SF\x08\x00" +
            struct.pack("<Q", 24 + len(body)) + body)


def main():
    numbers = random.Random(20)
    noise = bytes(numbers.randrange(240) for _ in range(3000))
    text = b"".join(b"line %d of some text\n" % (i % 40) for i in range(150))

    write("framing", "three", b"\x03" + frame(b"abc") + frame(b"") + frame(b"d" * 40))
    write("framing", "cut", b"\x01" + frame(b"abc") + frame(b"0123456789")[:-6])

    for name, content in [("text", text), ("noise", noise), ("empty", b"")]:
        gz = gzip.compress(content, mtime=0)
        write("decompress", "gzip_" + name, b"\x03" + gz)
        write("decompress", "zlib_" + name, b"\x04" + deflate(content, 15))
        write("gzip_members", name, sized_member(content[:1000]))
        write("inflate_blocks", "default_" + name, b"\x00\x00\x00\x00" + deflate(content, -15))
        write("inflate_blocks", "fixed_" + name,
              b"\x01\x01\x00\x00" + deflate(content, -15, strategy=zlib.Z_FIXED))
        write("inflate_blocks", "stored_" + name, b"\x00\x01\x01\x00" + deflate(content, -15, 0))
    write("decompress", "gzip_members",
          b"\x03" + gzip.compress(text[:500], mtime=0) + gzip.compress(noise[:500], mtime=0))
    snappy = (TESTDATA / "tensorflow/examples.tfrecord.snappy").read_bytes()
    write("decompress", "snappy", b"\x02" + snappy[:4000])

    # An index of three records in one group, after docs/index.md.
    body = struct.pack("<QQB", 0, 16, 8) + bytes([0, 4, 104]) + bytes(16) + struct.pack("<Q", 88)
    header = b"SFINDEX1" + struct.pack("<II8Q", 0, 1, 152, 152, 3, 128, 88 + 36, 88 + 44, 0,
                                       88 + len(body))
    write("index", "three_records", header + bytes(8) + body)
    for path in sorted((TESTDATA / "bad/.shardfeed").glob("*.index")):
        write("index", path.stem, path.read_bytes())

    write("text_index", "right", b"0 20\n20 116\n136 16\n")
    write("text_index", "wrong", b"0 20\n20 117\n")
    write("spec", "sharded", b"train-00001-of-00010.tfrecord.gz")
    write("spec", "count", b"folder/train@10.tfrecord")
    write("spec", "any", b"train@*.tfrecord")
    write("schema", "examples", example() + b"||" + sequence() + b"||" + example())
    write("example_parser", "example", example())
    write("example_parser", "sequence", sequence())

    write("csv", "cities", b"\x00" + (TESTDATA / "tables/cities.csv").read_bytes()[:1500])
    write("csv", "quotes", b'\x00a,b\r\n"x ""y"" \n",1\r\n,2.5\r\n')
    write("csv", "tabs", b"\x03a\tb\n1\t2\n\n3\t\n")
    write("json", "lines", b"\x00" + (TESTDATA / "tables/events.jsonl").read_bytes()[:1500])
    write("json", "array", b'\x01[{"a":1,"b":{"c":[1,2.5]},"d":"\\u00e9"},\n {"a":null}]\n')

    write("idx", "images", struct.pack(">4I", 0x803, 2, 2, 3) + b"abcdefghijkl")
    write("idx", "labels", struct.pack(">2I", 0x801, 2) + b"\x01\x02")
    for name, descr, shape, values in [("floats", "<f4", "(2, 3)", bytes(24)),
                                       ("flags", "|b1", "(3,)", b"\0\1\1"),
                                       ("text", "<U2", "(2,)", "abcd".encode("utf-32-le"))]:
        told = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
        told = told.ljust(117).encode() + b"\n"
        write("npy", name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(told)) + told + values)

    for name, kind, bits in [("int16", 1, 16), ("int24", 1, 24), ("float32", 3, 32)]:
        size = 2 * bits // 8
        chunk = struct.pack("<4sIHHIIHH", b"fmt ", 16, kind, 2, 8000, 8000 * size, size, bits)
        content = b"WAVE" + chunk + struct.pack("<4sI", b"data", 3 * size) + bytes(3 * size)
        write("wav", name, struct.pack("<4sI", b"RIFF", len(content)) + content)

    for name, tar_format in [("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                             ("pax", tarfile.PAX_FORMAT)]:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tar_format) as tar:
            for member in ["a.txt", "folder/" + ("b" * (40 if name == "ustar" else 120))]:
                info = tarfile.TarInfo(member)
                info.size = 5
                tar.addfile(info, io.BytesIO(b"12345"))
        archive = out.getvalue()
        write("tar", name, archive.rstrip(b"\0") + bytes(1024 + -len(archive.rstrip(b"\0")) % 512))
        write("tar", name + "_gzip", gzip.compress(archive, mtime=0))

    pictures = sorted((TESTDATA / "pictures").rglob("*.jp*g"), key=lambda p: p.stat().st_size)
    for i, path in enumerate(pictures[:4]):
        write("jpeg", "picture_%d" % i, bytes([i % 4, 3, 5, 40, 40]) + path.read_bytes())
        write("image_header", "jpeg_%d" % i, path.read_bytes()[:1000])
    png = sorted((TESTDATA / "pictures").rglob("*.png"))[0].read_bytes()
    write("image_header", "png", png[:100])
    write("image_header", "gif", b"GIF89a" + struct.pack("<HHBBB", 3, 4, 0x80, 0, 0) + bytes(6))
    write("image_header", "bmp", b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 3, -4, 1, 24, 0))
    write("image_header", "webp", b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0/\x02\xc0\0\x10" + bytes(8))
    write("image_header", "tiff", b"II*\0\x08\0\0\0\x02\0\0\x01\x03\0\x01\0\0\0\x05\0\0\0"
          b"\x01\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0")

    write("manifest", "small", b"""{"format": "shardfeed manifest", "version": 1}""")


if __name__ == "__main__":
    main()
