"""MosaicML's MDS shards, read in place, against the rows that were written, and MosaicML's own writer."""

import json
import random
import re
import shutil
import sys
import warnings

import harness
import mds_files
import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True

SAMPLES, SHARDS = 50, 4
COLUMNS = {"id": "int", "text": "str", "x": "bytes", "score": "float32", "tokens": "ndarray:int32"}


def row_of(n, rng):
    return {"id": n, "text": f"row {n}", "x": rng.randbytes(rng.choice([0, 1, 15, 16, rng.randrange(5000)])),
            "score": n / 2, "tokens": np.arange(-n, n % 7 + 1, dtype=np.int32)}


ROWS = [row_of(n, random.Random(n)) for n in range(SAMPLES * SHARDS)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mds")
    mds_files.write(folder, COLUMNS, ROWS, SAMPLES)
    return folder


def spec(shards):
    return str(shards / f"shard.{{00000..{SHARDS - 1:05}}}.mds")


def ids(dataset):
    return [n for batch in dataset for n in batch["id"].tolist()]


def test_columns_and_their_kinds_are_found(shards):
    (batch,) = sf.read(spec(shards)).parse().batch(len(ROWS))
    assert sorted(batch) == sorted(COLUMNS)
    assert batch["id"].tolist() == [row["id"] for row in ROWS]
    assert batch["text"].tolist() == [row["text"].encode() for row in ROWS]
    assert batch["x"].tolist() == [row["x"] for row in ROWS]
    assert batch["score"].dtype == np.float32 and batch["score"].tolist() == [row["score"] for row in ROWS]
    assert [row.tolist() for row in batch["tokens"]] == [row["tokens"].tolist() for row in ROWS]


def test_folders_globs_braces_lists_and_files_are_the_same(shards):
    paths = sorted(shards.glob("shard.*.mds"))
    for of in (str(shards), spec(shards), str(shards / "shard.*.mds"), paths, [str(p) for p in paths]):
        assert ids(sf.read(of).parse({"id": sf.int64}).batch(7)) == list(range(len(ROWS))), of
    assert len(sf.read(paths[0])) == SAMPLES
    assert sf.read(str(shards)).parse()[61]["text"] == b"row 61"


@pytest.mark.folder_only("engines")
@pytest.mark.parametrize("engine", ["uring", "threads", "mmap"])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("window", [0, 8, None])
def test_each_sample_once_in_every_world_and_order(shards, engine, world, window):
    try:
        parts = [ids(sf.read(spec(shards), end="pad", io=engine).shuffle(seed=3, window=window).shard(rank, world)
                     .parse({"id": sf.int64}).batch(8)) for rank in range(world)]
    except OSError as error:
        if engine == "uring" and "io_uring" in str(error):
            pytest.skip(f"no io_uring here: {error}")
        raise
    numbers = [n for part in parts for n in part]
    assert 0 <= len(numbers) - len(ROWS) < world
    assert set(numbers) == set(range(len(ROWS)))
    if window is None or window > 1:
        assert numbers != sorted(numbers)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_run_goes_on_in_the_middle_in_any_world(shards, world):
    def run(rank, of):
        return iter(sf.read(spec(shards)).shuffle(seed=5).shard(rank, of).parse({"id": sf.int64}).batch(12 // of))
    first = [run(rank, 2) for rank in range(2)]
    done = [n for _ in range(6) for it in first for n in next(it)["id"].tolist()]
    state = json.loads(json.dumps(first[0].state_dict()))
    others = [run(rank, world) for rank in range(world)]
    for it in others:
        it.load_state_dict(state)
    left = [n for it in others for batch in it for n in batch["id"].tolist()]
    assert len(set(done + left)) == len(done + left)
    assert len(left) == (len(ROWS) - len(done)) // world * world


@pytest.mark.folder_only("budgets")
def test_a_small_budget_reads_everything(shards):
    chain = sf.read(spec(shards), budget_bytes=4 << 20).shuffle(seed=1).parse().batch(5)
    assert sorted(ids(chain)) == list(range(len(ROWS)))


NUMBERS = {name: name for name in mds_files.SCALARS}


def test_numbers_and_arrays_of_every_type(tmp_path):
    columns = dict(NUMBERS)
    arrays = {}
    for name in mds_files.CODES.values():
        arrays[f"a_{name}"] = np.array([[1, 2, 3], [4, 5, 100]], name)
        columns[f"a_{name}"] = f"ndarray:{name}"
        columns[f"b_{name}"] = f"ndarray:{name}:2,3"
        columns[f"c_{name}"] = "ndarray"
    rows = [{**{name: n for name in NUMBERS}, **arrays,
             **{name.replace("a_", "b_"): value for name, value in arrays.items()},
             **{name.replace("a_", "c_"): value.ravel() for name, value in arrays.items()}} for n in range(3)]
    mds_files.write(tmp_path / "mds", columns, rows, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (batch,) = sf.read(tmp_path / "mds").parse().batch(3)
        (shaped,) = sf.read(tmp_path / "mds").parse({"b_int16": sf.fixed((2, 3), sf.int16)}).batch(3)
    for name in NUMBERS:
        kind = np.float32 if name.startswith("float") else np.int64
        assert batch[name].dtype == kind and batch[name].tolist() == [0, 1, 2], name
    for name in arrays:
        assert batch[f"{name}.shape"].tolist() == [[2, 3]] * 3
        for form in "abc":
            assert batch[form + name[1:]].tolist() == [[1, 2, 3, 4, 5, 100]] * 3, (form, name)
            assert f"{form}{name[1:]}.shape" not in batch or form == "a"
    assert shaped["b_int16"].tolist() == [[[1, 2, 3], [4, 5, 100]]] * 3


def test_what_loses_digits_or_is_not_decoded_is_told(tmp_path):
    columns = {"a": "float64", "b": "pkl", "c": "mine", "d": "str"}
    mds_files.write(tmp_path / "mds", columns, [{"a": 0.1, "b": b"p", "c": b"m", "d": "s"}] * 6, 2)
    notes = ['column "a": float64 becomes float32, the only float type of TFRecord',
             'column "b": pickled objects are given as bytes; nothing is unpickled',
             'column "c": values in the unknown encoding "mine" are given as bytes']
    with pytest.warns(UserWarning) as told:
        (batch,) = sf.read(tmp_path / "mds").parse().batch(6)
    assert [str(warning.message) for warning in told] == ["\n".join(notes)]
    assert batch["a"].tolist() == [float(np.float32(0.1))] * 6
    assert batch["b"].tolist() == [b"p"] * 6 and batch["c"].tolist() == [b"m"] * 6
    for command in ("index", "verify"):
        assert harness.succeed(command, tmp_path / "mds", "--json").json["notes"] == notes
    assert harness.succeed("inspect", tmp_path / "mds", "--json").json["notes"][1:] == notes
    assert all(note in harness.succeed("plan", tmp_path / "mds").out.decode() for note in notes)


@pytest.mark.folder_only("damages files")
def test_damage_is_an_error_or_skipped_and_counted(shards, tmp_path):
    path = tmp_path / "a.mds"
    content = bytearray((shards / "shard.00000.mds").read_bytes())
    offsets = np.frombuffer(content[4:4 * (SAMPLES + 2)], "<u4")
    for sample in (3, 4, 49):
        content[offsets[sample] + 3] = 1  # a size, above those of all samples
    path.write_bytes(content)

    def chain(**options):
        return sf.read(path, **options).shuffle(seed=1).parse({"id": sf.int64, "text": sf.bytes}).batch(SAMPLES)
    with pytest.raises(sf.DataLossError, match=r'a\.mds: record \d+ at byte \d+: its column "text" has \d+ bytes, more'):
        list(chain())
    it = iter(chain(skip_damaged=True))
    (batch,) = it
    assert it.stats()["damaged"] == 3
    kept = sorted(n for n, text in zip(batch["id"].tolist(), batch["text"].tolist()) if text)
    assert kept == [n for n in range(SAMPLES) if n not in (3, 4, 49)]
    defects = harness.verify(path, status=harness.DEFECTS)["defects"]
    assert [(d["kind"], d["record"], d["offset"]) for d in defects] == [
        ("mds sample", n, offsets[n]) for n in (3, 4, 49)]


def test_the_program_on_shards(shards):
    name = spec(shards)
    assert harness.verify(name)["records"] == len(ROWS)
    found = harness.succeed("inspect", name, "--json").json
    assert sorted(found["features"]) == sorted(COLUMNS)
    assert found["notes"][0].startswith("MDS shards of MosaicML Streaming, read in place")
    assert "row 0" in harness.succeed("cat", name, "--records", "0").out.decode()
    assert b"200 records indexed" in harness.succeed("index", name).out
    assert b"200" in harness.succeed("plan", name).out
    error = harness.run("index", name, "--export", "dali").err
    assert "shard.00000.mds.idx: not written: its shard is an MDS shard" in error


def test_lengths_of_columns_are_kept(shards, tmp_path):
    mds_files.write(tmp_path / "mds", COLUMNS, ROWS, SAMPLES)
    sf.index(tmp_path / "mds", lengths=["tokens"])
    assert sf.inspect(tmp_path / "mds").data["lengths"]["tokens"]["total"] == sum(len(row["tokens"]) for row in ROWS)
    sf.index(tmp_path / "mds")
    assert sf.inspect(tmp_path / "mds").data["lengths"]["tokens"]["max"] == max(len(row["tokens"]) for row in ROWS)


@pytest.mark.parametrize("command", ["reshard", "convert", "sample", "merge", "split", "repair"])
def test_writing_commands_write_examples(shards, tmp_path, command):
    out = tmp_path / "out" / ("all-train@4" if command == "split" else f"train@{SHARDS}")
    words = {"reshard": ["reshard", shards, out], "merge": ["merge", shards, out],
             "convert": ["convert", "tfrecord", shards, out], "repair": ["repair", shards, out],
             "sample": ["sample", shards, out, "--count", "200"],
             "split": ["split", shards, tmp_path / "out" / "all@4", "--shares", "train=1"]}[command]
    harness.succeed(*words)
    rows = {n: (text, x) for batch in sf.read(out).parse().batch(50)
            for n, text, x in zip(batch["id"].tolist(), batch["text"].tolist(), batch["x"].tolist())}
    assert rows == {row["id"]: (row["text"].encode(), row["x"]) for row in ROWS}
    harness.verify(out, "--level", "examples")
    if command != "sample":
        harness.succeed("diff", shards, out)


@pytest.mark.folder_only("changes folders")
def test_what_is_wrong_with_a_folder_is_told(tmp_path):
    folder = tmp_path / "mds"
    mds_files.write(folder, COLUMNS, ROWS[:6], 2)
    (folder / "shard.00001.mds").rename(folder / "shard.00001.mds.zstd")
    with pytest.raises(sf.DataLossError, match="index.json: lists the shard shard.00001.mds, which is missing in"):
        sf.read(folder)
    with pytest.raises(ValueError, match="shard.00001.mds.zstd: a compressed MDS shard, of which no single sample can "
                                         r"be read; decompress it \(zstd -d --rm\)"):
        list(sf.read(folder / "shard.00001.mds.zstd"))
    index = json.loads((folder / "index.json").read_text())
    index["shards"][1]["zip_data"] = {"basename": "shard.00001.mds.zstd", "bytes": 1, "hashes": {}}
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="shard.00001.mds.zstd: a compressed MDS shard"):
        list(sf.read(folder))
    for name in ("../x.mds", "/x.mds", "a/../../x.mds"):
        index["shards"][1] = {**index["shards"][0], "raw_data": {"basename": name, "bytes": 1}}
        (folder / "index.json").write_text(json.dumps(index))
        with pytest.raises(sf.DataLossError, match="index.json: shard 1: its name .* leads outside the folder"):
            sf.read(folder)
    index["shards"][1] = {**index["shards"][0], "raw_data": {"basename": "", "bytes": 1}}
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(sf.DataLossError, match="index.json: shard 1: it has no name; name the shards by a glob"):
        sf.read(folder)
    index["shards"][1] = {**index["shards"][0], "raw_data": {}}
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(sf.DataLossError, match="index.json: shard 1: .*basename.*; name the shards by a glob"):
        sf.read(folder)
    index["shards"][1] = {**index["shards"][0], "raw_data": {"basename": "./shard.00000.mds", "bytes": 1}}
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(sf.DataLossError, match=r"index.json: lists the shard ./shard.00000.mds twice; name the shards by a glob"):
        sf.read(folder)
    for text, message in [("{}", "it lists no MDS shards"), ("", "parse error"), (json.dumps(index)[:-3], "parse error"),
                          (json.dumps(index).replace('"mds"', '"nds"'), "it lists no MDS shards")]:
        (folder / "index.json").write_text(text)
        with pytest.raises(sf.DataLossError, match=f"index.json: .*{message}.*; to read the MDS shards beside it, name them"):
            sf.read(folder)


@pytest.mark.folder_only("changes folders")
def test_a_folder_with_another_set_is_refused(tmp_path):
    folder = tmp_path / "mds"
    mds_files.write(folder, COLUMNS, ROWS[:6], 2)
    assert harness.run("sample", folder, folder / "few@1", "--count", "2").status == 0
    message = r"holds MDS shards, which its index.json lists, and other sets; name the MDS shards by a glob, .*mds/\*.mds, or "
    with pytest.raises(ValueError, match=message + "one of: .*few@1"):
        sf.read(folder)
    assert len(sf.read(folder / "few@1")) == 2 and len(sf.read(folder / "*.mds")) == 6
    shutil.rmtree(folder / ".shardfeed")
    with pytest.raises(ValueError, match=message):
        sf.read(folder)
    (folder / "index.json").write_text("[]")  # of another program
    assert len(sf.read(folder)) == 2


def test_verify_compares_the_index_of_the_folder(tmp_path):
    folder = tmp_path / "mds"
    mds_files.write(folder, COLUMNS, ROWS[:6], 2)
    assert harness.verify(folder)["records"] == 6
    index = json.loads((folder / "index.json").read_text())
    index["shards"][1]["samples"] = 3
    (folder / "index.json").write_text(json.dumps(index))
    (defect,) = harness.verify(folder, status=harness.DEFECTS)["defects"]
    size = index["shards"][1]["raw_data"]["bytes"]
    assert defect["kind"] == "manifest"
    assert defect["detail"].endswith(
        f"mds/index.json: says that shard.00001.mds has 3 samples in {size} bytes, but it has 2 in {size}")
    del index["shards"][1]["samples"]
    (folder / "index.json").write_text(json.dumps(index))
    (defect,) = harness.verify(folder / "shard.*.mds", status=harness.DEFECTS)["defects"]
    assert defect["kind"] == "manifest"
    assert re.search("mds/index.json: shard 1: .*samples.*; name the shards by a glob", defect["detail"])


@pytest.mark.folder_only("merged folders")
def test_merged_folders(tmp_path):
    shards = []
    for n, name in enumerate("ab"):
        mds_files.write(tmp_path / "mds" / name, COLUMNS, ROWS[n * 4:n * 4 + 4], 2)
        for shard in json.loads((tmp_path / "mds" / name / "index.json").read_text())["shards"]:
            shard["raw_data"]["basename"] = f"{name}/{shard['raw_data']['basename']}"
            shards.append(shard)
    (tmp_path / "mds" / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    assert ids(sf.read(tmp_path / "mds").parse({"id": sf.int64}).batch(3)) == list(range(8))


@pytest.mark.folder_only("another library writes")
def test_shards_of_mosaicml_streaming(tmp_path):
    streaming = pytest.importorskip("streaming", reason="MosaicML Streaming is not installed")
    columns = {**COLUMNS, "a": "ndarray", "b": "ndarray:float32:2,2", "meta": "json", "n": "uint16", "s": "str_int"}
    rows = [{**row, "a": np.arange(n + 1, dtype=np.int16), "b": np.full((2, 2), n, np.float32), "meta": {"n": n},
             "n": n, "s": 10 ** 30 + n} for n, row in enumerate(ROWS)]
    with streaming.MDSWriter(out=str(tmp_path / "mds"), columns=columns, size_limit=1 << 16) as writer:
        for row in rows:
            writer.write(row)
    (batch,) = sf.read(tmp_path / "mds").parse().batch(len(rows))
    assert batch["x"].tolist() == [row["x"] for row in rows]
    assert [row.tolist() for row in batch["a"]] == [row["a"].tolist() for row in rows]
    assert batch["b"].tolist() == [row["b"].ravel().tolist() for row in rows]
    assert [json.loads(meta) for meta in batch["meta"].tolist()] == [row["meta"] for row in rows]
    assert batch["n"].tolist() == [row["n"] for row in rows]
    assert [int(s) for s in batch["s"].tolist()] == [row["s"] for row in rows]
    assert harness.verify(tmp_path / "mds")["records"] == len(rows)
