"""sf.share: one process reads for the ranks of a machine."""

import contextlib
import gc
import inspect
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

import numpy as np
import pytest
from harness import REPOSITORY, alive

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

import sharing_chains
from sharing_chains import CHAINS, digest
from sharing_data import RECORDS, compared, dataset, name, run_all, run_of, shared  # noqa: F401


@pytest.fixture(scope="module")
def running(dataset):
    """The name of a server that all tests that do not end it use."""
    name = uuid.uuid4().hex
    with sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=1).start():
        yield name


# ---- The same as alone


@pytest.mark.parametrize("chain, world", [*((chain, 3) for chain in CHAINS), ("sequential", 1),
                                          ("shuffled", 8), ("window", 8), ("same for peers", 8)])
def test_batches_and_states_are_those_of_the_chain_alone(dataset, running, chain, world):
    alone = [CHAINS[chain](dataset, r, world) for r in range(world)]
    together = shared(dataset, chain, world, running)
    for _ in range(2):  # epochs
        made, expected = run_all([ds.start() for ds in together]), [run_of(ds.start()) for ds in alone]
        assert compared(chain, made) == compared(chain, expected)


@pytest.mark.parametrize("chain", CHAINS)
def test_states_are_valid_with_and_without(dataset, running, chain):
    ds = CHAINS[chain](dataset, 1, 3)
    together = sf.share(ds, name=running, ranks=3)
    rest = run_of(ds.start(epoch=1))[4:]
    for first, then in [(ds, together), (together, ds), (together, together)]:
        with first.start(epoch=1) as it:
            for _ in range(4):
                next(it)
            state = it.state_dict()
        with then.start() as it:
            it.load_state_dict(state)
            assert it.epoch() == 1
            assert [one[:2] for one in run_of(it)] == [one[:2] for one in rest]
        assert digest(next(iter(then))) == digest(next(iter(ds.start(epoch=2))))
        ds.set_epoch(0)


def test_another_world_goes_on(dataset, running):
    first = [ds.start() for ds in shared(dataset, "shuffled", 2, running)]
    seen = [n for it in first for _ in range(5) for n in next(it)["n"].tolist()]
    state = first[1].state_dict()
    then = [ds.start() for ds in shared(dataset, "shuffled", 5, running)]
    for it in then:
        it.load_state_dict(state)
    made = run_all([_numbers(it) for it in then])
    alone = [CHAINS["shuffled"](dataset, r, 5).start() for r in range(5)]
    for it in alone:
        it.load_state_dict(state)
    assert made == [run_of(_numbers(it)) for it in alone]


class _numbers:
    """An iterator whose digests are of the column n only."""

    def __init__(self, it):
        self.it, self.padded, self.state_dict = it, 0, it.state_dict

    def __iter__(self):
        return ({"n": batch["n"]} for batch in self.it)


def test_epochs_are_counted_with_the_chain(dataset, running):
    ds = CHAINS["shuffled"](dataset, 0, 2)
    together = sf.share(ds, name=running, ranks=2)
    assert [iter(one).epoch() for one in (ds, together, ds, together)] == [0, 1, 2, 3]
    together.set_epoch(7)
    assert iter(ds).epoch() == 7


def test_arrays_that_are_kept_stay(dataset, running):
    batches = list(sf.share(CHAINS["sequential"](dataset, 0, 1), name=running, ranks=1))
    assert sorted(n for b in batches for n in b["n"].tolist()) == list(range(RECORDS))
    assert all((b["x"] == b["n"][:, None]).all() for b in batches)


@pytest.mark.parametrize("chain", ["sequential", "cached"])
def test_arrays_are_writable_as_those_of_the_chain_are(dataset, running, chain):
    ds = CHAINS[chain](dataset, 0, 1)
    batch = next(iter(sf.share(ds, name=running, ranks=1)))
    for column, same in zip(next(iter(ds)).values(), batch.values()):
        if isinstance(column, np.ndarray):
            assert same.flags.writeable == column.flags.writeable


def test_peers_cannot_change_what_others_get(dataset, running):
    ds = CHAINS["same for all"](dataset, 0, 1)
    for batch in sf.share(ds, name=running, ranks=2):
        with pytest.raises(ValueError, match="read-only"):
            batch["n"][0] = 1


