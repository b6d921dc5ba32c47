"""One table of exit statuses (docs/command_line.md) holds for all commands: 0 all is well, 1 data is
damaged or records were left out, 2 wrong use, 3 the system failed."""

import re
import shutil

import harness
import pytest
from harness import DEFECTS, DONE, IO_FAILED, REPOSITORY, TESTDATA, USAGE, convert, flip, run, succeed

IMAGES = TESTDATA / "images"
COMMANDS = ["bench", "cat", "clean", "commit", "convert", "diff", "index", "inspect", "merge", "plan",
            "repair", "replay", "reshard", "sample", "split", "top", "verify"]

# What each command does with a dataset IN@2 of which one record is damaged (its index is sound).
ON_DATASETS = {
    "bench": ["bench", "IN"],
    "bench skipping": ["bench", "IN", "--skip-damaged"],
    "cat": ["cat", "IN"],
    "convert": ["convert", "tfrecord", "IN", "OUT@2"],
    "convert skipping": ["convert", "tfrecord", "IN", "OUT@2", "--on-error", "skip"],
    "diff": ["diff", "IN", "IN", "--recompute"],
    "index": ["index", "IN"],
    "inspect": ["inspect", "IN"],
    "merge": ["merge", "IN", "IN", "OUT"],
    "plan": ["plan", "IN"],
    "repair": ["repair", "IN", "OUT"],
    "repair dry": ["repair", "IN", "OUT", "--dry-run"],
    "replay": ["replay", "IN"],
    "reshard": ["reshard", "IN", "OUT@3"],
    "sample": ["sample", "IN", "OUT@1", "--count", "90"],
    "split": ["split", "IN", "OUT", "--shares", "a=0.5,b=0.5"],
    "verify": ["verify", "IN"],
}
# These look at indexes and manifests, or at the headers of records, or copy bytes unread.
BLIND = {"index", "merge", "plan", "replay", "reshard"}


@pytest.fixture
def dataset(tmp_path):
    (tmp_path / "lines").write_text("".join(f"this is line {i}\n" for i in range(100)))
    convert("text", tmp_path / "lines", tmp_path / "in@2")
    return tmp_path / "in@2"


def filled(name, dataset, tmp_path):
    return [str(word).replace("IN", str(dataset)).replace("OUT", str(tmp_path / "out" / "x"))
            for word in ON_DATASETS[name]]


def test_the_table_covers_every_command():
    help_text = succeed("--help").out.decode()
    names = re.findall(r"^  (\w+) {2,}\w", help_text.split("Subcommands:")[1].split("Examples:")[0], re.M)
    assert sorted(set(names) - {"cache", "view", "report"}) == COMMANDS
    page = (REPOSITORY / "docs/command_line.md").read_text()
    for name in set(COMMANDS) - {"clean", "top"}:  # which have no status 1
        assert f"`{name}`" in page, name


def test_help_and_the_manual_page_have_the_table():
    help_text = succeed("--help").out.decode()
    page = succeed("man").out.decode()
    for status in (0, 1, 2, 3, 130):
        meaning, = re.findall(rf"(?m)^  {status}: (\S.*)$", help_text)
        assert f".TP\n{status}\n{meaning}\n" in page


@pytest.mark.parametrize("name", ON_DATASETS)
def test_sound_data_is_0(name, dataset, tmp_path):
    result = run(*filled(name, dataset, tmp_path))
    assert result.status == DONE, result.err


@pytest.mark.parametrize("name", ON_DATASETS)
def test_damaged_data_is_1(name, dataset, tmp_path):
    flip(tmp_path / "in-00000-of-00002", harness.HEADER + 5)
    result = run(*filled(name, dataset, tmp_path))
    assert result.status == (DONE if name in BLIND else DEFECTS), (result.err, result.out)


@pytest.mark.parametrize("name", ON_DATASETS)
def test_wrong_use_is_2(name, dataset, tmp_path):
    arguments = filled(name, dataset, tmp_path)
    assert run(*arguments, "--no-such-option").status == USAGE
    wrong = [word.replace(str(dataset), f"{dataset}x") for word in arguments]  # in@2x
    assert run(*wrong).status == USAGE, run(*wrong).err


@pytest.mark.parametrize("name", ON_DATASETS)
def test_a_missing_shard_is_1_and_a_missing_dataset_is_3(name, dataset, tmp_path):
    (tmp_path / "in-00001-of-00002").unlink()
    shutil.rmtree(tmp_path / ".shardfeed")
    result = run(*filled(name, dataset, tmp_path))
    assert result.status == DEFECTS, (result.err, result.out)
    (tmp_path / "in-00000-of-00002").unlink()
    result = run(*filled(name, dataset, tmp_path))
    assert result.status == IO_FAILED, (result.err, result.out)


@pytest.mark.parametrize("name", [name for name in ON_DATASETS if "OUT" in " ".join(ON_DATASETS[name])
                                  and name != "repair dry"])
def test_a_folder_that_cannot_be_made_is_3(name, dataset, tmp_path):
    (tmp_path / "out").write_text("a file")
    assert run(*filled(name, dataset, tmp_path)).status in (IO_FAILED, USAGE)


