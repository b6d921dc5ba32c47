"""`index --manifest`: what shards that TensorFlow wrote have in them, read once and kept."""

import base64
import pathlib

import pytest
from harness import DEFECTS, USAGE, convert, fail, succeed, verify

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

HERE_AND_IN_STORE = True


# A gray pixel.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVQI12OoBwAAgQCARX8hfQAAAABJRU5ErkJggg==")


def example(**features):
    kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
    one = tf.train.Example()
    for name, value in features.items():
        getattr(one.features.feature[name], kinds[type(value)]).value.append(value)
    return one.SerializeToString()


def write(folder, records, shards=2, compression=""):
    for shard in range(shards):
        path = str(folder / f"old-{shard:05}-of-{shards:05}")
        with tf.io.TFRecordWriter(path, compression) as out:
            for record in records[shard * len(records) // shards:(shard + 1) * len(records) // shards]:
                out.write(record)
    return folder / f"old@{shards}"


def manifest_of(folder):
    return folder / ".shardfeed/old.manifest.json"


@pytest.fixture
def dataset(tmp_path):
    return write(tmp_path, [example(n=i, name=b"%d" % (i % 7)) for i in range(3000)]
                 + [example(n=3000, name=b"", late=0.5)])


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_the_manifest_has_what_reading_finds(tmp_path, compression):
    spec = write(tmp_path, [example(n=i, x=i / 4) for i in range(1000)], compression=compression)
    done = succeed("index", spec, "--manifest")
    assert f"the manifest describes 2 features, with statistics: shardfeed inspect {spec} --statistics" \
        in done.out.decode()
    read = succeed("inspect", spec, "--statistics", "--recompute", "--json").json
    stored = succeed("inspect", spec, "--statistics", "--json").json
    assert (read["statistics_from"], stored["statistics_from"]) == ("records", "manifest")
    assert stored["statistics"] == read["statistics"]
    assert stored["features"] == read["features"]
    assert stored["made_by"]["command"] == "index"
    assert verify(spec, "--level", "examples")["manifest"]


def test_a_late_feature_is_in_the_schema(dataset):
    succeed("index", dataset, "--manifest")
    assert set(succeed("inspect", dataset, "--json").json["features"]) == {"n", "name", "late"}


def test_a_second_time_changes_nothing(dataset, tmp_path):
    first = succeed("index", dataset, "--manifest", "--json").json
    before = manifest_of(tmp_path).read_bytes()
    assert succeed("index", dataset, "--manifest", "--json").json["features"] == first["features"] == 3
    assert manifest_of(tmp_path).read_bytes() == before


def test_what_a_writer_said_is_kept(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        (tmp_path / "raw" / name / "1.png").write_bytes(PNG)
    convert("imagefolder", tmp_path / "raw", tmp_path / "old@2")
    before = manifest_of(tmp_path).read_bytes()
    assert b'"cat"' in before
    succeed("index", tmp_path / "old@2", "--manifest")
    assert manifest_of(tmp_path).read_bytes() == before


def test_records_that_are_no_examples_are_counted(tmp_path):
    spec = write(tmp_path, [example(n=1), b"\xff no Example", example(n=2)])
    succeed("index", spec, "--manifest")
    report = succeed("inspect", spec, "--json").json
    assert report["not_examples"] == 1 and report["features"]["n"]["records"] == 2
    assert verify(spec)["manifest"]
    succeed("reshard", spec, tmp_path / "new@1")
    assert verify(tmp_path / "new@1")["records"] == 3


def test_damage_is_told_and_leaves_no_manifest(dataset, tmp_path):
    path = tmp_path / "old-00001-of-00002"
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    message = fail(DEFECTS, "index", dataset, "--manifest")
    assert "old-00001-of-00002" in message and "run 'shardfeed verify'" in message
    assert not manifest_of(tmp_path).exists()


def test_a_manifest_of_other_shards_is_kept(dataset, tmp_path):
    succeed("index", dataset, "--manifest")
    before = manifest_of(tmp_path).read_bytes()
    write(tmp_path, [example(n=i) for i in range(10)])
    message = fail(DEFECTS, "index", dataset, "--manifest")
    assert "does not match old-00000-of-00002" in message
    assert "remove the manifest if the shards are correct" in message
    assert manifest_of(tmp_path).read_bytes() == before


def test_shards_of_two_compressions_are_refused(dataset, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "old-00001-of-00002"), "GZIP") as out:
        out.write(example(n=1))
    message = fail(USAGE, "index", dataset, "--manifest")
    assert "has compression none, but " in message and "has gzip" in message


def test_only_a_whole_dataset_has_one(dataset, tmp_path):
    path = tmp_path / "old-00001-of-00002"
    message = fail(USAGE, "index", path, "--manifest")
    assert "--manifest describes a whole dataset: name it as stem@N instead of " in message
    assert not pathlib.Path(tmp_path / ".shardfeed").exists()
