"""The common part of the commands that this package runs itself: messages about misuse, and text for the terminal.
They are those of the program (docs/command_line.md)."""

from __future__ import annotations

import argparse
import re
from typing import Any, List, NoReturn, Sequence

from .arguments import did_you_mean


class Misuse(ValueError):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """Raises Misuse where its base ends the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_argument("--color", choices=("auto", "always", "never"), default="auto", metavar="WHEN",
                          help="as for other commands; this one prints no colors")

    def error(self, message: str) -> NoReturn:
        if match := re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.DOTALL):
            if match[1][0] == "-":
                options = {option.lstrip("-"): option for option in self._option_string_actions}
                message = f"there is no option {match[1]}" + did_you_mean(match[1].partition("=")[0].lstrip("-"), options)
            else:
                message = f"unexpected argument '{match[1]}'"
        elif match := re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL):
            names = match[1].split("/")  # -j/--jobs/--threads
            message = f"{names[len(names) > 1]}: {match[2]}".replace("expected one argument", "expected a value")
        raise Misuse(message)


def in_utf8(text: str) -> str:
    """Returns the text with \\xff for bytes of file names and of the command line that are not UTF-8."""
    return re.sub("[\udc80-\udcff]", lambda byte: f"\\x{ord(byte[0]) - 0xdc00:02x}", text)


def one_line(text: str) -> str:
    """Returns the text without line breaks, control characters and bytes of file names that are not UTF-8."""
    return "".join("\\n" if c == "\n" else f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c
                   for c in in_utf8(text))


# Options that may precede the command and have a value.
_WITH_VALUE = ("-j", "--jobs", "--threads", "--max-record-bytes", "--color")


def names_in(arguments: Sequence[str], most: int) -> List[int]:
    """Returns the places of the first arguments that are neither options nor values of options that may precede a
    command; at most `most`."""
    found: List[int] = []
    for i, one in enumerate(arguments):
        if not one.startswith("-") and (i == 0 or arguments[i - 1] not in _WITH_VALUE):
            found.append(i)
        if len(found) == most:
            break
    return found
