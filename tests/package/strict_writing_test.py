"""Writers store values exactly or refuse them, and parse() restores what was written."""

import array
import collections
import gc
import json
import pickle
import re
import threading
import warnings

import numpy as np
import pytest
from package_data import sf


def written(tmp_path, *records, features=None):
    """Writes the records to a dataset of one shard, and returns its name."""
    name = str(tmp_path / "a@1")
    with sf.write(name, overwrite=True, features=features) as writer:
        for record in records:
            writer.write(record)
    return name


def manifest(tmp_path):
    return json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["features"]


def refuses(tmp_path, error, message, *records, features=None):
    """The last record is refused with the message, names record and feature, and is not written."""
    writer = sf.write(tmp_path / "r@1", overwrite=True, features=features)
    try:
        for record in records[:-1]:
            writer.write(record)
        with pytest.raises(error) as info:
            writer.write(records[-1])
        assert message in str(info.value), str(info.value)
        assert str(info.value).startswith(f"record {len(records) - 1}: "), str(info.value)
        assert writer.records_written == len(records) - 1
        if len(records) > 1:
            writer.write(records[0])  # the writer continues
    finally:
        writer.abort()


# ---- Values


def test_bytes_of_all_kinds_are_bytes(tmp_path):
    name = written(tmp_path, {
        "bytes": b"ab", "bytearray": bytearray(b"ab"), "view": memoryview(b"ab"),
        "part": memoryview(b"xaxb")[1::2], "list": [bytearray(b"a"), memoryview(b"b"), "c"],
        "numpy": np.bytes_(b"ab"), "ints": array.array("i", [1, 2]), "int view": memoryview(array.array("i", [1, 2]))})
    (row,) = sf.read(name).parse()
    for column in ("bytes", "bytearray", "view", "part", "numpy"):
        assert row[column] == b"ab", column
    assert list(row["list"]) == [b"a", b"b", b"c"]
    assert row["ints"].tolist() == row["int view"].tolist() == [1, 2]


VALUES = [
    (np.zeros(2, [("a", int), ("b", float)]), TypeError, "an array of structures; write each field"),
    (np.zeros((), [("a", int)])[()], TypeError, "an array of structures; write each field"),
    (np.zeros(2, complex), TypeError, "complex numbers; write x.real"),
    (np.complex64(1), TypeError, "complex numbers; write x.real"),
    (1j, TypeError, "a value of type complex"),
    (np.array([object(), None]), TypeError, "a value of type object"),
    (np.array([{"a": 1}]), TypeError, "a value of type dict"),
    (np.array(["2020-01-01"], "datetime64[ns]"), TypeError, "dates or times; choose a unit"),
    (np.datetime64("2020-01-01", "ns"), TypeError, "dates or times; choose a unit"),
    (np.array([5], "timedelta64[s]"), TypeError, "dates or times; choose a unit"),
    (np.zeros(2, np.longdouble), TypeError, "floats of more than 64 bits"),
    (np.ma.array([1, 2], mask=[0, 1]), TypeError, "an array with masked values, which lists of a record have no place for; fill"),
    (1e300, ValueError, "1e+300 is out of the range of float32"),
    (np.array([1.0, -1e300]), ValueError, "-1e+300 is out of the range of float32"),
    ([1 << 63], ValueError, "9223372036854775808 is out of the range of int64"),
    (1 << 100_000, ValueError, "an integer of 100001 bits is out of the range of int64"),
    (np.array([1 << 63], np.uint64), ValueError, "9223372036854775808 is out of the range of int64"),
    ("a\udc80", ValueError, "the str has half of a surrogate pair"),
    (["a", "\ud800"], ValueError, "the str has half of a surrogate pair"),
    (np.array(["\ud800"]), ValueError, "the str has half of a surrogate pair"),
    ([1, None], TypeError, "None in a list"),
    ([[1, 2], [3]], ValueError, "lists of different lengths within a list"),
    ([1, [2]], ValueError, "lists of different lengths within a list"),
    ([[[]], [1]], ValueError, "lists of different lengths within a list"),
    ([b"a", 1], TypeError, "bytes and numbers in one list"),
    ([1.5, b"a"], TypeError, "bytes and numbers in one list"),
    ({1, 2}, TypeError, "a value of type set"),
]


