"""Features of single records, for display: any Example or SequenceExample, whatever its features are.

Chains parse by a schema that holds for all records; here every record says itself what it has. The wire format is that
of Protocol Buffers (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple, Union

import numpy as np

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = {1: "bytes", 2: "float", 3: "int64"}


class Feature(NamedTuple):
    """One feature of one record. `values` are a list of bytes or an array of float32 or int64. A feature list of a
    SequenceExample has all steps together, and their numbers of values in `steps`."""

    name: str
    kind: str  # "bytes", "float", "int64", or "" without a kind
    values: Any
    steps: Union[List[int], None] = None


class NotAnExample(ValueError):
    """A record is not a serialized Example or SequenceExample."""


def features_of(record: bytes) -> List[Feature]:
    """Returns the features by name; of repeated names the last. In a name, what is no UTF-8 becomes U+FFFD, as in the
    schema. A feature and a feature list may have one name, and a list whose steps have several kinds is one feature for
    each. Raises NotAnExample."""
    found: Dict[Tuple[bytes, int], List[Feature]] = {}
    seen = False
    try:
        for number, wire, part in _fields(memoryview(record)):
            if wire != _BYTES or number not in (1, 2):
                continue
            seen = True
            for key, content in _entries(part):
                name = key.decode(errors="replace")
                if number == 1:
                    kind, values = _feature(content)
                    found[key, 1] = [Feature(name, kind, _joined(kind, values))]
                else:
                    steps = [_feature(step) for _, _, step in _of(content, 1)]
                    kinds = sorted({kind for kind, _ in steps if kind}) or [""]
                    found[key, 2] = [
                        Feature(name, kind, _joined(kind, [piece for k, values in steps if k == kind for piece in values]),
                                [_count(kind, values) if k == kind else 0 for k, values in steps]) for kind in kinds]
    except IndexError as error:
        raise NotAnExample(str(error)) from None
    if not seen and record:
        raise NotAnExample("it has no features")
    return [feature for key in sorted(found) for feature in found[key]]


def features_or_whole(record: bytes) -> List[Feature]:
    """Returns the features of a record. One that is no Example is itself the value, of a feature without a name."""
    try:
        return features_of(record)
    except NotAnExample:
        return [Feature("", "bytes", [record])]


def _varint(data: memoryview, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise NotAnExample("a number has more than ten bytes")


def _fields(data: memoryview) -> Iterator[Tuple[int, int, Any]]:
    """Yields number, wire type and content: a view of bytes, or a number."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value: Any
            value, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32, _BYTES):
            size = 8 if wire == _FIXED64 else 4
            if wire == _BYTES:
                size, at = _varint(data, at)
            if size > len(data) - at:
                raise NotAnExample("it is truncated")
            value, at = data[at:at + size], at + size
        else:
            raise NotAnExample(f"there is a wire type {wire}")
        yield number, wire, value


def _of(data: memoryview, number: int) -> Iterator[Tuple[int, int, Any]]:
    """Yields the fields of bytes with this number."""
    return (field for field in _fields(data) if field[0] == number and field[1] == _BYTES)


def _entries(features: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    for _, _, entry in _of(features, 1):
        name, value = b"", memoryview(b"")
        for number, wire, part in _fields(entry):
            if number == 1 and wire == _BYTES:
                name = bytes(part)
            elif number == 2 and wire == _BYTES:
                value = part
        yield name, value


def _feature(data: memoryview) -> Tuple[str, List[Any]]:
    """Returns the kind, of several the last, and the values, numbers in arrays."""
    kind = ""
    values: List[Any] = []
    for number, wire, content in _fields(data):
        if number not in _KINDS or wire != _BYTES:
            continue
        if _KINDS[number] != kind:
            kind, values = _KINDS[number], []
        for field, of, part in _fields(content):
            if field != 1:
                continue
            if kind == "bytes" and of == _BYTES:
                values.append(bytes(part))
            elif kind == "float" and of in (_BYTES, _FIXED32):
                if len(part) % 4:
                    raise NotAnExample("floats are truncated")
                values.append(np.frombuffer(part, "<f4"))
            elif kind == "int64" and of == _BYTES:
                values.append(_varints(part))
            elif kind == "int64" and of == _VARINT:
                values.append(np.array([part], np.uint64).view(np.int64))
    return kind, values


def _varints(data: memoryview) -> np.ndarray:
    raw = np.frombuffer(data, np.uint8)
    if not len(raw):
        return np.empty(0, np.int64)
    ends = np.flatnonzero(raw < 0x80) + 1
    if not len(ends) or ends[-1] != len(raw):
        raise NotAnExample("a number is truncated")
    starts = np.concatenate([[0], ends[:-1]])
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts)
    if place.max() > 9:
        raise NotAnExample("a number has more than ten bytes")
    parts = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts).view(np.int64)


def _joined(kind: str, values: List[Any]) -> Any:
    if kind in ("bytes", ""):
        return values
    dtype = np.float32 if kind == "float" else np.int64
    return np.concatenate(values) if values else np.empty(0, dtype)


def _count(kind: str, values: List[Any]) -> int:
    return len(values) if kind in ("bytes", "") else sum(map(len, values))
