"""Records of 50 floats and a label to batches of 1,024 by DALI on two threads of the CPU, in records a second.

  PYTHON dali_parse.py FILES...

Writes the indexes that DALI needs to a temporary folder first, which is not timed; nor is the first batch.
"""

import json
import os
import struct
import sys
import tempfile
import time

from nvidia.dali import fn, pipeline_def, tfrecord

BATCH = 1024


def write_index(path, index):
    with open(path, "rb") as shard, open(index, "w") as out:
        size = os.path.getsize(path)
        at = 0
        while at < size:
            shard.seek(at)
            frame = struct.unpack("<Q", shard.read(8))[0] + 16
            out.write(f"{at} {frame}\n")
            at += frame


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, prefetch_queue_depth=2)
def parse(files, indexes):
    columns = fn.readers.tfrecord(
        path=files, index_path=indexes, name="reader",
        features={"x": tfrecord.FixedLenFeature([50], tfrecord.float32, 0.0),
                  "y": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)})
    return columns["x"], columns["y"]


def main(files):
    with tempfile.TemporaryDirectory() as folder:
        indexes = [f"{folder}/{i}.idx" for i in range(len(files))]
        for path, index in zip(files, indexes):
            write_index(path, index)
        pipeline = parse(files, indexes)
        pipeline.build()
        records = pipeline.reader_meta("reader")["epoch_size"]
        pipeline.run()
        start = time.perf_counter()
        done = 0
        while done + BATCH <= records - BATCH:
            pipeline.run()
            done += BATCH
        print(json.dumps({"records": done, "per_second": done / (time.perf_counter() - start)}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
