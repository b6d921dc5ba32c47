"""Views of a dataset: through a framework, in blocks, as a drawing."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

from . import iterator
from .frameworks import CONVERTERS


class Viewed(Protocol):
    """What a view needs to know of a chain."""

    _text: str

    @property
    def _inputs(self) -> Sequence[Viewed]: ...

    def _start(self, convert: Optional[Callable[..., Any]] = ..., *,
               blocks: bool = ...) -> iterator.Iterator: ...

    def __len__(self) -> int: ...


class View:
    """A dataset whose iterators yield something other than dicts of NumPy arrays."""

    def __init__(self, dataset: Viewed, framework: Optional[str], blocks: bool = False,
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

    def __init__(self, dataset: Viewed):
        self._nodes: List[str] = []
        self._edges: List[Tuple[int, int]] = []
        self._depth: List[int] = []
        self._add(dataset)

    def _add(self, ds: Viewed) -> int:
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
