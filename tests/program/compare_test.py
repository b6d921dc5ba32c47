"""benchmarks/compare: it runs to the end, and notices wrong outputs. Nothing here depends on times."""

import importlib.machinery
import importlib.util
import json
import signal
import subprocess
import sys

import pytest
from harness import REPOSITORY

COMPARE = REPOSITORY / "benchmarks/compare"
sys.path.insert(0, str(COMPARE.parent))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


def command(out, *arguments):
    return [sys.executable, str(COMPARE), "--tiny", "--peers", "tf.data", "--python",
            f"tf.data={sys.executable}", "--out", str(out), "--no-charts", *arguments]


def compare(out, *arguments):
    return subprocess.run(command(out, *arguments), capture_output=True, text=True, timeout=600)


def test_measures_checks_and_reports(out):
    done = compare(out, "--workloads", "shuffle_small")
    assert done.returncode == 0, done.stderr
    assert "[1 of 1] shuffle_small: 1 to measure" in done.stderr
    results = json.loads((out / "results.json").read_text())
    assert results["failures"] == []
    assert {run["workload"] for run in results["runs"]} == {"shuffle_small"}
    assert all(run["done"] > 0 for run in results["runs"])
    assert "tensorflow" in json.dumps(results["versions"])
    report = (out / "results.md").read_text()
    assert "Shuffle, window of 100,000 records" in report and "| tf.data |" in report


def test_resume_keeps_what_was_measured(out):
    before = json.loads((out / "results.json").read_text())["runs"]
    done = compare(out, "--workloads", "shuffle_small", "--resume")
    assert done.returncode == 0, done.stderr
    assert "to measure" not in done.stderr
    assert json.loads((out / "results.json").read_text())["runs"] == before


