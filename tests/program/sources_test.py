"""Every kind of raw data, written by its own tools and read back by them."""

import csv
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile

import harness
import pytest
from harness import DEFECTS, IO_FAILED, TESTDATA, USAGE, convert, fail, payloads

IMAGES = TESTDATA / "images"


def numbers(rows):
    return [{name: value[0] if len(value) == 1 else value for name, value in row.items()}
            for row in rows]


def values(dataset):
    """Records with single values in place of lists of one."""
    return numbers(payloads(dataset))


@pytest.fixture(scope="session")
def np():
    return pytest.importorskip("numpy", reason="NumPy is not installed")


@pytest.fixture(scope="session")
def digits(np):
    """Images like MNIST's, real ones if scikit-learn is installed."""
    try:
        from sklearn.datasets import load_digits
        data = load_digits()
        return (data.images * 15).astype("u1"), data.target.astype("u1")
    except ImportError:
        rng = np.random.default_rng(1)
        return rng.integers(0, 256, (1797, 8, 8), "u1"), rng.integers(0, 10, 1797, "u1")


@pytest.fixture
def flat(tmp_path):
    """A folder of images, each with a number, a text and a JSON file beside it."""
    folder = tmp_path / "flat"
    folder.mkdir()
    for n, path in enumerate(sorted(p for p in IMAGES.rglob("*") if p.is_file())):
        shutil.copy(path, folder / f"{n:03}{path.suffix.lower()}")
        (folder / f"{n:03}.cls").write_text(f"{n % 4}\n")
        (folder / f"{n:03}.json").write_text(json.dumps({"n": n, "box": {"x": n / 2}}))
    return folder


# ---- tables and text


def test_tsv_is_what_csv_is(out, tmp_path):
    table = TESTDATA / "tables/cities.csv"
    rows = list(csv.reader(open(table, newline="")))
    with open(tmp_path / "cities.tsv", "w", newline="") as file:
        csv.writer(file, dialect="excel-tab").writerows(rows)
    convert("csv", table, out / "a@2")
    convert("tsv", tmp_path / "cities.tsv", out / "b@2")
    assert payloads(out / "a@2") == payloads(out / "b@2")


def test_tsv_without_quotes(out, tmp_path):
    (tmp_path / "t.tsv").write_text('a\tb\n"no quote\t1\n5" disk"\t2\n')
    message = fail(DEFECTS, "convert", "tsv", tmp_path / "t.tsv", out / "x@1", "-q")
    assert f"{tmp_path}/t.tsv:3: " in message and message.endswith("; pass --no-quotes to treat quotes as ordinary characters")
    (tmp_path / "u.tsv").write_text('a\tb\n"no quote\t1\nx\t2\n')
    message = fail(DEFECTS, "convert", "tsv", tmp_path / "u.tsv", out / "x@1", "-q")
    assert f"{tmp_path}/u.tsv:2: the quote that opens here" in message and "pass --no-quotes to treat" in message
    convert("tsv", tmp_path / "t.tsv", out / "x@1", "--no-quotes")
    assert values(out / "x@1") == [{"a": '"no quote', "b": 1}, {"a": '5" disk"', "b": 2}]


def test_csv_without_header_and_with_another_delimiter(out, tmp_path):
    (tmp_path / "iris.data").write_text("5.1;3;setosa\n4.9;2;virginica\n")
    convert("csv", tmp_path / "iris.data", out / "x@1", "--delimiter", ";", "--names", "a,b,kind")
    assert values(out / "x@1") == [{"a": 5.1, "b": 3, "kind": "setosa"},
                                   {"a": 4.9, "b": 2, "kind": "virginica"}]
    message = fail(DEFECTS, "convert", "csv", tmp_path / "iris.data", out / "y@1", "-q",
                   "--delimiter", ";", "--names", "a,b")
    assert "iris.data:1: expected 2 cells as in the given names, got 3" in message


def test_json_array_is_what_lines_are(out, tmp_path):
    lines = TESTDATA / "tables/events.jsonl"
    rows = [json.loads(line) for line in open(lines) if line.strip()]
    (tmp_path / "events.json").write_text(json.dumps(rows, indent=2))
    convert("jsonl", lines, out / "a@2")
    convert("json", tmp_path / "events.json", out / "b@2")
    assert payloads(out / "a@2") == payloads(out / "b@2")


