"""Runs of `shardfeed view` that fail, and files that `shardfeed report` must not replace."""

import os
import shutil
import threading
import time

import harness
import pytest
from harness import DONE, IO_FAILED, USAGE
from package_data import sf
from viewer_test import answer_of, shardfeed

from shardfeed.viewer import dataset as viewed
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import Server


def test_a_run_that_has_failed_is_not_repeated_by_asking(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    harness.flip(tmp_path / "t-00000-of-00001", 20)
    shutil.rmtree(tmp_path / ".shardfeed")
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for path, begin in (("api/overview", {}), ("api/statistics", {"start": 1})):
            answer_of(server, path, d=0, **begin)
            while (state := answer_of(server, path, d=0))["state"] == "running":
                time.sleep(0.01)
            assert state["state"] == "failed" and "payload CRC" in state["error"]
            assert answer_of(server, path, d=0) == state
        assert answer_of(server, "api/statistics", d=0, start=1)["state"] == "running"  # another click
    finally:
        server.shutdown()
        server.server_close()
        dataset.close()


def test_a_report_takes_the_place_of_files_alone(tmp_path):
    table = tmp_path / "t@1"
    with sf.write(table) as writer:
        writer.write({"x": 1})
    os.mkfifo(tmp_path / "pipe")
    for path, why, status in [(tmp_path / "pipe", "is no regular file", IO_FAILED), (tmp_path, "is no regular file", IO_FAILED),
                              ("-", "expected the name of the file to write", USAGE)]:
        done = shardfeed("report", table, path, "--overwrite", cwd=tmp_path)
        assert done.status == status and why in done.err, done
    assert not (tmp_path / "-").exists()
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    assert shardfeed("report", table, tmp_path / "link.html", "--overwrite").status == DONE
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "real.html").stat().st_size > 1000


@pytest.mark.parametrize("described", [True, False])
def test_a_dataset_that_is_replaced_is_not_mixed_with_the_old_one(described, tmp_path):
    def write(value):
        with sf.write(str(tmp_path / "t@3"), overwrite=True) as writer:
            for _ in range(6):
                writer.write({"x": value})
        if not described:
            shutil.rmtree(tmp_path / ".shardfeed")
    write(1)
    dataset = ViewedDataset(str(tmp_path / "t@3"))
    try:
        assert [one["features"][0]["values"] for one in dataset.records([0, 5])] == [[1], [1]]
        write(2)  # of equal size
        for shown in (0, 1, 2, 3):  # shards that were read before, and one that was not
            try:
                told = dataset.records([shown, shown + 1])[0]["error"]
            except Missing as error:
                told = str(error)
            assert "replaced" in told or not described and "cannot open" in told
    finally:
        dataset.close()


def test_large_records_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(40):
            writer.write({"x": bytes(1000 * (i % 7)), "i": i})
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    monkeypatch.setattr(viewed, "_BYTES_AT_ONCE", 8000)
    at_once = []
    rows = dataset.rows
    monkeypatch.setattr(dataset, "rows", lambda numbers: at_once.append(len(numbers)) or rows(numbers))
    try:
        numbers = list(range(39, -1, -1))
        assert [one["record"] for one in dataset.records(numbers)] == numbers
        assert sum(at_once) == 40 and at_once[0] == 1 and max(at_once[1:]) <= 9
        assert dataset.records([]) == []
    finally:
        dataset.close()


def test_a_feature_without_a_name_is_not_the_record(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"": b"value", "x": 1})
        writer.write({"x": 1})
    with sf.write(str(tmp_path / "raw@1")) as writer:
        writer.write(b"\xff whole")
    dataset, raw = ViewedDataset(str(tmp_path / "t@1")), ViewedDataset(str(tmp_path / "raw@1"))
    assert dataset.value(0, "", 0) == b"value"
    with pytest.raises(Missing, match="there is no feature ''"):
        dataset.value(1, "", 0)
    assert raw.value(0, "", 0) == b"\xff whole"
    with pytest.raises(Missing, match="the record is not an Example"):
        raw.value(0, "x", 0)
    dataset.close()
    raw.close()
