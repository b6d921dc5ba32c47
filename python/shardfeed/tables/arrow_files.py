"""Files of Parquet and of Arrow's IPC (Feather)."""

from __future__ import annotations

import bisect
import collections
import os
import zlib
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import pyarrow as pa

from .table import BATCH_BYTES, BATCH_ROWS, Options, Piece, Table, batch_rows, damaged

_BUFFER = 1 << 16  # bytes of a column that are read at a time


def _opened(path: str) -> Any:
    """A file of Parquet."""
    from pyarrow import parquet
    with open(path, "rb"):  # a file that cannot be opened is the system's error
        pass
    try:
        # As bytes, for pyarrow takes no text with a name that is not UTF-8.
        return parquet.ParquetFile(pa.OSFile(os.fsencode(path)), pre_buffer=False, buffer_size=_BUFFER,
                                   page_checksum_verification=True)
    except UnicodeDecodeError:
        raise damaged(path, "the name of a column is not UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"not a file of Parquet, or cut off ({os.path.getsize(path)} bytes): {error}") from None


def _footer(path: str) -> int:
    """A checksum of the footer of a file of Parquet: the last 8 bytes are its size and "PAR1"."""
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, file.tell() - 4 - size))
        return zlib.crc32(file.read())


def open_parquet(path: str, options: Options) -> Table:
    with _opened(path) as file:
        described = file.metadata
        rows = described.num_rows
        schema = file.schema_arrow

    _check_names(path, schema)
    names = options.chosen(schema.names)

    starts = [0]
    for number in range(described.num_row_groups):
        count = described.row_group(number).num_rows
        if count < 0:
            raise damaged(path, f"its footer says that row group {number} has {count} rows")
        starts.append(starts[-1] + count)
    if starts[-1] != rows:
        raise damaged(path, f"its footer says that there are {rows} rows, but its row groups have {starts[-1]}")

    def group_of(row: int) -> int:
        return bisect.bisect_right(starts, row) - 1

    def batches(file: Any, groups: Sequence[int], row_bytes: float) -> Iterator[Any]:
        # Names with dots would be taken for fields of structs.
        columns = None if len(names) == len(schema.names) else names
        return file.iter_batches(batch_rows(row_bytes), row_groups=list(groups), columns=columns)

    def first_damage(file: Any, groups: Sequence[int], error: Exception) -> Exception:
        for number in groups:
            try:
                for _ in batches(file, [number], 1):
                    pass
            except (pa.ArrowException, OSError) as found:
                return damaged(f"{path}: row group {number}, rows {starts[number]} to {starts[number + 1] - 1}", found)
        return damaged(path, error)

    def read() -> Iterator[Piece]:
        with _opened(path) as file:
            if not file.metadata.equals(described):
                raise damaged(path, "the file has changed while it was read")
            row = 0
            for groups, row_bytes in _runs(described):
                try:
                    for batch in batches(file, groups, row_bytes):
                        yield Piece(_chosen(batch, names), row)
                        row += batch.num_rows
                except (pa.ArrowException, OSError) as error:
                    raise first_damage(file, groups, error) from None
                end = starts[groups[-1] + 1]
                if row != end:
                    raise damaged(path, f"its footer has {end} rows up to row group {groups[-1]}, and its data {row}")

    return Table(path, schema.names, _schema(schema, names), rows, read, lambda row: f" (row group {group_of(row)})")


def _runs(metadata: Any) -> Iterator[Tuple[range, float]]:
    """Row groups that are read together, as small ones are, and the bytes of a row."""
    first = rows = size = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if number > first and (size + group.total_byte_size > BATCH_BYTES or rows + group.num_rows > BATCH_ROWS):
            yield range(first, number), size / max(rows, 1)
            first, rows, size = number, 0, 0
        rows += group.num_rows
        size += group.total_byte_size
    if metadata.num_row_groups:
        yield range(first, metadata.num_row_groups), size / max(rows, 1)


def _tables(paths: Sequence[str], columns: Optional[Sequence[str]]) -> List[Table]:
    """Files with the same columns, of which at most `columns` are read, in their order. ValueError: there is no such
    column. DataLossError: a file is damaged, or its columns are others."""
    if not paths:
        raise ValueError("expected at least one path")
    tables: List[Table] = []
    for path in paths:
        table = open_parquet(path, Options(None if columns is None else list(columns)))
        for name in columns or []:
            if name not in table.names:
                raise ValueError(f"{path}: column {name!r} does not exist; the columns are {', '.join(table.names)}")
        if columns is not None:
            table = table._replace(schema=_schema(table.schema, list(columns)))
        if tables and not table.schema.equals(tables[0].schema):
            raise damaged(path, f"its columns are not those of {paths[0]} ({', '.join(_differences(tables[0], table))})")
        tables.append(table)
    return tables


def _differences(first: Table, other: Table) -> List[str]:
    """How the columns of two tables differ."""
    if first.schema.names != other.schema.names:
        return [f"{', '.join(other.schema.names)} instead of {', '.join(first.schema.names)}"]
    return [f"{field.name!r} is {field.type} instead of {first.schema.field(field.name).type}"
            for field in other.schema if field.type != first.schema.field(field.name).type] or ["null or not null"]