def test_properties_are_those_of_the_chain(dataset, running):
    ds = CHAINS["sequential"](dataset, 0, 2)
    together = sf.share(ds, name=running, ranks=2)
    assert together.element_spec == ds.element_spec and together.batched and len(together) == len(ds)
    assert repr(together) == f"sf.share({ds!r})"
    again = pickle.loads(pickle.dumps(together))
    assert run_of(iter(again)) == run_of(iter(ds))


def test_tensors_share_the_memory(dataset, running):
    pytest.importorskip("torch", reason="torch is not installed")
    ds = CHAINS["sequential"](dataset, 0, 1)
    for a, b in zip(sf.share(ds, name=running, ranks=1).torch(), ds.torch()):
        assert (a["x"] == b["x"]).all() and a["n"].dtype == b["n"].dtype


def test_iterators_end_as_those_of_the_chain_do(dataset, running):
    it = iter(sf.share(CHAINS["sequential"](dataset, 0, 1), name=running, ranks=1))
    assert len(list(it)) == RECORDS // 8
    with pytest.raises(StopIteration):
        next(it)
    state = it.state_dict()
    it.close()
    assert repr(it) == "<shardfeed.SharedIterator, closed>"
    for call in (lambda: next(it), it.state_dict, it.epoch, it.stats, lambda: it.load_state_dict(state)):
        with pytest.raises(ValueError, match="the iterator was closed"):
            call()


def members(value):
    return {member for member in dir(value) if not member.startswith("_")}


def test_iterators_have_what_those_of_the_chain_have(dataset, running):
    ds = CHAINS["sequential"](dataset, 0, 1)
    together = sf.share(ds, name=running, ranks=1)
    with ds.start() as alone, together.start() as it:
        assert members(alone) - {"load", "next_converted"} == members(it)  # those two are for the package itself
        next(it)
        told = it.scalars()
        assert told.keys() == alone.scalars().keys() and told["rows"] >= 8
    assert inspect.signature(together.start).parameters.keys() == inspect.signature(ds.start).parameters.keys()


def test_options_of_a_run_are_those_of_the_chain(dataset, running, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ds = sf.share(chain_with(dataset, late), name=running, ranks=1)
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
    with ds.start(metrics=address, flight_recorder="flight", starved_seconds=0.1, headspace=True) as it:
        assert digest(next(it)) == digest(next(it))
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=60).read().decode()
        assert "shardfeed_rows_total" in text
    with ds.start(flight_recorder="flight", starved_seconds=0.1) as it:
        assert len(list(it)) == RECORDS // 8
    assert list(tmp_path.glob("flight/*.json"))
    with pytest.raises(ValueError, match="share: a trace records threads of this process"):
        ds.start(trace=sf.Trace())


def test_an_iterator_may_be_closed_while_a_thread_waits(dataset, name):
    it = sf.share(chain_with(dataset, very_late), name=name, ranks=1).start()
    made, errors = [], []

    def run():
        try:
            made.extend(it)
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)  # to let it wait
    before = time.monotonic()
    it.close()
    thread.join()
    assert errors == ["the iterator was closed"] and it._channel is None
    assert time.monotonic() - before < 60  # the chain sleeps longer
    with sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=1).start() as other:
        for _ in range(1000):
            if other.stats()["shared"]["feeds"] == 1:
                break
            time.sleep(0.01)
        assert other.stats()["shared"]["feeds"] == 1  # nothing has been restarted


@pytest.mark.parametrize("chain", ["sequential", "wrong", "no place"])
def test_nothing_is_kept_until_a_collection(dataset, name, chain):
    """Ended iterators are freed at once, with the process that reads."""
    gc.collect()
    gc.disable()
    try:
        ds = chain_with(dataset, wrong) if chain == "wrong" else CHAINS["sequential"](dataset, 0, 1)
        it = sf.share(ds.with_options(deterministic=chain != "no place"), name=name, ranks=1).start()
        pid = it.stats()["shared"]["pid"]
        with contextlib.suppress(ValueError):
            for _ in it:
                pass
        with contextlib.suppress(ValueError, StopIteration):
            next(it)
        with contextlib.suppress(ValueError, RuntimeError):
            it.state_dict()
        with contextlib.suppress(ValueError, RuntimeError):
            it.load_state_dict({"state": "x"})
        del it, ds
        for _ in range(1000):
            if not alive(pid):
                break
            time.sleep(0.01)
        assert not alive(pid)
    finally:
        gc.enable()


