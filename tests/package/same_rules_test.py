"""Rows, batches, tables of Arrow and finished records follow the same rules: what one of them takes, all take, and
what is refused is refused by the same text."""

import json
import re
import warnings

import numpy as np
import pytest
from package_data import sf


def rows_and_batch(tmp_path, features, columns, **options):
    """Writes columns by rows and as a batch, and returns what parse() gives of each, or what was raised."""
    found = []
    for name in ("rows", "batch"):
        spec = tmp_path / f"{name}@1"
        writer = sf.write(spec, overwrite=True, features=features, **options)
        try:
            if name == "rows":
                for row in zip(*columns.values()):
                    writer.write(dict(zip(columns, row)))
            else:
                writer.write_batch(columns)
        except (TypeError, ValueError) as error:
            writer.abort()
            found.append((type(error), re.sub(r"^record (\d+): (feature '\w+'):", r"\2: row \1:", str(error))))
            continue
        writer.close()
        # A record or a row that lacks the feature is one without elements.
        found.append([{key: np.asarray(value).tolist() for key, value in row.items()} for row in sf.read(spec).parse()])
        found[-1].append(sf.read(spec).parse().element_spec)
    return found


NUMBERS = {"uint64": np.array([0, 2 ** 63 - 1], np.uint64), "uint32": np.array([0, 2 ** 32 - 1], np.uint32),
           "int8": np.array([-128, 127], np.int8), "uint16": np.array([0, 65535], np.uint16),
           "int16": np.array([-2 ** 15, 2 ** 15 - 1], np.int16), "bool": np.array([True, False]),
           "float16": np.array([0.5, -2], np.float16), "float64": np.array([0.1, np.nan]),
           "big": np.array([1, 2], ">i4"), "matrix": np.arange(12).reshape(2, 2, 3), "text": np.array(["a", "bc"]),
           "objects": np.array([b"a", "b"], object), "empty": np.zeros((2, 0, 3), np.float32)}


