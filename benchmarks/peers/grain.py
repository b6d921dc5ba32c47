"""Grain over ArrayRecord, two threads: the pair that JAX's users have."""

import glob
import json
import os
import random
import sys

from peers import frames, protocol
from peers.protocol import BATCH, IMAGE_BATCH, IMAGE_SIZE, get_by_number, random_crop

NAME = "Grain + ArrayRecord"
INSTALL = ["grain", "array-record", "opencv-python-headless", "numpy"]
CRC = True
FOLDERS = ["grain"]


# Groups of 256 for reading in order, as ArrayRecord's default is near; single records for access by number, as Grain
# asks for.
GROUPS = {"large": 1, "small": 256, "small_single": 1}


def prepare(run):
    for kind, group in GROUPS.items():
        folder = run.folder(f"grain/{kind}")
        for path in glob.glob(f"{folder}/*"):
            os.remove(path)
        write_shards(list(frames.payloads(run.shards(kind.partition("_")[0]))), folder, group)


def write_shards(records, folder, group):
    from array_record.python.array_record_module import ArrayRecordWriter
    writers = [ArrayRecordWriter(f"{folder}/{i:02d}.array_record", f"group_size:{group},uncompressed")
               for i in range(16)]
    for i, record in enumerate(records):
        writers[i % 16].write(record)
    for writer in writers:
        writer.close()


def shards(run, kind):
    return sorted(glob.glob(f"{run.data}/grain/{kind}/*.array_record"))


def read(run, kind):
    """Blocks of records by ArrayRecord's own reader, in order: Grain's single records are slower."""
    from array_record.python.array_record_module import ArrayRecordReader

    def epoch():
        for path in shards(run, kind):
            reader = ArrayRecordReader(path, "readahead_buffer_size:16777216")
            count = reader.num_records()
            block = BATCH if kind == "small" else IMAGE_BATCH
            for first in range(0, count, block):
                yield reader.read(first, min(count, first + block))
            reader.close()

    run.records(lambda without_end: protocol.endless(epoch) if without_end else epoch(), len,
                lambda block: block)


def source(run, kind):
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    return ArrayRecordDataSource(shards(run, "small_single" if kind == "small" else kind))


def options(run):
    from grain.python import ReadOptions
    return ReadOptions(num_threads=run.threads, prefetch_buffer_size=512)


def shuffled(run, kind, without_end):
    import grain
    ds = grain.MapDataset.source(source(run, kind)).shuffle(1)
    return ds.repeat() if without_end else ds


def exact(run, kind):
    run.records(lambda without_end: iter(shuffled(run, kind, without_end).to_iter_dataset(options(run))))


def get(run, kind):
    found = source(run, kind)
    get_by_number(run, len(found), found.__getitems__)


def decode(record):
    """The picture's bytes out of the Example, decoded by OpenCV, cut and resized (INTER_LINEAR)."""
    import cv2
    import numpy as np
    cv2.setNumThreads(0)
    begin = record.index(b"\xff\xd8")
    picture = cv2.imdecode(np.frombuffer(record, np.uint8, offset=begin), cv2.IMREAD_COLOR)
    height, width = picture.shape[:2]
    x, y, w, h = random_crop(width, height, random)
    picture = cv2.resize(picture[y:y + h, x:x + w], (IMAGE_SIZE, IMAGE_SIZE))
    if random.random() < 0.5:
        picture = cv2.flip(picture, 1)
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


def image(run):
    run.columns(lambda without_end: iter(shuffled(run, "large", without_end).map(decode)
                                         .to_iter_dataset(options(run)).batch(IMAGE_BATCH)),
                len, lambda batch: {"image": batch})


def resume(run):
    def start():
        return iter(shuffled(run, "small", True).to_iter_dataset(options(run)).batch(
            16, batch_fn=list))

    iterator = start()
    for _ in range(run.batches_before_resume):
        next(iterator)
    state = iterator.get_state()
    expected = next(iterator)
    run.result["state_bytes"] = len(json.dumps(state))
    found = []

    def work():
        again = start()
        again.set_state(state)
        found.append(next(again))

    run.job(work, 1)
    run.result["same"] = found[0] == expected


def permute(run, count):
    import grain
    run.job(lambda: grain.MapDataset.range(count).shuffle(1)[0], 1)


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = run.folder(f"grain/written/{kind}")

    def digest():
        from array_record.python.array_record_module import ArrayRecordReader
        found = protocol.RecordDigest()
        for path in sorted(glob.glob(f"{folder}/*")):
            found.add(ArrayRecordReader(path).read_all())
        return found.result()

    run.job(lambda: write_shards(records, folder, GROUPS[kind]), len(records), digest)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "read_large_cold": {"": lambda run: read(run, "large")},
    "exact_large": {"": lambda run: exact(run, "large")},
    "exact_small": {"": lambda run: exact(run, "small")},
    "get_large": {"": lambda run: get(run, "large")},
    "get_small": {"": lambda run: get(run, "small")},
    "image": {"OpenCV": image},
    "image_paced": {"OpenCV": image},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "resume": {"": resume},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
