"""Datasets as Dask's dataframes, and dataframes as datasets. Needs dask[dataframe] and pyarrow."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Sequence, Union

from .arguments import Size, checked, needs, shown, specs_of
from .jobs import WriteJob, check_raw, write_job, write_raw
from .splits import Columns, Split, arrow_schema, check_options, columns_of, fields_named, splits

PathLike = Union[str, os.PathLike]


def _frame(table: Any) -> Any:
    import pandas as pd
    return table.to_pandas(types_mapper=pd.ArrowDtype)


class _Partition:
    """Reads a split as a frame. Dask projects columns by the argument of that name alone."""

    def __init__(self, fields: Any, options: Dict[str, Any]):
        self.fields = fields
        self.options = options

    def __call__(self, split: Split, columns: Optional[Sequence[str]] = None) -> Any:
        import pyarrow as pa
        fields = self.fields
        if columns is not None and fields is not None:
            fields = fields_named(fields, columns)
        reader = pa.RecordBatchReader.from_stream(split.batches(fields, **self.options))
        return _frame(reader.read_all())


@checked
def read(spec: Union[PathLike, Sequence[PathLike]], columns: Columns = None, *,
         record: bool = False, n: Optional[Size] = None, bytes: Optional[Size] = None,
         **options: Any) -> Any:
    """Returns the dataset as a Dask dataframe of Arrow's types, a partition for each split:
    `n` and `bytes` are those of sf.splits, `columns` and `record` those of Split.arrow, other
    options those of sf.read. Columns that the graph does not use are not parsed.

    A partition is in a worker's memory as a whole: divide large shards by `bytes`."""
    try:
        import dask.dataframe as dd
    except ModuleNotFoundError as error:
        raise needs(error, "Dask", "dask") from None
    check_options(options)
    specs = specs_of(spec)
    fields = columns_of(specs, columns, record)
    parts = splits(specs, n, bytes=bytes)
    return dd.from_map(_Partition(fields, options), parts,
                       meta=_frame(arrow_schema(fields).empty_table()), enforce_metadata=False)


def _is_binary(column: Any) -> bool:
    """Whether a column of pandas can hold bytes. Dask knows objects only as such."""
    import pyarrow as pa
    kind = getattr(column.dtype, "pyarrow_dtype", None)
    if kind is None:
        return bool(column.dtype == object)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _write(job: WriteJob, part: int, frame: Any, record: bool) -> str:
    with job.shard(part) as writer:
        if record:
            write_raw(writer, frame["record"].tolist())
        else:
            writer.write_batch(frame)
    return writer.message


@checked
def write(frame: Any, spec: PathLike, *, record: bool = False, **options: Any) -> Dict[str, int]:
    """Writes the rows of a Dask dataframe as tf.train.Examples, partition i as shard i, and returns
    {"shards", "records", "bytes"}. It waits for the tasks. `spec` may leave out the number of
    shards, which is that of the partitions; options are those of sf.write_job. The index is not
    written; a null is a record without the feature.

    - `record`: the rows are records as they are, as read(record=True) has them: the frame has the one
      binary column "record", whose bytes are written unchanged. Otherwise they would become Examples with a
      feature of that name.

    Dask turns columns of Python objects into text when dd.from_pandas makes a frame: lists and arrays are
    then written as their text, and bytes end in a UnicodeDecodeError. Before, set

        dask.config.set({"dataframe.convert-string": False})

    Whatever happens to workers, the dataset appears as a whole, or does not appear. ValueError: the
    number of partitions of the frame differs from the number of shards in `spec`; repartition
    it."""
    import dask
    # Dask's arrays have no columns; its series have, but no dtypes.
    if not all(hasattr(frame, name) for name in ("to_delayed", "columns", "dtypes")) or getattr(frame, "ndim", 2) != 2:
        raise TypeError(f"write: expected a dataframe of Dask, not {shown(frame)}; dask.dataframe.from_pandas makes one")
    if record:
        check_raw(frame.columns, "record" in frame.columns and _is_binary(frame._meta["record"]))
    parts = frame.to_delayed()
    name = os.fspath(spec)
    if "@" not in os.path.basename(name):
        options.setdefault("shards", len(parts))
    job = write_job(name, **options)
    try:
        if len(job) != len(parts):
            raise ValueError(f"{name}: the frame has {len(parts)} partitions; repartition it: "
                             f"frame.repartition(npartitions={len(job)})")
        task = dask.delayed(_write, pure=False)
        return job.commit(dask.compute(*[task(job, i, part, record) for i, part in enumerate(parts)]))
    except BaseException as error:
        job._abort_after(error)
        raise
