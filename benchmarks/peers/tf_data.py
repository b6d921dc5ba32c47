"""tf.data, with what its performance guide says: parallel reads and maps, batch before parse, prefetch, no order
asked for where none is needed."""

import os

from peers import frames, protocol
from peers.protocol import BATCH, FEATURES, IMAGE_BATCH, IMAGE_SIZE, WINDOW

NAME = "tf.data"
INSTALL = ["tensorflow-cpu==2.21.0"]
CRC = True


def records(run, kind, compression="", parallel=16):
    import tensorflow as tf
    return tf.data.TFRecordDataset(run.shards(kind), compression, num_parallel_reads=parallel,
                                   buffer_size=8 << 20)


def options(run, ds):
    import tensorflow as tf
    chosen = tf.data.Options()
    chosen.threading.private_threadpool_size = run.threads
    chosen.deterministic = False
    return ds.with_options(chosen)


def repeated(ds, without_end):
    return ds.repeat() if without_end else ds


def read(run, kind, compression=""):
    import tensorflow as tf
    small = kind.startswith("small")

    def make(without_end):
        ds = repeated(records(run, kind, compression), without_end)
        if small:
            ds = ds.batch(BATCH)
        # Options cost the large records half of the speed: their reads run in the pool of the maps.
        return iter(ds.prefetch(tf.data.AUTOTUNE))

    if small:
        run.records(make, lambda batch: int(batch.shape[0]), lambda batch: batch.numpy())
    else:
        run.records(make, look=lambda record: [record.numpy()])


def shuffle(run, kind, window):
    import tensorflow as tf
    small = kind == "small"

    def make(without_end):
        ds = records(run, kind).shuffle(window or run.count(kind), seed=1)
        ds = repeated(ds, without_end)
        if small:
            ds = ds.batch(BATCH)
        return iter(ds.prefetch(tf.data.AUTOTUNE))

    if small:
        run.records(make, lambda batch: int(batch.shape[0]), lambda batch: batch.numpy())
    else:
        run.records(make, look=lambda record: [record.numpy()])