def test_utf16_is_told_as_such(out, tmp_path):
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "t.txt").write_bytes("a,b\r\n1,2\r\n".encode(encoding))
        message = fail(DEFECTS, "convert", "text", tmp_path / "t.txt", out / "x@1", "-q")
        name = encoding.replace("-le", "le").replace("-be", "be")
        assert f"t.txt: looks like {name.upper()}; convert it to UTF-8 (iconv -f {name.upper()} -t UTF-8)" in message
        if encoding == "utf-16":
            continue  # its byte order mark tells tables
        message = fail(DEFECTS, "convert", "csv", tmp_path / "t.txt", out / "x@1", "-q")
        assert message.endswith(f"t.txt: looks like {name.upper()}; pass --encoding {name} to read it as such")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "text", "tar"])
def test_standard_input(kind, out, tmp_path, flat):
    source = {"csv": TESTDATA / "tables/cities.csv", "tsv": TESTDATA / "tables/cities.csv",
              "jsonl": TESTDATA / "tables/events.jsonl", "json": tmp_path / "x.json",
              "text": TESTDATA / "tables/poem.txt", "tar": tmp_path / "x.tar"}[kind]
    (tmp_path / "x.json").write_text('[{"a": 1}, {"a": 2}]')
    subprocess.run(["tar", "cf", tmp_path / "x.tar", "--sort=name", "-C", flat, "."], check=True)
    options = ["--names", "all", "--no-quotes"] if kind == "tsv" else []
    convert(kind, source, out / "a@2", *options)
    for name in ("pipe", "file"):
        with open(source, "rb") as file:
            given = {"input": file.read()} if name == "pipe" else {"stdin": file}
            file.seek(0)
            done = subprocess.run(
                harness.command("convert", kind, "-", out / f"{name}@2", "-q", *options),
                capture_output=True, **given)
        assert done.returncode == 0, done.stderr
        assert payloads(out / f"{name}@2") == payloads(out / "a@2")
    assert [path.name for path in out.iterdir() if "input" in path.name] == []


def test_standard_input_is_named_in_messages_and_notes(out):
    def run(*arguments, given):
        return subprocess.run(harness.command("convert", *arguments), input=given,
                              capture_output=True)
    done = run("csv", "-", out / "x@1", "-q", given=b"a,b\n1\n")
    assert done.stderr == b"shardfeed: standard input:2: expected 2 cells as in the header, got 1\n"
    assert done.returncode == DEFECTS
    done = run("csv", "-", out / "x@1", given=b"a\n1\n2\nx\n")
    assert b"because of 1 value, \"x\" at standard input:4" in done.stdout
    manifest = json.loads((out / ".shardfeed/x.manifest.json").read_text())
    assert "standard input:4" in manifest["notes"][1] and manifest["made_by"]["source"] == "-"
    done = run("images", "-", out / "y@1", given=b"")
    assert done.stderr == b"shardfeed: images cannot be read from standard input: name files\n"
    done = run("csv", "-", "-", out / "y@1", given=b"a\n1\n")
    assert done.stderr == b"shardfeed: standard input (-) appears twice\n"


def test_globs_are_expanded(out, tmp_path):
    for name in ("b1.txt", "a.txt", "b2.txt", "[x].txt"):
        (tmp_path / name).write_text(name + "\n")
    convert("text", [tmp_path / "b?.txt", tmp_path / "[x].txt", tmp_path / "a*"], out / "x@1")
    assert [row["text"] for row in values(out / "x@1")] == ["b1.txt", "b2.txt", "[x].txt", "a.txt"]
    message = fail(IO_FAILED, "convert", "text", tmp_path / "c*", out / "y@1")
    assert message == f"{tmp_path}/c*: no file matches"


