"""Queries of SQLite."""

from __future__ import annotations

import collections
import contextlib
import os
import sqlite3
import urllib.parse
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import pyarrow as pa

from .table import Options, Piece, Table, batch_of, damaged

_ROWS = 1 << 12  # rows of a batch
_MOST_COLUMNS = 1000
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _only_reads(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _in_log(path: str, page: int) -> Set[int]:
    """The numbers of the pages in a write-ahead log, which may not exist."""
    found: Set[int] = set()
    with contextlib.suppress(OSError), open(path, "rb") as file:
        salts = file.read(32)[16:24]
        while len(frame := file.read(24)) == 24:
            if frame[8:16] != salts:  # what is left of an earlier log
                break
            found.add(int.from_bytes(frame[:4], "big"))
            file.seek(page, os.SEEK_CUR)
    return found


def _cut(path: str, page: int, pages: int) -> Optional[str]:
    """What is said of a database of so many pages whose file ends earlier: SQLite takes what the last page lacks for
    zeros, and so for empty rows. It does not open the file, since closing it would end SQLite's lock."""
    size, whole = os.stat(path).st_size, page * pages
    if size >= whole:
        return None
    in_log = _in_log(path + "-wal", page)
    if all(number in in_log for number in range(size // page + 1, pages + 1)):
        return None
    return f"the file is truncated: it has {size:,} bytes, and its {pages:,} pages of {page:,} bytes take {whole:,}"


def _announced(header: bytes) -> Tuple[int, int]:
    """The size and the number of pages by the header of a database; (0, 0) if it does not say."""
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0") or header[24:28] != header[92:96]:
        return 0, 0
    page = int.from_bytes(header[16:18], "big")
    return (1 << 16 if page == 1 else page), int.from_bytes(header[28:32], "big")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, in one transaction."""
    with open(path, "rb") as file:  # SQLite would not say why it cannot be opened
        header = file.read(100)
    name = urllib.parse.quote(os.fsencode(os.path.abspath(path)))
    connection = sqlite3.connect(f"file:{name}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        # The lock is held, so that no other process changes them between.
        sizes = [connection.execute(f"PRAGMA {one}").fetchone()[0] for one in ("page_size", "page_count")]
        if cut := _cut(path, *sizes):
            raise damaged(path, cut)
        connection.set_authorizer(_only_reads)
        # Python handles signals between its own instructions alone; a query may take forever.
        connection.set_progress_handler(lambda: 0, 100_000)
        yield connection
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":  # a signal's handler raised an exception in the progress handler
            raise KeyboardInterrupt from None
        if "locked" in str(error) or "unable to open" in str(error) or "disk I/O" in str(error):
            raise OSError(f"{path}: {error}") from None
        raise ValueError(f"{path}: {error}") from None
    except (sqlite3.DatabaseError, sqlite3.Warning) as error:
        if "not authorized" in str(error) or "prohibited" in str(error):
            raise ValueError(f"{path}: the query does more than read ({error}); give a SELECT") from None
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.Warning)):
            raise ValueError(f"{path}: {error}") from None
        raise damaged(path, _cut(path, *_announced(header)) or error) from None
    finally:
        connection.close()


def _query(path: str, connection: sqlite3.Connection, options: Options, notes: List[str]) -> str:
    if options.query is not None and options.table is not None:
        raise ValueError("give a query or a table, not both")
    if options.query is not None:
        query = options.query.strip().rstrip(";").rstrip()
        if not query:
            raise ValueError("the query is empty; expected a SELECT")
        return query
    found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE "
                               "'sqlite\\_%' ESCAPE '\\' ORDER BY name").fetchall()
    tables = [name.decode(errors="backslashreplace") for name, in found]
    if options.table is not None:
        if options.table not in tables:
            raise ValueError(f"{path}: there is no table {options.table!r}; it has: {', '.join(tables)}")
        return f"SELECT * FROM {_quoted(options.table)}"
    if not tables:
        raise ValueError(f"{path}: it has no tables")
    if len(tables) != 1:
        raise ValueError(f"{path}: it has {len(tables)} tables ({', '.join(tables)}): choose one (table), or give a "
                         "query")
    notes.append(f"the only table, {tables[0]!r}, was taken")
    return f"SELECT * FROM {_quoted(tables[0])}"


def open_sqlite(path: str, options: Options) -> Table:
    notes: List[str] = []
    with _opened(path) as connection:
        query = _query(path, connection, options, notes)
        cursor = connection.execute(query)
        if cursor.description is None:
            raise ValueError(f"{path}: the query has no result; give a SELECT")
        names = [column[0] for column in cursor.description]
        cursor.close()
        _check_names(path, names)
        rows, types = _types(path, connection, query, names, notes)
    chosen = options.chosen(names)
    schema = pa.schema([(name, types[name]) for name in chosen])

    def read() -> Iterator[Piece]:
        places = [names.index(name) for name in chosen]
        first = 0
        with _opened(path) as connection:
            cursor = connection.execute(query)
            while batch := cursor.fetchmany(_ROWS):
                columns = {name: _column(f"{path}: row {first} and those after it: column {name!r}",
                                         [row[place] for row in batch], types[name])
                           for name, place in zip(chosen, places)}
                yield Piece(batch_of(columns), first)
                first += len(batch)
        if first != rows:
            raise damaged(path, f"the query gave {rows} rows when they were counted, and {first} now; the database "
                                "has changed, or the query depends on chance")

    return Table(path, names, schema, rows, read, notes=notes)


def _check_names(path: str, names: List[str]) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise ValueError(f"{path}: {count} columns are named {name!r}; name them in the query: "
                             "SELECT a AS b")
    if len(names) > _MOST_COLUMNS:
        raise ValueError(f"{path}: the query has {len(names)} columns, and at most {_MOST_COLUMNS} are taken")


def _types(path: str, connection: sqlite3.Connection, query: str, names: List[str],
           notes: List[str]) -> Tuple[int, Dict[str, Any]]:
    """The number of rows, and the types of the columns: in SQLite each value has its own."""
    kinds = ("integer", "real", "text", "blob")
    totals = ["count(*)"]
    for i in range(len(names)):
        totals += [f"total(typeof(c{i}) = '{kind}')" for kind in kinds]
    labels = ", ".join(f"c{i}" for i in range(len(names)))
    found = []
    # SQLite has at most 2000 columns in a result.
    for start in range(0, len(totals), 2000):
        some = ", ".join(totals[start:start + 2000])
        found += connection.execute(f"WITH q({labels}) AS ({query}\n) SELECT {some} FROM q").fetchone()
    rows = int(found[0])
    types = {}
    for i, name in enumerate(names):
        counts = {kind: int(n) for kind, n in zip(kinds, found[1 + 4 * i:5 + 4 * i]) if n}
        if not counts:
            types[name] = pa.null()
        elif set(counts) == {"integer"}:
            types[name] = pa.int64()
        elif set(counts) <= {"integer", "real"}:
            types[name] = pa.float64()
        elif set(counts) == {"text"}:
            types[name] = pa.string()
        elif set(counts) == {"blob"}:
            types[name] = pa.binary()
        else:
            mixed = " and ".join(f"{n:,} of type {kind}" for kind, n in counts.items())
            raise damaged(path, f"column {name!r} has values of several types ({mixed}), and a feature has one; cast "
                                f"it in the query: CAST({_quoted(name)} AS {'BLOB' if 'blob' in counts else 'TEXT'})")
        if len(counts) == 2:
            notes += _lost_integers(connection, query, labels, i, name, counts["integer"])
            notes.append(f"column {name!r}: {counts['integer']:,} integers and {counts['real']:,} reals are floats")
    return rows, types


def _lost_integers(connection: sqlite3.Connection, query: str, labels: str, column: int, name: str,
                   integers: int) -> List[str]:
    """A note if integers among reals have more digits than a double, in which both are read."""
    most = (1 << 63) - 1024  # a larger one would become 2^63, which no integer is
    lost = f"typeof(c{column}) = 'integer' AND (c{column} > {most} OR CAST(CAST(c{column} AS REAL) AS INTEGER) <> c{column})"
    count, first = connection.execute(f"WITH q({labels}) AS ({query}\n) SELECT count(*), min(c{column}) FROM q WHERE "
                                      f"{lost}").fetchone()
    if not count:
        return []
    return [f"column {name!r}: {count:,} of {integers:,} integers have more digits than the floats beside them can keep, "
            f"such as {first}; cast the column in the query to keep them: CAST({_quoted(name)} AS TEXT)"]


def _column(where: str, values: List[Any], kind: Any) -> Any:
    try:
        if pa.types.is_float64(kind):
            return pa.array([None if value is None else float(value) for value in values], kind)
        if not pa.types.is_string(kind):
            return pa.array(values, kind)
        texts = pa.array(values, pa.binary())
        # Whether it is UTF-8 is checked when it becomes a feature.
        return pa.Array.from_buffers(kind, len(texts), texts.buffers(), texts.null_count)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise damaged(where, f"a value of another type than when they were counted ({error})") from None
