"""benchmarks/compare: it goes through, and notices outputs that are wrong. Nothing here looks at times."""

import json
import shutil
import subprocess
import sys

import pytest
from harness import REPOSITORY

COMPARE = REPOSITORY / "benchmarks/compare"
sys.path.insert(0, str(COMPARE.parent))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


def compare(out, *arguments):
    return subprocess.run([sys.executable, str(COMPARE), "--tiny", "--peers", "tf.data", "--python",
                           f"tf.data={sys.executable}", "--out", str(out), "--no-charts", *arguments],
                          capture_output=True, text=True, timeout=600)


def test_measures_checks_and_reports(out):
    done = compare(out, "--workloads", "read_small,parse")
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert results["failures"] == []
    assert {run["workload"] for run in results["runs"]} == {"read_small", "parse"}
    assert all(run["done"] > 0 for run in results["runs"])
    assert "tensorflow" in json.dumps(results["versions"])
    report = (out / "results.md").read_text()
    assert "Parse 50 floats and a label" in report and "| tf.data |" in report


def test_notices_a_lost_shard(out):
    """Whoever delivers less than there is, is not measured."""
    shutil.copytree(out / "data", out / "short")
    stamp = json.loads((out / "short/made.json").read_text())
    (out / "short/check/small/train-00003-of-00016").unlink()
    (out / "short/made.json").write_text(json.dumps(stamp))
    (out / "short/passed.json").unlink()
    done = compare(out, "--data", str(out / "short"), "--workloads", "read_small,parse")
    assert done.returncode == 1
    assert "records of the records: 3840 instead of 4096" in done.stderr
    assert "x: 192000 values instead of 204800" in done.stderr
    results = json.loads((out / "results.json").read_text())
    assert results["runs"] == []
    assert {failure["workload"] for failure in results["failures"]} == {"read_small", "parse"}
    assert "192000 values instead of 204800" in (out / "results.md").read_text()


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
    for peer, seconds in (("shardfeed", 1.0), ("tf.data", 50.0)):
        results.add("read_small", peer, {"done": 10, "seconds": seconds})
    (tmp_path / "results.json").write_text(json.dumps(results.data))
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 near, 0 MISSED" in done.stdout
    results.add("parse", "shardfeed", {"done": 10, "seconds": 1.0})
    results.add("parse", "tf.data", {"done": 10, "seconds": 2.0})
    (tmp_path / "results.json").write_text(json.dumps(results.data))
    done = check(tmp_path)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.endswith("MISSED")] == [
        line for line in done.stdout.splitlines() if "parse: shardfeed / tf.data" in line]


def test_check_wants_results(tmp_path):
    done = check(tmp_path)
    assert done.returncode != 0
    assert "neither results.json nor run.json" in done.stderr
