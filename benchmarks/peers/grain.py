"""Grain over ArrayRecord with two threads, the usual pair in JAX."""

import glob
import json
import sys

from peers import frames, protocol
from peers.digests import RecordDigest
from peers.protocol import BATCH, IMAGE_BATCH, IMAGE_SIZE, SIZES, get_by_number, opencv_record

NAME = "Grain + ArrayRecord"
INSTALL = ["grain", "array-record", "opencv-python-headless", "numpy"]
IMPORTS = ["grain", "grain.python", "array_record.python.array_record_module",
           "array_record.python.array_record_data_source", "cv2"]
CRC = True
FOLDERS = ["grain"]


# Groups of 256 for reading in order, which is close to ArrayRecord's default; single records for
# access by number, as Grain recommends.
GROUPS = {"large": 1, "small": 256, "small_single": 1, "numbers_10k": 1, "numbers_1m": 1}


def prepare(run):
    for kind, group in GROUPS.items():
        of = kind.removesuffix("_single")
        if of not in run.kinds():
            continue
        write_shards(list(frames.payloads(run.shards(of))), run.fresh_folder(f"grain/{kind}"), group)


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
    """Blocks of records in order by ArrayRecord's own reader, since Grain's single records are slower."""
    from array_record.python.array_record_module import ArrayRecordReader

    def epoch():
        for path in shards(run, kind):
            reader = ArrayRecordReader(path, "readahead_buffer_size:16777216")
            count = reader.num_records()
            block = BATCH if kind == "small" else IMAGE_BATCH
            for first in range(0, count, block):
                yield reader.read(first, min(count, first + block))
            reader.close()

    run.records(protocol.epochs(epoch), len, lambda block: block)


def source(run, kind):
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    return ArrayRecordDataSource(shards(run, "small_single" if kind == "small" else kind))


def options(run, ahead=512):
    from grain.python import ReadOptions
    return ReadOptions(num_threads=run.threads, prefetch_buffer_size=ahead)


def shuffled(run, kind, without_end):
    import grain
    ds = grain.MapDataset.source(source(run, kind)).shuffle(1)
    return ds.repeat() if without_end else ds


def exact(run, kind):
    run.records(lambda without_end: iter(shuffled(run, kind, without_end).to_iter_dataset(options(run))))


def mix_memory(run):
    def keys(_):
        ds = shuffled(run, "large", True).to_iter_dataset(options(run, 16))
        return map(protocol.record_key, ds)

    run.mix_memory(keys, [None])


def get(run, kind):
    found = source(run, kind)
    get_by_number(run, len(found), found.__getitems__)


def image(run):
    run.columns(lambda without_end: iter(shuffled(run, "large", without_end).map(opencv_record)
                                         .to_iter_dataset(options(run)).batch(IMAGE_BATCH)),
                len, lambda batch: {"image": batch})


def numbers(run, kind, batch):
    return iter(shuffled(run, kind, True).to_iter_dataset(options(run)).batch(batch, batch_fn=list))


def open_numbers(run, size):
    run.job(lambda: protocol.begin(numbers(run, f"numbers_{size}", BATCH)), 1)


def go_on(run, kind, batch, steps):
    def start():
        return numbers(run, kind, batch)

    iterator = start()
    for _ in range(steps):
        next(iterator)
    state = iterator.get_state()
    expected = next(iterator)
    run.result["state_bytes"] = len(json.dumps(state))

    def work():
        again = start()
        again.set_state(state)
        return protocol.begin(again)

    found, _ = run.job(work, 1)
    run.result["same"] = found == expected


def resume(run):
    go_on(run, "small", 16, run.batches_before_resume)


def middle(run, size):
    kind = f"numbers_{size}"
    go_on(run, kind, BATCH, run.count(kind) // BATCH // 2)


def permute(run, count):
    import grain
    run.job(lambda: grain.MapDataset.range(count).shuffle(1)[0], 1)


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = run.fresh_folder(f"grain/written/{kind}")

    def digest():
        from array_record.python.array_record_module import ArrayRecordReader
        found = RecordDigest()
        for path in sorted(glob.glob(f"{folder}/*")):
            found.add(ArrayRecordReader(path).read_all())
        return found.result()

    run.job(lambda: write_shards(records, folder, GROUPS[kind]), len(records), digest)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "exact_large": {"": lambda run: exact(run, "large")},
    "exact_small": {"": lambda run: exact(run, "small")},
    "get_large": {"": lambda run: get(run, "large")},
    "get_small": {"": lambda run: get(run, "small")},
    "image": {"OpenCV": image},
    "image_paced": {"OpenCV": image},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "resume": {"": resume},
    "mix_memory": {"exact": mix_memory},
    # Writing 100 million records takes ten minutes.
    **{f"open_{size}": {"": lambda run, size=size: open_numbers(run, size)} for size in SIZES[:2]},
    **{f"middle_{size}": {"": lambda run, size=size: middle(run, size)} for size in SIZES[:2]},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
