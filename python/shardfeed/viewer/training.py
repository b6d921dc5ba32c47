"""What training gets: the batches of a chain that a Python file defines."""

from __future__ import annotations

import collections
import importlib.util
import itertools
import os
import sys
import threading
import time
import traceback
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .._core import BytesArray
from ..dataset import Dataset
from ..ragged import Ragged
from . import media
from .dataset import Missing
from .values import bytes_shown, number_shown

_ROWS = 64  # a page shows this many rows of a batch
_VALUES = 32  # and this many values of an array
_KEPT = 8  # this many batches are kept
_SECONDS = 1.0  # an answer takes at most this long, as far as rows allow


class BadChain(ValueError):
    """A file does not define the chain. The message is for users."""


def load_chain(place: str) -> Dataset:
    """Runs FILE.py of "FILE.py:NAME" and returns its chain: the variable NAME, or what the function of that name
    returns. BadChain: there is none, or the file or the function raises."""
    path, colon, name = place.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise BadChain(f"{place}: expected FILE.py:NAME, the variable or function of a file that is or makes a chain")
    if not os.path.isfile(path):
        raise BadChain(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location("shardfeed_viewed", path)
    if spec is None or spec.loader is None:
        raise BadChain(f"{path}: not a Python file: its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses and pickle expect
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
        found = getattr(module, name, None)
        if callable(found) and not isinstance(found, Dataset):
            found = found()
    except (Exception, SystemExit) as error:  # sys.exit of a file or a step ends no viewer
        lines = traceback.extract_tb(error.__traceback__)
        line = next((one.lineno for one in reversed(lines) if one.filename == os.path.abspath(path)), None)
        raise BadChain(f"{path}{'' if line is None else f':{line}'}: {type(error).__name__}: {error}") from error
    if isinstance(found, Dataset):
        return found
    chains = sorted(one for one, value in vars(module).items() if isinstance(value, Dataset))
    known = f"; its chains are {', '.join(chains)}" if chains else ""
    what = f"is of type {type(found).__name__}, not a Dataset" if hasattr(module, name) else "does not exist"
    raise BadChain(f"{path}: {name} {what}{known}")


class ViewedChain:
    """The batches of a chain, each as training would get it. Thread-safe."""

    def __init__(self, name: str, chain: Dataset):
        self.name = name
        self._chain = chain
        self._lock = threading.Lock()
        self._epoch: Optional[int] = None
        self._it: Optional[Iterator[Any]] = None
        self._next = 0  # number of the batch that the iterator gives next
        self._kept: "collections.OrderedDict[int, Any]" = collections.OrderedDict()  # batches of the epoch

    def close(self) -> bool:
        """False: a step has not returned within a second, so that threads of the chain are not ended."""
        if not self._lock.acquire(timeout=1):
            return False
        self._it = None
        self._kept.clear()
        self._lock.release()
        return True

    def about(self) -> Dict[str, Any]:
        return {"name": self.name, "text": repr(self._chain), "batched": self._chain.batched}

    def batch(self, epoch: int, number: int) -> Dict[str, Any]:
        """Returns the rows of a batch. After about a second of steps towards it: {"at": the number reached}, and the
        caller asks again. Missing: the epoch has fewer batches, or a step raises."""
        with self._lock:
            if not self._seek(epoch, number):
                return {"at": self._next}
            element = self._kept[number]
        leaves = _leaves(element)
        batched = self._chain.batched
        rows = min((len(values) for _, values in leaves), default=0) if batched else 1
        shown = [[_shown(values[row] if batched else values) for _, values in leaves] for row in range(min(rows, _ROWS))]
        return {"epoch": epoch, "batch": number, "rows": rows, "columns": [_column(*leaf) for leaf in leaves], "shown": shown}

    def image(self, epoch: int, number: int, row: int, column: int) -> bytes:
        """Returns a value of a batch as PNG. Missing: it is none."""
        with self._lock:
            if not self._seek(epoch, number):
                raise Missing(f"batch {number} has not been made yet")
            leaves = _leaves(self._kept[number])
        if column < len(leaves):
            values = leaves[column][1]
            batched = self._chain.batched
            if row < (len(values) if batched else 1):
                value = values[row] if batched else values
                if _is_image(value) and (png := media.image_of_array(value)) is not None:
                    return png
        raise Missing(f"row {row} of batch {number} has no image in column {column}")

    def _seek(self, epoch: int, number: int) -> bool:
        """Whether the batch is now among those that are kept."""
        if epoch != self._epoch or (number not in self._kept and number < self._next):
            self._it, self._epoch, self._next = None, epoch, 0
            self._kept.clear()
        until = time.monotonic() + _SECONDS
        try:
            if self._it is None:
                self._it = iter(self._chain.start(epoch=epoch))
            while number not in self._kept:
                if time.monotonic() > until:
                    return False
                self._kept[self._next] = next(self._it)
                self._next += 1
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        except StopIteration:
            # The batches that are kept can still be seen.
            raise Missing(f"epoch {epoch} has {self._next:,} batches" if self._next else f"epoch {epoch} is empty") from None
        except (Exception, SystemExit) as error:
            self._it, self._epoch = None, None
            raise Missing(f"batch {self._next}: {type(error).__name__}: {error}") from error
        return True


def _leaves(element: Any, name: str = "") -> List[Tuple[str, Any]]:
    """The columns of an element, which may be nested."""
    if isinstance(element, dict):
        return [leaf for key, value in element.items() for leaf in _leaves(value, f"{name}/{key}" if name else str(key))]
    if isinstance(element, tuple):
        keys = getattr(element, "_fields", map(str, range(len(element))))
        return [leaf for key, value in zip(keys, element) for leaf in _leaves(value, f"{name}/{key}" if name else key)]
    return [(name, element)]


def _column(name: str, values: Any) -> Dict[str, Any]:
    if isinstance(values, Ragged):
        return {"name": name, "type": f"{getattr(values.values, 'dtype', 'bytes')}, ragged"}
    if isinstance(values, (np.ndarray, np.generic)):
        return {"name": name, "type": f"{values.dtype} {list(values.shape)}"}
    if isinstance(values, BytesArray):
        return {"name": name, "type": f"bytes [{len(values)}]"}
    return {"name": name, "type": type(values).__name__}


def _is_image(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim >= 2 and min(value.shape[:2]) > 1 and media.is_image(value)


def _text(shown: Dict[str, Any]) -> str:
    return str(shown.get("text") or shown.get("media") or shown.get("hex"))


def _shown(value: Any) -> Dict[str, Any]:
    """A value of one row: {"image": shape}, what `bytes_shown` tells, or {"text"}."""
    if isinstance(value, bytes):
        return bytes_shown(value)
    if isinstance(value, np.ndarray) and value.ndim:
        if _is_image(value):
            return {"image": list(value.shape), "text": f"{value.dtype} {list(value.shape)}"}
        values = [str(number_shown(one)) for one in itertools.islice(value.ravel().tolist(), _VALUES)]
        more = ", …" if value.size > len(values) else ""
        shape = "" if value.ndim == 1 and not more else f"{list(value.shape)}: "
        return {"text": shape + ", ".join(values) + more}
    if isinstance(value, BytesArray):
        texts = [_text(bytes_shown(value[i])) for i in range(min(len(value), _VALUES))]
        return {"text": ", ".join(texts) + (", …" if len(value) > len(texts) else "")}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.item()
    return {"text": str(number_shown(value)) if isinstance(value, (int, float)) else str(value)[:300]}
