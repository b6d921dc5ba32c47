"""Writes ArrayRecord files of every compression by Google's own writer. Takes array_record 0.8.6:
python3 testdata/array_record/make.py"""

import pathlib

from array_record.python import array_record_module

FOLDER = pathlib.Path(__file__).parent
OPTIONS = {
    "uncompressed": "group_size:1,uncompressed",
    "zstd": "group_size:3,zstd:3",
    "brotli": "group_size:4,brotli:6",
    "snappy": "group_size:7,snappy",
    "transposed": "group_size:2,transpose",
}


def record_of(i):
    """Every tenth is longer than a block."""
    size = 70_000 if i % 10 == 9 else i * 37 % 500
    return bytes((i + j * j) % 251 for j in range(size))


for name, options in OPTIONS.items():
    writer = array_record_module.ArrayRecordWriter(str(FOLDER / f"{name}.array_record"), options)
    for i in range(4 if name == "transposed" else 25):
        writer.write(record_of(i))
    writer.close()
