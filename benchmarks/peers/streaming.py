"""MosaicML Streaming: local MDS shards; images by DataLoader with two workers and OpenCV."""

import json
import os
import sys

from peers import frames, protocol
from peers.digests import RecordDigest
from peers.protocol import IMAGE_BATCH, get_by_number, opencv_record

NAME = "MosaicML Streaming"
INSTALL = ["mosaicml-streaming", "opencv-python-headless"]
IMPORTS = ["streaming", "torch", "cv2"]
CRC = False
FOLDERS = ["streaming"]


def write_mds(records, folder):
    from streaming import MDSWriter
    with MDSWriter(out=folder, columns={"record": "bytes"}, size_limit=1 << 26) as writer:
        for record in records:
            writer.write({"record": record})


def prepare(run):
    for kind in {"large", "small"} & set(run.kinds()):
        write_mds(frames.payloads(run.shards(kind)), run.fresh_folder(f"streaming/{kind}"))


def dataset(run, kind, shuffle=False):
    import streaming
    streaming.base.util.clean_stale_shared_memory()
    return streaming.StreamingDataset(local=f"{run.data}/streaming/{kind}", shuffle=shuffle,
                                      shuffle_algo="py1e", batch_size=256)


def read(run, kind, shuffle=False):
    ds = dataset(run, kind, shuffle)
    run.records(protocol.epochs(lambda: ds), look=lambda element: [element["record"]])


def mix_memory(run):
    ds = dataset(run, "large", True)
    run.mix_memory(lambda _: (protocol.record_key(element["record"]) for element in protocol.endless(lambda: ds)),
                   [None])


def get(run, kind):
    ds = dataset(run, kind)
    get_by_number(run, len(ds), lambda numbers: [ds[i]["record"] for i in numbers])


def image(run):
    import streaming
    import torch
    torch.set_num_threads(1)
    streaming.base.util.clean_stale_shared_memory()

    class Images(streaming.StreamingDataset):
        def __getitem__(self, i):
            return opencv_record(super().__getitem__(i)["record"])

    ds = Images(local=f"{run.data}/streaming/large", shuffle=True, shuffle_algo="py1e", batch_size=IMAGE_BATCH)
    loader = torch.utils.data.DataLoader(ds, IMAGE_BATCH, num_workers=run.threads, persistent_workers=True,
                                         prefetch_factor=4)
    run.columns(protocol.epochs(lambda: loader), len, lambda batch: {"image": batch.numpy()})


def resume(run):
    ds = dataset(run, "small", True)
    iterator = iter(ds)
    done = 16 * run.batches_before_resume
    for _ in range(done):
        next(iterator)
    state = ds.state_dict(done, False)
    expected = next(iterator)["record"]
    del iterator, ds
    run.result["state_bytes"] = len(json.dumps(state))

    def work():
        again = dataset(run, "small", True)
        again.load_state_dict(state)
        return protocol.begin(again)

    found, _ = run.job(work, 1)
    run.result["same"] = found["record"] == expected


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = run.fresh_folder("streaming/written")

    def digest():
        import streaming
        found = RecordDigest()
        found.add(element["record"] for element in streaming.StreamingDataset(local=folder, batch_size=1))
        return found.result()

    run.job(lambda: write_mds(records, folder), len(records), digest)
    run.result["bytes"] = sum(os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder))


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    "exact_large": {"py1e": lambda run: read(run, "large", True)},
    "exact_small": {"py1e": lambda run: read(run, "small", True)},
    "mix_memory": {"py1e": mix_memory},
    "get_large": {"": lambda run: get(run, "large")},
    "get_small": {"": lambda run: get(run, "small")},
    "image": {"OpenCV": image},
    "image_paced": {"OpenCV": image},
    "resume": {"": resume},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
