"""Splits of datasets, and their records as batches of Arrow, with pyarrow as the reference."""

import pathlib
import pickle
import shutil

import harness
import numpy as np
import pyarrow as pa
import pytest
from package_data import RECORDS, dataset, features, sf


def written(spec, rows, **options):
    with sf.write(spec, **options) as writer:
        for row in rows:
            writer.write(row)
    return str(spec)


def records_of(splits):
    return [record for split in splits for record in split.read()]


@pytest.mark.parametrize("how", [{}, {"n": 1}, {"n": 3}, {"n": 7}, {"n": RECORDS}, {"n": 10 * RECORDS},
                                 {"bytes": 1}, {"bytes": 5000}, {"bytes": 1 << 40}])
def test_splits_have_every_record_once_in_order(dataset, how):
    found = [pickle.loads(pickle.dumps(split)) for split in sf.splits(dataset, **how)]
    assert records_of(found) == list(sf.read(dataset))
    assert [split.number for split in found] == list(range(len(found)))
    if "n" in how:
        assert len(found) == min(how["n"], RECORDS)
        counts = [split.records for split in found]
        assert max(counts) - min(counts) <= 1
    if how == {}:
        assert len(found) == 4 and all(split.whole for split in found)


def test_whole_shards_need_no_index(dataset, tmp_path):
    folder = tmp_path / "d"
    shutil.copytree(pathlib.Path(dataset).parent, folder)
    shutil.rmtree(folder / ".shardfeed")
    found = sf.splits(folder / "train@4")
    assert not (folder / ".shardfeed").exists()
    assert records_of(found) == list(sf.read(dataset))


