"""Datasets read and written by Dask, on a local cluster."""

import os
import signal
import threading
import time

import pytest
from cluster_data import (LATE_ROWS, ROWS, SHARDS, DiesOnce, dataset, example, in_order, left_behind, nothing_is_left, row,
                          sampled, sf)


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

    def test_features_that_were_not_found_are_told(self, client, tmp_path):
        import shardfeed.dask
        frame = shardfeed.dask.read(sampled(tmp_path))
        assert list(frame.columns) == ["big", "n"]
        assert frame["n"].sum().compute() == sum(range(LATE_ROWS))
        with pytest.raises(ValueError, match=r"sampled-00001-of-00002: record 359 at byte \d+: feature 'late' is not known"):
            frame.compute()

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

    def test_records_are_written_as_they_are(self, client, dataset, tmp_path):
        import shardfeed.dask
        raw = shardfeed.dask.read(dataset, record=True)
        shardfeed.dask.write(raw, tmp_path / "new", record=True)
        assert list(sf.read(tmp_path / "new@4")) == list(sf.read(dataset))
        frame = shardfeed.dask.read(dataset, ["n"])
        for wrong, why in [
                (frame, "record=True writes the one column 'record', and the columns are: n"),
                (frame.rename(columns={"n": "record"}), "writes the column 'record' of type binary, and it has another")]:
            with pytest.raises(ValueError, match=why):
                shardfeed.dask.write(wrong, tmp_path / "few", record=True)
        assert not list(tmp_path.rglob("few*"))

    def test_arguments_of_writing(self, client, dataset, tmp_path):
        import shardfeed.dask
        frame = shardfeed.dask.read(dataset)
        assert shardfeed.dask.write(frame, tmp_path / "new", shards=4)["shards"] == 4
        with pytest.raises(ValueError, match="the frame has 4 partitions; repartition it: "):
            shardfeed.dask.write(frame, tmp_path / "few", shards=3)
        with pytest.raises(ValueError, match="few@4 names a number of shards already; leave shards out"):
            shardfeed.dask.write(frame, tmp_path / "few@4", shards=4)
        for wrong in (frame["n"], frame.index, frame["n"].values, 5):
            with pytest.raises(TypeError, match="write: expected a dataframe of Dask, not "):
                shardfeed.dask.write(wrong, tmp_path / "few")
        assert not list(tmp_path.rglob("few*"))

    def test_python_objects_stay_what_they_are_without_dask_s_strings(self, tmp_path):
        """The remedy of the docstring; with Dask's default, the values are text before they come here."""
        dask = pytest.importorskip("dask")
        import dask.dataframe as dd
        import numpy as np
        import pandas as pd
        import shardfeed.dask
        rows = pd.DataFrame({"b": [b"\xff\0", b"x"], "l": [[1.5, 2.0], [3.0]], "a": [np.arange(3), np.arange(2)]})
        with dask.config.set({"dataframe.convert-string": False}):
            shardfeed.dask.write(dd.from_pandas(rows, npartitions=1), tmp_path / "new")
            records = dd.from_pandas(rows[["b"]].rename(columns={"b": "record"}), npartitions=1)
            shardfeed.dask.write(records, tmp_path / "raw", record=True)
        assert [(r["b"], r["l"].tolist(), r["a"].tolist()) for r in sf.read(tmp_path / "new@1").parse()] == [
            (b"\xff\0", [1.5, 2.0], [0, 1, 2]), (b"x", [3.0], [0, 1])]
        assert list(sf.read(tmp_path / "raw@1")) == [b"\xff\0", b"x"]

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

    def test_an_interrupted_write_begins_no_more_tasks_and_leaves_nothing(self, client, dataset, tmp_path):
        """Dask lets what runs go on to its end, and drops what waits; what runs on cannot write any more."""
        import shardfeed.dask
        log = tmp_path / "log"

        def slow(part):
            with open(log, "a") as file:
                file.write(".")
            time.sleep(0.5)
            return part

        def begun():
            return log.stat().st_size if log.exists() else 0

        def interrupt():
            while begun() == 0:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        frame = shardfeed.dask.read(dataset, n=20)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            shardfeed.dask.write(frame.map_partitions(slow, meta=frame._meta), tmp_path / "d/new@20")
        thread.join()
        time.sleep(6)  # all 20 would have taken 5
        assert begun() < 20  # a few more may begin before the workers know
        assert not (tmp_path / "d").exists()
        assert shardfeed.dask.write(frame, tmp_path / "d/new@20")["records"] == ROWS

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

    def test_example(self, client):
        said = example("dask_sensors.py")
        assert "8000 records in 8 shards\nmean 0.000, deviation 1.000\n" in said and "64 rows of 8 sensors" in said
