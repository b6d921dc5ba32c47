"""Images in the package's chains: beside Pillow's, resumed, on any number of threads, damaged."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY, TESTDATA
from PIL import Image

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def make_image(i, width=120, height=90):
    rng = np.random.default_rng(i)
    y, x, c = np.mgrid[:height, :width, :3]
    wave = 128 + 60 * np.sin(x * 0.03 * (c + 1) + i) + 50 * np.cos(y * 0.05)
    return Image.fromarray((wave + rng.integers(-5, 6, wave.shape)).clip(0, 255).astype(np.uint8))


def encoded(i, kind="png", **size):
    file = io.BytesIO()
    make_image(i, **size).save(file, kind)
    return file.getvalue()


COUNT = 40
DAMAGED = 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def images(folder):
    with sf.write(folder / "good@3") as writer:
        for i in range(COUNT):
            writer.write({"image/encoded": encoded(i, width=100 + i), "label": i % 7, "n": i})
    return sf.read(folder / "good@3")


@pytest.fixture(scope="module")
def damaged(folder):
    with sf.write(folder / "damaged@3") as writer:
        for i in range(COUNT):
            data = encoded(i, "jpeg")
            data = data[:len(data) // 2] if i == DAMAGED else data
            writer.write({"image/encoded": data, "n": i})
    return sf.read(folder / "damaged@3")


def same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        assert np.array_equal(np.asarray(a[key]), np.asarray(b[key])), key


def test_pixels_are_pillows_within_one_level(images):
    for row in images.decode_image("image/encoded", (48, 64)):
        wanted = np.asarray(make_image(row["n"], width=100 + row["n"]).resize(
            (64, 48), Image.Resampling.BILINEAR))
        apart = np.abs(row["image"].astype(int) - wanted)
        assert (apart <= 1).mean() > 0.999 and apart.max() <= 2


def test_crops_are_pillows(images):
    ds = images.decode_image("image/encoded", 32, crop="center", center_fraction=0.5,
                               interpolation="bicubic")
    for row in ds.take(5):
        width = 100 + row["n"]
        x, y = (width - 45) // 2, (90 - 45) // 2
        wanted = np.asarray(make_image(row["n"], width=width).crop((x, y, x + 45, y + 45)).resize(
            (32, 32), Image.Resampling.BICUBIC))
        apart = np.abs(row["image"].astype(int) - wanted)
        assert (apart <= 1).mean() > 0.99 and apart.max() <= 2


def test_layouts_and_types(images):
    base = next(iter(images.decode_image(size=(20, 30)).batch(8)))["image"]
    assert base.shape == (8, 20, 30, 3) and base.dtype == np.uint8
    assert not base.flags.owndata
    mean, std = [0.4, 0.5, 0.6], [0.1, 0.2, 0.3]
    wanted = ((base / 255 - mean) / std).transpose(0, 3, 1, 2)
    for dtype, near in [("float32", 1e-5), (np.float16, 1e-2)]:
        ds = images.decode_image(size=(20, 30), layout="NCHW", dtype=dtype, mean=mean, std=std)
        found = next(iter(ds.batch(8)))["image"]
        assert found.shape == (8, 3, 20, 30) and found.dtype == dtype
        assert np.allclose(found, wanted, atol=near)
    gray = next(iter(images.decode_image(size=9, channels=1, dtype="float32", std=0.5).batch(2)))
    assert gray["image"].shape == (2, 9, 9, 1) and 1 < gray["image"].max() <= 2


def test_records_that_are_images(tmp_path):
    with sf.write(tmp_path / "raw@1") as writer:
        for i in range(3):
            writer.write(encoded(i))
    ds = sf.read(tmp_path / "raw@1").decode_image("record", 16, output="image")
    assert [row["image"].shape for row in ds] == [(16, 16, 3)] * 3
    assert ds[[1]][0].keys() == {"image"}


def test_converted_images(tmp_path):
    sf.convert("imagefolder", TESTDATA / "images", tmp_path / "p@2", limit=8, no_sync=True)
    ds = sf.read(tmp_path / "p@2").shuffle(1).decode_image(size=24, crop="random", flip=0.5)
    batch = next(iter(ds.batch(8)))
    assert batch["image"].shape == (8, 24, 24, 3) and len(batch["image/class/label"]) == 8
    assert repr(ds).endswith("parse().decode_image('image/encoded', 24, crop='random', flip=0.5)")


def random_chain(images):
    return (images.shuffle(3).parse({"image/encoded": sf.bytes, "label": sf.int64, "n": sf.int64})
            .decode_image("image/encoded", 24, crop="random", flip=0.5, seed=5)
            .repeat(2).batch(7))


def test_random_crops_repeat_on_any_threads(images):
    ds = random_chain(images)
    wanted = list(ds.start(epoch=0, threads=1))
    for threads in (2, 5):
        found = list(ds.start(epoch=0, threads=threads))
        assert len(found) == len(wanted) == len(ds)
        for a, b in zip(found, wanted):
            same(a, b)
    # The epochs differ.
    by_epoch = [{}, {}]
    rows = [(n, image) for b in wanted for n, image in zip(b["n"].tolist(), b["image"])]
    for i, (n, image) in enumerate(rows):
        by_epoch[i // COUNT][n] = image
    assert sum(np.array_equal(by_epoch[0][n], by_epoch[1][n]) for n in by_epoch[0]) < 4


@pytest.mark.parametrize("stop", [0, 1, 6, 11])
def test_random_crops_resume(images, stop):
    ds = random_chain(images)
    wanted = list(ds.start(epoch=0))
    with ds.start(epoch=0) as it:
        for _ in range(stop):
            next(it)
        state = it.state_dict()
    with iter(ds) as it:
        it.load_state_dict(state)
        rest = list(it)
    assert len(rest) == len(wanted) - stop
    for a, b in zip(rest, wanted[stop:]):
        same(a, b)


def test_by_number(images):
    ds = images.decode_image(size=16)
    same(ds[5], list(ds)[5])
    with pytest.raises(TypeError, match="takes random numbers"):
        images.decode_image(size=16, flip=0.5)[0]


@pytest.mark.parametrize("options, message", [
    ({"size": 0}, "width and height must be 1 to 65535 pixels, got 0 x 0"), ({"size": (1, 2, 3)}, r"\(height, width\)"),
    ({"size": -3}, "1 to 65535 pixels, got -3 x -3"), ({"size": (5, 1 << 40)}, "got 1099511627776 x 5"),
    ({"crop": "middle"}, "crop must be one of 'none'"),
    ({"scale": (1, 0.5)}, "in ascending order"), ({"scale": (1,)}, "two numbers"),
    ({"ratio": (0, 1)}, "aspect ratios"), ({"flip": 2}, "flip must be from 0 to 1, got 2"),
    ({"center_fraction": 0}, "center_fraction must be above 0"), ({"channels": 2}, "channels must be 3 .* got 2"),
    ({"interpolation": "lanczos"}, "interpolation must be one of .*, not 'lanczos'"),
    ({"layout": "HWC"}, "layout must be one of 'NHWC', 'NCHW'"), ({"dtype": "int8"}, "dtype must be .* got int8"),
    ({"mean": 0.5}, "cannot be normalized"), ({"dtype": "float32", "mean": [1, 2]}, "mean has 2 values"),
    ({"dtype": "float32", "std": 0}, "std must be finite and positive, got 0"), ({"on_damage": "skip"}, "'accept', not 'skip'"),
    ({"feature": "photo"}, "no column 'photo'"), ({"feature": "n"}, "does not have one bytes value per row"),
    ({"seed": -1}, "seed must be at least 0, not -1"),
])
def test_what_is_wrong_is_told_where_it_is_written(images, options, message):
    with pytest.raises(ValueError, match=message):
        images.decode_image(**options)


def test_of_batches_there_are_no_rows(images):
    with pytest.raises(ValueError, match="unbatch first"):
        images.parse().batch(4).decode_image()


def test_too_many_pixels(images):
    with pytest.raises(OSError, match=r"good-00000-of-00003: record 0 .*max_pixels"):
        list(images.decode_image(size=8, max_pixels=100))


@pytest.mark.parametrize("policy", ["replace", "zero"])
def test_too_many_pixels_are_filled_in(images, policy):
    """The images are 100 to 139 pixels wide and 90 high."""
    for batch in images.decode_image(size=8, max_pixels=120 * 90, on_damage=policy).batch(COUNT):
        assert sorted(batch["image/valid"]) == [0] * 19 + [1] * 21


NO_MEMORY = """
import resource, sys, zlib
import shardfeed as sf
def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
packer = zlib.compressobj(1)
rows = b"".join(packer.compress(bytes(3 * 10_000 + 1)) for _ in range(10_000)) + packer.flush()
png = (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", bytes([0, 0, 39, 16] * 2 + [8, 2, 0, 0, 0])) + chunk(b"IDAT", rows) +
       chunk(b"IEND", b""))