def test_braces_are_expanded(out, tmp_path):
    for number in range(4):
        with tarfile.open(tmp_path / f"a-{number:03}.tar", "w") as archive:
            member = tarfile.TarInfo(f"s{number}.cls")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"%d" % number))
    convert("tar", tmp_path / "a-{000..003}.tar", out / "x@4")
    assert [row["cls"] for row in values(out / "x@4")] == [0, 1, 2, 3]
    (tmp_path / "a-{0,1}.txt").write_text("literally\n")
    (tmp_path / "b1.txt").write_text("b1\n")
    convert("text", tmp_path / "a-{0,1}.txt", tmp_path / "{b1,b?}.txt", out / "y@1")
    assert [row["text"] for row in values(out / "y@1")] == ["literally", "b1", "b1"]
    message = fail(IO_FAILED, "convert", "tar", tmp_path / "a-{002..004}.tar", out / "z@1")
    assert message.startswith(f"{tmp_path}/a-004.tar: ")
    message = fail(USAGE, "convert", "tar", tmp_path / "a-{0..1000000}.tar", out / "z@1")
    assert "{0..1000000}: stands for more than 1000000 names" in message


# ---- images and files


def test_images_with_labels(out, tmp_path, flat):
    with open(tmp_path / "labels.csv", "w") as file:
        file.write("id,breed\n")
        for path in flat.glob("*.cls"):
            file.write(f"{path.stem},{'abcd'[int(path.read_text())]}\n")
    (tmp_path / "map.json").write_text('{"d": 0, "c": 1, "b": 2, "a": 3}')
    convert("images", flat, out / "x@2", "--label-file", tmp_path / "labels.csv")
    convert("images", flat, out / "y@2", "--label-file", tmp_path / "labels.csv", "--class-map",
            tmp_path / "map.json")
    rows = values(out / "x@2")
    assert [row["image/class/label"] for row in rows] == [n % 4 for n in range(24)]
    assert [row["image/class/text"] for row in rows] == ["abcd"[n % 4] for n in range(24)]
    assert [row["image/class/label"] for row in values(out / "y@2")] == [3 - n % 4
                                                                         for n in range(24)]


def test_class_map_numbers_the_folders(out, tmp_path):
    names = sorted(path.name for path in IMAGES.iterdir())
    (tmp_path / "map").write_text("\n".join(reversed(names)) + "\n")
    convert("imagefolder", IMAGES, out / "x@1", "--class-map", tmp_path / "map")
    for row in values(out / "x@1"):
        assert row["image/class/label"] == len(names) - 1 - names.index(row["image/class/text"])
    (tmp_path / "map").write_text(names[0] + "\n")
    message = fail(DEFECTS, "convert", "imagefolder", IMAGES, out / "y@1", "--class-map",
                   tmp_path / "map")
    assert message == (f"{IMAGES}/{names[1]}: this class is not in {tmp_path}/map; add it there, or "
                       "leave it out")


def test_captions(out, flat):
    (flat / "000.txt").write_text("A circle.\n")
    report = harness.succeed("convert", "captions", flat, out / "x@2", "--json").json
    assert "skipped 24 files that are neither images nor their texts" in report["notes"][0]
    rows = values(out / "x@2")
    assert rows[0]["text"] == "A circle." and "text" not in rows[1]
    assert [row["n"] for row in rows] == list(range(24))
    assert [row["box.x"] for row in rows] == [n / 2 for n in range(24)]


def test_files(out, flat, tf):
    convert("files", flat, out / "x@2")
    records = harness.read_by_tensorflow(tf, harness.shards(out, "x"))
    found = {}
    for record in records:
        features = harness.decoded(tf, record)
        found[features["name"][0].decode()] = features["bytes"][0]
    assert found == harness.tree(flat)


# ---- tar


def tar_by_tar(flat, path, *options):
    subprocess.run(["tar", "cf", path, "--sort=name", *options, "-C", flat.parent, flat.name],
                   check=True)


def tar_by_python(flat, path, mode="w", format=tarfile.PAX_FORMAT):
    with tarfile.open(path, mode, format=format) as tar:
        tar.add(flat, "flat", filter=lambda member: member)


