"""Arrays whose first dimensions are the rows: datasets of HDF5, and NumPy's archives."""

from __future__ import annotations

import contextlib
import math
import zipfile
import zlib
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import pyarrow as pa

from .._core import DataLossError
from .table import Columns, Options, Piece, Table, batch_of, batch_rows, damaged

class Array(NamedTuple):
    """A named array: rows of one shape and type."""

    rows: int
    shape: Tuple[int, ...]  # the shape of a row
    dtype: np.dtype
    row_bytes: int


# ---- Rows of NumPy as columns of Arrow


def _check_dtype(where: str, dtype: np.dtype, remedy: str) -> None:
    if dtype.names is not None:
        for name in dtype.names:
            _check_dtype(f"{where}, field {name!r}", dtype.fields[name][0], remedy)  # type: ignore[index]
    elif dtype.subdtype is not None:
        _check_dtype(where, dtype.subdtype[0], remedy)
    elif dtype.kind == "O" and _object_type(dtype) is None:
        raise damaged(where, f"values of type object have no counterpart in features, and pickles of them are never "
                             f"loaded, since that runs code in them; {remedy}")
    elif dtype.kind not in "biufSUMmO" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise damaged(where, f"features have no counterpart of values of type {dtype}; {remedy}")


def _mark(dtype: np.dtype, name: str) -> Any:
    """What h5py says of a type."""
    marks: Dict[str, Any] = dict(dtype.metadata or {})  # type: ignore[arg-type]
    return marks.get(name)


def _object_type(dtype: np.dtype) -> Any:
    """The type of Arrow that objects become: the strings and lists of any length that h5py marks as such. None:
    other objects."""
    inner = _mark(dtype, "vlen")
    if inner in (str, bytes):
        return pa.string() if inner is str else pa.binary()
    if isinstance(inner, np.dtype) and inner.kind in "biuf" and inner.itemsize <= 8:
        return pa.large_list(pa.from_numpy_dtype(inner.newbyteorder("=")))
    return None


def _bytes(values: List[bytes], is_text: bool) -> Any:
    """Whether texts are UTF-8 is checked when they become a feature."""
    made = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(made), made.buffers()) if is_text else made


def _objects(kind: Any, values: np.ndarray) -> Any:
    if not pa.types.is_large_list(kind):
        return _bytes(values.tolist(), is_text=pa.types.is_string(kind))
    lengths = [len(one) for one in values]
    flat = np.concatenate([np.empty(0, kind.value_type.to_pandas_dtype()), *values]).astype(
        kind.value_type.to_pandas_dtype(), copy=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat))


def _strings(values: np.ndarray, dtype: np.dtype) -> Any:
    """Strings of NumPy, and those of HDF5 that have a fixed length, which h5py marks if they are declared UTF-8; ASCII
    is declared for any bytes. pyarrow.array would end each at its first NUL."""
    if values.dtype.kind == "S":
        return _bytes(values.tolist(), is_text=_mark(dtype, "h5py_encoding") == "utf-8")
    # Lone surrogates are refused when they become a feature.
    return _bytes([text.encode("utf-8", "surrogatepass") for text in values.tolist()], is_text=True)


def _add(columns: Columns, name: str, values: np.ndarray, dtype: np.dtype,
         shapes: Optional[Dict[str, Tuple[int, ...]]] = None) -> None:
    """Adds the column of an array, or those of the fields of an array of structures, and the shapes of their rows to
    `shapes`. `dtype`: with the marks of h5py, which the values' own may lack."""
    if dtype.names is not None:
        for field in dtype.names:
            inner = dtype.fields[field][0]  # type: ignore[index]
            _add(columns, f"{name}.{field}", values[field], inner.subdtype[0] if inner.subdtype else inner, shapes)
        return
    values = np.ascontiguousarray(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    rows, shape = len(values), values.shape[1:]
    width = math.prod(shape)
    if values.dtype == np.uint8 and len(shape) >= 2:
        # As the kind npy has images.
        columns[name] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(values)])
        return
    flat = values.reshape(-1)
    if dtype.kind == "O":
        made = _objects(_object_type(dtype), flat)
    elif dtype.kind in "SU":
        made = _strings(flat, dtype)
    else:
        made = pa.array(flat)
    if shape:
        if shapes is not None and width > 0 and not pa.types.is_large_list(made.type):
            shapes[name] = shape
        made = pa.LargeListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int64) * width), made)
    columns[name] = made


def _shape_note(name: str, array: Array) -> List[str]:
    names = _mark(array.dtype, "enum")
    if names:
        shown = ", ".join(f"{number} is {key}" for key, number in list(names.items())[:20])
        return [f"column {name!r}: its values are numbers: {shown}{', ...' * (len(names) > 20)}"]
    if not array.shape or array.dtype.names is not None:
        return []
    if array.dtype == np.uint8 and len(array.shape) >= 2:
        return [f"column {name!r}: rows of shape {list(array.shape)} are bytes, value by value"]
    return [f"column {name!r}: rows of shape {list(array.shape)} are flat lists of {math.prod(array.shape)} values"]


Rows = Callable[[List[str], int], Iterator[Tuple[int, Columns]]]  # takes names, and the most rows of a batch


