"""One reader for all ranks of a machine. sharing_server.py is its process."""

from __future__ import annotations

import contextlib
import copy
import os
import select
import socket
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _core, iterator, metrics, step_arguments
from . import structure as structures
from ._core import Trace
from .arguments import Count, Size, Threads, checked, checked_methods
from .channel import Channel, ClosedOnce
from .dataset import Dataset
from .processes import RemoteTraceback
from .ragged import Ragged
from .ranks import grouped, rank_and_world
from .sharing_link import MOST_DEATHS, Gone, Link
from .sharing_recipe import MAIN, Code, in_working_folder, pickled, with_rank
from .views import RunElsewhere

# Variables by which the processes of one machine know that they belong together, and how many there are.
_RUNS = (
    ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),   # torchrun
    ("MASTER_ADDR", "MASTER_PORT"),                          # Lightning, Accelerate, DeepSpeed
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),                                     # Open MPI 5
    ("OMPI_MCA_ess_base_jobid",),
)
_LOCAL_RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                "MV2_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")

serving = False  # whether this process is a server


@checked
def share(dataset: Dataset, *, name: Optional[str] = None, ranks: Optional[Size] = None,
          ahead: Size = 2, within: Optional[Size] = None) -> "SharedDataset":
    """Returns the same batches as `dataset`, made by one process for all ranks of this machine.

        ds = sf.read("out/train@64").shuffle(seed=1).shard().parse(...).batch(256)
        for batch in sf.share(ds):              # on each rank
            step(batch)

    All processes of the machine make this call with the same chain, and each takes the part of its
    own rank. The first one starts a process that reads; it has one budget and one set of threads,
    reads what ranks have in common once, and hands the batches over in shared memory, without a
    copy on the receiving side. Ranks that take the same part (`shard(rank // peers, world //
    peers)`) get the same batches, which are made once. The order, the states and errors are those
    that the chain has alone, so a run can be resumed with or without `share`.

    If a rank dies, the others continue. If the reading process dies, the ranks start another one,
    which continues where each of them is. It ends with the last rank, and leaves nothing behind.

    - `name`: what the processes that share have in common, and others on the machine do not. By
      default the run of torchrun, Slurm or Open MPI.
    - `ranks`: how many processes of this machine share. By default the number that the launcher says.
    - `ahead`: how many batches are ready for each rank beyond the one that it has.
    - `within`: a rank waits for a batch that is this many or more batches ahead of the slowest
      rank; 1 keeps the ranks in step. By default no rank waits for another: ranks that are further
      apart than the budget allows read separately.

    The options `threads` and `budget_bytes` of the chain are those of all ranks together.
    Functions of the chain run in the reading process, so they must be importable (not lambdas).

    ValueError: the elements are not batches; or no launcher says `name` or `ranks`. TypeError:
    the chain cannot be sent."""
    if not dataset.batched:
        raise ValueError("share: expected batches, but the elements here are rows: batch first")
    _check_trace("trace" in dataset._options)
    if name == "":
        raise ValueError("share: name must not be empty")
    return SharedDataset(dataset, _run_of(name), _ranks_of(ranks), ahead, within)


def _check_trace(given: bool) -> None:
    if given:
        raise ValueError("share: a trace records threads of this process, but the chain runs in "
                         "another one; trace the chain without share")


def _run_of(name: Optional[str]) -> str:
    if name is not None:
        return "name " + name
    for variables in _RUNS:
        if all(os.environ.get(variable) for variable in variables):
            return " ".join(f"{variable}={os.environ[variable]}" for variable in variables)
    raise ValueError("share: no launcher says which processes belong together; pass name=, the same "
                     "one in all of them")


def _ranks_of(ranks: Optional[int]) -> int:
    if ranks is not None:
        return ranks
    for variable in _LOCAL_RANKS:
        if variable in os.environ:
            text = os.environ[variable]
            if not text.isdecimal() or int(text) < 1:
                raise ValueError(f"share: {variable}={text} is not a number of processes; pass ranks=")
            return int(text)
    raise ValueError("share: no launcher says how many processes of this machine share; pass ranks=")


