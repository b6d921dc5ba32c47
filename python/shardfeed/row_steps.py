"""The steps on rows: parsing, functions, and decoders of columns."""

from __future__ import annotations

import functools
from typing import (Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Tuple, TypeVar,
                    Union)

from . import functions, step_arguments
from . import structure as structures
from .arguments import Count, Scans, Seed, Size, Threads, checked_methods
from .augment import Augmentation
from .chain import Chain
from .choices import BoxFormat, Crop, Interpolation, Layout, OnDamage
from .features import DTypeLike, FeatureLike, as_features, as_shape, dtype_name

Self = TypeVar("Self", bound="RowSteps")
Columns = Union[str, Sequence[str]]


@checked_methods
class RowSteps(Chain):
    """The methods of `Dataset` for rows."""

    def _then(self: Self, method: str, *arguments: Any, text: str, structure: Any = "keep") -> Self:
        return type(self)(method, arguments, [self], text,
                          self._structure if structure == "keep" else structure)

    # ---- Steps on rows

    def parse(self: Self, features: Optional[Mapping[str, FeatureLike]] = None,
              feature_lists: Optional[Mapping[str, FeatureLike]] = None) -> Self:
        """Parses Examples to columns.

        - `features`: {name: sf.fixed(...) | sf.ragged(...) | dtype}. A dtype stands for one
          value; it can be called, as in sf.int64(default=-1).
        - `feature_lists`: those of SequenceExamples.

        Without both, all features are parsed, as the manifest has them: with the types and shapes
        that the writer noted. If there is no manifest, they are those of TFDS's features.json
        (docs/tfds.md), or those of the records: of all of a small dataset, of some of a large one.
        In both cases a record with another feature is a ValueError that names it, so that no
        feature is lost unnoticed; so is a value that does not fit what TFDS declares. ValueError: a
        feature is of several kinds, or of a TFDS type that has no counterpart."""
        if features is None and feature_lists is None:
            return self._then("parse_all", text="parse()", structure=None)
        wanted = as_features(features or {}, "parse")
        lists = as_features(feature_lists or {}, "parse: feature_lists", lists=True)
        if any(f.is_sparse for f in lists.values()):
            raise ValueError("parse: feature lists are ragged, not sparse")
        return self._then("parse", [f.core(name) for name, f in wanted.items()],
                          [f.core(name) for name, f in lists.items()],
                          tuple(name for name, f in wanted.items() if f.is_sparse),
                          text=f"parse({', '.join([*wanted, *lists])})", structure=None)

    def decode_image(self: Self, feature: str = "image/encoded",
                     size: Union[int, Sequence[int]] = 224, *, crop: Crop = "none",
                     center_fraction: float = 0.875, scale: Sequence[float] = (0.08, 1.0),
                     ratio: Sequence[float] = (3 / 4, 4 / 3), flip: float = 0.0, raw: bool = False,
                     channels: Optional[int] = None, interpolation: Optional[Interpolation] = None,
                     antialias: bool = True, layout: Layout = "NHWC",
                     dtype: DTypeLike = "uint8", mean: Union[float, Sequence[float], None] = None,
                     std: Union[float, Sequence[float], None] = None, orient: bool = False,
                     dct_scaling: bool = True,
                     on_damage: OnDamage = "fail", max_pixels: Optional[Size] = None,
                     max_scans: Optional[Scans] = None, seed: Seed = 0, output: str = "",
                     resize_shorter: Count = 0, masks: Columns = (), views: Columns = (),
                     boxes: Columns = (), box_format: BoxFormat = "xyxy", min_area: float = 1,
                     min_visible: float = 0, box_columns: Columns = (), points: Columns = (),
                     normalized: bool = False) -> Self:
        """Decodes the encoded images (JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF, HEIC, JPEG XL) of the column `feature`.

        The pixels replace it as the column `output` (by default its name without "/encoded"):
        an array [height, width, channels], or [channels, height, width] with layout="NCHW".
        They are decoded directly into the batch, so the array is a view of its memory. Records
        that are not parsed yet are parsed as by parse().

        - `size`: of the result in pixels: one number, or (height, width).
        - `crop`: the part that becomes the result. "none" is the whole image, stretched;
          "center" is the middle, in the result's shape, `center_fraction` of the largest such
          part (0.875 is 224 of 256), or, with `resize_shorter`, the middle of the image whose
          shorter side was resized to that many pixels, as torchvision's Resize and CenterCrop
          make it; "random" is torchvision's RandomResizedCrop, by `scale`
          (shares of the area) and `ratio` (width over height).
        - `flip`: the probability of a horizontal flip. Random numbers depend only on `seed`,
          the epoch and the record's position.
        - `raw`: for masks, depth maps and images of many channels. The samples as the file
          stores them, instead of levels: indices of a palette, values of 1, 2, 4 and 16 bits
          without scaling, alpha as one more channel. With the same options and `seed` they are
          the same part, flipped alike, as that of an image of the same size.
        - `channels`: 3 (RGB, the default) or 1 (gray). raw: how many each image must store, by
          default 1; another image is an error.
        - `interpolation`: "bilinear" (the default), "bicubic", "area" or "nearest"; raw: only
          "nearest". `antialias`: resizes as Pillow and torchvision do; otherwise as OpenCV and
          TensorFlow do.
        - `dtype`: uint8, or float16, bfloat16 or float32 values (level / 255 - mean) / std,
          where mean and std are one number or one for each channel. raw: uint8 (an error for
          images of 16 bits), uint16, int32 or float32, with the unscaled values.
        - `orient`: turns images upright by their Exif data.
        - `dct_scaling`: decodes a JPEG of which a large part becomes a small result at 1/2, 1/4 or
          1/8 of its size, which is faster, but changes the levels a little. False: decodes it at
          full size and then resizes it, as Pillow does: for exact evaluation.
        - `on_damage`: what happens to an image that cannot be decoded. "fail" ends the run with
          an error that names the record; "replace" uses another row of the batch, or zeros if it
          has no sound one, as for a single row by its number; "zero" leaves zeros; "accept" uses
          what can be decoded of a damaged JPEG. "replace" and "zero" add a uint8 column
          OUTPUT/valid, which is 1 for each decoded image, and later steps see what they filled
          in. `channels`, `dtype` and `masks` that do not fit an image are no damage, but a
          ValueError in any case.
        - `max_pixels` (134 million), `max_scans` (500): images with more cannot be decoded, so that
          they do not take memory and time.

        Other columns change with the image, by the same draw, as in augment: `masks` and `views`
        are encoded images of the same size, which become columns without "/encoded"; masks become
        their raw samples, uint8 [height, width] (for others, decode them with the same options and
        seed, and raw=True). `boxes`, `box_format`, `min_area`, `min_visible`, `box_columns`,
        `points` and `normalized` are those of augment; pixels are those of the encoded image and,
        afterwards, of the result.

        ValueError: an option is invalid and named, or the column does not exist. From iterators,
        DataLossError: the bytes are not an image; RuntimeError: it is of a format or kind that is
        not supported; OSError: it has more pixels than max_pixels or more scans than max_scans;
        ValueError: raw samples do not fit `channels` or `dtype`.
        """
        if self._structure == "record" and feature != "record":
            return self.parse().decode_image(
                feature, size, crop=crop, center_fraction=center_fraction, scale=scale, ratio=ratio,
                flip=flip, raw=raw, channels=channels, interpolation=interpolation, antialias=antialias,
                layout=layout, dtype=dtype, mean=mean, std=std, orient=orient,
                dct_scaling=dct_scaling, on_damage=on_damage, max_pixels=max_pixels,
                max_scans=max_scans, seed=seed, output=output, resize_shorter=resize_shorter,
                masks=masks, views=views, boxes=boxes, box_format=box_format, min_area=min_area,
                min_visible=min_visible, box_columns=box_columns, points=points,
                normalized=normalized)
        if channels is None:
            channels = 1 if raw else 3
        height, width = step_arguments.size(size)
        fields: Dict[str, Any] = {
            "height": height, "width": width, "crop": crop, "channels": int(channels),
            "center_fraction": float(center_fraction), "scale": step_arguments.two("scale", scale),
            "ratio": step_arguments.two("ratio", ratio), "flip": float(flip), "raw": bool(raw),
            "interpolation": interpolation or ("nearest" if raw else "bilinear"),
            "antialias": bool(antialias), "layout": layout, "dtype": dtype_name(dtype),
            "mean": step_arguments.channels(mean, channels),
            "std": step_arguments.channels(std, channels),
            "orient": bool(orient), "dct_scaling": bool(dct_scaling),
            "on_damage": on_damage, "seed": seed, "output": output,
            "resize_shorter": resize_shorter, "joint": step_arguments.joint_columns(
                masks=masks, views=views, boxes=boxes, box_format=box_format, min_area=min_area,
                min_visible=min_visible, box_columns=box_columns, points=points,
                normalized=normalized)}
        fields.update({name: limit for name, limit in [("max_pixels", max_pixels),
                                                       ("max_scans", max_scans)]
                       if limit is not None})
        text = f"decode_image({feature!r}, {size!r}"
        for name, value, default in [("crop", crop, "none"), ("resize_shorter", resize_shorter, 0),
                                     ("flip", flip, 0.0),
                                     ("raw", fields["raw"], False),
                                     ("dct_scaling", fields["dct_scaling"], True),
                                     ("layout", layout, "NHWC"),
                                     ("dtype", fields["dtype"], "uint8"),
                                     ("on_damage", on_damage, "fail"), ("output", output, "")]:
            if value != default:
                text += f", {name}={value!r}"
        text += step_arguments.joint_text(fields["joint"]) + ")"
        return self._then("decode_image", feature, fields, text=text, structure=None)

    def map(self: Self, fn: Callable[[Any], Any], *, batched: bool = False,
            output: Optional[Mapping[str, FeatureLike]] = None, processes: Threads = 0,
            seed: Optional[Seed] = None, with_index: bool = False, version: str = "") -> Self:
        """Replaces each element by fn(element), on the library's threads.

        - `batched`: elements are batches, whose columns fn takes and returns as arrays;
          otherwise they are rows.
        - `output`: the columns that fn returns, as for parse. Without it fn is called once,
          here, with the first element: numbers and arrays become columns of that type and
          shape, and lists become rows of any length. Python floats become float32, bools uint8.
        - `processes`: runs fn on up to this many spawned processes, as many as the stage has
          threads (start, with_options). fn must be importable. Arrays pass through shared
          memory.
        - `with_index`, `seed`: for rows. They call fn(row, index), where index is the row's
          place in the epoch; fn(row, rng) with a numpy.random.Generator of the row's own, which
          depends only on seed, epoch and place; or fn(row, index, rng).
        - `version`: of fn, a part of the chain's fingerprint. With another version, earlier
          snapshots and states of the chain are refused; what fn does is not known otherwise.

        An exception of fn comes out of the iterator with its traceback and a note that names
        the record."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if batched != self._plan.batched():
            raise ValueError(f"map({name}): " + (
                "the elements here are rows: batch first, or leave out batched=True" if batched else
                "the elements here are batches: pass batched=True, or unbatch first"))
        by_place = with_index or seed is not None
        if by_place and (batched or processes):
            raise ValueError(f"map({name}): with_index and seed are for functions of rows, on threads; "
                             f"leave out {'batched=True' if batched else 'processes'}")
        if processes:
            from .processes import ProcessFunction  # imports modules that few programs need
            fn = ProcessFunction(fn, processes)
        if output is not None:
            outputs, structure = functions.declared(output), None
            if any(isinstance(value, str) and value == "" for value in output):
                raise ValueError("output: a column has no name")
        else:
            tried = fn
            if by_place:
                place = functions.place_arguments((0, 0, 0), with_index, seed is not None)
                tried = functools.partial(functions.with_more, fn, place)
            outputs, structure = self._learn(tried, name, batched)
        if batched:
            call: Any = functions.BatchFunction(fn, self._structure, outputs, structure)
            return self._then("map_batch", outputs, call, not self._shared(), version,
                              text=f"map({name}, batched=True)", structure=structure)
        given = {column[0] for column in outputs}
        drops = [column[0] for column in self._plan.spec() if column[0] not in given]
        if by_place:
            call = functions.PlacedFunction(fn, self._structure, outputs, structure, with_index,
                                            seed is not None)
        else:
            call = functions.RowFunction(fn, self._structure, outputs, structure)
        return self._then("map", outputs, call, drops, version, seed or 0, by_place,
                          text=f"map({name})", structure=structure)

    def flat_map(self: Self, fn: Callable[[Any], Iterable[Any]], *,
                 output: Optional[Mapping[str, FeatureLike]] = None,
                 version: str = "") -> Self:
        """Replaces each row by the elements of fn(row), of which there may be any number; on
        the library's threads.

        `output` declares their columns, as for map; without it they are learned from the first
        element of the first row. `version`: as for map."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if output is not None:
            outputs, structure = functions.declared(output), None
        else:
            with self._start(epoch=0, threads=1) as it:
                first = next((element for row in it for element in functions.called(fn, row)), None)
            if first is None:
                raise ValueError(f"flat_map({name}): there are no elements from which to infer its "
                                 "columns; declare output=")
            structure, values = structures.flatten(first)
            outputs = [functions.infer_row(k, v) for k, v in values.items()]
        call = functions.FlatFunction(fn, self._structure, outputs, structure)
        return self._then("flat_map", outputs, call, version, text=f"flat_map({name})",
                          structure=structure)

    def _learn(self, fn: Callable[[Any], Any], name: str, batched: bool,
               step: str = "map") -> Tuple[Any, Any]:
        """Returns the columns and the structure of fn(first element)."""
        with self._start(epoch=0, threads=1) as it:
            first = next(it, None)
        if first is None:
            raise ValueError(f"{step}({name}): there are no elements from which to infer its columns; "
                             "declare output=")
        return functions.learned(fn, first, self._plan.spec() if batched else None)

    def filter(self: Self, fn: Callable[[Any], Any], *, batched: bool = False,
               version: str = "") -> Self:
        """Keeps the elements for which fn is true.

        `batched`: fn takes a batch and returns an array of bools, one for each row. `version`:
        as for map."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if batched != self._plan.batched():
            raise ValueError(f"filter({name}): the elements here are "
                             f"{'rows' if batched else 'batches'}")
        if batched:
            return self._then("filter_batch", functions.BatchPredicate(fn, self._structure),
                              version, text=f"filter({name}, batched=True)")
        return self._then("filter", functions.RowPredicate(fn, self._structure), version,
                          text=f"filter({name})")

    def scan(self: Self, initial_state: Any, fn: Callable[[Any, Any], Tuple[Any, Any]], *,
             output: Optional[Mapping[str, FeatureLike]] = None, version: str = "") -> Self:
        """Calls fn(state, row), which returns (state, row): the state for the next row, and the
        row that is delivered. Rows are processed one after another, in their order, on one
        thread.

        - `initial_state`: passed with the first row of each epoch, as a copy (copy.deepcopy).
        - `output`, `version`: as for map.

        A saved state of the iterator does not contain fn's state: load_state_dict calls fn
        again for all preceding rows of the epoch. An exception of fn comes out of the iterator
        with a note that names the record. TypeError: fn does not return a pair."""
        name = functions.name_of(fn)
        if self.batched:
            raise ValueError(f"scan({name}): works on rows, but the elements here are batches: put "
                             "it before batch, or unbatch first")
        if output is not None:
            outputs, structure = functions.declared(output), None
        else:
            tried = functools.partial(functions.first_scanned, fn, initial_state)
            outputs, structure = self._learn(tried, name, False, "scan")
        call = functions.ScanFunction(fn, initial_state, self._structure, outputs, structure)
        return self._then("scan", outputs, call, version, text=f"scan({name})", structure=structure)

    def ignore_errors(self: Self, max_ignored: Union[Count, str, None] = None) -> Self:
        """Leaves out the rows on which the row steps directly before it fail: parse,
        decode_image and the like, map, filter.

        The iterator's stats()["ignored"] counts them, including those ahead of the consumer;
        "first_ignored" says what was wrong with the first hundred. A saved state has both
        counts.

        `max_ignored`: raises DataLossError, which says what was wrong, if more rows fail than
        this number or this share of the epoch's rows so far ("5%", but at least 10). The
        default is 1 %, and at least 10.

        ValueError: the step before it does not work on rows. A function of flat_map can catch
        its own errors and return no rows; for damaged records, see sf.read(skip_damaged=)."""
        ceiling = None if max_ignored is None else str(max_ignored)
        return self._then("ignore_errors", ceiling, text=(
            "ignore_errors()" if max_ignored is None else f"ignore_errors({max_ignored!r})"))

    def select(self: Self, *names: str) -> Self:
        """Keeps only these columns, in this order."""
        return self._then("select", list(names), text=f"select({', '.join(names)})", structure=None)

    # ---- Decoders and augmentations

    def decode_raw(self: Self, column: str, dtype: DTypeLike,
                   shape: Union[int, Sequence[int]] = ()) -> Self:
        """Reads bytes that are values in memory order, little-endian, as an array of `shape` in
        their column. A first size of -1 accepts any number of elements and makes the column
        ragged. From iterators, ValueError: bytes of another size."""
        return self._then("decode_raw", column, dtype_name(dtype), list(as_shape(shape)),
                          text=f"decode_raw({column!r}, {dtype_name(dtype)!r}, {shape!r})")

    def decode_npy(self: Self, column: str, dtype: DTypeLike,
                   shape: Union[int, Sequence[int]] = ()) -> Self:
        """Reads the bytes of .npy files, which must hold this dtype and shape."""
        return self._then("decode_npy", column, dtype_name(dtype), list(as_shape(shape)),
                          text=f"decode_npy({column!r}, {dtype_name(dtype)!r}, {shape!r})")

    def decode_text(self: Self, column: str) -> Self:
        """Checks that bytes are UTF-8. From iterators, DataLossError: they are not."""
        return self._then("decode_text", column, text=f"decode_text({column!r})")

    def decode_wav(self: Self, column: str, channels: int = 1, rate: str = "sample_rate") -> Self:
        """Decodes the audio of WAV files to ragged float32 in [-1, 1), with one element
        [channels] per frame, and adds an int32 column `rate` with the frames per second.
        From iterators, ValueError: another number of channels; DataLossError: not a WAV
        file."""
        return self._then("decode_wav", column, channels, rate,
                          text=f"decode_wav({column!r}, channels={channels})", structure=None)

    def augment(self: Self, column: str, steps: Sequence[Augmentation], seed: Seed = 0, *,
                masks: Columns = (), mask_fill: float = 0, views: Columns = (),
                boxes: Columns = (), box_format: BoxFormat = "xyxy", min_area: float = 1,
                min_visible: float = 0, box_columns: Columns = (), points: Columns = (),
                normalized: bool = False) -> Self:
        """Changes images at random (uint8 [height, width, 1 or 3]): see sf.augment.

        The changes depend only on the seed, the epoch and the record's position; two such steps
        of a chain need different seeds. Other columns change with the image, by the same draw:

        - `masks`: [height, width] or [height, width, channels] of integers or floats. Pixels move
          as those of the image do, but are never blended; what comes from outside is `mask_fill`.
        - `views`: more images of the same shape, to which everything is done.
        - `boxes`: a column whose elements are 4 numbers, or four columns, in the order of
          `box_format`: "xyxy", "yxyx" (TensorFlow's), "xywh" (COCO's) or "cxcywh". A box becomes
          the smallest one around its four corners, clipped to the image. It is dropped if less
          than `min_area` pixels remain, or less than the part `min_visible` of its area before
          clipping.
        - `box_columns`: columns with an element for each box, which is dropped with it. They and
          the boxes become ragged.
        - `points`: columns whose last size is 2, or two columns for x and y. A uint8 column
          POINTS/visible is 1 for each point inside the image.
        - `normalized`: boxes and points are fractions of the image's width and height, as
          `convert` writes them, not pixels.

        ValueError: a parameter is out of its range, and named; or a column does not fit, here or,
        for the numbers of elements, from iterators."""
        steps = list(steps)
        joint = step_arguments.joint_columns(
            masks=masks, mask_fill=mask_fill, views=views, boxes=boxes, box_format=box_format,
            min_area=min_area, min_visible=min_visible, box_columns=box_columns, points=points,
            normalized=normalized)
        return self._then("augment", column, steps, seed, joint, structure=None if points else "keep",
                          text=f"augment({column!r}, {steps!r}, seed={seed}"
                               f"{step_arguments.joint_text(joint)})")
