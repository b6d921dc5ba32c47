"""Tables of pyarrow, pandas, polars and Hugging Face's datasets as sources of chains, and written. Without pandas,
polars or datasets their tests are skipped; scripts/test --clusters has all of them."""

import math
import pickle

import numpy as np
import pytest
from package_data import dataset, python, sf

from shardfeed.viewer.examples import features_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture
def pd():
    return pytest.importorskip("pandas", "2.2", reason="pandas is not installed")


@pytest.fixture
def pl():
    return pytest.importorskip("polars", reason="polars is not installed")


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="datasets is not installed")


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def rows(ds):
    return [{name: plain(value) for name, value in row.items()} for row in ds]


def table():
    return pa.table({
        "i": pa.array([1, 2, 3], pa.int16()), "truth": [True, False, True], "u": pa.array([1, 2, 3], pa.uint32()),
        "big": pa.array([1, 2, (1 << 63) - 1], pa.uint64()), "half": pa.array(np.float16([1, 2, 3])),
        "double": [0.5, math.nan, 2.5], "text": ["a", "é", ""], "raw": [b"\0", b"", b"ab"],
        "category": pa.array(["x", "y", "x"]).dictionary_encode(), "list": [[1], [], [2, 3]],
        "strings": [["a"], ["b", "c"], []], "pair": pa.array([[1., 2.], [3., 4.], [5., 6.]], pa.list_(pa.float32(), 2)),
        "names": pa.array([["a", "b"]] * 3, pa.list_(pa.string(), 2)),
        "points": pa.array([[[1, 2]], [], [[3, 4], [5, 6]]], pa.large_list(pa.list_(pa.int64(), 2)))})


ROWS = [
    {"i": 1, "truth": 1, "u": 1, "big": 1, "half": 1, "double": 0.5, "text": b"a", "raw": b"\0", "category": b"x",
     "list": [1], "strings": [b"a"], "pair": [1, 2], "names": [b"a", b"b"], "points": [[1, 2]]},
    {"i": 2, "truth": 0, "u": 2, "big": 2, "half": 2, "double": math.nan, "text": "é".encode(), "raw": b"",
     "category": b"y", "list": [], "strings": [b"b", b"c"], "pair": [3, 4], "names": [b"a", b"b"], "points": []},
    {"i": 3, "truth": 1, "u": 3, "big": (1 << 63) - 1, "half": 3, "double": 2.5, "text": b"", "raw": b"ab",
     "category": b"x", "list": [2, 3], "strings": [], "pair": [5, 6], "names": [b"a", b"b"],
     "points": [[3, 4], [5, 6]]}]
SPEC = {"i": ("int16", (), False), "truth": ("uint8", (), False), "u": ("int64", (), False),
        "big": ("int64", (), False), "half": ("float16", (), False), "double": ("float64", (), False),
        "text": ("bytes", (), False), "raw": ("bytes", (), False), "category": ("bytes", (), False),
        "list": ("int64", (), True), "strings": ("bytes", (), True), "pair": ("float32", (2,), False),
        "names": ("bytes", (2,), False), "points": ("int64", (2,), True)}


def same(found, wanted):
    np.testing.assert_equal(found, wanted)  # NaN equals NaN
    return True