@pytest.mark.parametrize("name", NUMBERS)
def test_arrays_of_all_types(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, batch = rows_and_batch(tmp_path, None, {"x": NUMBERS[name]})
    assert repr(rows) == repr(batch)
    found = [row["x"] for row in rows[:-1]]
    wanted = [b"a", b"bc"] if name == "text" else [b"a", b"b"] if name == "objects" else NUMBERS[name]
    wanted = np.asarray(wanted, np.float32) if name == "float64" else wanted
    assert np.array_equal(np.reshape(found, np.shape(wanted)), wanted, equal_nan=name == "float64")


BAD = [
    (None, [1, 2 ** 63], "feature 'x': row 1: 9223372036854775808 is out of the range of int64; write it as text"),
    (None, np.array([1, 2 ** 63], np.uint64), "feature 'x': row 1: 9223372036854775808 is out of the range of int64"),
    (None, np.array([0.5, 1e39]), "feature 'x': row 1: 1e+39 is out of the range of float32; write it as text, repr(x)"),
    (None, [1, 0.5], "feature 'x': row 1: floats, where record 0 has integers, and a feature is of one kind in all records; "
                     "convert the integers, float(x)"),
    (None, ["a", 1], "feature 'x': row 1: integers, where record 0 has bytes"),
    (None, ["a", "\ud800"], "feature 'x': row 1: the str has half of a surrogate pair"),
    (None, [[1], [[2]]], "feature 'x': row 1: the shape [1, 1], where record 0 has the shape [1]"),
    (None, [[1], [2, None]], "feature 'x': row 1: None in a list"),
    (sf.uint8, [1, 300], "feature 'x': row 1: 300 is out of the range of uint8 (0 to 255); declare a wider type"),
    (sf.float32, [1, 2 ** 24 + 1], "feature 'x': row 1: float32 cannot hold the integer 16777217; give a float"),
    (sf.float16, [1, 2049], "feature 'x': row 1: float16 cannot hold the integer 2049; give a float if it may be rounded"),
    (sf.bfloat16, [1, 257], "feature 'x': row 1: bfloat16 cannot hold the integer 257"),
    (sf.float16, [1.0, 65536.0], "feature 'x': row 1: 65536 is out of the range of float16 (up to 65504); declare float32"),
    (sf.float64, [1, 2 ** 24 + 1], "feature 'x': row 1: float32 cannot hold the integer 16777217"),
    (sf.int64, [1, 0.5], "feature 'x': row 1: floats, where integers are declared"),
    (sf.bytes, ["a", 1], "feature 'x': row 1: integers, where bytes are declared"),
    (sf.fixed(2, sf.int64), [[1, 2], [1]], "feature 'x': row 1: the shape [1] where the shape [2] is declared"),
    (sf.fixed(2, np.int16, raw=True), [b"1234", b"12"], "feature 'x': row 1: 2 bytes, where the 4 bytes of the shape [2] of "
                                                        "int16 are declared as one string (raw)"),
]


@pytest.mark.parametrize("declared, values, message", BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_told_alike(tmp_path, declared, values, message):
    features = None if declared is None else {"x": declared}
    rows, batch = rows_and_batch(tmp_path, features, {"x": values})
    assert rows[0] is batch[0] and rows[1] == batch[1], (rows, batch)
    assert rows[1].startswith(message), rows[1]
    if isinstance(values, list) and ({type(one) for one in values} == {float} or all(
            type(one) is int and one < 2 ** 63 for one in values)):
        _, again = rows_and_batch(tmp_path, features, {"x": np.array(values)})
        assert again[0] is rows[0] and again[1].replace("row 1: ", "") == rows[1].replace("row 1: ", ""), again


def test_integers_become_declared_floats(tmp_path):
    features = {"x": sf.float32, "h": sf.var(sf.float16), "d": sf.fixed(2, sf.float64)}
    columns = {"x": np.array([1, -2 ** 24]), "h": [[1, 2048], []], "d": np.array([[1, 2], [3, 2 ** 30]], np.uint32)}
    rows, batch = rows_and_batch(tmp_path, features, columns)
    assert rows == batch and rows[:2] == [{"x": 1, "h": [1, 2048], "d": [1, 2]}, {"x": -2 ** 24, "h": [], "d": [3, 2 ** 30]}]
    assert rows[2]["d"] == ("float64", (2,), False) and rows[2]["h"] == ("float16", (), True)
    with sf.write(tmp_path / "b@1", features={"x": sf.float32}) as writer:
        writer.write_batch({"x": np.array([True, False])})
        writer.write_batch({"x": [1, 0.5]})
        with pytest.raises(ValueError, match="feature 'x': row 1: float32 cannot hold the integer 16777217"):
            writer.write_batch({"x": np.array([1, 16777217])})
    assert [r["x"] for r in sf.read(tmp_path / "b@1").parse()] == [1, 0, 1, 0.5]


def test_lists_are_rows(tmp_path):
    columns = {"ints": [1, None, 3], "lists": [[1, 2], [], [3]], "text": ["a", b"b", None], "arrays": [
        np.zeros((2, 3), np.uint8)] * 3, "deep": [[["a"], ["b"]]] * 3}
    with sf.write(tmp_path / "a@1") as writer:
        assert writer.write_batch(columns) == 3
    rows = list(sf.read(tmp_path / "a@1").parse())
    assert [r["ints"].tolist() for r in rows] == [[1], [], [3]]
    assert [r["lists"].tolist() for r in rows] == [[1, 2], [], [3]]
    assert [list(r["text"]) for r in rows] == [[b"a"], [b"b"], []]
    assert rows[0]["arrays"].shape == (2, 3) and rows[0]["arrays"].dtype == np.uint8
    manifest = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["features"]
    assert manifest["ints"]["records"] == 2 and manifest["deep"]["shape"] == [2, 1]


def test_ragged_columns(tmp_path):
    splits = np.array([0, 2, 2, 3], np.int32)
    with sf.write(tmp_path / "a@1", features={"f": sf.var(sf.float32), "t": sf.var(sf.bytes), "m": sf.ragged(sf.int64, 2)}) as writer:
        writer.write_batch({"f": sf.Ragged(np.array([1, 2, 3]), splits), "t": sf.Ragged(["a", b"b", "c"], splits),
                            "m": sf.Ragged(np.arange(6).reshape(3, 2), splits)})
        for values, bad, message in [
                (np.arange(3), np.array([1, 3]), "row_splits must begin with 0"),
                (np.arange(3), np.array([0, 2, 1, 3]), "row_splits decrease at 2"),
                (np.arange(3), np.array([0, 2]), "row_splits end at 2, and there are 3 elements"),
                (np.arange(3), np.array([0, 4]), "row_splits end at 4, and there are 3 elements")]:
            with pytest.raises(ValueError, match=f"feature 'f': {message}"):
                writer.write_batch({"f": sf.Ragged(values, bad)})
        with pytest.raises(TypeError, match="feature 't': the values of a Ragged must be an array, or a list of numbers"):
            writer.write_batch({"t": sf.Ragged([["a"], None], splits)})
    rows = list(sf.read(tmp_path / "a@1").parse())
    assert [r["f"].tolist() for r in rows] == [[1, 2], [], [3]] and [list(r["t"]) for r in rows] == [[b"a", b"b"], [], [b"c"]]
    assert [r["m"].tolist() for r in rows] == [[[0, 1], [2, 3]], [], [[4, 5]]]


def test_nothing_of_a_wrong_batch_is_written(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write_batch({"x": np.array([1, 2])})
        for columns in ({"x": np.array([1, 2 ** 63], np.uint64)}, {"x": [1, "a"]}, {"y": [0.5, "a"]},
                        {"x": np.array([1]), "y": np.array([1, 2])}):
            with pytest.raises((TypeError, ValueError)):
                writer.write_batch(columns)
        assert writer.records_written == 2
        writer.write_batch({"x": [3], "y": ["a"]})  # refused rows do not change what was learned
        with pytest.raises(ValueError, match="feature 'y': 2 rows, and the columns before it have 1"):
            writer.write_batch({"x": [3], "y": ["a", "b"]})
        for value in (5, "abc", None, {"a": 1}, iter([1])):
            with pytest.raises(TypeError, match="feature 'x': expected a value for each row"):
                writer.write_batch({"x": value})
        for value, message in [(np.array(["2020-01-01"], "datetime64[D]"), "dates or times; choose a unit"),
                               (np.zeros(2, complex), "complex numbers"), (np.zeros(2, [("a", int)]), "an array of structures")]:
            with pytest.raises(TypeError, match=f"feature 'x': {message}"):
                writer.write_batch({"x": value})


def test_bfloat16(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rows, batch = rows_and_batch(tmp_path, None, {"x": np.array([[0.5, 3], [-2, 1]], ml_dtypes.bfloat16)})
    assert rows == batch and rows[2]["x"] == ("bfloat16", (2,), False)


# ---- Arrow


def test_dictionaries_are_their_values(tmp_path):
    pa = pytest.importorskip("pyarrow")
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    table = pa.table({"words": words, "numbers": pa.array([300, 7, 300, None]).dictionary_encode(),
                      "floats": pa.array([0.5, 1, 1, 0.5], pa.float32()).dictionary_encode(),
                      "small": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0], pa.uint8()), pa.array([b"x", b"y"])),
                      "lists": pa.array([["a"], [], ["b", "a"], ["b"]], pa.list_(pa.dictionary(pa.int16(), pa.string())))})
    with sf.write(tmp_path / "a@1") as writer:
        writer.write_batch(table)
        writer.write_batch(table.slice(1, 2))
        for batch in table.slice(2).to_batches():
            writer.write_batch(batch)
        writer.write_batch({"words": words.slice(3)})
    wanted = table.to_pylist()
    wanted = [*wanted, *wanted[1:3], *wanted[2:], {"words": "a"}]
    for row, found in zip(wanted, sf.read(tmp_path / "a@1").parse()):
        values = {key: value if isinstance(value, list) else [] if value is None else [value] for key, value in row.items()}
        for key in found:
            plain = [one.encode() if isinstance(one, str) else one for one in values.get(key, [])]
            assert [*np.atleast_1d(np.array(found[key], object))] == plain, (key, found[key], plain)


def test_categories_that_do_not_exist(tmp_path):
    pa = pytest.importorskip("pyarrow")
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int8()), pa.array(["a"]), safe=False)
    with sf.write(tmp_path / "a@1") as writer:
        with pytest.raises(ValueError, match="column 'x': row 1: category 5 does not exist: there are 1, numbered from 0"):
            writer.write_batch(pa.table({"x": wrong}))
        with pytest.raises(ValueError, match="column 'x': row 0: None in a list|element 1 is missing"):
            writer.write_batch(pa.table({"x": pa.array([["a", None]], pa.list_(pa.dictionary(pa.int8(), pa.string())))}))


