"""Datasets read and written by Dask, Ray, Spark and Hugging Face's library, on local clusters.

    scripts/test --clusters

installs these into an environment of their own and runs this file. Tasks are killed while they
write: each dataset must have every record once, or not be there."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
# Workers are processes of their own, which also import this file.
os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "python"), os.path.dirname(__file__)])

import shardfeed as sf  # noqa: E402

ROWS = 1000
SHARDS = 4


def row(i):
    return {"n": i, "x": np.arange(3, dtype=np.float32) + i, "text": b"record %d" % i,
            **({"some": np.full(i % 5, i, np.int64)} if i % 7 else {})}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("clusters") / "train@4"
    with sf.write(spec) as writer:
        for i in range(ROWS):
            writer.write(row(i))
    return str(spec)


def in_order(spec):
    """The records' numbers, shard by shard."""
    return [int(r["n"]) for r in sf.read(spec).parse({"n": sf.int64})]


def records(spec):
    return sorted(sf.read(spec))


def left_behind(spec):
    folder = pathlib.Path(spec).parent / ".shardfeed"
    return sorted(p.name for p in folder.iterdir() if p.suffix in (".jobs", ".incomplete", ".commit"))


def nothing_is_left(spec):
    """Whether a write that failed shows no file of the dataset, and `clean` removes the rest.

    A task that still runs while the job is aborted may write after the abort."""
    assert not list(spec.parent.glob("new-*"))
    subprocess.run([sys.executable, "-m", "shardfeed", "clean", str(spec), "--older-than", "0s"],
                   check=True, capture_output=True)
    return not list(spec.parent.rglob("new*"))


class DiesOnce:
    """A function of a batch that kills its process the first time that it meets a number."""

    def __init__(self, flag, number):
        self.flag = str(flag)
        self.number = number

    def __call__(self, numbers):
        if self.number in list(numbers) and not os.path.exists(self.flag):
            pathlib.Path(self.flag).write_bytes(b"")
            os.kill(os.getpid(), signal.SIGKILL)


class TestDask:
    @pytest.fixture(scope="class")
    def client(self):
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                yield client

    def test_reading(self, client, dataset):
        import shardfeed.dask
        frame = shardfeed.dask.read(dataset)
        assert frame.npartitions == SHARDS
        assert frame["n"].sum().compute() == sum(range(ROWS))
        table = frame.compute()
        order = in_order(dataset)
        assert table["n"].tolist() == order
        assert table["text"].tolist() == [row(i)["text"] for i in order]
        assert table["some"].isna().sum() == len([i for i in range(ROWS) if i % 7 == 0])
        assert [list(x) for x in table["x"][:5]] == [row(i)["x"].tolist() for i in order[:5]]
        raw = shardfeed.dask.read(dataset, record=True, n=7)
        assert raw.npartitions == 7 and raw.compute()["record"].tolist() == list(sf.read(dataset))

    def test_writing(self, client, dataset, tmp_path):
        import shardfeed.dask
        frame = shardfeed.dask.read(dataset)
        assert shardfeed.dask.write(frame, tmp_path / "new@4") == {
            "shards": 4, "records": ROWS, "bytes": sum(p.stat().st_size for p in tmp_path.glob("new-*"))}
        assert list(sf.read(tmp_path / "new@4")) == list(sf.read(dataset))
        with pytest.raises(ValueError, match="the frame has 4 partitions; repartition it: "):
            shardfeed.dask.write(frame, tmp_path / "other@3")
        with pytest.raises(FileExistsError):
            shardfeed.dask.write(frame, tmp_path / "new@4")
        assert not left_behind(tmp_path / "new@4")

    def test_failing_tasks_leave_nothing(self, client, dataset, tmp_path):
        import shardfeed.dask

        def fail(part):
            if 500 in part["n"].tolist():
                raise ZeroDivisionError
            return part

        frame = shardfeed.dask.read(dataset)
        with pytest.raises(ZeroDivisionError):
            shardfeed.dask.write(frame.map_partitions(fail, meta=frame._meta), tmp_path / "new@4")
        assert nothing_is_left(tmp_path / "new@4")

    def test_killed_workers_are_replaced(self, client, dataset, tmp_path):
        import shardfeed.dask
        die = DiesOnce(tmp_path / "died", 500)

        def meet(part):
            die(part["n"])
            return part

        frame = shardfeed.dask.read(dataset)
        shardfeed.dask.write(frame.map_partitions(meet, meta=frame._meta), tmp_path / "d/new@4")
        assert (tmp_path / "died").exists()
        assert list(sf.read(tmp_path / "d/new@4")) == list(sf.read(dataset))
        assert not left_behind(tmp_path / "d/new@4")