ds = sf.from_arrays({"image/encoded": [png]}).decode_image(size=8, on_damage=sys.argv[1]).batch(1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (250 << 20), -1))
with ds.start(threads=1) as it:
    try:
        next(it)
    except OSError as error:
        print(error)
"""


@pytest.mark.parametrize("policy", ["fail", "zero"])
def test_a_lack_of_memory_is_no_damage(policy):
    done = subprocess.run([sys.executable, "-c", NO_MEMORY, policy], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert done.stdout.endswith("'image/encoded': no memory for a png of 10000 x 10000 pixels\n"), done


def test_damage_ends_the_run(damaged):
    with pytest.raises(sf.DataLossError,
                       match="damaged-00001-of-00003: record 4 at byte .*'image/encoded'"):
        list(damaged.decode_image(size=16).batch(8))


def test_damage_is_zero(damaged):
    with iter(damaged.decode_image(size=16, on_damage="zero").batch(COUNT)) as it:
        batch = next(it)
        assert sum(stage["invalid"] for stage in it.stats()["stages"]) == 1
    bad = batch["n"] == DAMAGED
    assert batch["image/valid"].tolist() == (~bad).astype(int).tolist()
    assert not batch["image"][bad].any() and all(image.any() for image in batch["image"][~bad])


def test_damage_is_replaced(damaged):
    batch = next(iter(damaged.decode_image(size=16, on_damage="replace").batch(COUNT)))
    assert DAMAGED not in batch["n"] and len(batch["n"]) == COUNT
    (bad,) = np.flatnonzero(batch["image/valid"] == 0)
    (other,) = np.flatnonzero((batch["n"] == batch["n"][bad]) & (batch["image/valid"] == 1))
    assert np.array_equal(batch["image"][bad], batch["image"][other])


def count_invalid(it):
    return sum(stage["invalid"] for stage in it.stats()["stages"])


def without_valid(row):
    return {"n": row["n"], "any": bool(row["image"].any()), "ok": row["image/valid"]}


OUTPUT = {"n": sf.int64, "any": sf.uint8, "ok": sf.uint8}


@pytest.mark.parametrize("follow, ignored", [
    (lambda ds: ds.map(without_valid), 0),
    (lambda ds: ds.map(without_valid, output=OUTPUT), 0),
    (lambda ds: ds.map(lambda row: {**row, "more": 1}).map(without_valid), 0),
    (lambda ds: ds.map(without_valid).filter(lambda row: True), 0),
    (lambda ds: ds.filter(lambda row: True).map(without_valid), 0),
    (lambda ds: ds.map(without_valid).ignore_errors(), 0),
    (lambda ds: ds.map(without_valid).map(lambda row: {**row, "tenth": 1 // (row["n"] % 10 - 5 or not row["ok"])})
     .ignore_errors(), 4),
    (lambda ds: ds.map(without_valid).take(COUNT), 0),
    (lambda ds: ds.take(COUNT).map(without_valid), 0),
    (lambda ds: ds.map(without_valid).shuffle(1, 8), 0),
    (lambda ds: ds.augment("image", [sf.augment.RandomHorizontalFlip()]).map(without_valid), 0)])
def test_functions_see_what_replaces_a_row(damaged, follow, ignored):
    with iter(follow(damaged.decode_image(size=16, on_damage="replace")).batch(8)) as it:
        batches = list(it)
        assert count_invalid(it) == 1 and it.stats()["ignored"] == ignored
    rows = {key: np.concatenate([batch[key] for batch in batches]) for key in OUTPUT}
    assert len(rows["n"]) == COUNT - ignored and DAMAGED not in rows["n"]
    assert rows["any"].all() and rows["ok"].tolist().count(0) == 1


@pytest.mark.parametrize("follow", [
    lambda ds: ds.map(without_valid), lambda ds: ds.map(lambda row: {"n": row["n"], "any": row["image"].any(), "ok": 1}),
    lambda ds: ds.filter(lambda row: True).map(without_valid), lambda ds: ds.map(without_valid).ignore_errors()])
def test_functions_see_zeros_and_their_mark(damaged, follow):
    with iter(follow(damaged.decode_image(size=16, on_damage="zero")).batch(COUNT)) as it:
        batch = next(it)
        assert count_invalid(it) == 1
    assert batch["n"][~batch["any"].astype(bool)].tolist() == [DAMAGED]


@pytest.mark.parametrize("follow", [
    lambda ds: ds.map(without_valid), lambda ds: ds.augment("image", [sf.augment.RandomHorizontalFlip()]).map(without_valid)])
def test_replaced_rows_are_the_same_after_a_resume(damaged, follow):
    ds = follow(damaged.shuffle(1).decode_image(size=16, on_damage="replace")).batch(4)
    wanted = list(ds.start(epoch=0))
    for stop in range(len(wanted)):
        with ds.start(epoch=0, threads=2) as it:
            for batch in wanted[:stop]:
                same(next(it), batch)
            state = it.state_dict()
        with ds.start(threads=3) as it:
            it.load_state_dict(state)
            for batch, found in zip(wanted[stop:], it, strict=True):
                same(found, batch)


@pytest.fixture(scope="module")
def half_damaged(tmp_path_factory):
    spec = str(tmp_path_factory.mktemp("half") / "d@2")
    with sf.write(spec) as writer:
        for n in range(40):
            stream = io.BytesIO()
            Image.fromarray(np.full((24, 24, 3), 5 * n + 10, np.uint8)).save(stream, "jpeg")
            cut = len(stream.getvalue()) // (2 if n in (0, 7, 8, 13, 20) else 1)
            writer.write({"image/encoded": stream.getvalue()[:cut], "n": n})
    return sf.read(spec)


@pytest.mark.parametrize("follow", [
    lambda ds: ds.filter(lambda row: True).map(without_valid), lambda ds: ds.map(without_valid).filter(lambda row: True),
    lambda ds: ds.map(without_valid).ignore_errors(), lambda ds: ds.map(without_valid).take(38)])
@pytest.mark.parametrize("size", [1, 4])
def test_a_replaced_row_keeps_its_place_in_a_state(half_damaged, follow, size):
    ds = follow(half_damaged.decode_image(size=16, on_damage="replace")).batch(size)
    wanted = list(ds.start(epoch=0))
    for stop in range(len(wanted)):
        with ds.start(epoch=0) as it:
            for _ in range(stop):
                next(it)
            state = it.state_dict()
        with ds.start() as it:
            it.load_state_dict(state)
            rest = [batch["n"] for batch in it]
        assert [len(batch["n"]) for batch in wanted[stop:]] == [len(n) for n in rest], stop
        sound = [n for batch in wanted[stop:] for n, ok in zip(batch["n"].tolist(), batch["ok"]) if ok]
        assert set(sound) <= set(np.concatenate(rest).tolist())


@pytest.mark.parametrize("cut", [{1, 3, 5}, {0}, {6}])
def test_padding_is_counted_whatever_replaces_it(tmp_path, cut):
    spec = str(tmp_path / "d@1")
    with sf.write(spec) as writer:
        for n in range(7):
            stream = io.BytesIO()
            Image.fromarray(np.full((24, 24, 3), 5 * n + 10, np.uint8)).save(stream, "jpeg")
            writer.write({"image/encoded": stream.getvalue()[:len(stream.getvalue()) // (2 if n in cut else 1)], "n": n})
    for rank in range(2):
        with sf.read(spec, end="pad").shard(rank, 2).decode_image(size=8, on_damage="replace").batch(4).start(epoch=0) as it:
            assert len(next(it)["n"]) == 4
            assert it.padded == rank


def test_without_another_row_a_damaged_image_is_zeros(damaged):
    ds = damaged.decode_image(size=16, on_damage="replace")
    place = next(i for i in range(COUNT) if ds[i]["n"] == DAMAGED)
    for row in [ds[place], ds[[place]][0], next(b for b in ds.batch(1) if b["n"][0] == DAMAGED)]:
        assert not row["image"].any() and row["image/valid"] == 0 and row["n"] == DAMAGED
    other = (place + 1) % COUNT
    rows = ds[[other, place]]
    assert rows[0]["image/valid"] == 1 and rows[1]["image/valid"] == 0
    assert rows[1]["n"] == rows[0]["n"] and np.array_equal(rows[1]["image"], rows[0]["image"])


def test_damage_is_accepted(damaged):
    wanted = list(damaged.decode_image(size=16, on_damage="zero"))
    for row, other in zip(damaged.decode_image(size=16, on_damage="accept"), wanted):
        assert row["image"].any()
        if row["n"] != DAMAGED:
            assert np.array_equal(row["image"], other["image"])


def test_pickled_chains(images):
    import pickle
    ds = images.decode_image(size=16, crop="random").batch(8)
    for a, b in zip(pickle.loads(pickle.dumps(ds)), ds):
        same(a, b)


@pytest.fixture(scope="module")
def photos(folder):
    with sf.write(folder / "photos@1") as writer:
        for i in range(6):
            data = encoded(i, "jpeg", width=500 + 37 * i, height=400 - 21 * i)
            writer.write({"image/encoded": data, "n": i})
    return sf.read(folder / "photos@1")


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_without_dct_scaling_jpegs_are_pillows(photos, interpolation):
    apart = {True: [], False: []}
    for exact in (True, False):
        options = {} if not exact else {"dct_scaling": False}
        for row in photos.decode_image(size=(40, 56), interpolation=interpolation, **options):
            image = Image.open(io.BytesIO(encoded(row["n"], "jpeg", width=500 + 37 * row["n"],
                                                  height=400 - 21 * row["n"])))
            wanted = np.asarray(image.resize((56, 40), Image.Resampling[interpolation.upper()]))
            apart[exact].append(np.abs(row["image"].astype(int) - wanted))
    assert (np.array(apart[True]) <= 1).all()
    assert np.mean(apart[False]) > 3 * np.mean(apart[True])


def test_without_dct_scaling_crops_are_pillows(photos):
    ds = photos.decode_image(size=48, crop="center", center_fraction=0.9, dct_scaling=False)
    for row in ds:
        image = Image.open(io.BytesIO(encoded(row["n"], "jpeg", width=500 + 37 * row["n"],
                                              height=400 - 21 * row["n"])))
        side = int(0.9 * image.height + 0.5)
        x, y = (image.width - side) // 2, (image.height - side) // 2
        wanted = np.asarray(image.crop((x, y, x + side, y + side)).resize(
            (48, 48), Image.Resampling.BILINEAR))
        assert (np.abs(row["image"].astype(int) - wanted) <= 1).all()
    assert "dct_scaling=False" in repr(ds)


def test_states_with_and_without_dct_scaling_differ(photos):
    with iter(photos.decode_image(size=8).batch(2)) as it:
        next(it)
        state = it.state_dict()
    with iter(photos.decode_image(size=8, dct_scaling=False).batch(2)) as it, pytest.raises(
            RuntimeError, match="another chain"):
        it.load_state_dict(state)