@pytest.mark.parametrize("value, error, message", VALUES, ids=range(len(VALUES)))
def test_values_that_features_cannot_hold_name_record_and_feature(tmp_path, value, error, message):
    refuses(tmp_path, error, f"feature 'x': {message}", {"y": 1}, {"y": 2, "x": value})


def test_lists_that_contain_themselves_are_refused(tmp_path):
    itself = []
    itself.append(itself)
    refuses(tmp_path, TypeError, "feature 'x': more than 64 lists in lists", {"x": itself})


def test_names_that_features_cannot_have(tmp_path):
    refuses(tmp_path, TypeError, "the name of a feature is a str of valid Unicode, not 5", {5: 1})
    refuses(tmp_path, ValueError, r"valid Unicode, not '\udc80'", {"\udc80": 1})


def test_arrays_without_masked_values_are_arrays(tmp_path):
    (row,) = sf.read(written(tmp_path, {"x": np.ma.array([1, 2], mask=[0, 0])})).parse()
    assert row["x"].tolist() == [1, 2]
    with sf.write(tmp_path / "b@1") as writer:
        writer.write_batch({"x": np.ma.array([1, 2], mask=[0, 0])})
        with pytest.raises(TypeError, match="feature 'x': a masked array's mask would be lost; fill it"):
            writer.write_batch({"x": np.ma.array([1, 2], mask=[0, 1])})


def test_none_is_a_record_without_the_feature(tmp_path):
    name = written(tmp_path, {"x": 1, "y": None}, {"x": None, "y": 2.0})
    found = manifest(tmp_path)
    assert found["x"]["records"] == found["y"]["records"] == 1
    assert [r["x"].tolist() for r in sf.read(name).parse()] == [[1], []]


# ---- Declared features

SPEC = {"m": sf.fixed((2, 3)), "u": sf.uint8}
GOOD = {"m": np.zeros((2, 3)), "u": 255}


@pytest.mark.parametrize("change, error, message", [
    ({"m": np.zeros(5)}, ValueError, "feature 'm': the shape [5] where the shape [2, 3] is declared"),
    ({"m": np.zeros(6)}, ValueError, "feature 'm': the shape [6] where the shape [2, 3] is declared"),
    ({"m": [[1, 2], [3, 4], [5, 6]]}, ValueError, "the shape [3, 2] where the shape [2, 3] is declared"),
    ({"m": 1.0}, ValueError, "a single value where the shape [2, 3] is declared"),
    ({"u": 300}, ValueError, "feature 'u': 300 is out of the range of uint8"),
    ({"u": -1}, ValueError, "feature 'u': -1 is out of the range of uint8"),
    ({"u": [1]}, ValueError, "feature 'u': the shape [1] where a single value is declared"),
    ({"u": 0.5}, TypeError, "feature 'u': floats, where integers are declared"),
    ({"u": b"1"}, TypeError, "feature 'u': bytes, where integers are declared"),
    ({"u": None}, ValueError, "feature 'u' is missing: it is declared without a default"),
    ({"other": 1}, ValueError, "feature 'other': it is not declared: add it"),
])
def test_declared_features_are_checked(tmp_path, change, error, message):
    refuses(tmp_path, error, message, GOOD, {**GOOD, **change}, features=SPEC)


def test_declared_shapes_are_restored(tmp_path):
    records = [{"m": [[1, 2, 3], [4, 5, 6]], "u": np.int64(200)}, {"m": np.ones((2, 3), np.float16), "u": 7}]
    ds = sf.read(written(tmp_path, *records, features=SPEC)).parse()
    assert ds.element_spec == {"m": ("float32", (2, 3), False), "u": ("uint8", (), False)}
    first, second = ds
    assert first["m"].tolist() == records[0]["m"] and first["u"] == 200 and second["u"] == 7


@pytest.mark.parametrize("dtype, least, most", [
    (sf.uint8, 0, 255), (sf.int8, -128, 127), (sf.uint16, 0, 65535), (sf.int16, -32768, 32767),
    (sf.int32, -2 ** 31, 2 ** 31 - 1), (bool, 0, 255), (sf.int64, -2 ** 63, 2 ** 63 - 1)])
