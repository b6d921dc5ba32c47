"""Datasets of TFDS whose records other commands rewrite: parse() gives what it gave, as far as a manifest can say it."""

import json
import pathlib
import shutil

import harness
import numpy as np
import pytest
from harness import DONE
from package_data import sf

DATA = pathlib.Path(__file__).resolve().parents[2] / "testdata/tfds"
NAMES = sorted(path.parent.name for path in DATA.glob("*/features.json"))
COMMANDS = {"reshard": (), "merge": (), "sample": ("--count", "3"), "repair": ()}


def rewrite(command, source, out, *options):
    result = harness.run(command, source, out, *options, "--json")
    assert result.status == DONE, result.err
    return result.json


def same(ours, theirs):
    return np.array_equal(np.asarray(ours, object), np.asarray(theirs, object))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_types_and_classes_are_kept(tmp_path, name, command):
    folder = shutil.copytree(DATA / name, tmp_path / name)
    report = rewrite(command, folder / "train", tmp_path / "out/train@1", *COMMANDS[command])
    before, after = sf.read(folder / "train").parse(), sf.read(tmp_path / "out/train@1").parse()
    declared = sf.inspect(folder / "train").data
    # Arrays in strings are what a manifest cannot say.
    encoded = {f for f, one in declared["tfds"].items() if one.get("encoding", "none") != "none"}
    told = [note for note in report["notes"] if "declares more about" in note]
    assert len(told) == (1 if encoded else 0), report["notes"]
    assert {f: t for f, t in before.element_spec.items() if f not in encoded} == {
        f: t for f, t in after.element_spec.items() if f not in encoded}
    for ours, theirs in zip(after, before, strict=True):
        for feature in set(theirs) - encoded:
            assert same(ours[feature], theirs[feature]), feature
    assert sf.inspect(tmp_path / "out/train@1").data.get("classes") == declared.get("classes")
    if encoded:
        manifest = json.loads((tmp_path / "out/.shardfeed/train.manifest.json").read_text())
        assert told[0] in manifest["notes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_beside_the_shards_changes_nothing(tmp_path, name):
    folder = shutil.copytree(DATA / name, tmp_path / name)
    declared = sf.inspect(folder / "train").data
    spec, = {f"{folder}/{path.name.rpartition('-of-')[0].rpartition('-')[0]}@*"
             for path in folder.glob("*-train.tfrecord-*")}
    before = [dict(row) for row in sf.read(spec).parse()]
    encoded = [f for f, one in declared["tfds"].items() if one.get("encoding", "none") != "none"]
    if encoded:
        with pytest.raises(ValueError, match="features.json: declares more than a manifest can hold; without a"):
            sf.index(spec, manifest=True)
        assert not list(folder.rglob("*.manifest.json"))
    else:
        sf.index(spec, manifest=True)
        assert sf.inspect(spec).data.get("classes") == declared.get("classes")
    for ours, theirs in zip(sf.read(spec).parse(), before, strict=True):
        assert set(ours) == set(theirs)
        assert all(same(ours[feature], theirs[feature]) for feature in theirs)


def test_parts_of_a_split_keep_types(tmp_path):
    folder = shutil.copytree(DATA / "movielens", tmp_path / "m")
    before = sf.read(folder / "train").parse().element_spec
    rewrite("split", folder / "train", tmp_path / "out/m@2", "--shares", "a=0.7,b=0.3")
    for part in "ab":
        assert sf.read(tmp_path / f"out/m-{part}@*").parse().element_spec == before


def changed(tmp_path, change):
    folder = shutil.copytree(DATA / "movielens", tmp_path / "changed")
    description = json.loads((folder / "features.json").read_text())
    change(description["featuresDict"]["features"])
    (folder / "features.json").write_text(json.dumps(description))
    return folder


def test_what_is_lost_is_told(tmp_path):
    def change(features):
        features["user_gender"]["tensor"]["optional"] = True
        features["user_id"] = {"pythonClassName": "my.features.Graph", "jsonFeature": {"json": "{}"}}
    folder = changed(tmp_path, change)
    for command in ("reshard", "repair"):
        report = rewrite(command, folder / "train", tmp_path / f"{command}/train@1")
        assert report["notes"] == [
            f"{folder}/features.json declares more about 2 features than a manifest can hold, so they are parsed as what "
            'records hold: "user_gender" (a value for records without it), "user_id" (Graph)']
        spec = sf.read(tmp_path / f"{command}/train@1").parse().element_spec
        assert spec["user_gender"] == ("uint8", (), False) and spec["user_id"][0] == "bytes"


def test_a_damaged_description_is_told_and_does_not_hinder(tmp_path):
    folder = shutil.copytree(DATA / "movielens", tmp_path / "m")
    (folder / "features.json").write_text("{")
    for command in ("reshard", "repair"):
        report = rewrite(command, folder / "train", tmp_path / f"{command}/train@1")
        assert report["notes"][0].startswith(f"the types that TFDS declares are lost: {folder}/features.json: ")
        assert len(list(sf.read(tmp_path / f"{command}/train@1"))) == 3


def test_datasets_that_disagree_lose_types_and_it_is_told(tmp_path):
    def change(features):
        features["timestamp"]["tensor"]["dtype"] = "uint32"
    folder, other = shutil.copytree(DATA / "movielens", tmp_path / "m"), changed(tmp_path, change)
    report = harness.run("merge", folder / "train", other / "train", tmp_path / "out/x@1", "--json").json
    assert 'the types of 1 feature are not kept, since not all datasets have the same: "timestamp"' in report["notes"]
    spec = sf.read(tmp_path / "out/x@1").parse().element_spec
    assert spec["user_gender"] == ("uint8", (), False) and spec["timestamp"] == ("int64", (), False)
    (other / "features.json").unlink()
    report = harness.run("merge", folder / "train", other / "train", tmp_path / "out/y@1", "--json").json
    assert any(note.startswith("the types that ") and "declares are not kept, since" in note for note in report["notes"])
    assert sf.read(tmp_path / "out/y@1").parse().element_spec["user_gender"] == ("int64", (), False)


def test_repair_keeps_the_types_of_a_manifest(tmp_path):
    with sf.write(str(tmp_path / "x@1"), features={"a": sf.uint8, "b": sf.fixed(2, sf.float64)}) as writer:
        writer.write({"a": 1, "b": [1.0, 2.0]})
    before = sf.read(str(tmp_path / "x@1")).parse().element_spec
    rewrite("repair", tmp_path / "x@1", tmp_path / "out/y@1")
    assert sf.read(str(tmp_path / "out/y@1")).parse().element_spec == before
