"""A reader of TFRecord in plain Python, for peers that have none. Slow, so never used within timed code."""

import struct
import zlib

from peers.digests import RecordDigest


def frames(paths):
    """(path, offset, length of the payload) of each record, from its header alone."""
    for path in paths:
        with open(path, "rb") as file:
            at = 0
            while header := file.read(12):
                length = struct.unpack("<Q", header[:8])[0]
                yield path, at, length
                at += length + 16
                file.seek(at)


def payloads(paths):
    """The records of raw and GZIP shards."""
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            import gzip
            data = gzip.decompress(data)
        view = memoryview(data)
        at = 0
        while at < len(view):
            length = struct.unpack_from("<Q", view, at)[0]
            yield bytes(view[at + 12:at + 12 + length])
            at += length + 16


def digest(paths):
    """The result of RecordDigest for the records."""
    found = RecordDigest()
    found.add(payloads(paths))
    return found.result()


def file_crc(path):
    with open(path, "rb") as file:
        return zlib.crc32(file.read())
