"""Elements that are not plain dicts: tuples, namedtuples and nested dicts.

The library has only named columns. A structure says how an element is built from them:

    None            a dict of all columns
    "name"          the column's value itself
    SparseOf(name)  a Sparse of the columns NAME and NAME_indices
    {key: ...}      a dict of structures
    (type, [...])   a tuple, or a namedtuple of that type

Lists are values (rows of any length), not structures.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from .ragged import Ragged, Sparse

Structure = Any


class SparseOf(NamedTuple):
    column: str

    @property
    def indices(self) -> str:
        return f"{self.column}_indices"


def with_sparse(structure: Structure, columns: Sequence[str], sparse: Sequence[str]) -> Structure:
    """Returns the structure of batches of rows that have `structure`, where the columns `sparse`
    are Sparse. `columns` are all columns of the rows."""
    if structure is None:
        structure = {name: name for name in columns}
    return _map_names(lambda name: SparseOf(name) if name in sparse else name, structure)


def without_sparse(structure: Structure) -> Structure:
    """Returns the structure with plain columns instead of Sparse ones."""
    return _map_names(lambda name: name, structure)


def leaves(structure: Structure) -> List[Structure]:
    """Returns the names and SparseOfs of a structure."""
    found: List[Structure] = []
    if isinstance(structure, (str, SparseOf)):
        found.append(structure)
    elif structure is not None:
        parts = structure.values() if isinstance(structure, dict) else structure[1]
        for part in parts:
            found += leaves(part)
    return found


def _map_names(fn: Any, structure: Structure) -> Structure:
    if structure is None:
        return None
    if isinstance(structure, str):
        return fn(structure)
    if isinstance(structure, SparseOf):
        return fn(structure.column)
    if isinstance(structure, dict):
        return {key: _map_names(fn, part) for key, part in structure.items()}
    kind, parts = structure
    return (kind, [_map_names(fn, part) for part in parts])


def flatten(element: Any) -> Tuple[Structure, Dict[str, Any]]:
    """Returns the structure of an element and its values by column name."""
    if isinstance(element, dict) and not any(isinstance(v, (dict, tuple, Sparse))
                                             for v in element.values()):
        for key in element:
            if not isinstance(key, str):
                raise TypeError(f"the name of a column must be a str, not {key!r}")
        return None, element
    columns: Dict[str, Any] = {}

    def walk(value: Any, name: str) -> Structure:
        if isinstance(value, dict):
            return {key: walk(v, f"{name}.{key}" if name else str(key)) for key, v in value.items()}
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", range(len(value)))
            return (type(value),
                    [walk(v, f"{name}.{field}" if name else str(field))
                     for field, v in zip(fields, value)])
        name = name or "value"
        if name in columns:
            raise ValueError(f"two values would be named {name!r}")
        if isinstance(value, Sparse):
            leaf = SparseOf(name)
            columns[name] = value.ragged()
            columns[leaf.indices] = Ragged(value.indices, value.row_splits)
            return leaf
        columns[name] = value
        return name

    structure = walk(element, "")
    return structure, columns


def values_of(element: Any, structure: Structure) -> Dict[str, Any]:
    """Returns the values of an element by column name. ValueError: it has another structure."""
    found, columns = flatten(element)
    if found != structure:
        raise ValueError(f"the function returned {found or 'a dict'}, but {structure or 'a dict'} for "
                         "the first element")
    return columns


def build(structure: Structure, columns: Dict[str, Any]) -> Any:
    """Builds the element that has these values."""
    if structure is None:
        return columns
    if isinstance(structure, str):
        return columns[structure]
    if isinstance(structure, SparseOf):
        return Sparse.of(columns[structure.column], columns[structure.indices])
    if isinstance(structure, dict):
        return {key: build(part, columns) for key, part in structure.items()}
    kind, parts = structure
    values = [build(part, columns) for part in parts]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def map_values(fn: Any, element: Any) -> Any:
    """Returns the element with each value replaced by fn(value)."""
    if isinstance(element, dict):
        return {key: map_values(fn, value) for key, value in element.items()}
    if isinstance(element, tuple):
        values = [map_values(fn, value) for value in element]
        return type(element)(*values) if hasattr(element, "_fields") else type(element)(values)
    return fn(element)
