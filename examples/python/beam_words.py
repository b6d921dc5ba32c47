"""Prepares a text dataset with Beam: drops duplicates, turns words into numbers, writes shards, and
counts what it has written. It takes apache-beam and pyarrow (pip install 'shardfeed[beam]').

    python examples/python/beam_words.py [OUT@N]
"""

import sys
import tempfile
import zlib
from typing import Any, Dict

import apache_beam as beam
import shardfeed as sf
import shardfeed.beam

TEXTS = [f"the {color} {animal} sees {number} others" for color in ("red", "green", "blue", "red")
         for animal in ("fox", "hen", "owl") for number in range(50)]


def tokenize(text: str) -> Dict[str, Any]:
    return {"text": text, "tokens": [zlib.crc32(word.encode()) % 1000 for word in text.split()]}


def main(spec: str) -> None:
    # After an exception, the end of the `with` removes what workers have written.
    with sf.beam.Write(spec) as write, beam.Pipeline() as pipeline:
        (pipeline
         | beam.Create(TEXTS)
         | beam.Distinct()
         | beam.Map(tokenize)
         | write
         | beam.Map(lambda report: print(f"{report['records']} records in {report['shards']} shards")))

    with beam.Pipeline() as pipeline:
        (pipeline
         | sf.beam.Read(spec, ["tokens"])
         | beam.Map(lambda row: len(row["tokens"]))
         | beam.CombineGlobally(sum)
         | beam.Map(lambda count: print(f"{count} tokens")))

    batch = next(iter(sf.read(spec).shuffle(seed=1).parse({"tokens": sf.var(sf.int64)}).batch(8)))
    print(f"a batch for training has {len(batch['tokens'])} rows")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/words@4")
