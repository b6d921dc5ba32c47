"""Sources of chains: datasets that are read or made, and combinations of several datasets."""

from __future__ import annotations

import os
import re
from typing import (Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union,
                    overload)

import numpy as np

from . import _core, functions
from . import structure as structures
from .arguments import TO_END, Count, Position, Seed, Size, Threads, checked, specs_of
from .choices import End, Exhausted, Io
from .dataset import Dataset, _alike, _concatenate, _mix, _zip
from .exact import check_no_nulls
from .features import ColumnSpec, FeatureLike

Records = Union[str, Sequence[Tuple[int, int]], None]


_MOST_RECORDS = 1 << 62  # ranges end here at the latest, far above any dataset


def _ranges(records: Records) -> Optional[List[Tuple[int, int]]]:
    """Returns (first, count) of each range, also for text such as "0-99,200,990-"."""
    if records is None:
        return None
    found: List[Tuple[int, int]] = []
    if not isinstance(records, str):
        found = [(int(first), int(count)) for first, count in records]
        for first, count in found:
            if first < 0 or count < 0 or first + count > _MOST_RECORDS:
                raise ValueError(f"records must be pairs of the first record and how many, got ({first}, {count})")
        return found
    for part in records.split(","):
        match = re.fullmatch(r"\s*(\d+)(-(\d+)?)?\s*", part, re.ASCII)
        if match is None:
            raise ValueError("records must be numbers and ranges, which include both ends or go up to the last record, "
                             f"such as '7,0-5,990-', got {records!r}")
        first = int(match[1])
        last = int(match[3]) if match[3] else first
        if last < first:
            raise ValueError(f"records {records!r}: {first}-{last} ends before it begins")
        if last >= _MOST_RECORDS:
            raise ValueError(f"records {records!r}: {last} is larger than any number of a record")
        found.append((first, last - first + 1 if match[3] or not match[2] else TO_END))
    return found


