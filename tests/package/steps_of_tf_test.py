"""Steps that tf.data has too, beside tf.data's own on the same data: their results, resuming from
states, and errors for wrong arguments."""

import numpy as np
import pytest
from elements import goes_on, plain, sf, theirs, values


def numbers(tf, *bounds):
    return tf.data.Dataset.range(*bounds)


def even(row):
    return row["value"] % 2 == 0


def below_30(row):
    return row["value"] < 30


def running(state, row):
    total = state + row["value"]
    return total, {"total": total, "value": row["value"]}


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
    with pytest.raises(ValueError, match="take_while: expected rows"):
        sf.range(10).batch(2).take_while(even)
    with pytest.raises(TypeError, match="take_while: fn must be a function, not 3"):
        sf.range(10).take_while(3)
    with pytest.raises(TypeError, match="take_while ends when its function says"):
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
    with pytest.raises(ValueError, match="must have one number or one bytes value per row"):
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
    # The output is inferred from the first row.
    pairs = sf.range(3).scan((0, 0), lambda s, row: (s, (row["value"], s[0])))
    assert values(pairs, 0) == [0, 1, 2]


def test_scan_tells_what_is_wrong():
    with pytest.raises(TypeError, match=r"scan: bad must return \(state, row\), not 3"):
        def bad(state, row):
            return 3
        sf.range(3).scan(0, bad)
    with pytest.raises(TypeError, match=r"must return \(state, row\), not \[1, 2\]"):
        list(sf.range(3).scan(0, lambda s, row: [1, 2], output={"x": sf.int64}))
    with pytest.raises(ValueError, match="scan.running.: works on rows"):
        sf.range(3).batch(2).scan(0, running)
    with pytest.raises(ValueError, match="no elements from which to infer"):
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


# ---- choose, and mixes by exact shares


def chosen(tf, datasets, choice, **options):
    return tf.data.Dataset.choose_from_datasets(datasets, choice, **options)


@pytest.mark.parametrize("exhausted", ["stop", "drop"])
@pytest.mark.parametrize("pattern", [[0, 1, 2], [2, 2, 0, 1], [1, 1, 1, 0, 2]])
def test_choose(tf, exhausted, pattern):
    sizes = (10, 4, 30)
    expected = chosen(tf, [numbers(tf, 100 * i, 100 * i + n) for i, n in enumerate(sizes)],
                      tf.data.Dataset.from_tensor_slices(tf.constant(pattern, tf.int64)).repeat(),
                      stop_on_empty_dataset=exhausted == "stop")
    # tf.data does not end if all datasets have ended but the choice has not.
    expected = theirs(expected.take(sum(sizes)))
    ours = [sf.range(100 * i, 100 * i + n) for i, n in enumerate(sizes)]
    for choice in (pattern, np.array(pattern, np.int8), sf.from_arrays({"n": pattern}).repeat()):
        assert values(sf.choose(ours, choice, exhausted)) == expected


def test_choose_of_batches_with_a_choice_that_ends(tf):
    expected = chosen(tf, [numbers(tf, 10).batch(4), numbers(tf, 50, 60).batch(3)],
                      tf.data.Dataset.range(2).repeat(2))
    ds = sf.choose([sf.range(10).batch(4), sf.range(50, 60).batch(3)], sf.range(2).repeat(2))
    assert values(ds) == theirs(expected)
    assert repr(ds).startswith("choose([range(0, 10, 1).batch(4), range(50, 60, 1).batch(3), ")


def test_choose_goes_on():
    mixed = sf.choose([sf.range(40), sf.range(100, 170).shuffle(1, window=8), sf.range(5)],
                      [0, 1, 1, 2], ["drop", "drop", "repeat"]).take(100)
    assert len(goes_on(mixed.batch(7))) == 15


