"""The user's functions on separate processes."""

from __future__ import annotations

import atexit
import collections
import functools
import mmap
import multiprocessing
import multiprocessing.process
import multiprocessing.util  # registers its exit handlers before _end_workers
import os
import pickle
import queue
import select
import signal
import threading
import traceback
import weakref
from multiprocessing import reduction
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from . import structure as structures
from ._core import BytesArray
from .ragged import Ragged, Sparse

# Arrays and strings of at least this size go through shared memory, smaller ones with the message.
_SHARED_BYTES = 1 << 15
_ALIGNMENT = 64


class _Bytes:
    """Bytes that are sent without a copy."""

    __slots__ = ("value",)

    def __init__(self, value: bytes):
        self.value = value

    def __reduce_ex__(self, protocol: Any) -> Any:
        return bytes, (pickle.PickleBuffer(self.value),)


class _Strings:
    """Strings end to end, sent in one piece; they arrive as a list of bytes."""

    __slots__ = ("joined", "offsets")

    def __init__(self, joined: Any, offsets: np.ndarray):
        self.joined = joined
        self.offsets = offsets

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _split, (pickle.PickleBuffer(self.joined), self.offsets)


def _split(joined: Any, offsets: np.ndarray) -> List[bytes]:
    view = memoryview(joined)
    bounds = offsets.tolist()
    return [bytes(view[a:b]) for a, b in zip(bounds, bounds[1:])]


def _sendable(value: Any) -> Any:
    """Returns memory of the library, and long strings, in a form that can be sent."""
    if isinstance(value, BytesArray):
        return _Strings(*value.joined()) if len(value.shape) == 1 else value.tolist()
    if isinstance(value, Ragged):
        return Ragged(_sendable(value.values), value.row_splits)
    if isinstance(value, Sparse):
        return Sparse(_sendable(value.values), value.indices, value.row_splits)
    if isinstance(value, bytes) and len(value) >= _SHARED_BYTES:
        return _Bytes(value)
    if isinstance(value, list) and all(isinstance(v, bytes) for v in value):
        if sum(map(len, value)) >= _SHARED_BYTES:
            return _Strings(b"".join(value), np.cumsum([0, *map(len, value)]))
    return value


class _Channel:
    """One end of a channel between two processes, which take turns to send.

    Large buffers go through unnamed files in memory that only these two processes have, so
    nothing remains even if one is killed. Received values are views of them. When the last
    reference to a file's values is gone, the sender is told and reuses the memory, since fresh
    pages cost more than the copy."""

    def __init__(self, connection: Any):
        self._connection = connection
        self._files: List[Tuple[int, int]] = []    # descriptor and size of each file that this end fills
        self._free: List[int] = []                 # files that the other end does not use
        self._maps: List[Any] = []                 # the other end's files
        self._held: Dict[int, Any] = {}            # weak references to the memory received in them
        self._released: Any = collections.deque()  # files whose last reference is gone, from any thread

    def close(self) -> None:
        self._connection.close()
        while self._files:
            os.close(self._files.pop()[0])

    __del__ = close

    def send(self, message: Any) -> None:
        """Sends a message. BrokenPipeError, ConnectionResetError: the other process is gone.
        After any other exception, another message can be sent."""
        buffers: List[memoryview] = []

        def is_small(buffer: Any) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= _SHARED_BYTES:
                buffers.append(raw)
            return raw.nbytes < _SHARED_BYTES

        pickled = pickle.dumps(structures.map_values(_sendable, message), 5,
                               buffer_callback=is_small)
        places, size = [], 0
        for buffer in buffers:
            places.append((size, size + buffer.nbytes))
            size += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        number, is_new = -1, False
        if buffers:
            is_new = not self._free
            if is_new:
                self._free.append(len(self._files))
                self._files.append((os.memfd_create("shardfeed", os.MFD_CLOEXEC), 0))
            number = self._free[-1]
            self._fill(number, buffers, places, size)
            self._free.pop()
        released = [self._released.popleft() for _ in range(len(self._released))]
        self._connection.send_bytes(pickle.dumps((number, is_new, size, places, released, pickled)))
        if is_new:
            reduction.send_handle(self._connection, self._files[number][0], None)

    def _fill(self, number: int, buffers: List[memoryview], places: List[Tuple[int, int]],
              size: int) -> None:
        descriptor, had = self._files[number]
        if size > had:
            os.ftruncate(descriptor, size)
            self._files[number] = (descriptor, size)
        for buffer, (at, end) in zip(buffers, places):
            while at < end:
                at += os.pwrite(descriptor, buffer[buffer.nbytes - (end - at):], at)

    def receive(self) -> Any:
        """Receives a message. EOFError, ConnectionResetError: the other process is gone."""
        number, is_new, size, places, released, pickled = pickle.loads(
            self._connection.recv_bytes())
        self._free.extend(released)
        if number < 0:
            return pickle.loads(pickled)
        if is_new:
            descriptor = reduction.recv_handle(self._connection)
            try:
                self._maps.append(mmap.mmap(descriptor, size,
                                            mmap.MAP_SHARED | mmap.MAP_POPULATE))
            finally:
                os.close(descriptor)
        elif size > len(self._maps[number]):
            self._maps[number].resize(size)
        memory = np.frombuffer(self._maps[number], np.uint8)
        self._held[number] = weakref.ref(memory,
                                         functools.partial(_note, self._released, number))
        return pickle.loads(pickled, buffers=[memory[at:end] for at, end in places])


