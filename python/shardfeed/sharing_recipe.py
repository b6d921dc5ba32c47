"""A chain as it is sent to the process that reads for the ranks of a machine: with the rank of its sender, with paths
that do not depend on a working folder, and with what tells whether both processes have the same functions."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import io
import os
import pickle
import re
import sys
import types
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from . import _core
from .ranks import grouped, rank_and_world

MAIN = "__main__"
_SPAWNED_MAIN = "__mp_main__"  # what multiprocessing calls it in processes that it spawns


def _changed(chain: Any, arguments: Tuple[Any, ...], inputs: Tuple[Any, ...]) -> Any:
    made = object.__new__(type(chain))
    made.__dict__.update(chain.__dict__)
    made._arguments, made._inputs = arguments, inputs
    made._made = made._records_made = made._made_for = None
    return made


def with_rank(chain: Any) -> Any:
    """Returns the chain with the rank of this process, which the process that reads does not have."""
    if not chain._finds_rank:
        return chain
    arguments = chain._arguments
    if chain._waits_for_rank():
        arguments = (*arguments[:-2], *grouped(*rank_and_world(), chain._group))
    found = _changed(chain, arguments, tuple(map(with_rank, chain._inputs)))
    found._finds_rank = False
    return found


def in_working_folder(chain: Any) -> Any:
    """Returns the chain with absolute paths for those that are relative to the working folder of this process."""
    arguments = chain._arguments
    if chain._method == "shards":
        arguments = (_absolute_specs(arguments[0]), *arguments[1:])
    elif chain._method == "mixture":
        sources = [(name, _absolute_specs(specs), records) for name, specs, records in arguments[0]]
        arguments = (sources, *arguments[1:])
    elif chain._method in ("cache_on_disk", "snapshot"):
        arguments = (os.path.abspath(arguments[0]), *arguments[1:])
    return _changed(chain, arguments, tuple(map(in_working_folder, chain._inputs)))


def _absolute_specs(specs: List[str]) -> List[str]:
    return [path for spec in specs for path in _absolute_spec(spec)]


def _absolute_spec(spec: str) -> List[str]:
    if os.path.isabs(spec) or re.match("[A-Za-z][A-Za-z0-9+.-]*://", spec):
        return [spec]
    folder = os.getcwd()
    # In front of such a spec, the folder would be part of the pattern, or each alternative needs it.
    if spec.startswith("{") or any(c in folder for c in "*?[{@"):
        return [os.path.join(folder, path) for path, _ in _core.resolve_shards([spec])]
    return [os.path.join(folder, spec)]


class Code(NamedTuple):
    """The file of a module, and a digest of it."""

    file: str
    digest: bytes


@functools.lru_cache(maxsize=None)  # so it is that of the file at about the time when the module was imported
def code_of(module: str) -> Optional[Code]:
    """Returns None for a module that has no source."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return None
    try:
        with open(file, "rb") as source:
            return Code(os.path.abspath(file), hashlib.sha256(source.read()).digest())
    except OSError:
        return None  # in an archive, for example


def main_of(module: str) -> str:
    return MAIN if module == _SPAWNED_MAIN else module


class _Pickler(pickle.Pickler):
    """Collects the modules of the functions and classes that it names."""

    def __init__(self, file: Any):
        super().__init__(file, 5)
        self.modules: Set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, types.FunctionType)) and isinstance(value.__module__, str):
            self.modules.add(main_of(value.__module__))
        return NotImplemented


def pickled(chain: Any) -> Tuple[bytes, Dict[str, Code]]:
    """Returns the pickled chain and, of each module that it names, what it is in this process."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(chain)
    package = __name__.split(".")[0]
    codes = {module: code_of(module) for module in sorted(pickler.modules) if module.split(".")[0] != package}
    return file.getvalue(), {module: code for module, code in codes.items() if code is not None}