TARS = {
    "gnu": lambda flat, path: tar_by_tar(flat, path),
    "pax": lambda flat, path: tar_by_tar(flat, path, "--format=pax"),
    "v7": lambda flat, path: tar_by_tar(flat, path, "--format=v7"),
    "oldgnu": lambda flat, path: tar_by_tar(flat, path, "--format=oldgnu"),
    "gzip": lambda flat, path: tar_by_tar(flat, path, "--gzip"),
    "python pax": lambda flat, path: tar_by_python(flat, path),
    "python ustar": lambda flat, path: tar_by_python(flat, path, format=tarfile.USTAR_FORMAT),
    "python gnu": lambda flat, path: tar_by_python(flat, path, format=tarfile.GNU_FORMAT),
    "python gzip": lambda flat, path: tar_by_python(flat, path, "w:gz"),
}


@pytest.mark.parametrize("how", TARS)
@pytest.mark.parametrize("deep", [False, True], ids=["short", "long names"])
def test_tar(how, deep, out, tmp_path, flat, tf):
    if deep:
        if how == "v7":
            pytest.skip("v7 has no long names")
        prefix = "x" * (80 if "ustar" in how else 120)
        for path in list(flat.iterdir()):
            path.rename(flat / f"{prefix}{path.name}")
        if "ustar" in how:
            (flat / ("y" * 90)).mkdir()
            for path in list(flat.iterdir()):
                if path.is_file():
                    path.rename(flat / ("y" * 90) / path.name)
    TARS[how](flat, tmp_path / "x.tar")
    convert("tar", tmp_path / "x.tar", out / "x@3")
    records = harness.read_by_tensorflow(tf, harness.shards(out, "x"))
    assert len(records) == 24
    keys = set()
    for record in records:
        features = harness.decoded(tf, record)
        key = features.pop("__key__")[0].decode()
        keys.add(key)
        assert features.pop("cls")[0] == int((flat.parent / (key + ".cls")).read_text())
        assert len(features) == 2
        for ending, content in features.items():
            assert content[0] == (flat.parent / f"{key}.{ending}").read_bytes()
    assert len(keys) == 24


def test_several_tars_shuffled(out, tmp_path, flat):
    for n, name in enumerate(("a.tar", "b.tar.gz")):
        tar_by_tar(flat, tmp_path / name, *(["--gzip"] if n else []))
    convert("tar", tmp_path / "?.tar*", out / "x@3", "--shuffle", "1", "--parse-json")
    rows = values(out / "x@3")
    assert sorted(row["json.n"] for row in rows) == sorted(2 * list(range(24)))
    assert [row["json.n"] for row in rows] != 2 * list(range(24))
    assert all(row["cls"] == row["json.n"] % 4 for row in rows)


def test_cut_and_unsorted_tars_and_links(out, tmp_path, flat):
    tar_by_tar(flat, tmp_path / "x.tar")
    whole = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:50_000])
    message = fail(DEFECTS, "convert", "tar", tmp_path / "cut.tar", out / "x@1", "-q")
    assert "cut.tar: the archive is cut off: it ends " in message and "at byte 50000" in message
    subprocess.run(["tar", "cf", tmp_path / "u.tar", "-C", flat, "001.cls", "002.cls", "001.json"],
                   check=True)
    message = fail(DEFECTS, "convert", "tar", tmp_path / "u.tar", out / "x@1", "-q")
    assert '"001.json" at byte 2048 is not next to the other files' in message
    os.link(flat / "001.json", flat / "002.link.json")
    tar_by_tar(flat, tmp_path / "l.tar")
    message = fail(DEFECTS, "convert", "tar", tmp_path / "l.tar", out / "x@1", "-q")
    assert "is a link to" in message
    assert not out.exists() or harness.tree(out) == {}


# ---- arrays


def idx(array):
    types = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12}
    return (struct.pack(">HBB", 0, types[array.dtype.name], array.ndim) +
            struct.pack(f">{array.ndim}I", *array.shape) +
            array.astype(array.dtype.newbyteorder(">")).tobytes())


def test_idx(out, tmp_path, digits, tf, np):
    images, labels = digits
    for name, part in (("train", slice(0, 1500)), ("t10k", slice(1500, None))):
        pack = gzip.compress if name == "t10k" else bytes
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(pack(idx(images[part])))
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(pack(idx(labels[part])))
    convert("idx", [tmp_path / "t*images*", tmp_path / "t*labels*"], out / "x@3")
    records = [harness.decoded(tf, record)
               for record in harness.read_by_tensorflow(tf, harness.shards(out, "x"))]
    order = list(range(1500, len(labels))) + list(range(1500))
    assert [r["image/class/label"][0] for r in records] == [labels[i] for i in order]
    for r, i in zip(records, order):
        shape = (r["image/height"][0], r["image/width"][0])
        assert (np.frombuffer(r["image/raw"][0], "u1").reshape(shape) == images[i]).all()


