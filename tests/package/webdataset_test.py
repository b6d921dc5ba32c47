"""WebDataset's tar archives, read in place, against Python's tarfile and the rules written plainly."""

import io
import json
import random
import re
import subprocess
import sys
import tarfile
import warnings

import harness
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

HERE_AND_IN_STORE = True

SAMPLES, SHARDS = 50, 4


def plain_samples(path):
    """What WebDataset makes of an archive: consecutive files with one key, by extension in lower case."""
    samples = []
    with tarfile.open(path) as tar:
        for member in tar:
            match = re.fullmatch(r"((?:.*/)?[^/.]+)\.([^/]+)", member.name)
            if not member.isreg() or match is None or re.search(r"(^|/)__[^/]*__\.[^/]*$", member.name):
                continue
            if not samples or samples[-1]["__key__"] != match[1]:
                samples.append({"__key__": match[1]})
            samples[-1][match[2].lower()] = tar.extractfile(member).read()
    return samples


def write_tar(path, members, how="w", form=tarfile.PAX_FORMAT):
    with tarfile.open(path, how, format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))


def png(value):
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    file = io.BytesIO()
    Image.new("RGB", (8, 6), (value, 0, 0)).save(file, "png")
    return file.getvalue()


def members_of(first, rng):
    for n in range(first, first + SAMPLES):
        yield f"s{n:04}.cls", str(n).encode()
        yield f"s{n:04}.bin", rng.randbytes(rng.choice([0, 1, 511, 512, 513, rng.randrange(5000)]))


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tars")
    rng = random.Random(1)
    for shard in range(SHARDS):
        write_tar(folder / f"train-{shard:05}.tar", members_of(shard * SAMPLES, rng))
    return folder


def rows(dataset, columns=("cls",)):
    return [tuple(row) for batch in dataset for row in zip(*(batch[name].tolist() for name in columns))]


def spec(tars):
    return str(tars / f"train-{{00000..{SHARDS - 1:05}}}.tar")


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("how", ["w", "w:gz"])
def test_samples_are_those_of_the_rules(tmp_path, form, how):
    rng = random.Random(form)
    members = [("photos", None)]
    for n in range(300):
        folder = rng.choice(["", "photos/", "a.b/c/", "d" * 90 + "/", "photos/" + "long" * 30 + "/"])
        for extension in rng.sample(["JPG", "cls", "json", "seg.png", "txt"], rng.randint(1, 5)):
            members.append((f"{folder}n{n}.{extension}", rng.randbytes(rng.randrange(3000))))
        if n % 20 == 0:
            members += [("README", b"skipped"), (f"n{n}d", None), ("__meta__.json", b"{}"), (".hidden.x", b"")]
    path = tmp_path / ("a.tar.gz" if how == "w:gz" else "a.tar")
    write_tar(path, members, how, form)
    expected = plain_samples(path)
    assert len(expected) == 300
    names = ["__key__", "jpg", "cls", "json", "seg.png", "txt"]
    dataset = sf.read(path).parse({name: sf.bytes(default=b"-") for name in names}).batch(7)
    found = rows(dataset, names)
    assert found == [tuple([sample["__key__"].encode()] + [sample.get(name, b"-") for name in names[1:]])
                     for sample in expected]


def test_columns_are_found_by_default(tars):
    (batch,) = sf.read(spec(tars)).parse().batch(SAMPLES * SHARDS)
    assert sorted(batch) == ["__key__", "bin", "cls"]
    expected = [s for shard in range(SHARDS) for s in plain_samples(tars / f"train-{shard:05}.tar")]
    for name in ("bin", "cls"):
        assert batch[name].tolist() == [sample[name] for sample in expected]
    assert batch["__key__"].tolist() == [sample["__key__"].encode() for sample in expected]


def test_braces_globs_lists_and_files_are_the_same(tars):
    paths = sorted(tars.glob("train-*.tar"))
    for of in (spec(tars), str(tars / "train-*.tar"), paths, [str(p) for p in paths],
               str(tars / "train-0000{0,1,2,3}.tar")):
        assert len(sf.read(of)) == SAMPLES * SHARDS, of
    assert len(sf.read(paths[0])) == SAMPLES
    with pytest.raises(FileNotFoundError, match="train-00004.tar"):
        len(sf.read(str(tars / "train-{00000..00004}.tar")))  # in a store, when it is opened
    with pytest.raises(ValueError, match="more than 1000000 names"):
        sf.read(str(tars / "train-{0..9999999}.tar"))


