"""Tables written as a dataset."""

from __future__ import annotations

import collections
import contextlib
import json
import os
from typing import Any, Callable, Dict, Generator, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .. import _core
from .._core import DataLossError
from ..command_line import in_utf8
from ..globs import expanded
from .resuming import remove_committed, take_up
from . import FILES_ONLY
from .like import Model
from .table import Options, Table, ahead, compression_of, damaged, listed_names
from .tasks import Shards
from .values import LENGTHS, OF_LISTS, Conversion, Feature


class Source(NamedTuple):
    """Tables of one kind with the same features."""

    tables: List[Table]
    conversion: Conversion
    features: Dict[str, Feature]
    like: Optional[Model] = None

    def write(self, writer: Any, batch: Any) -> None:
        """Writes a converted batch, with the types and shapes that its values had."""
        writer._write_arrow(batch, {name: one.shape for name, one in self.features.items() if one.shape},
                            {name: one.dtype for name, one in self.features.items() if one.dtype})

    def _with_values(self) -> Set[str]:
        """The features that have had a value so far, and the lengths of lists that go with these."""
        valued = set(self.conversion.with_values())
        return {name for name in self.features if self._without_lengths(name) in valued}

    def _without_lengths(self, name: str) -> str:
        while name in self.features and self.features[name].type == OF_LISTS:
            name = name.removesuffix(LENGTHS)
        return name

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    def total(self, limit: Optional[int]) -> int:
        """The number of rows that are written."""
        return self.rows if limit is None else min(limit, self.rows)

    def batches(self, limit: int) -> Generator[Any, None, None]:
        """The rows as batches of Arrow that the writer takes, at most `limit` of them."""
        left = limit
        cut = limit < self.rows
        for table in self.tables:
            end = 0
            for piece in table.read():
                if left == 0 and cut:
                    return
                batch = piece.batch.slice(0, left) if cut else piece.batch

                def place(row: int, table: Table = table, first: int = piece.first) -> str:
                    return f"{table.path}: row {first + row}{table.part(first + row)}"

                made = self.conversion.convert(table.path, place, batch)
                if self.like is not None:
                    for name in self._with_values():
                        self.like.check_known(name)
                yield made
                left -= batch.num_rows
                end += batch.num_rows
                if end > table.rows:
                    break
            if end != table.rows and not (left == 0 and cut):
                raise damaged(table.path, f"it has {end} rows, and had {table.rows} when they were counted")

    def notes(self) -> List[str]:
        paths: Dict[str, List[str]] = {}  # the files that each note is about
        for table in self.tables:
            for note in table.notes:
                paths.setdefault(note, []).append(table.path)
        notes = []
        for note, where in paths.items():
            more = f" and {len(where) - 1} more" * (len(where) > 1)
            notes.append(note if len(where) == len(self.tables) else f"{where[0]}{more}: {note}")
        return notes + self.conversion.notes()

    def notes_of_values(self) -> List[str]:
        """Notes that depend on the values of all rows."""
        return self.conversion.notes_of_values({name for table in self.tables for name in table.optional})

    def declared(self, total: int) -> Tuple[Any, ...]:
        """The features for the writer of a dataset of `total` records: its records show the features unless there is
        none."""
        return () if total else tuple(one.core(name) for name, one in _declared(self.features).items())

    def notes_for_manifest(self, told: Callable[[str], str]) -> List[str]:
        """The notes as people are told them, in UTF-8, after all rows have been read."""
        if self.like is not None and self.rows:
            self.like.check_complete(self._with_values())
        return [in_utf8(told(note)) for note in self.notes() + self.notes_of_values()]


def _declared(features: Mapping[str, Feature]) -> Dict[str, Any]:
    from ..features import fixed, ragged
    # What parse() can restore; it has no other types.
    types = {"bool": "uint8", "uint32": "int64", "uint64": "int64"}
    found = {}
    for name, one in features.items():
        if one.noted:
            dtype = types.get(one.noted, one.noted)
            found[name] = fixed(one.shape, dtype) if one.shape or not one.is_list else ragged(dtype)
    return found


# ---- What is read


def _open(kind: str) -> Callable[[str, Options], Table]:
    if kind in ("parquet", "arrow"):
        from . import arrow_files
        return arrow_files.open_parquet if kind == "parquet" else arrow_files.open_arrow
    if kind in ("hdf5", "npz"):
        from . import arrays
        return arrays.open_hdf5 if kind == "hdf5" else arrays.open_npz
    if kind == "sqlite":
        from .sqlite import open_sqlite
        return open_sqlite
    if kind == "video":
        from .video import open_video
        return open_video
    from .key_values import open_lmdb
    return open_lmdb


