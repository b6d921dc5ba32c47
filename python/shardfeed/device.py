"""Batches on a GPU."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from . import structure as structures
from ._core import DeviceArray
from .features import dtype_name
from .iterator import checked_state, run_options
from .ragged import Ragged, Sparse


class Normalize(NamedTuple):
    """How a column of uint8 images [height, width, channels] is normalized on the device, so
    that only bytes cross the bus: (x / 255 - mean[c]) / std[c].

    - `mean`, `std`: one number, or one for each channel.
    - `dtype`: float16, bfloat16 or float32.
    - `layout`: "NCHW" or "NHWC".
    - `flip`: the probability of a horizontal flip.
    - `mixing`: "none", "mixup" or "cutmix" of row i with row i - 1, by one lambda per batch
      from Beta(mix_alpha, mix_alpha). The array's `.lam` has it, for mixing the labels.

    Everything random depends on the seed and the rows' places in the epoch."""

    mean: Union[float, Sequence[float], None] = None
    std: Union[float, Sequence[float], None] = None
    dtype: Any = "float16"
    layout: str = "NCHW"
    flip: float = 0.0
    mixing: str = "none"
    mix_alpha: float = 1.0
    seed: int = 0

    def core(self) -> Dict[str, Any]:
        def numbers(values: Any) -> List[float]:
            if values is None:
                return []
            return [float(v) for v in np.ravel(values)]

        return {**self._asdict(), "mean": numbers(self.mean), "std": numbers(self.std),
                "dtype": dtype_name(self.dtype), "flip": float(self.flip),
                "mix_alpha": float(self.mix_alpha)}


def _handle(stream: Any) -> int:
    """The driver's handle of a stream of anyone's."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, Numba
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    return int(getattr(stream, "value", stream) or 0)


class DeviceIterator(_core.DeviceIterator):
    """One run with batches on a device; it is used as an Iterator.

    The values of a batch are in place for work that is enqueued on the stream of this iterator,
    or on the one that a consumer of __dlpack__ names. Its device memory is reused once the last
    of its arrays is gone and the work that these streams had by then is done, without blocking
    a thread."""

    structure: Any
    stream: Callable[[], int]
    convert: Optional[Callable[[Any], Any]]

    def __iter__(self) -> "DeviceIterator":
        return self

    def __next__(self) -> Any:
        element = structures.build(self.structure, self.next(self.stream()))
        return element if self.convert is None else structures.map_values(self.convert, element)

    def __enter__(self) -> "DeviceIterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

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
    """What Dataset.cuda gives: iterating runs the chain, its batches being on the device."""

    def __init__(self, dataset: Any, device: int, normalize: Mapping[str, Any], depth: int,
                 pinned_bytes: int, stream: Any, framework: Optional[str] = None):
        self.dataset = dataset
        self._device = device
        self._normalize = {
            name: how if isinstance(how, Normalize) else Normalize(**how)
            for name, how in normalize.items()}
        self._options = {"device": device, "depth": depth, "pinned_bytes": pinned_bytes}
        self._stream = stream
        self._framework = framework
        self.device_name = _core.check_device(device)

    def _with(self, framework: str) -> "DeviceView":
        return DeviceView(self.dataset, self._device, self._normalize, self._options["depth"],
                          self._options["pinned_bytes"], self._stream, framework)

    def torch(self) -> "DeviceView":
        """torch.Tensors, of the same memory. Without a stream of its own, the values are in place for
        torch's current stream."""
        return self._with("torch")

    def jax(self) -> "DeviceView":
        """jax.Arrays, of the same memory."""
        return self._with("jax")

    def __iter__(self) -> DeviceIterator:
        return self.start()

    def start(self, **options: Any) -> DeviceIterator:
        """An iterator; options as Dataset.with_options."""
        ds = self.dataset
        it = DeviceIterator(ds._core, self._options,
                            {name: how.core() for name, how in self._normalize.items()},
                            run_options(**{**ds._options, **options,
                                           "epoch": ds._epochs.take(options.get("epoch"))}))
        it.structure = ds._structure
        handle = _handle(self._stream)
        it.stream = lambda: handle
        it.convert = None
        if self._framework == "torch":
            import torch
            from torch.utils import dlpack
            it.convert = _converter(dlpack.from_dlpack)
            if self._stream is None:
                it.stream = lambda: torch.cuda.current_stream(self._device).cuda_stream
        elif self._framework == "jax":
            import jax
            it.convert = _converter(jax.dlpack.from_dlpack)
        return it

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        form = f".{self._framework}()" if self._framework else ""
        return f"{self.dataset!r}.cuda({self._device}){form}"


def _converter(array: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def value(v: Any) -> Any:
        if isinstance(v, DeviceArray):
            return array(v)
        if isinstance(v, Ragged):
            return Ragged(value(v.values), value(v.row_splits))
        if isinstance(v, Sparse):
            return Sparse(value(v.values), value(v.indices), value(v.row_splits))
        return v  # bytes, which stay with the host

    return value