def test_numbers_of_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow")
    with sf.write(tmp_path / "a@1", features={"x": sf.float32, "n": sf.int64, "h": sf.float16}) as writer:
        good = {"x": pa.array([1, 2], pa.int8()), "n": pa.array([1, 2 ** 63 - 1], pa.uint64()), "h": pa.array([True, False])}
        writer.write_batch(pa.table(good))
        for change, message in [({"x": [1, 16777217]}, "feature 'x': row 1: float32 cannot hold the integer 16777217"),
                                ({"n": pa.array([1, 2 ** 63], pa.uint64())}, "feature 'n': row 1: 9223372036854775808 is out"),
                                ({"h": [1.0, 1e6]}, "feature 'h': row 1: 1000000 is out of the range of float16")]:
            with pytest.raises(ValueError, match=message):
                writer.write_batch(pa.table({**good, **change}))
        with pytest.raises(TypeError, match="feature 'x': bytes, where floats are declared"):
            writer.write_batch(pa.table({**good, "x": ["a", "b"]}))
    assert [list(r.values()) for r in sf.read(tmp_path / "a@1").parse()] == [[1, 1, 1], [0, 2 ** 63 - 1, 2]]


@pytest.mark.parametrize("kind, what, remedy", [
    ("timestamp('us')", "timestamps", "cast it to int64, in a unit"), ("date32()", "dates", "cast it to int64"),
    ("time64('us')", "times", "or to strings"), ("duration('s')", "durations", "cast it to int64"),
    ("decimal128(5, 2)", "decimals", "cast it to float64, or to strings"),
    ("struct([('a', pa.int64())])", "structs", "make their fields columns"), ("map_(pa.string(), pa.int64())", "maps", "a list each"),
    ("list_(pa.list_(pa.int64()))", "lists of lists", "write the values as one list, and the lengths as another column")])
