"""The server of metrics: one for each address, for all runs of the process that name it."""

from __future__ import annotations

import errno
import http.server
import os
import socket
import threading
import weakref
from typing import Any, Dict, Tuple

from .metrics import address_of, openmetrics


class _Server(http.server.ThreadingHTTPServer):
    """Serves the runs that are registered with it, for as long as the process lives."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: Tuple[str, int]):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)
        self._lock = threading.Lock()
        self._runs: Dict[int, "weakref.ref[Any]"] = {}  # each has a number that no living one has

    def add(self, it: Any) -> None:
        with self._lock:
            self._living()
            number = next(n for n in range(len(self._runs) + 1) if n not in self._runs)
            self._runs[number] = weakref.ref(it)

    def _living(self) -> Dict[int, Any]:
        living = {number: it for number, it in ((n, run()) for n, run in self._runs.items())
                  if it is not None and not it.closed}
        self._runs = {number: self._runs[number] for number in living}
        return living

    def text(self) -> str:
        """What is served."""
        with self._lock:
            living = self._living()
        stats: Dict[int, Dict[str, Any]] = {}
        for number, it in sorted(living.items()):
            try:
                found = it.stats()
            except ValueError:  # it was closed meanwhile
                continue
            stats[number] = found.get("pipeline", found)  # a DeviceIterator's
        return openmetrics(stats)


    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that has gone away."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/metrics":
            self.send_error(404, "the metrics are at /metrics")
            return
        text = self.server.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Does not log requests, which would appear on the consumer's screen."""


_lock = threading.Lock()
_servers: Dict[Tuple[str, int], _Server] = {}


def _forget() -> None:
    """In a child after fork, which has no threads of its parent's."""
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        server.socket.close()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)


def _resolved(address: Tuple[str, int]) -> Tuple[str, int]:
    """The numeric address, of which a host may have several names."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    found = socket.getaddrinfo(*address, family, socket.SOCK_STREAM)[0][4]
    return str(found[0]), int(found[1])


def _remedy(error: OSError, key: Tuple[str, int]) -> str:
    if error.errno != errno.EADDRINUSE:
        return ""
    own = next((host for host, port in _servers if port == key[1]), None)
    if own is None:
        return "; each process takes a port of its own"
    return f"; this process serves its metrics at {f'[{own}]' if ':' in own else own}:{key[1]}, name that address"


def serve(it: Any, address: str) -> None:
    """Adds a run to those that are served at the address; it leaves them when it is closed."""
    key = address_of(address)
    with _lock:
        try:
            key = _resolved(key)
            if key not in _servers:
                server = _Server(key)
                threading.Thread(target=server.serve_forever, name="shardfeed metrics", daemon=True).start()
                _servers[key] = server
        except OSError as error:
            raise type(error)(error.errno, f"metrics: {address}: {error.strerror or error}{_remedy(error, key)}") from None
        _servers[key].add(it)
