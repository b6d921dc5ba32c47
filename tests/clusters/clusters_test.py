"""Datasets read and written by Dask, Ray, Spark, Beam and Hugging Face's library, on local clusters.

    scripts/test --clusters

installs these into an environment of their own and runs this file. Tasks are killed while they
write: each dataset must have every record once, or not be there."""

import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import uuid

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

    def test_feeding_workers(self, ray, dataset, tmp_path):
        from ray.train import RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        def train(settings):
            import ray.train
            import shardfeed.ray
            rows = [int(n) for batch in shardfeed.ray.feed(sf.read(settings["spec"], batch=10).shuffle(seed=1))
                    .parse({"n": sf.int64}).batch(10) for n in batch["n"]]
            rank = ray.train.get_context().get_world_rank()
            pathlib.Path(settings["folder"], f"rank{rank}").write_bytes(pickle.dumps(rows))

        DataParallelTrainer(train, train_loop_config={"spec": dataset, "folder": str(tmp_path)},
                            scaling_config=ScalingConfig(num_workers=2),
                            run_config=RunConfig(storage_path=str(tmp_path / "train"))).fit()
        found = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(2)]
        for rank in range(2):
            alone = sf.read(dataset, batch=10).shuffle(seed=1).shard(rank, 2).parse({"n": sf.int64}).batch(10)
            assert found[rank] == [int(n) for batch in alone for n in batch["n"]]
        assert sorted(found[0] + found[1]) == list(range(ROWS))

    CHAINS = {
        "sequential": lambda ds: ds.shard(1, 2).parse().batch(8),
        "shuffled": lambda ds: ds.shuffle(seed=1).parse().batch(8),
        "repeated": lambda ds: ds.shuffle(seed=1).shard(0, 2).repeat(2).parse().batch(8),
        "mapped": lambda ds: ds.parse({"n": sf.int64}).map(
            lambda row: {"n": row["n"] * 2, "pair": (row["n"], b"text")}).batch(7),
        "filtered": lambda ds: ds.parse({"n": sf.int64}).filter(lambda row: row["n"] % 3).batch(8),
    }

    @staticmethod
    def run_of(it, most=10 ** 9):
        made = []
        for batch in it:
            columns = {name: getattr(column, "tolist", lambda column=column: [c.tolist() for c in column])()
                       for name, column in batch.items()}
            made.append((columns, it.padded, it.state_dict()))
            if len(made) == most:
                break
        return made

    @pytest.mark.filterwarnings("ignore:workers. places of")
    @pytest.mark.parametrize("chain", CHAINS)
    def test_workers_make_what_one_machine_makes(self, ray, dataset, chain):
        import shardfeed.ray
        ds = self.CHAINS[chain](sf.read(dataset, batch=8))
        remote = shardfeed.ray.workers(ds, 2, stretch=3)
        for epoch in range(2):
            made, alone = self.run_of(remote.start(epoch=epoch)), self.run_of(ds.start(epoch=epoch))
            if chain == "filtered":  # the text of these states depends on the blocks that were read
                made, alone = [one[:2] for one in made], [one[:2] for one in alone]
            assert made == alone
        with remote.start(epoch=0) as it:
            begun = self.run_of(it, 20)
            state = it.state_dict()
        for again in (ds.start(), remote.start()):
            again.load_state_dict(state)
            assert again.epoch() == 0
            rest = self.run_of(again)
            assert [one[0] for one in begun + rest] == [one[0] for one in self.run_of(ds.start(epoch=0))]

    def test_arrays_of_workers_lie_in_the_store(self, ray, dataset):
        import shardfeed.ray
        ds = sf.read(dataset).parse({"x": sf.fixed(3), "text": sf.bytes}).batch(500)
        for batch in shardfeed.ray.workers(ds, 1):
            assert not batch["x"].flags.owndata and not batch["x"].flags.writeable
            assert isinstance(batch["text"], sf.BytesArray)

    def test_workers_that_die_are_replaced(self, ray, dataset, tmp_path):
        import shardfeed.ray
        deaths = [DiesOnce(tmp_path / f"died {i}", i) for i in (50, 500, 900)]

        def meet(batch):
            for die in deaths:
                die(batch["n"].tolist())
            return batch

        ds = sf.read(dataset, batch=8).shuffle(seed=3).parse({"n": sf.int64}).batch(8)
        made = [b["n"].tolist() for b in shardfeed.ray.workers(ds.map(meet, batched=True), 2, stretch=2)]
        assert made == [b["n"].tolist() for b in ds.start(epoch=0)]
        assert len(list(tmp_path.glob("died *"))) == 3

    def test_errors_of_workers_are_those_of_the_chain(self, ray, dataset):
        import shardfeed.ray

        def fail(row):
            if row["n"] == 500:
                raise ZeroDivisionError("no 500")
            return {"n": row["n"]}

        ds = sf.read(dataset).parse({"n": sf.int64}).map(fail, output={"n": sf.int64}).batch(8)
        counts = []
        for one in (ds, shardfeed.ray.workers(ds, 2)):
            counts.append(0)
            with pytest.raises(ZeroDivisionError, match="no 500"):
                for _ in one:
                    counts[-1] += 1
        assert counts[0] == counts[1]

    def test_actors_that_always_die_are_an_error(self, ray, dataset):
        import shardfeed.ray

        def die(batch):
            os._exit(1)

        ds = sf.read(dataset).parse({"n": sf.int64}).batch(8).map(die, batched=True, output={"n": sf.int64})
        with pytest.raises(RuntimeError, match="an actor has died 3 times before it delivered"):
            list(shardfeed.ray.workers(ds, 1))

    def test_wrong_arguments_of_workers_are_refused(self, ray, dataset):
        import shardfeed.ray
        ds = sf.read(dataset).parse({"n": sf.int64}).batch(8)
        with pytest.raises(ValueError, match="workers: expected batches"):
            shardfeed.ray.workers(sf.read(dataset), 2)
        with pytest.raises(ValueError, match="workers: a chain that is not deterministic"):
            shardfeed.ray.workers(ds.with_options(deterministic=False), 2)
        with pytest.raises(ValueError, match="workers: a trace"):
            shardfeed.ray.workers(ds.with_options(trace=sf.Trace()), 2)
        with pytest.raises(ValueError, match="workers: n must be at least 1"):
            shardfeed.ray.workers(ds, 0)
        it = iter(shardfeed.ray.workers(ds, 1))
        with pytest.raises(RuntimeError, match="another"):
            it.load_state_dict(sf.read(dataset).start().state_dict())
        it.close()
        with pytest.raises(ValueError, match="the iterator was closed"):
            next(it)

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

    def test_filters_are_left_to_spark(self, spark, dataset):
        for enabled in ("true", "false"):
            spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
            df = spark.read.format("shardfeed").load(dataset)
            assert [r["n"] for r in df.filter("n = 500").collect()] == [500]
            assert df.filter("some is not null and n < 100").count() == len([i for i in range(100) if i % 7])
        with pytest.raises(Exception, match="option pushdown: no filter can be pushed down, since neither"):
            spark.read.format("shardfeed").option("pushdown", "true").load(dataset).collect()
        for option, value, why in [("skip_damaged", "yes", "option skip_damaged is 'true' or 'false', not 'yes'"),
                                   ("rows_per_batch", "0", "option rows_per_batch is a number from 1 on")]:
            with pytest.raises(Exception, match=why):
                spark.read.format("shardfeed").option(option, value).load(dataset).collect()

    @pytest.fixture
    def stream(self, spark, tmp_path):
        """Writes the files that are new in a folder, each as a micro-batch."""
        files = tmp_path / "files"
        files.mkdir()

        def run(name="new@2", checkpoint="check", change=lambda df: df, mode="append"):
            df = (spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").json(str(files)))
            query = (change(df).writeStream.format("shardfeed").outputMode(mode).trigger(availableNow=True)
                     .option("checkpointLocation", f"{tmp_path}/{checkpoint}").start(f"{tmp_path}/out/{name}"))
            query.awaitTermination()

        def add(*rows):
            number = len(list(files.iterdir()))
            (files / f"{number:05}.json").write_text("".join('{"n": %d}\n' % n for n in rows))
            os.utime(files / f"{number:05}.json", (10**9 + number,) * 2)
        run.add = add
        return run

    @staticmethod
    def batches(folder):
        return [sorted(in_order(f"{folder}/new-{batch:08}@2"))
                for batch in range(len(list(folder.glob("new-*-00000-of-00002"))))]

    def test_micro_batches_are_datasets(self, spark, stream, tmp_path):
        out = tmp_path / "out"
        stream.add(1, 2, 3)
        stream.add(4)
        stream()
        stream.add(5, 6)
        stream()
        assert self.batches(out) == [[1, 2, 3], [4], [5, 6]]
        assert sf.verify([out / f"new-{batch:08}@2" for batch in range(3)])
        # As if the driver had been killed between the commit of the dataset and Spark's own.
        for name in ("2", ".2.crc"):
            (tmp_path / "check/commits" / name).unlink()
        stream()
        assert self.batches(out) == [[1, 2, 3], [4], [5, 6]]
        with pytest.raises(Exception, match="there is a dataset of this name, and another query has written it"):
            stream(checkpoint="other", change=lambda df: df.selectExpr("n + 1 as n"))
        assert self.batches(out) == [[1, 2, 3], [4], [5, 6]]
        assert not list(out.rglob("*.jobs")) and not list(out.rglob("*.incomplete"))

    def test_streams_that_cannot_be_written(self, spark, stream, tmp_path):
        stream.add(1, 2, 3)
        with pytest.raises(Exception, match="'complete' would replace them all"):
            stream(mode="complete", change=lambda df: df.groupBy("n").count())
        with pytest.raises(Exception, match=r"more than 2 partitions; write df.repartition\(2\)"):
            stream(change=lambda df: df.repartition(3))
        with pytest.raises(Exception, match="the number of shards is missing"):
            stream("new")
        assert not list((tmp_path / "out").glob("new-*"))
        subprocess.run([sys.executable, "-m", "shardfeed", "clean", f"{tmp_path}/out/", "--older-than", "0s"],
                       check=True, capture_output=True)
        assert not list((tmp_path / "out").rglob("*.jobs"))

    def test_killed_workers_of_a_stream_are_replaced(self, spark, stream, tmp_path):
        die = DiesOnce(tmp_path / "died", 2)

        def meet(batches):
            for batch in batches:
                die(batch.column("n").to_pylist())
                yield batch

        stream.add(1, 2, 3)
        stream(change=lambda df: df.mapInArrow(meet, df.schema))
        assert (tmp_path / "died").exists() and self.batches(tmp_path / "out") == [[1, 2, 3]]

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


class TestBeam:
    @pytest.fixture
    def beam(self):
        return pytest.importorskip("apache_beam")

    @pytest.fixture
    def run(self, beam, tmp_path):
        """Runs a PCollection, and returns its elements: run(lambda pipeline: ...). By default in one process."""
        def run(make, **options):
            folder = tmp_path / f"out{len(list(tmp_path.glob('out*')))}"
            folder.mkdir()

            def keep(element):
                (folder / uuid.uuid4().hex).write_bytes(pickle.dumps(element))

            with beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions([], **options)) as pipeline:
                make(pipeline) | "Keep" >> beam.Map(keep)
            return [pickle.loads(path.read_bytes()) for path in folder.iterdir()]
        return run

    @pytest.mark.parametrize("workers", [1, 2])
    def test_reading(self, run, dataset, workers):
        import shardfeed.beam
        several = {"direct_running_mode": "multi_processing", "direct_num_workers": workers} if workers > 1 else {}
        rows = run(lambda p: p | shardfeed.beam.Read(dataset), **several)
        assert sorted(r["n"] for r in rows) == list(range(ROWS))
        for found in rows:
            wanted = row(found["n"])
            assert found["text"] == wanted["text"] and found["x"].tolist() == wanted["x"].tolist()
            assert (None if found["some"] is None else found["some"].tolist()) == (
                wanted["some"].tolist() if "some" in wanted else None)

    def test_columns_records_and_batches(self, run, dataset):
        import pyarrow as pa
        import shardfeed.beam
        rows = run(lambda p: p | shardfeed.beam.Read(dataset, ["n"], n=7))
        assert sorted(rows, key=lambda r: r["n"]) == [{"n": i} for i in range(ROWS)]
        assert sorted(run(lambda p: p | shardfeed.beam.Read(dataset, record=True))) == records(dataset)
        batches = run(lambda p: p | shardfeed.beam.Read(dataset, {"x": sf.fixed(3)}, batches=True))
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        table = pa.Table.from_batches(batches)
        assert table.schema.field("x").type == pa.list_(pa.float32(), 3) and table.num_rows == ROWS
        with pytest.raises(ValueError, match="there is no feature 'm'; there are: n, some, text, x"):
            shardfeed.beam.Read(dataset, ["m"])
        with pytest.raises(FileNotFoundError):
            shardfeed.beam.Read(dataset + "0")

    def test_a_shard_that_changed_is_told(self, run, tmp_path):
        import shardfeed.beam
        with sf.write(tmp_path / "a@1") as writer:
            writer.write({"n": 1})
        read = shardfeed.beam.Read(tmp_path / "a@1", ["n"])
        with sf.write(tmp_path / "a@1", overwrite=True) as writer:
            writer.write({"n": [1, 2]})
        with pytest.raises(Exception, match="the shard has changed since the dataset was split; split it again"):
            run(lambda p: p | read)

    def test_writing(self, run, beam, dataset, tmp_path):
        import shardfeed.beam
        report, = run(lambda p: p | shardfeed.beam.Read(dataset) | shardfeed.beam.Write(tmp_path / "new@3"))
        assert report == {"shards": 3, "records": ROWS,
                          "bytes": sum(p.stat().st_size for p in tmp_path.glob("new-*"))}
        assert records(tmp_path / "new@3") == records(dataset)
        assert all(250 < split.records < 420 for split in sf.splits(tmp_path / "new@3", 3))
        assert sf.verify(tmp_path / "new@3") and not left_behind(tmp_path / "new@3")
        with pytest.raises(FileExistsError):
            beam.Pipeline() | beam.Create([{"n": 1}]) | shardfeed.beam.Write(tmp_path / "new@3")
        # The order and the division of the rows do not matter, nor who writes, nor whether they are records.
        again = shardfeed.beam.Write(tmp_path / "again@3", compression="gzip")
        run(lambda p: p | shardfeed.beam.Read(dataset, n=9, record=True) | again,
            direct_running_mode="multi_processing", direct_num_workers=2)
        assert list(sf.read(tmp_path / "new@3")) == list(sf.read(tmp_path / "again@3"))

    def test_parts_without_rows_and_types(self, run, beam, tmp_path):
        import shardfeed.beam
        one = shardfeed.beam.Write(tmp_path / "one@5", features={"x": sf.var(sf.float32), "z": sf.int8})
        report, = run(lambda p: p | beam.Create([{"x": [], "y": None, "z": np.int8(3)}]) | one)
        assert report["shards"] == 5 and report["records"] == 1
        assert [r.keys() for r in sf.read(tmp_path / "one@5").parse()] == [{"x", "z"}]
        none, = run(lambda p: p | beam.Create([]) | shardfeed.beam.Write(tmp_path / "none@2"))
        assert none["records"] == 0 and len(sf.read(tmp_path / "none@2")) == 0

    def test_keys(self, run, beam, tmp_path):
        import shardfeed.beam
        rows = [{"n": i, "user": f"user {i % 7}"} for i in range(100)]

        def written(name, rows):
            write = shardfeed.beam.Write(tmp_path / name, key=lambda r: r["user"])
            run(lambda p: p | beam.Create(rows) | write)
            return [list(sf.read(path).parse()) for path in sorted(tmp_path.glob(name[:-2] + "-0*-of-00003"))]

        shards = written("a@3", rows)
        assert shards == written("b@3", rows[::-1])
        users = [[r["user"] for r in shard] for shard in shards]
        assert sorted(sum(users, [])) == sorted(r["user"].encode() for r in rows)
        changes = sum(a != b for shard in users for a, b in zip(shard, shard[1:]))
        assert changes + sum(map(bool, users)) == 7  # each user is in one place

    @pytest.mark.parametrize("elements, options, why", [
        ([5], {}, "Write: rows must be dicts of features, or records as bytes, not 5"),
        ([{"odd": object}], {}, "feature 'odd'"),
        ([{"n": 1.5}], {"features": {"n": sf.int64}}, "feature 'n': floats, where integers are declared"),
        ([{"n": 1}], {"key": lambda r: 1.5}, "Write: key=<lambda> must return an integer, bytes or str, not 1.5")])
    def test_rows_that_cannot_be_written(self, run, beam, tmp_path, elements, options, why):
        import shardfeed.beam
        with pytest.raises(Exception, match=why):
            with shardfeed.beam.Write(tmp_path / "new@2", **options) as write:
                run(lambda p: p | beam.Create(elements) | write)
        assert not list(tmp_path.rglob("new*"))

    def test_arguments(self, beam, tmp_path):
        import shardfeed.beam
        from apache_beam.transforms.periodicsequence import PeriodicImpulse
        with pytest.raises(TypeError, match="Write: key must be a function of a row, not 'n'"):
            shardfeed.beam.Write(tmp_path / "new@2", key="n")
        with shardfeed.beam.Write(tmp_path / "new@2") as unused:
            unused.abort()
        assert not list(tmp_path.iterdir())
        with pytest.raises(ValueError, match="the number of shards is missing"):
            beam.Pipeline() | beam.Create([{"n": 1}]) | shardfeed.beam.Write(tmp_path / "new")
        with pytest.raises(RuntimeError, match="is written by this transform already; make another Write"):
            with shardfeed.beam.Write(tmp_path / "new@2") as write:
                rows = beam.Pipeline() | beam.Create([{"n": 1}])
                rows | write
                rows | "Twice" >> write
        with pytest.raises(ValueError, match="Write: the PCollection is unbounded, and a dataset has an end"):
            with shardfeed.beam.Write(tmp_path / "new@2") as write:
                beam.Pipeline() | PeriodicImpulse() | write
        assert not list(tmp_path.rglob("new*"))

    def test_failing_tasks_leave_nothing(self, run, beam, dataset, tmp_path):
        import shardfeed.beam

        def fail(row):
            if row["n"] == 500:
                raise ZeroDivisionError
            return row

        with pytest.raises(Exception, match="ZeroDivisionError"):
            with shardfeed.beam.Write(tmp_path / "new@4") as write:
                run(lambda p: p | shardfeed.beam.Read(dataset) | beam.Map(fail) | write)
        assert not list(tmp_path.rglob("new*"))

    def test_what_fails_after_the_commit_undoes_nothing(self, run, beam, tmp_path):
        import shardfeed.beam

        def fail(report):
            raise ZeroDivisionError

        with pytest.raises(Exception, match="ZeroDivisionError"):
            with shardfeed.beam.Write(tmp_path / "new@2") as write:
                run(lambda p: p | beam.Create([{"n": 1}]) | write | beam.Map(fail))
        assert in_order(tmp_path / "new@2") == [1] and not left_behind(tmp_path / "new@2")

    def test_repeated_tasks_make_no_doubles(self, beam, dataset, tmp_path):
        # The direct runner repeats nothing: each part is written twice, and committed twice.
        import shardfeed.beam
        job = sf.write_job(tmp_path / "new@2")
        divide = shardfeed.beam._Divide(2, {}, None)
        divide.setup()
        parts = {0: [], 1: []}
        for record in sf.read(dataset):
            for part, keyed in divide.process(record):
                parts[part].append(keyed)
        task = shardfeed.beam._WritePart(job)
        messages = [message for _ in range(2) for part in parts.items() for message in task.process(part)]
        assert len(set(messages)) == 4
        commit = shardfeed.beam._Commit(job)
        assert list(commit.process(messages)) == list(commit.process(messages))
        assert records(tmp_path / "new@2") == records(dataset)
        with pytest.raises(RuntimeError):
            list(task.process((0, parts[0])))  # a task that comes too late

    def test_example(self, beam):
        script = REPOSITORY / "examples/python/beam_words.py"
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"\d+ records in 4 shards", done.stdout)


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
