"""Batches of Arrow that writers refuse or take although their types say little."""

import numpy as np
import pyarrow as pa
import pytest
from package_data import sf


def write(spec, *tables, **options):
    with sf.write(spec, **options) as writer:
        for table in tables:
            writer.write_batch(table)
    return list(sf.read(spec).parse())


def commit(spec, *tables):
    job = sf.write_job(spec)
    try:
        messages = []
        for part, table in enumerate(tables):
            with job.shard(part) as writer:
                writer.write_batch(table)
            messages.append(writer.message)
        job.commit(messages)
    finally:
        job.abort()


class Period(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "test.period")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def test_values_of_unknown_extensions_are_not_guessed(tmp_path):
    period = pa.ExtensionArray.from_storage(Period(), pa.array([1, 2]))
    for array in (period, pa.ListArray.from_arrays([0, 1, 2], period)):
        with pytest.raises(ValueError, match="column 'p': its type is the extension test.period of Arrow"):
            write(tmp_path / "a@1", pa.table({"p": array}))
    assert [row["p"] for row in write(tmp_path / "b@1", pa.table({"p": period.storage}))] == [1, 2]


def test_tensors_keep_the_order_of_their_values(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    rows = write(tmp_path / "a@1", pa.table({"t": tensors}))
    assert [row["t"].tolist() for row in rows] == values.tolist()
    assert sf.inspect(tmp_path / "a@1").data["features"]["t"]["shape"] == [2, 3]
    permuted = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3], permutation=[1, 0]),
                                              tensors.storage)
    with pytest.raises(ValueError, match="column 't': it has permuted tensors"):
        write(tmp_path / "b@1", pa.table({"t": permuted}))


class RaysTensor(pa.ExtensionType):
    """A type of tensors as Ray's blocks have it: stored as lists of any length, with the shape as JSON."""

    def __init__(self, shape, storage):
        self.shape = shape
        super().__init__(storage, "ray.data.arrow_tensor_v2")

    def __arrow_ext_serialize__(self):
        return self.shape.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(serialized.decode(), storage)


def test_tensors_of_ray_keep_their_shape(tmp_path):
    def tensors(shape, lists, kind=pa.large_list(pa.float32())):
        return pa.table({"t": pa.ExtensionArray.from_storage(RaysTensor(shape, kind), pa.array(lists, kind))})
    rows = write(tmp_path / "a@1", tensors("[2, 3]", [[1, 2, 3, 4, 5, 6], None, [0] * 6]))
    assert rows[0]["t"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert [row["t"].tolist() for row in write(tmp_path / "b@1", tensors("pickled", [[1, 2], [3]]))] == [[1, 2], [3]]
    for shape, lists, why in [("[2, 3]", [[1] * 6, [1] * 5], "its lists do not have the size of its tensors"),
                              ("[2, 3]", [[1] * 6, []], "its lists do not have the size of its tensors"),
                              ("[-1]", [[1]], "not one of whole numbers"), ('["2"]', [[1]], "not one of whole numbers"),
                              (f"[{2**40}, {2**40}]", [[1]], "its tensors are too large")]:
        with pytest.raises(ValueError, match="column 't': .*" + why):
            write(tmp_path / "c@1", tensors(shape, lists))
    with pytest.raises(ValueError, match="its lists do not have the size of its tensors"):
        write(tmp_path / "c@1", tensors("[2, 3]", [[1] * 5], pa.list_(pa.float32(), 5)))


@pytest.mark.parametrize("nothing", [pa.array([None], pa.float64()), pa.array([None], pa.int64()), pa.nulls(1)])
def test_a_column_of_missing_values_is_of_any_kind(tmp_path, nothing):
    """As a partition of a table of text in which pandas has only NaN."""
    text, missing = pa.table({"a": ["x"]}), pa.table({"a": nothing})
    for name, tables in [("a", (text, missing)), ("b", (missing, text))]:
        commit(tmp_path / f"{name}@2", *tables)
        write(tmp_path / f"{name}{name}@1", *tables)
        for spec in (f"{name}@2", f"{name}{name}@1"):
            batch, = sf.read(tmp_path / spec).parse({"a": sf.bytes(default=b"none")}).batch(2)
            assert sorted(batch["a"].tolist()) == [b"none", b"x"]


def test_missing_values_may_have_a_buffer(tmp_path):
    """As polars hands over columns of its type Null."""
    class Schema:
        def __arrow_c_array__(self, requested=None):
            import ctypes
            schema, array = pa.record_batch({"a": [1, 2], "b": pa.nulls(2)}).__arrow_c_array__()
            ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
            ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            at = ctypes.pythonapi.PyCapsule_GetPointer(array, b"arrow_array")
            # ArrowArray: length, null_count, offset, n_buffers, n_children, buffers, children
            children = ctypes.cast(at + 6 * 8, ctypes.POINTER(ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))))[0]
            self.kept = (ctypes.c_void_p * 1)(None)
            children[1][3] = 1
            children[1][5] = ctypes.addressof(self.kept)
            return schema, array
    rows = write(tmp_path / "a@1", Schema())
    assert [row["a"] for row in rows] == [1, 2] and set(rows[0]) == {"a"}


def test_lists_of_one_value_come_back_as_lists(tmp_path):
    table = pa.table({"one": [[1], [2]], "single": [1, 2], "more": [[1], [2, 3]]})
    for number, rows in enumerate((write(tmp_path / "a@1", table), write(tmp_path / "b@1", table[:1], table[1:]))):
        assert [row["one"].tolist() for row in rows] == [[1], [2]], number
        assert [row["single"] for row in rows] == [1, 2]
        assert [np.asarray(row["more"]).tolist() for row in rows] == [[1], [2, 3]]
    commit(tmp_path / "c@2", table[:1], table[1:])
    rows = list(sf.read(tmp_path / "c@2").parse())
    assert [row["one"].tolist() for row in rows] == [[1], [2]]
    assert [np.asarray(row["more"]).tolist() for row in rows] == [[1], [2, 3]]
