"""Writes compare's results as Markdown."""

from results import ratio, summary
from workloads import BY_NAME, GROUPS, LESS_IS_BETTER, SAME_CODE, WORKLOADS

OURS = "shardfeed"


def number(value):
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def megabytes(value):
    """The text of a size; empty if another program did the work, so that little was measured."""
    return "" if value is None or value < 100_000 else number(value / (1 << 20))


def checks_crc(label, crc):
    """Whether CRCs are checked: as the peer does, unless the variant says otherwise."""
    for name, checks in crc.items():
        if label == name or label.startswith(f"{name} ("):
            variant = label[len(name):]
            return "read and CRC" in variant or (checks and "CRC off" not in variant)
    return False


def table(results, workload, crc):
    """A table of the peers of a workload, the best first."""
    less = workload.unit in LESS_IS_BETTER
    peers = sorted(results.peers(workload.name), reverse=not less,
                   key=lambda peer: results.median(workload.name, peer))
    if not peers:
        return []
    ours = results.median(workload.name, OURS)
    lines = [f"**{workload.title}** ({workload.unit}"
             f"{', not in the page cache' if workload.cold else ''})", "",
             "| | median | range | shardfeed is better by a factor of | CRC | memory, MiB |",
             "| --- | --- | --- | --- | --- | --- |"]
    for peer in peers:
        found = summary(results.figures(workload.name, peer))
        times = f"{ratio(workload.name, ours, found.median):.2f}" if ours else ""
        checks = "yes" if checks_crc(peer, crc) else "no"
        lines.append(f"| {peer} | {number(found.median)} | {number(found.low)} to {number(found.high)} "
                     f"| {'' if peer == OURS else times} | {checks} | "
                     f"{megabytes(results.extra(workload.name, peer, 'memory_bytes'))} |")
    states = [f"{peer} {number(size)} bytes" for peer in peers
              if (size := results.extra(workload.name, peer, "state_bytes"))]
    if states:
        lines += ["", f"The state: {', '.join(states)}."]
    return [*lines, ""]


def scaling(results):
    """A table of the speed-ups of two threads over one."""
    pairs = [(w, SAME_CODE[w.name]) for w in WORKLOADS if w.group == "scaling" and results.peers(w.name)]
    peers = sorted({peer for one, _ in pairs for peer in results.peers(one.name)},
                   key=lambda peer: (not peer.startswith(OURS), peer))
    if not pairs:
        return []
    lines = ["**Two threads / one thread**", "",
             "| | " + " | ".join(BY_NAME[two].title for _, two in pairs) + " |", "| --- " * (len(pairs) + 1) + "|"]
    for peer in peers:
        cells = [results.ratio_of(peer, two, one.name) for one, two in pairs]
        lines.append(f"| {peer} | " + " | ".join("" if c is None else f"{c:.2f}" for c in cells) + " |")
    return [*lines, ""]


def in_short(results):
    """A table of shardfeed's ratios to its peers, with a line for each workload."""
    lines = ["| factor by which shardfeed is better | |", "| --- | --- |"]
    for workload in WORKLOADS:
        others = [peer for peer in results.peers(workload.name) if not peer.startswith((OURS, "bare loops"))]
        ratios = sorted((results.ratio(workload.name, OURS, peer) or 0, peer) for peer in others)
        if ratios and ratios[0][0]:
            cold = ", not in the page cache" if workload.cold and "not cached" not in workload.title else ""
            said = ", ".join(f"{peer} {number(times)}" for times, peer in ratios)
            lines.append(f"| {workload.title}{cold} | {said} |")
    return [*lines, ""] if len(lines) > 2 else []


def markdown(results, crc):
    """The whole report. crc: {peer: whether it checks CRCs}."""
    data = results.data
    lines = ["# Measured", ""]
    for name, value in data["machine"].items():
        lines.append(f"- {name}: {value}")
    versions = "; ".join(f"{peer}: " + ", ".join(f"{p} {v}" for p, v in found.items())
                         for peer, found in data["versions"].items() if found)
    lines += [f"- data: {data.get('size', '')}", f"- versions: {versions}", ""]
    short = in_short(results)
    if short:
        lines += ["## In short", "", *short]
    for group, title in GROUPS.items():
        found = [line for workload in WORKLOADS if workload.group == group
                 for line in table(results, workload, crc)]
        if found:
            lines += [f"## {title}", "", *found, *(scaling(results) if group == "scaling" else [])]
    if data["failures"]:
        lines += ["## What could not be measured", ""]
        for failure in data["failures"]:
            where = f"{failure['workload']}, " if failure["workload"] else ""
            lines.append(f"- {where}{failure['peer']}: {failure['reason']}")
    return "\n".join(lines).rstrip() + "\n"
