"""Steps of the package's chains beside TensorFlow's and torch's: sparse rows, decoders, augmented and
mixed images, generators, caches on disk."""

import io
import pickle
import sys
import wave
from collections import namedtuple

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")
A = sf.augment


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("steps") / "train@2"
    with sf.write(spec) as writer:
        for i in range(40):
            writer.write({"n": i, "some": np.full(i % 4, i), "words": ["w%d" % i] * (i % 3 + 1)})
    return sf.read(spec)


@pytest.fixture
def sparse(dataset):
    return dataset.parse({"n": sf.int64, "some": sf.sparse(), "words": sf.sparse(sf.bytes)})


@pytest.fixture
def images():
    rng = np.random.default_rng(1)
    return sf.from_arrays({"image": rng.integers(0, 256, (30, 32, 24, 3), np.uint8),
                           "label": np.arange(30) % 5})


def pixels(ds):
    return np.concatenate([batch["image"] for batch in ds])


# ---- Sparse


def test_sparse_is_tensorflows_var_len_feature(tf, dataset, sparse):
    spec = {"n": tf.io.FixedLenFeature([], tf.int64), "some": tf.io.VarLenFeature(tf.int64),
            "words": tf.io.VarLenFeature(tf.string)}
    theirs = tf.data.Dataset.from_tensor_slices(list(dataset)).batch(8).map(
        lambda r: tf.io.parse_example(r, spec))
    ours = sparse.batch(8)
    for mine, tensors, other in zip(ours, ours.tf(), theirs):
        for name in ("some", "words"):
            wanted = other[name]
            assert np.array_equal(mine[name].indices, wanted.indices.numpy())
            assert np.asarray(mine[name].values).tolist() == wanted.values.numpy().tolist()
            assert mine[name].shape == tuple(wanted.dense_shape.numpy())
            assert tf.reduce_all(tf.sparse.to_dense(tensors[name]) == tf.sparse.to_dense(wanted))
    made = sf.tf.dataset(ours)
    assert made.element_spec["some"] == tf.SparseTensorSpec([None, None], tf.int64)
    assert sum(int(tf.sparse.reduce_sum(b["some"])) for b in made) == sum(
        i * (i % 4) for i in range(40))


def test_sparse_in_torch(sparse):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for mine, other in zip(sparse.batch(8), sparse.batch(8).torch()):
        assert torch.equal(other["some"].to_dense(),
                           torch.from_numpy(mine["some"].ragged().padded()))


def test_sparse_rows_and_back(dataset, sparse):
    plain = dataset.parse({"n": sf.int64, "some": sf.var(), "words": sf.var(sf.bytes)})
    for found in (sparse, sparse.batch(8).unbatch()):
        assert str(list(found)) == str(list(plain))
    again = pickle.loads(pickle.dumps(sparse.batch(8).unbatch().batch(5)))
    first = next(iter(again))["some"]
    assert isinstance(first, sf.Sparse) and first.shape == (5, 2) and len(first) == 5
    assert repr(sparse.batch(8)).endswith(".batch(8).sparse('some', 'words')")


def test_sparse_through_functions(sparse):
    Pair = namedtuple("Pair", "x y")
    ds = sparse.batch(8).map(lambda b: Pair(b["some"], b["n"]), batched=True)
    for pair, batch in zip(ds, sparse.batch(8)):
        assert isinstance(pair, Pair) and isinstance(pair.x, sf.Sparse)
        assert np.array_equal(pair.x.indices, batch["some"].indices)


def test_sparse_where_it_cannot_be(dataset, sparse, images):
    with pytest.raises(ValueError, match="'some' is sparse"):
        sparse.padded_batch(4)
    with pytest.raises(ValueError, match="batch first"):
        sparse.sparse("some")
    with pytest.raises(ValueError, match="no ragged column 'n'"):
        dataset.parse({"n": sf.int64}).batch(2).sparse("n")
    with pytest.raises(ValueError, match="single values can be sparse"):
        images.batch(2).sparse("image")
    with pytest.raises(ValueError, match="feature lists are ragged"):
        dataset.parse({}, {"some": sf.sparse()})


