"""Runs of `shardfeed view` that fail, and files that `shardfeed report` must not replace."""

import os
import shutil
import threading
import time

import harness
from harness import DONE, IO_FAILED, USAGE
from package_data import sf
from viewer_test import answer_of, shardfeed

from shardfeed.viewer.dataset import ViewedDataset
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
