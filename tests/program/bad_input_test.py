"""Input that convert refuses, with which message, and that it leaves nothing behind."""

import os
import pathlib
import resource
import shutil
import subprocess

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, verify

EVENTS = TESTDATA / "tables/events.jsonl"
POEM = TESTDATA / "tables/poem.txt"


def refuse(status, kind, source, out, *options, **others):
    """The message of a convert that must fail and leave nothing that looks complete."""
    sources = source if isinstance(source, (list, tuple)) else [source]
    message = harness.fail(status, "convert", kind, *sources, out / "x@2", "-q", *options, **others)
    assert not out.exists() or harness.tree(out) == {}
    return message


@pytest.mark.parametrize("kind", ["imagefolder", "csv", "jsonl", "text"])
def test_missing_source_is_named(kind, tmp_path, out):
    message = refuse(IO_FAILED, kind, tmp_path / "nothing", out)
    assert f"{tmp_path}/nothing: cannot" in message and "No such file" in message


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
def test_a_folder_is_not_a_file(kind, tmp_path, out):
    (tmp_path / "folder").mkdir()
    assert f"{tmp_path}/folder: " in refuse(USAGE, kind, tmp_path / "folder", out)


def test_a_file_is_not_a_folder_of_images(out):
    message = refuse(USAGE, "imagefolder", POEM, out)
    assert f"{POEM}: not a folder" in message


def test_without_output_the_form_is_shown():
    message = harness.fail(USAGE, "convert", "text", POEM)
    assert "only one path is given; usage: shardfeed convert text SOURCE... OUT@N" in message


@pytest.mark.parametrize("spec, said", [
    ("x@0", "the number of shards must be from 1 to 1000000, got 0"), ("x@2000000", "1 to 1000000"),
    ("@3", "the name is missing"),
    ("x@y", "after '@' expected"), ("x*@2", "must not contain"), (".x@2", "hidden files")])
def test_output_names_are_checked(tmp_path, spec, said):
    assert said in harness.fail(USAGE, "convert", "text", POEM, f"{tmp_path}/{spec}")
    assert harness.tree(tmp_path) == {}


@pytest.mark.parametrize("options, said", [
    (["--shard-size", "1MiB"], "not both"), (["--member-size", "big"], "--member-size big")])
def test_options_are_checked(out, options, said):
    assert said in refuse(USAGE, "text", POEM, out, *options)


@pytest.mark.parametrize("options", [["--level", "0"], ["--level", "10"], ["--limit", "-1"],
                                     ["--compression", "snappy"], ["--shuffle", "x"]])
def test_values_of_options_are_checked(out, options):
    assert harness.run("convert", "text", POEM, out / "x@2", *options).status == USAGE
    assert not out.exists()


@pytest.mark.parametrize("option, value", [("--level", "9"), ("--member-size", "4KiB")])
def test_options_of_compression_need_one(tmp_path, out, option, value):
    said = f"{option}: nothing is compressed without --compression gzip or zlib"
    assert harness.fail(USAGE, "convert", "text", POEM, out / "x@2", option, value) == said
    assert not out.exists()
    harness.convert("text", POEM, out / "x@2", "--compression", "gzip", option, value)
    harness.convert("text", POEM, out / "y@2", "--like", out / "x@2", option, value)
    harness.convert("text", POEM, out / "plain@2")
    assert harness.fail(USAGE, "reshard", out / "plain@2", out / "z@1", option, value) == said
    assert harness.run("reshard", out / "x@2", out / "z@1", option, value).status == 0


def test_a_seed_and_no_shuffle_exclude_each_other(out):
    for options in (["--shuffle", "1", "--no-shuffle"], ["--no-shuffle", "--shuffle", "1"]):
        result = harness.run("convert", "text", POEM, out / "x@2", *options)
        assert result.status == USAGE
        assert result.err == ("shardfeed: text: --shuffle excludes --no-shuffle\n"
                              "Run 'shardfeed convert text --help' for usage.\n")
    assert not out.exists()


@pytest.mark.parametrize("suffix, options, what", [
    (".gz", [], "not compressed"), (".tfrecord.gz", ["--compression", "zlib"], "compressed with zlib"),
    (".zip", [], "not compressed"), (".zip", ["--compression", "gzip"], "compressed with gzip"),
    (".GZ", [], "not compressed"), (".gzip", [], "not compressed"),
    (".gz", ["--compression", "gzip"], None), (".tfrecord", [], None)])
