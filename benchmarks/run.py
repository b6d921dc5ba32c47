"""Measures the parts of shardfeed beside the loops and programs that bound them, on the same data in the same run,
from the page cache. `compare` measures peers, and `check` compares both with what is promised.

  .venv/bin/python benchmarks/run.py --images FOLDER [--data DIR] [--quick] [--json FILE]

FOLDER is a folder of class folders of images, which are repeated up to 2,000. Prints a table of ratios: the median
over the rounds, and the lowest and highest. Needs the environment that scripts/setup --tests makes, for Pillow.
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

import environments
from peers.limits import fio_rate

PARTS = ("records", "pipeline", "jpeg", "image", "resample")


def run_json(*command):
    return json.loads(subprocess.run([str(c) for c in command], check=True,
                                     capture_output=True, text=True).stdout)


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ratios, unit="x"):
        median = statistics.median(ratios)
        self.rows.append({"what": what, "median": median, "low": min(ratios), "high": max(ratios),
                          "unit": unit})
        print(f"{what:<76} {median:8.2f} {unit:<6} {min(ratios):.2f} to {max(ratios):.2f}", flush=True)


def measure_reader(table, bench, data, made, rounds):
    for kind in ("large", "small"):
        for order in ("sequential", "interleave", "shuffle"):
            result = run_json(bench, "read", f"{data}/{kind}", order, 2)
            assert result["records"] == made[kind]["records"]
            table.add(f"read {kind}, {order} / loop of read and CRC, 2 threads",
                      [a / b for a, b in zip(result["crc_loop"], result["read"])])
    for order, pattern, block in (("sequential", "read", "1m"), ("shuffle", "read", "1m"),
                                  ("exact", "randread", "112k")):
        ratios = []
        for _ in range(rounds):
            reference = fio_rate(sorted(glob.glob(f"{data}/large/data-*")), pattern, block)
            if reference is None:
                print("fio is not installed: skipping cold reads")
                return
            result = run_json(bench, "cold", f"{data}/large", order, 2)
            ratios.append(result["bytes"] / statistics.median(result["read"]) / reference)
        table.add(f"read large past the cache, {order} / fio {pattern} {block}", ratios)
    most = 0
    for order in ("sequential", "interleave", "shuffle", "exact"):
        for budget in (64, 256, 1024):
            result = run_json(bench, "slow", f"{data}/large", order, budget << 20)
            most = max(most, result["resident_mib"] - budget)
    table.add("read slowly, resident memory over budgets of 64 MiB to 1 GiB", [most], "MiB")
    result = run_json(bench, "open", f"{data}/shards", 1000)
    table.add("first record of 1,000 shards", [1000 * s for s in result["first_record"]], "ms")
    result = run_json(bench, "open", f"{data}/many_shards", 100_000)
    table.add("opening 100,000 shards", [1000 * s for s in result["open"]], "ms")
    shutil.rmtree(f"{data}/many_shards")
    for n in (10_000, 1_000_000, 100_000_000):
        orders = run_json(bench, "order", n)
        for order in ("interleave", "shuffle", "exact"):
            table.add(f"order {order}, slowest of its functions, {n:,} records",
                      [max(orders[order]["at_ns"], orders[order]["of_ns"])], "ns")


def measure_jpeg(table, jpeg_bench, shardfeed, images, data, rounds):
    result = run_json(jpeg_bench, "crop", images, 2)

    def ratios(theirs, ours):
        return [a / b for a, b in zip(result[theirs], result[ours])]

    table.add("crops of seekable JPEG / rows and columns skipped by libjpeg",
              ratios("crop_and_skip", "decode_crop_seekable"))
    table.add("crops of seekable JPEG / the whole by libjpeg",
              ratios("whole", "decode_crop_seekable"))
    table.add("crops of the original JPEGs / skipped by libjpeg",
              ratios("crop_and_skip", "decode_crop"))
    table.add("seekable JPEG, more bytes",
              [100 * (result["seekable_bytes"] / result["bytes"] - 1)], "%")
    result = run_json(jpeg_bench, "rewrite", images, 2)
    table.add("make seekable / loop of libjpeg's transcoding, 2 threads",
              ratios("transcode_loop", "make_seekable"))
    loop = statistics.median(result["transcode_loop"])
    seconds = []
    for _ in range(rounds):
        taken, report = timed(lambda: run_json(
            shardfeed, "convert", "imagefolder", images, f"{data}/out/s@16", "-j", 2,
            "--overwrite", "--no-sync", "--json"))
        seconds.append(taken * result["images"] / report["records"])
    table.add("convert imagefolder to seekable / the same loop", [loop / s for s in seconds])


def measure_pipeline(table, bench, data):
    result = run_json(bench, "parse", f"{data}/small", 2)
    table.add("parse small to batches of 1024 / loop of read and CRC, 2 threads",
              [a / b for a, b in zip(result["crc_loop"], result["parse"])])
    result = run_json(bench, "map", 2)
    for kind, what in (("even", "a map of 1 ms"), ("uneven", "the same, one in 50 takes 20 ms")):
        for order in ("ordered", "unordered"):
            table.add(f"{what}, {order} / bare loop, 2 threads",
                      [a / b for a, b in zip(result[kind]["loop"], result[kind][order])])
    one = run_json(bench, "map", 1)
    table.add("a map of 1 ms, 2 threads / 1 thread",
              [a / b for a, b in zip(one["even"]["ordered"], result["even"]["ordered"])])
    result = run_json(bench, "empty", f"{data}/small", 2)
    table.add("CPU time that an empty map adds per element",
              [2e9 * (a - b) / result["records"] for a, b in zip(result["with"], result["without"])],
              "ns")
    result = run_json(bench, "sleep", 64)
    table.add("64 sleeping workers: busy at once, on average", [result["mean_at_once"]], "")
    result = run_json(bench, "state", f"{data}/small")
    table.add("state after 10,000 batches of a long chain", [result["bytes"]], "bytes")
    table.add("loading that state", [1000 * result["load"]], "ms")
    resident = run_json(bench, "soak", f"{data}/small", 50)["resident_mib"]
    table.add("resident memory after 50 epochs / after 5", [resident[-1] / resident[4]])
    result = run_json(bench, "budget", f"{data}/small", 64)
    table.add("most resident memory of a run / its budget of 64 MiB",
              [result["resident_mib"] / 64])


def measure_images(table, bench, shardfeed, images, data):
    """Random crops of the original images."""
    run_json(shardfeed, "convert", "imagefolder", images, f"{data}/image_shards/data@16", "--jpeg", "keep",
             "--overwrite", "--no-sync", "--json")
    rates = run_json(bench, f"{data}/image_shards/data@16")

    def against(kind, other):
        return [a / b for a, b in zip(rates[kind]["per_second"], rates[other]["per_second"])]

    table.add("images to random crops of 224, antialiased / bare loop of its kernels",
              against("antialiased", "loop"))
    table.add("the same, 2 threads / 1 thread", against("antialiased", "one_thread"))
    table.add("plain / antialiased", against("plain", "antialiased"))
    table.add("float16 in planes, normalized / uint8", against("float16_planes", "antialiased"))
    table.add("CPU for 1,000 images", rates["antialiased"]["cpu_seconds"], "s")


def measure_resample(table, bench, images, data, rounds):
    """Random crops to 224 beside Pillow and OpenCV, on the same pixels."""
    import numpy as np
    import PIL.Image

    rng = random.Random(1)
    paths = sorted(glob.glob(f"{images}/**/*.*", recursive=True))
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
    table.add("resize antialiased / Pillow", ratios)
    table.add("resize antialiased / OpenCV's INTER_AREA",
              [a / b for a, b in zip(result["opencv_area"], result["antialiased"])])
    table.add("resize plain / OpenCV's INTER_LINEAR",
              [a / b for a, b in zip(result["opencv_linear"], result["plain"])])


def fresh(*folders):
    """Removes the folders and waits for the disk, so that neither is part of the measurement."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os.sync()


