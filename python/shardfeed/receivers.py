"""How frameworks receive batches on a GPU.

The memory of a batch on the device belongs to the iterator, which reuses it once the work on the
streams that it knows is done. PyTorch and JAX use other streams that the iterator cannot know
(record_stream, XLA's compute stream), so they get copies in memory of their own allocators, which
know them. A copy within the device takes a small part of the time of the copy to it."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import weakref
from typing import Any, Callable, ContextManager, Deque, List, Mapping, Tuple

from . import _core
from .ragged import Ragged, Sparse
from .structure import map_values


class Receiver:
    """Delivers DeviceArrays, for consumers that name the streams they use: see DeviceArray.use."""

    def __init__(self, stream: Any):
        self._stream = stream

    def stream(self) -> Any:
        """Returns the stream on which the next batch must be available."""
        return self._stream

    def current(self) -> ContextManager[Any]:
        """Returns the context in which a batch is received."""
        return contextlib.nullcontext()

    def receive(self, element: Any) -> Any:
        return element

    def finish(self) -> None:
        """Waits until no memory of the iterator is in use."""


def _mapped(array: Callable[[Any], Any], value: Any) -> Any:
    """Returns the value with each DeviceArray a replaced by array(a)."""
    if isinstance(value, _core.DeviceArray):
        return array(value)
    if isinstance(value, Ragged):
        return Ragged(_mapped(array, value.values), _mapped(array, value.row_splits))
    if isinstance(value, Sparse):
        return Sparse(_mapped(array, value.values), _mapped(array, value.indices),
                      _mapped(array, value.row_splits))
    return value  # bytes, which stay on the host


class TorchReceiver(Receiver):
    """Delivers torch.Tensors of torch's allocator, copied on the stream, or the tensors `out`."""

    def __init__(self, stream: Any, device: int, out: Any):
        import torch
        from torch.utils import dlpack
        self._torch = torch
        self._view = dlpack.from_dlpack
        self._device = device
        if stream is not None and not isinstance(stream, torch.cuda.Stream):
            stream = torch.cuda.ExternalStream(_core.stream_handle(stream), device=device)
        super().__init__(stream)
        self._out: List[Mapping[str, Any]] = [out] if isinstance(out, Mapping) else list(out or ())
        for tensors in self._out:
            if not isinstance(tensors, Mapping):
                raise TypeError("torch: out must be a dict {column: tensor}, or a list of such dicts "
                                "into which batches are copied in turn, not "
                                f"{type(tensors).__name__}")
        self._received = 0

    def stream(self) -> Any:
        if self._stream is not None:
            return self._stream
        return self._torch.cuda.current_stream(self._device)

    def current(self) -> ContextManager[Any]:
        if self._stream is None:
            return contextlib.nullcontext()
        return self._torch.cuda.stream(self._stream)

    def receive(self, element: Any) -> Any:
        if not self._out:
            return map_values(lambda value: _mapped(self._copy, value), element)
        out = self._out[self._received % len(self._out)]
        if not isinstance(element, dict):
            raise TypeError("torch: out names columns, but the elements here are not dicts")
        missing = sorted(set(out) - set(element))
        if missing:
            raise ValueError(f"torch: column {missing[0]!r} of out does not exist; the columns are: "
                             f"{', '.join(element)}")
        self._received += 1
        return {name: self._into(out[name], name, value) if name in out
                else map_values(lambda v: _mapped(self._copy, v), value)
                for name, value in element.items()}

    def _copy(self, array: Any) -> Any:
        return self._view(array).clone()

    def _into(self, tensor: Any, name: str, value: Any) -> Any:
        if not isinstance(value, _core.DeviceArray):
            raise TypeError(f"torch: out[{name!r}]: the column is a {type(value).__name__}, which has "
                            "no fixed shape")
        view = self._view(value)
        if tuple(tensor.shape) != tuple(view.shape) or tensor.dtype != view.dtype:
            raise ValueError(
                f"torch: out[{name!r}]: expected a tensor {tuple(view.shape)} of {view.dtype}, got "
                f"{tuple(tensor.shape)} of {tensor.dtype}; if the last batch is smaller, use "
                "batch(size, drop_remainder=True)")
        return tensor.copy_(view, non_blocking=True)


class _Copies:
    """Views of batches, which keep their memory, with the copies that read the views.
    Thread-safe."""

    def __init__(self) -> None:
        self._batches: Deque[Tuple[List[Any], List[Any]]] = collections.deque()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def add(self, views: List[Any], copies: List[Any]) -> None:
        self._batches.append((views, copies))

    def release(self, most: int) -> None:
        """Releases the views whose copies are done, and waits until at most `most` others are
        left."""
        if os.getpid() != self._process:
            return  # a child after fork has nothing on a device
        with self._lock:
            while self._batches and (len(self._batches) > most or
                                     all(copy.is_ready() for copy in self._batches[0][1])):
                try:
                    for copy in self._batches[0][1]:
                        copy.block_until_ready()
                finally:
                    self._batches.popleft()


class JaxReceiver(Receiver):
    """Delivers jax.Arrays of JAX's allocator. JAX works on streams that it does not expose, so a
    batch's memory is released when JAX reports that the copy is done. At most depth - 1 batches
    are kept for this."""

    def __init__(self, stream: Any, depth: int, sharding: Any):
        import jax
        super().__init__(stream)
        self._jax = jax
        self._place = sharded(sharding)
        self._most = max(1, depth - 1)
        self._copies = _Copies()
        # Dropping a view earlier would release its memory.
        weakref.finalize(self, self._copies.release, 0)

    def current(self) -> ContextManager[Any]:
        self._copies.release(self._most - 1)
        return contextlib.nullcontext()

    def receive(self, element: Any) -> Any:
        views: List[Any] = []
        copies: List[Any] = []
        def array(found: Any) -> Any:
            view = self._jax.dlpack.from_dlpack(found)
            views.append(view)
            copies.append(self._jax.numpy.copy(view))
            return copies[-1]

        def value(found: Any) -> Any:
            return self._place(_mapped(array, found))

        try:
            return map_values(value, element)
        finally:
            self._copies.add(views, copies)

    def finish(self) -> None:
        self._copies.release(0)


def sharded(sharding: Any) -> Callable[[Any], Any]:
    """Returns a function that makes a process's array its part of a global jax.Array."""
    if sharding is None:
        return lambda value: value
    import jax

    def place(value: Any) -> Any:
        if isinstance(value, (Ragged, Sparse)):
            raise TypeError(f"jax(sharding=): a column is a {type(value).__name__}, whose rows differ "
                            "in length and cannot be sharded; pad it, or leave it out with select")
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return value  # bytes
        return jax.make_array_from_process_local_data(sharding, value)

    return place

