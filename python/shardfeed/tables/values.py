"""Columns of Arrow as features of tf.train.Example.

| Arrow | feature |
| --- | --- |
| booleans, integers | int64 |
| floats | float, of 32 bits |
| strings, binaries | bytes |
| dates, times, timestamps; decimals | bytes: text as ISO 8601 has it; all digits |
| durations | int64, in the column's unit |
| dictionaries, run-end encodings, extensions | their values |
| structs | a feature for each field, NAME.FIELD |
| lists | the values; of lists in lists also NAME_lengths, as in JSON |
| maps | lists: NAME.key, NAME.value |

A null is a record without the feature."""

from __future__ import annotations

import decimal
import re
from typing import Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._core import DataLossError
from .table import damaged

LENGTHS = "_lengths"
OF_LISTS = "lengths of lists"  # the type of these features


class Level(NamedTuple):
    """Lists of one depth: the elements of list i are [offsets[i], offsets[i + 1])."""

    offsets: np.ndarray
    missing: Optional[np.ndarray]  # which of the lists are missing


class Feature(NamedTuple):
    kind: str  # "int64", "float", "bytes", or "none" if no value tells
    type: str  # what Arrow has
    # For the manifest, with which parse() restores them:
    dtype: str = ""  # "float64" of values that become floats of 32 bits; empty: the type that is written
    shape: Tuple[int, ...] = ()  # of a row, if all rows have it and are lists
    written: str = ""  # the type that is written, as Arrow calls it
    is_list: bool = False

    @property
    def noted(self) -> str:
        """The type that the manifest notes; empty: there is none."""
        names = {"null": "", "bool": "bool", "halffloat": "float16", "float": "float32"}
        is_whole = self.kind == "int64" and self.written != "bool"
        return self.dtype or names.get(self.written, self.written if is_whole else "bytes")


class Refused(Exception):
    """A value, at `index` in its column, or a column as a whole."""

    def __init__(self, name: str, what: str, index: Optional[int] = None):
        super().__init__(name, what, index)
        self.name, self.what, self.index = name, what, index


def _empty(name: str, field: Any) -> Any:
    try:
        if isinstance(field.type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(field.type, pa.array([], field.type.storage_type))
        return pa.array([], field.type)
    except pa.ArrowNotImplementedError:
        raise damaged(name, f"column {field.name!r}: features have no counterpart of the type {field.type}; leave it "
                            "out (columns)") from None


class Loss:
    """Values that changed, of one column and in one way."""

    def __init__(self) -> None:
        self.changed = 0
        self.of = 0
        self.first = ""


def _lengths(array: Any) -> np.ndarray:
    """The lengths of lists, 0 for those that are missing."""
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size, np.int64)
    else:
        offsets = np.asarray(array.offsets, np.int64)
        lengths = offsets[1:] - offsets[:-1]
    if array.null_count:
        lengths = np.where(np.asarray(array.is_null()), 0, lengths)
    return lengths


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _is_list_view(kind: Any) -> bool:
    return any(hasattr(pa.types, name) and getattr(pa.types, name)(kind) for name in ("is_list_view", "is_large_list_view"))


def _without_view(array: Any) -> Any:
    """The lists of views, which may be anywhere in the values and overlap. pyarrow's own cast loses some of them."""
    missing = np.asarray(array.is_null()) if array.null_count else None
    lengths = np.asarray(array.sizes, np.int64)
    if missing is not None:
        lengths = np.where(missing, 0, lengths)
    offsets = _offsets(lengths)
    places = np.arange(offsets[-1]) + np.repeat(np.asarray(array.offsets, np.int64) - offsets[:-1], lengths)
    return pa.LargeListArray.from_arrays(pa.array(offsets), array.values.take(pa.array(places)),
                                         mask=None if missing is None else pa.array(missing))


def _is_list(kind: Any) -> bool:
    types = pa.types
    return (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
            or types.is_map(kind))


