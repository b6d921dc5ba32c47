"""Datasets written from Python."""

from __future__ import annotations

import os
import weakref
from typing import Any, Dict, Literal, Mapping, Optional, Union

from . import _core
from .arguments import Count, Level, Threads, checked, shown
from .features import FeatureLike, as_features

Compression = Literal["none", "gzip", "zlib"]


class _Forgotten:
    """Replaces the core's writers in a child after fork."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a writer can only be used in the process that made it, and this process "
                           "was forked later: write in the parent, or open another dataset here")

    def abort(self) -> None:
        pass


_FORGOTTEN: Any = _Forgotten()
_open: "weakref.WeakSet[Writer]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Called in a child after fork: a writer's threads and its locks on the dataset belong to the
    parent, so the child must neither use nor end it."""
    import ctypes
    for writer in list(_open):
        if writer._writer is not _FORGOTTEN:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer._writer))
            writer._writer = _FORGOTTEN


os.register_at_fork(after_in_child=_forget_in_child)


class Writer:
    """Writes a dataset. Use it in a `with`: at its end the dataset becomes visible as a whole;
    after an exception nothing remains. Record i goes to shard i mod N. The files depend only
    on the records.

    One thread at a time may use it. After a fork, it cannot be used in the child: write and
    close raise a RuntimeError there, and dropping it does nothing."""

    def __init__(self, core: _core.Writer):
        self._writer = core
        _open.add(self)
        self.report: Optional[Dict[str, int]] = None

    def write(self, record: Union[bytes, Mapping[str, Any]]) -> None:
        """Writes a record: bytes unchanged, or a dict of features as a tf.train.Example. Values
        are bytes and str, ints (and arrays of integers and bools: int64), floats (float32),
        and lists of these. Arrays lose their shape.

        An empty list has no type: it takes the one that write(features=) declares. Without one
        the record goes without the feature, which readers, including TensorFlow, take as no
        elements."""
        if isinstance(record, bytes):
            self._writer.write_bytes(record)
        elif isinstance(record, dict):
            self._writer.write_example(record)
        elif isinstance(record, (bytearray, memoryview)):
            self._writer.write_bytes(bytes(record))
        elif isinstance(record, Mapping):
            self._writer.write_example(dict(record))
        else:
            raise TypeError(f"write: record must be bytes or a dict of features, not {shown(record)}")

    def close(self) -> Dict[str, int]:
        """Completes the dataset and returns {"shards", "records", "bytes"}."""
        if self.report is None:
            self.report = self._writer.finish()
        return self.report

    def abort(self) -> None:
        """Removes what was written. In a child after a fork it does nothing."""
        self._writer.abort()

    @property
    def records_written(self) -> int:
        return self.report["records"] if self.report else self._writer.records_written

    def __repr__(self) -> str:
        if self._writer is _FORGOTTEN:
            return "<shardfeed.Writer of another process>"
        return f"<shardfeed.Writer: {self.records_written} records>"

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


@checked
def write(spec: Union[str, os.PathLike], *, compression: Compression = "none",
          level: Level = 6,
          member_bytes: Count = 256 << 10, threads: Threads = 0, overwrite: bool = False,
          sync: bool = True, features: Optional[Mapping[str, FeatureLike]] = None,
          made_by: Optional[Mapping[str, str]] = None) -> Writer:
    """Starts a dataset and returns its writer: write("out/train@16"),
    write("s3://bucket/train@16").

    - `compression`: "none", "gzip" or "zlib".
    - `features`: types of features, as for parse: ints are then written as floats if floats are
      declared, empty lists have a type, and other values are a TypeError.
    - `made_by`: what the manifest says about the origin.

    FileExistsError: a dataset of that name exists, and overwrite is false."""
    return Writer(_core.Writer(os.fspath(spec), compression, level, member_bytes, threads,
                               overwrite, sync, {"tool": "shardfeed (Python)", **(made_by or {})},
                               {name: "bytes" if feature.raw else feature.dtype for name, feature in
                                as_features(features or {}, "write: features").items()}))
