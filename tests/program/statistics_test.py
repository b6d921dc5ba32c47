"""`inspect --statistics` and `diff`, compared with NumPy on records that TensorFlow wrote."""

import collections

import harness
import pytest
from harness import DEFECTS, DONE, IO_FAILED, USAGE, fail, run, succeed

np = pytest.importorskip("numpy", reason="NumPy is not installed")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

HERE_AND_IN_STORE = True

KINDS = {"int64": "int64_list", "float": "float_list", "bytes": "bytes_list"}


def write(stem, columns, shards=3):
    """Writes records whose features are lists; None is a missing feature. Columns: name -> (kind, rows)."""
    num_records = len(next(iter(columns.values()))[1])
    for shard in range(shards):
        path = f"{stem}-{shard:05}-of-{shards:05}"
        with tf.io.TFRecordWriter(path) as out:
            for i in range(shard * num_records // shards, (shard + 1) * num_records // shards):
                example = tf.train.Example()
                for name, (kind, rows) in columns.items():
                    if rows[i] is not None:
                        getattr(example.features.feature[name], KINDS[kind]).value.extend(rows[i])
                out.write(example.SerializeToString())
    return f"{stem}@{shards}"


def statistics(spec):
    return succeed("inspect", spec, "--statistics", "--json").json["statistics"]


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(1)
    n = 5000
    return {
        "age": ("int64", [[int(v)] for v in rng.integers(17, 91, n)]),
        "time": ("int64", [[int(v)] for v in 1_700_000_000 + rng.integers(0, 86400, n)]),
        "amount": ("float", [[float(v)] if v < 50 else None for v in rng.lognormal(1, 2, n)]),
        "ids": ("int64", [[int(v) for v in rng.integers(-1000, 1000, rng.integers(0, 7))] for _ in range(n)]),
        "color": ("bytes", [[[b"red", b"green", b"blue"][v]] for v in rng.integers(0, 3, n)]),
        "name": ("bytes", [[b"user-%d" % v] for v in rng.integers(0, 10**9, n)]),
    }


@pytest.fixture(scope="module")
def dataset(columns, tmp_path_factory):
    return write(tmp_path_factory.mktemp("statistics") / "d", columns)


def test_counts_and_moments_equal_those_of_numpy(columns, dataset):
    found = statistics(dataset)
    assert set(found) == set(columns)
    for name, (kind, rows) in columns.items():
        one = found[name]
        present = [row for row in rows if row is not None]
        values = [value for row in present for value in row]
        assert one["kind"] == kind
        assert one["records"] == len(present)
        assert one["missing"] == len(rows) - len(present)
        assert one["values"] == len(values)
        if kind == "bytes":
            assert one["bytes"] == sum(map(len, values))
            continue
        numbers = np.array(values, np.int64 if kind == "int64" else np.float32)
        assert one["min"] == numbers.min() and one["max"] == numbers.max()
        assert one["mean"] == pytest.approx(numbers.astype(np.float64).mean(), rel=1e-9)
        assert one["deviation"] == pytest.approx(numbers.astype(np.float64).std(), rel=1e-6)
        for quantile in one["quantiles"]:
            exact = np.quantile(numbers, quantile["share"], method="inverted_cdf")
            assert quantile["value"] == pytest.approx(exact, rel=0.004)


def test_frequent_and_distinct_values(columns, dataset):
    found = statistics(dataset)
    for name in ("age", "color"):
        counts = collections.Counter(value for row in columns[name][1] for value in row)
        assert found[name]["distinct"] == len(counts) and found[name]["distinct_is_exact"]
        top = found[name]["frequent"]
        assert [entry["count"] for entry in top] == sorted(counts.values(), reverse=True)[:20]
        for entry in top:
            value = int(entry["value"]) if name == "age" else entry["value"].strip("'").encode()
            assert entry["count"] == counts[value]
    names = {value for row in columns["name"][1] for value in row}
    assert not found["name"]["distinct_is_exact"]
    assert found["name"]["distinct"] == pytest.approx(len(names), rel=0.06)


def test_threads_and_compression_change_nothing(dataset, tmp_path):
    succeed("reshard", dataset, tmp_path / "z@3", "--compression", "gzip", "-q")
    one = statistics(dataset)
    assert succeed("inspect", dataset, "--statistics", "--json", "-j", "1").json["statistics"] == one
    assert statistics(tmp_path / "z@3") == one


def test_text_names_what_matters(dataset):
    text = succeed("inspect", dataset, "--statistics", "--records", "0").out.decode()
    assert "age: int64\n  17 to 90, mean " in text
    assert "amount: float, missing in " in text
    assert "most frequent: 'red' (" in text or "most frequent: 'green' (" in text or "'blue' (" in text
    only = succeed("inspect", dataset, "--statistics", "--records", "0", "--feature", "age").out.decode()
    assert "most frequent" in only and "color" not in only


def test_nan_and_infinite_values_are_counted_apart(tmp_path):
    spec = write(tmp_path / "n", {"x": ("float", [[v] for v in [float("nan"), 1, float("inf"), 3]])}, 1)
    one = statistics(spec)["x"]
    assert (one["nan"], one["infinite"], one["mean"], one["max"]) == (1, 1, 2, 3)
    spec = write(tmp_path / "m", {"x": ("float", [[float("nan")]] * 3)}, 1)
    assert "mean" not in statistics(spec)["x"]


def test_records_that_are_no_examples_are_only_counted(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "raw-00000-of-00001")) as out:
        out.write(b"hello world")
    assert statistics(tmp_path / "raw@1") == {}


def test_diff_of_equal_datasets(dataset):
    result = run("diff", dataset, dataset)
    assert result.status == DONE, result.err
    assert b"the schemas are equal" in result.out and b"*" not in result.out


