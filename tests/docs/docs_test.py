"""Runs the code in README.md and docs/*.md, and the notebooks.

Every fenced block of Python, shell and C++ is run (C++: compiled) in the order of its page, in a
folder with the data that the pages mention. A block that cannot run here follows a comment that says
why: <!-- not run: it needs a GPU -->.
"""

import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass

import array_record_files
import mds_files
import numpy as np
import pytest
from harness import BINARY, REPOSITORY, TESTDATA, crc32c

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
NOTEBOOKS = sorted((REPOSITORY / "docs/notebooks").glob("*.ipynb"))
LANGUAGES = {"python", "sh", "cpp", "c", "cmake", "text", "json"}

# The number of blocks that say that they cannot run. Another one needs a decision.
NOT_RUN = 28


@dataclass
class Block:
    language: str
    code: str
    reason: str  # why it is not run, or empty
    line: int


def blocks(page):
    """The fenced blocks of a page, in order."""
    found = []
    lines = page.read_text().split("\n")
    start = None
    for number, line in enumerate(lines):
        if not re.match(r" *```", line):
            continue
        if start is None:
            start = number
            continue
        indent = len(lines[start]) - len(lines[start].lstrip())
        before = lines[start - 1].strip() if start > 0 else ""
        reason = re.fullmatch(r"<!-- not run: (.+) -->", before)
        found.append(Block(lines[start].strip("` "), "\n".join(
            row[indent:] for row in lines[start + 1:number]), reason[1] if reason else "", start + 1))
        start = None
    assert start is None, f"{page}:{start + 1}: the block has no end"
    return found


def to_run(page, *languages):
    return [b for b in blocks(page) if b.language in languages and not b.reason]


# ---- The data that the pages mention


