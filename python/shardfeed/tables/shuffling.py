"""A uniform shuffle of any number of rows in bounded memory.

Row i has the random key that the program's shuffle gives it (convert/items/item_shuffler.cc), and rows are sorted by
their keys, so a seed means the same order for all kinds. Rows that do not fit into memory are distributed over
temporary files by the first bits of the keys; each file is then sorted separately."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any, Generator, Iterable, Iterator, List, Optional

import numpy as np
import pyarrow as pa

MEMORY_BYTES = 64 << 20
_BITS = 6  # a level of files is chosen by this many bits of the keys
_FILES = 1 << _BITS
_LEVELS = 64 // _BITS


def shuffled(batches: Iterable[Any], seed: int, folder: Optional[str] = None,
             memory: int = MEMORY_BYTES) -> Generator[Any, None, None]:
    """The rows of batches of Arrow in shuffled order, as batches. Temporary files are in `folder`, by default in $TMPDIR,
    and have no names, so that nothing is left of them. OSError: they cannot be written."""
    def keyed() -> Iterator[Any]:
        number = 0
        for batch in batches:
            keys = pa.array(keys_of(seed, number, batch.num_rows))
            number += batch.num_rows
            yield pa.RecordBatch.from_arrays([keys, *batch.columns], ["", *batch.schema.names])

    for batch in _sorted(keyed(), 0, folder, memory):
        yield pa.RecordBatch.from_arrays(batch.columns[1:], batch.schema.names[1:])


def keys_of(seed: int, first: int, count: int) -> np.ndarray:
    """The keys of the rows from number `first` on: SplitMix64's output function over a seeded counter."""
    start = np.uint64(seed * 0xd1342543de82ef95 % (1 << 64))
    z = start + np.arange(first + 1, first + 1 + count, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        z ^= z >> np.uint64(31)
    return z


def _sorted(batches: Iterable[Any], level: int, folder: Optional[str], memory: int) -> Generator[Any, None, None]:
    """Sorts rows, whose first column is the key and agrees in the bits of all levels above."""
    held: List[Any] = []
    size = 0
    with contextlib.ExitStack() as stack:
        files: Optional[_Files] = None
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            # A single row may be as large as it likes.
            if files is None and size > memory and sum(one.num_rows for one in held) > 1 and level < _LEVELS:
                files = stack.enter_context(contextlib.closing(_Files(level, folder)))
            # Little at once, since it is copied on the way.
            if files is not None and size > memory // 4:
                _empty(held, memory // 4, files)
                size = 0
        if files is None:
            if held:
                whole = _together(held)
                held = []
                yield whole.take(pa.array(np.argsort(whole.column(0).to_numpy(), kind="stable")))
            return
        _empty(held, memory // 4, files)
        for number in range(_FILES):
            yield from _sorted(files.read(number), level + 1, folder, memory)


def _empty(held: List[Any], most: int, files: "_Files") -> None:
    """Moves batches to files, about `most` bytes at once."""
    while held:
        some = [held.pop()]
        while held and sum(batch.nbytes for batch in some) + held[-1].nbytes <= most:
            some.append(held.pop())
        files.add(_together(some))


class _Files:
    """Rows in files without names, by some bits of their keys."""

    def __init__(self, level: int, folder: Optional[str]):
        self._shift = np.uint64(64 - _BITS * (level + 1))
        self._folder = folder
        self._files: List[Any] = [None] * _FILES
        self._streams: List[Any] = [None] * _FILES

    def add(self, batch: Any) -> None:
        numbers = (batch.column(0).to_numpy() >> self._shift) & np.uint64(_FILES - 1)
        order = np.argsort(numbers, kind="stable")
        batch = batch.take(pa.array(order))
        ends = np.searchsorted(numbers[order], np.arange(_FILES), side="right").tolist()
        with self._explained():
            for number, (begin, end) in enumerate(zip([0, *ends], ends)):
                if begin < end:
                    self._write(number, batch.slice(begin, end - begin))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(f"{self._folder or tempfile.gettempdir()}: cannot write a temporary file of the shuffle: "
                          f"{error.strerror or error}") from None

    def _write(self, number: int, batch: Any) -> None:
        if self._files[number] is None:
            self._files[number] = tempfile.TemporaryFile(prefix="shardfeed-", dir=self._folder)
        stream = self._streams[number]
        # Sources may have columns of several types for features of one kind. A file then has several streams.
        if stream is None or not stream.schema.equals(batch.schema):
            if stream is not None:
                stream.writer.close()
            self._streams[number] = stream = _Stream(self._files[number], batch.schema)
        stream.writer.write_batch(batch)

    def read(self, number: int) -> Iterator[Any]:
        """The rows of a file, once."""
        file, stream = self._files[number], self._streams[number]
        self._files[number] = self._streams[number] = None
        if file is None:
            return
        try:
            with self._explained():
                stream.writer.close()
                end = file.seek(0, 2)  # writes what is buffered
            file.seek(0)
            while file.tell() < end:
                yield from pa.ipc.open_stream(file)
        finally:
            _close(file)

    def close(self) -> None:
        for file in self._files:
            if file is not None:
                _close(file)


def _close(file: Any) -> None:
    """The content of the file is not needed any more, or its error was reported."""
    with contextlib.suppress(OSError):
        file.close()


class _Stream:
    def __init__(self, file: Any, schema: Any):
        self.schema = schema
        self.writer = pa.ipc.new_stream(file, schema)


def _together(batches: List[Any]) -> Any:
    """One batch of the rows of several."""
    schema = batches[0].schema
    for batch in batches[1:]:
        if not batch.schema.equals(schema):
            names = schema.names
            types = [_common(a, b) for a, b in zip(schema.types, batch.schema.types)]
            schema = pa.schema([pa.field(name, kind) for name, kind in zip(names, types)])
    made = [batch if batch.schema.equals(schema) else
            pa.RecordBatch.from_arrays([column.cast(kind) for column, kind in zip(batch.columns, schema.types)],
                                       schema=schema)
            for batch in batches]
    return made[0] if len(made) == 1 else pa.concat_batches(made)


def _common(a: Any, b: Any) -> Any:
    """A type for the values of two, which are features of one kind."""
    types = pa.types
    if a.equals(b) or types.is_null(b):
        return a
    if types.is_null(a):
        return b
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(one(a) for one in lists) and any(one(b) for one in lists):
        return pa.large_list(_common(a.value_type, b.value_type))
    if types.is_floating(a) or types.is_floating(b):
        return pa.float32()
    if (types.is_integer(a) or types.is_boolean(a)) and (types.is_integer(b) or types.is_boolean(b)):
        return pa.int64()
    return pa.large_binary()