# ---- Decoders


def bytes_column(values):
    return sf.from_arrays({"x": values, "n": np.arange(len(values))})


def test_decode_raw():
    values = [np.arange(6, dtype=np.int16) + i for i in range(3)]
    ds = bytes_column([v.tobytes() for v in values])
    assert [row["x"].tolist() for row in ds.decode_raw("x", np.int16, (2, 3))] == [
        v.reshape(2, 3).tolist() for v in values]
    assert [row["x"].tolist() for row in ds.decode_raw("x", sf.int16, (-1, 2))] == [
        v.reshape(3, 2).tolist() for v in values]
    with pytest.raises(ValueError, match=r"column 'x' has 12 bytes; int16 \[5\] takes 10"):
        list(ds.decode_raw("x", sf.int16, 5))
    with pytest.raises(ValueError, match="no column 'y' with one bytes value per row"):
        ds.decode_raw("y", sf.int16)
    with pytest.raises(ValueError, match="type 'int17' does not exist"):
        ds.decode_raw("x", "int17")


def test_decode_npy():
    def npy(array):
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()

    arrays = [np.full((2, 2), i, np.float32) for i in range(3)]
    ds = bytes_column([npy(a) for a in arrays])
    for row, wanted in zip(ds.decode_npy("x", sf.float32, (2, 2)), arrays):
        assert np.array_equal(row["x"], wanted)
    with pytest.raises(ValueError, match=r"holds float32 \[2, 2\], expected int32 \[2, 2\]"):
        list(ds.decode_npy("x", sf.int32, (2, 2)))


def test_decode_text():
    assert [row["x"] for row in bytes_column(["é", "b"]).decode_text("x")] == ["é".encode(), b"b"]
    with pytest.raises(sf.DataLossError, match="not UTF-8: byte 1 of"):
        list(bytes_column([b"a\xff"]).decode_text("x"))


def test_decode_wav():
    def wav(samples, channels):
        file = io.BytesIO()
        with wave.open(file, "wb") as w:
            w.setnchannels(channels)
            w.setsampwidth(2)
            w.setframerate(8000)
            w.writeframes(np.asarray(samples, np.int16).tobytes())
        return file.getvalue()

    ds = bytes_column([wav([0, 16384, -32768], 1), wav([1], 1)])
    rows = list(ds.decode_wav("x"))
    assert rows[0]["x"].tolist() == [[0], [0.5], [-1]] and rows[0]["sample_rate"] == 8000
    assert len(rows[1]["x"]) == 1
    with pytest.raises(ValueError, match="the sound has 1 channels, expected 2"):
        list(ds.decode_wav("x", channels=2))


# ---- Augmentations


EACH = [
    A.ColorJitter(0.4, 0.4, (0.5, 1.5), 0.1), A.RandomGrayscale(0.5), A.GaussianBlur(3),
    A.GaussianBlur((3, 5), 1.0), A.RandomErasing(), A.RandomErasing(1, value=[1, 2, 3]),
    A.RandomErasing(1, value="random"), A.RandomHorizontalFlip(), A.RandomVerticalFlip(), A.Pad(1),
    A.Pad([1, 2], fill=(1, 2, 3)), A.Pad((1, 2, 3, 4), padding_mode="reflect"),
    A.RandomRotation(20, "bilinear"), A.RandomRotation((0, 90), center=(3, 4), fill=9),
    A.RandomAffine(5, (0.1, 0.1), (0.9, 1.1), 3), A.RandomAffine(0, shear=(10, 20, 30, 40), fill=None),
    A.RandomPerspective(p=1), A.RandomInvert(), A.RandomPosterize(3), A.RandomSolarize(100),
    A.RandomAutocontrast(), A.RandomEqualize(), A.RandomAdjustSharpness(2), A.RandAugment(),
    A.TrivialAugmentWide(), A.RandomApply([A.RandomInvert(1), A.GaussianBlur(3)], p=0.3),
]