def test_choose_tells_what_is_wrong():
    pair = [sf.range(3), sf.range(3)]
    for choice, message in [
            ([0, 2], "choose: dataset 2 does not exist: there are 2, numbered from"),
            ([-1], "choose: dataset -1 does not exist"), ([], "choose: choice has no numbers"),
            (sf.range(3).batch(2), "the choice must have a single int64 column"),
            (sf.from_arrays({"x": np.zeros(2)}), "but has x: float64")]:
        with pytest.raises(ValueError, match=message):
            sf.choose(pair, choice)
    with pytest.raises(ValueError, match="element 2 of epoch 0: choose: dataset 2 does not exist"):
        list(sf.choose(pair, sf.range(3)).start(epoch=0))
    with pytest.raises(TypeError, match="choose: choice must be"):
        sf.choose(pair, [0.5])
    with pytest.raises(ValueError, match="choose: there are no datasets"):
        sf.choose([], sf.range(2))
    with pytest.raises(ValueError, match="exhausted must be one of"):
        sf.choose(pair, [0], "end")


def test_exact_mix():
    mixed = sf.mix(sf.range(400), sf.range(1000, 1400), sf.range(2000, 2400), weights=[4, 2.5, 1.5],
                   exact=True, exhausted="stop")
    found = np.array(values(mixed)) // 1000
    for n in range(0, len(found), 16):
        assert np.bincount(found[n:n + 16], minlength=3).tolist() in ([8, 5, 3], [0, 0, 0]) or (
            n + 16 > len(found))
    # At each position as close to the shares as possible.
    counts = np.stack([np.cumsum(found == i) for i in range(3)], axis=1)
    shares = np.arange(1, len(found) + 1)[:, None] * np.array([[0.5, 0.3125, 0.1875]])
    assert np.abs(counts - shares).max() < 1
    goes_on(sf.range(40).mix(sf.range(100, 190), weights=[1, 3], exact=True).batch(6))
    assert "exact=True" in repr(mixed)


# ---- window


@pytest.mark.parametrize("size, shift, stride", [
    (3, None, 1), (3, 1, 1), (4, 2, 3), (2, 5, 1), (1, 1, 1), (5, 1, 2), (50, 7, 1), (3, 40, 2)])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_window(tf, size, shift, stride, drop_remainder):
    expected = numbers(tf, 31).window(size, shift, stride, drop_remainder).flat_map(
        lambda window: window.batch(size))
    ds = sf.range(31).window(size, shift, stride, drop_remainder)
    assert values(ds) == theirs(expected)
    assert len(ds) == len(theirs(expected))
    if drop_remainder:
        assert ds.element_spec == {"value": ("int64", (size,), False)}
        if len(ds):
            assert values(ds.batch(2)) == theirs(expected.batch(2))


def large(row):
    return {"x": np.full((2, 3), row["value"], np.float32), "name": str(row["value"])}


def test_window_of_several_columns_goes_on():
    ds = sf.range(200).map(large).window(4, 3, drop_remainder=True)
    first = next(iter(ds))
    assert first["x"].shape == (4, 2, 3) and first["x"][:, 0, 0].tolist() == [0, 1, 2, 3]
    assert list(first["name"]) == [b"0", b"1", b"2", b"3"]
    goes_on(ds.repeat(2).batch(5))
    goes_on(sf.range(100).shuffle(2, window=16).window(5, 9, 2))
    pair = sf.range(6).map(lambda row: (row["value"], {"v": row["value"]})).window(2)
    assert [plain(e) for e in pair][0] == [[0, 1], {"v": [0, 1]}]


@pytest.mark.parametrize("size, shift", [(50, 10), (1500, 700), (3, 3), (2, 1)])
def test_windows_may_be_written_to(size, shift):
    first = []
    for element in sf.range(5000).window(size, shift, drop_remainder=True):
        first.append(int(element["value"][0]))
        assert element["value"].tolist() == list(range(first[-1], first[-1] + size))
        element["value"][:] = -1
    assert first == list(range(0, 5000 - size + 1, shift))


