"""Use of datasets through tf.data."""

from __future__ import annotations

from typing import Any, Iterator

import tensorflow as tf

from .dataset import Dataset
from .features import bytes_
from .frameworks import tf_converter
from .structure import SparseOf, build, leaves, without_sparse


def _spec(dtype: str, shape: Any, is_ragged: bool, batched: bool, is_sparse: bool) -> Any:
    kind = tf.string if dtype == bytes_ else tf.as_dtype("uint16" if dtype == "bfloat16" else dtype)
    dims = [None if n == 0 else n for n in shape]
    if is_sparse:
        return tf.SparseTensorSpec([None, None], kind)
    if is_ragged and batched:
        return tf.RaggedTensorSpec([None, None, *dims], kind, 1, tf.int64)
    if is_ragged or batched:
        dims = [None, *dims]
    return tf.TensorSpec(dims, kind)


def dataset(ds: Dataset) -> tf.data.Dataset:
    """Returns a tf.data.Dataset of the same elements, with their element_spec. Each run of it
    is a run of the chain; tf.data copies the values once."""
    sparse = {leaf.column for leaf in leaves(ds._structure) if isinstance(leaf, SparseOf)}
    signature = build(without_sparse(ds._structure),
                      {name: _spec(*column, ds.batched, name in sparse)
                       for name, column in ds.element_spec.items()})
    convert = tf_converter()

    def elements() -> Iterator[Any]:
        with iter(ds) as it:
            for element in it:
                yield convert(element)

    made = tf.data.Dataset.from_generator(elements, output_signature=signature)
    try:
        return made.apply(tf.data.experimental.assert_cardinality(len(ds)))
    except TypeError:
        return made
