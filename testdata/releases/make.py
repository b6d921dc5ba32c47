"""Writes what this version promises that later ones read, docs/stability.md: datasets with their indexes and
manifests, a snapshot, a job, and states of runs with what comes after them.

    python testdata/releases/make.py

It writes testdata/releases/VERSION once, when the version is released. A folder that is there is never written
again: only a version that has not been released may be removed and made anew."""

import json
import pathlib
import sys

import shardfeed as sf

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from chains import DATASETS, RECORDS, chains, plain, rest_of, row  # noqa: E402


def main() -> None:
    out = FOLDER / sf.__version__
    out.mkdir()
    features = {"id": sf.int64, "x": sf.fixed(2), "tokens": sf.ragged("int64"), "text": sf.bytes}
    for name in DATASETS:
        compression = {"raw@3": "none", "gzip@2": "gzip", "zlib@1": "zlib"}[name]
        with sf.write(out / name, compression=compression, features=features) as writer:
            for i in range(RECORDS):
                writer.write(row(i))
    expected = {}
    for name, ds in chains(out).items():
        before = 3
        with ds.start(epoch=1) as it:
            batches = [plain(next(it)) for _ in range(before)]
            state = it.state_dict()
            expected[name] = {"state": state, "before": batches, "rest": rest_of(it)}
    (out / "expected.json").write_text(json.dumps(expected, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
