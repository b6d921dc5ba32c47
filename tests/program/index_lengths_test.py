"""`index --length`: how long each record is, kept in the index."""

import io
import json
import os
import shutil
import struct
import tarfile

import harness
import pytest
from harness import DEFECTS, IO_FAILED, USAGE, convert, fail, flip, frame, succeed, tree, verify

HERE_AND_IN_STORE = True

TOKENS = [[i] * (i * 7 % 300) for i in range(500)]
TEXTS = ["x" * (i % 11) for i in range(500)]


def write(tmp_path, stem="d", shards=3, *options):
    source = tmp_path / f"{stem}.jsonl"
    source.write_text("".join(json.dumps({"tokens": tokens, "text": text, "score": i / 2}) + "\n"
                              for i, (tokens, text) in enumerate(zip(TOKENS, TEXTS))))
    convert("jsonl", source, tmp_path / f"{stem}@{shards}", *options)
    return tmp_path / f"{stem}@{shards}"


def foreign(spec):
    """The dataset as another program would have written it."""
    shutil.rmtree(spec.parent / ".shardfeed")
    return spec


def columns(path):
    """The length columns of an index by docs/index.md, independent of shardfeed."""
    data = path.read_bytes()
    if data[-8:] != b"SFLENGT1":
        return {}
    records, = struct.unpack_from("<Q", data, 32)
    at, = struct.unpack_from("<Q", data, len(data) - 16)
    found = {}
    while at < len(data) - 16:
        width, name_bytes = struct.unpack_from("<BH", data, at)
        name = data[at + 3:at + 3 + name_bytes].decode()
        at += 3 + name_bytes
        found[name] = [int.from_bytes(data[at + i * width:at + (i + 1) * width], "little") for i in range(records)]
        at += records * width
    assert at == len(data) - 16
    return found


def columns_of(spec):
    """Those of all shards end to end."""
    found = {}
    for path in sorted(spec.parent.glob(f".shardfeed/{spec.name.partition('@')[0]}-*.index")):
        for name, lengths in columns(path).items():
            found.setdefault(name, []).extend(lengths)
    return found


@pytest.mark.parametrize("compression, written_by", [("none", "another"), ("gzip", "shardfeed")])
def test_each_length_is_kept(tmp_path, compression, written_by):
    spec = write(tmp_path, "d", 3, "--compression", compression)
    if written_by == "another":
        foreign(spec)
    done = succeed("index", spec, "--length", "tokens", "--length", "text").out.decode()
    total = sum(map(len, TOKENS))
    assert f"lengths of tokens: {total:,} in all, mean {total / 500:.1f}, largest {max(map(len, TOKENS))}\n" in done
    assert columns_of(spec) == {"tokens": list(map(len, TOKENS)), "text": list(map(len, TEXTS))}
    assert verify(spec, "--level", "examples")["num_defects"] == 0
    shown = succeed("inspect", spec, "--records", "0")
    assert f"lengths of text: {sum(map(len, TEXTS)):,} in all" in shown.out.decode()
    assert "lengths of tokens" not in succeed("inspect", spec, "--records", "0", "--feature", "text").out.decode()
    lengths = succeed("inspect", spec, "--json").json["lengths"]
    assert lengths["tokens"] == {"total": total, "mean": total / 500, "max": 299, "shards": 3}


def test_lengths_stay_and_are_not_measured_twice(tmp_path):
    spec = write(tmp_path)
    assert succeed("index", spec, "--length", "tokens", "--json").json["shards_measured"] == 3
    before = tree(tmp_path)
    done = succeed("index", spec, "--length", "tokens", "--json").json
    assert (done["shards_measured"], done["lengths"]["tokens"]["shards"]) == (0, 3)
    assert "3 shards had these lengths already\n" in succeed("index", spec, "--length", "tokens").out.decode()
    assert "lengths of tokens: " in succeed("index", spec).out.decode()
    assert tree(tmp_path) == before
    # Measuring another feature keeps those that exist.
    succeed("index", spec, "--length", "score")
    assert columns_of(spec) == {"score": [1] * 500, "tokens": list(map(len, TOKENS))}


def test_shards_that_lack_lengths_are_told_and_measured(tmp_path):
    spec = write(tmp_path)
    succeed("index", tmp_path / "d-00001-of-00003", "--length", "tokens")
    shown = succeed("inspect", spec, "--records", "0").out.decode()
    assert f"; only 1 of 3 shards have them: shardfeed index {spec} --length tokens\n" in shown
    assert verify(spec)["num_defects"] == 0  # the pack is up to date, too
    assert succeed("index", spec, "--length", "tokens", "--json").json["shards_measured"] == 2
    assert columns_of(spec) == {"tokens": list(map(len, TOKENS))}


