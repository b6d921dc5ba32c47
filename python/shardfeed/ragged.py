"""Rows of any length."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple


class Ragged:
    """The elements of all rows end to end, and the end of each row.

    - `values`: [elements, shape...], an array (or BytesArray, or a framework's tensor)
    - `row_splits`: int64 [rows + 1]; row r is values[row_splits[r]:row_splits[r + 1]]"""

    __slots__ = ("values", "row_splits")

    def __init__(self, values: Any, row_splits: Any):
        self.values = values
        self.row_splits = row_splits

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, row: int) -> Any:
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self.values[int(self.row_splits[row]):int(self.row_splits[row + 1])]

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def lengths(self) -> Any:
        """Returns the number of elements of each row: int64 [rows]."""
        return self.row_splits[1:] - self.row_splits[:-1]

    def tolist(self) -> List[Any]:
        return [row.tolist() for row in self]

    def padded(self, value: Any = 0, length: Optional[int] = None) -> Any:
        """Returns [rows, length, shape...], filled up with `value`; the default length is that
        of the longest row. It works on numbers in NumPy arrays. `Dataset.padded_batch` does
        the same on the library's threads."""
        import numpy as np
        lengths = np.asarray(self.lengths())
        longest = int(lengths.max()) if len(lengths) else 0
        if length is not None and longest > length:
            raise ValueError(f"a row has {longest} elements, more than the {length} to pad to")
        values = np.asarray(self.values)
        out = np.full((len(self), longest if length is None else length) + values.shape[1:], value,
                      dtype=values.dtype)
        mask = np.arange(out.shape[1]) < lengths[:, None]
        out[mask] = values[int(self.row_splits[0]):int(self.row_splits[-1])]
        return out

    def __repr__(self) -> str:
        shape = tuple(getattr(self.values, "shape", ()))
        dtype = getattr(self.values, "dtype", "bytes")
        return f"Ragged({len(self)} rows, values: {dtype} {list(shape)})"


class Sparse:
    """A sparse tensor (COO) of [rows, longest row]: the form in a batch of rows of any length
    for which `sf.sparse` or `Dataset.sparse` is used.

    - `values`: [values], an array (or BytesArray, or a framework's tensor), row by row
    - `indices`: int64 [values, 2]: the row of each value and its index in the row
    - `row_splits`: int64 [rows + 1]; row r has the values [row_splits[r], row_splits[r + 1])"""

    __slots__ = ("values", "indices", "row_splits")

    def __init__(self, values: Any, indices: Any, row_splits: Any):
        self.values = values
        self.indices = indices
        self.row_splits = row_splits

    @classmethod
    def of(cls, values: Ragged, indices: Ragged) -> "Sparse":
        return cls(values.values, indices.values, values.row_splits)

    @property
    def shape(self) -> Tuple[int, int]:
        lengths = self.row_splits[1:] - self.row_splits[:-1]
        return len(lengths), int(max(lengths, default=0))

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def ragged(self) -> Ragged:
        """Returns the same rows as a Ragged."""
        return Ragged(self.values, self.row_splits)

    def __repr__(self) -> str:
        dtype = getattr(self.values, "dtype", "bytes")
        return f"Sparse({list(self.shape)}, {len(self.values)} values of {dtype})"
