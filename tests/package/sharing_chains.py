"""Chains that are shared, and a rank in a process of its own that does what it is told:

    python sharing_chains.py SPEC CHAIN RANK WORLD NAME RANKS OPTIONS

reads commands from its input, and answers each with a line of JSON.
"""

import hashlib
import json
import os
import pathlib
import sys

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import shardfeed as sf

SPEC = {"n": sf.int64, "x": sf.fixed(1200, sf.float32), "text": sf.bytes, "some": sf.var(sf.int64)}


def odd(row):
    return row["n"] % 5 != 1


def doubled(row):
    return {"n": row["n"], "x": row["x"] * 2, "text": row["text"]}


def nested(row):
    return {"id": row["n"], "pair": (row["x"], row["text"])}


def noisy(batch):
    return {"n": batch["n"], "x": batch["x"] + 1}


def generate():
    for n in range(60):
        yield {"n": n}


def twice(row):
    return [{"n": row["n"]}, {"n": -row["n"]}]


OUTPUT = {"n": sf.int64, "x": sf.fixed(1200, sf.float32), "text": sf.bytes}


def read(spec, batch=8, **options):
    return sf.read(spec, batch=batch, **options)


def parsed(ds):
    return ds.parse(SPEC)


CHAINS = {
    "sequential": lambda spec, r, w: parsed(read(spec).shard(r, w)).batch(8),
    "shuffled": lambda spec, r, w: parsed(read(spec).shuffle(seed=1).shard(r, w)).batch(8),
    "window": lambda spec, r, w: parsed(read(spec).shuffle(2, 100, chunk=10, lanes=4).shard(r, w)).batch(8),
    "interleaved": lambda spec, r, w: parsed(read(spec).interleave(2, 3).shard(r, w)).batch(8),
    "padded": lambda spec, r, w: parsed(read(spec, 7, end="pad").shard(r, w)).batch(7),
    "wrapped": lambda spec, r, w: parsed(read(spec, 7, end="wrap").shuffle(3).shard(r, w)).batch(7),
    "repeated": lambda spec, r, w: parsed(read(spec).shuffle(4).shard(r, w).repeat(2)).batch(8),
    "filtered": lambda spec, r, w: parsed(read(spec).shard(r, w)).filter(odd).batch(8),
    "mapped": lambda spec, r, w: parsed(read(spec).shard(r, w)).map(doubled, output=OUTPUT).batch(8),
    "nested": lambda spec, r, w: parsed(read(spec).shard(r, w)).map(nested).batch(8),
    "of batches": lambda spec, r, w: parsed(read(spec).shard(r, w)).batch(8).map(noisy, batched=True),
    "shard last": lambda spec, r, w: parsed(read(spec, 1)).filter(odd).shard(r, w).batch(8),
    "flat": lambda spec, r, w: parsed(read(spec).shard(r, w)).flat_map(
        twice, output={"n": sf.int64}).shuffle(3, window=20).batch(8),
    "padded batches": lambda spec, r, w: parsed(read(spec).shard(r, w)).padded_batch(8),
    "sparse": lambda spec, r, w: parsed(read(spec).shard(r, w)).batch(8).sparse("some"),
    "records": lambda spec, r, w: read(spec).shard(r, w).batch(8),
    "cached": lambda spec, r, w: parsed(read(spec).shard(r, w)).batch(8).cache(),
    "ranges": lambda spec, r, w: parsed(read(spec, records=[(100, 300)]).shard(r, w)).batch(8),
    "generated": lambda spec, r, w: sf.from_generator(
        generate, output={"n": sf.int64}).shard(r, w).batch(3),
    "same for peers": lambda spec, r, w: parsed(
        read(spec).shuffle(5).shard(r // 2, (w + 1) // 2)).batch(8),
    "same for all": lambda spec, r, w: parsed(read(spec).shuffle(6)).batch(8),
}


def plain(value):
    """The value as lists, bytes and digests of arrays."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, sf.Ragged):
        return ["ragged", plain(value.values), plain(value.row_splits)]
    if isinstance(value, sf.Sparse):
        return ["sparse", plain(value.values), plain(value.indices), plain(value.row_splits)]
    if isinstance(value, sf.BytesArray):
        return ["bytes", value.shape, value.tolist()]
    assert isinstance(value, np.ndarray), type(value)
    return [str(value.dtype), value.shape, hashlib.md5(value.tobytes()).hexdigest()]


def digest(element):
    return hashlib.md5(repr(plain(element)).encode()).hexdigest()


def main(spec, chain, rank, world, name, ranks, options):
    ds = CHAINS[chain](spec, int(rank), int(world))
    shared = sf.share(ds, name=name, ranks=int(ranks), **json.loads(options))
    it = shared.start()
    for line in sys.stdin:
        command, *argument = json.loads(line)
        if command == "next":
            answer = []
            for _ in range(argument[0]):
                try:
                    answer.append([digest(next(it)), it.padded, it.state()])
                except StopIteration:
                    answer.append(None)
                    break
        elif command == "start":
            it.close()
            it = shared.start(epoch=argument[0])
            answer = it.epoch()
        elif command == "load":
            it.load_state_dict({"state": argument[0]})
            answer = it.epoch()
        elif command == "stats":
            answer = it.stats()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
