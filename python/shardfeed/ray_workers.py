"""Chains that run on actors of Ray."""

from __future__ import annotations

import collections
import json
import warnings
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

import ray
from ray.exceptions import ObjectLostError, RayActorError

from . import iterator, step_arguments
from . import structure as structures
from .arguments import Count, Size, checked, checked_methods
from .channel import as_one_piece
from .dataset import Dataset
from .processes import RemoteTraceback, as_sent
from .sharing_recipe import with_rank
from .views import RunElsewhere

# How often in a row actors may die before the next batch has been delivered.
_MOST_DEATHS = 3
# After this many wrong guesses in a row, places are not guessed any more.
_MOST_WRONG = 2


@checked
def workers(ds: Dataset, n: Size, *, cpus: Size = 1, stretch: Size = 8, ahead: Size = 2) -> "RemoteDataset":
    """Returns the same batches as `ds`, made by `n` actors of Ray and handed over through its object
    store: arrays are read-only views of the store, without a copy where it is on this machine.

        for batch in sf.ray.workers(ds, 16):        # 16 processors of the cluster decode
            step(batch)

    Actors make stretches of the order in turn. Order, states and errors are those of the chain on
    one machine, so a run can be resumed with another number of workers or without any. An actor
    that dies is replaced, and the new one continues where it was.

    All machines must reach the shards by the same path. `shard()` takes the rank of this process.

    - `cpus`: the number of processors, and of the chain's threads, of each actor.
    - `stretch`: how many batches an actor makes before another one takes over.
    - `ahead`: how many stretches each actor begins before their batches are asked for.

    Chains whose places can be calculated run on all actors: those whose ranks advance equally (see
    the documentation of states). Others, such as chains with filters after the shards, run on one
    actor at a time, with a warning.

    ValueError: the elements are not batches, or the chain is not deterministic."""
    if not ds.batched:
        raise ValueError("workers: expected batches, but the elements here are rows: batch first")
    if not ds._options.get("deterministic", True):
        raise ValueError("workers: a chain that is not deterministic has no places to hand out")
    if "trace" in ds._options:
        raise ValueError("workers: a trace records threads of this process; trace the chain itself")
    return RemoteDataset(ds, n, cpus, stretch, ahead)


@checked_methods
class RemoteDataset(RunElsewhere):
    """The result of sf.ray.workers, which is iterated like the chain itself."""

    def __init__(self, dataset: Dataset, n: int, cpus: int, stretch: int, ahead: int):
        super().__init__(dataset)
        self._n = n
        self._cpus = cpus
        self._stretch = stretch
        self._ahead = ahead

    def __repr__(self) -> str:
        return f"sf.ray.workers({self.dataset!r}, {self._n})"

    def _start(self, convert: Optional[Callable[[Any], Any]] = None, blocks: bool = False,
               epoch: Optional[int] = None, **options: Any) -> "RemoteIterator":
        return RemoteIterator(self, convert, self.dataset._epochs.take(epoch), options)

    def __iter__(self) -> "RemoteIterator":
        return self._start()

    def start(self, *, epoch: Optional[Count] = None, budget_bytes: Optional[Count] = None,
              autotune: Optional[bool] = None,
              tuning: Optional[Sequence[Mapping[str, Any]]] = None) -> "RemoteIterator":
        """Starts a run and returns its iterator: see Dataset.start. The budget is that of each actor."""
        given = {"budget_bytes": budget_bytes, "autotune": autotune, "tuning": tuning}
        return self._start(epoch=epoch, **step_arguments.given(given))


class _Actor:
    """Makes stretches of a chain's order."""

    def __init__(self, chain: Any, options: Dict[str, Any]):
        self._chain = chain
        self._options = options
        self._it: Any = None
        self._at: Optional[str] = None

    def make(self, begin: str, count: int) -> Any:
        """Yields up to `count` batches from the place `begin` on: (kind, state after it, padding,
        columns)."""
        try:
            if self._it is None:
                self._it = iterator.start(self._chain._core, None, None, False, **self._options)
            there, self._at = self._at == begin, None
            if not there:
                self._it.load(begin)
            for _ in range(count):
                columns = next(self._it)
                state = self._it.state()
                yield "batch", state, iterator.marks_of(self._it), {name: as_one_piece(c) for name, c in columns.items()}
            self._at = state
        except StopIteration:
            yield "end", self._it.state(), iterator.NO_MARKS, None
        except Exception as error:
            # The place may have been a wrong guess, and a run stays with its first error.
            if self._it is not None:
                self._it.close()
            self._it = None
            yield "failed", None, iterator.NO_MARKS, as_sent(error)


class _Stretch:
    """Batches that an actor makes."""

    def __init__(self, begin: str, count: int, worker: int):
        self.begin = begin
        self.count = count
        self.worker = worker
        self.batches: Any = None


