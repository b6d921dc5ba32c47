"""Steps that tf.data has too, beside tf.data's own on the same data: what they give, where they go
on from a state, and what they say of wrong arguments."""

import pickle
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def numbers(tf, *bounds):
    return tf.data.Dataset.range(*bounds)


def values(ds, name="value"):
    """A column of all elements, as lists and numbers."""
    return [np.asarray(element[name]).tolist() for element in ds]


def theirs(ds):
    return [np.asarray(element.numpy()).tolist() for element in ds]


def plain(element):
    """An element that can be compared."""
    if isinstance(element, sf.Ragged):
        return [plain(row) for row in element]
    if isinstance(element, sf.Sparse):
        return plain(element.values), plain(element.indices), element.shape
    if isinstance(element, dict):
        return {name: plain(value) for name, value in element.items()}
    if isinstance(element, (tuple, list)):
        return [plain(value) for value in element]
    return np.asarray(element).tolist()


def goes_on(ds, stops=(0, 1, 2, 5, 9)):
    """Whether runs that go on from a state, saved at several places, give the rest; also with
    another number of threads. The elements."""
    ds = pickle.loads(pickle.dumps(ds))
    wanted = [plain(element) for element in ds.start(epoch=0)]
    for stop in stops:
        with ds.start(epoch=0, threads=3) as it:
            found = [plain(element) for _, element in zip(range(stop), it)]
            state = it.state_dict()
        assert len(state["state"]) < 1024
        with ds.start(epoch=0, threads=1) as it:
            it.load_state_dict(state)
            found += [plain(element) for element in it]
        assert found == wanted, f"from element {stop}"
    return wanted


def even(row):
    return row["value"] % 2 == 0


def below_30(row):
    return row["value"] < 30


def running(state, row):
    total = state + row["value"]
    return total, {"total": total, "value": row["value"]}


def inverse(row):
    if row["value"] % 100 == 3:
        raise ArithmeticError(f"no inverse of {row['value']}")
    return {"value": row["value"], "inverse": np.float64(1 / (row["value"] % 100 - 3))}


# ---- take_while


@pytest.mark.parametrize("stop", [0, 1, 7, 100, 1000])
def test_take_while(tf, stop):
    found = values(sf.range(100).take_while(lambda row: row["value"] < stop))
    assert found == theirs(numbers(tf, 100).take_while(lambda x: x < stop))


def test_take_while_goes_on(tf):
    ds = sf.range(100).filter(even).take_while(below_30).repeat(2).batch(4)
    expected = numbers(tf, 100).filter(lambda x: x % 2 == 0).take_while(lambda x: x < 30)
    assert [e["value"] for e in goes_on(ds)] == theirs(expected.repeat(2).batch(4))
    assert repr(ds) == "range(0, 100, 1).filter(even).take_while(below_30).repeat(2).batch(4)"
    assert ds._core.text().count("take_while") == 1


def test_take_while_tells_what_is_wrong():
    def fails(row):
        return 1 // (5 - row["value"]) >= 0

    with pytest.raises(ZeroDivisionError) as raised:
        list(sf.range(10).take_while(fails))
    if hasattr(raised.value, "__notes__"):
        assert "element 5 of epoch 0" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match="take_while: works on rows"):
        sf.range(10).batch(2).take_while(even)
    with pytest.raises(TypeError, match="take_while: fn must be a function, not 3"):
        sf.range(10).take_while(3)
    with pytest.raises(TypeError, match="take_while ends where its function says"):
        len(sf.range(10).take_while(even))
    one, other = (sf.range(10).take_while(even, version=v)._core.fingerprint() for v in "12")
    assert one != other


# ---- unique


@pytest.mark.parametrize("column", [[3, 1, 3, 2, 1, 7], [b"b", b"a", b"", b"b", b"a"]])
def test_unique(tf, column):
    assert values(sf.from_arrays({"value": column}).unique("value")) == theirs(
        tf.data.Dataset.from_tensor_slices(column).unique())


def test_unique_keeps_the_rows_and_goes_on():
    keys = np.random.default_rng(1).integers(0, 40, 300)
    ds = sf.from_arrays({"key": keys, "n": np.arange(300)}).unique("key").repeat(2).batch(5)
    _, first = np.unique(keys, return_index=True)
    assert [n for e in goes_on(ds) for n in e["n"]] == sorted(first.tolist()) * 2


