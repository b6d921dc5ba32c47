"""Runs of a dataset."""

from __future__ import annotations

import atexit
import os
from typing import Any, Callable, Dict, Optional, Sequence

from . import _core
from . import structure as structures

# Threads of the library must not ask for the interpreter once it ends.
atexit.register(_core.close_all)
os.register_at_fork(after_in_child=_core.after_fork)


class Epochs:
    """Which epoch the next run of a dataset is."""

    def __init__(self, next_epoch: int = 0):
        self.next = next_epoch

    def take(self, epoch: Optional[int] = None) -> int:
        """`epoch` or, without it, the next one, which is taken then."""
        if epoch is None:
            epoch = self.next
            self.next += 1
        return epoch


class Iterator(_core.Iterator):
    """One run of a dataset: iterate over it, close it (or use it in a `with`), save and load where
    it stands. Dropping it closes it.

    `padded` is how many of the last element's rows are there only because `end="pad"` gives all
    ranks as many: the last rows of a batch; 1 or 0 of a row.

    It may be used from several threads, one call at a time. While it waits the GIL is free, and
    Ctrl-C is seen. A child after fork makes its own.
    """

    epochs: Optional[Epochs] = None  # of the dataset

    def __enter__(self) -> "Iterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def state_dict(self) -> Dict[str, Any]:
        """Where the iterator stands, in elements delivered: some hundred bytes, to be saved with a
        checkpoint. RuntimeError: the run is not deterministic."""
        return {"state": self.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to a saved place; the dataset's next iterator takes the epoch behind it. RuntimeError:
        the state is of another chain or other data, or of another rank whose place is its own."""
        if not isinstance(state, dict) or not isinstance(state.get("state"), str):
            raise ValueError("not what state_dict() gave")
        self.load(state["state"])
        if self.epochs is not None:
            self.epochs.next = self.epoch() + 1

    def __repr__(self) -> str:
        if self.closed:
            return "<shardfeed.Iterator, closed>"
        stats = self.stats()
        return (f"<shardfeed.Iterator: {stats['elements']} elements in {stats['seconds']:.1f} s; "
                f"{stats['verdict']}>")


class ConvertedIterator(Iterator):
    """Elements go through a function on their way."""

    convert: Callable[[Any], Any]

    def __next__(self) -> Any:
        # In one call: a signal between the two would lose the element.
        return super().next_converted(self.convert)


def run_options(threads: int = 0, budget_bytes: int = 0, deterministic: bool = True,
                headspace: bool = False, trace: Optional[_core.Trace] = None,
                cpu_share: float = 1.0, autotune: bool = True,
                tuning: Sequence[Dict[str, Any]] = (), epoch: int = 0) -> Dict[str, Any]:
    """What Dataset.with_options takes, as the extension does."""
    return {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
            "headspace": headspace, "cpu_share": cpu_share, "autotune": autotune,
            "tuning": list(tuning), "epoch": epoch, **({} if trace is None else {"trace": trace})}


def start(core: Any, structure: Any, convert: Optional[Callable[[Any], Any]], writable: bool,
          blocks: bool = False, **options: Any) -> Iterator:
    bare = isinstance(structure, str)
    convert_all = convert
    if structure is not None and not bare:
        def convert_all(columns: Any) -> Any:
            element = structures.build(structure, columns)
            return element if convert is None else convert(element)
    arguments: Dict[str, Any] = dict(dataset=core, run=run_options(**options), bare=bare,
                                     writable=writable, blocks=blocks)
    if convert_all is None:
        return Iterator(**arguments)
    iterator = ConvertedIterator(**arguments)
    iterator.convert = convert_all
    return iterator
