"""Searches of `shardfeed view`: datasets that change under them, records that cannot be read or are no Examples."""

import json
import os
import shutil
import threading
import time

import harness
import numpy as np
import pytest
from package_data import sf
from viewer_faults_test import INT64, example
from viewer_test import ask, wait_for

from shardfeed.viewer import dataset as viewed
from shardfeed.viewer import search
from shardfeed.viewer.dataset import Missing, ViewedDataset
from shardfeed.viewer.server import Server


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Searches end with what they have found after a second, which a busy machine may need for less."""
    monkeypatch.setattr(search, "_SECONDS", 60.0)


@pytest.fixture
def view():
    """Opens datasets for the time of the test."""
    opened = []

    def opening(spec):
        opened.append(ViewedDataset(str(spec)))
        return opened[-1]
    yield opening
    for dataset in opened:
        dataset.close()


def write(spec, value, shards=3):
    with sf.write(str(spec), overwrite=True) as writer:
        for i in range(6 * shards):
            writer.write({"x": value, "i": i})


def swap(folder):
    """Another file of equal size takes the place of a shard in the middle."""
    write(folder / "other/t@3", 2)
    os.replace(folder / "other/t-00001-of-00003", folder / "t-00001-of-00003")


def cut(folder):
    os.truncate(folder / "t-00001-of-00003", 10)


def replace(folder):
    write(folder / "t@3", 2)


@pytest.mark.parametrize("change", [replace, cut, swap])
@pytest.mark.parametrize("feature, compare, text", [("x", "=", "1"), ("x", "=", "2"), (None, "contains", "zzz")])
def test_a_search_tells_that_the_dataset_was_replaced(view, tmp_path, change, feature, compare, text):
    write(tmp_path / "t@3", 1)
    dataset = view(tmp_path / "t@3")
    dataset.overview.result()
    change(tmp_path)
    with pytest.raises(Missing, match="replaced or changed after the dataset was opened; run the command again"):
        dataset.find(feature, compare, text, 0)


def test_a_change_during_a_search_is_told(view, tmp_path, monkeypatch):
    write(tmp_path / "t@3", 1)
    dataset = view(tmp_path / "t@3")
    dataset.overview.result()
    check = dataset.check_unchanged
    monkeypatch.setattr(dataset, "check_unchanged", lambda: (check(), swap(tmp_path)))
    with pytest.raises(Missing, match="t-00001-of-00003: was replaced"):
        dataset.find("x", "=", "1", 0)


def test_a_shard_that_is_shorter_than_its_index_says_costs_its_own_records(view, tmp_path, monkeypatch):
    write(tmp_path / "t@3", 1)
    dataset = view(tmp_path / "t@3")
    dataset.overview.result()
    cut(tmp_path)
    monkeypatch.setattr(dataset, "_check_files", lambda: None)
    found = dataset.find("x", "=", "1", 0)
    assert len(found["records"]) == 12 and found["unread"] == 6 and "t-00001-of-00003" in found["error"]


def test_a_replaced_dataset_in_a_store_is_told(view, tmp_path, bucket, monkeypatch):
    for name, value in {"AWS_ENDPOINT_URL": bucket, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                        "AWS_REGION": "here"}.items():
        monkeypatch.setenv(name, value)
    write(tmp_path / "t@3", 1)
    dataset = view(f"s3://files{tmp_path}/t@3")
    assert dataset.find("x", "=", "1", 0)["records"] == list(range(18))
    write(tmp_path / "t@3", 2)
    for asks in (lambda: dataset.find("x", "=", "1", 0), lambda: dataset.find(None, "contains", "x", 0),
                 lambda: dataset.batch({"batch": "2"}), dataset.check_unchanged):
        with pytest.raises(Missing, match="the object was replaced since the dataset was opened; open it again"):
            asks()


def test_runs_of_the_program_tell_that_the_dataset_was_replaced(view, tmp_path):
    write(tmp_path / "t@3", 1)
    dataset = view(tmp_path / "t@3")
    replace(tmp_path)
    with pytest.raises(Missing, match="was replaced or changed after the dataset was opened"):
        dataset.batch({"batch": "2"})
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for path in ("overview", "statistics", "verify", "diff"):
            while True:
                answer, body = ask(server, f"api/{path}", a=0, b=0, start=1)
                if json.loads(body).get("state") != "running":
                    break
            assert answer.status == 404 and "was replaced or changed after" in json.loads(body)["error"], path
    finally:
        server.shutdown()
        server.server_close()


def test_records_that_cannot_be_read_are_counted(view, tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(300):
            writer.write({"i": i, "t": "x" * 50})
    places = view(tmp_path / "t@1")
    for number in (7, 8, 250):
        harness.flip(tmp_path / "t-00000-of-00001", places._records.place(number)[2] + 40)
    dataset = view(tmp_path / "t@1")
    for feature, compare, text, wanted in [("i", ">=", "7", [9, 10]), (None, "contains", "xxx", [0, 1]),
                                           ("nix", "missing", "", [0, 1])]:
        if feature == "nix":
            dataset._schema_of = lambda name: {"kind": "bytes"}
        found = dataset.find(feature, compare, text, 0, most=1000)
        assert found["records"][:2] == wanted and not {7, 8, 250} & set(found["records"])
        assert found["unread"] == 3 and "record 7" in found["error"] and found["next"] is None


def test_other_records_among_examples_are_searched_without_a_run_for_each(view, tmp_path, monkeypatch):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(10_000):
            writer.write({"x": i, "t": f"row {i}"} if i % 2 else b"no Example %d" % i)
    dataset = view(tmp_path / "t@1")
    runs = []
    made = search.Dataset
    monkeypatch.setattr(search, "Dataset", lambda *arguments: runs.append(arguments) or made(*arguments))
    assert dataset.find("x", ">=", "9,996", 0) == {"records": [9997, 9999], "next": None}
    assert len(runs) <= 3  # one for each block of 4,096 records
    assert dataset.find("t", "contains", "row 99", 0, most=1000)["records"] == [99, *range(991, 1000, 2), *range(9901, 10_000, 2)]
    assert dataset.find("x", "missing", "", 0) == {"records": [], "next": None}
    assert dataset.find(None, "contains", "Example 998", 0)["records"] == [998, *range(9980, 9990, 2)]


@pytest.mark.parametrize("text, wanted", [("1000", [1000]), ("1,000", [1000]), (" +1,000.0 ", [1000]), ("1e3", [1000])])
def test_numbers_are_searched_as_they_are_printed(view, tmp_path, text, wanted):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write_batch({"x": np.arange(1100)})
    assert view(tmp_path / "t@1").find("x", "=", text, 0)["records"] == wanted


@pytest.mark.parametrize("text", ["1_000", "١٠", "10,00", "1,0000", ",100", "1,", "0x10", "", "1 000", "sNaN"])
def test_other_numbers_are_refused(view, tmp_path, text):
    write(tmp_path / "t@1", 10, 1)
    with pytest.raises(Missing, match="is not a number, but 'x' has numbers"):
        view(tmp_path / "t@1").find("x", "=", text, 0)


def test_nan_is_found(view, tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for value in (1, float("nan"), 2):
            writer.write({"x": np.float32(value)})
    dataset = view(tmp_path / "t@1")
    assert dataset.find("x", "=", "NaN", 0)["records"] == [1]
    assert dataset.find("x", "!=", "nan", 0)["records"] == [0, 2]
    assert dataset.find("x", "<", "nan", 0)["records"] == []


def test_a_feature_without_a_name_is_searched(view, tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(3):
            writer.write({"": i, "x": b"seven"})
    dataset = view(tmp_path / "t@1")
    assert dataset.find("", "=", "1", 0)["records"] == [1]
    assert dataset.find(None, "contains", "seven", 0)["records"] == [0, 1, 2]


def test_names_that_are_no_utf8_are_those_of_the_schema(view, tmp_path):
    names = [b"\xff", b"a\xe2\x82", b"\xff\xfez", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    records = [example({name: INT64 + bytes([i])}) for i, name in enumerate(names)]
    (tmp_path / "t-00000-of-00001").write_bytes(b"".join(map(harness.frame, records)))
    dataset = view(tmp_path / "t@1")
    shown = [record["features"][0]["name"] for record in dataset.records(range(len(names)))]
    assert set(shown) == set(dataset.overview.result()["features"])
    for i, name in enumerate(shown):
        assert dataset.find(name, "=", str(i), 0)["records"] == [i]


def test_damage_costs_few_more_reads_of_others(view, tmp_path, monkeypatch):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for i in range(200):
            writer.write({"t": "x" * 50})
    harness.flip(tmp_path / "t-00000-of-00001", view(tmp_path / "t@1")._records.place(77)[2] + 40)
    shutil.rmtree(tmp_path / ".shardfeed")
    dataset = view(tmp_path / "t@1")
    reads = []
    read = dataset._read
    monkeypatch.setattr(dataset, "_read", lambda numbers: reads.append(len(numbers)) or read(numbers))
    rows = dataset.rows(range(200))
    assert [row.number for row in rows] == list(range(200)) and [row.number for row in rows if row.error] == [77]
    assert len(reads) < 20


@pytest.mark.parametrize("compare, text, wanted", [
    (">", "9007199254740992.5", [1, 2, 4]), (">=", "9007199254740992.5", [1, 2, 4]), ("<", "9007199254740992.5", [0, 3]),
    ("<=", "9007199254740992.5", [0, 3]), ("=", "9007199254740992.5", []), ("!=", "9007199254740992.5", [0, 1, 2, 3, 4]),
    ("=", "9007199254740993.0", [1]), ("=", "9223372036854775807", [4]), (">=", "9223372036854775808", []),
    ("<=", "9223372036854775807.5", [0, 1, 2, 3, 4]), ("<", "-9223372036854775808", []),
    ("<=", "-9.223372036854775808e18", [3]), ("<", "1e300", [0, 1, 2, 3, 4]), (">", "-inf", [0, 1, 2, 3, 4]),
    ("=", "nan", []), ("<", "nan", []), (">", "1e-999999999", [0, 1, 2, 4])])
@pytest.mark.parametrize("damaged", [False, True])
def test_integers_are_compared_exactly(view, tmp_path, compare, text, wanted, damaged):
    with sf.write(str(tmp_path / "t@1")) as writer:
        for value in (2**53, 2**53 + 1, 2**53 + 2, -2**63, 2**63 - 1):
            writer.write({"x": value})
        if damaged:  # so that each record is searched by itself
            writer.write(b"no Example")
    assert view(tmp_path / "t@1").find("x", compare, text, 0)["records"] == wanted


def test_a_number_with_too_long_an_exponent_is_refused(view, tmp_path):
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write({"x": 1, "y": 1.5})
    for feature in ("x", "y"):
        with pytest.raises(Missing, match="'1e99999999999999999999': the exponent has too many digits"):
            view(tmp_path / "t@1").find(feature, "=", "1e99999999999999999999", 0)


@pytest.fixture
def unread(view, tmp_path, monkeypatch):
    """A dataset that is too large to be read unasked, without a manifest; a server; the last record has a feature more."""
    monkeypatch.setattr(viewed, "_READ_UNASKED", 1 << 20)
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write_batch({"x": np.arange(70_000), "zeros": np.zeros((70_000, 250), np.float32)})
        writer.write({"x": 70_000, "late": 1})
    shutil.rmtree(tmp_path / ".shardfeed")
    dataset = view(tmp_path / "t@1")
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield dataset, server
    server.shutdown()
    server.server_close()


def answer_of(server, path, **query):
    answer, body = ask(server, path, d=0, **query)
    assert answer.status == 200, body
    return json.loads(body)


def test_a_large_dataset_without_a_manifest_is_read_on_request_alone(unread):
    dataset, server = unread
    found = wait_for(server, "api/overview", start=1)
    assert found["state"] == "done" and 0 < found["result"].pop("sampled") < 70_001
    assert found["result"] == {"records": 70_001, "shards": 1, "bytes": sum(s[2] for s in dataset._records.shards()),
                               "features": {"x": {"kind": "int64"}, "zeros": {"kind": "float"}}}
    assert answer_of(server, "api/find", feature="x", compare="=", text="69999")["records"] == [69_999]
    answer, body = ask(server, "api/find", feature="late", compare="=", text="1")
    assert answer.status == 404 and json.loads(body)["error"] == (
        "no record that was looked at has a feature 'late'; compute the statistics, which reads all records")
    assert dataset.overview.state()["state"] == "idle"
    dataset.statistics.start()
    all_read = dataset.statistics.result()
    assert sorted(all_read["features"]) == ["late", "x", "zeros"]
    assert answer_of(server, "api/overview", start=1)["result"] == all_read
    assert answer_of(server, "api/find", feature="late", compare="=", text="1")["records"] == [70_000]
    assert dataset.overview.state()["state"] == "idle"
    with pytest.raises(Missing, match="there is no feature 'never'"):
        dataset.find("never", "=", "1", 0)


def test_features_that_cannot_be_known_at_once_are_told(view, tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "_READ_UNASKED", 0)
    with sf.write(str(tmp_path / "t@1")) as writer:
        writer.write(b"no Example")
    shutil.rmtree(tmp_path / ".shardfeed")
    dataset = view(tmp_path / "t@1")
    found = dataset.unread()
    assert (found["sampled"], found["features"], found["records"]) == (0, {}, 1)
    note, = found["notes"]
    assert "t-00000-of-00001" in note and "Example" in note
    assert dataset.find(None, "contains", "Example", 0)["records"] == [0]


def test_what_is_known_at_once_is_told_while_the_schema_is_read(view, tmp_path):
    write(tmp_path / "t@3", 1)
    dataset = view(tmp_path / "t@3")
    server = Server([dataset])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        dataset.overview._state = {"state": "running", "since": 0.0}
        dataset.outline.result()
        outline = answer_of(server, "api/overview")["outline"]
        assert (outline["records"], outline["shards"], "sampled" in outline) == (18, 3, False)
        of_all = {"kind": "int64", "records": 18, "min_values": 1, "max_values": 1}
        assert outline["features"] == {"i": of_all, "x": of_all}
        replace(tmp_path)  # what is known at once may be of either
        answer, body = ask(server, "api/overview", d=0)
        assert answer.status == 404 and "was replaced or changed" in json.loads(body)["error"]
    finally:
        server.shutdown()
        server.server_close()


def test_a_store_that_is_slow_keeps_no_page_waiting_and_is_asked_once(unread, monkeypatch):
    dataset, server = unread
    found, asked, goes_on = viewed._core.find_features, [], threading.Event()

    def slow(specs):
        asked.append(specs)
        goes_on.wait(60)
        return found(specs)
    monkeypatch.setattr(viewed._core, "find_features", slow)
    try:
        for _ in range(6):  # a page that is loaded again and again
            state = answer_of(server, "api/overview", start=1)
            assert state["state"] == "running" and state["seconds"] >= 0 and "outline" not in state
    finally:
        goes_on.set()
    assert wait_for(server, "api/overview")["result"]["sampled"] > 0
    assert len(asked) == 1 and dataset.overview.state()["state"] == "idle"


@pytest.mark.parametrize("error", [OSError("the store does not answer"), viewed.DataLossError("damaged")])
def test_an_outline_that_failed_is_tried_again(unread, monkeypatch, error):
    dataset, server = unread
    found = viewed._core.find_features

    def failing(specs):
        raise error
    monkeypatch.setattr(viewed._core, "find_features", failing)
    told = wait_for(server, "api/overview", start=1)  # by the run of the program
    assert told["state"] == "done" and "late" in told["result"]["features"]
    assert dataset.outline.state()["error"] == str(error)
    monkeypatch.setattr(viewed._core, "find_features", found)
    answer_of(server, "api/overview")  # the same page
    assert dataset.outline.state()["state"] == "failed"
    answer_of(server, "api/overview", start=1)
    assert dataset.outline.result()["sampled"] > 0
    assert sorted(answer_of(server, "api/overview")["result"]["features"]) == ["x", "zeros"]


def test_names_that_are_not_utf_8_are_shown(view, tmp_path, monkeypatch):
    monkeypatch.setattr(viewed, "_READ_UNASKED", 0)
    records = [example({b"a\xff": INT64 + bytes([i]), b"none": b""}) for i in range(3)]
    (tmp_path / "t-00000-of-00001").write_bytes(b"".join(map(harness.frame, records)))
    dataset = view(tmp_path / "t@1")
    while (state := dataset.overview_state(again=False))["state"] == "running":
        time.sleep(0.01)
    found = state["result"]
    assert found["features"] == {"a\ufffd": {"kind": "int64"}, "none": {"kind": "none"}}
    assert found["sampled"] == 3 and "notes" not in found
    assert dataset.find("a\ufffd", "=", "2", 0)["records"] == [2]
    with pytest.raises(Missing, match="'none' has no value in any record that was looked at"):
        dataset.find("none", "present", "", 0)
