"""--like of the kinds that Python reads: kinds and compression of another dataset, and errors where the two disagree."""

import json
import sqlite3

import numpy as np
import pytest
from harness import USAGE
from tables_test import pa, pq, rows, sf, shardfeed


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A dataset that others shall be like; its column z has no values."""
    monkeypatch.chdir(tmp_path)
    columns = {"x": [0.5, 2.0], "n": ["a", "b"], "l": [[[1], [2, 3]], []], "o": [1, None], "z": pa.nulls(2, pa.int8())}
    pq.write_table(pa.table(columns), "a.parquet")
    sf.convert("parquet", "a.parquet", "m@2", compression="gzip")
    return "m@2"


GOOD = {"x": [1, 2], "n": ["a", "b"], "l": [[[1], [2, 3]], []], "o": pa.nulls(2, pa.int64())}


def convert(content, out="o/d@1", like="m@2", **options):
    pq.write_table(pa.table(content), "t.parquet")
    return sf.convert("parquet", "t.parquet", out, like=like, **options)


def kinds(spec):
    return {name: one["kind"] for name, one in sf.inspect(spec).features.items()}


@pytest.mark.parametrize("name", ["m@2", "m", ".shardfeed/m.manifest.json", "."])
def test_kinds_and_compression_are_taken_over(model, name):
    report = convert(GOOD, like=name)
    assert f"compressed with gzip, as {name} is" in report["notes"]
    assert kinds("o/d@1") == {"x": "float", "n": "bytes", "l": "int64", "l_lengths": "int64", "o": "int64"}
    with open("o/.shardfeed/d.manifest.json") as file:
        manifest = json.load(file)
    assert (manifest["made_by"]["like"], manifest["compression"]) == (name, "gzip")
    assert rows("o/d@1")[1]["x"] == [2.0]


@pytest.mark.parametrize("options", [{"shuffle": 1}, {"compression": "none"}, {"dry_run": True}, {"resume": True}])
def test_ways_to_convert(model, options):
    report = convert(GOOD, **options)
    assert report["records"] == 2
    assert any("compressed with" in note for note in report["notes"]) == (options in ({"shuffle": 1}, {"resume": True}))
    if "resume" in options:
        assert convert(GOOD, overwrite=True, **options)["records"] == 2
    if "dry_run" in options:
        assert report["features"]["x"]["kind"] == "float"


def test_tasks_see_the_whole(model):
    convert(GOOD, "o/d@2", only_shards="0", job="7")
    assert sf.convert("parquet", "t.parquet", "o/d@2", like="m@2", only_shards="1", job="7")["records"] == 1
    assert sf.commit("o/d@2", job="7")["records"] == 2 and rows("o/d@2")[1]["x"] == [2.0]
    with pytest.raises(ValueError, match='lacks the feature "n"'):
        convert({**GOOD, "n": pa.nulls(2, pa.string())}, "o/e@2", only_shards="0", job="8")


ALIKE = "convert both alike"


@pytest.mark.parametrize("changed, message", [
    ({"y": [1, 2]}, f'o/d@1: has the feature "y", which m@2 does not have; leave it out here, or {ALIKE}'),
    ({"n": None}, f'o/d@1: lacks the feature "n", which all records of m@2 have; {ALIKE}'),
    ({"n": pa.nulls(2, pa.string())}, f'o/d@1: lacks the feature "n", which all records of m@2 have; {ALIKE}'),
    ({"l": [[1], [2]]}, f'o/d@1: lacks the feature "l_lengths", which all records of m@2 have; {ALIKE}'),
    ({"l": pa.array([1, 2], pa.duration("s")), "n": pa.array([1, 2], pa.duration("s"))},
     f'o/d@1: the feature "n" is int64 here and bytes in m@2; {ALIKE}')])
def test_datasets_that_disagree(model, changed, message):
    columns = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    with pytest.raises(ValueError) as error:
        convert(columns)
    assert str(error.value) == message
    result = shardfeed("convert", "parquet", "t.parquet", "o/d@1", "--like", "m@2")
    assert (result.status, result.err) == (USAGE, f"shardfeed: {message}\n")
    assert not pa.fs.LocalFileSystem().get_file_info("o/.shardfeed/d.manifest.json").is_file


def test_dry_runs_show_what_disagrees(model):
    columns = {name: value for name, value in GOOD.items() if name != "n"}
    pq.write_table(pa.table(columns), "t.parquet")
    for out in ((), ("o/d@1",)):
        message = f'{(*out, "t.parquet")[0]}: lacks the feature "n", which all records of m@2 have; {ALIKE}'
        report = sf.convert("parquet", "t.parquet", *out, like="m@2", dry_run=True)
        assert report["notes"][0] == f"the conversion would fail: {message}" and report["records"] == 2
        result = shardfeed("convert", "parquet", "t.parquet", *out, "--like", "m@2", "--dry-run")
        assert (result.status, result.err) == (USAGE, f"shardfeed: {message}\n")
        assert b"nothing was written" in result.out
    pq.write_table(pa.table({**GOOD, "y": [1, 2]}), "t.parquet")
    report = sf.convert("parquet", "t.parquet", like="m@2", dry_run=True)
    assert report["notes"][0].startswith('the conversion would fail: t.parquet: has the feature "y", which m@2 does not have')


def test_features_without_values_may_be_anywhere(model):
    convert({**GOOD, "z": pa.nulls(2, pa.int8()), "y": pa.nulls(2, pa.int8())})
    convert(pa.table(GOOD).slice(0, 0).drop_columns("n"), "o/e@1")
    del (columns := dict(GOOD))["o"]  # not in all records of the model
    convert(columns, "o/f@1")


@pytest.mark.parametrize("changed, message", [
    ({"x": ["1.5", "none"]}, "t.parquet: row 1 (row group 0): column 'x': 'none' is not a number; it must be float, as in m@2"),
    ({"o": ["1", "1.5"]}, "t.parquet: row 1 (row group 0): column 'o': '1.5' is not an integer; it must be int64, as in m@2"),
    ({"x": [b"1", b"2"]}, "t.parquet: column 'x': values of the type binary are not a number; it must be float, as in m@2"),
    ({"n": pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())},
     "t.parquet: row 1 (row group 0): column 'n': text that is not UTF-8 (invalid start byte at byte 0); declare the kind "
     "bytes to keep it (schema)")])
def test_values_that_do_not_fit(model, changed, message):
    with pytest.raises(sf.DataLossError) as error:
        convert({**GOOD, **changed})
    assert str(error.value) == message


def test_schemas_and_names_that_do_not_go_with_it(model, tmp_path):
    (tmp_path / "s.json").write_text('{"x": "bytes"}')
    with pytest.raises(ValueError, match='^s.json: "x" is bytes, but float in m@2; leave one of schema and like out$'):
        convert(GOOD, schema="s.json")
    result = shardfeed("convert", "parquet", "t.parquet", "o/d@1", "--like", "m@2", "--schema", "s.json")
    assert result.err == 'shardfeed: s.json: "x" is bytes, but float in m@2; leave one of --schema and --like out\n'
    (tmp_path / "s.json").write_text('{"x": "float"}')
    assert convert(GOOD, schema="s.json")["records"] == 2
    with pytest.raises(ValueError, match='lacks the feature "l", which all records of m@2 have'):
        convert(GOOD, "o/e@1", columns="x,n")
    with pytest.raises(ValueError, match="t.parquet: is not a dataset with a manifest; name one as folder/name@N"):
        convert(GOOD, "o/e@1", like="t.parquet")
    with pytest.raises(OSError, match="m@3: no such shards.*did you mean m@2"):
        convert(GOOD, "o/e@1", like="m@3")
    (tmp_path / "x.manifest.json").write_text("{}")
    with pytest.raises(sf.DataLossError, match="x.manifest.json: not a manifest"):
        convert(GOOD, "o/e@1", like="x.manifest.json")
    (tmp_path / ".shardfeed/m.manifest.json").unlink()
    with pytest.raises(ValueError, match="m@2: the dataset has no manifest, so its classes and options are unknown"):
        convert(GOOD, "o/e@1")


def test_other_kinds_and_shapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=np.zeros((2, 3, 4), np.float32), y=np.arange(2))
    sf.convert("npz", "a.npz", "a@1")
    np.savez("b.npz", x=np.zeros((2, 4, 3), np.float32), y=np.arange(2.0))
    with pytest.raises(ValueError, match=r'^b@1: the feature "x" has the shape \[4, 3\] here and \[3, 4\] in a@1; convert both'):
        sf.convert("npz", "b.npz", "b@1", like="a@1")
    np.savez("b.npz", x=np.zeros((2, 3, 4)), y=np.arange(2.0))
    sf.convert("npz", "b.npz", "b@1", like="a@1")
    assert kinds("b@1") == {"x": "float", "y": "int64"}
    with sqlite3.connect("t.db") as connection:
        connection.execute("CREATE TABLE t (x REAL)")
        connection.execute("INSERT INTO t VALUES (1.5)")
    connection.close()
    with pytest.raises(ValueError, match='lacks the feature "y"'):
        sf.convert("sqlite", "t.db", "s@1", like="a@1")
