"""Chains of files of Parquet."""

import pickle

import numpy as np
import pytest
from package_data import sf

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def files(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"n": range(3 * i, 3 * i + 3), "x": [0.5, None, 1.5], "l": [[1], [], [2, 3]]}),
                       tmp_path / f"{i}.parquet", row_group_size=2)
    return sorted(tmp_path.glob("*.parquet"))


def test_a_chain_has_the_rows_of_all_files(files):
    batch = next(iter(sf.from_parquet(files, defaults={"x": -1.0}).batch(6)))
    assert batch["n"].tolist() == list(range(6))
    assert batch["x"].tolist() == [0.5, -1, 1.5] * 2
    assert [row.tolist() for row in batch["l"]] == [[1], [], [2, 3]] * 2
    chain = sf.from_parquet(files[0], columns=["n"]).shuffle(seed=1, window=3)
    assert sorted(int(row["n"]) for row in chain) == [0, 1, 2]
    assert list(next(iter(sf.from_parquet(files, columns=["l", "n"]).batch(2)))) == ["l", "n"]


@pytest.mark.parametrize("stream", [False, True])
def test_what_needs_an_index_is_refused(files, stream):
    ds = sf.from_parquet(files, columns=["n", "l"], stream=stream)
    with pytest.raises(TypeError, match="mix: 'a' is from_.*but the sources of a mixture are only read.*or mix a list"):
        sf.mix({"a": ds})
    assert sum(1 for _ in sf.mix([ds, ds], weights=[1, 1])) == 12
    for chain in (lambda: ds.pack("l", 4, lengths="l"), lambda: ds.batch_by_length("l", 4, lengths="l")):
        with pytest.raises(ValueError, match="rows are planned by the lengths of records, so only read, .* may precede"):
            chain()
    with pytest.raises(ValueError, match="s3://b/a.parquet: s3:// is not supported here, only local paths are"):
        sf.from_parquet("s3://b/a.parquet", stream=stream)


