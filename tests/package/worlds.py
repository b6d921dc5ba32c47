"""Random chains that are stopped and resumed with other numbers of ranks, compared with a simple model.

The model knows one sequence for each epoch, that of one rank with batches of one record, and counts.
Each rank of each run must deliver exactly the rows that the model predicts. It follows that every
record comes once and that ranks have the same number of batches (which is checked as well). In a
fourth of the chains, ranks advance unevenly: these resume from merged states. Another fourth are
mixtures (mixed_worlds.py).
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import mixed_worlds
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))

MOST_WORLD = 64
# All ranks of small worlds run; of large ones this many, drawn at random.
MOST_RANKS = 6


def write(sf, folder, records, shards):
    spec = str(Path(folder) / f"d{records}x{shards}@{shards}")
    if not (Path(folder) / f"d{records}x{shards}-{0:05}-of-{shards:05}").exists():
        with sf.write(spec) as writer:
            for n in range(records):
                writer.write({"n": n, "v": list(range(n % 4))})
    return spec


def fail_on_fifths(row):
    if row["n"] % 5 == 0:
        raise ValueError("a fifth")
    return {"n": row["n"]}


# Steps that count, remember or hold back rows, each with rows {"n"} as input and output.
STEPS = {
    "take_while": lambda sf, ds: ds.take_while(lambda row: row["n"] != 41),
    "unique": lambda sf, ds: ds.map(lambda row: {"n": row["n"] // 3},
                                    output={"n": sf.int64}).unique("n"),
    "window": lambda sf, ds: ds.window(3, shift=2, drop_remainder=True).map(
        lambda row: {"n": int(row["n"][1])}, output={"n": sf.int64}),
    "scan": lambda sf, ds: ds.scan(0, lambda total, row: (total + 1, {"n": row["n"] + 1000 * total}),
                                   output={"n": sf.int64}),
    "group_by_window": lambda sf, ds: ds.group_by_window(lambda row: row["n"] % 4, 3).unbatch(),
    "rejection_resample": lambda sf, ds: ds.rejection_resample(
        lambda row: row["n"] % 2, [0.8, 0.2], [0.5, 0.5], seed=5),
    "ignore_errors": lambda sf, ds: ds.map(fail_on_fifths, output={"n": sf.int64}).ignore_errors(
        max_ignored="100%"),
    "choose": lambda sf, ds: sf.choose([ds, ds.take(5)], choice=[0, 0, 1]),
    "rebatch": lambda sf, ds: ds.batch(4).rebatch(3).unbatch(),
}


class Case:
    """A chain, as a function of rank, world and batch, and what the model needs to know about it."""

    def __init__(self, sf, folder, seed):
        self.sf = sf
        self.draw = draw = random.Random(seed)
        self.seed = seed
        self.records = draw.choice([1, 7, 24, 60, 100, 240])
        self.spec = write(sf, folder, self.records, draw.choice([1, 3]))
        self.end = draw.choice(["drop", "drop", "pad", "wrap"])
        self.order = draw.choice(["sequential", "interleave", "shuffle", "window", "exact"])
        self.repeat = draw.choice([None, 1, 2, 3])
        self.kind = draw.choice(["read", "read", "filter", "pack", "step"])
        self.step = draw.choice(list(STEPS)) if self.kind == "step" else None
        self.maps = draw.random() < 0.5
        self.ranges = None
        if draw.random() < 0.2 and self.records > 4:
            first = draw.randrange(self.records // 2)
            self.ranges = [(first, draw.randint(1, self.records - first))]
        if self.kind != "read":
            self.end = "drop"

    def __repr__(self):
        return (f"case {self.seed}: {self.step or self.kind}, {self.records} records, {self.order}, end="
                f"{self.end}, repeat={self.repeat}, ranges={self.ranges}, maps={self.maps}")

    def source(self, batch):
        ds = self.sf.read(self.spec, batch=batch, end=self.end, records=self.ranges)
        if self.order == "interleave":
            return ds.interleave(2, 3)
        if self.order != "sequential":
            window = {"shuffle": 0, "window": 10, "exact": None}[self.order]
            return ds.shuffle(seed=self.seed, window=window)
        return ds

    def parsed(self, ds):
        ds = ds.parse({"n": self.sf.int64})
        return ds.map(lambda row: {"n": row["n"]}, output={"n": self.sf.int64}) if self.maps else ds

    def chain(self, rank, world, batch):
        """Elements are batches of `batch` rows; after a filter the last one may be short."""
        if self.kind == "read":
            ds = self.source(batch).shard(rank, world)
            if self.repeat is not None:
                ds = ds.repeat(self.repeat)
            return self.parsed(ds).batch(batch)
        ds = self.source(1)
        if self.kind == "filter":
            ds = self.parsed(ds).filter(lambda row: row["n"] % 3 != 0)
        elif self.kind == "step":
            ds = STEPS[self.step](self.sf, self.parsed(ds))
        else:  # rows that hold several records, and records that are held back
            ds = ds.parse({"n": self.sf.int64, "v": self.sf.ragged(self.sf.int64)})
            ds = ds.flat_map(lambda row: [{"n": row["n"]}] * len(row["v"]),
                             output={"n": self.sf.int64}).shuffle(seed=3, window=7)
        if self.repeat is not None:
            ds = ds.repeat(self.repeat)
        return ds.shard(rank, world).batch(batch)

    def whole(self, epoch):
        """The sequence that ranks divide: for "read" that of one epoch, otherwise all of it."""
        if self.kind == "read":
            return [row["n"] for row in self.parsed(self.source(1)).start(epoch=epoch)]
        return [n for b in self.chain(0, 1, 1).start(epoch=0) for n in b["n"].tolist()]


class Model:
    """The common position of all ranks, and what is left for them."""

    def __init__(self, case):
        self.case = case
        self.epochs = case.repeat or 1 if case.kind == "read" else 1
        self.epoch = self.position = self.begin = 0
        self.shared = None  # (batch, world)
        self.sequences = {}

    def sequence(self):
        if self.epoch not in self.sequences:
            self.sequences[self.epoch] = self.case.whole(self.epoch)
        return self.sequences[self.epoch]

    def share(self, batch, world):
        if self.shared != (batch, world):
            self.shared = (batch, world)
            self.begin = self.position

    def rounds(self):
        """The next batches of all ranks, one round after another: a list of rows (n, is padding) for
        each rank."""
        batch, world = self.shared
        while self.epoch < self.epochs:
            rows = self.sequence()
            left = max(0, len(rows) - self.begin)
            size = batch * world
            if self.case.kind != "read":
                end = len(rows)
            elif self.case.end == "drop":
                end = self.begin + left // size * size
            else:
                end = self.begin + -(-left // size) * size
            while self.position < end:
                last = min(self.position + size, end)
                yield [[(rows[p % len(rows)], p >= len(rows))
                        for p in range(self.position + rank, last, world)]
                       for rank in range(world)]
                self.position += size
            if self.case.kind != "read":
                return
            self.epoch += 1
            self.position = self.begin = 0


def run(sf, folder, seed):
    """Runs one case and returns the number of runs. An AssertionError says which case differs, and how."""
    case = Case(sf, folder, seed)
    draw = case.draw
    model = Model(case)
    state = None
    seen = {}
    runs = draw.randint(1, 4)
    for number in range(runs):
        world = draw.choice([1, 2, 3, 4, 5, 7, 8, draw.randint(1, MOST_WORLD)])
        batch = draw.randint(1, 5)
        last = number == runs - 1
        stop = 10**9 if last else draw.randint(0, 6)
        model.share(batch, world)
        expected = []
        before = (model.epoch, model.position, model.begin)
        for rows in model.rounds():
            if len(expected) == stop:
                break
            expected.append(rows)
            for n, is_padding in (row for part in rows for row in part):
                seen[n] = seen.get(n, 0) + (not is_padding)
        if not expected:  # too few are left for a round: others may have one
            model.epoch, model.position, model.begin = before
        ranks = range(world) if world <= 8 else sorted(draw.sample(range(world), MOST_RANKS))
        states = set()
        for rank in ranks:
            with case.chain(rank, world, batch).start(epoch=0, threads=1) as it:
                if state is not None:
                    it.load_state_dict(state)
                found = []
                while len(found) < stop:
                    element = next(it, None)
                    if element is None:
                        break
                    found.append(element["n"].tolist())
                wanted = [[n for n, _ in rows[rank]] for rows in expected if rows[rank]]
                assert found == wanted, (f"{case}: run {number}, rank {rank} of {world}, batches of "
                                         f"{batch}: {found} where {wanted} was expected")
                now = it.state_dict()
                states.add(now["state"])
        if case.kind == "read":
            assert len(states) == 1, f"{case}: run {number}: states of ranks differ: {states}"
            counts = {sum(1 for rows in expected if rows[rank]) for rank in range(world)}
            assert len(counts) == 1, f"{case}: run {number}: ranks have {counts} batches"
        assert all(len(s) < 1024 for s in states)
        state = now
        # Incomplete rounds play no part in what follows.
        if not last and (len(expected) < stop or
                         expected and sum(map(len, expected[-1])) < batch * world):
            break
    if case.kind == "read" and case.end == "pad" and case.repeat in (None, 1) and number == runs - 1:
        wanted = set(model.sequences[0]) if 0 in model.sequences else set()
        assert {n for n, times in seen.items() if times} == wanted, f"{case}: not all came"
        assert all(times <= 1 for times in seen.values()), f"{case}: some came twice"
    return number + 1


def uneven(sf, draw):
    """A chain after a rank's part, whose ranks advance unevenly, and its name."""
    def flat_map(ds):
        return ds.flat_map(lambda row: [{"n": 10 * row["n"] + i} for i in range(len(row["v"]))],
                           output={"n": sf.int64})

    def filtered(ds):
        return ds.filter(lambda row: row["n"] % 3 != 0)

    parts = {
        "filter": filtered,
        "flat_map": flat_map,
        "flat_map, filter": lambda ds: filtered(flat_map(ds)),
        "filter, flat_map": lambda ds: flat_map(filtered(ds)),
        "batches, flat_map": lambda ds: flat_map(ds.batch(3).unbatch()),
        "ignore_errors": lambda ds: ds.map(fail_on_fifths, output={"n": sf.int64}).ignore_errors(
            max_ignored="100%"),
        "shuffle": lambda ds: filtered(ds).shuffle(seed=2, window=window),
        "flat_map, shuffle": lambda ds: flat_map(ds).shuffle(seed=2, window=window),
        "shuffle, flat_map, shuffle": lambda ds: flat_map(ds.shuffle(seed=2, window=window)).shuffle(
            seed=3, window=5),
        "buckets": lambda ds: ds.bucket_by_length("v", [1, 3], [2, 3, 1]).unbatch(),
        "groups, flat_map": lambda ds: flat_map(
            ds.group_by_window(lambda row: int(row["n"]) % 5, 3).unbatch()),
    }
    window = draw.choice([2, 7, 40])
    name = draw.choice(list(parts))
    batch = draw.choice([0, 0, 1, 2, 5])

    def chain(ds):
        ds = parts[name](ds.parse({"n": sf.int64, "v": sf.ragged(sf.int64)}))
        return ds.batch(batch) if batch else ds

    return chain, f"{name}, batches of {batch}"


