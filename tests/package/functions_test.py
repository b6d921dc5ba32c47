"""The package: users' functions in map and filter."""

import gc
import sys
import traceback

import numpy as np
import pytest
from package_data import dataset, double, numbers, parsed, run_python, sf


def test_map_of_rows(parsed):
    ds = parsed.map(double)
    assert ds.element_spec == {"n": ("int64", (), False), "twice": ("float32", (3,), False)}
    for batch in ds.batch(100):
        assert np.array_equal(batch["twice"][:, 0], 2.0 * batch["n"])


def test_map_of_batches(parsed):
    ds = parsed.batch(100).map(double, batched=True)
    for batch in ds:
        assert np.array_equal(batch["twice"][:, 0], 2.0 * batch["n"])
    kept = [b for b in parsed.batch(64).map(lambda b: {"n": b["n"], "t": b["text"], "s": b["some"]},
                                            batched=True)]
    assert kept[3]["t"].tolist() == [b"record %d" % n for n in kept[3]["n"]]
    assert kept[3]["s"].tolist() == [[n] * (n % 5) for n in kept[3]["n"].tolist()]


def test_map_of_padded_batches_of_any_length(parsed):
    ds = parsed.padded_batch(3).map(lambda b: {"some": b["some"] + 1}, batched=True)
    assert {batch["some"].shape[1] for batch in ds} > {3, 4}


def test_map_to_empty_lists(parsed):
    for kind in (sf.int64, sf.float32, sf.bytes):
        ds = parsed.map(lambda e: {"a": []}, output={"a": sf.var(kind)})
        assert [len(row["a"]) for row in ds.take(3)] == [0, 0, 0]
    ds = parsed.map(lambda e: {"a": [1] * (e["n"] % 2)}, output={"a": sf.var(sf.int64)})
    assert next(iter(ds.skip(249).batch(3)))["a"].tolist() == [[], [1], [1]]


def test_map_to_bytes_and_lists(parsed):
    ds = parsed.map(lambda e: {"words": e["text"].decode().split(), "upper": e["text"].upper(),
                               "half": [e["n"] / 2] * 2})
    assert ds.element_spec["words"] == ("bytes", (), True)
    assert ds.element_spec["half"] == ("float32", (), True)
    batches = list(ds.batch(300))
    gc.collect()
    batch = batches[1]
    assert batch["upper"][0] == b"RECORD " + batch["words"][0][1]
    assert [b"record", batch["words"][-1][1]] == batch["words"][-1].tolist()


def test_records_can_be_mapped(dataset):
    ds = sf.read(dataset).map(len)
    assert list(ds) == [len(record) for record in sf.read(dataset)]


def test_tuples(parsed):
    import collections
    Pair = collections.namedtuple("Pair", "x y")
    for kind in (lambda x, y: (x, y), Pair):
        ds = parsed.map(lambda e: kind(e["x"], e["n"])).batch(10)
        x, y = element = next(iter(ds))
        assert type(element) is (tuple if kind is not Pair else Pair)
        assert x.shape == (10, 3) and y.shape == (10,)
    nested = parsed.map(lambda e: ({"a": e["n"], "b": {"c": e["x"]}}, e["n"])).batch(4)
    first, label = next(iter(nested))
    assert first["a"].tolist() == label.tolist() and first["b"]["c"].shape == (4, 3)


def test_filters(parsed):
    odd = [n for n in numbers(parsed) if n % 2]
    assert numbers(parsed.filter(lambda e: e["n"] % 2 == 1)) == odd
    assert numbers(parsed.batch(10).filter(lambda b: b["n"] % 2 == 1, batched=True)) == odd


class Odd(Exception):
    pass


def refuse(element):
    if np.any(np.asarray(element["n"]) == 500):
        raise Odd("five hundred")
    return {"n": element["n"]}


@pytest.mark.parametrize("batched", [False, True])
def test_exceptions_keep_their_traceback_and_name_the_record(parsed, batched):
    ds = parsed.batch(10).map(refuse, batched=True) if batched else parsed.map(refuse).batch(10)
    with pytest.raises(Odd, match="five hundred") as caught:
        list(ds)
    assert "refuse" in "".join(traceback.format_tb(caught.value.__traceback__))
    if sys.version_info >= (3, 11):
        number = 120 if batched else 125
        assert f"train-00000-of-00004: record {number} at byte" in caught.value.__notes__[0]


@pytest.mark.parametrize("batched", [False, True])
def test_exceptions_may_have_lone_surrogates(parsed, batched):
    def bad(element):
        raise Odd("no file \udcff.jpg")

    def stop(element):
        raise StopIteration("\ud800")

    def chain(function):
        probed = iter([False])  # map calls functions once to find their columns
        call = lambda element: {"n": element["n"]} if not next(probed, True) else function(element)
        return parsed.batch(10).map(call, batched=True) if batched else parsed.map(call).batch(10)

    with pytest.raises(Odd) as caught:
        list(chain(bad))
    assert str(caught.value) == "no file \udcff.jpg"
    if sys.version_info >= (3, 11):
        assert any("no file \\udcff.jpg" in note for note in caught.value.__notes__)
    with pytest.raises(RuntimeError, match=r"raised StopIteration: \\ud800, which does not end the data"):
        list(chain(stop))


def test_a_filter_that_raises(parsed):
    with pytest.raises(ZeroDivisionError):
        list(parsed.filter(lambda e: 1 / 0))


def test_functions_that_do_not_keep_to_their_word(parsed):
    with pytest.raises(ValueError, match="shape"):
        list(parsed.map(lambda e: {"a": np.zeros(1 + e["n"] % 2)}))
    with pytest.raises(TypeError, match="float64 where int64"):
        list(parsed.map(lambda e: {"a": e["n"] if e["n"] < 9 else np.float64(0.5)}))
    with pytest.raises(ValueError, match="no elements"):
        parsed.take(0).map(double)
    with pytest.raises(ValueError, match="batched=True"):
        parsed.batch(3).map(double)


def test_declared_outputs_are_not_learned(parsed):
    calls = []

    def fn(element):
        calls.append(1)
        return {"a": element["n"]}

    ds = parsed.map(fn, output={"a": sf.float32})
    assert not calls and ds.element_spec == {"a": ("float32", (), False)}
    assert next(iter(ds)) == {"a": 0.0}


def test_map_on_processes(dataset):
    code = """
import sys, os, shardfeed as sf, process_functions
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(100)
    got = list(ds.map(process_functions.with_pid, batched=True, processes=2))
    print(len(got), os.getpid() in {int(p) for b in got for p in b["pid"]})
    try:
        list(ds.map(process_functions.die, batched=True, processes=1,
                    output={"n": sf.int64}))
    except RuntimeError as error:
        print(error)
"""
    out = run_python(code, dataset).splitlines()
    assert out[0] == "10 False"
    assert "a worker process of map(processes=1) died" in out[1]
