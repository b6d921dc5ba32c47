"""The command line, and its commands as functions: convert, verify, index, inspect, diff.

They run the program that comes with the package in a separate process, so that its threads and
libraries do not interfere with this one."""

from __future__ import annotations

import numbers
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Literal, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from ._core import DataLossError
from .arguments import Count, Size, Threads, checked, shown, specs_of
from .exit_status import DEFECTS, DONE, FAILED, INTERRUPTED, USAGE

PathLike = Union[str, os.PathLike]

# A flag in a message. Command lines to type and quoted data keep theirs.
_FLAG = r"""shardfeed [a-z]+ [^;']*|"(?:[^"\\]|\\.)*"|(?<![^\s'(,|])--([a-z][a-z-]*)(?: (skip|stop)\b)?"""


def program() -> str:
    """Returns the path of the program: SHARDFEED_BIN, or the one in the package."""
    if "SHARDFEED_BIN" in os.environ:
        return os.environ["SHARDFEED_BIN"]
    own = os.path.join(os.path.dirname(__file__), "bin", "shardfeed")
    if not os.path.exists(own):
        raise FileNotFoundError(f"{own}: the program is missing; reinstall the package")
    return own


# Options that take several values with commas between them, and can be given once.
_JOINED = ("na", "split")


def _joined(name: str, values: Iterable[Any]) -> str:
    texts = list(map(str, values))
    for text in texts:
        if "," in text:
            raise ValueError(f"{name}: {shown(text)} has a comma, which divides values; give each of them by itself")
    return ",".join(texts)


def _value_of(name: str, value: Any) -> Any:
    """The value of an option for the command line."""
    if isinstance(value, Mapping):
        if name != "split":
            what = "the path of a JSON file" if name in ("schema", "class_map") else "one value"
            raise TypeError(f"{name} must be {what}, not a dict" + "; write it with json.dump" * (what != "one value"))
        for split, share in value.items():
            if not isinstance(split, str) or isinstance(share, bool) or not isinstance(share, numbers.Real):
                raise TypeError("split must be a dict {name: share}, such as {'train': 0.9, 'test': 0.1}, not "
                                f"{shown(value)}")
        return _joined(name, (f"{split}={float(share)!r}" for split, share in value.items()))
    if name in _JOINED and isinstance(value, (list, tuple)) and value:
        return _joined(name, value)
    if name == "only_shards" and isinstance(value, (list, tuple, range)):
        return ",".join(map(str, value))
    return value


def _paths(function: str, argument: str, given: Union[PathLike, Sequence[PathLike]]) -> List[str]:
    """One path or several for the command line, none of which looks like an option."""
    paths = specs_of(given)
    if not paths:
        raise ValueError(f"{function}: {argument} must be a path or a list of these, not an empty list")
    return [f"./{path}" if path.startswith("-") and path != "-" else path for path in paths]


def _options(options: Dict[str, Any], flag_value: str = "") -> List[str]:
    """Returns options such as limit=3, overwrite=True, only_shards=[0, 1], column=["a", "b"] as command line flags.
    `flag_value`: what is put behind flags."""
    arguments = []
    for name, value in options.items():
        value = _value_of(name, value)
        flag = "--" + name.replace("_", "-")
        value = bool(value) if isinstance(value, np.bool_) else value
        if value is True:
            arguments.append(flag + flag_value)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                text = os.fsdecode(one) if isinstance(one, os.PathLike) else str(one)
                if "\0" in text:
                    raise ValueError(f"{name} must be a str without NUL, not {shown(one)}")
                # What begins with a dash is a value only behind "=", and nothing is one only as an argument.
                arguments += [f"{flag}={text}"] if text else [flag, ""]
    return arguments


def _in_python(message: str, arguments: Sequence[str] = ()) -> str:
    """Returns an error or a note of the program with its flags spelled as arguments of these functions, but not in the texts of
    `arguments`, which may be names of files."""
    def argument(match: "re.Match[str]") -> str:
        if not match[1]:
            return match[0]
        name = match[1].replace("-", "_")
        return {"jobs": "threads"}.get(name, name) + (f"={match[2]!r}" if match[2] else "")

    def spelled(match: "re.Match[str]") -> str:
        value = match[2] or "True"
        # Placeholders are in capitals; other values are texts.
        if match[2] and not match[2].isupper():
            value = repr(value)
        return f"; pass {match[1].replace('-', '_')}={value} to "
    message = re.sub("; --compression does$", "; the argument compression does", message)
    message = re.sub(r"; pass --([a-z-]+)(?: (\S+))? to (?=[^;]*$)", spelled, message)
    texts = sorted((text for one in arguments
                    if "--" in (text := one.partition("=")[2] if one.startswith("--") else one)), key=len, reverse=True)
    return re.sub("|".join([*map(re.escape, texts), _FLAG]), argument, message)


