"""Measurements and their summaries."""

import statistics
from typing import NamedTuple

from workloads import BY_NAME, LESS_IS_BETTER


class Summary(NamedTuple):
    median: float
    low: float
    high: float
    rounds: int


def summary(figures):
    return Summary(statistics.median(figures), min(figures), max(figures), len(figures))


def figure(workload, result):
    """The figure that one process measured, in the workload's unit."""
    unit = BY_NAME[workload].unit
    if unit == "ms":
        return 1000 * result["seconds"]
    if unit == "MiB":
        return result["memory_bytes"] / (1 << 20)
    if unit == "CPU s/1,000":
        return 1000 * result["cpu_seconds"] / result["done"]
    return result["done"] / result["seconds"]


def ratio(workload, ours, theirs):
    """The factor by which ours is better."""
    return theirs / ours if BY_NAME[workload].unit in LESS_IS_BETTER else ours / theirs


def noise_band(base):
    """The relative deviation from the median that counts as noise: half of the spread, at least 2 %."""
    found = summary(base)
    return max(0.02, (found.high - found.low) / (2 * found.median)) if found.median else 1.0


class Results:
    """The JSON of compare: the machine, the versions, every round of every process, and failures."""

    def __init__(self, data=None):
        self.data = data or {"machine": {}, "versions": {}, "runs": [], "failures": []}

    def add(self, workload, peer, result):
        self.data["runs"].append({"workload": workload, "peer": peer, **result})

    def fail(self, workload, peer, reason):
        self.data["failures"].append({"workload": workload, "peer": peer, "reason": reason})

    def forget(self, workload, peer):
        for kind in ("runs", "failures"):
            self.data[kind] = [r for r in self.data[kind]
                               if (r["workload"], r["peer"]) != (workload, peer)]

    def of(self, workload, peer):
        return [r for r in self.data["runs"] if (r["workload"], r["peer"]) == (workload, peer)]

    def peers(self, workload):
        found = []
        for r in self.data["runs"]:
            if r["workload"] == workload and r["peer"] not in found:
                found.append(r["peer"])
        return found

    def figures(self, workload, peer):
        return [figure(workload, r) for r in self.of(workload, peer)]

    def median(self, workload, peer):
        """None if it was not measured."""
        figures = self.figures(workload, peer)
        return statistics.median(figures) if figures else None

    def extra(self, workload, peer, name):
        values = [r[name] for r in self.of(workload, peer) if r.get(name) is not None]
        return statistics.median(values) if values else None

    def ratio_of(self, peer, workload, other):
        """The ratio of one peer's figures of two workloads with the same unit."""
        a, b = self.median(workload, peer), self.median(other, peer)
        return ratio(workload, a, b) if a and b else None

    def ratio(self, workload, ours, theirs):
        a, b = self.median(workload, ours), self.median(workload, theirs)
        return ratio(workload, a, b) if a and b else None
