"""Helpers of the tests: run the program, parse TFRecord bytes, compare folders, serve a folder over HTTP."""

import base64
import contextlib
import json
import os
import pathlib
import random
import re
import struct
import subprocess
from dataclasses import dataclass

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TESTDATA = REPOSITORY / "testdata"
BINARY = pathlib.Path(os.environ.get("SHARDFEED_BIN", REPOSITORY / "bazel-bin/cli/shardfeed"))
# bazel-bin is a link that the next build may redirect.
BINARY = BINARY.resolve()
FAULT_SERVER = pathlib.Path(os.environ.get(
    "SHARDFEED_FAULT_SERVER", REPOSITORY / "bazel-bin/tests/net/fault_server")).resolve()

DONE, DEFECTS, USAGE, IO_FAILED, INTERRUPTED = 0, 1, 2, 3, 130

HEADER = 12
FOOTER = 4

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}


@dataclass
class Result:
    status: int
    out: bytes
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        """Standard output, parsed as one JSON value per line."""
        return [json.loads(line) for line in self.out.splitlines()]


# While a test runs over a store, "s3://files": a bucket that has all files of this machine, so that
# tests look at objects as files, and make and damage them.
STORE = ""
REQUESTS_NOTE = (r"shardfeed: note: (a manifest and an index pack would save|\d+ of \d+ shards had no index; "
                 r"they were built in memory).*\n")
FLAGS = {"--allow-duplicates", "--dry-run", "--fix", "--json", "--overwrite", "--quiet", "-q"}


def in_store(path):
    """The URL of a file while a test runs over a store, and otherwise the path."""
    return f"{STORE}{path}" if str(path).startswith("/") else str(path)


def command(*arguments):
    """The absolute paths of datasets become URLs over a store; values of options, and what is converted,
    stay as they are."""
    texts = list(map(str, arguments))
    found = [n for n in range(1, len(texts)) if texts[n].startswith("/")
             and (not texts[n - 1].startswith("-") or texts[n - 1] in FLAGS)]
    for n in found[-1:] if texts[:1] == ["convert"] else found:
        texts[n] = in_store(texts[n])
    return [str(BINARY), *texts]


def run(*arguments, cwd=None, preexec=None, env=None, timeout=120):
    """Runs shardfeed to its end, whether it succeeds or not. What it prints has paths for URLs, and no
    notes that a dataset is opened by many requests."""
    done = subprocess.run(command(*arguments), cwd=cwd, preexec_fn=preexec, env=env, timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True)
    out, err = done.stdout, done.stderr.decode(errors="replace")
    if STORE:
        out = out.replace(STORE.encode(), b"")
        err = re.sub(REQUESTS_NOTE, "", err.replace(STORE, ""))
    return Result(done.returncode, out, err)


def succeed(*arguments, **options):
    """Runs shardfeed, which must succeed."""
    result = run(*arguments, **options)
    assert result.status == DONE, result.err + result.out.decode(errors="replace")
    return result


def leave_out(*arguments, **options):
    """Runs shardfeed, which must do all of its work except for records that are left out."""
    result = run(*arguments, **options)
    assert result.status == DEFECTS and not result.err, (result.status, result.err, result.out)
    return result


def fail(status, *arguments, **options):
    """Runs shardfeed, which must end with `status`; returns its one line of explanation."""
    result = run(*arguments, **options)
    assert result.status == status, (result.status, result.err, result.out)
    assert result.err.startswith("shardfeed: "), result.err
    assert result.err.count("\n") == 1, result.err
    return result.err.removeprefix("shardfeed: ").rstrip("\n")


def convert(kind, source, spec, *options, **others):
    sources = source if isinstance(source, (list, tuple)) else [source]
    return succeed("convert", kind, *sources, spec, "-q", *options, **others)


def write_lines(path, records, different):
    """Writes JSON lines of several lengths, whose numbers are 0 to `different` - 1 in turn, and returns the path."""
    rng = random.Random(1)
    with open(path, "w") as file:
        for i in range(records):
            text = rng.choice("abcdef") * rng.randrange(300)
            file.write(json.dumps({"i": i % different, "text": text, "x": [0.5] * (i % 3)}) + "\n")
    return path


def verify(dataset, *options, status=DONE):
    """The report of `verify --json`."""
    datasets = dataset if isinstance(dataset, (list, tuple)) else [dataset]
    result = run("verify", *datasets, "--json", *options)
    assert result.status == status, (result.status, result.err, result.out)
    return result.json


