"""Datasets read and written by Spark, on a local cluster."""

import os
import subprocess
import sys

import pytest
from cluster_data import (LATE_ROWS, ROWS, SHARDS, DiesOnce, damaged, dataset, example, in_order, left_behind, records, row,
                          sampled, sf)


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

    def test_columns_that_cannot_be_are_refused_when_planned(self, spark, dataset):
        for options, schema, why in [
                ({}, "N bigint", "there is no feature 'N'; there is 'n'"),
                ({}, "n bigint, Text binary", "there is no feature 'Text'; there is 'text'"),
                ({"columns": "n,n"}, None, "option columns: 'n' appears twice"),
                ({"columns": "N"}, None, "there is no feature 'N'; there are: n, some, text, x"),
                ({}, "n bigint, n bigint", "column 'n' appears twice in the schema"),
                *(({"record": "raw", **places}, schema, "record=raw has the one column `record` of type binary")
                  for places in ({}, {"places": "true"})
                  for schema in ("record string", "record binary, n bigint", "a binary, b binary", "n bigint"))]:
            # Spark says so of what is raised before any task runs.
            with pytest.raises(Exception, match=f"Failed to (initialize|create)[^$]*({why})"):
                reader = spark.read.format("shardfeed").options(**options)
                (reader if schema is None else reader.schema(schema)).load(dataset).collect()
        raw = spark.read.format("shardfeed").options(record="raw", places="true").schema("_record bigint, record binary")
        assert [bytes(r["record"]) for r in raw.load(dataset).collect()] == list(sf.read(dataset))

    def test_features_that_were_not_found_are_told(self, spark, tmp_path):
        spec = sampled(tmp_path)
        df = spark.read.format("shardfeed").load(spec)
        assert df.columns == ["big", "n"]
        with pytest.raises(Exception, match=r"sampled-00001-of-00002: record 359 at byte \d+: feature 'late' is not known"):
            df.selectExpr("sum(n)").collect()
        with pytest.raises(Exception, match="records that were looked at, as there is no manifest, has a feature 'late'"):
            spark.read.format("shardfeed").option("columns", "n,late").load(spec).collect()
        late = spark.read.format("shardfeed").schema("n bigint, late float").load(spec)
        assert late.selectExpr("sum(late)").collect()[0][0] == 0.5
        for named in (spark.read.format("shardfeed").option("columns", "n"), spark.read.format("shardfeed").schema("n bigint")):
            assert named.load(spec).selectExpr("sum(n)").collect()[0][0] == sum(range(LATE_ROWS))

    def test_names_that_differ_only_in_case(self, spark, tmp_path):
        with sf.write(tmp_path / "case@2") as writer:
            for n in range(10):
                writer.write({"n": n, "N": -n, "_SHARD": n + 1})
        spec = f"{tmp_path}/case@2"
        with pytest.raises(Exception, match="features 'N' and 'n' differ only in case, and Spark does not tell such columns "
                                            "apart; name those that you want by the option columns"):
            spark.read.format("shardfeed").load(spec)
        with pytest.raises(Exception, match="option places: it adds the column '_shard', and the dataset has a feature '_SHARD'"):
            spark.read.format("shardfeed").options(columns="n,_SHARD", places="true").load(spec)

        def read(**options):
            return spark.read.format("shardfeed").options(**options)

        for one, sign in (("n", 1), ("N", -1)):
            for reader in (read(columns=one), read().schema(f"{one} bigint")):
                df = reader.load(spec)
                assert (df.columns, df.selectExpr("sum(n)").collect()[0][0]) == ([one], sign * 45)
        both = read(columns="n,N,_SHARD").load(spec)
        assert both.toDF("a", "b", "c").selectExpr("sum(a)", "sum(b)", "sum(c)").collect()[0][:] == (45, -45, 55)
        with pytest.raises(Exception, match="AMBIGUOUS_REFERENCE"):
            both.select("n").collect()
        places = read(columns="n", places="true").load(spec)
        assert places.where("_shard like '%case-00000-of-00002'").selectExpr("sum(n)").collect()[0][0] == 0 + 2 + 4 + 6 + 8
        spark.conf.set("spark.sql.caseSensitive", "true")
        try:
            assert both.selectExpr("sum(n)", "sum(N)").collect()[0][:] == (45, -45)
        finally:
            spark.conf.set("spark.sql.caseSensitive", "false")

    def test_schemas_say_what_may_be_null(self, spark, dataset):
        from pyspark.sql import types
        schema = spark.read.format("shardfeed").load(dataset).schema
        assert [schema[name].dataType.containsNull for name in ("some", "x")] == [False, False]  # items of lists
        assert all(field.nullable for field in schema.fields)
        expected = [row(n)["some"].tolist() if n % 7 else None for n in in_order(dataset)]
        for contains_null in (False, True):
            wanted = types.StructType([types.StructField("some", types.ArrayType(types.LongType(), contains_null))])
            df = spark.read.format("shardfeed").schema(wanted).load(dataset)
            assert [r["some"] for r in df.collect()] == expected
        whole = types.StructType([types.StructField("n", types.LongType(), False)])
        df = spark.read.format("shardfeed").schema(whole).load(dataset)
        assert [r["n"] for r in df.collect()] == in_order(dataset)
        lacking = types.StructType([types.StructField("some", types.ArrayType(types.LongType()), False)])
        with pytest.raises(Exception, match="column 'some': the schema calls it not nullable, but records lack"):
            spark.read.format("shardfeed").schema(lacking).load(dataset).collect()

    def test_places(self, spark, dataset):
        shards = [f"train-{shard:05}-of-{SHARDS:05}" for shard in range(SHARDS)]
        expected = [(shard, number, int(r["n"])) for shard in shards for number, r in enumerate(
            sf.read(os.path.join(os.path.dirname(dataset), shard)).parse({"n": sf.int64}))]
        for options in ({}, {"split": "3"}):
            df = spark.read.format("shardfeed").options(places="true", columns="n", **options).load(dataset)
            assert df.schema.simpleString() == "struct<n:bigint,_shard:string,_record:bigint>"
            assert [(os.path.basename(r["_shard"]), r["_record"], r["n"]) for r in df.collect()] == expected
        some = (spark.read.format("shardfeed").option("places", "true").schema("_record bigint, n bigint")
                .load(dataset))
        assert [(r["_record"], r["n"]) for r in some.collect()] == [(number, n) for _, number, n in expected]
        places = spark.read.format("shardfeed").option("places", "true").schema("_record bigint").load(dataset)
        assert [r["_record"] for r in places.collect()] == [number for _, number, _ in expected]
        raw = spark.read.format("shardfeed").options(places="true", record="raw").load(dataset).collect()
        assert [r["_record"] for r in raw] == [number for _, number, _ in expected] and all(r["record"] for r in raw)
        with pytest.raises(Exception, match="column '_record': expected bigint, got string"):
            spark.read.format("shardfeed").option("places", "true").schema("_record string").load(dataset).collect()

    def test_options_that_do_not_exist_are_refused(self, spark, dataset, tmp_path):
        for reader in (spark.read.format("shardfeed"), spark.read.format("shardfeed").schema("n bigint")):
            with pytest.raises(Exception, match="there is no option 'on_damage' here; there are: record, columns, split"):
                reader.option("on_damage", "skip").load(dataset).collect()
        df = spark.read.format("shardfeed").load(dataset)
        with pytest.raises(Exception, match="there is no option 'codec' here; there are: compression, level, sync"):
            df.write.format("shardfeed").mode("append").option("codec", "gzip").save(f"{tmp_path}/new@4")

    def test_damaged_records_are_left_out(self, spark, tmp_path):
        spec = damaged(tmp_path)
        reader = spark.read.format("shardfeed").schema("n bigint")
        with pytest.raises(Exception, match="record 7 at byte"):
            reader.load(spec).collect()
        df = reader.option("on_error", "skip").load(spec)
        assert [r["n"] for r in df.collect()] == [n for n in range(20) if n != 7]

    def test_writing(self, spark, dataset, tmp_path):
        df = spark.read.format("shardfeed").load(dataset)
        df.write.format("shardfeed").mode("append").save(f"{tmp_path}/new@4")
        assert list(sf.read(tmp_path / "new@4")) == list(sf.read(dataset))
        assert not left_behind(tmp_path / "new@4")
        with pytest.raises(Exception, match=r'there is a dataset of this name.*; write with .mode\("overwrite"\) to replace it'):
            df.write.format("shardfeed").mode("append").save(f"{tmp_path}/new@4")
        df.repartition(2).write.format("shardfeed").mode("overwrite").option(
            "compression", "gzip").save(f"{tmp_path}/new@3")
        assert records(tmp_path / "new@3") == records(dataset)
        assert not list(tmp_path.glob("new-*-of-00004"))
        with pytest.raises(Exception, match=r"the rows are in more than 2 partitions; write df.repartition\(2\)"):
            df.write.format("shardfeed").mode("append").save(f"{tmp_path}/few@2")
        assert not left_behind(tmp_path / "few@2")
        with pytest.raises(Exception, match="column 'ym': Spark does not pass interval year to month"):
            spark.sql("select interval '1-2' year to month as ym").write.format("shardfeed").mode("append").save(
                f"{tmp_path}/few@1")

    def test_records_are_written_as_they_are(self, spark, dataset, tmp_path):
        raw = spark.read.format("shardfeed").option("record", "raw").load(dataset)
        raw.write.format("shardfeed").mode("append").option("record", "raw").save(f"{tmp_path}/new@4")
        assert list(sf.read(tmp_path / "new@4")) == list(sf.read(dataset))
        for df, columns in ((spark.range(3), "struct<id:bigint>"),
                            (raw.selectExpr("cast(record as string) as record"), "struct<record:string>")):
            with pytest.raises(Exception, match="record=raw writes the one column `record` of type binary, and the "
                                                f"frame has {columns}"):
                df.write.format("shardfeed").mode("append").option("record", "raw").save(f"{tmp_path}/few@2")
        with pytest.raises(Exception, match="column 'record': a record must be bytes, not None"):
            spark.sql("select cast(null as binary) as record").write.format("shardfeed").mode("append").option(
                "record", "raw").save(f"{tmp_path}/few@2")
        with pytest.raises(Exception, match="option record is 'example' or 'raw', not 'bytes'"):
            raw.write.format("shardfeed").mode("append").option("record", "bytes").save(f"{tmp_path}/few@2")
        assert not list(tmp_path.glob("few*"))

    def test_filters_are_left_to_spark(self, spark, dataset):
        for enabled in ("true", "false"):
            spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
            df = spark.read.format("shardfeed").load(dataset)
            assert [r["n"] for r in df.filter("n = 500").collect()] == [500]
            assert df.filter("some is not null and n < 100").count() == len([i for i in range(100) if i % 7])
        with pytest.raises(Exception, match="option pushdown: no filter can be pushed down, since neither"):
            spark.read.format("shardfeed").option("pushdown", "true").load(dataset).collect()
        for option, value, why in [("on_error", "yes", "option on_error is 'fail' or 'skip', not 'yes'"),
                                   ("rows_per_batch", "0", "option rows_per_batch is a number from 1 on")]:
            with pytest.raises(Exception, match=why):
                spark.read.format("shardfeed").option(option, value).load(dataset).collect()

    @pytest.fixture
    def stream(self, spark, tmp_path):
        """Writes the files that are new in a folder, each as a micro-batch."""
        files = tmp_path / "files"
        files.mkdir()

        def run(name="new@2", checkpoint="check", change=lambda df: df, mode="append", **options):
            df = (spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").json(str(files)))
            query = (change(df).writeStream.format("shardfeed").outputMode(mode).trigger(availableNow=True)
                     .option("checkpointLocation", f"{tmp_path}/{checkpoint}").options(**options).start(f"{tmp_path}/out/{name}"))
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
        # Also if its rows are the same: otherwise its later batches would be mixed with those of the first.
        for checkpoint, rows in (("other", "n + 1 as n"), ("equal", "n")):
            with pytest.raises(Exception, match="there is a dataset of this name, and another query has written it"):
                stream(checkpoint=checkpoint, change=lambda df: df.selectExpr(rows))
        assert self.batches(out) == [[1, 2, 3], [4], [5, 6]]
        assert not list(out.rglob("*.jobs")) and not list(out.rglob("*.incomplete"))

    def test_records_of_streams_are_written_as_they_are(self, spark, stream, tmp_path):
        stream.add(1)
        with pytest.raises(Exception, match="record=raw writes the one column `record` of type binary"):
            stream(record="raw")
        stream(record="raw", change=lambda df: df.selectExpr("encode('record', 'utf-8') as record"))
        assert list(sf.read(tmp_path / "out/new-00000000@2")) == [b"record"]

    def test_streams_that_cannot_be_written(self, spark, stream, tmp_path):
        stream.add(1, 2, 3)
        with pytest.raises(Exception, match="'complete' would replace them all"):
            stream(mode="complete", change=lambda df: df.groupBy("n").count())
        with pytest.raises(Exception, match=r"more than 2 partitions; write df.repartition\(2\)"):
            stream(change=lambda df: df.repartition(3))
        with pytest.raises(Exception, match="the number of shards is missing"):
            stream("new")
        assert not list((tmp_path / "out").glob("new-*"))
        subprocess.run([sys.executable, "-m", "shardfeed", "clean", f"{tmp_path}/out/new@2", "--older-than", "0s"],
                       check=True, capture_output=True)
        assert not list((tmp_path / "out").rglob("*"))

    def test_clean_knows_jobs_of_micro_batches(self, spark, tmp_path):
        """As tasks make them, of which the driver has heard nothing when it is killed."""
        from pyspark_shardfeed.streaming import StreamWriter
        job = sf.write_job(tmp_path / "out/new@2")
        job.abort()
        batch = StreamWriter(job._core.text, False)._job("a query", 17)
        batch._core.ensure()
        batch.shard(0).close()
        [left] = (tmp_path / "out/.shardfeed/new-00000017.jobs").iterdir()
        assert left.name[:16] == "0" * 16
        subprocess.run([sys.executable, "-m", "shardfeed", "clean", f"{tmp_path}/out/new", "--older-than", "0s"],
                       check=True, capture_output=True)
        assert not list((tmp_path / "out").rglob("*"))

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

    def test_collections_of_garbage_leave_out_modules(self, spark):
        program = "import gc, pyspark_shardfeed; print(gc.get_freeze_count())"
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
        for extra, least, most in (({}, 0, 0), ({"SPARK_REUSE_WORKER": "1"}, 10_000, 10**9)):
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=True,
                                  env={**environment, **extra})
            assert least <= int(done.stdout) <= most

        def tell(batches):
            import pyarrow as pa
            for _ in batches:
                yield pa.RecordBatch.from_pydict({"reused": ["SPARK_REUSE_WORKER" in os.environ]})

        assert [r["reused"] for r in spark.range(1).mapInArrow(tell, "reused boolean").collect()] == [True]

    def test_example(self, spark):
        said = example("spark_flights.py")
        assert "BER: 30.0 minutes late\n" in said and "9800 rows for training" in said
