"""LMDB: Caffe's Datums, and keys and values as such, which is how many loaders for PyTorch store data."""

from __future__ import annotations

import contextlib
import os
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import numpy as np
import pyarrow as pa

from .table import BATCH_BYTES, BATCH_ROWS, Options, Piece, Table, batch_of, damaged, listed_names

# Entries that loaders keep beside the records.
_BOOKKEEPING = (b"__len__", b"__keys__")

_DATUM = pa.schema([
    ("key", pa.binary()), ("image/encoded", pa.binary()), ("image/raw", pa.binary()),
    ("float_data", pa.large_list(pa.float32())), ("image/height", pa.int64()), ("image/width", pa.int64()),
    ("image/channels", pa.int64()), ("image/class/label", pa.int64())])
_PLANES = "the planes of Datums become pixels, whose channels keep their order (BGR if Caffe's tools wrote them)"
_PAIR = pa.schema([("key", pa.binary()), ("value", pa.binary())])


# LMDB's MDB_db, a value of the main database for each named one. Its last field is a page, or that there is none.
_HEADER = struct.Struct("=IHHQQQQQ")
_NO_PAGE = (1 << 64) - 1
_MOST_NAMED = 256  # named databases that are looked for


class Datum(NamedTuple):
    """Caffe's message; caffe.proto has its fields."""

    channels: int
    height: int
    width: int
    data: Optional[bytes]
    label: Optional[int]
    floats: Optional[np.ndarray]
    encoded: bool


def _varint(data: bytes, at: int) -> "tuple[int, int]":
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
        shift += 7


def parse_datum(data: bytes) -> Datum:
    """ValueError: it is no Datum, or a damaged one."""
    numbers: Dict[int, int] = {}
    content: Optional[bytes] = None
    floats: List[bytes] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, wire = tag >> 3, tag & 7
        if field in (1, 2, 3, 5, 7) and wire == 0:
            value, at = _varint(data, at)
            value &= (1 << 32) - 1  # int32 and bool
            numbers[field] = value - (1 << 32) if value >> 31 else value
        elif field in (4, 6) and wire == 2:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError(f"{length} bytes are announced where {len(data) - at} follow")
            if field == 4:
                content = data[at:at + length]
            elif length % 4:
                raise ValueError("floats of 4 bytes are cut off")
            else:
                floats.append(data[at:at + length])
            at += length
        elif field == 6 and wire == 5:
            if len(data) - at < 4:
                raise ValueError("a float is cut off")
            floats.append(data[at:at + 4])
            at += 4
        else:
            raise ValueError(f"Datums have no field {field} of wire type {wire}")
    return Datum(numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0), content, numbers.get(5),
                 np.frombuffer(b"".join(floats), "<f4") if floats else None, bool(numbers.get(7, 0)))


def _row_of_datum(key: bytes, value: bytes) -> Dict[str, Any]:
    """The features of a Datum; ValueError: it is damaged."""
    datum = parse_datum(value)
    row: Dict[str, Any] = {"key": key, "image/class/label": datum.label}
    size = datum.channels * datum.height * datum.width
    if datum.encoded:
        if not datum.data:
            raise ValueError("it is marked as encoded and has no data")
        return {**row, "image/encoded": datum.data}
    if min(datum.channels, datum.height, datum.width) < 0:
        raise ValueError(f"its shape is {datum.channels} x {datum.height} x {datum.width}")
    if not datum.data and datum.floats is None:
        raise ValueError("it has neither data nor float_data")
    for values in (datum.data or None, datum.floats):
        if values is not None and len(values) != size:
            raise ValueError(f"its shape is {datum.channels} x {datum.height} x {datum.width}, and it has "
                             f"{len(values)} values")
    row.update({"image/height": datum.height, "image/width": datum.width, "image/channels": datum.channels})
    if datum.data:
        planes = np.frombuffer(datum.data, np.uint8).reshape(datum.channels, datum.height, datum.width)
        row["image/raw"] = planes.transpose(1, 2, 0).tobytes()
    if datum.floats is not None:
        row["float_data"] = datum.floats
    return row


class _Database(NamedTuple):
    """A database in a transaction that only reads."""

    environment: Any
    transaction: Any
    handle: Any

    def get(self, key: bytes) -> Any:
        return self.transaction.get(key, db=self.handle)

    def entries(self) -> int:
        return self.transaction.stat(self.handle)["entries"]

    def items(self) -> Iterator[Any]:
        return iter(self.transaction.cursor(self.handle))


def _handle(environment: Any, transaction: Any, name: bytes) -> Any:
    """A named database. None: there is none of this name."""
    import lmdb
    if not name or b"\0" in name:  # LMDB would end the name there
        return None
    try:
        return environment.open_db(name, txn=transaction, create=False)
    except (lmdb.NotFoundError, lmdb.IncompatibleError, lmdb.BadValsizeError):
        return None  # or a key of that name has a value of its own


