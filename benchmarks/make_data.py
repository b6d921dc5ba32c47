"""Makes the data that all peers read, with TensorFlow, so that shardfeed does not read files that it wrote.

    PYTHON benchmarks/make_data.py DATA KIND... [--images FOLDER] [--size quick]

Each KIND is a folder. The kinds of records have 16 shards train-NNNNN-of-00016: large (images in Examples), huge
(images of 12 megapixels), small (50 floats and a label), tokens (sequences of ids), large_gzip and small_gzip,
numbers_10k, numbers_1m and numbers_100m (each record is its number, 4 bytes). The others are images (class folders)
and rows (CSV and JSON lines). DATA/check has small versions, and info.json with what peers should find in them.
"""

import argparse
import functools
import glob
import json
import os
import pathlib
import random
import shutil
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from peers.digests import ArrayDigest, RecordDigest  # noqa: E402
from peers.protocol import FEATURES  # noqa: E402

SHIPPED = pathlib.Path(__file__).resolve().parent.parent / "testdata/images"
SHARDS = 16
DISTINCT = 1 << 16  # small records
HUGE = 8  # distinct images of 12 megapixels
NUMBERED = 1 << 20  # records made at a time
# Counts of each kind in each size; "check" is the small data on which outputs are compared.
COUNTS = {
    "full": {"large": 10_000, "huge": 192, "small": 4_000_000, "tokens": 200_000, "large_gzip": 2000,
             "small_gzip": 1_000_000, "images": 2000, "rows": 400_000, "numbers_10k": 10_000,
             "numbers_1m": 1_000_000, "numbers_100m": 100_000_000},
    "quick": {"large": 2000, "huge": 64, "small": 1_000_000, "tokens": 50_000, "large_gzip": 500,
              "small_gzip": 250_000, "images": 500, "rows": 50_000, "numbers_10k": 10_000,
              "numbers_1m": 1_000_000, "numbers_100m": 100_000_000},
    "tiny": {"large": 64, "huge": 16, "small": 4096, "tokens": 512, "large_gzip": 32, "small_gzip": 1024,
             "images": 32, "rows": 200, "numbers_10k": 10_000, "numbers_1m": 10_000,
             "numbers_100m": 10_000},
    "check": {"large": 192, "huge": 64, "small": 4096, "tokens": 512, "large_gzip": 64,
              "small_gzip": 4096, "images": 64, "rows": 500, "numbers_10k": 10_000,
              "numbers_1m": 10_000, "numbers_100m": 10_000},
}


def ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def texts(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(**features):
    return tf.train.Example(features=tf.train.Features(
        feature={name.replace("__", "/"): value for name, value in features.items()}))


def write(folder, records, compression=""):
    """Writes the records to 16 shards in turn. Returns the digest that peers should find."""
    options = tf.io.TFRecordOptions(compression_type=compression)
    writers = [tf.io.TFRecordWriter(f"{folder}/train-{i:05d}-of-{SHARDS:05d}", options)
               for i in range(SHARDS)]
    digest = RecordDigest()
    for i, record in enumerate(records):
        writers[i % SHARDS].write(record)
        digest.add([record])
    for writer in writers:
        writer.close()
    return digest.result()


def large(sources, count):
    labels = {c: i for i, c in enumerate(sorted({os.path.dirname(p) for p in sources}))}
    contents = [(open(path, "rb").read(), labels[os.path.dirname(path)], path) for path in sources]
    for i in range(count):
        data, label, path = contents[i % len(contents)]
        yield example(image__encoded=texts(data), image__class__label=ints([label]),
                      image__filename=texts(os.path.basename(path).encode()),
                      image__key=texts(b"%08d" % i)).SerializeToString()


def enlarged(sources):
    """JPEGs enlarged to 4,000 by 3,000 pixels."""
    for path in sources[:HUGE]:
        image = tf.io.decode_jpeg(open(path, "rb").read(), channels=3)
        image = tf.image.resize(image, [3000, 4000], method="bicubic")
        yield tf.io.encode_jpeg(tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8), quality=90).numpy()


def huge(contents, count):
    for i in range(count):
        yield example(image__encoded=texts(contents[i % len(contents)]),
                      image__class__label=ints([i % 10]), image__key=texts(b"%08d" % i)).SerializeToString()


def small_values(count):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((min(count, DISTINCT), FEATURES)).astype(np.float32)
    return x, np.arange(len(x)) % 10


def small(count):
    x, y = small_values(count)
    made = [example(x=tf.train.Feature(float_list=tf.train.FloatList(value=values)),
                    y=ints([label])).SerializeToString() for values, label in zip(x, y.tolist())]
    # Drawn at random, so that repetitions are farther apart than compressors look back.
    order = range(count) if count <= DISTINCT else np.random.default_rng(3).integers(
        DISTINCT, size=count)
    for i in order:
        yield made[i]


def token_values(count):
    """Sequences of 512 ids on average, with the frequencies of words; none is 0, the padding."""
    rng = np.random.default_rng(2)
    for length in rng.integers(1, 1024, size=count):
        yield np.minimum(rng.zipf(1.3, size=length), 50_000)