def member(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def prepare_annotations(folder, files):
    """Images with a box in each, in the forms of COCO, VOC, YOLO and Hugging Face's tables."""
    for name in ("coco/annotations", "VOCdevkit/VOC2012/Annotations", "VOCdevkit/VOC2012/ImageSets/Main",
                 "yolo/labels/train"):
        (folder / name).mkdir(parents=True)
    for name in ("coco/train", "VOCdevkit/VOC2012/JPEGImages", "yolo/images/train", "pets/train"):
        (folder / name).mkdir(parents=True)
        for i, path in enumerate(files):
            shutil.copy(path, folder / name / f"{i}{path.suffix}")
    names = [f"{i}{path.suffix}" for i, path in enumerate(files)]
    (folder / "coco/annotations/instances_train.json").write_text(json.dumps({
        "images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
        "annotations": [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 3, 4]}
                        for i in range(len(names))],
        "categories": [{"id": 1, "name": "cat"}]}))
    for i in range(len(names)):
        (folder / f"VOCdevkit/VOC2012/Annotations/{i}.xml").write_text(
            "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax>"
            "<ymax>2</ymax></bndbox></object></annotation>")
        (folder / f"yolo/labels/train/{i}.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    (folder / "VOCdevkit/VOC2012/ImageSets/Main/train.txt").write_text("0\n1\n")
    (folder / "yolo/data.yaml").write_text("train: images/train\nnames: [cat]\n")
    (folder / "pets/train/metadata.csv").write_text(
        "file_name,age\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names)))


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    images = TESTDATA / "images"
    for name in ("photos", "val_images"):
        shutil.copytree(images, folder / name)
    shutil.copytree(TESTDATA / "tfds/movielens", folder / "movielens")
    files = [path for path in sorted((folder / "photos").rglob("*")) if path.is_file()]
    (folder / "val_labels.csv").write_text("image,label\n" + "".join(
        f"{path.relative_to(folder / 'photos')},{path.relative_to(folder / 'photos').parts[0]}\n"
        for path in files))
    rng = np.random.default_rng(0)
    (folder / "flights.csv").write_text("carrier,delay,distance\n" + "".join(
        f"{'ABC'[i % 3]},{rng.normal():.3f},{i}\n" for i in range(1000)))
    lines = [line for line in (TESTDATA / "tables/poem.txt").read_text().splitlines() if line]
    for kind in ("corpus", "events"):
        (folder / f"{kind}-0.jsonl").write_text("".join(
            json.dumps({"text": line, "id": i}) + "\n" for i, line in enumerate(lines)))
    with tarfile.open(folder / "photos-0.tar", "w") as tar:
        for i, path in enumerate(f for f in files if f.suffix == ".jpg"):
            member(tar, f"{i:06}.jpg", path.read_bytes())
            member(tar, f"{i:06}.cls", b"%d" % (i % 4))
    mds_files.write(folder / "mds", {"image": "jpeg", "label": "int"},
                    [{"image": path.read_bytes(), "label": i % 4}
                     for i, path in enumerate(f for f in files if f.suffix == ".jpg")], 10)
    prepare_annotations(folder, files)
    sf.convert("imagefolder", folder / "photos", folder / "images/train@4", no_sync=True)
    records = list(sf.read(folder / "images/train@4"))
    for shard in range(2):
        array_record_files.write(folder / f"array/photos-train.array_record-0000{shard}-of-00002", records[shard::2])
    sf.convert("imagefolder", folder / "photos", folder / "out/train@16", no_sync=True)
    for spec in ("tables/train@4", "old/train@4"):
        with sf.write(folder / spec) as writer:
            for i in range(1000):
                writer.write({"x": np.arange(4, dtype=np.float32) + i, "y": float(i),
                              "tokens": [i] * (i % 3 + 1)})
    with sf.write(folder / "robot/train@2") as writer:
        for i in range(20):
            chosen = [files[(i + s) % len(files)].read_bytes() for s in range(i % 5 + 1)]
            writer.write({"steps/is_first": [int(s == 0) for s in range(len(chosen))], "steps/image": chosen,
                          "steps/action": np.zeros(7 * len(chosen), np.float32), "instruction": b"pick it up"})
    shutil.rmtree(folder / "old/.shardfeed")  # as if another program had written the shards
    return folder


@pytest.fixture
def scratch(prepared, tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    shutil.copytree(prepared, folder)
    (folder / ".bin").mkdir()
    # As pip installs it: the package's command, which runs the program.
    (folder / ".bin/shardfeed").write_text(f"#!/bin/sh\nPYTHONPATH={REPOSITORY / 'python'} exec {sys.executable} "
                                           "-m shardfeed \"$@\"\n")
    (folder / ".bin/shardfeed").chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder / '.bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SHARDFEED_BIN", str(BINARY))
    return folder


# ---- Running


def missing(code):
    """The framework that the code needs but that is not installed, if any."""
    for module, use in (("torch", r"\btorch\b"), ("tensorflow", r"\.tf\b|tensorflow"), ("jax", r"\bjax\b")):
        if re.search(use, code) and importlib.util.find_spec(module) is None:
            return module
    return None


def run_python(code, names, where):
    if importlib.util.find_spec("torch") is None:
        code = code.replace(".torch()", ".numpy()")  # the same except for the type of the arrays
    module = missing(re.sub(r"(?m)#.*$", "", code))
    if module:
        return module
    exec(compile(code, where, "exec"), names)
    return None


def run_shell(code, where):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, f"{where}\n{code}\n{done.stdout}{done.stderr}"


def name_of(path):
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page, "python", "sh")],
                         ids=name_of)
def test_the_blocks_of_a_page_run(page, scratch):
    steps = []
    names = {"__name__": "docs", "train": lambda *values: steps.append(values),
             "step": lambda *values: steps.append(values)}
    if page.name in ("README.md", "tutorial.md"):  # these begin with raw data only
        shutil.rmtree(scratch / "out")
    else:
        names.update(sf=sf, np=np, crc32c=crc32c)
    not_there = []
    for block in to_run(page, "python", "sh"):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "sh":
            run_shell(block.code, where)
        elif module := run_python(block.code, names, where):
            not_there.append(f"{where}: {module} is not installed")
    assert not re.search(r"\b(train|step)\(batch", "".join(
        b.code for b in to_run(page, "python") if "def step" not in b.code)) or steps
    if not_there:
        print("; ".join(not_there))


