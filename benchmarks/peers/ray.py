"""Ray Data on this machine: read_tfrecords (with TensorFlow's parser) and iter_batches; read_csv, read_json and
write_tfrecords. It works on whole files, so a second epoch is timed."""

import glob
import os
import sys

from peers import frames, protocol
from peers.protocol import BATCH, IMAGE_BATCH, opencv_record

NAME = "Ray Data"
INSTALL = ["ray[data]", "tensorflow-cpu==2.21.0", "crc32c", "pandas", "opencv-python-headless"]
IMPORTS = ["ray", "ray.data"]
CRC = False
SOME = 256


def start(run):
    import logging
    import ray
    ray.init(num_cpus=run.threads, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


def prepare(run):
    """Keeps only the first small records of each shard, since each record takes a millisecond."""
    if "small" not in run.kinds():
        return
    for path in run.shards("small"):
        size = 16 + next(length for _, _, length in frames.frames([path]))
        with open(path, "rb") as file, open(f"{run.folder('ray/small')}/{os.path.basename(path)}", "wb") as out:
            out.write(file.read(size * SOME))


def epochs(run, kind, batch):
    data = start(run)
    return lambda _: iter(data.read_tfrecords(run.shards(kind)).iter_batches(batch_size=batch,
                                                                            batch_format="numpy"))


def read(run):
    """Ray delivers features instead of records."""
    run.columns(epochs(run, "large", IMAGE_BATCH), lambda batch: len(batch["image/class/label"]),
                lambda batch: {"label": batch["image/class/label"]}, whole=True)


def parse(run):
    import numpy as np
    run.columns(epochs(run, "ray/small", BATCH), lambda batch: len(batch["y"]),
                lambda batch: {"x": np.stack(batch["x"]), "y": batch["y"]}, whole=True)


def decode(batch):
    import numpy as np
    return {"image": np.stack([opencv_record(encoded) for encoded in batch["image/encoded"]])}


def image(run):
    """Images in the order of the files, because random_shuffle first reads everything."""
    data = start(run)

    def make(_):
        ds = data.read_tfrecords(run.shards("large"))
        ds = ds.map_batches(decode, batch_size=IMAGE_BATCH, batch_format="numpy")
        return iter(ds.iter_batches(batch_size=IMAGE_BATCH, batch_format="numpy"))

    run.columns(make, lambda batch: len(batch["image"]), lambda batch: batch, whole=True)


def convert(run, kind):
    data = start(run)
    folder = run.fresh_folder("ray/converted")
    read_rows = data.read_csv if kind == "csv" else data.read_json
    run.job(lambda: read_rows(f"{run.data}/rows/rows.{kind}").write_tfrecords(folder), run.count("rows"),
            lambda: frames.digest(sorted(glob.glob(f"{folder}/*"))))


WORKLOADS = {
    "read_large": {"features": read},
    "read_large_used": {},  # Ray does not deliver the records' bytes
    "read_large_1_thread": {},  # Ray always uses several processes
    "parse": {"": parse},
    "parse_1_thread": {},
    "image": {"OpenCV": image},
    "image_1_thread": {},
    "convert_csv": {"": lambda run: convert(run, "csv")},
    "convert_jsonl": {"": lambda run: convert(run, "jsonl")},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
