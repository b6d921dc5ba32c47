"""Wrong command lines: the message says what was given, what was expected, and which help has more."""

import os

import harness
import pytest


@pytest.mark.parametrize(("arguments", "said", "help_of"), [
    (["bench", "x", "--shuffle", "y"],
     "bench: --shuffle 'y': expected an integer of at least 0, as in --shuffle 7; if 'y' is not its value, place it "
     "before --shuffle", "bench"),
    (["bench", "x", "--epochs"], "bench: --epochs: expected an integer", "bench"),
    (["bench", "x", "--foo"], "bench: there is no option --foo", "bench"),
    (["bench"], "bench: DATASET is required", "bench"),
    (["verify", "x", "-j", "0"], "verify: --jobs: '0' is not an integer of at least 1", "verify"),
    (["verify", "x", "-j", "9999999999"], "verify: --jobs: '9999999999' is greater than 2147483647", "verify"),
    (["bench", "x", "--shuffle", "-1"], "bench: --shuffle: '-1' is not an integer of at least 0", "bench"),
    (["plan", "x", "--shuffle", "18446744073709551616"],
     "plan: --shuffle: '18446744073709551616' is greater than 18446744073709551615", "plan"),
    (["plan", "x", "--price", "nan"], "plan: --price: 'nan' is not a number of at least 0", "plan"),
    (["diff", "x", "y", "--max-drift", "nan"], "diff: --max-drift: 'nan' is not a number from 0 to 1", "diff"),
    (["verify", "x", "--level", "foo"], "verify: --level: foo not in {headers,", "verify"),
    (["foo"], "there is no command 'foo'; expected one of convert, verify,", ""),
    ([], "expected a command: convert, verify,", ""),
    (["convert", "foo"], "convert: there is no kind of source 'foo'; expected one of imagefolder,", "convert"),
    (["convert", "parqet", "t/t.parquet", "o/p@1"],
     "convert: there is no kind of source 'parqet'; expected one of imagefolder,", "convert"),
    (["convert"], "convert: expected a kind of source: imagefolder,", "convert"),
    (["-q", "verify", "x", "-z"], "verify: there is no option -z", "verify"),
    (["convert", "--delimiter", ";", "csv", "a", "b@1"],
     "csv: there is no option --delimiter before 'csv'; place it after 'csv'", "convert csv"),
    (["convrt", "csv", "a", "b@1"], "there is no command 'convrt'; expected one of", ""),
    (["convert", "text", "a", "b@1", "--level"], "text: --level: expected an integer, as in --level 7",
     "convert text"),
])
def test_wrong_use_is_explained(arguments, said, help_of):
    result = harness.run(*arguments)
    assert result.status == harness.USAGE
    first, second = result.err.splitlines()
    assert first.startswith(f"shardfeed: {said}"), first
    assert second == f"Run '{f'shardfeed {help_of}'.strip()} --help' for usage."


@pytest.mark.parametrize(("arguments", "meant"), [
    (["convrt", "csv", "a", "b@1"], "convert"),
    (["convert", "cvs", "a", "b@1"], "csv"),
    (["convert", "parqet", "a", "b@1"], "parquet"),
    (["convert", "image-folder", "a", "b@1"], "imagefolder"),
    (["bench", "x", "--shufle", "1"], "--shuffle"),
    (["convert", "csv", "a", "b@1", "--compresion=gzip"], "--compression"),
    (["convert", "csv", "a", "b@1", "--compression", "gzpi"], "gzip"),
    (["convert", "csv", "a", "b@1", "--on-error", "skpi"], "skip"),
    (["verify", "x", "--level", "Images"], "images"),
    (["--quite", "verify", "x"], "--quiet"),
])
def test_typos_are_corrected(arguments, meant):
    result = harness.run(*arguments)
    assert result.status == harness.USAGE
    assert result.err.splitlines()[0].endswith(f"; did you mean '{meant}'?"), result.err


def test_typos_of_names_in_data_are_corrected(tmp_path):
    (tmp_path / "t.csv").write_text("name,age\nx,1\n")
    (tmp_path / "t.jsonl").write_text('{"name": "x", "age": 1}\n')
    (tmp_path / "schema.json").write_text('{"agee": "int64"}')
    for kind in ("csv", "jsonl"):
        said = harness.fail(harness.USAGE, "convert", kind, tmp_path / f"t.{kind}", tmp_path / "x@1",
                            "--columns", "nmae")
        assert said.endswith("; did you mean 'name'?"), said
        harness.convert(kind, tmp_path / f"t.{kind}", tmp_path / f"{kind}@1")
        told = harness.succeed("convert", kind, tmp_path / f"t.{kind}", tmp_path / f"{kind}-2@1", "--schema",
                               tmp_path / "schema.json").out.decode()
        assert "; did you mean 'age'?\n" in told, told
    harness.convert("csv", tmp_path / "t.csv", tmp_path / "d/train@1")
    for arguments in (["inspect", tmp_path / "d/trian@1"], ["verify", tmp_path / "d/tarin@*"]):
        assert "; did you mean 'train'?" in harness.fail(harness.IO_FAILED, *arguments)
    assert harness.fail(harness.USAGE, "inspect", tmp_path / "d/train@1", "--feature", "nam").endswith(
        "; did you mean 'name'?")
    assert harness.fail(harness.USAGE, "bench", tmp_path / "d/train@1", "--image", "32", "--image-feature",
                        "naem").endswith("; did you mean 'name'?")