def read_kinds(path: str) -> Dict[str, str]:
    """The kinds of features that a file declares: JSON such as {"age": "float"}, or the manifest of a dataset."""
    with open(path, "rb") as file:
        text = file.read()
    wanted = 'expected JSON such as {"age": "int64", "name": "bytes"}, or the manifest of a dataset'

    def unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        for name, count in collections.Counter(name for name, _ in pairs).items():
            if count > 1:
                raise KeyError(name)
        return dict(pairs)

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except KeyError as error:
        raise damaged(path, f"{error.args[0]!r} appears twice in an object; {wanted}") from None
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not a JSON object: {error}; {wanted}") from None
    is_manifest = isinstance(content, dict) and str(content.get("format", "")).startswith("shardfeed manifest")
    declared = content.get("features") if is_manifest else content
    if not isinstance(declared, dict):
        raise damaged(path, f"{'a manifest without features' if is_manifest else 'not a JSON object'}; {wanted}")
    kinds = {}
    for name, entry in declared.items():
        kind = entry.get("kind") if is_manifest and isinstance(entry, dict) else entry
        if is_manifest and kind == "none":
            continue
        if kind not in ("int64", "float", "bytes"):
            raise damaged(path, f"the kind of {name!r} must be int64, float or bytes, got {json.dumps(kind)}; {wanted}")
        kinds[name] = kind
    return kinds


def open_source(kind: str, sources: Sequence[str], options: Options,
                kinds: Optional[Mapping[str, str]] = None, like: Optional[Model] = None) -> Source:
    """Opens the tables, and checks that they have the same features, with the kinds of the dataset that they shall be
    `like`.

    FileNotFoundError: there is no such file. ValueError: there is no such column. DataLossError: a file is
    damaged, a column cannot become a feature, or two files differ."""
    conversion = Conversion(options.columns, kinds)
    opened = _open(kind)
    tables: List[Table] = []
    features: Dict[str, Feature] = {}
    for path in expanded(sources):
        if kind != "lmdb" and os.path.isdir(path):
            raise ValueError(f"{path}: it is a folder, and {kind} is read from files; name them, as in "
                             f"'{os.path.join(path, '*')}'")
        try:
            table = opened(path, options)
            found = _features_of(conversion, path, table, like)
        except UnicodeDecodeError as error:
            raise damaged(path, f"a name that is not UTF-8: {error}") from None
        except DataLossError as error:
            raise _of_compressed(kind, path) or error from None
        for one in options.columns or []:
            if not any(name == one or name.startswith(one + ".") for name in found):
                raise ValueError(f"{path}: column {one!r} does not exist; the columns are {listed_names(table.names)}")
        if not found:
            raise damaged(path, "it has no columns")
        if tables:
            _check_same(tables[0].path, features, path, found)
            for name, feature in found.items():
                features[name] = _joined(features[name], feature)
        else:
            features = found
        tables.append(table)
    for name, wanted in (kinds or {}).items():
        if name not in features and options.columns is None:
            raise ValueError(f"{tables[0].path}: the schema has {name!r}, and this feature does not exist; the "
                             f"features are {listed_names(features)}")
        if name in features and features[name].kind not in (wanted, "none"):
            raise ValueError(f"{tables[0].path}: the schema declares {wanted} for {name!r}, whose values "
                             f"({features[name].type}) are {features[name].kind}")
    source = Source(tables, conversion, features, like)
    if like is not None:
        for name, feature in features.items():
            like.check_feature(name, feature)
        if source.rows:
            like.check_complete(features)
    return source


def _features_of(conversion: Conversion, path: str, table: Table, like: Optional[Model]) -> Dict[str, Feature]:
    """The features of a table; those that have other kinds in the dataset of --like get these."""
    found = conversion.features(path, table.schema)
    if like is not None:
        for name, kind in like.kinds.items():
            if name in found and found[name].kind not in (kind, "none") and name not in conversion.kinds:
                conversion.take_over(name, kind, like.name)
                found = conversion.features(path, table.schema)
    return {name: feature._replace(shape=table.shapes.get(name, feature.shape)) for name, feature in found.items()}


def _of_compressed(kind: str, path: str) -> Optional[DataLossError]:
    """The error of a file that cannot be opened because it is compressed."""
    found = compression_of(path)
    if found is None:
        return None
    name, command = found
    pipe = "FILE > OTHER, and convert that" if kind in FILES_ONLY else f"FILE | shardfeed convert {kind} - OUT@N"
    return damaged(path, f"it is compressed by {name}; decompress it: {command} {pipe}")


