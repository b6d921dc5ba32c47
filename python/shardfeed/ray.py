"""Datasets as Ray's, and Ray's as datasets. Needs ray[data] and pyarrow."""

from __future__ import annotations

import copy
import os
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Union

from .arguments import needs

try:
    import ray.data
except ModuleNotFoundError as error:
    raise needs(error, "Ray", "ray") from None
from ray.data import Datasink, Datasource, ReadTask
from ray.data.block import BlockMetadata

from .arguments import Size, checked, shown, specs_of
from .dataset import Dataset
from .jobs import WriteJob, check_raw, with_empty_parts, write_job, write_raw
from .ranks import rank_and_world
from .ray_workers import RemoteDataset, RemoteIterator, workers
from .splits import Columns, Split, arrow_schema, check_options, columns_of, fields_named, splits, tables_of

__all__ = ["RemoteDataset", "RemoteIterator", "feed", "read", "workers", "write"]

PathLike = Union[str, os.PathLike]

# Ray gathers 128 MiB of what a task reads before any of it is written, so that reading and writing take turns, and for
# the first second of a job it runs one task at a time: a second thread makes the writing shorter.
_WRITER_THREADS = 2


class _Source(Datasource):
    def __init__(self, parts: Sequence[Split], fields: Any, options: Dict[str, Any]):
        super().__init__()
        self._parts = parts
        self._fields = fields
        self._options = options
        self._projection_map: Optional[Dict[str, str]] = None  # Ray's

    def supports_projection_pushdown(self) -> bool:
        return self._fields is not None

    def apply_projection(self, projection_map: Optional[Mapping[str, str]]) -> "_Source":
        """The same source with the columns alone that later steps use: others are not parsed."""
        known = [field.name for field in self._fields]
        names = known if projection_map is None else [name for name in projection_map if name in known]
        # Rows without columns would be lost.
        names = names or known[:1]
        clone = copy.copy(self)
        clone._fields = fields_named(self._fields, names)
        clone._projection_map = {name: name for name in names}
        return clone

    def get_name(self) -> str:
        return "shardfeed"

    def estimate_inmemory_data_size(self) -> Optional[int]:
        return sum(split.bytes for split in self._parts)

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> Any:
        # Ray calls this several times for a job.
        schema = arrow_schema(self._fields)
        tasks = []
        for split in self._parts:
            metadata = BlockMetadata(num_rows=split.records, size_bytes=split.bytes,
                                     input_files=list(split.paths), exec_stats=None)
            tasks.append(ReadTask(lambda split=split: tables_of(split, self._fields, self._options),
                                  metadata, schema=schema))
        return tasks


@checked
def read(spec: Union[PathLike, Sequence[PathLike]], columns: Columns = None, *,
         record: bool = False, n: Optional[Size] = None, bytes: Optional[Size] = None,
         **options: Any) -> Any:
    """Returns the dataset as a ray.data.Dataset of Arrow blocks, a read task for each split: `n`
    and `bytes` are those of sf.splits, `columns` and `record` those of Split.arrow, other options
    those of sf.read.

    Steps should work on Arrow's batches, `map_batches(fn, batch_format="pyarrow")`: see write. Columns that Ray
    knows to be unused, as after select_columns, are not parsed.

    Rows keep the dataset's order: this sets preserve_order of Ray's current DataContext, as
    datasets that are written again need it."""
    check_options(options)
    specs = specs_of(spec)
    fields = columns_of(specs, columns, record, some=True)
    parts = splits(specs, n, bytes=bytes)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # Otherwise Ray cuts the output of a few tasks into hundreds of blocks.
    return ray.data.read_datasource(_Source(parts, fields, options), override_num_blocks=len(parts))


class _MoreTasks(RuntimeError):
    """Ray runs more tasks than the dataset has shards."""


def _one_task_per_split(dataset: Any, shards: int) -> bool:
    """Whether Ray can write what a task of ours has read in the same task, without moving blocks, and has a task for
    each shard then: after our source, only steps that Ray fuses with it. Looks at Ray's logical plan, which is no
    public interface: False if it is another than that of Ray 2.60."""
    try:
        step = dataset._logical_plan.dag
        while type(step).__name__ != "Read":
            alone = type(step).__name__ in ("MapBatches", "MapRows", "FlatMap", "Filter", "Project")
            plain = not step.ray_remote_args and step.min_rows_per_bundled_input is None
            if not alone or not plain or step.compute != ray.data.TaskPoolStrategy():
                return False
            [step] = step.input_dependencies
        return isinstance(step.datasource, _Source) and len(step.datasource._parts) == shards
    except (AttributeError, ValueError):
        return False


