"""Functions for processes of package_test.py, which import them."""

import os
import signal

import numpy as np


def with_pid(batch):
    return {"n": batch["n"], "pid": np.full(len(batch["n"]), os.getpid())}


def die(batch):
    os.kill(os.getpid(), signal.SIGKILL)
