"""Builds the documentation site. scripts/docs runs it with the path of the program.

The pages are docs/*.md, the notebooks, the changelog, and three references that are made here: of
the Python package from its docstrings (by mkdocstrings, without importing it), of the C++ library
from the text of its public headers, and of the command line from the program's --help. They are
collected in build/docs, from which mkdocs builds build/site.
"""

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
STAGE = REPOSITORY / "build/docs"
SITE = REPOSITORY / "build/site"

# The site's own start page takes the name index.md, which is the page on indexes in docs/.
RENAMED = {"README.md": "index.md", "index.md": "shard_index.md"}

NAVIGATION = [
    {"Home": "README.md"},
    {"Tutorial": "tutorial.md"},
    {"How-to guides": [
        {"From another loader": "migration.md"}, {"ImageNet": "imagenet.md"},
        {"Tokens for language models": "llm.md"}, {"Clusters": "clusters.md"},
        {"Notebook: a table": "notebooks/table.md"}, {"Notebook: images": "notebooks/images.md"},
        {"Notebook: resuming": "notebooks/resume.md"}]},
    {"Reference": [
        {"Python": "python.md"}, {"Python API": "reference/python.md"},
        {"Frameworks and augmentations": "reference/frameworks.md"},
        {"Pipeline": "pipeline.md"}, {"C++ headers": "reference/cpp.md"},
        {"Exit statuses and progress": "command_line.md"},
        {"Command line": "reference/command_line.md"}, {"Images": "images.md"},
        {"Augmentations and decoders": "augment.md"}, {"GPU": "cuda.md"}, {"Watching a run": "monitoring.md"},
        {"Object stores": "stores.md"}, {"Order": "order.md"},
        {"Reading": "reading.md"}, {"Convert": "convert.md"},
        {"Convert through Python": "convert_libraries.md"}, {"Jobs": "jobs.md"},
        {"Reshard": "reshard.md"}, {"Verify": "verify.md"}, {"Statistics": "statistics.md"}, {"View": "view.md"}, {"TFDS": "tfds.md"},
        {"Planned rows": "packing.md"},
        {"Mixtures": "mixtures.md"},
        {"WebDataset": "webdataset.md"},
        {"Episodes": "episodes.md"},
        {"MDS": "mds.md"},
        {"ArrayRecord": "arrayrecord.md"},
        {"Repair": "repair.md"}]},
    {"Formats": [
        {"Names": "specs.md"}, {"Index": "index.md"}, {"Index pack": "index_pack.md"}, {"Manifest": "manifest.md"},
        {"Commit": "commit.md"}, {"Compression": "compression.md"}, {"Snapshot": "snapshot.md"},
        {"Seekable JPEG": "seekable_jpeg.md"}]},
    {"Benchmarks": [{"Overview": "benchmarks.md"}, {"All figures": "benchmarks/results.md"}]},
    {"Reliability": "reliability.md"},
    {"Stability": "stability.md"},
    {"Changelog": "changelog.md"},
    {"Glossary": "glossary.md"},
]
OPTIONAL = {"stability.md", "glossary.md"}  # not in the navigation if the page does not exist


def staged_links(text, folder):
    """Returns the text of a page in docs/`folder` with its links adapted to the site."""
    def link(match):
        words, target = match[1], match[2]
        if "://" in target or target.startswith("#"):
            return match[0]
        path, _, anchor = target.partition("#")
        path = re.sub(r"\.ipynb$", ".md", path)
        if path == "../CHANGELOG.md":
            path = "changelog.md"
        elif path.startswith("../") and not folder:
            return f"{words} (`{path[3:]}`)"  # a file of the repository that is not in the site
        if not folder:
            path = RENAMED.get(path, path)
        return f"[{words}]({path}{'#' + anchor if anchor else ''})"
    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", link, text)


def write(path, text):
    target = STAGE / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def stage_pages():
    docs = REPOSITORY / "docs"
    for page in sorted(docs.glob("*.md")):
        write(RENAMED.get(page.name, page.name), staged_links(page.read_text(), ""))
    for file in sorted((docs / "benchmarks").iterdir()):
        (STAGE / "benchmarks").mkdir(exist_ok=True)
        shutil.copy(file, STAGE / "benchmarks" / file.name)
    for notebook in sorted((docs / "notebooks").glob("*.ipynb")):
        cells = json.loads(notebook.read_text())["cells"]
        write(f"notebooks/{notebook.stem}.md", "\n\n".join(
            "".join(cell["source"]) if cell["cell_type"] == "markdown"
            else f"```python\n{''.join(cell['source'])}\n```" for cell in cells) + "\n")
    changes = (REPOSITORY / "CHANGELOG.md").read_text().replace("](docs/", "](")
    write("changelog.md", staged_links(changes, ""))


# ---- References


def public_names():
    """Returns the names in `__all__` of the package, each with its path for mkdocstrings."""
    package = REPOSITORY / "python/shardfeed"
    tree = ast.parse((package / "__init__.py").read_text())
    origins = {alias.asname or alias.name: f"{node.module}.{alias.name}"
               for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1
               for alias in node.names if node.module}
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            # A function with the name of a module is found where it is defined.
            return {name: origins[name] if (package / f"{name}.py").exists() else name
                    for name in ast.literal_eval(node.value) if name != "augment"}
    raise SystemExit("docs: python/shardfeed/__init__.py has no __all__")


