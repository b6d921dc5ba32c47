"""The common part of the commands that this package runs itself: messages about misuse, and text for the terminal.
They are those of the program (docs/command_line.md)."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from typing import IO, Any, Callable, List, NoReturn, Optional, Sequence

from .arguments import did_you_mean


class Misuse(ValueError):
    """The command line is wrong."""


class _Once(argparse.Action):
    """Stores a value. An option given twice is an error, in the words of the program."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Optional[str] = None) -> None:
        seen = vars(namespace).setdefault("_seen", set())
        if self.option_strings and self.dest in seen:
            raise argparse.ArgumentError(self, "At Most 1 required but received 2")
        seen.add(self.dest)
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Raises Misuse where its base ends the process."""

    def __init__(self, has_colors: bool = False, **options: Any) -> None:
        super().__init__(**options)
        for action in (None, "store"):
            self.register("action", action, _Once)
        if "-h" in self._option_string_actions:
            self._option_string_actions["-h"].help = "Print this help message and exit"
        about = "auto, always or never; default: auto, on terminals unless NO_COLOR or CLICOLOR=0 is set"
        self.add_argument("--color", type=one_of("auto", "always", "never"), default="auto", metavar="WHEN",
                          help=about if has_colors else "as for other commands; this one prints no colors")

    def print_help(self, file: Any = None) -> None:
        tell(self.format_help().removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        if match := re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.DOTALL):
            if match[1][0] == "-":
                options = {option.lstrip("-"): option for option in self._option_string_actions}
                name = match[1].partition("=")[0]
                message = f"there is no option {name}" + did_you_mean(name.lstrip("-"), options)
            else:
                message = f"unexpected argument '{match[1]}'"
        elif match := re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL):
            names = match[1].split("/")  # -j/--jobs/--threads
            message = f"{names[len(names) > 1]}: {match[2]}".replace("expected one argument", "expected a value")
            message = message.replace("ignored explicit argument", "it takes no value, and got")
        raise Misuse(message)


# ---- Types of options, which take what the program takes and say what it says


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words (cli/wrong_use.cc)."""
    def parse(text: str) -> str:
        if text not in words:
            meant = did_you_mean(text, {word: word for word in words})
            raise argparse.ArgumentTypeError(f"{text} not in {{{','.join(words)}}}{meant}")
        return text
    setattr(parse, "words", words)  # for completion (scripts/make_stubs)
    return parse


def whole(least: int, most: int = (1 << 64) - 1) -> Callable[[str], int]:
    """A whole number (WholeNumber in cli/flags/common_flags.cc)."""
    def parse(text: str) -> int:
        digits = text.lstrip("0") or text[-1:]
        if not text.isascii() or not text.isdigit() or len(digits) <= 20 and int(digits) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least {least}")
        if len(digits) > 20 or int(digits) > most:
            raise argparse.ArgumentTypeError(f"'{text}' is greater than {most}")
        return int(digits)
    return parse


MOST_THREADS = (1 << 31) - 1

_SIZE = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) *(?:([kKMGT])(iB|B|)|B)?", re.ASCII)


def size(text: str) -> Optional[int]:
    """Returns the bytes of "200GB", or None if it is no size (ParseSize in cli/terminal/units.cc)."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    power = " KMGT".index(match[2].upper()) if match[2] else 0
    found = float(match[1]) * (1000.0 if match[3] == "B" else 1024.0) ** power
    return int(found) if found < 1 << 64 else None


def max_record_bytes(text: str) -> int:
    """The value of --max-record-bytes."""
    found = size(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not a size")
    return found


# ---- What is printed


def tell(text: str) -> None:
    """Prints a line to standard output. If nobody reads it any more, SIGPIPE ends the process, as it ends the program.
    OSError: it cannot be written."""
    try:
        if sys.stdout is None:  # it is closed
            raise OSError("closed")
        print(text, flush=True)
    except OSError as error:
        if sys.stdout is not None:  # what is left would fail again at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        raise OSError("cannot write to standard output") from None


def complain(text: str, head: str = "shardfeed: ") -> None:
    """Prints a line to standard error, if that is possible."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"{head}{one_line(text)}\n")
    except OSError:
        pass


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


def painted(text: str, color: str, stream: Optional[IO[str]], when: str) -> str:
    """Returns the text in a color, if `stream` has colors. `when`: the value of --color."""
    return f"\033[{color}m{text}\033[0m" if _has_colors(stream, when) else text


def _has_colors(stream: Optional[IO[str]], when: str) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("CLICOLOR") == "0":
        return False
    return os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0") or is_terminal(stream)


def is_terminal(stream: Optional[IO[str]]) -> bool:
    """Whether lines of the stream, which is None if it is closed, can be colored and redrawn."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


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