def _note(released: Any, number: int, _: Any) -> None:
    released.append(number)


class _RemoteTraceback(Exception):
    """The traceback of an exception in the worker process."""

    def __str__(self) -> str:
        return "\n" + self.args[0]


def _work(connection: Any, pickled: bytes) -> None:
    """Runs the worker process, which answers (result, None, "") or (None, exception, traceback)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process handles it and ends this one
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    channel = _Channel(connection)
    fn = None
    while True:
        try:
            element = channel.receive()
        except (EOFError, OSError):
            return
        try:
            if fn is None:
                fn = pickle.loads(pickled)
            answer: Any = (fn(element), None, "")
        except BaseException as error:  # SystemExit too is raised by the iterator
            answer = (None, *_as_sent(error))
        element = None
        try:
            channel.send(answer)
        except OSError:
            return
        except Exception as error:
            channel.send((None, *_as_sent(error)))
        answer = None


def _end_with(descriptor: int) -> None:
    """Ends this process when the other one is gone, even during a call."""
    poll = select.poll()
    poll.register(descriptor, 0)  # only wait for a hang-up
    poll.poll()
    os._exit(1)


def _as_sent(error: BaseException) -> Tuple[BaseException, str]:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # the user's class may raise anything
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, text


class _Worker:
    """A spawned process that runs a function. One call at a time."""

    def __init__(self, pickled: bytes):
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, pickled))
        self.process.start()
        theirs.close()
        self._channel = _Channel(ours)

    def __call__(self, element: Any) -> Any:
        """Calls the function in the process. EOFError, OSError: the process died."""
        self._channel.send(element)
        return self._channel.receive()

    def end(self) -> None:
        self.process.terminate()
        self.process.join()


_workers: Any = weakref.WeakSet()
_functions: Any = weakref.WeakSet()
_ending = False


@atexit.register
def _end_workers() -> None:
    # This runs before multiprocessing's own handlers, registered earlier, wait for the workers.
    global _ending
    _ending = True
    for worker in list(_workers):
        worker.end()


def _forget_workers() -> None:
    """Called in a child after fork: the workers belong to the parent, which alone may end them."""
    global _workers
    for worker in list(_workers):
        multiprocessing.process._children.discard(worker.process)  # type: ignore[attr-defined]
    _workers = weakref.WeakSet()
    for function in list(_functions):
        function.reset()


os.register_at_fork(after_in_child=_forget_workers)


class ProcessFunction:
    """A function that runs on processes: each call goes to one of them, and waits without the GIL.

    Processes are spawned when they are needed, one for each concurrent call and at most
    `processes`, so fn must be importable (not a lambda). They end with this object or this
    process. A process that dies is an error."""

    def __init__(self, fn: Callable[..., Any], processes: int):
        if processes < 1:
            raise ValueError(f"processes must be at least 1, not {processes}")
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.processes = processes
        try:
            self._pickled = pickle.dumps(fn)
        except Exception as error:
            raise TypeError(f"map(processes={processes}): {fn!r} cannot be sent to other processes "
                            f"({error}); use a function that a module defines, not a lambda") from error
        self.reset()
        _functions.add(self)

    def reset(self) -> None:
        # The most recently used worker is taken first; None is a worker that has not been started.
        self._idle: Any = queue.LifoQueue()
        for _ in range(self.processes):
            self._idle.put(None)

    def __getstate__(self) -> Any:
        return self.fn, self.processes

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, element: Any) -> Any:
        idle = self._idle
        worker = idle.get()
        try:
            if worker is None:
                if _ending:
                    raise RuntimeError("the interpreter is ending")
                worker = _Worker(self._pickled)
                _workers.add(worker)
            result, error, text = worker(element)
        except (EOFError, OSError) as died:
            gone, worker = worker, None
            if gone is None:
                raise  # it could not be started
            raise RuntimeError(self._why(gone.process)) from died
        except BaseException:
            # An answer may be on its way, which must not be taken for that of the next call.
            if worker is not None:
                worker.end()
            worker = None
            raise
        finally:
            idle.put(worker)
        if error is not None:
            raise error from _RemoteTraceback(text)
        return result

    def _why(self, process: Any) -> str:
        process.join(5)
        code = process.exitcode
        how = ("" if code is None else f", status {code}" if code >= 0 else
               f", {signal.Signals(-code).name}")
        return (f"a worker process of map(processes={self.processes}) died{how}; it may have run out of "
                "memory or crashed; the main part of a script must be under "
                "if __name__ == \"__main__\"")
