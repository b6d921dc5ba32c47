"""Adapters that let the library call the user's functions. They can be pickled if the function
can."""

from __future__ import annotations

import copy
import operator
from typing import (Any, Callable, Collection, Dict, Iterator, List, Mapping, Optional, Sequence,
                    Tuple)

import numpy as np

from . import structure as structures
from ._core import BytesArray
from .arguments import shown
from .exact import exact_array
from .features import ColumnSpec, as_features, bytes_, dtype_name
from .ragged import Ragged


def _is_bytes(array: np.ndarray) -> bool:
    return array.dtype.kind in "SUO"


def _to_bytes(value: Any, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview, np.ndarray)):
        return bytes(value)
    raise TypeError(f"column {name!r}: expected bytes or str, got {type(value).__name__}")


def _byte_list(value: Any, name: str) -> List[bytes]:
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, BytesArray):
        value = value.tolist()
    flat: List[bytes] = []
    for item in value:
        if isinstance(item, (list, tuple)):
            flat.extend(_byte_list(item, name))
        else:
            flat.append(_to_bytes(item, name))
    return flat


def _array(value: Any, dtype: str, name: str) -> np.ndarray:
    array = exact_array(value, dtype, name)
    # ascontiguousarray would turn a scalar into an array of one dimension.
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _check_shape(found: Sequence[int], wanted: Sequence[int], name: str) -> None:
    # 0 in a shape is any length.
    if len(found) != len(wanted) or any(w not in (0, f) for f, w in zip(found, wanted)):
        raise ValueError(
            f"column {name!r}: expected shape {list(wanted)} (of the first element, if not of output=), "
            f"got {list(found)}; for rows of any length give lists, or declare "
            f"output={{{name!r}: sf.ragged(...)}}")


def row_value(value: Any, spec: ColumnSpec) -> Any:
    """Converts the value of one row's column for the library."""
    name, dtype, shape, is_ragged = spec
    if dtype == bytes_:
        if not is_ragged and not shape:
            return [_to_bytes(value, name)]
        return _byte_list(value, name)
    array = _array(value, dtype, name)
    if is_ragged and array.size == 0:
        return array.reshape((0,) + shape)
    _check_shape(array.shape[1:] if is_ragged else array.shape, shape, name)
    return array


def batch_value(value: Any, spec: ColumnSpec) -> Tuple[Any, Optional[Tuple[int, ...]]]:
    """Converts a batch's column for the library; also returns the shape of its rows if it
    varies."""
    name, dtype, shape, is_ragged = spec
    if is_ragged:
        if not isinstance(value, Ragged):
            raise TypeError(f"column {name!r}: expected a Ragged, as declared, got {type(value).__name__}")
        values, own = batch_value(value.values, (name, dtype, shape, False))
        return (values, _array(value.row_splits, "int64", name)), own
    if dtype == bytes_:
        if isinstance(value, BytesArray):
            return value, None
        return _byte_list(value, name), None
    array = _array(value, dtype, name)
    _check_shape(array.shape[1:], shape, name)
    return array, tuple(array.shape[1:]) if 0 in shape else None


def name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


def called(fn: Callable[..., Any], *arguments: Any) -> Any:
    """Calls fn outside a run. A StopIteration is an error, as it is in a run (PEP 479)."""
    try:
        return fn(*arguments)
    except (StopIteration, StopAsyncIteration) as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise RuntimeError(f"the function {name_of(fn)} raised {what}, which does not end the data; "
                           "give next() a default") from error


def elements_of(make: Callable[[], Any]) -> Iterator[Any]:
    """Returns an iterator over the elements of a generator function."""
    made = called(make)
    if not hasattr(type(made), "__iter__") and not hasattr(type(made), "__getitem__"):
        raise TypeError(f"from_generator: make must return an iterable of elements; {name_of(make)} "
                        f"returned {shown(made)}")
    return called(iter, made)


def _dtype_of(array: np.ndarray, value: Any, name: str) -> str:
    if _is_bytes(array) and (array.dtype.kind != "O" or all(
            isinstance(one, (bytes, str)) for one in array.flat)):
        return str(bytes_)
    # Examples store Python floats, and lists of them, as float32.
    if array.dtype == np.float64 and isinstance(value, (float, list)):
        return "float32"
    try:
        return dtype_name(array.dtype)
    except ValueError as error:
        found = array if value is None else value
        raise TypeError(f"column {name!r}: {error}; found: {shown(found)}") from None


