"""Elements as tensors of PyTorch, JAX and TensorFlow, in place where the framework can."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .ragged import Ragged
from .structure import map_values


def _converter(array: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    def value(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            return array(v)
        if isinstance(v, Ragged):
            return Ragged(value(v.values), value(v.row_splits))
        return v  # bytes, numbers

    return lambda element: map_values(value, element)


def torch_converter() -> Callable[[Any], Any]:
    """Arrays become torch.Tensors of the same memory (copies where it is read-only)."""
    import torch

    def array(a: np.ndarray) -> Any:
        return torch.from_numpy(a if a.flags.writeable else a.copy())

    return _converter(array)


def jax_converter() -> Callable[[Any], Any]:
    """Arrays become jax.Arrays, in place on the CPU where they are aligned."""
    import jax

    def array(a: np.ndarray) -> Any:
        try:
            return jax.dlpack.from_dlpack(a)
        except (BufferError, TypeError, ValueError, RuntimeError):
            return jax.numpy.asarray(a)

    return _converter(array)


def tf_converter() -> Callable[[Any], Any]:
    """Arrays become eager tf.Tensors, in place where they are aligned; bytes become strings and
    Raggeds RaggedTensors."""
    import tensorflow as tf
    from ._core import BytesArray

    def value(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            try:
                return tf.experimental.dlpack.from_dlpack(v.__dlpack__())
            except Exception:  # of tf.errors, by version: read-only, no alignment
                return tf.convert_to_tensor(v)
        if isinstance(v, BytesArray):
            return tf.constant(v.tolist(), dtype=tf.string, shape=v.shape)
        if isinstance(v, Ragged):
            return tf.RaggedTensor.from_row_splits(value(v.values), value(v.row_splits),
                                                   validate=False)
        return v

    return lambda element: map_values(value, element)


CONVERTERS = {"torch": torch_converter, "jax": jax_converter, "tf": tf_converter}
