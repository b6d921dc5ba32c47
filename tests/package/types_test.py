"""Types of the package: the extension's stubs in the tree are up to date, and mypy accepts them."""

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
    """Runs mypy, without the frameworks' own types, which take minutes; returns its output."""
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


def test_misspelt_names_and_choices_are_found(mypy, tmp_path):
    (tmp_path / "use.py").write_text("""\
import shardfeed as sf

sf.raed("a@1")
sf.read("a@1", end="dropp")
sf.read("a@1", io="mmap", end="wrap")
sf.read("a@1").decode_image(crop="middle")
sf.write("b@1", compression="zip")
sf.write("b@1", compression="gzip")
sf.verify("a@1", level="all")
a, b = sf.range(3), sf.range(3)
sf.mix(a, b, weights=[1, 2])
sf.mix([a, b], [1, 2], exhausted="stop")
sf.mix(a, b, exhausted="never")
sf.interleave(a, b, cycle=2)
sf.concatenate([a, b])
a.with_options(thread=3)
a.with_options(threads=3)
sf.torch.IterableDataset(a)
""")
    out = mypy(tmp_path / "use.py")
    lines = {int(line.split(":")[1]) for line in out.splitlines() if ": error: " in line}
    assert lines == {3, 4, 6, 7, 9, 13, 16}, out