def infer_row(name: str, value: Any) -> ColumnSpec:
    """Infers the column of a row's value. Lists become rows of any length."""
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return (name, bytes_, (), False)
    if value is None:
        raise TypeError(f"column {name!r}: None is not a value")
    if isinstance(value, list) and not value:
        raise ValueError(f"column {name!r}: the first row has an empty list, whose type is unknown; "
                         f"declare output={{{name!r}: sf.ragged(...)}}")
    array = np.asarray(value)
    dtype = _dtype_of(array, value, name)
    if isinstance(value, list):
        return (name, dtype, array.shape[1:], True)
    return (name, dtype, array.shape, False)


def infer_batch(name: str, value: Any, lengths: Collection[int]) -> ColumnSpec:
    """Infers the column of a batch's values. `lengths`: the sizes of input columns that differ from
    batch to batch."""
    if isinstance(value, Ragged):
        _, dtype, shape, _ = infer_batch(name, value.values, ())
        return (name, dtype, shape, True)
    if isinstance(value, BytesArray):
        return (name, bytes_, tuple(value.shape[1:]), False)
    array = np.asarray(value)
    if array.ndim == 0:
        raise ValueError(f"column {name!r}: expected one value for each row of the batch, got one value")
    shape = tuple(0 if i == 0 and n in lengths else n for i, n in enumerate(array.shape[1:]))
    return (name, _dtype_of(array, None, name), shape, False)


def learned(fn: Callable[..., Any], first: Any,
           batch_spec: Optional[Sequence[ColumnSpec]] = None) -> Tuple[List[ColumnSpec], Any]:
    """Returns the columns and the structure of fn(first). `first` is a row or,
    with `batch_spec`, a batch of these columns."""
    structure, values = structures.flatten(called(fn, first))
    if batch_spec is None:
        return [infer_row(k, v) for k, v in values.items()], structure
    # The sizes of columns that are padded to a length that differs from batch to batch.
    lengths = set()
    columns = structures.flatten(first)[1]
    for column, (key, _, shape, _) in zip(columns.values(), batch_spec):
        if 0 in shape:
            lengths.add(np.shape(columns.get(key, column))[1])
    return [infer_batch(k, v, lengths) for k, v in values.items()], structure


class RowFunction:
    """An adapter for fn(element) of a row."""

    def __init__(self, fn: Callable[..., Any], structure: Any, outputs: Sequence[ColumnSpec] = (),
                 output_structure: Any = None):
        self.fn = fn
        self.structure = structure
        self.outputs = tuple(outputs)
        self.output_structure = output_structure

    @property
    def name(self) -> str:
        """The name of fn, for messages."""
        return name_of(self.fn)

    def element(self, columns: Dict[str, Any]) -> Any:
        return self.fn(structures.build(self.structure, columns))

    def __call__(self, columns: Dict[str, Any]) -> List[Any]:
        return self.row(self.element(columns))

    def row(self, element: Any) -> List[Any]:
        """Converts an element that fn returned for the library."""
        values = structures.values_of(element, self.output_structure)
        if len(values) != len(self.outputs):
            raise ValueError(f"the function returned {sorted(values)}, but "
                             f"{sorted(o[0] for o in self.outputs)} are declared")
        return [row_value(values[output[0]], output) for output in self.outputs]


class PlacedFunction(RowFunction):
    """An adapter for a function that also receives the row's index in the epoch, a random generator
    that is seeded by it, or both."""

    def __init__(self, fn: Callable[..., Any], structure: Any, outputs: Sequence[ColumnSpec],
                 output_structure: Any, with_index: bool, seeded: bool):
        super().__init__(fn, structure, outputs, output_structure)
        self.with_index = with_index
        self.seeded = seeded

    def __call__(self, columns: Dict[str, Any],  # type: ignore[override]
                 place: Tuple[int, int, int]) -> List[Any]:
        return self.row(self.fn(structures.build(self.structure, columns),
                                *place_arguments(place, self.with_index, self.seeded)))


def place_arguments(place: Tuple[int, int, int], with_index: bool, seeded: bool) -> List[Any]:
    """Returns the further arguments of a function. `place` comes from the library."""
    arguments: List[Any] = [place[0]] if with_index else []
    if seeded:
        key = np.array(place[1:], np.uint64)
        arguments.append(np.random.Generator(np.random.Philox(key=key)))
    return arguments


def with_more(fn: Callable[..., Any], more: Sequence[Any], element: Any) -> Any:
    return fn(element, *more)


class BatchFunction(RowFunction):
    """An adapter for fn(element) of a batch."""

    def __call__(self, columns: Dict[str, Any]) -> Any:
        values = structures.values_of(self.element(columns), self.output_structure)
        if len(values) != len(self.outputs):
            raise ValueError(f"the function returned {sorted(values)}, but "
                             f"{sorted(o[0] for o in self.outputs)} are declared")
        taken = [batch_value(values[output[0]], output) for output in self.outputs]
        return [t[0] for t in taken], [t[1] for t in taken]


