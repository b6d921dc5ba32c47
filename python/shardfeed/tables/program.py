"""The command line of the kinds of `convert` that Python reads. What it accepts, prints and returns is as for the
kinds of the program (cli/commands/convert_command.cc)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import _core, interrupts
from .._core import DataLossError
from ..command_line import (ERROR, MOST_THREADS, NOTE, Misuse, Parser, complain, in_utf8, max_record_bytes, names_in, one_line,
                            one_of, painted, size, tell, whole)
from ..exit_status import DEFECTS, DONE, FAILED, INTERRUPTED, USAGE
from ..writing import note_on_suffix
from . import FILES_ONLY, KINDS, extra_of
from .not_here import NOT_HERE
from .screen import Progress, amount, counted, duration
from .tasks import listed, shards_in, shards_of


class Help(NamedTuple):
    help: str
    details: str
    examples: Tuple[str, ...]


_VALUES = ("Columns become features: integers and booleans int64, floats float (32 bits), text and binaries\n"
           "bytes, lists their values, lists of lists also NAME_lengths, structs a feature for each field,\n"
           "NAME.FIELD. Decimals, dates and times become text. A null is a record without the feature.")

_HELP: Dict[str, Help] = {
    "parquet": Help("Tables of Parquet", _VALUES, (
        "shardfeed convert parquet 'train/*.parquet' out/train@64 --columns image,label",)),
    "arrow": Help("Tables of Arrow: Feather and IPC files, and streams", _VALUES, (
        "shardfeed convert arrow train.feather out/train@64",)),
    "hdf5": Help("Datasets of HDF5: row i of each goes into record i", (
        "Features are named as the datasets are: group/x. All must have the same number of rows. Rows of uint8 with\n"
        "two or more dimensions become bytes, other rows flat lists."), (
        "shardfeed convert hdf5 train.h5 out/train@64 --columns images,labels",)),
    "npz": Help("Archives of NumPy arrays: row i of each goes into record i", (
        "Features are named as the arrays are. All must have the same number of rows. Rows of uint8 with two or more\n"
        "dimensions become bytes, other rows flat lists. Pickled objects are never loaded."), (
        "shardfeed convert npz mnist.npz out/train@4 --columns x_train,y_train",)),
    "sqlite": Help("Rows of a query, or of a table, of SQLite", (
        "The database is only read. A column has integers, reals, text or blobs; CAST makes one of several types one\n"
        "of text. NULL is a record without the feature."), (
        "shardfeed convert sqlite shop.db out/sales@4 --query 'SELECT day, price FROM sales ORDER BY id'",
        "shardfeed convert sqlite shop.db out/sales@4 --table sales")),
    "lmdb": Help("LMDB: Caffe's Datums, or keys and values as bytes", (
        "The database is only read, without a lock file. Datums become image/encoded, or image/raw (height x width x\n"
        "channels) with its size, and image/class/label; other values key and value."), (
        "shardfeed convert lmdb ilsvrc12_train_lmdb out/train@64",
        "shardfeed convert lmdb train.lmdb out/train@64 --database images --format raw")),
    "video": Help("Frames of video files: image/encoded with its height and width, video, frame, time", (
        "Frames are JPEGs of quality 95, or PNGs, which keep the pixels. video is the file as named, frame the number of the\n"
        "frame in it, and time its time in seconds. Each file is decoded twice, first to count its frames."), (
        "shardfeed convert video 'clips/*.mp4' out/train@64 --every 10",
        "shardfeed convert video clip.avi out/clip@1 --format png")),
}

class _NotHere(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Optional[str] = None) -> None:
        raise Misuse(f"this kind has no {option}; {NOT_HERE[str(option)]}")


def _size(text: str) -> int:
    found = size(text)
    if not found or found >= 1 << 63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 256KiB")
    return found


def parser(kind: str) -> argparse.ArgumentParser:
    about = _HELP[kind]
    examples = "\n".join(f"  {example}" for example in about.examples)
    made = Parser(has_colors=True, prog=f"shardfeed convert {kind}", description=about.help, allow_abbrev=False,
                   usage=f"shardfeed convert {kind} [OPTIONS] SOURCE... OUT",
                   formatter_class=argparse.RawDescriptionHelpFormatter,
                   epilog=f"{about.details}\n\nRecords keep the order of the source unless they are shuffled. It takes "
                          f"{' and '.join(KINDS[kind])}: pip install 'shardfeed[{extra_of(kind)}]'.\n\nExamples:\n{examples}\n")
    add = made.add_argument
    add("paths", nargs="*", metavar="PATHS", help="SOURCE... OUT, where OUT is folder/name@N[.suffix], or folder/name to "
                                                    "have the number of shards chosen by --shard-size")
    add("--columns", metavar="A,B,...", action="append", help="make features of these columns only; user.name is one "
                                                              "field of a struct")
    add("--schema", metavar="FILE", help='kinds to use instead of the inferred ones: JSON {"age": "int64"}, or the '
                                         "manifest of a dataset")
    if kind == "sqlite":
        add("--query", metavar="SELECT", help="the query whose rows are written")
        add("--table", metavar="NAME", help="the table or view whose rows are written")
    if kind == "lmdb":
        add("--database", metavar="NAME", help="the named database whose entries are written")
        add("--format", type=one_of("caffe", "raw"), metavar="{caffe,raw}",
            help="caffe: values are Datums; raw: bytes as such; default: what the first value is")
    if kind == "video":
        add("--format", type=one_of("jpeg", "png"), metavar="{jpeg,png}",
            help="of the frames: jpeg (default), or png, which keeps the pixels")
        add("--every", type=whole(1), metavar="N", help="take the first of every N frames; default 1, all")
    add("--like", metavar="DATASET", help="a dataset (stem@N, or a manifest) to match: its kinds and compression are used, "
                                          "and a feature of another kind is an error")
    add("--compression", type=one_of("none", "gzip", "zlib"), metavar="{none,gzip,zlib}",
        help="none (default), gzip or zlib")
    add("--level", type=whole(1, 9), metavar="1-9", help="compression level: 1 (fast) to 9 (small); default 6")
    add("--shard-size", type=_size, metavar="SIZE",
        help="approximate size of a shard before compression, by the first records; default 256MiB")
    add("--member-size", type=_size, metavar="SIZE",
        help="size of the pieces of compressed data at which a reader can start; default 256KiB")
    add("--limit", type=whole(0), metavar="N", help="write at most this many records")
    add("--overwrite", action="store_true", help="replace a dataset of the same name")
    add("--resume", action="store_true", help="continue from the shards that an interrupted run finished, and keep "
                                              "those of this run if it is interrupted")
    add("--only-shards", metavar="RANGES", help="write only these shards of OUT@N, with --job: 3, 0-7, 3,7-9; other tasks "
                                                "write the others, and 'shardfeed commit OUT@N --job ID' makes the "
                                                "dataset of them")
    add("--job", metavar="ID", help="name of the job that the tasks share, such as $SLURM_ARRAY_JOB_ID: at most 64 "
                                    "letters, digits, '.', '_' and '-'")
    order = made.add_mutually_exclusive_group()
    order.add_argument("--shuffle", type=whole(0), metavar="SEED", help="shuffle, with this seed")
    order.add_argument("--no-shuffle", action="store_true", help="keep the order of the source, as by default")
    add("--no-sync", action="store_true", help="do not wait until everything is on disk")
    add("--dry-run", action="store_true", help="show the features, sizes and first records; write nothing; OUT may be left out")
    add("--json", action="store_true", help="print one JSON object on standard output")
    add("-q", "--quiet", action="store_true", help="print errors only")
    add("-j", "--jobs", "--threads", dest="threads", type=whole(1, MOST_THREADS), default=0, metavar="INT",
        help="threads; default: one per processor")
    add("--max-record-bytes", type=max_record_bytes, metavar="SIZE", help="as for other commands; this one inflates nothing")
    for option in NOT_HERE:
        add(option, action=_NotHere, nargs="?", help=argparse.SUPPRESS)
    return made


def parse(kind: str, arguments: Sequence[str], before: Sequence[str] = ()) -> argparse.Namespace:
    """`before`: options before the command, which those after it override. Misuse: the arguments are wrong."""
    given = argparse.Namespace()
    for some in (before, arguments) if before else (arguments,):
        for name in ("paths", "_seen"):
            vars(given).pop(name, None)
        given = parser(kind).parse_intermixed_args(list(some), given)
    given.kind = kind
    given.threads = min(given.threads, 1024)  # Arrow starts all of them, whether they have work or not
    given.columns = [name for text in given.columns or [] for name in text.split(",")] or None
    if not given.paths:
        raise Misuse("PATHS is required")
    given.named = len(given.paths) > 1  # whether OUT is
    if not given.named and not given.dry_run:
        raise Misuse(f"only one path is given; usage: shardfeed convert {kind} SOURCE... OUT")
    *given.sources, given.out = given.paths if given.named else [*given.paths, "preview"]
    for what, text in [("OUT", given.out), ("--query", getattr(given, "query", None)),
                       ("--table", getattr(given, "table", None)),
                       ("--database", getattr(given, "database", None)), ("--like", given.like),
                       *(("--columns", name) for name in given.columns or [])]:
        if text is not None and in_utf8(text) != text:
            raise Misuse(f"{what} must be in UTF-8, got {one_line(text)}")
    given.given = list(given.sources)  # by the user
    given.told = str  # see _streams_as_files
    if "-" in given.sources and kind == "lmdb":
        raise Misuse("lmdb cannot be read from standard input: its files are mapped into memory; name them")
    if "-" in given.sources and kind == "video":
        raise Misuse("video cannot be read from standard input: each record has the name of its file; name them")
    given.streams = [source for source in given.sources
                     if source == "-" or (kind not in FILES_ONLY and _is_pipe(source))]
    if given.sources.count("-") > 1:
        raise Misuse("standard input, -, is given twice")
    given.counted = "@" in os.path.basename(given.out)
    if given.counted and given.shard_size is not None:
        raise Misuse(f"{given.out} already gives the number of shards: pass it or --shard-size, not both")
    if given.resume and given.streams:
        raise Misuse(f"{_name_of(given.streams[0])} cannot be resumed; write it to a file first")
    if given.resume and "://" in given.out:
        raise Misuse("--resume: finished shards are kept in folders only; write to a folder, and copy the dataset")
    if given.columns and "" in given.columns:
        raise Misuse("--columns: expected names, as in --columns a,b")
    if given.compression == "none" or (given.compression is None and given.like is None):
        for option, value in (("--level", given.level), ("--member-size", given.member_size)):
            if value is not None:
                raise Misuse(f"{option}: nothing is compressed without --compression gzip or zlib")
    given.shards = shards_of(given)
    return given


# ---- Work


def _is_pipe(source: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(source).st_mode)
    except (OSError, ValueError):
        return False


def _name_of(source: str) -> str:
    return "standard input" if source == "-" else source


@contextlib.contextmanager
def _streams_as_files(given: argparse.Namespace) -> Iterator[None]:
    """Copies standard input and pipes among the sources to temporary files, since all these kinds are read more than
    once. given.told makes texts name them as people do."""
    names: Dict[str, str] = {}  # by temporary file
    with contextlib.ExitStack() as files:
        for source in given.streams:
            file = files.enter_context(tempfile.NamedTemporaryFile(prefix="shardfeed-"))
            name = names[file.name] = _name_of(source)
            try:
                with contextlib.nullcontext(sys.stdin.buffer) if source == "-" else open(source, "rb") as stream:
                    shutil.copyfileobj(stream, file, 1 << 20)
                file.flush()
            except OSError as error:
                raise OSError(f"{name}: cannot copy it to {file.name}: {error.strerror}; set TMPDIR to a folder "
                              "with more room") from None
            if file.tell() == 0:
                raise DataLossError(f"{name}: it is empty")
            given.sources[given.sources.index(source)] = file.name

        def told(text: str) -> str:
            for file, name in names.items():
                text = text.replace(file, name)
            return text
        given.told = told
        yield


def run(given: argparse.Namespace, progress: Callable[..., None] = lambda *_: None) -> Dict[str, Any]:
    """Converts, or shows what would be converted, and returns the report."""
    from . import check_installed
    check_installed(given.kind)
    if not given.threads:
        return _run(given, progress)
    import pyarrow
    threads = pyarrow.cpu_count()
    pyarrow.set_cpu_count(given.threads)
    try:
        return _run(given, progress)
    finally:
        pyarrow.set_cpu_count(threads)


def _run(given: argparse.Namespace, progress: Callable[..., None]) -> Dict[str, Any]:
    from . import converting, like, preview, resuming
    from .table import Options
    started = time.monotonic()
    given.failure = None  # why the conversion would fail, of a dry run
    if given.named:
        try:
            _core.check_output(given.out, is_free=given.dry_run and not given.overwrite and not given.resume)
        except FileExistsError as error:
            given.failure = str(error)
    own = {name: value for name in ("query", "table", "database", "format", "every")
           if (value := getattr(given, name, None)) is not None}
    options = Options(columns=given.columns, **own)
    kinds = None if given.schema is None else converting.read_kinds(given.schema)
    model = None if given.like is None else like.read_model(given.like, given.out if given.named else given.given[0])
    if model is not None and given.dry_run:
        model = model._replace(found=[])
    if model is not None and kinds is not None:
        model.check_schema(given.schema, kinds)
    told = []
    if given.compression is None:
        given.compression = "none" if model is None else model.compression
        if given.compression != "none":
            told.append(f"compressed with {given.compression}, as {given.like} is")
        elif given.level is not None or given.member_size is not None:
            raise ValueError(f"{given.like} is not compressed, so its compression has no level and no size of members; pass "
                             "compression=gzip to compress the shards")
    given.level = 6 if given.level is None else given.level
    given.member_size = 256 << 10 if given.member_size is None else given.member_size
    note = note_on_suffix(given.out, given.compression)
    if note:
        note += "; --compression does"
        told.append(note)
    shown = {**({"columns": ",".join(given.columns)} if given.columns else {}),
             **({"schema": given.schema} if given.schema else {}), **{name: str(value) for name, value in own.items()},
             **({"limit": str(given.limit)} if given.limit is not None else {})}
    made_by = converting.made_by_of(given.kind, given.given, shown, given.shuffle)
    if given.like is not None:
        made_by["like"] = given.like
    if given.resume:
        resuming.check_order(given.kind, options.query, "a conversion can be resumed")
    if given.shards is not None:
        resuming.check_order(given.kind, options.query, "tasks can divide the rows")
        task = _core.JobTask.make(given.out, given.compression, given.level, given.member_size, given.overwrite,
                                  not given.no_sync, given.job, made_by)
    source = converting.open_source(given.kind, given.sources, options, kinds, model)
    out = given.out
    if given.dry_run or not given.counted:
        opened = time.monotonic() - started
        sample = preview.take_sample(source, given.limit)
        shards = sample.shards(given.shard_size or 256 << 20)
        if given.counted:
            shards = shards_in(out)
        else:
            out += f"@{shards}"
        if given.dry_run:
            if model is not None and model.found and given.failure is None:
                given.failure = model.found[0]
            return _dry_run(given, source, note, preview.report_of(
                source, sample, dataset=out if given.named else None, shards=shards,
                threads=given.threads or len(os.sched_getaffinity(0)), seconds=opened))
        source.conversion.forget()

    def plan_of(out: str) -> str:
        return resuming.fingerprint(source.tables, made_by, out=out, kinds=kinds, compression=given.compression,
                                    level=given.level, member_bytes=given.member_size, shuffle=given.shuffle,
                                    limit=given.limit, **({} if model is None else {"like": model.digest}))

    def report_of(done: converting.Report, **more: Any) -> Dict[str, Any]:
        return {**done._asdict(), "notes": [*done.notes, *told], **more, "skipped": 0, "seconds": time.monotonic() - started,
                "peak_rss_bytes": _peak_resident_bytes()}

    if given.shards is not None:
        return report_of(
            converting.write_shards(source, task, given.shards, fingerprint=plan_of(""), out=out, limit=given.limit,
                                    threads=given.threads, shuffle=given.shuffle, told=given.told, progress=progress),
            job=given.job, only_shards=listed(given.shards.numbers, ","))
    try:
        return report_of(converting.write_dataset(
            source, out, limit=given.limit, compression=given.compression, level=given.level,
            member_bytes=given.member_size, threads=given.threads, overwrite=given.overwrite, sync=not given.no_sync,
            shuffle=given.shuffle, resume=plan_of(os.path.abspath(out)) if given.resume else None, made_by=made_by,
            told=given.told, progress=progress))
    except FileExistsError:
        # By now, a commit that was interrupted has been finished.
        done = converting.complete(out, made_by, given.compression) if given.resume else None
        if done is None:
            raise
        done.notes.extend(resuming.notes_of_complete(converting.manifest_path(out), source.tables,
                                                     [given.schema, given.like and like.manifest_of(given.like)]))
        return report_of(done)


def _dry_run(given: argparse.Namespace, source: Any, note: str, report: Dict[str, Any]) -> Dict[str, Any]:
    fails = [f"the conversion would fail: {given.failure}"] if given.failure else []
    return {**report, "notes": [*fails, *map(given.told, report["notes"]), *([note] if note else [])],
            "sources": [{"path": given.told(table.path), "rows": table.rows} for table in source.tables]}


def _peak_resident_bytes() -> int:
    # The peak that getrusage reports includes that of the process that started this one.
    with open("/proc/self/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)


# ---- The command


def _as_flags(message: str) -> str:
    """An error with the arguments of functions spelled as flags."""
    def spelled(match: "re.Match[str]") -> str:
        value = "" if match[2] == "True" else " " + match[2]
        return f"; pass --{match[1].replace('_', '-')}{value} to "
    return re.sub(r"; pass ([a-z_]+)=(\w+) to (?=[^;]*$)", spelled, message)


def _print(report: Dict[str, Any], given: argparse.Namespace) -> None:
    if given.json:
        tell(json.dumps(report, indent=1))
        return
    if given.quiet:
        return

    def noted(text: str) -> str:
        return f"{painted('note:', NOTE, sys.stdout, given.color)} {one_line(text)}"

    notes = [noted(note) for note in report["notes"]]
    if report.get("dry_run"):
        from .preview import lines_of
        tell("\n".join(lines_of(report, notes)))
        return
    lines = []
    if report.get("shards_taken_over"):
        lines.append(noted(f"{counted(report['shards_taken_over'], 'shard')} "
                    f"{'was' if report['shards_taken_over'] == 1 else 'were'} taken over from an earlier run"))
    if report.get("datasets_complete"):
        lines.append(noted("the dataset was already complete and kept; --overwrite writes it again"))
    lines += notes
    if given.shards is None and report["records"] < report["shards"]:
        lines.append(noted("there are more shards than records, so some are empty"))
    seconds = max(report["seconds"], 1e-9)
    name = one_line(report["dataset"])
    if given.shards is not None:
        name += f", shards {listed(given.shards.numbers, ', ')} of job {given.job}"
    # What was taken over took no time.
    kept = report.get("shards_taken_over") or report.get("datasets_complete")
    rates = "" if kept else f" ({int(report['records'] / seconds):,} records/s, {amount(report['bytes'] / seconds)}/s)"
    lines.append(f"{name}: {counted(report['records'], 'record')}, {amount(report['bytes'])} in "
                 f"{counted(report['shards'], 'shard')}, {duration(seconds)}{rates}")
    tell("\n".join(lines))


def main(kind: str, arguments: Sequence[str], before: Sequence[str] = ()) -> int:
    """Runs the command, and returns its exit status."""
    try:
        given = parse(kind, arguments, before)
    except Misuse as error:
        complain(f"{kind}: {error}")
        complain(f"Run 'shardfeed convert {kind} --help' for usage.", head="")
        return USAGE
    except OSError as error:  # the help cannot be written
        complain(str(error))
        return FAILED

    def fail(status: int, message: str) -> int:
        complain(_as_flags(message), head=painted("shardfeed:", ERROR, sys.stderr, given.color) + " ")
        return status

    try:
        with interrupts.as_exceptions():
            with _streams_as_files(given), Progress(given.quiet) as progress:
                report = run(given, progress)
            _print(report, given)
            return DONE if given.failure is None else fail(USAGE, given.failure)
    except KeyboardInterrupt:
        return fail(INTERRUPTED, "interrupted")
    except DataLossError as error:
        return fail(DEFECTS, given.told(str(error)))
    except MemoryError:
        return fail(FAILED, "out of memory")
    except (OSError, ImportError) as error:
        usage = isinstance(error, FileExistsError)
        known = isinstance(error, OSError) and error.strerror and error.filename
        return fail(USAGE if usage else FAILED, f"{error.filename}: cannot open: {error.strerror}"  # type: ignore
                     if known else given.told(str(error)))
    except (ValueError, TypeError, RuntimeError) as error:
        return fail(USAGE, given.told(str(error)))


def kind_in(arguments: Sequence[str]) -> Optional[Tuple[str, Sequence[str], Sequence[str]]]:
    """The kind that a command line names, if Python reads it, the arguments after it and the options before it."""
    plain = names_in(arguments, 2)
    if len(plain) < 2 or arguments[plain[0]] != "convert" or arguments[plain[1]] not in KINDS:
        return None
    command, kind = plain[:2]
    return arguments[kind], arguments[kind + 1:], [*arguments[:command], *arguments[command + 1:kind]]
