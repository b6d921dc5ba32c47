"""The package: elements by number, and torch's loaders and samplers."""

import pickle
import time

import pytest
from package_data import RECORDS, dataset, double, numbers, parsed, run_python, sf


def test_elements_by_number(dataset, parsed):
    all_records = list(sf.read(dataset))
    ds = sf.read(dataset)
    assert ds[3] == all_records[3] and ds[-1] == all_records[-1]
    assert list(ds[10:20:3]) == all_records[10:20:3]
    rows = parsed[[5, 900, 5]]
    assert [row["n"] for row in rows] == [numbers(parsed)[i] for i in (5, 900, 5)]
    assert sf.read(dataset).parse()[7]["text"] == parsed[7]["text"]
    assert parsed.map(double)[1]["twice"].tolist() == [8, 10, 12]
    with pytest.raises(IndexError):
        ds[RECORDS]
    with pytest.raises(TypeError, match="shuffle"):
        ds.shuffle(1)[0]
    path, record, offset = ds.place(251)
    assert path.endswith("train-00001-of-00004") and record == 1 and offset > 0
    # Errors name an element as they do in iteration.
    with pytest.raises(Exception, match=f"train-00001-of-00004: record 1 at byte {offset}: "):
        ds.parse({"n": sf.float32})[[251, 7]]