def test_cpp_blocks_compile(tmp_path):
    parts = []
    for page in PAGES:
        for i, block in enumerate(to_run(page, "cpp")):
            code = re.sub(r"(?m)^#include.*\n", "", block.code)
            parts.append(f'#line {block.line + 1} "{name_of(page)}"\n'
                         f"absl::Status {page.stem}_{i}() {{\n{code}\nreturn absl::OkStatus();\n}}")
    assert len(parts) >= 3
    source = tmp_path / "docs.cc"
    source.write_text('#include <cstdio>\n#include "shardfeed/shardfeed.h"\n'
                      "using namespace shardfeed;\n"
                      "template <typename... T> void Train(T&&...) {}\n" + "\n".join(parts))
    done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{REPOSITORY}/include", source],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_blocks_are_fenced_and_those_not_run_say_why():
    skipped = []
    for page in PAGES:
        for block in blocks(page):
            assert block.language in LANGUAGES, f"{name_of(page)}:{block.line}: {block.language!r}"
            if block.reason:
                assert block.language in ("python", "sh", "cpp")
                skipped.append(f"{name_of(page)}:{block.line}: {block.reason}")
        if page.name == "README.md" and page.parent == REPOSITORY:
            continue  # its two commands of the repository are indented
        prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
        assert not re.search(r"(?m)^\n {4}(?! *[-*\d])\S", prose), f"{name_of(page)}: an indented block"
    assert len(skipped) == NOT_RUN, "\n".join(skipped)


def test_migration_covers_every_loader():
    page = (REPOSITORY / "docs/migration.md").read_text()
    assert re.findall(r"^## (.*)", page, re.M) == [
        "torch.utils.data.DataLoader", "tf.data", "RLDS", "MosaicML Streaming", "Grain", "WebDataset", "DALI", "SPDL",
        "tfrecord (vahidk)"]
    assert page.count("<!-- not run: code of the other library") == 7


def test_every_page_is_listed():
    index = (REPOSITORY / "docs/README.md").read_text()
    for page in PAGES[1:]:
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
    for notebook in NOTEBOOKS:
        assert f"(notebooks/{notebook.name})" in index


def anchors(page):
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    headings = re.findall(r"(?m)^#+ (.*)$", prose)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CHANGELOG.md", REPOSITORY / "CONTRIBUTING.md"],
                         ids=name_of)
def test_links_lead_somewhere(page):
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(other), f"{name_of(page)}: {target}"


def test_the_site_is_built():
    """scripts/docs, which checks the links itself."""
    environment = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")
                               ) / "shardfeed/docs"
    installed = environment / "installed-requirements.txt"
    wanted = (REPOSITORY / "docs/requirements.txt").read_text()
    if not installed.exists() or installed.read_text() != wanted:
        pytest.skip("mkdocs-material is not installed (scripts/docs installs it)")
    done = subprocess.run([REPOSITORY / "scripts/docs"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "SHARDFEED_BIN": str(BINARY)})
    assert done.returncode == 0, done.stdout + done.stderr
    site = REPOSITORY / "build/site"
    assert "shardfeed convert csv" in (site / "reference/command_line.html").read_text()
    api = (site / "reference/python.html").read_text()
    assert all(f'id="shardfeed.{name}"' in api for name in ("read", "Dataset", "Dataset.batch", "write"))
    assert "class Dataset" in re.sub("<[^>]+>", "", (site / "reference/cpp.html").read_text())


def test_the_readme_is_short():
    assert len(PAGES[0].read_text().splitlines()) < 100


# ---- Notebooks


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_notebooks_run(notebook, scratch):
    document = json.loads(notebook.read_text())
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    if importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"):
        import nbclient
        import nbformat
        os.environ["PYTHONPATH"] = str(REPOSITORY / "python")
        nbclient.NotebookClient(nbformat.read(notebook, as_version=4), timeout=120,
                                resources={"metadata": {"path": str(scratch)}}).execute()
        return
    if "from PIL" in notebook.read_text():
        pytest.importorskip("PIL", reason="Pillow is not installed")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{name_of(notebook)}, cell {number}", "exec"), names)
