"""Memory stays bounded, whatever the size of the data."""

import gzip
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import harness
import pytest

LIMIT = 256 << 20
SIZE = 600_000_000


def peak(*arguments, **environment):
    """Runs the command and returns its report, with its peak memory in bytes."""
    # Through a shell that stays, because a process started directly from here would count the
    # memory of Python and TensorFlow, which Linux carries over from before exec.
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


@pytest.mark.parametrize("command", ["verify", "index", "bench"])
def test_reading_stays_below_the_limit(dataset, command):
    folder, _, converted = dataset
    used, report = peak(command, folder / "x@2", "-j", "4")
    assert report["records"] == converted["records"]
    assert used < LIMIT


@pytest.mark.parametrize("order, mebibytes", [([], 256), (["--shuffle", "1"], 512)],
                         ids=["in order", "shuffled"])
def test_reading_from_a_store_stays_in_the_budget(dataset, order, mebibytes):
    folder, _, converted = dataset
    with harness.served(folder, "delay-30") as url:
        used, report = peak("bench", f"{url}/x@2", "--budget", f"{mebibytes}MiB", *order)
    assert report["records"] == converted["records"]
    assert used < 1.05 * (mebibytes << 20) + (24 << 20)  # and the program itself


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
    """Encoded blocks do not pile up while writes are slow."""
    used, _ = peak("convert", "text", source, tmp_path / "x@2", "-j", "4",
                   LD_PRELOAD=str(faults), SLOW_WRITES_MS="8")
    assert used < LIMIT


def test_reported_memory_is_that_of_the_program():
    """It is not that of the parent: 400 MB here."""
    script = ("import subprocess, sys; x = b'x' * (400 << 20); "
              "sys.exit(subprocess.run(sys.argv[1:]).returncode)")
    done = subprocess.run([sys.executable, "-c", script, *harness.command(
        "verify", harness.TESTDATA / "tensorflow/examples.tfrecord", "--json")],
        capture_output=True, check=True)
    assert json.loads(done.stdout)["peak_rss_bytes"] < 100 << 20


# The memory that hostile files may cause.
HOSTILE_LIMIT = 512 << 20

READING = {
    "verify": ["verify"],
    "verify examples": ["verify", "--level", "examples"],
    "index": ["index"],
    "index lengths": ["index", "--length", "text"],
    "read": ["bench"],
    "cat": ["cat"],
    "inspect": ["inspect"],
    "reshard": ["reshard", "OUT"],
    "convert": ["convert", "tfrecord", "OUT"],
    "convert skipping": ["convert", "tfrecord", "OUT", "--on-error", "skip", "--max-skipped", "100%"],
    "read skipping": ["bench", "--skip-damaged", "--max-skipped", "100%"],
    "repair": ["repair", "OUT"],
    "repair dry": ["repair", "OUT", "--dry-run"],
}


def arguments_of(name, path, tmp_path):
    command = READING[name]
    out = tmp_path / ("y@1" if command[0] == "repair" else "y@2")
    words = 2 if command[0] == "convert" else 1
    return [*command[:words], path, *(out if x == "OUT" else x for x in command[words:])]


def hostile_peak(*arguments):
    """The command's peak memory in bytes, and its exit status."""
    script = ("import resource, subprocess, sys; "
              "status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
              "print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run([sys.executable, "-S", "-c", script, *harness.command(*arguments)],
                          capture_output=True, timeout=300)
    status, kib = map(int, done.stdout.split())
    assert status in (harness.DONE, harness.DEFECTS, harness.IO_FAILED), done.stderr.decode()
    return kib << 10, done.stderr.decode()


def member(deflated, crc, size):
    """A member with its size, as shardfeed writes them."""
    total = 24 + len(deflated) + 8
    return (b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x0c\0SF\x08\0" + struct.pack("<Q", total) + deflated +
            struct.pack("<II", crc, size))


def deflated(pieces, bits):
    deflater = zlib.compressobj(1, zlib.DEFLATED, bits)
    return b"".join(deflater.compress(piece) for piece in pieces) + deflater.flush()


ZEROS = [bytes(1 << 20)] * 640  # more than HOSTILE_LIMIT


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    noise = random.Random(1).randbytes(5_000_000)
    stored = zlib.compressobj(0, zlib.DEFLATED, -15)
    claim = member(stored.compress(noise) + stored.flush(), zlib.crc32(noise), 2**32 - 1)
    (folder / "claim").write_bytes(claim)
    (folder / "gzip").write_bytes(deflated(ZEROS, 31))
    (folder / "zlib").write_bytes(deflated(ZEROS, 15))
    raw = deflated(ZEROS, -15)
    (folder / "member").write_bytes(member(raw, 0, len(ZEROS) << 20))
    (folder / "small claim").write_bytes(member(raw, 0, 1000))
    # A record that is complete except for its CRC.
    header = struct.pack("<Q", 200 << 20)
    header += struct.pack("<I", harness.masked_crc(header))
    (folder / "long record").write_bytes(deflated([header, *ZEROS[:200], b"wrong"], 31))
    return folder


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("file", ["claim", "gzip", "zlib", "member", "small claim",
                                  "long record"])
def test_hostile_files_stay_below_the_limit(hostile, tmp_path, file, name):
    used, _ = hostile_peak(*arguments_of(name, hostile / file, tmp_path))
    assert used < HOSTILE_LIMIT


@pytest.fixture(scope="module")
def long_record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "lines").write_text("x" * 3_000_000)
    harness.convert("text", folder / "lines", folder / "x@1")
    (shard,) = (path for path in folder.iterdir() if "of-00001" in path.name
                and not path.name.endswith((".sfidx", ".index", ".json")))
    (folder / "gzipped").write_bytes(gzip.compress(shard.read_bytes()))
    return folder / "gzipped"


@pytest.mark.parametrize("name", READING)
def test_longer_records_than_the_limit_are_told(long_record, tmp_path, name):
    arguments = arguments_of(name, long_record, tmp_path)
    result = harness.run(*arguments, "--max-record-bytes", "1MiB")
    assert result.status == harness.IO_FAILED
    assert f"{long_record}: record 0 at byte 0: it has 3000" in result.err + result.out.decode()
    assert "max_record_bytes allows at most 1048576" in result.err + result.out.decode()
    harness.succeed(*arguments, "--max-record-bytes", "3MiB")


def test_many_records_below_the_limit_are_read(tmp_path):
    (tmp_path / "lines").write_text("".join(f"line {i}\n" for i in range(200_000)))
    harness.convert("text", tmp_path / "lines", tmp_path / "x@1", "--compression", "gzip")
    for command in ["verify", "index", "bench"]:
        harness.succeed(command, tmp_path / "x@1", "--max-record-bytes", "100")


def test_the_limit_is_a_size(long_record):
    result = harness.run("verify", long_record, "--max-record-bytes", "x")
    assert result.status == harness.USAGE
    assert "--max-record-bytes: x is not a size" in result.err
