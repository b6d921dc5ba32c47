"""Searching records for values of a feature. Whole blocks are parsed by the library; where that is impossible, because
records are damaged, are no Examples or have values of another kind, each record by itself."""

from __future__ import annotations

import decimal
import math
import operator
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

import numpy as np

from ..dataset import Dataset
from ..features import ragged
from . import examples

if TYPE_CHECKING:
    from .dataset import ViewedDataset

_SECONDS = 1.0  # a search takes at most this long, as far as a block allows
_ROWS_AT_ONCE = 4096
_BLOCK = 1 << 16  # a run reads this many records
_NO_VALUE = (ValueError, RuntimeError)  # what reading or parsing a record raises, among them DataLossError
_MOST_FLOAT = float(np.finfo(np.float32).max)
_INT64 = np.iinfo(np.int64)
_COMPARES: Dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
# Numbers as the page prints them, with commas between thousands or without.
_NUMBER = re.compile(r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE)


class BadSearch(ValueError):
    """A search is not possible. The message is for users."""


class Search:
    """A condition on records. `feature` None is the whole record. BadSearch: wrong arguments."""

    def __init__(self, feature: Optional[str], known: Dict[str, Any], compare: str, text: str):
        """`known`: what the schema says of the feature."""
        self._feature = feature
        self._compare = compare
        self._kind = str(known.get("kind", "bytes"))
        self._is_list = bool(known.get("list"))
        self._hits = _comparison(feature, self._kind, compare, text)
        # A name that is no UTF-8 is not known by its bytes here.
        self._is_parsed = feature is None or "\ufffd" not in feature

    def run(self, dataset: "ViewedDataset", first: int, most: int) -> Dict[str, Any]:
        """Searches onwards from record `first`, for about a second. OSError: records cannot be read."""
        run = _Run(dataset, first, most)
        while not run.is_over():
            end = min(run.at + _BLOCK, len(dataset))
            try:
                if not self._is_parsed:
                    raise ValueError(self._feature)
                for column in self._columns(dataset, run.at, end):
                    run.add(self._matches(column), len(column))
                    if run.is_over():
                        break
            except _NO_VALUE:
                for rows in dataset.in_parts(range(run.at, min(run.at + _ROWS_AT_ONCE, end))):
                    run.unread += [row.error for row in rows if row.error]
                    run.add(np.array([not row.error and self.holds(row.record) for row in rows]), len(rows))
                    if run.is_over():
                        break
        return run.result()

    def _columns(self, dataset: "ViewedDataset", first: int, end: int) -> Iterator[Any]:
        """Yields the feature in batches of records."""
        # Of the records of the dataset as it was opened: another that took its place is not searched.
        chain = Dataset("records", (dataset.chain._records, range(first, end)), (), "records", "record")
        if self._feature is None:
            yield from chain.batch(256)
            return
        wanted = {self._feature: ragged("float32" if self._kind == "float" else self._kind, ragged_steps=self._is_list)}
        parsed = chain.parse(feature_lists=wanted) if self._is_list else chain.parse(wanted)
        for batch in parsed.batch(_ROWS_AT_ONCE):
            yield batch[self._feature]

    def _matches(self, column: Any) -> np.ndarray:
        """Returns for each row of a batch whether it matches."""
        if self._feature is None:
            return self._hits([column[i] for i in range(len(column))])
        if self._compare in ("missing", "present"):
            present: np.ndarray = column.lengths() > 0
            return present == (self._compare == "present")
        # One of the values is enough.
        sums = np.concatenate([[0], np.cumsum(self._hits(column.values))])
        splits = np.asarray(column.row_splits)
        matched: np.ndarray = sums[splits[1:]] > sums[splits[:-1]]
        return matched

    def holds(self, record: bytes) -> bool:
        """Whether a single record matches. One that is no Example has no features, and none is missing."""
        if self._feature is None:
            return bool(self._hits([record])[0])
        try:
            named = [one for one in examples.features_of(record) if one.name == self._feature]
        except examples.NotAnExample:
            return False
        if self._compare in ("missing", "present"):
            return any(len(one.values) > 0 for one in named) == (self._compare == "present")
        return any(bool(np.any(self._hits(one.values))) for one in named
                   if one.kind == self._kind and (one.steps is not None) == self._is_list)