def test_ranges_of_declared_integers(tmp_path, dtype, least, most):
    features = {"x": sf.ragged(dtype)}
    assert [r["x"].tolist() for r in sf.read(written(tmp_path, {"x": [least, most]}, features=features)).parse()] == [
        [least, most]]
    for value in (least - 1, most + 1):
        refuses(tmp_path, ValueError, f"feature 'x': {value} is out of the range of", {"x": [value]}, features=features)
    if most < 2 ** 62:
        with sf.write(tmp_path / "b@1", features={"x": dtype}) as writer:
            writer.write_batch({"x": np.array([least, most])})
            with pytest.raises(ValueError, match=f"feature 'x': row 1: {most + 1} is out of the range"):
                writer.write_batch({"x": np.array([least, most + 1])})


def test_declared_floats(tmp_path):
    features = {"x": sf.float32, "h": sf.float16, "d": np.float64}
    name = written(tmp_path, {"x": 1 << 24, "h": 1, "d": 0.1}, features=features)
    assert sf.read(name).parse().element_spec == {
        "x": ("float32", (), False), "h": ("float16", (), False), "d": ("float64", (), False)}
    assert manifest(tmp_path)["d"]["dtype"] == "float64"
    good = {"x": 0, "h": 0, "d": 0}
    refuses(tmp_path, ValueError, "feature 'x': float32 cannot hold the integer 16777217",
            {**good, "x": (1 << 24) + 1}, features=features)
    refuses(tmp_path, ValueError, "feature 'h': 65536 is out of the range of float16", {**good, "h": 65536.0},
            features=features)
    refuses(tmp_path, ValueError, "feature 'd': 1e+300 is out of the range of float32", {**good, "d": 1e300},
            features=features)


def test_declared_features_that_may_be_missing(tmp_path):
    features = {"a": sf.var(sf.int64), "b": sf.int64(default=3), "c": sf.ragged(sf.float32, 4), "d": sf.sparse(sf.bytes)}
    name = written(tmp_path, {}, {"a": [], "b": None, "c": [], "d": []},
                   {"a": [1], "b": 2, "c": np.ones((2, 4)), "d": ["x"]}, features=features)
    rows = list(sf.read(name).parse())
    assert [len(r["a"]) for r in rows] == [0, 0, 1] and rows[2]["c"].shape == (2, 4) and rows[0]["c"].shape == (0, 4)
    refuses(tmp_path, ValueError, "the shape [2, 3] where the shape [any length, 4] is declared",
            {"c": np.ones((2, 3))}, features=features)
    refuses(tmp_path, ValueError, "the shape [1, 1] where a list is declared", {"a": [[1]]}, features=features)


def test_declared_raw_features(tmp_path):
    features = {"x": sf.fixed(3, np.int16, raw=True)}
    name = written(tmp_path, {"x": np.arange(3, dtype=np.int16).tobytes()}, features=features)
    (row,) = sf.read(name).parse(features)
    assert row["x"].tolist() == [0, 1, 2]
    refuses(tmp_path, ValueError, "4 bytes, where the 6 bytes of the shape [3] of int16 are declared", {"x": b"1234"},
            features=features)


def test_declared_columns_are_checked(tmp_path):
    with sf.write(tmp_path / "a@1", features={**SPEC, "l": sf.var(sf.int64)}) as writer:
        good = {"m": np.zeros((2, 2, 3), np.float32), "u": np.array([1, 2])}
        writer.write_batch(good)
        writer.write_batch({**good, "l": sf.Ragged(np.array([1, 2, 3]), np.array([0, 1, 3]))})
        for change, message in [
                ({"m": np.zeros((2, 6), np.float32)}, r"feature 'm': the shape \[6\] where the shape \[2, 3\]"),
                ({"u": np.array([1, 300])}, "feature 'u': row 1: 300 is out of the range of uint8"),
                ({"other": np.zeros(2)}, "feature 'other': it is not declared"),
                ({"l": np.zeros(2, int)}, "feature 'l': a single value where a list is declared")]:
            with pytest.raises(ValueError, match=message):
                writer.write_batch({**good, **change})
        with pytest.raises(TypeError, match="feature 'u': floats, where integers are declared"):
            writer.write_batch({**good, "u": np.array([0.5, 1])})
        with pytest.raises(ValueError, match="feature 'u' is missing"):
            writer.write_batch({"m": good["m"]})
    assert writer.report["records"] == 4


