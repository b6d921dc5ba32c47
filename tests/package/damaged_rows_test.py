"""What becomes of damaged records that readers are told to skip: their rows are told by every chain, and tasks of clusters
leave them out."""

import pyarrow as pa
import pytest
from package_data import sf

ROWS = 40
DAMAGED = [10, 12, 31]  # numbers of records, of which shard 0 has the even ones
POSITIONS = [5, 6, 35]  # of these records in the order of the shards


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """40 records in two shards, of which three have a wrong byte."""
    spec = tmp_path_factory.mktemp("damaged") / "a@2"
    with sf.write(spec) as writer:
        for i in range(ROWS):
            writer.write({"n": i + 1, "key": i % 3})
    for number in DAMAGED:
        path = spec.parent / f"a-0000{number % 2}-of-00002"
        data = bytearray(path.read_bytes())
        data[len(data) // (ROWS // 2) * (number // 2) + 14] ^= 1
        path.write_bytes(data)
    return str(spec)


def read(spec):
    return sf.read(spec, skip_damaged=True)


def parsed(spec):
    return read(spec).parse({"n": sf.int64, "key": sf.int64})


def test_damaged_rows_of_batches_are_told(damaged):
    found, values = [], []
    with iter(parsed(damaged).batch(8)) as it:
        for number, batch in enumerate(it):
            found += [8 * number + row for row in it.damaged]
            values += batch["n"].tolist()
            assert all(batch["n"][row] == 0 for row in it.damaged)
        assert found == POSITIONS and it.stats()["damaged"] == len(DAMAGED)
    intact = [n for position, n in enumerate(values) if position not in POSITIONS]
    assert sorted(intact) == [i + 1 for i in range(ROWS) if i not in DAMAGED]


@pytest.mark.parametrize("chain", [read, parsed, lambda spec: parsed(spec).map(lambda row: {"n": row["n"] + 1}),
                                   lambda spec: parsed(spec).batch(7).unbatch()])
def test_damaged_rows_are_told(damaged, chain):
    with iter(chain(damaged)) as it:
        assert [number for number, _ in enumerate(it) if it.damaged == [0]] == POSITIONS
        assert it.stats()["damaged"] == len(DAMAGED)


def test_a_loaded_state_begins_with_no_damage(damaged):
    with iter(parsed(damaged).batch(6)) as it:
        next(it)
        assert it.damaged == [5]
        state = it.state_dict()
        next(it)
        assert it.damaged == [0]
        it.load_state_dict(state)
        assert it.damaged == []


def test_functions_over_batches_keep_the_mark(damaged):
    with iter(parsed(damaged).batch(8).map(lambda batch: {"m": batch["n"] * 2}, batched=True)) as it:
        assert [8 * number + row for number, _ in enumerate(it) for row in it.damaged] == POSITIONS


@pytest.mark.parametrize("chain", [
    lambda ds: ds.filter(lambda row: row["n"] > 0).batch(8),
    lambda ds: ds.batch(8).filter(lambda batch: batch["n"] > 0, batched=True),
    lambda ds: ds.batch(8).map(lambda batch: {"n": batch["n"][batch["n"] > 0]}, batched=True),
    lambda ds: ds.flat_map(lambda row: [{"n": row["n"]}]).batch(8),
    lambda ds: ds.group_by_window("key", 2, drop_remainder=False),
    lambda ds: ds.unique("n").batch(8),
    lambda ds: ds.rejection_resample("key", [1 / 3] * 3, initial_dist=[1 / 3] * 3).batch(8)],
    ids=["filter", "filter of batches", "map of batches", "flat_map", "group_by_window", "unique", "rejection_resample"])
def test_dropped_damaged_rows_are_counted(damaged, chain):
    with iter(chain(parsed(damaged))) as it:
        values = []
        for batch in it:
            assert it.damaged == []
            values += batch["n"].tolist()
        assert sorted(values) == [i + 1 for i in range(ROWS) if i not in DAMAGED]
        assert it.stats()["damaged"] == len(DAMAGED)


def test_shared_iterators_tell_damaged_rows(damaged):
    chain = parsed(damaged).batch(8)
    with sf.share(chain, ranks=1, name=damaged).start() as it:
        assert [8 * number + row for number, _ in enumerate(it) for row in it.damaged] == POSITIONS


@pytest.mark.parametrize("how", [{}, {"n": 3}])
def test_splits_leave_damaged_records_out(damaged, how):
    intact = [i + 1 for shard in (0, 1) for i in range(shard, ROWS, 2) if i not in DAMAGED]
    with pytest.raises(sf.DataLossError, match="a-00000-of-00002"):
        for split in sf.splits(damaged, **how):
            list(split.arrow({"n": sf.int64}))
    for rows in (None, 1, 4):
        tables = [pa.RecordBatchReader.from_stream(split.arrow({"n": sf.int64}, rows=rows, skip_damaged=True)).read_all()
                  for split in sf.splits(damaged, **how)]
        assert pa.concat_tables(tables)["n"].to_pylist() == intact
        raw = [pa.RecordBatchReader.from_stream(split.arrow(record=True, rows=rows, skip_damaged=True)).read_all()
               for split in sf.splits(damaged, **how)]
        assert pa.concat_tables(raw)["record"].to_pylist() == [r for r in read(damaged) if r]


def test_a_misfit_behind_damage_is_named(damaged):
    wrong = {"n": sf.bytes}
    with pytest.raises(ValueError, match=r"a-00000-of-00002: record 0 at byte 0: feature 'n'"):
        list(sf.splits(damaged)[0].arrow(wrong, skip_damaged=True))


def test_places_of_records(damaged):
    from shardfeed.splits import Field, batches_with_places
    fields = (Field("n", "int64", 0),)
    for how in ({}, {"n": 1}, {"n": 3}):
        rows = [row for split in sf.splits(damaged, **how)
                for batch in batches_with_places(split, fields, 3, skip_damaged=True) for row in batch.to_pylist()]
        assert [(row["_shard"][-len("a-00000-of-00002"):], row["_record"], row["n"]) for row in rows] == [
            (f"a-0000{shard}-of-00002", i // 2, i + 1)
            for shard in (0, 1) for i in range(shard, ROWS, 2) if i not in DAMAGED]