class _Run:
    """How far a search has come."""

    def __init__(self, dataset: "ViewedDataset", at: int, most: int):
        self.at = at
        self.unread: List[str] = []  # errors of records that cannot be read
        self._end = len(dataset)
        self._most = most
        self._found: List[int] = []
        self._until = time.monotonic() + _SECONDS

    def is_over(self) -> bool:
        return self.at >= self._end or len(self._found) >= self._most or time.monotonic() > self._until

    def add(self, matches: np.ndarray, count: int) -> None:
        self._found += (self.at + np.flatnonzero(matches)).tolist()
        self.at += count

    def result(self) -> Dict[str, Any]:
        if len(self._found) > self._most:
            self.at = self._found[self._most]
        found: Dict[str, Any] = {"records": self._found[:self._most], "next": self.at if self.at < self._end else None}
        return {**found, "unread": len(self.unread), "error": self.unread[0]} if self.unread else found


def _comparison(feature: Optional[str], kind: str, compare: str, text: str) -> Callable[[Any], np.ndarray]:
    """Returns a function of values that tells for each whether it matches."""
    if feature is None and compare != "contains":
        raise BadSearch("whole records can only be searched for what they contain")
    if compare in ("missing", "present"):
        return lambda values: np.ones(len(values), bool)
    if kind == "bytes":
        if compare not in ("contains", "="):
            raise BadSearch(f"{feature!r} has bytes, which can be searched by: contains, =, missing, present")
        wanted = text.encode()
        return lambda values: np.fromiter((wanted in values[i] if compare == "contains" else wanted == values[i]
                                           for i in range(len(values))), bool, len(values))
    if compare not in _COMPARES:
        raise BadSearch(f"{feature!r} has numbers, which can be searched by: {', '.join(_COMPARES)}, missing, present")
    exact = _number(feature, text)
    if kind == "int64":
        return _int64_comparison(compare, exact)
    number = float(exact)
    # As it is stored: 0.1 is found, also by <= and >=.
    stored = np.float32(number) if abs(number) <= _MOST_FLOAT or math.isinf(exact) else np.float64(number)
    if number != number and compare in ("=", "!="):  # NaN, which is not even equal to itself
        return lambda values: np.isnan(values) == (compare == "=")
    return lambda values: _COMPARES[compare](values, stored)


def _int64_comparison(compare: str, exact: decimal.Decimal) -> Callable[[Any], np.ndarray]:
    """The same for integers. float64 does not have all of them, so they are compared with an integer."""
    def always(result: bool) -> Callable[[Any], np.ndarray]:
        return lambda values: np.full(len(values), result)

    if exact.is_nan():
        return always(compare == "!=")
    if exact > _INT64.max:
        return always(compare in ("<", "<=", "!="))
    if exact < _INT64.min:
        return always(compare in (">", ">=", "!="))
    floor = math.floor(exact)
    if exact == floor:
        return lambda values: _COMPARES[compare](values, floor)
    if compare in ("=", "!="):
        return always(compare == "!=")
    return lambda values: (values <= floor) == (compare in ("<", "<="))


def _number(feature: Optional[str], text: str) -> decimal.Decimal:
    if not _NUMBER.fullmatch(text.strip()):
        raise BadSearch(f"{text!r} is not a number, but {feature!r} has numbers")
    try:
        return decimal.Decimal(text.strip().replace(",", ""))
    except decimal.InvalidOperation:
        raise BadSearch(f"{text!r}: the exponent has too many digits") from None
