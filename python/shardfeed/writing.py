"""Datasets written from Python."""

from __future__ import annotations

import os
from typing import Any, Dict, Literal, Mapping, Optional, Union

from . import _core
from .arguments import Count, Level, Threads, checked, shown
from .features import FeatureLike, as_features

Compression = Literal["none", "gzip", "zlib"]


class Writer:
    """Writes a dataset: in a `with`, at whose end it becomes visible, whole; if an exception leaves
    it, nothing remains. Record i goes to shard i mod N. The files depend on the records alone.

    One thread at a time."""

    def __init__(self, core: _core.Writer):
        self._writer = core
        self.report: Optional[Dict[str, int]] = None

    def write(self, record: Union[bytes, Mapping[str, Any]]) -> None:
        """A record: bytes as they are; or a tf.train.Example of the features: bytes and str, ints
        (and arrays of integers and bools: int64), floats (float32), lists of these. Arrays lose
        their shape.

        An empty list tells no type: it is of the type that write(features=) declares, and without
        one the record goes without the feature, which readers, TensorFlow's too, take for no
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
        """Completes the dataset: {"shards", "records", "bytes"}."""
        if self.report is None:
            self.report = self._writer.finish()
        return self.report

    def abort(self) -> None:
        """Removes what was written."""
        self._writer.abort()

    @property
    def records_written(self) -> int:
        return self.report["records"] if self.report else self._writer.records_written

    def __repr__(self) -> str:
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
    """Begins a dataset: write("out/train@16"). compression: "none", "gzip" or "zlib". features:
    types of features, as for parse: ints are then written as floats where floats are declared, empty
    lists have a type, and other values are a TypeError. made_by: what the manifest is to say of where
    it comes from.

    FileExistsError: there is a dataset of that name, and not overwrite."""
    return Writer(_core.Writer(os.fspath(spec), compression, level, member_bytes, threads,
                               overwrite, sync, {"tool": "shardfeed (Python)", **(made_by or {})},
                               {name: "bytes" if feature.raw else feature.dtype for name, feature in
                                as_features(features or {}, "write: features").items()}))
