"""shardfeed: its Python package, as training uses it, and its program for work on whole datasets and for the
pictures."""

import glob
import json
import os
import subprocess
import sys

from peers import frames, protocol
from peers.protocol import BATCH, FEATURES, IMAGE_BATCH, IMAGE_SIZE, WINDOW, get_by_number

NAME = "shardfeed"
INSTALL = ["numpy", "pillow"]
CRC = True
FOLDERS = ["shardfeed"]


def read(run, kind, check_crc=True):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads, check_crc=check_crc)
        return iter((ds.repeat() if without_end else ds).with_options(threads=run.threads).blocks())

    run.records(make, len, lambda block: block)


def shuffle(run, kind, window):
    import shardfeed as sf

    def make(without_end):
        ds = sf.read(run.spec(kind), threads=run.threads).shuffle(1, window)
        return iter((ds.repeat() if without_end else ds).with_options(threads=run.threads).blocks())

    run.records(make, len, lambda block: block)


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
    import shardfeed  # noqa: F401  not part of what is timed
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
    folder = run.folder("shardfeed/written")

    def work():
        with sf.write(f"{folder}/train@16", compression=compression, threads=run.threads, sync=False,
                      overwrite=True) as writer:
            for record in found:
                writer.write(record)

    def shards():
        return sorted(glob.glob(f"{folder}/train-*-of-00016"))

    run.job(work, len(found), lambda: frames.digest(shards()))
    run.result["bytes"] = sum(map(os.path.getsize, shards()))


def convert(run, kind, source, count, *arguments):
    folder = run.folder("shardfeed/converted")
    run.job(lambda: program(run, "convert", kind, source, f"{folder}/train@16", "--no-sync",
                            "--overwrite", *arguments),
            count, lambda: frames.digest(sorted(glob.glob(f"{folder}/train-*-of-00016"))))


def convert_pictures(run, *arguments):
    convert(run, "imagefolder", f"{run.data}/pictures", len(run.pictures()), *arguments)


def convert_rows(run, kind):
    convert(run, kind, f"{run.data}/rows.{kind}", run.count("rows"))


def verify(run, kind):
    found = []
    run.job(lambda: found.append(program(run, "verify", run.spec(kind))), run.count(kind),
            lambda: {"records": found[0]["records"]})


def first_batch(run):
    import shardfeed  # noqa: F401
    run.job(lambda: next(iter(parsed(run, True, WINDOW["small"]))), 1)


def resume(run):
    import shardfeed  # noqa: F401
    iterator = iter(parsed(run, True, WINDOW["small"], batch=16))
    for _ in range(run.batches_before_resume):
        next(iterator)
    state = iterator.state_dict()
    expected = next(iterator)["x"]
    run.result["state_bytes"] = len(json.dumps(state))
    found = []

    def work():
        again = iter(parsed(run, True, WINDOW["small"], batch=16))
        again.load_state_dict(state)
        found.append(next(again)["x"])

    run.job(work, 1)
    run.result["same"] = bool((found[0] == expected).all())


def permute(run, count):
    """The order is a function of the position: nothing is set up, the cost is that of one call."""
    command = [f"{run.binaries}/benchmarks/records_benchmark", "order", str(count)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    run.result.update(done=1, seconds=report["exact"]["at_ns"] * 1e-9, cpu_seconds=0.0, memory_bytes=0)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large"),
                   "CRC off": lambda run: read(run, "large", False)},
    "read_small": {"": lambda run: read(run, "small"),
                   "CRC off": lambda run: read(run, "small", False)},
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
    "image_paced": {"": lambda run: image(run, "large", True)},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
    "write_small_gzip": {"": lambda run: write(run, "small_gzip", "gzip")},
    "convert_pictures": {"": lambda run: convert_pictures(run, "--jpeg", "keep"),
                         "seekable JPEG": convert_pictures},
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


def prepare(run):
    """The indexes, the pictures as seekable JPEGs, and GZIP as shardfeed writes it."""
    for kind in ("large", "small", "tokens", "large_gzip", "small_gzip"):
        program(run, "index", run.spec(kind))
    made = [("large", "seekable", ["--jpeg", "seekable"])]
    made += [(kind, kind, ["--compression", "gzip"]) for kind in ("large_gzip", "small_gzip")]
    for kind, name, how in made:
        folder = run.folder(f"shardfeed/{name}")
        program(run, "convert", "tfrecord", run.spec(kind), f"{folder}/train@16", "--no-shuffle",
                "--no-sync", "--overwrite", *how)


if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
