"""Elements of a dataset as plain values, and checks that runs resume from states."""

import pickle
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def values(ds, name="value"):
    """A column of all elements, as lists and numbers."""
    return [np.asarray(element[name]).tolist() for element in ds]


def theirs(ds):
    return [np.asarray(element.numpy()).tolist() for element in ds]


def plain(element):
    """The element in a form that can be compared."""
    if isinstance(element, sf.Ragged):
        return [plain(row) for row in element]
    if isinstance(element, sf.Sparse):
        return plain(element.values), plain(element.indices), element.shape
    if isinstance(element, dict):
        return {name: plain(value) for name, value in element.items()}
    if isinstance(element, (tuple, list)):
        return [plain(value) for value in element]
    return np.asarray(element).tolist()


def goes_on(ds, stops=(0, 1, 2, 5, 9)):
    """Checks that runs that resume from a state, saved at several places, deliver the rest, also with
    another number of threads. Returns the elements."""
    ds = pickle.loads(pickle.dumps(ds))
    wanted = [plain(element) for element in ds.start(epoch=0)]
    for stop in stops:
        with ds.start(epoch=0, threads=3) as it:
            found = [plain(element) for _, element in zip(range(stop), it)]
            state = it.state_dict()
        assert len(state["state"]) < 1024
        with ds.start(epoch=0, threads=1) as it:
            it.load_state_dict(state)
            found += [plain(element) for element in it]
        assert found == wanted, f"from element {stop}"
    return wanted
