"""Datasets as Beam's PCollections, and PCollections as datasets. Needs apache-beam and pyarrow."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .arguments import needs

try:
    import apache_beam as beam
except ModuleNotFoundError as error:
    raise needs(error, "Beam", "beam") from None
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import WindowedValue

from . import _core
from .arguments import Size, checked, shown, specs_of
from .functions import key_bytes, name_of
from .jobs import WriteJob, write_job
from .splits import Columns, Split, check_options, columns_of, splits, tables_of

PathLike = Union[str, os.PathLike]

# The hash that divides and sorts the rows, and the row as a record. What has no hash is the mark of a part, which is
# empty, or a note about lost digits.
Keyed = Tuple[bytes, bytes]
_MARK: Keyed = (b"", b"")
_DIGEST_BYTES = 16


def _rows(table: Any) -> Iterator[Dict[str, Any]]:
    """The rows as dicts. Arrays keep the type of lists, also that of empty ones."""
    import pyarrow as pa
    columns = []
    for column in table.columns:
        if hasattr(column.type, "value_type"):
            strings = column.type.value_type == pa.binary()
            values = [row if row is None or not strings else row.tolist() for row in column.to_numpy()]
        else:
            values = column.to_pylist()
        columns.append(values)
    for row in zip(*columns):
        yield dict(zip(table.column_names, row))


class _ReadSplit(beam.DoFn):
    def __init__(self, fields: Any, batches: bool, options: Dict[str, Any]):
        self._fields = fields
        self._batches = batches
        self._options = options

    def process(self, split: Split) -> Iterator[Any]:
        # The table leaves damaged records out, which the rows of a chain stand for by b"".
        for table in tables_of(split, self._fields, self._options):
            if self._batches:
                yield from table.to_batches()
            elif self._fields is None:
                yield from table.column("record").to_pylist()
            else:
                yield from _rows(table)


class Read(beam.PTransform):
    """Reads a dataset as a PCollection of its rows, in no order:

        rows = pipeline | sf.beam.Read("out/train@64", ["n", "x"])

    A row is a dict {name: int, float or bytes; for lists, an array of NumPy (int64, float32) or a list of
    bytes; None for a feature that the record lacks}.

    Splits are made and shuffled, so that workers read them in parallel and only a split is repeated
    after a failure.

    - `columns`: as for Split.arrow: names, or {name: type}; by default all features.
    - `record`: the elements are the records themselves, bytes.
    - `batches`: the elements are record batches of pyarrow, which are much faster than dicts.
    - `n`, `bytes`: as for sf.splits; other options are those of sf.read.

    Errors of the arguments are raised here, as by sf.splits and Split.arrow. Workers raise ValueError
    for a record that does not fit, and RuntimeError for a shard that has changed since."""

    @checked
    def __init__(self, spec: Union[PathLike, Sequence[PathLike]], columns: Columns = None, *,
                 record: bool = False, batches: bool = False, n: Optional[Size] = None,
                 bytes: Optional[Size] = None, **options: Any):
        super().__init__()
        check_options(options)
        specs = specs_of(spec)
        self._fields = columns_of(specs, columns, record, some=True)
        self._parts = splits(specs, n, bytes=bytes)
        self._batches = batches
        self._options = options

    def expand(self, begin: Any) -> Any:
        kind: Any = Any if self._batches else bytes if self._fields is None else Dict[str, Any]
        # A NamedTuple would become a row of Beam's schemas, which have no unsigned numbers.
        parts = beam.Create(self._parts, reshuffle=False).with_output_types(Any)
        read = beam.ParDo(_ReadSplit(self._fields, self._batches, self._options))
        return (begin | "Splits" >> parts | "Share" >> beam.Reshuffle()
                | "Rows" >> read.with_output_types(kind))


class _Divide(beam.DoFn):
    """Makes records of rows, and finds the part to which each belongs."""

    def __init__(self, parts: int, features: Sequence[Any], key: Optional[Callable[[Any], Any]]):
        self._parts = parts
        self._features = tuple(features)
        self._key = key

    def start_bundle(self) -> None:
        self._encoder = _core.ExampleEncoder(self._features)

    def finish_bundle(self) -> Iterator[Any]:
        everything = window.GlobalWindow()
        for loss in self._encoder.losses():
            yield WindowedValue((0, (b"", loss.encode())), everything.max_timestamp(), [everything])

    def process(self, row: Any) -> Iterator[Tuple[int, Keyed]]:
        if isinstance(row, bytes):
            record = row
        elif isinstance(row, Mapping):
            record = self._encoder.encode(dict(row))
        else:
            raise TypeError(f"Write: rows must be dicts of features, or records as bytes, not {shown(row)}")
        key = record if self._key is None else key_bytes(
            self._key(row), f"Write: key={name_of(self._key)}")
        digest = hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
        yield int.from_bytes(digest[:8], "big") % self._parts, (digest, record)


class _WritePart(beam.DoFn):
    def __init__(self, job: WriteJob):
        self._job = job

    def process(self, element: Tuple[int, Any]) -> Iterator[str]:
        part, rows = element
        with self._job.shard(part) as writer:
            found = sorted(rows)
            writer._losses = [note.decode() for digest, note in found if note and not digest]
            for digest, record in found:
                if digest:
                    writer.write(record)
        assert writer.message is not None
        yield writer.message


class _Commit(beam.DoFn):
    def __init__(self, job: WriteJob):
        self._job = job

    def process(self, messages: List[str]) -> Iterator[Dict[str, int]]:
        yield self._job.commit(messages, made_by={"tool": "shardfeed (Beam)"})


class Write(beam.PTransform):
    """Writes a PCollection of rows as a dataset: dicts of features as tf.train.Examples (values as for
    Writer.write; None is a feature that the row lacks), or bytes as they are. Its result is a
    PCollection of one {"shards", "records", "bytes"}, once the dataset exists.

        with sf.beam.Write("out/new@8") as write, beam.Pipeline() as pipeline:
            pipeline | beam.Create(rows) | write

    Beam's PCollections have no order, so what a shard holds is made a function of the rows: a row's
    part is the BLAKE2b hash of its record modulo the number of parts, and within a part rows
    are in the order of their hashes. The same rows thus give the same bytes, whatever the runner, its
    workers and its retries; only the number of shards and options such as `compression` change them.
    `key`, a function of a row that returns an integer, bytes or str, is hashed instead of the record:
    rows of one key are then in one shard, one after another. It must depend on the row alone.

    Each part is written by one task, which sorts its rows in memory: choose as many shards as keep a
    part small. All parts are committed in one step when the last one is written. A task that is
    repeated or runs twice leaves an attempt that is not used, so no row is duplicated or lost.

    The job begins when the transform is applied, and belongs to one run of one pipeline. At the end of the
    `with`, an exception aborts it, which removes what tasks have written; `abort` does the same for a
    pipeline that runs elsewhere. `shardfeed clean` removes what a killed driver leaves behind. `spec` and
    further options are those of sf.write_job, which also has its errors: FileExistsError and others when
    the transform is applied, those of commit in the pipeline.

    ValueError: the PCollection is unbounded. RuntimeError: this Write was applied before."""

    def __init__(self, spec: PathLike, *, key: Optional[Callable[[Any], Any]] = None, **options: Any):
        super().__init__()
        if key is not None and not callable(key):
            raise TypeError(f"Write: key must be a function of a row, not {shown(key)}")
        self._key = key
        self._spec = os.fspath(spec)
        self._options = options
        self._job: Optional[WriteJob] = None  # once it is applied

    def expand(self, rows: Any) -> Any:
        if not rows.is_bounded:
            raise ValueError("Write: the PCollection is unbounded, and a dataset has an end; read a "
                             "bounded source")
        if self._job is not None:
            raise RuntimeError(f"Write: {self._spec} is written by this transform already; make another "
                               "Write for other rows")
        self._job = job = write_job(self._spec, **self._options)
        parts = len(job)
        divide = beam.ParDo(_Divide(parts, job._features, self._key))
        marks = beam.Create([(part, _MARK) for part in range(parts)])
        kind = Tuple[int, Keyed]
        divided = (rows | "Whole" >> beam.WindowInto(window.GlobalWindows())
                   | "Divide" >> divide.with_output_types(kind))
        # With the marks, parts without rows are written, too.
        marked = (divided, rows.pipeline | "Parts" >> marks.with_output_types(kind)) | beam.Flatten()
        messages = (marked | beam.GroupByKey()
                    | "Write" >> beam.ParDo(_WritePart(job)).with_output_types(str)
                    | beam.combiners.ToList())
        # Runners keep the output of a shuffle: if a later step fails, the same messages are committed again,
        # with the same result.
        return (messages | beam.Reshuffle()
                | "Commit" >> beam.ParDo(_Commit(job)).with_output_types(Dict[str, int]))

    def abort(self) -> None:
        """Removes what the job's tasks have written; tasks that still write fail. Once the dataset
        exists, or before the transform is applied, it does nothing."""
        if self._job is not None:
            self._job.abort()

    def __enter__(self) -> "Write":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.abort()
