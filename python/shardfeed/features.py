"""Declarations of the features to parse."""

from __future__ import annotations

from typing import Annotated, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .arguments import UNCHECKED, checked, shown
from .exact import exact_array


class DType(str):
    """The name of a dtype. Calling it declares a feature of that type: sf.int64(), sf.float32(3)
    and sf.bytes(default=b"") are sf.fixed((), sf.int64), sf.fixed(3, sf.float32) and so on."""

    __slots__ = ()

    def __call__(self, shape: Union[int, Sequence[int]] = (), default: Any = None,
                 raw: bool = False) -> "Feature":
        return fixed(shape, self, default, raw)


uint8 = DType("uint8")
int8 = DType("int8")
uint16 = DType("uint16")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
float16 = DType("float16")
bfloat16 = DType("bfloat16")
float32 = DType("float32")
float64 = DType("float64")
bytes_ = DType("bytes")

DTypeLike = Annotated[Union[str, type, np.dtype], UNCHECKED]
ColumnSpec = Tuple[str, str, Tuple[int, ...], bool]  # name, dtype, shape, ragged

_NAMES = {uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64, bytes_}


def dtype_name(dtype: DTypeLike) -> str:
    """Returns the library's name of a NumPy dtype, of bytes, or of a name."""
    if dtype is bytes or dtype is str:
        return "bytes"
    if not isinstance(dtype, (str, type, np.dtype)):
        hint = f"; call it: sf.{dtype.__name__}(...)" if any(
            dtype is maker for maker in _MAKERS) else ""
        raise TypeError(f"{shown(dtype)} is not a type{hint}; expected a dtype such as sf.int64, "
                        "np.float32 or bytes")
    name = str(dtype) if isinstance(dtype, str) else np.dtype(dtype).name
    if name == "bool":
        return "uint8"
    if name not in _NAMES:
        raise ValueError(f"type {name!r} does not exist; the dtypes are: {', '.join(sorted(_NAMES))}")
    return name


def _value_type(dtype: DTypeLike, raw: bool) -> str:
    """Returns the type of a feature's values; Python's float means float32, the type in records."""
    return "float32" if dtype is float and not raw else dtype_name(dtype)


def numpy_dtype(name: str) -> np.dtype:
    """Returns the NumPy dtype; bfloat16 arrives as its bits, in uint16."""
    return np.dtype("uint16" if name == bfloat16 else name)


class Feature(NamedTuple):
    """A declared feature: the result of `fixed`, `ragged`, `var` and `sparse`."""

    dtype: str
    shape: Tuple[int, ...] = ()
    is_ragged: bool = False
    default: Optional[Tuple[Any, ...]] = None
    raw: bool = False
    is_sparse: bool = False
    ragged_steps: bool = False

    def column(self, name: str) -> ColumnSpec:
        return (name, self.dtype, self.shape, self.is_ragged)

    def core(self, name: str) -> Tuple[Any, ...]:
        default = None if self.default is None else list(self.default)
        return (name, self.dtype, self.shape, self.is_ragged, default, self.raw, self.ragged_steps)


FeatureLike = Annotated[Union[Feature, str, type, np.dtype], UNCHECKED]


def as_shape(shape: Union[int, Sequence[int]]) -> Tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)


@checked
def fixed(shape: Union[int, Sequence[int]] = (), dtype: DTypeLike = float32, default: Any = None,
          raw: bool = False) -> Feature:
    """Declares rows of one shape: a batch's column is [rows, *shape].

    - `default`: the value of a row whose record lacks the feature: one value, or as many as the
      shape has. Without it, a missing feature is an error.
    - `raw`: the feature is a string of bytes that holds the row's values in memory order,
      little-endian."""
    name = _value_type(dtype, raw)
    return Feature(name, as_shape(shape), False, _defaults(default, name), raw)


def _defaults(default: Any, dtype: str) -> Optional[Tuple[Any, ...]]:
    if default is None:
        return None
    if dtype != bytes_:
        try:
            return tuple(np.ravel(exact_array(default, dtype, "default")).tolist())
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("column 'default'", "default", 1)) from None
    values = [default] if isinstance(default, (bytes, str)) else default
    if not isinstance(values, (list, tuple, np.ndarray)) or not all(
            isinstance(v, (bytes, str)) for v in values):
        raise TypeError(f"default must be bytes, or a list of bytes, not {shown(default)}")
    return tuple(v.encode() if isinstance(v, str) else v for v in values)


@checked
def ragged(dtype: DTypeLike = int64, shape: Union[int, Sequence[int]] = (),
           raw: bool = False, ragged_steps: bool = False) -> Feature:
    """Declares rows with any number of elements, each of `shape`: a batch's column is a
    `Ragged`. A record without the feature is a row without elements.

    - `ragged_steps`: for a feature list, whose steps otherwise are the elements: each step has any
      number of elements, which are those of the row, and the column NAME_lengths has their numbers."""
    return Feature(_value_type(dtype, raw), as_shape(shape), True, None, raw, False, ragged_steps)


@checked
def var(dtype: DTypeLike = int64) -> Feature:
    """Declares rows with any number of single values: `ragged(dtype)`."""
    return ragged(dtype)


@checked
def sparse(dtype: DTypeLike = int64) -> Feature:
    """Declares rows as `var` does, but a batch's column is a `Sparse`, as for
    tf.io.VarLenFeature: values, indices, shape."""
    return Feature(_value_type(dtype, False), (), True, None, False, True)


_MAKERS = (fixed, ragged, var, sparse)


def as_feature(feature: FeatureLike, name: str = "") -> Feature:
    """Returns a feature; a dtype declares one value. `name` is used in messages."""
    if isinstance(feature, Feature):
        return feature
    try:
        return fixed((), feature)
    except (TypeError, ValueError) as error:
        raise type(error)(f"feature {name!r}: {error}") from None


def as_features(features: Mapping[str, FeatureLike], what: str, lists: bool = False) -> Dict[str, Feature]:
    """Returns the features passed to `what`."""
    if not isinstance(features, Mapping):
        raise TypeError(f"{what}: expected {{name: sf.fixed(...) | sf.ragged(...) | dtype}}, got "
                        f"{type(features).__name__}")
    found = {name: as_feature(feature, name) for name, feature in features.items()}
    for name, feature in found.items():
        if feature.ragged_steps and not lists:
            raise ValueError(f"{what}: feature {name!r}: ragged_steps is for the feature_lists of parse")
    return found
