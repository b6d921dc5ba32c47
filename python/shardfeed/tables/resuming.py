"""Conversions that an interrupted run left, and that the same command continues.

The shards are the parts of a job of `write_job`. In the job's folder, `resume` has what the result depends on and the
messages of finished parts; whoever writes holds a lock on it. `shardfeed clean` removes it with the job."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import stat
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from .. import _core
from ..jobs import WriteJob
from .table import Table

_FORMAT = "shardfeed resume 1"


def check_order(kind: str, query: Optional[str], what: str) -> None:
    """ValueError: nothing says that rows come in the same order again; what needs it is `what`."""
    if kind == "sqlite" and query is not None and not re.search(r"\border\s+by\b", query, re.IGNORECASE):
        raise ValueError(f"{what} if rows come in the same order again, which SQLite leaves open for this query; add "
                         "ORDER BY with columns that tell all rows apart")


def _files_of(table: Table) -> Iterator[Tuple[str, os.stat_result]]:
    """The files that a table is read from."""
    # LMDB keeps its data in a file of the folder; SQLite's write-ahead log is beside the database, and is empty if
    # only this process has made it.
    for path in (table.path, os.path.join(table.path, "data.mdb"), table.path + "-wal"):
        with contextlib.suppress(OSError):
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode) and (found.st_size or path == table.path):
                yield path, found


def fingerprint(tables: List[Table], made_by: Mapping[str, str], **options: Any) -> str:
    """Identifies all that the shards depend on: options, and the names, sizes and times of the files."""
    files: List[Any] = []
    for table in tables:
        files += [[os.path.abspath(path), found.st_size, found.st_mtime_ns] for path, found in _files_of(table)]
        files.append([table.rows, str(table.schema)])
    text = json.dumps([dict(made_by), files, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def notes_of_complete(manifest: str, tables: List[Table], files: Iterable[Optional[str]]) -> List[str]:
    """A note if the dataset with this manifest, which was complete and is kept, may be out of date. `files`: what it
    was made of beside the tables."""
    written = os.stat(manifest).st_mtime_ns
    found = [one for table in tables for one in _files_of(table)]
    for path in filter(None, files):
        with contextlib.suppress(OSError):
            found.append((path, os.stat(path)))
    for path, about in found:
        # A pipe is another one each time, even under the same name.
        is_pipe = stat.S_ISFIFO(about.st_mode)
        if is_pipe or about.st_mtime_ns > written:
            why = f"what {path} has now was not compared" if is_pipe else f"{path} was modified after that"
            return [f"the dataset was complete and is kept, although {why}; pass --overwrite to convert it again"]
    return []


class Progress:
    """What is finished of a job, on disk. Use it in a `with`, which ends the lock."""

    def __init__(self, job: WriteJob, plan: str, file: Any, messages: Optional[Dict[str, str]] = None):
        self.job = job
        self.messages: Dict[str, str] = messages or {}  # keys are the numbers of the parts
        self._plan = plan
        self._file = file

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def add(self, part: int, message: str) -> None:
        """Notes that a part is finished. A line that a kill cuts off does not count."""
        self.messages[str(part)] = message
        self._append({"part": part, "message": message})

    def begin(self) -> None:
        self._append({"format": _FORMAT, "plan": self._plan, "job": self.job._core.text})

    def _append(self, entry: Dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _jobs_of(spec: str) -> str:
    """The folder of the jobs that write folder/name@N."""
    return os.path.join(os.path.dirname(spec), ".shardfeed", os.path.basename(spec).rpartition("@")[0] + ".jobs")


def _folder_of(job: WriteJob) -> str:
    return os.path.join(_jobs_of(job.spec), job.id)


def _sound(job: WriteJob, messages: Mapping[str, str]) -> Dict[str, str]:
    """The finished parts whose shards are whole: each is read through."""
    kept = {}
    for part, message in messages.items():
        about = json.loads(message)
        path = os.path.join(_folder_of(job), about["folder"], f"{int(part):05}.shard")
        report = json.loads(_core.verify_shard(path, "payload"))  # has a defect if the shard cannot be read
        if not report["num_defects"] and (report["records"], report["bytes"]) == (
                about["shard"]["records"], about["shard"]["bytes"]):
            kept[part] = message
    return kept


def _left(path: str) -> List[Dict[str, Any]]:
    entries = []
    with open(path, "rb") as file:
        for line in file:
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
    return entries if entries and entries[0].get("format") == _FORMAT else []


def _locked(jobs: str) -> Iterator[Tuple[str, Any]]:
    """The files of progress in the folder of a dataset's jobs: the path and the file, open and locked, or None for a
    file that another process has locked."""
    for path in sorted(glob.glob(os.path.join(glob.escape(jobs), "*", "resume"))):
        try:
            file = open(path, "ab")
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            yield path, None
        else:
            yield path, file


def _remove_hidden(jobs: str) -> None:
    """Removes jobs whose removal was interrupted: they were given such a name first (shard/writing/job_folders.cc)."""
    for part in glob.glob(os.path.join(glob.escape(jobs), ".hidden-*", "[0-9]*-*")):
        shutil.rmtree(os.path.dirname(part), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(jobs)  # unless there are other jobs


def remove_committed(out: str, shards: Sequence[Mapping[str, Any]], made_by: Mapping[str, str],
                     notes: Sequence[str]) -> None:
    """Removes what is left of a run that made the dataset and was killed before it could do so itself: a second name
    for each of these shards, as manifests have them. What is left does no harm."""
    jobs = _jobs_of(os.path.abspath(out))
    of_dataset = [(one.get("bytes"), one.get("records"), one.get("records_digest")) for one in shards]
    for path, file in _locked(jobs):
        if file is None:
            continue
        with file, contextlib.suppress(OSError, RuntimeError, ValueError, KeyError):
            entries = _left(path)
            messages = {one["part"]: one["message"] for one in entries[1:]}
            written = [json.loads(messages[part])["shard"] for part in sorted(messages)]
            of_job = [(one["bytes"], one["records"], f"{one['records_digest']:08x}") for one in written]
            if entries and of_job == of_dataset:
                # A job that is committed already only tidies up.
                WriteJob(entries[0]["job"], ()).commit(list(messages.values()), made_by=made_by, notes=notes)
    _remove_hidden(jobs)


def take_up(new: WriteJob, plan: str) -> Progress:
    """The progress of an earlier run with the same plan, instead of the job `new`, which is aborted; or that of `new`.
    Those of other plans are removed. RuntimeError: another process is at work on this dataset."""
    found: Optional[Progress] = None
    _remove_hidden(_jobs_of(new.spec))
    for path, file in _locked(_jobs_of(new.spec)):
        if file is None:
            new.abort()
            raise RuntimeError(f"{new.spec}: another process is writing this dataset") from None
        entries = _left(path)
        job = WriteJob(entries[0]["job"], ()) if entries else None
        if found is None and job is not None and entries[0]["plan"] == plan:
            messages = {str(one["part"]): one["message"] for one in entries[1:]}
            found = Progress(job, plan, file, _sound(job, messages))
            continue
        file.close()
        if job is not None:
            job.abort()
    if found is not None:
        new.abort()
        return found
    file = open(os.path.join(_folder_of(new), "resume"), "ab")
    fcntl.flock(file, fcntl.LOCK_EX)
    made = Progress(new, plan, file)
    made.begin()
    return made
