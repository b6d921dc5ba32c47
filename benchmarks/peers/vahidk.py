"""tfrecord (vahidk): a reader of TFRecord in Python, without TensorFlow; it checks no CRC."""

import sys

from peers import protocol
from peers.protocol import BATCH, WINDOW

NAME = "tfrecord (vahidk)"
INSTALL = ["tfrecord", "numpy"]
CRC = False


def records(run, kind):
    from tfrecord.reader import tfrecord_iterator
    for path in run.shards(kind):
        yield from tfrecord_iterator(path, compression_type="gzip" if kind.endswith("gzip") else None)


def read(run, kind):
    run.records(lambda without_end: protocol.endless(lambda: records(run, kind)) if without_end
                else records(run, kind), look=lambda record: [bytes(record)])


def shuffle(run, kind):
    from tfrecord.iterator_utils import shuffle_iterator

    def epoch():
        # What it gives is a view of a buffer that is used again.
        return shuffle_iterator(map(bytes, records(run, kind)), WINDOW[kind])

    run.records(lambda without_end: protocol.endless(epoch) if without_end else epoch(),
                look=lambda record: [record])


def parse(run):
    import numpy as np
    from tfrecord.reader import tfrecord_loader

    def rows():
        for path in run.shards("small"):
            yield from tfrecord_loader(path, None, {"x": "float", "y": "int"})

    def batches():
        batch = []
        for row in rows():
            batch.append(row)
            if len(batch) == BATCH:
                yield {name: np.stack([row[name] for row in batch]) for name in ("x", "y")}
                batch = []
        if batch:
            yield {name: np.stack([row[name] for row in batch]) for name in ("x", "y")}

    run.columns(lambda without_end: protocol.endless(batches) if without_end else batches(),
                lambda batch: len(batch["y"]), lambda batch: batch)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "read_large_gzip": {"": lambda run: read(run, "large_gzip")},
    "read_small_gzip": {"": lambda run: read(run, "small_gzip")},
    "read_large_cold": {"": lambda run: read(run, "large")},
    "shuffle_large": {"": lambda run: shuffle(run, "large")},
    "shuffle_small": {"": lambda run: shuffle(run, "small")},
    "parse": {"": parse},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