def test_declared_columns_of_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow")
    with sf.write(tmp_path / "a@1", features={"x": sf.uint8, "y": sf.fixed(2, sf.int64)}) as writer:
        writer.write_batch(pa.table({"x": [1, 2], "y": [[1, 2], [3, 4]]}))
        with pytest.raises(ValueError, match="feature 'x': row 1 has no value, and the feature is declared without"):
            writer.write_batch(pa.table({"x": [1, None], "y": [[1, 2], [3, 4]]}))
        with pytest.raises(ValueError, match=r"feature 'y': row 1 has 1 values, where the shape \[2\] is declared"):
            writer.write_batch(pa.table({"x": [1, 2], "y": [[1, 2], [3]]}))
    assert sf.read(tmp_path / "a@1").parse().element_spec == {"x": ("uint8", (), False), "y": ("int64", (2,), False)}


# ---- Learned types


def test_types_and_shapes_of_arrays_are_restored(tmp_path):
    rng = np.random.default_rng(0)
    records = [{"image": rng.integers(0, 256, (4, 5, 3), np.uint8), "m": rng.random((2, 3), np.float32),
                "one": np.array([i]), "flag": i == 1, "i32": np.int32(i), "half": np.float16([i, 0.5]),
                "nested": [[i, 1], [2, 3]], "list": [1] * i, "text": [["a", "b"]]} for i in range(3)]
    name = written(tmp_path, *records)
    ds = sf.read(name).parse()
    assert ds.element_spec == {
        "image": ("uint8", (4, 5, 3), False), "m": ("float32", (2, 3), False), "one": ("int64", (1,), False),
        "flag": ("uint8", (), False), "i32": ("int32", (), False), "half": ("float16", (2,), False),
        "nested": ("int64", (2, 2), False), "list": ("int64", (), True), "text": ("bytes", (1, 2), False)}
    for wanted, found in zip(records, ds):
        for column in ("image", "m", "one", "half"):
            assert np.array_equal(found[column], wanted[column]) and found[column].dtype == wanted[column].dtype
        assert found["nested"].tolist() == wanted["nested"] and found["list"].tolist() == wanted["list"]
    assert manifest(tmp_path)["image"] == {
        "dtype": "uint8", "kind": "int64", "max_values": 60, "min_values": 60, "records": 3, "shape": [4, 5, 3]}
    assert sf.verify(name, level="examples")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_single_floats_of_all_types_are_python_numbers(tmp_path, dtype):
    values = [0.5, -2.25, 65504, 6e-8, np.inf]
    name = written(tmp_path, *({"x": dtype(value), "y": dtype([value])} for value in values))
    ds = sf.read(name).parse()
    assert ds.element_spec == {"x": (np.dtype(dtype).name, (), False), "y": (np.dtype(dtype).name, (1,), False)}
    for row, value in zip(ds, values):
        assert type(row["x"]) is float and row["x"] == np.float32(dtype(value))
        assert row["y"].dtype == dtype and row["y"].tolist() == [row["x"]]
    assert [row["x"] for row in ds.map(lambda row: {"x": row["x"]})] == [row["x"] for row in ds]


def test_types_that_differ_are_those_of_the_records(tmp_path):
    ds = sf.read(written(tmp_path, {"x": np.uint8(1), "y": [1]}, {"x": 300, "y": 1}, {"x": np.uint8(1), "y": [[]]})).parse()
    assert ds.element_spec == {"x": ("int64", (), False), "y": ("int64", (), True)}


def test_shapes_that_differ_are_refused(tmp_path):
    boxes = [np.zeros((n, 4), np.float32) for n in (2, 3)]
    refuses(tmp_path, TypeError, "feature 'boxes': the shape [3, 4], where record 0 has the shape [2, 4], and records "
            "do not keep shapes; declare the features, features={'boxes': sf.ragged(sf.float32, [4]), ...}",
            {"boxes": boxes[0]}, {"boxes": boxes[1]})
    refuses(tmp_path, TypeError, "write the values as one list, x.ravel()", {"x": np.zeros((2, 3))}, {"x": np.zeros(6)})
    refuses(tmp_path, TypeError, "where record 1 has", {"y": 1}, {"x": 1}, {"x": [[1]]})
    name = written(tmp_path, *({"boxes": b} for b in boxes), features={"boxes": sf.ragged(sf.float32, 4)})
    assert [r["boxes"].shape for r in sf.read(name).parse()] == [(2, 4), (3, 4)]