def test_suffixes_that_name_another_compression_are_noted(out, suffix, options, what):
    last = suffix[suffix.rindex("."):]
    notes = [f"the suffix {last} does not choose a compression: the shards are {what}; --compression does"]
    for name, more in (("x", ["--dry-run"]), ("x", [])):
        report = harness.run("convert", "text", POEM, f"{out}/{name}@2{suffix}", *options, *more, "--json").json
        assert [note for note in report["notes"] if "suffix" in note] == (notes if what else [])
    report = harness.run("reshard", f"{out}/x@2{suffix}", f"{out}/y@1{suffix}", "--json").json
    assert [note for note in report["notes"] if "suffix" in note] == (notes if what else [])


# ---- images


def test_empty_folder_of_images(tmp_path, out):
    (tmp_path / "in").mkdir()
    message = refuse(DEFECTS, "imagefolder", tmp_path / "in", out)
    assert f"{tmp_path}/in: the folder is empty; expected one folder per class" in message


def test_class_without_images_is_named(tmp_path, out):
    shutil.copytree(TESTDATA / "images", tmp_path / "in")
    (tmp_path / "in/nothing").mkdir()
    (tmp_path / "in/nothing/readme.txt").write_text("?")
    message = refuse(DEFECTS, "imagefolder", tmp_path / "in", out)
    assert f"{tmp_path}/in/nothing" in message and "no images" in message


def test_images_outside_class_folders(out):
    message = refuse(DEFECTS, "imagefolder", TESTDATA / "images/circles", out)
    assert "in no class folder: 0.jpg, 1.jpg, 2.png, ..." in message


