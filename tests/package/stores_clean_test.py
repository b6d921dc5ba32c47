"""What `shardfeed clean` removes from stores and folders, and the commit records that it believes."""

import json
import os
import sys
import time

import pytest
from harness import DEFECTS, DONE, REPOSITORY, USAGE, run, succeed
from jobs_test import batch_of_stream
from servers import Object
from stores_writing_test import RECORD, TEXT, files, replacing, s3, surroundings, write  # noqa: F401

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def test_clean_tells_and_heeds_ages(s3, tmp_path):
    write(s3.place / "other@1")
    with_parts = sf.write(s3.place / "d@2")
    for _ in range(40):
        with_parts.write(os.urandom(1 << 20))
    for _ in range(100):
        if len(s3.uploads) == 2:
            break
        time.sleep(0.05)
    begun = dict(s3.uploads)
    assert "2 unfinished uploads or jobs are younger than 24h and were kept" in succeed("clean", s3.place / "d").out.decode()
    for upload in begun.values():
        upload["time"] -= 25 * 3600
    assert succeed("clean", s3.place / "other").out == b"nothing was left behind\n"
    assert succeed("clean", s3.place / "d", "--older-than", "26h", "--json").json == {
        "dry_run": False, "finished": [], "removed": [],
        "kept": [s3.place / f"d-0000{n}-of-00002" for n in range(2)], "expiring": []}
    dry = succeed("clean", f"{s3.place.url}/", "--dry-run").out.decode()
    assert dry.count("d-00000-of-00002: would be removed") == 1 and len(s3.uploads) == 2
    assert len(succeed("clean", f"{s3.place.url}/", "--json").json["removed"]) == 2
    assert s3.uploads == {}
    with pytest.raises(OSError, match="d-0000"):
        with_parts.close()
    assert sorted(s3.place.files()) == [
        ".shardfeed/other-00000-of-00001.index", ".shardfeed/other.indexes",
        ".shardfeed/other.manifest.json", "other-00000-of-00001"]


def test_clean_pages_through_uploads(s3):
    for n in range(20):
        s3.uploads[f"id {n:02}"] = {"key": f"a folder/ä+&/d-000{n:02}-of-00020", "parts": {}, "writer": None,
                                    "time": 0}
    s3.uploads["pack"] = {"key": "a folder/ä+&/.shardfeed/d.indexes", "parts": {}, "writer": None, "time": 0}
    for key in ("a folder/ä+&/.shardfeed/e.indexes", "a folder/ä+&/d.indexes"):
        s3.uploads[key] = {"key": key, "parts": {}, "writer": None, "time": 0}
    for key in ("a folder/ä+&/e-00000-of-00001", "a folder/ä+&/deeper/d-00000-of-00020", "a folder/ä+&/d"):
        s3.uploads[key] = {"key": key, "parts": {}, "writer": None, "time": 0}
    assert len(succeed("clean", s3.place / "d@20", "--json").json["removed"]) == 21
    assert len(s3.uploads) == 5


def test_clean_removes_what_a_stream_has_left(s3):
    """Of a micro-batch that was not committed its job, and of both the uploads of tasks that were killed."""
    def batch_of(number):
        job = batch_of_stream(s3.place / "d@1", number)
        with job.shard(0) as writer:
            writer.write({"n": number})
        return job, writer.message

    committed, message = batch_of(6)
    committed.commit([message], made_by={"query": "q", "batch": "6"})
    there = s3.place.files()
    batch_of(7)
    assert len(s3.place.files()) > len(there)
    for number in (6, 7, 8):  # nothing tells that the last is of a stream
        s3.uploads[f"id {number}"] = {"key": f"a folder/ä+&/d-0000000{number}-00000-of-00001", "parts": {}, "writer": None,
                                      "time": 0}
    assert succeed("clean", s3.place / "d", "--older-than", "0s", "--json").json["kept"] == []
    assert s3.place.files() == there and list(s3.uploads) == ["id 8"]


