"""Serves the page of `shardfeed view` on the loopback interface."""

from __future__ import annotations

import json
import os
import secrets
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .dataset import Missing, Task, ViewedDataset
from .training import ViewedChain

SCRIPTS = ("charts.js", "scroller.js", "training.js", "record.js", "search.js", "page.js")
_PAGE = {"": ("page.html", "text/html; charset=utf-8"), "page.css": ("page.css", "text/css; charset=utf-8"),
         **{name: (name, "text/javascript; charset=utf-8") for name in SCRIPTS}}
# The page loads nothing from elsewhere, and what is in a dataset cannot run in it.
_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
           "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def page_file(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


class Server(ThreadingHTTPServer):
    """Answers only paths that begin with a random token, so that other users and other pages cannot read the data:
    http://127.0.0.1:PORT/TOKEN/. `port` 0 takes a free one. OSError: the port is taken."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, datasets: Sequence[ViewedDataset], port: int = 0, chain: Optional[ViewedChain] = None):
        self.datasets = datasets
        self.chain = chain
        self.diffs: Dict[Tuple[int, int], Task] = {}
        self.is_stuck = False  # after server_close: whether a step of the chain has not returned
        self.token = secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that has gone away."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def server_close(self) -> None:
        super().server_close()
        for task in self.diffs.values():
            task.stop()
        for dataset in self.datasets:
            dataset.close()
        self.is_stuck = self.chain is not None and not self.chain.close()


class _Handler(BaseHTTPRequestHandler):
    # Headers and body are sent by two calls; the second would wait for an answer to the first.
    disable_nagle_algorithm = True
    server: Server
    server_version = "shardfeed"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        try:
            url = urllib.parse.urlsplit(self.path)
        except ValueError:
            url = urllib.parse.urlsplit("")
        token, *path = url.path.removeprefix("/").split("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if known and not path:  # the URL without its last slash
            self._send(301, "text/plain", b"", headers=[("Location", f"/{token}/")])
            return
        if not known:
            self._send(404, "text/plain", b"open the URL that 'shardfeed view' printed\n")
            return
        try:
            query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
            self._answer("/".join(path), query)
        except Missing as error:
            self._json({"error": str(error)}, 404)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the browser went on
        except Exception as error:  # it belongs to this answer, not to the server
            self._json({"error": str(error) or type(error).__name__}, 500)

    def _answer(self, path: str, query: Dict[str, str]) -> None:
        if path in _PAGE:
            name, kind = _PAGE[path]
            self._send(200, kind, page_file(name))
            return
        call = _CALLS.get(path)
        if call is None:
            raise Missing(f"there is no {path}")
        call(self, query)

    # ---- Calls

    def _dataset(self, query: Dict[str, str], name: str = "d") -> ViewedDataset:
        number = _number(query, name, 0)
        if number >= len(self.server.datasets):
            raise Missing(f"there is no dataset {number}")
        return self.server.datasets[number]

    def _datasets(self, query: Dict[str, str]) -> None:
        self._json([dataset.about() for dataset in self.server.datasets])

    def _overview(self, query: Dict[str, str]) -> None:
        dataset = self._dataset(query)
        # `start` is of a page that is loaded.
        self._state(dataset.overview_state(again=bool(query.get("start"))), dataset)

    def _statistics(self, query: Dict[str, str]) -> None:
        self._task(self._dataset(query).statistics, query, self._dataset(query))

    def _verify(self, query: Dict[str, str]) -> None:
        self._task(self._dataset(query).verify, query, self._dataset(query))

    def _diff(self, query: Dict[str, str]) -> None:
        key = _number(query, "a", 0), _number(query, "b", 1)
        first, second = self._dataset(query, "a"), self._dataset({"b": "1", **query}, "b")
        task = self.server.diffs.setdefault(key, Task("diff", first.spec, second.spec, *first.flags))
        self._task(task, query, first, second)

    def _task(self, task: Task, query: Dict[str, str], *datasets: ViewedDataset) -> None:
        if query.get("start"):  # of a click; what follows it only asks
            task.start(again=True)
        self._state(task.state(), *datasets)

    def _state(self, state: Dict[str, Any], *datasets: ViewedDataset) -> None:
        """Answers with the state of a task."""
        if state["state"] in ("done", "failed") or "outline" in state:
            for dataset in datasets:  # which was opened by its name
                dataset.check_unchanged()
        self._json(state)

    def _records(self, query: Dict[str, str]) -> None:
        if "numbers" in query:
            numbers: Sequence[int] = [_whole("numbers", one) for one in query["numbers"].split(",") if one]
        else:
            first = _number(query, "first", 0)
            dataset = self._dataset(query)
            numbers = range(first, max(first, min(first + _number(query, "count", 50), len(dataset))))
        self._json(self._dataset(query).records(numbers))

    def _record(self, query: Dict[str, str]) -> None:
        self._json(self._dataset(query).record(_number(query, "n", 0)))

    def _find(self, query: Dict[str, str]) -> None:
        self._json(self._dataset(query).find(query.get("feature"), query.get("compare", "contains"),
                                             query.get("text", ""), _number(query, "first", 0)))

    def _batch(self, query: Dict[str, str]) -> None:
        self._json(self._dataset(query).batch(query))

    # ---- What training gets

    def _chain(self) -> ViewedChain:
        if self.server.chain is None:
            raise Missing("no chain was given (--chain)")
        return self.server.chain

    def _about_chain(self, query: Dict[str, str]) -> None:
        self._json(None if self.server.chain is None else self.server.chain.about())

    def _training(self, query: Dict[str, str]) -> None:
        self._json(self._chain().batch(_number(query, "epoch", 0), _number(query, "batch", 0)))

    def _training_image(self, query: Dict[str, str]) -> None:
        places = [_number(query, name, 0) for name in ("epoch", "batch", "row", "column")]
        self._send(200, "image/png", self._chain().image(*places), cached=True)

    # ---- Values

    def _image(self, query: Dict[str, str]) -> None:
        kind, data = self._dataset(query).image(_number(query, "n", 0), query.get("f", ""), _number(query, "i", 0))
        self._send(200, kind, data, cached=True)

    def _value(self, query: Dict[str, str]) -> None:
        """The bytes of a value: sounds to be played, everything else to be saved."""
        from .media import media_type
        number, index = _number(query, "n", 0), _number(query, "i", 0)
        value = self._dataset(query).value(number, query.get("f", ""), index)
        kind = media_type(value) or ""
        if kind.startswith("audio/") and not query.get("save"):
            self._send(200, kind, value, cached=True)
        else:
            self._send(200, "application/octet-stream", value,
                       headers=[("Content-Disposition", f'attachment; filename="record-{number}-{index}"')])

    # ---- Answers

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, data: bytes, cached: bool = False,
              headers: Optional[List[Tuple[str, str]]] = None) -> None:
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(data))),
                            ("Cache-Control", "private, max-age=3600" if cached else "no-store"),
                            ("Content-Security-Policy", _POLICY), ("X-Content-Type-Options", "nosniff"),
                            ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin"),
                            *(headers or [])]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


_CALLS = {"api/datasets": _Handler._datasets, "api/overview": _Handler._overview,
          "api/statistics": _Handler._statistics, "api/verify": _Handler._verify, "api/diff": _Handler._diff,
          "api/records": _Handler._records, "api/record": _Handler._record, "api/find": _Handler._find,
          "api/batch": _Handler._batch, "api/chain": _Handler._about_chain, "api/training": _Handler._training,
          "training_image": _Handler._training_image, "image": _Handler._image, "value": _Handler._value}


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Missing(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _number(query: Dict[str, str], name: str, default: int) -> int:
    return _whole(name, query[name]) if query.get(name) else default
