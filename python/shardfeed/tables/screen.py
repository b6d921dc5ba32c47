"""What people see: progress, sizes and times, as the program shows them (cli/terminal)."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Optional

from ..command_line import is_terminal

_REDRAW = 0.2  # seconds
_PLAIN_LINE = 10


def amount(size: float) -> str:
    """Bytes."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}" if size < 10 else f"{size:.0f} {unit}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(n: int, one: str) -> str:
    return f"{n:,} {one}{'s' * (n != 1)}"


def cut_end(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[:columns - 3] + "..."


def progress_line(phase: str, done: int, total: int, seconds: float, columns: Optional[int] = None) -> str:
    """A line of at most so many columns, without what matters least if they are few."""
    rate = done / seconds if seconds > 0 else 0
    share = f"{100 * done // max(total, 1)} %"
    left = f", {duration((total - done) / rate)} left" if rate > 0 and done < total else ""
    forms = [f"{phase}: {done:,} of {total:,} records ({share}), {int(rate):,} records/s{left}",
             f"{phase}: {share} of {total:,} records, {int(rate):,}/s{left}", f"{phase}: {share}{left}",
             f"{phase}: {share}"]
    return next((form for form in forms if columns is None or len(form) <= columns), cut_end(share, columns or 0))


def _columns() -> int:
    """The width of the terminal that standard error is."""
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


class Progress:
    """On a terminal a line that is redrawn; otherwise a line every 10 seconds."""

    def __init__(self, quiet: bool):
        self._quiet = quiet or sys.stderr is None  # it is closed
        self._terminal = is_terminal(sys.stderr)
        self._phase = ""
        self._started = time.monotonic()
        self._next = self._started + (_REDRAW if self._terminal else _PLAIN_LINE)
        self._drawn = False

    def __call__(self, done: int, total: int, phase: str = "writing") -> None:
        now = time.monotonic()
        if phase != self._phase:
            # The first phase began with the display, the others now.
            self._started = now if self._phase else self._started
            self._phase = phase
        if self._quiet or now < self._next:
            return
        self._next = now + (_REDRAW if self._terminal else _PLAIN_LINE)
        seconds = now - self._started
        if self._terminal:
            # Most terminals wrap a line whose last column is written.
            sys.stderr.write("\r\033[K" + progress_line(phase, done, total, seconds, _columns() - 1))
            self._drawn = True
        else:
            sys.stderr.write(progress_line(phase, done, total, seconds) + "\n")
        sys.stderr.flush()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
