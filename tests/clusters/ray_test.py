"""Datasets read, written and fed by Ray, on one machine, and chains that its actors run."""

import os
import pathlib
import pickle

import pytest
from cluster_data import ROWS, DiesOnce, dataset, example, in_order, left_behind, nothing_is_left, records, row, sf


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

    def test_columns_that_are_not_used_are_not_parsed(self, ray, dataset, tmp_path):
        import shardfeed.ray
        with sf.write(tmp_path / "odd@1") as writer:
            for n in range(10):
                writer.write({"n": n, "m": -n, "list": [1] * (1 + n)})
        # A list where a single value is named is an error, if it is parsed.
        columns = {"list": sf.int64, "n": sf.int64, "m": sf.int64}
        with pytest.raises(Exception, match="feature 'list' has 2 values"):
            shardfeed.ray.read(tmp_path / "odd@1", columns).take_all()
        rows = shardfeed.ray.read(tmp_path / "odd@1", columns).select_columns(["m", "n"]).take_all()
        assert [list(r.items()) for r in rows] == [[("m", -n), ("n", n)] for n in range(10)]
        renamed = shardfeed.ray.read(dataset).rename_columns({"n": "number"}).select_columns(["number"])
        assert [r["number"] for r in renamed.take_all()] == in_order(dataset)
        assert shardfeed.ray.read(dataset).select_columns([]).count() == ROWS
        shardfeed.ray.write(shardfeed.ray.read(dataset).select_columns(["n"]), tmp_path / "n@4")
        assert in_order(tmp_path / "n@4") == in_order(dataset)

    def test_writing(self, ray, dataset, tmp_path):
        import shardfeed.ray
        report = shardfeed.ray.write(shardfeed.ray.read(dataset), tmp_path / "new@4")
        assert report["records"] == ROWS and report["shards"] == 4
        assert records(tmp_path / "new@4") == records(dataset)
        assert not left_behind(tmp_path / "new@4")
        empty = shardfeed.ray.write(ray.data.from_items([{"n": 1}]), tmp_path / "one@3")
        assert empty == {"shards": 3, "records": 1, "bytes": empty["bytes"]}
        assert in_order(tmp_path / "one@3") == [1]

    def test_shards_are_those_of_one_thread(self, ray, dataset, tmp_path):
        """Tasks write with two threads."""
        import shardfeed.ray
        for name, options in (("plain", {}), ("gzip", {"compression": "gzip", "member_bytes": 1000})):
            shardfeed.ray.write(shardfeed.ray.read(dataset), tmp_path / "new" / f"{name}@4", **options)
            job = sf.write_job(tmp_path / "one" / f"{name}@4", **options)
            messages = []
            for split in sf.splits(dataset):
                with job.shard(split.number, threads=1) as writer:
                    for batch in split.arrow():
                        writer.write_batch(batch)
                messages.append(writer.message)
            job.commit(messages)
        for path in (tmp_path / "one").glob("*-of-*"):
            assert path.read_bytes() == (tmp_path / "new" / path.name).read_bytes()
        assert len(list((tmp_path / "new").glob("*-of-*"))) == 8

    def test_a_task_writes_what_it_has_read_where_ray_can_fuse_both(self, ray, dataset, tmp_path, monkeypatch):
        import shardfeed.ray
        repartitioned = []
        plain = type(ray.data.range(1)).repartition
        monkeypatch.setattr("ray.data.Dataset.repartition", lambda ds, n: repartitioned.append(n) or plain(ds, n))
        found = shardfeed.ray.read(dataset)
        shardfeed.ray.write(found.filter(lambda r: r["n"] % 3 == 0), tmp_path / "few@4")
        assert in_order(tmp_path / "few@4") == [n for n in in_order(dataset) if n % 3 == 0]
        assert [len(sf.read(p)) for p in sorted(tmp_path.glob("few-*"))] == [
            sum(n % 3 == 0 for n in in_order(p)) for p in sorted(pathlib.Path(dataset).parent.glob("train-*"))]
        assert repartitioned == []
        for other in (found.sort("n"), found.map(lambda r: r, num_cpus=2), shardfeed.ray.read(dataset, n=2),
                      found.materialize()):
            shardfeed.ray.write(other, tmp_path / f"new{len(repartitioned)}@4")
            assert records(tmp_path / f"new{len(repartitioned) - 1}@4") == records(dataset)
        assert repartitioned == [4] * 4
        # Ray's plan is no public interface: where it runs more tasks than foreseen, it writes again.
        monkeypatch.setattr("shardfeed.ray._one_task_per_split", lambda *_: True)
        shardfeed.ray.write(shardfeed.ray.read(dataset, n=6), tmp_path / "again@4")
        assert in_order(tmp_path / "again@4") == in_order(dataset) and repartitioned == [4] * 5
        assert not left_behind(tmp_path / "again@4")

    def test_tensors_of_blocks_keep_their_shape_or_are_refused(self, ray, tmp_path):
        import numpy as np
        import shardfeed.ray

        def tensors(rows):
            return lambda batch: {"t": np.zeros((len(batch["id"]), rows(batch), 3), np.float32)}
        ids = ray.data.range(20, override_num_blocks=4)
        shardfeed.ray.write(ids.map_batches(tensors(lambda batch: 2)), tmp_path / "even@4")
        assert {r["t"].shape for r in sf.read(tmp_path / "even@4").parse()} == {(2, 3)}
        with pytest.raises(ValueError, match=r"feature 't' has the shape \[2, 3\] in record 0 of part 0, and \[3, 3\]"):
            shardfeed.ray.write(ids.map_batches(tensors(lambda batch: 2 + int(batch["id"][0] > 9))), tmp_path / "odd@4")
        assert nothing_is_left(tmp_path / "odd@4")

    def test_records_are_written_as_they_are(self, ray, dataset, tmp_path):
        import pyarrow as pa
        import shardfeed.ray
        raw = shardfeed.ray.read(dataset, record=True)
        for number, records in enumerate((raw, raw.map_batches(lambda batch: batch))):
            shardfeed.ray.write(records, tmp_path / f"new{number}@4", record=True)
            assert list(sf.read(tmp_path / f"new{number}@4")) == list(sf.read(dataset))
        for wrong, why in [
                (shardfeed.ray.read(dataset, ["n"]), "writes the one column 'record', and the columns are: n"),
                (ray.data.from_arrow(pa.table({"record": ["a"]})), "the column 'record' of type binary, and it has another"),
                (raw.map_batches(lambda batch: {"q": batch["record"]}), "the one column 'record', and the columns are: q")]:
            with pytest.raises(Exception, match=why):
                shardfeed.ray.write(wrong, tmp_path / "few@2", record=True)
        assert not list(tmp_path.glob("few*"))

    def test_batches_of_arrow_keep_missing_features_and_integers(self, ray, tmp_path):
        """What the documentation recommends. Ray's batches of NumPy do not."""
        import shardfeed.ray
        with sf.write(tmp_path / "a@2") as writer:
            for n in range(10):
                writer.write({"n": 2 ** 60 + n} if n % 2 else {"m": n})
        steps = shardfeed.ray.read(tmp_path / "a@2").map_batches(lambda batch: batch, batch_format="pyarrow")
        shardfeed.ray.write(steps, tmp_path / "new@2")
        assert list(sf.read(tmp_path / "new@2")) == list(sf.read(tmp_path / "a@2"))

    def test_python_objects_are_refused(self, ray, tmp_path):
        """Ray keeps columns that it cannot convert as pickles."""
        import shardfeed.ray
        for name, value in [("big", 2 ** 63), ("any", object())]:
            with pytest.raises(Exception, match=f"column '{name}' holds Python objects"):
                shardfeed.ray.write(ray.data.from_items([{name: value}]), tmp_path / "new@1")
        assert nothing_is_left(tmp_path / "new@1")
        for wrong in (None, [1]):
            with pytest.raises(TypeError, match="write: expected a ray.data.Dataset"):
                shardfeed.ray.write(wrong, tmp_path / "new@1")

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


def test_example():
    pytest.importorskip("ray")
    said = example("ray_train.py")
    assert said == "2048 records in 4 shards\nrank 0: 20480 rows, error 0.0000\nrank 1: 20480 rows, error 0.0000\n"