def test_splits_can_be_read_from_another_folder(dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(pathlib.Path(dataset).parent)
    found = sf.splits("train@4", n=3)
    monkeypatch.chdir(tmp_path)
    assert records_of(found) == list(sf.read(dataset))


def test_changed_shards_are_told(tmp_path):
    spec = written(tmp_path / "a@2", [{"n": i} for i in range(10)])
    whole, cut = sf.splits(spec), sf.splits(spec, n=3)
    written(tmp_path / "a@2", [{"n": i + 1} for i in range(10)], overwrite=True)
    with pytest.raises(RuntimeError, match="a-00000-of-00002: the shard has changed since the dataset "
                                           "was split; split it again"):
        cut[0].read()
    written(tmp_path / "a@2", [{"n": i} for i in range(11)], overwrite=True)
    with pytest.raises(RuntimeError, match="the shard has changed"):
        whole[0].read()


def test_wrong_arguments_of_splits(dataset, tmp_path):
    with pytest.raises(ValueError, match="splits: give n or bytes, not both"):
        sf.splits(dataset, n=1, bytes=1)
    with pytest.raises(FileNotFoundError):
        sf.splits(tmp_path / "none@2")
    split = sf.splits(dataset)[0]
    with pytest.raises(TypeError, match="read: a split has its own records"):
        split.read(records="0-1")
    with pytest.raises(ValueError, match="record=True has the one column 'record'"):
        split.arrow(["n"], record=True)
    with pytest.raises(ValueError, match="arrow: columns must be a dict whose names are each a str without NUL, not "):
        sf.splits(dataset)[0].arrow({"a\0b": sf.int64})
    with pytest.raises(ValueError, match="there is no feature 'N'; there is 'n'"):
        sf.splits(dataset)[0].arrow({"x": sf.var(sf.float32), "N": sf.int64})
    none = pa.table(sf.splits(dataset)[0].arrow({"m": sf.int64}))  # a feature that no record has
    assert none.num_rows and none["m"].null_count == none.num_rows
    with pytest.raises(ValueError, match="feature 'n' appears twice"):
        sf.splits(dataset)[0].arrow(["n", "x", "n"])
    with pytest.raises(ValueError, match="there is no feature 'm'; there are: n, some, text, x"):
        split.arrow(["m"])
    with pytest.raises(ValueError, match="column 'x': expected int64, float32 or bytes, a list of one"):
        split.arrow({"x": sf.fixed((3, 3))})
    with pytest.raises(TypeError, match="columns must be a dict"):
        split.arrow("n")


def table_of(split, *arguments, **options):
    return pa.RecordBatchReader.from_stream(split.arrow(*arguments, **options)).read_all()


def test_arrow_has_what_the_records_have(dataset):
    tables = [table_of(split) for split in sf.splits(dataset, n=3)]
    table = pa.concat_tables(tables)
    assert table.schema == pa.schema([("n", pa.int64()), ("some", pa.list_(pa.int64())),
                                      ("text", pa.binary()), ("x", pa.list_(pa.float32(), 3))])
    order = [i for shard in range(4) for i in range(shard, RECORDS, 4)]
    assert table["n"].to_pylist() == order
    assert table["text"].to_pylist() == [features(i)["text"] for i in order]
    assert table["some"].to_pylist() == [features(i)["some"].tolist() for i in order]
    assert table["x"].to_pylist() == [features(i)["x"].tolist() for i in order]
    for column in table.columns:
        for chunk in column.chunks:
            chunk.validate(full=True)


def test_arrow_columns_are_chosen_and_typed(dataset):
    split = sf.splits(dataset, n=1)[0]
    assert table_of(split, ["x", "n"]).column_names == ["x", "n"]
    table = table_of(split, {"x": sf.fixed(3), "n": sf.var(sf.int64)})
    assert table.schema == pa.schema([("x", pa.list_(pa.float32(), 3)), ("n", pa.list_(pa.int64()))])
    assert table["n"].to_pylist()[:2] == [[0], [4]]
    assert table["x"].to_pylist()[1] == [4.0, 5.0, 6.0]
    raw = table_of(split, record=True, rows=7)
    assert raw["record"].to_pylist() == list(sf.read(dataset))
    assert {len(chunk) for chunk in raw["record"].chunks} == {7, RECORDS % 7}


def test_lists_of_a_declared_length_keep_it(tmp_path):
    with sf.write(tmp_path / "d@2", features={"x": sf.fixed(3, default=0), "n": sf.int64, "none": sf.fixed(2, default=0)}) as writer:
        writer.write({"x": [1, 2, 3], "n": 1})
        writer.write({"n": 2})
    with sf.write(tmp_path / "array@1") as writer:
        writer.write_batch({"m": np.arange(8).reshape(2, 2, 2), "one": np.zeros((2, 1), np.float32)})
        writer.write_batch({"m": np.arange(4).reshape(1, 2, 2), "one": [[1.0]]})
    [table, array] = [pa.concat_tables(pa.RecordBatchReader.from_stream(split.arrow()).read_all()
                                       for split in sf.splits(tmp_path / name)) for name in ("d@2", "array@1")]
    assert table.schema == pa.schema([("n", pa.int64()), ("none", pa.list_(pa.float32(), 2)),
                                      ("x", pa.list_(pa.float32(), 3))])
    assert table.to_pydict() == {"n": [1, 2], "none": [None, None], "x": [[1, 2, 3], None]}
    assert array.schema == pa.schema([("m", pa.list_(pa.int64(), 4)), ("one", pa.list_(pa.float32(), 1))])
    assert array["m"].to_pylist() == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]


def test_missing_values_are_nulls(tmp_path):
    rows = [{"i": 1, "f": 0.5, "b": b"x", "l": [1, 2]}, {"l": np.zeros(0, np.int64)}, {},
            {"i": 1 << 40, "f": -1.0, "b": b"", "l": [3]}]
    spec = written(tmp_path / "a@1", rows)
    split = sf.splits(spec)[0]
    columns = {"i": sf.int64, "f": sf.float32, "b": sf.bytes, "l": sf.var(sf.int64),
               "pair": sf.fixed(2, sf.int64), "none": sf.bytes}
    table = table_of(split, columns)
    assert table.to_pylist() == [
        {"i": 1, "f": 0.5, "b": b"x", "l": [1, 2], "pair": None, "none": None},
        {"i": None, "f": None, "b": None, "l": [], "pair": None, "none": None},
        {"i": None, "f": None, "b": None, "l": None, "pair": None, "none": None},
        {"i": 1 << 40, "f": -1.0, "b": b"", "l": [3], "pair": None, "none": None}]
    assert table["i"].null_count == 2 and table["none"].null_count == 4


