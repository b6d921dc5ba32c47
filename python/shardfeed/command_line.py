"""The common part of the commands that this package runs itself: messages about misuse, and text for the terminal.
They are those of the program (docs/command_line.md)."""

from __future__ import annotations

import argparse
import os
import re
from typing import IO, Any, List, NoReturn, Sequence

from .arguments import did_you_mean


class Misuse(ValueError):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """Raises Misuse where its base ends the process."""

    def __init__(self, has_colors: bool = False, **options: Any) -> None:
        super().__init__(**options)
        about = "auto, always or never; default: auto, on terminals unless NO_COLOR or CLICOLOR=0 is set"
        self.add_argument("--color", choices=("auto", "always", "never"), default="auto", metavar="WHEN",
                          help=about if has_colors else "as for other commands; this one prints no colors")

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
    return "".join("\\n" if c == "\n" else f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127
                   else f"\\u{ord(c):04x}" if 128 <= ord(c) < 160 else c for c in in_utf8(text))


# The colors of the words before errors and notes: bold red, bold cyan (cli/terminal/color.cc).
ERROR = "1;31"
NOTE = "1;36"


def painted(text: str, color: str, stream: IO[str], when: str) -> str:
    """Returns the text in a color, if `stream` has colors. `when`: the value of --color."""
    return f"\033[{color}m{text}\033[0m" if _has_colors(stream, when) else text


def _has_colors(stream: IO[str], when: str) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("CLICOLOR") == "0":
        return False
    return os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0") or is_terminal(stream)


def is_terminal(stream: IO[str]) -> bool:
    """Whether lines of the stream can be colored and redrawn."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


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