def test_cifar(out, tmp_path, tf, np):
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (20, 3, 32, 32), "u1")
    labels = rng.integers(0, 10, 20, "u1")
    for n in range(2):
        part = slice(10 * n, 10 * n + 10)
        (tmp_path / f"data_batch_{n}.bin").write_bytes(
            b"".join(bytes([label]) + image.tobytes()
                     for image, label in zip(images[part], labels[part])))
    (tmp_path / "batches.meta.txt").write_text("".join(f"class {n}\n" for n in range(10)) + "\n")
    convert("cifar", tmp_path / "data_batch_*.bin", out / "x@2", "--class-map",
            tmp_path / "batches.meta.txt")
    records = harness.read_by_tensorflow(tf, harness.shards(out, "x"))
    for record, image, label in zip(records, images, labels, strict=True):
        r = harness.decoded(tf, record)
        pixels = np.frombuffer(r["image/raw"][0], "u1").reshape(32, 32, 3)
        assert (pixels == image.transpose(1, 2, 0)).all()
        assert r["image/class/label"] == [label]
        assert r["image/class/text"] == [b"class %d" % label]


def test_npy(out, tmp_path, digits, tf, np):
    images, labels = digits
    rng = np.random.default_rng(1)
    n = len(labels)
    arrays = {
        "images": images,
        "flag": labels > 4,
        "text": np.array([f"Zahl \u00e4\U0001f600{label}" for label in labels]),
        "name": np.array([b"x" * (label % 4) for label in labels]),
        "half": rng.normal(size=(n, 3)).astype("f2"),
        "single": rng.normal(size=(n, 2, 2)).astype("f4"),
        "double": rng.normal(size=n),
    }
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4"):
        limits = np.iinfo(kind)
        arrays[kind] = rng.integers(limits.min, limits.max, (n, 4), kind, endpoint=True)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    convert("npy", [tmp_path / f"{name}.npy" for name in arrays], out / "x@3")
    records = harness.read_by_tensorflow(tf, harness.shards(out, "x"))
    assert len(records) == n
    for i, record in enumerate(records):
        r = harness.decoded(tf, record)
        assert r.keys() == arrays.keys()
        assert r.pop("images") == [images[i].tobytes()]
        assert r.pop("text")[0].decode() == arrays["text"][i]
        for name, found in r.items():
            expected = np.asarray(arrays[name][i]).ravel()
            if expected.dtype.kind == "f":
                expected = expected.astype("f4")
            assert found == expected.tolist(), name


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(out, tmp_path, version, np):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(5), version=version)
    convert("npy", tmp_path / "x.npy", out / "x@1")
    assert [row["x"] for row in values(out / "x@1")] == list(range(5))


def test_npy_that_is_not_read_is_told(out, tmp_path, np):
    for array, said in [
            (np.asfortranarray(np.zeros((3, 4))), "in Fortran order (columns first)"),
            (np.zeros(3, ">f4"), "big-endian; save it with"),
            (np.zeros(3, "c8"), "expected booleans, integers, floats up to 64 bits"),
            (np.zeros(3, [("a", "f4")]), "expected booleans, integers"),
            (np.array([None]), "only Python can read Python objects"),
            (np.zeros(()), "a single value, not an array"),
            (np.zeros(3, "M8[s]"), "expected booleans, integers")]:
        np.save(tmp_path / "x.npy", array, allow_pickle=True)
        message = fail(DEFECTS, "convert", "npy", tmp_path / "x.npy", out / "x@1", "-q")
        assert message.startswith(f"{tmp_path}/x.npy: ") and said in message
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    message = fail(DEFECTS, "convert", "npy", tmp_path / "x.npz", out / "x@1", "-q")
    assert "an .npz file is an archive of .npy files: unpack it (unzip)" in message


# ---- tfrecord


