"""Commands as functions: what they return, and errors in the words of Python."""

import os
import re
import subprocess
import sys

import harness
import numpy as np
import pytest
from harness import USAGE
from package_data import run_python, sf

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    return tmp_path


@pytest.mark.parametrize("kind, options, message", [
    ("csv", {"shuffle": "x"}, "^csv: shuffle: 'x' is not an integer of at least 0$"),
    ("parquet", {"shuffle": "x"}, "^parquet: shuffle: 'x' is not an integer of at least 0$"),
    ("parquet", {"overwrite": "yes"}, "^parquet: overwrite: it takes no value, and got 'yes'$"),
    ("parquet", {"columns": "-a b"}, "column '-a b' does not exist"),
    ("csv", {"columns": "-a"}, 'column "-a" does not exist'),
    ("csv", {"job": "j"}, "job: a task of a job needs the numbers of the shards that it writes, only_shards A-B"),
    ("csv", {"max_skipped": "5%"}, "max_skipped: nothing is skipped without on_error='skip'"),
    ("csv", {"limit": True}, "csv: limit: 'True' is not an integer of at least 0"),
    ("csv", {"delimiter": True}, "delimiter True: expected one ASCII character"),
    ("csv", {"columns": True}, 'column "True" does not exist; the columns are "a", "b"'),
    ("csv", {"na": ["?", "x,y"]}, "^na: 'x,y' has a comma, which divides values; give each of them by itself"),
    ("csv", {"split": {"a,b": 0.5, "c": 0.5}}, "^split: 'a,b=0.5' has a comma, which divides values"),
    ("csv", {"split": {"a": 0.5}}, "a=0.5: the shares add up to 0.5; they must add up to 1"),
    ("parquet", {"limit": True}, "parquet: limit: expected a value"),
    ("parquet", {"shard_size": "1MB"}, "pass it or shard_size, not both")])
def test_errors_name_arguments_and_not_flags(table, kind, options, message):
    with pytest.raises(ValueError, match=message):
        sf.convert(kind, table / f"t.{kind}", table / "out/t@2", **options)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("options, message", [
    ({"shufle": 1}, "there is no argument 'shufle'; did you mean 'shuffle'?"),
    ({"overwrit": True}, "there is no argument 'overwrit'; did you mean 'overwrite'?"),
    *(({name: 1}, f"there is no argument '{name}'; the arguments are the options that 'shardfeed convert KIND --help' lists")
      for name in ("foo", "help", "version", "two words", "_foo"))])
def test_arguments_that_do_not_exist(table, kind, options, message):
    with pytest.raises(TypeError, match="^" + re.escape(f"{kind}: {message}".replace("KIND", kind)) + "$"):
        sf.convert(kind, table / f"t.{kind}", table / "out/t@2", **options)


@pytest.mark.parametrize("split", [{"a": 1}, "a=1"])
def test_arguments_that_another_kind_has(table, split):
    with pytest.raises(TypeError, match="this kind has no split; .*shardfeed convert tfrecord OUT@N OTHER@N --split"):
        sf.convert("parquet", table / "t.parquet", table / "out/t@2", split=split)


def test_paths_are_no_options(table, monkeypatch):
    monkeypatch.chdir(table)
    for kind in ("csv", "parquet"):
        os.link(f"t.{kind}", f"--help.{kind}")
        assert sf.convert(kind, f"--help.{kind}", f"--out/{kind}@1")["records"] == 2
        with pytest.raises(ValueError, match=f"^{kind}: standard input can only be read by the command line; name"):
            sf.convert(kind, "-", f"--out/{kind}@1")
    assert sf.verify("--out/csv@1") and sf.inspect("--out/csv@1").records == 2
    assert not sf.diff("--out/csv@1", "--out/csv@1").schema
    assert sf.index("--out/csv@1", lengths=["a"])["lengths"]
    for function in (sf.verify, sf.index, sf.inspect):
        with pytest.raises(ValueError, match=f"^{function.__name__}: spec must be a path or a list of these, not an empty"):
            function([])
        with pytest.raises(OSError, match="no such file or folder"):
            function("--help")
    with pytest.raises(ValueError, match="^convert: source must be a path or a list of these, not an empty list$"):
        sf.convert("csv", [], "out/t@1")
    with pytest.raises(ValueError, match="^convert: there is no kind of source '--help'"):
        sf.convert("--help", "t.csv", "out/t@1")
    with pytest.raises(ValueError, match=r"^convert: there is no kind of source 'cvs'[^\n]*; did you mean 'csv'\?$"):
        sf.convert("cvs", "t.csv", "out/t@1")


def test_names_of_files_stay_as_they_are(table):
    for name in ("x --no-header y.csv", "it's (--no-header).csv"):
        with pytest.raises((OSError, ValueError), match=re.escape(str(table / name))):
            sf.convert("csv", table / name, table / "out/t@2")


def test_dry_runs_need_no_name(table):
    for kind in ("csv", "parquet"):
        assert sf.convert(kind, table / f"t.{kind}", dry_run=True)["dry_run"]
        with pytest.raises(TypeError, match="the argument 'out' is missing; pass dry_run=True to write nothing"):
            sf.convert(kind, table / f"t.{kind}")