class TestRay:
    @pytest.fixture(scope="class")
    def ray(self):
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
                 object_store_memory=200 << 20)
        yield ray
        ray.shutdown()

    def test_reading(self, ray, dataset):
        import shardfeed.ray
        found = shardfeed.ray.read(dataset, ["n", "x"])
        rows = found.take_all()
        assert [r["n"] for r in rows] == in_order(dataset)
        assert [list(r["x"]) for r in rows[:3]] == [row(r["n"])["x"].tolist() for r in rows[:3]]
        assert shardfeed.ray.read(dataset, record=True, n=3).count() == ROWS

    def test_writing(self, ray, dataset, tmp_path):
        import shardfeed.ray
        report = shardfeed.ray.write(shardfeed.ray.read(dataset), tmp_path / "new@4")
        assert report["records"] == ROWS and report["shards"] == 4
        assert records(tmp_path / "new@4") == records(dataset)
        assert not left_behind(tmp_path / "new@4")
        empty = shardfeed.ray.write(ray.data.from_items([{"n": 1}]), tmp_path / "one@3")
        assert empty == {"shards": 3, "records": 1, "bytes": empty["bytes"]}
        assert in_order(tmp_path / "one@3") == [1]

    def test_failing_tasks_leave_nothing(self, ray, dataset, tmp_path):
        import shardfeed.ray

        def fail(table):
            if 500 in table["n"].to_pylist():
                raise ZeroDivisionError
            return table

        with pytest.raises(Exception, match="ZeroDivisionError"):
            shardfeed.ray.write(shardfeed.ray.read(dataset).map_batches(fail, batch_format="pyarrow"),
                                tmp_path / "new@4")
        assert nothing_is_left(tmp_path / "new@4")

    def test_killed_workers_are_replaced(self, ray, dataset, tmp_path):
        import shardfeed.ray
        die = DiesOnce(tmp_path / "died", 500)

        def meet(table):
            die(table["n"].to_pylist())
            return table

        shardfeed.ray.write(shardfeed.ray.read(dataset).map_batches(meet, batch_format="pyarrow"),
                            tmp_path / "d/new@4")
        assert (tmp_path / "died").exists()
        assert records(tmp_path / "d/new@4") == records(dataset)
        assert not left_behind(tmp_path / "d/new@4")

    def test_feeding_outside_a_worker_is_told(self, ray, dataset):
        import shardfeed.ray
        with pytest.raises(RuntimeError, match="this is not a worker of Ray Train"):
            shardfeed.ray.feed(sf.read(dataset))


