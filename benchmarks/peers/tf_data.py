"""tf.data, following its performance guide: parallel reads and maps, batch before parse, prefetch, and no order
where none is needed. If possible, records are batched within the interleave, shard by shard, because single small
records cost five times as much. "record by record" is what most programs do."""

import os

from peers import frames, protocol
from peers.protocol import BATCH, FEATURES, IMAGE_BATCH, IMAGE_SIZE, SIZES, WINDOW

LARGE_BATCH = 16

NAME = "tf.data"
INSTALL = ["tensorflow-cpu==2.21.0", "pillow"]
IMPORTS = ["tensorflow"]
CRC = True


def records(run, kind, compression="", parallel=16):
    import tensorflow as tf
    return tf.data.TFRecordDataset(run.shards(kind), compression, num_parallel_reads=parallel,
                                   buffer_size=8 << 20)


def batches(run, kind, compression=""):
    """Batches of records, each from a single shard, with several shards at a time."""
    import tensorflow as tf
    size = BATCH if kind.startswith("small") else LARGE_BATCH
    return tf.data.Dataset.from_tensor_slices(run.shards(kind)).interleave(
        lambda path: tf.data.TFRecordDataset(path, compression, buffer_size=1 << 20).batch(size),
        cycle_length=2 * run.threads, num_parallel_calls=2 * run.threads, deterministic=False)


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

    def make(without_end):
        return iter(repeated(batches(run, kind, compression), without_end).prefetch(tf.data.AUTOTUNE))

    run.records(make, lambda batch: int(batch.shape[0]), lambda batch: batch.numpy())


def read_singly(run, kind, compression=""):
    import tensorflow as tf
    small = kind.startswith("small")

    def make(without_end):
        ds = repeated(records(run, kind, compression), without_end)
        if small:
            ds = ds.batch(BATCH)
        # Options halve the speed of large records, because their reads then run in the pool of the
        # maps.
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


def mix_memory(run):
    """Small buffers, for little memory."""
    import tensorflow as tf

    def keys(window):
        ds = tf.data.TFRecordDataset(run.shards("large"), buffer_size=1 << 18, num_parallel_reads=16)
        for record in ds.shuffle(window, seed=1).repeat(2).prefetch(1):
            yield protocol.record_key(record.numpy())

    run.mix_memory(keys, protocol.windows(run))