def test_batches_keep_shapes(tmp_path):
    with sf.write(tmp_path / "a@2") as writer:
        for _ in range(2):
            writer.write_batch({"m": np.arange(24, dtype=np.uint8).reshape(4, 2, 3),
                                "boxes": sf.Ragged(np.ones((5, 4), np.float32), np.array([0, 0, 2, 4, 5]))})
    ds = sf.read(tmp_path / "a@2").parse()
    assert ds.element_spec == {"m": ("uint8", (2, 3), False), "boxes": ("float32", (4,), True)}
    assert sorted(len(r["boxes"]) for r in ds) == [0, 0, 1, 1, 2, 2, 2, 2]


# ---- One kind in all records


@pytest.mark.parametrize("first, then, message", [
    ("a", float("nan"), "floats, where record 0 has bytes, and a feature is of one kind in all records; write None"),
    (0, 0.5, "floats, where record 0 has integers, and a feature is of one kind in all records; convert the integers, "
     "float(x), or declare the features, features={'x': sf.float32, ...}"),
    (0.5, 0, "integers, where record 0 has floats"),
    (1, "1", "bytes, where record 0 has integers"),
])
def test_kinds_that_differ_name_both_records(tmp_path, first, then, message):
    refuses(tmp_path, TypeError, f"feature 'x': {message}", {"x": first}, {"y": 1}, {"x": then})
    column = np.array([then, then], object) if isinstance(then, str) else np.array([then, then])
    with sf.write(tmp_path / "b@1") as writer:
        writer.write({"x": first})
        with pytest.raises(TypeError, match=re.escape(f"feature 'x': {message}")):
            writer.write_batch({"x": column})


def test_declared_floats_take_both(tmp_path):
    name = written(tmp_path, {"x": 0}, {"x": 0.5}, features={"x": sf.float32})
    assert [r["x"] for r in sf.read(name).parse()] == [0, 0.5]


def part(job, number, *records):
    with job.shard(number) as writer:
        for record in records:
            writer.write(record)
    return writer.message


@pytest.mark.parametrize("first, then, message", [
    ({"x": 1}, {"x": 0.5}, "feature 'x' is int64 in record 0 of part 0, and float in record 1 of part 2; a dataset has "
     "one kind of it: declare the feature"),
    ({"x": np.ones((2, 3))}, {"x": np.ones((3, 2))}, "feature 'x' has the shape [2, 3] in record 0 of part 0, and "
     "[3, 2] in record 1 of part 2"),
])
def test_kinds_that_differ_between_parts_are_refused(tmp_path, first, then, message):
    job = sf.write_job(tmp_path / "j@3")
    messages = [part(job, 0, first), part(job, 1, {"y": 1}), part(pickle.loads(pickle.dumps(job)), 2, {"y": 2}, then)]
    with pytest.raises(ValueError) as info:
        job.commit(messages)
    assert message in str(info.value), str(info.value)
    assert not list(tmp_path.glob("j-*"))
    job.commit([*messages[:2], part(job, 2, first)])  # the job continues


def test_parts_agree_on_types(tmp_path):
    job = sf.write_job(tmp_path / "j@2")
    job.commit([part(job, i, {"x": np.full((2, 2), i, np.uint8), "y": np.uint8(i) if i else i}) for i in range(2)])
    assert sf.read(tmp_path / "j@2").parse().element_spec == {"x": ("uint8", (2, 2), False), "y": ("int64", (), False)}


def test_records_of_bytes_are_written_as_they_are(tmp_path):
    kinds = [written(tmp_path, {"x": value}) and next(iter(sf.read(tmp_path / "a@1"))) for value in (1, 0.5)]
    refuses(tmp_path, TypeError, "feature 'x': floats, where record 0 has integers, and a feature is of one kind",
            *kinds)
    assert list(sf.read(written(tmp_path, kinds[0], b"no Example", b"", kinds[0]))) == [
        kinds[0], b"no Example", b"", kinds[0]]


def test_resharding_keeps_types(tmp_path):
    name = written(tmp_path, *({"x": np.full((2, 2), i, np.uint8)} for i in range(10)))
    import subprocess
    from shardfeed.command import program
    for out, more in (("b@2", []), ("c@2", ["--compression", "gzip"])):
        subprocess.run([program(), "reshard", name, str(tmp_path / out), *more], check=True, capture_output=True)
        assert sf.read(tmp_path / out).parse().element_spec == {"x": ("uint8", (2, 2), False)}


# ---- Features without values


