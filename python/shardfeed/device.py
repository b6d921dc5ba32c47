"""Batches on a GPU."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from . import structure as structures
from ._core import DeviceArray
from .arguments import Seed, checked, shown
from .features import dtype_name
from .iterator import checked_state, run_options
from .receivers import JaxReceiver, Receiver, TorchReceiver


class Normalize(NamedTuple):
    """How a column of uint8 images [height, width, channels] is normalized on the device, so
    that only bytes cross the bus: (x / 255 - mean[c]) / std[c].

    - `mean`, `std`: one number, or one for each channel.
    - `dtype`: float16, bfloat16 or float32.
    - `layout`: "NCHW" or "NHWC".
    - `flip`: the probability of a horizontal flip.
    - `mixing`: "none", "mixup" or "cutmix" of row i with row i - 1, by one lambda per batch
      from Beta(mix_alpha, mix_alpha), which is in `.lam` of the array and of the iterator, to mix
      the labels in the same way.

    Everything random depends on the seed and the rows' positions in the epoch."""

    mean: Union[float, Sequence[float], None] = None
    std: Union[float, Sequence[float], None] = None
    dtype: Any = "float16"
    layout: str = "NCHW"
    flip: float = 0.0
    mixing: str = "none"
    mix_alpha: float = 1.0
    seed: int = 0

    def core(self) -> Dict[str, Any]:
        return _fields(self._asdict())


def _fields(arguments: Mapping[str, Any]) -> Dict[str, Any]:
    # mean and std may be arrays of any library.
    plain: Dict[str, Any] = {
        name: np.ravel(value) if name in ("mean", "std") and hasattr(value, "__array__") else value
        for name, value in arguments.items()}
    return _normalize(**plain)


@checked
def _normalize(mean: Union[float, Sequence[float], None] = None,
               std: Union[float, Sequence[float], None] = None, dtype: Any = "float16",
               layout: str = "NCHW", flip: float = 0.0, mixing: str = "none",
               mix_alpha: float = 1.0, seed: Seed = 0) -> Dict[str, Any]:
    def numbers(values: Union[float, Sequence[float], None]) -> List[float]:
        return [] if values is None else [float(v) for v in np.ravel(values)]

    return {"mean": numbers(mean), "std": numbers(std), "dtype": dtype_name(dtype),
            "layout": layout, "flip": float(flip), "mixing": mixing, "mix_alpha": float(mix_alpha),
            "seed": seed}


def _fields_of(column: str, how: Any) -> Dict[str, Any]:
    """How a column is normalized: by a Normalize, or by a dict of its arguments."""
    try:
        if isinstance(how, Normalize):
            return how.core()
        if isinstance(how, Mapping):
            return _fields(how)
        raise TypeError(f"expected sf.Normalize or a dict of its arguments, not {shown(how)}")
    except (TypeError, ValueError) as error:
        what = str(error).removeprefix("normalize: ")
        raise type(error)(f"normalize {column!r}: {what}") from None


class DeviceIterator(_core.DeviceIterator):
    """One run with batches on a device, which is used like an Iterator.

    The values of a batch are available to work that is enqueued on the stream of this iterator.
    The memory of DeviceArrays is reused once the last array of a batch has been dropped and its
    streams have done the work that they had by then; no thread blocks for this. Its streams are
    the iterator's stream, those that consumers of __dlpack__ named, and those passed to
    DeviceArray.use(). Work on another stream, even one that waits for these, is not waited for.
    Tensors of torch() and arrays of jax() are copies in the memory of these frameworks, so only
    the frameworks' own rules apply to them.

    - `lam`: {column: lambda} of the last batch, for images that Normalize has mixed.
    - `padded`, `damaged`: as Iterator has them."""

    structure: Any
    receiver: Receiver
    lam: Dict[str, float]

    def __iter__(self) -> "DeviceIterator":
        return self

    def __next__(self) -> Any:
        receiver = self.receiver
        with receiver.current():
            try:
                columns = self.next(receiver.stream())
            except StopIteration:
                receiver.finish()
                raise
            self.lam = {name: value.lam for name, value in columns.items()
                        if isinstance(value, DeviceArray) and value.lam != 1}
            return receiver.receive(structures.build(self.structure, columns))

    def __enter__(self) -> "DeviceIterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run. Delivered arrays stay valid."""
        self.receiver.finish()
        super().close()

    def state_dict(self) -> Dict[str, Any]:
        """Returns where the iterator is, in delivered batches; an Iterator of the same chain
        can load it too."""
        return {"state": self.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to a saved place, which may be that of an Iterator."""
        self.load(checked_state(state))

    def __repr__(self) -> str:
        if self.closed:
            return "<shardfeed.DeviceIterator, closed>"
        stats = self.stats()
        return (f"<shardfeed.DeviceIterator: {stats['batches']} batches in {stats['seconds']:.1f} s; "
                f"{stats['verdict']}>")


class DeviceView:
    """The result of Dataset.cuda: iterating runs the chain with its batches on the device."""

    def __init__(self, dataset: Any, device: int, normalize: Mapping[str, Any], depth: int,
                 pinned_bytes: int, stream: Any):
        self.dataset = dataset
        self._device = device
        self._normalize = {column: _fields_of(column, how) for column, how in normalize.items()}
        self._options = {"device": device, "depth": depth, "pinned_bytes": pinned_bytes}
        self._stream = stream
        self._framework: Optional[str] = None
        self._receiver: Callable[[], Receiver] = lambda: Receiver(stream)
        _core.stream_handle(stream)  # a wrong stream raises TypeError now
        self.device_name = _core.check_device(device)

    def _with(self, framework: str, receiver: Callable[[], Receiver]) -> "DeviceView":
        view = copy.copy(self)
        view._framework = framework
        view._receiver = receiver
        return view

    def torch(self, out: Any = None) -> "DeviceView":
        """Returns an iterable of batches as torch.Tensors of torch's own allocator, copied on the
        iterator's stream, by default torch's current one: record_stream, streams and CUDA graphs
        work as for any tensor.

        - `out`: {column: tensor}, the tensors into which each batch is copied, as a captured CUDA
          graph with fixed addresses needs; or a list of such dicts, used in turn. Other columns
          are new tensors. ValueError, from the iterator: the shape or type differs."""
        return self._with("torch", lambda: TorchReceiver(self._stream, self._device, out))

    def jax(self, sharding: Any = None) -> "DeviceView":
        """Returns an iterable of batches as jax.Arrays of JAX's own allocator, which are safe on
        any stream that JAX uses.

        - `sharding`: a jax.sharding.Sharding of global arrays. A batch is this process's part of
          them, as for jax.make_array_from_process_local_data."""
        return self._with("jax", lambda: JaxReceiver(self._stream, self._options["depth"], sharding))

    def __iter__(self) -> DeviceIterator:
        return self.start()

    def start(self, **options: Any) -> DeviceIterator:
        """Starts a run and returns its iterator. The options are those of Dataset.with_options."""
        ds = self.dataset
        receiver = self._receiver()
        running = {**ds._options, **options, "epoch": ds._epochs.take(options.get("epoch"))}
        address = running.pop("metrics", None)
        it = DeviceIterator(ds._core, self._options, self._normalize, run_options(**running))
        it.structure = ds._structure
        it.receiver = receiver
        it.lam = {}
        if address is not None:
            from .metrics_server import serve  # imports modules that few programs need
            serve(it, address)
        return it

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        form = f".{self._framework}()" if self._framework else ""
        return f"{self.dataset!r}.cuda({self._device}){form}"