def _table(path: str, arrays: Dict[str, Array], options: Options, what: str, remedy: str, read: Rows,
           notes: List[str]) -> Table:
    if not arrays:
        raise damaged(path, f"it has no {what}s with rows")
    names = options.chosen(list(arrays))
    empty: Columns = {}
    shapes: Dict[str, Tuple[int, ...]] = {}
    for name in names:
        _check_dtype(f"{path}: {what} {name!r}", arrays[name].dtype, remedy)
        if arrays[name].rows != arrays[names[0]].rows:
            raise damaged(path, f"{what} {names[0]!r} has {arrays[names[0]].rows} rows, and {what} {name!r} has "
                                f"{arrays[name].rows}; choose those that belong together (columns)")
        notes = notes + _shape_note(name, arrays[name])
        _add(empty, name, np.empty((0, *arrays[name].shape), arrays[name].dtype), arrays[name].dtype, shapes)

    def pieces() -> Iterator[Piece]:
        size = batch_rows(sum(arrays[name].row_bytes for name in names))
        for first, columns in read(names, size):
            yield Piece(batch_of(columns), first)

    rows = arrays[names[0]].rows if names else 0
    return Table(path, list(arrays), batch_of(empty).schema, rows, pieces, notes=notes, shapes=shapes)


# ---- NumPy's archives


def open_npz(path: str, options: Options) -> Table:
    with open(path, "rb"):
        pass
    arrays: Dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    raise damaged(path, f"its member {info.filename!r} is not an array (.npy): no archive of NumPy")
                with archive.open(info) as member:
                    arrays[info.filename[:-4]] = _header(f"{path}: array {info.filename[:-4]!r}", member)
    except DataLossError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise damaged(path, f"not an archive of NumPy (.npz), or damaged: {error}") from None

    def read_bytes(where: str, member: IO[bytes], size: int) -> bytes:
        try:
            return member.read(size)
        except (zipfile.BadZipFile, OSError, EOFError, zlib.error) as error:
            raise damaged(where, error) from None

    def read(names: List[str], size: int) -> Iterator[Tuple[int, Columns]]:
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            members = {name: stack.enter_context(archive.open(name + ".npy")) for name in names}
            for name, member in members.items():
                _header(path, member)
            rows = arrays[names[0]].rows if names else 0
            for first in range(0, rows, size):
                count = min(size, rows - first)
                columns: Columns = {}
                for name, member in members.items():
                    array = arrays[name]
                    where = f"{path}: array {name!r}, from row {first} on"
                    data = read_bytes(where, member, count * array.row_bytes)
                    if len(data) != count * array.row_bytes:
                        raise damaged(where, f"{len(data)} bytes follow where its header announces "
                                             f"{count * array.row_bytes}: the array is cut off")
                    values = np.frombuffer(data, array.dtype).reshape(count, *array.shape)
                    _add(columns, name, values, array.dtype)
                yield first, columns
            for name, member in members.items():
                if read_bytes(f"{path}: array {name!r}", member, 1):
                    raise damaged(f"{path}: array {name!r}", "more bytes follow than its header announces")

    return _table(path, arrays, options, "array", "save an array of another type, or choose others (columns)", read, [])


def _header(where: str, member: IO[bytes]) -> Array:
    try:
        version = np.lib.format.read_magic(member)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in header:
            raise ValueError(f"its format has the version {version}, and 1.0 and 2.0 are known")
        shape, fortran, dtype = header[version](member)
    except ValueError as error:
        raise damaged(where, f"not an array of NumPy: {error}") from None
    if not shape:
        raise damaged(where, "a single value, which has no rows; choose others (columns)")
    if fortran and len(shape) > 1:
        raise damaged(where, "in Fortran order; save numpy.ascontiguousarray(x)")
    return Array(shape[0], shape[1:], dtype, math.prod(shape[1:]) * dtype.itemsize)


# ---- HDF5


def open_hdf5(path: str, options: Options) -> Table:
    import h5py

    def opened() -> Any:
        with open(path, "rb"):
            pass
        try:
            return h5py.File(path, "r")
        except OSError as error:
            raise damaged(path, f"not a file of HDF5, or cut off: {error}") from None

    arrays: Dict[str, Array] = {}
    notes: List[str] = []

    groups: Set[int] = set()

    def visit(group: Any, prefix: str) -> None:
        address = h5py.h5o.get_info(group.id).addr
        if address in groups:
            notes.append(f"{prefix!r} was left out: it is a group that has another name, too")
            return
        groups.add(address)
        for key in group:
            name = prefix + key
            link = group.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink):
                notes.append(f"{name!r} was left out: it is a link")
                continue
            item = group[key]
            if isinstance(item, h5py.Group):
                visit(item, name + "/")
            elif isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                # A file from elsewhere must not name files of this machine.
                notes.append(f"{name!r} was left out: its values are in other files")
            elif isinstance(item, h5py.Dataset) and item.shape:
                arrays[name] = Array(item.shape[0], item.shape[1:], item.dtype,
                                     math.prod(item.shape[1:]) * max(item.dtype.itemsize, 1))
            else:
                notes.append(f"{name!r} was left out: it has no rows")

    with opened() as file:
        try:
            visit(file, "")
        except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
            raise damaged(path, error) from None

    def read(names: List[str], size: int) -> Iterator[Tuple[int, Columns]]:
        with opened() as file:
            rows = arrays[names[0]].rows if names else 0
            for first in range(0, rows, size):
                columns: Columns = {}
                for name in names:
                    try:
                        _add(columns, name, file[name][first:first + size], arrays[name].dtype)
                    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
                        raise damaged(f"{path}: dataset {name!r}, from row {first} on", error) from None
                yield first, columns

    return _table(path, arrays, options, "dataset", "choose others (columns)", read, notes)