class FlatFunction(RowFunction):
    """An adapter for fn(element) that returns any number of elements."""

    def __call__(self, columns: Dict[str, Any]) -> List[Any]:
        return [self.row(element) for element in self.element(columns)]


class GeneratorFunction(RowFunction):
    """An adapter for fn() that returns an iterable of elements. A call begins a run of it and
    returns a function that returns the next row's columns, or None at the end. Each row is passed
    on at once, since fn may wait for what its consumer does with it."""

    def __call__(self) -> Callable[[], Optional[List[Any]]]:  # type: ignore[override]
        elements = elements_of(self.fn)

        def more() -> Optional[List[Any]]:
            for element in elements:
                return [self._column(*column) for column in zip(self.outputs, self.row(element))]
            return None

        return more

    @staticmethod
    def _column(spec: ColumnSpec, value: Any) -> Any:
        _, dtype, shape, is_ragged = spec
        # The library takes arrays without a copy, and fn may write to its own again.
        values = value if dtype == bytes_ else value.copy()
        if not is_ragged:
            return values
        per_element = int(np.prod(shape, dtype=np.int64)) if dtype == bytes_ else 1
        return values, np.array([0, len(values) // per_element], np.int64)


class ScanFunction(RowFunction):
    """An adapter for fn(state, element) that returns (state, element). A call begins with the
    initial state and returns a function to be called with one row after another."""

    def __init__(self, fn: Callable[..., Any], initial: Any, structure: Any,
                 outputs: Sequence[ColumnSpec], output_structure: Any):
        super().__init__(fn, structure, outputs, output_structure)
        self.initial = initial

    def __call__(self) -> Callable[[Dict[str, Any]], List[Any]]:  # type: ignore[override]
        state = copy.deepcopy(self.initial)  # fn may write to it

        def step(columns: Dict[str, Any]) -> List[Any]:
            nonlocal state
            state, element = scanned(self.fn, state, structures.build(self.structure, columns))
            return self.row(element)

        return step


def scanned(fn: Callable[..., Any], state: Any, element: Any) -> Tuple[Any, Any]:
    given = fn(state, element)
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"scan: {name_of(fn)} must return (state, row), not {shown(given)}")
    return given


def first_scanned(fn: Callable[..., Any], initial: Any, element: Any) -> Any:
    """Returns the row that fn returns for the first row."""
    return scanned(fn, copy.deepcopy(initial), element)[1]


class RowPredicate(RowFunction):
    def __call__(self, columns: Dict[str, Any]) -> Any:
        """Returns a bool."""
        return bool(self.element(columns))


def integer_of(value: Any, function: str, what: str) -> int:
    """Returns the integer of 64 bits that `function` returned as `what`."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{function} must return {what}, an integer, not {shown(value)}") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{function} returned {what} of {shown(number)}, which is beyond 64 bits")
    return number


class NumberFunction(RowFunction):
    """An adapter for fn(element) that returns an integer: `what` of the step `step`."""

    def __init__(self, fn: Callable[..., Any], structure: Any, step: str, what: str):
        super().__init__(fn, structure)
        self.step = step
        self.what = what

    def __call__(self, columns: Dict[str, Any]) -> Any:
        return integer_of(self.element(columns), f"{self.step}: {self.name}", self.what)


def key_bytes(value: Any, function: str) -> bytes:
    """Returns bytes that are the same for equal keys. `function` returned the key."""
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"b" + value
    if not isinstance(value, int):
        raise TypeError(f"{function} must return an integer, bytes or str, not {shown(value)}")
    return b"i" + value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


class KeyFunction(RowFunction):
    """An adapter for fn(element) that returns a key: an integer, bytes or str."""

    def __call__(self, columns: Dict[str, Any]) -> Any:
        """Returns bytes, which are the same for equal keys."""
        return key_bytes(self.element(columns), f"group_by_window: {self.name}")


class BatchPredicate(RowFunction):
    def __call__(self, columns: Dict[str, Any]) -> Any:
        """Returns a uint8 for each row."""
        mask = np.asarray(self.element(columns))
        if mask.ndim != 1:
            raise ValueError("filter: with batched=True the function must return one bool for each row")
        return np.ascontiguousarray(mask.astype(bool)).view(np.uint8)


def declared(output: Mapping[str, Any]) -> List[ColumnSpec]:
    """Returns the columns that output= declares."""
    return [feature.column(name) for name, feature in as_features(output, "output").items()]
