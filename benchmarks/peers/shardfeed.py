"""shardfeed: its Python package, as used in training, and its program for work on whole datasets and for images."""

import glob
import json
import os
import subprocess
import sys

from peers import frames, protocol
from peers.protocol import BATCH, FEATURES, IMAGE_BATCH, IMAGE_SIZE, SIZES, WINDOW, get_by_number

NAME = "shardfeed"
INSTALL = ["numpy", "pillow"]
IMPORTS = ["shardfeed"]
CRC = True
FOLDERS = ["shardfeed"]


def views(block):
    """Views of the records, without a copy."""
    return map(block.view, range(len(block)))


def read(run, kind, check_crc=True):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads, check_crc=check_crc)
        return iter((ds.repeat() if without_end else ds).with_options(threads=run.threads).blocks())

    run.records(make, len, views)


def read_singly(run, kind):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads)
        return iter((ds.repeat() if without_end else ds).with_options(threads=run.threads))

    run.records(make)


def shuffle(run, kind, window):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads).shuffle(1, window)
        return iter((ds.repeat() if without_end else ds).with_options(threads=run.threads).blocks())

    run.records(make, len, views)


def mix_memory(run, windows):
    """With a small budget, as for little memory; the order does not depend on it."""
    import shardfeed as sf

    def keys(window):
        ds = sf.read(run.spec("large"), threads=run.threads).shuffle(1, window).repeat(2)
        for block in ds.with_options(threads=run.threads, budget_bytes=16 << 20).blocks():
            yield from map(protocol.record_key, views(block))

    run.mix_memory(keys, windows)


def parsed(run, without_end, window=0, batch=BATCH):
    import shardfeed as sf
    ds = sf.read(run.spec("small"), threads=run.threads)
    if window:
        ds = ds.shuffle(1, window)
    if without_end:
        ds = ds.repeat()
    ds = ds.parse({"x": sf.fixed([FEATURES], sf.float32), "y": sf.int64}).batch(batch)
    return ds.with_options(threads=run.threads)


def parse(run):
    run.columns(lambda without_end: iter(parsed(run, without_end)), lambda batch: len(batch["y"]),
                lambda batch: batch)


def tokens(run):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec("tokens"), threads=run.threads)
        ds = (ds.repeat() if without_end else ds).parse({"ids": sf.var(sf.int64)})
        return iter(ds.padded_batch(IMAGE_BATCH).with_options(threads=run.threads))

    run.columns(make, lambda batch: len(batch["ids"]),
                lambda batch: {"ids": batch["ids"][batch["ids"] != 0]})


def get(run, kind):
    import shardfeed as sf
    ds = sf.read(run.spec(kind), threads=run.threads)
    get_by_number(run, len(ds), lambda numbers: ds[numbers])


def image(run, kind, antialias):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads).shuffle(1)
        ds = ds.repeat() if without_end else ds
        ds = ds.parse({"image/encoded": sf.bytes, "image/class/label": sf.int64})
        ds = ds.decode_image("image/encoded", IMAGE_SIZE, crop="random", flip=0.5, antialias=antialias)
        return iter(ds.batch(IMAGE_BATCH).with_options(threads=run.threads))

    run.columns(make, lambda batch: len(batch["image"]),
                lambda batch: {"image": batch["image"], "label": batch["image/class/label"]})


