"""Tables of other libraries as sources of chains, and as input of writers: tables of Arrow, pandas and
polars, and datasets of Hugging Face. It needs pyarrow, which is imported by the first call."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import functions
from .arguments import Count, Seed, Size, checked, checked_methods, shown, specs_of
from .dataset import Dataset, check_part
from .exact import exact_array
from .globs import expanded
from .ragged import Ragged
from .ranks import part_of
from .sources import from_arrays

_ROWS = 1000  # rows of a Hugging Face dataset that are in memory while it is written

Columns = List[Tuple[str, Any]]  # names, and pyarrow's (chunked) arrays


def _pyarrow(function: str) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ModuleNotFoundError(f"{function} takes pyarrow, which cannot be imported ({error}); install it: "
                                  "pip install pyarrow", name="pyarrow") from None
    return pyarrow


def _is(data: Any, module: str, *names: str) -> bool:
    """Whether `data` is of one of the classes of a module, which is not imported for that."""
    found = sys.modules.get(module)
    classes = [getattr(found, name, None) for name in names]
    return isinstance(data, tuple(one for one in classes if isinstance(one, type)))


# ---- Columns of Arrow


def _columns_of_pandas(function: str, frame: Any) -> Columns:
    """The columns of a frame of pandas, without its index; NaN and None are nulls, as for pandas."""
    pa = _pyarrow(function)
    columns: Columns = []
    for i, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise TypeError(f"{function}: the name of a column must be a str, not {shown(name)}; rename it: "
                            "frame.rename(columns=str)")
        try:
            columns.append((name, _plain(pa, pa.array(frame.iloc[:, i], from_pandas=True))))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"column {name!r}: its objects are not of one type that Arrow has ({error}); make "
                            f"them so, or leave it out: frame.drop(columns={name!r})") from None
    return columns


def _columns_of_polars(function: str, frame: Any) -> Columns:
    pa = _pyarrow(function)
    columns: Columns = []
    for name in frame.columns:
        try:
            _check_polars(frame, name)
            columns.append((name, pa.table(frame.select(name)).column(0)))
        except BaseException as error:  # polars panics, which is no Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise TypeError(f"column {name!r}: Arrow has no counterpart of polars' {frame.schema[name]} "
                            f"({error}); cast it, or leave it out: frame.drop({name!r})") from None
    return columns


def _check_polars(frame: Any, name: str) -> None:
    import polars
    if frame.schema[name] == polars.Object:
        raise TypeError("a column of Python's objects, of which Arrow would have the pointers")


def _columns_of_hf(table: Any, features: Mapping[str, Any]) -> Columns:
    """The columns of a table of Hugging Face's: images and sounds as their encoded bytes, arrays
    of a shape as such."""
    import pyarrow as pa
    from datasets.table import embed_table_storage
    encoded = {i for i, field in enumerate(table.schema)
               if hasattr(features[field.name], "decode_example") and pa.types.is_struct(field.type)}
    if encoded and table.num_rows > 0:
        # What has only a path is read from there.
        table = embed_table_storage(table)
    columns: Columns = []
    for i, name in enumerate(table.column_names):
        column = table.column(i)
        columns.append((name, pa.compute.struct_field(column, "bytes") if i in encoded else column))
    return columns


def _columns(function: str, data: Any) -> Columns:
    pa = _pyarrow(function)
    if _is(data, "pandas", "DataFrame"):
        return _columns_of_pandas(function, data)
    if _is(data, "polars", "DataFrame"):
        return _columns_of_polars(function, data)
    if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
        raise TypeError(f"{function}: data must have __arrow_c_stream__, as tables of pyarrow, polars and pandas "
                        f"have, not be {shown(data)}")
    try:
        table = pa.table(data)
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise ValueError(f"{function}: the data cannot be read as a table of Arrow: {error}") from None
    return list(zip(table.column_names, table.columns))


# ---- Arrow's values as NumPy's


def _plain(pa: Any, column: Any) -> Any:
    """The column as one array, with categories as their values. Its strings and lists have 64-bit offsets,
    since 32 bits may not suffice for all chunks together, and few of Arrow's functions accept polars'
    views."""
    kind = column.type
    if not pa.types.is_dictionary(kind):
        column = column if _large(pa, kind) == kind else column.cast(_large(pa, kind))
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(kind):
        array = array.dictionary.cast(_large(pa, kind.value_type)).take(array.indices)
    return array


def _large(pa: Any, kind: Any) -> Any:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_large(pa, kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_large(pa, kind.value_type), kind.list_size)
    views = [getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name)]
    return pa.large_binary() if kind in (pa.string(), pa.large_string(), pa.binary(), *views) else kind


class _Values:
    """The conversion of one column."""

    def __init__(self, pa: Any, name: str, first_row: int = 0):
        self.pa = pa
        self.name = name
        self.first_row = first_row  # the number of the first row, for messages

    def refuse(self, what: str, kind: Callable[[str], Exception] = ValueError) -> Exception:
        return kind(f"column {self.name!r}: {what}")

    def filled(self, array: Any, default: Any, given: bool) -> Any:
        """The array with the default in the place of missing values."""
        if array.null_count == 0:
            return array
        if self.pa.types.is_null(array.type):
            raise self.refused(array.type)
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        if not given:
            raise self.refuse(f"row {self.first_row + row} has no value (null, None, or NaN in pandas), and a chain has no place "
                              f"for missing values; name what it gets, defaults={{{self.name!r}: ...}}, or drop "
                              "such rows")
        kind = leaf = array.type
        while hasattr(leaf, "value_type"):
            leaf = leaf.value_type
        pa = self.pa
        try:
            value = default
            if default is not None and (pa.types.is_integer(leaf) or pa.types.is_floating(leaf)):
                # Arrow itself would cut 1.5 to an integer.
                dtype = "int64" if leaf in (pa.uint32(), pa.uint64()) else np.dtype(leaf.to_pandas_dtype()).name
                value = exact_array(default, dtype, "").tolist()
            scalar = pa.scalar(value, kind)
            if not scalar.is_valid:
                raise ValueError("it is itself a missing value")
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            why = str(error).removeprefix("column '': ")
            raise self.refuse(f"the default {shown(default)} is not a value of its type {kind}: {why}") from None
        return pa.compute.coalesce(array, scalar)

    def numbers(self, array: Any) -> np.ndarray:
        """An array of numbers that has no nulls."""
        pa, kind = self.pa, array.type
        if pa.types.is_boolean(kind):
            return np.asarray(array.cast(pa.uint8()))
        if pa.types.is_uint32(kind):  # chains have no uint32 and no uint64
            array = array.cast(pa.int64())
        elif pa.types.is_uint64(kind):
            values = array.to_numpy(zero_copy_only=False)
            beyond = np.flatnonzero(values > np.iinfo(np.int64).max)
            if beyond.size:
                raise self.refuse(f"{values[beyond[0]]} is out of the range of int64; cast it to float64, or to "
                                  "strings")
            return values.astype(np.int64)
        return array.to_numpy(zero_copy_only=False)

    def elements(self, array: Any, within: str = "") -> Any:
        """Numbers as an array, strings as one of bytes, and lists of a fixed length as one of more dimensions."""
        pa, kind = self.pa, array.type
        types = pa.types
        if within and array.null_count:
            raise self.refuse(f"a value within {within} is missing, and lists have no place for missing values; "
                              "fill it, or leave out such rows")
        if types.is_fixed_size_list(kind):
            # flatten() respects the offset, and leaves out the values of nulls, of which there are none.
            inner = self.elements(array.flatten(), "a list")
            return inner.reshape(len(array), kind.list_size, *inner.shape[1:])
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            return self.numbers(array)
        if types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            # A list without elements would not tell its type.
            found = np.empty(len(array), object)
            found[:] = array.cast(pa.large_binary()).to_pylist()
            return found
        raise self.refused(kind)

    def refused(self, kind: Any) -> Exception:
        types = self.pa.types
        remedy = "cast it to integers, floats, strings, or lists of one of these, or leave it out"
        if isinstance(kind, self.pa.BaseExtensionType):
            remedy = f"cast it to its storage, {kind.storage_type}, if that is what it should be"
        elif types.is_temporal(kind):
            remedy = ("cast it to integers of a unit that you choose (int64 of a timestamp[us] are microseconds "
                      "since 1970), or to strings")
        elif types.is_decimal(kind):
            remedy = "cast it to float64 or to strings"
        elif types.is_struct(kind):
            remedy = "make its fields columns (flatten in pyarrow and datasets, unnest in polars), or leave it out"
        elif types.is_null(kind):
            remedy = "it has no value in any row; cast it to a type, or leave it out"
        elif types.is_nested(kind):
            remedy = "make it a list of numbers or strings, or leave it out"
        return self.refuse(f"chains have no counterpart of Arrow's type {kind}; {remedy}", TypeError)

    def value(self, column: Any, default: Any, given: bool) -> Any:
        """What from_arrays takes."""
        pa = self.pa
        array = _plain(pa, column)
        shape = None
        if isinstance(array, pa.ExtensionArray):
            shape = getattr(array.type, "shape", None)  # tensors of pyarrow and of datasets have one
            order = getattr(array.type, "permutation", None)
            if shape is None or None in shape or (order is not None and list(order) != sorted(order)):
                raise self.refused(array.type)
            array = _plain(pa, array.storage)
        array = self.filled(array, default, given)
        if shape is not None:
            return self.tensors(array, tuple(shape))
        kind = array.type
        if not pa.types.is_large_list(kind):
            return self.elements(array)
        if pa.types.is_large_list(kind.value_type):
            raise self.refused(column.type)
        splits = np.asarray(array.offsets, np.int64)
        values = self.elements(array.values.slice(splits[0], splits[-1] - splits[0]), "a list")
        return Ragged(values, splits - splits[0])

    def tensors(self, array: Any, shape: Tuple[int, ...]) -> np.ndarray:
        """Arrays of this shape, of lists of lists whose lengths nobody has checked."""
        count = len(array)
        rows = np.arange(count)  # the row of each list of the level
        depth, kind = 0, array.type
        while hasattr(kind, "value_type"):
            depth, kind = depth + 1, kind.value_type
        # pyarrow's tensors are stored as flat lists.
        for length in shape if depth == len(shape) else (math.prod(shape),):
            if array.null_count:
                row = rows[np.flatnonzero(np.asarray(array.is_null()))[0]]
                raise self.refuse(f"row {self.first_row + row} lacks a part of its array of shape {shape}; fill it, or leave out "
                                  "such rows")
            if self.pa.types.is_fixed_size_list(array.type):
                lengths = np.full(len(array), array.type.list_size)
            else:
                lengths = np.diff(np.asarray(array.offsets, np.int64))
            wrong = np.flatnonzero(lengths != length)
            if wrong.size:
                raise self.refuse(f"row {self.first_row + rows[wrong[0]]} has a list of {lengths[wrong[0]]} values where the arrays, "
                                  f"of shape {shape}, have {length}")
            rows = np.repeat(rows, length)
            array = array.flatten()
        return self.elements(array, "an array").reshape(count, *shape)


def _check_names(function: str, names: List[str], defaults: Mapping[str, Any]) -> None:
    if not names:
        raise ValueError(f"{function}: there are no columns")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{function}: column {name!r} appears {names.count(name)} times; rename one")
    for name in defaults:
        if name not in names:
            raise ValueError(f"{function}: defaults names {name!r}, and the columns are: {', '.join(names)}")


def _chain(function: str, columns: Columns, defaults: Optional[Mapping[str, Any]]) -> Dataset:
    pa = _pyarrow(function)
    defaults = defaults or {}
    _check_names(function, [name for name, _ in columns], defaults)
    return from_arrays({name: _Values(pa, name).value(column, defaults.get(name), name in defaults)
                        for name, column in columns})


# ---- Sources


@checked
def from_arrow(data: Any, *, defaults: Optional[Mapping[str, Any]] = None) -> Dataset:
    """Delivers the rows of data of Arrow: a table, a record batch or a stream of pyarrow, polars, duckdb,
    pandas and others (anything with `__arrow_c_stream__` or `__arrow_c_array__`). It is held in memory, and
    the chain is one of from_arrays: its states, order and pickles are the same.

    | Arrow | column |
    | --- | --- |
    | int8 to int64, uint8, uint16, float16 to float64 | the same type |
    | bool; uint32, uint64 | uint8; int64 |
    | strings and binaries | bytes (UTF-8) |
    | dictionaries, which are categories | their values |
    | lists of a fixed length, and tensors | arrays [rows, length...] |
    | other lists | Ragged |

    A chain has no place for missing values: `defaults`, {column: value}, says what they get; for a list, a list.

    ValueError: a value is missing and the column has no default, or an integer is out of int64's range.
    TypeError: a column is of another type (times, decimals, structs, lists of lists), or `data` is not Arrow
    data. Messages name the column and the remedy. ModuleNotFoundError: pyarrow is not installed."""
    return _chain("from_arrow", _columns("from_arrow", data), defaults)


Paths = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]


def _files(function: str, paths: Paths) -> List[str]:
    """Files of Parquet, with braces and globs expanded. pyarrow must be installed."""
    _pyarrow(function)
    found = expanded(specs_of(paths))
    if not found:
        raise ValueError(f"{function}: expected at least one path")
    return found


class _GroupRows:
    """Reads the slices of row groups that the rows of a batch name."""

    def __init__(self, groups: Sequence[Any], names: List[str], defaults: Mapping[str, Any]):
        self.groups = list(groups)
        self.names = names
        self.defaults = dict(defaults)

    def __call__(self, batch: Mapping[str, Any]) -> Dict[str, Any]:
        from .tables.arrow_files import read_groups
        pa = _pyarrow("from_parquet")
        groups = self.groups[int(batch["item"][0])]
        begin, end = int(batch["begin"][0]), int(batch["end"][0])
        table = read_groups(groups, self.names).slice(begin, end - begin)
        try:
            return {name: _Values(pa, name, begin).value(table.column(name), self.defaults.get(name),
                                                         name in self.defaults) for name in self.names}
        except (TypeError, ValueError) as error:
            raise type(error)(f"{groups.path}, row groups {groups.first} to {groups.end - 1}: {error}") from None


# How many groups' rows a shuffle of row groups holds unless it is told.
_SHUFFLED_GROUPS = 8


class _GroupOrder(NamedTuple):
    """How a chain reads row groups."""

    read: _GroupRows
    version: str  # identifies the files
    outputs: Any = None  # the columns
    seed: Optional[int] = None
    window: int = 0
    part: Tuple[Optional[int], Optional[int]] = (0, 1)  # rank and world; None: found when the chain runs

    def slices(self) -> Dataset:
        sizes = [groups.rows for groups in self.read.groups]
        text = f"from_parquet({len(sizes)} groups)"
        if self.seed is not None:
            text += f".shuffle({self.seed})"
        if self.part != (0, 1):
            text += ".shard({}, {})".format(*self.part) if self.part[0] is not None else ".shard()"
        return Dataset("slices", (sizes, self.seed, *self.part), [], text).batch(1)

    def chain(self) -> Dataset:
        call = functions.BatchFunction(self.read, None, self.outputs, None)
        batches = self.slices()._then("map_batch", self.outputs, call, True, self.version, text="map(read, batched=True)")
        rows = batches.unbatch()
        rank, world = self.part
        if rank is not None and world:
            begin, end = (sum(groups.rows for groups in self.read.groups) * place // world for place in (rank, rank + 1))
            rows = rows.assert_cardinality(end - begin)
        return rows if self.seed is None or self.window == 1 else rows.shuffle(self.seed, self.window)


@checked_methods
class _RowGroups(Dataset):
    """The rows of row groups. Directly after from_parquet, shuffle and shard order and divide the groups."""

    def __init__(self, order: _GroupOrder, options: Mapping[str, Any]):
        chain = order.chain()
        super().__init__(chain._method, chain._arguments, chain._inputs, chain._text, chain._structure, dict(options))
        self._order = order

    def with_options(self, **options: Any) -> Dataset:
        return _RowGroups(self._order, super().with_options(**options)._options)

    def _then(self, method: str, *arguments: Any, text: str, structure: Any = "keep") -> Any:
        return Dataset(method, arguments, [self], text, self._structure if structure == "keep" else structure)

    def shuffle(self, seed: Seed = 0, window: Optional[Count] = 0, *, chunk: Count = 0, lanes: Size = 64) -> Dataset:
        if self._order.seed is not None:
            return super().shuffle(seed, window, chunk=chunk, lanes=lanes)
        if window is None or chunk != 0 or lanes != 64:
            raise ValueError("shuffle: row groups are read as a whole, in an order of their own, and rows are shuffled "
                             "within a window; leave out chunk and lanes, and give window a number or nothing")
        groups = self._order.read.groups
        rows = sum(group.rows for group in groups) // max(len(groups), 1)
        window = window or _SHUFFLED_GROUPS * max(rows, 1)
        return _RowGroups(self._order._replace(seed=seed, window=window), self._options)

    def shard(self, rank: Optional[Count] = None, world: Optional[Size] = None, *, group: Size = 1) -> Dataset:
        if self._order.part != (0, 1):
            return super().shard(rank, world, group=group)
        check_part(rank, world)
        if rank is None or world is None:
            if group > 1:
                raise ValueError("shard: give rank and world with a group, directly after from_parquet(stream=True)")
        else:
            rank, world = part_of(rank, world, group)
        return _RowGroups(self._order._replace(part=(rank, world)), self._options)


@checked
def from_parquet(paths: Paths, *, columns: Optional[Sequence[str]] = None,
                 defaults: Optional[Mapping[str, Any]] = None, stream: bool = False) -> Dataset:
    """Delivers the rows of files of Parquet, one file after another, as from_arrow does. `paths` may have braces, and
    be globs, whose files are read in the order of their names. `columns` chooses those that are read.

    - `stream`: reads row groups as they are needed, on several threads; groups that are smaller than 16 MiB
      together. Use it for data that does not fit into memory. Otherwise the columns are held in memory, which
      allows access by number and a shuffle of all rows.

    Directly after it, `shuffle(seed, window)` of a stream reads the groups in an order that differs in each epoch, and
    shuffles rows within the window (by default the rows of 8 groups); and `shard(rank, world)` gives each rank
    as many rows, or one more, of groups that no other rank reads, except those at the two ends of its part. A rank's
    state is valid for that rank of that world.

    DataLossError: a file is damaged, or its columns are not those of the first one. FileNotFoundError: there is
    no such file, or none that matches."""
    files = _files("from_parquet", paths)
    if not stream:
        from .tables.arrow_files import read_parquet
        return _chain("from_parquet", _columns("from_parquet", read_parquet(files, columns)), defaults)
    from .tables.arrow_files import groups_of
    names, groups = groups_of(files, columns)
    _check_names("from_parquet", names, defaults or {})
    # A state must not continue in files that have been replaced.
    version = repr((groups, names, sorted((defaults or {}).items())))
    order = _GroupOrder(_GroupRows(groups, names, defaults or {}), version)
    if groups:
        outputs, _ = order.slices()._learn(order.read, "from_parquet", batched=True)
    else:
        outputs = from_parquet(files, columns=columns, defaults=defaults)._core.spec()
    return _RowGroups(order._replace(outputs=outputs), {})


@checked
def parquet_batches(paths: Paths, *, columns: Optional[Sequence[str]] = None) -> Any:
    """The rows of files of Parquet as a stream of record batches of about 16 MiB: a pyarrow.RecordBatchReader, for
    `writer.write_batch(sf.parquet_batches("in/*.parquet"))`. `paths`, `columns` and errors: as for from_parquet;
    damage that is found later is the ValueError of whoever reads the stream."""
    files = _files("parquet_batches", paths)
    from .tables.arrow_files import stream_parquet
    return stream_parquet(files, columns)


@checked
def from_pandas(frame: Any, *, index: bool = False, defaults: Optional[Mapping[str, Any]] = None) -> Dataset:
    """Delivers the rows of a pandas DataFrame, as from_arrow does. NaN, None and NA are missing values, so a
    column with one needs a default; defaults={"x": math.nan} keeps NaN. Columns of objects are of str or bytes,
    of numbers, or of lists of these. Categories become their values; use frame["c"].cat.codes for numbers.

    - `index`: makes columns of the index, under its names, as frame.reset_index() does; otherwise it is
      left out.

    TypeError: the objects of a column are not of one type, or a name is not a str; others as for from_arrow."""
    if not _is(frame, "pandas", "DataFrame"):
        raise TypeError(f"from_pandas: frame must be a pandas DataFrame, not {shown(frame)}")
    return _chain("from_pandas", _columns_of_pandas("from_pandas", frame.reset_index() if index else frame), defaults)


@checked
def from_polars(frame: Any, *, defaults: Optional[Mapping[str, Any]] = None) -> Dataset:
    """Delivers the rows of a polars DataFrame, as from_arrow does. A null is a missing value, and NaN is a number,
    as in polars. Categorical and Enum become strings, Array becomes an array [rows, length...]."""
    if _is(frame, "polars", "LazyFrame"):
        raise TypeError("from_polars: a LazyFrame has no rows yet; give frame.collect()")
    if not _is(frame, "polars", "DataFrame"):
        raise TypeError(f"from_polars: frame must be a polars DataFrame, not {shown(frame)}")
    return _chain("from_polars", _columns_of_polars("from_polars", frame), defaults)


@checked
def from_hf(dataset: Any, *, defaults: Optional[Mapping[str, Any]] = None) -> Dataset:
    """Delivers the rows of a datasets.Dataset of Hugging Face's, as from_arrow does; its order is that of
    the dataset, including shuffles and selections. Images and sounds are their encoded bytes, for
    decode_image and others (those that have only a path are read from there), class labels are int64, and
    Array2D and so on are arrays. A format that was set does not matter.

    All of it is in memory. Write larger ones, `writer.write_batch(dataset)`, and read what was written."""
    if _is(dataset, "datasets", "DatasetDict", "IterableDatasetDict"):
        raise TypeError(f"from_hf: this is a dict of datasets; choose one: dataset[{next(iter(dataset), 'train')!r}]")
    if _is(dataset, "datasets", "IterableDataset"):
        raise TypeError("from_hf: an IterableDataset has no rows by number; give sf.from_generator(lambda: dataset), "
                        "or load it without streaming")
    if not _is(dataset, "datasets", "Dataset"):
        raise TypeError(f"from_hf: dataset must be a datasets.Dataset of Hugging Face, not {shown(dataset)}")
    return _chain("from_hf", _columns_of_hf(dataset.with_format("arrow")[:], dataset.features), defaults)


# ---- Writers


def tables_of(data: Any) -> Optional[Iterator[Tuple[Any, Dict[str, List[int]]]]]:
    """Tables of Arrow for a writer with the shapes of arrays in them, of what is not data of Arrow itself or says more than its columns:
    frames of pandas without their index, and datasets of Hugging Face. None: it is neither."""
    if _is(data, "pandas", "DataFrame"):
        return iter([_table(_columns_of_pandas("write_batch", data))])
    if _is(data, "datasets", "Dataset"):
        batches = data.with_format("arrow").iter(_ROWS)
        return (_table(_columns_of_hf(batch, data.features)) for batch in batches)
    if _is(data, "polars", "DataFrame"):
        for name in data.columns:
            try:
                _check_polars(data, name)
            except TypeError as error:
                raise TypeError(f"column {name!r}: {error}; leave it out: frame.drop({name!r})") from None
    return None


def _table(columns: Columns) -> Tuple[Any, Dict[str, List[int]]]:
    """A table for a writer, which takes the values of tensors as lists, and the shapes of these."""
    import pyarrow as pa
    arrays = []
    shapes: Dict[str, List[int]] = {}
    for name, column in columns:
        array = _plain(pa, column)
        if isinstance(array, pa.ExtensionArray):
            present = np.asarray(array.is_valid())
            found = _Values(pa, name).value(array.filter(array.is_valid()) if array.null_count else array, None, False)
            shapes[name] = list(found.shape[1:])
            values = np.full((len(array), math.prod(shapes[name])), b"" if found.dtype == object else 0, found.dtype)
            values[present] = found.reshape(len(found), values.shape[1])
            array = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1], mask=pa.array(~present))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, [name for name, _ in columns]), shapes
