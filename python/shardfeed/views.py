"""Views of a dataset: through a framework, in blocks, as a drawing."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

from . import iterator
from .arguments import Count, checked_methods
from .frameworks import CONVERTERS


class Drawn(Protocol):
    """What a drawing needs to know about a chain."""

    _text: str

    @property
    def _inputs(self) -> Sequence[Drawn]: ...


@checked_methods
class Viewable:
    """Something that can be iterated, also through frameworks."""

    def _start(self, convert: Optional[Callable[[Any], Any]] = None, blocks: bool = False) -> Any:
        """Starts a run, and returns its iterator, whose elements `convert` has changed."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def numpy(self) -> View:
        """Returns an iterable whose iterators yield NumPy arrays, as the dataset's own do."""
        return View(self, None)

    def torch(self) -> View:
        """Returns an iterable whose iterators yield torch.Tensors that share the arrays' memory, or
        copies of arrays that are read-only."""
        return View(self, "torch")

    def jax(self, sharding: Any = None) -> View:
        """Returns an iterable whose iterators yield jax.Arrays.

        - `sharding`: a jax.sharding.Sharding of global arrays. A batch is this process's part of
          them, as for jax.make_array_from_process_local_data, and each device gets its part of
          the array."""
        return View(self, "jax", sharding=sharding)

    def tf(self) -> View:
        """Returns an iterable whose iterators yield eager tf.Tensors."""
        return View(self, "tf")


@checked_methods
class RunElsewhere(Viewable):
    """A chain of batches, `dataset`, that other processes run, and that is iterated like itself."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def set_epoch(self, epoch: Count) -> None:
        """Sets the epoch of the next iterator, and of that of the chain itself."""
        self.dataset.set_epoch(epoch)

    @property
    def element_spec(self) -> Dict[str, Tuple[str, Tuple[int, ...], bool]]:
        """{column: (dtype, shape of a row, is ragged)}; 0 in a shape is any length."""
        return self.dataset.element_spec

    @property
    def batched(self) -> bool:
        """True: the elements are batches."""
        return True

    def __len__(self) -> int:
        return len(self.dataset)


class View:
    """A dataset whose iterators yield something other than dicts of NumPy arrays."""

    def __init__(self, dataset: Viewable, framework: Optional[str], blocks: bool = False,
                 **options: Any):
        self.dataset = dataset
        self._options = options  # options of the framework's converter
        self._framework = framework
        self._blocks = blocks

    def __iter__(self) -> iterator.Iterator:
        convert = CONVERTERS[self._framework](**self._options) if self._framework else None
        return self.dataset._start(convert, blocks=self._blocks)

    def __len__(self) -> int:
        if self._blocks:
            raise TypeError("the number of blocks is unknown")
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"{self.dataset!r}.{'blocks' if self._blocks else self._framework or 'numpy'}()"


class Drawing:
    """A chain as a graph."""

    def __init__(self, dataset: Drawn):
        self._nodes: List[str] = []
        self._edges: List[Tuple[int, int]] = []
        self._depth: List[int] = []
        self._add(dataset)

    def _add(self, ds: Drawn) -> int:
        inputs = [self._add(i) for i in ds._inputs]
        node = len(self._nodes)
        self._nodes.append(ds._text)
        self._depth.append(1 + max((self._depth[i] for i in inputs), default=-1))
        self._edges += [(i, node) for i in inputs]
        return node

    def __str__(self) -> str:
        lines = ["graph TD"]
        lines += ['  n{}["{}"]'.format(i, text.replace('"', "'"))
                  for i, text in enumerate(self._nodes)]
        lines += [f"  n{a} --> n{b}" for a, b in self._edges]
        return "\n".join(lines)

    @property
    def svg(self) -> str:
        from html import escape
        width = 40 + 8 * max(map(len, self._nodes))
        seen: Dict[int, int] = {}
        at = []
        for depth in self._depth:
            at.append((20 + seen.get(depth, 0) * (width + 20), 20 + depth * 60))
            seen[depth] = seen.get(depth, 0) + 1
        size = (20 + max(x for x, _ in at) + width, 60 + max(y for _, y in at))
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
                 'font-family="monospace" font-size="12">']
        for a, b in self._edges:
            parts.append(f'<line x1="{at[a][0] + width // 2}" y1="{at[a][1] + 30}" '
                         f'x2="{at[b][0] + width // 2}" y2="{at[b][1]}" stroke="gray"/>')
        for (x, y), text in zip(at, self._nodes):
            parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="30" rx="4" fill="white" '
                         'stroke="black"/>'
                         f'<text x="{x + 10}" y="{y + 19}">{escape(text)}</text>')
        return "".join(parts) + "</svg>"

    def _repr_svg_(self) -> str:
        return self.svg
