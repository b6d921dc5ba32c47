"""Raw samples in the package's chains: masks and depth maps that stay on their images."""

import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY
from PIL import Image

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

COUNT = 24
DAMAGED = 5


def encoded(image, kind="png", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def place_of(i):
    """The columns and rows of the pixels of image i."""
    height, width = 60 + i, 140 - 3 * i
    return np.meshgrid(np.arange(width), np.arange(height))


def image_of(i):
    x, y = place_of(i)
    return Image.fromarray(np.stack([x, y, 0 * x], -1).astype(np.uint8))


def mask_of(i):
    x, y = place_of(i)
    image = Image.fromarray((x // 3).astype(np.uint8))
    image = image.convert("P")
    image.putdata((x // 3).ravel().tolist())
    return image


def depth_of(i):
    x, y = place_of(i)
    return Image.fromarray((y * 256 + x).astype(np.uint16))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("raw")


@pytest.fixture(scope="module")
def records(folder):
    with sf.write(folder / "good@3") as writer:
        for i in range(COUNT):
            writer.write({"image/encoded": encoded(image_of(i)), "mask/encoded": encoded(mask_of(i)),
                          "depth/encoded": encoded(depth_of(i)), "n": i})
    return sf.read(folder / "good@3")


@pytest.fixture(scope="module")
def damaged(folder):
    with sf.write(folder / "damaged@1") as writer:
        for i in range(COUNT):
            data = encoded(depth_of(i))
            writer.write({"depth/encoded": data[:len(data) // 2] if i == DAMAGED else data, "n": i})
    return sf.read(folder / "damaged@1")


def sizes_of(i):
    x, _ = place_of(i)
    return x.shape


def test_samples_are_those_of_the_file(records):
    for i in (0, 9):
        size = sizes_of(i)
        row = [row for row in records.parse().decode_image("mask/encoded", size, raw=True)
               .decode_image("depth/encoded", size, raw=True, dtype="uint16") if row["n"] == i][0]
        assert row["mask"].shape == (*size, 1) and row["mask"].dtype == np.uint8
        assert row["depth"].shape == (*size, 1) and row["depth"].dtype == np.uint16
        x, y = place_of(i)
        assert np.array_equal(row["mask"][..., 0], x // 3)
        assert np.array_equal(row["depth"][..., 0], y * 256 + x)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", np.float32])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_types_and_layouts(records, dtype, layout):
    ds = records.decode_image("image/encoded", 16, raw=True, channels=3, dtype=dtype, layout=layout)
    batch = next(iter(ds.batch(4)))["image"]
    assert batch.dtype == dtype
    assert batch.shape == ((4, 3, 16, 16) if layout == "NCHW" else (4, 16, 16, 3))
    levels = next(iter(records.decode_image("image/encoded", 16, interpolation="nearest",
                                            layout=layout).batch(4)))["image"]
    assert np.array_equal(batch, levels)


@pytest.mark.parametrize("options", [
    {"crop": "random"}, {"crop": "random", "flip": 0.5, "seed": 9}, {"crop": "none", "flip": 0.5},
    {"crop": "center", "center_fraction": 0.5}, {"crop": "random", "scale": (0.3, 0.5), "seed": 3},
])
@pytest.mark.parametrize("size", [(24, 24), (80, 100)])
def test_masks_stay_on_their_images(records, options, size):
    """Each pixel of the image tells its place, and so do the mask's and the depth's."""
    ds = (records.shuffle(3).parse()
          .decode_image("image/encoded", size, interpolation="nearest", **options)
          .decode_image("mask/encoded", size, raw=True, **options)
          .decode_image("depth/encoded", size, raw=True, dtype="int32", layout="NCHW", **options))
    flipped = 0
    for row in ds:
        x, y = row["image"][..., 0].astype(int), row["image"][..., 1].astype(int)
        depth = row["depth"][0]
        assert np.array_equal(row["mask"][..., 0], depth % 256 // 3)
        assert np.array_equal(depth % 256, x) and np.array_equal(depth // 256, y)
        flipped += x[0, 0] > x[0, -1]
    assert (0 < flipped < COUNT) == ("flip" in options)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_the_same_of_two_equally_near_pixels(orientation, flip):
    exif = Image.Exif()
    exif[0x112] = orientation
    pixels = np.random.default_rng(orientation).integers(0, 256, (2, 5, 3), np.uint8)
    ds = sf.from_arrays({"image/encoded": [encoded(Image.fromarray(pixels), exif=exif)]})
    for size in [(49, 49), (98, 5), (3, 98), (7, 25)]:
        image, raw = (next(iter(ds.decode_image("image/encoded", size, orient=True, flip=flip, **options)))["image"]
                      for options in ({"interpolation": "nearest"}, {"raw": True, "channels": 3}))
        assert np.array_equal(image, raw), size


def test_bilinear_images_have_the_same_part(records):
    options = {"crop": "random", "flip": 0.5, "seed": 4}
    ds = (records.parse().decode_image("image/encoded", 64, **options)
          .decode_image("depth/encoded", 64, raw=True, dtype="uint16", **options))
    for row in ds:
        inside = (slice(8, -8), slice(8, -8))
        depth = row["depth"][..., 0].astype(int)
        for found, wanted in [(depth % 256, row["image"][..., 0]), (depth // 256, row["image"][..., 1])]:
            assert np.abs(found[inside] - wanted[inside].astype(int)).max() <= 2


def test_threads_resume_and_pickle(records):
    ds = records.shuffle(1).decode_image("mask/encoded", 24, raw=True, crop="random", flip=0.5,
                                         seed=5).select("mask", "n").batch(5)
    wanted = list(ds.start(epoch=0, threads=1))
    with ds.start(epoch=0) as it:
        next(it)
        state = it.state_dict()
    with iter(ds) as it:
        it.load_state_dict(state)
        rest = list(it)
    for found in (list(ds.start(epoch=0, threads=4)), wanted[:1] + rest,
                  list(pickle.loads(pickle.dumps(ds)).start(epoch=0))):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            assert np.array_equal(a["mask"], b["mask"]) and np.array_equal(a["n"], b["n"])


def test_states_of_raw_and_levels_differ(records):
    """Otherwise a run could be resumed with other values."""
    levels = records.decode_image("mask/encoded", 8, channels=1, interpolation="nearest").batch(2)
    raw = records.decode_image("mask/encoded", 8, raw=True).batch(2)
    with iter(levels) as it:
        next(it)
        state = it.state_dict()
    with iter(raw) as it, pytest.raises(RuntimeError, match="another chain"):
        it.load_state_dict(state)


def test_texts(records):
    ds = records.parse().decode_image("mask/encoded", 24, raw=True)
    assert repr(ds).endswith("decode_image('mask/encoded', 24, raw=True)")


@pytest.mark.parametrize("options, message", [
    ({"channels": 0}, "channels of raw samples must be .* 1 to 1024, got 0"),
    ({"dtype": "float16"}, "dtype of raw samples must be uint8, uint16, int32 or float32, got float16"),
    ({"interpolation": "bilinear"}, "interpolation of raw samples must be nearest"),
    ({"mean": 0.5}, "mean: raw samples are not normalized"),
    ({"std": 0.5}, "std: raw samples are not normalized"),
    ({"size": 0}, "width and height must be 1 to 65535 pixels"),
    ({"max_scans": -1}, "max_scans must be at least 1, not -1"),
    ({"max_pixels": 0}, "max_pixels must be at least 1, not 0"),
])
def test_wrong_options_are_named(records, options, message):
    with pytest.raises(ValueError, match="decode_image: " + message):
        records.decode_image("mask/encoded", **{"raw": True, **options})


def test_new_columns_take_the_place_of_no_others(records):
    with pytest.raises(ValueError, match="decode_image: column 'n' already exists: give the pixels another name"):
        records.parse().decode_image("mask/encoded", 8, output="n")
    with_mask = records.parse().map(lambda row: {**row, "mask": np.int64(1)})
    with pytest.raises(ValueError, match="decode_image: column 'mask' already exists: rename or drop it"):
        with_mask.decode_image("image/encoded", 8, masks="mask/encoded")
    with_valid = records.parse().map(lambda row: {**row, "image/valid": np.int64(1)})
    with pytest.raises(ValueError, match="decode_image: column 'image/valid' already exists: rename"):
        with_valid.decode_image("image/encoded", 8, on_damage="zero")
    in_place, = records.parse().decode_image("mask/encoded", 8, output="mask/encoded").batch(COUNT)
    assert in_place["mask/encoded"].shape == (COUNT, 8, 8, 3)


def test_wrong_types_are_named(records):
    with pytest.raises(TypeError, match="raw must be"):
        records.decode_image("mask/encoded", raw="yes")


def test_images_that_do_not_fit(records):
    with pytest.raises(ValueError, match="record 0 .*feature 'image/encoded': png stores 3 channels, "
                                         "but channels is 1"):
        list(records.decode_image("image/encoded", 8, raw=True))
    with pytest.raises(ValueError, match="feature 'depth/encoded': png stores samples of 16 bits, which "
                                         r'uint8 cannot hold \(dtype="uint16" can\)'):
        list(records.decode_image("depth/encoded", 8, raw=True))
    for image, mask, why in [("mask", "image", "png stores 3 channels, but channels is 1"),
                             ("image", "depth", "samples of 16 bits")]:
        with pytest.raises(ValueError, match=f"feature '{mask}/encoded': .*{why}.*; a mask has one channel of at "
                                             "most 8 bits: decode others by themselves, with raw"):
            list(records.decode_image(f"{image}/encoded", 8, masks=f"{mask}/encoded"))
    with pytest.raises(OSError, match="max_pixels"):
        list(records.decode_image("mask/encoded", 8, raw=True, max_pixels=100))


@pytest.mark.parametrize("on_damage", ["zero", "replace", "accept"])
def test_arguments_that_do_not_fit_are_no_damage(records, on_damage):
    for arguments, message in [
            ({"feature": "image/encoded", "raw": True}, "png stores 3 channels, but channels is 1"),
            ({"feature": "depth/encoded", "raw": True}, r'samples of 16 bits, .* \(dtype="uint16" can\)'),
            ({"feature": "image/encoded", "masks": "depth/encoded"}, "'depth/encoded': .* a mask has one channel")]:
        with pytest.raises(ValueError, match=f"record 0 .*{message}"):
            list(records.decode_image(size=8, on_damage=on_damage, **arguments).batch(COUNT))


@pytest.mark.parametrize("on_damage", ["zero", "replace"])
def test_a_missing_library_is_no_damage(tmp_path, on_damage):
    (tmp_path / "libheif.so.1").write_bytes(b"")  # found first, and no library
    code = f"""if True:
        import shardfeed as sf
        avif = open({str(REPOSITORY / "testdata/heif/turned.avif")!r}, "rb").read()
        ds = sf.from_arrays({{"i": [avif] * 3}}).decode_image("i", 8, on_damage={on_damage!r})
        try:
            print(list(ds.batch(3)))
        except Exception as error:
            print(type(error).__name__, error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={
        **os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(REPOSITORY / "python")})
    assert "feature 'i': avif: libheif is not installed (" in done.stdout and "apt-get" in done.stdout, done


def test_damage(damaged):
    def decoded(**options):
        return damaged.decode_image("depth/encoded", 8, raw=True, dtype="uint16", **options)

    with pytest.raises(sf.DataLossError, match=f"record {DAMAGED} at byte .*'depth/encoded': png"):
        list(decoded())
    (batch,) = decoded(on_damage="zero").batch(COUNT)
    assert batch["depth/valid"].tolist() == [i != DAMAGED for i in range(COUNT)]
    assert not batch["depth"][DAMAGED].any() and batch["depth"][DAMAGED + 1].any()
    (batch,) = decoded(on_damage="replace").batch(COUNT)
    assert DAMAGED not in batch["n"] and batch["depth"][DAMAGED].any()
