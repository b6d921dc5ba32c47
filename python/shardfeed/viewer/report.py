"""Writes a dataset's schema, statistics and first records as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from typing import Any, Dict, List, Sequence

from .dataset import Missing, ViewedDataset
from .media import MAX_IMAGE_BYTES
from .server import SCRIPTS, page_file


def report_page(dataset: ViewedDataset, records: int) -> str:
    """Returns the page, with as many records, spread evenly over the dataset. RuntimeError: the dataset cannot be
    read."""
    overview = dataset.statistics.result()
    statistics = {name: overview.pop(name) for name in ("statistics", "repeated_records", "repeated_records_is_exact")
                  if name in overview}
    records = min(records, len(dataset))
    numbers = [i * len(dataset) // records for i in range(records)]
    shown = [dataset.record(number) for number in numbers]
    images: Dict[str, str] = {}
    for record in shown:
        for name, index in _images_of(record):
            try:
                kind, image = dataset.image(record["record"], name, index)
            except Missing:
                continue
            if len(image) <= MAX_IMAGE_BYTES:
                text = base64.b64encode(image).decode()
                images[f"{record['record']}/{name}/{index}"] = f"data:{kind};base64,{text}"
    data = {"datasets": [{"spec": dataset.spec, "records": len(dataset)}], "overview": overview,
            "statistics": statistics, "records": shown, "images": images}
    page = page_file("page.html").decode()
    style = page_file("page.css").decode()
    scripts = "".join(page_file(name).decode() for name in SCRIPTS)
    # "<" of the data must not end the element.
    text = json.dumps(data).replace("<", "\\u003c")
    page = page.replace('<link rel="stylesheet" href="page.css">', f"<style>\n{style}</style>")
    return page.replace("\n".join(f'<script src="{name}"></script>' for name in SCRIPTS),
                        f'<script type="application/json" id="data">{text}</script>\n<script>\n{scripts}</script>')


def _images_of(record: Dict[str, Any]) -> Sequence[Any]:
    found: List[Any] = [("image/raw", 0)] if "raw_image" in record else []
    for feature in record.get("features", []):
        for index, value in enumerate(feature["values"]):
            if isinstance(value, dict) and (str(value.get("media", "")).startswith("image/") or value.get("is_image")):
                found.append((feature["name"], index))
    return found


def write_report(dataset: ViewedDataset, path: str, records: int) -> int:
    """Writes the file, whole or not at all, and returns its size. OSError: it cannot be written."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise FileExistsError(f"{path}: is no regular file, so no report takes its place")
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        # Before the dataset is read, which may take long.
        handle, temporary = tempfile.mkstemp(prefix=".shardfeed-report-", dir=folder)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: cannot create: the folder {os.path.dirname(path)} does not exist, "
                                "create it first") from None
    except OSError as error:
        raise type(error)(f"{path}: cannot create: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            page = report_page(dataset, records).encode()
            file.write(page)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError) and temporary in (error.filename, error.filename2):
            raise type(error)(f"{path}: cannot write: {error.strerror}") from None
        raise
    return len(page)