def _misuse(message: str) -> Exception:
    """What the program says of a wrong command line, as the error of a function."""
    message = message.partition("\nRun '")[0]
    if match := re.fullmatch(r"(\S+): there is no option ([^;]*)(;.*)?", message):
        more = match[3] or f"; the arguments are the options that 'shardfeed convert {match[1]} --help' lists"
        return TypeError(f"{match[1]}: there is no argument {match[2]!r}{more}")
    return (TypeError if re.match(r"\S+: this kind has no ", message) else ValueError)(message)


def _run(*arguments: str, reported: Sequence[int] = ()) -> Dict[str, Any]:
    """Runs a command and returns its report. Statuses in `reported` are no errors if there is a report."""
    # Imported here, so that importing the package is quick.
    import json
    import subprocess
    limit = ["--max-record-bytes", str(_core.max_record_bytes())]
    done = subprocess.run([program(), *arguments, *limit, "--json"], stdin=subprocess.DEVNULL,
                          capture_output=True)
    if done.returncode == DONE or (done.returncode in reported and done.stdout):
        return json.loads(done.stdout)
    message = done.stderr.decode(errors="backslashreplace").strip().removeprefix("shardfeed: ")
    message = _in_python(message, arguments)
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode == USAGE:
        raise _misuse(message)
    if done.returncode == DEFECTS:
        raise DataLossError(message)
    raise OSError(message or f"the program ended with {done.returncode}")


@checked
def set_max_record_bytes(size: Size) -> None:
    """Sets the longest record that may be read from a compressed shard, for this process from
    now on and for the functions convert, index, verify and inspect. The default is 2 GiB. A
    longer record is an OSError: a few megabytes can inflate to a record that fills any
    memory."""
    _core.set_max_record_bytes(size)


@checked
def convert(kind: str, source: Union[PathLike, Sequence[PathLike]], out: Optional[PathLike] = None,
            **options: Any) -> Dict[str, Any]:
    """Converts raw data to a dataset: convert("imagefolder", "photos/", "out/train@16",
    shuffle=1).

    The kind and the options are those of `shardfeed convert`, with _ for -; flags are True, several
    values a list, and split={"train": 0.9, "test": 0.1} the shares of splits. Parquet,
    Arrow, HDF5, npz, SQLite and LMDB are read in this process, by libraries that
    `pip install shardfeed[tables]` brings. dry_run=True, which needs no `out`, writes nothing.
    Returns {"dataset", "shards", "records", "bytes", "notes", "skipped", ...}.

    TypeError: there is no such argument. ValueError: a value that an argument does not take, or the dataset exists.
    DataLossError: broken input, named with its place."""
    from .tables import KINDS, Disagreement
    if kind.startswith("-"):
        raise ValueError(f"convert: there is no kind of source {kind!r}")
    for name in options:
        if name == "help" or name.startswith("_") or not name.isidentifier():
            raise _misuse(f"{kind}: there is no option {name}")
    if out is None and not options.get("dry_run"):
        raise TypeError("convert: the argument 'out' is missing; pass dry_run=True to write nothing")
    # The program would take what follows as the value of an option that is no flag.
    given = _options(options, "" if kind in KINDS else "=True")
    sources = _paths("convert", "source", source)
    if "-" in sources:
        raise ValueError(f"{kind}: standard input can only be read by the command line; name files")
    arguments = [*sources, *([] if out is None else _paths("convert", "out", out)), *given]
    if kind in KINDS:
        from .command_line import Misuse
        from .tables import program as tables
        try:
            report = tables.run(tables.parse(kind, arguments))
        except Misuse as error:
            raise _misuse(_in_python(f"{kind}: {error}", arguments)) from None
        except (FileExistsError, Disagreement) as error:  # as for the program's kinds
            raise ValueError(_in_python(str(error), arguments)) from None
    else:
        # Records that on_error="skip" left out are in the result, and not an error, and so is what a dry run tells.
        report = _run("convert", kind, *arguments, reported=[DEFECTS, USAGE] if options.get("dry_run") else [DEFECTS])
    return {**report, "notes": [_in_python(note, arguments) for note in report["notes"]]}