def size_of(argument: str, size: Union[int, str]) -> int:
    """Bytes of a number or of "200GB", as the command line has it: K, M, G, T and KiB are binary."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kKMGT])(iB|B|)|B)?", size, re.ASCII)
    bytes_ = 0
    if match is not None:
        base = 1000 if match[3] == "B" else 1024
        power = " KMGT".index(match[2].upper()) if match[2] else 0
        bytes_ = int(float(match[1]) * base ** power)
    if not 0 < bytes_ < 1 << 63:
        raise ValueError(f"{argument} must be a number of bytes or a size such as '200GB', "
                         f"got {size!r}")
    return bytes_


@checked
def read(spec: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]], *,
         records: Records = None, batch: Size = 1, end: End = "drop", check_crc: bool = True,
         skip_damaged: bool = False, max_skipped: Union[int, str, None] = None, io: Io = "auto",
         threads: Threads = 0, budget_bytes: Count = 0, block_records: Count = 0,
         cache: Union[str, os.PathLike, None] = None,
         cache_size: Union[Size, str, None] = None, number: str = "") -> Dataset:
    """Reads the records of shards, as bytes.

    `spec` is "out/train@16", "out/train@*", a folder, a glob, files, or a list of these; or a URL
    of one in S3, Google Cloud Storage, Azure or on an HTTP server, such as
    "s3://bucket/train@16". The shards may come from any writer; missing indexes are built.

    Shards may also be WebDataset's tar archives, "train-{00000..00146}.tar", read in place: a
    record is a sample, which parse() splits into one bytes column for each extension
    (docs/webdataset.md). A UserWarning tells of files that belong to no sample, when an index is built.

    The shards of MosaicML Streaming (MDS) are read in place as well, by the name of their folder: a
    record is a sample, with one feature for each column (docs/mds.md). So are ArrayRecord files, which
    TFDS, Grain and MaxText use: "train.array_record*" (docs/arrayrecord.md).

    - `records`: ranges of record numbers, "0-99,200,990-" (the last one up to the end) or [(first, count)].
    - `batch`, `end`: if shard() comes next, every rank gets the same number of whole batches of
      `batch` records. The rest of an epoch is dropped ("drop"), or filled up with the epoch's first records: with
      "pad" the iterator counts these rows (Iterator.padded), with "wrap" it does not.
    - `check_crc`: checks both CRCs of each record.
    - `skip_damaged`: damaged records do not end the run. They keep their rows, so that all ranks
      stay in step: records are empty, numbers are 0 and lists are empty. Iterator.damaged has these
      rows of the last element, and stats()["damaged"] counts them, with those that filters and
      functions over batches dropped. Functions over rows and filters are not called for them.
    - `max_skipped`: raises DataLossError if more than this number or share ("5%") of an epoch's
      records are damaged. The default is 1 %, and at least 10.
    - `io`: "auto", "uring", "threads" or "mmap".
    - `budget_bytes`: limits what is read ahead; 0 is half of the run's (with_options).
    - `cache`: a folder of this machine that keeps what is read from a store, for all of its
      processes and for later runs; it is created if it does not exist. Local shards are not kept.
    - `cache_size`: how much the folder may hold: bytes, or a text such as "200GB". The default is
      the size of its disk, less a reserve of 5 % (at most 10 GiB, or SHARDFEED_CACHE_RESERVE).
    - `number`: the name of an int64 column with the number of each record, beside the bytes column
      "record", which parse() takes. It is the number that ds[7] uses without `records`, and that `cat -r` and `replay` use.

    FileNotFoundError, ValueError: the spec names no dataset, or several. DataLossError: shards
    are missing."""
    if max_skipped is not None and not skip_damaged:
        raise ValueError("max_skipped: nothing is skipped without skip_damaged=True")
    ceiling = None if max_skipped is None else str(max_skipped)
    if cache_size is not None and cache is None:
        raise ValueError("cache_size: there is no cache; name its folder by cache=")
    if cache is not None and not os.fspath(cache):
        raise ValueError("cache: expected a folder, got ''")
    if cache is not None and re.match("(s3|gs|az|abfss|https?|file):/", os.fspath(cache)):
        raise ValueError("cache: a cache is a folder of this machine, not a URL")
    names = specs_of(spec)
    text = f"read({names[0]!r})" if len(names) == 1 else f"read({names!r})"
    return Dataset("shards", (names, _ranges(records), batch, end, check_crc, skip_damaged, ceiling,
                              io, threads, budget_bytes, block_records,
                              "" if cache is None else os.path.abspath(os.fspath(cache)),
                              0 if cache_size is None else size_of("cache_size", cache_size), number), [],
                   text, None if number else "record")


def cache_stats() -> Dict[str, Any]:
    """Returns what the caches of read(cache=) have done in this process so far.

    - "hits", "hit_bytes": reads of blocks (8 MiB of a shard), or of parts of these, from the cache
    - "misses": blocks that were not there, counted each time they were needed
    - "stored", "stored_bytes": blocks that this process has fetched into the cache
    - "waits": blocks that another process was fetching
    - "refused": how often there was no room for a block within `cache_size`
    - "damaged": blocks that were fetched again because they did not match their CRC
    - "trouble": the first error of a cache, which does not end a run; "": none"""
    return dict(_core.cache_stats())


@checked
def range_(start: int, stop: Optional[int] = None, step: int = 1,
           name: str = "value") -> Dataset:
    """Makes a column of int64, as Python's range."""
    if stop is None:
        start, stop = 0, start
    return Dataset("range", (start, stop, step, name), [], f"range({start}, {stop}, {step})")


@checked
def from_arrays(columns: Mapping[str, Any]) -> Dataset:
    """Delivers the rows of arrays in memory: {name: array [rows, ...] | Ragged | list of
    bytes}."""
    specs: List[ColumnSpec] = []
    values = []
    rows = 0
    for name, value in columns.items():
        check_no_nulls(name, value)
        if isinstance(value, list):
            array = np.asarray(value)
            value = value if array.dtype.kind in "SUO" else array
        if isinstance(value, list):
            specs.append((name, "bytes", (), False))
        else:
            specs.append(functions.infer_batch(name, value, ()))
        values.append(functions.batch_value(value, specs[-1])[0])
        rows = len(value)
    return Dataset("rows", (specs, values, rows), [], f"from_arrays({', '.join(columns)})")


@checked
def from_generator(make: Callable[[], Iterable[Any]],
                   output: Optional[Mapping[str, FeatureLike]] = None,
                   version: str = "") -> Dataset:
    """Delivers the elements of make(), as tf.data's from_generator.

    Each run calls make and iterates over the result on a thread of the library; loading a saved
    state starts it again. `output` declares the columns, as for map; without it they are
    learned from the first element. `version`: as for map."""
    name = getattr(make, "__name__", type(make).__name__)
    if output is not None:
        outputs, structure = functions.declared(output), None
    else:
        first = next(functions.elements_of(make), None)
        if first is None:
            raise ValueError(f"from_generator({name}): there are no elements from which to infer "
                             "their columns; declare output=")
        structure, values = structures.flatten(first)
        outputs = [functions.infer_row(k, v) for k, v in values.items()]
    call = functions.GeneratorFunction(make, None, outputs, structure)
    return Dataset("from_generator", (call, outputs, version), [], f"from_generator({name})", structure)


