"""Braces and globs in the names of files."""

import glob
import os
from typing import List, Sequence

from . import _core


def expanded(sources: Sequence[str]) -> List[str]:
    """The paths with their braces and globs expanded, as for the program's kinds."""
    paths: List[str] = []
    for source in sources:
        if os.path.lexists(source):
            paths.append(source)
        elif "{" in source and (names := _core.names_in_braces(source)):
            paths += expanded(names)
        elif not any(c in source for c in "*?["):
            paths.append(source)
        else:
            found = sorted(glob.glob(source), key=os.fsencode)
            if not found:
                raise FileNotFoundError(f"{source}: no file matches")
            paths += found
    return paths
