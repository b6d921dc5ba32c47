"""Conversion of elements to tensors of PyTorch, JAX and TensorFlow, without a copy where
possible."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .ragged import Ragged, Sparse
from .receivers import sharded
from .structure import map_values


def _converter(array: Callable[[np.ndarray], Any],
               sparse: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    """sparse(values, indices, shape) is called for Sparses of numbers."""
    def value(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            return array(v)
        if isinstance(v, Ragged):
            return Ragged(value(v.values), value(v.row_splits))
        if isinstance(v, Sparse):
            if isinstance(v.values, np.ndarray):
                return sparse(array(v.values), array(v.indices), v.shape)
            return Sparse(v.values, value(v.indices), value(v.row_splits))
        return v  # bytes, numbers

    return lambda element: map_values(value, element)


def torch_converter() -> Callable[[Any], Any]:
    """Returns a converter: arrays become torch.Tensors that share their memory (copies if it is
    read-only), and Sparses become sparse COO tensors."""
    import torch

    def array(a: np.ndarray) -> Any:
        return torch.from_numpy(a if a.flags.writeable else a.copy())

    def sparse(values: Any, indices: Any, shape: Any) -> Any:
        return torch.sparse_coo_tensor(indices.T, values, shape, is_coalesced=True,
                                       check_invariants=False)

    return _converter(array, sparse)


def jax_converter(sharding: Any = None) -> Callable[[Any], Any]:
    """Returns a converter: arrays become jax.Arrays, without a copy on the CPU if they are
    aligned, and Sparses become BCOOs; with a sharding, arrays become parts of global arrays."""
    import jax
    if sharding is not None:
        place = sharded(sharding)
        return lambda element: map_values(place, element)

    def array(a: np.ndarray) -> Any:
        try:
            return jax.dlpack.from_dlpack(a)
        except (BufferError, TypeError, ValueError, RuntimeError):
            return jax.numpy.asarray(a)

    def sparse(values: Any, indices: Any, shape: Any) -> Any:
        from jax.experimental.sparse import BCOO
        return BCOO((values, indices), shape=shape, indices_sorted=True, unique_indices=True)

    return _converter(array, sparse)


def tf_converter() -> Callable[[Any], Any]:
    """Returns a converter: arrays become eager tf.Tensors, without a copy if they are aligned;
    bytes become strings, Raggeds become RaggedTensors and Sparses become SparseTensors."""
    import tensorflow as tf
    from ._core import BytesArray

    def value(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            try:
                return tf.experimental.dlpack.from_dlpack(v.__dlpack__())
            except Exception:  # varies with the version; the array is read-only or not aligned
                return tf.convert_to_tensor(v)
        if isinstance(v, BytesArray):
            return tf.constant(v.tolist(), dtype=tf.string, shape=v.shape)
        if isinstance(v, Ragged):
            return tf.RaggedTensor.from_row_splits(value(v.values), value(v.row_splits),
                                                   validate=False)
        if isinstance(v, Sparse):
            return tf.SparseTensor(value(v.indices), value(v.values), v.shape)
        return v

    return lambda element: map_values(value, element)


CONVERTERS = {"torch": torch_converter, "jax": jax_converter, "tf": tf_converter}
