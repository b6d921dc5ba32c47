"""Chains of steps."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from . import functions, step_arguments
from . import structure as structures
from ._core import Trace
from .arguments import Count, Seed, Size, Threads, checked, checked_methods
from .choices import Exhausted, PackCost, PackHow, StepEnds
from .metrics import address_of
from .ranks import part_of
from .row_steps import RowSteps

_ANY_LENGTH = 2**64 - 1


def _check_name(step: str, lengths: Optional[str], or_none: str = ", or be None") -> None:
    if lengths == "":
        raise ValueError(f"{step}: lengths must name lengths of the indexes{or_none}")


def check_part(rank: Optional[int], world: Optional[int]) -> None:
    if (rank is None) != (world is None):
        raise ValueError("shard: give rank and world, or neither")


@checked_methods
class Dataset(RowSteps):
    """An immutable chain of steps over shards. Each step returns a new dataset; iterating runs
    it.

    Elements are rows or, after `batch` and the like, batches. A row is a dict of its columns:
    Python numbers, bytes and arrays. A batch is a dict of arrays [rows, ...] that are views of
    the batch's memory, of `BytesArray`s and of `Ragged`s. Records that are not parsed are
    bytes. Functions may return tuples, namedtuples and nested dicts, which then become the
    elements.

    A dataset can be pickled if its functions can. The process that loads it builds the chain
    again."""

    def with_options(self, *, threads: Optional[Threads] = None,
                     budget_bytes: Optional[Count] = None, deterministic: Optional[bool] = None,
                     headspace: Optional[bool] = None, trace: Optional[Trace] = None,
                     cpu_share: Optional[float] = None, autotune: Optional[bool] = None,
                     tuning: Optional[Sequence[Mapping[str, Any]]] = None,
                     metrics: Optional[str] = None,
                     flight_recorder: Union[str, os.PathLike, None] = None,
                     starved_seconds: Optional[float] = None) -> "Dataset":
        """Sets how iterators run. An option that is None keeps its value.

        - `threads`: the maximum number of worker threads, of the run and of each stage; 0 is one per processor.
        - `budget_bytes`: limits what is held ahead of the consumer, half of it for reading; 0
          is a quarter of the free memory, between 128 MiB and 2 GiB.
        - `deterministic`: delivers elements in order rather than as soon as they are ready.
        - `headspace`: delivers the first element again and again, to measure the consumer alone.
        - `trace`: an sf.Trace, which records what each thread does.
        - `cpu_share`: the share of the threads that is used, up to 1.
        - `autotune`: adjusts each stage's threads and read-ahead (True by default).
        - `tuning`: uses the threads and read-ahead in `stats()["tuning"]` of an earlier run.
        - `metrics`: "HOST:PORT", where this process serves the counters of its runs as OpenMetrics, for
          Prometheus and the like (http://HOST:PORT/metrics). OSError, from iteration: the port is taken.
        - `flight_recorder`: a folder, which is created. Whenever the consumer has waited for
          `starved_seconds` (30), a file in it tells what the run did in the last minute. This
          is checked once a second, so a wait that ends sooner after the limit may be missed.
        """
        given = {"threads": threads, "budget_bytes": budget_bytes, "deterministic": deterministic,
                 "headspace": headspace, "trace": trace, "cpu_share": cpu_share,
                 "autotune": autotune, "tuning": tuning, "metrics": metrics,
                 "flight_recorder": flight_recorder, "starved_seconds": starved_seconds}
        if metrics is not None:
            address_of(metrics)
        return Dataset(self._method, self._arguments, self._inputs, self._text, self._structure,
                       {**self._options, **step_arguments.given(given)})

    # ---- Rows to batches

    def batch(self, size: Size, drop_remainder: bool = False) -> "Dataset":
        """Makes batches of `size` rows. The last one is smaller, or left out with
        drop_remainder."""
        made = self._then("batch", size, drop_remainder,
                          text=f"batch({size}{', drop_remainder=True' if drop_remainder else ''})")
        return made._made_sparse()

    def sparse(self, *columns: str) -> "Dataset":
        """Turns ragged columns of single values in batches into `Sparse`s: values, indices,
        shape."""
        found = self.element_spec
        for name in columns:
            if name in found and found[name][1]:
                raise ValueError(f"sparse: the elements of column {name!r} have the shape "
                                 f"{list(found[name][1])}; only single values can be sparse")
        structure = structures.with_sparse(self._structure, list(found), columns)
        return self._then("sparse", list(columns), structure=structure,
                          text=f"sparse({', '.join(map(repr, columns))})")

    def _made_sparse(self) -> "Dataset":
        """Returns batches in which the columns that parse declared as sparse are Sparse."""
        found = self.element_spec
        names = [name for name in self._sparse if name in found and found[name][2]]
        return self.sparse(*names) if names else self

    def padded_batch(self, size: Size, padding: Optional[Mapping[str, Any]] = None,
                     drop_remainder: bool = False) -> "Dataset":
        """Makes batches in which ragged columns become [rows, length, shape...].

        `padding`: {name: value} or {name: (length, value)}; by default 0 and the length of the
        batch's longest row."""
        found = self.element_spec
        names = [name for name in self._sparse if name in found and found[name][2]]
        if names:
            raise ValueError(f"padded_batch: column {names[0]!r} is sparse; use batch, or parse it as "
                             "sf.var to pad it")
        return self._then("padded_batch", size, step_arguments.padding("padded_batch", padding),
                          drop_remainder, text=f"padded_batch({size})")

    def pad(self, padding: Optional[Mapping[str, Any]] = None) -> "Dataset":
        """Pads the ragged columns of batches, as padded_batch does."""
        return self._then("pad", step_arguments.padding("pad", padding), text="pad()")

    def bucket_by_length(self, column: Optional[str] = None, boundaries: Sequence[Count] = (),
                         sizes: Sequence[Size] = (), drop_remainder: bool = False, *,
                         length: Optional[Callable[[Any], int]] = None,
                         version: str = "") -> "Dataset":
        """Makes batches of rows of similar length. Bucket i has the rows that are shorter than
        boundaries[i] and makes batches of sizes[i]; there is one more size than boundaries.

        The length is that of `column`, which is ragged or of bytes, or what length(row)
        returns, an integer of at least 0. `version`: of that function, as for map."""
        if (column is None) == (length is None):
            raise ValueError("bucket_by_length: give either the column whose lengths count or a "
                             "function length=")
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
        """Makes a batch of each `window_size` rows with the same key.

        `key`: a column of single numbers or bytes, or a function that returns an integer, bytes
        or str. At the end the remaining groups follow, in the order of their first waiting rows
        (in tf.data, by key), or are left out with drop_remainder. Waiting rows are held in
        memory; a saved state has a number for each. `version`: of the function, as for map.
        ValueError: the column does not exist."""
        if isinstance(key, str):
            made = self._then("group_by_window", key, window_size, drop_remainder,
                              text=f"group_by_window({key!r}, {window_size})")
        else:
            made = self._then("group_by_function", functions.KeyFunction(key, self._structure),
                              window_size, drop_remainder, version,
                              text=f"group_by_window({functions.name_of(key)}, {window_size})")
        return made._made_sparse()

    def batch_by_length(self, column: str, budget: Size, *, lengths: Optional[str] = None,
                        window: Optional[Size] = None, min_length: Count = 0,
                        max_length: Optional[Count] = None) -> "Dataset":
        """Makes batches in which the number of rows times the longest row's length is at most
        `budget`; a row longer than that is a batch of its own.

        Without `lengths`, rows are batched as they come. With the name of lengths that the indexes have
        (`shardfeed index DATASET --length FEATURE`), batches of rows of similar length, out of `window`
        records (16,384) at a time, are planned before anything is read, like the rows of
        pack(lengths=...). So ranks share batches evenly, any number of ranks can resume from a state,
        and len() is known. Rows shorter than `min_length` or longer than `max_length` are left out."""
        _check_name("batch_by_length", lengths)
        text = f"batch_by_length({column!r}, {budget}" + (f", lengths={lengths!r})" if lengths else ")")
        made = self._then("batch_by_length", column, budget, lengths or "", window or 0, min_length,
                          _ANY_LENGTH if max_length is None else max_length, text=text)
        return made._made_sparse()

    def unbatch(self) -> "Dataset":
        """Delivers the rows of batches one by one."""
        leaves = structures.leaves(self._structure)
        if not any(isinstance(leaf, structures.SparseOf) for leaf in leaves):
            return self._then("unbatch", text="unbatch()")
        # Turn Sparse columns back into rows of any length.
        names = [leaf if isinstance(leaf, str) else leaf.column for leaf in leaves]
        return self.select(*names)._then("unbatch", text="unbatch()",
                                         structure=structures.without_sparse(self._structure))

    def rebatch(self, size: Size, drop_remainder: bool = False) -> "Dataset":
        """Delivers the rows of batches in batches of `size`. The last one is smaller, or left
        out with drop_remainder. ValueError: the elements are rows, or a column is padded to
        a different length in each batch."""
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
        """Blends each image with the previous one in the batch, by one lambda from Beta(alpha,
        alpha), as torchvision's MixUp does. Labels become float32 [num_classes]. The lambda
        depends on the seed, the epoch and the position of the batch's first row."""
        return self._then("mixup", image, label, num_classes, alpha, seed,
                          text=f"mixup({image!r}, {label!r}, {num_classes})")

    def cutmix(self, image: str, label: str, num_classes: Size, alpha: float = 1.0,
               seed: Seed = 0) -> "Dataset":
        """Pastes a rectangle of the previous image into each image, as torchvision's CutMix
        does. Labels are mixed as by mixup, in proportion to the area."""
        return self._then("cutmix", image, label, num_classes, alpha, seed,
                          text=f"cutmix({image!r}, {label!r}, {num_classes})")

    def window(self, size: Size, shift: Optional[Size] = None, stride: Size = 1,
               drop_remainder: bool = False) -> "Dataset":
        """Delivers windows over the rows, as tf.data's window(...).flat_map(lambda w:
        w.batch(size)).

        Each window is a row whose columns have one more dimension in front: `size` rows that
        are `stride` apart. The first row of a window comes `shift` rows (by default `size`)
        after that of the previous window. With drop_remainder all windows are whole and arrays
        of a fixed size; otherwise the columns are ragged, and the last windows have the
        remaining rows.

        ValueError: a column is ragged, so its rows cannot be stacked."""
        text = f"window({size}" + (f", {shift}" if shift is not None else "")
        text += (f", stride={stride}" if stride != 1 else "") + (
            ", drop_remainder=True)" if drop_remainder else ")")
        bare = isinstance(self._structure, str)
        return self._then("window", size, shift or 0, stride, drop_remainder, text=text,
                          structure=None if bare else "keep")

    def pack(self, columns: Union[str, Sequence[str]], length: Size, open: Size = 16,
             pad: Union[int, Mapping[str, int]] = 0, truncate: bool = False, *,
             lengths: Optional[str] = None, how: PackHow = "best_fit", split: bool = False,
             window: Optional[Size] = None, min_length: Count = 0,
             max_length: Optional[Count] = None, cost: PackCost = "linear",
             separator: Union[int, Mapping[str, int], None] = None, keep: Sequence[str] = (),
             cu_seqlens: bool = False) -> "Dataset":
        """Puts sequences end to end in rows of `length`: these columns as [length] and, named after
        the first of them, NAME_segment_ids (int32: 1, 2 ... for the sequences in a row, 0 for
        padding) and NAME_positions (int32: the position within the segment). The columns have any
        number of numbers per row, but all of them the same number.

        - `open`: how many rows are being filled at a time, without `lengths`.
        - `pad`: fills rows up: one value, or one for each column by name (0 for the others).
        - `truncate`: cuts a sequence longer than a row, which is otherwise an error.
        - `separator`: a value that follows each sequence and belongs to its segment: one value, or one
          for each column by name. A sequence without elements gets none, and truncation may cut it off.
        - `keep`: columns of one value per row that become ragged, with one for each segment.
        - `cu_seqlens`: adds NAME_cu_seqlens, ragged int32: where the segments begin, and the end of
          the last one, as FlashAttention expects them. Padding is a segment of its own.

        With `lengths`, the name of lengths that the indexes have (`shardfeed index DATASET --length
        FEATURE`), the rows of the whole epoch are planned before anything is read. Then ranks share
        rows evenly, any number of ranks can resume from a state, and len() is known: it is that of
        the first epoch, from which other epochs differ a little. Only shuffle, interleave, shard,
        repeat and steps that keep each row may precede.

        - `how`: "best_fit" puts each whole sequence into the row with the least sufficient room;
          "first_fit" puts them, in their order, into the first row with room, which fills rows as
          well only if many are short; "concatenate" puts one after the other, and cuts them where a
          row ends.
        - `split`: cuts a sequence longer than a row into several.
        - `window`: how many records, in the order, are packed together (16,384; 1,024 to 1,048,576);
          they are held in memory in addition to what the shuffle holds.
        - `min_length`, `max_length`: leaves out records that are shorter or longer.
        - `cost`: what is balanced among the ranks in each step. "linear": tokens. "quadratic": the
          squares of the segments' lengths, which is the cost of attention: rows of similar cost
          come together, in groups whose order is random (docs/packing.md).

        ValueError: a preceding step drops or adds rows; in a run, the length of a row differs from
        its index."""
        _check_name("pack", lengths)
        names = [columns] if isinstance(columns, str) else list(columns)
        if isinstance(pad, Mapping):
            unknown = [name for name in pad if name not in names]
            if unknown:
                raise ValueError(f"pack: pad: {unknown[0]!r} is not one of the packed columns: "
                                 f"{', '.join(names)}")
        pads = [pad.get(name, 0) for name in names] if isinstance(pad, Mapping) else [pad]
        separators: List[int] = []
        if isinstance(separator, Mapping):
            if sorted(separator) != sorted(names):
                raise ValueError(f"pack: separator: expected a value for each of the packed columns {', '.join(names)}, "
                                 f"got those of {', '.join(separator) or 'none'}")
            separators = [separator[name] for name in names]
        elif separator is not None:
            separators = [separator]
        text = f"pack({columns!r}, {length}" + (f", lengths={lengths!r})" if lengths else ")")
        return self._then("pack", names, length, open, pads, truncate, lengths or "", how, split,
                          window or 0, min_length, _ANY_LENGTH if max_length is None else max_length,
                          cost, separators, list(keep), cu_seqlens,
                          text=text, structure=None)

    def steps(self, columns: Mapping[str, Union[int, Tuple[int, int]]], *, lengths: str, ends: StepEnds = "repeat",
              number: str = "", window: Optional[Size] = None) -> "Dataset":
        """Makes a row of each step of the records, which are episodes: those of RLDS, or any whose columns
        of varying length have one element for each step. The rows of the whole epoch are planned before
        anything is read, as by pack(lengths=...): ranks share steps evenly, any number of ranks can resume
        from a state, len() is known, and the same steps may precede. After a shuffle, the steps of many
        episodes are mixed.

        - `columns`: what a row takes from each column: the element at an offset from the step, such as 0 or -1;
          or those from one offset up to another, such as (0, 8) for eight actions from the step on, with an
          additional first dimension. Columns of one value per episode are kept; other columns of varying length
          are dropped.
        - `lengths`: the name of lengths that the indexes have, of a feature with one value for each step
          (`shardfeed index DATASET --length steps/is_first`).
        - `ends`: what takes the place of elements before the first step and after the last one. "repeat":
          that step again; a uint8 column NAME_mask is 0 there, for columns of several elements. "drop": rows
          are only made of steps that have all elements.
        - `number`: the name of an int32 column with the step's number in its episode.
        - `window`: how many episodes, in the order, are held and mixed; by default about 256 MiB, at
          most 1,024.

        ValueError: a preceding step drops or adds rows, or a column has one value per episode; in a run,
        the number of steps of an episode differs from its index."""
        _check_name("steps", lengths, "")
        offsets = [offset if isinstance(offset, tuple) else (offset, None) for offset in columns.values()]
        return self._then("steps", list(columns), [begin for begin, _ in offsets], [end for _, end in offsets], lengths,
                          ends == "repeat", number, window or 0,
                          text=f"steps({', '.join(columns)}, lengths={lengths!r})", structure=None)

    # ---- Elements

    def take(self, count: Count) -> "Dataset":
        """Delivers the first `count` elements."""
        return self._then("take", count, text=f"take({count})")

    def skip(self, count: Count) -> "Dataset":
        """Leaves out the first `count` elements."""
        return self._then("skip", count, text=f"skip({count})")

    def assert_cardinality(self, count: Count) -> "Dataset":
        """States the number of elements of an epoch, which is then the chain's length. Otherwise the length is
        unknown after `filter`, `unbatch` or a generator. RuntimeError, from the iterator: an epoch has fewer
        or more."""
        return self._then("assert_cardinality", count, text=f"assert_cardinality({count})")

    def take_while(self, fn: Callable[[Any], Any], *, version: str = "") -> "Dataset":
        """Delivers the rows before the first one for which fn is false. fn runs on the
        library's threads, also for some rows after that one. `version`: as for map."""
        return self._then("take_while", functions.RowPredicate(fn, self._structure), version,
                          text=f"take_while({functions.name_of(fn)})")

    def unique(self, column: str) -> "Dataset":
        """Delivers the first row with each value of `column`, which is one number or one value
        of bytes per row. NaNs are equal, and so are 0.0 and -0.0. The values are held in
        memory; load_state_dict reads all preceding rows of the epoch again. ValueError:
        the column does not exist."""
        return self._then("unique", column, text=f"unique({column!r})")

    def rejection_resample(self, classes: Union[str, Callable[[Any], int]],
                           target_dist: Sequence[float],
                           initial_dist: Optional[Sequence[float]] = None, seed: Seed = 0, *,
                           version: str = "") -> "Dataset":
        """Drops rows at random so that the classes of the remaining rows have the shares
        `target_dist`: one for each class from 0 on, which need not sum to 1.

        - `classes`: a column of integers, or a function of the row that returns one.
        - `initial_dist`: the shares of the classes in the input. Without it they are estimated
          from the rows so far, as if ten rows of each class had been seen before.
        - `version`: of the function, as for map.

        Rows are delivered unchanged, not as (class, row). Which rows remain depends only on
        seed, epoch, the row's number and the classes up to it. A saved state has a number for
        each class whose share is estimated.

        ValueError: a share is below 0, all are 0, or initial_dist has no share of a wanted
        class; from iterators: a row's class has no share."""
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

    def shard(self, rank: Optional[Count] = None, world: Optional[Size] = None, *, group: Size = 1) -> "Dataset":
        """Delivers the part of rank `rank` of `world`. Without them, both are found when
        iteration begins, and only then are wrong variables of a launcher an error: see
        rank_and_world. `group`: this number of consecutive ranks share a part, so that all of a
        tensor-parallel or pipeline-parallel group get the same batches.

        Directly after read(), each rank reads only its own records, and all ranks get the same
        number of them, as the arguments `batch` and `end` of read say. After other steps, element i
        goes to rank i modulo world, so some ranks may get one element more."""
        check_part(rank, world)
        text = f"shard({'' if rank is None else f'{rank}, {world}'}"
        if group > 1:
            text += f"{'' if rank is None else ', '}group={group}"
        if rank is None or world is None:
            made = self._then("shard", None, None, text=text + ")")
            made._group, made._made = group, None
            made._plan  # noqa: B018  report errors now
            return made
        return self._then("shard", *part_of(rank, world, group), text=text + ")")

    def enumerate(self, name: str = "index", start: int = 0) -> "Dataset":
        """Adds a column with the numbers of the rows."""
        return self._then("enumerate", name, start, text=f"enumerate({name!r}, {start})",
                          structure=None if isinstance(self._structure, str) else "keep")

    def shuffle(self, seed: Seed = 0, window: Optional[Count] = 0, *, chunk: Count = 0,
                lanes: Size = 64) -> "Dataset":
        """Shuffles, differently in each epoch.

        Directly after read, it shuffles the whole order, within a window of this many records
        (0: a default that depends on the records' size; None: the exact permutation, read
        record by record). `chunk` neighboring records are read at once (0: about 1 MiB of
        them; object stores are read best in chunks of about 8 MiB), and `lanes` parts of the
        epoch in turn; both are parts of the order. After other steps and sources, it permutes
        stretches of `window` elements, and chunk and lanes are refused."""
        text = ", ".join([str(seed)] + [f"window={window}"] * (window != 0) +
                         [f"chunk={chunk}"] * (chunk != 0) + [f"lanes={lanes}"] * (lanes != 64))
        return self._then("shuffle", seed, window, chunk, lanes, text=f"shuffle({text})")

    def interleave(self, cycle: Size, block: Size = 1) -> "Dataset":
        """Reads shards in the order of tf.data's interleave."""
        return self._then("interleave_shards", cycle, block, text=f"interleave({cycle}, {block})")

    def repeat(self, epochs: Count = 0) -> "Dataset":
        """Repeats the elements for `epochs` epochs; 0 repeats without end."""
        return self._then("repeat", epochs, text=f"repeat({epochs or ''})")

    def cache(self, max_bytes: Optional[Size] = None,
              path: Union[str, os.PathLike, None] = None) -> "Dataset":
        """Keeps the elements for later epochs of the run, in memory or in a file in the local folder
        `path`, which is removed with the run. Their arrays are read-only. `max_bytes`:
        exceeding it is an error (1 GiB; on disk 1 TiB)."""
        if path is None:
            return self._then("cache", 1 << 30 if max_bytes is None else max_bytes, text="cache()")
        return self._then("cache_on_disk", os.fspath(path),
                          1 << 40 if max_bytes is None else max_bytes,
                          text=f"cache(path={os.fspath(path)!r})")

    def snapshot(self, path: Union[str, os.PathLike], max_bytes: Size = 1 << 40) -> "Dataset":
        """Writes the elements to the local file `path` once, and delivers them from there in this and
        all later runs. The file exists when all elements have been delivered. Their arrays
        are read-only.

        From iterators, RuntimeError: the file belongs to another chain or other data. A change of a
        function is not noticed: give the function another version=, or use another file."""
        return self._then("snapshot", os.fspath(path), max_bytes,
                          text=f"snapshot({os.fspath(path)!r})")

    def prefetch(self, count: Count = 2) -> "Dataset":
        """Prepares `count` elements ahead on a separate thread."""
        return self._then("prefetch", count, text=f"prefetch({count})")

    def zip(self, *others: "Dataset") -> "Dataset":
        """Puts this dataset and others side by side: see sf.zip."""
        return _zip([self, *others])

    def concatenate(self, *others: "Dataset") -> "Dataset":
        """Delivers this dataset and then the others: see sf.concatenate."""
        return _concatenate([self, *others])

    def mix(self, *others: "Dataset", weights: Optional[Sequence[float]] = None, seed: Seed = 0,
            exhausted: Union[Exhausted, Sequence[Exhausted]] = "drop",
            exact: bool = False) -> "Dataset":
        """Mixes this dataset, whose weight is the first, with others: see sf.mix."""
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
