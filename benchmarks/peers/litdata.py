"""LitData: its chunks of 64 MB, read in this process."""

import os
import shutil
import sys

from peers import frames, protocol
from peers.protocol import get_by_number

NAME = "LitData"
INSTALL = ["litdata"]
IMPORTS = ["litdata"]
CRC = False
FOLDERS = ["litdata"]


def write_chunks(records, folder):
    from litdata.streaming.writer import BinaryWriter
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    writer = BinaryWriter(folder, chunk_bytes=1 << 26)
    for i, record in enumerate(records):
        writer.add_item(i, record)
    writer.done()
    writer.merge()


def prepare(run):
    for kind in {"large", "small"} & set(run.kinds()):
        write_chunks(frames.payloads(run.shards(kind)), run.folder(f"litdata/{kind}"))


def read(run, kind, shuffle=False):
    from litdata import StreamingDataset
    ds = StreamingDataset(f"{run.data}/litdata/{kind}", shuffle=shuffle)
    run.records(lambda without_end: protocol.endless(lambda: ds) if without_end else iter(ds),
                look=lambda element: [element])


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


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = run.folder("litdata/written")

    def digest():
        from litdata import StreamingDataset
        found = protocol.RecordDigest()
        found.add(StreamingDataset(folder))
        return found.result()

    run.job(lambda: write_chunks(records, folder), len(records), digest)


WORKLOADS = {
    "read_large": {"": lambda run: read(run, "large")},
    "read_small": {"": lambda run: read(run, "small")},
    # Its shuffle mixes the records of a chunk, and the chunks.
    "exact_large": {"within chunks": lambda run: read(run, "large", True)},
    "exact_small": {"within chunks": lambda run: read(run, "small", True)},
    "mix_memory": {"within chunks": mix_memory},
    "get_large": {"": lambda run: get(run, "large")},
    "get_small": {"": lambda run: get(run, "small")},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
