"""Index packs in stores: datasets are opened by them, and none is believed that is out of date."""

import json
import sys

import pytest
from harness import DEFECTS, DONE, REPOSITORY, run, succeed
from servers import Object
from stores_writing_test import (  # noqa: F401
    PACK, RECORD, moto, moto_server, place, replacing, s3, surroundings, write)

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def test_a_record_of_an_earlier_version_has_no_pack(s3, tmp_path):
    """Finishing it removes the pack of the old dataset, and 'index' makes the new one's."""
    command, old, new = replacing(s3, tmp_path)
    s3.fault = lambda number, method, key, query: \
        "refuse" if RECORD in s3.place.files() and method != "PUT" else None
    run(*command)
    s3.fault = None
    record = json.loads(s3.place.files()[RECORD])
    del record["indexes"]
    s3.objects[f"a folder/ä+&/{RECORD}"] = Object(json.dumps(record, separators=(",", ":")).encode(), '"x"', None)
    succeed("clean", s3.place / "d", "--older-than", "0s")
    without = {name: data for name, data in new.items() if name != PACK}
    assert s3.place.files() == without and s3.place.uploads() == []
    for spec in (s3.place / "d@2", s3.place / "d@*"):
        assert len(sf.read(spec)) == len(sf.read(f"{tmp_path}/new/d@2"))
    told = succeed("plan", s3.place / "d@2").err
    assert "note: a manifest and an index pack would save 2 requests" in told, told
    succeed("index", s3.place / "d@2")
    assert s3.place.files() == new and s3.place.uploads() == []
    assert "note" not in succeed("plan", s3.place / "d@2").err


def test_a_dataset_is_opened_by_its_manifest_and_pack(s3):
    write(s3.place / "d@30")
    s3.requests.clear()
    dataset = sf.read(s3.place / "d@30").shuffle(seed=1)
    assert len(dataset) == 200
    assert len(s3.requests) <= 5, s3.requests
    assert {key.rpartition("/")[2] for _, key, _ in s3.requests} == {"d.manifest.json", "d.indexes"}
    # Nothing else but shards is asked for, and nothing is listed.
    assert sum(1 for _ in dataset) == 200
    assert not [key for method, key, _ in s3.requests if method != "GET" or key.endswith(".index")]


def test_a_pack_that_is_out_of_date_is_not_believed(s3):
    write(s3.place / "d@3", seed=1)
    old = s3.objects[f"a folder/ä+&/{PACK}"]
    write(s3.place / "d@3", seed=2, overwrite=True)
    expected = list(sf.read(s3.place / "d@3"))
    s3.objects[f"a folder/ä+&/{PACK}"] = old
    assert list(sf.read(s3.place / "d@3")) == expected
    result = run("verify", s3.place / "d@3", "--json")
    assert result.status == DEFECTS
    assert {(each["kind"], f"{PACK}: has another index for shard" in each["detail"])
            for each in result.json["defects"]} == {("index", True)}
    succeed("index", s3.place / "d@3")
    succeed("verify", s3.place / "d@3")


@pytest.mark.parametrize("broken", [b"", b"<html>", None])
def test_a_broken_pack_is_as_good_as_none(s3, broken):
    write(s3.place / "d@3")
    expected = list(sf.read(s3.place / "d@3"))
    data = s3.place.files()[PACK]
    s3.objects[f"a folder/ä+&/{PACK}"] = Object(data[:-5] if broken is None else broken, '"x"', None)
    assert list(sf.read(s3.place / "d@3")) == expected
    result = run("verify", s3.place / "d@3")
    assert result.status == DEFECTS and f"{PACK}: " in result.out.decode(), result.out


def test_writing_a_pack_that_fails_keeps_the_old_one(s3):
    write(s3.place / "d@3")
    there = s3.place.files()
    s3.fault = lambda number, method, key, query: \
        "refuse" if key.endswith(".indexes") and method in ("PUT", "POST") else None
    result = run("index", s3.place / "d@3")
    assert result.status != DONE and f"{PACK}: " in result.err, result.err
    s3.fault = None
    assert s3.place.files() == there and s3.place.uploads() == []


def test_listings_ignore_the_pack(place):
    write(place / "d@3")
    for spec in (place.url, place / "d@*", place / "d-*", place / "d*", place / "*"):
        assert len(sf.read(spec)) == 200
