"""Messages between two processes, with large values in shared memory."""

from __future__ import annotations

import collections
import functools
import mmap
import os
import pickle
import weakref
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, Dict, List, Tuple

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


class _OnePiece:
    """A BytesArray that is sent in one piece, of which the array that arrives has views."""

    __slots__ = ("joined", "offsets", "shape")

    def __init__(self, array: BytesArray):
        self.joined, self.offsets = array.joined()
        self.shape = list(array.shape)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _array_of, (pickle.PickleBuffer(self.joined), self.offsets, self.shape)


def _array_of(joined: Any, offsets: np.ndarray, shape: List[int]) -> BytesArray:
    return BytesArray.split(joined, offsets, shape)


def as_one_piece(value: Any) -> Any:
    """Returns a column whose BytesArray arrives as one, and without a copy."""
    if isinstance(value, BytesArray):
        return _OnePiece(value)
    if isinstance(value, Ragged):
        return Ragged(as_one_piece(value.values), value.row_splits)
    return value


class ClosedOnce(Connection):
    """A connection whose descriptor is closed once, also if the connection and its user are collected together. That of
    multiprocessing then keeps the number of the descriptor that it has closed, and the user closes it again, although
    another file may have the number by then."""

    _handle: Any

    @classmethod
    def of(cls, connection: Any) -> "ClosedOnce":
        """Takes over the descriptor of a connection of multiprocessing."""
        handle, connection._handle = connection._handle, None
        return cls(handle)

    def close(self) -> None:
        # A signal's handler may raise anywhere here: rather a descriptor that stays open than one that is closed twice.
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    __del__ = close


class Channel:
    """One end of a channel between two processes, which take turns to send.

    Large buffers go through unnamed files in memory that only these two processes have, so
    nothing remains even if one is killed. Received values are views of them. When the last
    reference to a file's values is gone, the sender is told and reuses the memory, since fresh
    pages cost more than the copy."""

    def __init__(self, connection: ClosedOnce):
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