def test_types_of_arrow_without_a_counterpart(tmp_path, kind, what, remedy):
    pa = pytest.importorskip("pyarrow")
    with sf.write(tmp_path / "a@1") as writer:
        with pytest.raises(ValueError) as info:
            writer.write_batch(pa.table({"x": pa.array([None], eval(f"pa.{kind}"))}))
    assert f"column 'x': records have no counterpart of {what} (Arrow's type" in str(info.value), str(info.value)
    assert remedy in str(info.value) and str(info.value).endswith("or leave it out")


# ---- Digits


@pytest.mark.parametrize("declared, values, message", [
    (None, [0.1, 31.95376472, 1e20], None),  # that digits of fractions are lost is usual
    (None, [0.5, 16777217.0, 1e-50], "feature 'x': 2 values lose digits as floats of 32 bits; the first: record 1: 16777217 "
                                     "becomes 16777216"),
    (sf.float32, [1700000001.5], "feature 'x': 1 value loses digits"),
    (sf.float64, [0.1, 0.5], None),
    (sf.float64, [0.1, 31.95376472], "feature 'x': 1 value loses digits as floats of 32 bits; the first: record 1: "
                                     "31.95376472 becomes 31.953764"),
    (sf.float16, [0.1, 1e-9], "feature 'x': 1 value loses digits as floats of 32 bits; the first: record 1: 1e-09 becomes 0"),
])
def test_lost_digits_are_told(tmp_path, declared, values, message):
    features = None if declared is None else {"x": declared}
    for batch in (False, True):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with sf.write(tmp_path / "a@1", overwrite=True, features=features) as writer:
                if batch:
                    writer.write_batch({"x": np.array(values)})
                else:
                    for value in values:
                        writer.write({"x": value})
        notes = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text()).get("notes", [])
        assert len(told) == len(notes) == (message is not None)
        if message is not None:
            assert notes[0].startswith(message) and str(told[0].message).startswith(notes[0]), notes
            assert told[0].category is UserWarning and "write text or integers to keep them" in str(told[0].message)


def test_lost_digits_can_be_errors(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="1 value loses digits"), sf.write(tmp_path / "a@1") as writer:
            writer.write({"x": 16777217.0})
        job = sf.write_job(tmp_path / "j@1")
        with pytest.raises(UserWarning, match="1 value loses digits"), job.shard(0) as part:
            part.write_batch({"x": np.array([1e-50])})
        job.abort()
    del writer
    assert not list(tmp_path.glob("a-*"))