def test_dry_runs_tell_what_would_fail(table):
    for kind in ("csv", "parquet"):
        sf.convert(kind, table / f"t.{kind}", table / f"{kind}@1")
        told = sf.convert(kind, table / f"t.{kind}", table / f"{kind}@1", dry_run=True)
        assert told["notes"][0].startswith("the conversion would fail: ")
        told = sf.convert(kind, table / f"t.{kind}", table / f"{kind}@1", dry_run=True, overwrite=True)
        assert not any("would fail" in note for note in told["notes"])
        status, out, error = package("convert", kind, table / f"t.{kind}", table / f"{kind}@1", "--dry-run", "-q")
        assert (status, out) == (USAGE, "") and error.endswith("pass --overwrite to replace it\n"), error


def test_a_schema_is_a_file(table):
    with pytest.raises(TypeError, match="schema must be the path of a JSON file, not a dict"):
        sf.convert("csv", table / "t.csv", table / "out/t@2", schema={"a": "float"})


@pytest.mark.parametrize("options, message", [
    ({"class_map": {"a": 1}}, "class_map must be the path of a JSON file, not a dict; write it with json.dump"),
    ({"limit": {"a": 1}}, "limit must be one value, not a dict"),
    ({"split": {"train": "x"}}, "split must be a dict {name: share}, such as {'train': 0.9, 'test': 0.1}, not {'train': 'x'}"),
    ({"split": {"train": True}}, "split must be a dict {name: share}"), ({"split": {1: 0.5}}, "split must be a dict {name: share}")])
def test_arguments_that_are_no_dicts(table, options, message):
    with pytest.raises(TypeError, match="^" + re.escape(message)):
        sf.convert("csv", table / "t.csv", table / "out/t@2", **options)


def test_splits_are_shares_by_name(table):
    (table / "n.csv").write_text("n\n" + "".join(f"{i}\n" for i in range(200)))
    wanted = sf.convert("csv", table / "n.csv", table / "text/t@4", split="train=0.75,test=0.25")
    for i, split in enumerate(({"train": 0.75, "test": np.float64(0.25)}, ["train=0.75", "test=0.25"])):
        report = sf.convert("csv", table / "n.csv", table / f"{i}/t@4", split=split)
        assert [one["records"] for one in report["datasets"]] == [one["records"] for one in wanted["datasets"]]
        assert sorted(path.name for path in (table / f"{i}").glob("t-*")) == sorted(
            path.name for path in (table / "text").glob("t-*"))


def test_lists_of_texts_for_missing_values(table):
    (table / "n.csv").write_text("n\n1\n?\nx\n4\n")
    for i, na in enumerate((["?", "x"], ("?", "x"), "?,x")):
        sf.convert("csv", table / "n.csv", table / f"n{i}@1", na=na)
        assert [row["n"] for row in sf.read(table / f"n{i}@1").parse({"n": sf.int64(default=-1)})] == [1, -1, -1, 4]


def test_flags_are_true(table):
    flags = {"header": True, "no_comments": True, "trim": True, "dedup": True, "no_sync": True, "overwrite": True,
             "no_shuffle": True, "no_quotes": True, "resume": False}
    for _ in range(2):
        assert sf.convert("csv", table / "t.csv", table / "f@1", **flags)["records"] == 2
    assert sf.convert("csv", table / "t.csv", table / "g@1", resume=True, no_header=True)["records"] == 3
    assert sf.convert("csv", table / "t.csv", table / "g@1", resume=True, no_header=True)["datasets_complete"] == 1


def test_verify_reports_what_cannot_be_read(tmp_path):
    assert run_python("""
import sys, shardfeed as sf
spec = sys.argv[1]
with sf.write(spec, compression="gzip") as writer:
    writer.write({"x": b"a" * 5_000_000})
sf.set_max_record_bytes(1000)
report = sf.verify(spec)
assert not report and [d.kind for d in report.defects] == ["unreadable"], report
try:
    report.raise_if_damaged()
except OSError as error:
    print("max_record_bytes allows at most 1000" in str(error))
""", tmp_path / "a@1") == "True"


def package(*arguments):
    done = subprocess.run([sys.executable, "-m", "shardfeed", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(harness.REPOSITORY / "python")})
    return done.returncode, done.stdout, done.stderr


def test_common_options_go_with_kinds_that_python_reads(table):
    for i, arguments in enumerate((["--color", "never", "convert", "parquet"], ["convert", "parquet", "--color", "always"],
                                   ["convert", "parquet", "--max-record-bytes", "1GiB"])):
        status, _, error = package(*arguments, table / "t.parquet", table / f"out/t{i}@1")
        assert status == 0, error


def test_typos_are_corrected(table):
    status, _, error = package("convert", "parqet", table / "t.parquet", table / "out/t@1")
    assert status == USAGE and "or with the Python package parquet, " in error and "did you mean 'parquet'?" in error
    status, _, error = package("convert", "parquet", table / "t.parquet", table / "out/t@1", "--colums", "a")
    assert status == USAGE and "there is no option --colums; did you mean '--columns'?" in error
