"""Calls every public function with wrong kinds of every argument: it works, or raises one of Python's
exceptions that names the argument. It never ends the interpreter, hangs, or shows a message of the
binding."""

import json
import os
import pathlib
import resource
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

LIMIT = 6 << 30
SECONDS = 10  # time limit of a case


def wrong_values():
    import numpy as np
    itself = []
    itself.append(itself)
    return {
        "none": None, "minus one": -1, "zero": 0, "2**31": 1 << 31, "2**63": 1 << 63, "2**64": 1 << 64,
        "10**30": 10 ** 30, "1.5": 1.5, "nan": float("nan"), "empty str": "", "nul": "x\0y",
        "surrogate": "\udc80", "empty bytes": b"", "empty list": [], "empty dict": {},
        "object": object(), "list of none": [None], "list of itself": itself,
        "array of objects": np.array([object(), None]), "date": np.datetime64("2020-01-01"),
        "class": int, "function": lambda a, b, c, d, e: None, "true": True,
    }


def targets(folder):
    """{name: (function, valid arguments by name)} of everything that the package offers."""
    import numpy as np
    import shardfeed as sf

    def generate():
        yield {"x": 1}

    records = sf.read(folder + "/x@2")
    parsed = records.parse({"t": sf.ragged(sf.int64), "n": sf.int64})
    batched = parsed.batch(4)
    images = sf.from_arrays({"image": np.zeros((4, 8, 8, 3), np.uint8), "label": np.arange(4)})
    out = {"x": sf.int64}
    row = {"fn": lambda r: {"x": 1}, "output": out}
    named = {
        "batch": (parsed, {"size": 2}), "padded_batch": (parsed, {"size": 2, "padding": {"t": 0}}),
        "pad": (batched, {"padding": {"t": 0}}), "map": (parsed, row), "filter": (parsed, {"fn": len}),
        "flat_map": (parsed, {"fn": lambda r: [{"x": 1}], "output": out}),
        "select": (parsed, {"names": "n"}), "parse": (records, {"features": {"n": sf.int64}}),
        "decode_image": (records.parse({"i": sf.bytes(default=b"")}), {"feature": "i"}),
        "decode_raw": (records.parse({"i": sf.bytes(default=b"")}), {"column": "i", "dtype": "uint8"}),
        "decode_npy": (records.parse({"i": sf.bytes(default=b"")}), {"column": "i", "dtype": "uint8"}),
        "decode_text": (records.parse({"i": sf.bytes(default=b"")}), {"column": "i"}),
        "decode_wav": (records.parse({"i": sf.bytes(default=b"")}), {"column": "i"}),
        "augment": (images, {"column": "image", "steps": [sf.augment.RandomInvert()]}),
        "sparse": (batched, {"columns": "t"}), "unbatch": (batched, {}),
        "bucket_by_length": (parsed, {"column": "t", "boundaries": [2], "sizes": [2, 2]}),
        "batch_by_length": (parsed, {"column": "t", "budget": 10}),
        "mixup": (images.batch(2), {"image": "image", "label": "label", "num_classes": 4}),
        "cutmix": (images.batch(2), {"image": "image", "label": "label", "num_classes": 4}),
        "pack": (parsed, {"columns": "t", "length": 8}), "take": (parsed, {"count": 2}), "assert_cardinality": (parsed, {"count": 2}),
        "steps": (parsed, {"columns": {"t": 0}, "lengths": "t"}),
        "skip": (parsed, {"count": 2}), "shard": (parsed, {"rank": 0, "world": 2}),
        "enumerate": (parsed, {}), "shuffle": (records, {}), "interleave": (records, {"cycle": 2}),
        "take_while": (parsed, {"fn": len}), "unique": (parsed, {"column": "n"}),
        "scan": (parsed, {"initial_state": 0, "fn": lambda s, r: (s, {"x": 1}), "output": out}),
        "window": (parsed.select("n"), {"size": 2}),
        "group_by_window": (parsed, {"key": "n", "window_size": 2}),
        "rejection_resample": (parsed.map(lambda r: {"c": r["n"] % 2}, output={"c": sf.int64}),
                               {"classes": "c", "target_dist": [1, 2]}),
        "ignore_errors": (parsed, {}), "rebatch": (batched, {"size": 3}),
        "repeat": (parsed, {}), "cache": (parsed, {}), "snapshot": (parsed, {"path": folder + "/snap"}),
        "prefetch": (parsed, {}), "zip": (sf.range(3), {"others": sf.range(3, name="b")}),
        "concatenate": (parsed, {"others": parsed}), "mix": (parsed, {"others": parsed}),
        "with_options": (parsed, {}), "start": (parsed, {}), "set_epoch": (parsed, {"epoch": 1}),
        "place": (records, {"number": 1}),
        "blocks": (parsed, {}), "numpy": (parsed, {}), "torch": (parsed, {}), "jax": (parsed, {}),
        "tf": (parsed, {}), "cuda": (batched, {}), "draw": (parsed, {}),
    }
    found = {}
    for name in dir(sf.Dataset):
        if name.startswith("_") or not callable(getattr(sf.Dataset, name)):
            continue
        ds, arguments = named[name]  # a new method needs a line above
        found["Dataset." + name] = (getattr(ds, name), arguments)
    for name in dir(sf.augment):
        value = getattr(sf.augment, name)
        if name[0].isupper() and hasattr(value, "__wrapped__"):
            found["augment." + name] = (value, {
                "GaussianBlur": {"kernel_size": 3}, "Pad": {"padding": 1},
                "RandomRotation": {"degrees": 5}, "RandomAffine": {"degrees": 5},
                "RandomPosterize": {"bits": 4}, "RandomSolarize": {"threshold": 128},
                "RandomAdjustSharpness": {"sharpness_factor": 2},
                "RandomApply": {"transforms": [sf.augment.RandomInvert()]}}.get(name, {}))
    for name in dir(sf.presets):
        value = getattr(sf.presets, name)
        if hasattr(value, "__wrapped__"):
            found["presets." + name] = (value, {})
    pair = [sf.range(3), sf.range(3)]
    columns = [sf.range(3, name="a"), sf.range(3, name="b")]
    functions = {
        "read": {"spec": folder + "/x@2"}, "range": {"start": 0, "stop": 3},
        "from_arrays": {"columns": {"x": np.arange(3)}},
        "from_arrow": {"data": sf.splits(folder + "/x@2")[0].arrow(), "defaults": {"n": 0}},
        "from_generator": {"make": generate, "output": out},
        "choose": {"datasets": [sf.range(3), sf.range(3)], "choice": [0, 1]},
        "from_parquet": {"paths": "none.parquet"}, "parquet_batches": {"paths": "none.parquet"}, "from_pandas": {"frame": 1}, "from_polars": {"frame": 1}, "from_hf": {"dataset": 1},
        "fixed": {}, "ragged": {}, "var": {}, "sparse": {}, "int64": {},
        "Ragged": {"values": np.arange(3), "row_splits": np.array([0, 1, 3])},
        "Sparse": {"values": np.arange(3), "indices": np.zeros((3, 2), int), "row_splits": np.array([0, 1, 3])},
        "splits": {"spec": folder + "/x@2"}, "index_shard": {"path": folder + "/x-00000-of-00002"},
        "verify_split": {"split": sf.splits(folder + "/x@2")[0]},
        "merge_reports": {"spec": folder + "/x@2",
                          "reports": [sf.verify_split(split) for split in sf.splits(folder + "/x@2")]},
        "merge_states": {"states": [iter(parsed).state_dict()]},
        "write_job": {"spec": folder + "/j@1"}, "commit": {"spec": folder + "/j@1", "job": "none"},
        "share": {"dataset": batched, "name": "arguments", "ranks": 1},
        "set_credentials": {"url": "s3://bucket", "function": dict},
        "set_max_record_bytes": {"size": 1 << 20},
        "write": {"spec": folder + "/new@1", "overwrite": True},
        "index": {"spec": folder + "/x@2"}, "verify": {"spec": folder + "/x@2"},
        "inspect": {"spec": folder + "/x@2"},
        "diff": {"first": folder + "/x@2", "second": folder + "/x@2"},
        "convert": {"kind": "imagefolder", "source": folder + "/none", "out": folder + "/c@1"},
    }
    for name, arguments in functions.items():
        found[name] = (getattr(sf, name), arguments)
    from shardfeed import sources
    for name, arguments in [("mix", {"datasets": pair}),
                            ("mix_", {"sources": {"x": folder + "/x@2"}}), ("concatenate", {"datasets": pair}),
                            ("zip", {"datasets": columns}),
                            ("interleave", {"datasets": pair, "cycle": 2})]:
        found[name] = (getattr(sources, "_" + name), arguments)
    it = iter(parsed)
    found["Iterator.load_state_dict"] = (it.load_state_dict, {"state": it.state_dict()})
    shared = sf.share(batched, name="arguments " + folder, ranks=1)
    found["SharedDataset.start"] = (shared.start, {})
    found["SharedDataset.set_epoch"] = (shared.set_epoch, {"epoch": 1})
    found["SharedDataset.jax"] = (shared.jax, {})
    shared_it = iter(shared)
    found["SharedIterator.load_state_dict"] = (shared_it.load_state_dict, {"state": shared_it.state_dict()})
    writer = sf.write(folder + "/w@1", overwrite=True)
    job = sf.write_job(folder + "/k@1", overwrite=True)
    for name, one in (("Writer", writer), ("PartWriter", job.shard(0))):
        found[name + ".write"] = (one.write, {"record": b""})
        found[name + ".write_batch"] = (one.write_batch, {"columns": {"x": np.arange(3)}})
    found["WriteJob.shard"] = (job.shard, {"part": 0})
    found["WriteJob.commit"] = (job.commit, {"messages": []})
    split = sf.splits(folder + "/x@2")[0]
    found["Split.read"] = (split.read, {})
    found["Split.arrow"] = (split.arrow, {})
    found["Split.batches"] = (split.batches, {"fields": (("n", "int64", 0),)})
    found["Ragged.padded"] = (functions["Ragged"] and sf.Ragged(**functions["Ragged"]).padded, {})
    found["Normalize"] = (lambda **given: sf.Normalize(**given).core(), {
        "mean": 0.5, "std": 0.5, "dtype": "float16", "layout": "NCHW", "flip": 0.0,
        "mixing": "none", "mix_alpha": 1.0, "seed": 0})
    return found


