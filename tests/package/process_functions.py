"""Functions for processes of functions_test.py and processes_test.py, which import them."""

import os
import signal
import time

import numpy as np

kept = []


def with_pid(batch):
    return {"n": batch["n"], "pid": np.full(len(batch["n"]), os.getpid())}


def die(batch):
    os.kill(os.getpid(), signal.SIGKILL)


def die_later(batch):
    if batch["n"][0] >= 500:
        os._exit(3)
    return batch


def keep(batch):
    """Keeps its arguments, and tells whether any of them has changed."""
    kept.append((batch["x"], batch["x"].copy()))
    return {"n": batch["n"], "same": np.full(len(batch["n"]), all(
        np.array_equal(a, b) for a, b in kept))}


def doubled(batch):
    batch["x"] *= 2  # the batch belongs to the function
    return {"n": batch["n"], "x": batch["x"], "text": [t + b"!" for t in batch["text"]],
            "some": batch["some"]}


def row(element):
    return {"length": len(element["text"]), "text": element["text"], "x": element["x"]}


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def refuse(batch):
    raise ValueError("not this one")


def refuse_oddly(batch):
    raise Unsendable("odd", 2)


def unsendable(batch):
    return {"n": lambda: 0}


def slow(batch):
    time.sleep(60)
    return batch


def stops(row):
    raise StopIteration


def leaves(row):
    raise SystemExit(3)