def _named(environment: Any) -> List[str]:
    """The names of the named databases. The main one holds their headers as if they were records; only LMDB tells
    them from values of the same size, and is asked about those that could be headers."""
    import lmdb
    last = environment.info()["last_pgno"]
    names: List[str] = []
    # With buffers, large values are not read.
    with environment.begin(buffers=True) as transaction:
        for key, value in transaction.cursor():
            if len(value) != _HEADER.size:
                continue
            *_, root = _HEADER.unpack(value)
            if root > last and root != _NO_PAGE:
                continue
            try:
                if _handle(environment, transaction, bytes(key)) is not None:
                    names.append(bytes(key).decode(errors="backslashreplace"))
            except lmdb.DbsFullError:
                break
    return names


@contextlib.contextmanager
def _opened(path: str, name: Optional[str] = None) -> Iterator[_Database]:
    """The named database, or the main one, without a lock file. ValueError: there is none of that name."""
    import lmdb
    folder = os.path.isdir(path)
    file = os.path.join(path, "data.mdb") if folder else path
    with open(file, "rb"):
        pass
    size = os.path.getsize(file)
    try:
        environment = lmdb.open(path, subdir=folder, readonly=True, lock=False, create=False, readahead=False,
                                max_dbs=_MOST_NAMED)
    except lmdb.Error as error:
        raise damaged(path, f"not a database of LMDB: {error}") from None
    except UnicodeEncodeError:
        raise ValueError(f"{path}: lmdb opens no names that are not UTF-8; rename the database") from None
    try:
        # It is mapped: beyond the file's end a read would end the process.
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if needed > size:
            raise damaged(path, f"the database is cut off: it has {size} bytes, and its pages reach to {needed}")
        with environment.begin(buffers=False) as transaction:
            if name is None:
                yield _Database(environment, transaction, environment.open_db(txn=transaction, create=False))
                return
            handle = _handle(environment, transaction, name.encode())
            if handle is None:
                names = _named(environment)
                there = f"the databases are {listed_names(names)}" if names else "it has no named databases"
                raise ValueError(f"{path}: database {name!r} does not exist; {there}")
            yield _Database(environment, transaction, handle)
    except lmdb.Error as error:
        raise damaged(path, error) from None
    finally:
        environment.close()


def open_lmdb(path: str, options: Options) -> Table:
    notes: List[str] = []
    with _opened(path, options.database) as database:
        if options.database is None and (names := _named(database.environment)):
            raise ValueError(f"{path}: its records are in named databases: {listed_names(names)}; pass database=NAME to "
                             "read one of them")
        there = [key for key in _BOOKKEEPING if database.get(key) is not None]
        rows = database.entries() - len(there)
        first = next(((key, value) for key, value in database.items() if key not in there), None)
    if there:
        notes.append(f"{' and '.join(key.decode() for key in there)} hold no records and were left out")
    datums = options.format == "caffe"
    if options.format is None and first is not None:
        datums = _is_datum(first[1])
        notes.append("its values are Caffe's Datums, by the first of them" if datums else
                     "its values are bytes as such, and not Caffe's Datums, by the first of them")
    if not datums and first is not None and first[1][:1] == b"\x80" and first[1][-1:] == b".":
        notes.append("its values look like pickles, which are kept as bytes: loading them would run code in them")
    schema = _DATUM if datums else _PAIR
    names = options.chosen(schema.names)

    def row_of(number: int, key: bytes, value: bytes) -> Dict[str, Any]:
        if not datums:
            return {"key": key, "value": value}
        try:
            row = _row_of_datum(key, value)
        except ValueError as error:
            raise damaged(f"{path}: row {number}, key {key!r}", f"not a Datum of Caffe: {error}") from None
        if "image/raw" in row and "image/raw" in names and _PLANES not in notes:
            notes.append(_PLANES)
        return row

    def read() -> Iterator[Piece]:
        batch: List[Dict[str, Any]] = []
        start = held = 0
        with _opened(path, options.database) as database:
            for key, value in database.items():
                if key in there:
                    continue
                batch.append(row_of(start + len(batch), key, value))
                held += len(key) + len(value)
                if held >= BATCH_BYTES or len(batch) == BATCH_ROWS:
                    yield Piece(_batch(schema, names, batch), start)
                    start += len(batch)
                    batch, held = [], 0
            if batch:
                yield Piece(_batch(schema, names, batch), start)

    # Few databases have all that a Datum may have; a column that was asked for should have values.
    optional = [name for name in names if name != "key"] if datums and options.columns is None else []
    return Table(path, schema.names, pa.schema([schema.field(name) for name in names]), rows, read, notes=notes,
                 optional=optional)


def _is_datum(value: bytes) -> bool:
    try:
        _row_of_datum(b"", value)
    except ValueError:
        return False
    return True


def _batch(schema: Any, names: List[str], rows: List[Dict[str, Any]]) -> Any:
    return batch_of({name: pa.array([row.get(name) for row in rows], schema.field(name).type) for name in names})