def _is_block(kind: Any) -> bool:
    """Whether all values have one shape, which is then flat in the feature."""
    if not pa.types.is_fixed_size_list(kind):
        return False
    inner = kind.value_type
    return _is_block(inner) or pa.types.is_primitive(inner) or pa.types.is_boolean(inner) or (
        pa.types.is_string(inner) or pa.types.is_binary(inner) or pa.types.is_fixed_size_binary(inner))


def kind_of(kind: Any) -> str:
    types = pa.types
    if types.is_null(kind):
        return "none"
    if types.is_boolean(kind) or types.is_integer(kind):
        return "int64"
    return "float" if types.is_floating(kind) else "bytes"


class Conversion:
    """Makes the features of the batches of one or several tables, and notes what changed in them."""

    def __init__(self, columns: Optional[Sequence[str]] = None, kinds: Optional[Mapping[str, str]] = None):
        self.columns = columns  # those that are chosen; None: all
        self.kinds = dict(kinds or {})
        self._taken_over: Dict[str, str] = {}  # features whose kinds are those of another dataset, and its name
        self.told: Dict[Tuple[str, str], None] = {}
        self.losses: Dict[str, Loss] = {}
        self._valued: Dict[str, bool] = {}  # columns, and whether a row has a value of them
        # State of the batch that is being converted:
        self._place: Callable[[int], str] = str
        self._made: List[Tuple[str, Any]] = []
        self._types: Dict[str, str] = {}
        self._dtypes: Dict[str, str] = {}
        self._shapes: Dict[str, Tuple[int, ...]] = {}
        self._lists: List[Level] = []

    def take_over(self, name: str, kind: str, dataset: str) -> None:
        """Makes a feature of the kind that it has in another dataset."""
        self.kinds[name] = kind
        self._taken_over[name] = dataset
        self.forget()  # what was said of another kind

    def _why_refused(self, refused: Refused) -> str:
        if refused.name not in self._taken_over:
            return refused.what
        # Another kind would contradict that dataset.
        what = re.sub(r"; (mend it, or )?declare the kind [^;]*\(schema\)$", "", refused.what)
        return f"{what}; it must be {self.kinds[refused.name]}, as in {self._taken_over[refused.name]}"

    # ---- A batch

    def features(self, name: str, schema: Any) -> Dict[str, Feature]:
        """The features of tables of a schema. DataLossError: a column cannot become a feature."""
        empty = pa.RecordBatch.from_arrays([_empty(name, field) for field in schema], schema.names)
        made = self.convert(name, lambda row: name, empty)
        return {field.name: Feature(kind_of(_innermost(field.type)), self._types[field.name],
                                    self._dtypes.get(field.name, ""), self._shapes.get(field.name, ()),
                                    str(_innermost(field.type)), _is_list(field.type))
                for field in made.schema}

    def convert(self, name: str, place: Callable[[int], str], batch: Any) -> Any:
        """The features of the rows, as a batch of Arrow that the writer takes. `place`: names a row of it."""
        self._place = place
        self._made = []
        self._types = {}
        self._dtypes = {}
        self._shapes = {}
        for column, array in zip(batch.schema.names, batch.columns):
            try:
                self._add(column, array, [])
            except Refused as refused:
                where = name if refused.index is None else self._place(refused.index)
                raise DataLossError(f"{where}: column {refused.name!r}: {self._why_refused(refused)}") from None
            except pa.ArrowException as error:
                raise damaged(f"{self._place(0)} or after it", f"column {column!r}: {error}") from None
        found: Set[str] = set()
        for feature, _ in self._made:
            if feature in found:
                raise damaged(name, f"two columns would become the feature {feature!r}; rename one, or choose "
                                    "others (columns)")
            found.add(feature)
        for feature, array in self._made:
            if self._types[feature] != OF_LISTS:
                self._valued[feature] = self._valued.get(feature, False) or (
                    array.null_count < len(array) and not pa.types.is_null(_innermost(array.type)))
        arrays = [array for _, array in self._made]
        return pa.RecordBatch.from_arrays(arrays, [feature for feature, _ in self._made])

    def _wanted(self, name: str, inside: bool) -> bool:
        """Whether a column is chosen or, if it has others `inside`, one of these may be."""
        return self.columns is None or any(
            name == one or name.startswith(one + ".") or (inside and one.startswith(name + "."))
            for one in self.columns)

    def _add(self, name: str, array: Any, lists: List[Level], tensors: Tuple[int, ...] = ()) -> None:
        """`tensors`: the shape of each list, if it is a tensor."""
        kind = array.type
        types = pa.types
        if not self._wanted(name, inside=_holds_struct(kind)):
            return
        if isinstance(kind, pa.BaseExtensionType):
            if kind.extension_name == "arrow.fixed_shape_tensor":
                order = kind.permutation
                if order is None or list(order) == sorted(order):
                    return self._add(name, array.storage, lists, tuple(kind.shape))
            self._tell(name, f"its values are those of its storage, {kind.storage_type}, without what its type "
                             f"{kind.extension_name} says of them")
            return self._add(name, array.storage, lists)
        if types.is_dictionary(kind):
            return self._add(name, array.dictionary_decode(), lists)
        if types.is_run_end_encoded(kind):
            return self._add(name, pc.run_end_decode(array), lists)
        if types.is_struct(kind) and kind.num_fields == 0:
            # Neither it nor lists of it have values, which is told as of a column of nulls.
            self._add_leaf(name, pa.nulls(len(lists[0].offsets) - 1 if lists else len(array)), [])
            self._types[name] = str(kind) + " in a list" * min(len(lists), 1)
            return
        if types.is_struct(kind):
            for field, child in zip(kind, array.flatten()):
                self._add(f"{name}.{field.name}", child, lists)
            return
        if _is_list_view(kind):
            return self._add(name, _without_view(array), lists)
        if not _is_list(kind):
            return self._add_leaf(name, array, lists)
        if types.is_map(kind):
            pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
            return self._add(name, array.cast(pa.list_(pair)), lists)
        if lists and array.null_count:
            raise self._in_list(name, array, lists)
        missing = np.asarray(array.is_null()) if array.null_count else None
        lengths = _lengths(array)
        values = array.flatten()
        if not lists and _is_block(kind):
            level = Level(_offsets(lengths), missing)
            shape = [kind.list_size]
            while _is_block(values.type):
                shape.append(values.type.list_size)
                if values.null_count:
                    raise self._in_list(name, values, [level])
                lengths = lengths * values.type.list_size
                values = values.flatten()
                level = Level(_offsets(lengths), missing)
            if tensors:
                shape = list(tensors)
            if len(shape) > 1:
                self._tell(name, f"its arrays of shape {shape} are flat lists")
            if 0 not in shape:
                self._shapes[name] = tuple(shape)
            return self._add_leaf(name, values, [level])
        self._add(name, values, [*lists, Level(_offsets(lengths), missing)])

    def _add_leaf(self, name: str, array: Any, lists: List[Level]) -> None:
        if lists and array.null_count and not pa.types.is_null(array.type):
            raise self._in_list(name, array, lists)
        self._types[name] = str(array.type) + " in a list" * min(len(lists), 1) + " of lists" * max(len(lists) - 1, 0)
        self._lists = lists
        try:
            values = self._leaf(name, array)
            if pa.types.is_float64(array.type) and pa.types.is_floating(values.type):
                self._dtypes[name] = "float64"
        except Refused as refused:
            raise Refused(name, refused.what,
                          None if refused.index is None else _row(refused.index, lists)) from None
        if not lists:
            self._made.append((name, values))
            return
        missing = lists[0].missing
        mask = None if missing is None else pa.array(missing)

        def listed(offsets: np.ndarray, elements: Any) -> Any:
            return pa.LargeListArray.from_arrays(pa.array(offsets), elements, mask=mask)

        reach = [lists[0].offsets]
        for level in lists[1:]:
            reach.append(level.offsets[reach[-1]])
        self._made.append((name, listed(reach[-1], values)))
        for depth in range(len(lists) - 1, 0, -1):
            lengths = name + LENGTHS * (len(lists) - depth)
            self._types[lengths] = OF_LISTS
            self._made.append((lengths, listed(reach[depth - 1], pa.array(np.diff(lists[depth].offsets)))))

    def _in_list(self, name: str, array: Any, lists: List[Level]) -> Refused:
        index = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        return Refused(name, "a value within a list is missing (null), and a feature has no place for that; fill "
                             "it, leave out such rows, or choose other columns", _row(index, lists))

    # ---- Values

    def _leaf(self, name: str, array: Any) -> Any:
        """Values that the writer takes unchanged: integers, floats of 32 bits, bytes."""
        types, kind = pa.types, array.type
        asked = self.kinds.get(name)
        if types.is_null(kind):
            return array
        for view, plain in (("is_string_view", "large_string"), ("is_binary_view", "large_binary")):
            if hasattr(types, view) and getattr(types, view)(kind):
                return self._leaf(name, array.cast(getattr(pa, plain)()))
        if asked == "int64" and kind_of(kind) != "int64":
            return self._integers(name, array)
        if asked == "float" and not types.is_floating(kind):
            if types.is_integer(kind) or types.is_boolean(kind):
                return self._floats(name, array)
            numbers = self._parsed(name, array, pa.float64(), "a number")
            return self._floats(name, numbers, array)
        if asked == "bytes" and (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            return array.cast(pa.string())
        if types.is_uint64(kind):
            return self._uint64(array)
        if types.is_boolean(kind) or types.is_integer(kind):
            return array
        if types.is_floating(kind):
            return self._floats(name, array)
        if types.is_string(kind) or types.is_large_string(kind):
            if asked != "bytes":
                self._check_utf8(array)
            return array
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return array
        return self._others(name, array)

    def _others(self, name: str, array: Any) -> Any:
        types, kind = pa.types, array.type
        if types.is_decimal(kind):
            self._tell(name, f"its decimals ({kind}) are text, which keeps all digits; declare the kind float to "
                             "have numbers (schema)")
            return array.cast(pa.string())
        if types.is_date(kind) or types.is_time(kind):
            self._tell(name, f"its values ({kind}) are text, as in 2024-01-31 and 13:45:00")
            return self._time_text(name, array)
        if types.is_timestamp(kind):
            zone = "Z" if kind.tz else ""
            self._tell(name, f"its timestamps ({kind}) are text, as in 2024-01-31T13:45:00{zone}; declare "
                             f"the kind int64 to have the {kind.unit} since 1970 (schema)")
            plain = array.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)) if kind.tz else array
            text = pc.replace_substring(self._time_text(name, plain), " ", "T")
            return pc.binary_join_element_wise(text, zone, "") if zone else text
        if types.is_duration(kind):
            self._tell(name, f"its durations are int64, in {kind.unit}")
            return array.cast(pa.int64())
        raise Refused(name, f"features have no counterpart of the type {kind}; leave it out, or cast it to integers, "
                            "floats or strings")

    def _time_text(self, name: str, array: Any) -> Any:
        text = array.cast(pa.string())
        beyond = pc.starts_with(text, "<value out of range").fill_null(False)  # pyarrow's text for these
        if pc.any(beyond).as_py():
            index = beyond.index(True).as_py()
            number = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())[index]
            raise Refused(name, f"{number} ({array.type}) is not a time that can be written as text; declare the kind int64 "
                                "(schema)", index)
        return text

    def _integers(self, name: str, array: Any) -> Any:
        kind = array.type
        if pa.types.is_temporal(kind):
            if not hasattr(kind, "unit"):
                unit = "days" if kind == pa.date32() else "ms"
                self._tell(name, f"its dates are int64, the {unit} since 1970")
            elif pa.types.is_timestamp(kind):
                self._tell(name, f"its timestamps are int64, the {kind.unit} since 1970")
            else:
                self._tell(name, f"its times are int64, in {kind.unit}")
            small = kind in (pa.date32(), pa.time32("s"), pa.time32("ms"))
            return array.cast(pa.int32()) if small else array.cast(pa.int64())
        return self._parsed(name, array, pa.int64(), "an integer")

    def _parsed(self, name: str, array: Any, target: Any, what: str) -> Any:
        """A cast that changes no value."""
        kind = array.type
        if pa.types.is_large_binary(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind) or (
                pa.types.is_fixed_size_binary(kind) or pa.types.is_temporal(kind)):
            raise Refused(name, f"values of the type {kind} are not {what}")
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):  # pyarrow does not take +1
            array = pc.replace_substring_regex(array, r"^\+([0-9.])", r"\1")
        try:
            return array.cast(target)
        except pa.ArrowInvalid:
            low, high = 0, len(array)  # the first that fails is in [low, high)
            while high - low > 1:
                middle = (low + high) // 2
                try:
                    array.slice(low, middle - low).cast(target)
                    low = middle
                except pa.ArrowInvalid:
                    high = middle
            raise Refused(name, f"{str(array[low])!r} is not {what}{_why(array.slice(low, 1), target)}", low) from None

    @staticmethod
    def _uint64(array: Any) -> Any:
        beyond = pc.greater(array, pa.scalar(2**63 - 1, pa.uint64()))
        if not pc.any(beyond).as_py():
            return array
        index = pc.index(beyond, True).as_py()
        raise Refused("", f"{array[index]} is beyond int64; declare the kind float, or bytes for text "
                      "(schema)", index)

    def _changed_as_doubles(self, name: str, array: Any, numbers: Any) -> np.ndarray:
        """Which texts or decimals lose digits already as the doubles `numbers`."""
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        changed = np.zeros(len(values), bool)
        odd = np.abs(values) >= 2.0**53
        if not pa.types.is_decimal(array.type):
            odd |= np.asarray(pc.match_substring_regex(array, "^[^eE]*[1-9]").fill_null(False)) & (values == 0)
        for index in np.flatnonzero(odd):
            try:
                exact = decimal.Decimal(array[index].as_py())
            except decimal.InvalidOperation:  # an exponent of more than 18 digits
                exact = decimal.Decimal(1)
            if exact.is_infinite():
                continue
            if np.isinf(values[index]):
                raise Refused(name, f"{array[index]!s} is beyond the range of floats of 32 bits; declare the kind bytes to "
                                    "have text (schema)", int(index))
            with np.errstate(over="ignore"):
                stored = decimal.Decimal(float(np.float32(values[index])))
            changed[index] = exact != stored and len(exact.normalize().as_tuple().digits) > 7 or values[index] == 0
        return changed

    def _floats(self, name: str, array: Any, parsed_from: Any = None) -> Any:
        """As floats of 32 bits. Those that lose digits are counted, and also those that differ from the text or the
        decimals that `array` was parsed from."""
        kind = array.type
        if pa.types.is_float32(kind) or pa.types.is_float16(kind):
            return array
        missing = np.asarray(array.is_null()) if array.null_count else None
        if pa.types.is_boolean(kind):
            array = array.cast(pa.uint8())
        filled = array.fill_null(0) if missing is not None else array
        values = filled.to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore", invalid="ignore"):
            floats = values.astype(np.float32)
        if values.dtype.kind == "f":
            changed = (floats != values) & (values == values)
            if changed.any():
                changed[changed] = ~_keeps_digits(values[changed], floats[changed])
            infinite = np.isinf(floats) & changed
            if infinite.any():
                index = int(np.argmax(infinite))
                raise Refused(name, f"{values[index]!s} is beyond the range of floats of 32 bits; declare the kind "
                                    "bytes to have text (schema)", index)
        else:
            size = np.abs(values).astype(np.uint64)
            lowest = size & (~size + np.uint64(1))  # the lowest bit that is set
            changed = size // np.maximum(lowest, np.uint64(1)) >= np.uint64(1 << 24)
        if parsed_from is not None:
            changed |= self._changed_as_doubles(name, parsed_from, array)
        self._lost(name, values if parsed_from is None else parsed_from, floats, changed)
        return pa.array(floats, mask=missing)

    def _lost(self, name: str, values: Any, floats: np.ndarray, changed: np.ndarray) -> None:
        loss = self.losses.setdefault(name, Loss())
        loss.of += len(values)
        count = int(np.count_nonzero(changed))
        if count and not loss.changed:
            index = int(np.argmax(changed))
            loss.first = f"{self._place(_row(index, self._lists))}: {values[index]!s} becomes {floats[index]!s}"
        loss.changed += count

    def _check_utf8(self, array: Any) -> None:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            binary = array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
            for index, value in enumerate(binary):
                try:
                    (value.as_py() or b"").decode()
                except UnicodeDecodeError as error:
                    raise Refused("", f"text that is not UTF-8 ({error.reason} at byte {error.start}); declare "
                                      "the kind bytes to keep it (schema)", index) from None
            raise

    # ---- What is said of it

    def forget(self) -> None:
        """Forgets counts and notes, as if nothing had been converted."""
        self.told.clear()
        self.losses.clear()
        self._valued = dict.fromkeys(self._valued, False)

    def with_values(self) -> List[str]:
        """The features that had a value so far."""
        return [name for name, valued in self._valued.items() if valued]

    def _tell(self, name: str, what: str) -> None:
        self.told.setdefault((name, what))

    def notes(self) -> List[str]:
        """What is said of columns, whatever their values are."""
        return [f"column {name!r}: {what}" for name, what in self.told]

    def notes_of_values(self, optional: Collection[str] = ()) -> List[str]:
        """What is said of the values of all rows. `optional`: columns that need no value."""
        empty = [repr(name) for name, valued in self._valued.items() if not valued and name not in optional]
        notes = [f"column {empty[0]}: it has no value in any row"] if len(empty) == 1 else []
        if len(empty) > 1:
            notes.append(f"columns {', '.join(empty)}: they have no value in any row")
        for name, loss in self.losses.items():
            if loss.changed:
                notes.append(f"column {name!r}: {loss.changed:,} of {loss.of:,} values lose digits as floats of 32 "
                             f"bits; the first: {loss.first}")
        return notes