def test_an_interrupted_run_can_go_on(out):
    running = subprocess.Popen(command(out, "--workloads", "shuffle_small", "--seconds", "600"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if "to measure" in line:
            break
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted; the measurements so far are in" in said and "continue with --resume" in said
    assert json.loads((out / "results.json").read_text())["failures"] == []
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert f"--data {out}" not in left


def test_sizes_are_not_mixed(out):
    done = subprocess.run([sys.executable, str(COMPARE), "--quick", "--peers", "tf.data", "--out", str(out)],
                          capture_output=True, text=True)
    assert done.returncode != 0
    assert "have the size tiny; name another folder for --out" in done.stderr


def test_only_its_own_data_is_replaced(out, tmp_path):
    """A folder with other files is not taken for data."""
    (tmp_path / "thesis.tex").write_text("")
    done = compare(out, "--workloads", "shuffle_small", "--data", str(tmp_path))
    assert done.returncode != 0
    assert "contains other files; name an empty folder for --data" in done.stderr
    assert (tmp_path / "thesis.tex").exists()


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("compare_script", str(COMPARE))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare_script", loader))
    loader.exec_module(module)
    return module


def test_wrong_outputs_are_named(script):
    from workloads import BY_NAME
    records = {"records": 10, "bytes": 100, "sum": 7, "order": 3}
    column = {"count": 40, "mean": 1.0, "deviation": 2.0}
    pixels = {"count": 2 * 224 * 224 * 3, "mean": 100.0, "deviation": 50.0}
    info = {"counts": {"large": 10}, "records": {"small": records, "large": {"records": 2}},
            "values": {"parse": {"x": column}, "image": {"image": {**pixels, "count": 9}}}}

    def wrong(workload, digest, **more):
        return script.wrong(BY_NAME[workload], {"digest": digest, **more}, info)

    assert wrong("read_small", records) is None
    assert wrong("read_small", {**records, "records": 9}) == "records of the records: 9 instead of 10"
    assert wrong("read_small", {**records, "sum": 8}) == "sum of the records: 8 instead of 7"
    assert wrong("read_small", None) == "no digest of the outputs"
    assert wrong("read_small", {"label": {"count": 9}}) == "9 records instead of 10"
    assert wrong("shuffle_small", records) == "the records are not shuffled"
    assert wrong("shuffle_small", {**records, "order": 4}) is None
    assert wrong("verify_large", {"records": 11}) == "11 records instead of 10"
    assert wrong("parse", {"x": column}) is None
    assert wrong("parse", {"y": column}) == "no x was delivered"
    assert wrong("parse", {"x": {**column, "count": 39}}) == "x: 39 values instead of 40"
    assert wrong("parse", {"x": {**column, "mean": 1.1}}) == "x: mean 1.1000 instead of 1.0000"
    assert wrong("image", {"image": {**pixels, "mean": 108.0}}) is None
    assert "mean 120.0000 instead of 100.0000" in wrong("image", {"image": {**pixels, "mean": 120.0}})
    assert "values are not 2 images" in wrong("image", {"image": {**pixels, "count": 7}})
    assert wrong("resume", None, same=True) is None
    assert wrong("resume", None, same=False) == "the elements after resuming are not the expected ones"


def test_mixing_is_that_of_an_exact_shuffle_or_less():
    import random

    from peers.protocol import mixed, record_key

    def epoch(seed, window):
        """Permuted in stretches."""
        rng = random.Random(seed)
        order = list(range(3000))
        for first in range(0, len(order), window):
            part = order[first:first + window]
            rng.shuffle(part)
            order[first:first + window] = part
        return {record: position for position, record in enumerate(order)}

    assert 0.9 < mixed(epoch(1, 3000), epoch(2, 3000)) < 1.1
    assert mixed(epoch(1, 300), epoch(2, 300)) < 0.2
    assert mixed(epoch(1, 3000), epoch(1, 3000)) == 0  # the same in each epoch
    assert record_key(b"..image/key\x12\x0c\x0a\x0a\x0a\x0800000123..") == 123


def test_numbers_are_records_of_tfrecord(tf, tmp_path):
    """The CRCs that make_data computes are TensorFlow's."""
    import make_data
    make_data.write_numbers(tmp_path, 100)
    paths = sorted(map(str, tmp_path.iterdir()))
    found = [int.from_bytes(record.numpy(), "little") for record in tf.data.TFRecordDataset(paths)]
    assert found == list(range(100))


def test_unknown_peers_and_workloads_are_named(out):
    done = subprocess.run([sys.executable, str(COMPARE), "--peers", "tf.daat"], capture_output=True,
                          text=True)
    assert done.returncode != 0
    assert "there is no peer tf.daat; there are: shardfeed" in done.stderr
    done = compare(out, "--workloads", "read")
    assert "there is no workload read; there are: read_large" in done.stderr


def test_ratios_know_what_is_better():
    from results import Results
    results = Results()
    for peer, seconds in (("a", 2.0), ("b", 1.0)):
        results.add("read_small", peer, {"done": 10, "seconds": seconds})
        results.add("resume", peer, {"done": 1, "seconds": seconds})
    assert results.ratio("read_small", "b", "a") == 2
    assert results.ratio("resume", "b", "a") == 2
    assert results.ratio("resume", "b", "c") is None


def check(folder):
    return subprocess.run([sys.executable, str(COMPARE.parent / "check"), str(folder)],
                          capture_output=True, text=True)


def test_check_names_what_is_missed(tmp_path):
    from results import Results
    results = Results()
    for peer, seconds in (("shardfeed", 1.0), ("DALI", 50.0)):
        results.add("read_small", peer, {"done": 10, "seconds": seconds})
    (tmp_path / "results.json").write_text(json.dumps(results.data))
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 near, 0 MISSED" in done.stdout
    results.add("parse", "shardfeed", {"done": 10, "seconds": 1.0})
    results.add("parse", "DALI", {"done": 10, "seconds": 2.0})
    (tmp_path / "results.json").write_text(json.dumps(results.data))
    done = check(tmp_path)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.endswith("MISSED")] == [
        line for line in done.stdout.splitlines() if "parse: shardfeed / DALI" in line]


def test_check_wants_results(tmp_path):
    done = check(tmp_path)
    assert done.returncode != 0
    assert "neither results.json nor run.json" in done.stderr