def kolmogorov_smirnov(a, b):
    at = np.sort(np.concatenate([a, b]))
    below = [np.searchsorted(np.sort(side), at, side="right") / len(side) for side in (a, b)]
    return np.abs(below[0] - below[1]).max()


def test_diff_measures_drift(columns, dataset, tmp_path):
    rng = np.random.default_rng(2)
    n = 3000
    others = dict(columns)
    others = {name: (kind, rows[:n]) for name, (kind, rows) in columns.items() if name != "time"}
    others["amount"] = ("float", [[float(v)] for v in rng.lognormal(2, 2, n)])
    others["color"] = ("bytes", [[b"red" if v < 6 else b"blue"] for v in rng.integers(0, 10, n)])
    others["age"] = ("float", [[float(v)] for v in rng.integers(17, 91, n)])
    other = write(tmp_path / "other", others)
    result = run("diff", dataset, other, "--json")
    assert result.status == DEFECTS
    found = result.json
    assert found["schema"] == [f"feature 'age' is int64 in {dataset} and float in {other}",
                               f"only {dataset} has feature 'time'"]
    drift = {one["feature"]: one for one in found["drift"]}
    assert list(drift)[:2] in (["amount", "color"], ["color", "amount"])
    before, after = ([v for row in side["amount"][1] if row for v in row] for side in (columns, others))
    assert drift["amount"]["measure"] == "distribution"
    assert drift["amount"]["distance"] == pytest.approx(kolmogorov_smirnov(before, after), abs=0.01)
    red = sum(row == [b"red"] for row in columns["color"][1]) / 5000
    red_after = sum(row == [b"red"] for row in others["color"][1]) / n
    green = sum(row == [b"green"] for row in columns["color"][1]) / 5000
    assert drift["color"]["distance"] == pytest.approx(max(abs(red - red_after), green))
    assert not drift["ids"]["significant"] and not drift["name"]["significant"]
    assert found["drifted"] == 2
    text = run("diff", dataset, other).out.decode()
    assert "* " in text and "2 features marked * differ by more than 0.1" in text
    assert run("diff", dataset, other, "-q").out == b""


def test_features_without_statistics_are_named(tmp_path):
    for name, shift in (("a", 0), ("b", 1000)):
        cells = [[str(i + (shift if column >= 256 else 0)) for column in range(300)] for i in range(50)]
        rows = [[f"c{column:03}" for column in range(300)], *cells]
        (tmp_path / f"{name}.csv").write_text("\n".join(map(",".join, rows)) + "\n")
        succeed("convert", "csv", tmp_path / f"{name}.csv", tmp_path / f"{name}@1")
    told = succeed("diff", tmp_path / "a@1", tmp_path / "b@1").out.decode()
    assert "note: the values of c256, c257, " in told and "only the first 256 features by name have statistics" in told
    assert len(succeed("diff", tmp_path / "a@1", tmp_path / "b@1", "--json").json["not_compared"]) == 44
    told = succeed("inspect", tmp_path / "a@1", "--statistics", "--records", "0").out.decode()
    assert "c299: int64\n  no statistics: only the first 256 features by name have them" in told


def test_names_are_printed_as_text(tmp_path):
    spec = write(tmp_path / "e", {"x\x1b[31m\nfake": ("int64", [[1]])}, 1)
    for arguments in (["inspect", spec], ["inspect", spec, "--statistics"], ["diff", spec, spec]):
        assert b"\x1b" not in succeed(*arguments).out


def test_small_samples_are_no_alarm(dataset, columns, tmp_path):
    few = {name: (kind, rows[:40]) for name, (kind, rows) in columns.items()}
    assert run("diff", dataset, write(tmp_path / "few", few, 1)).status == DONE


def test_wrong_use_and_missing_datasets(dataset, tmp_path):
    result = run("diff", dataset)
    assert result.status == USAGE and "diff: SECOND is required" in result.err
    result = run("diff", dataset, dataset, "--max-drift", "2")
    assert result.status == USAGE and "--max-drift" in result.err
    # A folder without objects is none in a store.
    missing = "no such folder" if harness.STORE else "nothing@2: no such shards"
    assert missing in fail(IO_FAILED, "diff", dataset, tmp_path / "nothing@2")
    assert "no record has a feature named 'nope'" in fail(USAGE, "inspect", dataset, "--statistics",
                                                          "--feature", "nope")


def test_damage_is_named(columns, tmp_path):
    spec = write(tmp_path / "d", columns, 1)
    path = tmp_path / "d-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "d-00000-of-00001" in fail(DEFECTS, "diff", spec, spec)


def test_images_are_described_by_their_headers(tmp_path):
    def png(width, height):
        return tf.io.encode_png(np.zeros((height, width, 1), np.uint8)).numpy()

    images = [png(30, 20), tf.io.encode_jpeg(np.zeros((50, 40, 3), np.uint8)).numpy(), png(32, 20)]
    spec = write(tmp_path / "d", {"image": ("bytes", [[i] for i in images]),
                                  "text": ("bytes", [[b"GIF"], [b"BM"], [b""]])})
    found = statistics(spec)
    assert "images" not in found["text"]
    assert found["image"]["images"]["formats"] == {"jpeg": 1, "png": 2}
    width, height = found["image"]["images"]["width"], found["image"]["images"]["height"]
    assert (width["min"], width["max"], width["mean"]) == (30, 40, 34)
    assert (height["min"], height["max"], height["mean"]) == (20, 50, 30)
    assert {q["share"]: q["value"] for q in width["quantiles"]}[0.5] == 32
    assert "images: 1 jpeg, 2 png; 30 to 40 pixels wide, 20 to 50 high, median 32 x 20" \
        in succeed("inspect", spec, "--statistics").out.decode()
