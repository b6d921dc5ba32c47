"""Measures shardfeed beside the references, on the same data in the same run, from the page cache.

  .venv/bin/python benchmarks/run.py --pictures FOLDER [--data DIR] [--quick] [--json FILE]

FOLDER is a folder of class folders of pictures; it is read over and over until there are 2,000. Prints a
table of ratios: the median over the rounds, and the lowest and highest. Needs the environment that
scripts/setup --tests makes.
"""

import argparse
import glob
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(*targets):
    """The paths of the programs."""
    subprocess.run(["bazel", "build", "--config=opt", "--noshow_progress",
                    "--ui_event_filters=-info", *(f"//{target}" for target in targets)],
                   cwd=ROOT, check=True)
    folder = subprocess.run(["bazel", "info", "--config=opt", "bazel-bin"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    return [f"{folder}/{target.replace(':', '/')}" for target in targets]


def run_json(*command):
    return json.loads(subprocess.run([str(c) for c in command], check=True,
                                     capture_output=True, text=True).stdout)


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def read_records(folder):
    import tensorflow as tf
    files = sorted(glob.glob(f"{folder}/data-*"))
    return [r.numpy() for r in tf.data.TFRecordDataset(files)]


def write_tensorflow(records, folder, compression=""):
    """TFRecordWriter over 16 shards in turn: what a plain script does."""
    import tensorflow as tf
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    options = tf.io.TFRecordOptions(compression_type=compression)
    writers = [tf.io.TFRecordWriter(f"{folder}/data-{i:05d}-of-00016", options) for i in range(16)]
    for i, record in enumerate(records):
        writers[i % 16].write(record)
    for writer in writers:
        writer.close()


def iterate_tf_data(folder, batch, compression=""):
    """tf.data with its best settings: shards interleaved, in parallel, batched, prefetched."""
    import tensorflow as tf
    files = sorted(glob.glob(f"{folder}/data-*"))
    ds = tf.data.TFRecordDataset(files, compression, num_parallel_reads=16,
                                 buffer_size=8 << 20)
    if batch:
        ds = ds.batch(batch)
    n = 0
    for element in ds.prefetch(tf.data.AUTOTUNE):
        n += int(element.shape[0]) if batch else 1
    return n


def parse_by_tf_data(folder, batches):
    """Records a second of parse_example behind batch(1024), in a parallel map."""
    import tensorflow as tf
    spec = {"x": tf.io.FixedLenFeature([50], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    ds = tf.data.TFRecordDataset(sorted(glob.glob(f"{folder}/data-*")), num_parallel_reads=16,
                                 buffer_size=8 << 20)
    ds = ds.batch(1024).map(lambda records: tf.io.parse_example(records, spec),
                            num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    n = 0
    start = None
    for element in ds.take(batches):
        n += int(element["y"].shape[0])
        if start is None:  # the first batch tells of starting up
            start = time.perf_counter()
            n = 0
    return n / (time.perf_counter() - start)


def images_by_tf_data(folder, batches):
    """Pictures a second: random crops of 224, mirrored or not, batch 256, as tf.data does it best."""
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
        image = tf.image.resize(image, [224, 224], method="bilinear")
        image = tf.image.random_flip_left_right(image)
        return tf.cast(image, tf.uint8), parsed["image/class/label"]

    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    ds = tf.data.TFRecordDataset(sorted(glob.glob(f"{folder}/data-*-of-*[0-9]")),
                                 num_parallel_reads=4, buffer_size=8 << 20)
    ds = ds.repeat().map(decode, num_parallel_calls=2, deterministic=False).batch(256)
    iterator = iter(ds.prefetch(2).with_options(options))
    next(iterator)
    start = time.perf_counter()
    for _ in range(batches):
        next(iterator)
    return 256 * batches / (time.perf_counter() - start)


def convert_by_script(pictures, folder):
    """A folder of class folders to TFRecord as people write it: read, look at the size, build, write."""
    import PIL.Image
    import tensorflow as tf

    def feature(value):
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    os.makedirs(folder)
    writers = [tf.io.TFRecordWriter(f"{folder}/data-{i:05d}-of-00016") for i in range(16)]
    n = 0
    for label, name in enumerate(sorted(os.listdir(pictures))):
        for file in sorted(os.listdir(f"{pictures}/{name}")):
            path = f"{pictures}/{name}/{file}"
            data = open(path, "rb").read()
            with PIL.Image.open(path) as image:
                width, height = image.size
            example = tf.train.Example(features=tf.train.Features(feature={
                "image/encoded": feature(data), "image/format": feature(b"jpeg"),
                "image/height": feature(height), "image/width": feature(width),
                "image/class/label": feature(label), "image/class/text": feature(name.encode()),
                "image/filename": feature(f"{name}/{file}".encode())}))
            writers[n % 16].write(example.SerializeToString())
            n += 1
    for writer in writers:
        writer.close()
    return n


def write_table(rows, folder):
    """The same rows as CSV and as JSON lines: integers, numbers with fractions, text."""
    import random
    rng = random.Random(1)
    words = [rng.randbytes(rng.randrange(2, 8)).hex() for _ in range(1000)]
    os.makedirs(folder)
    names = ["id", "day", "price", "score", "name", "city", "text", "flag"]
    with open(f"{folder}/t.csv", "w") as table, open(f"{folder}/t.jsonl", "w") as lines:
        table.write(",".join(names) + "\n")
        for i in range(rows):
            row = [i, rng.randrange(366), round(rng.random() * 1000, 2), rng.random(),
                   rng.choice(words), rng.choice(words), " ".join(rng.choices(words, k=8)),
                   rng.randrange(2)]
            table.write(",".join(map(str, row)) + "\n")
            lines.write(json.dumps(dict(zip(names, row))) + "\n")


def convert_rows_by_script(path, folder):
    """CSV or JSON lines to TFRecord as people write it. The kinds of the columns are known to it."""
    import csv
    import tensorflow as tf

    def feature(value):
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        if isinstance(value, float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    kinds = {"id": int, "day": int, "price": float, "score": float, "flag": int}
    os.makedirs(folder)
    writers = [tf.io.TFRecordWriter(f"{folder}/data-{i:05d}-of-00016") for i in range(16)]
    with open(path, newline="") as file:
        if path.endswith(".csv"):
            rows = ({name: kinds.get(name, str)(cell) for name, cell in row.items()}
                    for row in csv.DictReader(file))
        else:
            rows = map(json.loads, file)
        n = 0
        for row in rows:
            example = tf.train.Example(features=tf.train.Features(
                feature={name: feature(value) for name, value in row.items()}))
            writers[n % 16].write(example.SerializeToString())
            n += 1
    for writer in writers:
        writer.close()
    return n


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ratios, bar, unit="x"):
        median = statistics.median(ratios)
        self.rows.append({"what": what, "median": median, "low": min(ratios), "high": max(ratios),
                          "bar": bar, "unit": unit})
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{what:<62} {median:8.2f} {unit:<6} {spread:<18} {bar}", flush=True)


def fio(folder, pattern, block):
    """Bytes/s of fio past the page cache, 32 requests deep; None where it is not installed."""
    if shutil.which("fio") is None:
        return None
    files = ":".join(sorted(glob.glob(f"{folder}/data-*")))
    report = run_json("fio", "--name=read", f"--filename={files}", f"--rw={pattern}",
                      f"--bs={block}", "--direct=1", "--ioengine=io_uring", "--iodepth=32",
                      "--readonly", "--output-format=json")
    return report["jobs"][0]["read"]["bw_bytes"]


def measure_reader(table, bench, data, made, rounds):
    for kind, bars in (("large", ("0.85", "4")), ("small", ("0.6", "40"))):
        seconds = {}
        for order in ("sequential", "interleave", "shuffle"):
            result = run_json(bench, "read", f"{data}/{kind}", order, 2)
            assert result["records"] == made[kind]["records"]
            seconds[order] = statistics.median(result["read"])
            table.add(f"read {kind}, {order} / loop of read and CRC, 2 threads",
                      [a / b for a, b in zip(result["crc_loop"], result["read"])],
                      "" if order == "shuffle" else bars[0])
        theirs = [timed(lambda: iterate_tf_data(f"{data}/{kind}", 1024 if kind == "small" else 0))[0]
                  for _ in range(rounds)]
        table.add(f"read {kind}, interleave / iterating tf.data",
                  [t / seconds["interleave"] for t in theirs], bars[1])
        # GZIP, a fifth of the records.
        records = read_records(f"{data}/{kind}")
        few = records[: len(records) // 5]
        del records
        write_tensorflow(few, f"{data}/raw")
        run_json(bench, "gzip", f"{data}/raw", f"{data}/gzip", "keep")
        gzip = statistics.median(run_json(bench, "read", f"{data}/gzip", "sequential", 2)["read"])
        theirs = [timed(lambda: iterate_tf_data(f"{data}/gzip", 1024 if kind == "small" else 0,
                                                "GZIP"))[0] for _ in range(rounds)]
        table.add(f"read GZIP {kind} / iterating tf.data", [t / gzip for t in theirs],
                  "3" if kind == "large" else "10")
        shutil.rmtree(f"{data}/raw")
        shutil.rmtree(f"{data}/gzip")
    for order, pattern, block, bar in (("sequential", "read", "1m", "0.95"),
                                       ("shuffle", "read", "1m", "0.9"),
                                       ("exact", "randread", "112k", "0.95")):
        ratios = []
        for _ in range(rounds):
            reference = fio(f"{data}/large", pattern, block)
            if reference is None:
                print("fio is not installed: reading cold files is left out")
                return
            result = run_json(bench, "cold", f"{data}/large", order, 2)
            ratios.append(result["bytes"] / statistics.median(result["read"]) / reference)
        table.add(f"read large past the cache, {order} / fio {pattern} {block}", ratios, bar)
    most = 0
    for order in ("sequential", "interleave", "shuffle", "exact"):
        for budget in (64, 256, 1024):
            result = run_json(bench, "slow", f"{data}/large", order, budget << 20)
            most = max(most, result["resident_mib"] - budget)
    table.add("read slowly, resident memory over budgets of 64 MiB to 1 GiB", [most], "up to 64", "MiB")
    result = run_json(bench, "open", f"{data}/shards", 1000)
    table.add("first record of 1,000 shards", [1000 * s for s in result["first_record"]],
              "below 20", "ms")
    for n in (10_000, 1_000_000, 100_000_000):
        orders = run_json(bench, "order", n)
        for order in ("interleave", "shuffle", "exact"):
            table.add(f"order {order}, slowest of its functions, {n:,} records",
                      [max(orders[order]["at_ns"], orders[order]["of_ns"])], "below 100", "ns")


def measure_jpeg(table, jpeg_bench, shardfeed, pictures, data, rounds):
    result = run_json(jpeg_bench, "crop", pictures, 2)

    def ratios(theirs, ours):
        return [a / b for a, b in zip(result[theirs], result[ours])]

    table.add("crops of seekable JPEG / rows and columns skipped by libjpeg",
              ratios("crop_and_skip", "decode_crop_seekable"), "1.25")
    table.add("crops of seekable JPEG / the whole by libjpeg",
              ratios("whole", "decode_crop_seekable"), "1.7")
    table.add("crops of the JPEGs as they are / skipped by libjpeg",
              ratios("crop_and_skip", "decode_crop"), "")
    table.add("seekable JPEG, more bytes",
              [100 * (result["seekable_bytes"] / result["bytes"] - 1)], "", "%")
    result = run_json(jpeg_bench, "rewrite", pictures, 2)
    table.add("make seekable / loop of libjpeg's transcoding, 2 threads",
              ratios("transcode_loop", "make_seekable"), "0.83")
    loop = statistics.median(result["transcode_loop"])
    seconds = []
    for _ in range(rounds):
        taken, report = timed(lambda: run_json(
            shardfeed, "convert", "imagefolder", pictures, f"{data}/out/s@16", "-j", 2,
            "--overwrite", "--no-sync", "--json"))
        seconds.append(taken * result["pictures"] / report["records"])
    table.add("convert imagefolder to seekable / the same loop", [loop / s for s in seconds],
              "0.83")


def parse_by_dali(python, folder):
    """The same by DALI on the CPU, in an environment of its own."""
    script = pathlib.Path(__file__).parent / "dali_parse.py"
    return run_json(python, script, *sorted(glob.glob(f"{folder}/data-*-of-*[0-9]")))["per_second"]


def measure_pipeline(table, bench, data, rounds, dali):
    result = run_json(bench, "parse", f"{data}/small", 2)
    table.add("parse small to batches of 1024 / loop of read and CRC, 2 threads",
              [a / b for a, b in zip(result["crc_loop"], result["parse"])], "0.4")
    rate = result["records"] / statistics.median(result["parse"])
    table.add("parse small to batches of 1024 / tf.data",
              [rate / parse_by_tf_data(f"{data}/small", 90) for _ in range(rounds)], "25")
    if dali:
        table.add("parse small to batches of 1024 / DALI",
                  [rate / parse_by_dali(dali, f"{data}/small") for _ in range(rounds)], "18")
    result = run_json(bench, "map", 2)
    for kind, what in (("even", "a map of 1 ms"), ("uneven", "the same, one in 50 takes 20 ms")):
        for order in ("ordered", "unordered"):
            table.add(f"{what}, {order} / bare loop, 2 threads",
                      [a / b for a, b in zip(result[kind]["loop"], result[kind][order])],
                      "0.95" if kind == "even" else "0.9")
    one = run_json(bench, "map", 1)
    table.add("a map of 1 ms, 2 threads / 1 thread",
              [a / b for a, b in zip(one["even"]["ordered"], result["even"]["ordered"])], "1.8")
    result = run_json(bench, "empty", f"{data}/small", 2)
    table.add("what an empty map adds for each element, core time",
              [2e9 * (a - b) / result["records"] for a, b in zip(result["with"], result["without"])],
              "below 60", "ns")
    result = run_json(bench, "sleep", 64)
    table.add("64 workers that sleep: at work at a time", [result["mean_at_once"]], "64", "")
    result = run_json(bench, "state", f"{data}/small")
    table.add("state after 10,000 batches of a long chain", [result["bytes"]], "", "bytes")
    table.add("loading it", [1000 * result["load"]], "", "ms")
    resident = run_json(bench, "soak", f"{data}/small", 50)["resident_mib"]
    table.add("resident memory after 50 epochs / after 5", [resident[-1] / resident[4]], "1")
    result = run_json(bench, "budget", f"{data}/small", 64)
    table.add("most resident memory of a run / its budget of 64 MiB",
              [result["resident_mib"] / 64], "below 1.1")


def measure_images(table, bench, shardfeed, pictures, data, rounds):
    """Random crops of pictures as they are."""
    run_json(shardfeed, "convert", "imagefolder", pictures, f"{data}/images/data@16", "--jpeg", "keep",
             "--overwrite", "--no-sync", "--json")
    rates = run_json(bench, f"{data}/images/data@16")
    theirs = [images_by_tf_data(f"{data}/images", 6) for _ in range(rounds)]
    ours = {kind: rates[kind]["per_second"] for kind in rates}

    def against_tf_data(kind):
        return [statistics.median(ours[kind]) / rate for rate in theirs]

    def against(kind, other):
        return [a / b for a, b in zip(ours[kind], ours[other])]

    table.add("pictures to random crops of 224, plain / tf.data, 2 threads", against_tf_data("plain"),
              "1.7")
    table.add("the same antialiased / tf.data (not antialiased)", against_tf_data("antialiased"), "")
    table.add("the same / bare loop of its kernels", against("antialiased", "loop"), "0.92")
    table.add("the same, 2 threads / 1 thread", against("antialiased", "one_thread"), "1.8")
    table.add("float16 in planes, normalised / uint8", against("float16_planes", "antialiased"), "0.9")
    table.add("CPU for 1,000 pictures", rates["antialiased"]["cpu_seconds"], "", "s")


def measure_resample(table, bench, pictures, data, rounds):
    """Random crops to 224 beside Pillow and OpenCV, on the same pixels."""
    import numpy as np
    import PIL.Image

    rng = random.Random(1)
    paths = sorted(glob.glob(f"{pictures}/**/*.*", recursive=True))
    crops = []
    with open(f"{data}/crops", "wb") as file:
        while len(crops) < 300:
            with PIL.Image.open(rng.choice(paths)) as image:
                width, height = image.size
                area = width * height * rng.uniform(0.08, 1)
                ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
                w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
                if w > width or h > height:
                    continue
                x, y = rng.randint(0, width - w), rng.randint(0, height - h)
                crop = image.convert("RGB").crop((x, y, x + w, y + h))
            crops.append(crop)
            file.write(b"%d %d\n" % crop.size + crop.tobytes())
    result = run_json(bench, f"{data}/crops")
    ratios = []
    for _ in range(rounds):
        theirs, expected = timed(
            lambda: [crop.resize((224, 224), PIL.Image.Resampling.BILINEAR) for crop in crops])
        ratios.append(theirs / statistics.median(result["antialiased"]))
    mine = np.fromfile(f"{data}/crops.out", np.uint8).reshape(len(crops), 224, 224, 3)
    apart = np.abs(mine.astype(int) - np.stack([np.asarray(image) for image in expected]))
    assert (apart <= 1).mean() >= 0.999
    table.add("resize antialiased / Pillow", ratios, "4")
    table.add("resize antialiased / OpenCV's INTER_AREA",
              [a / b for a, b in zip(result["opencv_area"], result["antialiased"])], "2")
    table.add("resize plain / OpenCV's INTER_LINEAR",
              [a / b for a, b in zip(result["opencv_linear"], result["plain"])], "")


def fresh(*folders):
    """Removes what was there before, and waits for the disk: neither is part of what is measured."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os.sync()


def measure_sources(table, shardfeed, data, pictures, rows, rounds):
    """Returns the most memory that any of it took."""
    peaks = []

    def shard(*arguments):
        """Runs the program; the seconds that took, its start included, and what it reports."""
        seconds, report = timed(lambda: run_json(shardfeed, *arguments, "--no-sync", "--json"))
        peaks.append(report["peak_rss_bytes"])
        return seconds, report

    write_table(rows, f"{data}/rows")
    for kind in ("csv", "jsonl"):
        ratios = []
        for _ in range(rounds):
            fresh(f"{data}/tf", f"{data}/out")
            theirs, n = timed(lambda: convert_rows_by_script(f"{data}/rows/t.{kind}", f"{data}/tf"))
            ours, report = shard("convert", kind, f"{data}/rows/t.{kind}", f"{data}/out/t@16")
            assert report["records"] == n
            ratios.append(theirs / ours)
        table.add(f"convert {kind} / Python's {kind[:4]} and TFRecordWriter", ratios, "20")

    subprocess.run(["tar", "cf", f"{data}/pictures.tar", "-C", pictures, "."], check=True)
    ratios = []
    for _ in range(rounds):
        fresh(f"{data}/untar", f"{data}/out")
        os.makedirs(f"{data}/untar")
        theirs, _ = timed(lambda: subprocess.run(
            ["tar", "xf", f"{data}/pictures.tar", "-C", f"{data}/untar"], check=True))
        os.sync()
        ours, report = shard("convert", "tar", f"{data}/pictures.tar", f"{data}/out/p@16")
        ratios.append(theirs / ours)
    table.add("convert tar of pictures / tar x", ratios, "0.7")
    fresh(f"{data}/untar", f"{data}/rows")
    os.remove(f"{data}/pictures.tar")

    for kind in ("large", "small"):
        source = f"{data}/dataset"
        fresh(source)
        shard("convert", "tfrecord", f"{data}/{kind}/data@16", f"{source}/d@16")
        ratios = {}
        for _ in range(rounds):
            fresh(f"{data}/copy")
            theirs, _ = timed(lambda: subprocess.run(["cp", "-r", source, f"{data}/copy"],
                                                     check=True))
            for what, arguments in (
                    ("reshard", ["reshard", f"{source}/d@16", f"{data}/out/d@10"]),
                    ("merge", ["merge", f"{source}/d@16", f"{data}/out/d"]),
                    ("split", ["split", f"{source}/d@16", f"{data}/out/d", "--shares",
                               "a=0.9,b=0.1"])):
                fresh(f"{data}/out")
                ratios.setdefault(what, []).append(theirs / shard(*arguments)[0])
        fresh(source, f"{data}/copy", f"{data}/out")
        for what, found in ratios.items():
            table.add(f"{what} {kind} / cp of the same bytes", found, "0.9")
    return max(peaks)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", required=True, help="a folder of class folders of pictures")
    parser.add_argument("--data", help="where to put data (needs 5 GB); default: a temporary folder")
    parser.add_argument("--dali", help="a Python that has nvidia-dali, to compare with")
    parser.add_argument("--quick", action="store_true", help="less data: a look, not a claim")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    bench, pipeline, jpeg_bench, images, resample, shardfeed = build(
        "benchmarks:records_benchmark", "benchmarks:pipeline_benchmark",
        "benchmarks:jpeg_benchmark", "benchmarks:image_benchmark", "benchmarks:resample_benchmark",
        "cli:shardfeed")
    data = options.data or tempfile.mkdtemp(prefix="shardfeed-bench-")
    size = (100 if options.quick else 1000) * 1000 * 1000
    rounds = 3
    table = Table()
    print(f"{'ratio (higher is better)':<62} {'median':>8} {'':<6} {'range':<18} promised")
    try:
        made = {}
        for kind in ("large", "small"):
            made[kind] = run_json(bench, "make", kind, f"{data}/{kind}", size)

        for kind in ("large", "small"):
            result = run_json(bench, "verify", f"{data}/{kind}", 2)
            assert result["records"] == made[kind]["records"]
            table.add(f"verify {kind} / loop of read and CRC, 2 threads",
                      [a / b for a, b in zip(result["crc_loop"], result["verify"])], "0.85")
            verify = statistics.median(result["verify"])
            tf_data = []
            for _ in range(rounds):
                seconds, n = timed(lambda: iterate_tf_data(f"{data}/{kind}",
                                                           1024 if kind == "small" else 0))
                assert n == made[kind]["records"]
                tf_data.append(seconds)
            table.add(f"verify {kind} / iterating tf.data", [t / verify for t in tf_data],
                      "3" if kind == "large" else "25")

        measure_reader(table, bench, data, made, rounds)
        measure_pipeline(table, pipeline, data, rounds, options.dali)

        result = run_json(bench, "index", f"{data}/small")
        table.add("index small, records/s on one core",
                  [result["records"] / s / 1e6 for s in result["index"]], "5", "M/s")
        result = run_json(bench, "index", f"{data}/large")
        table.add("index large, share of the bytes that is read",
                  [100 * result["bytes_read"] / result["bytes"]], "below 5", "%")

        for kind in ("large", "small"):
            result = run_json(bench, "write", f"{data}/{kind}", f"{data}/out")
            if kind == "large":
                table.add("write large / cp of the same bytes",
                          [c / w for c, w in zip(result["cp"], result["write"])], "0.8")
            write = statistics.median(result["write"])
            records = read_records(f"{data}/{kind}")
            seconds = [timed(lambda: write_tensorflow(records, f"{data}/tf"))[0]
                       for _ in range(rounds)]
            table.add(f"write {kind} / TensorFlow's TFRecordWriter", [s / write for s in seconds],
                      "8" if kind == "small" else "")

            few = records[: len(records) // 5]
            del records
            seconds, _ = timed(lambda: write_tensorflow(few, f"{data}/tf", "GZIP"))
            theirs = sum(os.path.getsize(f) for f in glob.glob(f"{data}/tf/data-*"))
            write_tensorflow(few, f"{data}/raw")
            ours_seconds = []
            for _ in range(rounds):
                result = run_json(bench, "gzip", f"{data}/raw", f"{data}/out")
                ours_seconds.append(result["seconds"])
            table.add(f"GZIP write {kind} / TensorFlow's", [seconds / s for s in ours_seconds], "3")
            table.add(f"GZIP size {kind}, more than TensorFlow's",
                      [100 * (result["bytes"] / theirs - 1)], "within 1", "%")
            shutil.rmtree(f"{data}/raw")

        pictures = f"{data}/pictures"
        sources = sorted(p for p in glob.glob(f"{options.pictures}/*/*") if os.path.isfile(p))
        for n in range(400 if options.quick else 2000):
            source = sources[n % len(sources)]
            folder = f"{pictures}/{os.path.basename(os.path.dirname(source))}"
            os.makedirs(folder, exist_ok=True)
            shutil.copy(source, f"{folder}/{n}-{os.path.basename(source)}")
        ratios = []
        peak = 0
        for _ in range(rounds):
            fresh(f"{data}/tf", f"{data}/out")
            theirs, n = timed(lambda: convert_by_script(pictures, f"{data}/tf"))
            ours, report = timed(lambda: run_json(
                shardfeed, "convert", "imagefolder", pictures, f"{data}/out/p@16", "--no-sync",
                "--jpeg", "keep", "--json"))
            assert report["records"] == n
            ratios.append(theirs / ours)
            peak = max(peak, report["peak_rss_bytes"])
        table.add("convert imagefolder --jpeg keep / Python and TFRecordWriter", ratios, "4")
        measure_jpeg(table, jpeg_bench, shardfeed, pictures, data, rounds)
        peak = max(peak, measure_sources(table, shardfeed, data, pictures,
                                         40_000 if options.quick else 400_000, rounds))
        measure_images(table, images, shardfeed, pictures, data, rounds)
        measure_resample(table, resample, pictures, data, rounds)
        for command in (["verify"], ["index"]):
            report = run_json(shardfeed, *command, f"{data}/small/data@16", "--json")
            peak = max(peak, report["peak_rss_bytes"])
        table.add("peak memory of convert, reshard, verify, index", [peak / (1 << 20)], "below 256", "MiB")
    finally:
        if not options.data:
            shutil.rmtree(data, ignore_errors=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(table.rows, out, indent=1)


if __name__ == "__main__":
    sys.exit(main())
