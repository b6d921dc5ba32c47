"""Datasets written from Python."""

from __future__ import annotations

import os
import re
import sys
import warnings
import weakref
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from . import _core
from .arguments import Count, Level, Threads, checked, shown
from .exact import check_no_nulls, exact_array
from .features import FeatureLike, as_features
from .ragged import Ragged

Compression = Literal["none", "gzip", "zlib"]


class _Forgotten:
    """Replaces the core's writers in a child after fork."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a writer can only be used in the process that made it, and this process "
                           "was forked later: write in the parent, or open another dataset here")

    def abort(self, soon: bool = False) -> None:
        pass


class _Aborted:
    """Replaces the core's writer after abort()."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("the writer was aborted, and what it had written is removed; open another one")

    def abort(self, soon: bool = False) -> None:
        pass


_FORGOTTEN: Any = _Forgotten()
_ABORTED: Any = _Aborted()
_open: "weakref.WeakSet[RecordWriter]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Called in a child after fork: a writer's threads and its locks on the dataset belong to the
    parent, so the child must neither use nor end it."""
    import ctypes
    for writer in list(_open):
        if writer._writer is not _FORGOTTEN:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer._writer))
            writer._writer = _FORGOTTEN
            writer._ended = True


os.register_at_fork(after_in_child=_forget_in_child)


def _without_arrow(record: Dict[str, Any]) -> Dict[str, Any]:
    """The record with pyarrow's arrays as arrays of NumPy or lists. The core would ask them for DLPack, of whose
    version pyarrow warns."""
    array: Any = getattr(sys.modules.get("pyarrow"), "Array", None)
    if array is None:  # nobody has one
        return record
    for value in record.values():
        if isinstance(value, array):
            return {name: _of_arrow(one) if isinstance(one, array) else one for name, one in record.items()}
    return record


def _of_arrow(array: Any) -> Any:
    from pyarrow import types
    is_number = types.is_integer(array.type) or types.is_floating(array.type)
    return array.to_numpy(zero_copy_only=False) if is_number and not array.null_count else array.to_pylist()


def _has_type(value: Any) -> bool:
    """Whether a value of a feature, or a column of them, has elements, or a type without any, as an empty array of
    numbers has: the core notes the types of these."""
    if value is None:
        return False
    if isinstance(value, (list, tuple)):
        return any(map(_has_type, value))
    if isinstance(value, Ragged):
        return _has_type(value.values)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return any(map(_has_type, value.flat))
        return value.size > 0 or value.dtype.kind not in "SU"
    if isinstance(value, _core.BytesArray):
        return len(value) > 0
    return _has_type(_of_arrow(value)) if hasattr(value, "to_pylist") else True


def _null_columns(columns: Any) -> Dict[str, bool]:
    """The columns of data of Arrow, and whether they can have no values: those of nulls, and of lists of them."""
    schema: Any = getattr(columns, "schema", None)
    if isinstance(schema, Mapping):  # polars
        return {name: str(kind) in ("Null", "List(Null)") for name, kind in schema.items()}
    return {field.name: str(getattr(field.type, "value_type", field.type)) == "null"
            for field in schema if hasattr(field, "type")} if hasattr(schema, "field") else {}


class SeenFeatures:
    """Which features had a value, as long as all records are seen as such. One without a value is in no record."""

    _FIRST = 1000  # records and batches: after them, writing does not look any more if all features had values

    def __init__(self) -> None:
        self.typed: Set[str] = set()  # features that had a value or a type
        self._bare: Dict[str, None] = {}  # those that had none when they were seen
        self._added = 0

    def is_settled(self) -> bool:
        return self._added >= self._FIRST and not self.without_values()

    def add(self, columns: Mapping[str, Any]) -> None:
        """Adds features of a record, or of several."""
        self._added += 1
        for name, value in columns.items():
            if name not in self.typed:
                self._add(name, _has_type(value))

    def add_arrow(self, columns: Any) -> None:
        for name, is_null in _null_columns(columns).items():
            self._add(name, not is_null)

    def _add(self, name: str, has_type: bool) -> None:
        if has_type:
            self.typed.add(name)
        else:
            self._bare[name] = None

    def without_values(self) -> List[str]:
        return [name for name in self._bare if name not in self.typed]


def no_value(name: str) -> str:
    """The warning about a feature without values."""
    return f"feature {name!r} has no value in any record, so no record has it"


class RecordWriter:
    """What writes records."""

    _seen: Optional[SeenFeatures] = None  # None: features are declared, or other records may have values of them

    def __init__(self, core: Any):
        if not hasattr(core, "write_example"):
            raise TypeError(f"{type(self).__name__} is made by sf.write or WriteJob.shard, not by itself; use "
                            f"sf.write({core!r})")
        self._writer = core
        self._records: Optional[int] = None  # how many, once it is closed
        self._ended = False
        _open.add(self)

    def write(self, record: Union[bytes, Mapping[str, Any]]) -> None:
        """Writes a record: bytes unchanged, or a dict of features as a tf.train.Example. Values are
        bytes (also bytearray and memoryview) and str, ints and bools (int64), floats (float32),
        arrays of numbers, lists of these, and None, which is a record without the feature. Only the
        precision of floats changes; close reports values that lose more than digits of their
        fractions. The manifest notes types and shapes, with which parse() restores arrays. For
        bytes, only the kinds and numbers of values are checked.

        A feature has one kind in all records: 0.5 after 0 is a TypeError. An array of two or more
        dimensions has one shape, unless `features` declares another.

        An empty list has no type: it takes the one that write(features=) declares. Without one the
        record lacks the feature, which readers, including TensorFlow, treat as no elements.

        TypeError, ValueError: a value that features cannot hold, or that does not match its
        declaration. The message names the record, by its number, and the feature; the record is not
        written, and others may follow."""
        if isinstance(record, bytes):
            self._writer.write_bytes(record)
            self._seen = None
        elif isinstance(record, dict):
            self._writer.write_example(_without_arrow(record))
            if self._seen is not None:
                self._look(record)
        elif isinstance(record, (bytearray, memoryview)):
            self.write(bytes(record))
        elif isinstance(record, Mapping):
            self.write(dict(record))
        else:
            raise TypeError(f"write: record must be bytes or a dict of features, not {shown(record)}")

    def write_batch(self, columns: Any) -> int:
        """Writes the rows of columns as tf.train.Examples, and returns their number: much faster
        than row by row.

        `columns` is {name: array [rows, ...] | Ragged | BytesArray | list of values as write()
        takes them}, or a table, a record batch or a stream of Arrow (anything with
        `__arrow_c_stream__` or `__arrow_c_array__`: of pyarrow, polars, duckdb), or a pandas
        DataFrame without its index or a datasets.Dataset of Hugging Face, whose values are as
        sf.from_pandas and sf.from_hf have them. The rules are those of write, in all respects.
        Dictionaries and categories are their values, and a null is a record without the feature.

        TypeError, ValueError: as for write; the message names the feature and the row, and
        nothing of the batch is written (of a stream, nothing of its record batch)."""
        from . import frames
        tables = frames.tables_of(columns)
        if tables is not None:
            return sum(self._write_table(table, shapes) for table, shapes in tables)
        if hasattr(columns, "__arrow_c_stream__") or hasattr(columns, "__arrow_c_array__"):
            return self._write_table(columns, {})
        if not isinstance(columns, Mapping):
            raise TypeError("write_batch: columns must be {name: array} or data of Arrow, not "
                            f"{shown(columns)}")
        rows = self._writer.write_columns(_columns_of(columns))
        if rows and self._seen is not None:
            self._look(columns)
        return rows

    def _look(self, columns: Mapping[str, Any]) -> None:
        assert self._seen is not None
        self._seen.add(columns)
        if self._seen.is_settled():
            self._seen = None

    def _write_table(self, data: Any, shapes: Mapping[str, Sequence[int]]) -> int:
        rows = self._write_arrow(data, shapes, {})
        if rows and self._seen is not None:
            self._seen.add_arrow(data)
        return rows

    def _write_arrow(self, data: Any, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]) -> int:
        """Writes data of Arrow whose columns had other types (dtypes) or shapes before it was made."""
        return self._writer.write_arrow(data, shapes, dtypes)

    def abort(self) -> None:
        """Removes what was written. In a child after a fork it does nothing."""
        self._abort()

    def _abort(self, soon: bool = False) -> None:
        """`soon`: does not wait for a store that does not answer."""
        self._ended = True
        self._writer.abort(soon)
        if self._writer is not _FORGOTTEN and self._records is None:
            self._records = self._writer.records_written
            self._writer = _ABORTED

    def _tell_losses(self) -> None:
        for loss in self._writer.losses():
            warnings.warn(f"{loss}; write text or integers to keep them", UserWarning, stacklevel=3)
        for name in self._seen.without_values() if self._seen is not None else ():
            warnings.warn(no_value(name), UserWarning, stacklevel=3)

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            warnings.warn(f"unclosed writer {self!r}: what it has written is removed; use it in a with, or "
                          "close it", ResourceWarning, source=self)

    def close(self) -> Any:
        raise NotImplementedError

    @property
    def records_written(self) -> int:
        return self._writer.records_written if self._records is None else self._records

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._writer is _FORGOTTEN:
            return f"<shardfeed.{name} of another process>"
        return f"<shardfeed.{name}: {self.records_written} records>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._abort(soon=not issubclass(kind, Exception))  # Ctrl-C, and what else ends programs


# A column for the core: its name, the type of NumPy of an array of numbers (otherwise ""), its values,
# and the row splits of a Ragged.
_Column = Tuple[str, str, Any, Any]


def _columns_of(columns: Mapping[str, Any]) -> List[_Column]:
    """The columns as the core takes them, which checks their values."""
    made: List[_Column] = []
    for name, value in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"write_batch: names must be str, not {shown(name)}")
        splits = None
        if isinstance(value, Ragged):
            splits = np.ascontiguousarray(exact_array(value.row_splits, "int64", name))
            value = value.values
        made.append((name, *_values_of(name, value), splits))
    return made


def _values_of(name: str, value: Any) -> Tuple[str, Any]:
    if isinstance(value, _core.BytesArray):
        return "", value
    if isinstance(value, (list, tuple)):
        return "", list(value)
    check_no_nulls(name, value)
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise TypeError(f"feature {name!r}: a masked array's mask would be lost; fill it, x.filled(0), or "
                            "give a list with None, or data of Arrow, whose nulls are records without the feature")
        value = value.data
    array = None if isinstance(value, (str, bytes, bytearray, memoryview)) else np.asarray(value)
    if array is None or array.ndim == 0:
        raise TypeError(f"feature {name!r}: expected a value for each row (an array, a list, a Ragged), got "
                        f"{shown(value)}")
    if array.dtype.name == "bfloat16":
        return "bfloat16", np.ascontiguousarray(array).view(np.uint16)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return "", array  # an array of strings or objects, or one that is refused
    return array.dtype.name, np.ascontiguousarray(array, array.dtype.newbyteorder("="))


class Writer(RecordWriter):
    """Writes a dataset. Use it in a `with`: at its end the dataset becomes visible as a whole;
    after an exception nothing remains. Record i goes to shard i mod N. The files depend only
    on the records.

    One thread at a time may use it. After a fork, it cannot be used in the child: write and
    close raise a RuntimeError there, and dropping it does nothing."""

    def __init__(self, core: _core.Writer, is_declared: bool = False):
        super().__init__(core)
        if not is_declared:
            self._seen = SeenFeatures()
        self.report: Optional[Dict[str, int]] = None

    def close(self) -> Dict[str, int]:
        """Completes the dataset and returns {"shards", "records", "bytes"}. Values that lost digits
        become a note in the manifest and a UserWarning, and features that were empty in all records a
        UserWarning; if warnings are errors, nothing of the dataset remains."""
        if self.report is None:
            self._ended = True
            self._tell_losses()
            self.report = self._writer.finish()
            self._records = self.report["records"]
        return self.report


def declared(features: Optional[Mapping[str, FeatureLike]], what: str) -> Tuple[Any, ...]:
    """The features for the core."""
    return tuple(feature.core(name) for name, feature in as_features(features or {}, what).items())


def note_on_suffix(spec: str, compression: str) -> str:
    """What to tell of a name whose suffix names another compression than the shards have; empty if there is nothing."""
    suffix = re.search(r"@(?:[0-9]+|\*)(\.[^/]*)$", spec)
    return _core.note_on_suffix(suffix[1], compression) if suffix else ""


@checked
def write(spec: Union[str, os.PathLike], *, compression: Compression = "none",
          level: Level = 6,
          member_bytes: Count = 256 << 10, threads: Threads = 0, overwrite: bool = False,
          sync: bool = True, features: Optional[Mapping[str, FeatureLike]] = None,
          made_by: Optional[Mapping[str, str]] = None) -> Writer:
    """Starts a dataset and returns its writer: write("out/train@16"),
    write("s3://bucket/train@16").

    - `compression`: "none", "gzip" or "zlib".
    - `features`: all features, as for parse. Values are then checked: their kind, range and shape,
      that no feature is missing (unless it is ragged or has a default), and that there are no
      others. Ints are written as floats where floats are declared, if float32 has them exactly, and
      empty lists have a type. parse() restores the declared types and shapes, but not defaults:
      pass `features` to parse() for these.
    - `made_by`: what the manifest says about the origin.

    FileExistsError: a dataset of that name exists, and overwrite is false."""
    note = note_on_suffix(os.fspath(spec), compression)
    if note:
        warnings.warn(f"write: {os.fspath(spec)}: {note}; the argument compression does", UserWarning, stacklevel=3)
    return Writer(_core.Writer(os.fspath(spec), compression, level, member_bytes, threads,
                               overwrite, sync, {"tool": "shardfeed (Python)", **(made_by or {})},
                               declared(features, "write: features")), is_declared=bool(features))