def program(run, *arguments):
    command = [f"{run.binaries}/cli/shardfeed", *map(str, arguments), "--json", "-j", str(run.threads)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def write(run, kind, compression="none"):
    import shardfeed as sf
    found = list(frames.payloads(run.shards(kind)))
    folder = run.fresh_folder("shardfeed/written")

    def work():
        with sf.write(f"{folder}/train@16", compression=compression, threads=run.threads, sync=False) as writer:
            for record in found:
                writer.write(record)

    def shards():
        return sorted(glob.glob(f"{folder}/train-*-of-00016"))

    run.job(work, len(found), lambda: frames.digest(shards()))
    run.result["bytes"] = sum(map(os.path.getsize, shards()))


def convert(run, kind, source, count, *arguments):
    folder = run.fresh_folder("shardfeed/converted")
    run.job(lambda: program(run, "convert", kind, source, f"{folder}/train@16", "--no-sync",
                            *arguments), count,
            lambda: frames.digest(sorted(glob.glob(f"{folder}/train-*-of-00016"))))


def convert_images(run, *arguments):
    convert(run, "imagefolder", f"{run.data}/images", len(run.images()), *arguments)


def convert_rows(run, kind):
    convert(run, kind, f"{run.data}/rows/rows.{kind}", run.count("rows"))


def verify(run, kind):
    found = []
    run.job(lambda: found.append(program(run, "verify", run.spec(kind))), run.count(kind),
            lambda: {"records": found[0]["records"]})


def first_batch(run):
    run.job(lambda: protocol.begin(parsed(run, True, WINDOW["small"])), 1)


def go_on(run, make, batches):
    """Saves a state after `batches` batches, and times the first batch from there."""
    iterator = iter(make())
    for _ in range(batches):
        next(iterator)
    state = iterator.state_dict()
    expected = next(iterator)
    run.result["state_bytes"] = len(json.dumps(state))

    def work():
        again = iter(make())
        again.load_state_dict(state)
        return protocol.begin(again)

    found, _ = run.job(work, 1)
    return found, expected


def resume(run):
    found, expected = go_on(run, lambda: parsed(run, True, WINDOW["small"], batch=16),
                            run.batches_before_resume)
    run.result["same"] = bool((found["x"] == expected["x"]).all())


def numbers(run, size):
    import shardfeed as sf
    return sf.read(run.spec(f"numbers_{size}"), threads=run.threads).shuffle(1).batch(BATCH)


def open_numbers(run, size):
    run.job(lambda: protocol.begin(numbers(run, size)), 1)


def middle(run, size):
    found, expected = go_on(run, lambda: numbers(run, size), run.count(f"numbers_{size}") // BATCH // 2)
    run.result["same"] = list(found) == list(expected)


def permute(run, count):
    """The order is a function of the position, so nothing is set up, and the cost is that of one call."""
    command = [f"{run.binaries}/benchmarks/records_benchmark", "order", str(count)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    run.result.update(done=1, seconds=report["exact"]["at_ns"] * 1e-9, cpu_seconds=0.0, memory_bytes=0)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large"),
                   "CRC off": lambda run: read(run, "large", False)},
    "read_small": {"": lambda run: read(run, "small"),
                   "CRC off": lambda run: read(run, "small", False),
                   "one by one": lambda run: read_singly(run, "small")},
    "read_large_gzip": {"": lambda run: read(run, "large_gzip"),
                        "its own GZIP": lambda run: read(run, "shardfeed/large_gzip")},
    "read_small_gzip": {"": lambda run: read(run, "small_gzip"),
                        "its own GZIP": lambda run: read(run, "shardfeed/small_gzip")},
    "read_large_cold": {"": lambda run: read(run, "large")},
    "shuffle_large": {"": lambda run: shuffle(run, "large", WINDOW["large"])},
    "shuffle_small": {"": lambda run: shuffle(run, "small", WINDOW["small"])},
    "exact_large": {"": lambda run: shuffle(run, "large", None)},
    "exact_small": {"": lambda run: shuffle(run, "small", None)},
    "get_large": {"": lambda run: get(run, "large")},
    "get_small": {"": lambda run: get(run, "small")},
    "parse": {"": parse},
    "tokens": {"": tokens},
    "image": {"": lambda run: image(run, "large", False),
              "seekable JPEG": lambda run: image(run, "shardfeed/seekable", False)},
    "image_antialiased": {"": lambda run: image(run, "large", True),
                          "seekable JPEG": lambda run: image(run, "shardfeed/seekable", True)},
    "image_huge": {"": lambda run: image(run, "huge", True)},
    "image_paced": {"": lambda run: image(run, "large", True)},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "write_small_gzip": {"": lambda run: write(run, "small_gzip", "gzip")},
    "convert_images": {"": lambda run: convert_images(run, "--jpeg", "keep"),
                         "seekable JPEG": convert_images},
    "convert_csv": {"": lambda run: convert_rows(run, "csv")},
    "convert_jsonl": {"": lambda run: convert_rows(run, "jsonl")},
    "verify_large": {"": lambda run: verify(run, "large")},
    "verify_small": {"": lambda run: verify(run, "small")},
    "first_batch": {"": first_batch},
    "resume": {"": resume},
    "mix_memory": {"window": lambda run: mix_memory(run, protocol.windows(run)),
                   "exact": lambda run: mix_memory(run, [None])},
    **{f"open_{size}": {"": lambda run, size=size: open_numbers(run, size)} for size in SIZES},
    **{f"middle_{size}": {"": lambda run, size=size: middle(run, size)} for size in SIZES},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}


def prepare(run):
    """The indexes, the images as seekable JPEGs, and GZIP as shardfeed writes it."""
    for kind in run.kinds():
        if run.shards(kind):
            program(run, "index", run.spec(kind))
    made = [("large", "seekable", ["--jpeg", "seekable"])]
    made += [(kind, kind, ["--compression", "gzip"]) for kind in ("large_gzip", "small_gzip")]
    for kind, name, how in made:
        if kind not in run.kinds():
            continue
        folder = run.folder(f"shardfeed/{name}")
        program(run, "convert", "tfrecord", run.spec(kind), f"{folder}/train@16", "--no-shuffle",
                "--no-sync", "--overwrite", *how)


if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