def read_parquet(paths: Sequence[str], columns: Optional[Sequence[str]]) -> Any:
    """Whole files as one table in memory."""
    tables = _tables(paths, columns)
    return pa.Table.from_batches([batch for table in tables for batch in _batches(table)], tables[0].schema)


def _batches(table: Table) -> Iterator[Any]:
    for piece in table.read():
        batch = _chosen(piece.batch, table.schema.names)
        yield pa.RecordBatch.from_arrays(batch.columns, schema=table.schema)  # drops the metadata of the batch


def stream_parquet(paths: Sequence[str], columns: Optional[Sequence[str]]) -> Any:
    """The same rows as a stream of record batches, of which some are in memory at a time."""
    tables = _tables(paths, columns)
    return pa.RecordBatchReader.from_batches(tables[0].schema, (batch for table in tables for batch in _batches(table)))


class Groups(NamedTuple):
    """Row groups of a file that are read together."""

    path: str
    first: int
    end: int
    rows: int
    footer: int  # a checksum of the file's footer, which describes all of its data


def groups_of(paths: Sequence[str], columns: Optional[Sequence[str]]) -> Tuple[List[str], List[Groups]]:
    """The columns of files, and all of their row groups that have rows."""
    tables = _tables(paths, columns)
    groups: List[Groups] = []
    for path in paths:
        with _opened(path) as file:
            footer = _footer(path)
            for run, _ in _runs(file.metadata):
                rows = sum(file.metadata.row_group(number).num_rows for number in run)
                if rows:
                    groups.append(Groups(path, run[0], run[-1] + 1, rows, footer))
    return tables[0].schema.names, groups


def read_groups(groups: Groups, names: List[str]) -> Any:
    """The table of some row groups. DataLossError: they are damaged, or not as they were."""
    place = f"{groups.path}: row groups {groups.first} to {groups.end - 1}"
    with _opened(groups.path) as file:
        if _footer(groups.path) != groups.footer:
            raise damaged(place, "the file has changed")
        columns = None if any("." in name for name in file.schema_arrow.names) else names
        try:
            table = file.read_row_groups(list(range(groups.first, groups.end)), columns=columns).select(names)
        except (pa.ArrowException, OSError, KeyError, IndexError) as error:
            raise damaged(place, error) from None
    if table.num_rows != groups.rows:
        raise damaged(place, f"{table.num_rows} rows, and {groups.rows} before: the file has changed")
    return table


def _schema(schema: Any, names: List[str]) -> Any:
    return pa.schema([schema.field(name) for name in names])


def _chosen(batch: Any, names: List[str]) -> Any:
    return batch if batch.schema.names == names else batch.select(names)


def _check_names(path: str, schema: Any) -> None:
    for name, count in collections.Counter(schema.names).items():
        if count > 1:
            raise damaged(path, f"{count} columns are named {name!r}; rename them")


def open_arrow(path: str, options: Options) -> Table:
    with open(path, "rb") as start:
        magic = start.read(6)
    if magic[:4] == b"FEA1":
        raise damaged(path, "Feather of version 1; rewrite it: pyarrow.feather.write_feather(pyarrow.feather."
                            "read_table(path), path)")
    is_file = magic == b"ARROW1"

    def batches() -> Iterator[Any]:
        """The schema, then the batches."""
        with pa.memory_map(os.fsencode(path)) if os.path.getsize(path) else pa.BufferReader(b"") as source:
            try:
                reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            except (pa.ArrowException, OSError) as error:
                what = "a damaged or truncated file" if is_file else "neither a file nor a stream"
                raise damaged(path, f"{what} of Arrow's IPC: {error}") from None
            yield reader.schema
            number = 0
            try:
                if is_file:
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number)
                else:
                    for batch in reader:
                        number += 1
                        yield batch
            except (pa.ArrowException, OSError) as error:
                raise damaged(f"{path}: record batch {number}", error) from None

    counted = batches()
    schema = next(counted)
    rows = sum(batch.num_rows for batch in counted)

    _check_names(path, schema)
    names = options.chosen(schema.names)

    def read() -> Iterator[Piece]:
        whole = batches()
        next(whole)
        first = 0
        for number, batch in enumerate(whole):
            try:
                batch.validate(full=True)  # offsets of a damaged file could lead anywhere
            except pa.ArrowInvalid as error:
                # Text that is not UTF-8 is found, with its row, when it becomes a feature.
                if "UTF8" not in str(error):
                    raise damaged(f"{path}: record batch {number}", error) from None
            size = batch_rows(batch.nbytes / max(batch.num_rows, 1))
            for start in range(0, batch.num_rows, size):
                piece = _chosen(batch, names).slice(start, size)
                yield Piece(piece, first)
                first += piece.num_rows

    return Table(path, schema.names, _schema(schema, names), rows, read)