def parsed(run, without_end, window=0, batch=BATCH):
    import tensorflow as tf
    spec = {"x": tf.io.FixedLenFeature([FEATURES], tf.float32),
            "y": tf.io.FixedLenFeature([], tf.int64)}
    ds = records(run, "small")
    if window:
        ds = ds.shuffle(window, seed=1)
    ds = repeated(ds, without_end).batch(batch)
    ds = ds.map(lambda batch: tf.io.parse_example(batch, spec), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def parse(run):
    import tensorflow as tf  # noqa: F401  not part of what is timed
    run.columns(lambda without_end: iter(parsed(run, without_end)),
                lambda batch: int(batch["y"].shape[0]),
                lambda batch: {"x": batch["x"].numpy(), "y": batch["y"].numpy()})


def tokens(run):
    import tensorflow as tf
    spec = {"ids": tf.io.RaggedFeature(tf.int64)}

    def make(without_end):
        ds = repeated(records(run, "tokens"), without_end).batch(IMAGE_BATCH)
        ds = ds.map(lambda batch: tf.io.parse_example(batch, spec)["ids"].to_tensor(),
                    num_parallel_calls=tf.data.AUTOTUNE)
        return iter(ds.prefetch(tf.data.AUTOTUNE))

    run.columns(make, lambda batch: int(batch.shape[0]),
                lambda batch: {"ids": (array := batch.numpy())[array != 0]})


def image(run, antialias):
    import tensorflow as tf

    def decode(record):
        parsed = tf.io.parse_single_example(record, {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        size = tf.io.extract_jpeg_shape(parsed["image/encoded"])
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            size, tf.zeros([1, 0, 4]), aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1),
            max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        picture = tf.io.decode_and_crop_jpeg(parsed["image/encoded"], window, channels=3,
                                             dct_method="INTEGER_FAST")
        picture = tf.image.resize(picture, [IMAGE_SIZE, IMAGE_SIZE], method="bilinear",
                                  antialias=antialias)
        picture = tf.image.random_flip_left_right(picture)
        return tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8), parsed["image/class/label"]

    def make(without_end):
        ds = repeated(records(run, "large", parallel=4), without_end)
        ds = ds.map(decode, num_parallel_calls=run.threads, deterministic=False).batch(IMAGE_BATCH)
        return iter(options(run, ds.prefetch(2)))

    run.columns(make, lambda batch: int(batch[0].shape[0]),
                lambda batch: {"image": batch[0].numpy(), "label": batch[1].numpy()})


def write(run, kind, compression=""):
    import tensorflow as tf
    found = list(frames.payloads(run.shards(kind)))
    folder = run.folder("tf_data/written")
    paths = [f"{folder}/train-{i:05d}-of-00016" for i in range(16)]

    def work():
        chosen = tf.io.TFRecordOptions(compression_type=compression)
        writers = [tf.io.TFRecordWriter(path, chosen) for path in paths]
        for i, record in enumerate(found):
            writers[i % 16].write(record)
        for writer in writers:
            writer.close()

    run.job(work, len(found), lambda: frames.digest(paths))
    run.result["bytes"] = sum(map(os.path.getsize, paths))


def feature(value):
    import tensorflow as tf
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def write_examples(examples, folder):
    """Dicts to 16 shards in turn, as a plain script does it."""
    import tensorflow as tf
    paths = [f"{folder}/train-{i:05d}-of-00016" for i in range(16)]
    writers = [tf.io.TFRecordWriter(path) for path in paths]
    for i, example in enumerate(examples):
        made = tf.train.Example(features=tf.train.Features(
            feature={name: feature(value) for name, value in example.items()}))
        writers[i % 16].write(made.SerializeToString())
    for writer in writers:
        writer.close()
    return paths


def convert_pictures(run):
    import PIL.Image
    import tensorflow as tf  # noqa: F401
    found = run.pictures()
    folder = run.folder("tf_data/converted")

    def examples():
        for path, label in found:
            with open(path, "rb") as file:
                data = file.read()
            with PIL.Image.open(path) as picture:
                width, height = picture.size
            name = os.path.basename(os.path.dirname(path))
            yield {"image/encoded": data, "image/format": b"jpeg", "image/height": height,
                   "image/width": width, "image/class/label": label,
                   "image/class/text": name.encode(),
                   "image/filename": f"{name}/{os.path.basename(path)}".encode()}

    paths = []
    run.job(lambda: paths.extend(write_examples(examples(), folder)), len(found),
            lambda: frames.digest(paths))


def convert_rows(run, kind):
    """What the columns hold is known to it."""
    import csv
    import json
    import tensorflow as tf  # noqa: F401
    kinds = {"id": int, "day": int, "flag": int, "price": float, "score": float}
    folder = run.folder("tf_data/converted")
    done = []

    def examples():
        with open(f"{run.data}/rows.{kind}", newline="") as file:
            if kind == "csv":
                for row in csv.DictReader(file):
                    yield {name: kinds[name](cell) if name in kinds else cell.encode()
                           for name, cell in row.items()}
            else:
                for row in map(json.loads, file):
                    yield {name: cell.encode() if isinstance(cell, str) else cell
                           for name, cell in row.items()}

    run.job(lambda: done.extend(write_examples(examples(), folder)), run.count("rows"),
            lambda: frames.digest(done))


def verify(run, kind):
    """Reading all is the only check that there is."""
    import tensorflow as tf
    done = []

    def work():
        ds = records(run, kind)
        if kind == "small":
            ds = ds.batch(BATCH)
        for element in ds.prefetch(tf.data.AUTOTUNE):
            done.append(int(element.shape[0]) if kind == "small" else 1)

    run.job(work, run.count(kind), lambda: {"records": sum(done)})


def first_batch(run):
    import tensorflow as tf  # noqa: F401
    run.job(lambda: next(iter(parsed(run, True, WINDOW["small"]))), 1)


def resume(run):
    """A checkpoint of the iterator has the shuffle buffer in it."""
    import glob
    import tensorflow as tf
    batches = run.batches_before_resume

    def start():
        return iter(parsed(run, True, WINDOW["small"], batch=16))

    iterator = start()
    for _ in range(batches):
        next(iterator)
    folder = run.folder("tf_data/checkpoint")
    path = tf.train.Checkpoint(iterator=iterator).write(f"{folder}/state")
    expected = next(iterator)["x"].numpy()
    run.result["state_bytes"] = sum(map(os.path.getsize, glob.glob(f"{folder}/state*")))
    found = []

    def work():
        again = start()
        tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
        found.append(next(again)["x"].numpy())

    run.job(work, 1)
    run.result["same"] = bool((found[0] == expected).all())


def permute(run, count):
    import tensorflow as tf
    first = []

    def work():
        first.append(int(next(iter(tf.data.Dataset.range(count).shuffle(count, seed=1)))))

    run.job(work, 1)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "read_large_gzip": {"": lambda run: read(run, "large_gzip", "GZIP")},
    "read_small_gzip": {"": lambda run: read(run, "small_gzip", "GZIP")},
    "read_large_cold": {"": lambda run: read(run, "large")},
    "shuffle_large": {"": lambda run: shuffle(run, "large", WINDOW["large"])},
    "shuffle_small": {"": lambda run: shuffle(run, "small", WINDOW["small"])},
    "exact_large": {"": lambda run: shuffle(run, "large", 0)},
    "parse": {"": parse},
    "tokens": {"": tokens},
    "image": {"": lambda run: image(run, False)},
    "image_antialiased": {"": lambda run: image(run, True)},
    "image_paced": {"": lambda run: image(run, False)},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "write_small_gzip": {"": lambda run: write(run, "small_gzip", "GZIP")},
    "convert_pictures": {"": convert_pictures},
    "convert_csv": {"": lambda run: convert_rows(run, "csv")},
    "convert_jsonl": {"": lambda run: convert_rows(run, "jsonl")},
    "verify_large": {"": lambda run: verify(run, "large")},
    "verify_small": {"": lambda run: verify(run, "small")},
    "first_batch": {"": first_batch},
    "resume": {"": resume},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}

if __name__ == "__main__":
    import sys
    protocol.main(sys.modules["__main__"])