# ---- Combinations


def _several(given: Tuple[Any, ...]) -> Tuple[Any, Tuple[Any, ...]]:
    """Returns the datasets, given as arguments or as a list, and the arguments after a list."""
    if len(given) > 0 and not isinstance(given[0], Dataset):
        return given[0], given[1:]
    return list(given), ()


def concatenate(*datasets: Union[Dataset, Sequence[Dataset]]) -> Dataset:
    """Delivers one dataset after another: concatenate(a, b), or a list of them."""
    several, rest = _several(datasets)
    return _concatenate(several, *rest)


def zip_(*datasets: Union[Dataset, Sequence[Dataset]]) -> Dataset:
    """Puts datasets side by side: rows have the columns of all, which must have different
    names. It ends with the shortest one. zip(a, b), or a list of them."""
    several, rest = _several(datasets)
    return _zip(several, *rest)


@overload
def interleave(datasets: Sequence[Dataset], cycle: int, block: int = 1) -> Dataset: ...
@overload
def interleave(*datasets: Dataset, cycle: int, block: int = 1) -> Dataset: ...
def interleave(*datasets: Any, **options: Any) -> Dataset:
    """As tf.data's interleave: `cycle` datasets at a time, `block` elements of each in turn.
    interleave(a, b, cycle=2), or of a list."""
    several, rest = _taken(datasets, options)
    return _interleave(several, *rest, **options)


# The arguments of read without options, after the spec and the records.
_READ_OPTIONS: Tuple[Any, ...] = (1, "drop", True, False, None, "auto", 0, 0, 0, "", 0, "")
Source = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]], Dataset]


@overload
def mix(sources: Mapping[str, Source], weights: Optional[Mapping[str, float]] = None, *,
        schedule: Sequence[Tuple[int, Mapping[str, float]]] = (),
        length: Optional[int] = None, seed: Optional[int] = None, source: str = "",
        number: str = "") -> Dataset: ...
@overload
def mix(datasets: Sequence[Dataset], weights: Optional[Sequence[float]] = None, seed: int = 0,
        exhausted: Union[Exhausted, Sequence[Exhausted]] = "drop",
        exact: bool = False) -> Dataset: ...
@overload
def mix(*datasets: Dataset, weights: Optional[Sequence[float]] = None, seed: int = 0,
        exhausted: Union[Exhausted, Sequence[Exhausted]] = "drop",
        exact: bool = False) -> Dataset: ...
def mix(*datasets: Any, **options: Any) -> Dataset:
    """Mixes datasets by weight.

    mix({"web": "out/web@64", "code": sf.read("out/code@8")}, {"web": 0.8, "code": 0.2}) takes the records of
    datasets that are only read, by a plan that is known ahead (docs/mixtures.md). Its elements are
    records, as those of sf.read: shuffle(), shard(), parse() and so on follow. All are read with the
    options of the sf.read among them, which must not differ, except in records.

    - `weights`: of each name; by default as many as each has records.
    - `schedule`: [(position, weights)], which count from that record of all ranks and epochs on.
    - `length`: the records of an epoch; sources are repeated. By default an epoch ends before a
      source would have to be repeated. The next one goes on with every source where it was.
    - `seed`: draws the source of each element at random, by position; in about every 8,192 elements, each
      source still has its share. By default sources take turns as evenly as possible.
    - `source`: the name of an int32 column with the number of each record's source, in the order of the
      names, beside the bytes column "record", which parse() takes.
    - `number`: the name of an int64 column with the number of each record in its source, as sf.read
      counts them.

    mix(a, b, weights=[3, 1]), or a list of datasets, takes each element from one that is drawn
    by weight.

    - `exhausted`: for all or for each dataset: "drop" it when it ends, "stop", or "repeat" it.
    - `exact`: draws nothing and ignores seed; each element comes from the dataset that lacks
      most of its share so far, so weights [3, 1] are met in every four elements."""
    first = datasets[0] if datasets else options.get("sources")
    if isinstance(first, Mapping):
        return _mix_(*datasets, **options)
    several, rest = _taken(datasets, options)
    return _mix(several, *rest, **options)


