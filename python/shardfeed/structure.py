"""Elements that are not plain dicts: tuples, namedtuples, nested ones.

The library knows named columns. A structure says how an element is put together from them:

    None            a dict of all columns
    "name"          the column's value itself
    {key: ...}      a dict of structures
    (type, [...])   a tuple, or a namedtuple of that type

Lists are values (rows of any length), not structures.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

Structure = Any


def flatten(element: Any) -> Tuple[Structure, Dict[str, Any]]:
    """The structure of an element and its values by column name."""
    if isinstance(element, dict) and not any(isinstance(v, (dict, tuple)) for v in element.values()):
        for key in element:
            if not isinstance(key, str):
                raise TypeError(f"a column's name is a str, not {key!r}")
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
        columns[name] = value
        return name

    structure = walk(element, "")
    return structure, columns


def values_of(element: Any, structure: Structure) -> Dict[str, Any]:
    """As flatten, and checks that the element has that structure."""
    found, columns = flatten(element)
    if found != structure:
        raise ValueError(f"the function gives {found or 'a dict'}, where it gave "
                         f"{structure or 'a dict'} for the first element")
    return columns


def build(structure: Structure, columns: Dict[str, Any]) -> Any:
    """The element that has these values."""
    if structure is None:
        return columns
    if isinstance(structure, str):
        return columns[structure]
    if isinstance(structure, dict):
        return {key: build(part, columns) for key, part in structure.items()}
    kind, parts = structure
    values = [build(part, columns) for part in parts]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def map_values(fn: Any, element: Any) -> Any:
    """The same structure with fn(value) for each value."""
    if isinstance(element, dict):
        return {key: map_values(fn, value) for key, value in element.items()}
    if isinstance(element, tuple):
        values = [map_values(fn, value) for value in element]
        return type(element)(*values) if hasattr(element, "_fields") else type(element)(values)
    return fn(element)