@pytest.fixture(scope="session")
def others(tf, tmp_path_factory):
    """Two shards of 1,000 records each, raw and GZIP, written by TensorFlow."""
    folder = tmp_path_factory.mktemp("others")
    records = [harness.example(tf, number=[i], text=[b"x" * (i % 97)]) for i in range(2000)]
    for kind in ("none", "GZIP"):
        (folder / kind).mkdir()
        for shard in range(2):
            harness.write_by_tensorflow(tf, folder / kind / f"train-{shard:05}-of-00002",
                                        records[1000 * shard:1000 * shard + 1000],
                                        kind.replace("none", ""))
    return records, folder


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_records_of_others_stay_as_they_are(others, out, tf, compression):
    records, folder = others
    for kind in ("none", "GZIP"):
        convert("tfrecord", folder / kind / "train@2", out / f"{kind}@5", "--compression",
                compression)
        assert harness.read_by_tensorflow(
            tf, harness.shards(out, kind), {"none": ""}.get(compression, compression.upper())
        ) == records


def test_records_are_shuffled_as_rows_are(others, out, tf):
    records, folder = others
    orders = []
    for kind in ("none", "GZIP"):
        convert("tfrecord", folder / kind / "train@2", out / f"{kind}@5", "--shuffle", "3")
        orders.append(harness.read_by_tensorflow(tf, harness.shards(out, kind)))
    assert orders[0] == orders[1] != records
    assert sorted(orders[0]) == sorted(records)


def test_damaged_records_are_located(copy_of, out):
    path = copy_of("bad/flipped_payload.tfrecord")
    message = fail(DEFECTS, "convert", "tfrecord", path, out / "x@1", "-q")
    assert message.startswith(f"{path}: record ") and "payload CRC" in message
    message = fail(IO_FAILED, "convert", "tfrecord", path.parent / "none@3", out / "x@1", "-q")
    assert "none@3" in message


# ---- broken records are skipped, columns and kinds are chosen


def manifest(out, stem):
    return json.loads((out / f".shardfeed/{stem}.manifest.json").read_text())


@pytest.mark.parametrize("shuffle", [[], ["--shuffle", "1"]], ids=["order", "shuffled"])
def test_skipped_images_are_counted_and_listed(out, tmp_path, shuffle):
    shutil.copytree(IMAGES, tmp_path / "in")
    broken = [tmp_path / "in/stripes" / name for name in ("bad.png", "empty.jpg")]
    broken[0].write_text("no image")
    broken[1].write_bytes(b"")
    trees = []
    for jobs in (1, 3):
        result = harness.leave_out("convert", "imagefolder", tmp_path / "in", out / "x@3",
                                   "--on-error", "skip", "--json", "-j", jobs, "--overwrite",
                                   *shuffle).json
        assert (result["records"], result["skipped"]) == (24, 2)
        trees.append(harness.tree(out))
    assert trees[0] == trees[1]
    skipped = manifest(out, "x")["skipped"]
    assert skipped["records"] == 2
    assert sorted(text.split(":")[0] for text in skipped["first"]) == [str(p) for p in broken]
    assert harness.verify(out / "x@3")["records"] == 24
    done = harness.leave_out("convert", "imagefolder", tmp_path / "in", out / "y@3", "--on-error",
                             "skip")
    assert b"note: 2 broken records were left out; the manifest lists them, the first is " in done.out


