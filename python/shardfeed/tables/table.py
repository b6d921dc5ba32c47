"""What the readers of tables have in common."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import Any, Callable, Collection, Dict, Generator, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, TypeVar

import pyarrow as pa

from .._core import DataLossError

# What a batch has at most, unless a single row has more.
BATCH_BYTES = 16 << 20
BATCH_ROWS = 1 << 16

T = TypeVar("T")


class Piece(NamedTuple):
    """Rows of a table that follow one another."""

    batch: Any  # a pyarrow.RecordBatch
    first: int  # the number of its first row in the table


class Table(NamedTuple):
    """A table that is read from its start to its end."""

    path: str  # for messages
    names: List[str]  # the names of all columns
    schema: Any  # a pyarrow.Schema of the chosen columns
    rows: int
    read: Callable[[], Iterator[Piece]]
    part: Callable[[int], str] = lambda row: ""  # " (row group 3)"
    notes: List[str] = []
    shapes: Mapping[str, Tuple[int, ...]] = {}  # of the rows of features, where the schema has lists of any length
    optional: Collection[str] = ()  # columns that need no value in any row


class Options(NamedTuple):
    """How a table is read."""

    columns: Optional[List[str]] = None  # features, or structs of these; None: all
    query: Optional[str] = None  # sqlite
    table: Optional[str] = None  # sqlite
    database: Optional[str] = None  # lmdb
    format: Optional[str] = None  # lmdb, video
    every: int = 1  # video: the first of so many frames

    def chosen(self, names: List[str]) -> List[str]:
        """The columns that are, or hold, one of `columns`."""
        return [name for name in names if self.columns is None or any(
            name == one or one.startswith(name + ".") or name.startswith(one + ".") for one in self.columns)]


Columns = Dict[str, Any]


def damaged(place: str, what: object) -> DataLossError:
    return DataLossError(f"{place}: {' '.join(str(what).split())}")


def listed_names(names: Iterable[str]) -> str:
    """Names for a message, the first 20 of them."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20] + [f"and {len(shown) - 20} more"] * (len(shown) > 20))


# The first bytes of compressed files, and what writes their content to standard output.
_COMPRESSED = {b"\x1f\x8b\x08": ("gzip", "zcat"), b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
               b"\xfd7zXZ\0": ("xz", "xzcat"), b"BZh": ("bzip2", "bzcat")}


def compression_of(path: str) -> Optional[Tuple[str, str]]:
    """How a file is compressed, and the command that writes its content to standard output. None: it is not."""
    if not os.path.isfile(path):  # a pipe would wait for a writer
        return None
    try:
        with open(path, "rb") as file:
            start = file.read(10)
    except OSError:
        return None
    found = next((one for magic, one in _COMPRESSED.items() if start.startswith(magic)), None)
    # Text may begin with BZh, too: the level and the magic number of a block follow it.
    return None if start[:3] == b"BZh" and start[4:] != b"1AY&SY" else found


def batch_rows(row_bytes: float) -> int:
    """How many rows a batch has."""
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(row_bytes, 1))))


def batch_of(columns: Columns) -> Any:
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


class _End:
    pass


class _Failed(NamedTuple):
    error: BaseException


def ahead(items: Generator[T, None, None], depth: int = 2) -> Generator[T, None, None]:
    """The same items, made by a thread that is at most `depth` of them ahead."""
    ready: "queue.Queue[Any]" = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def work() -> None:
        try:
            with contextlib.closing(items):
                for item in items:
                    if not put(item):
                        return
            put(_End())
        except BaseException as error:  # raised by whoever takes the items
            put(_Failed(error))

    thread = threading.Thread(target=work, name="shardfeed tables", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        stopped.set()
        thread.join()
