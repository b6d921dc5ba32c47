"""Conversion of values to a column's type: a value that does not fit is an error, never changed."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from .arguments import shown

_DTYPES: Dict[str, np.dtype] = {name: np.dtype(name) for name in (
    "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64")}
_DTYPES["bfloat16"] = _DTYPES["uint16"]  # its bits
_RANGES = {name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
           for name, dtype in _DTYPES.items() if dtype.kind in "iu"}
_LARGEST = {name: float(np.finfo(dtype).max) for name, dtype in _DTYPES.items() if dtype.kind == "f"}


def check_no_nulls(name: str, value: Any) -> None:
    """NumPy would make NaN of the missing values of a column of pyarrow, polars or pandas, and floats of its
    integers. TypeError: it has some."""
    count = getattr(value, "null_count", 0)
    if callable(count):  # polars
        count = count()
    if not count and hasattr(value, "isna") and not isinstance(getattr(value, "dtype", None), np.dtype):
        count = int(value.isna().sum())  # of pandas' types of its own; those of NumPy have NaN
    if isinstance(count, int) and count > 0:
        raise TypeError(f"column {name!r}: it has {count} missing value{'' if count == 1 else 's'}, which an array "
                        "cannot have; fill them, or give the whole table (sf.from_arrow, sf.from_pandas, "
                        "writer.write_batch(table))")


def exact_array(value: Any, dtype: str, column: str) -> np.ndarray:
    """Returns the value as an array of the type. Floats may be rounded to the precision of the
    type; integers must be in its range and, in a column of floats, exactly representable.
    TypeError: another kind of value, such as floats for integers. ValueError: a value that does
    not fit."""
    wanted = _DTYPES[dtype]
    if type(value) is int and dtype in _RANGES:
        least, most = _RANGES[dtype]
        if not least <= value <= most:
            raise ValueError(_does_not_fit(column, dtype, value))
        return np.array(value, wanted)
    if type(value) is float and abs(value) <= _LARGEST.get(dtype, -1):
        return np.array(value, wanted)
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"column {column!r}: {error}") from None
    return array if array.dtype == wanted else _converted(array, value, wanted, dtype, column)


def _converted(array: np.ndarray, value: Any, wanted: np.dtype, dtype: str,
               column: str) -> np.ndarray:
    kind = array.dtype.kind
    if array.size == 0 and kind in "biuf":
        return array.astype(wanted)
    if kind == "O" and all(isinstance(one, (int, np.integer)) for one in array.flat):
        least, most = _RANGES.get(dtype, (-(1 << 53), 1 << 53))
        for one in array.flat:
            if not least <= one <= most:
                raise ValueError(_does_not_fit(column, dtype, one))
        return array.astype(wanted)
    if kind not in "biuf":
        found = type(value).__name__ if kind in "OSU" else str(array.dtype)
        raise TypeError(f"column {column!r}: {found} where {dtype} is declared: {shown(value)}")
    if kind == "f" and wanted.kind in "iu":
        raise TypeError(f"column {column!r}: {array.dtype} where {dtype} is declared: "
                        f"{shown(value)}; round it and give integers if that is intended")
    # NumPy considers 64-bit integers safe in float64.
    if array.dtype.itemsize + (wanted.kind == "f") <= 8 and np.can_cast(array.dtype, wanted, "safe"):
        return array.astype(wanted)
    if kind == "f":
        with np.errstate(over="ignore"):
            converted = array.astype(wanted)
        bad = np.isinf(converted)
        if not bad.any():
            return converted
        bad &= np.isfinite(array)
    elif wanted.kind in "iu":
        converted = array.astype(wanted)
        least, most = _RANGES[dtype]
        # Use the bounds of both types: a comparison across them would round.
        info = np.iinfo(array.dtype)
        bad = (array < max(least, int(info.min))) | (array > min(most, int(info.max)))
    else:
        converted = array.astype(wanted)
        # A long double holds every 64-bit integer.
        bad = converted.astype(np.longdouble) != array.astype(np.longdouble)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0]) if array.ndim else ()
        raise ValueError(_does_not_fit(column, dtype, array[at].item(),
                                       f" at {list(at)}" if at else ""))
    return converted


def _does_not_fit(column: str, dtype: str, value: Any, place: str = "") -> str:
    why = f"{dtype} has {_RANGES[dtype][0]} to {_RANGES[dtype][1]}" if dtype in _RANGES else (
        f"{dtype} cannot hold it" + ("; give a float if it may be rounded"
                                       if isinstance(value, int) else ""))
    return f"column {column!r}: {shown(value)}{place} does not fit: {why}"