@checked_methods
class SharedDataset(RunElsewhere):
    """The result of sf.share, which is iterated like the chain itself."""

    def __init__(self, dataset: Dataset, run: str, ranks: int, ahead: int, within: Optional[int]):
        super().__init__(dataset)
        self._run = run
        self._ranks = ranks
        self._ahead = ahead
        self._within = within
        self._prepare()
        self._recipe()  # report now what cannot be sent

    def _prepare(self) -> None:
        self._link = Link(self._run)
        self._chain = in_working_folder(self.dataset)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_link": None, "_chain": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return f"sf.share({self.dataset!r})"

    def _recipe(self) -> Tuple[bytes, Dict[str, Code]]:
        try:
            return pickled(with_rank(self._chain))
        except Exception as error:
            raise TypeError(f"share: {self.dataset!r} cannot be sent to the process that reads ({error}); "
                            "use functions that a module defines, not lambdas") from error

    def _start(self, convert: Optional[Callable[[Any], Any]] = None, blocks: bool = False,
               epoch: Optional[int] = None, **options: Any) -> "SharedIterator":
        if serving:
            raise RuntimeError("share: this process reads for others; the main part of a script must "
                               "be under if __name__ == \"__main__\"")
        world = rank_and_world()[1]
        parts = _num_parts(self.dataset)
        chain, code = self._recipe()
        options = {**self.dataset._options, **options}
        if options.get("flight_recorder"):
            options["flight_recorder"] = os.path.abspath(options["flight_recorder"])
        order = {
            "chain": chain,
            "code": code,
            "data": None,   # the fingerprint of the chain in this process
            "options": options,
            "epoch": self.dataset._epochs.take(epoch),
            "begin": None,  # the state that has been loaded
            "ranks": self._ranks,
            "peers": max(1, max(world, self._ranks) // parts),
            "ahead": self._ahead,
            "within": self._within,
            "path": list(map(os.path.abspath, sys.path)),
            "main": getattr(sys.modules[MAIN], "__file__", None),
            "max_record_bytes": _core.max_record_bytes(),
        }
        it = SharedIterator(self._link, order, self.dataset._core, self.dataset._structure, convert)
        it.epochs = self.dataset._epochs
        return it

    def __iter__(self) -> "SharedIterator":
        return self._start()

    def start(self, *, epoch: Optional[Count] = None, threads: Optional[Threads] = None,
              budget_bytes: Optional[Count] = None, deterministic: Optional[bool] = None,
              headspace: Optional[bool] = None, trace: Optional[Trace] = None,
              cpu_share: Optional[float] = None, autotune: Optional[bool] = None,
              tuning: Optional[Sequence[Mapping[str, Any]]] = None,
              metrics: Optional[str] = None,
              flight_recorder: Union[str, os.PathLike, None] = None,
              starved_seconds: Optional[float] = None) -> "SharedIterator":
        """Starts a run and returns its iterator: see Dataset.start. The process that reads serves the
        `metrics` and writes the files of the `flight_recorder`."""
        _check_trace(trace is not None)
        given = {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
                 "headspace": headspace, "cpu_share": cpu_share, "autotune": autotune, "tuning": tuning,
                 "metrics": metrics, "flight_recorder": flight_recorder, "starved_seconds": starved_seconds}
        return self._start(epoch=epoch, **step_arguments.given(given))


def _num_parts(chain: Any) -> int:
    """Returns the number of parts of which the chain takes one."""
    if chain._method in ("shard", "shard_sources", "slices"):
        return int(grouped(*rank_and_world(), chain._group)[1] if chain._waits_for_rank() else chain._arguments[-1])
    return max((_num_parts(ds) for ds in chain._inputs), default=1)


# ---- Iterators


class SharedIterator:
    """One run of a chain that another process makes. It is used like an sf.Iterator, and its states
    are the same."""

    epochs: Optional[iterator.Epochs] = None
    padded, damaged = iterator.NO_MARKS
    _told: Optional[Dict[str, Any]] = None  # stats() at the last call of scalars()

    def __init__(self, link: Link, order: Dict[str, Any], core: Any, structure: Any,
                 convert: Optional[Callable[[Any], Any]]):
        self._link = link
        self._order = order
        self._core = core                # the chain as it is in this process
        self._structure = structure
        self._convert = convert
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._channel: Any = None
        self._ready: List[Any] = []      # messages received before the one that was waited for
        self._delivered = 0
        self._place: Any = None          # (state, epoch) after what was delivered
        self._taken = False              # whether the server has yet to be told of the last element
        self._deaths = 0
        self._end: Any = None            # the message that ended the run
        self.closed = False
        self._with_server(lambda: None)  # errors of the start are raised here

    # ---- The server, whichever it is

    def _with_server(self, call: Callable[[], Any]) -> Any:
        """Returns call(), which is repeated with another server if one dies."""
        while True:
            try:
                self._check()
                if self._channel is None:
                    self._connect()
                    continue  # another thread may have called close() meanwhile
                return call()
            except Gone:
                self._disconnect()
                if self.closed:
                    continue
                self._deaths += 1
                if self._deaths == MOST_DEATHS:
                    raise RuntimeError(
                        f"share: the process that reads has died {MOST_DEATHS} times before it "
                        "delivered the next batch; it may have run out of memory, or a function of "
                        "the chain crashes") from None
            except BaseException:
                # Part of a message may have been received; a new connection starts over.
                if self._channel is not None and (self._channel.broken or self.closed):
                    self._disconnect()
                raise

    def _connect(self) -> None:
        place = self._place
        if place is not None and place[0] is None:
            if self._delivered > 0 or self._order["begin"] is not None:
                raise RuntimeError("share: the process that reads has died, and a run that is not "
                                   "deterministic has no place to resume from")
            place = None
        self._channel = _Receiver(self._link.connect())
        order = {**self._order, "place": place, "delivered": self._delivered}
        try:
            self._place, data = self._request(("start", order), "started")
            if self._order["data"] is None:
                # Not earlier: if indexes are missing, the process that reads has built them once for all ranks now.
                self._order["data"] = self._core.fingerprint()
                if data != self._order["data"]:
                    self._place, _ = self._request(("start", {**order, "data": self._order["data"]}), "started")
                    self._ready = []
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None
        self._ready = []
        self._taken = False

    def _request(self, message: Any, kind: str) -> Any:
        """Returns the answer to a request; batches that precede it are kept."""
        channel = self._connected()
        # An answer that is not waited for any more must not be taken for something else.
        channel.broken = True
        channel.send(message)
        while True:
            channel.receive(self._ready)
            if self._ready[-1][0] == kind:
                break
        _, error, answer = self._ready.pop()
        channel.broken = False
        if error is not None:
            raise copy.copy(error) from RemoteTraceback(answer)
        return answer

    def _connected(self) -> "_Receiver":
        if self._channel is None:
            raise Gone()  # a signal's handler has called close()
        return self._channel

    def _check(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError("this iterator was made before a fork, and its connection does not exist "
                               "in this process; make one here: iter(dataset)")
        if self.closed:
            raise ValueError("the iterator was closed")

    # ---- Elements

    def __iter__(self) -> "SharedIterator":
        return self

    def __next__(self) -> Any:
        with self._lock:
            self._check()
            message = self._end or self._with_server(self._peek)
            kind, place, marks, writable, value = message
            if kind != "batch":
                self._end = message
                if kind == "end":
                    self._place = place
                    raise StopIteration
                # A copy, since the traceback of an error that is kept would keep this iterator.
                raise copy.copy(value[0]) from RemoteTraceback(value[1])
            columns = {name: _delivered(column, writable) for name, column in value.items()}
            element = structures.build(self._structure, columns)
            if self._convert is not None:
                element = self._convert(element)
            # From here on the element counts as delivered. What may be interrupted precedes it.
            self._ready.pop(0)
            self._place = place
            self.padded, self.damaged = marks
            self._delivered += 1
            self._taken = True
            self._deaths = 0
            return element

    def _peek(self) -> Any:
        channel = self._connected()
        if self._taken:
            channel.send(("next",))
            self._taken = False
        if not self._ready:
            channel.receive(self._ready)
        return self._ready[0]

    # ---- Places

    def state(self) -> str:
        with self._lock:
            self._check()
            state, error = self._place[0], self._place[2]
            if error is not None:
                raise copy.copy(error)
            return state

    def state_dict(self) -> Dict[str, Any]:
        """Returns where the iterator is: see Iterator.state_dict."""
        return {"state": self.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to a saved place: see Iterator.load_state_dict."""
        with self._lock:
            self._check()
            text = iterator.checked_state(state)
            self._place = self._with_server(lambda: self._request(("load", text), "loaded"))
            self._ready = []
            self._taken = False
            self._end = None
            self.padded, self.damaged = iterator.NO_MARKS
            self._delivered = 0
            self._order = {**self._order, "begin": text}
            if self.epochs is not None:
                self.epochs.next = self.epoch() + 1

    def epoch(self) -> int:
        """Returns the epoch of the last element."""
        with self._lock:
            self._check()
            return self._place[1]

    def stats(self) -> Dict[str, Any]:
        """Returns what the chain's stages did for this rank: see Iterator.stats. Also "shared": the
        process that reads, and the number of iterators that it reads for."""
        with self._lock:
            self._check()
            return self._with_server(lambda: self._request(("stats",), "stats"))

    def scalars(self) -> Dict[str, float]:
        """Returns numbers to be logged: see Iterator.scalars. They are those of the process that reads."""
        stats = self.stats()
        before, self._told = self._told, stats
        return metrics.scalars(stats, before)

    # ---- Ends

    def close(self) -> None:
        """Ends the run, also while another thread waits for its next element. Delivered arrays stay valid."""
        if self._process == os.getpid():
            self.closed = True
            channel = self._channel
            if channel is not None:
                channel.shut_down()
            # Otherwise the thread that is in a call does it.
            if self._lock.acquire(blocking=False):
                try:
                    self._channel = None
                    if channel is not None:
                        channel.close()
                finally:
                    self._lock.release()

    def __enter__(self) -> "SharedIterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if "_channel" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<shardfeed.SharedIterator, closed>"
        return f"<shardfeed.SharedIterator: {self._delivered} elements>"


def _delivered(column: Any, writable: bool) -> Any:
    if isinstance(column, Ragged):
        return Ragged(_delivered(column.values, writable), _delivered(column.row_splits, writable))
    if isinstance(column, np.ndarray) and not writable:
        column.flags.writeable = False
    return column


class _Receiver:
    """A channel to the server. Gone: the server died."""

    def __init__(self, connection: ClosedOnce):
        self._connection = connection
        self._channel = Channel(connection)
        self._closing = threading.RLock()
        self.broken = False  # whether an exception has interrupted an exchange of messages

    def close(self) -> None:
        with self._closing:
            self._channel.close()

    def shut_down(self) -> None:
        """Ends the connection for a thread that waits for it, which closing the descriptor would not."""
        with self._closing:
            if not self._connection.closed:
                with socket.fromfd(self._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as one:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def send(self, message: Any) -> None:
        with self._exchange():
            self._channel.send(message)

    def receive(self, into: List[Any]) -> None:
        # A signal's handler may raise while this waits.
        poll = select.poll()
        try:
            poll.register(self._connection.fileno(), select.POLLIN)
        except OSError as error:
            raise Gone() from error
        poll.poll()
        with self._exchange():
            into.append(self._channel.receive())

    @contextlib.contextmanager
    def _exchange(self) -> Any:
        before, self.broken = self.broken, True
        try:
            yield
        except (EOFError, OSError) as error:
            raise Gone() from error
        self.broken = before