def payloads(dataset, *options):
    """All records as read by `cat`, in JSON, which separates them."""
    return succeed("cat", dataset, *options).lines


# ---- TFRecord bytes, independent of shardfeed


def frames(raw):
    """(offset, payload) of each whole frame, without checking CRCs."""
    found = []
    offset = 0
    while offset + HEADER <= len(raw):
        length, = struct.unpack_from("<Q", raw, offset)
        if offset + HEADER + length + FOOTER > len(raw):
            break
        found.append((offset, raw[offset + HEADER:offset + HEADER + length]))
        offset += HEADER + length + FOOTER
    return found


# ---- messages by docs/jobs.md, independent of shardfeed


def changed_message(message, change):
    """A message of a finished part that says something else, with the checksum that belongs to it."""
    said = json.loads(message)
    del said["crc32c"]
    change(said)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**said, "crc32c": f"{crc32c(text.encode()):08x}"})


# ---- manifests by docs/manifest.md, independent of shardfeed


def write_manifest(path, manifest):
    """Writes a manifest with its checksum."""
    members = {key: value for key, value in manifest.items() if key != "crc32c"}
    text = json.dumps(members, indent=1).removesuffix("\n}") + ",\n "
    path.write_text(f'{text}"crc32c": "{crc32c(text.encode()):08x}"\n}}\n')


# ---- TensorFlow


def example(tf, **features):
    message = tf.train.Example()
    for name, values in features.items():
        feature = message.features.feature[name]
        if not values:
            feature.SetInParent()
        elif isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return message.SerializeToString(deterministic=True)


def write_by_tensorflow(tf, path, records, compression=""):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression)) as writer:
        for record in records:
            writer.write(record)


def read_by_tensorflow(tf, paths, compression=""):
    paths = [str(path) for path in paths]
    return list(tf.data.TFRecordDataset(paths, compression_type=compression).as_numpy_iterator())


def decoded(tf, record):
    """The features of an Example as Python values."""
    features = tf.train.Example.FromString(record).features.feature
    return {name: list(getattr(f, f.WhichOneof("kind")).value) if f.WhichOneof("kind") else []
            for name, f in features.items()}


def as_cat_prints(features):
    """Decoded features as `cat --format json` should print them."""
    def value(v):
        if not isinstance(v, bytes):
            return v
        try:
            return v.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(v).decode()}
    return {name: [value(v) for v in values] for name, values in features.items()}


def shards(folder, stem):
    return sorted(path for path in folder.glob(f"{stem}-*-of-*"))


# ---- folders


def tree(folder):
    """Every file below `folder`, including hidden ones, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def tree_without_jobs(folder):
    """The same without the files of jobs."""
    return {name: data for name, data in tree(folder).items() if ".jobs/" not in name}


def looks_complete(folder, stem):
    """Whether the content of `folder` could be taken for the dataset `stem`."""
    if (folder / ".shardfeed" / f"{stem}.manifest.json").exists():
        return True
    return folder.exists() and run("verify", folder / f"{stem}@*").status == DONE


def flip(path, offset, mask=0x10):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


# ---- CRC-32C, the slow way


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length):
    """A valid header of a record of `length` bytes."""
    number = struct.pack("<Q", length)
    return number + struct.pack("<I", masked_crc(number))


def frame(payload):
    return header(len(payload)) + payload + struct.pack("<I", masked_crc(payload))


# ---- Processes


def alive(pid):
    """Whether the process runs: it neither ended nor waits for its parent to take note."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def open_files(pid):
    """What the process's descriptors stand for, as Linux names it. Those closed meanwhile are left out."""
    found = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return found


# ---- GZIP as shardfeed writes it


def members(data):
    """(offset, content) of each member, by the size in its "SF" field."""
    import gzip
    found = []
    offset = 0
    while offset < len(data):
        assert data[offset:offset + 2] == b"\x1f\x8b" and data[offset + 12:offset + 14] == b"SF"
        size, = struct.unpack_from("<Q", data, offset + 16)
        found.append((offset, gzip.decompress(data[offset:offset + size])))
        offset += size
    return found


@contextlib.contextmanager
def served(folder, *fault, bucket=()):
    """The URL of a server of the folder; with bucket=("--bucket", NAME), of one that speaks S3's protocol."""
    if not FAULT_SERVER.exists():
        pytest.skip(f"{FAULT_SERVER} is missing: bazel build --config=opt //tests/net:fault_server")
    process = subprocess.Popen([FAULT_SERVER, *bucket, folder, *map(str, fault)], stdout=subprocess.PIPE,
                               text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
