"""Runs of `shardfeed view` that fail, and files that `shardfeed report` must not replace."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import harness
import numpy as np
import pytest
from harness import DONE, IO_FAILED, USAGE
from package_data import sf
from viewer_test import ENVIRONMENT, answer_of, ask, begin_view, shardfeed

from shardfeed.viewer import dataset as viewed
from shardfeed.viewer import examples, program, report, values
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import Server


def test_a_run_that_has_failed_is_not_repeated_by_asking(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    harness.flip(tmp_path / "t-00000-of-00001", 20)
    shutil.rmtree(tmp_path / ".shardfeed")
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for path, begin in (("api/overview", {}), ("api/statistics", {"start": 1})):
            answer_of(server, path, d=0, **begin)
            while (state := answer_of(server, path, d=0))["state"] == "running":
                time.sleep(0.01)
            assert state["state"] == "failed" and "payload CRC" in state["error"]
            assert answer_of(server, path, d=0) == state
        for path in ("api/statistics", "api/overview"):  # another click, and a page that is loaded again
            assert answer_of(server, path, d=0, start=1)["state"] == "running"
    finally:
        server.shutdown()
        server.server_close()
        dataset.close()


def test_a_report_takes_the_place_of_files_alone(tmp_path):
    table = tmp_path / "t@1"
    with sf.write(table) as writer:
        writer.write({"x": 1})
    os.mkfifo(tmp_path / "pipe")
    for path, why in [(tmp_path / "pipe", "is no regular file, so no report takes its place; name another file"),
                      (tmp_path, "is no regular file"), ("/dev/null", "is no regular file"),
                      ("-", "expected the name of the file to write")]:
        for options in ([], ["--overwrite"]):
            done = shardfeed("report", table, path, *options, cwd=tmp_path)
            assert done.status == USAGE and why in done.err, done
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


def swap(path):
    path.write_bytes(path.read_bytes())


def cut(path):
    os.truncate(path, 10)


def remove(path):
    path.rename(f"{path}.bak")


@pytest.mark.parametrize("change, what", [(cut, "replaced or changed"), (swap, "replaced or changed"), (remove, "removed")])
@pytest.mark.parametrize("shard", [0, 1])
def test_every_answer_tells_that_a_shard_is_another(tmp_path, change, what, shard):
    with sf.write(str(tmp_path / "t@3"), compression="gzip") as writer:
        for i in range(9):
            writer.write({"x": i, "t": "a", "png": b"\x89PNG\r\n\x1a\n"})
    dataset = ViewedDataset(str(tmp_path / "t@3"))
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert len(answer_of(server, "api/records", d=0, first=0, count=1)) == 1
        for task in (dataset.overview, dataset.statistics, dataset.verify):
            task.result()
        change(tmp_path / f"t-0000{shard}-of-00003")
        for path, query in [("api/records", {"first": 0, "count": 1}), ("api/records", {"numbers": "8"}),
                            ("api/record", {"n": 0}), ("api/find", {"compare": "contains", "text": "a"}),
                            ("api/batch", {"batch": 2}), ("api/overview", {}), ("api/statistics", {}), ("api/verify", {}),
                            ("value", {"n": 0, "f": "t"}), ("image", {"n": 0, "f": "png"})]:
            answer, body = ask(server, path, **{"d": 0, **query})
            error = json.loads(body)["error"]
            assert answer.status == 404
            assert f"t-0000{shard}-of-00003: was {what} after the dataset was opened" in error, path
    finally:
        server.shutdown()
        server.server_close()


def test_a_damaged_dataset_keeps_no_others_from_being_shown(tmp_path):
    for name in ("t", "u"):
        with sf.write(str(tmp_path / f"{name}@1")) as writer:
            writer.write({"x": 1})
            writer.write({"x": 2})
    harness.flip(tmp_path / "t-00000-of-00001", 2)  # a length
    shutil.rmtree(tmp_path / ".shardfeed")
    process, line = begin_view(str(tmp_path / "t@1"), str(tmp_path / "u@1"))
    try:
        url = line.split()[0]

        def get(path):
            with urllib.request.urlopen(url + path, timeout=60) as answer:
                return json.load(answer)
        damaged, sound = get("api/datasets")
        assert damaged["records"] == 0 and "t-00000-of-00001" in damaged["error"] and "length CRC" in damaged["error"]
        assert sound == {"spec": str(tmp_path / "u@1"), "records": 2}
        assert len(get("api/records?d=1&first=0&count=5")) == 2
        for path in ("api/records?d=0", "api/record?d=0&n=0", "api/find?d=0&compare=contains&text=x",
                     "image?d=0&n=0&f=x"):
            with pytest.raises(urllib.error.HTTPError) as error:
                get(path)
            assert json.load(error.value)["error"] == damaged["error"]
        get("api/verify?d=0&start=1")
        while (found := get("api/verify?d=0"))["state"] == "running":
            time.sleep(0.01)
        assert found["result"]["num_defects"] == 1
    finally:
        process.terminate()
        assert process.wait(60) == DONE
    assert process.stderr.read() == f"shardfeed: {damaged['error']}\n"


# ---- Reports


def test_a_report_on_a_full_disk_is_told(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # with SIGXFSZ ignored, as Python does, a write fails
    done = subprocess.run([sys.executable, "-m", "shardfeed", "report", tmp_path / "t@1", tmp_path / "r.html"], text=True,
                          env=ENVIRONMENT, preexec_fn=limit, capture_output=True)
    assert (done.returncode, done.stderr) == (IO_FAILED, f"shardfeed: {tmp_path}/r.html: cannot write: File too large\n")
    assert not [path for path in tmp_path.iterdir() if "report" in path.name or path.suffix == ".html"]


def test_a_report_that_is_interrupted_after_it_was_written_is_there(tmp_path, monkeypatch):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    replace = os.replace

    def interrupted(*names):
        replace(*names)
        raise KeyboardInterrupt
    monkeypatch.setattr(report.os, "replace", interrupted)
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    with pytest.raises(KeyboardInterrupt):
        report.write_report(dataset, str(tmp_path / "r.html"), 1)
    dataset.close()
    assert (tmp_path / "r.html").stat().st_size > 1000


def test_a_report_of_a_dataset_that_is_replaced_meanwhile_is_none(tmp_path, monkeypatch, capsys):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1})
    opened = program._open

    def then_replaced(*arguments):
        dataset = opened(*arguments)
        swap(tmp_path / "t-00000-of-00001")
        os.utime(tmp_path / "t-00000-of-00001", ns=(1, 1))
        return dataset
    monkeypatch.setattr(program, "_open", then_replaced)
    assert program.main("report", [], [str(tmp_path / "t@1"), str(tmp_path / "r.html")]) == IO_FAILED
    assert "was replaced or changed after the dataset was opened; run the command again\n" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


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


def example(entries, number=1):
    """A record of features, {name: bytes of a Feature}, or of feature lists."""
    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content
    return field(number, b"".join(field(1, field(1, name) + field(2, value)) for name, value in entries.items()))


INT64 = b"\x1a\x03\x0a\x01"  # followed by its value


def test_everything_in_a_record_is_shown():
    found = examples.features_of(example({b"x": INT64 + b"\x05"}) + example({
        b"x": b"\x0a\x05" + INT64 + b"\x01" + b"\x0a\x00" + b"\x0a\x05\x0a\x03\x0a\x01a" + b"\x0a\x05" + INT64 + b"\x02"}, 2))
    assert [(one.name, one.kind, one.steps, list(one.values)) for one in found] == [
        ("x", "int64", None, [5]), ("x", "bytes", [0, 0, 1, 0], [b"a"]), ("x", "int64", [1, 0, 0, 1], [1, 2])]
    assert [one.name for one in examples.features_of(example({b"\xff": INT64 + b"\x05"}))] == ["\ufffd"]
    assert examples.features_of(b"\x0a\x00") == []
    with pytest.raises(examples.NotAnExample):
        examples.features_of(b"\x08\x01")


def test_searches_agree_with_what_is_stored(tmp_path):
    floats = [example({b"f": b"\x12\x06\x0a\x04" + np.float32(value).tobytes()}) for value in (0.1, 0.2)]
    records = [*floats, example({b"f": INT64 + b"\x05"}), example({b"g": INT64 + b"\x05"})]
    (tmp_path / "t-00000-of-00001").write_bytes(b"".join(map(harness.frame, records)))
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    try:
        for compare, wanted in [("=", [0]), ("<=", [0]), (">=", [0, 1]), ("<", []), (">", [1]), ("!=", [1])]:
            assert dataset.find("f", compare, "0.1", 0)["records"] == wanted, compare
        assert dataset.find("f", "present", "", 0)["records"] == [0, 1, 2]
        assert dataset.find("f", "missing", "", 0)["records"] == [3]
        with pytest.raises(Missing, match="'sNaN' is not a number"):
            dataset.find("f", "=", "sNaN", 0)
    finally:
        dataset.close()


def test_a_damaged_record_does_not_keep_others_from_being_found(tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(30):
            writer.write({"i": i, "t": "x" * 50})
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    number = 7
    _, _, offset = dataset._records.place(number)
    dataset.close()
    harness.flip(tmp_path / "t-00000-of-00001", offset + 40)
    shutil.rmtree(tmp_path / ".shardfeed")
    dataset = ViewedDataset(str(tmp_path / "t@1"))
    try:
        assert dataset.find("i", ">=", "0", 0)["records"] == [n for n in range(30) if n != number]
        with pytest.raises(Missing, match="the features are not known: .*payload CRC"):
            dataset.find("other", "present", "", 0)
    finally:
        dataset.close()


@pytest.mark.parametrize("header", [b"{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }", b"{'x': [}", b"9" * 5000,
                                    b"{'descr': '<f9999999999999999999', 'fortran_order': False, 'shape': (1,), }"])
def test_arrays_with_a_broken_header_are_shown_as_such(tmp_path, header):
    value = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header
    assert values.bytes_shown(value)["text"] == "an array that cannot be read"
