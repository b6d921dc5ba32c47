"""The common part of the programs beside this file: the records, and how programs report them.

frameworks_test.py runs a program with the folder for its reports and the dataset as the first two
arguments, with one process for each rank.
"""

import json
import os
import pathlib
import sys
import time

import shardfeed as sf

RECORDS = 997  # a prime number: no number of ranks, workers or batches divides it
SHARDS = 5
COLUMNS = {"n": sf.int64, "x": sf.fixed(4, sf.float32), "y": sf.float32}


def write(spec):
    """Writes the dataset: record i holds the number i, and y is the sum of x."""
    with sf.write(spec, sync=False) as writer:
        for i in range(RECORDS):
            x = [(i * k % 7) / 7 for k in (1, 2, 3, 5)]
            writer.write({"n": i, "x": x, "y": float(sum(x))})


def arguments():
    """(folder, dataset, other arguments) of the command line."""
    return pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


def parsed(spec, **options):
    return sf.read(spec, **options).shuffle(seed=1).parse(COLUMNS)


def numbers(batches):
    """The records of each batch."""
    return [batch["n"].reshape(-1).tolist() for batch in batches]


def flat(lists):
    return [n for some in lists for n in some]


def tell(folder, rank=0, **what):
    """Appends a line of JSON to the rank's file, since frameworks may print anything."""
    with open(folder / f"rank-{rank}.jsonl", "a") as lines:
        lines.write(json.dumps({"rank": rank, "pid": os.getpid(), **what}) + "\n")


def end_training(accelerator):
    """Ends the process group of Accelerate. The model keeps it alive, and thereby threads of torch's gloo;
    one that drops its last tensor after the interpreter has ended aborts (torch 2.13)."""
    accelerator.end_training()
    time.sleep(0.5)
