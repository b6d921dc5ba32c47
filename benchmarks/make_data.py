"""Makes the data that all peers read, with TensorFlow, so that nobody reads what he wrote himself.

    PYTHON benchmarks/make_data.py DATA [--pictures FOLDER] [--size quick]

Of each kind 16 shards train-NNNNN-of-00016 in a folder of its own: large (pictures in Examples), small (50 floats
and a label), tokens (sequences of ids), large_gzip and small_gzip. Beside them pictures/ (class folders),
rows.csv and rows.jsonl. DATA/check has the same, small, and what peers should find in it: info.json.
"""

import argparse
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
from peers.protocol import FEATURES, ArrayDigest, RecordDigest  # noqa: E402

SHIPPED = pathlib.Path(__file__).resolve().parent.parent / "testdata/pictures"
SHARDS = 16
DISTINCT = 1 << 16  # small records
# How many of each kind: in each size, and the small data that outputs are compared on.
COUNTS = {
    "full": {"large": 10_000, "small": 4_000_000, "tokens": 200_000, "large_gzip": 2000,
             "small_gzip": 1_000_000, "pictures": 2000, "rows": 400_000},
    "quick": {"large": 2000, "small": 1_000_000, "tokens": 50_000, "large_gzip": 500,
              "small_gzip": 250_000, "pictures": 500, "rows": 50_000},
    "tiny": {"large": 64, "small": 4096, "tokens": 512, "large_gzip": 32, "small_gzip": 1024,
             "pictures": 32, "rows": 200},
    "check": {"large": 192, "small": 4096, "tokens": 512, "large_gzip": 64, "small_gzip": 4096,
              "pictures": 64, "rows": 500},
}


def ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def texts(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(**features):
    return tf.train.Example(features=tf.train.Features(
        feature={name.replace("__", "/"): value for name, value in features.items()}))


def write(folder, records, compression=""):
    """The records to 16 shards in turn; what they are, as peers are to find them."""
    os.makedirs(folder)
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
                      image__filename=texts(os.path.basename(path).encode())).SerializeToString()


def small_values(count):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((min(count, DISTINCT), FEATURES)).astype(np.float32)
    return x, np.arange(len(x)) % 10


def small(count):
    x, y = small_values(count)
    made = [example(x=tf.train.Feature(float_list=tf.train.FloatList(value=values)),
                    y=ints([label])).SerializeToString() for values, label in zip(x, y.tolist())]
    # Drawn, so that what comes again is further away than compressors look back.
    order = range(count) if count <= DISTINCT else np.random.default_rng(3).integers(
        DISTINCT, size=count)
    for i in order:
        yield made[i]


def token_values(count):
    """512 ids on average, those of frequent words more often; none is 0, which pads."""
    rng = np.random.default_rng(2)
    for length in rng.integers(1, 1024, size=count):
        yield np.minimum(rng.zipf(1.3, size=length), 50_000)


def tokens(count):
    made = [example(ids=ints(ids.tolist())).SerializeToString()
            for ids in token_values(min(count, 2048))]
    for i in range(count):
        yield made[i % len(made)]


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


def copy_pictures(sources, folder, count):
    for i in range(count):
        source = sources[i % len(sources)]
        target = f"{folder}/{os.path.basename(os.path.dirname(source))}"
        os.makedirs(target, exist_ok=True)
        shutil.copy(source, f"{target}/{i}-{os.path.basename(source)}")


def expected_values(sources, counts):
    """What parsing and decoding the small data should give. Of pictures the whole: crops are near that."""
    rows, ids, images = ArrayDigest(), ArrayDigest(), ArrayDigest()
    x, y = small_values(counts["small"])
    rows.add({"x": x, "y": y})
    for sequence in token_values(counts["tokens"]):
        ids.add({"ids": sequence})
    for i in range(counts["large"]):
        picture = tf.io.decode_jpeg(open(sources[i % len(sources)], "rb").read(), channels=3, ratio=4)
        images.add({"image": tf.image.resize(picture, [64, 64])})
    return {"parse": rows.result(), "tokens": ids.result(), "image": images.result()}


def make(data, sources, counts, check):
    os.makedirs(data)
    info = {"counts": counts, "records": {}}
    makers = {"large": lambda n: large(sources, n), "small": small, "tokens": tokens}
    for kind in ("large", "small", "tokens", "large_gzip", "small_gzip"):
        compression = "GZIP" if kind.endswith("gzip") else ""
        info["records"][kind] = write(f"{data}/{kind}", makers[kind.partition("_")[0]](counts[kind]),
                                      compression)
        info["records"][kind]["stored_bytes"] = sum(
            map(os.path.getsize, glob.glob(f"{data}/{kind}/train-*")))
    copy_pictures(sources, f"{data}/pictures", counts["pictures"])
    write_rows(f"{data}/rows", counts["rows"])
    if check:
        info["values"] = expected_values(sources, counts)
    with open(f"{data}/info.json", "w") as file:
        json.dump(info, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--pictures", default=SHIPPED, help="class folders of JPEGs")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), default="full")
    options = parser.parse_args()
    sources = sorted(p for p in glob.glob(f"{options.pictures}/*/*")
                     if p.lower().endswith((".jpg", ".jpeg")))
    if not sources:
        sys.exit(f"make_data: no JPEGs in class folders below {options.pictures}")
    shutil.rmtree(options.data, ignore_errors=True)
    counts = {**COUNTS[options.size]}
    make(options.data, sources, counts, check=False)
    make(f"{options.data}/check", sources, COUNTS["check"], check=True)


if __name__ == "__main__":
    sys.exit(main())