def values_of(element):
    return element["n"].tolist() if getattr(element["n"], "ndim", 0) else [int(element["n"])]


def run_merged(sf, folder, seed):
    """The same for a chain whose ranks advance unevenly, and resume from merged states: every row of
    an epoch comes once."""
    case = Case(sf, folder, seed)
    draw = case.draw
    case.end = "drop"
    chain, name = uneven(sf, draw)
    expected = sorted(n for e in chain(case.source(1)).start(epoch=0) for n in values_of(e))
    found = []
    state = None
    runs = draw.randint(1, 4)
    for _ in range(runs):
        world = draw.choice([1, 2, 3, 4, 5, 8, draw.randint(1, MOST_WORLD)])
        states = []
        for rank in range(world):
            mine = state
            for _ in range(draw.randint(1, 2)):  # stopped and resumed alone
                with chain(case.source(1).shard(rank, world)).start(epoch=0, threads=1) as it:
                    if mine is not None:
                        it.load_state_dict(mine)
                    for _, element in zip(range(draw.choice([0, 1, 2, 6])), it):
                        found += values_of(element)
                    mine = it.state_dict()
            states.append(mine)
        draw.shuffle(states)
        state = sf.merge_states(states)
    with chain(case.source(1)).start(epoch=0) as it:
        it.load_state_dict(state)
        for element in it:
            found += values_of(element)
    assert sorted(found) == expected, f"{case}, {name}: merged: {sorted(found)}"
    return runs + 1


def run_all(sf, folder, seeds):
    """Returns (number of runs, [what was wrong])."""
    runs, wrong = 0, []
    for seed in seeds:
        try:
            kind = {1: mixed_worlds.run, 3: run_merged}.get(seed % 4, run)
            runs += kind(sf, folder, seed)
        except AssertionError as e:
            wrong.append(str(e))
    return runs, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    arguments = parser.parse_args()
    import shardfeed as sf
    failed = runs = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            done, wrong = run_all(sf, folder, [seed])
            runs += done
            failed += len(wrong)
            for text in wrong:
                print(text, flush=True)
            if seed % 500 == 499:
                print(f"{seed + 1 - arguments.seed} cases, {runs} runs, {failed} failed", flush=True)
    print(f"{arguments.cases - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