def test_records_that_do_not_fit_are_named(tmp_path):
    spec = written(tmp_path / "a@2", [{"n": [1, 2] if i == 5 else i} for i in range(8)])
    split = sf.splits(spec, n=1)[0]
    with pytest.raises(ValueError, match=r"a-00001-of-00002: record 2 at byte \d+: feature 'n' has 2 "
                                         "values, expected 1"):
        list(split.arrow({"n": sf.int64}))
    with pytest.raises(ValueError, match="record 0 at byte 0: feature 'n' is of kind int64, expected bytes"):
        list(split.arrow({"n": sf.bytes}))
    with pytest.raises(ValueError, match="feature 'n' has 2 values"):
        table_of(split, {"n": sf.int64})


def test_features_of_several_kinds_must_be_named(tmp_path):
    kinds = [next(iter(sf.read(written(tmp_path / "b@1", [row], overwrite=True))))
             for row in ({"n": 1, "m": 1}, {"n": 0.5, "m": 2})]
    # Records of both, one file after the other; a writer would refuse it.
    spec = str(tmp_path / "a@1")
    (tmp_path / "a-00000-of-00001").write_bytes(b"".join(
        pathlib.Path(written(tmp_path / f"{i}@1", [kind]).replace("@1", "-00000-of-00001")).read_bytes()
        for i, kind in enumerate(kinds)))
    split = sf.splits(spec)[0]
    for columns in (None, ["n"]):
        with pytest.raises(ValueError, match=r"a@1: feature 'n' is of several kinds: .*/a-00000-of-00001: record 1 at byte \d+: "
                                             "feature 'n' is of kind float, expected int64 .*; name other columns, or write"):
            split.arrow(columns)
    for columns in (["m"], {"m": sf.int64}):
        assert table_of(split, columns)["m"].to_pylist() == [1, 2]


def test_no_features_are_told(tmp_path):
    split = sf.splits(written(tmp_path / "a@1", [b"no Example", b"neither"]))[0]
    with pytest.raises(ValueError):
        split.arrow()
    assert table_of(split, record=True)["record"].to_pylist() == [b"no Example", b"neither"]


def test_batches_of_arrow_end_at_their_bytes(tmp_path):
    big = b"x" * (20 << 20)
    split = sf.splits(written(tmp_path / "a@1", [{"b": big}] * 7))[0]
    batches = list(split.arrow())
    assert [len(batch) for batch in batches] == [3, 3, 1]
    again = [pa.record_batch(batch) for batch in batches for _ in range(2)]
    assert all(row["b"] == big for batch in again for row in batch.to_pylist())


def test_the_stream_and_the_iterator_are_one_pass(dataset):
    batches = sf.splits(dataset, n=1)[0].arrow(["n"], rows=100)
    first = pa.record_batch(next(batches))
    rest = pa.RecordBatchReader.from_stream(batches).read_all()
    assert len(first) + len(rest) == RECORDS
    with pytest.raises(StopIteration):
        next(batches)
    with pytest.raises(ValueError, match="have been read as a stream already; call arrow\\(\\) again"):
        pa.table(batches)


