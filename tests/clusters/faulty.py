"""Jobs whose tasks, or whose commit, fail or are killed at a point that is named in advance.

The adapters for the engines pickle a job into their tasks, so a job of this kind takes the faults along.
Processes that are killed at a call need the library of tests/program/faults.c preloaded.

    python3 tests/clusters/faulty.py ENGINE ADDRESS CASE      is the driver of one write
    python3 tests/clusters/faulty.py probe SOURCE FOLDER      counts the calls in tasks and commits
"""

import contextlib
import ctypes
import errno
import functools
import json
import os
import pathlib
import signal
import sys

import shardfeed as sf
from shardfeed import jobs

POINTS = ("begin", "call", "written", "closed")  # in the order in which a task or a commit meets them


class Stopped(Exception):
    """What a fault raises."""


def java_above():
    """The process of the executor, or of Spark's driver, that has started this one. 0: there is none."""
    pid = os.getpid()
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "java":
                return pid
    return 0


class Fault:
    """What happens where. `of`: part i of a task, "commit", or "rows", which are the function's before
    the write. `point`: see POINTS; "call" is call number `call` on files. `what`: "kill" (this
    process), "executor" (also the JVM above it), "raise", "full" (the disk). `times`: 0 is always."""

    def __init__(self, of, point, what, call, times, control):
        self.of, self.point, self.what, self.call = of, point, what, call
        self.times, self.control = times, control

    def is_due(self):
        """Whether it has not happened often enough, of which files tell all processes."""
        for i in range(self.times or 1000):
            with contextlib.suppress(FileExistsError):
                os.close(os.open(f"{self.control}/{self.of}-{i}", os.O_CREAT | os.O_EXCL))
                return True
        return False

    def happen(self):
        if self.what == "raise":
            raise Stopped(f"{self.of} at {self.point}")
        if self.what == "full":
            raise OSError(errno.ENOSPC, "No space left on device", self.of)
        if self.what == "executor" and java_above():
            os.kill(java_above(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def at(self, of, point):
        if self.of == of and self.point == point and self.is_due():
            self.happen()

    @contextlib.contextmanager
    def in_calls(self, of, folder):
        """Within it, the call that is meant fails or kills, if it is one on files below the folder."""
        if self.of != of or self.point != "call" or not self.is_due():
            yield
            return
        variables = {"FAULTS_UNDER": folder, "FAULTS_CALLS": "changes"}
        if self.what in ("raise", "full"):
            code = errno.ENOSPC if self.what == "full" else errno.EIO
            variables.update(FAIL_AT=str(self.call), FAIL_WITH=str(code))
        else:
            variables.update(KILL_AT=str(self.call))
            if self.what == "executor":
                variables.update(KILL_ALSO=str(java_above()))
        with calls_counted(variables):
            yield


@contextlib.contextmanager
def calls_counted(variables):
    library = ctypes.CDLL(None)
    library.FaultsReset()
    os.environ.update(variables)
    try:
        yield library
    finally:
        for name in variables:
            os.environ.pop(name, None)


class FaultyPart(jobs.PartWriter):
    def begin(self, part, fault, calls):
        self._part, self._fault, self._calls = str(part), fault, calls
        return self

    def write(self, record):
        super().write(record)
        self._fault.at(self._part, "written")

    def write_batch(self, columns):
        rows = super().write_batch(columns)
        self._fault.at(self._part, "written")
        return rows

    def close(self):
        with self._calls:
            message = super().close()
        self._fault.at(self._part, "closed")
        return message

    def abort(self):
        super().abort()
        self._calls.close()


class FaultyJob(jobs.WriteJob):
    def __init__(self, text, features, fault):
        super().__init__(text, features)
        self._fault = fault

    def __reduce__(self):
        return (FaultyJob, (self._core.text, self._features, self._fault))

    def shard(self, part, attempt="", *, threads=1):
        fault = self._fault
        fault.at(str(part), "begin")
        calls = contextlib.ExitStack()
        calls.enter_context(fault.in_calls(str(part), os.path.dirname(self.spec)))
        try:
            core = self._core.open(part, str(attempt), threads, self._features)
        except BaseException:
            calls.close()
            raise
        return FaultyPart(core).begin(part, fault, calls)

    def commit(self, messages, **options):
        fault = self._fault
        fault.at("commit", "begin")
        with fault.in_calls("commit", os.path.dirname(self.spec)):
            report = super().commit(messages, **options)
        fault.at("commit", "closed")
        return report


def write_job(fault, spec, shards=None, **options):
    job = jobs.write_job(spec, shards, **options)
    return FaultyJob(job._core.text, job._features, fault)


class Rows:
    """A function of rows, before they are written, in which a fault happens."""

    def __init__(self, fault=None):
        self.fault = fault

    def __call__(self, table):
        self.fault.at("rows", "begin")
        return table

    def in_arrow(self, batches):
        for batch in batches:
            yield self(batch)


def write_with_dask(source, spec, parts, overwrite, fault):
    import shardfeed.dask
    shardfeed.dask.write_job = functools.partial(write_job, fault)
    frame = shardfeed.dask.read(source, n=parts)
    if fault.of == "rows":
        frame = frame.map_partitions(Rows(fault), meta=frame._meta)
    return shardfeed.dask.write(frame, spec, overwrite=overwrite)


def write_with_ray(source, spec, parts, overwrite, fault, actors=False):
    import ray.data
    import shardfeed.ray
    shardfeed.ray.write_job = functools.partial(write_job, fault)
    ds = shardfeed.ray.read(source, n=parts)
    if fault.of == "rows" and actors:
        ds = ds.map_batches(Rows, batch_format="pyarrow", fn_constructor_args=(fault,),
                            compute=ray.data.ActorPoolStrategy(size=1))
    elif fault.of == "rows":
        ds = ds.map_batches(Rows(fault).__call__, batch_format="pyarrow")
    return shardfeed.ray.write(ds, spec, overwrite=overwrite)


def write_with_beam(source, spec, parts, overwrite, fault):
    import apache_beam as beam
    import shardfeed.beam
    shardfeed.beam.write_job = functools.partial(write_job, fault)
    with shardfeed.beam.Write(spec, overwrite=overwrite) as write, beam.Pipeline() as pipeline:
        rows = pipeline | shardfeed.beam.Read(source, n=parts, record=True)
        rows | beam.Map(Rows(fault)) | write


def write_with_spark(spark, source, spec, parts, overwrite, fault):
    from spark_faulty import FaultySource
    spark.dataSource.register(FaultySource)
    df = spark.read.format("shardfeed").option("split", str(parts)).load(source)
    if fault.of == "rows":
        df = df.mapInArrow(Rows(fault).in_arrow, df.schema)
    (df.write.format("faulty").option("fault", json.dumps(vars(fault)))
     .mode("overwrite" if overwrite else "append").save(spec))


def spark_session(master):
    from pyspark.sql import SparkSession
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (SparkSession.builder.master(master).appName("shardfeed")
               .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
               .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "512m")
               .config("spark.executor.memory", "512m").config("spark.deploy.maxExecutorRetries", "-1")
               .config("spark.ui.showConsoleProgress", "false")
               # A second copy of a slow task shall be started soon.
               .config("spark.speculation", "true").config("spark.speculation.interval", "100ms")
               .config("spark.sql.shuffle.partitions", "4").getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    return session


def drive(engine, address, case):
    """Writes a dataset as the process that a fault may kill."""
    fault = Fault(**case.pop("fault"))
    if engine == "dask":
        import distributed
        with distributed.Client(address):
            write_with_dask(fault=fault, **case)
    elif engine == "ray":
        import ray
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        write_with_ray(fault=fault, **case)
    elif engine == "beam":
        write_with_beam(fault=fault, **case)
    else:
        write_with_spark(spark_session("local[2,4]"), fault=fault, **case)


def probe(source, folder):
    """Prints the calls on files of a task and of the commit, by the number of parts and whether a
    dataset is replaced."""
    rows = [row for row in sf.read(source)]
    found = {}
    for parts in range(1, 5):
        for overwrite in (False, True):
            names = {}

            def counted(what, function):
                with calls_counted({"FAULTS_UNDER": folder, "FAULTS_CALLS": "changes"}) as library:
                    result = function()
                    library.FaultsName.restype = ctypes.c_char_p
                    names[what] = [library.FaultsName(i).decode() for i in range(library.FaultsCalls())]
                return result

            def task(part):
                with job.shard(part) as writer:
                    for row in rows[part::parts]:
                        writer.write(row)
                return writer.message

            spec = f"{folder}/probe{parts}@{parts}"
            job = sf.write_job(spec, overwrite=overwrite)
            messages = [counted("task", lambda: task(part)) for part in range(parts)]
            counted("commit", lambda: job.commit(messages))
            found[f"{parts} {overwrite}"] = names
    print(json.dumps(found))


def main():
    if sys.argv[1] == "probe":
        return probe(*sys.argv[2:])
    drive(sys.argv[1], sys.argv[2], json.loads(pathlib.Path(sys.argv[3]).read_text()))


if __name__ == "__main__":
    # Workers find the classes by the name of their module.
    import faulty
    faulty.main()