def measure_sources(table, shardfeed, data, images, rounds):
    """Returns the peak memory of all runs of the program."""
    peaks = []

    def shard(*arguments):
        """Runs the program. Returns its seconds, including its start, and its report."""
        seconds, report = timed(lambda: run_json(shardfeed, *arguments, "--no-sync", "--json"))
        peaks.append(report["peak_rss_bytes"])
        return seconds, report

    subprocess.run(["tar", "cf", f"{data}/images.tar", "-C", images, "."], check=True)
    ratios = []
    for _ in range(rounds):
        fresh(f"{data}/untar", f"{data}/out")
        os.makedirs(f"{data}/untar")
        theirs, _ = timed(lambda: subprocess.run(
            ["tar", "xf", f"{data}/images.tar", "-C", f"{data}/untar"], check=True))
        os.sync()
        ours, report = shard("convert", "tar", f"{data}/images.tar", f"{data}/out/p@16")
        ratios.append(theirs / ours)
    table.add("convert tar of images / tar x", ratios)
    fresh(f"{data}/untar")
    os.remove(f"{data}/images.tar")

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
            table.add(f"{what} {kind} / cp of the same bytes", found)
    return max(peaks)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, help="folder of class folders of images")
    parser.add_argument("--data", help="folder for the data (needs 5 GB); default: a temporary folder")
    parser.add_argument("--binaries", help="folder with built binaries, such as bazel-bin; default: builds them")
    parser.add_argument("--quick", action="store_true", help="use less data, for a first look")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    folder = options.binaries or environments.build(
        ["cli:shardfeed", *(f"benchmarks:{name}_benchmark" for name in PARTS)])
    environments.refuse_debug_build(folder)
    shardfeed = f"{folder}/cli/shardfeed"
    bench, pipeline, jpeg_bench, image_bench, resample = (
        f"{folder}/benchmarks/{name}_benchmark" for name in PARTS)
    data = options.data or tempfile.mkdtemp(prefix="shardfeed-bench-")
    size = (100 if options.quick else 1000) * 1000 * 1000
    rounds = 3
    table = Table()
    print(f"{'ratio (higher is better)':<76} {'median':>8} {'':<6} range")
    try:
        made = {}
        for kind in ("large", "small"):
            made[kind] = run_json(bench, "make", kind, f"{data}/{kind}", size)

        for kind in ("large", "small"):
            result = run_json(bench, "verify", f"{data}/{kind}", 2)
            assert result["records"] == made[kind]["records"]
            table.add(f"verify {kind} / loop of read and CRC, 2 threads",
                      [a / b for a, b in zip(result["crc_loop"], result["verify"])])
        measure_reader(table, bench, data, made, rounds)
        measure_pipeline(table, pipeline, data)

        result = run_json(bench, "index", f"{data}/small")
        table.add("index small, records/s on one core",
                  [result["records"] / s / 1e6 for s in result["index"]], "M/s")
        result = run_json(bench, "index", f"{data}/large")
        table.add("index large, share of the bytes that is read",
                  [100 * result["bytes_read"] / result["bytes"]], "%")

        result = run_json(bench, "write", f"{data}/large", f"{data}/out")
        table.add("write large / cp of the same bytes",
                  [c / w for c, w in zip(result["cp"], result["write"])])

        images = f"{data}/images"
        sources = sorted(p for p in glob.glob(f"{options.images}/*/*") if os.path.isfile(p))
        for n in range(400 if options.quick else 2000):
            source = sources[n % len(sources)]
            folder = f"{images}/{os.path.basename(os.path.dirname(source))}"
            os.makedirs(folder, exist_ok=True)
            shutil.copy(source, f"{folder}/{n}-{os.path.basename(source)}")
        measure_jpeg(table, jpeg_bench, shardfeed, images, data, rounds)
        peak = measure_sources(table, shardfeed, data, images, rounds)
        measure_images(table, image_bench, shardfeed, images, data)
        measure_resample(table, resample, images, data, rounds)
        for command in (["verify"], ["index"]):
            report = run_json(shardfeed, *command, f"{data}/small/data@16", "--json")
            peak = max(peak, report["peak_rss_bytes"])
        table.add("peak memory of convert, reshard, verify, index",
                  [peak / (1 << 20)], "MiB")
    finally:
        if not options.data:
            shutil.rmtree(data, ignore_errors=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(table.rows, out, indent=1)


if __name__ == "__main__":
    sys.exit(main())