@checked
def index(spec: Union[PathLike, Sequence[PathLike]], *, export: Optional[Literal["dali", "tfindex"]] = None,
          manifest: bool = False, lengths: Union[Sequence[str], Mapping[str, Callable[[Any], int]]] = (),
          threads: Optional[Threads] = None) -> Dict[str, Any]:
    """Writes an index beside each shard. export="dali" or "tfindex" also writes the indexes of
    these tools. manifest=True also writes the manifest of a whole dataset that another program
    wrote, with the schema and the statistics, for which all records are read and checked.

    `lengths` keeps a length of each record in the indexes (docs/index.md#lengths-of-records):

    - ["tokens"]: of these features. Shards that have them already are not read again.
    - {"tokens": fn}: what fn(row) returns for the rows of sf.read(spec).parse(), an integer of at
      least 0. Functions are called for all rows each time, on the library's threads."""
    specs = _paths("index", "spec", spec)
    functions = lengths if isinstance(lengths, Mapping) else {}
    done = _run("index", *specs, *_options({"export": export, "manifest": manifest, "threads": threads,
                                            "length": () if functions else list(lengths)}))
    if functions:
        from .lengths import measure
        lengths_of = {**done.get("lengths", {}), **measure(specs, functions, threads)}
        done["lengths"] = dict(sorted(lengths_of.items()))
    return done


def _counted(n: int, one: str) -> str:
    return f"{n} {one}{'s' * (n != 1)}"


def _amounts(shards: int, records: int, size: int) -> str:
    return f"{_counted(shards, 'shard')}, {_counted(records, 'record')}, {_counted(size, 'byte')}"


def _paragraph(text: str) -> str:
    from html import escape
    return f"<p>{escape(text)}</p>"


def _table(head: List[str], rows: List[List[str]]) -> str:
    """Returns an HTML table, or an empty string if there are no rows."""
    from html import escape
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    names = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><tr>{names}</tr>{''.join(lines)}</table>" if rows else ""


class Defect(NamedTuple):
    """A defect and its place; the offset is in bytes."""

    shard: str
    kind: str
    record: int
    offset: int
    detail: str


class VerifyReport(NamedTuple):
    """The result of verify: true if nothing is wrong. `defects` has the first 100 of each
    shard; a file that cannot be read is a defect of the kind "unreadable". `notes` are not defects:
    skipped members and repeated keys of tar archives."""

    shards: int
    records: int
    bytes: int
    num_defects: int
    defects: List[Defect]
    notes: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.num_defects == 0

    def raise_if_damaged(self) -> None:
        """Raises DataLossError if there are defects, or OSError if the first is a file that cannot be read."""
        if self.defects:
            first = self.defects[0]
            raise (OSError if first.kind == "unreadable" else DataLossError)(first.detail)

    def __repr__(self) -> str:
        lines = [f"{_amounts(self.shards, self.records, self.bytes)}: "
                 + ("intact" if self else _counted(self.num_defects, "defect"))]
        return "\n".join(lines + [f"  {d.detail}" for d in self.defects]
                         + [f"  note: {note}" for note in self.notes])

    def _repr_html_(self) -> str:
        rows = [[d.shard, d.kind, str(d.record), str(d.offset), d.detail] for d in self.defects]
        return (_paragraph(repr(self).splitlines()[0])
                + _table(["shard", "defect", "record", "byte", "what is wrong"], rows))


@checked
def verify(spec: Union[PathLike, Sequence[PathLike]], *,
           level: Literal["headers", "payload", "examples", "images"] = "payload",
           threads: Optional[Threads] = None) -> VerifyReport:
    """Checks every byte, and returns all defects that it found. `level` is "headers", "payload", "examples" or
    "images".

    ValueError: a wrong argument. OSError: there is no such dataset, or its folder cannot be listed."""
    report = _run("verify", *_paths("verify", "spec", spec), *_options({"level": level, "threads": threads}),
                  reported=[DEFECTS, FAILED])
    found = [Defect(d.get("shard", ""), d.get("kind", ""), d.get("record", 0), d.get("offset", 0),
                    d.get("detail", "")) for d in report["defects"]]
    return VerifyReport(report["shards"], report["records"], report["bytes"],
                        report["num_defects"], found, report.get("notes", []))


