"""Values that a column cannot hold, and exceptions that would end a loop: errors that say where."""

import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
import process_functions  # noqa: E402

BAD = [
    (1000, sf.uint8, ValueError, "1000 does not fit: uint8 has 0 to 255"),
    (-1, sf.uint8, ValueError, "-1 does not fit"),
    (2 ** 40, sf.int32, ValueError, "1099511627776 does not fit: int32 has"),
    (np.int64(300), sf.int8, ValueError, "300 does not fit"),
    (10 ** 30, sf.int64, ValueError, "does not fit: int64 has"),
    (1.5, sf.int64, TypeError, "float64 where int64 is declared: 1.5"),
    (float("nan"), sf.int32, TypeError, "float64 where int32 is declared: nan"),
    (1e300, sf.float32, ValueError, "does not fit: float32"),
    (2 ** 24 + 1, sf.float32, ValueError, "16777217 does not fit: float32 cannot hold it"),
    (2 ** 53 + 1, sf.float64, ValueError, "9007199254740993 does not fit"),
    (np.datetime64("2020-01-01"), sf.int64, TypeError, "where int64 is declared"),
    (None, sf.int64, TypeError, "where int64 is declared"),
]


def rows(n=3):
    return sf.range(n)


def fails(ds, kind, *words):
    with pytest.raises(kind) as info:
        list(ds)
    text = "\n".join([str(info.value), *getattr(info.value, "__notes__", [])])
    for word in words:
        assert word in text, text
    return info.value


@pytest.mark.parametrize("value, dtype, kind, message", BAD)
def test_values_that_do_not_fit_are_errors(value, dtype, kind, message):
    out = {"x": dtype}
    notes = ["element 0 of epoch 0"] if sys.version_info >= (3, 11) else []
    fails(rows().map(lambda r: {"x": value}, output=out), kind, "column 'x'", message, *notes)
    fails(rows().flat_map(lambda r: [{"x": value}], output=out), kind, "column 'x'", message)
    fails(sf.from_generator(lambda: iter([{"x": value}]), out), kind, "column 'x'", message)
    if not isinstance(value, int) or value < 2 ** 63:
        fails(rows().batch(3).map(lambda b: {"x": np.array([value] * 3)}, batched=True, output=out),
              kind, "column 'x'", message.split(": 1.5")[0].split(": nan")[0].split(" does not")[0])


@pytest.mark.parametrize("value, dtype", [
    (255, sf.uint8), (True, sf.uint8), (-2 ** 63, sf.int64), (2 ** 53, sf.float64), (0.1, sf.float32),
    (float("inf"), sf.float32), (np.uint8(7), sf.int64), (2 ** 62, sf.float32)])
def test_values_that_fit_arrive(value, dtype):
    got = [r["x"] for r in rows().map(lambda r: {"x": value}, output={"x": dtype})]
    assert got == [np.dtype(str(dtype)).type(value)] * 3


def test_a_row_of_a_batch_is_named():
    ds = rows().batch(3).map(lambda b: {"x": np.array([1, 2, 300])}, batched=True,
                             output={"x": sf.uint8})
    fails(ds, ValueError, "column 'x': 300 at [2] does not fit")


def ragged(dtype):
    return sf.from_arrays({"n": np.arange(3)}).map(
        lambda r: {"x": [b"v"] * r["n"] if dtype == sf.bytes else [1] * r["n"]},
        output={"x": sf.ragged(dtype)})


@pytest.mark.parametrize("dtype, value", [
    (sf.uint8, -1), (sf.uint8, 256), (sf.int32, 2 ** 31), (sf.int64, 2 ** 63), (sf.int64, 0.5),
    (sf.int64, float("nan")), (sf.float32, 2 ** 24 + 1), (sf.float32, 1e300), (sf.float16, 70000.0),
    (sf.bytes, 1), (sf.int64, b"x"), (sf.float64, 2 ** 53 + 1)])
def test_padding_that_a_column_cannot_hold_is_refused(dtype, value):
    with pytest.raises(ValueError, match="pad: column 'x'.* cannot hold the padding value"):
        ragged(dtype).padded_batch(3, {"x": value})


@pytest.mark.parametrize("dtype, value", [
    (sf.uint8, 255), (sf.int64, 2 ** 53 + 1), (sf.int64, -2 ** 63), (sf.int64, 7.0),
    (sf.float32, -1), (sf.float16, 0.5), (sf.float32, float("inf")), (sf.bytes, b"<pad>"),
    (sf.bytes, "<pad>"), (sf.bytes, 0)])
def test_padding_arrives_exactly(dtype, value):
    batch, = ragged(dtype).padded_batch(3, {"x": (3, value)})
    first = batch["x"][0]
    if dtype == sf.bytes:
        wanted = {"<pad>": b"<pad>", 0: b""}.get(value, value)
        assert [v for v in first] == [wanted] * 3
    else:
        assert [v.item() for v in first] == [value] * 3


