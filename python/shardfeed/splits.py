"""Pieces of a dataset for the tasks of a cluster's job: what Spark, Ray, Dask, Beam and others read."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any, Dict, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core
from .arguments import Size, checked, specs_of
from .command import Defect, VerifyReport
from .dataset import Dataset
from .features import FeatureLike, as_features, ragged
from .sources import read

Level = Literal["headers", "payload", "examples", "images"]


class Field(NamedTuple):
    """A column of Arrow."""

    name: str
    kind: str  # "int64", "float" or "bytes"
    width: int  # the length of lists: 0 for a single value, -1 for any
    # Whether all columns are those of records that were looked at; a record with another feature is then an error.
    sampled: bool = False


Columns = Union[Mapping[str, FeatureLike], Sequence[str], None]
_KINDS = {"int64": "int64", "float32": "float", "bytes": "bytes"}
_BATCH_BYTES = 64 << 20
_BATCH_ROWS = 8192


def fields_named(fields: Sequence[Field], names: Sequence[str]) -> Tuple[Field, ...]:
    """The fields of these names. If these are only some of them, records may have any other features."""
    known = {field.name: field for field in fields}
    sampled = len(names) == len(fields)
    return tuple(known[name]._replace(sampled=sampled and known[name].sampled) for name in names)


def _check_name(name: str) -> None:
    if "\0" in name:
        raise ValueError(f"feature {name!r}: names of Arrow's columns end at a NUL; name the columns that you want, "
                         "without this one")


def _refuse_kinds(specs: List[str], name: str, kind: str) -> None:
    """Raises the error for a feature of several kinds, which names a record of another kind than the first."""
    where = ""
    try:
        for _ in read(specs).parse({name: ragged("float32" if kind == "float" else kind)}).batch(_BATCH_ROWS):
            pass
    except ValueError as error:
        where = f": {error}"
    raise ValueError(f"{specs[0]}: feature {name!r} is of several kinds{where}; name other columns, or write the "
                     "records again with one kind") from None


def _fields_of(specs: List[str], wanted: Optional[Sequence[str]] = None) -> Tuple[Field, ...]:
    """The columns of all features of a dataset, or of the wanted ones that it has. A warning names features
    without a column."""
    records, features, sampled = _core.find_features(specs)
    fields: List[Field] = []
    for name, kind, is_list, having, least, most, mixed, declared in features:
        if wanted is not None and name not in wanted:
            continue
        _check_name(name)
        if is_list or kind == "none":
            why = ("is a feature list of SequenceExamples" if is_list
                   else "has no kind in any record that was looked at")
            warnings.warn(f"feature {name!r} {why}, and gets no column; name the columns that you "
                          "want", stacklevel=4)
        elif mixed:
            _refuse_kinds(specs, name, kind)
        else:
            # What is declared counts if all records that have the feature fit it.
            if declared > 0 and (having == 0 or least == most == declared):
                width = declared
            elif least == most == 1 or (having == 0 and declared == 0):
                width = 0
            else:
                width = -1
            fields.append(Field(name, kind, width, sampled))
    if not fields and wanted is None:
        raise ValueError(f"{specs[0]}: {records} records tell no features; name the columns with their "
                         "types, or read the records themselves")
    return tuple(fields)


def _check_once(names: Sequence[str]) -> None:
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"feature {twice[0]!r} appears twice")


def check_case(specs: List[str], names: Sequence[str]) -> None:
    """ValueError: one of the names differs from a feature only in case, and the dataset has no feature of that name: all
    its values would be null. A name that is like none may be that of a feature which no record has here."""
    try:
        there = {feature[0] for feature in _core.find_features(specs)[1]}
    except (OSError, RuntimeError, ValueError):
        return  # reading says what is wrong, or leaves it out
    for name in names:
        near = [] if name in there else sorted(one for one in there if one.casefold() == name.casefold())
        if near:
            raise ValueError(f"there is no feature {name!r}; there is {near[0]!r}")


def _fields_from(columns: Union[Mapping[str, FeatureLike], Sequence[str]],
                 specs: List[str]) -> Tuple[Field, ...]:
    if not isinstance(columns, Mapping):
        if isinstance(columns, str):
            raise TypeError(f"columns must be names or {{name: type}}, not {columns!r}")
        _check_once(columns)
        known = {field.name: field._replace(sampled=False) for field in _fields_of(specs, columns)}
        unknown = [name for name in columns if name not in known]
        if unknown:
            records, features, sampled = _core.find_features(specs)
            there = ", ".join(sorted(feature[0] for feature in features))
            if sampled:
                raise ValueError(
                    f"none of the {records} records that were looked at, as there is no manifest, has a feature "
                    f"{unknown[0]!r}; they have: {there}; name the columns with their types, such as "
                    f"{{{unknown[0]!r}: sf.int64}} (in Spark: .schema(\"x bigint, y float\")), or write the manifest "
                    "with sf.index(..., manifest=True)")
            raise ValueError(f"there is no feature {unknown[0]!r}; there are: {there}")
        return tuple(known[name] for name in columns)
    fields = []
    for name, feature in as_features(columns, "columns").items():
        _check_name(name)
        if feature.dtype not in _KINDS or feature.raw or len(feature.shape) > 1 or (
                feature.is_ragged and feature.shape):
            raise ValueError(f"column {name!r}: expected int64, float32 or bytes, a list of one of "
                             "these, or a list of a fixed length (sf.fixed(50), sf.var(sf.int64))")
        width = -1 if feature.is_ragged else feature.shape[0] if feature.shape else 0
        fields.append(Field(name, _KINDS[feature.dtype], width))
    check_case(specs, list(columns))
    return tuple(fields)


def check_options(options: Mapping[str, Any]) -> None:
    """TypeError: one of these is no option with which sf.read reads a split."""
    known = set(inspect.signature(read).parameters) - {"spec", "records", "batch", "end"}
    for name in options:
        if name not in known:
            raise TypeError(f"unexpected option {name!r}; there are: {', '.join(sorted(known))}")


def columns_of(specs: List[str], columns: Columns, record: bool, some: bool = False) -> Optional[Tuple[Field, ...]]:
    """The columns that are asked for; None: the records themselves. `some`: rows without columns are lost, so
    they are refused."""
    if some and columns is not None and not columns:
        raise ValueError("columns: name at least one column")
    if record and columns is not None:
        raise ValueError("record=True has the one column 'record', and takes no columns")
    if record:
        return None
    return _fields_of(specs) if columns is None else _fields_from(columns, specs)


def arrow_schema(fields: Optional[Tuple[Field, ...]]) -> Any:
    """The schema of the batches, as pyarrow has it."""
    import pyarrow as pa
    if fields is None:
        return pa.schema([pa.field("record", pa.binary(), nullable=False)])
    types = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}
    return pa.schema([
        (field.name, types[field.kind] if field.width == 0 else pa.list_(types[field.kind], field.width))
        for field in fields])


class Split(NamedTuple):
    """A piece of a dataset: whole shards, or consecutive records of consecutive shards. A value
    that can be pickled: it holds no open files, and reading it opens only its own shards.

    - `paths`: of its shards.
    - `sizes`: of their files in bytes, as they were when the dataset was split.
    - `digests`: of their records, if indexes or the manifest have them.
    - `first`, `records`: it has `records` records, from number `first` of its shards on; None:
      all of whole shards, without an index that counts them.
    - `bytes`: approximate number of bytes of the files that it reads.
    - `specs`: of the whole dataset."""

    number: int
    paths: Tuple[str, ...]
    sizes: Tuple[int, ...]
    digests: Optional[Tuple[int, ...]]
    first: int
    records: Optional[int]
    bytes: int
    specs: Tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether it is known to be whole shards."""
        return self.records is None

    def read(self, **options: Any) -> Dataset:
        """Returns its records as a chain, in order; `options` are those of sf.read.

        RuntimeError: a shard has changed since the dataset was split, as its size tells, or the digest of
        its records if that is known."""
        if "records" in options:
            raise TypeError("read: a split has its own records; take and skip choose among them")
        ranges = None if self.records is None else [(self.first, self.records)]
        ds = read(list(self.paths), records=ranges, **options)
        table = ds._records
        digests = self.digests or (None,) * len(self.paths)
        for path, size, digest, shard in zip(self.paths, self.sizes, digests, table.shards()):
            if size != shard[2] or digest not in (None, shard[4]):
                raise RuntimeError(f"{path}: the shard has changed since the dataset was split; "
                                   "split it again")
        return ds

    @checked
    def arrow(self, columns: Columns = None, *,
              record: bool = False, rows: Optional[Size] = None, **options: Any) -> Any:
        """Returns its records as record batches of Arrow: an iterator of batches
        (`__arrow_c_array__`), and a stream (`__arrow_c_stream__`), which pyarrow, polars, duckdb
        and pandas read without pyarrow being needed here.

        - `columns`: names, or {name: type}: sf.int64, sf.float32, sf.bytes, sf.fixed(n, ...) for lists of n, sf.var(...) for lists of any
          length. By default all features, as the manifest has them or, without one, the records: all of them up to 64 MiB, otherwise
          those at the beginnings of up to 64 shards. A record with another feature is then an error that names it. Types are those that are stored; bytes stay binary. A record without the feature is a null.
          {name: type} may name a feature that no record has: all its values are null. If there is one that differs from it
          only in case, this is an error.
        - `record`: the records themselves as the one column "record", binary; without `columns`.
        - `rows`: the maximum number of rows in a batch. Batches also end at 64 MiB.

        A record that does not fit raises ValueError; the message names shard and record."""
        return self.batches(columns_of(list(self.specs or self.paths), columns, record), rows, **options)

    @checked
    def batches(self, fields: Optional[Sequence[Field]], rows: Optional[Size] = None,
                **options: Any) -> Any:
        """`arrow` with columns that `columns_of` has found; of whole datasets, which have them in
        common."""
        for name in ("batch", "end"):
            if name in options:
                raise TypeError(f"{name}: all records of a split are read, so there are no rounds of batches to complete; "
                                "`rows` limits those of a batch")
        return self._batches(self.read(**options), fields, rows)

    def _batches(self, ds: Dataset, fields: Optional[Sequence[Field]], rows: Optional[Size]) -> Any:
        table = ds._records
        total = len(table)
        mean = max(1, sum(s[3] for s in table.shards()) // max(1, total))
        size = min(rows or _BATCH_ROWS, max(1, _BATCH_BYTES // mean))
        first = self.first

        def place(row: int) -> str:
            path, number, offset = table.place(first + row)
            return f"{path}: record {number} at byte {offset}"

        return _core.ArrowBatches(iter(ds.batch(size, drop_remainder=False)), list(fields or ()),
                                  fields is None, _BATCH_BYTES, place)


PLACE_COLUMNS = ("_shard", "_record")


def batches_with_places(split: Split, fields: Optional[Sequence[Field]], rows: Optional[Size] = None,
                        **options: Any) -> Iterator[Any]:
    """The batches of a split as pyarrow's, with two more columns: `_shard`, the path of the shard that a
    record is in, and `_record`, its number there, from 0 on."""
    import numpy as np
    import pyarrow as pa
    ds = split.read(**options)
    shards = ds._records.shards()
    paths = pa.array([shard[0] for shard in shards], pa.string())
    begins = np.cumsum([0] + [shard[1] for shard in shards])
    for batch in split._batches(ds, fields, rows):
        numbers = np.asarray(batch.numbers, np.int64) + split.first
        shard_of = np.searchsorted(begins, numbers, side="right") - 1
        made = pa.record_batch(batch)
        places = [paths.take(pa.array(shard_of)), pa.array(numbers - begins[shard_of])]
        schema = pa.schema([*made.schema, *(pa.field(name, place.type) for name, place in zip(PLACE_COLUMNS, places))])
        yield pa.RecordBatch.from_arrays([*made.columns, *places], schema=schema)


def tables_of(split: Split, fields: Optional[Tuple[Field, ...]], options: Dict[str, Any]) -> Iterator[Any]:
    """The batches of a split as pyarrow's tables."""
    import pyarrow as pa
    reader = pa.RecordBatchReader.from_stream(split.batches(fields, **options))
    yield from (pa.Table.from_batches([batch]) for batch in reader)


def _cut(specs: List[str], shards: List[Tuple[str, int, int, int, int]], ends: List[int]) -> Iterator[Split]:
    """Splits that end before these record numbers. `shards`: see Records.shards of the core."""
    begins = [0]
    for _, records, *_ in shards:
        begins.append(begins[-1] + records)
    begin, shard = 0, 0
    for number, end in enumerate(ends):
        while shard + 1 < len(shards) and begins[shard + 1] <= begin:
            shard += 1
        last = shard
        while last + 1 < len(shards) and begins[last + 1] < end:
            last += 1
        mine = shards[shard:last + 1]
        share = 0
        for i in range(shard, last + 1):
            records = shards[i][1]
            inside = min(end, begins[i + 1]) - max(begin, begins[i])
            share += shards[i][2] * inside // records if records else 0
        yield Split(number, tuple(s[0] for s in mine), tuple(s[2] for s in mine),
                    tuple(s[4] for s in mine), begin - begins[shard], end - begin, share, tuple(specs))
        begin = end


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


@checked
def splits(spec: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]], n: Optional[Size] = None,
           *, bytes: Optional[Size] = None) -> List[Split]:
    """Divides a dataset among the tasks of a job. `spec` is as for sf.read; it is resolved once,
    here.

    - by default: a split for each shard; no index is needed.
    - `n`: this number of splits of consecutive records, of sizes as equal as possible; this needs
      indexes, which are built if they are missing. There are fewer splits if there are fewer
      records.
    - `bytes`: splits of about this number of bytes of files, in the same way.

    Together the splits have every record once, in order."""
    if n is not None and bytes is not None:
        raise ValueError("splits: give n or bytes, not both")
    specs = [_absolute(one) for one in specs_of(spec)]
    if n is None and bytes is None:
        found = [(_absolute(path), digest) for path, digest in _core.resolve_shards(specs)]
        paths = [path for path, _ in found]
        local = not any("://" in path for path in paths)
        if local:
            sizes = [os.path.getsize(path) for path in paths]
        else:
            sizes = [shard[2] for shard in read(specs)._records.shards()]
        return [Split(i, (path,), (size,), None if digest is None else (digest,), 0, None, size, tuple(specs))
                for i, ((path, digest), size) in enumerate(zip(found, sizes))]
    ds = read(specs)
    table = ds._records
    shards = [(_absolute(path), *rest) for path, *rest in table.shards()]
    total = len(table)
    if bytes is not None:
        n = max(1, -(-sum(shard[2] for shard in shards) // bytes))
    assert n is not None
    n = max(1, min(n, total))
    return list(_cut(specs, shards, [total * (i + 1) // n for i in range(n)]))


@checked
def verify_split(split: Split, *, level: Level = "payload") -> List[str]:
    """Checks the shards of a split as `sf.verify` does, and returns a report on each, a text for
    `merge_reports`. The split must be of whole shards."""
    if not split.whole:
        raise ValueError("verify_split: expected a split of whole shards, as splits(spec) gives")
    return [_core.verify_shard(path, level) for path in split.paths]


@checked
def merge_reports(spec: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]],
                  reports: Sequence[Union[str, Sequence[str]]], *, level: Level = "payload") -> VerifyReport:
    """Merges the reports on all shards, in the order of the splits (or the lists that verify_split
    returns), into the report that `sf.verify` would have given, except for the index pack of files
    that have no set of shards' names (docs/index_pack.md). The manifest is compared with them.
    ValueError: `level` is not that of the reports."""
    specs = specs_of(spec)
    texts = [text for one in reports for text in ([one] if isinstance(one, str) else one)]
    merged = _core.merge_reports(specs, texts, level)
    return VerifyReport(merged["shards"], merged["records"], merged["bytes"], merged["num_defects"],
                        [Defect(*d) for d in merged["defects"]], merged["notes"])


@checked
def index_shard(path: Union[str, os.PathLike]) -> int:
    """Writes the index beside one shard, and returns the number of its records."""
    return _core.index_shard(os.fspath(path))