@pytest.mark.folder_only("engines")
@pytest.mark.parametrize("engine", ["uring", "threads", "mmap"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("window", [0, 8, None])
def test_each_sample_once_in_every_world_and_order(tars, engine, world, window):
    try:
        parts = [rows(sf.read(spec(tars), end="pad", io=engine).shuffle(seed=3, window=window).shard(rank, world)
                      .parse({"cls": sf.bytes()}).batch(8)) for rank in range(world)]
    except OSError as error:
        if engine == "uring" and "io_uring" in str(error):
            pytest.skip(f"no io_uring here: {error}")
        raise
    numbers = [int(cls) for part in parts for (cls,) in part]
    padded = len(numbers) - SAMPLES * SHARDS
    assert 0 <= padded < world
    assert set(numbers) == set(range(SAMPLES * SHARDS))
    if window is None or window > 1:
        assert numbers != sorted(numbers)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_run_goes_on_in_the_middle_in_any_world(tars, world):
    def run(rank, of):
        return iter(sf.read(spec(tars)).shuffle(seed=5).shard(rank, of).parse({"cls": sf.bytes()}).batch(12 // of))
    first = [run(rank, 2) for rank in range(2)]
    done = [int(cls) for _ in range(6) for it in first for cls in next(it)["cls"].tolist()]
    state = json.loads(json.dumps(first[0].state_dict()))
    others = [run(rank, world) for rank in range(world)]
    for it in others:
        it.load_state_dict(state)
    left = [int(cls) for it in others for batch in it for cls in batch["cls"].tolist()]
    assert len(set(done + left)) == len(done + left)
    assert len(left) == (SAMPLES * SHARDS - len(done)) // world * world


def test_images_are_decoded_by_extension(tmp_path):
    write_tar(tmp_path / "a.tar", [(f"n{n}.{x}", png(n) if x == "png" else b"7") for n in range(10)
                                   for x in ("png", "cls")])
    dataset = (sf.read(tmp_path / "a.tar").parse({"png": sf.bytes(), "cls": sf.bytes()})
               .decode_image("png", size=(6, 8)).batch(10))
    (batch,) = dataset
    assert batch["png"].shape == (10, 6, 8, 3)
    assert batch["png"][:, 0, 0, 0].tolist() == list(range(10))


@pytest.fixture
def damaged(tars, tmp_path):
    """An indexed archive, of which the headers of samples 3, 4 and 49 are damaged afterwards."""
    path = tmp_path / "a.tar"
    path.write_bytes((tars / "train-00000.tar").read_bytes())
    sf.index(path)
    with tarfile.open(path) as tar:
        offsets = {member.name: member.offset for member in tar}
    content = bytearray(path.read_bytes())
    for name in ("s0003.cls", "s0004.bin", "s0049.cls"):
        content[offsets[name]] ^= 1
    path.write_bytes(content)
    return path


def test_damage_is_an_error_or_skipped_and_counted(damaged):
    def chain(**options):
        return sf.read(damaged, **options).shuffle(seed=1).parse({"cls": sf.bytes()}).batch(SAMPLES)
    with pytest.raises(sf.DataLossError, match=r"a\.tar: record \d+ at byte \d+: a damaged header, whose checksum"):
        list(chain())
    it = iter(chain(skip_damaged=True))
    (batch,) = it
    assert it.stats()["damaged"] == 3
    kept = sorted(int(cls) for cls in batch["cls"].tolist() if cls)
    assert kept == [n for n in range(SAMPLES) if n not in (3, 4, 49)]


def test_the_program_on_archives(tars):
    name = spec(tars)
    assert harness.verify(name)["records"] == SAMPLES * SHARDS
    found = harness.succeed("inspect", name, "--json").json
    assert sorted(found["features"]) == ["__key__", "bin", "cls"]
    assert "tar archives in WebDataset's layout" in found["notes"][0]
    assert "s0000" in harness.succeed("cat", name, "--records", "0").out.decode()
    assert b"200 records indexed" in harness.succeed("index", name).out


def test_writing_commands_write_examples(tars, tmp_path):
    expected = [s for shard in range(SHARDS) for s in plain_samples(tars / f"train-{shard:05}.tar")]
    out = tmp_path / "out" / "train@3"
    harness.succeed("reshard", spec(tars), out)
    (batch,) = sf.read(out).parse().batch(len(expected))
    assert batch["bin"].tolist() == [sample["bin"] for sample in expected]
    harness.verify(out, "--level", "examples")


def test_damage_is_told_by_the_program(damaged):
    defects = harness.verify(damaged, status=harness.DEFECTS)["defects"]
    assert [(d["kind"], d["record"]) for d in defects] == [("tar sample", 3), ("tar sample", 4), ("tar sample", 49)]
    assert "a damaged header, whose checksum is wrong, at byte" in harness.run("index", damaged).err


def test_what_is_skipped_or_repeated_is_told(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, [("README", b""), ("a.x", b"1"), ("b.x", b"2"), ("a.y", b"3")])
    for command in ("index", "verify"):
        notes = harness.succeed(command, path, "--json").json["notes"]
        assert "skipped 1 member with hidden names or without an ending" in notes[0]
        assert '1 sample has the key of an earlier one, the first is "a"' in notes[1]


def test_reading_warns_once_of_what_an_index_that_it_builds_skips(tmp_path):
    for name in "ab":
        write_tar(tmp_path / f"{name}.tar", [("README", b""), (f"{name}.x", b"1"), (".hidden.x", b""), ("c.x", b"2")])
    words = [f"{tmp_path}/{name}.tar: skipped 2 members with hidden names or without an ending" for name in "ab"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        chain = sf.read(str(tmp_path / "{a,b}.tar")).parse({"x": sf.bytes})
        assert len(list(chain)) == len(list(chain)) == len(chain) == 4
    (warning,) = told
    assert warning.category is UserWarning
    found = str(warning.message).split("\n")
    assert len(found) == 2 and all(line.endswith(word) for line, word in zip(found, words))


def test_a_warning_does_not_fill_the_screen(tmp_path):
    for number in range(22):
        write_tar(tmp_path / f"{number:02}.tar", [("README", b""), (f"{number}.x", b"1")])
    with pytest.warns(UserWarning, match="(?s)/00.tar: skipped 1 member .*/19.tar: skipped 1 member .*\n2 more notes; "
                                         r"sf.verify\(...\).notes has all$"):
        assert len(sf.read(str(tmp_path / "{00..21}.tar"))) == 22


@pytest.mark.folder_only("indexes of stores are built again by each run")
def test_an_index_that_exists_is_no_reason_to_warn(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, [("README", b""), ("a.x", b"1")])
    sf.index(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sf.read(path)) == len(list(sf.read(path))) == 1


def test_links_are_refused(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("a.jpg")
        info.type, info.linkname = tarfile.SYMTYPE, "b.jpg"
        tar.addfile(info)
    with pytest.raises(sf.DataLossError, match='"a.jpg" is a link to "b.jpg", which is not followed; archive the'):
        list(sf.read(path).batch(1))


def test_samples_that_were_appended_after_indexing_are_read(tmp_path):
    """Archives are filled up with zeros, so their size may stay the same."""
    for i in range(3):
        (tmp_path / f"s{i}.txt").write_text(str(i))
    subprocess.run(["tar", "cf", "a.tar", "s0.txt", "s1.txt"], cwd=tmp_path, check=True)
    sf.index(tmp_path / "a.tar")
    size = (tmp_path / "a.tar").stat().st_size
    assert len(sf.read(tmp_path / "a.tar")) == 2
    subprocess.run(["tar", "rf", "a.tar", "s2.txt"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.tar").stat().st_size == size
    rows = list(sf.read(tmp_path / "a.tar").parse({"txt": sf.bytes}))
    assert [row["txt"] for row in rows] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("from_member, kept, lost", [("s06.cls", 6, 4), ("s07.bin", 7, 3), ("s00.bin", 0, 10)])
def test_zeros_over_the_rest_lose_what_the_index_lists(tmp_path, from_member, kept, lost):
    """As an unfinished download into a file that was allocated before."""
    path = tmp_path / "x.tar"
    write_tar(path, [(f"s{n:02}.{kind}", b"%d" % n * 300) for n in range(10) for kind in ("bin", "cls")])
    assert harness.run("index", path).status == 0
    with tarfile.open(path) as tar:
        begin = tar.getmember(from_member).offset
    path.write_bytes(path.read_bytes()[:begin].ljust(path.stat().st_size, b"\0"))
    verified = harness.run("verify", path)
    assert verified.status == 1
    assert "zeros instead of a header at byte" in verified.err + verified.out.decode()
    assert "shardfeed index" not in verified.err + verified.out.decode()
    repaired = harness.run("repair", path, tmp_path / "out@1")
    assert repaired.status == 1 and f"{lost} lost" in repaired.err + repaired.out.decode()
    features = {"__key__": sf.bytes, "cls": sf.bytes}
    if kept:
        assert [key for key, in rows(sf.read(tmp_path / "out@1").parse(features).batch(4), ("__key__",))] == [
            b"s%02d" % n for n in range(kept)]
    with pytest.raises(sf.DataLossError):
        rows(sf.read(path).parse(features).batch(4))


@pytest.mark.parametrize("options", [["--label=photos"], ["--format=gnu", "--listed-incremental=snapshot"]])
def test_labels_and_folders_of_gnu_tar_are_no_samples(tmp_path, options):
    (tmp_path / "in").mkdir()
    for n in range(3):
        (tmp_path / f"in/s{n}.cls").write_bytes(b"%d" % n)
    subprocess.run(["tar", *options, "-cf", tmp_path / "x.tar", "in"], cwd=tmp_path, check=True)
    found = rows(sf.read(tmp_path / "x.tar").parse({"__key__": sf.bytes, "cls": sf.bytes}).batch(2), ("__key__", "cls"))
    assert sorted(found) == [(b"in/s%d" % n, b"%d" % n) for n in range(3)]
    assert harness.run("verify", tmp_path / "x.tar").status == 0


def test_many_braces_are_an_error():
    for depth in (101, 5000):
        with pytest.raises(ValueError, match="more than 100 pairs of braces"):
            sf.read("a-" + "{a," * depth + "}" * depth + ".tar")
