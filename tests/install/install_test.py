"""scripts/install, and programs outside the tree that use what it installs."""

import subprocess

import pytest
from harness import REPOSITORY, TESTDATA

PUBLIC = {path.name for path in (REPOSITORY / "include/shardfeed").iterdir()}

CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(outside CXX)
find_package(shardfeed REQUIRED)
add_executable(train linear_model.cc)
target_link_libraries(train shardfeed::shardfeed)
"""


def sh(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    sh(REPOSITORY / "scripts/install", prefix)
    return prefix


@pytest.fixture(scope="module")
def cities(prefix, tmp_path_factory):
    spec = tmp_path_factory.mktemp("cities") / "cities@2"
    sh(prefix / "bin/shardfeed", "convert", "csv", TESTDATA / "tables/cities.csv", spec, "-q")
    return spec


def test_a_cmake_project(prefix, cities, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    source = (REPOSITORY / "examples/linear_model.cc").read_text()
    (tmp_path / "linear_model.cc").write_text(source)
    sh("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    sh("cmake", "--build", tmp_path / "build")
    assert "steps; mean squared error" in sh(tmp_path / "build/train", cities)


def test_pkg_config(prefix, cities, tmp_path):
    flags = sh("pkg-config", "--cflags", "--libs", "shardfeed",
               env={"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "PATH": "/usr/bin:/bin"}).split()
    sh("g++", "-std=c++20", REPOSITORY / "examples/linear_model.cc", *flags, "-o", tmp_path / "train")
    assert "steps; mean squared error" in sh(tmp_path / "train", cities)


def test_the_manual_page_and_completions(prefix):
    program = prefix / "bin/shardfeed"
    for path, command in [("man/man1/shardfeed.1", ["man"]),
                          ("bash-completion/completions/shardfeed", ["completion", "bash"]),
                          ("zsh/site-functions/_shardfeed", ["completion", "zsh"]),
                          ("fish/vendor_completions.d/shardfeed.fish", ["completion", "fish"])]:
        assert (prefix / "share" / path).read_text() == sh(program, *command)


def test_only_public_headers(prefix):
    assert {path.name for path in (prefix / "include").iterdir()} == {"shardfeed"}
    assert {path.name for path in (prefix / "include/shardfeed").iterdir()} == PUBLIC


def test_a_program_in_c(prefix, cities, tmp_path):
    flags = sh("pkg-config", "--cflags", "--libs", "shardfeed",
               env={"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "PATH": "/usr/bin:/bin"}).split()
    sh("gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", REPOSITORY / "examples/c/mean.c",
       *flags, "-o", tmp_path / "mean")
    assert " values, mean 1" in sh(tmp_path / "mean", cities, "founded")
