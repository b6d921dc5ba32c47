"""tfrecord (vahidk): a reader of TFRecord in Python, without TensorFlow, which checks no CRC. Images are read by
DataLoader with two workers, which divide each shard by its index, and OpenCV."""

import sys

from peers import frames, protocol
from peers.protocol import BATCH, IMAGE_BATCH, SIZES, WINDOW, opencv_record

NAME = "tfrecord (vahidk)"
INSTALL = ["tfrecord", "torch", "opencv-python-headless", "numpy"]
IMPORTS = ["tfrecord.reader", "torch", "cv2"]
CRC = False


def prepare(run):
    """Makes indexes of the images."""
    if "large" not in run.kinds():
        return
    for path in run.shards("large"):
        with open(f"{path}.tfindex", "w") as file:
            file.writelines(f"{offset} {length + 16}\n" for _, offset, length in frames.frames([path]))


def records(run, kind):
    from tfrecord.reader import tfrecord_iterator
    for path in run.shards(kind):
        yield from tfrecord_iterator(path, compression_type="gzip" if kind.endswith("gzip") else None)


def read(run, kind):
    run.records(protocol.epochs(lambda: records(run, kind)), look=lambda record: [bytes(record)])


def shuffle(run, kind):
    from tfrecord.iterator_utils import shuffle_iterator

    def epoch():
        # It yields views of a buffer that is reused.
        return shuffle_iterator(map(bytes, records(run, kind)), WINDOW[kind])

    run.records(protocol.epochs(epoch), look=lambda record: [record])


def mix_memory(run):
    from tfrecord.iterator_utils import shuffle_iterator

    def keys(window):
        for _ in range(2):
            yield from map(protocol.record_key, shuffle_iterator(map(bytes, records(run, "large")), window))

    run.mix_memory(keys, protocol.windows(run))


def open_numbers(run, size):
    from tfrecord.iterator_utils import shuffle_iterator

    def work():
        shuffled = shuffle_iterator(map(bytes, records(run, f"numbers_{size}")), WINDOW["small"])
        return [next(shuffled) for _ in range(BATCH)], shuffled

    run.job(work, 1)


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

    run.columns(protocol.epochs(batches), lambda batch: len(batch["y"]), lambda batch: batch)


def image(run):
    import torch
    from tfrecord.torch.dataset import TFRecordDataset
    torch.set_num_threads(1)
    ds = torch.utils.data.ChainDataset([
        TFRecordDataset(path, f"{path}.tfindex", {"image/encoded": "byte"}, shuffle_queue_size=WINDOW["large"],
                        transform=lambda row: opencv_record(row["image/encoded"]))
        for path in run.shards("large")])
    loader = torch.utils.data.DataLoader(ds, IMAGE_BATCH, num_workers=run.threads, persistent_workers=True,
                                         prefetch_factor=4)
    run.columns(protocol.epochs(lambda: loader), len, lambda batch: {"image": batch.numpy()})


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "read_large_gzip": {"": lambda run: read(run, "large_gzip")},
    "read_small_gzip": {"": lambda run: read(run, "small_gzip")},
    "shuffle_large": {"": lambda run: shuffle(run, "large")},
    "shuffle_small": {"": lambda run: shuffle(run, "small")},
    "parse": {"": parse},
    "image": {"OpenCV": image},
    "image_paced": {"OpenCV": image},
    "mix_memory": {"": mix_memory},
    **{f"open_{size}": {"": lambda run, size=size: open_numbers(run, size)} for size in SIZES},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