def test_what_is_wrong_is_named(files, tmp_path):
    with pytest.raises(ValueError, match="column 'x': row 1 has no value"):
        sf.from_parquet(files)
    with pytest.raises(ValueError, match="0.parquet: column 'y' does not exist; the columns are n, x, l"):
        sf.from_parquet(files, columns=["y"])
    with pytest.raises(ValueError, match="at least one path"):
        sf.from_parquet([])
    with pytest.raises(FileNotFoundError):
        sf.from_parquet(tmp_path / "none")
    pq.write_table(pa.table({"n": np.zeros(2)}), tmp_path / "other.parquet")
    with pytest.raises(sf.DataLossError, match="other.parquet: its columns are not those of"):
        sf.from_parquet([files[0], tmp_path / "other.parquet"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(sf.DataLossError, match="bad.parquet: not a file of Parquet, or cut off"):
        sf.from_parquet(tmp_path / "bad.parquet")


def rows_of(chain):
    return [{key: np.asarray(value).tolist() for key, value in row.items()} for row in chain]


def test_streams_have_the_same_rows(files, tmp_path):
    options = {"defaults": {"x": -1.0}}
    whole = rows_of(sf.from_parquet(files, **options))
    for paths in (files, str(tmp_path / "*.parquet"), [str(tmp_path / "0*"), files[1]], str(tmp_path / "{0..1}.parq*")):
        assert rows_of(sf.from_parquet(paths, stream=True, **options)) == whole
        assert rows_of(sf.from_parquet(paths, **options)) == whole
    chain = sf.from_parquet(files, stream=True, columns=["l", "n"])
    assert chain.element_spec == {"l": ("int64", (), True), "n": ("int64", (), False)}
    assert sorted(int(r["n"]) for r in chain.shuffle(seed=1, window=4)) == list(range(6))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        sf.from_parquet(str(tmp_path / "*.none"), stream=True)
    with pytest.raises(ValueError, match="from_parquet: defaults names 'y', and the columns are: n, x, l"):
        sf.from_parquet(files, stream=True, defaults={"y": 1})
    with pytest.raises(ValueError, match="0.parquet, row groups 0 to 1: column 'x': row 1 has no value"):
        list(sf.from_parquet(files, stream=True))
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert list(sf.from_parquet(tmp_path / "empty.parquet", stream=True)) == []


@pytest.fixture
def many(tmp_path, monkeypatch):
    """Files whose row groups are read one by one."""
    from shardfeed.tables import arrow_files
    monkeypatch.setattr(arrow_files, "BATCH_ROWS", 5)
    for i in range(3):
        pq.write_table(pa.table({"n": range(20 * i, 20 * i + 20), "t": ["a", "b"] * 10}).cast(
            pa.schema([("n", pa.int64()), ("t", pa.dictionary(pa.int32(), pa.string()))])), tmp_path / f"{i}.parquet", row_group_size=5)
    return str(tmp_path / "*.parquet")


def test_streams_go_on_from_their_states(many):
    chain = sf.from_parquet(many, stream=True)
    whole = rows_of(chain)
    assert [row["n"] for row in whole] == list(range(60))
    for done in (0, 3, 5, 23, 60):
        it = iter(chain)
        for _ in range(done):
            next(it)
        again = sf.from_parquet(many, stream=True).start()
        again.load_state_dict(it.state_dict())
        assert rows_of(again) == whole[done:]


def test_states_do_not_go_on_in_other_files(many, tmp_path):
    it = iter(sf.from_parquet(many, stream=True))
    next(it)
    state = it.state_dict()
    pq.write_table(pa.table({"n": range(3), "t": pa.array(["c"] * 3).dictionary_encode()}), tmp_path / "2.parquet")
    with pytest.raises(RuntimeError, match="the state belongs to another chain or other data"):
        sf.from_parquet(many, stream=True).start().load_state_dict(state)


def test_files_that_change_while_they_are_read(many, tmp_path):
    chain = sf.from_parquet(many, stream=True)
    pq.write_table(pa.table({"n": range(3), "t": pa.array(["c"] * 3).dictionary_encode()}), tmp_path / "2.parquet")
    with pytest.raises(sf.DataLossError, match=r"2.parquet: row groups 0 to 0: the file has changed"):
        list(chain)


def test_files_are_written_batch_by_batch(many, tmp_path):
    with sf.write(tmp_path / "out@2") as writer:
        assert writer.write_batch(sf.parquet_batches(many)) == 60
    rows = sorted(sf.read(tmp_path / "out@2").parse(), key=lambda row: row["n"])
    assert [row["n"] for row in rows] == list(range(60)) and rows[1]["t"] == b"b"
    reader = sf.parquet_batches(many, columns=["n"])
    assert reader.schema.names == ["n"] and all(batch.num_rows <= 5 for batch in reader)
    with pytest.raises(sf.DataLossError, match="3.parquet: its columns are not those of .*0.parquet .*x instead of n, t"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / "3.parquet")
        sf.parquet_batches(many)


def numbers(chain):
    return [row["n"] for row in chain]


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("world", [1, 2, 3, 7, 60, 61])
def test_ranks_divide_the_row_groups(many, seed, world, monkeypatch):
    from shardfeed.tables import arrow_files
    stream = sf.from_parquet(many, stream=True)
    ordered = stream if seed is None else stream.shuffle(seed, window=1)
    for epoch in range(2):
        parts = []
        for rank in range(world):
            read = []
            real = arrow_files.read_groups
            with monkeypatch.context() as patch:
                patch.setattr(arrow_files, "read_groups", lambda groups, names: read.append(groups) or real(groups, names))
                parts.append(numbers(ordered.shard(rank, world).start(epoch=epoch)))
            # Only the groups at both ends are those of a neighbor, too.
            assert len(read) == len(set(read)) <= len(parts[-1]) // 5 + 2
            assert len(ordered.shard(rank, world)) == len(parts[-1])
        assert {len(part) for part in parts} <= {60 // world, 60 // world + 1}
        assert sum(parts, []) == numbers(ordered.start(epoch=epoch))
        assert sorted(sum(parts, [])) == list(range(60))


def test_shuffles_order_groups_and_rows(many):
    stream = sf.from_parquet(many, stream=True)
    by_group = numbers(stream.shuffle(3, window=1).repeat(2))
    for epoch in (by_group[:60], by_group[60:]):
        groups = [epoch[i:i + 5] for i in range(0, 60, 5)]
        assert sorted(groups) == [list(range(i, i + 5)) for i in range(0, 60, 5)] and groups != sorted(groups)
    assert by_group[:60] != by_group[60:]
    shuffled = numbers(stream.shuffle(3))
    assert sorted(shuffled[:40]) == sorted(by_group[:40]) and shuffled[:40] != by_group[:40]  # 8 groups of 5 rows
    assert shuffled == numbers(stream.shuffle(3)) != numbers(stream.shuffle(4))
    assert numbers(stream.with_options(threads=2).shuffle(3)) == shuffled
    # After other steps, shuffle and shard are those of any chain.
    assert sorted(numbers(stream.shuffle(3).shuffle(5, window=60))) == list(range(60))
    assert numbers(stream.take(10).shard(1, 2)) == [1, 3, 5, 7, 9]
    assert numbers(stream.shard(1, 2).shard(1, 2)) == list(range(31, 60, 2))


def test_the_rank_is_found_when_a_stream_runs(many, monkeypatch):
    chain = pickle.loads(pickle.dumps(sf.from_parquet(many, stream=True).shuffle(1).shard()))
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert numbers(chain.start(epoch=0)) == numbers(sf.from_parquet(many, stream=True).shuffle(1).shard(rank, 2))


def test_states_of_divided_row_groups(many):
    chain = sf.from_parquet(many, stream=True).shuffle(2, window=9).shard(1, 3).repeat(2)
    whole = numbers(chain)
    assert len(whole) == 40
    for done in (0, 1, 8, 9, 19, 20, 33, 40):
        it = chain.start(epoch=0)
        for _ in range(done):
            next(it)
        again = chain.start()
        again.load_state_dict(it.state_dict())
        assert numbers(again) == whole[done:]
    it = iter(chain)
    next(it)
    for rank, world, name in [(0, 3, "rank 0 of 3"), (1, 2, "rank 1 of 2"), (0, 1, "a chain without ranks")]:
        other = sf.from_parquet(many, stream=True).shuffle(2, window=9).shard(rank, world).repeat(2)
        with pytest.raises(RuntimeError, match=f"saved by rank 1 of 3, but this is {name}"):
            other.start().load_state_dict(it.state_dict())


def test_wrong_orders_of_row_groups(many):
    stream = sf.from_parquet(many, stream=True)
    with pytest.raises(ValueError, match="shuffle: row groups are read as a whole, .* give window a number or nothing"):
        stream.shuffle(1, window=None)
    with pytest.raises(ValueError, match="leave out chunk and lanes"):
        stream.shuffle(1, chunk=8)
    with pytest.raises(ValueError, match="shard: give rank and world, or neither"):
        stream.shard(1)
    with pytest.raises(ValueError, match="shard: rank 2 of 2: ranks are numbered from 0"):
        stream.shard(2, 2)
    with pytest.raises(ValueError, match="shuffle: seed must be"):
        stream.shuffle(-1)
    with pytest.raises(ValueError, match="slices: world must be at most 4294967295, got 4294967296"):
        stream.shard(0, 2**32)


def test_streams_without_rows(tmp_path):
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    stream = sf.from_parquet(tmp_path / "empty.parquet", stream=True)
    assert list(stream.shuffle(1).shard(1, 2).batch(3)) == [] and stream.element_spec == {"n": ("int64", (), False)}


def test_rows_are_counted_from_the_first_of_their_group(tmp_path, monkeypatch):
    from shardfeed.tables import arrow_files
    monkeypatch.setattr(arrow_files, "BATCH_ROWS", 4)
    pq.write_table(pa.table({"n": [0, 1, 2, 3, 4, 5, None, 7]}), tmp_path / "a.parquet", row_group_size=4)
    stream = sf.from_parquet(tmp_path / "a.parquet", stream=True)
    for chain in (stream, stream.shard(2, 3)):  # which begins with row 5
        with pytest.raises(ValueError, match="a.parquet, row groups 1 to 1: column 'n': row 2 has no value"):
            list(chain)


def test_a_shared_stream_has_the_rank_of_its_reader(many, monkeypatch):
    from shardfeed import sharing
    chain = sf.from_parquet(many, stream=True).shard().batch(4)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert sharing._num_parts(chain) == 2
    found = sharing.with_rank(chain)
    monkeypatch.setenv("RANK", "0")
    assert [n for batch in found for n in batch["n"]] == list(range(30, 60))
    assert [n for batch in chain for n in batch["n"]] == list(range(30))
    assert sharing._num_parts(found) == 2


def test_files_of_the_same_layout_are_told_apart(many, tmp_path):
    chain = sf.from_parquet(many, stream=True)
    state = chain.start(epoch=0).state_dict()
    other = pq.read_table(tmp_path / "2.parquet")
    pq.write_table(other.set_column(0, "n", pa.array(range(100, 120))), tmp_path / "2.parquet", row_group_size=5)
    with pytest.raises(sf.DataLossError, match="2.parquet: row groups 0 to 0: the file has changed"):
        list(chain)
    with pytest.raises(RuntimeError, match="the state belongs to another chain or other data"):
        sf.from_parquet(many, stream=True).start().load_state_dict(state)


def test_chains_say_their_order_and_part(many):
    stream = sf.from_parquet(many, stream=True)
    assert repr(stream.shuffle(3, window=1).shard(1, 2)).startswith("from_parquet(12 groups).shuffle(3).shard(1, 2).")
    assert repr(stream.shard()).startswith("from_parquet(12 groups).shard().")


def test_lying_footers_are_damage(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), path, store_schema=False)
    sound = path.read_bytes()
    for stream in (False, True):
        path.write_bytes(sound.replace(b"name", b"n\xffme"))
        with pytest.raises(sf.DataLossError, match="a.parquet: the name of a column is not UTF-8"):
            list(sf.from_parquet(path, stream=stream))
        footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
        told = set()
        for at in range(footer, len(sound) - 8):
            if sound[at] != 6:  # 3 as a varint of Thrift
                continue
            path.write_bytes(sound[:at] + b"\x05" + sound[at + 1:])  # -3
            try:
                assert [int(row["id"]) for row in sf.from_parquet(path, stream=stream)] == [1, 2, 3]
            except sf.DataLossError as error:
                told.add(str(error))
        assert any("its footer says that row group 0 has -3 rows" in one for one in told), told
