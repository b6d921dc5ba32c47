"""The public headers: each compiles alone, and none includes more than it should. And all headers and folders: none
includes itself, directly or through others."""

import graphlib
import pathlib
import re
import shutil
import subprocess

import pytest
from harness import REPOSITORY

HEADERS = sorted((REPOSITORY / "include/shardfeed").glob("*.h"))
# Headers that users of the library have anyway.
ABSEIL = {"absl/status/status.h", "absl/status/statusor.h", "absl/types/span.h"}
COMPILERS = ["g++", "clang++-14"]


def includes(header: pathlib.Path) -> list[str]:
    return re.findall(r'^#include "([^"]+)"', header.read_text(), re.MULTILINE)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_includes_public_headers_alone(header):
    public = {f"shardfeed/{other.name}" for other in HEADERS}
    assert set(includes(header)) <= public | ABSEIL


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_compiles_alone(header, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    source = tmp_path / "alone.cc"
    source.write_text(f'#include "shardfeed/{header.name}"\n#include "shardfeed/{header.name}"\n')
    done = subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                           f"-I{REPOSITORY}/include", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_c_header_is_c():
    done = subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x", "c",
                           "-fsyntax-only", REPOSITORY / "include/shardfeed/shardfeed_c.h"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_version():
    text = (REPOSITORY / "include/shardfeed/version.h").read_text()
    defined = dict(re.findall(r"^#define SHARDFEED_(VERSION\w*) (\S+)$", text, re.MULTILINE))
    version = defined["VERSION"].strip('"')
    assert version == ".".join(defined[f"VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.search(r"^## ([0-9.]+)", changes, re.MULTILINE).group(1) == version


def test_headers_do_not_include_in_circles():
    folders = [path for path in REPOSITORY.iterdir()  # except links to what Bazel built
               if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")]
    headers = {str(path.relative_to(REPOSITORY)).removeprefix("include/"): path
               for folder in folders for path in folder.rglob("*.h")}
    assert len(headers) > 300
    sorter = graphlib.TopologicalSorter({name: set(includes(path)) for name, path in headers.items()})
    sorter.prepare()  # raises CycleError, which names the headers


def test_folders_do_not_include_in_circles():
    library = ["base", "c", "cli", "convert", "cuda", "decode", "io", "media", "net", "pipeline", "python", "reader", "shard",
               "tfrecord"]
    used = {}
    for path in (path for folder in library for path in (REPOSITORY / folder).rglob("*.*")
                 if path.suffix in (".h", ".cc") and "build" not in path.parts):
        folder = path.parent.relative_to(REPOSITORY)
        headers = (pathlib.Path(name) for name in includes(path))
        used.setdefault(folder, set()).update(
            header.parent for header in headers if (REPOSITORY / header).exists() and header.parent != folder)
    assert len(used) > 40
    graphlib.TopologicalSorter(used).prepare()  # raises CycleError, which names the folders


def test_no_file_is_long():
    """Above 600 lines, a file has become several things."""
    listed = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.cu", "*.py", "*.js"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a clone")
    long = {name: count for name in listed.stdout.split()
            if (REPOSITORY / name).exists() and (count := len((REPOSITORY / name).read_bytes().splitlines())) > 600}
    assert not long
