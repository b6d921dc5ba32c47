"""--only-shards and --job, by which tasks write a dataset together: as the kinds of the program have them
(cli/flags/job_flags.cc)."""

from __future__ import annotations

import argparse
import re
from typing import List, NamedTuple, Optional, Sequence

from ..command_line import Misuse


_MOST_SHARDS = 1_000_000  # a dataset has no more: shard/spec/spec.cc


class Shards(NamedTuple):
    """What a task writes: some shards of a dataset, ascending."""

    numbers: List[int]
    of: int  # how many the dataset has


def _whole(text: str, wanted: str) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise Misuse(wanted)
    return int(text)


def _numbers(text: str, count: int) -> List[int]:
    """The shards of a list such as 0,3,5-7 or 8-, ascending."""
    wanted = f"'{text}': expected a list of shard numbers such as 0,5,10-19 or 100-"
    found = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = _whole(first, wanted)
        end = (count if dash and not last else _whole(last, wanted) + 1 if dash else begin + 1)
        if last and end <= begin:
            raise Misuse(wanted)
        if begin >= count or end > count:
            raise Misuse(f"shard {begin if begin >= count else end - 1} does not exist: there are {count} shards, "
                         "numbered from 0")
        found |= set(range(begin, end))
    return sorted(found)


def listed(shards: Sequence[int], separator: str) -> str:
    """Numbers that ascend, as 3,7-9."""
    texts: List[str] = []
    first = 0
    for i, shard in enumerate(shards):
        if i + 1 < len(shards) and shards[i + 1] == shard + 1:
            continue
        texts.append(f"{shard}" if first == i else f"{shards[first]}-{shard}")
        first = i + 1
    return separator.join(texts)


def shards_in(out: str) -> int:
    """The number of shards that a name has. 0: it has none."""
    count = re.search(r"@([0-9]{1,20})(\.|$)", out.rpartition("/")[2])
    return 0 if count is None else int(count[1])


def shards_of(given: argparse.Namespace) -> Optional[Shards]:
    """What a command with --only-shards and --job writes. None: it has neither. Misuse: arguments do not go together."""
    if given.only_shards is None and given.job is None:
        return None
    if not given.job:
        raise Misuse("--only-shards: tasks that write some of the shards need a name for their job, --job ID")
    if not given.only_shards:
        raise Misuse("--job: a task of a job needs the numbers of the shards that it writes, --only-shards A-B")
    for is_given, flag, instead in (
            (given.resume, "--resume", "a task that runs again keeps what is finished in any case"),
            (given.shard_size is not None, "--shard-size", "all tasks need one number of shards, OUT@N"),
            (bool(given.streams), ("standard input, -," if "-" in given.streams else "a pipe"), "each task reads the whole input; name files"),
            (given.dry_run, "--dry-run", "it shows the whole dataset")):
        if is_given:
            raise Misuse(f"{flag} cannot be combined with --only-shards: {instead}")
    total = shards_in(given.out)
    if total == 0:
        raise Misuse("--only-shards: the number of shards is missing: name the output as folder/name@N")
    # The check of OUT refuses a larger number, before anything asks for these.
    return Shards(_numbers(given.only_shards, total) if total <= _MOST_SHARDS else [], total)
