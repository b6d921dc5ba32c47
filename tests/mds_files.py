"""A small writer of MDS shards (MosaicML Streaming, version 2) for tests, by numpy alone.

docs/mds.md and tfrecord/mds_header.h say what the format is.
"""

import json
import math

import numpy as np

SCALARS = {name: np.dtype(name) for name in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")}
SCALARS["int"] = np.dtype("int64")
CODES = {8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
         64: "uint64", 65: "int64", 66: "float64"}


def parts_of(encoding):
    """The type and the shape of an array, which may be None."""
    _, dtype, shape = (encoding + "::").split(":")[:3]
    return dtype or None, tuple(map(int, shape.split(","))) if shape else None


def size_of(encoding):
    """The size of each value, or None if it is not fixed."""
    if encoding in SCALARS:
        return SCALARS[encoding].itemsize
    dtype, shape = parts_of(encoding) if encoding.startswith("ndarray") else (None, None)
    return math.prod(shape) * np.dtype(dtype).itemsize if shape else None


def encode(encoding, value):
    if encoding in SCALARS:
        return np.array(value, SCALARS[encoding]).tobytes()
    if not encoding.startswith("ndarray"):
        return value.encode() if isinstance(value, str) else value
    dtype, shape = parts_of(encoding)
    head = b""
    if dtype is None:
        head += bytes([next(code for code, name in CODES.items() if name == value.dtype.name)])
    if shape is None:
        width = next(w for w in range(4) if max(value.shape) < 1 << (8 << w))
        head += bytes([value.ndim << 2 | width]) + np.array(value.shape, f"uint{8 << width}").tobytes()
    return head + value.tobytes()


def shard_bytes(columns, rows):
    """The bytes of one shard: `columns` are encodings by name, `rows` are dicts."""
    names = sorted(columns)
    sizes = [size_of(columns[name]) for name in names]
    config = json.dumps({
        "column_encodings": [columns[name] for name in names], "column_names": names, "column_sizes": sizes,
        "compression": None, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2,
    }, sort_keys=True).encode()
    samples = []
    for row in rows:
        values = [encode(columns[name], row[name]) for name in names]
        head = np.array([len(value) for value, size in zip(values, sizes) if size is None], "<u4").tobytes()
        samples.append(head + b"".join(values))
    first = 4 * (len(samples) + 2) + len(config)
    offsets = first + np.cumsum([0] + [len(sample) for sample in samples])
    return np.array([len(samples), *offsets], "<u4").tobytes() + config + b"".join(samples)


def write(folder, columns, rows, per_shard):
    """Writes a folder as MDSWriter does: shards of `per_shard` rows, and index.json."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for n, first in enumerate(range(0, len(rows), per_shard)):
        part = rows[first:first + per_shard]
        name = f"shard.{n:05}.mds"
        content = shard_bytes(columns, part)
        (folder / name).write_bytes(content)
        shards.append({
            "column_encodings": [columns[name] for name in sorted(columns)], "column_names": sorted(columns),
            "column_sizes": [size_of(columns[name]) for name in sorted(columns)], "compression": None,
            "format": "mds", "hashes": [], "raw_data": {"basename": name, "bytes": len(content), "hashes": {}},
            "samples": len(part), "size_limit": 1 << 26, "version": 2, "zip_data": None,
        })
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}, sort_keys=True))
