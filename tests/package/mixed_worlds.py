"""Random chains over mixtures, stopped, edited and resumed with other numbers of ranks, against a plain model.

The model draws the sources of positions by weights, with arithmetic of its own, and knows which record of a source
comes at the n-th time. It follows planned rows token by token, through their windows. What one rank delivers is
compared with it; what several ranks deliver, before and after they are stopped, is compared with that of one.
"""

import bisect
import collections
import random
from fractions import Fraction
from pathlib import Path

import numpy as np

SIZES = [3, 17, 64, 200, 731, 1200, 2200]
LANES = 64
TABLE = 65_536  # shares are multiples of 1 / TABLE, or finer
DRAWN = 8192    # positions in which drawn sources have their shares
SEPARATORS = {"ids": 7, "labels": 8}


def ids_of(source, number):
    """The tokens of a record, which no other record has. Some have none."""
    length = int(4.0 * np.exp(((source * 7919 + number) * 2654435761 % 4093) / 1100.0)) - 4
    return np.arange(length) + (source * 10_000 + number + 1) * 1000


def write(sf, folder):
    """Writes the sources, unless they are there, and returns their names."""
    specs = [f"{folder}/mixed{size}@{1 + s % 3}" for s, size in enumerate(SIZES)]
    for source, (spec, size) in enumerate(zip(specs, SIZES)):
        stem, shards = spec.split("@")
        if not Path(f"{stem}-{0:05}-of-{int(shards):05}").exists():
            # Record i goes to shard i modulo the number of shards, but is numbered by shard.
            order = [i for shard in range(int(shards)) for i in range(shard, size, int(shards))]
            number_of = {i: number for number, i in enumerate(order)}
            with sf.write(spec, sync=False) as writer:
                for i in range(size):
                    ids = ids_of(source, number_of[i])
                    writer.write({"ids": ids, "labels": ids + 1})
            sf.index(spec, lengths=["ids"])
    return specs