@pytest.mark.parametrize("step", EACH, ids=lambda s: s.name)
def test_each_augmentation_repeats(images, step):
    ds = images.augment("image", [step], seed=4)
    first = pixels(ds.batch(8).start(threads=1))
    assert np.array_equal(pixels(ds.batch(8).start(threads=4)), first)
    assert not np.array_equal(first, pixels(images.batch(8)))
    assert step.name in ds._core.text()


def test_augmentations_that_are_certain(images):
    before = pixels(images.batch(30))

    def after(*steps):
        return pixels(images.augment("image", steps).batch(30))

    assert np.array_equal(after(A.RandomHorizontalFlip(1)), before[:, :, ::-1])
    assert np.array_equal(after(A.RandomVerticalFlip(1)), before[:, ::-1])
    assert np.array_equal(after(A.RandomInvert(1)), 255 - before)
    assert np.array_equal(after(A.RandomPosterize(2, 1)), before & 0xc0)
    assert np.array_equal(after(A.RandomSolarize(100, 1)), np.where(before >= 100, 255 - before, before))
    assert np.array_equal(after(A.Pad([1, 2], 7)), np.pad(
        before, ((0, 0), (2, 2), (1, 1), (0, 0)), constant_values=7))
    assert np.array_equal(after(A.RandomRotation((180, 180))), before[:, ::-1, ::-1])
    assert np.array_equal(after(A.RandomErasing(0)), before)
    apply = A.RandomApply([A.RandomInvert(1), A.RandomHorizontalFlip(1)], p=1)
    assert np.array_equal(after(apply), 255 - before[:, :, ::-1])


def test_augmentations_resume(images):
    ds = images.shuffle(2, 30).augment("image", [A.RandAugment()], seed=1).batch(7).repeat(2)
    wanted = [b["image"].copy() for b in ds]
    it = ds.start(epoch=0)
    for _ in range(6):
        next(it)
    state = it.state_dict()
    other = iter(ds)
    other.load_state_dict(state)
    assert all(np.array_equal(a["image"], b) for a, b in zip(other, wanted[6:], strict=True))


@pytest.mark.parametrize("make, message", [
    (lambda: [A.RandomHorizontalFlip(2)], r"RandomHorizontalFlip\(p=2\): p must be from 0 to 1"),
    (lambda: [A.RandomRotation(10, "bicubic")], "interpolation must be one of 'nearest', 'bilinear'"),
    (lambda: [A.GaussianBlur(4)], "kernel_size must be odd"),
    (lambda: [A.GaussianBlur((3, 3, 3))], r"one number, or \(width, height\)"),
    (lambda: [A.ColorJitter(brightness=-1)], "brightness must be at least 0"),
    (lambda: [A.ColorJitter(hue=0.7)], "hue"), (lambda: [A.RandomErasing(value="noise")], "noise"),
    (lambda: [A.Pad((1, 2, 3))], "1, 2 or 4 numbers"),
    (lambda: [A.Pad(1, padding_mode="wrap")], "padding_mode must be one of"),
    (lambda: [A.RandomAffine(1, shear=(1, 2, 3))], "1, 2 or 4 numbers"),
    (lambda: [A.RandAugment(magnitude=99)], "magnitude must be"),
    (lambda: [A.RandomPosterize(9)], "bits must be"),
    (lambda: [A.RandomErasing(scale=(0, 0.5, 1))], "two numbers"),
    (lambda: [A.RandomApply([A.Pad(1)])], "all images must have one size"),
    (lambda: [A.Augmentation("Sepia", {})], "augmentation 'Sepia' does not exist"),
])
def test_augmentations_that_cannot_be(images, make, message):
    with pytest.raises(ValueError, match=message):
        images.augment("image", make())


def test_columns_that_are_no_images(images):
    with pytest.raises(ValueError, match=r"uint8 images of \[height, width, 1 or 3\]"):
        images.augment("label", [])
    with pytest.raises(ValueError, match="no column 'photo'"):
        images.augment("photo", [])
    with pytest.raises(TypeError, match="takes random numbers"):
        images.augment("image", [])[0]


# ---- Mixes