def test_empty_lists_and_odd_names(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        writer.write_batch(pa.table({"n": [1, 2], "empty": pa.array([[], None], pa.list_(pa.float32()))}))
    [split] = sf.splits(tmp_path / "a@1")
    assert table_of(split).to_pydict() == {"empty": [[], None], "n": [1, 2]}
    with sf.write(tmp_path / "nulls@1") as writer:
        writer.write_batch(pa.table({"n": [1], "x": pa.array([None], pa.float64()), "l": pa.array([None], pa.list_(pa.int8())),
                                     "none": pa.nulls(1)}))
    [split] = sf.splits(tmp_path / "nulls@1")
    table = table_of(split)
    assert table.schema == pa.schema([("l", pa.list_(pa.int64())), ("n", pa.int64()), ("x", pa.float32())])
    assert table.to_pylist() == [{"l": None, "n": 1, "x": None}]
    assert {name: of[0] for name, of in sf.read(tmp_path / "nulls@1").parse().element_spec.items()} == {
        "l": "int8", "n": "int64", "x": "float64"}
    with sf.write(tmp_path / "b@1") as writer:
        writer.write({"a\0b": 1, "c": 2})
    [split] = sf.splits(tmp_path / "b@1")
    with pytest.raises(ValueError, match=r"feature 'a\\x00b': names of Arrow's columns end at a NUL"):
        split.arrow()
    assert table_of(split, ["c"]).to_pydict() == {"c": [2]}


TYPES = [
    (pa.int8(), [1, None, -3]), (pa.uint8(), [0, 255, None]), (pa.int16(), [1, -300, None]),
    (pa.uint16(), [65535]), (pa.int32(), [1, None]), (pa.uint32(), [1 << 31]),
    (pa.int64(), [1 << 62, None, -1]), (pa.uint64(), [(1 << 63) - 1]),
    (pa.bool_(), [True, None, False] * 5), (pa.float16(), [np.float16(1.5), None, np.float16(-6e-8)]),
    (pa.float32(), [0.5, None, float("inf")]), (pa.float64(), [0.1, None]),
    (pa.string(), ["é", None, ""]), (pa.large_string(), ["é", None, ""]),
    (pa.binary(), [b"\xff", None]), (pa.large_binary(), [b"\xff", None]), (pa.binary(2), [b"ab", None]),
    (pa.list_(pa.int32()), [[1, 2], None, [], [3]]), (pa.large_list(pa.float32()), [[0.5], None, []]),
    (pa.string_view(), ["é", None, "", "a" * 12, "b" * 13]), (pa.binary_view(), [b"\xff" * 20, None, b""]),
    (pa.list_(pa.string_view()), [["a" * 13, "b"], None, [], [""]]),
    (pa.list_(pa.string()), [["a", "b"], None, [""]]), (pa.list_(pa.int64(), 2), [[1, 2], None, [3, 4]]),
    (pa.list_(pa.bool_()), [[True, False], [True]]), (pa.list_(pa.binary(1)), [[b"a", b"b"], None]),
    (pa.null(), [None, None]),
]


def as_values(value):
    if value is None:
        return None
    if not isinstance(value, list):
        value = [value]
    return [one.encode() if isinstance(one, str) else int(one) if isinstance(one, bool) else one
            for one in value]


@pytest.mark.parametrize("kind, values", TYPES, ids=[str(t) for t, _ in TYPES])
@pytest.mark.parametrize("cut", [0, 1])
def test_arrow_of_each_type_is_written(tf, tmp_path, kind, values, cut):
    values = values * 3
    table = pa.table({"x": pa.array(values, kind)}).slice(cut)
    with sf.write(tmp_path / "a@1") as writer:
        assert writer.write_batch(table) == len(values) - cut
        assert writer.write_batch(table.to_batches()[0]) == len(values) - cut
    found = [harness.decoded(tf, record).get("x") for record in sf.read(tmp_path / "a@1")]
    wanted = [as_values(value) for value in values[cut:]] * 2
    if pa.types.is_floating(kind) or kind == pa.large_list(pa.float32()):
        assert [None if f is None else np.float32(f).tolist() for f in found] == [
            None if w is None else np.float32(w).tolist() for w in wanted]
    else:
        assert found == wanted


def test_arrow_that_examples_cannot_hold_is_refused(tmp_path):
    cases = [
        (pa.array([1], pa.timestamp("s")), r"column 'x': records have no counterpart of timestamps \(Arrow's type 'tss:'\)"),
        (pa.array([[[1]]]), "no counterpart of lists of lists"),
        (pa.array([{"a": 1}]), "no counterpart of structs"),
        (pa.array([1 << 63], pa.uint64()), "feature 'x': row 0: 9223372036854775808 is out of the range of int64"),
        (pa.array([0.5, 1e300]), "feature 'x': row 1: 1e\\+300 is out of the range of float32"),
        (pa.array([[1.0], [2.0, None]]), "feature 'x': row 1: element 1 is missing"),
    ]
    with sf.write(tmp_path / "a@1") as writer:
        for array, message in cases:
            with pytest.raises(ValueError, match=message):
                writer.write_batch(pa.table({"x": array}))
        with pytest.raises(ValueError, match="feature 'x' appears twice"):
            writer.write_batch(pa.Table.from_arrays([pa.array([1.0]), pa.array([1.0])], ["x", "x"]))
        with pytest.raises(ValueError, match="expected a record batch or a table of Arrow"):
            writer.write_batch(pa.array([1]))
        with pytest.raises(TypeError, match="columns must be"):
            writer.write_batch([1])


def test_columns_are_written_as_rows_are(tmp_path):
    rows = [features(i) for i in range(100)]
    columns = {"n": np.arange(100), "x": np.stack([row["x"] for row in rows]),
               "text": [row["text"] for row in rows],
               "some": sf.Ragged(np.concatenate([row["some"] for row in rows]),
                                 np.cumsum([0] + [len(row["some"]) for row in rows]))}
    by_row = written(tmp_path / "a@3", rows)
    with sf.write(tmp_path / "b@3") as writer:
        assert writer.write_batch(columns) == 100
        assert writer.write_batch({"n": np.zeros(0, np.int64)}) == 0
    assert list(sf.read(by_row)) == list(sf.read(tmp_path / "b@3"))
    with sf.write(tmp_path / "c@1", features={"n": sf.float32}) as writer:
        assert writer.write_batch({"n": columns["n"]}) == 100
        with pytest.raises(ValueError, match="feature 'x': 99 rows, and the columns before it have 100"):
            writer.write_batch({"m": columns["n"], "x": columns["x"][1:]})
        with pytest.raises(TypeError, match="feature 'm': a masked array's mask would be lost"):
            writer.write_batch({"m": np.ma.masked_array([1, 2], [True, False])})
        with pytest.raises(TypeError, match="feature 'm': expected a value for each row"):
            writer.write_batch({"m": b"abc"})


def test_names_of_features_that_only_other_records_have_need_types(tmp_path):
    spec = written(tmp_path / "d@1", [{"big": bytes(100_000), "n": n, **({"late": n} if n == 719 else {})}
                                      for n in range(720)])
    shutil.rmtree(tmp_path / ".shardfeed")
    split = sf.splits(spec)[0]
    with pytest.raises(ValueError, match=r"^none of the \d+ records that were looked at, as there is no manifest, has a "
                                         "feature 'late'; they have: big, n; name the columns with their types, such as "
                                         r"\{'late': sf.int64\} \(in Spark: .schema\(\"x bigint, y float\"\)\), or "
                                         r"write the manifest with sf.index\(..., manifest=True\)$"):
        split.arrow(["n", "late"])
    assert table_of(split, {"n": sf.int64, "late": sf.int64})["late"].to_pylist() == [None] * 719 + [719]
    sf.index(spec, manifest=True)
    assert table_of(sf.splits(spec)[0], ["late"])["late"].to_pylist()[-1] == 719


def test_shards_are_verified_as_tasks(dataset, tmp_path):
    folder = tmp_path / "d"
    shutil.copytree(pathlib.Path(dataset).parent, folder)
    spec = str(folder / "train@4")
    for level in ["headers", "payload", "examples", "images"]:
        reports = [sf.verify_split(split, level=level) for split in sf.splits(spec)]
        merged = sf.merge_reports(spec, reports, level=level)
        assert merged == sf.verify(spec, level=level) and merged
    shard = folder / "train-00002-of-00004"
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    (folder / "train-00001-of-00004").write_bytes(b"no TFRecord at all, surely")
    reports = [text for split in sf.splits(spec) for text in sf.verify_split(split)]
    merged = sf.merge_reports(spec, reports)
    assert merged == sf.verify(spec)
    assert {"payload CRC", "manifest"} <= {defect.kind for defect in merged.defects}
    with pytest.raises(ValueError, match="expected the reports on 4 shards, got 3"):
        sf.merge_reports(spec, reports[1:])
    with pytest.raises(ValueError, match="expected the report on .*train-00000-of-00004, got that on"):
        sf.merge_reports(spec, reports[::-1])
    with pytest.raises(ValueError, match="not the report on a shard"):
        sf.merge_reports(spec, ["{}"] * 4)
    with pytest.raises(ValueError, match="expected a split of whole shards"):
        sf.verify_split(sf.splits(dataset, n=9)[0])
    missing = [sf.verify_split(split) for split in sf.splits(spec)]
    assert missing


def test_reports_are_of_the_level_that_is_merged(dataset):
    reports = [sf.verify_split(split, level="headers") for split in sf.splits(dataset)]
    with pytest.raises(ValueError, match="train-00000-of-00004 is of level 'headers', not 'payload': give merge_reports the"):
        sf.merge_reports(dataset, reports)


def test_records_in_another_order_are_a_change(tmp_path):
    """Although all files have the same sizes."""
    spec = written(tmp_path / "a@2", [{"n": n} for n in (1, 2, 3, 4)])
    found = sf.splits(spec)
    assert len(records_of(found[:1])) == 2
    written(tmp_path / "a@2", [{"n": n} for n in (2, 1, 4, 3)], overwrite=True)
    with pytest.raises(RuntimeError, match="a-00001-of-00002: the shard has changed since the dataset was split"):
        records_of(found[1:])


def test_batches_of_all_splits_have_the_columns_of_the_dataset(tmp_path):
    with sf.write(tmp_path / "a@3") as writer:  # record i goes to shard i modulo 3
        for i in range(6):
            row = {"n": i, "v": np.arange(2.0) if i % 3 == 1 else np.arange(1.0)}
            writer.write({**row, "x": 1.5} if i % 3 == 0 else row)
    tables = [pa.RecordBatchReader.from_stream(split.arrow()).read_all() for split in sf.splits(tmp_path / "a@3")]
    assert len({table.schema for table in tables}) == 1
    assert sorted(pa.concat_tables(tables)["n"].to_pylist()) == list(range(6))
    assert [table["x"].null_count for table in tables] == [0, 2, 2]
    with sf.write(tmp_path / "b@2", features={"n": sf.int64, "l": sf.var(sf.bytes)}) as writer:
        writer.write({"n": 1, "l": [b"x"]})
    empty = pa.RecordBatchReader.from_stream(sf.splits(tmp_path / "b@2")[1].arrow()).read_all()
    assert empty.num_rows == 0 and empty.schema.field("n").type == pa.int64()
    for option in ({"batch": 4}, {"end": "drop"}):
        with pytest.raises(TypeError, match="all records of a split are read"):
            sf.splits(tmp_path / "a@3")[0].arrow(**option)


def test_shards_are_indexed_as_tasks(dataset, tmp_path):
    folder = tmp_path / "d"
    shutil.copytree(pathlib.Path(dataset).parent, folder)
    kept = {path.name: path.read_bytes() for path in (folder / ".shardfeed").glob("*.index")}
    for path in (folder / ".shardfeed").glob("*.index"):
        path.unlink()
    counts = [sf.index_shard(path) for split in sf.splits(folder / "train@4") for path in split.paths]
    assert sum(counts) == RECORDS
    assert {path.name: path.read_bytes() for path in (folder / ".shardfeed").glob("*.index")} == kept
    with pytest.raises(FileNotFoundError, match="none"):
        sf.index_shard(tmp_path / "none")
