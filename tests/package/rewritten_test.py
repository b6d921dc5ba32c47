"""What the manifest of a dataset says of its features stays with its records, whichever command writes them again."""

import harness
import numpy as np
import pytest
from package_data import sf

FEATURES = {"matrix": sf.fixed((2, 3), sf.float64), "flag": sf.uint8, "ids": sf.var(sf.int16), "name": sf.bytes}


@pytest.fixture
def dataset(tmp_path):
    with sf.write(tmp_path / "a@2", features=FEATURES) as writer:
        for i in range(30):
            writer.write({"matrix": np.full((2, 3), i + 0.5), "flag": i % 2, "ids": np.arange(i % 4, dtype=np.int16),
                          "name": f"row {i}"})
    return tmp_path / "a@2"


COMMANDS = {
    "reshard": (["reshard"], []), "merge": (["merge"], []), "sample": (["sample"], ["--count", "9"]),
    "repair": (["repair"], []), "convert": (["convert", "tfrecord"], []),
    "convert with images": (["convert", "tfrecord"], ["--jpeg", "seekable"]),
    "convert shuffled": (["convert", "tfrecord"], ["--shuffle", "1"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_types_are_kept(dataset, tmp_path, command):
    words, options = COMMANDS[command]
    out = tmp_path / "out" / "b@2"
    harness.succeed(*words, dataset, out.with_name("b") if command == "repair" else out, *options)
    before, after = sf.read(str(dataset)).parse().element_spec, sf.read(str(out)).parse().element_spec
    assert after == before and after["matrix"][1] == (2, 3) and after["ids"][0] == "int16"


def test_split_keeps_types(dataset, tmp_path):
    harness.succeed("split", dataset, tmp_path / "part@2", "--shares", "x=0.5,y=0.5")
    for name in "xy":
        assert sf.read(str(tmp_path / f"part-{name}@*")).parse().element_spec == \
            sf.read(str(dataset)).parse().element_spec


def test_conversion_of_datasets_that_disagree(dataset, tmp_path):
    with sf.write(tmp_path / "other@1", features={**FEATURES, "flag": sf.int32}) as writer:
        writer.write({"matrix": np.zeros((2, 3)), "flag": 1, "ids": [1], "name": "x"})
    report = harness.run("convert", "tfrecord", dataset, tmp_path / "other@1", tmp_path / "c@1", "--json").json
    assert 'the types of 1 feature are not kept, since not all datasets have the same: "flag"' in report["notes"]
    spec = sf.read(str(tmp_path / "c@1")).parse().element_spec
    assert spec["matrix"][1] == (2, 3) and spec["flag"] == ("int64", (), False)


def test_conversion_of_a_dataset_without_a_manifest(dataset, tmp_path):
    with sf.write(tmp_path / "other@1") as writer:
        writer.write({"flag": 1})
    (tmp_path / ".shardfeed/other.manifest.json").unlink()
    report = harness.run("convert", "tfrecord", dataset, tmp_path / "other@1", tmp_path / "c@1", "--json").json
    assert any(note.startswith("the types that ") and note.endswith("other@1 declares none") for note in report["notes"])