class TestArrow:
    @pytest.mark.parametrize("cut", [
        lambda t: (t, 0, 3), lambda t: (t.slice(1), 1, 3), lambda t: (t.slice(1, 1), 1, 2),
        lambda t: (t.slice(3), 3, 3),
        lambda t: (t.slice(1).to_batches()[0], 1, 3), lambda t: (t.slice(1).to_reader(), 1, 3),
        lambda t: (pa.concat_tables([t.slice(0, 1), t.slice(1)]), 0, 3)],
        ids=["whole", "slice", "middle", "empty", "batch", "stream", "chunks"])
    def test_rows_of_all_types(self, cut):
        data, begin, end = cut(table())
        ds = sf.from_arrow(data)
        assert ds.element_spec == SPEC and same(rows(ds), ROWS[begin:end]) and len(ds) == end - begin

    def test_tensors(self):
        values = np.arange(12.).reshape(2, 2, 3)
        ds = sf.from_arrow(pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(values)}))
        assert ds.element_spec["t"] == ("float64", (2, 3), False)
        assert np.array_equal(next(iter(ds.batch(2)))["t"], values)

    def test_the_chain_is_one_of_arrays(self):
        data = pa.table({"n": np.arange(100), "text": [str(i) for i in range(100)]})

        def chain(ds):
            return ds.shuffle(seed=1, window=16).shard(0, 1).batch(4)

        mine = chain(sf.from_arrow(data))
        theirs = chain(sf.from_arrays({"n": np.arange(100), "text": [b"%d" % i for i in range(100)]}))
        it = mine.start(epoch=0)
        first = [next(it)["n"].tolist() for _ in range(5)]
        rest = iter(theirs)
        rest.load_state_dict(it.state_dict())  # the fingerprints agree
        assert first + [b["n"].tolist() for b in rest] == [b["n"].tolist() for b in mine.start(epoch=0)]
        again = pickle.loads(pickle.dumps(mine))
        assert [b["n"].tolist() for b in again.start(epoch=0)] == [b["n"].tolist() for b in mine.start(epoch=0)]
        parts = [[r["n"] for r in sf.from_arrow(data).shard(rank, 3)] for rank in range(3)]
        assert len(set(sum(parts, []))) == len(sum(parts, [])) >= 99

    def test_missing_values_get_what_is_told(self):
        data = pa.table({"i": pa.array([1, None], pa.int8()), "s": ["a", None], "l": [[1], None], "x": [None, 0.5],
                         "p": pa.array([[1., 2.], None], pa.list_(pa.float32(), 2)),
                         "c": pa.array(["a", None]).dictionary_encode()})
        defaults = {"i": -1, "s": "?", "l": [], "x": math.nan, "p": [0, 0], "c": "none"}
        assert same(rows(sf.from_arrow(data, defaults=defaults)), [
            {"i": 1, "s": b"a", "l": [1], "x": math.nan, "p": [1, 2], "c": b"a"},
            {"i": -1, "s": b"?", "l": [], "x": 0.5, "p": [0, 0], "c": b"none"}])
        for name in data.column_names:
            given = {k: v for k, v in defaults.items() if k != name}
            row = 0 if name == "x" else 1
            with pytest.raises(ValueError, match=f"column '{name}': row {row} has no value .*; name what it gets, "
                               f"defaults={{'{name}': ...}}, or drop such rows"):
                sf.from_arrow(data, defaults=given)

    @pytest.mark.parametrize("kind, default, why", [
        (pa.int8(), 1.5, "the default 1.5 is not a value of its type int8: float64 where int8 is declared"),
        (pa.int8(), 300, "the default 300 is not a value of its type int8: 300 does not fit: int8 has -128 to 127"),
        (pa.uint32(), -1, "the default -1 is not a value of its type uint32: "),
        (pa.int64(), None, "the default None is not a value of its type int64: it is itself a missing value"),
        (pa.float32(), 1e300, r"the default 1e\+300 is not a value of its type float: 1e\+300 does not fit"),
        (pa.string(), 5, "the default 5 is not a value of its type large_binary: "),
        (pa.list_(pa.int64()), 5, "the default 5 is not a value of its type large_list")])
    def test_defaults_that_do_not_fit(self, kind, default, why):
        with pytest.raises(ValueError, match=f"column 'x': {why}"):
            sf.from_arrow(pa.table({"x": pa.array([None], kind)}), defaults={"x": default})

    @pytest.mark.parametrize("make, error, why", [
        (lambda: pa.array([1], pa.timestamp("us")), TypeError, r"type timestamp\[us\]; cast it to integers of a unit"),
        (lambda: pa.array([1], pa.date32()), TypeError, r"type date32\[day\]; cast it to integers of a unit"),
        (lambda: pa.array([1], pa.decimal128(5)), TypeError, "type decimal128.*; cast it to float64 or to strings"),
        (lambda: pa.array([{"a": 1}]), TypeError, "type struct<a: int64>; make its fields columns"),
        (lambda: pa.array([[[1]]]), TypeError, "type list.*; make it a list of numbers or strings, or leave it out"),
        (lambda: pa.array([None]), TypeError, "type null; it has no value in any row; cast it to a type, or leave"),
        (lambda: pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "o", "v"), pa.array([1], pa.int8())), TypeError,
         "type extension<arrow.opaque.*>; cast it to its storage, int8"),
        (lambda: pa.array([1 << 63], pa.uint64()), ValueError, f"{1 << 63} is out of the range of int64; cast it to"),
        (lambda: pa.array([[1, None]]), ValueError, "a value within a list is missing, .*; fill it, or leave out such"),
        (lambda: pa.array([[1., None]], pa.list_(pa.float32(), 2)), ValueError, "a value within a list is missing")])
    def test_types_without_counterpart(self, make, error, why):
        with pytest.raises(error, match=f"column 'x': .*{why}"):
            sf.from_arrow(pa.table({"n": [1], "x": make()}))

    def test_what_splits_give(self, dataset):
        split, = sf.splits(dataset, 1)
        found = rows(sf.from_arrow(split.arrow(["n", "x", "some"])))
        assert found == rows(sf.read(dataset).parse({"n": sf.int64, "x": sf.var(sf.float32), "some": sf.var()}))
        with pytest.raises(ValueError, match="from_arrow: the data cannot be read .*feature 'n' is of kind int64"):
            sf.from_arrow(split.arrow({"n": sf.bytes}))

    def test_arguments(self):
        with pytest.raises(TypeError, match="from_arrow: data must have __arrow_c_stream__, .*, not be 5"):
            sf.from_arrow(5)
        with pytest.raises(ValueError, match="from_arrow: the data cannot be read as a table of Arrow: .*"):
            sf.from_arrow(pa.array([1]))
        with pytest.raises(ValueError, match="from_arrow: there are no columns"):
            sf.from_arrow(pa.table({}))
        with pytest.raises(ValueError, match="from_arrow: column 'x' appears 2 times; rename one"):
            sf.from_arrow(pa.Table.from_arrays([pa.array([1])] * 2, ["x", "x"]))
        with pytest.raises(ValueError, match="from_arrow: defaults names 'z', and the columns are: x, y"):
            sf.from_arrow(pa.table({"x": [1], "y": [2]}), defaults={"z": 1})
        with pytest.raises(TypeError, match="from_arrow: defaults must be a dict"):
            sf.from_arrow(pa.table({"x": [1]}), defaults=[1])

    def test_other_libraries_are_not_imported(self):
        done = python("""
import sys, shardfeed as sf
assert "pyarrow" not in sys.modules
sys.modules["pyarrow"] = None
try:
    sf.from_arrow(5)
except ModuleNotFoundError as error:
    print(error)
del sys.modules["pyarrow"]
import pyarrow
data = pyarrow.table({"x": [1]})
before = set(sys.modules)
sf.from_arrow(data)
print({"pandas", "polars", "datasets"} & (set(sys.modules) - before))
""")
        message, found = done.stdout.splitlines()
        assert message.startswith("from_arrow takes pyarrow, which cannot be imported (") and found == "set()"
        assert message.endswith("install it: pip install pyarrow"), done.stderr

    @pytest.mark.parametrize("function, what", [
        (sf.from_pandas, "from_pandas: frame must be a pandas DataFrame"),
        (sf.from_polars, "from_polars: frame must be a polars DataFrame"),
        (sf.from_hf, "from_hf: dataset must be a datasets.Dataset of Hugging Face")])
    def test_each_function_takes_its_own(self, function, what):
        with pytest.raises(TypeError, match=f"{what}, not pyarrow.Table"):
            function(pa.table({"x": [1]}))


