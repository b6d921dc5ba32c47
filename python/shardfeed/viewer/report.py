"""Writes a dataset's schema, statistics and first records as one HTML file that needs nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any, Dict, Iterator, Tuple

from . import examples, images, media
from .dataset import RECORD_VALUES, ViewedDataset
from .server import SCRIPTS, page_file

_TEXT_BYTES = 4 << 10  # a report shows this many bytes of a text


def report_page(dataset: ViewedDataset, records: int) -> str:
    """Returns the page, with as many records, spread evenly over the dataset. RuntimeError: the dataset cannot be
    read. Missing: it was replaced meanwhile."""
    overview = dataset.statistics.result()
    statistics = {name: overview.pop(name) for name in ("statistics", "repeated_records", "repeated_records_is_exact")
                  if name in overview}
    records = min(records, len(dataset))
    numbers = [i * len(dataset) // records for i in range(records)]
    shown = []
    media_of: Dict[str, Any] = {}
    for number in numbers:
        shown.append(dataset.record(number, _TEXT_BYTES))
        media_of.update({f"{number}/{name}/{index}": one for name, index, one in _media_of(dataset, number)})
    dataset.check_unchanged()
    data = {"datasets": [dataset.about()], "overview": overview,
            "statistics": statistics, "records": shown, "media": media_of}
    page = page_file("page.html").decode()
    style = page_file("page.css").decode()
    scripts = "".join(page_file(name).decode() for name in SCRIPTS)
    # "<" of the data must not end the element.
    text = json.dumps(data).replace("<", "\\u003c")
    page = page.replace('<link rel="stylesheet" href="page.css">', f"<style>\n{style}</style>")
    return page.replace("\n".join(f'<script src="{name}"></script>' for name in SCRIPTS),
                        f'<script type="application/json" id="data">{text}</script>\n<script>\n{scripts}</script>')


def _media_of(dataset: ViewedDataset, number: int) -> Iterator[Tuple[str, int, Dict[str, Any]]]:
    """Yields feature and index of the images and sounds of a record, with {"url"} of what is in the report, "reduced" if
    it is a smaller one, or {"left_out": why}."""
    features = examples.features_or_whole(dataset.rows([number])[0].record)
    for place in images.places(features, RECORD_VALUES):
        try:
            url, is_reduced = images.image_url(features, place)
            yield place.feature, place.number, {"url": url, **({"reduced": True} if is_reduced else {})}
        except images.Unshown as error:
            yield place.feature, place.number, {"left_out": f"cannot be shown in a report: {error}"}
    for one in features:
        for index, value in enumerate(one.values[:RECORD_VALUES] if one.kind == "bytes" else ()):
            kind = media.media_type(value) or ""
            if kind.startswith("audio/"):
                yield one.name, index, {"url": images.data_url(kind, value)} if len(value) <= images.MAX_BYTES else {
                    "left_out": f"too large for a report, which has sounds up to {images.MAX_BYTES >> 10} KiB"}


def write_report(dataset: ViewedDataset, path: str, records: int) -> int:
    """Writes the file, whole or not at all, and returns its size. OSError: it cannot be written."""
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
        os.close(handle)
        page = report_page(dataset, records).encode()
        try:
            with open(temporary, "wb") as file:
                file.write(page)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, target)
        except OSError as error:
            raise type(error)(f"{path}: cannot write: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has its name by now, also if it was interrupted just then
            os.unlink(temporary)
    return len(page)
