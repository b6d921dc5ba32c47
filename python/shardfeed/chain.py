"""Chains of steps and how they run; dataset.py has the steps."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import iterator, ranks, step_arguments
from ._core import Dataset as CoreDataset
from ._core import Trace
from .arguments import TO_END, Count, Device, Size, Threads, checked_methods
from .device import DeviceView
from .views import Drawing, View, Viewable


def _core_of(method: str, cores: List[Any], arguments: Tuple[Any, ...]) -> Any:
    if method == "records":
        return arguments[0].rows(arguments[1])
    if method == "rows":
        return CoreDataset.rows(*arguments[:2])
    if method in ("shards", "mixture", "range", "from_generator", "slices"):
        return getattr(CoreDataset, method)(*arguments)
    if method == "choose":
        return CoreDataset.choose(cores[:-1], cores[-1], *arguments)
    if method in ("concatenate", "zip", "interleave", "mix"):
        return getattr(CoreDataset, method)(cores, *arguments)
    return getattr(cores[0], method)(*(arguments[:2] if method == "parse" else arguments))


@checked_methods
class Chain(Viewable):
    """A step and the chains that are its inputs. Immutable except for the number of its next epoch.

    The extension's dataset is made on first use, separately in each process.
    """

    def __init__(self, method: str, arguments: Tuple[Any, ...], inputs: Sequence["Chain"],
                 text: str, structure: Any = None, options: Optional[Dict[str, Any]] = None):
        self._method = method
        self._arguments = arguments
        self._inputs = tuple(inputs)
        self._text = text
        self._structure = structure
        self._options: Dict[str, Any] = dict(options if options is not None else
                                             inputs[0]._options if inputs else {})
        # Ragged columns that become Sparse in batches.
        self._sparse: Tuple[str, ...] = tuple(name for ds in self._inputs for name in ds._sparse)
        if method == "parse":
            self._sparse += arguments[2]
        self._group = 1  # number of ranks that share the part which the step takes
        # Whether the rank is found when the chain runs.
        self._finds_rank: bool = self._waits_for_rank() or any(ds._finds_rank for ds in self._inputs)
        self._epochs = iterator.Epochs()
        self._made: Any = None
        self._made_for: Any = None  # (process, rank and world)
        self._records_made: Any = None
        self._plan  # noqa: B018  report errors now

    def _waits_for_rank(self) -> bool:
        """Whether the step takes a rank's part, and its last two arguments are to be the rank and the world."""
        return self._method in ("shard", "slices") and self._arguments[-2:] == (None, None)

    @property
    def _core(self) -> Any:
        """ValueError: the chain finds its rank, and a launcher's variables are wrong."""
        return self._core_as(ranks.rank_and_world() if self._finds_rank else None)

    @property
    def _plan(self) -> Any:
        """The same, to look at while a chain is built: wrong variables are an error only when it runs. Until then the
        rank is the only one."""
        try:
            return self._core_as(ranks.rank_and_world() if self._finds_rank else None)
        except ranks.WrongVariables:
            return self._core_as((0, 1))

    def _core_as(self, rank_and_world: Optional[Tuple[int, int]]) -> Any:
        # A child after fork needs its own dataset: a lock of the parent may be held forever there.
        wanted = (os.getpid(), rank_and_world if self._finds_rank else None)
        if self._made is None or self._made_for != wanted:
            arguments = self._arguments
            if wanted[1] is not None and self._waits_for_rank():
                arguments = (*arguments[:-2], *ranks.grouped(*wanted[1], self._group))
            cores = [ds._core_as(wanted[1]) for ds in self._inputs]
            self._made = _core_of(self._method, cores, arguments)
            self._records_made = None
            self._made_for = wanted
        return self._made

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_made": None, "_records_made": None, "_made_for": None}

    def __repr__(self) -> str:
        if not self._inputs:
            return self._text
        if len(self._inputs) == 1:
            return f"{self._inputs[0]!r}.{self._text}"
        name, rest = self._text.split("(", 1)
        joined = ", ".join(map(repr, self._inputs))
        return f"{name}([{joined}]{', ' if rest != ')' else ''}{rest}"

    # ---- Running

    def _shared(self) -> bool:
        """Whether elements are in memory that is delivered again."""
        return self._method in ("cache", "cache_on_disk", "snapshot", "rows") or any(ds._shared() for ds in self._inputs)

    def _start(self, convert: Optional[Callable[[Any], Any]] = None, blocks: bool = False,
               epoch: Optional[int] = None, **options: Any) -> iterator.Iterator:
        it = iterator.start(self._core, self._structure, convert, not self._shared(), blocks,
                            **{**self._options, **options, "epoch": self._epochs.take(epoch)})
        it.epochs = self._epochs
        return it

    def __iter__(self) -> iterator.Iterator:
        return self._start()

    def start(self, *, epoch: Optional[Count] = None, threads: Optional[Threads] = None,
              budget_bytes: Optional[Count] = None, deterministic: Optional[bool] = None,
              headspace: Optional[bool] = None, trace: Optional[Trace] = None,
              cpu_share: Optional[float] = None, autotune: Optional[bool] = None,
              tuning: Optional[Sequence[Mapping[str, Any]]] = None,
              metrics: Optional[str] = None,
              flight_recorder: Union[str, os.PathLike, None] = None,
              starved_seconds: Optional[float] = None) -> iterator.Iterator:
        """Starts a run and returns its iterator. The options are those of with_options.

        `epoch`: which epoch it is, for orders and random numbers. By default it is the one
        after that of the dataset's last iterator, starting with 0. A chain that repeats its
        source E times has the epochs from E * epoch on."""
        given = {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
                 "headspace": headspace, "trace": trace, "cpu_share": cpu_share,
                 "autotune": autotune, "tuning": tuning, "metrics": metrics,
                 "flight_recorder": flight_recorder, "starved_seconds": starved_seconds}
        return self._start(epoch=epoch, **step_arguments.given(given))

    def set_epoch(self, epoch: Count) -> None:
        """Sets the epoch of the dataset's next iterator."""
        self._epochs.next = epoch

    def blocks(self) -> View:
        """Returns an iterable of rows in the pieces in which they are read, of any size:
        records as BytesArrays, parsed rows as dicts of arrays. It is the fastest way to all
        rows."""
        if self._plan.batched():
            raise ValueError("blocks: the elements here are batches")
        return View(self, None, blocks=True)

    def cuda(self, device: Device = 0, *, normalize: Optional[Mapping[str, Any]] = None,
             depth: Size = 2, pinned_bytes: Count = 0, stream: Any = None) -> DeviceView:
        """Returns an iterable of batches on a GPU, copied there while earlier ones are in use:
        dicts of DeviceArrays (__dlpack__, __cuda_array_interface__) and Raggeds of them.
        Columns of bytes are BytesArrays, which stay on the host. The `.torch()` of the result
        yields torch.Tensors and its `.jax()` yields jax.Arrays, in the memory of these
        frameworks.

        - `device`: the number of the device, as the driver counts. CUDA_VISIBLE_DEVICES and MIG
          are respected.
        - `normalize`: {column: sf.Normalize(mean, std, ...)} for images that become floats on
          the device.
        - `depth`: the number of buffers on the device: one more than the batches that are kept,
          and at least 2 to overlap.
        - `pinned_bytes`: the limit of page-locked host memory for batches; 0 is the run's
          budget_bytes.
        - `stream`: the stream (of torch, CuPy or Numba, or a handle) on which the values are
          available. The default is the legacy default stream or, for torch(), torch's current
          stream.

        ValueError: the elements are rows, or an option is invalid. OSError: there is no GPU;
        the message says what was looked for. RuntimeError: this process was forked after its
        parent had used CUDA."""
        if not self._plan.batched():
            raise ValueError("cuda: expected batches, but the elements here are rows: batch first")
        return DeviceView(self, device, normalize or {}, depth, pinned_bytes, stream)

    # ---- Properties

    @property
    def element_spec(self) -> Dict[str, Tuple[str, Tuple[int, ...], bool]]:
        """{column: (dtype, shape of a row, is ragged)}; 0 in a shape is any length."""
        return {name: (dtype, shape, is_ragged)
                for name, dtype, shape, is_ragged in self._plan.spec()}

    @property
    def batched(self) -> bool:
        """Whether the elements are batches."""
        return self._plan.batched()

    def __len__(self) -> int:
        """Returns the exact number of elements. TypeError: the number is unknown without running
        the chain."""
        length = self._core.length()
        if isinstance(length, str):
            raise TypeError(f"the length of {self!r} is unknown: {length}")
        return length

    @property
    def _records(self) -> Any:
        """Records by number, from the shards that the chain reads."""
        core = self._core
        if self._records_made is None:
            self._records_made = core.records()
        if self._records_made is None:
            raise TypeError(f"{self!r} does not read shards")
        return self._records_made

    def _by_number(self, numbers: Sequence[int]) -> List[Any]:
        source = self
        while source._inputs:
            source = source._inputs[0]
        shards = source._method in ("shards", "mixture")
        chosen = self._numbers_in_shards(source, numbers) if shards else []
        if shards and source is self and source._structure == "record":
            return source._records.get(chosen, 0)
        try:
            core = self._core.with_source(source._records.rows(chosen) if shards else source._core)
        except ValueError as e:
            raise TypeError(f"{self!r} has no elements by number: {e}; only sf.read has, and parse, "
                            "decode_image, map and select after it") from None
        return list(iterator.start(core, self._structure, None, True,
                                   threads=1 if len(chosen) < 64 else 0))

    @staticmethod
    def _ranges_of(source: "Chain") -> Sequence[Tuple[int, int]]:
        """The records that sf.read reads."""
        ranges: Optional[Sequence[Tuple[int, int]]] = source._arguments[1]
        records = len(source._records)
        if ranges is None:
            return [(0, records)]
        return [(first, records - first if count == TO_END else count) for first, count in ranges]

    @staticmethod
    def _numbers_in_shards(source: "Chain", numbers: Sequence[int]) -> List[int]:
        """Returns the record numbers of elements, which differ if sf.read reads only some
        records, fills up the epoch with its first ones, or if it reads a mixture."""
        if source._method == "mixture":
            return list(source._core.record_numbers(list(numbers)))
        ranges = Chain._ranges_of(source)
        first = np.array([begin for begin, _ in ranges], np.int64)
        ends = np.cumsum([count for _, count in ranges], dtype=np.int64)
        chosen = np.asarray(numbers, np.int64)
        if len(chosen):
            chosen = chosen % ends[-1]
        which = np.searchsorted(ends, chosen, "right")
        begins = np.concatenate([[0], ends[:-1]])
        return (first[which] + chosen - begins[which]).tolist()

    def __getitem__(self, key: Any) -> Any:
        """Returns elements by the number of their record: one for ds[7] and ds[-1], several for
        ds[2:9] and ds[[5, 3]]."""
        n = len(self)
        if isinstance(key, slice):
            return self._by_number(range(*key.indices(n)))
        if isinstance(key, (list, tuple, np.ndarray, range)):
            return self._by_number([_number(i, n) for i in key])
        return self._by_number([_number(key, n)])[0]

    def place(self, number: Count) -> Tuple[str, int, int]:
        """Returns where the record of element `number` is: (path of the shard, number in it,
        byte of its frame)."""
        source = self
        while len(source._inputs) == 1:
            source = source._inputs[0]
        if source._method in ("mixture", "shards"):
            n = len(source)
            if source._method == "shards":  # also those that the end of the epoch drops
                n = max(n, sum(count for _, count in self._ranges_of(source)))
            number = self._numbers_in_shards(source, [_number(number, n)])[0]
        return self._records.place(number)

    def draw(self) -> Drawing:
        """Returns the chain as a drawing: notebooks show it, its `str` is Mermaid, its `.svg`
        an SVG."""
        return Drawing(self)


def _number(i: Any, n: int) -> int:
    if isinstance(i, (bool, np.bool_)) or not hasattr(i, "__index__"):
        raise TypeError("expected the number of a record, as in ds[7], ds[2:9] or ds[[5, 3]], "
                        f"got {i!r}")
    if not -n <= i < n:
        raise IndexError(f"record {i} does not exist: there are {n}")
    return int(i) % n
