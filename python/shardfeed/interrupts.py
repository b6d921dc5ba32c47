"""Ctrl-C and SIGTERM of the command line: at any time they end it with the status of all commands, and never with a
traceback. Imports nothing that takes long, since the package imports this first."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, Iterator, NoReturn

from .exit_status import INTERRUPTED

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _is_command_line() -> bool:
    """Whether this process is `shardfeed` or `python -m shardfeed`."""
    arguments = getattr(sys, "argv", [])
    if arguments[:1] == ["-m"]:  # until the module has been found
        return sys.orig_argv[-len(arguments)] in ("shardfeed", "-mshardfeed")
    return bool(arguments) and os.path.basename(arguments[0]) == "shardfeed"


def _end(*_: Any) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"shardfeed: interrupted\n")
    os._exit(INTERRUPTED)


def end_the_command_line_at_once() -> None:
    """From now on the signals end this process, if it is the command line, which has nothing to clean up while it
    imports the package."""
    if _is_command_line():
        with contextlib.suppress(ValueError):  # a thread of another program imports the package
            for one in _SIGNALS:
                if signal.getsignal(one) in (signal.SIG_DFL, signal.default_int_handler):
                    signal.signal(one, _end)


@contextlib.contextmanager
def as_exceptions() -> Iterator[None]:
    """Within it the signals raise KeyboardInterrupt, unless they are ignored."""
    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    previous = {one: signal.getsignal(one) for one in _SIGNALS}
    try:
        for one, handler in previous.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, interrupt)
        yield
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


def hand_over() -> None:
    """Prepares the signals for a program that replaces this process."""
    # They wait until the program handles them, however long its start takes.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    # Python ignores it; the program ends by it when nobody reads its output any more.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
