"""The data of the tests on a GPU, and the stand-in for CUDA's driver of tests/cuda, which reports misuse."""

import ctypes
import gc
import os
import pathlib
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

STAND_IN = pathlib.Path(os.environ.get(
    "SHARDFEED_STAND_IN", REPOSITORY / "bazel-bin/tests/cuda/libcuda_stand_in.so")).resolve()
ROWS = 50


@pytest.fixture
def driver(monkeypatch):
    """The stand-in driver, which must not have seen misuse by the end of the test."""
    if not STAND_IN.exists():
        pytest.skip(f"{STAND_IN} is missing: bazel build --config=opt "
                    "//tests/cuda:libcuda_stand_in.so")
    monkeypatch.setenv("SHARDFEED_CUDA_DRIVER", str(STAND_IN))
    library = ctypes.CDLL(str(STAND_IN))
    library.StandInTakeMisuses.restype = ctypes.c_char_p
    library.StandInSetSpeed.argtypes = [ctypes.c_double, ctypes.c_double]
    library.StandInSetSpeed(1e9, 1e-4)
    library.StandInTakeMisuses()
    yield library
    gc.collect()
    assert library.StandInTakeMisuses() == b""


def rows(n=ROWS):
    rng = np.random.default_rng(1)
    lengths = np.arange(n) % 4
    return sf.from_arrays({
        "image": rng.integers(0, 256, (n, 8, 6, 3), np.uint8), "label": np.arange(n) % 5,
        "name": ["row %d" % i for i in range(n)],
        "some": sf.Ragged(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))})


@pytest.fixture
def ds():
    return rows().batch(8)  # the same in each epoch


def on_host(value):
    if isinstance(value, sf.Ragged):
        return on_host(value.values), on_host(value.row_splits)
    if isinstance(value, sf.BytesArray):
        return value.tolist()
    return value.numpy() if isinstance(value, sf.DeviceArray) else np.asarray(value)


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name in found:
        np.testing.assert_equal(on_host(found[name]), on_host(wanted[name]))