class TestPandas:
    def frame(self, pd):
        return pd.DataFrame({
            "s": ["a", "b"], "o": [b"x", b"\xff"], "c": pd.Categorical(["u", "v"]),
            "f": np.float32([1, math.nan]), "I": pd.array([1, None], "Int16"), "b": [True, False],
            "l": [[1], [2, 3]], "a": [np.arange(2), np.arange(3)]}, index=["k", "m"])

    def test_rows(self, pd):
        ds = sf.from_pandas(self.frame(pd), defaults={"f": math.nan, "I": -1})
        assert {name: spec[0] for name, spec in ds.element_spec.items()} == {
            "s": "bytes", "o": "bytes", "c": "bytes", "f": "float32", "I": "int16", "b": "uint8", "l": "int64",
            "a": "int64"}
        assert same(rows(ds), [
            {"s": b"a", "o": b"x", "c": b"u", "f": 1, "I": 1, "b": 1, "l": [1], "a": [0, 1]},
            {"s": b"b", "o": b"\xff", "c": b"v", "f": math.nan, "I": -1, "b": 0, "l": [2, 3], "a": [0, 1, 2]}])
        assert rows(sf.from_arrow(self.frame(pd)[["s", "o"]])) == [{"s": b"a", "o": b"x"}, {"s": b"b", "o": b"\xff"}]

    def test_the_index_is_left_out_unless_it_is_wanted(self, pd):
        frame = self.frame(pd)[["s"]]
        assert list(sf.from_pandas(frame).element_spec) == list(sf.from_arrow(frame).element_spec) == ["s"]
        assert rows(sf.from_pandas(frame, index=True)) == [{"index": b"k", "s": b"a"}, {"index": b"m", "s": b"b"}]
        named = frame.set_index(pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["day", "place"]))
        assert rows(sf.from_pandas(named, index=True))[1] == {"day": 2, "place": b"y", "s": b"b"}

    def test_missing_values(self, pd):
        for frame in (self.frame(pd)[["f"]], self.frame(pd)[["I"]],
                      pd.DataFrame({"s": pd.Series(["a", None], dtype=object)}),
                      pd.DataFrame({"o": pd.Series([1, math.nan], dtype=object)})):
            name = frame.columns[0]
            with pytest.raises(ValueError, match=f"column '{name}': row 1 has no value .null, None, or NaN in pandas"):
                sf.from_pandas(frame)

    @pytest.mark.parametrize("values", [[1, "a"], [b"a", 1], [object(), object()], [np.zeros((2, 2)), None], [1j, 2j]],
                             ids=["int and str", "bytes and int", "objects", "matrices", "complex"])
    def test_objects_that_are_not_of_one_type(self, pd, values):
        with pytest.raises(TypeError, match="column 'x': its objects are not of one type that Arrow has .*; make them "
                           r"so, or leave it out: frame.drop\(columns='x'\)"):
            sf.from_pandas(pd.DataFrame({"x": values}))

    def test_types_and_names_without_counterpart(self, pd):
        times = pd.to_datetime(["2020-01-01", "2021-01-01"])
        with pytest.raises(TypeError, match="column 't': .*type timestamp.*; cast it to integers of a unit"):
            sf.from_pandas(pd.DataFrame({"t": times}))
        with pytest.raises(TypeError, match="column 't': .*type extension.pandas.period"):
            sf.from_pandas(pd.DataFrame({"t": times.to_period("D")}))
        with pytest.raises(TypeError, match="from_pandas: the name of a column must be a str, not 1; rename it: fra"):
            sf.from_pandas(pd.DataFrame({1: [1]}))
        with pytest.raises(TypeError, match="from_pandas: index must be True or False"):
            sf.from_pandas(pd.DataFrame({"x": [1]}), index="x")

    def test_written(self, pd, tmp_path):
        with sf.write(tmp_path / "a@1") as writer:
            assert writer.write_batch(self.frame(pd)) == 2
        first, second = rows(sf.read(tmp_path / "a@1").parse({
            "s": sf.bytes, "o": sf.bytes, "c": sf.bytes, "f": sf.var(sf.float32), "I": sf.var(), "b": sf.int64,
            "l": sf.var(), "a": sf.var()}))
        assert first == {"s": b"a", "o": b"x", "c": b"u", "f": [1], "I": [1], "b": 1, "l": [1], "a": [0, 1]}
        assert second["f"] == second["I"] == [] and second["o"] == b"\xff"
        # The index is no feature.
        assert set(sf.read(tmp_path / "a@1").parse().element_spec) == set(self.frame(pd).columns)
        with pytest.raises(TypeError, match="column 'x': its objects are not of one type"):
            with sf.write(tmp_path / "b@1") as writer:
                writer.write_batch(pd.DataFrame({"x": [1, "a"]}))