def tokens(count):
    made = [example(ids=ints(ids.tolist())).SerializeToString()
            for ids in token_values(min(count, 2048))]
    for i in range(count):
        yield made[i % len(made)]


def crc32c(rows):
    """The masked CRC of each row of bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = table[(crc ^ column) & 0xFF] ^ crc >> 8
    crc = ~crc
    return (crc >> 15 | crc << 17) + np.uint32(0xA282EAD8)


def write_numbers(folder, count):
    """Writes records, each of which is its number in the order of the files."""
    frame = np.dtype([("length", "<u8"), ("length_crc", "<u4"), ("number", "<u4"), ("crc", "<u4")])
    length_crc = crc32c(np.array([[4, 0, 0, 0, 0, 0, 0, 0]], np.uint8))[0]
    for shard in range(SHARDS):
        first, last = count * shard // SHARDS, count * (shard + 1) // SHARDS
        with open(f"{folder}/train-{shard:05d}-of-{SHARDS:05d}", "wb") as file:
            for start in range(first, last, NUMBERED):
                numbers = np.arange(start, min(start + NUMBERED, last), dtype="<u4")
                frames = np.zeros(len(numbers), frame)
                frames["length"], frames["length_crc"], frames["number"] = 4, length_crc, numbers
                frames["crc"] = crc32c(numbers.view(np.uint8).reshape(-1, 4))
                file.write(frames)


def write_rows(path, count):
    """The same rows as CSV and as JSON lines."""
    rng = random.Random(1)
    words = [rng.randbytes(rng.randrange(2, 8)).hex() for _ in range(1000)]
    names = ["id", "day", "price", "score", "name", "city", "text", "flag"]
    with open(f"{path}.csv", "w") as table, open(f"{path}.jsonl", "w") as lines:
        table.write(",".join(names) + "\n")
        for i in range(count):
            row = [i, rng.randrange(366), round(rng.random() * 1000, 2), rng.random(),
                   rng.choice(words), rng.choice(words), " ".join(rng.choices(words, k=8)),
                   rng.randrange(2)]
            table.write(",".join(map(str, row)) + "\n")
            lines.write(json.dumps(dict(zip(names, row))) + "\n")


def copy_images(sources, folder, count):
    for i in range(count):
        source = sources[i % len(sources)]
        target = f"{folder}/{os.path.basename(os.path.dirname(source))}"
        os.makedirs(target, exist_ok=True)
        shutil.copy(source, f"{target}/{i}-{os.path.basename(source)}")


def expected_values(kind, sources, count):
    """The digests that parsing and decoding the small data should give: {check: digest}. Images are whole, and
    crops are near that."""
    found = ArrayDigest()
    if kind == "small":
        x, y = small_values(count)
        found.add({"x": x, "y": y})
        return {"parse": found.result()}
    if kind == "tokens":
        for sequence in token_values(count):
            found.add({"ids": sequence})
        return {"tokens": found.result()}
    if kind in ("large", "huge"):
        distinct = len(sources) if kind == "large" else min(HUGE, len(sources))
        for i in range(min(count, distinct)):
            image = tf.io.decode_jpeg(open(sources[i], "rb").read(), channels=3, ratio=4)
            found.add({"image": tf.image.resize(image, [64, 64])})
        return {"image" if kind == "large" else "huge": found.result()}
    return {}


def make(data, kind, sources, counts, contents, check):
    """Adds one kind to the data and to its info.json."""
    folder = f"{data}/{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    count = counts[kind]
    path = f"{data}/info.json"
    info = {"counts": {}, "records": {}, "values": {}}
    if os.path.exists(path):
        with open(path) as file:
            info = json.load(file)
    info["counts"][kind] = count
    makers = {"large": lambda: large(sources, count), "huge": lambda: huge(contents(), count),
              "small": lambda: small(count), "tokens": lambda: tokens(count)}
    if kind == "images":
        copy_images(sources, folder, count)
    elif kind == "rows":
        write_rows(f"{folder}/rows", count)
    elif kind.startswith("numbers"):
        write_numbers(folder, count)
    else:
        compression = "GZIP" if kind.endswith("gzip") else ""
        info["records"][kind] = write(folder, makers[kind.partition("_")[0]](), compression)
        info["records"][kind]["stored_bytes"] = sum(map(os.path.getsize, glob.glob(f"{folder}/train-*")))
    if check:
        info["values"].update(expected_values(kind, sources, count))
    with open(path, "w") as file:
        json.dump(info, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("kind", nargs="+", choices=COUNTS["check"])
    parser.add_argument("--images", default=SHIPPED, help="class folders of JPEGs")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), default="full")
    options = parser.parse_args()
    sources = sorted(p for p in glob.glob(f"{options.images}/*/*")
                     if p.lower().endswith((".jpg", ".jpeg")))
    if not sources:
        sys.exit(f"make_data: no JPEGs in class folders below {options.images}")
    contents = functools.cache(lambda: list(enlarged(sources)))
    for kind in options.kind:
        make(options.data, kind, sources, COUNTS[options.size], contents, check=False)
        make(f"{options.data}/check", kind, sources, COUNTS["check"], contents, check=True)


if __name__ == "__main__":
    sys.exit(main())