def parsed(run, without_end, window=0, batch=BATCH, singly=False):
    import tensorflow as tf
    spec = {"x": tf.io.FixedLenFeature([FEATURES], tf.float32),
            "y": tf.io.FixedLenFeature([], tf.int64)}
    if window or singly:
        ds = records(run, "small")
        if window:
            ds = ds.shuffle(window, seed=1)
        ds = repeated(ds, without_end).batch(batch)
    else:
        ds = repeated(batches(run, "small"), without_end)
    ds = ds.map(lambda batch: tf.io.parse_example(batch, spec), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def parse(run, singly=False):
    run.columns(lambda without_end: iter(parsed(run, without_end, singly=singly)),
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


def image(run, kind, antialias):
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
        image = tf.io.decode_and_crop_jpeg(parsed["image/encoded"], window, channels=3,
                                             dct_method="INTEGER_FAST")
        image = tf.image.resize(image, [IMAGE_SIZE, IMAGE_SIZE], method="bilinear",
                                  antialias=antialias)
        image = tf.image.random_flip_left_right(image)
        return tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8), parsed["image/class/label"]

    def make(without_end):
        ds = repeated(records(run, kind, parallel=4), without_end)
        ds = ds.map(decode, num_parallel_calls=run.threads, deterministic=False).batch(IMAGE_BATCH)
        return iter(options(run, ds.prefetch(2)))

    run.columns(make, lambda batch: int(batch[0].shape[0]),
                lambda batch: {"image": batch[0].numpy(), "label": batch[1].numpy()})


def write(run, kind, compression=""):
    import tensorflow as tf
    found = list(frames.payloads(run.shards(kind)))
    folder = run.fresh_folder("tf_data/written")
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
    """Writes dicts to 16 shards in turn, as a simple script does."""
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


def convert_images(run):
    import PIL.Image
    found = run.images()
    folder = run.fresh_folder("tf_data/converted")

    def examples():
        for path, label in found:
            with open(path, "rb") as file:
                data = file.read()
            with PIL.Image.open(path) as image:
                width, height = image.size
            name = os.path.basename(os.path.dirname(path))
            yield {"image/encoded": data, "image/format": b"jpeg", "image/height": height,
                   "image/width": width, "image/class/label": label,
                   "image/class/text": name.encode(),
                   "image/filename": f"{name}/{os.path.basename(path)}".encode()}

    paths = []
    run.job(lambda: paths.extend(write_examples(examples(), folder)), len(found),
            lambda: frames.digest(paths))


def convert_rows(run, kind):
    """Converts rows, with the types of the columns given."""
    import csv
    import json
    kinds = {"id": int, "day": int, "flag": int, "price": float, "score": float}
    folder = run.fresh_folder("tf_data/converted")
    done = []

    def examples():
        with open(f"{run.data}/rows/rows.{kind}", newline="") as file:
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


def verify(run, kind, singly=False):
    """Reading everything is tf.data's only check."""
    import tensorflow as tf
    done = []

    def work():
        ds = records(run, kind).batch(BATCH) if singly else batches(run, kind)
        for batch in ds.prefetch(tf.data.AUTOTUNE):
            done.append(int(batch.shape[0]))

    run.job(work, run.count(kind), lambda: {"records": sum(done)})


def first_batch(run):
    run.job(lambda: protocol.begin(parsed(run, True, WINDOW["small"])), 1)


def go_on(run, make, steps, look):
    """Resumes from a checkpoint of the iterator, which includes the shuffle buffer."""
    import glob
    import tensorflow as tf
    iterator = iter(make())
    for _ in range(steps):
        next(iterator)
    folder = run.folder("tf_data/checkpoint")
    path = tf.train.Checkpoint(iterator=iterator).write(f"{folder}/state")
    expected = look(next(iterator))
    run.result["state_bytes"] = sum(map(os.path.getsize, glob.glob(f"{folder}/state*")))

    def work():
        again = iter(make())
        tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
        return look(next(again)), again

    found, _ = run.job(work, 1)
    run.result["same"] = bool((found == expected).all())


def resume(run):
    go_on(run, lambda: parsed(run, True, WINDOW["small"], batch=16), run.batches_before_resume,
          lambda batch: batch["x"].numpy())


def numbers(run, size):
    import tensorflow as tf
    ds = records(run, f"numbers_{size}").shuffle(WINDOW["small"], seed=1).batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


def open_numbers(run, size):
    run.job(lambda: protocol.begin(numbers(run, size)), 1)


def middle(run, size):
    go_on(run, lambda: numbers(run, size), run.count(f"numbers_{size}") // BATCH // 2,
          lambda batch: batch.numpy())


def permute(run, count):
    import tensorflow as tf
    first = []

    def work():
        first.append(int(next(iter(tf.data.Dataset.range(count).shuffle(count, seed=1)))))

    run.job(work, 1)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large"),
                   "record by record": lambda run: read_singly(run, "large")},
    "read_small": {"": lambda run: read(run, "small"),
                   "record by record": lambda run: read_singly(run, "small")},
    "read_large_gzip": {"": lambda run: read(run, "large_gzip", "GZIP"),
                        "record by record": lambda run: read_singly(run, "large_gzip", "GZIP")},
    "read_small_gzip": {"": lambda run: read(run, "small_gzip", "GZIP"),
                        "record by record": lambda run: read_singly(run, "small_gzip", "GZIP")},
    "shuffle_large": {"": lambda run: shuffle(run, "large", WINDOW["large"])},
    "shuffle_small": {"": lambda run: shuffle(run, "small", WINDOW["small"])},
    "exact_large": {"": lambda run: shuffle(run, "large", 0)},
    "parse": {"": parse, "record by record": lambda run: parse(run, True)},
    "tokens": {"": tokens},
    "image": {"": lambda run: image(run, "large", False)},
    "image_antialiased": {"": lambda run: image(run, "large", True)},
    "image_huge": {"": lambda run: image(run, "huge", False)},
    "image_paced": {"": lambda run: image(run, "large", False)},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "write_small_gzip": {"": lambda run: write(run, "small_gzip", "GZIP")},
    "convert_images": {"": convert_images},
    "convert_csv": {"": lambda run: convert_rows(run, "csv")},
    "convert_jsonl": {"": lambda run: convert_rows(run, "jsonl")},
    "verify_large": {"": lambda run: verify(run, "large")},
    "verify_small": {"": lambda run: verify(run, "small"),
                     "record by record": lambda run: verify(run, "small", True)},
    "first_batch": {"": first_batch},
    "resume": {"": resume},
    "mix_memory": {"": mix_memory},
    **{f"open_{size}": {"": lambda run, size=size: open_numbers(run, size)} for size in SIZES},
    # With 100 million, it would take minutes to get there.
    **{f"middle_{size}": {"": lambda run, size=size: middle(run, size)} for size in SIZES[:2]},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}

if __name__ == "__main__":
    import sys
    protocol.main(sys.modules["__main__"])