def test_mixup_and_cutmix(images):
    plain = next(iter(images.batch(10)))["image"].astype(float)
    for kind in ("mixup", "cutmix"):
        ds = getattr(images.batch(10), kind)("image", "label", 5, alpha=0.8, seed=3)
        batch = next(ds.start(epoch=0))
        label = batch["label"]
        assert label.shape == (10, 5) and np.allclose(label.sum(1), 1)
        share = label[1, 1]  # row i has class i mod 5
        others = np.roll(plain, 1, axis=0)
        if kind == "mixup":
            assert np.abs(batch["image"] - (share * plain + (1 - share) * others)).max() <= 0.51
        else:
            own = (batch["image"] == plain).all(-1)
            assert np.where(own[..., None], plain, others).astype(np.uint8).tolist() == (
                batch["image"].tolist())
            assert abs(own[1].mean() - share) < 0.05
        for a, b in zip(ds.start(epoch=1), ds.start(epoch=1, threads=1)):
            assert np.array_equal(a["image"], b["image"])


def test_mixes_that_cannot_be(images):
    with pytest.raises(ValueError, match="mixup: .* batch first"):
        images.mixup("image", "label", 5)
    with pytest.raises(ValueError, match="cutmix: num_classes"):
        images.batch(2).cutmix("image", "label", 0)
    with pytest.raises(ValueError, match="no column 'class'"):
        images.batch(2).mixup("image", "class", 5)
    with pytest.raises(ValueError, match="label 4"):
        list(images.batch(10).mixup("image", "label", 4))


# ---- Kept


def counting(calls):
    def fn(row):
        calls.append(1)
        return {"value": row["value"] + 1}
    return fn


def test_cache_on_disk(tmp_path):
    calls = []
    ds = sf.range(20).map(counting(calls), output={"value": sf.int64}).batch(4)
    kept = ds.cache(path=tmp_path).repeat(3)
    with iter(kept) as it:
        batches = list(it)
    assert len(batches) == len(kept) == 15 and len(calls) == 20
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError):
        batches[-1]["value"][0] = 1
    with pytest.raises(OSError):
        list(ds.cache(path=tmp_path, max_bytes=10).repeat(2))
    assert repr(kept).endswith(f".cache(path={str(tmp_path)!r}).repeat(3)")


def test_snapshot(tmp_path):
    calls = []
    path = tmp_path / "kept"
    ds = sf.range(20).map(counting(calls), output={"value": sf.int64}).batch(4).snapshot(path)
    wanted = [b["value"].tolist() for b in ds]
    assert len(calls) == 20 and path.exists() and len(ds) == 5
    assert [b["value"].tolist() for b in ds] == wanted and len(calls) == 20
    with pytest.raises(RuntimeError, match="another chain or other data"):
        list(sf.range(21).batch(4).snapshot(path))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(sf.DataLossError, match="kept"):
        list(ds)


# ---- Any number of elements


def test_from_generator(tf):
    def make():
        for i in range(150):
            yield {"a": i, "b": [0.5] * (i % 3), "c": "x" * i, "d": np.full((2,), i, np.int16)}

    columns = {"a": sf.int64, "b": sf.var(sf.float32), "c": sf.bytes, "d": sf.fixed(2, sf.int16)}
    ds = sf.from_generator(make, columns)
    rows = list(ds)
    assert [row["a"] for row in rows] == list(range(150))
    assert all(row["b"].tolist() == [0.5] * (i % 3) and row["c"] == b"x" * i
               and row["d"].tolist() == [i, i] for i, row in enumerate(rows))
    assert sum(len(b["a"]) for b in ds.batch(16).repeat(2)) == 300
    it = iter(ds.batch(16))
    next(it)
    other = iter(ds.batch(16))
    other.load_state_dict(it.state_dict())
    assert next(other)["a"][0] == 16
    learned = sf.from_generator(lambda: ((i, float(i)) for i in range(3)))
    assert list(learned) == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert learned.batch(3).element_spec == {"0": ("int64", (), False), "1": ("float32", (), False)}


