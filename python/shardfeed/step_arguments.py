"""Conversion of step arguments for the extension."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .arguments import shown


def count(step: str, what: str, value: Any, least: int = 0) -> int:
    """Returns the integer argument of a step, which may be a NumPy integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{step}: {what} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{step}: {what} must be at least {least}, not {value}")
    if value >= 1 << 63:
        raise ValueError(f"{step}: {what} must be at most {(1 << 63) - 1}, not {value}")
    return int(value)


def size(size: Union[int, Sequence[int]]) -> Tuple[int, int]:
    if isinstance(size, (int, np.integer)):
        size = [size, size]
    if len(size) != 2:
        raise ValueError(f"size must be one number of pixels, or (height, width), got {size!r}")
    height, width = int(size[0]), int(size[1])
    # The library's own check gets these as unsigned numbers.
    if min(height, width) < 0 or max(height, width) > 65535:
        raise ValueError(f"decode_image: width and height must be 1 to 65535 pixels, got {width} x {height}")
    return height, width


def two(name: str, values: Sequence[float]) -> Tuple[float, float]:
    if len(values) != 2:
        raise ValueError(f"{name} must be two numbers, minimum and maximum, got {values!r}")
    return float(values[0]), float(values[1])


def channels(values: Union[float, Sequence[float], None], channels: int) -> List[float]:
    if values is None:
        return []
    if isinstance(values, (int, float)):
        return [float(values)] * channels
    return [float(v) for v in values]


def joint_columns(**options: Any) -> Dict[str, Any]:
    """Returns the fields of JointColumns. Columns are one name or several."""
    lists = {"masks", "views", "boxes", "box_columns", "points"}
    return {name: ([value] if isinstance(value, str) else list(value)) if name in lists else value
            for name, value in options.items()}


def joint_text(fields: Mapping[str, Any]) -> str:
    """Returns the columns that are named, each after ", "."""
    return "".join(f", {name}={value!r}" for name, value in fields.items()
                   if isinstance(value, list) and value)


def given(options: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def padding(step: str, padding: Optional[Mapping[str, Any]]) -> Dict[str, Tuple[int, Any]]:
    """Returns (length, value) for each column, where the value is an int, a float or bytes."""
    made = {}
    for name, how in (padding or {}).items():
        length, value = how if isinstance(how, tuple) and len(how) == 2 else (0, how)
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, (np.integer, np.floating, np.bool_)):
            value = value.item()
        if not isinstance(value, (int, float, bytes)):
            raise TypeError(f"{step}: padding: column {name!r} takes a number, bytes, or (length, "
                            f"one of these), not {shown(how)}")
        made[name] = (count(f"{step}: padding: column {name!r}", "the length", length), value)
    return made
