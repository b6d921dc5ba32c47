"""Frames of video files, which OpenCV decodes."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List

import pyarrow as pa

from . import put_back
from .table import BATCH_BYTES, BATCH_ROWS, Options, Piece, Table, batch_of, damaged

_SCHEMA = pa.schema([
    ("image/encoded", pa.binary()), ("image/height", pa.int64()), ("image/width", pa.int64()), ("video", pa.binary()),
    ("frame", pa.int64()), ("time", pa.float32())])
_QUALITY = 95
_PIXEL_BYTES = 16 << 20  # frames of this many bytes together, or one, are encoded in parallel
_LOG_LEVEL = "OPENCV_FFMPEG_LOGLEVEL"


@contextlib.contextmanager
def _silently(cv2: Any) -> Iterator[None]:
    """FFmpeg and OpenCV would print to standard error; here, errors are exceptions."""
    logging = cv2.utils.logging
    level = logging.getLogLevel()
    given = os.environ.get(_LOG_LEVEL)
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    os.environ[_LOG_LEVEL] = "-8"
    try:
        yield
    finally:
        logging.setLogLevel(level)
        put_back(_LOG_LEVEL, given)


def _is_text(head: bytes) -> bool:
    return not any(byte < 32 and byte not in b"\t\n\f\r" or byte == 127 for byte in head)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    import cv2
    if os.path.exists(path) and not os.path.isfile(path):
        raise damaged(path, "not a regular file")
    with open(path, "rb") as file, _silently(cv2):
        head = file.read(4096)
        if not head:
            raise damaged(path, "it is empty")
        if _is_text(head):
            # Playlists and the like would have FFmpeg read other files.
            raise damaged(path, "not a video, but text")
        # By its descriptor, so that nothing in its name is a protocol, a pattern of names or a format.
        capture = cv2.VideoCapture(f"/proc/self/fd/{file.fileno()}", cv2.CAP_FFMPEG)
        try:
            if not capture.isOpened():
                raise damaged(path, "not a video that OpenCV can read")
            yield capture
        finally:
            capture.release()


def open_video(path: str, options: Options) -> Table:
    import cv2
    every = options.every
    with _opened(path) as capture:
        announced = capture.get(cv2.CAP_PROP_FRAME_COUNT)
        frames = 0
        while capture.grab():
            frames += 1
    if frames == 0:
        raise damaged(path, "not one frame of it can be decoded")
    notes = []
    if announced > frames:
        notes.append(f"it announces {int(announced)} frames, of which {frames} can be decoded; it may be cut off")
    png = options.format == "png"
    names = options.chosen(_SCHEMA.names)
    encodes = "image/encoded" in names
    if encodes and not png:
        notes.append(f"frames are JPEGs of quality {_QUALITY}; the format png keeps their pixels")

    def encoded(frame: Any) -> bytes:
        done, data = cv2.imencode(".png" if png else ".jpg", frame, [] if png else [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        if not done:
            raise damaged(path, "a frame cannot be encoded")
        return data.tobytes()

    def read() -> Iterator[Piece]:
        rows: List[Dict[str, Any]] = []
        pixels: List[Any] = []  # frames that are not encoded yet
        start = held = pixel_bytes = 0
        # As many threads as -j says.
        with _opened(path) as capture, ThreadPoolExecutor(pa.cpu_count()) as pool:
            def encode() -> int:
                size = 0
                for row, data in zip(rows[len(rows) - len(pixels):], pool.map(encoded, pixels)):
                    row["image/encoded"] = data
                    size += len(data)
                pixels.clear()
                return size

            number = 0
            while capture.grab():
                if number % every == 0:
                    time = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
                    found, frame = capture.retrieve()
                    if not found:
                        raise damaged(path, f"frame {number} cannot be decoded")
                    rows.append({"image/height": frame.shape[0], "image/width": frame.shape[1],
                                 "video": os.fsencode(path), "frame": number, "time": time})
                    if encodes:
                        pixels.append(frame)
                        pixel_bytes += frame.nbytes
                    if pixel_bytes >= _PIXEL_BYTES:
                        held += encode()
                        pixel_bytes = 0
                    if held >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                        encode()
                        yield Piece(_batch(names, rows), start)
                        start += len(rows)
                        rows, held, pixel_bytes = [], 0, 0
                number += 1
            encode()
            if rows:
                yield Piece(_batch(names, rows), start)

    return Table(path, _SCHEMA.names, pa.schema([_SCHEMA.field(name) for name in names]), -(-frames // every), read,
                 lambda row: f" (frame {row * every})", notes)


def _batch(names: List[str], rows: List[Dict[str, Any]]) -> Any:
    return batch_of({name: pa.array([row[name] for row in rows], _SCHEMA.field(name).type) for name in names})