def test_what_is_refused_is_not_told_of(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sf.write(tmp_path / "a@1") as writer:
            with pytest.raises(ValueError):
                writer.write({"x": 16777217.0, "y": 2 ** 63})
            writer.write({"x": 0.5})


# ---- Declared features


def verified(spec):
    """Whether the manifest is that of the records."""
    return sf.merge_reports(spec, [sf.verify_split(split, level="examples") for split in sf.splits(spec)], level="examples")


TYPES = {"u8": sf.uint8, "v": sf.var(sf.uint8), "i32": sf.fixed(2, sf.int32), "i64": sf.int64, "f16": sf.float16,
         "bf16": sf.bfloat16, "f32": sf.fixed((2, 3)), "b": sf.bytes, "i8": sf.int8, "u16": sf.fixed(2, sf.uint16),
         "i16": sf.var(sf.int16), "f64": sf.float64}
SPECS = {"u8": ("uint8", (), False), "v": ("uint8", (), True), "i32": ("int32", (2,), False), "i64": ("int64", (), False),
         "f16": ("float16", (), False), "bf16": ("bfloat16", (), False), "f32": ("float32", (2, 3), False), "b": ("bytes", (), False),
         "i8": ("int8", (), False), "u16": ("uint16", (2,), False), "i16": ("int16", (), True), "f64": ("float64", (), False)}


def test_declared_types_come_back_also_without_records(tmp_path):
    with sf.write(tmp_path / "a@2", features=TYPES):
        pass
    ds = sf.read(tmp_path / "a@2").parse()
    assert ds.element_spec == dict(sorted(SPECS.items())) and list(ds) == []
    manifest = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["features"]
    assert manifest["f32"] == {"dtype": "float32", "kind": "float", "max_values": 0, "min_values": 0, "records": 0, "shape": [2, 3]}
    assert verified(tmp_path / "a@2")
    with sf.write(tmp_path / "b@1", features=TYPES) as writer:
        writer.write({"u8": 255, "v": [3], "i32": [0, -65535], "i64": 2, "f16": 0.5, "bf16": 1, "f32": np.ones((2, 3)), "b": "x",
                      "i8": -128, "u16": [0, 65535], "i16": [-3], "f64": 0.5})
    (row,) = sf.read(tmp_path / "b@1").parse()
    assert sf.read(tmp_path / "b@1").parse().element_spec == dict(sorted(SPECS.items()))
    assert row["i8"] == -128 and row["u16"].tolist() == [0, 65535] and row["f64"] == 0.5 and row["i16"].tolist() == [-3]
    assert row["i32"].tolist() == [0, -65535] and row["u8"] == 255 and row["v"].tolist() == [3]


def test_declared_features_that_no_record_has_stay_known(tmp_path):
    with sf.write(tmp_path / "a@2", features={"x": sf.int64, "y": sf.var(sf.float32), "z": sf.ragged(sf.uint8, 3)}) as writer:
        writer.write_batch({"x": np.arange(3)})
    ds = sf.read(tmp_path / "a@2").parse()
    assert ds.element_spec == {"x": ("int64", (), False), "y": ("float32", (), True), "z": ("uint8", (3,), True)}
    assert [r["z"].shape for r in ds] == [(0, 3)] * 3
    assert verified(tmp_path / "a@2")
    manifest = json.loads((tmp_path / ".shardfeed/a.manifest.json").read_text())["features"]
    assert manifest["x"]["records"] == 3 and manifest["y"]["records"] == 0


def test_types_that_are_asked_for(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"x": [1, 300], "f": 0.5})
    wanted = {"x": sf.var(sf.uint16), "f": sf.float64}
    (row,) = sf.read(tmp_path / "a@1").parse(wanted)
    assert row["x"].dtype == np.uint16 and row["f"] == 0.5
    with pytest.raises(ValueError, match="feature 'x': value 300 at position 1 does not fit int8; ask for it as int64"):
        list(sf.read(tmp_path / "a@1").parse({"x": sf.var(sf.int8)}))


