"""WebDataset: tars with one file for each record; images by its loader with two workers and OpenCV."""

import glob
import sys

from peers import frames, protocol
from peers.digests import RecordDigest
from peers.protocol import IMAGE_BATCH, WINDOW, opencv_record

NAME = "WebDataset"
INSTALL = ["webdataset", "torch", "opencv-python-headless", "numpy"]
IMPORTS = ["webdataset", "torch", "cv2"]
CRC = False
FOLDERS = ["webdataset"]


def write_tars(records, folder):
    import webdataset
    with webdataset.ShardWriter(f"{folder}/%05d.tar", maxcount=-(-len(records) // 16),
                                maxsize=1 << 40, verbose=0) as writer:
        for i, record in enumerate(records):
            writer.write({"__key__": f"{i:09d}", "bin": record})


def some(run, kind):
    """A tenth of the small records, whose tars are four times as large; that is enough to measure the rate."""
    records = list(frames.payloads(run.shards(kind)))
    return records if kind == "large" or run.checking else records[:len(records) // 10]


def prepare(run):
    for kind in {"large", "small"} & set(run.kinds()):
        write_tars(some(run, kind), run.fresh_folder(f"webdataset/{kind}"))


def dataset(run, kind, window):
    import webdataset
    ds = webdataset.WebDataset(sorted(glob.glob(f"{run.data}/webdataset/{kind}/*.tar")),
                               shardshuffle=16 if window else False, empty_check=False)
    return ds.shuffle(window) if window else ds


def mix_memory(run):
    def keys(window):
        ds = dataset(run, "large", window)
        for _ in range(2):
            for element in ds:
                yield protocol.record_key(element["bin"])

    run.mix_memory(keys, protocol.windows(run))


def read(run, kind, window=0):
    run.records(protocol.epochs(lambda: dataset(run, kind, window)), look=lambda element: [element["bin"]])


def image(run):
    import numpy as np
    import torch
    import webdataset
    torch.set_num_threads(1)
    ds = dataset(run, "large", WINDOW["large"]).map(lambda element: opencv_record(element["bin"]))
    loader = webdataset.WebLoader(ds.batched(IMAGE_BATCH, collation_fn=np.stack), batch_size=None,
                                  num_workers=run.threads, persistent_workers=True, prefetch_factor=4)
    run.columns(protocol.epochs(lambda: loader), len, lambda batch: {"image": np.asarray(batch)})


def write(run, kind):
    records = some(run, kind)
    folder = run.fresh_folder(f"webdataset/written/{kind}")

    def digest():
        import tarfile
        found = RecordDigest()
        for path in sorted(glob.glob(f"{folder}/*.tar")):
            with tarfile.open(path) as tar:
                found.add(tar.extractfile(member).read() for member in tar)
        return found.result()

    run.job(lambda: write_tars(records, folder), len(records), digest)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "shuffle_large": {"": lambda run: read(run, "large", WINDOW["large"])},
    "shuffle_small": {"": lambda run: read(run, "small", WINDOW["small"])},
    "mix_memory": {"": mix_memory},
    "image": {"OpenCV": image},
    "image_paced": {"OpenCV": image},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