def test_other_records_lose_the_lengths(tmp_path):
    spec = write(tmp_path)
    succeed("index", spec, "--length", "tokens", "--length", "text")
    first, second = tmp_path / "d-00000-of-00003", tmp_path / "d-00001-of-00003"
    first.write_bytes(second.read_bytes())
    done = succeed("index", first)
    assert (f"note: {first}: has other records than when its lengths were measured, which were left out: text, tokens\n"
            in done.out.decode())
    assert columns(tmp_path / ".shardfeed/d-00000-of-00003.index") == {}
    # Asked for, they are measured again.
    second.write_bytes((tmp_path / "d-00002-of-00003").read_bytes())
    done = succeed("index", second, "--length", "tokens", "--json").json
    assert done["shards_measured"] == 1 and "left out: text" in done["notes"][0]
    of_second, of_third = (columns(tmp_path / f".shardfeed/d-0000{i}-of-00003.index") for i in (1, 2))
    assert of_second == {"tokens": of_third["tokens"]}


def test_a_feature_that_no_record_has(tmp_path):
    spec = write(tmp_path)
    message = "no record has a feature named 'token'; did you mean 'tokens'?"
    before = tree(tmp_path)
    assert fail(USAGE, "index", spec, "--length", "tokens", "--length", "token") == message
    assert tree(tmp_path) == before  # the manifest tells it at once
    foreign(spec)
    assert fail(USAGE, "index", spec, "--length", "token") == message
    assert columns_of(spec) == {}
    assert verify(spec)["num_defects"] == 0
    assert fail(USAGE, "index", spec, "--length", "") == "no record has a feature named ''"


def test_damage_is_told_and_keeps_the_old_index(tmp_path):
    spec = foreign(write(tmp_path))
    succeed("index", spec)
    flip(tmp_path / "d-00001-of-00003", 100)
    message = fail(DEFECTS, "index", spec, "--length", "tokens")
    assert "d-00001-of-00003: record " in message and "payload CRC" in message
    assert columns(tmp_path / ".shardfeed/d-00001-of-00003.index") == {}


def test_records_that_are_no_examples_are_told(tmp_path):
    (tmp_path / "e").write_bytes(frame(b"\xff no Example"))
    message = fail(DEFECTS, "index", tmp_path / "e", "--length", "text")
    assert "e: record 0 at byte 0: not a tf.train.Example" in message
    assert message.endswith("lengths of features need tf.train.Examples")


def test_tar_archives_have_lengths_of_bytes(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(30):
            info = tarfile.TarInfo(f"{i:03}.txt")
            info.size = i * 10
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    succeed("index", tmp_path / "a.tar", "--length", "txt")
    assert columns(tmp_path / ".shardfeed/a.tar.index") == {"txt": [i * 10 for i in range(30)]}
    assert verify(tmp_path / "a.tar")["num_defects"] == 0


def test_new_datasets_have_no_lengths(tmp_path):
    """But for compressed shards that are copied whole, as into folders."""
    spec = write(tmp_path)
    packed = write(tmp_path, "z", 2, "--compression", "gzip")
    succeed("index", spec, "--length", "tokens")
    succeed("index", packed, "--length", "tokens")
    for i, (command, source, shards) in enumerate([("merge", spec, 3), ("repair", spec, 3), ("reshard", packed, 3),
                                                   ("merge", packed, 2)]):
        out = tmp_path / f"out{i}/d@{shards}"
        succeed(command, source, out)
        copied = i == 3 and not harness.STORE
        assert columns_of(out) == ({"tokens": list(map(len, TOKENS))} if copied else {}), command
        assert verify(out)["num_defects"] == 0


@pytest.mark.folder_only("it is about the folder")
def test_a_folder_that_is_read_only(tmp_path, open_folder, run_without_privilege):
    spec = write(tmp_path)
    shutil.copytree(tmp_path, open_folder / "data")
    for path in [open_folder / "data", *(open_folder / "data").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = run_without_privilege("index", open_folder / "data" / spec.name, "--length", "tokens")
    assert done.returncode == IO_FAILED
    assert ".shardfeed/d-0000" in done.stderr and os.strerror(13) in done.stderr
    assert columns_of(open_folder / "data" / spec.name) == {}