class Inspection:
    """The contents of a dataset. `.data` is the result of `shardfeed inspect --json`; its repr is
    text and, in a notebook, a table with the images of the first records."""

    def __init__(self, spec: List[str], data: Dict[str, Any]):
        self._spec = spec
        self.data = data

    @property
    def records(self) -> int:
        return self.data["records"]

    @property
    def features(self) -> Dict[str, Any]:
        return self.data["features"]

    @property
    def classes(self) -> Dict[str, Dict[int, str]]:
        """The names of the classes by their numbers, for each feature whose classes the manifest
        names: {"image/class/label": {0: "cat", 1: "dog"}}."""
        return {feature: dict(zip(of.get("numbers", range(len(of["names"]))), of["names"]))
                for feature, of in self.data.get("classes", {}).items()}

    def _rows(self) -> List[List[str]]:
        rows = []
        for name, f in self.features.items():
            least, most = f.get("min_values", 0), f.get("max_values", 0)
            values = str(least) if least == most else f"{least} to {most}"
            rows.append([name, str(f.get("kind", "")), values, str(f.get("records", ""))])
        return rows

    def __repr__(self) -> str:
        head = f"{' '.join(self._spec)}: {_amounts(self.data['shards'], self.records, self.data['bytes'])}"
        rows = [["feature", "kind", "values", "records"], *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in (0, 1, 2, 3)]
        lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip()
                 for row in rows]
        for feature, names in self.classes.items():
            first = ", ".join(map(repr, list(names.values())[:5]))
            more = ", ..." if len(names) > 5 else ""
            lines.append(f"  {len(names)} classes of {feature}: {first}{more}")
        for name, lengths in self.data.get("lengths", {}).items():
            lines.append(f"  lengths of {name}: {lengths['total']} in all, mean {lengths['mean']:.1f}, "
                         f"largest {lengths['max']}")
        return "\n".join([head] + lines)

    def _repr_html_(self) -> str:
        try:
            images = self._images()
        except (DataLossError, OSError, RuntimeError, TypeError, ValueError) as error:  # or records are odd
            images = _paragraph(str(error))
        return (_paragraph(repr(self).splitlines()[0])
                + _table(["feature", "kind", "values", "records"], self._rows()) + images)

    def _images(self, most: int = 4) -> str:
        import itertools
        from .sources import read
        from .viewer import examples, images
        tags = []
        for record in read(self._spec)[:most] if self.records else ():
            features = examples.features_or_whole(record)
            for place in itertools.islice(images.places(features, most), most):
                try:
                    url, _ = images.image_url(features, place)
                except images.Unshown:
                    continue
                tags.append(f'<img height="96" src="{url}"/>')
        return "".join(tags)


@checked
def inspect(spec: Union[PathLike, Sequence[PathLike]], *, records: Count = 2,
            statistics: bool = False) -> Inspection:
    """Returns the schema, counts, record sizes and first records of a dataset. With `statistics`,
    `.data["statistics"]` has, for each feature, counts, extremes, mean, deviation, quantiles, the most
    frequent values and the number of different ones (docs/statistics.md): from the manifest if it has
    them, otherwise all records are read (`.data["statistics_from"]` is "manifest" or "records")."""
    specs = _paths("inspect", "spec", spec)
    return Inspection(specs, _run("inspect", *specs, "--records", str(records),
                                  *_options({"statistics": statistics})))


class Drift(NamedTuple):
    """How far the values of a feature differ in two datasets: `distance` is from 0 to 1, and `measure`
    says what was compared: "distribution", "length", "frequency" (of `value`), "NaN", "infinite" or
    "missing" (docs/statistics.md).
    `significant` is false if samples of these sizes differ as much by chance."""

    feature: str
    distance: float
    measure: str
    value: Optional[str]
    significant: bool


class Difference(NamedTuple):
    """The result of diff: a sentence for each difference of the schemas, and the features that both
    datasets have, the largest distance first. The values of features in `not_compared` have no
    statistics, because there are more than 256 features."""

    schema: List[str]
    drift: List[Drift]
    max_drift: float
    not_compared: Sequence[str] = ()

    @property
    def drifted(self) -> List[Drift]:
        """Features whose distance is significant and above `max_drift`."""
        return [one for one in self.drift if one.significant and one.distance > self.max_drift]


@checked
def diff(first: PathLike, second: PathLike, *, max_drift: float = 0.1,
         threads: Optional[Threads] = None) -> Difference:
    """Compares the schemas and the values of two datasets. It reads all records of a dataset whose
    manifest has no statistics."""
    if not 0 <= max_drift <= 1:
        raise ValueError(f"max_drift must be from 0 to 1, not {shown(max_drift)}")
    report = _run("diff", *_paths("diff", "first", first), *_paths("diff", "second", second),
                  *_options({"max_drift": max_drift, "threads": threads}), reported=[DEFECTS])
    drift = [Drift(d["feature"], d["distance"], d["measure"], d.get("value"), d["significant"])
             for d in report["drift"]]
    return Difference(report["schema"], drift, max_drift, report["not_compared"])
