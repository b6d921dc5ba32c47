"""Datasets that the tasks of a cluster's job write together."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _core
from .arguments import Count, Level, Size, Threads, checked, checked_methods, shown
from .features import FeatureLike, as_features
from .writing import Compression, RecordWriter, SeenFeatures, declared, no_value, note_on_suffix

_PATIENCE = 1  # seconds without a request to the store in which aborting does not go on


class PartWriter(RecordWriter):
    """One attempt at a part of a job, in a task. Use it in a `with`, and return `message` to the
    driver: it is available once the part is closed. After an exception nothing remains."""

    def __init__(self, core: Any, is_declared: bool = False):
        super().__init__(core)
        if not is_declared:
            self._seen = SeenFeatures()
        self.message: Optional[str] = None
        self._losses: List[str] = []  # of values that became records before they came here

    def close(self) -> str:
        """Completes the part, which no reader sees before the job is committed, and returns the
        message for WriteJob.commit: a text of about 300 bytes and 100 for each feature."""
        if self.message is None:
            self._ended = True
            # Other parts may have values of these, so the commit tells.
            without_values = self._seen.without_values() if self._seen is not None else []
            self._seen = None
            self._tell_losses()
            self._records = self._writer.records_written
            self.message = self._writer.close([*self._losses, *self._writer.losses()], without_values)
        return self.message


@checked_methods
class WriteJob:
    """A dataset that several processes write: see `write_job`. It can be pickled."""

    def __init__(self, text: str, features: Sequence[Any]):
        # For those who make one themselves, instead of by sf.write_job or pickle.
        if not isinstance(text, str):
            raise TypeError(f"WriteJob: text must be a str, not {shown(text)}; sf.write_job makes one")
        if not isinstance(features, Iterable):
            raise TypeError(f"WriteJob: features must be a list, not {shown(features)}; sf.write_job makes one")
        self._core = _core.WriteJob.from_text(text)
        self._features = tuple(features)  # as the core takes them

    def __reduce__(self) -> Any:
        return (WriteJob, (self._core.text, self._features))

    @property
    def id(self) -> str:
        """The job's random name."""
        return self._core.id

    @property
    def spec(self) -> str:
        return self._core.spec

    def __len__(self) -> int:
        """The number of parts, which is the number of shards."""
        return self._core.parts

    def shard(self, part: int, attempt: Union[int, str] = "", *, threads: Threads = 1) -> PartWriter:
        """Begins an attempt at a part, in a task: its writer, which makes shard `part`. `attempt`
        is for people: two attempts of one name do not meet. What the shard holds should depend on
        the task's input alone, so that another attempt makes the same.

        IndexError: there is no such part. RuntimeError: the job has been committed or aborted."""
        if part < 0:
            raise IndexError(f"part {part} does not exist: the job has {len(self)} parts")
        return PartWriter(self._core.open(part, str(attempt), threads, self._features), is_declared=bool(self._features))

    def commit(self, messages: Sequence[str], *, made_by: Optional[Mapping[str, str]] = None,
               notes: Sequence[str] = ()) -> Dict[str, int]:
        """Makes the dataset visible as a whole, and removes what other attempts left. Call it in
        the driver, once. If a part has several messages, the first one counts. It may be repeated:
        an interrupted commit is finished, and a finished one gives the same result. `made_by` and
        `notes`: what the manifest says about the origin, and what users should know about the data.
        Afterwards, a UserWarning names features that had no value in any part.

        Returns {"shards", "records", "bytes"}. ValueError: a part has no message, one is of another
        job, or a feature has another kind or shape in one part than in another. DataLossError: files
        of a part are gone. RuntimeError: another dataset of this name has been written since the job
        began. FileExistsError: as for `write`."""
        written, without_values = self._core.commit(
            list(messages), {"tool": "shardfeed (Python)", **(made_by or {})}, list(notes))
        for name in without_values:
            warnings.warn(no_value(name), UserWarning, stacklevel=3)
        return written

    def abort(self) -> None:
        """Removes what the job's tasks have written; tasks that still write fail. Folders that write_job
        has made for the dataset go, too, unless there is something else in them."""
        self._core.abort()

    def _abort_after(self, error: BaseException) -> None:
        """The same after an error, which counts more than those of aborting. After Ctrl-C and what else ends
        programs, a store is waited for only while it answers: what stays is removed by `shardfeed clean`."""
        def abort() -> None:
            with contextlib.suppress(OSError, RuntimeError):
                self._core.abort()

        if isinstance(error, Exception) or "://" not in self.spec:
            return abort()
        thread = threading.Thread(target=abort, daemon=True)
        thread.start()
        before: Optional[int] = None
        while thread.is_alive() and before != (requests := _core.store_requests()):
            before = requests
            thread.join(_PATIENCE)

    def __repr__(self) -> str:
        return f"<shardfeed.WriteJob {self.id[:8]}: {len(self)} parts of {self.spec}>"


