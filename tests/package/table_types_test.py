"""Types and shapes of tables, which the manifest keeps and parse() restores."""

import json

import numpy as np
import pytest
from tables_test import convert, pa, pq, rows, sf


def noted(out, name):
    features = json.loads((out / f".shardfeed/{name}.manifest.json").read_text())["features"]
    return {feature: (entry["dtype"], entry.get("shape")) for feature, entry in features.items()}


def batch_of(spec, rows):
    batch, = sf.read(spec).parse().batch(rows)
    return batch


def test_parquet(tmp_path):
    matrices = np.arange(24, dtype=np.float64).reshape(4, 2, 3)
    table = pa.table({
        "double": [0.5, 0.25, 1.25, 0.1], "half": pa.array(np.ones(4, np.float16)), "byte": pa.array([1, 2, 3, 4], pa.uint8()),
        "category": pa.array([0.5, 0.25, 0.5, 0.5]).dictionary_encode(),
        "pair": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2)),
        "nested": pa.array([[[1, 2], [3, 4]]] * 4, pa.list_(pa.list_(pa.int16(), 2), 2)),
        "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(matrices), "list": [[1.0], [], [2.0, 3.0], None]})
    pq.write_table(table, tmp_path / "t.parquet")
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "t@2")["notes"]
    assert notes == ["column 'nested': its arrays of shape [2, 2] are flat lists",
                     "column 'tensor': its arrays of shape [2, 3] are flat lists"]
    assert noted(tmp_path, "t") == {
        "double": ("float64", None), "half": ("float16", None), "byte": ("uint8", None), "category": ("float64", None),
        "pair": ("float64", [2]), "nested": ("int16", [2, 2]), "tensor": ("float64", [2, 3]), "list": ("float64", None)}
    batch = batch_of(tmp_path / "t@2", 4)
    assert batch["double"].dtype == np.float64 and batch["double"][3] == np.float32(0.1)
    assert batch["tensor"].dtype == np.float64 and (batch["tensor"] == matrices).all()
    assert batch["nested"].dtype == np.int16 and batch["nested"].shape == (4, 2, 2)
    assert batch["pair"].tolist() == [[1.0, 2.0], [], [3.0, 4.0], [5.0, 6.0]]


def test_permuted_tensors_are_their_storage(tmp_path):
    storage = pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int64(), 6))
    for name, permutation in (("permuted", [1, 0]), ("plain", [0, 1])):
        kind = pa.fixed_shape_tensor(pa.int64(), (2, 3), permutation=permutation)
        pq.write_table(pa.table({"x": pa.ExtensionArray.from_storage(kind, storage)}), tmp_path / f"{name}.parquet")
        notes = convert("parquet", tmp_path / f"{name}.parquet", tmp_path / f"{name}@1")["notes"]
        assert ("without what its type" in notes[0]) == (name == "permuted")
        assert noted(tmp_path, name)["x"] == ("int64", [6] if name == "permuted" else [2, 3])


@pytest.mark.parametrize("options", [[], ["--shuffle", "1"]])
def test_arrays(tmp_path, options):
    values = np.arange(24).reshape(4, 2, 3)
    structures = np.zeros(4, [("a", np.float64, (2,)), ("b", np.uint8)])
    np.savez(tmp_path / "t.npz", x=values.astype(np.float64), y=values.astype(np.int32), image=np.zeros((4, 2, 2, 3), np.uint8),
             text=np.array([["a", "bb"]] * 4), none=np.zeros((4, 0)), one=np.ones((4, 1), bool), structure=structures)
    convert("npz", tmp_path / "t.npz", tmp_path / "t@2", *options)
    assert noted(tmp_path, "t") == {
        "x": ("float64", [2, 3]), "y": ("int32", [2, 3]), "image": ("bytes", None), "text": ("bytes", [2]),
        "none": ("float64", None), "one": ("bool", [1]), "structure.a": ("float64", [2]), "structure.b": ("uint8", None)}
    if not options:
        batch = batch_of(tmp_path / "t@2", 4)
        assert batch["x"].dtype == np.float64 and (batch["x"] == values).all() and (batch["y"] == values).all()
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["x"] = values.astype(np.float64)
        lists = file.create_dataset("lists", (4, 2), h5py.vlen_dtype(np.float64))
        for row in range(4):
            lists[row, 0] = lists[row, 1] = np.ones(row + 1)
    convert("hdf5", tmp_path / "t.h5", tmp_path / "h@2", *options)
    assert noted(tmp_path, "h") == {"x": ("float64", [2, 3]), "lists": ("float64", None), "lists_lengths": ("int64", None)}


