"""The user's functions on separate processes."""

from __future__ import annotations

import atexit
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
from typing import Any, Callable, Tuple

from .channel import Channel, ClosedOnce


class RemoteTraceback(Exception):
    """The traceback of an exception in the worker process."""

    def __str__(self) -> str:
        return "\n" + self.args[0]


def _work(connection: Any, pickled: bytes) -> None:
    """Runs the worker process, which answers (result, None, "") or (None, exception, traceback)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process handles it and ends this one
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    channel = Channel(ClosedOnce.of(connection))
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
            answer = (None, *as_sent(error))
        element = None
        try:
            channel.send(answer)
        except OSError:
            return
        except Exception as error:
            channel.send((None, *as_sent(error)))
        answer = None


def _end_with(descriptor: int) -> None:
    """Ends this process when the other one is gone, even during a call."""
    poll = select.poll()
    poll.register(descriptor, 0)  # only wait for a hang-up
    poll.poll()
    os._exit(1)


def as_sent(error: BaseException) -> Tuple[BaseException, str]:
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
        self._channel = Channel(ClosedOnce.of(ours))

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
            raise error from RemoteTraceback(text)
        return result

    def _why(self, process: Any) -> str:
        process.join(5)
        code = process.exitcode
        how = ("" if code is None else f", status {code}" if code >= 0 else
               f", {signal.Signals(-code).name}")
        return (f"a worker process of map(processes={self.processes}) died{how}; it may have run out of "
                "memory or crashed; the main part of a script must be under "
                "if __name__ == \"__main__\"")
