"""Spark's data source "faulty": pyspark_shardfeed with faults in its tasks and its commit."""

import json

import faulty
import pyspark_shardfeed


class FaultySource(pyspark_shardfeed.DefaultSource):
    _writing = (*pyspark_shardfeed.DefaultSource._writing, "fault")

    @classmethod
    def name(cls):
        return "faulty"

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)
        fault = faulty.Fault(**json.loads(self.options["fault"]))
        writer._job = faulty.FaultyJob(writer._job._core.text, writer._job._features, fault)
        return writer
