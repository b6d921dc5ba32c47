"""Sharded TFRecord datasets: written, verified, and read as training needs them.

    import shardfeed as sf

    ds = (sf.read("out/train@16")
            .shuffle(seed=1)
            .shard()
            .parse({"x": sf.fixed([50], sf.float32), "y": sf.int64})
            .batch(1024))
    for batch in ds.torch():
        step(batch["x"], batch["y"])
"""

import typing as _typing

from . import interrupts as _interrupts

_interrupts.end_the_command_line_at_once()  # before what takes long

from . import augment, presets
from . import features as _features
from ._core import BytesArray, CancelledError, DataLossError, DeviceArray, Trace
from ._core import version as _version
from .command import (Defect, Difference, Drift, Inspection, VerifyReport, convert, diff, index,
                      inspect, set_max_record_bytes, verify)
from .credentials import set_credentials
from .dataset import Dataset
from .device import DeviceIterator, Normalize
from .features import (Feature, bfloat16, fixed, float16, float32, float64, int8, int16, int32,
                       int64, ragged, sparse, uint8, uint16, var)
from .frames import from_arrow, from_hf, from_pandas, from_parquet, from_polars, parquet_batches
from .iterator import Iterator, merge_states
from .jobs import PartWriter, WriteJob, commit, write_job
from .ragged import Ragged, Sparse
from .ranks import rank_and_world
from .sources import (cache_stats, choose, concatenate, from_arrays, from_generator, interleave,
                      mix, read)
from .sources import range_ as range
from .sources import zip_ as zip
from .splits import Split, index_shard, merge_reports, splits, verify_split
from .writing import Writer, write

if _typing.TYPE_CHECKING:
    from . import beam as beam
    from . import dask as dask
    from . import hf as hf
    from . import ray as ray
    from . import tf as tf
    from . import torch as torch
    from .sharing import SharedDataset, SharedIterator, share

bytes = _features.bytes_

__version__ = _version()

__all__ = [
    "BytesArray", "CancelledError", "DataLossError", "Dataset", "Defect", "DeviceArray",
    "DeviceIterator", "Difference", "Drift", "Feature", "Inspection", "Iterator", "Normalize",
    "PartWriter", "Ragged", "SharedDataset", "SharedIterator", "Sparse", "Split", "Trace", "VerifyReport", "WriteJob", "Writer",
    "augment", "bfloat16", "bytes", "cache_stats", "choose", "commit", "concatenate", "convert",
    "diff", "fixed", "float16", "float32", "float64", "from_arrays", "from_arrow", "from_generator",
    "from_hf", "from_pandas", "from_parquet", "from_polars", "index", "index_shard", "inspect",
    "int16", "int32", "int64", "int8", "interleave",
    "merge_reports", "merge_states", "mix", "presets", "ragged", "range", "rank_and_world", "read",
    "set_credentials", "set_max_record_bytes", "share", "sparse", "splits", "uint16", "uint8", "var",
    "verify", "verify_split", "write", "write_job", "zip",
]

if not _typing.TYPE_CHECKING:  # so that a type checker finds a misspelled name
    def __getattr__(name: str) -> _typing.Any:
        # Modules that need a framework are imported on first use.
        if name in ("beam", "dask", "hf", "ray", "tf", "torch"):
            import importlib
            return importlib.import_module(f".{name}", __name__)
        if name in ("SharedDataset", "SharedIterator", "share"):
            # It takes multiprocessing and subprocess.
            from . import sharing
            return getattr(sharing, name)
        raise AttributeError(f"module 'shardfeed' has no attribute {name!r}")
