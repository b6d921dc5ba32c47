"""Datasets read and written by Beam's direct runner."""

import pickle
import re
import uuid

import numpy as np
import pytest
from cluster_data import ROWS, damaged, dataset, example, in_order, left_behind, records, row, sf


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

    def test_damaged_records_are_left_out(self, run, tmp_path):
        import shardfeed.beam
        spec = damaged(tmp_path)
        whole = [n for n in range(20) if n != 7]
        rows = run(lambda p: p | shardfeed.beam.Read(spec, skip_damaged=True))
        assert sorted(r["n"] for r in rows) == whole
        for options in ({}, {"n": 3}):
            kept = run(lambda p: p | shardfeed.beam.Read(spec, record=True, skip_damaged=True, **options))
            assert len(kept) == 19 and all(kept)
        run(lambda p: p | shardfeed.beam.Read(spec, record=True, skip_damaged=True)
            | shardfeed.beam.Write(tmp_path / "new@2"))
        assert sorted(in_order(tmp_path / "new@2")) == whole
        with pytest.raises(Exception, match="record 7 at byte"):
            run(lambda p: p | shardfeed.beam.Read(spec, record=True))

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
        one = shardfeed.beam.Write(tmp_path / "one@5", features={"x": sf.var(sf.float32), "y": sf.var(), "z": sf.int8})
        report, = run(lambda p: p | beam.Create([{"x": [], "y": None, "z": np.int8(3)}]) | one)
        assert report["shards"] == 5 and report["records"] == 1
        row, = sf.read(tmp_path / "one@5").parse()
        assert len(row["x"]) == len(row["y"]) == 0 and row["z"] == 3
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

    def test_lost_digits_are_noted(self, run, beam, tmp_path):
        import json

        import shardfeed.beam
        with shardfeed.beam.Write(tmp_path / "new@2") as write:
            run(lambda p: p | beam.Create([{"x": 16777217.0}, {"x": 0.5}]) | write)
        [note] = json.loads((tmp_path / ".shardfeed/new.manifest.json").read_text())["notes"]
        assert note.startswith("feature 'x': 1 value loses digits as floats of 32 bits; the first: record ")

    def test_arguments(self, beam, dataset, tmp_path):
        import shardfeed.beam
        with pytest.raises(TypeError, match="unexpected option 'zz'"):
            shardfeed.beam.Read(dataset, zz=1)
        with pytest.raises(ValueError, match="columns: name at least one column"):
            shardfeed.beam.Read(dataset, [])
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
        assert re.search(r"\d+ records in 4 shards", example("beam_words.py"))