def _told(tmp_path, write, **options):
    """What is told of what `write` writes, and the features that the dataset has."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with sf.write(tmp_path / "d@1", overwrite=True, **options) as writer:
            write(writer)
            writer.write({"n": 1})
    return [str(one.message) for one in told], sorted(sf.inspect(tmp_path / "d@1").features)


NEVER = "feature 'a' has no value in any record, so no record has it"


@pytest.mark.parametrize("value", [None, [], (), [[], []], np.array([], object), np.array([], "S3")], ids=repr)
def test_features_without_values_are_told_once(tmp_path, value):
    assert _told(tmp_path, lambda w: [w.write({"a": value, "n": 0}) for _ in range(3)]) == ([NEVER], ["n"])
    assert _told(tmp_path, lambda w: w.write_batch({"a": [value] * 2, "n": [1, 2]})) == ([NEVER], ["n"])
    assert _told(tmp_path, lambda w: w.write(collections.ChainMap({"a": value}))) == ([NEVER], ["n"])
    # Some record has a value.
    for one in (0, "", b"", [1], np.ones(2), ["x", "y"]):
        assert _told(tmp_path, lambda w: [w.write({"a": v}) for v in (value, one, value)]) == ([], ["a", "n"])
        assert _told(tmp_path, lambda w: w.write_batch({"a": [value, one]})) == ([], ["a", "n"])


def test_declared_features_without_values_are_kept(tmp_path):
    for value in (None, []):
        assert _told(tmp_path, lambda w: w.write({"a": value, "n": 0}),
                     features={"n": sf.int64, "a": sf.ragged(sf.int64)}) == ([], ["a", "n"])


def test_types_without_values_are_kept(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    empty = np.zeros(0, np.float32)
    for batch in ({"a": np.zeros((2, 0))}, {"a": [empty] * 2}, {"a": sf.Ragged(empty, np.zeros(3, np.int64))}):
        assert _told(tmp_path, lambda w: w.write_batch(batch)) == ([], ["a", "n"])
    for value in (empty, pa.array([], pa.float32())):
        assert _told(tmp_path, lambda w: w.write({"a": value})) == ([], ["a", "n"])
    for kind in (pa.int8(), pa.string(), pa.list_(pa.int8()), pa.list_(pa.float32(), 2)):
        table = pa.table({"a": pa.nulls(2, kind), "n": [1, 2]})
        for data in (table, table.to_batches()[0], table.to_reader()):
            assert _told(tmp_path, lambda w: w.write_batch(data)) == ([], ["a", "n"])
    for kind, values in ((pa.null(), [None, None]), (pa.list_(pa.null()), [[], None])):
        table = pa.table({"a": pa.array(values, kind), "n": [1, 2]})
        for data in (table, table.to_batches()[0], table.to_reader()):
            assert _told(tmp_path, lambda w: w.write_batch(data)) == ([NEVER], ["n"])
        assert _told(tmp_path, lambda w: [w.write_batch(table), w.write({"a": [2.5]})]) == ([], ["a", "n"])
        assert _told(tmp_path, lambda w: w.write_batch(table.slice(0, 0))) == ([], ["n"])


def test_what_else_may_have_values_is_not_told(tmp_path):
    with sf.write(tmp_path / "e@1") as writer:
        writer.write({"a": 1})
    record = next(iter(sf.read(tmp_path / "e@1")))
    assert _told(tmp_path, lambda w: [w.write({"a": []}), w.write(record)]) == ([], ["a", "n"])
    refused = [lambda w: w.write({"a": [], "n": object()}), lambda w: w.write_batch({"a": [[]], "n": ["text"]})]
    for one in refused:
        def write(w):
            w.write({"n": 0})
            with pytest.raises(TypeError):
                one(w)
        assert _told(tmp_path, write) == ([], ["n"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="^feature 'a' has no value"), sf.write(tmp_path / "f@1") as writer:
            writer.write({"a": []})
        with sf.write_job(tmp_path / "g@1").shard(0) as part:  # other parts may have values
            part.write({"a": []})
    assert not list(tmp_path.glob("f-*"))


@pytest.mark.parametrize("suffix, compression, what", [
    (".gz", "none", "not compressed"), (".tfrecord.gz", "zlib", "compressed with zlib"), (".zip", "gzip", "compressed with gzip"),
    (".gz", "gzip", None), (".tfrecord", "none", None), ("", "gzip", None)])
def test_suffixes_that_name_another_compression_are_told(tmp_path, suffix, compression, what):
    last = suffix[suffix.rfind("."):]
    for function, write in (("write", lambda: sf.write(name, compression=compression).abort()),
                            ("write_job", lambda: sf.write_job(name, compression=compression).abort())):
        name = f"{tmp_path}/d@1{suffix}"
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            write()
        assert [str(one.message) for one in told] == ([
            f"{function}: {name}: the suffix {last} does not choose a compression: the shards are {what}; the argument "
            "compression does"] if what else [])
        assert all(one.filename == __file__ for one in told)


# ---- Writers that nobody closes


def test_an_unclosed_writer_is_warned_of(tmp_path):
    writer = sf.write(tmp_path / "a@1")
    writer.write({"x": 1})
    with pytest.warns(ResourceWarning, match=r"unclosed writer <shardfeed.Writer: .* records>: what it has written is removed"):
        del writer
        gc.collect()
    assert not list(tmp_path.glob("a-*"))
    job = sf.write_job(tmp_path / "j@1")
    with pytest.warns(ResourceWarning, match="unclosed writer <shardfeed.PartWriter"):
        job.shard(0)
        gc.collect()


def test_closed_and_aborted_writers_are_silent(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(tmp_path, {"x": 1})
        writer = sf.write(tmp_path / "b@1")
        writer.abort()
        del writer
        with pytest.raises(KeyError), sf.write(tmp_path / "c@1"):
            raise KeyError
        with pytest.raises(FileExistsError):
            sf.write(tmp_path / "a@1")
        gc.collect()


def test_writers_are_not_made_directly(tmp_path):
    with pytest.raises(TypeError, match=r"Writer is made by sf.write or WriteJob.shard, not by itself; use sf.write\('"):
        sf.Writer(str(tmp_path / "w@2"))


def test_a_snapshot_has_a_name():
    with pytest.raises(ValueError, match="snapshot: expected the name of a file, got ''"):
        sf.range(3).snapshot("")


def example(n):
    """A tf.train.Example with the feature n, below 2^14."""
    varint = bytes([n & 127 | 128, n >> 7])
    ints = b"\x1a" + bytes([len(varint) + 2]) + b"\x0a" + bytes([len(varint)]) + varint
    entry = b"\x0a\x01n\x12" + bytes([len(ints)]) + ints
    features = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(features)]) + features


@pytest.mark.parametrize("kind", ["dict", "bytes", "batch"])
def test_a_second_thread_is_refused(tmp_path, kind):
    written, refused, wrong = [], [], []
    with sf.write(tmp_path / "t@2", sync=False) as writer:
        def work(first):
            for i in range(first, first + 2000):
                try:
                    if kind == "batch":
                        writer.write_batch({"n": np.array([i])})
                    else:
                        writer.write({"n": i} if kind == "dict" else example(i))
                    written.append(i)
                except RuntimeError as error:
                    refused.append(str(error))
                except BaseException as error:
                    wrong.append(error)
        threads = [threading.Thread(target=work, args=(2000 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert set(refused) <= {"the writer is in use by another thread, or by a call that has not returned: one thread at "
                            "a time may use it"}
    assert sorted(row["n"] for row in sf.read(tmp_path / "t@2").parse()) == sorted(written)


def test_a_writer_in_use_is_not_ended(tmp_path):
    with sf.write(tmp_path / "t@1", sync=False) as writer:
        class Ending:
            def __init__(self, end):
                self.end = end

            def __arrow_c_stream__(self, requested_schema=None):
                self.end()
                raise AssertionError

        for end in (writer._writer.finish, writer._writer.abort, lambda: writer.write({"n": 1})):
            with pytest.raises(RuntimeError, match="the writer is in use"):
                writer.write_batch(Ending(end))
        writer.write({"n": 1})
    assert [row["n"] for row in sf.read(tmp_path / "t@1").parse()] == [1]


def test_records_as_bytes_have_single_values_as_others_do(tmp_path):
    """A record does not tell a list of one value from a single one."""
    rows = [{"one": 5, "lists": [1, 2]}, {"one": 6, "lists": [3]}]
    (tmp_path / "rows").mkdir()
    records = [bytes(record) for record in sf.read(written(tmp_path / "rows", *rows))]
    first, second = sf.read(written(tmp_path, *records)).parse()
    assert first["one"] == 5 and np.ndim(first["one"]) == 0
    assert [first["lists"].tolist(), second["lists"].tolist()] == [[1, 2], [3]]
