"""ArrayRecord files, read in place, against the records that were written, and the reference implementation."""

import json
import random
import sys

import array_record_files
import harness
import pytest
from harness import REPOSITORY, TESTDATA

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True

RECORDS, SHARDS = 50, 4
GROUPS = (1, 4)


def example(n):
    """A tf.train.Example of a number and bytes; some records are longer than a block."""
    def field(number, content):
        return bytes([number << 3 | 2]) + array_record_files.varint(len(content)) + content

    def feature(name, kind, value):
        return field(1, field(1, name) + field(2, field(kind, field(1, value))))
    size = 66_000 if n % 50 == 7 else random.Random(n).randrange(2000)
    return field(1, feature(b"id", 3, array_record_files.varint(n)) + feature(b"x", 1, bytes([n % 251]) * size))


WRITTEN = [example(n) for n in range(RECORDS * SHARDS)]


@pytest.fixture(scope="module", params=GROUPS, ids=lambda group: f"group{group}")
def shards(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("array")
    for shard in range(SHARDS):
        array_record_files.write(folder / name_of(shard), WRITTEN[shard * RECORDS:(shard + 1) * RECORDS], request.param)
    folder.joinpath("group").write_text(str(request.param))
    return folder


def name_of(shard):
    return f"x-train.array_record-{shard:05}-of-{SHARDS:05}"


def spec(shards):
    return str(shards / f"x-train.array_record@{SHARDS}")


def ids(dataset):
    return [n for batch in dataset for n in batch["id"].tolist()]


def test_records_are_what_was_written(shards):
    assert list(sf.read(spec(shards))) == WRITTEN
    (batch,) = sf.read(spec(shards)).parse().batch(len(WRITTEN))
    assert batch["id"].tolist() == list(range(len(WRITTEN)))
    assert batch["x"].tolist()[7] == bytes([7]) * 66_000
    assert list(sf.read(spec(shards), check_crc=False)) == WRITTEN


def test_names_globs_and_lists_are_the_same(shards):
    paths = sorted(shards.glob("x-train*"))
    for of in (spec(shards), str(shards / "x-train.array_record*"), paths, [str(path) for path in paths]):
        assert ids(sf.read(of).parse({"id": sf.int64}).batch(7)) == list(range(len(WRITTEN))), of
    assert len(sf.read(paths[0])) == RECORDS


def test_a_split_of_a_tfds_folder(tmp_path):
    folder = tmp_path / "flowers/3.0.1"
    for shard in range(2):
        array_record_files.write(folder / f"flowers-train.array_record-{shard:05}-of-00002", WRITTEN[shard:8:2])
    info = {"name": "flowers", "version": "3.0.1", "fileFormat": "array_record", "splits": [
        {"name": "train", "shardLengths": ["4", "4"],
         "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    for of in (folder, folder / "train"):
        assert sorted(ids(sf.read(of).parse({"id": sf.int64}).batch(8))) == list(range(8))


def test_any_records_by_their_numbers(shards):
    records = sf.read(spec(shards))
    assert [records[n] for n in (0, 199, 57, 57)] == [WRITTEN[n] for n in (0, 199, 57, 57)]
    rng = random.Random(1)
    for count in (1, 3, 64):
        numbers = [rng.randrange(len(WRITTEN)) for _ in range(count)]
        assert list(records[numbers]) == [WRITTEN[n] for n in numbers]


@pytest.mark.folder_only("engines")
@pytest.mark.parametrize("engine", ["uring", "threads", "mmap"])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("window", [0, 8, None])
def test_each_record_once_in_every_world_and_order(shards, engine, world, window):
    try:
        parts = [ids(sf.read(spec(shards), end="pad", io=engine).shuffle(seed=3, window=window).shard(rank, world)
                     .parse({"id": sf.int64}).batch(8)) for rank in range(world)]
    except OSError as error:
        if engine == "uring" and "io_uring" in str(error):
            pytest.skip(f"no io_uring here: {error}")
        raise
    numbers = [n for part in parts for n in part]
    assert 0 <= len(numbers) - len(WRITTEN) < world
    assert set(numbers) == set(range(len(WRITTEN)))


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
    assert len(left) == (len(WRITTEN) - len(done)) // world * world


@pytest.mark.folder_only("budgets")
def test_a_small_budget_reads_everything(shards):
    chain = sf.read(spec(shards), budget_bytes=4 << 20).shuffle(seed=1).parse({"id": sf.int64}).batch(5)
    assert sorted(ids(chain)) == list(range(len(WRITTEN)))


@pytest.mark.folder_only("damages files")
@pytest.mark.parametrize("group", GROUPS)
def test_damage_is_an_error_or_skipped_and_counted(tmp_path, group):
    path = tmp_path / "a.array_record"
    content, places = array_record_files.file_bytes(WRITTEN[:RECORDS], group)
    content = bytearray(content)
    lost = set()
    for n in (3, 20, 49):
        content[places[n // group] + 55] ^= 1
        lost |= set(range(n // group * group, min(RECORDS, n // group * group + group)))
    path.write_bytes(content)

    def chain(**options):
        return sf.read(path, **options).shuffle(seed=1).parse({"id": sf.int64, "x": sf.bytes}).batch(RECORDS)
    with pytest.raises(sf.DataLossError, match=r"a\.array_record: record \d+ at byte \d+: hash of the chunk's data"):
        list(chain())
    it = iter(chain(skip_damaged=True, max_skipped=RECORDS))
    (batch,) = it
    assert it.stats()["damaged"] == len(lost)
    kept = sorted(n for n, text in zip(batch["id"].tolist(), batch["x"].tolist()) if text)
    assert kept == [n for n in range(RECORDS) if n not in lost]
    defects = harness.verify(path, status=harness.DEFECTS)["defects"]
    assert [(d["kind"], d["record"], d["offset"]) for d in defects] == [
        ("array_record chunk", n // group * group, places[n // group]) for n in (3, 20, 49)]
    out = tmp_path / "out/train@1"
    harness.leave_out("repair", path, out)
    assert sorted(ids(sf.read(out).parse({"id": sf.int64}).batch(9))) == kept


@pytest.mark.folder_only("damages files")
def test_an_index_stands_in_for_a_damaged_footer(tmp_path):
    path = tmp_path / "a.array_record"
    array_record_files.write(path, WRITTEN[:8])
    harness.succeed("index", path)
    content = bytearray(path.read_bytes())
    content[-array_record_files.BLOCK + 70] ^= 1
    path.write_bytes(content)
    assert list(sf.read(path)) == WRITTEN[:8]
    (defect,) = harness.verify(path, status=harness.DEFECTS)["defects"]
    assert "no postscript at byte" in defect["detail"]
    assert defect["detail"].endswith("; the index tells where the chunks are")
    harness.succeed("repair", path, tmp_path / "whole@1")
    assert list(sf.read(tmp_path / "whole@1")) == WRITTEN[:8]
    (tmp_path / ".shardfeed/a.array_record.index").unlink()
    (defect,) = harness.verify(path, status=harness.DEFECTS)["defects"]
    assert defect["detail"].endswith("; all of it is lost")


@pytest.mark.folder_only("damages files")
@pytest.mark.parametrize("group", GROUPS)
def test_a_size_that_only_the_footer_claims_is_damage(tmp_path, group):
    path = tmp_path / "a.array_record"
    content, places = array_record_files.file_bytes(WRITTEN[:RECORDS], group, claims={3: 3 << 30})
    path.write_bytes(content)
    sound = sum(map(len, WRITTEN[3 * group:4 * group]))
    told = f"of {sound} bytes, but the footer, or the index made from it, says {group} of {3 << 30} bytes"
    with pytest.raises(sf.DataLossError) as error:
        list(sf.read(path))
    count = "1 record" if group == 1 else f"{group} records"
    assert str(error.value).startswith(
        f"{path}: record {3 * group} at byte {places[3]}: its chunk has {count} of {sound} bytes, but the index says "
        f"{group} of {3 << 30} bytes; the index is damaged, or the footer that it was made from: rebuild it with "
        "'shardfeed index', and if that does not help, save the other records with 'shardfeed repair'")
    (defect,) = harness.verify(path, status=harness.DEFECTS)["defects"]
    assert (defect["record"], defect["offset"]) == (3 * group, places[3])
    assert told in defect["detail"]
    out = tmp_path / "out/train@1"
    harness.leave_out("repair", path, out)
    kept = [n for n in range(RECORDS) if n // group != 3]
    assert ids(sf.read(out).parse({"id": sf.int64}).batch(9)) == kept


@pytest.mark.folder_only("makes files")
def test_what_cannot_be_read_is_told(tmp_path):
    path = tmp_path / "a.array_record"
    path.write_bytes((TESTDATA / "array_record/transposed.array_record").read_bytes())
    with pytest.raises(ValueError, match="a.array_record: its chunks are transposed, which cannot be read; write it "
                                         "again with transpose:false among the options of ArrayRecordWriter"):
        list(sf.read(path))
    array_record_files.write(path, WRITTEN[:100])
    path.write_bytes(path.read_bytes()[:-2 * array_record_files.BLOCK])
    with pytest.raises(sf.DataLossError, match="a.array_record: no postscript at byte .* the file was cut off, or "
                                               "Riegeli wrote it without ArrayRecord's footer; write it again"):
        list(sf.read(path))


def test_chunks_that_the_footer_lacks_are_damage(tmp_path):
    path = tmp_path / "a.array_record"
    for listed, place in ((slice(1, None), "a.array_record: the footer lacks the chunk of 10 records at byte 64"),
                          (slice(0, 0), "a.array_record: the footer lacks the chunk of 10 records at byte 64"),
                          (slice(None, -1), "the footer lacks the chunk of 10 records at byte"),
                          (slice(None, None, 2), "the footer lacks the chunk of 10 records at byte")):
        array_record_files.write(path, WRITTEN[:40], group=10, listed=listed)
        with pytest.raises(sf.DataLossError, match=place):
            list(sf.read(path))
    array_record_files.write(path, WRITTEN[:40], group=10)
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(sf.DataLossError, match="a.array_record: a chunk of 3 records at byte .* follows the footer; are "
                                               "these several files in one"):
        list(sf.read(path))


@pytest.mark.folder_only("reads files of the reference")
@pytest.mark.parametrize("name", ["uncompressed", "zstd", "brotli", "snappy"])
def test_files_of_every_compression(tmp_path, name):
    path = tmp_path / f"{name}.array_record"
    path.write_bytes((TESTDATA / f"array_record/{name}.array_record").read_bytes())
    records = list(sf.read(path))
    assert records == [bytes((i + j * j) % 251 for j in range(70_000 if i % 10 == 9 else i * 37 % 500))
                       for i in range(25)]
    assert harness.verify(path)["records"] == 25


def test_the_program_on_shards(shards):
    name = spec(shards)
    grouped = (shards / "group").read_text() != "1"
    assert harness.verify(name)["records"] == len(WRITTEN)
    assert harness.verify(name, "--level", "examples")["records"] == len(WRITTEN)
    assert harness.verify(name, "--level", "headers")["records"] == len(WRITTEN)
    found = harness.succeed("inspect", name, "--json").json
    assert sorted(found["features"]) == ["id", "x"]
    assert found["notes"][0] == "ArrayRecord shards, read in place"
    note = "a chunk of the ArrayRecord shards has up to 4 records: for one of them it is read and decoded whole"
    assert [text.startswith(note) for text in found["notes"][1:]] == [True] * grouped
    assert (note.encode() in harness.succeed("plan", name).out) == grouped
    assert "id" in harness.succeed("cat", name, "--records", "0").out.decode()
    assert b"200 records indexed" in harness.succeed("index", name).out
    error = harness.run("index", name, "--export", "dali").err
    assert "x-train.array_record-00000-of-00004.idx: not written: its shard is an ArrayRecord shard" in error


def test_lengths_are_kept(shards):
    sf.index(spec(shards), lengths=["x"])
    total = sf.inspect(spec(shards)).data["lengths"]["x"]["total"]
    assert total == sum(len(x) for batch in sf.read(spec(shards)).parse({"x": sf.bytes}).batch(50)
                        for x in batch["x"].tolist())
    sf.index(spec(shards))
    assert sf.inspect(spec(shards)).data["lengths"]["x"]["total"] == total
    assert harness.verify(spec(shards))["records"] == len(WRITTEN)


@pytest.mark.parametrize("command", ["reshard", "convert", "sample", "merge", "split", "repair"])
def test_writing_commands_write_the_same_records(shards, tmp_path, command):
    out = tmp_path / "out" / ("all-train@4" if command == "split" else f"train@{SHARDS}")
    of = spec(shards)
    words = {"reshard": ["reshard", of, out], "merge": ["merge", of, out],
             "convert": ["convert", "tfrecord", of, out], "repair": ["repair", of, out],
             "sample": ["sample", of, out, "--count", "200"],
             "split": ["split", of, tmp_path / "out" / "all@4", "--shares", "train=1"]}[command]
    harness.succeed(*words)
    assert sorted(sf.read(out)) == sorted(WRITTEN)
    harness.verify(out, "--level", "examples")
    if command != "sample":
        harness.succeed("diff", of, out)


OPTIONS = ["uncompressed", "zstd", "zstd:15", "brotli", "brotli:9,window_log:25", "snappy",
           "uncompressed,pad_to_block_boundary:true", "zstd:3,pad_to_block_boundary:true"]


@pytest.mark.folder_only("another library writes")
@pytest.mark.parametrize("group", [1, 3, 1000])
@pytest.mark.parametrize("options", OPTIONS)
def test_files_of_the_reference_implementation(tmp_path, options, group):
    module = pytest.importorskip("array_record.python.array_record_module", reason="array_record is not installed")
    path = tmp_path / "a.array_record"
    rng = random.Random(options)
    sizes = [0, 1, 65_472, 65_471, 65_470, 131_000, 1 << 20] + [rng.randrange(3000) for _ in range(200)]
    records = [rng.randbytes(size // 2).ljust(size, b"x") for size in sizes]
    rng.shuffle(records)
    writer = module.ArrayRecordWriter(str(path), f"group_size:{group},{options}")
    for record in records:
        writer.write(record)
    writer.close()
    assert list(sf.read(path)) == records
    ds = sf.read(path)
    numbers = [rng.randrange(len(records)) for _ in range(50)]
    assert list(ds[numbers]) == [records[n] for n in numbers]
    assert sorted(sf.read(path).shuffle(seed=1)) == sorted(records)
    assert harness.verify(path)["records"] == len(records)


@pytest.mark.folder_only("another library reads")
def test_the_reference_implementation_reads_files_of_the_tests(tmp_path):
    module = pytest.importorskip("array_record.python.array_record_module", reason="array_record is not installed")
    for group in (1, 7):
        array_record_files.write(tmp_path / "a.array_record", WRITTEN[:60], group)
        reader = module.ArrayRecordReader(str(tmp_path / "a.array_record"))
        assert reader.read_all() == WRITTEN[:60]
