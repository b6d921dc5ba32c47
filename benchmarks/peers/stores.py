"""One peer reads a dataset from an object store, in a process of its own; benchmarks/stores runs it.

    PYTHONPATH=benchmarks PYTHON -m peers.stores PEER VARIANT --url http://127.0.0.1:PORT --bucket NAME
        --shards N [--check] [--scratch FOLDER] [--data FOLDER]

Prints one line of JSON: the records, their bytes, the seconds from opening the dataset to its end, and by how many
bytes the process's peak memory is larger than after opening; with --check also the sum of the records' CRC-32. Each
has the records in the form that it reads: TFRecord shards (`tfrecord/`), tars (`tar/`), MDS (`mds/`), or TFRecord
shards of Examples (`example/`), whose indexes DALI takes from the --data folder. Each variant is what its
documentation shows, with so many workers."""

import argparse
import json
import os
import struct
import time
import zlib

BATCH = 64


def workers(variant):
    return int(variant.split()[0])


def peak():
    """The peak memory of this process in bytes, without that of its children."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def whole(batch):
    """Instead of the collation of torch: lists of bytes."""
    return batch


def shardfeed(options):
    import shardfeed as sf
    order, _, budget = options.variant.partition(", MiB: ")
    ds = sf.read(f"s3://{options.bucket}/tfrecord/d@{options.shards}", budget_bytes=int(budget or 1024) << 20)
    if order == "shuffle":
        ds = ds.shuffle(seed=1)
    len(ds)

    def read():
        for record in ds:
            if budget:
                time.sleep(0.0005)  # so that memory fills
            yield bytes(record) if options.check else record

    return read


def frames(reader):
    """The records of one object, as it comes. The CRCs of TFRecord are not looked at."""
    while header := reader.read(12):
        length, = struct.unpack("<Q", header[:8])
        yield reader.read(length + 4)[:length]


def s3torchconnector(options):
    import torch
    from s3torchconnector import S3ClientConfig, S3IterableDataset
    uris = [f"s3://{options.bucket}/tfrecord/d-{n:05}-of-{options.shards:05}" for n in range(options.shards)]
    objects = S3IterableDataset.from_objects(
        uris, region="us-east-1", endpoint=options.url, enable_sharding=True,
        s3client_config=S3ClientConfig(force_path_style=True))

    class Records(torch.utils.data.IterableDataset):
        def __iter__(self):
            for reader in objects:
                yield from frames(reader)

    return lambda: loaded(torch.utils.data.DataLoader(Records(), BATCH, num_workers=workers(options.variant),
                                                      collate_fn=whole))


def loaded(loader):
    for batch in loader:
        yield from batch


def webdataset(options):
    import webdataset as wds
    urls = [f"pipe:curl -s -L {options.url}/{options.bucket}/tar/{n:05}.tar || true" for n in range(options.shards)]
    ds = wds.WebDataset(urls, shardshuffle=False, empty_check=False).map(lambda element: element["bin"])
    return lambda: loaded(wds.WebLoader(ds.batched(BATCH, collation_fn=whole), batch_size=None,
                                        num_workers=workers(options.variant)))


def streaming(options):
    import torch
    from streaming import StreamingDataset
    ds = StreamingDataset(remote=f"s3://{options.bucket}/mds", local=options.scratch, shuffle=False,
                          batch_size=BATCH, num_canonical_nodes=1)
    records = torch.utils.data.DataLoader(ds, BATCH, num_workers=workers(options.variant), collate_fn=whole)
    return lambda: (element["record"] for element in loaded(records))


def tensorflow_io(options):
    import tensorflow as tf
    import tensorflow_io  # noqa: F401: it registers the S3 file system
    files = [f"s3://{options.bucket}/tfrecord/d-{n:05}-of-{options.shards:05}" for n in range(options.shards)]
    ds = tf.data.TFRecordDataset(files, buffer_size=8 << 20, num_parallel_reads=workers(options.variant))
    return lambda: ds.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def dali(options):
    from nvidia.dali import fn, pipeline_def, tfrecord
    names = [f"d-{n:05}-of-{options.shards:05}" for n in range(options.shards)]

    @pipeline_def(batch_size=BATCH, num_threads=workers(options.variant), device_id=None)
    def chain():
        return fn.readers.tfrecord(
            path=[f"s3://{options.bucket}/example/{name}" for name in names],
            index_path=[f"{options.data}/example/{name}.idx" for name in names],
            features={"record": tfrecord.FixedLenFeature((), tfrecord.string, "")}, name="reader")["record"]

    def read():
        made = chain()
        made.build()
        left = made.epoch_size("reader")
        while left > 0:
            records, = made.run()
            # The last batch is padded.
            yield from (records.at(n).tobytes() for n in range(min(BATCH, left)))
            left -= BATCH

    return read


PEERS = {function.__name__: function
         for function in (shardfeed, s3torchconnector, webdataset, streaming, tensorflow_io, dali)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("variant")
    parser.add_argument("--url", required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--scratch")
    parser.add_argument("--data")
    options = parser.parse_args()
    os.environ.update({
        "AWS_ENDPOINT_URL": options.url, "S3_ENDPOINT_URL": options.url, "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "S3_ENDPOINT": options.url, "S3_USE_HTTPS": "0", "S3_VERIFY_SSL": "0", "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": ""})
    # What is imported is not timed.
    for module in {"shardfeed": ["shardfeed"], "s3torchconnector": ["torch", "s3torchconnector"],
                   "webdataset": ["webdataset", "torch"], "streaming": ["streaming", "torch"],
                   "tensorflow_io": ["tensorflow", "tensorflow_io"], "dali": ["nvidia.dali"]}[options.peer]:
        __import__(module)
    begin = time.perf_counter()
    read = PEERS[options.peer](options)
    opened = peak()
    count = size = total = 0
    for record in read():
        count += 1
        size += len(record)
        if options.check:
            total += zlib.crc32(record)
    print(json.dumps({"records": count, "bytes": size, "sum": total, "seconds": time.perf_counter() - begin,
                      "memory": peak() - opened}), flush=True)
    if options.peer == "tensorflow_io":
        os._exit(0)  # it is aborted at exit otherwise: "pure virtual method called"


if __name__ == "__main__":
    main()
