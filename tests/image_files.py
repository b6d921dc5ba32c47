"""PNG, TIFF and BMP files of the kinds that Pillow does not write."""

import struct
import zlib

import numpy as np


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_row(values, bits):
    """Values of a row, from the highest bit of each byte; of 16 bits in big endian."""
    text = "".join(f"{value:0{bits}b}" for value in np.ravel(values))
    text += "0" * (-len(text) % 8)
    return bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))


# Adam7: the first column and row of each pass, and the distances to the next.
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
          (0, 1, 1, 2)]


def png_of(values, bits, color=0, interlaced=False, chunks=b""):
    """A PNG of `values`, [height, width] or [height, width, channels], of the given color type."""
    height, width = values.shape[:2]
    passes = PASSES if interlaced else [(0, 0, 1, 1)]
    raw = b"".join(b"\0" + packed_row(row, bits) for x, y, dx, dy in passes
                   for row in values[y::dy, x::dx] if row.size)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + chunks +
            png_chunk(b"IDAT", zlib.compress(raw)) + png_chunk(b"IEND", b""))


def tiff_of(samples, bits, extra=(), sample_format=1, data=None, size=(2, 4), order="<",
            photometric=None, tags=()):
    """An uncompressed TIFF of one strip; `size` is its height and width, and `tags` are further
    (tag, type, values), which replace those of the strip if they are of tiles."""
    height, width = size
    data = bytes(range(4 * 2 * samples * bits // 8)) if data is None else data
    if photometric is None:
        photometric = 1 if samples - len(extra) == 1 else 2
    all_tags = {256: (3, [width]), 257: (3, [height]), 258: (3, [bits] * samples), 259: (3, [1]),
                262: (3, [photometric]), 273: (4, [8]), 277: (3, [samples]), 278: (3, [height]),
                279: (4, [len(data)]), 339: (3, [sample_format] * samples)}
    if extra:
        all_tags[338] = (3, list(extra))
    all_tags.update({tag: (kind, values) for tag, kind, values in tags})
    if 322 in all_tags:
        for tag in (273, 278, 279):
            all_tags.pop(tag)
    at = 8 + len(data)
    data += b"\0" * (at % 2)
    directory_at = 8 + len(data)
    after = directory_at + 2 + 12 * len(all_tags) + 4
    entries, tail = b"", b""
    for tag, (kind, values) in sorted(all_tags.items()):
        packed = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(packed) > 4:
            value = struct.pack(order + "I", after + len(tail))
            tail += packed
        else:
            value = packed.ljust(4, b"\0")
        entries += struct.pack(order + "HHI", tag, kind, len(values)) + value
    head = b"II*\0" if order == "<" else b"MM\0*"
    return (head + struct.pack(order + "I", directory_at) + data +
            struct.pack(order + "H", len(all_tags)) + entries + b"\0\0\0\0" + tail)


def bmp_of(bits, compression, data, width, height, masks=b"", palette=b"", info_bytes=40):
    offset = 14 + info_bytes + len(masks) + len(palette)
    info = struct.pack("<IiiHHIIiiII", info_bytes, width, height, 1, bits, compression, len(data), 0,
                       0, len(palette) // 4, 0) + b"\0" * (info_bytes - 40)
    return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + masks + palette +
            data)
