"""Spark's data source "shardfeed", which Spark 4 finds by the name of this package:

    spark.read.format("shardfeed").load("out/train@16")
    df.repartition(8).write.format("shardfeed").mode("overwrite").save("out/new@8")

Options of reading:

- `record`: "example" (default) gives a column for each feature; "raw" the one column `record`.
- `columns`: names of features, with commas. Spark does not tell a source which columns a query
  uses: name them here or by `.schema("y bigint")`, and no others are parsed. A schema may name a feature that no
  record has, whose values are all null; a name that differs from a feature only in case is an error.
- `split`: "shard" (default) is a partition for each shard; "16" sixteen partitions; "64MiB"
  partitions of about this size. The latter two need indexes.
- `rows_per_batch`: the maximum number of rows in a batch of Arrow.
- `on_error`: "skip" leaves damaged records out; "fail" (default) ends the job.
- `places`: "true" adds the columns `_shard`, the path of a record's shard, and `_record`, its number there, from 0
  on. A schema names them like others: `.schema("y bigint, _record bigint")`.

bytes are always binary, a missing feature is null, and a value that does not fit ends the job with an
error that names shard and record. So does a feature that no record had when the columns were found: without a manifest, these
are the features of some of the records of a large dataset. `.schema("x bigint, rare bigint")` names those of other records, too,
which `columns` cannot, as it gives no types; or `shardfeed index --manifest` writes the manifest.

Spark finds columns without regard to case. So features whose names differ only in case are an error, unless `columns` or
`.schema(...)` names them; spark.sql.caseSensitive=true, or df.toDF(...) with other names, makes them usable.

Writing takes one task for each shard: repartition(8) for "out/new@8"; a shard without a task is empty. Options:
`compression` ("none", "gzip", "zlib"), `level`, `sync` ("false" does not wait for the disk), and `record`: "raw" writes
records as they are, the bytes of the one binary column `record`; without it they become Examples with a feature of
that name. The mode must be
named: "append" makes a new dataset and fails where the name is taken, "overwrite" replaces it; Spark refuses its
default ("errorifexists") and "ignore" for sources in Python. The dataset appears as a whole, or not at all,
whatever happens to tasks and executors. All of them must reach the folder by one path, or the dataset is in a
store.

Streams are written, too, with exactly-once semantics:

    df.writeStream.format("shardfeed").option("checkpointLocation", "check").start("out/new@4")

Micro-batch 17 becomes the dataset "out/new-00000017@4", whole or not at all. A batch that Spark runs again, after
a failure of the driver, is written once. Datasets do not grow, and a shard's name has the number of shards: therefore batches
are not appended to one. Merge them (`shardfeed merge`), or read them as a list. Output mode "complete" is refused.
What a query that was killed has left of its last batch goes when the batch runs again; if it never does,
`shardfeed clean out/new` removes it.

Filters are Spark's work: no manifest or index tells which records have which values. So the option `pushdown`
is refused, and the source does not need spark.sql.python.filterPushdown.enabled.
"""

from __future__ import annotations

import gc
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import shardfeed as sf
from pyspark.sql.datasource import (DataSource, DataSourceArrowWriter, DataSourceReader,
                                    InputPartition, WriterCommitMessage)
from shardfeed.jobs import with_empty_parts, write_raw
from shardfeed.splits import PLACE_COLUMNS, Field, arrow_schema, batches_with_places, check_case, columns_of, splits

# In lower case, as Spark keeps them.
_READING = ("path", "record", "columns", "split", "rows_per_batch", "on_error", "places", "pushdown")
_OF_STREAMS = ("checkpointlocation", "queryname", "outputmode")  # Spark's own
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _spark_schema(fields: Optional[Tuple[Field, ...]]) -> Any:
    from pyspark.sql import types
    from pyspark.sql.pandas.types import from_arrow_schema
    schema = from_arrow_schema(arrow_schema(fields))
    for column in schema.fields:
        if isinstance(column.dataType, types.ArrayType):
            column.dataType.containsNull = False  # Spark does not look for nulls in such lists
    return schema


