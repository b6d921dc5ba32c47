"""Frames of video files, which OpenCV decodes."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List

import pyarrow as pa

from .table import BATCH_BYTES, BATCH_ROWS, Options, Piece, Table, batch_of, damaged

_SCHEMA = pa.schema([
    ("image/encoded", pa.binary()), ("image/height", pa.int64()), ("image/width", pa.int64()), ("video", pa.string()),
    ("frame", pa.int64()), ("time", pa.float32())])
_QUALITY = 95
_TOGETHER = 32  # frames that are encoded side by side


def _cv2() -> Any:
    # FFmpeg and OpenCV would print to standard error; what is wrong is told by exceptions here.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    import cv2
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    return cv2


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    with open(path, "rb"):  # an error that names the file
        pass
    if os.path.getsize(path) == 0:
        raise damaged(path, "it is empty")
    cv2 = _cv2()
    # FFmpeg alone: other readers would take '%' in names for patterns. Absolute, so that nothing is a protocol.
    capture = cv2.VideoCapture(os.path.abspath(path), cv2.CAP_FFMPEG)
    try:
        if not capture.isOpened():
            raise damaged(path, "not a video that OpenCV can read")
        yield capture
    finally:
        capture.release()


def open_video(path: str, options: Options) -> Table:
    every = options.every
    with _opened(path) as capture:
        announced = capture.get(_cv2().CAP_PROP_FRAME_COUNT)
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
    if "image/encoded" in names and not png:
        notes.append(f"frames are JPEGs of quality {_QUALITY}; the format png keeps their pixels")

    def encoded(frame: Any) -> bytes:
        cv2 = _cv2()
        done, data = cv2.imencode(".png" if png else ".jpg", frame, [] if png else [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        if not done:
            raise damaged(path, "a frame cannot be encoded")
        return data.tobytes()

    def read() -> Iterator[Piece]:
        cv2 = _cv2()
        rows: List[Dict[str, Any]] = []
        pixels: List[Any] = []
        start = held = 0
        with _opened(path) as capture, ThreadPoolExecutor() as pool:
            def encode() -> int:
                """Replaces frames by what they are encoded to."""
                size = 0
                if "image/encoded" in names:
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
                                 "video": path, "frame": number, "time": time})
                    pixels.append(frame)
                    if len(pixels) == _TOGETHER:
                        held += encode()
                        if held >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                            yield Piece(_batch(names, rows), start)
                            start += len(rows)
                            rows, held = [], 0
                number += 1
            encode()
            if rows:
                yield Piece(_batch(names, rows), start)

    return Table(path, _SCHEMA.names, pa.schema([_SCHEMA.field(name) for name in names]), -(-frames // every), read,
                 lambda row: f" (frame {row * every})", notes)


def _batch(names: List[str], rows: List[Dict[str, Any]]) -> Any:
    return batch_of({name: pa.array([row[name] for row in rows], _SCHEMA.field(name).type) for name in names})
