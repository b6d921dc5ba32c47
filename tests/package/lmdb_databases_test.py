"""Named databases of LMDB: which of them is read, and that those of them all are told from ordinary values."""

import struct

import pytest
from harness import USAGE
from package_data import sf
from tables_test import convert, datum, pa, rows, shardfeed, write_lmdb  # noqa: F401  (pyarrow is needed)

lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")


def write_named(path, databases, entries=None, **options):
    with lmdb.open(str(path), map_size=1 << 24, max_dbs=400) as environment:
        for name, content in databases.items():
            handle = environment.open_db(name, **options)
            with environment.begin(db=handle, write=True) as transaction:
                for key, value in content:
                    transaction.put(key, value)
        with environment.begin(write=True) as transaction:
            for key, value in (entries or {}).items():
                transaction.put(key, value)


def header(root):
    """What LMDB holds of a named database with a root."""
    return struct.pack("=IHHQQQQQ", 0, 0, 1, 0, 1, 0, 3, root)


def test_named_databases_are_read_by_their_names(tmp_path):
    images = [(b"%03d" % i, b"image %d" % i) for i in range(100)]
    write_named(tmp_path / "db", {b"images": [*images, (b"__len__", b"100")], b"labels": [(b"000", b"7")], b"none": []})
    options = ["--database", "images", "--format", "raw"]
    assert convert("lmdb", tmp_path / "db", tmp_path / "out/d@3", *options)["notes"] == [
        "__len__ hold no records and were left out"]
    assert rows(tmp_path / "out/d@3") == [{"key": [key], "value": [value]} for key, value in images]
    assert '"--database images --format raw"' in (tmp_path / "out/.shardfeed/d.manifest.json").read_text()
    assert sf.convert("lmdb", tmp_path / "db", tmp_path / "out/l@1", database="labels")["records"] == 1
    assert sf.convert("lmdb", tmp_path / "db", tmp_path / "out/n@1", database="none")["records"] == 0


def test_datums_and_duplicates_of_named_databases(tmp_path):
    write_named(tmp_path / "db", {b"caffe": [(b"0", datum(1, 1, 2, b"ab", 5))]})
    convert("lmdb", tmp_path / "db", tmp_path / "out/c@1", "--database", "caffe")
    assert rows(tmp_path / "out/c@1")[0]["image/raw"] == [b"ab"]
    write_named(tmp_path / "twice", {b"d": [(b"k", b"1"), (b"k", b"2"), (b"m", b"3")]}, dupsort=True)
    convert("lmdb", tmp_path / "twice", tmp_path / "out/t@1", "--database", "d", "--format", "raw")
    assert [row["value"] for row in rows(tmp_path / "out/t@1")] == [[b"1"], [b"2"], [b"3"]]


@pytest.mark.parametrize("entries", [{}, {b"a": b"ordinary", b"z": bytes(48)}])
def test_headers_of_named_databases_are_no_records(tmp_path, entries):
    write_named(tmp_path / "db", {b"images": [(b"0", b"1")], "größe".encode(): [], b"\xff": []}, entries)
    for more in ([], ["--dry-run"], ["--format", "raw"]):
        result = shardfeed("convert", "lmdb", "db", "out/d@1", *more, cwd=tmp_path)
        assert (result.status, result.err) == (
            USAGE, "shardfeed: db: its records are in named databases: 'größe', 'images', '\\\\xff'; pass --database NAME "
                   "to read one of them\n")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=r"named databases: .*'images'.*; pass database=NAME to read one of them$"):
        sf.convert("lmdb", tmp_path / "db", tmp_path / "out/d@1")


def test_more_named_databases_than_are_looked_for(tmp_path):
    write_named(tmp_path / "db", {b"%03d" % i: [] for i in range(300)})
    with pytest.raises(ValueError, match="named databases: '000', .*, '019', and 236 more; pass database=NAME"):
        sf.convert("lmdb", tmp_path / "db", tmp_path / "out/d@1")
    assert sf.convert("lmdb", tmp_path / "db", tmp_path / "out/d@1", database="299")["records"] == 0


def test_values_that_look_like_headers_are_records(tmp_path):
    entries = {b"a": bytes(48), b"b": header(2), b"c": header((1 << 64) - 1), b"d\0e": header(2), b"e": b"x" * 48,
               b"f": header(10**9)}
    write_lmdb(tmp_path / "db", entries)
    convert("lmdb", tmp_path / "db", tmp_path / "out/d@1", "--format", "raw")
    assert rows(tmp_path / "out/d@1") == [{"key": [key], "value": [value]} for key, value in entries.items()]


def test_names_that_do_not_exist(tmp_path):
    write_named(tmp_path / "db", {b"images": []}, {b"a": b"1", b"images\0x": bytes(48)})
    write_lmdb(tmp_path / "plain", {b"a": bytes(48)})
    for source, name, there in [("db", "image", "the databases are 'images'"), ("db", "a", "the databases are 'images'"),
                                ("db", "", "the databases are 'images'"), ("db", "x" * 600, "the databases are 'images'"),
                                ("plain", "a", "it has no named databases")]:
        result = shardfeed("convert", "lmdb", source, "out/d@1", "--database", name, cwd=tmp_path)
        assert (result.status, result.err) == (USAGE, f"shardfeed: {source}: database {name!r} does not exist; {there}\n")
    with pytest.raises(TypeError, match="npz: there is no argument 'database'"):
        sf.convert("npz", tmp_path / "x.npz", tmp_path / "out/d@1", database="a")
