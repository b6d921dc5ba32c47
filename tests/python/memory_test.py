"""Memory stays bounded, whatever the size of the data."""

import json
import os
import subprocess
import sys

import harness
import pytest

LIMIT = 256 << 20
SIZE = 600_000_000


def peak(*arguments, **environment):
    """Runs the command and returns its report, with the most memory it had, in bytes."""
    # Through a shell that stays: a process started straight from here would count the memory of
    # Python and TensorFlow, which Linux carries over from before exec.
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *harness.command(*arguments),
                           "--json"], capture_output=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == harness.DONE, done.stderr.decode()
    report = json.loads(done.stdout)
    return report["peak_rss_bytes"], report


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "text"
    line = b"0123456789abcdef" * 37 + b"\n"
    block = line * (1_000_000 // len(line))
    with open(path, "wb") as file:
        for _ in range(SIZE // len(block)):
            file.write(block)
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def dataset(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    used, report = peak("convert", "text", source, folder / "x@2", "-j", "4")
    yield folder, used, report
    for path in folder.glob("x-*"):
        path.unlink()


def test_convert_stays_below_the_limit(dataset):
    _, used, report = dataset
    assert report["bytes"] > SIZE
    assert used < LIMIT


@pytest.mark.parametrize("command", ["verify", "index", "read"])
def test_reading_stays_below_the_limit(dataset, command):
    folder, _, converted = dataset
    used, report = peak(command, folder / "x@2", "-j", "4")
    assert report["records"] == converted["records"]
    assert used < LIMIT


@pytest.mark.parametrize("arguments", [["reshard"], ["sample", "--share", "0.9"]],
                         ids=["copied", "read"])
def test_resharding_stays_below_the_limit(dataset, tmp_path, arguments):
    folder, _, converted = dataset
    command, *options = arguments
    used, report = peak(command, folder / "x@2", tmp_path / "y@3", "-j", "4", *options)
    assert report["datasets"][0]["records"] > 0.89 * converted["records"]
    assert used < LIMIT


def test_shuffle_and_compression_stay_below_the_limit(source, tmp_path):
    used, _ = peak("convert", "text", source, tmp_path / "x@2", "-j", "4", "--shuffle", "1",
                   "--compression", "gzip", "--level", "1")
    assert used < LIMIT


def test_convert_waits_for_a_slow_disk(source, tmp_path, faults):
    """Encoded blocks do not pile up behind the writes."""
    used, _ = peak("convert", "text", source, tmp_path / "x@2", "-j", "4",
                   LD_PRELOAD=str(faults), SLOW_WRITES_MS="8")
    assert used < LIMIT


def test_reported_memory_is_that_of_the_program():
    """Not that of who started it: 400 MB here."""
    script = ("import subprocess, sys; x = b'x' * (400 << 20); "
              "sys.exit(subprocess.run(sys.argv[1:]).returncode)")
    done = subprocess.run([sys.executable, "-c", script, *harness.command(
        "verify", harness.TESTDATA / "tensorflow/examples.tfrecord", "--json")],
        capture_output=True, check=True)
    assert json.loads(done.stdout)["peak_rss_bytes"] < 100 << 20
