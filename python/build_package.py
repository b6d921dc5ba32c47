"""Builds what the package needs besides its Python code and puts it beside that: the extension
shardfeed/_core.SUFFIX and the program shardfeed/bin/shardfeed.

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
TARGETS = ["//python:_core.so", "//cli:shardfeed"]


def abi():
    """What the extension is for: (interpreter, ABI) as wheels are tagged, and its file's suffix. From
    3.12 on it is for all later ones too; third_party/python/configure.bzl compiles it so."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return python, python + "t", suffix
    if sys.version_info >= (3, 12):
        return "cp312", "abi3", ".abi3.so"
    return python, python, suffix


def build():
    """Builds and copies; gives the paths of both files."""
    startup = os.environ.get("SHARDFEED_BAZEL_STARTUP", "").split()
    bazel = ["bazel", *startup]
    environment = {**os.environ, "SHARDFEED_PYTHON": sys.executable}
    quiet = ["--noshow_progress", "--ui_event_filters=-info"]
    subprocess.run([*bazel, "build", "--config=opt", *quiet, *TARGETS], cwd=ROOT, check=True,
                   env=environment)
    output = subprocess.run([*bazel, "info", "--config=opt", "bazel-bin"], cwd=ROOT, check=True,
                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True).stdout.strip()
    extension = PACKAGE / f"_core{abi()[2]}"
    program = PACKAGE / "bin/shardfeed"
    program.parent.mkdir(exist_ok=True)
    for source, target in [("python/_core.so", extension), ("cli/shardfeed", program)]:
        # A new file: the old one may be in use.
        staged = target.with_name(target.name + ".new")
        shutil.copyfile(pathlib.Path(output) / source, staged)
        staged.chmod(0o755)
        subprocess.run(["strip", staged], check=True)
        staged.replace(target)
    return extension, program


if __name__ == "__main__":
    for path in build():
        print(path)