def with_empty_parts(job: WriteJob, messages: Iterable[str]) -> List[str]:
    """The messages, and those of empty shards, which it writes, for parts that have none: for
    schedulers that run no task for a part without rows."""
    import json
    found = list(messages)
    there = {json.loads(message)["part"] for message in found}
    return found + [job.shard(part).close() for part in range(len(job)) if part not in there]


def check_raw(columns: Sequence[Any], is_binary: bool) -> None:
    """ValueError: a frame of these columns is not one of records as they are."""
    if list(columns) != ["record"]:
        raise ValueError("write: record=True writes the one column 'record', and the columns are: "
                         f"{', '.join(map(str, columns))}")
    if not is_binary:
        raise ValueError("write: record=True writes the column 'record' of type binary, and it has another type")


def write_raw(writer: PartWriter, records: Iterable[Any]) -> None:
    """Writes records as they are, unchanged."""
    for record in records:
        if not isinstance(record, bytes):
            raise TypeError(f"column 'record': a record must be bytes, not {shown(record)}")
        writer.write(record)


@checked
def write_job(spec: Union[str, os.PathLike], shards: Optional[Size] = None, *,
              compression: Compression = "none", level: Level = 6, member_bytes: Count = 256 << 10,
              overwrite: bool = False, sync: bool = True,
              features: Optional[Mapping[str, FeatureLike]] = None) -> WriteJob:
    """Begins a dataset that several processes write, on one machine or on many that share its
    folder or its store; in the driver:

        job = sf.write_job("out/train@64")
        messages = cluster.map(task, range(64))     # task(part) as below
        job.commit(messages)                        # or job.abort()

        def task(part):
            with job.shard(part) as writer:
                for row in rows_of(part):
                    writer.write(row)
            return writer.message

    The job can be pickled. Whatever happens to tasks, repeated, killed or late, the dataset either
    appears with one attempt at each part, or does not appear; `shardfeed clean` removes what a
    killed driver leaves behind. `shards`: instead of stem@N. Other arguments: as for `write`."""
    name = os.fspath(spec)
    stem, _, number = os.path.basename(name).partition("@")
    if stem and number == "*":
        named = f"name it as {name[:-1]}16" if shards is None else f"leave it out where shards={shards} gives one"
        raise ValueError(f"write_job: {name}: @* stands for any number of shards, and a new dataset needs one: {named}")
    if shards is not None:
        if "@" in os.path.basename(name):
            raise ValueError(f"write_job: {name} names a number of shards already; leave shards out")
        _core.check_output(name)  # an @ after a bucket would be taken for a user's name
        name = f"{name}@{shards}"
    kinds = declared(features, "write_job: features")
    note = note_on_suffix(name, compression)
    if note:
        warnings.warn(f"write_job: {name}: {note}; the argument compression does", UserWarning, stacklevel=3)
    return begin_job(name, compression, level, member_bytes, overwrite, sync, kinds)


def begin_job(name: str, compression: str, level: int, member_bytes: int, overwrite: bool, sync: bool,
              kinds: Sequence[Any]) -> WriteJob:
    """write_job with what it makes of its arguments, and without a warning of the name."""
    return WriteJob(_core.WriteJob.create(name, compression, level, member_bytes, overwrite, sync).text, kinds)


@checked
def commit(spec: Union[str, os.PathLike], *, job: str, overwrite: bool = False, dry_run: bool = False
           ) -> Dict[str, Any]:
    """Makes the shards that the tasks of a job have written a dataset: those of `shardfeed convert` or
    `reshard` with --only-shards and --job, or of sf.convert(..., only_shards="0-3", job="4711"). It is
    the command `shardfeed commit`, and may be repeated.

    - `spec`: the name that the tasks write, "out/train@8".
    - `job`: the name of the job.
    - `dry_run`: changes nothing, and says whether all parts are finished and may be committed.

    Returns {"shards", "records", "bytes", "skipped", "committed_earlier"}. FileNotFoundError: there is no
    such job. RuntimeError: parts are missing, which the message lists, or tasks disagree about their
    input. FileExistsError: a dataset of that name exists, and overwrite is false."""
    return _core.commit(os.fspath(spec), job, overwrite, dry_run)
