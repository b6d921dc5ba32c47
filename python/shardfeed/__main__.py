"""The command line: the entry point of the program `shardfeed` and of `python -m shardfeed`."""

import os
import sys

from . import interrupts
from .command import program
from .command_line import complain
from .exit_status import FAILED


def main() -> None:
    """Runs the command line: converts kinds of data that Python reads, shows datasets in a browser, and otherwise
    replaces this process with the program."""
    if "view" in sys.argv or "report" in sys.argv:
        from .viewer import program as viewer
        command = viewer.command_in(sys.argv[1:])
        if command is not None:
            sys.exit(viewer.main(*command))
    if "convert" in sys.argv:
        from .tables import program as tables
        found = tables.kind_in(sys.argv[1:])
        if found is not None:
            sys.exit(tables.main(*found))
    try:
        path = program()
    except OSError as error:
        complain(str(error))
        sys.exit(FAILED)
    interrupts.hand_over()
    try:
        os.execv(path, ["shardfeed", *sys.argv[1:]])
    except OSError as error:
        complain(f"{path}: cannot run: {error.strerror}; reinstall the package")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
