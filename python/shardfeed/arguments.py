"""Checks of the arguments of public functions against their annotations, so that every wrong
argument is reported in the same way, by its name, before any other code uses it."""

from __future__ import annotations

import collections.abc
import difflib
import functools
import inspect
import math
import operator
import os
import pathlib
import types
import typing
from typing import Annotated, Any, Callable, Dict, List, Literal, Mapping, NamedTuple, Sequence, Tuple, TypeVar, Union

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


class Whole(NamedTuple):
    """The range of an integer."""

    least: int
    most: int


# Annotated[..., UNCHECKED]: the function checks the argument itself.
UNCHECKED = object()
# RecordRange::kToEnd: the count of a range of records up to the last one.
TO_END = (1 << 64) - 1

_MOST = (1 << 63) - 1
_SCHEMES = [("s3:",), ("gs:",), ("az:",), ("abfss:",), ("http:",), ("https:",)]

Count = Annotated[int, Whole(0, _MOST)]
Size = Annotated[int, Whole(1, _MOST)]
Position = Annotated[int, Whole(0, 1 << 60)]  # a position in the schedule of a mixture
Seed = Annotated[int, Whole(0, (1 << 64) - 1)]
Threads = Annotated[int, Whole(0, 1 << 16)]  # 0: chosen automatically
Scans = Annotated[int, Whole(1, (1 << 31) - 1)]
Device = Annotated[int, Whole(0, (1 << 31) - 1)]
Level = Annotated[int, Whole(0, 9)]


class _Wrong(Exception):
    """(what is expected, the class of the exception, and, for a list, which of its elements is wrong)"""


class _WrongName(_Wrong):
    """The same of a name in a dict, which says more than what the dict is."""


class _WrongElement(_Wrong):
    """The same of one of a list's elements."""


def specs_of(spec: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]) -> List[str]:
    """One path or several, as texts."""
    return [os.fspath(s) for s in ([spec] if isinstance(spec, (str, os.PathLike)) else spec)]


def shown(value: Any) -> str:
    """Returns the value for a message, cut to one printable line."""
    try:
        text = repr(value)
    except Exception:  # the user's class may raise anything
        text = f"<{type(value).__name__}>"
    if "\n" in text:  # a table
        text = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if len(text) <= 80 else text[:77] + "..."


def needs(error: ModuleNotFoundError, what: str, extra: str) -> ModuleNotFoundError:
    """The error for an engine that is not installed: this one, with the remedy."""
    return ModuleNotFoundError(f"shardfeed.{extra} needs {what}, and there is no module {error.name!r}: "
                               f"pip install 'shardfeed[{extra}]'", name=error.name)


