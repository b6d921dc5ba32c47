"""Streams of Spark written as datasets: each micro-batch is a dataset of its own."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterator, List, Optional

import shardfeed as sf
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from shardfeed.jobs import with_empty_parts

from . import part_of_task, write_part


# How the ids of jobs of micro-batches begin. `shardfeed clean` knows them by it (shard/writing/part_folder.cc).
_OF_STREAMS = "0" * 16


class _Message(WriterCommitMessage):
    def __init__(self, text: str, job: str, query: str):
        self.text = text
        self.job = job
        self.query = query


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark makes one for the tasks of a micro-batch and another for its commit, and tells only these the
    number of the batch. So a batch's job has an id that tasks derive, and the first of them begins it.

    `text`: the text of a job like that of each batch. `raw`: the rows are records as they are."""

    def __init__(self, text: str, raw: bool):
        self._text = text
        self._raw = raw

    def _job(self, query: str, batch: int) -> sf.WriteJob:
        like = json.loads(self._text)
        like["stem"] += f"-{batch:08}"
        # After a failure Spark runs a batch again under its number.
        like["id"] = _OF_STREAMS + hashlib.blake2b(f"{query} {batch}".encode(), digest_size=8).hexdigest()
        return sf.WriteJob(json.dumps(like), ())

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise RuntimeError("shardfeed: Spark does not tell which query and which micro-batch this task "
                               "belongs to; write in foreachBatch")
        job = self._job(query, int(batch))
        part = part_of_task(job, context)
        job._core.ensure()
        return _Message(write_part(job, part, context, iterator, self._raw), job._core.text, query)

    def commit(self, messages: List[Optional[Any]], batchId: int) -> None:
        there = [message for message in messages if message is not None]
        if not there:
            return  # a batch without tasks has no rows
        job = sf.WriteJob(there[0].job, ())
        made_by = {"tool": "shardfeed (Spark)", "query": there[0].query, "batch": str(batchId)}
        try:
            job.commit(with_empty_parts(job, [message.text for message in there]), made_by=made_by)
        except (FileExistsError, RuntimeError):
            # An earlier run of the batch may have been committed without Spark noticing.
            if not self._is_of_batch(job, made_by):
                raise
            job.abort()
        else:
            # A commit of records that are there already succeeds, whoever has written them.
            self._is_of_batch(job, made_by)

    @staticmethod
    def _is_of_batch(job: sf.WriteJob, made_by: Dict[str, str]) -> bool:
        """Whether there is a manifest, which then is that of the batch. FileExistsError: it is another one."""
        found = job._core.made_by()
        if found is None:
            return False
        if (found.get("query"), found.get("batch")) != (made_by["query"], made_by["batch"]):
            job.abort()
            raise FileExistsError(
                f"{job.spec}: there is a dataset of this name, and another query has written it; choose "
                "another name, or the checkpointLocation of that query") from None
        return True

    def abort(self, messages: List[Optional[Any]], batchId: int) -> None:
        # Without any message, what tasks have written stays until the batch runs again, or `shardfeed clean` with the
        # name of the stream.
        for text in {message.job for message in messages if message is not None}:
            sf.WriteJob(text, ()).abort()
