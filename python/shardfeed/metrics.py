"""Counters of runs for monitoring: as numbers by name, and as OpenMetrics, for Prometheus and programs that read its format
(https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md)."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple


class _Family(NamedTuple):
    name: str
    kind: str
    unit: str
    help: str
    key: str  # a key of stats() or of one of its stages


_RUN = [
    _Family("elements", "counter", "", "Elements delivered.", "elements"),
    _Family("rows", "counter", "", "Rows delivered.", "rows"),
    _Family("damaged_rows", "counter", "", "Rows of damaged records, delivered or dropped.", "damaged"),
    _Family("ignored_rows", "counter", "", "Rows that ignore_errors left out.", "ignored"),
    _Family("run_seconds", "counter", "seconds", "Time since the run began.", "seconds"),
    _Family("wait_seconds", "counter", "seconds", "Time that the consumer waited.", "wait_seconds"),
]
_STAGES = [
    _Family("stage_threads", "gauge", "", "Threads in use.", "workers"),
    _Family("stage_batches", "counter", "", "Batches made.", "batches"),
    _Family("stage_rows", "counter", "", "Rows made.", "rows"),
    _Family("stage_input_bytes", "counter", "bytes", "Bytes of its input.", "bytes"),
    _Family("stage_invalid_rows", "counter", "", "Rows that could not be decoded and were replaced.", "invalid"),
    _Family("stage_busy_seconds", "counter", "seconds", "Time that its threads worked.", "busy_seconds"),
    _Family("stage_input_wait_seconds", "counter", "seconds", "Time that it waited for its input.", "wait_in_seconds"),
    _Family("stage_output_wait_seconds", "counter", "seconds", "Time that others waited for it.", "wait_out_seconds"),
    _Family("stage_ahead_bytes", "gauge", "bytes", "Bytes held ahead of the consumer.", "ahead_bytes"),
]
_STORES = [
    _Family("store_requests", "counter", "", "Requests to object stores.", "requests"),
    _Family("store_retries", "counter", "", "Requests that were repeated.", "retries"),
    _Family("store_throttled", "counter", "", "Requests that the store throttled.", "throttled"),
    _Family("store_wanted_bytes", "counter", "bytes", "Bytes that were requested.", "bytes_wanted"),
    _Family("store_moved_bytes", "counter", "bytes", "Bytes that were transferred.", "bytes_moved"),
]

Labels = Dict[str, str]
Sample = Tuple[Labels, float]


def _line(name: str, labels: Labels, value: float) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    inside = ",".join(f'{key}="{quoted(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _text_of(family: _Family, samples: List[Sample]) -> Iterator[str]:
    name = f"shardfeed_{family.name}"
    yield f"# TYPE {name} {family.kind}"
    if family.unit:
        yield f"# UNIT {name} {family.unit}"
    yield f"# HELP {name} {family.help}"
    for labels, value in samples:
        yield _line(name + "_total" if family.kind == "counter" else name, labels, value)


def openmetrics(runs: Dict[int, Dict[str, Any]]) -> str:
    """Returns the text of runs, whose stats() are given by number."""
    lines: List[str] = []
    for family in _RUN:
        lines += _text_of(family, [({"run": str(run)}, stats[family.key]) for run, stats in runs.items()])
    for family in _STAGES:
        lines += _text_of(family, [({"run": str(run), "stage": stage["name"]}, stage[family.key])
                                   for run, stats in runs.items() for stage in stats["stages"]])
    limits: List[Sample] = [({"run": str(run), "limit": stats["limit"]}, 1) for run, stats in runs.items()]
    lines += ["# TYPE shardfeed_limit info", "# HELP shardfeed_limit What limits the run."]
    lines += [_line("shardfeed_limit_info", labels, value) for labels, value in limits]
    store = next((stats["store"] for stats in runs.values() if "store" in stats), None)  # the same for all runs of the process
    if store is not None:
        for family in _STORES:
            lines += _text_of(family, [({}, store[family.key])])
    return "\n".join([*lines, "# EOF", ""])


def scalars(stats: Dict[str, Any], before: Optional[Dict[str, Any]]) -> Dict[str, float]:
    """Returns what a run did between two of its stats(), by name: see Iterator.scalars."""
    past: Dict[str, Any] = before or {}
    seconds = max(stats["seconds"] - past.get("seconds", 0), 1e-9)

    def rate(now: Dict[str, Any], then: Dict[str, Any], key: str) -> float:
        return (now[key] - then.get(key, 0)) / seconds

    found = {"rows": float(stats["rows"]), "damaged": float(stats["damaged"]), "ignored": float(stats["ignored"]),
             "rows_per_second": rate(stats, past, "rows"), "elements_per_second": rate(stats, past, "elements"),
             "wait": rate(stats, past, "wait_seconds")}
    stages = {stage["name"]: stage for stage in past.get("stages", [])}
    for stage in stats["stages"]:
        name, then = stage["name"], stages.get(stage["name"], {})
        found[f"{name}/busy"] = rate(stage, then, "busy_seconds") / max(stage["workers"], 1)
        found[f"{name}/input_wait"] = rate(stage, then, "wait_in_seconds")
        found[f"{name}/output_wait"] = rate(stage, then, "wait_out_seconds")
        found[f"{name}/ahead_bytes"] = float(stage["ahead_bytes"])
    return found


def address_of(text: str) -> Tuple[str, int]:
    """HOST:PORT, where an IPv6 address is in brackets."""
    match = re.fullmatch(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:]+)):([0-9]{1,5})", text)
    if not match or not 1 <= int(match[3]) <= 65535:
        raise ValueError(f"metrics must be HOST:PORT, such as '127.0.0.1:9400' or '[::1]:9400', not {text!r}")
    return match[1] or match[2], int(match[3])