def test_clean_of_folders(tmp_path):
    out = tmp_path / "out"
    succeed("convert", "jsonl", TEXT, out / "d@2")
    there = files(out)
    assert succeed("clean", out / "d").out == b"nothing was left behind\n"
    (out / ".shardfeed/d.incomplete").mkdir()
    (out / ".shardfeed/d.incomplete/00000.shard").write_bytes(b"x")
    (out / ".shardfeed/e.incomplete").mkdir()
    dry = succeed("clean", f"{out}/", "--dry-run").out.decode()
    assert dry.count("would be removed") == 2 and (out / ".shardfeed/e.incomplete").exists()
    assert succeed("clean", out / "d", "--json").json["removed"] == [f"{out}/.shardfeed/d.incomplete"]
    assert (out / ".shardfeed/e.incomplete").exists()
    succeed("clean", f"{out}/")
    assert files(out) == there and not (out / ".shardfeed/e.incomplete").exists()
    with sf.write(str(out / "f@1")) as writer:
        result = run("clean", out / "f")
        assert result.status == USAGE and "another process is writing this dataset" in result.err
        writer.write({"a": 1})
    assert len(sf.read(str(out / "f@1"))) == 1
    assert "no such" in run("clean", f"{tmp_path}/nowhere/").err.lower()
    for wrong in ("x", "5", "-1h", "1w", "99999999999999999999d"):
        assert f"--older-than {wrong}: expected a time such as" in run("clean", out / "d", "--older-than=" + wrong).err


def test_lying_records(s3, tmp_path):
    """A record that names objects of others, or has the wrong types, changes nothing."""
    command, old, _ = replacing(s3, tmp_path)
    s3.fault = lambda number, method, key, query: \
        "refuse" if RECORD in s3.place.files() and method != "PUT" else None
    run(*command)
    s3.fault = None
    record = json.loads(s3.place.files()[RECORD])

    def lie(**changes):
        text = json.dumps({**record, **changes}, separators=(",", ":"))
        s3.objects[f"a folder/ä+&/{RECORD}"] = Object(text.encode(), '"lie"', None)
        before = s3.place.files()
        result = run("clean", s3.place / "d")
        assert result.status == DEFECTS and "invalid commit record" in result.err, (changes, result.err)
        assert s3.place.files() == before

    for changes in ({"suffix": "/../x"}, {"suffix": 5}, {"old": ["other-00000-of-00001"]},
                    {"old": ["../d-00000-of-00003"]}, {"old": ["d-00000-of-00002"]}, {"old": "d"},
                    {"objects": []}, {"objects": record["objects"][:3]}, {"objects": [1, 2]},
                    {"indexes": 5}, {"indexes": {**record["indexes"], "parts": [1]}},
                    {"objects": [{**record["objects"][0], "bytes": -1}, record["objects"][1]]},
                    {"manifest": None}, {"writer": 1}, {"before": 1}):
        lie(**changes)
    s3.objects[f"a folder/ä+&/{RECORD}"] = Object(json.dumps(record, separators=(",", ":")).encode(), '"x"', None)
    succeed("clean", s3.place / "d")
    assert succeed("verify", s3.place / "d@2").status == DONE


def test_something_else_in_the_place_of_the_record(s3):
    write(s3.place / "d@2")
    s3.objects[f"a folder/ä+&/{RECORD}"] = Object(b"<html>", '"x"', None)
    there = s3.place.files()
    assert len(sf.read(s3.place / "d@2")) == 200
    for command in (["clean", s3.place / "d"], ["convert", "jsonl", TEXT, s3.place / "d@1", "--overwrite"]):
        result = run(*command)
        assert result.status == DEFECTS and f"{RECORD}: not a commit record; remove it" in result.err, result.err
    assert s3.place.files() == there


def test_a_commit_that_came_too_late_is_discarded(s3, tmp_path):
    """Its writer was killed before it noticed that another one had been quicker."""
    command, old, _ = replacing(s3, tmp_path)
    s3.fault = lambda number, method, key, query: \
        "refuse" if RECORD in s3.place.files() and method != "PUT" else None
    run(*command)
    s3.fault = None
    record = s3.objects.pop(f"a folder/ä+&/{RECORD}")
    write(s3.place / "d@5", overwrite=True)
    there = s3.place.files()
    s3.objects[f"a folder/ä+&/{RECORD}"] = record
    assert f"{RECORD}: removed" in succeed("clean", s3.place / "d").out.decode()
    assert s3.place.files() == there and s3.place.uploads() == []
