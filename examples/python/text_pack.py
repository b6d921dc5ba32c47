"""Packs text into rows for a language model: converts JSON lines, tokenizes in Python, packs.

    python examples/python/text_pack.py
"""

import json
import pathlib
import tempfile

import numpy as np
import shardfeed as sf


def tokenize(element):
    """Returns a token for each byte; 0 is reserved for padding."""
    return {"tokens": np.frombuffer(element["text"], np.uint8).astype(np.int64) + 1}


def main() -> None:
    poem = pathlib.Path(__file__).resolve().parents[2] / "testdata/tables/poem.txt"
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "lines.jsonl"
        lines.write_text("".join(json.dumps({"text": line}) + "\n"
                                 for line in poem.read_text().splitlines() if line))
        sf.convert("jsonl", lines, f"{folder}/lines@2", no_sync=True)
        ds = (sf.read(f"{folder}/lines@2")
              .shuffle(seed=1)
              .parse({"text": sf.bytes})
              .map(tokenize, output={"tokens": sf.var(sf.int64)})
              .pack("tokens", length=256)
              .batch(4))
        tokens = sum(int((batch["tokens"] != 0).sum()) for batch in ds)
        batch = next(iter(ds))
        print(f"{tokens} tokens; the first batch is {batch['tokens'].shape}, "
              f"{(batch['tokens'] != 0).mean():.0%} full, "
              f"{batch['tokens_segment_ids'].max()} lines in its fullest row")


if __name__ == "__main__":
    main()