def test_unique_tells_what_is_wrong():
    with pytest.raises(ValueError, match="unique: there is no column 'x'; there are: value: int64"):
        sf.range(3).unique("x")
    with pytest.raises(ValueError, match="must have one number, or one value of bytes, in a row"):
        sf.from_arrays({"x": np.zeros((3, 2))}).unique("x")


# ---- rebatch


@pytest.mark.parametrize("size", [1, 5, 7, 14, 100])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_rebatch(tf, size, drop_remainder):
    assert values(sf.range(50).batch(7).rebatch(size, drop_remainder)) == theirs(
        numbers(tf, 50).batch(7).rebatch(size, drop_remainder))


def test_rebatch_of_ragged_rows_and_functions_of_batches():
    rows = sf.range(50).map(lambda row: {"some": [row["value"]] * (row["value"] % 4)},
                            output={"some": sf.ragged(sf.int64)})
    assert [plain(e) for e in rows.batch(7).rebatch(5)] == [plain(e) for e in rows.batch(5)]
    pairs = rows.batch(7).map(lambda b: (b["some"], {"n": np.arange(len(b["some"]))}), batched=True)
    assert [len(some) for some, _ in pairs.rebatch(20)] == [20, 20, 10]
    ds = sf.range(100).batch(9).map(dict, batched=True).rebatch(4)
    assert [e["value"] for e in goes_on(ds)] == np.arange(100).reshape(-1, 4).tolist()


def test_rebatch_of_sparse_columns(tmp_path):
    with sf.write(str(tmp_path / "x@1")) as writer:
        for n in range(20):
            writer.write({"a": [n] * (n % 3), "b": [n] * (n % 4)})
    ds = sf.read(str(tmp_path / "x@1"))
    parsed = ds.parse({"a": sf.sparse(sf.int64), "b": sf.ragged(sf.int64)})
    assert [plain(e) for e in parsed.batch(6).rebatch(4)] == [plain(e) for e in parsed.batch(4)]
    later = ds.parse({"a": sf.ragged(sf.int64), "b": sf.ragged(sf.int64)})
    wanted = [plain(e) for e in later.batch(4).sparse("b")]
    assert [plain(e) for e in later.batch(6).sparse("b").rebatch(4)] == wanted


def test_rebatch_tells_what_is_wrong():
    with pytest.raises(ValueError, match="rebatch: the elements here are rows: use batch"):
        sf.range(3).rebatch(2)
    with pytest.raises(ValueError, match="rebatch: size must be at least 1, not 0"):
        sf.range(3).batch(2).rebatch(0)
    rows = sf.range(9).map(lambda row: {"some": [1] * row["value"]},
                           output={"some": sf.ragged(sf.int64)})
    with pytest.raises(ValueError, match="'some' is padded to another length in each batch"):
        rows.padded_batch(2).rebatch(3)


# ---- scan


def test_scan(tf):
    expected = numbers(tf, 100).scan(tf.constant(5, tf.int64), lambda s, x: (s + x, s + x))
    ds = sf.range(100).scan(5, running)
    assert values(ds, "total") == theirs(expected)
    assert len(ds) == 100
    assert [e["total"] for e in goes_on(ds.repeat(2).batch(9))] == theirs(
        expected.repeat(2).batch(9))


def test_scan_begins_with_a_state_of_its_own():
    def remember(state, row):
        state.append(row["value"])
        return state, {"seen": list(state)}

    first = []
    ds = sf.range(4).scan(first, remember, output={"seen": sf.ragged(sf.int64)})
    for _ in range(2):
        assert values(ds, "seen") == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert first == []
    # What it gives is learnt from the first row.
    pairs = sf.range(3).scan((0, 0), lambda s, row: (s, (row["value"], s[0])))
    assert values(pairs, 0) == [0, 1, 2]


def test_scan_tells_what_is_wrong():
    with pytest.raises(TypeError, match=r"scan: bad must give \(state, row\), not 3"):
        def bad(state, row):
            return 3
        sf.range(3).scan(0, bad)
    with pytest.raises(TypeError, match=r"must give \(state, row\), not \[1, 2\]"):
        list(sf.range(3).scan(0, lambda s, row: [1, 2], output={"x": sf.int64}))
    with pytest.raises(ValueError, match="scan.running.: works on rows"):
        sf.range(3).batch(2).scan(0, running)
    with pytest.raises(ValueError, match="no elements from which to learn"):
        sf.range(0).scan(0, running)

    def late(state, row):
        if row["value"] == 70:
            raise KeyError("late")
        return state, row

    with sf.range(100).scan(0, late).start() as it:
        assert [next(it)["value"] for _ in range(70)] == list(range(70))
        with pytest.raises(KeyError) as raised:
            next(it)
    if hasattr(raised.value, "__notes__"):
        assert "element 70 of epoch 0" in raised.value.__notes__[0]