def test_generators_that_fail():
    def broken():
        yield {"a": 1}
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        list(sf.from_generator(broken))
    with pytest.raises(ValueError, match="declare output="):
        sf.from_generator(lambda: [])
    with pytest.raises(ValueError, match="column 'a': expected shape"):
        list(sf.from_generator(lambda: [{"a": np.zeros(2)}, {"a": np.zeros(3)}]))
    with pytest.raises(TypeError, match="is known only at its end"):
        len(sf.from_generator(broken))


def test_flat_map(dataset):
    rows = dataset.parse({"n": sf.int64, "words": sf.var(sf.bytes)})
    ds = rows.flat_map(lambda row: [{"word": word, "n": row["n"], "k": [i] * i}
                                    for i, word in enumerate(row["words"], 1)])
    wanted = [(word, row["n"], i) for row in rows for i, word in enumerate(row["words"], 1)]
    assert [(e["word"], e["n"], len(e["k"])) for e in ds] == wanted
    batch = next(iter(ds.batch(len(wanted))))
    assert batch["word"].tolist() == [w[0] for w in wanted]
    with pytest.raises(TypeError, match="any number of elements"):
        len(ds)
    with pytest.raises(ZeroDivisionError) as raised:
        list(rows.flat_map(lambda row: [{"q": 1 // row["n"]}], output={"q": sf.int64}))
    assert any("train-00000-of-00002: record 0" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match="declare output="):
        rows.flat_map(lambda row: [])


def test_functions_may_write_floats_of_16_bits(dataset):
    def made(row):
        return {"x": np.asarray(row["n"] / 4, np.float16), "y": np.full(row["n"] % 3, 0.5, np.float16)}
    rows = dataset.parse({"n": sf.int64})
    output = {"x": sf.float16, "y": sf.var(sf.float16)}
    for ds in (rows.map(made, output=output), rows.flat_map(lambda row: [made(row)], output=output)):
        assert {name: ds.element_spec[name] for name in output} == {"x": ("float16", (), False), "y": ("float16", (), True)}
        for row, got in zip(rows, ds):
            assert got["x"] == np.float16(row["n"] / 4) and got["y"].dtype == np.float16
            assert got["y"].tolist() == [0.5] * (row["n"] % 3)


# ---- Runs


def test_run_options_and_statistics(dataset):
    ds = dataset.parse().batch(4)
    with ds.start(cpu_share=0.5, autotune=False) as it:
        list(it)
        stats = it.stats()
    assert stats["decisions"] == [] and stats["limit"]
    assert all({"workers", "read_ahead", "invalid"} <= set(stage) for stage in stats["stages"])
    tuning = [{"stage": stage["name"], "workers": 1, "read_ahead": 3} for stage in stats["stages"]]
    with ds.start(tuning=tuning) as it:
        assert sum(len(b["n"]) for b in it) == 40
    with pytest.raises(ValueError, match="cpu_share is 2"):
        iter(ds.with_options(cpu_share=2))
    assert repr(next(iter(bytes_column(["a", "bc"]).batch(2)))["x"]) == "BytesArray([2], 3 bytes)"


# ---- Batches that go to other processes


def test_batches_can_be_pickled(sparse):
    # NumPy has two 64-bit integer types with different names.
    def text(element):
        return str(element).replace(", dtype=int64", "")

    for ds in (sparse, sparse.batch(8)):
        for element in ds.take(3):
            assert text(pickle.loads(pickle.dumps(element))) == text(element)
    words = next(iter(sparse.batch(8)))["words"].values
    assert pickle.loads(pickle.dumps(words)).tolist() == words.tolist()
    assert pickle.loads(pickle.dumps(words[:0])).tolist() == []


def test_bytes_come_from_dataloaders_workers(dataset):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    parsed = dataset.parse({"n": sf.int64, "words": sf.var(sf.bytes)}).batch(4)
    loader = data.DataLoader(sf.torch.IterableDataset(parsed), batch_size=None, num_workers=2,
                             timeout=60)
    found = {int(n): words for batch in loader
             for n, words in zip(batch["n"], batch["words"].tolist())}
    assert found == {i: [b"w%d" % i] * (i % 3 + 1) for i in range(40)}
