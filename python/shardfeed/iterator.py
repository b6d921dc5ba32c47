"""Runs of a dataset."""

from __future__ import annotations

import atexit
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _core, metrics
from . import structure as structures
from .arguments import shown

# Threads of the library must not take the GIL once the interpreter ends.
atexit.register(_core.close_all)
os.register_at_fork(after_in_child=_core.after_fork)


class Epochs:
    """The number of the epoch of a dataset's next run."""

    def __init__(self, next_epoch: int = 0):
        self.next = next_epoch

    def take(self, epoch: Optional[int] = None) -> int:
        """Returns `epoch` or, if it is None, the next epoch, and advances to the one after."""
        if epoch is None:
            epoch = self.next
            self.next += 1
        return epoch


def checked_state(state: Any) -> str:
    """Returns the text in a result of state_dict(). ValueError: `state` is not such a result."""
    if not isinstance(state, dict) or not isinstance(state.get("state"), str):
        raise ValueError("expected a result of state_dict()")
    return str(state["state"])


def merge_states(states: Iterable[Dict[str, Any]]) -> Dict[str, Any]:
    """Merges the state_dict()s of all ranks of a run into one that serves any number of ranks.
    The records that no rank has delivered come next, each of them once.

    It is for chains whose ranks advance unevenly, because filter drops records or flat_map
    makes several of one: a rank's own state then serves only the same rank of the same number
    of ranks. In other chains the states of all ranks are equal, and so is this one. Ranks may
    have delivered different numbers of elements, but in the same epoch.

        states = [it.state_dict() for each rank]            # gathered, or saved to files
        it = ds.shard(new_rank, new_world).filter(f).batch(32).start()
        it.load_state_dict(sf.merge_states(states))         # the same on each new rank

    ValueError: these are not states. RuntimeError: they are not the states of all ranks of one
    run in one epoch; or a step, which is named, counts the rows of its rank or has several
    inputs, such as take, unique or mix."""
    if isinstance(states, dict):
        raise ValueError("merge_states: expected a list with the state of each rank, got one state")
    if not hasattr(type(states), "__iter__"):
        raise TypeError(f"merge_states: states must be a list with the state of each rank, not {shown(states)}")
    return {"state": _core.merge_states([checked_state(state) for state in states])}


# Iterator.padded and Iterator.damaged, as another process hands them over with an element.
Marks = Tuple[int, List[int]]
NO_MARKS: Marks = (0, [])


def marks_of(it: "Iterator") -> Marks:
    return it.padded, it.damaged


class Iterator(_core.Iterator):
    """One run of a dataset. Iterate over it, close it (or use it in a `with`), save and load
    its place. Dropping it closes it.

    `padded` is how many of the last element's rows exist only because `end="pad"` gives all
    ranks the same number: the last rows of a batch; for a row, 1 or 0. `damaged` has the rows of
    the last element that stand for damaged records (sf.read(skip_damaged=True)) and have no
    values; for a row, [0] or [].

    Several threads may use it, with one call at a time. It waits without the GIL and answers
    Ctrl-C. After a fork, a child creates its own iterator."""

    epochs: Optional[Epochs] = None  # the epochs of the dataset
    _told: Optional[Dict[str, Any]] = None  # stats() at the last call of scalars()

    def __enter__(self) -> "Iterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def state_dict(self) -> Dict[str, Any]:
        """Returns where the iterator is, in delivered elements: a few hundred bytes, to be
        saved with a checkpoint. RuntimeError: the run is not deterministic."""
        return {"state": self.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to a saved place. The dataset's next iterator takes the epoch after it.
        RuntimeError: the state belongs to another chain or other data, or to another rank
        and serves only that one."""
        self.load(checked_state(state))
        if self.epochs is not None:
            self.epochs.next = self.epoch() + 1

    def scalars(self) -> Dict[str, float]:
        """Returns numbers to be logged, of the time since the last call: "rows_per_second",
        "elements_per_second" and "wait", the share of the time that the consumer waited; for each
        stage "STAGE/busy", "STAGE/input_wait" and "STAGE/output_wait", shares of the time too, and
        "STAGE/ahead_bytes". "rows", "damaged" and "ignored" are those since the run began.

            for name, value in it.scalars().items():
                writer.add_scalar(f"data/{name}", value, step)"""
        stats = self.stats()
        before, self._told = self._told, stats
        return metrics.scalars(stats, before)

    def __repr__(self) -> str:
        if self.closed:
            return "<shardfeed.Iterator, closed>"
        stats = self.stats()
        return (f"<shardfeed.Iterator: {stats['elements']} elements in {stats['seconds']:.1f} s; "
                f"{stats['verdict']}>")


class ConvertedIterator(Iterator):
    """An iterator that passes each element through a function."""

    convert: Callable[[Any], Any]

    def __next__(self) -> Any:
        # One call does both: a signal between two calls would lose the element.
        return super().next_converted(self.convert)


def run_options(threads: int = 0, budget_bytes: int = 0, deterministic: bool = True,
                headspace: bool = False, trace: Optional[_core.Trace] = None,
                cpu_share: float = 1.0, autotune: bool = True,
                tuning: Sequence[Dict[str, Any]] = (), epoch: int = 0,
                flight_recorder: Union[str, "os.PathLike[str]"] = "",
                starved_seconds: Optional[float] = None) -> Dict[str, Any]:
    """Returns the options of Dataset.with_options as the extension takes them."""
    if starved_seconds is None:
        starved_seconds = 30.0
    elif not flight_recorder:
        raise ValueError("starved_seconds: it is an option of flight_recorder, which names no folder")
    return {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
            "headspace": headspace, "cpu_share": cpu_share, "autotune": autotune,
            "tuning": list(tuning), "epoch": epoch, "flight_recorder": os.fspath(flight_recorder),
            "starved_seconds": starved_seconds, **({} if trace is None else {"trace": trace})}


def start(core: Any, structure: Any, convert: Optional[Callable[[Any], Any]], writable: bool,
          blocks: bool = False, **options: Any) -> Iterator:
    bare = isinstance(structure, str)
    convert_all = convert
    if structure is not None and not bare:
        def convert_all(columns: Any) -> Any:
            element = structures.build(structure, columns)
            return element if convert is None else convert(element)
    address = options.pop("metrics", None)
    arguments: Dict[str, Any] = dict(dataset=core, run=run_options(**options), bare=bare,
                                     writable=writable, blocks=blocks)
    if convert_all is None:
        made = Iterator(**arguments)
    else:
        made = ConvertedIterator(**arguments)
        made.convert = convert_all
    if address is not None:
        from .metrics_server import serve  # imports modules that few programs need
        serve(made, address)
    return made
