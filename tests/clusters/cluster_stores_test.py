"""Datasets that the engines write to and read from an object store, as a stand-in for S3 serves it. Its name is that of
no module of tests/package, which processes that are spawned could take for it."""

import multiprocessing
import os
import pathlib
import sys

import pytest
from cluster_data import sf

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "package"))
from servers import S3, answering  # noqa: E402

SPEC = "s3://data/x/d@4"


@pytest.fixture(scope="module")
def endpoint():
    """The tasks' processes inherit the environment, so it is set before an engine begins."""
    store = S3("data")
    with answering(store.answer) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield store


@pytest.fixture
def store(endpoint):
    """The bucket, in which there is the whole dataset afterwards, and nothing else."""
    endpoint.objects.clear()
    yield endpoint
    assert sorted(int(record["n"]) for record in sf.read(SPEC).parse()) == list(range(100))
    assert not [key for key in endpoint.objects if "jobs" in key or "commit" in key] and not endpoint.uploads


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"n": range(100), "x": [i / 4 for i in range(100)]})


def test_dask(store, frame):
    dask = pytest.importorskip("dask.dataframe")
    import shardfeed.dask
    shardfeed.dask.write(dask.from_pandas(frame, npartitions=4), SPEC)
    assert len(shardfeed.dask.read(SPEC).compute()) == 100


def test_ray(store, frame):
    ray = pytest.importorskip("ray")
    import shardfeed.ray
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             object_store_memory=200 << 20)
    try:
        shardfeed.ray.write(ray.data.from_pandas(frame).repartition(4), SPEC)
        assert shardfeed.ray.read(SPEC).count() == 100
    finally:
        ray.shutdown()


def test_spark(store, frame):
    pytest.importorskip("pyspark.sql")
    # Java keeps the environment that it started with, and passes it on to Spark's workers.
    process = multiprocessing.get_context("spawn").Process(target=_write_and_read_by_spark, args=(frame,))
    process.start()
    process.join()
    assert process.exitcode == 0


def _write_and_read_by_spark(frame):
    from pyspark import sql
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
               .getOrCreate())
    try:
        rows = session.createDataFrame(frame).repartitionByRange(4, "n")
        rows.write.format("shardfeed").mode("overwrite").save(SPEC)
        assert session.read.format("shardfeed").load(SPEC).count() == 100
        assert session.read.format("shardfeed").schema("n bigint").load(SPEC).count() == 100
    finally:
        session.stop()


def test_streams_of_spark(endpoint, tmp_path):
    pytest.importorskip("pyspark.sql")
    endpoint.objects.clear()
    process = multiprocessing.get_context("spawn").Process(target=_stream_by_spark, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    for batch, numbers in enumerate([[1, 2, 3], [4]]):
        assert sorted(int(record["n"]) for record in sf.read(f"s3://data/x/s-{batch:08}@2").parse()) == numbers
    assert not [key for key in endpoint.objects if "jobs" in key or "commit" in key] and not endpoint.uploads


def _stream_by_spark(folder):
    from pyspark import sql
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
               .config("spark.default.parallelism", "2").config("spark.sql.shuffle.partitions", "2").getOrCreate())
    files = folder / "files"
    files.mkdir()

    def run(checkpoint="check", column="n"):
        stream = session.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").json(str(files))
        (stream.selectExpr(f"{column} as n").writeStream.format("shardfeed").trigger(availableNow=True)
         .option("checkpointLocation", str(folder / checkpoint)).start("s3://data/x/s@2").awaitTermination())

    try:
        for number, rows in enumerate([[1, 2, 3], [4]]):
            (files / f"{number}.json").write_text("".join('{"n": %d}\n' % n for n in rows))
            os.utime(files / f"{number}.json", (10**9 + number,) * 2)
        run()
        # As if the driver had been killed between the commit of the dataset and Spark's own.
        for name in ("1", ".1.crc"):
            (folder / "check/commits" / name).unlink()
        run()
        with pytest.raises(Exception, match="there is a dataset of this name, and another query has written it"):
            run("other", "n + 1")
    finally:
        session.stop()


def test_beam(store):
    beam = pytest.importorskip("apache_beam")
    import shardfeed.beam
    with shardfeed.beam.Write(SPEC) as write, beam.Pipeline() as pipeline:
        pipeline | beam.Create([{"n": n} for n in range(100)]) | write
    with beam.Pipeline() as pipeline:
        (pipeline | shardfeed.beam.Read(SPEC) | beam.combiners.Count.Globally()
         | beam.Map(lambda count: _equal(count, 100)))


def _equal(count, expected):
    assert count == expected
