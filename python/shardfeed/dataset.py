"""Chains of steps: the recipe."""

from __future__ import annotations

import functools
import os
from typing import (Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple,
                    Union)

from . import functions, step_arguments
from . import structure as structures
from ._core import Trace
from .arguments import Count, Seed, Size, Threads, checked, checked_methods
from .augment import Augmentation
from .chain import Chain
from .choices import Crop, Exhausted, Interpolation, Layout, OnDamage
from .features import DTypeLike, FeatureLike, as_features, as_shape, dtype_name


@checked_methods
class Dataset(Chain):
    """An immutable chain of steps over shards; each step gives a new one. Iterating runs it.

    Elements are rows or, behind batch and the like, batches. A row is a dict of its columns: Python
    numbers, bytes, arrays; a batch a dict of arrays [rows, ...] that are views of the batch's
    memory, `BytesArray`s and `Ragged`s. Records that are not parsed are bytes. Functions may give
    tuples, namedtuples and nested dicts, which then are the elements.

    It can be pickled, if the functions in it can, and is made anew in the process that loads it.
    """

    def _then(self, method: str, *arguments: Any, text: str, structure: Any = "keep") -> "Dataset":
        return Dataset(method, arguments, [self], text,
                       self._structure if structure == "keep" else structure)

    def with_options(self, *, threads: Optional[Threads] = None,
                     budget_bytes: Optional[Count] = None, deterministic: Optional[bool] = None,
                     headspace: Optional[bool] = None, trace: Optional[Trace] = None,
                     cpu_share: Optional[float] = None, autotune: Optional[bool] = None,
                     tuning: Optional[Sequence[Mapping[str, Any]]] = None) -> "Dataset":
        """How iterators run: threads (of each stage), budget_bytes (of what is held
        ahead, half of it for reading; 0: a quarter of the free memory, at most 2 GiB),
        deterministic, headspace (the first element over and over), trace (an sf.Trace), cpu_share
        (of the threads that are used, up to 1), autotune (finds each stage's threads and read-ahead,
        True), tuning (these, as stats()["tuning"] of a run before has them). None: as it was."""
        given = {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
                 "headspace": headspace, "trace": trace, "cpu_share": cpu_share,
                 "autotune": autotune, "tuning": tuning}
        return Dataset(self._method, self._arguments, self._inputs, self._text, self._structure,
                       {**self._options, **step_arguments.given(given)})

    # ---- Steps on rows

    def parse(self, features: Optional[Mapping[str, FeatureLike]] = None,
              feature_lists: Optional[Mapping[str, FeatureLike]] = None) -> "Dataset":
        """Examples to columns. features: {name: sf.fixed(...) | sf.ragged(...) | dtype}, a dtype
        standing for one value (sf.int64, also called: sf.int64(default=-1)). feature_lists: of
        SequenceExamples. Without both, all features that
        the manifest tells of or, without one, the first records."""
        if features is None and feature_lists is None:
            return self._then("parse_all", text="parse()", structure=None)
        wanted = as_features(features or {}, "parse")
        lists = as_features(feature_lists or {}, "parse: feature_lists")
        if any(f.is_sparse for f in lists.values()):
            raise ValueError("parse: feature lists are ragged, not sparse")
        return self._then("parse", [f.core(name) for name, f in wanted.items()],
                          [f.core(name) for name, f in lists.items()],
                          tuple(name for name, f in wanted.items() if f.is_sparse),
                          text=f"parse({', '.join([*wanted, *lists])})", structure=None)

    def decode_image(self, feature: str = "image/encoded",
                     size: Union[int, Sequence[int]] = 224, *, crop: Crop = "none",
                     center_fraction: float = 0.875, scale: Sequence[float] = (0.08, 1.0),
                     ratio: Sequence[float] = (3 / 4, 4 / 3), flip: float = 0.0, channels: int = 3,
                     interpolation: Interpolation = "bilinear", antialias: bool = True, layout: Layout = "NHWC",
                     dtype: DTypeLike = "uint8", mean: Union[float, Sequence[float], None] = None,
                     std: Union[float, Sequence[float], None] = None, orient: bool = False,
                     on_damage: OnDamage = "fail", max_pixels: Optional[int] = None,
                     max_scans: Optional[int] = None, seed: Seed = 0,
                     output: str = "") -> "Dataset":
        """Encoded images (JPEG, PNG, WebP, TIFF, BMP, GIF) of the column `feature`, which goes, as
        pixels of the column `output` (by default its name without "/encoded"): an array [height,
        width, channels], or with layout="NCHW" [channels, height, width], which in a batch is a view
        of the batch's memory: pixels are decoded straight into it. Of records that are not parsed
        yet, the features are found as parse() does.

        size: of the result in pixels: one number, or (height, width).
        crop: what becomes the result. "none": all of the image, squeezed; "center": the middle, of
        the result's shape, `center_fraction` of the largest such (0.875 is 224 of 256); "random": as
        torchvision's RandomResizedCrop, by `scale` (parts of the area) and `ratio` (width over
        height).
        flip: how likely left and right change places. Random numbers depend on `seed`, the epoch and
        the record's position alone.
        channels: 3 (RGB) or 1 (grey). interpolation: "bilinear", "bicubic", "area" or "nearest";
        antialias: as Pillow and torchvision, else as OpenCV and TensorFlow.
        dtype: uint8, or float16, bfloat16 or float32 of (level / 255 - mean) / std, each of these
        one number or one for each channel.
        orient: turns images upright by their Exif data.
        on_damage, of images that cannot be decoded: "fail" ends the run with an error that names
        the record; "replace" puts another row of the batch in their place; "zero" leaves 0; "accept"
        takes what there is of a damaged JPEG. "replace" and "zero" add a column OUTPUT/valid, uint8:
        1 for each image that was decoded.
        max_pixels, max_scans: more are an error before they take memory and time.

        ValueError: an option that cannot be, named; no such column. From iterators, DataLossError:
        bytes that are no image; OSError: more pixels than max_pixels."""
        if self._structure == "record" and feature != "record":
            return self.parse().decode_image(
                feature, size, crop=crop, center_fraction=center_fraction, scale=scale, ratio=ratio,
                flip=flip, channels=channels, interpolation=interpolation, antialias=antialias,
                layout=layout, dtype=dtype, mean=mean, std=std, orient=orient, on_damage=on_damage,
                max_pixels=max_pixels, max_scans=max_scans, seed=seed, output=output)
        height, width = step_arguments.size(size)
        fields: Dict[str, Any] = {
            "height": height, "width": width, "crop": crop, "channels": int(channels),
            "center_fraction": float(center_fraction), "scale": step_arguments.two("scale", scale),
            "ratio": step_arguments.two("ratio", ratio), "flip": float(flip),
            "interpolation": interpolation,
            "antialias": bool(antialias), "layout": layout, "dtype": dtype_name(dtype),
            "mean": step_arguments.channels(mean, channels),
            "std": step_arguments.channels(std, channels),
            "orient": bool(orient), "on_damage": on_damage, "seed": seed, "output": output}
        fields.update({name: limit for name, limit in [("max_pixels", max_pixels),
                                                       ("max_scans", max_scans)] if limit})
        text = f"decode_image({feature!r}, {size!r}"
        for name, value, default in [("crop", crop, "none"), ("flip", flip, 0.0),
                                     ("layout", layout, "NHWC"),
                                     ("dtype", fields["dtype"], "uint8"),
                                     ("on_damage", on_damage, "fail"), ("output", output, "")]:
            if value != default:
                text += f", {name}={value!r}"
        return self._then("decode_image", feature, fields, text=text + ")", structure=None)

    def map(self, fn: Callable[[Any], Any], *, batched: bool = False,
            output: Optional[Mapping[str, FeatureLike]] = None, processes: Threads = 0,
            seed: Optional[Seed] = None, with_index: bool = False, version: str = "") -> "Dataset":
        """What fn(element) gives, for each element; on the library's threads.

        batched: elements are batches, whose columns fn gets and gives as arrays; else they are rows.
        output: the columns that fn gives, as for parse. Without it fn is called once, here, with the
        first element: numbers and arrays become columns of that type and shape, lists become rows of
        any length; Python floats are float32, bools uint8.
        processes: fn runs on up to so many processes, as many as the stage has threads (start,
        with_options); they are spawned, so it must be importable. Arrays go through shared memory.
        with_index, seed: of rows. fn(row, index), where index is the row's place in the epoch; fn(row,
        rng) with a numpy.random.Generator that is new for each row and depends on seed, epoch and
        place alone, whatever the threads and after a resume; with both fn(row, index, rng).
        version: of fn, in the chain's fingerprint: with another one, snapshots and states of the chain
        before are refused. What fn does is not known otherwise.

        What fn raises comes out of the iterator with its traceback and a note that names the
        record."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if batched != self._core.batched():
            raise ValueError(f"map({name}): " + (
                "the elements here are rows: batch first, or leave out batched=True" if batched else
                "the elements here are batches: say batched=True, or unbatch first"))
        by_place = with_index or seed is not None
        if by_place and (batched or processes):
            raise ValueError(f"map({name}): with_index and seed are for functions of rows, on threads; "
                             f"leave out {'batched=True' if batched else 'processes'}")
        if processes:
            from .processes import ProcessFunction  # takes what few need
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
        drops = [column[0] for column in self._core.spec() if column[0] not in given]
        if by_place:
            call = functions.PlacedFunction(fn, self._structure, outputs, structure, with_index,
                                            seed is not None)
        else:
            call = functions.RowFunction(fn, self._structure, outputs, structure)
        return self._then("map", outputs, call, drops, version, seed or 0, by_place,
                          text=f"map({name})", structure=structure)

    def flat_map(self, fn: Callable[[Any], Iterable[Any]], *,
                 output: Optional[Mapping[str, FeatureLike]] = None,
                 version: str = "") -> "Dataset":
        """The elements of fn(row), any number of them for each row; on the library's threads. output:
        their columns, as for map; without it, the first element of the first row tells. version: as
        for map."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if output is not None:
            outputs, structure = functions.declared(output), None
        else:
            with self._start(epoch=0, threads=1) as it:
                first = next((element for row in it for element in functions.called(fn, row)), None)
            if first is None:
                raise ValueError(f"flat_map({name}): there are no elements from which to learn what "
                                 "it gives; declare output=")
            structure, values = structures.flatten(first)
            outputs = [functions.infer_row(k, v) for k, v in values.items()]
        call = functions.FlatFunction(fn, self._structure, outputs, structure)
        return self._then("flat_map", outputs, call, version, text=f"flat_map({name})",
                          structure=structure)

    def _learn(self, fn: Callable[[Any], Any], name: str, batched: bool,
               step: str = "map") -> Tuple[Any, Any]:
        """The columns and the structure that fn gives for the first element."""
        with self._start(epoch=0, threads=1) as it:
            first = next(it, None)
        if first is None:
            raise ValueError(f"{step}({name}): there are no elements from which to learn what it "
                             "gives; declare output=")
        return functions.learnt(fn, first, self._core.spec() if batched else None)

    def filter(self, fn: Callable[[Any], Any], *, batched: bool = False,
               version: str = "") -> "Dataset":
        """The elements (batched: the rows of batches, by an array of bools) for which fn is true.
        version: as for map."""
        name = getattr(fn, "__name__", type(fn).__name__)
        if batched != self._core.batched():
            raise ValueError(f"filter({name}): the elements here are "
                             f"{'rows' if batched else 'batches'}")
        if batched:
            return self._then("filter_batch", functions.BatchPredicate(fn, self._structure),
                              version, text=f"filter({name}, batched=True)")
        return self._then("filter", functions.RowPredicate(fn, self._structure), version,
                          text=f"filter({name})")

    def scan(self, initial_state: Any, fn: Callable[[Any, Any], Tuple[Any, Any]], *,
             output: Optional[Mapping[str, FeatureLike]] = None, version: str = "") -> "Dataset":
        """fn(state, row) gives (state, row): the state for the next row, and the row that is
        delivered. It is called for one row after another, in their order, on one thread.

        initial_state: what the first row of each epoch gets, copied (copy.deepcopy). output,
        version: as for map.

        A saved state of the iterator does not have fn's: load_state_dict calls fn again for all
        rows of the epoch before. What fn raises comes out of the iterator, with a note that names the
        record; TypeError: it gives no pair."""
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

    def ignore_errors(self, max_ignored: Union[Count, str, None] = None) -> "Dataset":
        """Leaves out the rows on which the steps on rows directly before it fail: parse,
        decode_image and the like, map, filter. stats()["ignored"] of the iterator counts them,
        ahead of the consumer too; "first_ignored" says what was wrong with the first hundred.

        max_ignored: DataLossError, which says what was wrong, where more rows than this fail, or
        more than this share of the epoch's rows so far ("5%", but 10 at least); by default 1 %, and
        10 at least. A saved state has both counts.

        ValueError: the step before is not one on rows. What flat_map's function raises it can catch
        itself, and give no rows; of damaged records, see sf.read(skip_damaged=)."""
        ceiling = None if max_ignored is None else str(max_ignored)
        return self._then("ignore_errors", ceiling, text=(
            "ignore_errors()" if max_ignored is None else f"ignore_errors({max_ignored!r})"))

    def select(self, *names: str) -> "Dataset":
        """These columns alone, in this order."""
        return self._then("select", list(names), text=f"select({', '.join(names)})", structure=None)

    # ---- Rows' bytes and images

    def decode_raw(self, column: str, dtype: DTypeLike,
                   shape: Union[int, Sequence[int]] = ()) -> "Dataset":
        """Bytes that are values as they stand in memory, little-endian, as an array of `shape` in
        their column. A first size of -1: any number of elements, ragged. From iterators, ValueError:
        bytes of another size."""
        return self._then("decode_raw", column, dtype_name(dtype), list(as_shape(shape)),
                          text=f"decode_raw({column!r}, {dtype_name(dtype)!r}, {shape!r})")

    def decode_npy(self, column: str, dtype: DTypeLike,
                   shape: Union[int, Sequence[int]] = ()) -> "Dataset":
        """The same of .npy files, which must hold that dtype and shape."""
        return self._then("decode_npy", column, dtype_name(dtype), list(as_shape(shape)),
                          text=f"decode_npy({column!r}, {dtype_name(dtype)!r}, {shape!r})")

    def decode_text(self, column: str) -> "Dataset":
        """Checks that bytes are UTF-8. From iterators, DataLossError: they are not."""
        return self._then("decode_text", column, text=f"decode_text({column!r})")

    def decode_wav(self, column: str, channels: int = 1, rate: str = "sample_rate") -> "Dataset":
        """Sound of WAV files: ragged float32 in [-1, 1), an element [channels] for each frame; and a
        column `rate`, int32, of frames in a second. From iterators, ValueError: another number of
        channels; DataLossError: no such file."""
        return self._then("decode_wav", column, channels, rate,
                          text=f"decode_wav({column!r}, channels={channels})", structure=None)

    def augment(self, column: str, steps: Sequence[Augmentation], seed: Seed = 0) -> "Dataset":
        """Random changes of images, uint8 [height, width, 1 or 3]: see sf.augment. They depend on
        the seed, the epoch and the record's position alone; two such steps of a chain need seeds of
        their own. ValueError: a parameter out of its range, named."""
        steps = list(steps)
        return self._then("augment", column, steps, seed,
                          text=f"augment({column!r}, {steps!r}, seed={seed})")

    # ---- Rows to batches

    def batch(self, size: Size, drop_remainder: bool = False) -> "Dataset":
        """Batches of `size` rows; the last one is smaller, or left out."""
        made = self._then("batch", size, drop_remainder,
                          text=f"batch({size}{', drop_remainder=True' if drop_remainder else ''})")
        return made._made_sparse()

    def sparse(self, *columns: str) -> "Dataset":
        """Ragged columns of batches, of single values, as `Sparse`s: values, indices, shape."""
        found = self.element_spec
        for name in columns:
            if name in found and found[name][1]:
                raise ValueError(f"sparse: the elements of column {name!r} are of shape "
                                 f"{list(found[name][1])}; single values can be sparse")
        structure = structures.with_sparse(self._structure, list(found), columns)
        return self._then("sparse", list(columns), structure=structure,
                          text=f"sparse({', '.join(map(repr, columns))})")

    def _made_sparse(self) -> "Dataset":
        """Batches whose columns are Sparse that parse has asked for as such."""
        found = self.element_spec
        names = [name for name in self._sparse if name in found and found[name][2]]
        return self.sparse(*names) if names else self

    def padded_batch(self, size: Size, padding: Optional[Mapping[str, Any]] = None,
                     drop_remainder: bool = False) -> "Dataset":
        """Ragged columns become [rows, length, shape...]. padding: {name: value} or {name: (length,
        value)}; 0 and the batch's longest row where nothing is said."""
        found = self.element_spec
        names = [name for name in self._sparse if name in found and found[name][2]]
        if names:
            raise ValueError(f"padded_batch: column {names[0]!r} is sparse; batch takes such columns, "
                             "and parse them as sf.var for padding")
        return self._then("padded_batch", size, step_arguments.padding("padded_batch", padding),
                          drop_remainder, text=f"padded_batch({size})")

    def pad(self, padding: Optional[Mapping[str, Any]] = None) -> "Dataset":
        """Pads the ragged columns of batches, as padded_batch."""
        return self._then("pad", step_arguments.padding("pad", padding), text="pad()")

    def bucket_by_length(self, column: Optional[str] = None, boundaries: Sequence[Count] = (),
                         sizes: Sequence[Size] = (), drop_remainder: bool = False, *,
                         length: Optional[Callable[[Any], int]] = None,
                         version: str = "") -> "Dataset":
        """Batches of rows of like length: bucket i has the rows that are shorter than boundaries[i]
        and makes batches of sizes[i], of which there is one more. The length: of `column`, which is
        ragged or of bytes; or what length(row) gives, a whole number from 0 on. version: of that
        function, as for map."""
        if (column is None) == (length is None):
            raise ValueError("bucket_by_length: give the column of the rows' lengths, or length=, "
                             "a function")
        buckets = [list(boundaries), list(sizes), drop_remainder]
        if length is None:
            made = self._then("bucket_by_length", column, *buckets,
                              text=f"bucket_by_length({column!r}, {buckets[0]}, {buckets[1]})")
        else:
            call = functions.NumberFunction(length, self._structure, "bucket_by_length", "a length")
            made = self._then("bucket_by_function", call, *buckets, version,
                              text=f"bucket_by_length(length={functions.name_of(length)}, "
                              f"boundaries={buckets[0]}, sizes={buckets[1]})")
        return made._made_sparse()

    def group_by_window(self, key: Union[str, Callable[[Any], Any]], window_size: Size,
                        drop_remainder: bool = False, *, version: str = "") -> "Dataset":
        """Each `window_size` rows of one key as a batch. key: a column of single numbers or bytes,
        or a function whose result is a whole number, bytes or str. At the end what is left follows, in
        the order of each group's first row there (in tf.data by the key), or with drop_remainder it
        is left out. The rows that wait are held in memory; a saved state has a number for each.
        version: of the function, as for map. ValueError: there is no such column."""
        if isinstance(key, str):
            made = self._then("group_by_window", key, window_size, drop_remainder,
                              text=f"group_by_window({key!r}, {window_size})")
        else:
            made = self._then("group_by_function", functions.KeyFunction(key, self._structure),
                              window_size, drop_remainder, version,
                              text=f"group_by_window({functions.name_of(key)}, {window_size})")
        return made._made_sparse()

    def batch_by_length(self, column: str, budget: Size) -> "Dataset":
        """Batches whose rows times the longest row's length are at most `budget`."""
        made = self._then("batch_by_length", column, budget,
                          text=f"batch_by_length({column!r}, {budget})")
        return made._made_sparse()

    def unbatch(self) -> "Dataset":
        """The rows of batches, one by one."""
        leaves = structures.leaves(self._structure)
        if not any(isinstance(leaf, structures.SparseOf) for leaf in leaves):
            return self._then("unbatch", text="unbatch()")
        # Rows of any length again.
        names = [leaf if isinstance(leaf, str) else leaf.column for leaf in leaves]
        return self.select(*names)._then("unbatch", text="unbatch()",
                                         structure=structures.without_sparse(self._structure))

    def rebatch(self, size: Size, drop_remainder: bool = False) -> "Dataset":
        """The rows of batches in batches of `size`; the last one is smaller, or left out.
        ValueError: the elements are rows, or a column is padded to another length in each batch."""
        sparse = self._sparse_columns()
        if not sparse:
            return self._then("rebatch", size, drop_remainder, text=f"rebatch({size}" + (
                ", drop_remainder=True)" if drop_remainder else ")"))
        made = self.unbatch().batch(size, drop_remainder)
        left = [name for name in sparse if name not in made._sparse_columns()]
        return made.sparse(*left) if left else made

    def _sparse_columns(self) -> List[str]:
        return [leaf.column for leaf in structures.leaves(self._structure)
                if isinstance(leaf, structures.SparseOf)]

    # ---- Batches

    def mixup(self, image: str, label: str, num_classes: Size, alpha: float = 1.0,
              seed: Seed = 0) -> "Dataset":
        """Each image blended with the one before it in the batch, by one lambda of Beta(alpha,
        alpha), as torchvision's MixUp. Labels become float32 [num_classes]. The lambda depends on the
        seed, the epoch and the position of the batch's first row."""
        return self._then("mixup", image, label, num_classes, alpha, seed,
                          text=f"mixup({image!r}, {label!r}, {num_classes})")

    def cutmix(self, image: str, label: str, num_classes: Size, alpha: float = 1.0,
               seed: Seed = 0) -> "Dataset":
        """A rectangle of the image before it in each image, as torchvision's CutMix; labels as
        mixup's, by area."""
        return self._then("cutmix", image, label, num_classes, alpha, seed,
                          text=f"cutmix({image!r}, {label!r}, {num_classes})")

    def window(self, size: Size, shift: Optional[Size] = None, stride: Size = 1,
               drop_remainder: bool = False) -> "Dataset":
        """Windows over the rows, each a row whose columns have one more dimension in front: `size`
        rows that are `stride` apart, and of each window the first one is `shift` rows (by default
        `size`) behind that of the window before. As tf.data's window(...).flat_map(lambda w:
        w.batch(size)). With drop_remainder all windows are whole, and arrays of a fixed size; else
        the columns are ragged, and the last windows have the rows that are left.

        ValueError: a column is ragged, whose rows cannot stand side by side."""
        text = f"window({size}" + (f", {shift}" if shift is not None else "")
        text += (f", stride={stride}" if stride != 1 else "") + (
            ", drop_remainder=True)" if drop_remainder else ")")
        bare = isinstance(self._structure, str)
        return self._then("window", size, shift or 0, stride, drop_remainder, text=text,
                          structure=None if bare else "keep")

    def pack(self, column: str, length: Size, open: Size = 16, pad: int = 0,
             truncate: bool = False) -> "Dataset":
        """Sequences end to end in rows of `length`: the columns NAME, NAME_segment_ids and
        NAME_positions. open: rows that are filled at a time."""
        return self._then("pack", column, length, open, pad, truncate,
                          text=f"pack({column!r}, {length})", structure=None)

    # ---- Elements

    def take(self, count: Count) -> "Dataset":
        return self._then("take", count, text=f"take({count})")

    def skip(self, count: Count) -> "Dataset":
        return self._then("skip", count, text=f"skip({count})")

    def take_while(self, fn: Callable[[Any], Any], *, version: str = "") -> "Dataset":
        """The rows before the first for which fn is false. fn runs on the library's threads, for
        some rows behind that one too. version: as for map."""
        return self._then("take_while", functions.RowPredicate(fn, self._structure), version,
                          text=f"take_while({functions.name_of(fn)})")

    def unique(self, column: str) -> "Dataset":
        """Of each value of `column`, one number or one value of bytes in a row, the first row. NaNs
        are equal, and so are 0.0 and -0.0. The values are held in memory; load_state_dict reads all
        rows of the epoch before again. ValueError: there is no such column."""
        return self._then("unique", column, text=f"unique({column!r})")

    def rejection_resample(self, classes: Union[str, Callable[[Any], int]],
                           target_dist: Sequence[float],
                           initial_dist: Optional[Sequence[float]] = None, seed: Seed = 0, *,
                           version: str = "") -> "Dataset":
        """Drops rows at random such that the classes of those that stay have the shares
        `target_dist`: one for each class from 0 on, which need not add up to 1. classes: a column
        of whole numbers, or a function of the row. initial_dist: the classes' shares in the rows that
        come; without it they are estimated from the rows so far, ten of each class counting as seen
        before. Rows are delivered as they are, not as (class, row).

        What stays depends on seed, epoch, the row's number and the classes up to there alone. A
        saved state has a number for each class whose share is estimated. version: of the function, as for
        map.

        ValueError: a share is below 0, all are 0, or a class is wanted of which initial_dist has
        none; from iterators: a row's class has no share."""
        target = [float(share) for share in target_dist]
        initial = [float(share) for share in initial_dist or ()]
        if initial_dist is not None and not initial:
            raise ValueError("rejection_resample: initial_dist has no classes; leave it out to "
                             "have the shares estimated")
        if isinstance(classes, str):
            return self._then("rejection_resample", classes, target, initial, seed,
                              text=f"rejection_resample({classes!r}, {target}, seed={seed})")
        call = functions.NumberFunction(classes, self._structure, "rejection_resample", "a class")
        return self._then("rejection_resample_by_function", call, target, initial, seed, version,
                          text=f"rejection_resample({functions.name_of(classes)}, {target}, "
                          f"seed={seed})")

    def shard(self, rank: Optional[Count] = None, world: Optional[Size] = None) -> "Dataset":
        """Rank `rank` of `world`; without them, those of the process that iterates, when it begins
        to: see ranks.py."""
        if (rank is None) != (world is None):
            raise ValueError("shard: give rank and world, or neither")
        if rank is None:
            return self._then("shard", None, None, text="shard()")
        return self._then("shard", rank, world, text=f"shard({rank}, {world})")

    def enumerate(self, name: str = "index", start: int = 0) -> "Dataset":
        """Adds a column with the rows' numbers."""
        return self._then("enumerate", name, start, text=f"enumerate({name!r}, {start})",
                          structure=None if isinstance(self._structure, str) else "keep")

    def shuffle(self, seed: Seed = 0, window: Optional[Count] = 0) -> "Dataset":
        """Of shards: the whole order, each epoch anew, within a window of so many records (0: a
        default by the records' size; None: the exact permutation, read record by record). Behind
        other steps: stretches of `window` elements."""
        text = f"shuffle({seed}" + (f", window={window})" if window != 0 else ")")
        return self._then("shuffle", seed, window, text=text)

    def interleave(self, cycle: Size, block: Size = 1) -> "Dataset":
        """Of shards: the order of tf.data's interleave."""
        return self._then("interleave_shards", cycle, block, text=f"interleave({cycle}, {block})")

    def repeat(self, epochs: Count = 0) -> "Dataset":
        """0: without end."""
        return self._then("repeat", epochs, text=f"repeat({epochs or ''})")

    def cache(self, max_bytes: Optional[Size] = None,
              path: Union[str, os.PathLike, None] = None) -> "Dataset":
        """Keeps the elements for later epochs of the run: in its memory, or in a file in the folder
        `path`, which goes with the run. Arrays are read-only then. max_bytes: more is an error (1 GiB;
        on disk 1 TiB)."""
        if path is None:
            return self._then("cache", 1 << 30 if max_bytes is None else max_bytes, text="cache()")
        return self._then("cache_on_disk", os.fspath(path),
                          1 << 40 if max_bytes is None else max_bytes,
                          text=f"cache(path={os.fspath(path)!r})")

    def snapshot(self, path: Union[str, os.PathLike], max_bytes: Size = 1 << 40) -> "Dataset":
        """Writes the elements to the file `path`, once, and gives them from there in this and all
        later runs. It is there when all elements have been delivered. Arrays are read-only then.

        From iterators, RuntimeError: the file is of another chain or other data. What functions do is
        not known: give them another version=, or name another file, for other functions
        (docs/snapshot.md)."""
        return self._then("snapshot", os.fspath(path), max_bytes,
                          text=f"snapshot({os.fspath(path)!r})")

    def prefetch(self, count: Count = 2) -> "Dataset":
        """Makes `count` elements ahead, on a thread of its own."""
        return self._then("prefetch", count, text=f"prefetch({count})")

    def zip(self, *others: "Dataset") -> "Dataset":
        return _zip([self, *others])

    def concatenate(self, *others: "Dataset") -> "Dataset":
        return _concatenate([self, *others])

    def mix(self, *others: "Dataset", weights: Optional[Sequence[float]] = None, seed: Seed = 0,
            exhausted: Union[Exhausted, Sequence[Exhausted]] = "drop",
            exact: bool = False) -> "Dataset":
        """sf.mix of this one, whose weight is the first, and others."""
        return _mix([self, *others], weights, seed, exhausted, exact)


def _alike(datasets: Sequence[Dataset]) -> Any:
    return datasets[0]._structure if datasets else None


@checked
def _concatenate(datasets: Sequence[Dataset]) -> Dataset:
    return Dataset("concatenate", (), datasets, "concatenate()", _alike(datasets))


@checked
def _zip(datasets: Sequence[Dataset]) -> Dataset:
    return Dataset("zip", (), datasets, "zip()")


@checked
def _mix(datasets: Sequence[Dataset], weights: Optional[Sequence[float]] = None, seed: Seed = 0,
         exhausted: Union[Exhausted, Sequence[Exhausted]] = "drop",
         exact: bool = False) -> Dataset:
    weights = [1.0] * len(datasets) if weights is None else [float(w) for w in weights]
    policies = [exhausted] if isinstance(exhausted, str) else list(exhausted)
    return Dataset("mix", (weights, seed, policies, exact), datasets,
                   f"mix({weights}, {'exact=True' if exact else f'seed={seed}'})", _alike(datasets))