@pytest.mark.parametrize("content", [
    b"", b"This is no image.", b"\xff\xd8\xff\xe0",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\1\x08\2\0\0\0"])
def test_an_image_that_is_none_is_named(tmp_path, out, content):
    shutil.copytree(TESTDATA / "images", tmp_path / "in")
    (tmp_path / "in/stripes/bad.png").write_bytes(content)
    message = refuse(DEFECTS, "imagefolder", tmp_path / "in", out)
    assert message.startswith(f"{tmp_path}/in/stripes/bad.png: ")


def test_files_that_are_no_images_are_left_out_and_told(tmp_path, out):
    shutil.copytree(TESTDATA / "images", tmp_path / "in")
    (tmp_path / "in/stripes/Thumbs.db").write_text("?")
    report = harness.succeed("convert", "imagefolder", tmp_path / "in", out / "x@1", "--json").json
    assert report["records"] == 24
    assert any("Thumbs.db" in note for note in report["notes"])


def test_unreadable_file_is_named(open_folder, run_without_privilege):
    source = open_folder / "secret.txt"
    source.write_text("secret\n")
    source.chmod(0)
    done = run_without_privilege("convert", "text", source, open_folder / "x@2", "-q")
    assert done.returncode == IO_FAILED, done.stderr
    assert done.stderr == f"shardfeed: {source}: cannot open: Permission denied\n"
    assert harness.shards(open_folder, "x") == []


# ---- text


@pytest.mark.parametrize("row, said", [
    ("1,2,3", "expected 2 cells as in the header, got 3; cells that contain \",\" must be quoted"),
    ("1", "expected 2 cells as in the header, got 1"),
    ('"1"x,2', "after a closing quote"),
    ('1,"2', "the quote that opens here is never closed")])
def test_bad_row_of_a_table_is_located(tmp_path, out, row, said):
    path = tmp_path / "t.csv"
    path.write_text(f'a,b\n1,"two\nlines"\n\n{row}\n')
    message = refuse(DEFECTS, "csv", path, out)
    assert message.startswith(f"{path}:5: ") and said in message


@pytest.mark.parametrize("text, said", [
    ("", "the file is empty"), ("a,b\n", "no records")])
def test_bad_header_of_a_table_is_told(tmp_path, out, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    message = refuse(DEFECTS, "csv", path, out)
    assert message.startswith(f"{path}:") and said in message


def test_tables_need_the_same_header(tmp_path, out):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    message = refuse(DEFECTS, "csv", [tmp_path / "a.csv", tmp_path / "b.csv"], out)
    assert message.startswith(f"{tmp_path}/b.csv:1: column 2 is named \"c\"")


@pytest.mark.parametrize("line, column", [
    ('{"a": 1,}', 9), ('{"a" 1}', 6), ('{"a": tru}', None), ('{"a": "x}', None), ('{"a": 1} x', 10),
    ('{"a": 01}', None)])
def test_invalid_json_is_located(tmp_path, out, line, column):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n\n' + line + '\n{"a": 2}\n')
    message = refuse(DEFECTS, "jsonl", path, out)
    start = f"{path}:3:" if column is None else f"{path}:3:{column}: "
    assert message.startswith(start) and "invalid JSON" in message


@pytest.mark.parametrize("line, said", [
    ("[1, 2]", "got an array, but each line must be a JSON object"),
    ('"x"', "got a string, but each line must be a JSON object"),
    ('{"a": "text"}', "a"), ('{"a": [1, null]}', "a"), ('{"a": [[1]]}', "a"),
    ('{"a": 18446744073709551615}', "a"), ('{"a": 1e39}', "a")])
def test_json_that_cannot_become_a_record_is_located(tmp_path, out, line, said):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n\n' + line + "\n")
    message = refuse(DEFECTS, "jsonl", path, out)
    assert message.startswith(f"{path}:3: ") and said in message


@pytest.mark.parametrize("kind, before", [("csv", b"a\n1\n"), ("jsonl", b'{"a": "b"}\n\n'),
                                          ("text", b"one\ntwo\n")])
def test_what_is_not_utf8_is_located(tmp_path, out, kind, before):
    path = tmp_path / "t"
    path.write_bytes(before + b'{"a": "\xff"}\nrest\n')
    message = refuse(DEFECTS, kind, path, out)
    assert message.startswith(f"{path}:3: ") and "UTF-8" in message


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
def test_an_image_is_not_text(kind, out):
    path = TESTDATA / "images/circles/0.jpg"
    assert refuse(DEFECTS, kind, path, out).startswith(f"{path}")


# ---- a name that is taken


def test_existing_dataset_is_not_replaced_unasked(out):
    convert("text", POEM, out / "x@2")
    before = harness.tree(out)
    for spec in ("x@2", "x@3", "x@*"):
        message = harness.fail(USAGE, "convert", "jsonl", EVENTS, out / spec)
        assert message.endswith("; pass --overwrite to replace it")
    assert harness.tree(out) == before


def test_shards_of_others_are_not_replaced_unasked(out):
    out.mkdir()
    (out / "x-00000-of-00007").write_bytes(b"precious")
    message = harness.fail(USAGE, "convert", "text", POEM, out / "x@2")
    assert f"{out}/x-00000-of-00007: there are shards of this name" in message
    assert harness.tree(out) == {"x-00000-of-00007": b"precious"}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_overwrite_leaves_nothing_of_the_old_dataset(out, tmp_path, count):
    convert("text", POEM, out / "x@3", "--compression", "gzip")
    convert("text", POEM, out / "other@1")
    other = {name: data for name, data in harness.tree(out).items() if "other" in name}
    convert("jsonl", EVENTS, out / f"x@{count}", "--overwrite")
    convert("jsonl", EVENTS, tmp_path / f"fresh/x@{count}")
    assert harness.tree(out) == other | harness.tree(tmp_path / "fresh")


def test_overwrite_under_another_suffix_leaves_nothing_of_the_old_dataset(out):
    """A name has one manifest, so there is one dataset of a name."""
    convert("text", POEM, out / "x@3.tfrecord")
    convert("jsonl", EVENTS, out / "x@2", "--overwrite")
    assert [path.name for path in harness.shards(out, "x")] == ["x-00000-of-00002",
                                                                "x-00001-of-00002"]
    assert verify(out)["records"] == 200


def test_overwrite_that_fails_keeps_the_old_dataset(out, tmp_path):
    convert("text", POEM, out / "x@3")
    before = harness.tree(out)
    (tmp_path / "bad.jsonl").write_text("{")
    harness.fail(DEFECTS, "convert", "jsonl", tmp_path / "bad.jsonl", out / "x@2", "--overwrite")
    assert harness.tree(out) == before
    assert verify(out / "x@3")["records"] == 61


def test_bad_image_in_overwrite_keeps_the_old_dataset(out, tmp_path):
    """The bad image is found only while records are written."""
    convert("text", POEM, out / "x@3")
    before = harness.tree(out)
    shutil.copytree(TESTDATA / "images", tmp_path / "in")
    (tmp_path / "in/triangles/z.png").write_bytes(b"?")
    harness.fail(DEFECTS, "convert", "imagefolder", tmp_path / "in", out / "x@3", "--overwrite",
                 "--no-shuffle")
    assert harness.tree(out) == before


# ---- the output cannot be written


@pytest.fixture
def big_source(tmp_path):
    path = tmp_path / "big.txt"
    path.write_bytes(b"0123456789abcdef" * 6 + b"\n")
    path.write_bytes(path.read_bytes() * 80_000)  # 8 MB
    return path


@pytest.mark.parametrize("options", [[], ["--shuffle", "1"], ["--compression", "gzip"]],
                         ids=["plain", "shuffled", "gzip"])
def test_file_size_limit_ends_convert_and_leaves_nothing(big_source, out, options):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    message = harness.fail(IO_FAILED, "convert", "text", big_source, out / "x@2", "-q", *options,
                           preexec=limit)
    assert str(out) in message and "File too large" in message and "ulimit -f" in message
    assert not out.exists() or harness.tree(out) == {}


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_full_disk_ends_convert_and_leaves_nothing(big_source, small_disk, compression):
    source = big_source
    if compression == "zlib":  # the data does not compress
        source = big_source.parent / "random.txt"
        source.write_text(os.urandom(3_000_000).hex() + "\n")
    message = harness.fail(IO_FAILED, "convert", "text", source, small_disk / "x@3", "-q",
                           "--compression", compression)
    assert f"{small_disk}/" in message and "No space left on device" in message
    assert "free some space or write elsewhere" in message
    assert harness.tree(small_disk) == {}
    convert("text", POEM, small_disk / "x@3")


def test_full_disk_ends_index_and_leaves_nothing(tf, small_disk):
    path = small_disk / "x.tfrecord"
    harness.write_by_tensorflow(tf, path, [b""] * 60_000)
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(filler, bytes(4096)):
            pass
    except OSError:
        os.close(filler)
    before = set(harness.tree(small_disk))
    assert "No space left on device" in harness.fail(IO_FAILED, "index", path)
    assert set(harness.tree(small_disk)) == before


def test_standard_output_on_a_full_disk_is_an_error(tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(harness.command("cat", TESTDATA / "tensorflow/examples.tfrecord"),
                              stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == IO_FAILED
    assert "cannot write to standard output" in done.stderr


def test_read_only_output_folder_is_named(tmp_path):
    folder = tmp_path / "sealed"
    folder.mkdir()
    if os.geteuid() == 0:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"run by root, which may write anywhere: {mounted.stderr.strip()}")
    else:
        folder.chmod(0o555)
    try:
        message = harness.fail(IO_FAILED, "convert", "text", POEM, folder / "x@2")
        assert message.startswith(f"{folder}/")
        assert "Read-only file system" in message or "Permission denied" in message
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", folder], check=True)


def test_more_shards_than_files_may_be_open(out):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    convert("text", POEM, out / "x@61", preexec=limit)
    for command in ("verify", "index", "inspect", "cat", "bench"):
        harness.succeed(command, out / "x@61", preexec=limit)


def test_output_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("?")
    result = harness.run("convert", "text", POEM, tmp_path / "file/x@2")
    assert result.status in (USAGE, IO_FAILED)
    assert f"{tmp_path}/file" in result.err


@pytest.mark.parametrize("command, flag, words", [
    ("bench", "--checksum", "{all,header,none}"),
    ("bench", "--on-damage", "{fail,replace,zero,accept}"),
    ("verify", "--level", "{headers,payload,examples,images}")])
def test_unknown_words_are_told_beside_the_known(command, flag, words):
    result = harness.run(command, "x", flag, "other")
    assert result.status == USAGE
    assert result.err == (f"shardfeed: {command}: {flag}: other not in {words}\n"
                          f"Run 'shardfeed {command} --help' for usage.\n")
