"""Draws charts of compare's results, one SVG for each group of workloads: charts.py RESULTS.json FOLDER"""

import json
import os
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from report import number  # noqa: E402
from results import Results, summary  # noqa: E402
from workloads import GROUPS, LESS_IS_BETTER, WORKLOADS  # noqa: E402

OURS, LIMIT, OTHER = "#0b6e4f", "#b0b0b0", "#4f7cac"
plt.rcParams.update({"svg.hashsalt": "shardfeed", "svg.fonttype": "none", "axes.xmargin": 0.15,
                     "font.size": 9, "axes.spines.top": False,
                     "axes.spines.right": False})


def color(peer):
    if peer.startswith("shardfeed"):
        return OURS
    return LIMIT if peer.startswith("bare loops") else OTHER


def draw(results, workloads, title, path):
    """Draws bars of the medians with their spread; the scale is logarithmic if peers are far apart."""
    heights = [len(results.peers(w.name)) for w in workloads]
    figure, axes = plt.subplots(len(workloads), 1, squeeze=False,
                                figsize=(8, 0.27 * sum(heights) + 0.75 * len(workloads) + 0.5),
                                gridspec_kw={"height_ratios": [h + 0.5 for h in heights]},
                                layout="constrained")
    figure.suptitle(title)
    for axis, workload in zip(axes[:, 0], workloads):
        less = workload.unit in LESS_IS_BETTER
        found = sorted(((summary(results.figures(workload.name, peer)), peer)
                        for peer in results.peers(workload.name)),
                       key=lambda pair: pair[0].median, reverse=less)
        medians = [s.median for s, _ in found]
        axis.barh([peer for _, peer in found], medians, color=[color(peer) for _, peer in found],
                  xerr=[[s.median - s.low for s, _ in found], [s.high - s.median for s, _ in found]],
                  error_kw={"ecolor": "#404040", "elinewidth": 0.8, "capsize": 2})
        if max(medians) > 20 * min(medians):
            axis.set_xscale("log")
        for y, (s, _) in enumerate(found):
            axis.annotate(number(s.median), (s.high, y), (4, 0), textcoords="offset points",
                          va="center", fontsize=8)
        axis.set_title(f"{workload.title}, {workload.unit}"
                       f"{' (less is better)' if less else ''}", loc="left", fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(source, folder):
    with open(source) as file:
        results = Results(json.load(file))
    for group, title in GROUPS.items():
        workloads = [w for w in WORKLOADS if w.group == group and results.peers(w.name)]
        if workloads:
            draw(results, workloads, title, os.path.join(folder, f"{group}.svg"))


if __name__ == "__main__":
    main(*sys.argv[1:])