@checked
def _mix_(sources: Mapping[str, Source], weights: Optional[Mapping[str, float]] = None, *,
          schedule: Sequence[Tuple[Position, Mapping[str, float]]] = (),
          length: Optional[Size] = None, seed: Optional[Seed] = None, source: str = "",
          number: str = "") -> Dataset:  # errors name it "mix"
    names = list(sources)
    if not names:
        raise ValueError("mix: there are no sources")
    reads = {name: source for name, source in sources.items() if isinstance(source, Dataset)}
    common = next(iter(reads.values()))._arguments[2:] if reads else _READ_OPTIONS
    for name, read_ in reads.items():
        if read_._method != "shards":
            raise TypeError(f"mix: {name!r} is {read_!r}, but the sources of a mixture are only read: "
                            "give sf.read or its spec, and put the other steps after the mix; or mix a list")
        if read_._arguments[-1]:
            raise ValueError(f"mix: {name!r} is read with number=; give it to mix, for all sources")
        if read_._arguments[2:] != common:
            raise ValueError(f"mix: {name!r} is read with other options than {next(iter(reads))!r}; give all sources "
                             "the same, except records")
    inputs = [(name, *(given._arguments[:2] if isinstance(given, Dataset) else (specs_of(given), None)))
              for name, given in sources.items()]
    segments = [(position, _weights_by_name(names, position, of_names))
                for position, of_names in [(0, weights), *schedule]]
    shown = ", ".join([f"{name!r}: {specs!r:.60}" for name, specs, _ in inputs[:8]] +
                      ["..."] * (len(names) > 8))
    return Dataset("mixture", (inputs, segments, length or 0, seed, *common[:-1], number, source), [],
                   f"mix({{{shown}}})", None if number or source else "record")


def _weights_by_name(names: List[str], position: int,
                     weights: Optional[Mapping[str, float]]) -> List[float]:
    """Returns the weights in the order of names; none if they are those of the numbers of records."""
    if weights is None:
        return []
    for name in weights:
        if name not in names:
            raise ValueError(f"mix: there is a weight for {name!r}, but no such source")
    for name in names:
        if name not in weights:
            raise ValueError(f"mix: the weights from position {position} on lack {name!r}; 0 leaves it out")
    return [weights[name] for name in names]


def _taken(given: Tuple[Any, ...], options: Dict[str, Any]) -> Tuple[Any, Tuple[Any, ...]]:
    if not given and "datasets" in options:
        return options.pop("datasets"), ()
    return _several(given)


@checked
def _interleave(datasets: Sequence[Dataset], cycle: Size, block: Size = 1) -> Dataset:
    return Dataset("interleave", (cycle, block), datasets, f"interleave({cycle}, {block})",
                   _alike(datasets))


@checked
def choose(datasets: Sequence[Dataset], choice: Union[Dataset, Sequence[int]],
           exhausted: Union[Exhausted, Sequence[Exhausted]] = "stop") -> Dataset:
    """Takes each element from the dataset whose number comes next in `choice`, as tf.data's
    choose_from_datasets.

    - `choice`: numbers from 0 on, which are repeated without end; or a dataset whose rows have
      a single int64, with which it ends.
    - `exhausted`: for all or for each, what happens when an ended dataset is chosen: "stop",
      "drop" it and skip its numbers, or "repeat" it. It ends once all have ended.

    ValueError: a number that no dataset has; from iterators if the choice is a dataset."""
    policies = [exhausted] if isinstance(exhausted, str) else list(exhausted)
    if isinstance(choice, Dataset):
        return Dataset("choose", (policies,), [*datasets, choice], "choose()", _alike(datasets))
    numbers = np.asarray(choice, np.int64)
    if numbers.size == 0:
        raise ValueError("choose: choice has no numbers")
    wrong = numbers[(numbers < 0) | (numbers >= len(datasets))]
    if wrong.size:
        raise ValueError(f"choose: dataset {wrong[0]} does not exist: there are {len(datasets)}, "
                         "numbered from 0")
    # Repeating a few numbers would begin a new epoch all the time.
    repeated = from_arrays({"choice": np.tile(numbers, -(-1024 // numbers.size))}).repeat()
    return Dataset("choose", (policies,), [*datasets, repeated], f"choose({choice!r:.60})",
                   _alike(datasets))
