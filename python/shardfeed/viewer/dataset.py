"""What the page shows of one dataset, as values for JSON. Everything is read when it is requested."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import _core
from .._core import DataLossError
from ..command import program
from ..exit_status import DEFECTS, FAILED
from ..sources import read
from . import examples, images
from .search import BadSearch, Search
from .values import SHOWN_BYTES, SHOWN_VALUES, feature_shown

MAX_AT_ONCE = 200  # an answer has at most this many records
RECORD_VALUES = 1000  # a single record shows this many values of a feature
TEXT_BYTES = 64 << 10  # and this many bytes of a text
_BYTES_AT_ONCE = 32 << 20  # size of the records of an answer, estimated from preceding ones
_READ_UNASKED = 256 << 20  # larger shards without a manifest are read only on request


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
            end = self._begin()
            threading.Thread(target=self._wait, args=(end,), daemon=True).start()

    def _begin(self) -> Callable[[], Dict[str, Any]]:
        """Returns a function that waits for the end and returns the state then."""
        process = self._process = subprocess.Popen([program(), *self._arguments, "--json"], stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end() -> Dict[str, Any]:
            out, err = process.communicate()
            try:
                return {"state": "done", "result": json.loads(out)}
            except ValueError:
                message = err.decode(errors="replace").strip() or f"the program ended with {process.returncode}"
                return {"state": "failed", "error": message.removeprefix("shardfeed: "), "status": process.returncode}
        return end

    def _wait(self, end: Callable[[], Dict[str, Any]]) -> None:
        state = end()
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


class FunctionTask(Task):
    """The same for a function of this process."""

    def __init__(self, function: Callable[[], Any]):
        super().__init__()
        self._function = function

    def _begin(self) -> Callable[[], Dict[str, Any]]:
        return self._end

    def _end(self) -> Dict[str, Any]:
        try:
            return {"state": "done", "result": self._function()}
        except Exception as error:  # it belongs to the answer
            return {"state": "failed", "error": str(error) or type(error).__name__, "status": FAILED}


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
        self._open()
        # What is known at once of what the overview tells.
        self.outline = FunctionTask(self._find_outline)
        self.overview = Task("inspect", spec, "--records", "0", *flags)
        self.statistics = Task("inspect", spec, "--records", "0", "--statistics", *flags)
        self.verify = Task("verify", spec, *flags)

    def _open(self) -> None:
        self.chain = read(self.spec)
        self._records = self.chain._records
        self._lock = threading.Lock()
        self._paths: List[str] = [shard[0] for shard in self._records.shards()]
        self._files: Dict[str, Tuple[int, ...]] = {}  # the local ones as they were
        self._bytes = sum(shard[2] for shard in self._records.shards())
        self._check_files()

    def __len__(self) -> int:
        return len(self._records)

    def about(self) -> Dict[str, Any]:
        return {"spec": self.spec, "records": len(self)}

    def _find_outline(self) -> Dict[str, Any]:
        """Returns sizes, and the features of the manifest or, without one, of some records, of which "sampled" is the
        number. OSError, RuntimeError: the overview tells."""
        found: Dict[str, Any] = {"records": len(self), "shards": len(self._paths), "bytes": self._bytes}
        try:
            looked_at, features, is_sampled = _core.find_features([self.spec])
        except UnicodeDecodeError:  # a name, so there is no manifest, which could not have it
            return {**found, **self._features_of_first()}
        except ValueError as error:  # records are no Examples
            looked_at, features, is_sampled = 0, [], True
            found["notes"] = [str(error)]
        if is_sampled:
            found["sampled"] = looked_at
        found["features"] = {name: {"kind": kind, **({"list": True} if is_list else {}),
                                    **({} if is_sampled or kind == "none" else
                                       {"records": records, "min_values": least, "max_values": most})}
                             for name, kind, is_list, records, least, most, *_ in features}
        return found

    def unread(self) -> Optional[Dict[str, Any]]:
        """What takes the place of the overview of a dataset that is too large to be read unasked and has no manifest:
        its outline, for which it waits, or, once they were asked for, its statistics. None: the overview tells."""
        if self._bytes < _READ_UNASKED:
            return None
        self.outline.start(again=True)
        try:
            outline = self.outline.result()
        except RuntimeError:
            return None
        if "sampled" not in outline:
            return None
        state = self.statistics.state()
        return dict(state["result"] if state["state"] == "done" else outline)

    def overview_state(self, again: bool) -> Dict[str, Any]:
        """Starts the overview, or again if it has failed, and returns its state: while it runs, with the outline if that
        is known. A large dataset is only read if the outline, which comes first, does not take the overview's place."""
        self.outline.start(again)
        outline = self.outline.state()
        is_begun = self._bytes < _READ_UNASKED or self.overview.state()["state"] != "idle"
        if outline["state"] == "running" and not is_begun:
            return outline
        if outline["state"] == "done" and (unread := self.unread()) is not None:
            return {"state": "done", "result": unread}
        self.overview.start(again)
        state = self.overview.state()
        if state["state"] == "running" and outline.get("result"):
            state["outline"] = outline["result"]
        return state

    def close(self) -> None:
        for task in (self.overview, self.statistics, self.verify):
            task.stop()

    # ---- Records

    def rows(self, numbers: Sequence[int]) -> List[Row]:
        """Reads records. A damaged one costs its own row only. Whoever calls it checks the files then.
        Missing: there is no such record."""
        for number in numbers:
            if not 0 <= number < len(self):
                raise Missing(f"there is no record {number}: {self.spec} has {len(self):,} records")
        return self._read(numbers) if numbers else []

    def _read(self, numbers: Sequence[int]) -> List[Row]:
        try:
            with self._lock:
                found = self._records.get(list(numbers), 1)
            return [Row(number, found[i], "") for i, number in enumerate(numbers)]
        except (RuntimeError, OSError) as error:  # DataLossError, or a shard is not that of its index
            if len(numbers) == 1:
                return [Row(numbers[0], b"", str(error))]
        half = len(numbers) // 2
        return self._read(numbers[:half]) + self._read(numbers[half:])

    def in_parts(self, numbers: Sequence[int]) -> Iterator[List[Row]]:
        """Reads records, a few at a time if they are large."""
        done, count = 0, 1
        while done < len(numbers):
            rows = self.rows(numbers[done:done + count])
            yield rows
            done += len(rows)
            count = min(MAX_AT_ONCE, 1 + _BYTES_AT_ONCE // max(1, *(len(row.record) for row in rows)))

    def _check_files(self) -> None:
        """Missing: a local shard is no longer the file that it was. Called after reading, so that nothing of
        another file is in an answer."""
        for path in self._paths:
            try:
                info = os.stat(path)
            except OSError:
                if path in self._files:
                    raise Missing(f"{path}: was removed after the dataset was opened; run the command again") from None
                continue  # in a store, whose versions the reader compares
            now = info.st_ino, info.st_size, info.st_mtime_ns
            if self._files.setdefault(path, now) != now:
                raise Missing(f"{path}: was replaced or changed after the dataset was opened; run the command again")

    def check_unchanged(self) -> None:
        """Missing: what a run of the program reads by name is no longer the dataset that was opened."""
        self._check_files()
        try:
            with self._lock:
                # Of a store, which tells whether objects were replaced.
                self._records.get([0, len(self) - 1] if len(self) else [], 1)
        except RuntimeError:
            pass  # a record is damaged, which the run tells
        except OSError as error:
            raise Missing(str(error)) from None

    def records(self, numbers: Sequence[int]) -> List[Dict[str, Any]]:
        """Returns records for lists: of each feature, its first values."""
        if len(numbers) > MAX_AT_ONCE:
            raise Missing(f"at most {MAX_AT_ONCE} records are read at once, got {len(numbers)}")
        shown = [_shown(row, SHOWN_VALUES, SHOWN_BYTES) for rows in self.in_parts(numbers) for row in rows]
        self._check_files()
        return shown

    def _row(self, number: int) -> Row:
        row, = self.rows([number])
        self._check_files()
        return row

    def record(self, number: int, text_bytes: int = TEXT_BYTES) -> Dict[str, Any]:
        """Returns a record with more of its values, and its place."""
        found = _shown(self._row(number), RECORD_VALUES, text_bytes)
        shard, in_shard, offset = self._records.place(number)
        return {**found, "shard": shard, "shard_record": in_shard, "offset": offset}

    def value(self, number: int, feature: str, index: int) -> bytes:
        """Returns a value of bytes. Missing: there is none."""
        row = self._row(number)
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
        """Returns the media type and the bytes of what a browser can show as an image. Missing: it is none."""
        place = images.Place(feature, index, self.value(number, feature, index))
        try:
            return images.image_of(examples.features_or_whole(self._row(number).record), place)
        except images.Unshown as error:
            raise Missing(f"feature {feature!r} of record {number}: {error}") from None

    # ---- Searching

    def find(self, feature: Optional[str], compare: str, text: str, first: int, most: int = 50) -> Dict[str, Any]:
        """Searches onwards from record `first`, for about a second: {"records": numbers, "next": the record to
        continue from, or None at the end} and, if records could not be read, {"unread": their number, "error": of the
        first}. `compare`: "contains" and "=" of bytes; "=", "!=", "<", "<=", ">" and ">=" of numbers, where one value
        in the record is enough; "missing" and "present". Feature None is the whole record. Missing: wrong arguments,
        or the dataset is no longer the one that was opened."""
        self.check_unchanged()
        try:
            search = Search(feature, {} if feature is None else self._schema_of(feature), compare, text)
            found = search.run(self, first, most)
        except (BadSearch, OSError) as error:
            raise Missing(str(error)) from None
        # What was replaced meanwhile has been read by places of the old one.
        self._check_files()
        return found

    def _schema_of(self, feature: str) -> Dict[str, Any]:
        try:
            if (unread := self.unread()) is not None:
                known = unread["features"].get(feature) or self._kind_in_first(feature) or {}
                if not known and "sampled" in unread:
                    raise BadSearch(f"no record that was looked at has a feature {feature!r}; compute the statistics, "
                                    "which reads all records")
            else:
                self.overview.start(again=True)  # what failed before may have passed
                known = self.overview.result()["features"].get(feature, {})
        except (DataLossError, RuntimeError) as error:
            found = self._kind_in_first(feature)
            if found is None:
                raise BadSearch(f"the features are not known: {error}") from None
            known = found
        if known.get("kind") is None:
            raise BadSearch(f"there is no feature {feature!r}")
        if known["kind"] == "none":
            raise BadSearch(f"{feature!r} has no value in any record that was looked at")
        return dict(known)

    def _kind_in_first(self, name: str) -> Optional[Dict[str, Any]]:
        """What the schema would say of a feature, from the first records. None: they do not have it with a kind."""
        found = self._features_of_first()["features"].get(name)
        return found if found and found["kind"] != "none" else None

    def _features_of_first(self) -> Dict[str, Any]:
        """The features of the first records that are sound, as in an outline."""
        found: Dict[str, Any] = {}
        first = range(min(len(self), MAX_AT_ONCE))
        for row in (row for rows in self.in_parts(first) for row in rows):
            try:
                features = examples.features_of(row.record)
            except examples.NotAnExample:
                continue
            for one in features:
                if one.name not in found or found[one.name]["kind"] == "none":
                    found[one.name] = {"kind": one.kind or "none", **({} if one.steps is None else {"list": True})}
        return {"sampled": len(first), "features": found}

    # ---- Order

    def batch(self, options: Dict[str, str]) -> List[Dict[str, Any]]:
        """Returns what `shardfeed replay` with these options lists: the records of a batch. Missing: wrong options."""
        flags = ["shuffle", "window", "rank", "world", "batch", "epoch", "step"]
        # With "=", so that no value is taken for another option.
        arguments = [f"--{flag}={options[flag]}" for flag in flags if options.get(flag)]
        self.check_unchanged()
        try:
            found = Task("replay", self.spec, *arguments).result()
        except (RuntimeError, ValueError) as error:
            raise Missing(str(error)) from None
        self.check_unchanged()
        return list(found)


class UnopenedDataset(ViewedDataset):
    """Takes the place of a dataset that is so damaged that it cannot be opened: the defect is shown instead of records.
    What runs of the program tell is shown as of others, above all what verify finds."""

    def __init__(self, spec: str, flags: Sequence[str], defect: str):
        self._defect = defect
        super().__init__(spec, flags)

    def _open(self) -> None:
        """There are no records."""
        self._bytes = 0

    def __len__(self) -> int:
        return 0

    def about(self) -> Dict[str, Any]:
        return {**super().about(), "error": self._defect}

    def _find_outline(self) -> Dict[str, Any]:
        return {}

    def check_unchanged(self) -> None:
        """Nothing was read that could have changed."""

    def rows(self, numbers: Sequence[int]) -> List[Row]:
        raise Missing(self._defect)

    def records(self, numbers: Sequence[int]) -> List[Dict[str, Any]]:
        raise Missing(self._defect)

    def find(self, feature: Optional[str], compare: str, text: str, first: int, most: int = 50) -> Dict[str, Any]:
        raise Missing(self._defect)


def _shown(row: Row, values: int, text_bytes: int) -> Dict[str, Any]:
    if row.error:
        return {"record": row.number, "error": row.error}
    found: Dict[str, Any] = {"record": row.number, "bytes": len(row.record)}
    try:
        features = examples.features_of(row.record)
    except examples.NotAnExample:
        features = examples.features_or_whole(row.record)
        found["not_an_example"] = True
    found["features"] = [feature_shown(one, values, text_bytes) for one in features]
    pixels = images.raw_pixels(features)
    return found if pixels is None else {**found, "raw_image": list(pixels.shape)}