def test_skipped_rows(out, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n" + "x,y,z\n" * 200 + "4,5\n")
    harness.leave_out("convert", "csv", tmp_path / "t.csv", out / "x@1", "--on-error", "skip",
                      "--max-skipped", "100%")
    assert values(out / "x@1") == [{"a": 1, "b": 2}, {"a": 4, "b": 5}]
    skipped = manifest(out, "x")["skipped"]
    assert skipped["records"] == 201 and len(skipped["first"]) == 100
    assert skipped["first"][0] == f"{tmp_path}/t.csv:3: expected 2 cells as in the header, got 1"
    (tmp_path / "t.csv").write_text("a,b\n1\n")
    message = fail(DEFECTS, "convert", "csv", tmp_path / "t.csv", out / "y@1", "--on-error", "skip")
    assert "no records" in message
    assert harness.run("convert", "csv", tmp_path / "t.csv", out / "y@1", "--on-error",
                       "pass").status == USAGE


@pytest.mark.parametrize("kind", ["csv", "tfrecord", "images"])
def test_more_broken_records_than_may_be_left_out(out, tmp_path, kind):
    """Rows are found while scanning, images while their records are built."""
    if kind == "csv":
        source = tmp_path / "t.csv"
        source.write_text("a,b\n" + "1,2\n" * 2000 + "3\n" * 21)
    elif kind == "tfrecord":
        source = tmp_path / "t.tfrecord"
        frames = [bytearray(harness.frame(b"%04d" % n)) for n in range(2021)]
        for n in range(0, 2100, 100):
            frames[n][harness.HEADER] ^= 1
        source.write_bytes(b"".join(frames))
    else:
        source = tmp_path / "in"
        source.mkdir()
        image = next(IMAGES.rglob("*.jpg")).read_bytes()
        for n in range(30):
            (source / f"{n:03}.jpg").write_bytes(image if n >= 11 else b"no image")
    def run(*options):
        return harness.run("convert", kind, source, out / "x@2", "--on-error", "skip", "-q", *options)

    result = run()
    assert result.status == DEFECTS, result.err
    assert "records are broken, and no more than " in result.err
    assert "may be left out; the first is " in result.err
    assert "; pass --max-skipped N to leave out more" in result.err
    assert harness.tree(out) == {}
    for few in ("10", "0"):
        result = run("--max-skipped", few)
        assert result.status == DEFECTS and "may be left out" in result.err
    for enough in (["50%"], ["21", "--overwrite"]):
        result = run("--max-skipped", *enough)
        assert result.status == DEFECTS and not result.err
        assert harness.verify(out / "x@2")["records"] > 0


def test_a_ceiling_that_is_none(out, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    for text in ("x", "-1", "101%", "%", "1e400"):
        message = fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "x@1", "--on-error", "skip",
                       f"--max-skipped={text}")
        assert message == f"--max-skipped {text}: expected a number of records or a share such as 5%"
    message = fail(USAGE, "convert", "csv", tmp_path / "t.csv", out / "x@1", "--max-skipped", "5")
    assert message == "--max-skipped: nothing is skipped without --on-error skip"


def test_columns_and_schema(out, tmp_path):
    (tmp_path / "train.csv").write_text("zip,age,name\n01234,30,x\n")
    (tmp_path / "test.csv").write_text("zip,age,name\n1,30.5,7\n")
    (tmp_path / "schema.json").write_text('{"zip": "bytes", "age": "float"}')
    convert("csv", tmp_path / "train.csv", out / "train@1", "--columns", "zip,age", "--schema",
            tmp_path / "schema.json")
    convert("csv", tmp_path / "test.csv", out / "test@1", "--schema",
            out / ".shardfeed/train.manifest.json", "--columns", "zip,age")
    assert values(out / "train@1") == [{"zip": "01234", "age": 30.0}]
    assert values(out / "test@1") == [{"zip": "1", "age": 30.5}]
    assert manifest(out, "train")["features"]["age"]["kind"] == "float"
    message = fail(USAGE, "convert", "csv", tmp_path / "test.csv", out / "x@1", "--columns", "sex")
    assert message == (f'{tmp_path}/test.csv: column "sex" does not exist; the columns are "zip", "age", '
                       '"name"')


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "text"])
def test_huge_records_have_a_limit(kind, out, tmp_path):
    path = tmp_path / "t"
    text = "x" * 3_000_000
    path.write_text({"csv": f"a\n{text}\n", "jsonl": f'{{"a": "{text}"}}\n',
                     "json": f'[{{"a": "{text}"}}]', "text": text}[kind])
    message = fail(DEFECTS, "convert", kind, path, out / "x@1", "-q", "--max-record", "1MiB")
    assert f"{path}:" in message
    assert "the record is longer than 1048576 bytes; pass --max-record SIZE" in message
    convert(kind, path, out / "x@1")
    assert list(values(out / "x@1")[0].values()) == [text]
    message = fail(USAGE, "convert", kind, path, out / "y@1", "--max-record", "2GiB")
    assert message == "--max-record 2GiB: expected a size of at most 1GiB"