def shares(weights):
    """The shares of the sources as numbers of entries in a table, rounded by largest remainder."""
    weights = [round(w / max(weights) * 2**40) for w in weights]
    total = sum(weights)
    size = TABLE
    while size < 1 << 20 and min(w for w in weights if w) * size < 16 * total:
        size *= 4
    counts = [max(1, w * size // total) if w else 0 for w in weights]
    order = sorted((s for s, w in enumerate(weights) if w * size >= total), key=lambda s: -(weights[s] * size % total))
    for s in order[:size - sum(counts)]:
        counts[s] += 1
    return counts, size


def turns(counts, size, length):
    """The sources of the first `length` places: of those that may come, that with the earliest last place."""
    taken = [0] * len(counts)
    out = []
    for place in range(length):
        may = [s for s, count in enumerate(counts) if count and taken[s] * size < (place + 1) * count]
        s = min(may, key=lambda s: (-(-(taken[s] + 1) * size // counts[s]), s))
        taken[s] += 1
        out.append(s)
    return out


class Mixture:
    """A mixture with what follows it, as a function of rank, world and batch."""

    def __init__(self, sf, specs, draw):
        self.sf, self.specs = sf, specs
        self.sources = draw.sample(range(len(SIZES)), draw.randint(1, 5))
        self.weights = draw.choice([None, *[[draw.choice([1, 2, 5, 0.3, 7.7]) for _ in self.sources]] * 4])
        self.length = draw.choice([None, draw.randint(1, 1500), draw.randint(1000, 4000)])
        self.order, self.window = draw.choice([
            ("none", None), ("exact", None), ("default", 0), ("window", draw.choice([64, 100, 1000, 5000]))])
        self.lanes = draw.choice([LANES, 8]) if self.order in ("default", "window") else 1
        self.seed = draw.choice([None, None, 3])
        self.schedule = []
        position = 0
        for _ in range(draw.choice([0, 0, 1, 2, 3]) if self.weights else 0):
            position += draw.randint(self.lanes, 2000)
            self.schedule.append((position, self.drawn_weights(draw)))
        self.repeat = draw.choice([1, 1, 1, 2, 3])
        self.kind = draw.choice(["rows", "pack", "pack", "batches", "filter", "buckets"])
        self.row = draw.choice([32, 64, 256])
        self.packing = {
            "how": draw.choice(["best_fit", "first_fit", "concatenate"]),
            "cost": draw.choice(["linear", "quadratic"]),
            "window": draw.choice([1024, 2048, 16384]),
            "separator": draw.choice([None, SEPARATORS]),
            **draw.choice([{"split": True}, {"truncate": True}, {"split": True, "max_length": 60},
                           {"max_length": self.row - 1}, {"split": True, "min_length": 5}])}
        self.budget = draw.choice([200, 1000, 5000])
        self.bad = set()  # of a filter: records by source and number
        self.shuffle_seed = draw.randrange(1000)
        self.known = {}

    def drawn_weights(self, draw):
        weights = [draw.choice([0, 1, 2, 5, 0.3, 7.7]) for _ in self.sources]
        return weights if any(weights) else [1, *weights[1:]]

    def __repr__(self):
        names = ("sources", "weights", "schedule", "length", "seed", "order", "window", "lanes", "repeat", "kind")
        if self.kind == "pack":
            names += ("row", "packing")
        if self.kind == "batches":
            names += ("budget", "packing")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)

    def planned(self):
        return self.kind in ("pack", "batches")

    def mixed(self):
        """The mixture, whose tables are made once."""
        if "mixed" not in self.known:
            self.known["mixed"] = self.made()
        return self.known["mixed"]

    def made(self):
        named = lambda weights: {f"n{s}": w for s, w in zip(self.sources, weights)}
        ds = self.sf.mix({f"n{s}": self.specs[s] for s in self.sources}, self.weights and named(self.weights),
                         schedule=[(at, named(weights)) for at, weights in self.schedule],
                         length=self.length, seed=self.seed, source="source", number="number")
        if self.order == "none":
            return ds
        lanes = {} if self.order == "exact" else {"lanes": self.lanes}
        return ds.shuffle(seed=self.shuffle_seed, window=self.window, **lanes)

    def chain(self, rank, world, batch):
        v = self.sf.var(self.sf.int64)
        ds = self.mixed().shard(rank, world).repeat(self.repeat)
        if self.kind == "rows":
            return ds.select("source", "number").batch(batch)
        ds = ds.parse({"ids": v, "labels": v})
        if self.kind == "pack":
            return ds.pack(["ids", "labels"], self.row, lengths="ids", pad={"labels": -100},
                           keep=["source", "number"], **self.packing).batch(batch)
        if self.kind == "batches":
            limits = {name: self.packing[name] for name in ("window", "min_length", "max_length")
                      if name in self.packing}
            return ds.batch_by_length("ids", self.budget, lengths="ids", **limits)
        if self.kind == "filter":
            bad = frozenset(self.bad)
            return ds.filter(lambda row: (int(row["source"]), int(row["number"])) not in bad).select(
                "source", "number").batch(batch)
        return ds.bucket_by_length("ids", [8, 20], [3, 2, 1])

    def items(self, element):
        """What an element has, as values that can be compared: rows, or for batches a batch."""
        pairs = list(zip(np.asarray(values_of(element["source"])).tolist(),
                         np.asarray(values_of(element["number"])).tolist()))
        if self.kind in ("rows", "filter"):
            return pairs
        if self.kind != "pack":
            parts = [np.asarray(part) for part in element["ids"]]
            for (s, n), part, labels in zip(pairs, parts, element["labels"]):
                assert part.tolist() == ids_of(self.sources[s], n).tolist(), f"record {n} of {s} has other ids"
                assert np.array_equal(labels, part + 1)
            return [tuple(pairs)]
        self.check_rows(element)
        return [(tuple(zip(sources.tolist(), numbers.tolist())), tuple(ids.tolist()))
                for sources, numbers, ids in zip(element["source"], element["number"], element["ids"])]

    def check_rows(self, element):
        """Each segment has neighboring tokens of its record, and what is left has padding."""
        ids, labels, segments, positions = (element[name] for name in (
            "ids", "labels", "ids_segment_ids", "ids_positions"))
        assert ids.shape[1] == self.row
        used = segments > 0
        assert not ids[~used].any() and (labels[~used] == -100).all() and not positions[~used].any()
        assert (used[:, :-1] >= used[:, 1:]).all(), "padding before the end of a row"
        step = np.diff(segments, axis=1, prepend=0)[used]
        assert ((step == 0) | (step == 1)).all() and (segments.max(1) == element["source"].lengths()).all()
        ids, labels, positions = ids[used], labels[used], positions[used]
        begins = np.flatnonzero(step)
        lengths = np.diff(np.append(begins, len(ids)))
        assert np.array_equal(positions, np.arange(len(ids)) - np.repeat(begins, lengths))
        records = np.array([(self.sources[s] * 10_000 + n + 1) * 1000 for s, n in zip(
            element["source"].values.tolist(), element["number"].values.tolist())])
        if self.packing["separator"]:
            ends = np.zeros(len(ids), bool)
            ends[begins + lengths - 1] = True
            ends &= ids == 7
            assert (labels[ends] == 8).all()
        else:
            ends = np.zeros(len(ids), bool)
        first = ids[begins]
        first = np.where(ends[begins], records, first)  # a piece that is only a separator
        assert np.array_equal(ids[~ends], (np.repeat(first, lengths) + positions)[~ends])
        assert np.array_equal(labels[~ends], ids[~ends] + 1)
        assert (first - records >= 0).all() and (first - records < 1000).all(), "tokens of another record"

    # ---- The model

    def segments(self):
        """(position, weights) in ascending order of positions, which are rounded up to a multiple of the lanes."""
        weights = self.weights or [SIZES[s] for s in self.sources]
        return [(0, weights), *((-(-at // self.lanes) * self.lanes, w) for at, w in self.schedule)]

    def records(self):
        """(source, number) of all positions of all epochs, as one rank delivers them."""
        if "records" not in self.known:
            chain = self.mixed().repeat(self.repeat).select("source", "number").batch(256)
            self.known["records"] = [pair for b in chain.start(epoch=0) for pair in zip(
                b["source"].tolist(), b["number"].tolist())]
            assert len(self.known["records"]) % self.repeat == 0
            self.known["epoch"] = len(self.known["records"]) // self.repeat
            self.check_shares()
            self.check_passes()
        return self.known["records"]

    def check_shares(self):
        """Each source has its share in every prefix of the positions that have the same weights."""
        records = self.known["records"]
        segments = self.segments()
        for (begin, weights), (end, _) in zip(segments, [*segments[1:], (len(records), None)]):
            got = [s for s, _ in records[begin:end]]
            counts, size = shares(weights)
            if self.lanes == 1 and self.seed is None:
                first = turns(counts, size, min(len(got), 1500))
                assert got[:1500] == first, f"sources from position {begin} on"
            taken = np.array([[s == source for source in range(len(weights))] for s in got]).cumsum(0)
            for source, count in enumerate(counts):
                if not got:
                    break
                lead = np.abs(taken[:, source] - np.arange(1, len(got) + 1) * count / size)
                whole = lead[DRAWN - 1::DRAWN] if self.seed is not None else lead[self.lanes - 1::self.lanes]
                assert not len(whole) or whole.max() < 1 + 1e-9, f"share of {source}: {whole.max()}"
                if self.seed is None:
                    most = 3 if self.lanes > 1 else 1
                    assert lead.max() < most + 1e-9, f"share of {source}: {lead.max()}"

    def source_lanes(self, source):
        """The number of lanes of a source, each of which takes its own part of the source's records."""
        if self.order not in ("default", "window"):
            return 1
        lanes, size = self.lanes, SIZES[self.sources[source]]
        window = size
        if self.window:
            first = next((w for _, w in self.segments() if w[source]), None)
            if first is None:
                return 1
            window = min(size, max(1, int(self.window * Fraction(first[source]) / sum(map(Fraction, first)))))
        while lanes % 2 == 0 and (window // lanes < 16 or size // lanes < 1024):
            lanes //= 2
        return lanes

    def check_passes(self):
        """A source delivers each of its records once before it delivers one again: in each pass, over all epochs."""
        lanes = [self.source_lanes(source) for source in range(len(self.sources))]
        seen = set()
        times = collections.Counter()
        ends = []  # positions at which a source begins its second pass
        for position, (source, number) in enumerate(self.known["records"]):
            lane = position % self.lanes % lanes[source]
            place = times[source, lane] * lanes[source] + lane  # of all that the source delivers
            times[source, lane] += 1
            pass_, rest = divmod(place, SIZES[self.sources[source]])
            if self.order == "none":
                assert number == rest, f"source {source} delivers {number} for {rest}"
            assert (source, pass_, number) not in seen, f"{number} of {source} comes again in pass {pass_}"
            seen.add((source, pass_, number))
            if pass_ > 0 and not ends:
                ends.append(position)
        if self.length is None:
            assert (ends or [self.known["epoch"]])[0] == self.known["epoch"], f"the epoch ends at {ends}"

    def epochs(self):
        """What one rank delivers in each epoch: records, or rows or batches that are planned."""
        records = self.records()
        size = self.known["epoch"]
        parts = [records[i * size:(i + 1) * size] for i in range(self.repeat)]
        if not self.planned():
            return parts
        if "planned" not in self.known:
            alone = self.chain(0, 1, 50)
            elements = [self.items(b) for b in alone.start(epoch=0)]
            assert len(alone) == len(elements), f"len is {len(alone)} of {len(elements)}"
            items = [item for element in elements for item in element]
            self.known["planned"] = []
            self.known["windows"] = []  # (epoch, window, number of items delivered with it)
            at = 0
            for epoch, part in enumerate(parts):
                begin = at
                window = -(-self.packing["window"] // self.lanes) * self.lanes
                for first in range(0, len(part), window):
                    at = self.take_window(items, at, part[first:first + window])
                    self.known["windows"].append((epoch * size + min(first + window, size), at))
                self.known["planned"].append(items[begin:at])
            assert at == len(items), f"{len(items) - at} rows are too many"
        return self.known["planned"]

    def wanted(self, source, number):
        """The tokens of a record that rows have."""
        ids = ids_of(self.sources[source], number)
        least, most = self.packing.get("min_length", 0), self.packing.get("max_length", len(ids))
        if not least <= len(ids) <= most:
            return None
        if self.kind == "pack" and len(ids):
            if self.packing["separator"]:
                ids = np.append(ids, 7)
            if self.packing.get("truncate"):
                ids = ids[:self.row]
        return ids

    def take_window(self, items, at, records):
        """Checks that the items from `at` on have the records of a window, and returns where the next begins."""
        wanted = [(pair, ids) for pair in records if (ids := self.wanted(*pair)) is not None]
        if self.kind == "batches":
            left = collections.Counter(pair for pair, _ in wanted)
            while left:
                assert at < len(items), f"{left} are in no batch"
                lengths = [len(ids_of(self.sources[s], n)) for s, n in items[at]]
                assert len(lengths) == 1 or len(lengths) * max(lengths) <= self.budget, f"a batch of {lengths}"
                for pair in items[at]:
                    assert left[pair] > 0, f"record {pair} is not of this window, or comes once too often"
                    left[pair] -= 1
                left += collections.Counter()
                at += 1
            return at
        left = sum(len(ids) for _, ids in wanted)
        tokens = []
        while left > 0:
            assert at < len(items), f"{left} tokens are in no row"
            pairs, row = items[at]
            row = np.array(row)
            used = row[row != 0]
            tokens.append(used)
            left -= len(used)
            at += 1
        assert left == 0, "a row has tokens of two windows"
        expected = np.sort(np.concatenate([[], *(ids for _, ids in wanted)]))
        assert np.array_equal(np.sort(np.concatenate([[], *tokens])), expected), "tokens are lost, or come twice"
        return at

    def streams(self, world, epoch, position):
        """What each rank delivers from a position of all ranks on, as [(epoch and position after it, item)].
        After the last whole round of an epoch, the next begins; but planned rows that are left are there for fewer ranks."""
        ranks = [[] for _ in range(world)]
        for e, items in enumerate(self.epochs()[epoch:], epoch):
            begin = position if e == epoch else 0
            rounds = max(0, len(items) - begin) // world
            for i in range(rounds * world):
                done = i // world + 1
                after = (e, begin + done * world) if done < rounds or self.planned() else (e + 1, 0)
                ranks[i % world].append((after, items[begin + i]))
        return ranks


def values_of(column):
    return getattr(column, "values", column)


def chunks(rows, size):
    return [rows[i:i + size] for i in range(0, len(rows), size)]


def in_buckets(mixture, rows):
    """The batches of a chain with buckets, and what its last ones have."""
    boundaries, sizes, open_, out = [8, 20], [3, 2, 1], [[], [], []], []
    for s, n in rows:
        b = bisect.bisect_right(boundaries, len(ids_of(mixture.sources[s], n)))
        open_[b].append((s, n))
        if len(open_[b]) == sizes[b]:
            out.append(tuple(open_[b]))
            open_[b] = []
    return out, sorted(tuple(part) for part in open_ if part)


def edit(mixture, draw, epoch, position):
    """Changes weights behind what was delivered, and perhaps adds a source."""
    size = mixture.known["epoch"]
    begin = epoch * size + position
    if mixture.planned():
        done = sum(len(part) for part in mixture.epochs()[:epoch]) + position
        # A window that was begun stays as it is.
        begin = next((end for end, items in mixture.known["windows"] if items >= done), None) if done else 0
        if begin is None:
            return
    begin = -(-begin // mixture.lanes) * mixture.lanes + draw.choice([0, 0, mixture.lanes, 1000])
    before = mixture.records()[:begin]
    mixture.schedule = [(at, w) for at, w in mixture.schedule if -(-at // mixture.lanes) * mixture.lanes < begin]
    others = [s for s in range(len(SIZES)) if s not in mixture.sources]
    if others and draw.random() < 0.4:
        mixture.sources = [*mixture.sources, draw.choice(others)]
        mixture.weights = [*mixture.weights, 0]
        mixture.schedule = [(at, [*w, 0]) for at, w in mixture.schedule]
    weights = mixture.drawn_weights(draw)
    if begin > 0:
        mixture.schedule.append((begin, weights))
    else:
        mixture.weights = weights
    mixture.known = {}
    assert mixture.records()[:begin] == before[:begin], "an edit changed what came before it"


def check_edited_past(mixture, draw, state):
    """Other weights in the past are refused."""
    other = Mixture.__new__(Mixture)
    other.__dict__.update(mixture.__dict__, known={}, weights=[mixture.weights[0] * 3, *mixture.weights[1:]])
    try:
        with other.chain(0, 1, 1).start(epoch=0) as it:
            it.load_state_dict(state)
    except RuntimeError as error:
        assert "the state belongs to another mixture" in str(error), str(error)
    else:
        raise AssertionError("a state was taken by other weights")


def run_whole(mixture, draw):
    """Stops, edits and resumes with other worlds a chain whose ranks share one position. Returns the number of runs."""
    state, epoch, position = None, 0, 0
    runs = draw.randint(1, 4)
    for number in range(runs):
        world, batch = draw.choice([1, 2, 3, 4, 5, 8, 16]), draw.choice([1, 2, 5])
        if mixture.kind == "batches":
            batch = 1
        if mixture.planned() and mixture.repeat > 1:
            # Every epoch has a round: repeat ends after two that have none.
            world = min(world, max(1, min(map(len, mixture.epochs()))))
        streams = mixture.streams(world, epoch, position)
        whole = len(streams[0]) // batch
        # The last run goes on to the end.
        count = min(draw.choice([0, 1, 3, 12, 30]), whole) if number < runs - 1 else len(streams[0]) // batch + 1
        ranks = range(world) if world <= 4 else sorted(draw.sample(range(world), 3))
        states = set()
        for rank in ranks:
            with mixture.chain(rank, world, batch).start(epoch=0, threads=draw.choice([1, 2])) as it:
                if state is not None:
                    it.load_state_dict(state)
                wanted = chunks([item for _, item in streams[rank]], batch)[:count]
                for i in range(count):
                    element = next(it, None)
                    if element is None:
                        assert i == len(wanted), f"run {number}: rank {rank} of {world} ends after {i} of {len(wanted)}"
                        break
                    got = mixture.items(element)
                    assert i < len(wanted) and got == wanted[i], (
                        f"run {number}: rank {rank} of {world}, batch {i} of {batch} after ({epoch}, {position}): "
                        f"{got} where {wanted[i:i + 1]} was expected")
                saved = it.state_dict()
                states.add(str(saved))
        assert len(states) == 1, f"run {number}: states of ranks differ: {states}"
        assert all(len(s) < 4096 for s in states), f"a state of {max(map(len, states))} bytes"
        if count:
            rows = streams[0][:count * batch]
            if rows:
                (epoch, position), _ = rows[-1]
            state = saved
        if number == runs - 1 or not mixture.length or not mixture.weights or draw.random() < 0.4:
            continue
        if state is not None and sum(w > 0 for w in mixture.weights) > 1 and mixture.weights[0] and epoch + position:
            check_edited_past(mixture, draw, state)
        edit(mixture, draw, epoch, position)
    return runs


def run_rank(mixture, draw):
    """The same for chains whose states belong to a rank: rows that are filtered, and buckets."""
    world, batch = draw.choice([1, 2, 3, 8]), draw.choice([1, 2, 5])
    rank = draw.randrange(world)
    rows = [item for _, item in mixture.streams(world, 0, 0)[rank]]
    if mixture.kind == "filter":
        mixture.bad = {pair for pair in rows if draw.random() < 0.2}
    state, done, last = None, 0, []
    runs = draw.randint(1, 4)
    if mixture.kind == "buckets":
        wanted, last = in_buckets(mixture, rows)
    for number in range(runs):
        if mixture.kind == "filter":
            wanted = chunks([pair for pair in rows if pair not in mixture.bad], batch)
        count = draw.choice([0, 1, 3, 12, 60]) if number < runs - 1 else 10**9
        with mixture.chain(rank, world, batch).start(epoch=0) as it:
            if state is not None:
                it.load_state_dict(state)
            got = []
            while len(got) < count and (element := next(it, None)) is not None:
                got.append(mixture.items(element))
            state = it.state_dict()
        if mixture.kind == "buckets":
            got = [pair for pairs in got for pair in pairs]
        end = len(wanted) - done
        assert got[:end] == wanted[done:done + len(got)], f"run {number} of rank {rank} of {world}, from {done} on"
        assert sorted(got[end:]) == last[:len(got[max(end, 0):])] or number < runs - 1
        if len(got) >= end:
            return number + 1
        done += len(got)
        if mixture.kind == "filter" and done:  # more bad records are found
            kept = [pair for pair in rows if pair not in mixture.bad]
            rows = kept[done * batch:]
            mixture.bad |= {pair for pair in rows if draw.random() < 0.1}
            done = 0
    return runs


def run_merged(mixture, draw):
    """The same for ranks that advance unevenly behind a filter or buckets, and resume from merged states: every row
    comes once."""
    mixture.repeat = 1
    records = mixture.records()
    if mixture.kind == "filter":
        mixture.bad = {pair for pair in records if draw.random() < 0.2}
    found, state = [], None
    runs = draw.randint(1, 3)
    for _ in range(runs):
        world, batch = draw.choice([1, 2, 3, 4, 8]), draw.choice([1, 2, 5])
        states = []
        for rank in range(world):
            with mixture.chain(rank, world, batch).start(epoch=0, threads=1) as it:
                if state is not None:
                    it.load_state_dict(state)
                for _, element in zip(range(draw.choice([0, 1, 2, 20])), it):
                    found += mixture.items(element)
                states.append(it.state_dict())
        draw.shuffle(states)
        state = mixture.sf.merge_states(states)
    with mixture.chain(0, 1, 1).start(epoch=0) as it:
        it.load_state_dict(state)
        for element in it:
            found += mixture.items(element)
    if mixture.kind == "buckets":
        found = [pair for pairs in found for pair in pairs]
    wanted = collections.Counter(pair for pair in records if pair not in mixture.bad)
    found = collections.Counter(found)
    assert found == wanted, f"merged: lost {wanted - found}, too many {found - wanted}"
    return runs + 1


def run(sf, folder, seed):
    """Runs one case and returns the number of runs. An AssertionError says which case differs, and how."""
    draw = random.Random(seed)
    mixture = Mixture(sf, write(sf, folder), draw)
    text = f"mixture {seed}: {mixture}"
    of_rank = mixture.kind in ("filter", "buckets")
    kind = run_whole if not of_rank else draw.choice([run_rank, run_merged])
    try:
        return kind(mixture, draw)
    except AssertionError as error:
        raise AssertionError(f"{text}: {error}") from error
