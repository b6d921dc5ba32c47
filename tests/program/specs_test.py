"""The ways of naming a dataset for reading."""

import json

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, succeed, verify

ONE = (TESTDATA / "tensorflow/examples.tfrecord").read_bytes()


def lay(folder, *names, content=ONE):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)


@pytest.fixture
def ordered(tf, tmp_path):
    """x@12.tfrecord of one record each: its own number."""
    for i in range(12):
        harness.write_by_tensorflow(tf, tmp_path / f"x-{i:05}-of-00012.tfrecord",
                                    [harness.example(tf, i=[i])])
    return tmp_path


@pytest.mark.parametrize("spec", ["x@12.tfrecord", "x@*.tfrecord", "", "x-*", "x-*.tfrecord",
                                  "*-of-00012.tfrecord", "x-000[01]?-of-00012.tfrecord", "*"])
def test_every_form_names_the_shards_in_order(ordered, spec):
    lines = harness.payloads(ordered / spec if spec else ordered)
    assert [line["i"] for line in lines] == [[i] for i in range(12)]


def test_a_folder_may_end_in_a_slash(ordered):
    assert len(harness.payloads(f"{ordered}/")) == 12


def test_the_current_folder_and_relative_names(ordered):
    for spec in [".", "x@12.tfrecord", "./x@*.tfrecord", "x-*"]:
        assert succeed("verify", spec, "--json", cwd=ordered).json["records"] == 12


def test_a_list_is_read_in_the_order_given(ordered):
    paths = [ordered / f"x-{i:05}-of-00012.tfrecord" for i in (7, 2, 11)]
    lines = succeed("cat", *paths).lines
    assert [line["i"] for line in lines] == [[7], [2], [11]]


def test_a_list_that_the_shell_expanded_is_the_set(out):
    convert("text", TESTDATA / "tables/poem.txt", out / "poem@3")
    assert verify(harness.shards(out, "poem"))["manifest"] is True
    assert verify(harness.shards(out, "poem")[:2])["manifest"] is False


def test_a_file_named_twice_is_refused(ordered):
    path = ordered / "x-00000-of-00012.tfrecord"
    assert f"{path}: appears twice" in harness.fail(USAGE, "verify", path, path)


def test_a_single_shard_is_a_file(ordered):
    assert harness.payloads(ordered / "x-00005-of-00012.tfrecord") == [{"i": [5]}]


def test_missing_shards_are_named(ordered):
    for i in (3, 9):
        (ordered / f"x-{i:05}-of-00012.tfrecord").unlink()
    for spec in ("x@12.tfrecord", "x@*.tfrecord", "x-*", ""):
        message = harness.fail(DEFECTS, "verify", ordered / spec if spec else ordered)
        assert ("2 of 12 shards are missing: x-00003-of-00012.tfrecord, "
                "x-00009-of-00012.tfrecord") in message


def test_a_name_without_its_suffix_gets_a_hint(ordered):
    message = harness.fail(IO_FAILED, "verify", ordered / "x@12")
    assert f"found x-00000-of-00012.tfrecord ...; did you mean {ordered}/x@12.tfrecord" in message


def test_a_wrong_count_gets_a_hint(ordered):
    message = harness.fail(IO_FAILED, "verify", ordered / "x@10.tfrecord")
    assert "no such shards" in message and f"did you mean {ordered}/x@12.tfrecord" in message


def test_an_unknown_name_tells_what_is_there(ordered):
    message = harness.fail(IO_FAILED, "verify", ordered / "y@*")
    assert f"the folder has {ordered}/x@12.tfrecord" in message


@pytest.mark.parametrize("spec", ["nothing", "nothing@3", "nothing/x@3", "nothing-*", "no/x-*"])
def test_what_is_not_there_is_told_with_its_name(tmp_path, spec):
    assert "nothing" in harness.fail(IO_FAILED, "verify", tmp_path / spec) or "no/" in spec


@pytest.mark.parametrize("spec", ["x@", "x@y", "x@3y", "x@-1", "@3"])
def test_what_follows_the_at_sign_is_checked(ordered, spec):
    assert "@" in harness.fail(USAGE, "verify", ordered / spec)


def test_an_empty_folder_holds_no_shards(tmp_path):
    assert "the folder holds no shards" in harness.fail(IO_FAILED, "verify", tmp_path)