# Public names that take no arguments of a caller's own.
MADE_BY_FUNCTIONS = {
    "Feature.column", "Feature.core", "Normalize.core",  # for the package itself
    "Sparse.of",  # of Raggeds that sparse() makes
    "DeviceIterator.load_state_dict",  # needs a GPU: cuda_batches_test
}


def public():
    """The functions of the package, and the methods of its classes, that take arguments."""
    import inspect
    names = set()
    for name in sf.__all__:
        value = getattr(sf, name)
        if inspect.isclass(value):
            for method in dir(value):
                function = getattr(value, method)
                if method.startswith("_") or not (inspect.isfunction(function) or inspect.ismethod(function)):
                    continue
                if any(p != "self" for p in inspect.signature(function).parameters):
                    names.add(f"{name}.{method}")
        elif inspect.ismodule(value):
            names.update(f"{name}.{one}" for one in dir(value)
                         if one[0].isupper() and hasattr(getattr(value, one), "__wrapped__"))
        elif isinstance(value, str):
            names.add("int64")  # all dtypes are called alike
        elif inspect.signature(value).parameters:
            names.add(name)
    return names


def test_every_public_function_is_called_with_wrong_arguments(folder):
    missing = public() - set(targets(folder)) - MADE_BY_FUNCTIONS
    assert not missing, f"add these to targets() above: {sorted(missing)}"