def test_window_tells_what_is_wrong():
    with pytest.raises(ValueError, match="window: size must be at least 1, not 0"):
        sf.range(3).window(0)
    with pytest.raises(ValueError, match="window: shift must be at least 1, not 0"):
        sf.range(3).window(2, 0)
    with pytest.raises(ValueError, match="must lie between 1 and 2147483647"):
        sf.range(3).window(1 << 40)
    with pytest.raises(ValueError, match="window: expected rows"):
        sf.range(3).batch(2).window(2)
    rows = sf.range(9).map(lambda row: {"some": [1]})
    with pytest.raises(ValueError, match="column 'some' is ragged"):
        rows.window(2)


# ---- group_by_window


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_group_by_window(tf, size):
    expected = theirs(numbers(tf, 50).group_by_window(
        lambda x: x * x % 7, lambda key, window: window.batch(size), window_size=size))
    by_function = sf.range(50).group_by_window(lambda row: row["value"] ** 2 % 7, size)
    keyed = sf.range(50).map(lambda row: {"value": row["value"], "key": row["value"] ** 2 % 7})
    for ds in (by_function, keyed.group_by_window("key", size)):
        found = values(ds)
        whole = sum(1 for batch in expected if len(batch) == size)
        assert found[:whole] == expected[:whole]
        # tf.data delivers the remaining groups in the order of the keys, shardfeed in that of the
        # first rows.
        assert sorted(found) == sorted(expected)
        assert found[whole:] == sorted(found[whole:])
    dropped = values(keyed.group_by_window("key", size, drop_remainder=True))
    assert dropped == expected[:whole]


def words(row):
    n = row["value"]
    return {"n": n, "some": [1] * (n % 4), "word": "ab"[n % 2] * 2}


def word_of(row):
    return row["word"]


def test_group_by_window_of_any_key_goes_on():
    rows = sf.range(60).map(words, output={"n": sf.int64, "some": sf.ragged(sf.int64),
                                           "word": sf.bytes})
    by_word = [plain(e)["n"] for e in rows.group_by_window("word", 20)]
    assert by_word == [list(range(0, 40, 2)), list(range(1, 40, 2)), list(range(40, 60, 2)),
                       list(range(41, 60, 2))]
    for key in (lambda row: row["word"], lambda row: row["word"].decode(),
                lambda row: -(2 ** 80) * (row["n"] % 2), lambda row: np.uint8(row["n"] % 2),
                lambda row: row["n"] % 2 == 0):
        assert [plain(e)["n"] for e in rows.group_by_window(key, 20)] == by_word
    goes_on(rows.group_by_window(word_of, 6))


def test_group_by_window_tells_what_is_wrong():
    with pytest.raises(ValueError, match="group_by_window: there is no column 'x'"):
        sf.range(3).group_by_window("x", 2)
    with pytest.raises(TypeError, match="must return an integer, bytes or str, not 0.5"):
        list(sf.range(3).group_by_window(lambda row: 0.5, 2))
    with pytest.raises(ValueError, match="window_size must be at least 1"):
        sf.range(3).group_by_window("value", 0)
    with pytest.raises(TypeError, match="group_by_window makes batches by the rows' keys"):
        len(sf.range(3).group_by_window("value", 2))


# ---- bucket_by_length by a function


def length_of(row):
    return row["value"] % 10


def test_bucket_by_length_of_a_function(tf):
    expected = theirs(numbers(tf, 100).bucket_by_sequence_length(
        lambda x: tf.cast(x % 10, tf.int32), [3, 7], [4, 5, 6], drop_remainder=True))
    ds = sf.range(100).bucket_by_length(boundaries=[3, 7], sizes=[4, 5, 6], length=length_of,
                                        drop_remainder=True)
    assert values(ds) == expected
    goes_on(sf.range(100).bucket_by_length(None, [3, 7], [4, 5, 6], length=length_of))
    assert repr(ds).endswith(
        "bucket_by_length(length=length_of, boundaries=[3, 7], sizes=[4, 5, 6])")


