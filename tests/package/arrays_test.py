"""The package: arrays of batches in NumPy, torch, JAX and TensorFlow."""

import gc

import numpy as np
import pytest
from package_data import dataset, numbers, parsed, sf


def test_arrays_are_views_that_live_on(parsed):
    it = iter(parsed.batch(100))
    first = next(it)
    x, some = first["x"], first["some"].values
    copies = x.copy(), some.copy()
    assert not x.flags.owndata
    text = first["text"]
    del first
    for _ in it:
        pass
    it.close()
    gc.collect()
    assert np.array_equal(x, copies[0]) and np.array_equal(some, copies[1])
    assert text[-1] == b"record 396"
    x[0] = 7  # the memory is not shared


def test_cached_arrays_are_read_only(parsed):
    ds = parsed.batch(100).cache().repeat(2)
    for batch in ds:
        with pytest.raises(ValueError):
            batch["x"][0] = 7


def test_bytes_array(parsed):
    text = next(iter(parsed.batch(4)))["text"]
    assert len(text) == 4 and text.shape == (4,)
    assert text[1] == text[-3] == b"record 4"
    assert list(text[1:3]) == [b"record 4", b"record 8"]
    assert text[::-2].tolist() == [b"record 12", b"record 4"]
    assert text.nbytes == sum(map(len, text))
    with pytest.raises(IndexError):
        text[4]


def test_torch_tensors_share_the_memory(parsed):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    batch = next(iter(parsed.batch(10).torch()))
    assert batch["x"].shape == (10, 3) and batch["x"].dtype == torch.float32
    assert batch["some"].values.dtype == torch.int64
    array = next(iter(parsed.batch(10)))["x"]
    torch.from_numpy(array)[0, 0] = 5
    assert array[0, 0] == 5


def test_jax_arrays(parsed):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    batch = next(iter(parsed.batch(10).jax()))
    assert isinstance(batch["x"], jax.Array) and batch["x"].shape == (10, 3)


def test_tensorflow_tensors(tf, parsed):
    batch = next(iter(parsed.batch(10).tf()))
    assert batch["x"].shape == (10, 3)
    assert batch["text"].numpy()[1] == b"record 4"
    assert batch["some"].to_list()[2] == [8, 8, 8]


def test_tf_dataset(tf, parsed):
    ds = sf.tf.dataset(parsed.batch(100))
    assert ds.element_spec["x"] == tf.TensorSpec([None, 3], tf.float32)
    assert int(ds.cardinality()) == 10
    assert [n for batch in ds for n in batch["n"].numpy()] == numbers(parsed)
