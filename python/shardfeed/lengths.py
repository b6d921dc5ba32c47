"""Length columns of what functions return; features are measured by `shardfeed index` itself."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from . import _core
from .functions import integer_of, name_of
from .sources import read


class _Measured:
    """Calls the functions of all columns for a row."""

    def __init__(self, functions: Mapping[str, Callable[[Any], int]]):
        self.functions = dict(functions)

    def __call__(self, row: Any) -> Dict[str, int]:
        lengths = {}
        for name, fn in self.functions.items():
            lengths[name] = integer_of(fn(row), f"index: {name_of(fn)}", "a length")
            if lengths[name] < 0:
                raise ValueError(f"index: {name_of(fn)} returned a length of {lengths[name]}")
        return lengths


def _by_shard(blocks: Iterator[Dict[str, Any]], counts: Sequence[int],
              names: Sequence[str]) -> Iterator[Dict[str, Any]]:
    """Cuts the blocks, which end anywhere, at the ends of the shards."""
    held = [{name: np.empty(0, np.int64) for name in names}]
    size = 0
    for count in counts:
        while size < count:
            held.append(next(blocks))
            size += len(held[-1][names[0]])
        joined = {name: np.concatenate([block[name] for block in held]) for name in names}
        yield {name: joined[name][:count] for name in names}
        held = [{name: joined[name][count:] for name in names}]
        size -= count


def measure(specs: List[str], functions: Mapping[str, Callable[[Any], int]],
            threads: Optional[int]) -> Dict[str, Dict[str, Any]]:
    """Calls the functions for all rows and adds the lengths to the indexes, which match their
    shards. Returns what `shardfeed index --json` says of length columns."""
    if "" in functions:
        raise ValueError("index: lengths has a column without a name")
    source = read(specs)
    rows = source.parse().map(_Measured(functions), output=dict.fromkeys(functions, np.int64))
    counts = [shard[1] for shard in source._records.shards()]
    totals = dict.fromkeys(functions, 0)
    largest = dict.fromkeys(functions, 0)
    with iter(rows.with_options(threads=threads).blocks()) as blocks:
        for shard, columns in enumerate(_by_shard(blocks, counts, list(functions))):
            source._records.add_lengths(shard, {name: values.astype(np.uint64) for name, values in columns.items()})
            for name, values in columns.items():
                totals[name] += int(values.astype(np.uint64).sum())
                largest[name] = max(largest[name], int(values.max(initial=0)))
    _core.update_index_packs(specs)
    records = sum(counts)
    return {name: {"total": totals[name], "mean": totals[name] / max(records, 1), "max": largest[name],
                   "shards": len(counts)} for name in functions}
