"""Compressed sources, pipes, and JSON as it lies on disk, through the program."""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import subprocess
import tarfile

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, fail, payloads, succeed

CITIES = TESTDATA / "tables/cities.csv"
EVENTS = TESTDATA / "tables/events.jsonl"
POEM = TESTDATA / "tables/poem.txt"


def zstd(content):
    """A Zstandard frame of raw blocks (RFC 8878), made without its library."""
    frame = b"\x28\xb5\x2f\xfd\x00\x38"  # no size, a window of 128 KiB
    blocks = [content[i:i + (1 << 16)] for i in range(0, len(content), 1 << 16)] or [b""]
    for i, block in enumerate(blocks):
        frame += struct.pack("<I", len(block) << 3 | (i + 1 == len(blocks)))[:3] + block
    return frame


CODECS = {"gz": gzip.compress, "zst": zstd, "xz": lzma.compress, "bz2": bz2.compress}


def tar(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


IDX = struct.pack(">4B3I", 0, 0, 8, 3, 2, 1, 1) + b"ab"
SOURCES = {"csv": CITIES.read_bytes(), "jsonl": EVENTS.read_bytes(), "text": POEM.read_bytes(),
           "json": b'[{"a": 1}, {"a": 2}]', "tar": tar({"a.txt": b"x" * 3000, "a.cls": b"1", "b.txt": b"y"}),
           "idx": IDX, "cifar": bytes(3073)}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", SOURCES)
def test_compressed_sources(kind, codec, tmp_path):
    plain = tmp_path / "plain"  # names do not count
    plain.write_bytes(SOURCES[kind])
    packed = tmp_path / "packed"
    half = len(SOURCES[kind]) // 2
    packed.write_bytes(CODECS[codec](SOURCES[kind][:half]) + CODECS[codec](SOURCES[kind][half:]))
    options = ["--variant", "10"] if kind == "cifar" else []
    convert(kind, plain, tmp_path / "out/a@2", *options)
    convert(kind, packed, tmp_path / "out/b@2", *options)
    assert payloads(tmp_path / "out/a@2") == payloads(tmp_path / "out/b@2")


@pytest.mark.parametrize("codec", CODECS)
def test_cut_and_continued_data_is_refused(codec, tmp_path):
    packed = CODECS[codec](SOURCES["jsonl"])
    path = tmp_path / "t"
    path.write_bytes(packed[:-5])
    message = fail(DEFECTS, "convert", "jsonl", path, tmp_path / "out/x@1", "-q")
    assert f"{path}: " in message
    assert f"data ends prematurely at byte {len(packed) - 5}: the file is truncated" in message
    path.write_bytes(packed + b"more than that")
    message = fail(DEFECTS, "convert", "jsonl", path, tmp_path / "out/x@1", "-q")
    assert "bytes follow the " in message and f"at byte {len(packed)}" in message
    assert not list(tmp_path.glob("out/x*"))


def test_arrays_have_to_be_decompressed(tmp_path):
    (tmp_path / "x.npy").write_bytes(gzip.compress(b"\x93NUMPY"))
    assert fail(DEFECTS, "convert", "npy", tmp_path / "x.npy", tmp_path / "out/x@1", "-q") == (
        f"{tmp_path}/x.npy: is compressed with gzip, but rows are read in place; decompress it first (gzip -d)")


# ---- pipes


def shell(command, *arguments):
    """Runs a line of bash, in which $1 and so on are the arguments."""
    return subprocess.run(["bash", "-c", command, "bash", *map(str, arguments)], capture_output=True,
                          text=True, timeout=60)


def test_schemas_and_class_maps_from_pipes(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "i").write_bytes(IDX)
    (tmp_path / "l").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2) + b"\0\1")
    done = shell('"$1" convert csv "$2" "$3" -q --schema <(echo "{\\"a\\": \\"bytes\\"}")',
                 harness.BINARY, tmp_path / "t.csv", out / "a@1")
    assert done.returncode == 0, done.stderr
    assert payloads(out / "a@1") == [{"a": ["1"], "b": [2]}]
    done = shell('"$1" convert idx "$2" "$3" "$4" -q --class-map <(printf "cat\\ndog\\n" | gzip)',
                 harness.BINARY, tmp_path / "i", tmp_path / "l", out / "b@1")
    assert done.returncode == 0, done.stderr
    assert [row["image/class/text"] for row in payloads(out / "b@1")] == [["cat"], ["dog"]]
    done = shell('"$1" convert csv "$2" "$3" -q --schema <(true)', harness.BINARY,
                 tmp_path / "t.csv", out / "c@1")
    assert done.returncode == USAGE and "not a JSON object" in done.stderr