def _joined(one: Feature, other: Feature) -> Feature:
    """What the manifest says of a feature of two files."""
    if "none" in (one.kind, other.kind):
        return other if one.kind == "none" else one
    return one._replace(dtype=one.dtype if one.dtype == other.dtype else "",
                        shape=one.shape if one.shape == other.shape else ())


def _check_same(first: str, features: Mapping[str, Feature], path: str, found: Mapping[str, Feature]) -> None:
    for name in features:
        if name not in found:
            raise damaged(path, f"column {name!r} is missing, which {first} has; choose columns that all files have")
    for name, feature in found.items():
        if name not in features:
            raise damaged(path, f"column {name!r} is new: {first} does not have it; choose columns that all files have")
        kinds = {features[name].kind, feature.kind}
        if len(kinds - {"none"}) > 1:
            raise damaged(path, f"column {name!r} is of type {feature.type} here, and of type {features[name].type} in "
                                f"{first}; declare its kind (schema), or leave it out (columns)")


# ---- What is written


class Report(NamedTuple):
    dataset: str
    shards: int
    records: int
    bytes: int
    notes: List[str]
    shards_taken_over: int = 0
    datasets_complete: int = 0


def manifest_path(out: str) -> str:
    folder, name = os.path.split(out)
    return os.path.join(folder, ".shardfeed", f"{name.rpartition('@')[0]}.manifest.json")


def complete(out: str, made_by: Mapping[str, str], compression: str) -> Optional[Report]:
    """The report of a dataset of this name that was made from the same source with the same options. Removes what the
    run that made it may have left. DataLossError: a shard of it is missing or has another size."""
    count, dot, suffix = os.path.basename(out).rpartition("@")[2].partition(".")
    try:
        with open(manifest_path(out), "rb") as file:
            manifest: Dict[str, Any] = json.load(file)
        shards, notes = manifest["shards"], manifest.get("notes", [])
        same = (manifest["made_by"] == dict(made_by) and len(shards) == int(count)
                and manifest.get("compression", "none") == compression and manifest.get("suffix", "") == dot + suffix)
        done = Report(out, len(shards), sum(one["records"] for one in shards), sum(one["bytes"] for one in shards),
                      notes, datasets_complete=1)
        paths = [os.path.join(os.path.dirname(out), one["file"]) for one in shards]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not same:
        return None
    for path, one in zip(paths, shards):
        _check_size(path, one["bytes"])
    remove_committed(out, shards, made_by, notes)
    return done


def _check_size(shard: str, size: int) -> None:
    """DataLossError: a shard cannot be looked up, or has another size than its manifest says."""
    try:
        found = os.stat(shard).st_size
        if found == size:
            return
        why = f"has {found} bytes instead of {size}"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise DataLossError(f"{shard}: the dataset was complete, but this shard {why}; pass overwrite=True to write the "
                        "dataset again")