def parameters(function, arguments):
    import inspect
    if getattr(function, "__name__", "") == "<lambda>":
        return list(arguments)
    return [name for name in inspect.signature(function).parameters]


def call(function, arguments):
    import inspect
    try:
        variable = [p.name for p in inspect.signature(function).parameters.values()
                    if p.kind is p.VAR_POSITIONAL]
        keywords = [p.name for p in inspect.signature(function).parameters.values()
                    if p.kind is p.VAR_KEYWORD]
    except (TypeError, ValueError):
        variable, keywords = [], []
    given = dict(arguments)
    positional = [given.pop(name) for name in variable if name in given]
    for name in keywords:
        if name in given:
            given["threads"] = given.pop(name)
    result = function(*positional, **given)
    if isinstance(result, sf.Dataset):
        for _, element in zip(range(3), result):
            del element
    elif isinstance(result, sf.augment.Augmentation):
        import numpy as np
        list(sf.from_arrays({"i": np.zeros((2, 8, 8, 3), np.uint8)}).augment("i", [result]))
    elif isinstance(result, sf.Writer):
        result.abort()


# Parts of messages of the binding, of C++ and of Python's own conversions.
UNNAMED = ("std::", "incompatible function arguments", "nanobind", "Unable to cast",
           "embedded null", "has no attribute", "object is not subscriptable",
           "object is not iterable", "has no len()")


