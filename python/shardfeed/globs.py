"""Globs in the names of files."""

import glob
import os
from typing import List, Sequence


def expanded(sources: Sequence[str]) -> List[str]:
    """The paths with their globs expanded, as for the program's kinds."""
    paths: List[str] = []
    for source in sources:
        if not any(c in source for c in "*?[") or os.path.lexists(source):
            paths.append(source)
            continue
        found = sorted(glob.glob(source), key=os.fsencode)
        if not found:
            raise FileNotFoundError(f"{source}: no file matches")
        paths += found
    return paths