def test_common_options_stand_before_the_command_or_behind_it(tmp_path):
    harness.convert("jsonl", TEXT, tmp_path / "d@2")
    dataset = tmp_path / "d@2"
    behind = harness.succeed("verify", dataset, "-q")
    before = harness.succeed("-q", "verify", dataset)
    assert behind.out == before.out == b""
    assert harness.succeed("--json", "-j", "1", "verify", dataset).json["num_defects"] == 0
    assert harness.succeed("convert", "-q", "--json", "jsonl", TEXT, tmp_path / "e@1").json["shards"] == 1
    assert harness.succeed("--json", "cat", dataset, "-r", "0").lines
    result = harness.run("-q", "read", dataset)
    assert result.status == 0 and "'read' is now called 'bench'" in result.err
    wrong = harness.run("-j", "0", "verify", dataset)
    assert wrong.status == harness.USAGE and "--jobs: '0' is not an integer of at least 1" in wrong.err


TEXT = harness.TESTDATA / "tables/events.jsonl"


@pytest.mark.parametrize("place", ["ftp://b/x", "hdfs://host:9000/x"])
def test_places_that_are_not_local_are_refused(place, tmp_path):
    harness.convert("jsonl", TEXT, tmp_path / "in/d@2")
    dataset = tmp_path / "in/d@2"
    scheme = place.split(":")[0]
    for command in [["convert", "jsonl", place, "x@1"], ["bench", dataset, "--parse", "--trace", place]]:
        assert f"{scheme}:// is not supported here, only local paths are" in \
            harness.fail(harness.USAGE, *command, cwd=tmp_path), command
    known = (f"{scheme}:// is not supported; datasets are read from paths, s3://, gs://, az://, abfss://, http:// "
             "and https://, and written to paths, s3://, gs://, az:// and abfss://")
    for command in [["convert", "jsonl", TEXT, f"{place}@1"],
                    ["reshard", dataset, f"{place}@1"],
                    ["merge", dataset, dataset, f"{place}@1"],
                    ["sample", dataset, f"{place}@1", "--count", "2"],
                    ["split", dataset, place, "--shares", "a=0.5,b=0.5"],
                    ["repair", dataset, f"{place}@1"], ["clean", place], ["clean", f"{place}/"],
                    ["reshard", f"{place}@1", "x@1"], ["verify", f"{place}@1"],
                    ["index", f"{place}@1", "--export", "dali"], ["bench", f"{place}@1"],
                    ["inspect", place], ["cat", f"{place}-*"]]:
        assert known in harness.fail(harness.USAGE, *command, cwd=tmp_path), command
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize(("place", "said"), [
    ("-", "a dataset consists of several files and cannot be written to standard output"),
    ("/dev/stdout", "a dataset consists of several files, but /dev is not a folder on a disk"),
    ("/dev/fd/1", "a dataset consists of several files, but /dev/fd is not a folder on a disk"),
    ("/proc/self/fd/x@1", "a dataset consists of several files, but /proc/self/fd is not a folder on a disk"),
    ("out/-@1", "a dataset's name must not begin with '-'"),
])
def test_outputs_that_are_no_folder_are_refused(place, said, tmp_path):
    harness.convert("jsonl", TEXT, tmp_path / "in/d@2")
    for command in [["convert", "jsonl", TEXT], ["reshard", tmp_path / "in/d@2"],
                    ["merge", tmp_path / "in/d@2"]]:
        message = harness.fail(harness.USAGE, *command, place, cwd=tmp_path)
        assert message.startswith(f"{place}: {said}"), command
    assert os.listdir(tmp_path) == ["in"]


def test_single_files_do_not_go_to_standard_output(tmp_path):
    harness.convert("jsonl", TEXT, tmp_path / "in/d@2")
    assert "name a file" in harness.fail(harness.USAGE, "bench", tmp_path / "in/d@2", "--parse",
                                      "--trace", "-", cwd=tmp_path)
    assert os.listdir(tmp_path) == ["in"]


def test_fifo_is_not_written_to(tmp_path):
    harness.convert("jsonl", TEXT, tmp_path / "in/d@2")
    fifo = tmp_path / "trace"
    os.mkfifo(fifo)
    assert f"{fifo}: is a FIFO, not a file" in harness.fail(
        harness.USAGE, "bench", tmp_path / "in/d@2", "--parse", "--trace", fifo, "-q", timeout=20)


def test_names_of_files_do_not_begin_lines_or_steer_the_terminal(tmp_path):
    said = harness.fail(harness.IO_FAILED, "cat", tmp_path / "a\nb\x1b(B@2")
    assert r"a\nb\x1b(B@2: no such shards" in said
    harness.convert("text", TEXT, tmp_path / "a\nb@2")
    assert harness.succeed("verify", tmp_path / "a\nb@2").out.count(b"\n") == 1
    shard = tmp_path / "a\nb-00000-of-00002"
    shard.write_bytes(shard.read_bytes()[:-1])
    lines = harness.run("verify", tmp_path / "a\nb@2", "-q").out.decode().splitlines()
    assert lines
    assert all(r"a\nb" in line for line in lines)
