"""What the data of each release in this folder must give. make.py writes it, and tests/package/releases_test.py
reads it with the version at hand. Append chains; never change those that a release has."""

import pathlib
from typing import Any, Dict, List

import shardfeed as sf

RECORDS = 60
DATASETS = ("raw@3", "gzip@2", "zlib@1")
PARSED = {"id": sf.int64, "x": sf.fixed(2), "tokens": sf.ragged("int64"), "text": sf.bytes}


def row(i: int) -> Dict[str, Any]:
    """Record i of each dataset."""
    return {"id": i, "x": [i / 2, -i], "tokens": list(range(i % 7)), "text": f"record {i}".encode()}


def chains(folder: pathlib.Path) -> Dict[str, sf.Dataset]:
    """Chains of the datasets in a folder of a release, by name."""
    def read(name: str) -> sf.Dataset:
        return sf.read(folder / name)

    return {
        "sequential": read("raw@3").parse(PARSED).batch(7),
        "shuffled": read("gzip@2").shuffle(seed=3).parse(PARSED).batch(4),
        "windowed": read("raw@3").shuffle(seed=5, window=16, chunk=4).parse(PARSED).repeat(2).batch(8),
        "interleaved": read("raw@3").interleave(3, block=2).parse(PARSED).batch(5),
        "sharded": read("zlib@1").shuffle(seed=1).shard(1, 2).parse(PARSED).batch(3),
        "packed": read("raw@3").shuffle(seed=2).parse({"tokens": sf.ragged("int64")}).pack("tokens", 16).batch(2),
        "mixed": sf.mix(read("raw@3").shuffle(seed=7).parse(PARSED), read("gzip@2").parse(PARSED),
                        weights=[2, 1], seed=4).batch(6),
        "snapshot": read("raw@3").parse(PARSED).batch(4).snapshot(folder / "raw.snapshot"),
    }


def plain(batch: Dict[str, Any]) -> Dict[str, Any]:
    """A batch as JSON has it."""
    def value(of: Any) -> Any:
        if isinstance(of, sf.Ragged):
            return [value(one) for one in of]
        of = of.tolist() if hasattr(of, "tolist") else of
        if isinstance(of, (list, tuple)):
            return [value(one) for one in of]
        return of.decode() if isinstance(of, bytes) else of

    return {name: value(of) for name, of in batch.items()}


def rest_of(it: sf.Iterator) -> List[Dict[str, Any]]:
    return [plain(batch) for batch in it]
