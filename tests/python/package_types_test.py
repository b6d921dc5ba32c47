"""Types of the package: those of the extension are what stands in the tree, and mypy agrees."""

import subprocess
import sys

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")


def test_the_extensions_types_are_up_to_date():
    pytest.importorskip("nanobind", reason="nanobind is not installed")
    done = subprocess.run([sys.executable, REPOSITORY / "scripts/make_stubs", "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs mypy, without the frameworks' own types, which take minutes; gives what it prints."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text("""\
[mypy]
ignore_missing_imports = True
mypy_path = %s
[mypy-torch.*,tensorflow.*,jax.*,keras.*,lightning.*,transformers.*,accelerate.*]
follow_imports = skip
""" % (REPOSITORY / "python"))

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", "--cache-dir",
             folder / "cache", *arguments], cwd=REPOSITORY, capture_output=True, text=True).stdout
    return run


def test_mypy_has_nothing_to_say(mypy):
    out = mypy("--strict", "--no-warn-return-any", "--allow-any-generics",
               "--allow-subclassing-any", "--allow-untyped-calls", "--no-warn-unused-ignores",
               "python/shardfeed")
    assert out.startswith("Success"), out


def test_users_code_is_checked(mypy, tmp_path):
    (tmp_path / "use.py").write_text("""\
import shardfeed as sf

ds: sf.Dataset = sf.read("a@1").parse({"x": sf.int64}).batch(8)
for batch in ds:
    print(batch["x"])
ds.batch("8")
ds.decode_image(size=224, crop=3)
""")
    out = mypy(tmp_path / "use.py", "examples/python")
    errors = [line.split(": error: ")[0] for line in out.splitlines() if ": error: " in line]
    assert [e.split("use.py")[-1] for e in errors] == [":6", ":7"], out