def test_bucket_by_length_tells_what_is_wrong():
    for arguments in ({}, {"column": "value", "length": length_of}):
        with pytest.raises(ValueError, match="give either the column whose lengths count or a function length="):
            sf.range(3).bucket_by_length(boundaries=[1], sizes=[1, 1], **arguments)
    for gives, error, message in [
            (-1, ValueError, "the function returned a length of -1"),
            (0.5, TypeError, "must return a length, an integer, not 0.5"),
            (1 << 70, ValueError, "returned a length of 1180591620717411303424")]:
        with pytest.raises(error, match=message):
            list(sf.range(3).bucket_by_length(boundaries=[1], sizes=[1, 1],
                                              length=lambda row: gives))


# ---- rejection_resample


def kind_of(row):
    return min(row["value"] % 10, 2)


def shares_of(kinds):
    return np.bincount(kinds, minlength=3) / len(kinds)


@pytest.mark.parametrize("initial", [None, [0.1, 0.1, 0.8]])
@pytest.mark.parametrize("target", [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
def test_rejection_resample(tf, target, initial):
    # tf.data estimates, and draws from an unseeded generator, so the shares are only similar.
    theirs_ = numbers(tf, 20000).rejection_resample(
        lambda x: tf.cast(tf.minimum(x % 10, 2), tf.int32), target, initial, seed=3)
    expected = shares_of([int(kind) for kind, _ in theirs_])
    ds = sf.range(20000).map(lambda row: {"kind": kind_of(row), "value": row["value"]})
    kinds = values(ds.rejection_resample("kind", target, initial, seed=3), "kind")
    assert np.abs(shares_of(kinds) - target).max() < 0.03
    assert np.abs(shares_of(kinds) - expected).max() < 0.05


def test_rejection_resample_repeats_and_goes_on():
    ds = sf.range(2000).rejection_resample(kind_of, [1, 2, 1], seed=3)
    wanted = values(ds.start(epoch=0, threads=1))
    assert values(ds.start(epoch=0, threads=4)) == wanted
    assert wanted == sorted(wanted) and 100 < len(wanted) < 1000
    assert values(ds.start(epoch=1)) != wanted
    goes_on(ds.repeat(2).batch(9))
    goes_on(sf.range(500).rejection_resample(kind_of, [1, 2, 1], [1, 1, 8]), (0, 3, 20))


def test_rejection_resample_tells_what_is_wrong():
    rows = sf.range(5)
    for arguments, message in [
            (("x", [1]), "there is no column 'x'"),
            (("value", []), "target_dist must have a share"),
            (("value", [-1, 2]), r"it is \[-1, 2\]"), (("value", [0, 0]), "not all 0"),
            (("value", [1, 1], [1, 0]), "class 1 has a share in target_dist but none in initial_dist"),
            (("value", [1, 1], [1]), "target_dist has 2 classes, but initial_dist has 1"),
            (("value", [1, 1], []), "initial_dist has no classes"),
            (("value", [1, float("nan")]), "target_dist must be")]:
        with pytest.raises(ValueError, match=message):
            rows.rejection_resample(*arguments)
    with pytest.raises(ValueError, match="element 2 of epoch 0: rejection_resample: class 2 does "
                                         "not exist: there are 2, numbered from 0"):
        list(rows.rejection_resample("value", [1, 1], [1, 1]).start(epoch=0))
    with pytest.raises(TypeError, match="must return a class, an integer, not None"):
        list(rows.rejection_resample(lambda row: None, [1, 1]))
    with pytest.raises(ValueError, match="column 'x' must have the number of a class"):
        sf.from_arrays({"x": np.zeros(3)}).rejection_resample("x", [1])
