"""Builds what the package needs besides its Python code, and copies it into the package: the extension
shardfeed/_core.SUFFIX, which has the library and the command line, and shardfeed/bin/shardfeed, a small
program that runs the latter.

    python python/build_package.py      for the interpreter that runs it

Run by hatchling for wheels (hatch_build.py), by scripts/test, and by hand for work on the package.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/shardfeed"
TARGETS = ["//python:_core.so", "//python:shardfeed"]


def abi():
    """Returns the interpreter and the ABI of the extension, as in the tags of wheels, and the suffix of
    its file. From 3.12 on, the extension uses the stable ABI, so it works with all later versions;
    third_party/python/configure.bzl sets this."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return python, python + "t", suffix
    if sys.version_info >= (3, 12):
        return "cp312", "abi3", ".abi3.so"
    return python, python, suffix


def build():
    """Builds both files, copies them into the package, and returns their paths."""
    startup = os.environ.get("SHARDFEED_BAZEL_STARTUP", "").split()
    flags = ["--config=opt", *os.environ.get("SHARDFEED_BAZEL_FLAGS", "").split()]
    bazel = ["bazel", *startup]
    environment = {**os.environ, "SHARDFEED_PYTHON": sys.executable}
    quiet = ["--noshow_progress", "--ui_event_filters=-info"]
    subprocess.run([*bazel, "build", *flags, *quiet, *TARGETS], cwd=ROOT, check=True, env=environment)
    output = subprocess.run([*bazel, "info", *flags, "bazel-bin"], cwd=ROOT, check=True,
                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True).stdout.strip()
    extension = PACKAGE / f"_core{abi()[2]}"
    program = PACKAGE / "bin/shardfeed"
    program.parent.mkdir(exist_ok=True)
    for source, target in [("python/_core.so", extension), ("python/shardfeed", program)]:
        # The target is replaced rather than overwritten, because the old file may be in use.
        staged = target.with_name(target.name + ".new")
        shutil.copyfile(pathlib.Path(output) / source, staged)
        staged.chmod(0o755)
        staged.replace(target)
    return extension, program


if __name__ == "__main__":
    for path in build():
        print(path)