def _why(array: Any, target: Any) -> str:
    """Why a single value cannot be cast, or what helps."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return "; mend it, or declare the kind bytes to have text (schema)"
    try:
        array.cast(target)
    except pa.ArrowInvalid as error:
        return f" ({error})"
    return ""


def _keeps_digits(values: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Whether floats of 32 bits print as the doubles do, as those of 0.1 do."""
    kept = _rounded(floats.astype(np.float64), 7) == values
    # With 8 or 9 digits some do.
    for index in np.flatnonzero(~kept & (_rounded(values, 9) == values)):
        kept[index] = float(str(floats[index])) == values[index]
    return kept


def _rounded(values: np.ndarray, digits: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        power = digits - 1 - np.floor(np.log10(np.abs(values)))
        up, down = 10.0 ** np.clip(power, 0, 300), 10.0 ** np.clip(-power, 0, 300)
        rounded: np.ndarray = np.rint(values * up / down) / up * down
    return rounded


def _innermost(kind: Any) -> Any:
    return kind.value_type if _is_list(kind) else kind


def _holds_struct(kind: Any) -> bool:
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    value = getattr(kind, "value_type", None) or getattr(kind, "storage_type", None)
    return value is not None and _holds_struct(value)


def _row(index: int, lists: List[Level]) -> int:
    """The row that an element of the innermost lists belongs to."""
    for level in reversed(lists):
        index = int(np.searchsorted(level.offsets, index, side="right")) - 1
    return index
