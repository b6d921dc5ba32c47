"""Makes the seeds of the fuzz targets in testdata/fuzz, with Python's standard library, NumPy and
from files of testdata. The result is the same each time.

    python3 tests/fuzz/make_seeds.py

//tests/fuzz:jpeg_seeds makes JPEGs of kinds that testdata lacks.
"""

import gzip
import io
import json
import pathlib
import random
import struct
import sys
import tarfile
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import array_record_files
import mds_files
TESTDATA = ROOT / "testdata"


def write(target, name, content):
    folder = TESTDATA / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked_crc(content):
    crc = crc32c(content)
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
    """A member in the layout of AppendGzipMember: docs/compression.md."""
    body = deflate(content, -15) + struct.pack("<II", zlib.crc32(content), len(content))
    return (b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x0c\x00SF\x08\x00" +
            struct.pack("<Q", 24 + len(body)) + body)


def index(compression, sizes, points=(), shard_bytes=None):
    """An index by docs/index.md, without its CRCs, which the target adds. `points` are tuples:
    file_offset, stream_offset, dictionary, bits, at_header, blocks."""
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    body = b""
    directory = b""
    for first in range(0, len(sizes), 128):
        group = offsets[first:first + 128]
        step = min(sizes[first:first + 128])
        numbers = [at - group[0] - i * step for i, at in enumerate(group)]
        width = max(numbers).bit_length()
        packed = sum(number << i * width for i, number in enumerate(numbers))
        directory += struct.pack("<Q", 88 + len(body))
        body += struct.pack("<QQB", group[0], step, width)
        body += packed.to_bytes((len(group) * width + 7) // 8, "little")
    body += bytes(16)
    directory_offset = 88 + len(body)
    body += directory
    restarts = 88 + len(body)
    dictionaries = b""
    rows = b""
    for file_offset, stream_offset, dictionary, bits, at_header, blocks in points:
        dictionary = zlib.compress(dictionary) if dictionary else b""
        rows += struct.pack("<QQQIBBH", file_offset, stream_offset, len(dictionaries), len(dictionary),
                            bits, at_header, len(blocks))
        dictionaries += dictionary + b"".join(struct.pack("<II", *block) for block in blocks)
    body += rows + dictionaries
    stream = sum(sizes)
    return b"SFINDEX1" + struct.pack(
        "<II8Q", compression, 0, stream if shard_bytes is None else shard_bytes, stream,
        len(sizes), 128, directory_offset, restarts, len(points), 88 + len(body)) + bytes(8) + body


def manifest(count, version=2):
    """A manifest by docs/manifest.md, without the end, which the target adds."""
    feature = {"kind": "bytes", "records": 3 * count, "min_values": 1, "max_values": 2,
               "min_bytes": 0, "max_bytes": 9}
    document = {
        "format": "shardfeed manifest", "version": version, "stem": "train", "suffix": ".tfrecord",
        "num_shards": count, "compression": "gzip", "records": 3 * count, "bytes": 152 * count,
        "made_by": {"tool": "shardfeed 1.0", "command": "convert csv"},
        "notes": ["two files were left out"],
        "skipped": {"records": 1, "first": ["a.csv:3: a row of 2 cells"]},
        "not_examples": 0,
        "features": {
            "b": feature,
            "f": {"kind": "float", "records": 1, "min_values": 0, "max_values": 3,
                  "mixed_kinds": 1},
            "i": {"kind": "int64", "records": 2, "min_values": 1, "max_values": 1, "list": True},
            "n": {"kind": "none", "records": 1, "min_values": 0, "max_values": 0}},
        "shards": [{"file": "train-%05d-of-%05d.tfrecord" % (i, count), "bytes": 152, "records": 3,
                    "records_digest": "0123abcd"} for i in range(count)]}
    text = json.dumps(document, indent=1)
    return (text[:-2] + ",\n ").encode() if version == 2 else text.encode() + b"\n"


def snappy_block(content):
    """TensorFlow's block: all of `content` as a literal, then a copy of its first eight bytes."""
    raw = varint(len(content) + 8) + bytes([61 << 2]) + struct.pack("<H", len(content) - 1)
    raw += content + bytes([(8 - 1) << 2 | 2]) + struct.pack("<H", len(content))
    return struct.pack(">I", len(raw)) + raw


def batch(rows):
    """A batch by docs/snapshot.md: n (int64), text (bytes) and values (ragged float32[2])."""
    out = struct.pack("<6Q", rows, 0, 0, 1, 1, 3)
    out += struct.pack("<Q", rows - 1)  # a damaged row
    out += struct.pack("<6Q", 0, 0, 1, 10, 1, 0)  # an origin
    for dtype, ragged, shape in [(5, 0, []), (10, 0, []), (8, 1, [2])]:
        out += struct.pack("<%dQ" % (3 + len(shape)), dtype, ragged, len(shape), *shape)

    def align(content):
        return content + bytes(-len(content) % 64)

    out = align(out) + struct.pack("<%dq" % rows, *range(rows))
    texts = [b"text" * i for i in range(rows)]
    ends = [sum(map(len, texts[:i + 1])) for i in range(rows)]
    out = align(out) + struct.pack("<%dQ" % rows, *ends) + b"".join(texts)
    splits = [i * (i + 1) // 2 for i in range(rows + 1)]
    out = align(out) + struct.pack("<%dq" % (rows + 1), *splits)
    return align(out) + struct.pack("<%df" % (2 * splits[-1]), *range(2 * splits[-1]))


def piece(payload):
    return struct.pack("<H", len(payload)) + payload


def commit(old):
    names = "".join(name + "\n" for name in old)
    return ("shardfeed commit 1\nsuffix \nshards 2\n10\n0\nold %d\n%s" % (len(old), names)).encode()


def done():
    frames = [frame(record) for record in (b"one", b"two", b"three")]
    heads = b"".join(f[:12] + f[-4:] for f in frames)
    note = {"bytes": sum(map(len, frames)), "records": 3, "records_digest": crc32c(heads),
            "not_examples": 3, "features": {}, "skipped": 1, "skipped_first": ["a defect"]}
    return json.dumps(note).encode()


# How many numbers each chain of state_fuzz.cc has in its state when it starts.
STATE_NUMBERS = [3, 7, 8, 7, 6, 3, 7, 6, 4, 12, 23, 6, 5, 32, 3, 3, 4, 3, 8]


def bmp(bits, compression, data, masks=b"", palette=b""):
    """A BMP of 4 x 2 pixels."""
    offset = 54 + len(masks) + len(palette)
    return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) +
            struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, bits, compression, len(data), 0, 0,
                        len(palette) // 4, 0) + masks + palette + data)


def png(color, depth, row, palette=b"", interlace=0):
    """A PNG of 4 x 2 pixels with identical rows."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    header = struct.pack(">IIBBBBB", 4, 2, depth, color, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            (chunk(b"PLTE", palette) if palette else b"") +
            chunk(b"IDAT", zlib.compress((b"\1" + row) * 2)) + chunk(b"IEND", b""))


def tiff(samples, bits, photometric, extra=None):
    """A TIFF of 4 x 2 pixels; values that do not fit their entry follow it."""
    data = bytes(range(samples * bits))
    tags = [(256, 4), (257, 2), (258, bits), (259, 1), (262, photometric), (273, 8), (274, 6),
            (277, samples), (278, 2), (279, len(data))]
    if extra is not None:
        tags.append((338, extra))
    tags.sort()
    after = 8 + len(data) + 2 + 12 * len(tags) + 4
    entries = b""
    for tag, value in tags:
        many = tag == 258 and samples > 2
        entries += struct.pack("<HHII", tag, 3, samples if tag == 258 else 1,
                               after if many else
                               value | value << 16 if tag == 258 and samples == 2 else value)
    return (b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(tags)) +
            entries + bytes(4) + struct.pack("<H", bits) * samples)


def small_images():
    palette = bytes(range(16)) * 4
    yield "bmp_1", bmp(1, 0, bytes([0xa0, 0, 0, 0] * 2), palette=palette[:8])
    yield "bmp_4", bmp(4, 0, bytes([0x12, 0x34, 0, 0] * 2), palette=palette)
    yield "bmp_rle4", bmp(4, 2, bytes([3, 0x12, 0, 0, 0, 3, 0x12, 0x30, 0, 1]), palette=palette)
    yield "bmp_rle8", bmp(8, 1, bytes([2, 1, 0, 2, 1, 1, 0, 3, 1, 2, 3, 0, 0, 1]), palette=palette)
    yield "bmp_16", bmp(16, 3, bytes(range(16)), struct.pack("<III", 0xf800, 0x7e0, 0x1f))
    yield "bmp_24", bmp(24, 0, bytes(range(24)))
    yield "bmp_32", bmp(32, 3, bytes(range(32)), struct.pack("<III", 0xff, 0xff00, 0xff0000))
    yield "png_gray", png(0, 16, bytes(range(8)))
    yield "png_rgba", png(6, 8, bytes(range(16)))
    yield "png_palette", png(3, 2, b"\x1b", palette[:12])
    yield "png_bits", png(0, 1, b"\xa0")
    yield "tiff_rgba", tiff(4, 8, 2, extra=2)
    yield "tiff_multiplied", tiff(4, 8, 2, extra=1)
    yield "tiff_16", tiff(3, 16, 2)
    yield "tiff_gray", tiff(1, 8, 1)
    yield "tiff_12", tiff(1, 12, 1)
    yield "webp", (b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\x10\x07\x10\x11\x11\x88\x88"
                   b"\xfe\x07\0")
    yield "gif", b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


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

    write("decompress", "snappy_blocks", b"\x02" + snappy_block(noise[:700]) + snappy_block(text))
    write("decompress", "gzip_fields", b"\x03\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\x00ext" +
          b"name\x00comment\x00" + struct.pack("<H", 0x1234) + deflate(text, -15) +
          struct.pack("<II", zlib.crc32(text), len(text)))
    flushed = zlib.compressobj(6, zlib.DEFLATED, 15)
    parts = [flushed.compress(text[i:i + 500]) + flushed.flush(mode) for i, mode in
             [(0, zlib.Z_SYNC_FLUSH), (500, zlib.Z_FULL_FLUSH), (1000, zlib.Z_FINISH)]]
    write("decompress", "zlib_flushed", b"\x01" + b"".join(parts))
    hardly = deflate(noise, -15)
    for name, flags, content in [("header_to_header", 7, gzip.compress(text, mtime=0)),
                                 ("zlib", 6, zlib.compress(noise)),
                                 ("middle", 4, hardly + bytes(4))]:
        size = len(text) if name == "header_to_header" else len(noise)
        write("inflate_between", name, struct.pack("<BBHBB", flags, 0, size, 4, 1) +
              struct.pack("<HH", 8 * 300, 400) + content)
    write("inflate_between", "no_blocks",
          struct.pack("<BBHBB", 4, 0, len(noise), 0, 0) + hardly + bytes(4))

    # An index of three records in one group, after docs/index.md.
    body = struct.pack("<QQB", 0, 16, 8) + bytes([0, 4, 104]) + bytes(16) + struct.pack("<Q", 88)
    header = b"SFINDEX1" + struct.pack("<II8Q", 0, 1, 152, 152, 3, 128, 88 + 36, 88 + 44, 0,
                                       88 + len(body))
    write("index", "three_records", header + bytes(8) + body)
    for path in sorted((TESTDATA / "bad/.shardfeed").glob("*.index")):
        write("index", path.stem, path.read_bytes())

    sizes = [16 + i % 50 for i in range(300)]
    write("index", "groups", index(0, sizes))
    write("index", "one_size", index(0, [116] * 200))
    # With length columns of one and two bytes a record.
    lengths = index(0, [116] * 3)
    columns = struct.pack("<BH", 1, 2) + b"aa" + bytes([1, 2, 3])
    columns += struct.pack("<BH", 2, 2) + b"bb" + struct.pack("<3H", 400, 500, 600)
    write("index", "lengths", lengths + columns + struct.pack("<Q", len(lengths)) + b"SFLENGT1")
    # The index of an ArrayRecord shard, with chunks of one record and of two.
    chunks = [index(0, [64] + [100 + i for i in range(20)]), index(0, [16 * (1 + i % 2) for i in range(20)])]
    write("index", "array_record", index(1024, [16 + i for i in range(30)], [], 1 << 16)
          + b"".join(struct.pack("<Q", len(chunk)) + chunk for chunk in chunks))
    dictionary = text[:600]
    write("index", "gzip_restarts", index(1, sizes, [
        (0, 0, b"", 0, 1, [(800, 8192), (9000, 17000)]), (2000, 3000, dictionary, 3, 0, []),
        (4000, 8000, dictionary, 0, 0, [(77, 9000)])], 5000))
    write("index", "zlib_members", index(2, sizes, [(0, 0, b"", 0, 1, []),
                                                    (900, 5000, b"", 0, 1, [])], 1000))
    write("index", "snappy_blocks", index(3, sizes, [(0, 0, b"", 0, 1, []),
                                                     (400, 4000, b"", 0, 1, [])], 1000))

    def sealed(index):
        head = index[:80] + struct.pack("<I", crc32c(index[88:]))
        return head + struct.pack("<I", crc32c(head)) + index[88:]

    def pack(*indexes):
        entries = b"".join(each[16:40] + struct.pack("<Q", len(each)) + each[12:16] + each[8:12]
                           for each in indexes)
        return bytes([len(indexes)]) + b"SFIPACK1" + bytes(32) + entries + b"".join(map(sealed, indexes))

    write("index_pack", "raw", pack(index(0, sizes), index(0, [116] * 200), index(0, [])))
    write("index_pack", "gzip", pack(index(1, sizes, [(0, 0, b"", 0, 1, [])], 5000)))
    write("index_pack", "none", pack())

    write("text_index", "blanks", b" 0\t20\r\n20  116 \n136 16")
    write("text_index", "right", b"0 20\n20 116\n136 16\n")
    write("text_index", "wrong", b"0 20\n20 117\n")
    write("spec", "sharded", b"train-00001-of-00010.tfrecord.gz")
    write("spec", "count", b"folder/train@10.tfrecord")
    write("spec", "any", b"train@*.tfrecord")
    write("schema", "examples", example() + b"||" + sequence() + b"||" + example())
    write("schema", "repeated", b"||".join([example()] * 4 + [sequence()] * 4))
    write("example_parser", "example", example())
    write("example_parser", "sequence", sequence())
    write("example_text", "example", example())
    write("example_text", "sequence", sequence())

    write("csv", "cities", b"\x00\x07" + (TESTDATA / "tables/cities.csv").read_bytes()[:1500])
    write("csv", "quotes", b'\x04\x00a,b\r\n"x ""y"" \n",1\r\n,2.5\r\n')
    write("csv", "tabs", b"\x03\x07a\tb\n1\t2\n\n3\t\n")
    write("csv", "semicolons", b"\x00\x07# of May\nname;n;f\nx;1.234,5;NA\ny;-7,25;True\n")
    write("csv", "blanks", b"\x00\x07sep=,\n39, State-gov, 77516, true\n50, \"a, b\", ?, false\n")
    write("csv", "missing", b"\xa0\x90a,x\n ? ,1,234\n-1,\"1,234\"\n007,nan\n")
    write("csv", "utf16", b"\x00\x07" + "\ufeffa,\u00e4\r\n1,\U0001f600\r\n".encode("utf-16-le"))
    write("csv", "windows", b"\x10\x0cn;m\n\xe4;1,5\n\x80;16777217,0\n")
    write("annotations", "coco", b"\x00" + json.dumps({
        "images": [{"id": 1, "file_name": "a.png", "width": 10, "height": 20},
                   {"id": "2", "file_name": "a.png"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4.5], "iscrowd": 1,
             "segmentation": {"counts": [3, 4], "size": [20, 10]}},
            {"id": 2, "image_id": "2", "category_id": 7, "bbox": [1, 2, 3, 4], "area": 3.5,
             "segmentation": [[1, 2, 3, 4, 5, 6]], "keypoints": [1, 2, 2], "caption": "x"}],
        "categories": [{"id": 7, "name": "cat", "keypoints": ["nose"]}]}).encode())
    write("annotations", "voc", b"\x01<annotation><filename>a.png</filename><size><width>10</width>"
          b"<height>20</height></size><object><name>c&amp;t</name><pose>Left</pose><difficult>1"
          b"</difficult><bndbox><xmin>1</xmin><ymin>2.5</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"
          b"</object></annotation>")
    write("annotations", "yaml", b"\x02path: .\ntrain: images/train  # x\nval: [a, 'b''c']\nnc: 2\n"
          b"names:\n  0: cat\n  1: \"d\\\"g\"\nkpt_shape: [17, 3]\n")
    write("annotations", "yaml_flow", b"\x02names: [a,\n b,\n]\ntest:\n- x\n- y\n")
    write("annotations", "box", b"\x030 0.5 0.5 0.25 0.125\n")
    write("annotations", "outline", b"\x031 0.1 0.2 0.3 0.4 0.5 0.6")
    write("annotations", "keypoints", b"\x032 0.5 0.5 0.1 0.1 0.2 0.3 2 0 0 0")
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

    for name in ("movielens", "nested"):
        write("tfds_features", name, (TESTDATA / f"tfds/{name}/features.json").read_bytes())
    module = "tensorflow_datasets.core.features."
    write("tfds_features", "older", json.dumps({"type": module + "features_dict.FeaturesDict", "content": {
        "image": {"type": module + "image_feature.Image",
                  "content": {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "png"}},
        "list": {"type": module + "sequence_feature.Sequence", "content": {"length": None, "feature": {
            "type": module + "feature.Tensor", "content": {"shape": [2], "dtype": "int16"}}}},
        "both": {"type": module + "translation_feature.Translation",
                 "content": "{\"languages\": [\"de\", \"en\"]}",
                 "proto_cls": "tensorflow_datasets.TranslationFeature"}}}).encode())

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

    columns = {"a": "ndarray", "b": "ndarray:int8", "c": "ndarray:uint16:2", "i": "int", "s": "str", "f": "float64"}
    rows = [{"a": np.arange(n + 1, dtype=kind).reshape(1, -1), "b": np.arange(n + 2, dtype=np.int8),
             "c": np.array([n, 2], np.uint16), "i": n, "s": "x" * n, "f": n / 2}
            for n, kind in enumerate(mds_files.CODES.values())]
    write("mds", "columns", mds_files.shard_bytes(columns, rows))
    write("mds", "one_column", mds_files.shard_bytes({"x": "bytes"}, [{"x": b"a"}, {"x": b""}]))
    write("mds", "no_samples", mds_files.shard_bytes({"x": "bytes"}, []))

    # A chunk; chunks and a footer of the same size, with a padding of zeros between; and a postscript.
    records = array_record_files
    for name in ("zstd", "brotli", "snappy"):
        content = (TESTDATA / f"array_record/{name}.array_record").read_bytes()
        write("array_record", name, content[64:2000])
    for group in (1, 3):
        content, places = records.file_bytes([b"abc" * n for n in range(5)], group)
        end = content.rindex(struct.pack("<Q", (len(places) + 1) << 8 | ord("r")), 0, records.BLOCK) - 24
        size = max(end - 64, 300)
        write("array_record", f"group_{group}", content[64:end].ljust(size, b"\0")
              + content[end:end + size])
    write("array_record", "postscript", content[-records.BLOCK:-records.BLOCK + 110])

    for name, content in small_images():
        write("codecs", name, content)
    for target, suffixes in (("heif", (".avif", ".heic")), ("jxl", (".jxl",))):
        for path in sorted((TESTDATA / target).iterdir()):
            if path.suffix in suffixes:
                write(target, path.name.replace(".", "_"), path.read_bytes())

    images = sorted((TESTDATA / "images").rglob("*.jp*g"), key=lambda p: p.stat().st_size)
    for i, path in enumerate(images[:4]):
        write("jpeg", "image_%d" % i, bytes([i % 4, 3, 5, 40, 40]) + path.read_bytes())
        write("image_header", "jpeg_%d" % i, path.read_bytes()[:1000])
    png = sorted((TESTDATA / "images").rglob("*.png"))[0].read_bytes()
    write("image_header", "png", png[:100])
    write("image_header", "gif", b"GIF89a" + struct.pack("<HHBBB", 3, 4, 0x80, 0, 0) + bytes(6))
    write("image_header", "bmp", b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 3, -4, 1, 24, 0))
    write("image_header", "webp", b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0/\x02\xc0\0\x10" + bytes(8))
    write("image_header", "tiff", b"II*\0\x08\0\0\0\x02\0\0\x01\x03\0\x01\0\0\0\x05\0\0\0"
          b"\x01\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0")

    write("manifest", "small", b"""\x01{"format": "shardfeed manifest", "version": 1}""")
    write("manifest", "one_shard", b"\x00" + manifest(1))
    write("manifest", "several", b"\x02" + manifest(4))
    write("manifest", "version_1", b"\x01" + manifest(2, version=1))
    sealed = manifest(1)
    write("manifest", "sealed", b"\x01" + sealed + b'"crc32c": "%08x"\n}\n' % crc32c(sealed))

    for chain, count in enumerate(STATE_NUMBERS):
        write("state", "chain_%02d" % chain, bytes([chain]) + bytes(count))
    # Epoch 0, of which two records before the 30th are left; of the first of them, a row was delivered.
    write("state", "merged", bytes([0x40 | 18, 0, 30, 2, 4, 1, 4, 3, 2]))
    write("state", "text", b"\x80" + json.dumps(
        {"format": "shardfeed pipeline state", "version": 2, "chain": "0123456789abcdef",
         "place": [0, 1, 2]}).encode())

    header = json.dumps({"format": "shardfeed snapshot", "version": 1,
                         "chain": "0123456789abcdef", "columns": "n: int64"}).encode()
    write("element_store", "pieces", b"\x00" + piece(header) + piece(batch(3)) + piece(batch(5)))
    write("element_store", "empty", b"\x00" + piece(header))
    # The index of one piece after the frames of the header and the piece.
    at = 16 + len(header)
    end = at + 16 + len(batch(2))
    write("element_store", "own_index", b"\x01" + piece(header) + piece(batch(2)) +
          piece(struct.pack("<QQ", at, 2)) + piece(struct.pack("<QQQ", end, 1, 2)))

    write("commit", "fresh", b"\x00" + commit([]))
    write("commit", "replaces", b"\x00" + commit(["t-00000-of-00003", "t-00001-of-00003"]))
    write("commit", "foreign", b"\x00" + commit(["thesis.tex", "../precious"]))
    write("commit", "no_crc", b"\x01" + commit([]))
    write("done", "true", done())
    write("done", "false", done().replace(b'"records": 3', b'"records": 4'))


if __name__ == "__main__":
    main()
