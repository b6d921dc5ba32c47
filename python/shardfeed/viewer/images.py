"""Images of values for browsers: encoded images, raw pixels and arrays."""

from __future__ import annotations

import base64
import itertools
import math
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import _core
from ..sources import from_arrays
from . import examples, media, values

MAX_BYTES = 256 << 10  # size of an image in a notebook, or in a report, which is to be mailed
_MOST_PIXELS = 4096  # the longer side of a decoded image
_REDUCED_PIXELS = 256  # the longer side of a reduced image: at this size, any PNG is below MAX_BYTES
_NO_IMAGE = (_core.DataLossError, OSError, RuntimeError, TypeError, ValueError)


class Unshown(ValueError):
    """A value is not an image, or cannot be decoded. The message is for users."""


class Place(NamedTuple):
    """A value that looks like an image."""

    feature: str
    number: int
    value: bytes


def places(features: Sequence[examples.Feature], most: int) -> Iterator[Place]:
    """Yields what looks like an image among the first `most` values of each feature of a record."""
    for one in features:
        for index, value in enumerate(itertools.islice(one.values, most) if one.kind == "bytes" else ()):
            kind = media.media_type(value) or ""
            if kind.startswith("image/") or kind == "array/npy" and _is_npy_image(value):
                yield Place(one.name, index, value)
            elif one.name == "image/raw" and raw_pixels(features) is not None:
                yield Place(one.name, index, value)


def image_of(features: Sequence[examples.Feature], place: Place) -> Tuple[str, bytes]:
    """Returns the media type and the bytes of what a browser can show: encoded images unchanged if browsers show
    them; others, raw pixels and arrays as PNG. Unshown: the value is not an image."""
    kind = media.media_type(place.value)
    if kind is None and place.feature == "image/raw":
        pixels = raw_pixels(features)
        if pixels is None:
            raise Unshown("the pixels do not have the size that the record states")
        return "image/png", media.png(pixels)
    if kind == "array/npy":
        array = values.npy(place.value)
        shown = None if array is None else media.image_of_array(array)
        if shown is not None:
            return "image/png", shown
    elif media.is_shown_by_browsers(kind):
        return str(kind), place.value
    elif kind is not None and kind.startswith("image/"):
        return "image/png", _decoded(place.value, _MOST_PIXELS)
    raise Unshown("is not an image")


def reduced(image: bytes) -> bytes:
    """Returns an encoded image as a PNG below MAX_BYTES. Unshown: it cannot be decoded."""
    return _decoded(image, _REDUCED_PIXELS)


def image_url(features: Sequence[examples.Feature], place: Place) -> Tuple[str, bool]:
    """Returns a URL that holds the image, and whether it is reduced to less than MAX_BYTES. Unshown: as image_of."""
    kind, image = image_of(features, place)
    if len(image) <= MAX_BYTES:
        return data_url(kind, image), False
    return data_url("image/png", reduced(image)), True


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _decoded(image: bytes, most: int) -> bytes:
    """Decodes an image, upright as browsers show it, in its own size or, if a side is longer than `most`, reduced."""
    corners = np.array([[[0, 0], [1, 1]]], np.float32)
    try:
        chain = from_arrays({"image": [image], "corners": corners})
        # In a result of one pixel, a pixel of the image has a width of 1 / width and a height of 1 / height.
        begin, end = next(iter(chain.decode_image("image", 1, output="pixels", points="corners", orient=True)))["corners"]
        width, height = (1 / np.abs(end - begin)).tolist()
        factor = min(1.0, most / max(width, height))
        size = (max(1, round(height * factor)), max(1, round(width * factor)))
        row = next(iter(chain.decode_image("image", size, output="pixels", orient=True)))
        return media.png(np.asarray(row["pixels"]))
    except _NO_IMAGE as error:
        raise Unshown(str(error).removeprefix("element 0 of epoch 0: feature 'image': ")) from None


def _is_npy_image(value: bytes) -> bool:
    array = values.npy(value)
    return array is not None and media.is_image(array)


def raw_pixels(features: Sequence[examples.Feature]) -> Optional[np.ndarray]:
    """Returns the pixels of image/raw in the shape that the record states, as convert idx and cifar write them."""
    by_name = {one.name: one for one in features}
    raw = by_name.get("image/raw")
    if raw is None or raw.kind != "bytes" or len(raw.values) != 1:
        return None
    shape: List[int] = []
    for name, default in (("height", 0), ("width", 0), ("channels", 1)):
        one = by_name.get(f"image/{name}")
        known = one is not None and one.kind == "int64" and len(one.values) == 1
        shape.append(int(one.values[0]) if known and one is not None else default)
    if min(shape) < 1 or math.prod(shape) != len(raw.values[0]) or shape[2] not in (1, 3, 4):
        return None
    return np.frombuffer(raw.values[0], np.uint8).reshape(shape)
