"""Ray Data on this machine: read_tfrecords (by TensorFlow's parser) and iter_batches."""

import sys

from peers import protocol
from peers.protocol import BATCH, IMAGE_BATCH

NAME = "Ray Data"
INSTALL = ["ray[data]", "tensorflow-cpu==2.21.0", "crc32c", "pandas"]
CRC = False


def epochs(run, kind, batch):
    import logging
    import ray
    if not ray.is_initialized():
        ray.init(num_cpus=run.threads, log_to_driver=False, logging_level=logging.ERROR,
                 include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False

    def make(without_end):
        def epoch():
            return ray.data.read_tfrecords(run.shards(kind)).iter_batches(batch_size=batch,
                                                                          batch_format="numpy")
        return protocol.endless(epoch) if without_end else iter(epoch())

    return make


def read(run):
    """Ray gives the features, not the records."""
    run.columns(epochs(run, "large", IMAGE_BATCH), lambda batch: len(batch["image/class/label"]),
                lambda batch: {"label": batch["image/class/label"]})


def parse(run):
    import numpy as np
    run.columns(epochs(run, "small", BATCH), lambda batch: len(batch["y"]),
                lambda batch: {"x": np.stack(batch["x"]), "y": batch["y"]})


WORKLOADS = {
    "read_large": {"features": read},
    "parse": {"": parse},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
