"""Datasets that the engines write to and read from an object store, as a stand-in for S3 serves it."""

import multiprocessing
import os
import pathlib
import sys

import pytest
from cluster_data import sf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "package"))
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


def test_spark(store, frame, tmp_path):
    pytest.importorskip("pyspark.sql")
    # Java keeps the environment that it started with, and passes it on to Spark's workers.
    process = multiprocessing.get_context("spawn").Process(target=_write_and_read_by_spark, args=(frame, tmp_path))
    process.start()
    process.join()
    assert process.exitcode == 0


def _write_and_read_by_spark(frame, folder):
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
        stream = session.readStream.format("rate").load()
        with pytest.raises(Exception, match="a stream is written to a folder, not to a store"):
            (stream.writeStream.format("shardfeed").option("checkpointLocation", str(folder))
             .start(SPEC).awaitTermination())
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
