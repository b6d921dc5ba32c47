"""What a dry run shows: what would be written, by the first records. It is as for the kinds of the program
(cli/reports/convert_preview.cc)."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import numpy as np

from .. import _core
from ..command_line import one_line
from .converting import Source
from .screen import amount, counted, cut_end, duration
from .values import Feature

_SAMPLE = 1000  # records that are looked at
_SAMPLE_BYTES = 64 << 20
_SHOWN = 3  # records that are shown
_VALUES_SHOWN = 8
_TEXT_SHOWN = 60
_BYTES_SHOWN = 12

Row = Dict[str, Any]


class Sample(NamedTuple):
    """The first records."""

    total: int  # how many would be written
    rows: List[Row]
    sizes: List[int]  # of the records, in bytes
    converted: int  # how many were converted for it
    seconds: float  # that this took

    @property
    def bytes(self) -> int:
        """About how many there would be, before compression."""
        return sum(16 + size for size in self.sizes) * self.total // max(len(self.sizes), 1)

    def shards(self, shard_bytes: int) -> int:
        """How many shards of about this size there will be."""
        return max(1, -(-self.bytes // shard_bytes))


def take_sample(source: Source, limit: Optional[int]) -> Sample:
    """Converts the first records."""
    total = source.total(limit)
    rows: List[Row] = []
    converted = size = 0
    seconds = 0.0
    started = time.monotonic()
    with contextlib.closing(source.batches(total)) as batches:
        for batch in batches:
            seconds = time.monotonic() - started
            converted += batch.num_rows
            size += batch.nbytes
            rows += batch.slice(0, _SAMPLE - len(rows)).to_pylist()
            if len(rows) >= _SAMPLE or size >= _SAMPLE_BYTES:
                break
    encoder = _core.ExampleEncoder([])
    return Sample(total, rows, [len(encoder.encode(row)) for row in rows], converted, seconds)


# ---- Values


def _values(value: Any) -> List[Any]:
    """The values of a feature as its record has them."""
    values = value if isinstance(value, list) else [value]
    return [int(one) if isinstance(one, bool) else np.float32(one) if isinstance(one, (float, np.floating)) else one
            for one in values]


def _json(value: Any) -> Any:
    """A value for JSON, as `cat` has them."""
    if isinstance(value, np.float32):
        return float(str(value)) if np.isfinite(value) else "NaN" if np.isnan(value) else (
            "Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value


def _text(value: Any) -> str:
    """A value for people."""
    if isinstance(value, np.float32):
        short = 1e-4 <= abs(value) < 1e16 or value == 0
        return np.format_float_positional(value, trim="-") if short else str(value)
    if not isinstance(value, (bytes, str)):
        return str(value)
    data = value.encode() if isinstance(value, str) else value
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if any(c < " " and c not in "\n\t\r" for c in text):
        return f"<{len(data)} bytes: {data[:_BYTES_SHOWN].hex()}{'...' * (len(data) > _BYTES_SHOWN)}>"
    if len(data) <= _TEXT_SHOWN:
        return json.dumps(text, ensure_ascii=False)
    shown = json.dumps(data[:_TEXT_SHOWN].decode(errors="ignore"), ensure_ascii=False)
    return f"{shown}... ({len(data)} bytes)"


def _summary(values: List[Any]) -> str:
    text = ", ".join(map(_text, values[:_VALUES_SHOWN]))
    if len(values) > _VALUES_SHOWN:
        text += f", ... ({len(values)} values)"
    return text if len(values) == 1 else f"[{text}]"


def _described(name: str, feature: Feature, rows: List[Row]) -> Dict[str, Any]:
    """A feature, and what the first records have of it."""
    described: Dict[str, Any] = {"kind": feature.kind, "type": feature.type}
    if feature.noted:
        described["dtype"] = feature.noted
    if feature.shape:
        described["shape"] = list(feature.shape)
    found = [_values(row[name]) for row in rows if row[name] is not None]
    counts = [len(values) for values in found]
    described.update(records=len(found), min_values=min(counts, default=0), max_values=max(counts, default=0))
    if feature.kind == "bytes":
        sizes = [len(one.encode() if isinstance(one, str) else one) for values in found for one in values]
        described.update(min_bytes=min(sizes, default=0), max_bytes=max(sizes, default=0))
    if found:
        described["first"] = _summary(found[0])
    return described


# ---- The report


def report_of(source: Source, sample: Sample, *, dataset: Optional[str], shards: int, threads: int,
              seconds: float) -> Dict[str, Any]:
    """What a dry run returns. `seconds`: those that opening the source took."""
    shown = sample.rows[:_SHOWN]
    one = {"shards": shards, "records": sample.total, "bytes": sample.bytes}
    few = f"of the first {sample.converted:,} records: " if sample.converted < sample.total else ""
    return {
        "dry_run": True, **({} if dataset is None else {"dataset": dataset}), **one,
        "datasets": [{**one, **({} if dataset is None else {"dataset": dataset})}],
        # The source is read once more.
        "seconds": seconds + sample.seconds * sample.total / max(sample.converted, 1), "threads": threads,
        "notes": source.notes() + [few + note for note in source.notes_of_values()],
        "skipped": 0, "sampled": len(sample.rows), "not_examples": 0,
        "features": {name: _described(name, feature, sample.rows) for name, feature in source.features.items()},
        "samples": [{name: [_json(value) for value in _values(values)]
                     for name, values in sorted(row.items()) if values is not None} for row in shown],
        "first": [{name: [_json(value) for value in _values(values)] if isinstance(values, list)
                   else _json(_values(values)[0]) for name, values in row.items() if values is not None} for row in shown],
        "sample_bytes": sample.sizes[:_SHOWN]}


def _span(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _shape(feature: Mapping[str, Any]) -> str:
    if "shape" in feature:
        return str(feature["shape"])
    least, most = feature["min_values"], feature["max_values"]
    return "" if not feature["records"] else "scalar" if least == most == 1 else f"[{_span(least, most)}]"


def lines_of(report: Mapping[str, Any], notes: List[str]) -> List[str]:
    """What people are shown. `notes`: lines."""
    name = f"{one_line(report['dataset'])}: " if "dataset" in report else ""
    seconds, sampled = report["seconds"], report["sampled"]
    lines = [f"{name}{counted(report['records'], 'record')}, about {amount(report['bytes'])} in "
             f"{counted(report['shards'], 'shard')}",
             f"converting takes {'less than 0.1 s' if seconds < 0.1 else 'about ' + duration(seconds)} on "
             f"{counted(report['threads'], 'thread')}, if the disk keeps up", *notes,
             f"features of the first {sampled:,} records:"]
    rows = [["feature", "kind", "from", "values", "records", "first value"]]
    for name, one in report["features"].items():
        records = "all" if one["records"] == sampled else f"{one['records']:,} of {sampled:,}"
        rows.append([one_line(name), one["kind"], one["type"], _shape(one), records,
                     cut_end(one_line(one.get("first", "none")), _TEXT_SHOWN)])
    widths = [max(len(row[i]) for row in rows) for i in range(5)] + [0]
    lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    for number, (row, size) in enumerate(zip(report["samples"], report["sample_bytes"])):
        lines.append(f"record {number} ({amount(size)})")
        width = max(map(len, map(one_line, row)), default=0)
        for name, values in row.items():
            text = _summary([_of_json(value, report["features"][name]["kind"]) for value in values])
            lines.append(f"  {one_line(name):<{width}}  {report['features'][name]['kind']:<5}  {one_line(text)}")
    return [*lines, "nothing was written"]


def _of_json(value: Any, kind: str) -> Any:
    if kind == "float":
        return np.float32(value)
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
