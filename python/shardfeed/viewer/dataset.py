"""What the page shows of one dataset, as values for JSON. Everything is read when it is requested."""

from __future__ import annotations

import decimal
import json
import math
import operator
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._core import DataLossError
from ..command import program
from ..exit_status import DEFECTS
from ..features import ragged
from ..sources import read
from . import examples, media

SHOWN_VALUES = 32  # the list of records shows this many values of a feature
SHOWN_BYTES = 300  # and this many bytes of a value
MAX_AT_ONCE = 200  # records of one answer
_BYTES_AT_ONCE = 32 << 20  # of records, as far as those before tell their size
_MOST_FLOAT = float(np.finfo(np.float32).max)
_ROWS_AT_ONCE = 4096  # of a search
_NO_VALUE = (ValueError, DataLossError)  # what parsing a record raises
_FIND_SECONDS = 1.0


class Missing(LookupError):
    """There is no such record, feature or value. The message is for users."""


class Task:
    """A run of the program that answers with JSON, in the background. Runs once, and after a failure only if
    it is started `again`; thread-safe."""

    def __init__(self, *arguments: str):
        self._arguments = arguments
        self._lock = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._state: Dict[str, Any] = {"state": "idle"}

    def start(self, again: bool = False) -> None:
        with self._lock:
            if self._state["state"] != "idle" and not (again and self._state["state"] == "failed"):
                return
            self._state = {"state": "running", "since": time.monotonic()}
            self._process = subprocess.Popen([program(), *self._arguments, "--json"], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        out, err = process.communicate()
        try:
            state = {"state": "done", "result": json.loads(out)}
        except ValueError:
            message = err.decode(errors="replace").strip() or f"the program ended with {process.returncode}"
            state = {"state": "failed", "error": message.removeprefix("shardfeed: "), "status": process.returncode}
        with self._lock:
            self._state = state

    def state(self) -> Dict[str, Any]:
        """{"state": "idle" | "running" | "done" | "failed", "result", "error", "status", "seconds"}"""
        with self._lock:
            state = dict(self._state)
        if "since" in state:
            state["seconds"] = time.monotonic() - state.pop("since")
        return state

    def result(self) -> Any:
        """Starts, waits for the end and returns the result. DataLossError, RuntimeError: the run failed."""
        self.start()
        while (state := self.state())["state"] == "running":
            time.sleep(0.01)
        if state["state"] == "failed":
            raise (DataLossError if state["status"] == DEFECTS else RuntimeError)(state["error"])
        return state["result"]

    def stop(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()


class Row(NamedTuple):
    """A record as it was read: `error` instead of `record` if it is damaged."""

    number: int
    record: bytes
    error: str


class ViewedDataset:
    """Thread-safe. Opening reads names and sizes of shards and their indexes, and no record.

    FileNotFoundError, ValueError, DataLossError: as for sf.read."""

    def __init__(self, spec: str, flags: Sequence[str] = ()):
        """`flags` are given to the program where it reads all records."""
        self.spec = spec
        self.flags = list(flags)
        self.chain = read(spec)
        self._records = self.chain._records
        self._lock = threading.Lock()
        self._files: Dict[str, Tuple[int, ...]] = {}  # the shards seen so far, as they were then
        # Whoever writes the dataset anew replaces all of its shards.
        self._check_unchanged({0, len(self) - 1} if len(self) else ())
        self.overview = Task("inspect", spec, "--records", "0", *flags)
        self.statistics = Task("inspect", spec, "--records", "0", "--statistics", *flags)
        self.verify = Task("verify", spec, *flags)

    def __len__(self) -> int:
        return len(self._records)

    def close(self) -> None:
        for task in (self.overview, self.statistics, self.verify):
            task.stop()

    # ---- Records

    def rows(self, numbers: Sequence[int]) -> List[Row]:
        """Reads records. A damaged one costs its own row only. Missing: there is no such record."""
        for number in numbers:
            if not 0 <= number < len(self):
                raise Missing(f"there is no record {number}: {self.spec} has {len(self):,} records")
        if not numbers:
            return []
        self._check_unchanged({0, *numbers})
        try:
            with self._lock:
                found = self._records.get(list(numbers), 1)
            return [Row(number, found[i], "") for i, number in enumerate(numbers)]
        except (DataLossError, OSError) as error:
            if len(numbers) == 1:
                return [Row(numbers[0], b"", str(error))]
        return [row for number in numbers for row in self.rows([number])]

    def _check_unchanged(self, numbers: Iterable[int]) -> None:
        """Missing: a local shard of these records is no longer the file that it was."""
        try:
            paths = {self._records.place(number)[0] for number in numbers}
        except (OSError, DataLossError):
            return  # of the index, without which nothing is read
        for path in paths:
            try:
                info = os.stat(path)
            except OSError:
                continue  # in a store, whose versions the reader compares; or gone, which reading will tell
            now = info.st_ino, info.st_size, info.st_mtime_ns
            if self._files.setdefault(path, now) != now:
                raise Missing(f"{path}: was replaced or changed after the dataset was opened; run the command again")

    def records(self, numbers: Sequence[int]) -> List[Dict[str, Any]]:
        """Returns records for lists: of each feature, its first values."""
        if len(numbers) > MAX_AT_ONCE:
            raise Missing(f"{len(numbers)} records are more than {MAX_AT_ONCE} at once")
        shown: List[Dict[str, Any]] = []
        count = 1
        while len(shown) < len(numbers):
            rows = self.rows(numbers[len(shown):len(shown) + count])
            shown += [self._shown(row, SHOWN_VALUES) for row in rows]
            count = 1 + _BYTES_AT_ONCE // max(1, *(len(row.record) for row in rows))
        return shown

    def record(self, number: int) -> Dict[str, Any]:
        """Returns a record with more of its values, and its place."""
        found = self._shown(self.rows([number])[0], 1000)
        shard, in_shard, offset = self._records.place(number)
        return {**found, "shard": shard, "shard_record": in_shard, "offset": offset}

    def _shown(self, row: Row, most: int) -> Dict[str, Any]:
        if row.error:
            return {"record": row.number, "error": row.error}
        found: Dict[str, Any] = {"record": row.number, "bytes": len(row.record)}
        try:
            features = examples.features_of(row.record)
        except examples.NotAnExample:
            # The record itself is the value, of a feature without a name.
            features = [examples.Feature("", "bytes", [row.record])]
            found["not_an_example"] = True
        found["features"] = [_feature_shown(one, most) for one in features]
        if pixels := _raw_pixels(features):
            found["raw_image"] = pixels
        return found

    def value(self, number: int, feature: str, index: int) -> bytes:
        """Returns a value of bytes. Missing: there is none."""
        row = self.rows([number])[0]
        if row.error:
            raise Missing(row.error)
        try:
            one = self._feature(row.record, feature)
        except examples.NotAnExample as error:
            if feature == "" and index == 0:
                return row.record
            raise Missing(f"the record is not an Example: {error}") from None
        if one.kind != "bytes" or not 0 <= index < len(one.values):
            raise Missing(f"feature {feature!r} of record {number} has no value {index} of bytes")
        value: bytes = one.values[index]
        return value

    def _feature(self, record: bytes, name: str) -> examples.Feature:
        named = [one for one in examples.features_of(record) if one.name == name]
        found = next((one for one in named if one.kind == "bytes"), named[0] if named else None)
        if found is None:
            raise Missing(f"there is no feature {name!r}")
        return found

    def image(self, number: int, feature: str, index: int) -> Tuple[str, bytes]:
        """Returns the media type and the bytes of what a browser can show as an image: encoded images as they are,
        others, raw pixels and arrays as PNG. Missing: it is none."""
        value = self.value(number, feature, index)
        kind = media.media_type(value)
        if feature == "image/raw" and kind is None:
            pixels = _pixels_of(examples.features_of(self.rows([number])[0].record))
            if pixels is None:
                raise Missing(f"the pixels of record {number} do not have the size that it states")
            return "image/png", media.png(pixels)
        if kind == "array/npy":
            shown = _npy_image(value)
            if shown is not None:
                return "image/png", shown
        elif kind is not None and media.is_shown_by_browsers(kind):
            return kind, value
        elif kind is not None and kind.startswith("image/"):
            return "image/png", self._decoded(number, feature)
        raise Missing(f"feature {feature!r} of record {number} is not an image")

    def _decoded(self, number: int, feature: str) -> bytes:
        """Decodes an image that browsers do not know, in the size that the record states."""
        sizes = {"image/height": 512, "image/width": 512}
        for one in examples.features_of(self.rows([number])[0].record):
            if one.name in sizes and one.kind == "int64" and len(one.values) == 1 and 0 < one.values[0] <= 4096:
                sizes[one.name] = int(one.values[0])
        size = (sizes["image/height"], sizes["image/width"])
        from ..features import bytes_
        try:
            chain = self.chain.parse({feature: bytes_}).decode_image(feature, size, output="pixels")
            return media.png(np.asarray(chain[number]["pixels"]))
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            raise Missing(str(error)) from None

    # ---- Searching

    def find(self, feature: str, compare: str, text: str, first: int, most: int = 50) -> Dict[str, Any]:
        """Searches onwards from record `first`, for about a second: {"records": numbers, "next": the record to
        continue from, or None at the end}. `compare`: "contains" and "=" of bytes; "=", "!=", "<", "<=", ">" and
        ">=" of numbers, where one value in the record is enough; "missing" and "present". Feature "" is the whole
        record. Missing: wrong arguments."""
        holds, chain = self._matcher(feature, compare, text)
        found: List[int] = []
        until = time.monotonic() + _FIND_SECONDS

        def enough() -> bool:
            return first >= len(self) or len(found) >= most or time.monotonic() > until

        def look(count: int) -> None:
            """Searches in the next `count` records."""
            nonlocal first
            for batch in chain(first, count):
                column = batch[feature] if isinstance(batch, dict) else batch
                hits = (first + np.flatnonzero(holds(column))).tolist()
                # A damaged record is read as an empty one.
                found.extend(hits if compare != "missing" else [n for n in hits if not self.rows([n])[0].error])
                first += len(column)
                if enough():
                    return

        while not enough():
            try:
                look(len(self) - first)
            except _NO_VALUE:
                # A record of these is no Example, or has values of another kind: it has none that is searched for.
                end = first + _ROWS_AT_ONCE
                while first < end and not enough():
                    at = first
                    try:
                        look(1)
                    except _NO_VALUE:
                        if compare in ("missing", "present") and self._has(at, feature) == (compare == "present"):
                            found.append(at)
                        first = at + 1
        if len(found) > most:
            first = found[most]
            del found[most:]
        return {"records": found, "next": first if first < len(self) else None}

    def _has(self, number: int, name: str) -> Optional[bool]:
        """Whether a record has values of a feature, of any kind. None: it is damaged, or no Example."""
        row = self.rows([number])[0]
        try:
            return None if row.error else any(one.name == name and len(one.values) > 0
                                              for one in examples.features_of(row.record))
        except examples.NotAnExample:
            return None

    def _kind_in_first(self, name: str) -> Optional[Dict[str, Any]]:
        """What the schema would say of a feature, from the first records that are sound. None: they do not have it."""
        for row in self.rows(range(min(len(self), MAX_AT_ONCE))):
            try:
                found = [one for one in examples.features_of(row.record) if one.name == name and one.kind]
            except examples.NotAnExample:
                continue
            if found:
                return {"kind": found[0].kind, "list": found[0].steps is not None}
        return None

    def _matcher(self, feature: str, compare: str, text: str) -> Tuple[Callable[[Any], np.ndarray],
                                                                       Callable[[int, int], Any]]:
        """Returns a function that tells which rows of a column match, and one that returns the batches of a number of
        records from a record on."""
        def records(first: int, count: int) -> Any:
            # A damaged record keeps its place, and is empty.
            return read(self.spec, records=[(first, count)], skip_damaged=True, max_skipped="100%")
        if feature == "":
            if compare != "contains":
                raise Missing("whole records can only be searched for what they contain")
            whole = text.encode()
            return (lambda rows: np.fromiter((whole in rows[i] for i in range(len(rows))), bool, len(rows)),
                    lambda first, count: records(first, count).batch(256))
        self.overview.start(again=True)  # what failed before may have passed
        try:
            known = self.overview.result()["features"].get(feature, {})
        except (DataLossError, RuntimeError) as error:
            found = self._kind_in_first(feature)
            if found is None:
                raise Missing(f"the features are not known: {error}") from None
            known = found
        kind = known.get("kind")
        if kind is None:
            raise Missing(f"there is no feature {feature!r}")
        if kind == "none":
            raise Missing(f"{feature!r} has no value in any record that was looked at")
        column = {feature: ragged("float32" if kind == "float" else kind, ragged_steps=bool(known.get("list")))}

        def parsed(first: int, count: int) -> Any:
            chain = records(first, count)
            return (chain.parse(feature_lists=column) if known.get("list") else chain.parse(column)).batch(_ROWS_AT_ONCE)
        try:
            parsed(0, min(1, len(self)))
        except (ValueError, TypeError) as error:
            raise Missing(str(error)) from None
        return _comparison(feature, kind, compare, text), parsed

    # ---- Order

    def batch(self, options: Dict[str, str]) -> List[Dict[str, Any]]:
        """Returns what `shardfeed replay` with these options lists: the records of a batch. Missing: wrong options."""
        flags = ["shuffle", "window", "rank", "world", "batch", "epoch", "step"]
        # With "=", so that no value is taken for another option.
        arguments = [f"--{flag}={options[flag]}" for flag in flags if options.get(flag)]
        try:
            found = Task("replay", self.spec, *arguments).result()
        except (RuntimeError, ValueError) as error:
            raise Missing(str(error)) from None
        return list(found)


def _comparison(feature: str, kind: str, compare: str, text: str) -> Callable[[Any], np.ndarray]:
    """Returns a function of a ragged column that tells for each row whether it matches."""
    if compare in ("missing", "present"):
        return lambda column: (column.lengths() > 0) == (compare == "present")
    if kind == "bytes":
        if compare not in ("contains", "="):
            raise Missing(f"{feature!r} has bytes, which can be searched by: contains, =, missing, present")
        wanted = text.encode()

        def of_bytes(column: Any) -> np.ndarray:
            values = column.values
            hits = np.fromiter((wanted in values[i] if compare == "contains" else wanted == values[i]
                                for i in range(len(values))), bool, len(values))
            return _any_of(column, hits)
        return of_bytes
    compares: Dict[str, Callable[[Any, Any], Any]] = {
        "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    if compare not in compares:
        raise Missing(f"{feature!r} has numbers, which can be searched by: {', '.join(compares)}, missing, present")
    try:
        exact = decimal.Decimal(text)
        number: Any = float(exact)
    except (decimal.InvalidOperation, ValueError):
        raise Missing(f"{text!r} is not a number, but {feature!r} has numbers") from None
    if kind == "int64" and abs(number) < 1 << 70 and exact == exact.to_integral_value():
        number = int(exact)
    if kind == "float" and (abs(number) <= _MOST_FLOAT or math.isinf(exact)):
        number = np.float32(number)  # as it is stored: 0.1 is found, also by <= and >=
    elif kind == "float":
        number = np.float64(number)
    return lambda column: _any_of(column, compares[compare](column.values, number))


def _any_of(column: Any, hits: np.ndarray) -> np.ndarray:
    """Returns for each row whether one of its values is a hit."""
    sums = np.concatenate([[0], np.cumsum(hits)])
    splits = np.asarray(column.row_splits)
    matched: np.ndarray = sums[splits[1:]] > sums[splits[:-1]]
    return matched


def _feature_shown(feature: examples.Feature, most: int) -> Dict[str, Any]:
    found: Dict[str, Any] = {"name": feature.name, "kind": feature.kind, "count": len(feature.values)}
    if feature.steps is not None:
        found["steps"] = feature.steps[:most]
    values = feature.values[:most]
    found["values"] = [bytes_shown(value) for value in values] if feature.kind in ("bytes", "") else [
        number_shown(value) for value in values.tolist()]
    return found


def number_shown(value: Any) -> Any:
    """JSON has no NaN; JavaScript has no large integers, and shows float32 with the digits of a double."""
    if isinstance(value, float):
        return float(str(np.float32(value))) if math.isfinite(value) else str(value)
    return value if abs(value) < 1 << 53 else str(value)


def bytes_shown(value: bytes) -> Dict[str, Any]:
    found: Dict[str, Any] = {"size": len(value)}
    kind = media.media_type(value)
    if kind is not None:
        found["media"] = kind
        if kind == "array/npy":
            found.update(_npy_shown(value))
        return found
    head = value[:SHOWN_BYTES]
    try:
        # The cut may be within a character.
        text = head.decode(errors="ignore" if len(value) > SHOWN_BYTES else "strict")
        if len(value) > SHOWN_BYTES and len(text.encode()) < len(head) - 3:
            raise ValueError("not text")
        if any(ord(c) < 32 and c not in "\t\n\r" for c in text):
            raise ValueError("not text")
        found["text"] = text
    except ValueError:
        found["hex"] = head[:64].hex(" ")
    return found


def _npy(value: bytes) -> Optional[np.ndarray]:
    """Returns the array of .npy bytes; objects are never loaded."""
    import io
    try:
        array: np.ndarray = np.load(io.BytesIO(value), allow_pickle=False)
        return array
    except Exception:  # a broken header raises almost anything
        return None


def _npy_shown(value: bytes) -> Dict[str, Any]:
    array = _npy(value)
    if array is None:
        return {"text": "an array that cannot be read"}
    return {"text": f"{array.dtype} {list(array.shape)}", "is_image": media.is_image(array)}


def _npy_image(value: bytes) -> Optional[bytes]:
    array = _npy(value)
    return None if array is None else media.image_of_array(array)


def _pixels_of(features: Sequence[examples.Feature]) -> Optional[np.ndarray]:
    """Returns the pixels of image/raw in the shape that the record states, as convert idx and cifar write them."""
    by_name = {one.name: one for one in features}
    raw = by_name.get("image/raw")
    if raw is None or raw.kind != "bytes" or len(raw.values) != 1:
        return None
    shape = []
    for name, default in (("height", 0), ("width", 0), ("channels", 1)):
        one = by_name.get(f"image/{name}")
        known = one is not None and one.kind == "int64" and len(one.values) == 1
        shape.append(int(one.values[0]) if known and one is not None else default)
    if min(shape) < 1 or math.prod(shape) != len(raw.values[0]) or shape[2] not in (1, 3, 4):
        return None
    return np.frombuffer(raw.values[0], np.uint8).reshape(shape)


def _raw_pixels(features: Sequence[examples.Feature]) -> Optional[List[int]]:
    pixels = _pixels_of(features)
    return None if pixels is None else list(pixels.shape)
