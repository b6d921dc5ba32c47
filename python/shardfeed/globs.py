"""Braces and globs in the names of files."""

import glob
import os
import re
from typing import List, Sequence

from . import _core


def expanded(sources: Sequence[str]) -> List[str]:
    """The paths with their braces and globs expanded, as for the program's kinds."""
    paths: List[str] = []
    for source in sources:
        if os.path.lexists(source):
            paths.append(source)
        elif scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source):
            raise ValueError(f"{source}: {scheme[0]} is not supported here, only local paths are")
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