def _check_records(schema: Any) -> None:
    """ValueError: these are not the columns of records as they are. NumPy's batches make objects of bytes."""
    import pyarrow as pa
    kinds = (pa.binary(), pa.large_binary())
    check_raw(schema.names, all(kind in kinds or kind in (object, bytes) for kind in schema.types))


class _Sink(Datasink):
    def __init__(self, job: WriteJob, made_by: Optional[Mapping[str, str]], record: bool):
        self._job = job
        self._record = record
        self._made_by = made_by
        self.report: Optional[Dict[str, int]] = None

    def get_name(self) -> str:
        return "shardfeed"

    def on_write_start(self, *_: Any, **__: Any) -> None:
        pass

    def write(self, blocks: Iterable[Any], ctx: Any) -> str:
        from ray.data.block import BlockAccessor
        from ray.data.extensions import ArrowPythonObjectType
        if ctx.task_idx >= len(self._job):
            raise _MoreTasks
        with self._job.shard(ctx.task_idx, threads=_WRITER_THREADS) as writer:
            for block in blocks:
                table = BlockAccessor.for_block(block).to_arrow()
                if self._record:
                    if table.num_rows:  # an empty block may have no columns
                        _check_records(table.schema)
                        write_raw(writer, table.column("record").to_pylist())
                    continue
                for field in table.schema:
                    if isinstance(field.type, ArrowPythonObjectType):
                        raise TypeError(f"column {field.name!r} holds Python objects, which Ray keeps as pickles; make "
                                        "its values numbers, bytes, str or lists of one type and length")
                writer.write_batch(table)
        return writer.message

    def on_write_complete(self, write_result: Any) -> None:
        # A block without rows gets no task.
        messages = with_empty_parts(self._job, write_result.write_returns)
        self.report = self._job.commit(messages, made_by=self._made_by)

    def on_write_failed(self, error: Exception) -> None:
        self._job.abort()


@checked
def write(dataset: Any, spec: PathLike, *, record: bool = False, made_by: Optional[Mapping[str, str]] = None,
          **options: Any) -> Dict[str, int]:
    """Writes the rows of a ray.data.Dataset as tf.train.Examples, and returns {"shards",
    "records", "bytes"}. What read() has made with as many splits as `spec` has shards ("out/new@8"), followed
    by nothing but steps of single rows or batches, is written by the tasks that read it: split i becomes
    shard i. All else is repartitioned to as many blocks, and block i becomes shard i. Options are those of
    sf.write_job.

    - `record`: the rows are records as they are, as read(record=True) has them: the one binary column
      "record", whose bytes are written unchanged. Otherwise they would become Examples with a feature of that
      name.

    A step between read and write should work on Arrow's batches, `ds.map_batches(fn, batch_format="pyarrow")`: in
    batches of NumPy, which are Ray's default, a column of integers with nulls becomes floats with NaN, which loses
    the digits of large integers and gives records a feature that they lack.

    Whatever happens to workers, the dataset appears as a whole, or does not appear."""
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(f"write: expected a ray.data.Dataset, not {shown(dataset)}")
    if record:
        schema = dataset.schema(fetch_if_missing=False)  # None if it is known only when the dataset has been run
        if schema is not None:
            _check_records(schema)

    def run(job: WriteJob, blocks: Any) -> Dict[str, int]:
        try:
            sink = _Sink(job, made_by, record)
            blocks.write_datasink(sink)
            assert sink.report is not None
            return sink.report
        except BaseException as error:
            job._abort_after(error)
            raise

    job = write_job(spec, **options)
    if _one_task_per_split(dataset, len(job)):
        try:
            return run(job, dataset)
        except _MoreTasks:
            job = write_job(spec, **options)
    return run(job, dataset.repartition(len(job)))


@checked
def feed(ds: Dataset) -> Dataset:
    """Returns this Ray Train worker's share of a chain: `ds.shard()` with the rank and the number of
    workers of its context. No coordinator is needed; the order, the states and the number of batches
    are those of any other job with the same number of ranks.

    RuntimeError: this is not a worker of Ray Train."""
    import ray.train
    try:
        world = ray.train.get_context().get_world_size()
    except Exception:
        world = None
    if world is None:
        raise RuntimeError("feed: this is not a worker of Ray Train; call it in the training function")
    return ds.shard(*rank_and_world())
