"""Kinds of raw data that `convert` reads through libraries of Python: tables of Parquet and Arrow, arrays of HDF5
and NumPy, queries of SQLite, LMDB, and frames of video files. All of it becomes batches of Arrow (`table`), whose columns become features
(`values`), which are written part by part (`converting`); `program` is the command line.

This module imports nothing, so that the package can ask for the names of the kinds."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

# The names of the kinds, and what they import, which `pip install shardfeed[tables]` brings, and that of video
# `pip install shardfeed[video]`.
KINDS: Dict[str, Tuple[str, ...]] = {
    "parquet": ("pyarrow",),
    "arrow": ("pyarrow",),
    "hdf5": ("pyarrow", "h5py"),
    "npz": ("pyarrow",),
    "sqlite": ("pyarrow",),
    "lmdb": ("pyarrow", "lmdb"),
    "video": ("pyarrow", "cv2"),
}

class Disagreement(ValueError):
    """The source, or options, and the dataset of --like contradict each other. The message has flags."""


FILES_ONLY = ("lmdb", "video")  # not from standard input or pipes

_PACKAGES = {"cv2": "opencv-python-headless"}  # where they have another name than the module


def extra_of(kind: str) -> str:
    """The extra of this package that brings what the kind takes."""
    return "video" if kind == "video" else "tables"


def put_back(variable: str, value: Optional[str]) -> None:
    """Gives a variable of the environment the value that it had; None: it had none."""
    import os
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value


def check_installed(kind: str) -> None:
    """ModuleNotFoundError: what the kind takes cannot be imported; it says what to install."""
    import importlib
    import os
    for module in KINDS[kind]:
        # OpenCV puts a folder of its own into LD_LIBRARY_PATH, which programs that are started later would get.
        library_path = os.environ.get("LD_LIBRARY_PATH")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ModuleNotFoundError(
                f"convert {kind} takes {module}, which cannot be imported ({error}); install it: "
                f"pip install {_PACKAGES.get(module, module)}, or with all that such kinds take: pip install "
                f"'shardfeed[{extra_of(kind)}]'",
                name=module) from None
        finally:
            put_back("LD_LIBRARY_PATH", library_path)