# ---- ignore_errors


def test_ignore_errors(tf):
    checked = tf.data.Dataset.from_tensor_slices(tf.range(300.0)).map(
        lambda x: tf.debugging.check_numerics(1 / (x % 100 - 3), "no inverse"))
    if hasattr(checked, "ignore_errors"):
        expected = checked.ignore_errors()
    else:
        expected = checked.apply(tf.data.experimental.ignore_errors())
    ds = sf.range(300).map(inverse, output={"value": sf.int64, "inverse": sf.float64})
    ds = ds.ignore_errors()
    assert np.allclose(values(ds, "inverse"), theirs(expected))
    with ds.start(epoch=0) as it:
        assert sum(1 for _ in it) == 297
        stats = it.stats()
    assert stats["ignored"] == 3
    assert stats["first_ignored"] == [
        f"element {n} of epoch 0: ArithmeticError: no inverse of {n}" for n in (3, 103, 203)]
    goes_on(ds.repeat(2).batch(20))


def test_ignore_errors_of_parsing_and_decoding(tmp_path):
    with sf.write(str(tmp_path / "x@1")) as writer:
        for n in range(60):
            writer.write({"n": n, "text": b"\xff" if n % 7 == 5 else b"ok"} if n % 6 else
                         {"text": b"ok"})
    ds = sf.read(str(tmp_path / "x@1")).parse({"n": sf.int64, "text": sf.bytes})
    with pytest.raises(ValueError, match="'n' is missing"):
        list(ds)
    ds = ds.decode_text("text").map(lambda row: {"n": row["n"], "r": [1] * (row["n"] % 3)},
                                    output={"n": sf.int64, "r": sf.ragged(sf.int64)})
    ds = ds.ignore_errors(max_ignored="50%")
    wanted = [n for n in range(60) if n % 6 and n % 7 != 5]
    found = [plain(e) for e in ds.batch(8)]
    assert [n for e in found for n in e["n"]] == wanted
    assert [r for e in found for r in e["r"]] == [[1] * (n % 3) for n in wanted]
    with ds.start() as it:
        list(it)
        stats = it.stats()
        first, second = stats["first_ignored"][:2]
        assert stats["ignored"] == 60 - len(wanted) and "record 0 at byte 0: " in first
        assert "record 5 at byte " in second and "the text is not UTF-8" in second


def test_ignore_errors_has_a_ceiling():
    ds = sf.range(1000).map(inverse, output={"value": sf.int64, "inverse": sf.float64})
    for ceiling, message in [
            (2, r"ignore_errors: 3 of the first 204 rows failed, and no more than 2 may be left "
                r"out \(max_ignored\); the last one is element 203 of epoch 0: ArithmeticError: no "
                r"inverse of 203; the first one was element 3 of epoch 0"),
            ("0", "1 of the first 4 rows failed, and no more than 0 may be left out")]:
        with pytest.raises(sf.DataLossError, match=message):
            list(ds.ignore_errors(ceiling))
    for ceiling in (None, 10, "5%", "0%"):
        assert len(list(ds.ignore_errors(ceiling))) == 990
    with pytest.raises(sf.DataLossError, match="11 of the first"):
        never = sf.range(20).map(lambda row: {"x": 1 // 0}, output={"x": sf.int64})
        list(never.ignore_errors("50%"))


def test_ignore_errors_tells_what_is_wrong():
    rows = sf.range(9).map(lambda row: row)
    with pytest.raises(ValueError, match="'range' is none: put it directly behind these"):
        sf.range(9).ignore_errors()
    with pytest.raises(ValueError, match="'flat_map' is none"):
        rows.flat_map(lambda row: [row]).ignore_errors()
    with pytest.raises(ValueError, match="'batch' is none"):
        rows.batch(2).ignore_errors()
    for wrong in ("many", "101%", "nan%", ""):
        with pytest.raises(ValueError, match="max_ignored"):
            rows.ignore_errors(wrong)
    with pytest.raises(ValueError, match="max_ignored must be at least 0"):
        rows.ignore_errors(-1)
    with pytest.raises(TypeError, match="ignore_errors drops elements"):
        len(rows.ignore_errors())
