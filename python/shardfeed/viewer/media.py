"""Media types of bytes, as far as a browser needs to know them, and encoding of pixels as PNG."""

from __future__ import annotations

import struct
import zlib
from typing import Optional

import numpy as np

# Only these are served with a type of their own. HTML and SVG are not among them: a value of a dataset must not run
# in the page.
_HEADS = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"), (b"GIF87a", "image/gif"),
          (b"GIF89a", "image/gif"), (b"BM", "image/bmp"), (b"II*\0", "image/tiff"), (b"MM\0*", "image/tiff"),
          (b"II+\0", "image/tiff"), (b"MM\0+", "image/tiff"),  # BigTIFF
          (b"fLaC", "audio/flac"), (b"OggS", "audio/ogg"), (b"ID3", "audio/mpeg"),
          (b"\xff\x0a", "image/jxl"), (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"), (b"\x93NUMPY", "array/npy"))
# Brands of the box ftyp, in the order in which the program looks for them (media/heif_header.h).
_BRANDS = ((("avif", "avis"), "image/avif"), (("heic", "heix", "heim", "heis", "hevc", "hevx", "mif1"), "image/heic"))
_UNKNOWN_TO_BROWSERS = ("image/tiff", "image/heic", "image/jxl")


def _colors(most: int) -> np.ndarray:
    """Colors of the classes of a mask that are easy to tell apart; 0, the background, is black."""
    import colorsys
    # Steps of the golden ratio keep the hues of near numbers far apart.
    colors = [colorsys.hsv_to_rgb(0.618034 * i % 1, 0.85, 0.95 - 0.25 * (i % 3 == 2)) for i in range(1, most)]
    return np.array([(0, 0, 0), *colors]) * 255


_COLORS = _colors(40).round().astype(np.uint8)


def media_type(value: bytes) -> Optional[str]:
    """Returns the media type of an image or a sound, "array/npy", or None."""
    if value[:4] in (b"RIFF", b"RF64"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(value[8:12])
    if value[4:8] == b"ftyp":
        content = value[8:min(int.from_bytes(value[:4], "big"), 1024)]
        named = {content[at:at + 4].decode("latin-1") for at in (0, *range(8, len(content), 4))}
        return next((kind for brands, kind in _BRANDS if not named.isdisjoint(brands)), None)
    # Two letters are also the beginning of texts, so a BMP must state its own size.
    if value[:2] == b"BM" and value[2:6] != struct.pack("<I", len(value) & 0xFFFFFFFF):
        return None
    known = next((kind for head, kind in _HEADS if value.startswith(head)), None)
    return "audio/mpeg" if known is None and _is_mp3_frame(value[:4]) else known


def _is_mp3_frame(head: bytes) -> bool:
    """Whether it is the header of a frame of MPEG audio, layer III, of version 1, 2 or 2.5."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer, bitrate, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3


def is_shown_by_browsers(kind: Optional[str]) -> bool:
    """Whether it is the media type of an image, and of one that need not be decoded for the page."""
    return kind is not None and kind.startswith("image/") and kind not in _UNKNOWN_TO_BROWSERS


def png(pixels: np.ndarray) -> bytes:
    """Encodes uint8 pixels [height, width] or [height, width, 1, 3 or 4] as PNG. ValueError: another shape."""
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or not pixels.size:
        raise ValueError(f"pixels of {pixels.dtype} {list(pixels.shape)} are not an image")
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, 0: none
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1))
            + chunk(b"IEND", b""))


def _interleaved(array: np.ndarray) -> np.ndarray:
    planes = array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4)
    return array.transpose(1, 2, 0) if planes else array


def is_image(array: np.ndarray) -> bool:
    """Whether numbers look like an image."""
    array = _interleaved(array)
    if array.ndim not in (2, 3) or array.ndim == 3 and array.shape[2] not in (1, 3, 4) or not array.size:
        return False
    return max(array.shape[:2]) <= 4096 and array.dtype.kind in "biuf"


def image_of_array(array: np.ndarray) -> Optional[bytes]:
    """Returns numbers of two or three dimensions as PNG: a mask, integers of few values, in one color for each; other
    uint8 unchanged; all others stretched between their extremes. None if they do not look like an image."""
    if not is_image(array):
        return None
    array = _interleaved(array)
    if array.ndim == 2 and array.dtype.kind in "biu" and 0 <= array.min() and array.max() < len(_COLORS):
        return png(_COLORS[array.astype(np.uint8)])
    if array.dtype != np.uint8:
        array = array.astype(np.float64)
        finite = array[np.isfinite(array)]
        if finite.size:  # in units of the largest, so that the difference of extremes is never infinite
            unit = np.abs(finite).max() or 1.0
            array, finite = array / unit, finite / unit
        least, most = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        scaled = (np.nan_to_num(array, nan=least, posinf=most, neginf=least) - least) / ((most - least) or 1.0)
        array = (scaled * 255).round().astype(np.uint8)
    return png(array)