def judge(name, argument, error):
    """A description of what is wrong with an exception, or None."""
    text = str(error)
    if name == "Ragged.padded" and isinstance(error, MemoryError):
        return None  # of the size that was asked for
    if isinstance(error, (MemoryError, SystemError, AssertionError, AttributeError)):
        return f"{type(error).__name__}: {text}"
    if not isinstance(error, Exception):
        return f"{type(error).__name__}"
    if any(mark in text for mark in UNNAMED):
        return f"{type(error).__name__}: {text}"
    return None


def run_cases(folder, name):
    """Runs in the child: prints each case before it is run, and what is wrong with it."""
    import signal

    def late(*_):
        raise SystemError("it hangs")
    signal.signal(signal.SIGALRM, late)
    function, sensible = targets(folder)[name]
    for argument in parameters(function, sensible):
        for label, value in wrong_values().items():
            print(json.dumps(["case", argument, label]), flush=True)
            signal.alarm(SECONDS)
            try:
                call(function, {**sensible, argument: value})
            except BaseException as error:
                wrong = judge(name, argument, error)
                if wrong is not None:
                    print(json.dumps(["wrong", argument, label, wrong[:300]]), flush=True)
            finally:
                signal.alarm(0)
    print(json.dumps(["done"]), flush=True)
    os._exit(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arguments")
    with sf.write(str(folder / "x@2")) as writer:
        for i in range(20):
            writer.write({"t": [i] * (i % 5 + 1), "n": i})
    return str(folder)


def names():
    import tempfile
    with tempfile.TemporaryDirectory() as made:
        with sf.write(made + "/x@2") as writer:
            writer.write({"t": [1], "n": 1})
        return sorted(targets(made))


@pytest.mark.parametrize("name", names())
def test_wrong_kinds_of_arguments_raise(name, folder):
    done = subprocess.run(
        [sys.executable, __file__, folder, name], capture_output=True, text=True, timeout=600,
        cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    wrong = [line[1:] for line in lines if line[0] == "wrong"]
    assert done.returncode == 0 and lines and lines[-1] == ["done"], (
        f"{name}: died with {done.returncode} in {lines[-1:]}: {done.stderr[-1500:]}")
    assert not wrong, "\n".join(map(str, wrong))


if __name__ == "__main__":
    run_cases(*sys.argv[1:])