def test_packs_padding_is_exact():
    ds = ragged(sf.int32)
    with pytest.raises(ValueError, match="pack: column 'x' of int32 cannot hold .* 1099511627776"):
        ds.pack("x", 4, pad=2 ** 40)


def test_pack_names_the_record():
    fails(ragged(sf.int32).pack("x", 1), ValueError, "element 2 of epoch 0",
          "pack: column 'x': a sequence of 2 elements does not fit into a row of 1")


@pytest.mark.parametrize("value, message", [
    (2 ** 63, "feature 'v': 9223372036854775808 is out of the range of int64"),
    ([1, 2 ** 70], "is out of the range of int64"),
    (np.array([2 ** 64 - 1], np.uint64), "is out of the range of int64"),
    (1e300, "feature 'v': 1e+300 is out of the range of float32"),
    (np.array([1e300]), "is out of the range of float32"),
    ([0.5, 2 ** 24 + 1], "float32 cannot hold the integer 16777217"),
    ([2 ** 24 + 1, 0.5], "float32 cannot hold the integer 16777217")])
def test_written_values_that_do_not_fit_are_refused(tmp_path, value, message):
    with pytest.raises(ValueError, match="feature 'v'.*") as info:
        with sf.write(tmp_path / "x@1") as writer:
            writer.write({"v": value})
    assert message in str(info.value)


def test_written_floats_are_no_integers(tmp_path):
    with pytest.raises(TypeError, match="feature 'v': floats, where integers are declared"):
        with sf.write(tmp_path / "x@1", features={"v": sf.int64}) as writer:
            writer.write({"v": 1.5})


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration])
@pytest.mark.parametrize("make", [
    lambda f: rows().map(f, output={"x": sf.int64}),
    lambda f: rows().filter(f),
    lambda f: rows().flat_map(f, output={"x": sf.int64}),
    lambda f: rows().batch(2).map(f, batched=True, output={"x": sf.int64}),
    lambda f: rows().batch(2).filter(f, batched=True),
    lambda f: sf.from_generator(lambda: f(0), {"x": sf.int64}),
])
def test_stop_iteration_does_not_end_the_data(make, kind):
    def broken(row):
        raise kind("odd")
    if make.__code__.co_names[0] == "from_generator":
        broken.__name__ = "broken"
    error = fails(make(broken), RuntimeError, f"raised {kind.__name__}: odd")
    assert isinstance(error.__cause__, kind)
    assert "broken" in str(error) or "<lambda>" in str(error)


def test_stop_iteration_names_the_record():
    def broken(row):
        if row["value"] == 2:
            next(iter([]))
        return {"x": 1}
    error = fails(rows().map(broken, output={"x": sf.int64}), RuntimeError)
    assert "element 2 of epoch 0" in str(error) and "broken" in str(error)


def test_stop_iteration_while_learning_is_an_error():
    def broken(row=None):
        next(iter([]))
    for call in (lambda: rows().map(broken), lambda: rows().flat_map(broken),
                 lambda: sf.from_generator(broken)):
        with pytest.raises(RuntimeError, match="the function broken raised StopIteration"):
            call()


def test_stop_iteration_in_a_process_does_not_end_the_data():
    ds = rows().map(process_functions.stops, output={"x": sf.int64}, processes=1)
    error = fails(ds, RuntimeError, "the function stops raised StopIteration")
    assert isinstance(error.__cause__, StopIteration)


@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, SystemExit])
def test_exits_arrive_as_themselves(kind):
    def leaves(row):
        raise kind()
    fails(rows().map(leaves, output={"x": sf.int64}), kind)
    fails(rows().batch(2).map(leaves, batched=True, output={"x": sf.int64}), kind)


def test_an_exit_in_a_process_arrives_as_itself():
    fails(rows().map(process_functions.leaves, output={"x": sf.int64}, processes=1), SystemExit)


@pytest.mark.parametrize("combine", [
    lambda *all: sf.mix(*all), lambda *all: sf.concatenate(*all),
    lambda *all: sf.interleave(*all, cycle=2)])
def test_several_datasets_are_arguments_or_a_list(combine):
    a, b = sf.range(3), sf.range(10, 13)
    assert list(combine(a, b)) == list(combine([a, b]))


def test_zip_takes_arguments_or_a_list():
    a, b = sf.range(3, name="a"), sf.range(3, name="b")
    assert list(sf.zip(a, b)) == list(sf.zip([a, b]))


def test_options_behind_a_list_may_be_positional():
    a, b = sf.range(3), sf.range(10, 13)
    assert list(sf.interleave([a, b], 2)) == list(sf.interleave(a, b, cycle=2))
    assert list(sf.mix([a, b], [1, 3], 5)) == list(sf.mix(a, b, weights=[1, 3], seed=5))