class TestPolars:
    def frame(self, pl):
        return pl.DataFrame({
            "s": ["a", "b" * 50], "b": [b"x", b"\xff" * 50], "c": pl.Series(["u", "v"], dtype=pl.Categorical),
            "e": pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"])), "f": [1.0, math.nan], "t": [True, False],
            "a": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int32, 2)), "l": [[1], [2, 3]],
            "ls": [["a"], ["b" * 50, "c"]]})

    WANTED = [{"s": b"a", "b": b"x", "c": b"u", "e": b"u", "f": 1, "t": 1, "a": [1, 2], "l": [1], "ls": [b"a"]},
              {"s": b"b" * 50, "b": b"\xff" * 50, "c": b"v", "e": b"v", "f": math.nan, "t": 0, "a": [3, 4],
               "l": [2, 3], "ls": [b"b" * 50, b"c"]}]

    def test_rows(self, pl):
        ds = sf.from_polars(self.frame(pl))
        assert ds.element_spec["a"] == ("int32", (2,), False) and ds.element_spec["l"] == ("int64", (), True)
        assert same(rows(ds), self.WANTED)
        assert same(rows(sf.from_arrow(self.frame(pl))), self.WANTED)
        assert same(rows(sf.from_polars(self.frame(pl)[1:])), self.WANTED[1:])
        assert sf.from_polars(self.frame(pl).clear()).element_spec == ds.element_spec

    def test_nulls(self, pl):
        frame = pl.DataFrame({"n": [1, None], "s": [None, "a"]})
        with pytest.raises(ValueError, match="column 'n': row 1 has no value"):
            sf.from_polars(frame)
        assert rows(sf.from_polars(frame, defaults={"n": 0, "s": ""})) == [{"n": 1, "s": b""}, {"n": 0, "s": b"a"}]

    def test_what_is_refused(self, pl):
        with pytest.raises(TypeError, match=r"from_polars: a LazyFrame has no rows yet; give frame.collect\(\)"):
            sf.from_polars(self.frame(pl).lazy())
        with pytest.raises(TypeError, match="column 'x': .*type timestamp.*; cast it to integers of a unit"):
            sf.from_polars(pl.DataFrame({"x": pl.Series([1]).cast(pl.Datetime)}))
        for kind, value in ((pl.Object, object()), (pl.Int128, 1)):
            with pytest.raises(TypeError, match=f"column 'x': Arrow has no counterpart of polars' {kind} .*; cast it, "
                               r"or leave it out: frame.drop\('x'\)"):
                sf.from_polars(pl.DataFrame({"x": pl.Series([value], dtype=kind)}))

    def test_written(self, pl, tmp_path):
        frame = self.frame(pl).drop("c", "e")
        with sf.write(tmp_path / "a@1") as writer:
            assert writer.write_batch(frame) == writer.write_batch(frame[1:]) + 1
        spec = {"s": sf.bytes, "b": sf.bytes, "f": sf.float32, "t": sf.int64, "a": sf.fixed(2, sf.int64),
                "l": sf.var(), "ls": sf.var(sf.bytes)}
        wanted = [{name: row[name] for name in spec} for row in self.WANTED]
        assert same(rows(sf.read(tmp_path / "a@1").parse(spec)), wanted + wanted[1:])