def _batch_as(batch: Any, schema: Any) -> Any:
    """The same batch, declared as in `schema`: columns without missing values, and lists, whose items are never
    null, may be called nullable or not."""
    import pyarrow as pa
    for column, field in zip(batch.columns, schema):
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name!r}: the schema calls it not nullable, but records lack this feature")
    columns = [column if column.type.equals(field.type) else
               pa.Array.from_buffers(field.type, len(column), column.buffers()[:2], column.null_count, column.offset,
                                     [column.values])
               for column, field in zip(batch.columns, schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fields_of_schema(schema: Any) -> Tuple[Field, ...]:
    """The columns that a user's schema names."""
    from pyspark.sql import types
    kinds = {types.LongType: "int64", types.FloatType: "float", types.BinaryType: "bytes"}
    fields: List[Field] = []
    for column in schema.fields:
        is_list = isinstance(column.dataType, types.ArrayType)
        kind = kinds.get(type(column.dataType.elementType if is_list else column.dataType))
        if kind is None:
            raise ValueError(f"column {column.name!r}: expected bigint, float, binary or an array of one "
                             f"of these, got {column.dataType.simpleString()}; read it so and cast it")
        if any(field.name == column.name for field in fields):
            raise ValueError(f"column {column.name!r} appears twice in the schema")
        fields.append(Field(column.name, kind, -1 if is_list else 0))
    return tuple(fields)


def _is_raw(schema: Any) -> bool:
    """Whether a schema is that of records as they are."""
    from pyspark.sql import types
    return [(column.name, column.dataType) for column in schema.fields] == [("record", types.BinaryType())]


def _check_written(schema: Any) -> None:
    """Spark does not hand intervals to data sources in Python, and its error does not name the column."""
    from pyspark.sql import types
    if not schema.fields:
        raise ValueError("shardfeed: the frame has no columns, and Spark does not pass rows without columns on")
    for column in schema.fields:
        if isinstance(column.dataType, (types.YearMonthIntervalType, types.CalendarIntervalType)):
            raise ValueError(f"column {column.name!r}: Spark does not pass {column.dataType.simpleString()} to data sources "
                             "in Python; cast it to a number of months, or to a string")


def _place_types() -> Dict[str, Any]:
    from pyspark.sql import types
    return dict(zip(PLACE_COLUMNS, (types.StringType(), types.LongType())))


def _without_places(schema: Any) -> Any:
    """The columns of a schema that come from the records."""
    from pyspark.sql import types
    kinds = _place_types()
    rest = types.StructType()
    for column in schema.fields:
        if column.name not in kinds:
            rest.add(column)
        elif column.dataType != kinds[column.name]:
            raise ValueError(f"column {column.name!r}: expected {kinds[column.name].simpleString()}, got "
                             f"{column.dataType.simpleString()}")
    return rest


class _Part(InputPartition):
    def __init__(self, split: sf.Split):
        super().__init__(split.number)
        self.split = split


class _Reader(DataSourceReader):
    def __init__(self, parts: Sequence[sf.Split], schema: Any, fields: Optional[Tuple[Field, ...]],
                 rows: Optional[int], skip_damaged: bool, columns: Optional[List[str]]):
        self._parts = parts
        self._schema = schema
        self._fields = fields
        self._rows = rows
        self._skip_damaged = skip_damaged
        self._columns = columns  # with those of places among them; None: those of the fields

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_parts": ()}  # tasks get this, and their part

    def partitions(self) -> List[InputPartition]:
        return [_Part(split) for split in self._parts]

    def read(self, partition: Any) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema
        schema = to_arrow_schema(self._schema, timezone="UTC")
        if self._columns is not None:
            for batch in batches_with_places(partition.split, self._fields, self._rows, threads=1,
                                             skip_damaged=self._skip_damaged):
                yield _batch_as(batch.select(self._columns), schema)
            return
        batches = partition.split.batches(self._fields, self._rows, threads=1,
                                          skip_damaged=self._skip_damaged)
        for batch in pa.RecordBatchReader.from_stream(batches):
            yield _batch_as(batch, schema)


class _Message(WriterCommitMessage):
    def __init__(self, text: str):
        self.text = text


def part_of_task(job: sf.WriteJob, context: Any) -> int:
    part = context.partitionId()
    if part >= len(job):
        raise ValueError(f"{job.spec}: the rows are in more than {len(job)} partitions; "
                         f"write df.repartition({len(job)})")
    return part


def write_part(job: sf.WriteJob, part: int, context: Any, batches: Iterator[Any], raw: bool) -> str:
    """Writes the rows of a task, and returns its message."""
    with job.shard(part, context.attemptNumber()) as writer:
        for batch in batches:
            if raw:
                write_raw(writer, batch.column("record").to_pylist())
            else:
                writer.write_batch(batch)
    return writer.message


class _Writer(DataSourceArrowWriter):
    def __init__(self, job: sf.WriteJob, raw: bool):
        self._job = job
        self._raw = raw

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext
        context = TaskContext.get()
        assert context is not None
        return _Message(write_part(self._job, part_of_task(self._job, context), context, iterator, self._raw))

    def commit(self, messages: List[Any]) -> None:
        texts = [message.text for message in messages if message is not None]
        self._job.commit(with_empty_parts(self._job, texts), made_by={"tool": "shardfeed (Spark)"})

    def abort(self, messages: List[Any]) -> None:
        # Messages of failed tasks are None: what is theirs goes with the job's folder.
        self._job.abort()


def _check_apart(names: Sequence[str]) -> None:
    """Unless spark.sql.caseSensitive is true, which sources are not told, Spark finds columns without regard to case, and
    whatever names one of two ends with AMBIGUOUS_REFERENCE."""
    known: Dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(f"features {other!r} and {name!r} differ only in case, and Spark does not tell such columns "
                             "apart; name those that you want by the option columns. To read both, name both there, and set "
                             "spark.sql.caseSensitive to true or give them other names by toDF(...)")


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "shardfeed"

    _writing: Sequence[str] = ("path", "compression", "level", "sync", "record")
    # What schema() has found. It is not called where the user gives a schema.
    _is_found = False  # whether all columns are features of the dataset
    _is_sampled = False  # see Field

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise ValueError('shardfeed: name the dataset: .load("out/train@16") or .save("out/new@8")')
        return path

    def _check_options(self, known: Sequence[str]) -> None:
        if "paths" in {name.lower() for name in self.options}:
            raise ValueError("shardfeed: load() takes one dataset; read several and join them by union()")
        for name in self.options:
            if name.lower() not in known:
                raise ValueError(f"shardfeed: there is no option {name!r} here; there are: {', '.join(known[1:])}")

    def _flag(self, name: str, default: str) -> bool:
        text = self.options.get(name, default).lower()
        if text not in ("true", "false"):
            raise ValueError(f"option {name} is 'true' or 'false', not {text!r}")
        return text == "true"

    def _skips_damaged(self) -> bool:
        text = self.options.get("on_error", "fail")
        if text not in ("fail", "skip"):
            raise ValueError(f"option on_error is 'fail' or 'skip', not {text!r}")
        return text == "skip"

    def _number(self, name: str, default: int, least: int) -> int:
        text = self.options.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
            raise ValueError(f"option {name} is a number from {least} on, not {text!r}")
        return int(text)

    def _records_are_raw(self) -> bool:
        record = self.options.get("record", "example")
        if record not in ("example", "raw"):
            raise ValueError(f"option record is 'example' or 'raw', not {record!r}")
        return record == "raw"

    def _writes_raw(self, schema: Any) -> bool:
        raw = self._records_are_raw()
        if raw and not _is_raw(schema):
            raise ValueError("record=raw writes the one column `record` of type binary, and the frame has "
                             f"{schema.simpleString()}")
        return raw

    def _fields(self) -> Optional[Tuple[Field, ...]]:
        raw = self._records_are_raw()
        names = self.options.get("columns")
        columns = None if names is None else [name.strip() for name in names.split(",")]
        if raw and columns is not None:
            raise ValueError("option columns: record=raw has the one column 'record', and takes no columns")
        twice = [name for i, name in enumerate(columns or ()) if columns and name in columns[:i]]
        if twice:
            raise ValueError(f"option columns: {twice[0]!r} appears twice")
        return columns_of([self._path()], columns, raw)

    def schema(self) -> Any:
        self._check_options(_READING)
        fields = self._fields()
        schema = _spark_schema(fields)
        if self.options.get("columns") is None:
            _check_apart(schema.names)
        self._is_found = True
        self._is_sampled = any(field.sampled for field in fields or ())
        if self._flag("places", "false"):
            for place, kind in _place_types().items():
                for name in schema.names:
                    if name.lower() == place:
                        raise ValueError(f"option places: it adds the column {place!r}, and the dataset has a feature "
                                         f"{name!r} itself, which Spark does not tell from it; name other columns by the "
                                         "option columns, or read it without places")
                schema.add(place, kind)
        return schema

    def reader(self, schema: Any) -> DataSourceReader:
        self._check_options(_READING)
        if self._flag("pushdown", "false"):
            raise ValueError("option pushdown: no filter can be pushed down, since neither a manifest nor an "
                             "index tells which records have which values; Spark filters the rows itself")
        raw = self._records_are_raw()
        text = self.options.get("split", "shard")
        match = re.fullmatch(r"(\d+)\s*(KiB|MiB|GiB)?", text)
        if text != "shard" and (match is None or int(match[1]) == 0):
            raise ValueError(f"option split is 'shard', a number of partitions or a size such as 64MiB, "
                             f"not {text!r}")
        if match is None:
            parts = splits(self._path())
        elif match[2]:
            parts = splits(self._path(), bytes=int(match[1]) * _UNITS[match[2]])
        else:
            parts = splits(self._path(), int(match[1]))
        columns: Optional[List[str]] = None
        of_records = schema
        if self._flag("places", "false"):
            columns = list(schema.names)
            of_records = _without_places(schema)
        fields: Optional[Tuple[Field, ...]] = None
        if not raw:
            fields = tuple(field._replace(sampled=self._is_sampled) for field in _fields_of_schema(of_records))
            if not self._is_found:
                check_case([self._path()], [field.name for field in fields])
        elif not _is_raw(of_records):
            raise ValueError("record=raw has the one column `record` of type binary, and the schema is "
                             f"{of_records.simpleString()}")
        return _Reader(parts, schema, fields,
                       self._number("rows_per_batch", 0, 1) or None, self._skips_damaged(), columns)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        self._check_options(self._writing)
        _check_written(schema)
        raw = self._writes_raw(schema)
        return _Writer(self._job(overwrite), raw)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from .streaming import StreamWriter
        self._check_options((*self._writing, *_OF_STREAMS))
        _check_written(schema)
        if overwrite:
            raise ValueError("shardfeed: a stream is written by outputMode 'append' or 'update': each micro-batch "
                             "becomes a dataset of its own, and 'complete' would replace them all")
        raw = self._writes_raw(schema)
        job = self._job(False)  # checks the name and the options
        job.abort()
        return StreamWriter(job._core.text, raw)

    def _job(self, overwrite: bool) -> sf.WriteJob:
        try:
            return sf.write_job(self._path(), overwrite=overwrite, sync=self._flag("sync", "true"),
                                compression=self.options.get("compression", "none"),
                                level=self._number("level", 6, 0))
        except FileExistsError as error:
            raise FileExistsError(str(error).replace("pass overwrite=True", 'write with .mode("overwrite")')) from None


def _freeze() -> None:
    """Spark's workers collect garbage after each task, and nearly all that they look through belongs to modules: in each
    of a task's two workers, it takes half as long as reading 250,000 rows. These objects are left out from now on."""
    import pyarrow  # noqa: F401  every task does
    gc.collect()
    gc.freeze()


if "SPARK_REUSE_WORKER" in os.environ:  # only Spark's workers have it, if they run more than one task
    _freeze()