class TestSpark:
    @pytest.fixture(scope="class")
    def spark(self):
        sql = pytest.importorskip("pyspark.sql")
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        session = (sql.SparkSession.builder.master("local[2,4]").appName("shardfeed")
                   .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
                   .config("spark.driver.bindAddress", "127.0.0.1")
                   .config("spark.sql.shuffle.partitions", "4").getOrCreate())
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()

    def test_reading(self, spark, dataset):
        df = spark.read.format("shardfeed").load(dataset)
        assert df.schema.simpleString() == "struct<n:bigint,some:array<bigint>,text:binary,x:array<float>>"
        assert df.rdd.getNumPartitions() == SHARDS
        rows = df.collect()
        assert [r["n"] for r in rows] == in_order(dataset)
        assert bytes(rows[1]["text"]) == row(rows[1]["n"])["text"]
        assert [r["some"] for r in rows[:9]] == [
            None if r["n"] % 7 == 0 else row(r["n"])["some"].tolist() for r in rows[:9]]
        assert df.selectExpr("sum(n)").collect()[0][0] == sum(range(ROWS))

    def test_options_of_reading(self, spark, dataset):
        reader = spark.read.format("shardfeed")
        some = reader.option("columns", "n, text").option("split", "3").load(dataset)
        assert some.columns == ["n", "text"] and some.rdd.getNumPartitions() == 3
        assert some.count() == ROWS
        typed = spark.read.format("shardfeed").schema("n bigint, missing float").load(dataset)
        assert {r["missing"] for r in typed.collect()} == {None}
        raw = spark.read.format("shardfeed").option("record", "raw").load(dataset)
        assert [bytes(r["record"]) for r in raw.collect()] == list(sf.read(dataset))
        with pytest.raises(Exception, match="option split is 'shard', a number of partitions or a size"):
            spark.read.format("shardfeed").option("split", "x").load(dataset).collect()
        with pytest.raises(Exception, match="feature 'n' is of kind int64, expected bytes"):
            spark.read.format("shardfeed").schema("n binary").load(dataset).collect()

    def test_writing(self, spark, dataset, tmp_path):
        df = spark.read.format("shardfeed").load(dataset)
        df.write.format("shardfeed").mode("append").save(f"{tmp_path}/new@4")
        assert list(sf.read(tmp_path / "new@4")) == list(sf.read(dataset))
        assert not left_behind(tmp_path / "new@4")
        with pytest.raises(Exception, match="there is a dataset of this name"):
            df.write.format("shardfeed").mode("append").save(f"{tmp_path}/new@4")
        df.repartition(2).write.format("shardfeed").mode("overwrite").option(
            "compression", "gzip").save(f"{tmp_path}/new@3")
        assert records(tmp_path / "new@3") == records(dataset)
        assert not list(tmp_path.glob("new-*-of-00004"))
        with pytest.raises(Exception, match=r"the rows are in more than 2 partitions; write df.repartition\(2\)"):
            df.write.format("shardfeed").mode("append").save(f"{tmp_path}/few@2")
        assert not left_behind(tmp_path / "few@2")

    def test_killed_workers_are_replaced(self, spark, dataset, tmp_path):
        die = DiesOnce(tmp_path / "died", 500)

        def meet(batches):
            for batch in batches:
                die(batch.column("n").to_pylist())
                yield batch

        df = spark.read.format("shardfeed").load(dataset)
        df.mapInArrow(meet, df.schema).write.format("shardfeed").mode("append").save(f"{tmp_path}/d/new@4")
        assert (tmp_path / "died").exists()
        assert list(sf.read(tmp_path / "d/new@4")) == list(sf.read(dataset))
        assert not left_behind(tmp_path / "d/new@4")


class TestHuggingFace:
    def test_loading_and_resuming(self, dataset):
        pytest.importorskip("datasets")
        import shardfeed.hf
        ds = shardfeed.hf.load(dataset, ["n", "text"])
        order = in_order(dataset)
        assert [r["n"] for r in ds] == order
        assert ds.num_shards == SHARDS
        it = iter(ds)
        first = [next(it)["n"] for _ in range(300)]
        state = ds.state_dict()
        again = shardfeed.hf.load(dataset, ["n", "text"])
        again.load_state_dict(state)
        assert first + [r["n"] for r in again] == order
        assert [r["record"] for r in shardfeed.hf.load(dataset, record=True)] == list(sf.read(dataset))