class TestHuggingFace:
    @pytest.fixture
    def image(self, tmp_path):
        image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
        image.new("RGB", (4, 3), (9, 8, 7)).save(tmp_path / "a.png")
        return tmp_path / "a.png"

    def make(self, datasets, image):
        features = {"n": datasets.Value("int64"), "image": datasets.Image(), "text": datasets.Value("string"),
                    "label": datasets.ClassLabel(names=["u", "v"]), "array": datasets.Array2D((2, 2), "float32")}
        encoded = {"bytes": image.read_bytes(), "path": None}
        return datasets.Dataset.from_dict(
            {"n": [0, 1, 2], "image": [str(image), encoded, encoded], "text": ["a", "b", "c"], "label": [0, 1, 0],
             "array": [[[1, 2], [3, 4]]] * 3}, features=datasets.Features(features))

    def test_rows(self, datasets, image):
        ds = self.make(datasets, image)
        chain = sf.from_hf(ds)
        assert chain.element_spec == {
            "n": ("int64", (), False), "image": ("bytes", (), False), "text": ("bytes", (), False),
            "label": ("int64", (), False), "array": ("float32", (2, 2), False)}
        wanted = [{"n": i, "image": image.read_bytes(), "text": b"abc"[i:i + 1], "label": i % 2,
                   "array": [[1, 2], [3, 4]]} for i in range(3)]
        assert rows(chain) == wanted
        batch = next(iter(chain.decode_image("image", 2).batch(3)))
        assert batch["image"].shape == (3, 2, 2, 3)
        assert rows(sf.from_hf(ds.select([2, 0]).with_format("numpy"))) == [wanted[2], wanted[0]]
        mixed = ds.shuffle(seed=3)
        assert [r["n"] for r in sf.from_hf(mixed)] == mixed["n"][:]
        assert sf.from_hf(ds.select([])).element_spec == chain.element_spec

    def test_missing_values(self, datasets, image):
        ds = datasets.Dataset.from_dict({"image": [None, str(image)]},
                                        features=datasets.Features({"image": datasets.Image()}))
        with pytest.raises(ValueError, match="column 'image': row 0 has no value"):
            sf.from_hf(ds)
        assert [len(r["image"]) for r in sf.from_hf(ds, defaults={"image": b""})] == [0, image.stat().st_size]

    def test_what_is_refused(self, datasets, image):
        ds = self.make(datasets, image)
        with pytest.raises(TypeError, match=r"from_hf: this is a dict of datasets; choose one: dataset\['test'\]"):
            sf.from_hf(datasets.DatasetDict({"test": ds}))
        with pytest.raises(TypeError, match="from_hf: an IterableDataset has no rows by number; give sf.from_gen"):
            sf.from_hf(ds.to_iterable_dataset())
        with pytest.raises(TypeError, match="column 'x': .*type struct.*; make its fields columns"):
            sf.from_hf(datasets.Dataset.from_dict({"x": [{"a": 1}]}))

    def test_written(self, datasets, image, tmp_path):
        ds = self.make(datasets, image)
        many = datasets.concatenate_datasets([ds] * 400)
        with sf.write(tmp_path / "a@1") as writer:
            assert writer.write_batch(many) == 1200
        found = rows(sf.read(tmp_path / "a@1").parse())
        assert len(found) == 1200
        assert found[-1] == {"n": 2, "image": image.read_bytes(), "text": b"c", "label": 0,
                             "array": [[1, 2], [3, 4]]}


