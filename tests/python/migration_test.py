"""docs/migration.md: our half of each pair runs."""

import importlib.util
import io
import pathlib
import re
import sys
import tarfile

import numpy as np
import pytest
from harness import REPOSITORY, TESTDATA

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

PAGE = (REPOSITORY / "docs/migration.md").read_text()


def blocks():
    """(section, code) of each block that is ours."""
    found = []
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        name = section.split("\n", 1)[0]
        codes = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
        found += [pytest.param(code, id=f"{name} {i}") for i, code in enumerate(codes)]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("migration")
    with sf.write(folder / "tables/train@4") as writer:
        for i in range(100):
            writer.write({"x": np.arange(4, dtype=np.float32) + i, "y": float(i),
                          "tokens": [i] * (i % 3 + 1)})
    sf.convert("imagefolder", TESTDATA / "images", folder / "images/train@4", no_sync=True)
    with tarfile.open(folder / "photos.tar", "w") as tar:
        for i, path in enumerate(sorted((TESTDATA / "images").rglob("*.jpg"))):
            for name, data in ((f"{i:06}.jpg", path.read_bytes()), (f"{i:06}.cls", b"%d" % (i % 4))):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    sf.convert("tar", folder / "photos.tar", folder / "tars/train@4", no_sync=True)
    return folder


@pytest.mark.parametrize("code", blocks())
def test_our_half_runs(folder, code, monkeypatch, tmp_path):
    if importlib.util.find_spec("torch") is None:
        code = code.replace(".torch()", ".numpy()")  # the same but for the arrays' type
    for module, use in (("torch", r"\btorch\b"), ("tensorflow", r"\.tf\b")):
        if re.search(use, code) and importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (pip install {module})")
    (tmp_path / "images").symlink_to(folder / "images")
    (tmp_path / "tables").symlink_to(folder / "tables")
    (tmp_path / "tars").symlink_to(folder / "tars")
    monkeypatch.chdir(tmp_path)
    steps = []
    exec(compile(code, "docs/migration.md", "exec"),
         {"sf": sf, "step": lambda *values: steps.append(values)})
    assert len(steps) > 2
    if "out@1" in code:
        assert len(sf.read("out@1")) == 1


def test_every_loader_is_there():
    names = re.findall(r"^## (.*)", PAGE, re.M)
    assert names == ["torch.utils.data.DataLoader", "tf.data", "WebDataset", "DALI", "SPDL",
                     "tfrecord (vahidk)"]
    assert PAGE.count("```python theirs") == 6 and pathlib.Path(REPOSITORY / "docs/README.md"
                                                                 ).read_text().count("migration.md")
