"""The process that reads for the ranks of a machine: see sharing.py."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import threading
import time
import types
from typing import Any, Deque, Dict, List, Optional, Tuple

from . import _core, iterator, sharing, sharing_link
from .channel import Channel, ClosedOnce, as_one_piece
from .processes import as_sent
from .sharing_recipe import MAIN, Code, code_of, main_of

# How many batches are kept for ranks of a feed that are behind.
_MOST_KEPT = 16
# How many tables of shards are kept for runs that begin later.
_MOST_SOURCES = 64
_LOOK_SECONDS = 0.05
# How long iterators may take to close before the process ends. They remove their files.
_CLOSE_SECONDS = 5.0
_MAIN = "__mp_main__"
_ANSWERS = {"start": "started", "load": "loaded", "stats": "stats"}


_closing: Deque[threading.Thread] = collections.deque(maxlen=64)


def serve(listener_descriptor: int, starter_descriptor: int) -> None:
    """Serves until the last connection is closed, then ends the process."""
    sharing.serving = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the ranks handle it, and end
    server = Server()
    listener = socket.socket(fileno=listener_descriptor)
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(starter_descriptor, 0)  # only wait for a hang-up
    clients: Dict[int, Optional[_Client]] = {starter_descriptor: None}
    while clients:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                one, _ = listener.accept()
                if not sharing_link.same_user(one):
                    one.close()
                    continue
                connection = ClosedOnce(one.detach())
                poll.register(connection.fileno(), 0)
                clients[connection.fileno()] = _Client(server, connection)
            else:
                poll.unregister(descriptor)
                client = clients.pop(descriptor)
                if client is not None:
                    client.hang_up()
    until = time.monotonic() + _CLOSE_SECONDS
    for thread in list(_closing):
        thread.join(max(0.0, until - time.monotonic()))
    # Threads may be in a function of the chain or in a read that takes long.
    os._exit(0)


class Server:
    """What the connections have in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        # How many batches each iterator of a run has delivered, if they wait for each other.
        self.counts: Dict[Any, Dict[Any, int]] = {}
        self.feeds: List[Feed] = []
        self._making = threading.Lock()
        self._sources: Dict[bytes, Any] = {}  # the last that were used
        self._budget = 0

    def chain(self, order: Dict[str, Any], anew: bool = False) -> Any:
        """Returns the chain that the order asks for. `anew`: with shards that are looked for again."""
        with self.lock:
            for path in order["path"]:
                if path not in sys.path:
                    sys.path.append(path)
            _core.set_max_record_bytes(order["max_record_bytes"])
            _core.share_reads(_num_feeds(order))
            chain = _Unpickler(io.BytesIO(order["chain"]), order["main"], order["code"]).load()
            return self._with_common_sources(chain, anew)

    def _with_common_sources(self, chain: Any, anew: bool) -> Any:
        """Lets chains over the same shards have one table of them, with the indexes."""
        if chain._inputs:
            chain._inputs = tuple(self._with_common_sources(ds, anew) for ds in chain._inputs)
        elif chain._method in ("shards", "mixture"):
            key = pickle.dumps(chain._arguments)
            kept = self._sources.pop(key, chain)
            self._sources[key] = chain if anew else kept
            if len(self._sources) > _MOST_SOURCES:
                del self._sources[next(iter(self._sources))]
            return self._sources[key]
        return chain

    def forget(self, chain: Any) -> None:
        """Lets later runs look again for shards that could not be read: they may have been replaced."""
        for ds in chain._inputs:
            self.forget(ds)
        with self.lock:
            for key in [key for key, kept in self._sources.items() if kept is chain]:
                del self._sources[key]

    def options(self, order: Dict[str, Any]) -> Dict[str, Any]:
        """Returns one feed's share of what all ranks have together."""
        feeds = _num_feeds(order)
        options = dict(order["options"])
        with self.lock:
            if not self._budget:
                self._budget = _core.default_budget_bytes()
        budget = options.get("budget_bytes", 0) or self._budget
        options["budget_bytes"] = max(1, budget // feeds)
        if options.get("threads", 0):
            options["threads"] = max(1, options["threads"] // feeds)
        else:
            options["cpu_share"] = options.get("cpu_share", 1.0) / feeds
        return options


    def feed(self, client: Any, order: Dict[str, Any], chain: Any, data: int,
             options: Dict[str, Any]) -> "Feed":
        """Returns the feed that the order asks for, which the client has joined. `data`: the
        fingerprint of the chain."""
        place = order["place"]
        key = (order["chain"], data, repr(options), order["epoch"], order["peers"],
               order.get("begin") if place is None else place[0])
        # Making a feed may take long, so others only wait for it if they could join it.
        with self._making if order["peers"] > 1 else contextlib.nullcontext():
            with self.lock:
                alike = [feed for feed in self.feeds if feed.key == key]
            for feed in alike:
                if feed.join(client):
                    return feed
            made = Feed(key, order, chain, options)
            made.join(client)
            with self.lock:
                self.feeds.append(made)
            return made


def _num_feeds(order: Dict[str, Any]) -> int:
    return max(1, order["ranks"] // order["peers"])


class _Unpickler(pickle.Unpickler):
    """Runs the main part of the clients' program only if functions of it are used."""

    def __init__(self, file: Any, main: Optional[str], code: Dict[str, Code]):
        super().__init__(file)
        self._main = main
        self._code = code

    def find_class(self, module: str, name: str) -> Any:
        module = main_of(module)
        if module == MAIN and sys.modules[MAIN].__name__ != _MAIN:
            if self._main is None:
                raise AttributeError(f"{name} is not in a file, so the process that reads cannot import "
                                     "it; define it in a module")
            main = types.ModuleType(_MAIN)
            main.__dict__.update(runpy.run_path(self._main, run_name=_MAIN))
            # As multiprocessing does it.
            sys.modules[MAIN] = sys.modules[_MAIN] = main
        self._check(module)
        return super().find_class(module, name)

    def _check(self, module: str) -> None:
        """RuntimeError: the module has other code in the process that sends the chain."""
        there = self._code.get(module)
        if there is None:
            return
        __import__(module)
        here = code_of(module)
        if here is None or here.digest == there.digest:
            return
        if here.file == there.file:
            raise RuntimeError(f"share: {here.file} was changed between its use by this process and by the process "
                               "that reads; end all processes of this run and start it again, or pass another name=")
        raise RuntimeError(f"share: module {module} is {there.file} in this process, but the process that reads has "
                           f"imported {here.file}, which differs; pass another name= in each of two programs")


class _Made:
    """A batch of a feed, and where the feed is after it."""

    def __init__(self, kind: str, place: Any, marks: iterator.Marks, value: Any):
        self.kind = kind      # "batch", "end" or "failed"
        self.place = place
        self.marks = marks  # Iterator.padded and Iterator.damaged
        self.value = value


class Feed:
    """One iterator for all ranks that take the same part. Each takes every batch; a rank that is too
    far behind is sent to another feed."""

    def __init__(self, key: Any, order: Dict[str, Any], chain: Any, options: Dict[str, Any]):
        self.key = key
        self.writable = not chain._shared() and order["peers"] == 1
        self._it = iterator.start(chain._core, None, None, not chain._shared(),
                                  **{**options, "epoch": order["epoch"]})
        begin = key[-1]
        try:
            if begin is not None:
                self._it.load(begin)
            self.begin = _place(self._it)
        except BaseException:
            self._it.close()
            raise
        self._changed = threading.Condition()
        self._absent = order["peers"]
        self._takers: Dict[Any, int] = {}  # the number of the next batch of each client
        self._made: List[_Made] = []
        self._first = 0
        self._busy = False
        self.closed = False

    def join(self, client: Any) -> bool:
        with self._changed:
            if self._first > 0 or self.closed:
                return False
            self._takers[client] = 0
            self._absent = max(0, self._absent - 1)
            return True

    def leave(self, client: Any) -> bool:
        """Returns whether that was the last one."""
        with self._changed:
            self._takers.pop(client, None)
            self._drop()
            if self._takers or self.closed:
                return False
            self.closed = True
        # Closing waits for functions of the chain, and the thread that polls must not.
        thread = threading.Thread(target=self._it.close, daemon=True)
        thread.start()
        _closing.append(thread)
        return True

    def take(self, client: Any) -> Optional[_Made]:
        """Returns the client's next batch, or None if it is not kept any more."""
        with self._changed:
            while True:
                if client not in self._takers:
                    return None
                at = self._takers[client] - self._first
                if at < len(self._made):
                    made = self._made[at]
                    if made.kind == "batch":
                        self._takers[client] += 1
                        self._drop()
                    return made
                if not self._busy:
                    break
                self._changed.wait()
            self._busy = True
        made = self._make()
        with self._changed:
            self._busy = False
            self._made.append(made)
            while len(self._made) > _MOST_KEPT:
                self._absent = 0
                for behind in [c for c, n in self._takers.items() if n == self._first]:
                    del self._takers[behind]
                self._drop()
            self._changed.notify_all()
        return self.take(client)

    def _drop(self) -> None:
        if self._absent == 0 and self._made:
            least = min(self._takers.values(), default=self._first + len(self._made))
            del self._made[:least - self._first]
            self._first = least

    def _make(self) -> _Made:
        """Makes the next batch. The last taker may leave meanwhile, which closes the iterator: what then fails, here or
        between the batch and its place, is taken by nobody."""
        try:
            return self._next()
        except BaseException as error:
            return _Made("failed", None, iterator.NO_MARKS, as_sent(error))

    def _next(self) -> _Made:
        try:
            columns = next(self._it)
        except StopIteration:
            return _Made("end", _place(self._it), iterator.NO_MARKS, None)
        return _Made("batch", _place(self._it), iterator.marks_of(self._it),
                     {name: as_one_piece(value) for name, value in columns.items()})

    def stats(self) -> Dict[str, Any]:
        return self._it.stats()


def _place(it: Any) -> Tuple[Optional[str], int, Any]:
    """Returns (state, epoch, why there is no state)."""
    try:
        return it.state(), it.epoch(), None
    except RuntimeError as error:
        return None, it.epoch(), as_sent(error)[0]


class _Client:
    """One connection, with a thread of its own. Without a request it only keeps the server alive."""

    def __init__(self, server: Server, connection: ClosedOnce):
        self._server = server
        self._connection = connection
        self._unregistered = threading.Event()
        self._feed: Optional[Feed] = None
        self._order: Dict[str, Any] = {}
        self._run: Any = None     # what the iterators that are counted together have in common
        self._chain: Any = None
        self._data = 0            # the chain's fingerprint
        self._options: Dict[str, Any] = {}
        self._place: Any = None   # after what has been sent
        self._credits = 0         # how many batches may be sent
        self._sent = 0
        threading.Thread(target=self._work, daemon=True).start()

    def hang_up(self) -> None:
        """Called by the thread that polls, which does not use the connection any more. The other
        thread may be in a call of the feed, which this ends."""
        self._unregistered.set()
        self._leave()

    def _work(self) -> None:
        channel = Channel(self._connection)
        try:
            self._connection.send_bytes(b"shardfeed")
            while not self._unregistered.is_set():
                if self._credits > 0 and not self._connection.poll(0):
                    self._deliver(channel)
                else:
                    self._handle(channel, channel.receive())
        except (EOFError, OSError):
            pass
        finally:
            self._leave()
            with socket.fromfd(self._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as one:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)  # so that the thread that polls sees it
            self._unregistered.wait()
            channel.close()

    def _leave(self) -> None:
        server = self._server
        with server.changed:
            feed, self._feed = self._feed, None
            self._stop_counting()
        if feed is not None and feed.leave(self):
            with server.lock:
                server.feeds.remove(feed)

    # ---- Requests

    def _handle(self, channel: Channel, request: Any) -> None:
        kind = request[0]
        if kind == "next":
            self._credits += 1
            with self._server.changed:
                if self in self._counts():
                    self._counts()[self] += 1
                    self._server.changed.notify_all()
            return
        try:
            if kind == "start":
                answer = self._start(request[1])
            elif kind == "load":
                answer = self._begin({**self._order, "begin": request[1], "place": None,
                                      "delivered": 0})
            else:
                answer = self._stats()
        except BaseException as error:
            if self._unregistered.is_set():
                raise EOFError from error
            channel.send((_ANSWERS[kind], *as_sent(error)))
        else:
            channel.send((_ANSWERS[kind], None, answer))

    def _start(self, order: Dict[str, Any]) -> Any:
        """Returns the place where the run begins, and the fingerprint of the chain with its data."""
        chain = self._server.chain(order)
        try:
            data = chain._core.fingerprint()
            if order["data"] not in (None, data):
                chain = self._server.chain(order, anew=True)
                data = chain._core.fingerprint()
                if order["data"] != data:
                    raise OSError(f"share: {chain!r}: the dataset was replaced while it was in use; open it again")
            self._chain, self._data = chain, data
            self._options = self._server.options(order)
            return self._begin(order), data
        except BaseException:
            self._server.forget(chain)
            raise

    def _begin(self, order: Dict[str, Any]) -> Any:
        """Goes to the place that the order says, and returns it. After an error, nothing has changed."""
        feed = self._server.feed(self, order, self._chain, self._data, self._options)
        self._leave()
        self._order = order
        self._run = (self._data, order["epoch"], order.get("begin"))
        self._sent = order["delivered"]
        self._credits = order["ahead"] + 1
        self._place = feed.begin
        with self._server.changed:
            self._feed = feed
            if order["within"] is not None:
                self._server.counts.setdefault(self._run, {})[self] = order["delivered"]
        if self._unregistered.is_set():
            self._leave()
        return feed.begin

    def _stats(self) -> Dict[str, Any]:
        feed = self._feed
        if feed is None:
            raise RuntimeError("nothing has been started")
        with self._server.lock:
            feeds = len(self._server.feeds)
        return {**feed.stats(), "shared": {"pid": os.getpid(), "feeds": feeds}}

    # ---- Batches

    def _deliver(self, channel: Channel) -> None:
        feed = self._feed
        if feed is None or not self._may_deliver():
            return
        made = feed.take(self)
        while made is None and not self._unregistered.is_set():
            # Too far behind its peers: this rank continues alone.
            if self._place[0] is None:
                made = _Made("failed", None, iterator.NO_MARKS, as_sent(RuntimeError(
                    "share: this rank is too far behind its peers, and a run that is not deterministic "
                    "has no place to resume from")))
                break
            self._begin({**self._order, "place": self._place, "peers": 1, "delivered": self._sent})
            made = self._feed.take(self) if self._feed is not None else None
        if made is None or self._unregistered.is_set():
            return
        if made.kind == "failed":
            self._server.forget(self._chain)
        channel.send((made.kind, made.place, made.marks, feed.writable, made.value))
        if made.kind == "batch":
            self._sent += 1
            self._credits -= 1
            self._place = made.place
        else:
            self._credits = 0
            with self._server.changed:
                self._stop_counting()

    def _counts(self) -> Dict["_Client", int]:
        return self._server.counts.get(self._run, {})

    def _stop_counting(self) -> None:
        counts = self._counts()
        counts.pop(self, None)
        if not counts:
            self._server.counts.pop(self._run, None)
        self._server.changed.notify_all()

    def _may_deliver(self) -> bool:
        within = self._order["within"]
        if within is None:
            return True
        with self._server.changed:
            others = [n for client, n in self._counts().items() if client is not self]
            if self._sent < min(others, default=self._sent) + within:
                return True
            # The caller looks for requests now and then.
            self._server.changed.wait(_LOOK_SECONDS)
            return False
