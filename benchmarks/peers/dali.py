"""NVIDIA DALI on the CPU: its TFRecord reader with indexes, and its fused crop decoder."""

import os
import sys

from peers import frames, protocol
from peers.protocol import BATCH, FEATURES, IMAGE_BATCH, IMAGE_SIZE, WINDOW

NAME = "DALI"
INSTALL = ["nvidia-dali-cuda120", "numpy"]
IMPORTS = ["nvidia.dali", "nvidia.dali.fn", "nvidia.dali.tfrecord", "nvidia.dali.types"]
CRC = False


def prepare(run):
    """Makes the indexes of records that DALI needs."""
    for kind in {"large", "huge", "small", "tokens"} & set(run.kinds()):
        out = {}
        for path, offset, length in frames.frames(run.shards(kind)):
            out.setdefault(path, []).append(f"{offset} {length + 16}\n")
        for path, lines in out.items():
            with open(f"{path}.idx", "w") as file:
                file.writelines(lines)


def pipeline(run, kind, features, batch, then=None, depth=2, **options):
    from nvidia.dali import fn, pipeline_def
    paths = run.shards(kind)

    @pipeline_def(batch_size=batch, num_threads=run.threads, device_id=None, prefetch_queue_depth=depth)
    def chain():
        columns = fn.readers.tfrecord(path=paths, index_path=[f"{p}.idx" for p in paths],
                                      features=features, name="reader", **options)
        return then(columns) if then else tuple(columns[name] for name in features)

    made = chain()
    made.build()
    return made


def batches(run, made, kind, batch, without_end):
    """Batches without the padding that DALI adds to the last batch of an epoch."""
    left = run.count(kind)
    while left > 0 or without_end:
        yield made.run(), batch if without_end else min(batch, left)
        left -= batch


def read(run, kind, batch, **options):
    """DALI does not deliver payloads, so this reads the bytes of images, and the label of small records."""
    from nvidia.dali import tfrecord
    features = ({"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                 "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}
                if kind == "large" else {"y": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)})

    def look(element):
        import numpy as np
        outputs, rows = element
        return {"label": np.asarray([outputs[-1].at(i)[0] for i in range(rows)])}

    run.columns(lambda without_end: batches(run, pipeline(run, kind, features, batch, **options), kind,
                                            batch, without_end), lambda element: element[1], look)


def parsed(run, without_end, window=0):
    from nvidia.dali import tfrecord
    features = {"x": tfrecord.FixedLenFeature([FEATURES], tfrecord.float32, 0.0),
                "y": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}
    options = {"random_shuffle": True, "initial_fill": window} if window else {}
    return batches(run, pipeline(run, "small", features, BATCH, **options), "small", BATCH, without_end)


def mix_memory(run):
    from nvidia.dali import tfrecord
    features = {"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "image/key": tfrecord.FixedLenFeature((), tfrecord.string, "")}

    def keys(window):
        made = pipeline(run, "large", features, IMAGE_BATCH, depth=1, random_shuffle=True,
                        initial_fill=window)
        while True:
            found = made.run()[1]
            for i in range(IMAGE_BATCH):
                yield int(found.at(i).tobytes())

    run.mix_memory(keys, protocol.windows(run))


def parse(run):
    def look(element):
        (x, y), rows = element
        return {"x": x.as_array()[:rows], "y": y.as_array()[:rows]}

    run.columns(lambda without_end: parsed(run, without_end), lambda element: element[1], look)


def image(run, kind, antialias):
    from nvidia.dali import fn, tfrecord, types

    def then(columns):
        image = fn.decoders.image_random_crop(columns["image/encoded"], device="cpu",
                                                random_area=[0.08, 1.0],
                                                random_aspect_ratio=[3 / 4, 4 / 3])
        image = fn.resize(image, size=[IMAGE_SIZE, IMAGE_SIZE], antialias=antialias,
                            interp_type=types.INTERP_LINEAR)
        return fn.flip(image, horizontal=fn.random.coin_flip()), columns["image/class/label"]

    features = {"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}

    def look(element):
        (images, labels), rows = element
        return {"image": images.as_array()[:rows], "label": labels.as_array()[:rows]}

    run.columns(lambda without_end: batches(run, pipeline(run, kind, features, IMAGE_BATCH, then),
                                            kind, IMAGE_BATCH, without_end),
                lambda element: element[1], look)


def first_batch(run):
    run.job(lambda: protocol.begin(parsed(run, True, WINDOW["small"])), 1)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large", IMAGE_BATCH, dont_use_mmap=run.cold)},
    "read_large_used": {},  # DALI does not deliver payloads
    "read_small": {"": lambda run: read(run, "small", BATCH)},
    "shuffle_large": {"": lambda run: read(run, "large", IMAGE_BATCH, random_shuffle=True,
                                           initial_fill=WINDOW["large"], dont_use_mmap=run.cold)},
    "shuffle_small": {"": lambda run: read(run, "small", BATCH, random_shuffle=True,
                                           initial_fill=WINDOW["small"])},
    "parse": {"": parse},
    "image": {"": lambda run: image(run, "large", False)},
    "image_antialiased": {"": lambda run: image(run, "large", True)},
    "image_huge": {"": lambda run: image(run, "huge", True)},
    "image_paced": {"": lambda run: image(run, "large", True)},
    "mix_memory": {"": mix_memory},
    "first_batch": {"": first_batch},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