def test_a_full_disk_is_3(dataset):
    for command in (["cat", dataset], ["verify", dataset], ["inspect", dataset]):
        with open("/dev/full", "wb") as full:
            import subprocess
            done = subprocess.run(harness.command(*command), stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == IO_FAILED, command
        assert done.stderr == b"shardfeed: cannot write to standard output\n", command


# ---- Records that are left out


BROKEN = {
    "csv": "a,b\n1,2\n3\n4,5\n",
    "jsonl": '{"a": 1}\n{"a": \n{"a": 2}\n',
    "text": b"a\n\xff\nb\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_records_are_1_whether_they_fail_or_are_left_out(kind, tmp_path):
    data = BROKEN[kind]
    path = tmp_path / "source"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    arguments = ["convert", kind, path, tmp_path / "out/x@1"]
    assert run(*arguments).status == DEFECTS
    assert not (tmp_path / "out/x-00000-of-00001").exists()
    assert run(*arguments, "--dry-run").status == DEFECTS
    assert run(*arguments, "--on-error", "skip", "--dry-run").status == DEFECTS
    assert not (tmp_path / "out/x-00000-of-00001").exists()
    left_out = run(*arguments, "--on-error", "skip", "--json")
    assert (left_out.status, left_out.json["skipped"], left_out.json["records"]) == (DEFECTS, 1, 2)
    again = run(*arguments, "--on-error", "skip", "--resume")
    assert again.status == DEFECTS, again.err  # what is there is still not whole


def test_a_row_beyond_the_limit_is_1_as_other_broken_rows(tmp_path):
    for kind, text in (("csv", "a\n" + "x" * 3_000_000), ("csv", 'a\n"' + "x" * 3_000_000),
                       ("text", "x" * 3_000_000), ("jsonl", '{"a": "%s"}' % ("x" * 3_000_000)),
                       ("json", '[{"a": "%s"}]' % ("x" * 3_000_000))):
        (tmp_path / "t").write_text(text)
        result = run("convert", kind, tmp_path / "t", tmp_path / "out/x@1", "--max-record", "1MiB")
        assert result.status == DEFECTS, (kind, result.err)
        assert "longer than 1048576 bytes" in result.err and "--max-record SIZE" in result.err


def test_parts_and_commits_are_1_if_records_were_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3\n4,5\n")
    out = tmp_path / "out/x@1"
    part = run("convert", "csv", path, out, "--on-error", "skip", "--only-shards", "0", "--job", "7")
    assert part.status == DEFECTS, part.err
    assert run("commit", out, "--job", "7", "--dry-run").status == DEFECTS
    assert run("commit", out, "--job", "7").status == DEFECTS
    assert harness.verify(out)["records"] == 2


def test_damaged_images_are_1_whether_they_are_replaced_or_skipped(tmp_path):
    (tmp_path / "a").mkdir()
    image = next(IMAGES.rglob("*.jpg")).read_bytes()
    for i in range(6):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(image[:len(image) // 2] if i == 3 else image)
    convert("files", tmp_path / "a", tmp_path / "out/x@1")
    arguments = ["bench", tmp_path / "out/x@1", "--image", "32", "--image-feature", "bytes", "--batch", "6"]
    statuses = {policy: run(*arguments, "--on-damage", policy).status
                for policy in ("fail", "replace", "zero", "accept")}
    assert statuses == {"fail": DEFECTS, "replace": DEFECTS, "zero": DEFECTS, "accept": DONE}


@pytest.mark.parametrize("data, message", [
    (b"no image at all", 'not an image: starts with "no image at all"'), (b"", "feature 'bytes'"),
    (b"P6 1 1 255\n" + bytes(20), "PNM (PBM, PGM or PPM), which is not supported; convert it to JPEG or PNG")])
def test_images_that_cannot_be_decoded_are_1(data, message, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/0").write_bytes(next(IMAGES.rglob("*.jpg")).read_bytes())
    (tmp_path / "a/1").write_bytes(data)
    convert("files", tmp_path / "a", tmp_path / "x@1")
    arguments = ["bench", tmp_path / "x@1", "--image", "32", "--image-feature", "bytes", "--batch", "2"]
    for policy in ("fail", "accept"):
        result = run(*arguments, "--on-damage", policy)
        assert result.status == DEFECTS and message in result.err, result.err
    for policy in ("replace", "zero"):
        assert run(*arguments, "--on-damage", policy).status == DEFECTS


def test_wrong_options_of_images_are_2(dataset):
    for options in (["--center"], ["--no-antialias"], ["--save-grid", "x.png"], ["--image-feature", "bytes"],
                    ["--on-damage", "zero"]):
        result = run("bench", dataset, *options)
        assert result.status == USAGE and f"{options[0]}" in result.err and "add --image SIZE" in result.err
    for options in (["--image", "0"], ["--image", "65536"], ["--image", "32", "--on-damage", "skip"],
                    ["--image", "32"], ["--image", "32", "--image-feature", "none"]):
        assert run("bench", dataset, *options).status == USAGE, options


# ---- The rest of the commands


def test_clean_and_commit(dataset, tmp_path):
    assert run("clean", f"{tmp_path}/").status == DONE
    assert run("clean", tmp_path / "in", "--older-than", "soon").status == USAGE
    assert run("commit", tmp_path / "in@2", "--job", "none").status == IO_FAILED  # there is no such job
    assert run("commit", tmp_path / "in@2").status == USAGE


def test_a_name_that_is_taken_is_2(dataset, tmp_path):
    lines = tmp_path / "lines"
    assert run("convert", "text", lines, dataset).status == USAGE
    assert run("reshard", dataset, dataset).status == USAGE
    assert run("convert", "text", lines, dataset, "--dry-run").status == USAGE


def test_a_source_that_is_not_there_is_3(tmp_path):
    for kind in ("csv", "jsonl", "text", "imagefolder", "tar", "idx"):
        assert run("convert", kind, tmp_path / "none", tmp_path / "out/x@1").status == IO_FAILED, kind
