"""What the page shows of the values of a feature, as values for JSON."""

from __future__ import annotations

import io
import math
from typing import Any, Dict, Optional

import numpy as np

from . import examples, media

SHOWN_VALUES = 32  # the list of records shows this many values of a feature
SHOWN_BYTES = 300  # and this many bytes of a text
_HEX_BYTES = 64  # and this many bytes of a value that is not text
_ARRAY_VALUES = 8


def feature_shown(feature: examples.Feature, values: int = SHOWN_VALUES, text_bytes: int = SHOWN_BYTES) -> Dict[str, Any]:
    """Returns the first values of a feature. Texts are shown up to `text_bytes`, all together up to 16 times as many
    and then only their beginnings."""
    found: Dict[str, Any] = {"name": feature.name, "kind": feature.kind, "count": len(feature.values)}
    if feature.steps is not None:
        found["steps"] = feature.steps[:values]
    shown = feature.values[:values]
    if feature.kind not in ("bytes", ""):
        return {**found, "values": [number_shown(value) for value in shown.tolist()]}
    left = 16 * text_bytes
    found["values"] = []
    for value in shown:
        found["values"].append(bytes_shown(value, max(SHOWN_BYTES, min(text_bytes, left))))
        left -= len(value)
    return found


def number_shown(value: Any) -> Any:
    """JSON has no NaN; JavaScript has no large integers, and shows float32 with the digits of a double."""
    if isinstance(value, float):
        return float(str(np.float32(value))) if math.isfinite(value) else str(value)
    return value if abs(value) < 1 << 53 else str(value)


def bytes_shown(value: bytes, most: int = SHOWN_BYTES) -> Dict[str, Any]:
    """{"size", "media", "text" | "hex", "left_out": the number of bytes that are not shown}"""
    found: Dict[str, Any] = {"size": len(value)}
    kind = media.media_type(value)
    if kind is not None:
        found["media"] = kind
        if kind == "array/npy":
            found.update(_npy_shown(value))
        return found
    text = _text(value, most)
    if text is None:
        found["hex"] = value[:_HEX_BYTES].hex(" ")
    else:
        found["text"] = text
    left_out = len(value) - (min(len(value), _HEX_BYTES) if text is None else len(text.encode()))
    return {**found, "left_out": left_out} if left_out else found


def _text(value: bytes, most: int) -> Optional[str]:
    """Returns the first bytes as text, or None if they are none."""
    head = value[:most]
    try:
        # The cut may be within a character.
        text = head.decode(errors="ignore" if len(value) > most else "strict")
    except ValueError:
        return None
    if len(value) > most and len(text.encode()) < len(head) - 3:
        return None
    return None if any(ord(c) < 32 and c not in "\t\n\r" for c in text) else text


def npy(value: bytes) -> Optional[np.ndarray]:
    """Returns the array of .npy bytes, or None if they are broken; objects are never loaded."""
    try:
        array: np.ndarray = np.load(io.BytesIO(value), allow_pickle=False)
        return array
    except Exception:  # a broken header raises almost anything
        return None


def _npy_shown(value: bytes) -> Dict[str, Any]:
    array = npy(value)
    if array is None:
        return {"text": "an array that cannot be read"}
    first = [str(one) for one in array.ravel()[:_ARRAY_VALUES]]
    text = f"{array.dtype} {list(array.shape)}: {', '.join(first)}"
    if array.size > len(first):
        text += ", …" + _range_of(array)
    return {"text": text, "is_image": media.is_image(array)}


def _range_of(array: np.ndarray) -> str:
    """Returns the words on the extremes of numbers; other arrays have none."""
    if array.dtype.kind not in "biuf":
        return ""
    known = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    return f" ({known.min()} to {known.max()})" if known.size else " (all NaN)"