def test_labels_from_a_pipe(tmp_path):
    images = TESTDATA / "images"
    paths = sorted(p.relative_to(images) for p in images.rglob("*") if p.is_file())
    (tmp_path / "labels").write_text("".join(f"{path} {n % 3}\n" for n, path in enumerate(paths)))
    done = shell('"$1" convert images "$2" "$3" -q --label-file <(cat "$4")', harness.BINARY, images,
                 tmp_path / "out/a@1", tmp_path / "labels")
    assert done.returncode == 0, done.stderr
    convert("images", images, tmp_path / "out/b@1", "--label-file", tmp_path / "labels")
    assert payloads(tmp_path / "out/a@1") == payloads(tmp_path / "out/b@1")


def test_another_schema_from_a_pipe_is_another_conversion(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    for kind, value in (("bytes", "1"), ("int64", 1)):
        done = shell(f'"$1" convert csv "$2" "$3" -q --resume --overwrite --schema <(echo "{{\\"a\\": \\"{kind}\\"}}")',
                     harness.BINARY, tmp_path / "t.csv", tmp_path / "out/a@1")
        assert done.returncode == 0, done.stderr
        assert payloads(tmp_path / "out/a@1") == [{"a": [value]}]


def test_pipes_as_sources(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "x.zst").write_bytes(zstd(SOURCES["csv"]))
    done = shell('"$1" convert csv <(cat "$2") <(cat "$3") "$4" -q', harness.BINARY, tmp_path / "x.zst", CITIES,
                 out / "a@1")
    assert done.returncode == 0, done.stderr
    convert("csv", [CITIES, CITIES], out / "b@1")
    assert payloads(out / "a@1") == payloads(out / "b@1")
    assert [path.name for path in out.iterdir() if "input" in path.name] == []
    os.mkfifo(tmp_path / "fifo")
    done = shell('printf "a\\n1,2\\n" > "$1" & "$2" convert csv "$1" "$3" -q', tmp_path / "fifo", harness.BINARY,
                 out / "c@1")
    assert done.returncode == DEFECTS
    assert done.stderr.startswith(f"shardfeed: {tmp_path}/fifo:2: expected 1 cells as in the header, got 2")
    assert fail(USAGE, "convert", "images", tmp_path / "fifo", out / "d@1", "-q") == (
        f"images cannot be read from the pipe {tmp_path}/fifo: name files")
    assert "cannot be combined with --only-shards" in fail(
        USAGE, "convert", "csv", tmp_path / "fifo", out / "d@4", "--only-shards", "0-1", "--job", "j")


# ---- JSON


def test_json_as_python_writes_it(tmp_path):
    rows = [{"x": float("nan"), "n": 1, "boxes": [[1, 2], [3.5, float("inf")]],
             "objects": [{"label": "cat", "score": 0.5}, {"label": "dog"}]},
            {"x": -float("inf"), "n": 16777217.0, "boxes": [], "objects": []}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = succeed("convert", "jsonl", tmp_path / "t.jsonl", tmp_path / "out/a@1")
    note = (f'key "n": 1 number loses digits because floats have 32 bits, the first is 16777217 at '
            f"{tmp_path}/t.jsonl:2, which becomes 16777216")
    assert note in done.out.decode()
    manifest = json.loads((tmp_path / "out/.shardfeed/a.manifest.json").read_text())
    assert {name: feature["kind"] for name, feature in manifest["features"].items()} == {
        "x": "float", "n": "float", "boxes": "float", "boxes_lengths": "int64", "objects.label": "bytes",
        "objects.label_lengths": "int64", "objects.score": "float", "objects.score_lengths": "int64"}
    first, second = payloads(tmp_path / "out/a@1")
    assert first["boxes_lengths"] == [2, 2] and first["objects.score_lengths"] == [1, 0]
    assert first["objects.label"] == ["cat", "dog"] and second["boxes_lengths"] == []


def test_integers_that_no_record_holds_need_a_schema(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"id": 18446744073709551616}\n')
    assert fail(DEFECTS, "convert", "jsonl", tmp_path / "t.jsonl", tmp_path / "out/a@1", "-q") == (
        f'{tmp_path}/t.jsonl:1: "id": the integer 18446744073709551616 is outside of int64; pass --schema '
        "FILE to make it bytes (its text) or float")
    (tmp_path / "s").write_text('{"id": "bytes"}')
    convert("jsonl", tmp_path / "t.jsonl", tmp_path / "out/a@1", "--schema", tmp_path / "s")
    assert payloads(tmp_path / "out/a@1") == [{"id": ["18446744073709551616"]}]