# ---- What would change without a word


@pytest.mark.parametrize("make", [lambda: pa.array([123456789, None]), lambda: pa.chunked_array([[1], [None]])])
def test_columns_with_nulls_are_no_arrays(make, tmp_path):
    with pytest.raises(TypeError, match="column 'a': it has 1 missing value, which an array cannot have"):
        sf.from_arrays({"a": make()})
    writer = sf.write(str(tmp_path / "d@1"))
    with pytest.raises(TypeError, match="column 'a': it has 1 missing value"):
        writer.write_batch({"a": make()})
    writer.abort()


def test_columns_of_others_with_nulls_are_no_arrays(pd, pl):
    for column in (pd.Series([1, None], dtype="Int64"), pl.Series([1, None])):
        with pytest.raises(TypeError, match="column 'a': it has 1 missing value"):
            sf.from_arrays({"a": column})
    assert rows(sf.from_arrays({"a": pd.Series([1, 2], dtype="Int64").to_numpy(np.int64)})) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("values, told", [
    ([[[1, 2], [3, 4], [5, 6]], [[7, 8]]], "row 0 has a list of 3 values where the arrays, of shape .2, 2., have 2"),
    ([[[1, 2], [3, 4]], [[1], [2, 3, 4]]], "row 1 has a list of 1 values"),
    ([[[1, 2], None], [[5, 6], [7, 8]]], "row 0 lacks a part of its array")])
def test_arrays_of_another_shape_than_declared(datasets, tmp_path, values, told):
    features = datasets.Features({"c": datasets.Array2D((2, 2), "int64")})
    data = datasets.Dataset.from_dict({"c": values}, features=features)
    with pytest.raises(ValueError, match="column 'c': " + told):
        sf.from_hf(data)
    writer = sf.write(str(tmp_path / "d@1"))
    with pytest.raises(ValueError, match="column 'c': " + told):
        writer.write_batch(data)
    writer.abort()


@pytest.mark.parametrize("values", [[[[1, 2], [3, 4]], None, [[5, 6], [7, 8]]], [None, None]])
def test_arrays_that_are_missing_are_written_as_such(datasets, tmp_path, values):
    features = datasets.Features({"c": datasets.Array2D((2, 2), "int64"), "n": datasets.Value("int64")})
    data = datasets.Dataset.from_dict({"c": values, "n": list(range(len(values)))}, features=features)
    with sf.write(str(tmp_path / "d@1")) as writer:
        writer.write_batch(data)
    found = [{one.name: one.values.tolist() for one in features_of(record)} for record in sf.read(str(tmp_path / "d@1"))]
    assert found == [{"n": [i]} if value is None else {"c": sum(value, []), "n": [i]} for i, value in enumerate(values)]


def test_objects_of_polars_are_not_written(pl, tmp_path):
    frame = pl.DataFrame({"c": pl.Series([object()], dtype=pl.Object)})
    writer = sf.write(str(tmp_path / "d@1"))
    with pytest.raises(TypeError, match="column 'c': a column of Python's objects.*leave it out"):
        writer.write_batch(frame)
    writer.abort()


def test_structs_that_look_like_images_are_none(datasets):
    with pytest.raises(TypeError, match="column 'c': chains have no counterpart of Arrow's type struct"):
        sf.from_hf(datasets.Dataset.from_dict({"c": [{"bytes": 7, "path": 8}]}))
