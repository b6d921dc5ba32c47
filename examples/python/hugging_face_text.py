"""Writes a dataset of Hugging Face's library as shards, reads it as one of theirs, and resumes it. It takes datasets
and pyarrow (pip install 'shardfeed[hf]').

    python examples/python/hugging_face_text.py [OUT@N]
"""

import itertools
import sys
import tempfile

import datasets
import shardfeed as sf
import shardfeed.hf

REVIEWS = [("a fine film", 1), ("dull, and far too long", 0), ("worth seeing twice", 1)] * 200


def main(spec: str) -> None:
    reviews = datasets.Dataset.from_dict({"text": [text for text, _ in REVIEWS], "label": [label for _, label in REVIEWS]})
    with sf.write(spec) as writer:
        for table in reviews.with_format("arrow").iter(batch_size=100):
            writer.write_batch(table)
    print(f"{len(sf.read(spec))} records")

    ds = shardfeed.hf.load(spec)  # a datasets.IterableDataset, with map, filter, shuffle and the rest
    words = ds.map(lambda row: {"words": len(row["text"].split())})
    first = [row["words"] for row in itertools.islice(words, 250)]
    state = words.state_dict()
    words.load_state_dict(state)
    rest = [row["words"] for row in words]
    assert len(first) + len(rest) == len(REVIEWS)
    print(f"{sum(first) + sum(rest)} words, {len(rest)} records of them after resuming")

    # Without shards: a chain of theirs in memory.
    batch = next(iter(sf.from_hf(reviews).shuffle(seed=1, window=len(reviews)).batch(8)))
    print(f"a batch for training has {len(batch['label'])} rows")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/reviews@4")