@pytest.mark.parametrize("end", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("records", [None, "7-20,400-440"])
def test_elements_by_number_where_the_epoch_is_filled_up(dataset, end, records):
    ds = sf.read(dataset, batch=16, end=end, records=records)
    iterated = list(ds)
    assert len(ds) == len(iterated) and list(ds[:]) == iterated
    assert [ds[-1], ds[len(ds) - 1], ds[2]] == [iterated[-1], iterated[-1], iterated[2]]
    assert ds.parse()[-1]["n"] == list(ds.parse())[-1]["n"]
    first = 0 if records is None else 7
    count = RECORDS if records is None else 55
    assert ds.place(0)[1] == first and ds.place(count - 1) == sf.read(dataset).place(RECORDS - 1 if records is None else 440)
    if end != "drop":
        assert ds.place(count) == ds.place(0)


@pytest.mark.parametrize("records, message", [
    ([(-1, 5)], r"got \(-1, 5\)"), ([(0, -1)], r"got \(0, -1\)"), ("99999999999999999999", "larger than any number")])
def test_ranges_of_records_are_checked(dataset, records, message):
    with pytest.raises(ValueError, match=message):
        sf.read(dataset, records=records)
    with pytest.raises(IndexError):
        sf.read(dataset, records=[]).place(0)


def test_generators_are_not_drawn_far_ahead():
    drawn = []

    def slowly():
        for i in range(1000):
            drawn.append(i)
            time.sleep(0.03)
            yield {"n": i}

    def quickly():
        for i in range(1000):
            drawn.append(i)
            yield {"n": i}

    declared = {"n": sf.int64}
    for make, most in ((slowly, 10), (quickly, 70)):
        ds = sf.from_generator(make, declared).map(lambda row: row, output=declared)
        drawn.clear()
        with ds.start(threads=2) as it:
            assert next(it)["n"] == 0
            time.sleep(1)
            assert len(drawn) <= most
            assert [next(it)["n"] for _ in range(20)] == list(range(1, 21))


def test_datasets_can_be_pickled(parsed):
    ds = parsed.map(double).batch(10)
    copy = pickle.loads(pickle.dumps(ds))
    assert repr(copy) == repr(ds) and numbers(copy) == numbers(ds)


def test_map_dataset_and_iterable_dataset(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    # In a process without TensorFlow, which does not like fork.
    out = run_python("""
import sys, shardfeed as sf
from torch.utils.data import DataLoader, DistributedSampler
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64, "x": sf.fixed(3)})
    mapped = sf.torch.MapDataset(ds)
    order = [row["n"] for row in ds]
    for context in ("fork", "spawn"):
        loader = DataLoader(mapped, batch_size=50, num_workers=2, multiprocessing_context=context,
                            sampler=DistributedSampler(mapped, 2, 0, shuffle=False))
        print([n for b in loader for n in b["n"].tolist()] == order[::2])
        found = []
        for rank in range(2):
            part = sf.torch.IterableDataset(ds.batch(10), rank, 2)
            loader = DataLoader(part, batch_size=None, num_workers=2,
                                multiprocessing_context=context)
            found += [n for b in loader for n in b["n"].tolist()]
        print(sorted(found) == sorted(order))
""", dataset, timeout=300)
    assert out.split() == ["True"] * 4


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_iterable_datasets_count_for_all_workers_and_go_through_epochs(dataset, context):
    pytest.importorskip("torch", reason="torch is not installed")
    out = run_python("""
import sys, shardfeed as sf
from torch.utils.data import DataLoader

ds = sf.read(sys.argv[1]).shuffle(seed=1, window=None).parse({"n": sf.int64})

def loaded(chain, workers=2):
    return DataLoader(sf.torch.IterableDataset(chain), batch_size=None, num_workers=workers,
                      multiprocessing_context=sys.argv[2] if workers else None)

if __name__ == "__main__":
    first = [row["n"] for row in ds.take(10).start(epoch=0)]
    assert sorted(int(row["n"]) for row in loaded(ds.take(10))) == sorted(first)
    assert len(list(loaded(ds.skip(990)))) == 10
    assert sorted(int(row["index"]) for row in loaded(ds.take(20).enumerate())) == list(range(20))
    for workers in (0, 2):
        data = sf.torch.IterableDataset(ds.batch(10))
        loader = DataLoader(data, batch_size=None, num_workers=workers,
                            multiprocessing_context=sys.argv[2] if workers else None)
        epochs = [[n for b in loader for n in b["n"].tolist()] for _ in range(3)]
        assert len({tuple(e) for e in epochs}) == 3
        assert all(sorted(e) == list(range(1000)) for e in epochs)
        data.set_epoch(1)
        assert [n for b in loader for n in b["n"].tolist()] == epochs[1], workers
    try:
        sf.torch.IterableDataset(ds.take(5).shard(0, 2))
    except ValueError as e:
        assert "already takes a rank's part" in str(e)
        print("done")
""", dataset, context, timeout=300)
    assert out.split() == ["done"]


def test_the_order_of_distributed_sampler(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    out = run_python("""
import itertools, sys, shardfeed as sf
from torch.utils.data import DistributedSampler
ds = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))

class Few:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n

for data, world, shuffle, drop in itertools.product([ds, Few(11), Few(1)], [1, 2, 3], [True, False],
                                                    [True, False]):
    for rank in range(world):
        mine = sf.torch.DistributedSampler(data, world, rank, shuffle, 5, drop)
        theirs = DistributedSampler(data, world, rank, shuffle, 5, drop)
        for epoch in (0, 0, 3):
            mine.set_epoch(epoch)
            theirs.set_epoch(epoch)
            assert list(mine) == list(theirs) and len(mine) == len(theirs)

# From any place, with any number of ranks.
whole = list(sf.torch.DistributedSampler(Few(24), 1, 0, seed=1))
two = [sf.torch.DistributedSampler(Few(24), 2, rank, seed=1) for rank in range(2)]
begun = [list(itertools.islice(sampler, 4)) for sampler in two]
assert sorted(sum(begun, [])) == sorted(whole[:8])
for world in (1, 2, 4):
    rest = []
    for rank in range(world):
        sampler = sf.torch.DistributedSampler(Few(24), world, rank, seed=1)
        sampler.load_state_dict(two[0].state_dict())
        rest.append(list(sampler))
        assert len(list(sampler)) == 24 // world  # the next run is a whole one
    assert [n for step in zip(*rest) for n in step] == whole[8:]
print("done")
""", dataset, timeout=120)
    assert out == "done"


def test_ranks_of_the_sampler_are_found(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    code = """
import sys, shardfeed as sf
ds = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))
print(list(sf.torch.DistributedSampler(ds, shuffle=False))[:3])
"""
    assert run_python(code, dataset, timeout=120, RANK="1", WORLD_SIZE="4") == "[1, 5, 9]"


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader(dataset, workers):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torchdata", reason="torchdata is not installed (pip install torchdata)")
    out = run_python("""
import sys, shardfeed as sf
from torchdata.stateful_dataloader import StatefulDataLoader
workers = int(sys.argv[2])
ds = sf.read(sys.argv[1], records="0-199").shuffle(1, window=50).parse({"n": sf.int64})

def iterable():
    return StatefulDataLoader(sf.torch.IterableDataset(ds.batch(10), 0, 1), batch_size=None,
                              num_workers=workers)

def by_number():
    data = sf.torch.MapDataset(sf.read(sys.argv[1]).parse({"n": sf.int64}))
    return StatefulDataLoader(data, batch_size=50, num_workers=workers,
                              sampler=sf.torch.DistributedSampler(data, 1, 0))

if __name__ == "__main__":
    for make in (iterable, by_number):
        whole = [b["n"].tolist() for b in make()]
        assert len({n for b in whole for n in b}) == sum(map(len, whole))
        for stop in (0, 1, 5, len(whole) - 1):
            loader = make()
            it = iter(loader)
            first = [next(it)["n"].tolist() for _ in range(stop)]
            state = loader.state_dict()
            del it
            other = make()
            other.load_state_dict(state)
            assert first + [b["n"].tolist() for b in other] == whole, (make, stop)
            after = [b["n"].tolist() for b in other]  # the next epoch
            assert sorted(sum(after, [])) == sorted(sum(whole, []))
            assert (after == whole) == (make is by_number), (make, stop)
    print("done")
""", dataset, workers, timeout=200)
    assert out.splitlines()[-1] == "done"