def test_two_sets_in_a_folder_must_be_named(ordered):
    lay(ordered, "y-00000-of-00001")
    message = harness.fail(USAGE, "verify", ordered)
    assert f"{ordered}/x@12.tfrecord" in message and f"{ordered}/y@1" in message
    assert verify(ordered / "y@*")["records"] == 40


def test_leftovers_of_another_count_are_not_guessed_about(ordered):
    lay(ordered, "x-00000-of-00001.tfrecord")
    assert "more than one set" in harness.fail(USAGE, "verify", ordered / "x@*.tfrecord")
    assert verify(ordered / "x@12.tfrecord")["shards"] == 12


def test_numbers_past_the_total_are_told(tmp_path):
    lay(tmp_path, "x-00001-of-00002", "x-00002-of-00002")
    message = harness.fail(DEFECTS, "verify", tmp_path / "x@2")
    assert "numbered past the total: x-00002-of-00002" in message


def test_two_datasets_of_shardfeed_in_a_folder_must_be_named(out):
    for stem in "ab":
        convert("text", TESTDATA / "tables/poem.txt", out / f"{stem}@2")
    message = harness.fail(USAGE, "verify", out)
    assert f"holds 2 datasets; name one of them: {out}/a@2, {out}/b@2" in message
    assert verify(out / "a@*")["records"] == 61


def test_sidecars_are_not_shards(ordered):
    lay(ordered, "x-00000-of-00012.tfrecord.idx", "x-00000-of-00012.tfindex", ".hidden",
        "notes.json", content=b"?")
    succeed("index", ordered)
    for spec in ("x-*", "", "*"):
        assert verify(ordered / spec if spec else ordered)["shards"] == 12


# ---- folders of other programs


def lay_tfds(folder, splits):
    """Lays out a version of a dataset as tensorflow_datasets does."""
    folder.mkdir(parents=True)
    for split, count in splits.items():
        lay(folder, *(f"flowers-{split}.tfrecord-{i:05}-of-{count:05}" for i in range(count)))
    info = {
        "name": "flowers", "version": "1.0.0", "fileFormat": "tfrecord",
        "splits": [{"name": split, "shardLengths": ["40"] * count, "numBytes": "1",
                    "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"}
                   for split, count in splits.items()],
    }
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text("{}")


def test_tfds_folder_of_one_split_is_a_dataset(tmp_path):
    lay_tfds(tmp_path / "flowers/1.0.0", {"train": 3})
    report = verify(tmp_path / "flowers/1.0.0")
    assert (report["shards"], report["records"]) == (3, 120)


def test_tfds_splits_are_named_by_their_names_or_files(tmp_path):
    folder = tmp_path / "flowers/1.0.0"
    lay_tfds(folder, {"train": 3, "test": 1})
    message = harness.fail(USAGE, "verify", folder)
    assert f"name one: {folder}/train, {folder}/test" in message
    assert verify(folder / "train")["records"] == 120
    assert verify(folder / "test")["records"] == 40
    assert verify(folder / "flowers-train.tfrecord@3")["records"] == 120
    assert verify(folder / "flowers-test.tfrecord@*")["records"] == 40


def test_tfds_folder_without_a_shard_is_told(tmp_path):
    lay_tfds(tmp_path / "1.0.0", {"train": 3})
    (tmp_path / "1.0.0/flowers-train.tfrecord-00001-of-00003").unlink()
    message = harness.fail(DEFECTS, "verify", tmp_path / "1.0.0")
    assert "missing: flowers-train.tfrecord-00001-of-00003" in message


def test_broken_dataset_info_is_told(tmp_path):
    lay_tfds(tmp_path / "1.0.0", {"train": 1})
    (tmp_path / "1.0.0/dataset_info.json").write_text("{")
    message = harness.fail(DEFECTS, "verify", tmp_path / "1.0.0")
    assert "dataset_info.json: not a TFDS dataset description" in message


def test_spark_folder_is_a_dataset_once_the_job_ended(tmp_path):
    job = "11111111-2222-3333-4444-555555555555"
    lay(tmp_path, *(f"part-{i:05}-{job}-c000.tfrecord" for i in (0, 1, 4)))
    assert "did not finish: there is no _SUCCESS" in harness.fail(USAGE, "verify", tmp_path)
    lay(tmp_path, "_SUCCESS", content=b"")
    lay(tmp_path, f".part-00000-{job}-c000.tfrecord.crc", content=b"crc")
    assert verify(tmp_path)["records"] == 120
    assert verify(tmp_path / "part-*")["shards"] == 3
