"""Writes what this version promises that later ones read, docs/stability.md: datasets with their indexes and
manifests, an interrupted commit, a snapshot, and states of runs with what comes after them.

    python testdata/releases/make.py

It writes testdata/releases/VERSION once, when the version is released. A folder that is there is never written
again: only a version that has not been released may be removed and made anew."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import shardfeed as sf

FOLDER = pathlib.Path(__file__).parent
FEATURES = {"id": sf.int64, "x": sf.fixed(2), "tokens": sf.ragged("int64"), "text": sf.bytes}
sys.path.insert(0, str(FOLDER))
from chains import DATASETS, RECORDS, chains, plain, rest_of, row  # noqa: E402


def write(spec: pathlib.Path, records: int, **options: Any) -> None:
    with sf.write(spec, features=FEATURES, **options) as writer:
        for i in range(records):
            writer.write(row(i))


def interrupt_commit(folder: pathlib.Path) -> None:
    """Leaves d@2 while another dataset takes its place, of which some files have been moved. Needs strace."""
    folder.mkdir()
    write(folder / "d@2", 3)
    calls = "rename,renameat,renameat2"
    subprocess.run(["strace", "-f", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when=4",
                    sys.executable, __file__, "overwrite", str(folder / "d@2")])
    assert (folder / ".shardfeed/d.commit").exists()


def main() -> None:
    out = FOLDER / sf.__version__
    out.mkdir()
    for name in DATASETS:
        write(out / name, RECORDS, compression={"raw@3": "none", "gzip@2": "gzip", "zlib@1": "zlib"}[name])
    interrupt_commit(out / "committing")
    expected = {}
    for name, ds in chains(out).items():
        before = 3
        with ds.start(epoch=1) as it:
            batches = [plain(next(it)) for _ in range(before)]
            state = it.state_dict()
            expected[name] = {"state": state, "before": batches, "rest": rest_of(it)}
    (out / "expected.json").write_text(json.dumps(expected, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["overwrite"]:
        write(pathlib.Path(sys.argv[2]), RECORDS, overwrite=True)
    else:
        main()