class RemoteIterator:
    """One run of a chain on actors. It is used like an sf.Iterator, and its states are the same.
    Not for several threads."""

    padded, damaged = iterator.NO_MARKS

    def __init__(self, remote: RemoteDataset, convert: Optional[Callable[[Any], Any]], epoch: int,
                 options: Dict[str, Any]):
        ds = remote.dataset
        options = {**ds._options, **options, "epoch": epoch}
        self._remote = remote
        self._structure = ds._structure
        self._convert = convert
        self._epochs = ds._epochs
        # Nothing is read here: this iterator checks states, and says which one is the first.
        self._local = iterator.start(ds._core, None, None, False, **options)
        self._state = self._local.state()
        self._chain = ray.put(with_rank(ds))
        self._options = {**options, "threads": remote._cpus}
        self._actors: List[Any] = [None] * remote._n
        self._stretches: Deque[_Stretch] = collections.deque()
        self._next_worker = 0
        self._step: Optional[Tuple[str, str, int]] = None  # two places, and the batches between them
        self._held: Any = None  # what has been received and not delivered
        self._wrong = 0
        self._deaths = 0
        self._end: Any = None
        self.closed = False

    # ---- Actors

    def _begin(self, stretch: _Stretch) -> None:
        actor = self._actors[stretch.worker]
        if actor is None:
            actor = ray.remote(_Actor).options(num_cpus=self._remote._cpus).remote(
                self._chain, self._options)
            self._actors[stretch.worker] = actor
        stretch.batches = actor.make.options(num_returns="streaming").remote(stretch.begin, stretch.count)

    def _replace(self, worker: int) -> None:
        """Continues the stretches of a dead actor with another one."""
        actor, self._actors[worker] = self._actors[worker], None
        if actor is not None:
            ray.kill(actor)
        for stretch in self._stretches:
            if stretch.worker == worker:
                self._begin(stretch)

    def _plan(self) -> None:
        """Begins stretches as far ahead as places are known or can be calculated."""
        most = self._remote._n * self._remote._ahead
        if self._wrong >= _MOST_WRONG:
            most = 1
        while len(self._stretches) < most:
            count = self._remote._stretch
            if not self._stretches:
                begin: Optional[str] = self._state
                if self._step is None:
                    count = 1  # its end tells how places advance
            else:
                last = self._stretches[-1]
                begin = _advanced(last.begin, last.count, self._step)
            if begin is None:
                return
            stretch = _Stretch(begin, count, self._next_worker)
            # Actors that continue where they are need not seek.
            if most > 1:
                self._next_worker = (self._next_worker + 1) % self._remote._n
            self._stretches.append(stretch)
            self._begin(stretch)

    # ---- Elements

    def __iter__(self) -> "RemoteIterator":
        return self

    def __next__(self) -> Any:
        self._check()
        if self._end is not None:
            raise self._end
        kind, state, marks, value = self._received()
        if kind == "end":
            self._state = state
            self._end = StopIteration()
            raise self._end
        if kind == "failed":
            self._end = value[0]
            raise value[0] from RemoteTraceback(value[1])
        element = structures.build(self._structure, value)
        if self._convert is not None:
            element = self._convert(element)
        self._advance(state)
        self.padded, self.damaged = marks
        return element

    def _received(self) -> Any:
        """Returns what comes next. It is asked for again until _advance is called."""
        while True:
            self._plan()
            stretch = self._stretches[0]
            try:
                if self._held is None:
                    self._held = ray.get(next(stretch.batches))
                return self._held
            except (RayActorError, ObjectLostError, StopIteration) as error:
                self._deaths += 1
                if self._deaths == _MOST_DEATHS:
                    raise RuntimeError(
                        f"workers: an actor has died {_MOST_DEATHS} times before it delivered the next "
                        "batch; it may have run out of memory, or a function of the chain crashes"
                    ) from error
                self._replace(stretch.worker)

    def _advance(self, state: str) -> None:
        self._held = None
        if self._step is None:
            self._step = (self._state, state, 1)
        self._state = state
        self._deaths = 0
        stretch = self._stretches[0]
        # If its actor dies, another one makes the rest of the stretch.
        stretch.begin = state
        stretch.count -= 1
        if stretch.count > 0:
            return
        self._stretches.popleft()
        if not self._stretches:
            return
        if self._stretches[0].begin == state:
            self._wrong = 0
            return
        # The guess was wrong: what has been made from there on is dropped.
        self._forget()
        self._wrong += 1
        if self._wrong == _MOST_WRONG:
            warnings.warn(f"workers: places of {self._remote.dataset!r} cannot be calculated in advance, "
                          "because steps drop or hold back rows, so one actor at a time makes batches",
                          stacklevel=4)

    def _forget(self) -> None:
        self._held = None
        self._stretches.clear()
        self._step = None

    # ---- Places

    def state(self) -> str:
        self._check()
        return self._state

    def state_dict(self) -> Dict[str, Any]:
        """Returns where the iterator is: see Iterator.state_dict."""
        return {"state": self.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to a saved place: see Iterator.load_state_dict."""
        self._check()
        self._local.load(iterator.checked_state(state))
        self._state = self._local.state()
        self._forget()
        self._end = None
        self.padded, self.damaged = iterator.NO_MARKS
        self._epochs.next = self.epoch() + 1

    def epoch(self) -> int:
        """Returns the epoch of the iterator, or that of the state that has been loaded."""
        self._check()
        return self._local.epoch()

    # ---- Ends

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the iterator was closed")

    def close(self) -> None:
        """Ends the run and its actors. Delivered arrays stay valid."""
        if self.closed:
            return
        self.closed = True
        self._forget()
        self._local.close()
        for actor in self._actors:
            if actor is not None and ray.is_initialized():
                ray.kill(actor)

    def __enter__(self) -> "RemoteIterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if "closed" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        return f"<shardfeed.RemoteIterator{', closed' if self.closed else ''}>"


def _advanced(state: str, count: int, step: Optional[Tuple[str, str, int]]) -> Optional[str]:
    """Returns the state `count` batches after `state`, if batches advance it as those of `step`, or
    None. It may be wrong, and is used only if it turns out to be right."""
    if step is None:
        return None
    first, second, between = json.loads(step[0]), json.loads(step[1]), step[2]
    place = json.loads(state)
    for key in ("place", "delivered"):
        if key in first:
            if not len(first[key]) == len(second.get(key, ())) == len(place.get(key, ())):
                return None
            place[key] = [p + (b - a) * count // between
                          for p, a, b in zip(place[key], first[key], second[key])]
    return json.dumps(place, separators=(",", ":"))