def test_undeclared_features_without_a_value(tmp_path):
    with sf.write(tmp_path / "a@1", features={"x": sf.int64}) as writer:
        with pytest.raises(ValueError, match="record 0: feature 'y': it is not declared: add it to features=, or leave"):
            writer.write({"x": 1, "y": None})


def test_shapes_of_empty_arrays(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"boxes": np.zeros((0, 4), np.float32), "list": np.zeros(0)})
        for value in (np.zeros((4, 0)), np.zeros((2, 0, 3)), np.zeros((0, 0)), [[], []]):
            if isinstance(value, list):
                continue
            with pytest.raises(ValueError, match=r"feature 'x': the shape \[.*\] has no values, and a record does not keep"):
                writer.write({"x": value})
    (row,) = sf.read(tmp_path / "a@1").parse()
    assert row["boxes"].shape == (0, 4) and row["list"].shape == (0,)


# ---- Records that are bytes


def encoded(tmp_path, record, features=None):
    with sf.write(tmp_path / "encoded@1", overwrite=True, features=features) as writer:
        writer.write(record)
    return next(iter(sf.read(tmp_path / "encoded@1")))


def test_records_of_bytes_follow_the_declared_features(tmp_path):
    features = {"m": sf.fixed((2, 2), sf.int64), "v": sf.var(sf.float32)}
    good = encoded(tmp_path, {"m": [1, 2, 3, 4], "v": [0.5]})
    with sf.write(tmp_path / "a@1", features=features) as writer:
        writer.write(good)
        for record, error, message in [
                ({"m": [1, 2, 3], "v": [0.5]}, ValueError, r"feature 'm': the shape \[3\] where the shape \[2, 2\] is declared"),
                ({"m": [0.5] * 4}, TypeError, "feature 'm': floats, where integers are declared"),
                ({"m": [1] * 4, "w": 1}, ValueError, "feature 'w': it is not declared"),
                ({"v": [0.5]}, ValueError, "feature 'm' is missing: it is declared without a default")]:
            with pytest.raises(error, match=f"record 1: {message}"):
                writer.write(encoded(tmp_path, record))
        with pytest.raises(ValueError, match="record 1: it is not a tf.train.Example .*, and features are declared"):
            writer.write(b"nothing")
    (row,) = sf.read(tmp_path / "a@1").parse()
    assert row["m"].tolist() == [[1, 2], [3, 4]]


def test_records_of_bytes_widen_learned_types(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write({"x": np.uint8([1, 2])})
        writer.write(encoded(tmp_path, {"x": [300, 2]}))
        writer.write(encoded(tmp_path, {"x": [1, 2, 3]}))
        with pytest.raises(TypeError, match="record 3: feature 'x': bytes, where record 0 has integers"):
            writer.write(encoded(tmp_path, {"x": "a"}))
    assert [r["x"].tolist() for r in sf.read(tmp_path / "a@1").parse()] == [[1, 2], [300, 2], [1, 2, 3]]


def test_parts_of_bytes_agree(tmp_path):
    job = sf.write_job(tmp_path / "j@2")
    messages = []
    for number, value in enumerate((1, 0.5)):
        with job.shard(number) as part:
            part.write(encoded(tmp_path, {"x": value}))
        messages.append(part.message)
    with pytest.raises(ValueError, match="feature 'x' is int64 in record 0 of part 0, and float in record 0 of part 1"):
        job.commit(messages)
    job.abort()


# ---- What was aborted


def test_what_was_aborted_says_so(tmp_path):
    job = sf.write_job(tmp_path / "j@1")
    with job.shard(0) as part:
        part.write({"x": 1})
    job.abort()
    with pytest.raises(RuntimeError, match="the folder of the job does not exist: the job has been committed, aborted or cleaned"):
        job.commit([part.message])
    writer = sf.write(tmp_path / "a@1")
    writer.write({"x": 1})
    writer.abort()
    writer.abort()
    for use in (writer.close, lambda: writer.write({"x": 1}), lambda: writer.write_batch({"x": [1]})):
        with pytest.raises(ValueError, match="the writer was aborted, and what it had written is removed; open another"):
            use()
    assert writer.records_written == 1
    with sf.write(tmp_path / "b@1") as writer:
        pass
    writer.abort()
    assert writer.close()["shards"] == 1 and list(tmp_path.glob("b-*"))
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write({"x": 1})