def test_descriptors_are_closed_once_when_cycles_are_collected(dataset, name, monkeypatch):
    from multiprocessing import Pipe

    from shardfeed.channel import Channel, ClosedOnce
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    for _ in range(3):
        ds = sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=1)
        it = iter(ds)
        it.cycle, ds.cycle = it, ds
        ours, theirs = Pipe()
        ours.cycle, ours.channel = ours, Channel(ClosedOnce.of(theirs))
        ours.channel.cycle = ours
        del it, ds, ours, theirs
        gc.collect()
    assert errors == []


def test_a_forked_child_does_not_warn_of_the_server(dataset, name, capfd):
    program = f"""
import os, sys
sys.path[:0] = [{str(REPOSITORY / "python")!r}]
import shardfeed as sf
it = iter(sf.share(sf.read({dataset!r}).parse({{"n": sf.int64}}).batch(8), name={name!r}, ranks=1))
next(it)
if os.fork() == 0:
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-c", program], capture_output=True,
                          text=True)
    assert (done.returncode, done.stderr) == (0, "")


# ---- What is read


def read_bytes(pid):
    return int(open(f"/proc/{pid}/io").read().split("rchar: ")[1].split()[0])


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    spec = tmp_path_factory.mktemp("sharing") / "large@4"
    with sf.write(spec) as writer:
        for i in range(40_000):
            writer.write({"n": i, "x": np.full(250, i, np.float32)})
    return str(spec)


@pytest.mark.parametrize("order", [{}, {"seed": 1}, {"seed": 1, "window": 4000, "lanes": 5}])
def test_eight_ranks_read_each_byte_once(dataset, large, name, order):
    def chain(rank, world):
        ds = sf.read(large, batch=16)
        ds = ds.shuffle(**order) if order else ds
        return ds.shard(rank, world).parse({"n": sf.int64, "x": sf.fixed(250)}).batch(16)

    size = sum(f.stat().st_size for f in pathlib.Path(large).parent.glob("large-*-of-*"))
    budget = 64 << 20
    idle = sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=8).start()
    pid = idle.stats()["shared"]["pid"]
    assert len(list(idle)) == RECORDS // 8
    before = read_bytes(pid)
    ranks = [sf.share(chain(r, 8).with_options(budget_bytes=budget), name=name, ranks=8, within=4)
             for r in range(8)]
    iterators = [ds.start() for ds in ranks]
    seen = []
    for batches in zip(*iterators):
        seen += [n for batch in batches for n in batch["n"].tolist()]
    assert len(set(seen)) == len(seen) == 40_000 // 128 * 128
    # What is read of sockets and indexes is small.
    assert size <= read_bytes(pid) - before < 1.1 * size
    peaks = sum(stage["peak_bytes"] for it in iterators for stage in it.stats()["stages"])
    assert peaks <= budget


def test_ranks_that_are_far_apart_do_not_wait(large, name):
    def chain(rank):
        return (sf.read(large, batch=16).shard(rank, 2).parse({"n": sf.int64, "x": sf.fixed(250)})
                .batch(16).with_options(budget_bytes=4 << 20))

    slow, fast = [sf.share(chain(r), name=name, ranks=2).start() for r in range(2)]
    begun = run_of(slow, 1)
    assert run_of(fast) == run_of(iter(chain(1)))
    assert begun + run_of(slow) == run_of(iter(chain(0)))


def test_within_bounds_how_far_a_rank_is_ahead(dataset, running):
    slow, fast = [ds.start() for ds in shared(dataset, "sequential", 2, running, within=3)]
    next(slow)
    made = []
    thread = threading.Thread(target=lambda: made.extend(fast))
    thread.start()
    while len(made) < 3:
        time.sleep(0.001)
    next(slow)
    while len(made) < 4:
        time.sleep(0.001)
    thread.join(0.2)
    assert len(made) == 4
    slow.close()  # iterators that are closed are not waited for
    thread.join()
    assert len(made) == len(CHAINS["sequential"](dataset, 0, 2))


def test_peers_get_batches_that_are_made_once(dataset, name):
    its = [ds.start() for ds in shared(dataset, "same for peers", 4, name)]
    # In step: a rank that is far behind its peers would get a feed of its own.
    for batches in zip(*its):
        made = [(digest(batch), it.padded, it.state_dict()) for batch, it in zip(batches, its)]
        assert made[0] == made[1] != made[2] == made[3]
    assert its[0].stats()["shared"]["feeds"] == 2


def test_a_peer_that_is_far_behind_goes_on_alone(dataset, running):
    slow, fast = [ds.start() for ds in shared(dataset, "same for all", 2, running)]
    begun = run_of(slow, 3)
    everything = run_of(fast)
    assert begun + run_of(slow) == everything


# ---- Errors


def wrong(row):
    if row["n"] == 500:
        raise ValueError("no 500")
    return {"n": row["n"]}


def dies(row):
    if row["n"] == 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"n": row["n"]}


def late(row):
    time.sleep(2.5 if row["n"] == 500 else 0)
    return {"n": row["n"]}


def very_late(row):
    time.sleep(300 if row["n"] == 500 else 0)
    return {"n": row["n"]}


def chain_with(dataset, fn):
    return sf.read(dataset).parse(sharing_chains.SPEC).map(fn, output={"n": sf.int64}).batch(8)


def test_errors_are_those_of_the_chain(dataset, running):
    ds = chain_with(dataset, wrong)
    errors = []
    for one in (ds, sf.share(ds, name=running, ranks=1)):
        it, count = iter(one), 0
        with pytest.raises(ValueError, match="no 500") as raised:
            for _ in it:
                count += 1
        errors.append((str(raised.value), count))
        with pytest.raises(Exception, match="no 500"):
            next(it)
    assert errors[0] == errors[1]


def test_an_error_concerns_only_the_rank_that_reads_the_record(tmp_path, running):
    with sf.write(tmp_path / "a@1") as writer:
        for i in range(100):
            writer.write({"n": i})
    path = next(tmp_path.glob("a-00000*1"))
    data = bytearray(path.read_bytes())
    data[len(data) // 100 * 50 + 14] ^= 1  # record 50
    path.write_bytes(data)
    made = []
    for share in (lambda ds: ds, lambda ds: sf.share(ds, name=running, ranks=2)):
        for rank in range(2):
            ds = sf.read(tmp_path / "a@1").shard(rank, 2).parse({"n": sf.int64}).batch(10)
            numbers, text = [], None
            try:
                for batch in share(ds):
                    numbers += batch["n"].tolist()
            except sf.DataLossError as error:
                text = str(error)
            made.append((numbers, text))
    # How much precedes the error depends on what is read at once.
    assert [text for _, text in made[:2]] == [text for _, text in made[2:]]
    assert "record 50" in made[2][1] and made[3] == (list(range(1, 100, 2)), None)
    assert made[2][0] == list(range(0, 2 * len(made[2][0]), 2))


def test_a_chain_that_kills_the_server_is_an_error(dataset, name, capfd):
    it = iter(sf.share(chain_with(dataset, dies), name=name, ranks=1))
    with pytest.raises(RuntimeError, match="has died 3 times before it delivered the next batch"):
        for _ in it:
            pass


def test_a_run_without_places_ends_with_its_server(dataset, name):
    ds = CHAINS["sequential"](dataset, 0, 1).with_options(deterministic=False)
    it = iter(sf.share(ds, name=name, ranks=1))
    with pytest.raises(RuntimeError, match="deterministic"):
        it.state_dict()
    assert len(next(it)["n"]) == 8
    os.kill(it.stats()["shared"]["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="not deterministic has no place to resume from"):
        list(it)


def test_states_of_other_chains_are_refused(dataset, running):
    other = CHAINS["shuffled"](dataset, 0, 1).start().state_dict()
    it = iter(sf.share(CHAINS["sequential"](dataset, 0, 1), name=running, ranks=1))
    begun = run_of(it, 1)
    with pytest.raises(RuntimeError, match="another"):
        it.load_state_dict(other)
    assert begun + run_of(it) == run_of(iter(CHAINS["sequential"](dataset, 0, 1)))
    with pytest.raises(ValueError, match="expected a result of state_dict"):
        it.load_state_dict({})


def test_wrong_arguments_are_refused(dataset, monkeypatch):
    ds = CHAINS["sequential"](dataset, 0, 1)
    with pytest.raises(ValueError, match="share: expected batches"):
        sf.share(sf.read(dataset), name="x", ranks=1)
    with pytest.raises(TypeError, match="share: .* cannot be sent .*not lambdas"):
        sf.share(ds.map(lambda batch: batch, batched=True), name="x", ranks=1)
    with pytest.raises(ValueError, match="share: a trace records threads of this process"):
        sf.share(ds.with_options(trace=sf.Trace()), name="x", ranks=1)
    with pytest.raises(ValueError, match="share: name must not be empty"):
        sf.share(ds, name="", ranks=1)
    for variable in ("MASTER_ADDR", "SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ValueError, match="share: no launcher says which processes .* pass name="):
        sf.share(ds, ranks=1)
    for variable in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ValueError, match="share: no launcher says how many .* pass ranks="):
        sf.share(ds, name="x")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "many")
    with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE=many is not a number of processes"):
        sf.share(ds, name="x")
    for argument in ({"ranks": 0}, {"ahead": 0}, {"within": 0}):
        with pytest.raises(ValueError, match=f"share: {next(iter(argument))} must be at least 1"):
            sf.share(ds, **{"name": "x", "ranks": 1, **argument})


def test_the_run_and_the_rank_come_from_the_launcher(dataset, monkeypatch, name):
    for variable, value in {"MASTER_ADDR": "here", "MASTER_PORT": name, "TORCHELASTIC_RUN_ID": "none",
                            "LOCAL_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(variable, value)
    ds = sf.read(dataset, batch=8).shard().parse(sharing_chains.SPEC).batch(8)
    together = sf.share(ds)
    made = run_of(iter(together))
    assert made == run_of(CHAINS["sequential"](dataset, 1, 2).start())


def test_functions_of_the_main_program_are_found(dataset, name, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
sys.path[:0] = [{str(REPOSITORY / "python")!r}]
import shardfeed as sf

def add(row):
    return {{"n": row["n"] + 1}}

if __name__ == "__main__":
    ds = sf.read({dataset!r}).parse({{"n": sf.int64}}).map(add, output={{"n": sf.int64}}).batch(8)
    print(next(iter(sf.share(ds, name={name!r}, ranks=1)))["n"].tolist())
""")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(list(range(1, 32, 4)))  # records are written to shards in turn
    text = program.read_text().replace('if __name__ == "__main__":', "if True:")
    program.write_text(text)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert 'must be under if __name__ == "__main__"' in done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_lose_nothing(dataset, running):
    class Interrupted(Exception):
        pass

    def interrupt(*_):
        if armed:
            raise Interrupted()

    ds = CHAINS["sequential"](dataset, 0, 1)
    made, armed, interrupts = [], False, 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with sf.share(ds, name=running, ranks=1).start() as it:
            for i in range(10 ** 9):
                signal.setitimer(signal.ITIMER_REAL, i % 40 * 1e-5 + 1e-6)
                try:
                    armed = True
                    batch = next(it, None)
                    armed = False
                except Interrupted:
                    armed = False
                    interrupts += 1
                    continue
                if batch is None:
                    break
                made.append(digest(batch))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert made == [one[0] for one in run_of(iter(ds))]
    assert interrupts > 0


@pytest.mark.parametrize("left_at", ["a place", "the end"])
def test_a_rank_may_leave_while_its_batch_is_made(dataset, monkeypatch, left_at):
    """Between the batch and its place, where the iterator is closed then."""
    from shardfeed import sharing_server
    chain = CHAINS["sequential"](dataset, 0, 1)
    feed = sharing_server.Feed((None,), {"peers": 1, "epoch": 0}, chain, {})
    client = object()
    assert feed.join(client)
    place = sharing_server._place
    if left_at == "the end":
        while feed.take(client).kind == "batch":
            pass
        feed._made.clear()
    monkeypatch.setattr(sharing_server, "_place", lambda it: feed.leave(client) and place(it))
    assert feed.take(client) is None and feed.closed
    assert not feed._busy and not feed.join(client)