def bounds_of(records: int, shards: int) -> List[int]:
    """Where shards begin, and the end: as the program divides records among them."""
    return [shard * records // shards for shard in range(shards + 1)]


@contextlib.contextmanager
def rows_of(source: Source, total: int, shuffle: Optional[int], out: str) -> Iterator[Iterator[Any]]:
    """The batches whose first `total` rows are written to `out`."""
    from .shuffling import shuffled
    with contextlib.closing(ahead(source.batches(total if shuffle is None else source.rows))) as batches:
        if shuffle is None:
            yield batches
            # What follows the last record may still be damaged.
            for _ in batches:
                pass
            return
        folder = os.path.dirname(out) or "."
        with contextlib.closing(shuffled(batches, shuffle, folder if os.path.isdir(folder) else None)) as mixed:
            yield mixed


def write_dataset(source: Source, out: str, *, limit: Optional[int] = None, compression: Any = "none", level: int = 6,
                  member_bytes: int = 256 << 10, threads: int = 0, overwrite: bool = False, sync: bool = True,
                  shuffle: Optional[int] = None, resume: Optional[str] = None,
                  made_by: Optional[Mapping[str, str]] = None, told: Callable[[str], str] = str,
                  progress: Callable[..., None] = lambda *_: None) -> Report:
    """Writes the rows of a source, in their order or shuffled with a seed, which reading shard after shard restores.

    With `resume`, the fingerprint of source and options, it continues from the shards that an interrupted run with the
    same one finished, and keeps those of this run if it is interrupted."""
    from ..jobs import begin_job
    from ..writing import declared
    total = source.total(limit)
    kinds = declared(None if total else _declared(source.features), "features")
    job = begin_job(out, compression, level, member_bytes, overwrite, sync, kinds)
    if resume is None:
        return _write_job(source, job, total, None, threads, shuffle, made_by, told, progress)
    with take_up(job, resume) as finished:
        return _write_job(source, finished.job, total, finished, threads, shuffle, made_by, told, progress)


def write_parts(batches: Iterator[Any], bounds: Sequence[int], begin: Callable[[int], Any],
                write: Callable[[Any, Any], None], progress: Callable[..., None]) -> Iterator[Any]:
    """Divides rows among parts, part i from bounds[i] to bounds[i + 1], and writes each, write(writer, batch), with what
    begin(part) gives: a PartWriter, or a context without one for a part whose rows are passed over. Yields the closed
    writer of each part, or None."""
    batch, done = None, 0
    for part, end in enumerate(bounds[1:]):
        with begin(part) as writer:
            while done < end:
                if batch is None or batch.num_rows == 0:
                    batch = next(batches)
                some = batch.slice(0, end - done)
                if writer is not None:
                    write(writer, some)
                batch = batch.slice(some.num_rows)
                done += some.num_rows
                progress(done, bounds[-1])
        yield writer


def _write_job(source: Source, job: Any, total: int, finished: Any, threads: int, shuffle: Optional[int],
               made_by: Optional[Mapping[str, str]], told: Callable[[str], str],
               progress: Callable[..., None]) -> Report:
    """Writes the parts of a job that are not `finished` (None: what an error leaves is removed), and commits it."""
    kept: Mapping[str, str] = {} if finished is None else dict(finished.messages)

    def begin(part: int) -> Any:
        # Rows of shards that are kept are still read, since they may have notes.
        return contextlib.nullcontext() if str(part) in kept else job.shard(part, threads=threads)

    try:
        messages: List[str] = []
        with rows_of(source, total, shuffle, job.spec) as batches:
            for part, writer in enumerate(write_parts(batches, bounds_of(total, len(job)), begin, source.write,
                                                        progress)):
                messages.append(kept[str(part)] if writer is None else writer.message)
                if finished is not None and writer is not None:
                    finished.add(part, writer.message)
        notes = source.notes_for_manifest(told)
        written = job.commit(messages, made_by=made_by, notes=notes)
    except BaseException as error:
        if finished is None:
            job._abort_after(error)
        raise
    return Report(job.spec, written["shards"], written["records"], written["bytes"], notes, len(kept))


def write_shards(source: Source, task: _core.JobTask, shards: Shards, *, fingerprint: str, out: str, limit: Optional[int],
                 threads: int, shuffle: Optional[int], told: Callable[[str], str],
                 progress: Callable[..., None]) -> Report:
    """Writes those of `shards` that no task has finished. `fingerprint` identifies all that they depend on, and the other
    arguments are as for write_dataset."""
    from ..jobs import PartWriter
    total = source.total(limit)
    # Notes depend on all rows, and belong to the description that comes before the first finished shard.
    with contextlib.closing(ahead(source.batches(total if shuffle is None else source.rows))) as batches:
        done = 0
        for batch in batches:
            done += batch.num_rows
            progress(min(done, total), total, "reading")
    notes = source.notes_for_manifest(told)
    missing = task.join(shards.numbers, notes, fingerprint)
    records = size = 0
    if missing:
        wanted = set(missing)
        bounds = bounds_of(total, shards.of)[:missing[-1] + 2]

        def begin(part: int) -> Any:
            return PartWriter(task.open(part, threads, source.declared(total))) if part in wanted else contextlib.nullcontext()

        with rows_of(source, bounds[-1], shuffle, out) as rows:
            for writer in write_parts(rows, bounds, begin, source.write, progress):
                if writer is not None:
                    records += writer.records_written
                    size += json.loads(writer.message)["shard"]["bytes"]
    return Report(out, len(missing), records, size, notes, len(shards.numbers) - len(missing))


def made_by_of(kind: str, sources: Sequence[str], options: Mapping[str, str],
               shuffle: Optional[int] = None) -> Dict[str, str]:
    given = " ".join(f"--{name} {value}" for name, value in options.items())
    made = {"tool": f"shardfeed {_core.version()}", "command": f"convert {kind}", "source": " ".join(sources),
            "shuffle": "no" if shuffle is None else f"seed {shuffle}"}
    if given:
        made["options"] = given
    return {name: in_utf8(text) for name, text in made.items()}