def test_files_that_differ(tmp_path):
    """What all files have in common is kept."""
    double = pa.table({"x": [0.5], "y": pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "z": pa.nulls(1)})
    single = pa.table({"x": pa.array([0.5], pa.float32()), "y": pa.array([[1, 2, 3]], pa.list_(pa.int64(), 3)),
                       "z": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})
    for name, table in (("a", double), ("b", single)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for order in ("ab", "ba"):
        convert("parquet", [tmp_path / f"{name}.parquet" for name in order], tmp_path / f"{order}@2")
        assert noted(tmp_path, order) == {"x": ("float32", None), "y": ("int64", None), "z": ("float64", [2])}


def test_tasks_note_the_same(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.ones((4, 2, 2)))
    convert("npz", tmp_path / "t.npz", tmp_path / "one@2")
    for shard in ("0", "1"):
        convert("npz", tmp_path / "t.npz", tmp_path / "two@2", "--only-shards", shard, "--job", "7")
    sf.commit(tmp_path / "two@2", job="7")
    assert noted(tmp_path, "one") == noted(tmp_path, "two") == {"x": ("float64", [2, 2])}


@pytest.mark.parametrize("kind, values", [("int64", ["+3", "3", None]), ("float", ["+3", "3.0", None])])
def test_numbers_with_a_sign(tmp_path, kind, values):
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet")
    (tmp_path / "s.json").write_text(json.dumps({"x": kind}))
    assert not convert("parquet", tmp_path / "t.parquet", tmp_path / "t@1", "--schema", tmp_path / "s.json")["notes"]
    assert [row["x"].tolist() for row in sf.read(tmp_path / "t@1").parse()] == [[3], [3], []]


def test_numbers_that_are_none_name_one_cell(tmp_path):
    (tmp_path / "s.json").write_text('{"x": "int64"}')
    for values, said in ([["1", " 3", "NA"], "' 3' is not an integer; mend it, or declare the kind bytes to have text"],
                         [[1.0, 2.5, 3.5], "'2.5' is not an integer (Float value 2.500000 was truncated converting to int64)"]):
        pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet")
        with pytest.raises(sf.DataLossError) as caught:
            sf.convert("parquet", tmp_path / "t.parquet", tmp_path / "t@1", schema=tmp_path / "s.json")
        assert f"row 1 (row group 0): column 'x': {said}" in str(caught.value)
        assert "NA" not in str(caught.value) and "3.5" not in str(caught.value)


def views(offsets, sizes, values, kind=None, missing=None):
    made = pa.LargeListViewArray if kind == "large" else pa.ListViewArray
    width = pa.int64() if kind == "large" else pa.int32()
    return made.from_arrays(pa.array(offsets, width), pa.array(sizes, width), values,
                            mask=None if missing is None else pa.array(missing))


@pytest.mark.parametrize("kind", ["small", "large"])
def test_views_of_lists(tmp_path, kind):
    plain = pa.array([1, 2, 3, 4, 5])
    backwards = views([3, 1, 0, 0], [2, 2, 1, 0], plain, kind)
    overlapping = views([0, 1, 2, 0], [3, 3, 3, 5], plain, kind, [False, False, True, False])
    texts = views([2, 0, 0, 1], [1, 2, 0, 2], pa.array(["a", "bb", "ccc"]), kind, [False, True, False, False])
    nested = views([1, 0, 4, 2], [2, 1, 0, 2], backwards, kind)
    columns = {"backwards": backwards, "overlapping": overlapping, "texts": texts, "nested": nested,
               "in_list": pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), backwards),
               "struct": pa.StructArray.from_arrays([overlapping], ["x"], mask=pa.array([True, False, False, False]))}
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with pa.ipc.new_file(tmp_path / "t.arrow", batch.schema) as file:
        file.write_batch(batch)
        file.write_batch(batch.slice(1, 2))
    data = batch.to_pylist() + batch.slice(1, 2).to_pylist()

    def flat(row):
        # A list of lists is its values and its lengths.
        found = {name: row[name] for name in ("backwards", "overlapping", "texts") if row[name] is not None}
        for name in ("nested", "in_list"):
            found[name] = [value for one in row[name] for value in one]
            found[f"{name}_lengths"] = [len(one) for one in row[name]]
        if row["struct"] is not None and row["struct"]["x"] is not None:
            found["struct.x"] = row["struct"]["x"]
        return {name: [one.encode() if isinstance(one, str) else one for one in values] for name, values in found.items()}

    assert not convert("arrow", tmp_path / "t.arrow", tmp_path / "t@2")["notes"]
    assert rows(tmp_path / "t@2") == [flat(row) for row in data]
    pq.write_table(pa.table({"x": pa.array([[1], [2, 3]], backwards.type)}), tmp_path / "t.parquet")
    convert("parquet", tmp_path / "t.parquet", tmp_path / "p@1")
    assert rows(tmp_path / "p@1") == [{"x": [1]}, {"x": [2, 3]}]


def test_slices_of_nested_columns(tmp_path):
    """The other columns whose values lie elsewhere than their rows say."""
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64()))
    lists = pa.array([[9], None, [1, 2], [3]], pa.large_list(pa.int64()))
    pairs = pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int64(), 2))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array([7, 8]))
    batch = pa.record_batch([maps, lists, pairs, runs], names=["m", "l", "p", "r"])
    with pa.ipc.new_file(tmp_path / "t.arrow", batch.schema) as file:
        file.write_batch(batch.slice(1, 3))
    convert("arrow", tmp_path / "t.arrow", tmp_path / "t@1")
    assert rows(tmp_path / "t@1") == [
        {"r": [7]}, {"m.key": [b"b", b"c"], "m.value": [2, 3], "l": [1, 2], "p": [3, 4], "r": [8]},
        {"m.key": [], "m.value": [], "l": [3], "p": [5, 6], "r": [8]}]


def test_arrays_of_arrow_in_records_give_no_warning(tmp_path):
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sf.write(tmp_path / "t@1") as writer:
            writer.write({"i": pa.array([1, 2], pa.int16()), "f": pa.array([0.5]), "s": pa.array(["a", "b"]),
                          "b": pa.array([True]), "l": pa.array([3, 4]).slice(1), "n": 5})
            with pytest.raises(TypeError, match="record 1: feature 'i': None in a list"):
                writer.write({"i": pa.array([1, None])})
    assert rows(tmp_path / "t@1") == [{"i": [1, 2], "f": [0.5], "s": [b"a", b"b"], "b": [1], "l": [4], "n": [5]}]
    assert noted(tmp_path, "t")["i"] == ("int16", [2])
