"""LitData: its chunks of 64 MB, read in this process; images and states by its loader with two workers."""

import sys

from peers import frames, protocol
from peers.digests import RecordDigest
from peers.protocol import IMAGE_BATCH, get_by_number, opencv_record

NAME = "LitData"
INSTALL = ["litdata", "torch", "opencv-python-headless"]
IMPORTS = ["litdata", "torch", "cv2"]
CRC = False
FOLDERS = ["litdata"]


def write_chunks(records, folder):
    from litdata.streaming.writer import BinaryWriter
    writer = BinaryWriter(folder, chunk_bytes=1 << 26)
    for i, record in enumerate(records):
        writer.add_item(i, record)
    writer.done()
    writer.merge()


def prepare(run):
    for kind in {"large", "small"} & set(run.kinds()):
        write_chunks(frames.payloads(run.shards(kind)), run.fresh_folder(f"litdata/{kind}"))


def read(run, kind, shuffle=False):
    from litdata import StreamingDataset
    ds = StreamingDataset(f"{run.data}/litdata/{kind}", shuffle=shuffle)
    run.records(protocol.epochs(lambda: ds), look=lambda element: [element])


def mix_memory(run):
    from litdata import StreamingDataset

    def keys(_):
        ds = StreamingDataset(f"{run.data}/litdata/large", shuffle=True)
        return map(protocol.record_key, protocol.endless(lambda: ds))

    run.mix_memory(keys, [None])


def get(run, kind):
    from litdata import StreamingDataset
    ds = StreamingDataset(f"{run.data}/litdata/{kind}")
    get_by_number(run, len(ds), lambda numbers: [ds[i] for i in numbers])


def loader(run, kind, batch, transform, **options):
    from litdata import StreamingDataLoader, StreamingDataset
    ds = StreamingDataset(f"{run.data}/litdata/{kind}", shuffle=True, transform=transform)
    return StreamingDataLoader(ds, batch_size=batch, num_workers=run.threads, persistent_workers=True,
                               prefetch_factor=4, **options)


def image(run):
    import torch
    torch.set_num_threads(1)
    made = loader(run, "large", IMAGE_BATCH, opencv_record)
    run.columns(protocol.epochs(lambda: made), len, lambda batch: {"image": batch.numpy()})


def resume(run):
    import pickle
    first = loader(run, "small", 16, bytes, collate_fn=list)
    iterator = iter(first)
    for _ in range(run.batches_before_resume):
        next(iterator)
    state = first.state_dict()
    expected = next(iterator)
    run.result["state_bytes"] = len(pickle.dumps(state))

    def work():
        again = loader(run, "small", 16, bytes, collate_fn=list)
        again.load_state_dict(state)
        return protocol.begin(again)

    found, _ = run.job(work, 1)
    run.result["same"] = found == expected


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = run.fresh_folder("litdata/written")

    def digest():
        from litdata import StreamingDataset
        found = RecordDigest()
        found.add(StreamingDataset(folder))
        return found.result()

    run.job(lambda: write_chunks(records, folder), len(records), digest)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    # LitData shuffles the chunks, and the records within each chunk.
    "exact_large": {"within chunks": lambda run: read(run, "large", True)},
    "exact_small": {"within chunks": lambda run: read(run, "small", True)},
    "mix_memory": {"within chunks": mix_memory},
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