def checked(fn: F) -> F:
    """Returns `fn` with a check that its arguments are as annotated: a wrong type is a TypeError,
    and a value out of its range is a ValueError."""
    facts: Dict[str, Any] = {}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not facts:
            # Read at the first call, since annotations may refer to names defined later in the
            # module.
            facts.update(signature=inspect.signature(fn),
                         hints=typing.get_type_hints(fn, include_extras=True))
        try:
            bound = facts["signature"].bind(*args, **kwargs)
        except TypeError as error:
            known = {name: name for name in facts["signature"].parameters}
            unknown = [name for name in kwargs if name not in known]
            near = did_you_mean(unknown[0], known) if unknown else ""
            raise TypeError(f"{fn.__name__.strip('_')}: {error}{near}") from None
        for name, value in bound.arguments.items():
            hint = facts["hints"].get(name, Any)
            if hint is Any or name == "self":
                continue
            kind = facts["signature"].parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                value = tuple(_argument(fn, name, hint, one) for one in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                value = {key: _argument(fn, key, hint, one) for key, one in value.items()}
            elif value is not facts["signature"].parameters[name].default:
                value = _argument(fn, name, hint, value)
            bound.arguments[name] = value
        return fn(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def did_you_mean(name: str, known: Mapping[str, Any]) -> str:
    """The end of a message about a name that is not known. Values of `known` are what is shown for its names."""
    near = difflib.get_close_matches(name, known, 1, 0.7)
    return f"; did you mean '{known[near[0]]}'?" if near else ""


def checked_methods(cls: C) -> C:
    """Makes the public methods of a class `checked`."""
    for name, value in list(vars(cls).items()):
        if inspect.isfunction(value) and not name.startswith("_"):
            setattr(cls, name, checked(value))
    return cls


def _argument(fn: Callable[..., Any], name: str, hint: Any, value: Any) -> Any:
    try:
        return _value(hint, value)
    except _Wrong as wrong:
        expected, kind, *element = wrong.args
        found = "".join(element) or f"not {shown(value)}"
        raise kind(f"{fn.__name__.strip('_')}: {name} must be {expected}, {found}") from None


def _value(hint: Any, value: Any) -> Any:
    """Returns `value` as the annotation requires; NumPy scalars become Python numbers."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or UNCHECKED in parts:
        return value
    if origin is Annotated:
        return _whole(value, *parts[1])
    if origin in (Union, types.UnionType):
        return _one_of(parts, value)
    if origin is Literal:
        if not any(isinstance(value, type(part)) and value == part for part in parts):
            raise _Wrong("one of " + ", ".join(map(repr, parts)),
                         ValueError if isinstance(value, type(parts[0])) else TypeError)
        return value
    if origin is not None:
        return _container(origin, parts, hint, value)
    if hint in (int, float, str, bool):
        return {int: _whole, float: _number, str: _text, bool: _truth}[hint](value)
    if hint is None or hint is type(None):
        ok = value is None
    elif hint is os.PathLike:
        ok = isinstance(value, os.PathLike) and isinstance(os.fspath(value), str)
        if ok:
            _text(os.fspath(value))
            # pathlib turns s3://bucket into s3:/bucket, which would be a local folder.
            if isinstance(value, pathlib.PurePath) and value.parts[:1] in _SCHEMES:
                raise _Wrong("a str where it is a URL, since paths lose a slash", ValueError)
    else:
        ok = not isinstance(hint, type) or isinstance(value, hint)
    if not ok:
        raise _Wrong(_described(hint), TypeError)
    return value


def _whole(value: Any, least: int = -_MOST - 1, most: int = _MOST) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise _Wrong("an integer", TypeError)
    try:
        number = operator.index(value)
    except TypeError:  # an array with several values
        raise _Wrong("an integer", TypeError) from None
    if number < least:
        raise _Wrong(f"at least {least}", ValueError)
    if number > most:
        raise _Wrong(f"at most {most}", ValueError)
    return number


def _number(value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)) or (
            isinstance(value, np.complexfloating)):
        raise _Wrong("a number", TypeError)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Wrong("a finite number", ValueError)
    if isinstance(value, (int, np.integer)) and int(value) != number:  # beyond 2 to the 53rd
        raise _Wrong("a number that float64 holds exactly", ValueError)
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("a str", TypeError)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Wrong("a str of valid Unicode", ValueError) from None
    if "\0" in value:
        raise _Wrong("a str without NUL", ValueError)
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _Wrong("True or False", TypeError)
    return bool(value)


def _one_of(hints: Tuple[Any, ...], value: Any) -> Any:
    kinds = []
    for hint in hints:
        try:
            return _value(hint, value)
        except _Wrong as wrong:
            if wrong.args[1] is ValueError:  # of the right kind, but out of its range
                raise
            kinds.append(wrong.args[0])
    raise _Wrong(" or ".join(dict.fromkeys(kinds)), TypeError)


def _container(origin: Any, parts: Tuple[Any, ...], hint: Any, value: Any) -> Any:
    if origin is collections.abc.Callable:
        if not callable(value):
            raise _Wrong("a function", TypeError)
        return value
    try:
        if issubclass(origin, collections.abc.Mapping):
            if not isinstance(value, collections.abc.Mapping):
                raise _Wrong(_described(hint), TypeError)
            return {_named(parts[0], k): _value(parts[1], v) for k, v in value.items()}
        if isinstance(value, (str, bytes, collections.abc.Mapping)) or not (
                isinstance(value, (collections.abc.Sequence, np.ndarray))) or (
                    isinstance(value, np.ndarray) and value.ndim != 1):
            raise _Wrong(_described(hint), TypeError)
        if origin is tuple and parts[-1] is not Ellipsis:
            if len(value) != len(parts):
                raise _Wrong(_described(hint), ValueError)
            return tuple(map(_value, parts, value))
        if type(value) in (list, tuple) and len(value) > 1:  # not what is a tuple by itself, such as an Augmentation
            return [_element(parts[0], hint, i, one) for i, one in enumerate(value)]
        return [_value(parts[0], one) for one in value]
    except (_WrongName, _WrongElement):
        raise
    except _Wrong as wrong:
        raise _Wrong(_described(hint), wrong.args[1]) from None


def _element(hint: Any, of: Any, i: int, value: Any) -> Any:
    """One of several elements of a list, so that the message says which one is wrong."""
    try:
        return _value(hint, value)
    except _WrongName:
        raise
    except _Wrong as wrong:
        raise _WrongElement(_described(of), wrong.args[1], f"but element {i} is {shown(value)}") from None


def _named(hint: Any, key: Any) -> Any:
    """The key of a dict. Of a name that is a str, the message says why it cannot be one."""
    try:
        return _value(hint, key)
    except _Wrong as wrong:
        if wrong.args[1] is not ValueError:
            raise
        raise _WrongName(f"a dict whose names are each {wrong.args[0]}", ValueError) from None


def _described(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if UNCHECKED in parts:
        return "a type or a feature"
    if origin is Annotated:
        least, most = parts[1]
        return f"an integer from {least}" + (f" to {most}" if most < _MOST else "")
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_described, parts)))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin is collections.abc.Callable:
        return "a function"
    if origin is tuple:
        return f"({', '.join(map(_described, parts))})"
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return f"a dict {{{_described(parts[0])}: {_described(parts[1])}}}"
    if origin is not None:
        return f"a list, each {_described(parts[0])}"
    if hint is Any:
        return "any value"
    if hint is None or hint is type(None):
        return "None"
    return {int: "an integer", float: "a finite number", str: "a str", bool: "True or False",
            os.PathLike: "a path"}.get(hint) or f"of type {getattr(hint, '__name__', hint)}"
