"""Connections to the process that sharing_server.py runs, which the first one starts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, List

from . import _core
from .channel import ClosedOnce

# How often in a row the process may end before it has answered.
MOST_DEATHS = 3
_ANSWER_SECONDS = 120.0

_open: Any = weakref.WeakSet()  # sockets of this process, which a forked child must not keep open


def _close_in_child() -> None:
    for one in list(_open):
        one.close()
    for process in _servers:
        process.returncode = 0  # it is no child of this process, so Popen is not to warn that it still runs
    _servers.clear()


os.register_at_fork(after_in_child=_close_in_child)
_servers: List[Any] = []  # processes started here, which Popen would complain about otherwise


class Gone(Exception):
    """The server is gone."""


def same_user(one: socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user."""
    credentials = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


class Link:
    """The connections of one process to the server of a run.

    The socket's name is abstract, so it vanishes with the server. Whoever binds it starts the
    server, which inherits it. One connection is held as long as this object lives, so that the
    server does not end between epochs."""

    def __init__(self, run: str):
        text = f"{os.getuid()} {run} {_core.version()} {sys.version} {os.path.dirname(__file__)}"
        self._address = "\0shardfeed-share-" + hashlib.sha256(text.encode()).hexdigest()[:32]
        self._lock = threading.Lock()
        self._held: Any = None
        self._process = 0

    def connect(self) -> ClosedOnce:
        """Returns a new connection to the server, which is started if there is none."""
        with self._lock:
            if self._held is None or self._process != os.getpid() or self._held.poll(0):
                self._held = None
                self._held = self._connected()
                self._process = os.getpid()
        return self._connected()

    def _connected(self) -> ClosedOnce:
        until = time.monotonic() + _ANSWER_SECONDS
        failures = 0
        while time.monotonic() < until:
            process: Any = None
            with contextlib.ExitStack() as stack:
                one = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                _open.add(one)
                try:
                    try:
                        one.connect(self._address)
                    except ConnectionRefusedError:
                        process = self._start_server(stack)
                        if process is None:
                            time.sleep(0.001)  # another process is about to listen
                            continue
                        one.connect(self._address)
                    return self._greeted(one, until)
                except (EOFError, ConnectionError):
                    # The server ended just now: it had no clients left, or it could not start.
                    failures += process is not None
                    if failures == MOST_DEATHS:
                        raise RuntimeError(
                            "share: the process that reads could not be started; it ended with "
                            f"status {process.wait()}, and its messages are above") from None
        raise RuntimeError("share: the process that reads cannot be reached")

    def _start_server(self, stack: contextlib.ExitStack) -> Any:
        """Returns the server's process, or None if another process has bound its name."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _open.add(listener)
        with listener:
            try:
                listener.bind(self._address)
            except OSError:
                return None
            listener.listen(1024)
            # Until this process has connected, the server ends only if it dies.
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            _open.add(ours)
            with theirs:
                package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
                code = (f"import sys; sys.path.insert(0, {package!r}); "
                        "from shardfeed.sharing_server import serve; "
                        f"serve({listener.fileno()}, {theirs.fileno()})")
                process = subprocess.Popen(
                    [sys.executable, "-c", code], stdin=subprocess.DEVNULL,
                    pass_fds=(listener.fileno(), theirs.fileno()), start_new_session=True)
            _servers[:] = [p for p in _servers if p.poll() is None] + [process]
            return process

    def _greeted(self, one: socket.socket, until: float) -> ClosedOnce:
        if not same_user(one):
            raise RuntimeError("share: a process of another user has taken the name of this run; pass "
                               "another name=")
        connection = ClosedOnce(one.detach())
        _open.add(connection)
        if not connection.poll(max(0.0, until - time.monotonic())):
            connection.close()
            raise RuntimeError("share: the process that reads has not answered for "
                               f"{_ANSWER_SECONDS:.0f} s")
        connection.recv_bytes()
        return connection
