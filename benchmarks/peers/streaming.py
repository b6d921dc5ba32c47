"""MosaicML Streaming: MDS shards, read in place."""

import json
import os
import shutil
import sys

from peers import frames, protocol
from peers.protocol import get_by_number

NAME = "MosaicML Streaming"
INSTALL = ["mosaicml-streaming"]
IMPORTS = ["streaming"]
CRC = False
FOLDERS = ["streaming"]


def write_mds(records, folder):
    from streaming import MDSWriter
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=folder, columns={"record": "bytes"}, size_limit=1 << 26) as writer:
        for record in records:
            writer.write({"record": record})


def prepare(run):
    for kind in {"large", "small"} & set(run.kinds()):
        write_mds(frames.payloads(run.shards(kind)), run.folder(f"streaming/{kind}"))


def dataset(run, kind, shuffle=False):
    import streaming
    streaming.base.util.clean_stale_shared_memory()
    return streaming.StreamingDataset(local=f"{run.data}/streaming/{kind}", shuffle=shuffle,
                                      shuffle_algo="py1e", batch_size=256)


def read(run, kind, shuffle=False):
    ds = dataset(run, kind, shuffle)
    run.records(lambda without_end: protocol.endless(lambda: ds) if without_end else iter(ds),
                look=lambda element: [element["record"]])


def mix_memory(run):
    ds = dataset(run, "large", True)
    run.mix_memory(lambda _: (protocol.record_key(element["record"]) for element in protocol.endless(lambda: ds)),
                   [None])


def get(run, kind):
    ds = dataset(run, kind)
    get_by_number(run, len(ds), lambda numbers: [ds[i]["record"] for i in numbers])


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
    found = []

    def work():
        again = dataset(run, "small", True)
        again.load_state_dict(state)
        found.append(next(iter(again))["record"])

    run.job(work, 1)
    run.result["same"] = found[0] == expected


def write(run, kind):
    records = list(frames.payloads(run.shards(kind)))
    folder = f"{run.data}/streaming/written"

    def digest():
        import streaming
        found = protocol.RecordDigest()
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
    "resume": {"": resume},
    "write_large": {"": lambda run: write(run, "large")},
    "write_small": {"": lambda run: write(run, "small")},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
