"""A small writer of uncompressed ArrayRecord files for tests, by Python alone.

tfrecord/riegeli_chunk.h and tfrecord/array_record_footer.h say what the format is. Those who have array_record
installed also test files that it wrote, of every option (tests/package/array_record_test.py)."""

import struct

BLOCK, BLOCK_HEADER, CHUNK_HEADER = 1 << 16, 24, 40
MAGIC = 0x71930E704FDAE05E
KEY = struct.unpack("<4Q", b"Riegeli/records\n" * 2)
PI = ((0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3),
      (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377))
ZIPPER = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
MASK, LOW = (1 << 64) - 1, (1 << 32) - 1


def swap(lane):
    return (lane >> 32 | lane << 32) & MASK


def zipper(lanes):
    """Mixes the bytes of each pair of lanes."""
    mixed = bytearray()
    for at in (0, 2):
        pair = struct.pack("<2Q", *lanes[at:at + 2])
        mixed += bytes(pair[i] for i in ZIPPER)
    return struct.unpack("<4Q", mixed)


def highway_hash(content):
    """HighwayHash64 with the key of Riegeli/records."""
    v0 = [p ^ k for p, k in zip(PI[0], KEY)]
    v1 = [p ^ swap(k) for p, k in zip(PI[1], KEY)]
    mul0, mul1 = list(PI[0]), list(PI[1])

    def update(lanes):
        for i in range(4):
            v1[i] = (v1[i] + mul0[i] + lanes[i]) & MASK
            mul0[i] ^= (v1[i] & LOW) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & MASK
            mul1[i] ^= (v0[i] & LOW) * (v1[i] >> 32)
        v0[:] = [(a + b) & MASK for a, b in zip(v0, zipper(v1))]
        v1[:] = [(a + b) & MASK for a, b in zip(v1, zipper(v0))]

    whole = len(content) & ~31
    for at in range(0, whole, 32):
        update(struct.unpack_from("<4Q", content, at))
    rest = content[whole:]
    if rest:
        size = len(rest)
        v0[:] = [(v + (size << 32) + size) & MASK for v in v0]
        for i, v in enumerate(v1):
            halves = [(h << size | h >> (32 - size)) & LOW for h in (v & LOW, v >> 32)]
            v1[i] = halves[0] | halves[1] << 32
        packet = bytearray(32)
        words = size & ~3
        packet[:words] = rest[:words]
        if size >= 16:
            packet[28:] = rest[-4:]
        elif size % 4:
            packet[16:19] = bytes([rest[words], rest[words + size % 4 // 2], rest[-1]])
        update(struct.unpack("<4Q", packet))
    for _ in range(4):
        update([swap(v0[i]) for i in (2, 3, 0, 1)])
    return (v0[0] + v1[0] + mul0[0] + mul1[0]) & MASK


def with_hash(content):
    return struct.pack("<Q", highway_hash(content)) + content


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def chunk(kind, count, decoded, data, data_hash=None):
    data_hash = highway_hash(data) if data_hash is None else data_hash
    return with_hash(struct.pack("<QQQQ", len(data), data_hash, count << 8 | ord(kind), decoded)) + data


def simple_chunk(records):
    sizes, values = b"".join(varint(len(record)) for record in records), b"".join(records)
    return chunk("r", len(records), len(values), b"\0" + varint(len(sizes)) + sizes + values)


def append(file, content, count):
    """Appends a chunk, with block headers, and padding up to `count` bytes."""
    begin, blocks = len(file), []
    content += bytes(max(0, count - len(content)))
    while content:
        if len(file) % BLOCK == 0:
            blocks.append(len(file))
            file += bytes(BLOCK_HEADER)
        room = BLOCK - len(file) % BLOCK
        file += content[:room]
        content = content[room:]
    for block in blocks:
        file[block:block + BLOCK_HEADER] = with_hash(struct.pack("<QQ", block - begin, len(file) - block))


def pad(file):
    """Fills the block by a padding chunk, whose content is ignored."""
    left = -len(file) % BLOCK
    if left:
        size = left - CHUNK_HEADER if left > CHUNK_HEADER else left + BLOCK - BLOCK_HEADER - CHUNK_HEADER
        append(file, chunk("p", 0, 0, bytes(size), data_hash=0), 0)


def message(*numbers):
    return b"".join(bytes([field << 3]) + varint(number) for field, number in enumerate(numbers, 1))


def file_bytes(records, group=1, listed=slice(None), claims=None):
    """The bytes of a file with chunks of `group` records, and the places of its chunks. A sound footer lists all, and
    claims no other sizes of chunks, {number: bytes of its records}."""
    file, entries = bytearray(), []
    append(file, chunk("s", 0, 0, b""), 0)
    for first in range(0, len(records), group):
        part = records[first:first + group]
        entries.append((len(file), sum(map(len, part)), len(part)))
        append(file, simple_chunk(part), len(part))
    for number, size in (claims or {}).items():
        entries[number] = (entries[number][0], size, entries[number][2])
    entries = entries[listed]
    metadata = message(1, len(entries), sum(entry[2] for entry in entries))
    footer = len(file)
    append(file, simple_chunk([b"\x0a" + varint(len(metadata)) + metadata, *(message(*e) for e in entries)]),
           len(entries) + 1)
    pad(file)
    append(file, simple_chunk([message(footer, MAGIC)] * 3), 3)
    pad(file)
    return bytes(file), [entry[0] for entry in entries]


def write(path, records, group=1, listed=slice(None)):
    """Writes a file, and returns the places of its chunks."""
    content, places = file_bytes(records, group, listed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return places