def python_reference():
    paths = public_names()
    first = ["read", "Dataset", "Iterator", "write", "Writer"]
    names = [paths[name] for name in first] + [paths[name] for name in paths if name not in first]
    write("reference/python.md",
          "# Python API\n\nThe package is imported as `import shardfeed as sf`. "
          "[The guide](../python.md) explains the concepts.\n\n"
          + "".join(f"::: shardfeed.{name}\n\n" for name in names))
    write("reference/frameworks.md",
          "# Frameworks and augmentations\n\n"
          + "".join(f"::: shardfeed.{name}\n\n" for name in ("torch", "tf", "augment")))


def public_headers():
    """Returns the headers that users include."""
    headers = sorted((REPOSITORY / "include/shardfeed").glob("*.h"))
    return [(f"shardfeed/{header.name}", header) for header in headers]


def cpp_reference():
    text = ("# C++ headers\n\nThe comments in the public headers are the reference of the C++ library. "
            "[The pipeline](../pipeline.md) explains the concepts.\n")
    for name, path in public_headers():
        code = re.sub(r"(?m)^#(ifndef|define|endif).*SHARDFEED_.*_H_.*\n", "", path.read_text()).strip()
        text += f"\n## {name}\n\n```cpp\n{code}\n```\n"
    write("reference/cpp.md", text)


def command_line(program):
    def help_of(*command):
        return subprocess.run([program, *command, "--help"], check=True, capture_output=True,
                              text=True).stdout.strip()

    def commands_in(text):
        below = re.search(r"(?ms)^Subcommands:\n(.*?)\n\n", text + "\n\n")
        return re.findall(r"(?m)^  (\w+) ", below[1]) if below else []

    def section(*command):
        text = help_of(*command)
        sections = f"\n## shardfeed {' '.join(command)}\n\n```text\n{text}\n```\n"
        return sections + "".join(section(*command, name) for name in commands_in(text))

    overview = help_of()
    write("reference/command_line.md",
          "# Command line\n\nThis is what `--help` prints. `shardfeed man` prints a manual page, and "
          "`shardfeed completion bash`\n(or zsh, fish) a script for the shell; `scripts/install` "
          f"installs both.\n\n```text\n{overview}\n```\n"
          + "".join(section(name) for name in commands_in(overview)))


# ---- The site


def navigation(entries):
    found = []
    for entry in entries:
        (title, value), = entry.items()
        if isinstance(value, list):
            found.append({title: navigation(value)})
        elif value not in OPTIONAL or (STAGE / value).exists():
            found.append({title: RENAMED.get(value, value)})
    return found


def configuration():
    """Returns the configuration of mkdocs, to be written as JSON, which is also YAML."""
    return {
        "site_name": "shardfeed", "docs_dir": str(STAGE), "site_dir": str(SITE),
        "use_directory_urls": False, "strict": True, "nav": navigation(NAVIGATION),
        "validation": {"nav": {"omitted_files": "warn", "not_found": "warn"},
                       "links": {"not_found": "warn", "anchors": "warn",
                                 "unrecognized_links": "warn"}},
        "theme": {"name": "material", "font": False,  # fonts of the reader's system
                  "features": ["navigation.tabs", "navigation.top", "toc.follow",
                               "content.code.copy"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default"},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate"}]},
        "extra": {"generator": False},
        "markdown_extensions": ["tables", "admonition", "pymdownx.superfences",
                                {"pymdownx.highlight": {"pygments_lang_class": True}},
                                {"toc": {"permalink": True}}],
        "plugins": ["search", {"mkdocstrings": {"handlers": {"python": {
            "paths": [str(REPOSITORY / "python")],
            "options": {"show_source": False, "show_root_heading": True, "heading_level": 2,
                        "docstring_style": None, "allow_inspection": False,
                        "inherited_members": True, "show_if_no_docstring": True,
                        "show_signature_annotations": True, "members_order": "source",
                        "filters": ["!^_"], "show_root_full_path": False,
                        "separate_signature": True, "line_length": 90}}}}}],
    }


def check_nothing_is_loaded_from_elsewhere():
    for page in SITE.rglob("*.html"):
        found = re.findall(r'<(?:script|img)[^>]*\ssrc="?https?:[^">]*'
                           r'|<link[^>]*rel="?(?:stylesheet|preconnect)[^>]*https?:[^">]*',
                           page.read_text())
        if found:
            raise SystemExit(f"docs: {page} loads {found[0]}")


def main():
    program = sys.argv[1]
    for folder in (STAGE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    STAGE.mkdir(parents=True)
    stage_pages()
    python_reference()
    cpp_reference()
    command_line(program)
    config = REPOSITORY / "build/mkdocs.yml"
    config.write_text(json.dumps(configuration(), indent=1))
    # With --quiet, mkdocs would not count its warnings, and --strict would have no effect.
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}docs: the site has errors; they are above")
    check_nothing_is_loaded_from_elsewhere()


if __name__ == "__main__":
    main()
