"""sf.share: ranks and readers that are killed at any time."""

import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from harness import REPOSITORY, alive, open_files

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

from sharing_chains import CHAINS, digest
from sharing_data import RECORDS, compared, dataset, name, run_of  # noqa: F401

HERE = pathlib.Path(__file__).parent


def wait_for_end(pid):
    for _ in range(1000):
        if not alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} has not ended")


class Rank:
    """A rank in a process of its own: see sharing_chains.py."""

    def __init__(self, spec, chain, rank, world, name, **options):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "sharing_chains.py"), spec, chain, str(rank), str(world), name,
             str(world), json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def __call__(self, *command):
        self.ask(*command)
        return self.answer()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def ranks(dataset, name):
    started = []

    def start(chain, world, **options):
        started.extend(Rank(dataset, chain, r, world, name, **options) for r in range(world))
        return list(started)

    yield start
    for rank in started:
        if rank.process.poll() is None:
            rank.kill()


def expected(dataset, chain, world):
    return compared(chain, [[(d, p, s["state"]) for d, p, s in run_of(CHAINS[chain](dataset, r, world).start())]
                            for r in range(world)])


def everything(ranks, most=10):
    """Lets all ranks continue to the end, a few batches at a time."""
    made = [[] for _ in ranks]
    while any(not m or m[-1] is not None for m in made):
        for rank in ranks:
            rank.ask("next", most)
        for rank, m in zip(ranks, made):
            m.extend(rank.answer())
    return [[one for one in m if one is not None] for m in made]


@pytest.mark.parametrize("chain", ["shuffled", "filtered", "same for peers"])
def test_a_rank_that_is_killed_loses_nothing_for_others(dataset, ranks, chain):
    all_ranks = ranks(chain, 4)
    made = [rank("next", 3) for rank in all_ranks]
    all_ranks.pop(0).kill()  # the one that has started the server, perhaps
    rest = everything(all_ranks)
    assert compared(chain, [a + b for a, b in zip(made[1:], rest)]) == expected(dataset, chain, 4)[1:]


@pytest.mark.parametrize("chain", ["shuffled", "sequential", "flat", "same for peers"])
def test_a_server_that_is_killed_is_replaced(dataset, ranks, chain):
    all_ranks = ranks(chain, 3)
    made = [rank("next", i) for i, rank in enumerate(all_ranks)]  # none at all, too
    for _ in range(3):
        pid = all_ranks[0]("stats")["shared"]["pid"]
        os.kill(pid, signal.SIGKILL)
        for rank in all_ranks:
            rank.ask("next", 5)
        for rank, m in zip(all_ranks, made):
            m.extend(rank.answer())
        assert len({rank("stats")["shared"]["pid"] for rank in all_ranks} - {pid}) == 1
    rest = everything(all_ranks)
    assert compared(chain, [a + b for a, b in zip(made, rest)]) == expected(dataset, chain, 3)


def test_kills_at_any_time_lose_nothing(dataset, ranks):
    """The server is killed while ranks wait for batches."""
    all_ranks = ranks("shuffled", 2)
    made = [rank("next", 1) for rank in all_ranks]
    for delay in range(6):
        pid = all_ranks[0]("stats")["shared"]["pid"]
        for rank in all_ranks:
            rank.ask("next", 4)
        time.sleep(delay / 1000)
        os.kill(pid, signal.SIGKILL)
        for rank, m in zip(all_ranks, made):
            m.extend(rank.answer())
    rest = everything(all_ranks)
    made = compared("shuffled", [a + b for a, b in zip(made, rest)])
    assert made == expected(dataset, "shuffled", 2)


def test_nothing_remains_after_all_are_killed(ranks):
    all_ranks = ranks("shuffled", 3)
    for rank in all_ranks:
        rank("next", 2)
    pid = all_ranks[0]("stats")["shared"]["pid"]
    listening = [line.split()[6] for line in open("/proc/net/unix") if "@shardfeed-share" in line and
                 f"socket:[{line.split()[6]}]" in open_files(pid)]
    assert listening and any("memfd:shardfeed" in file for file in open_files(pid))
    for rank in all_ranks:
        rank.process.kill()
    for rank in all_ranks:
        rank.kill()
    wait_for_end(pid)
    until = time.monotonic() + 30  # descriptors in messages that nobody has received are collected later
    while any(line.split()[6] in listening for line in open("/proc/net/unix") if "@" in line):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_server_ends_with_its_last_user(dataset, name):
    ds = sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=1)
    it = ds.start()
    pid = it.stats()["shared"]["pid"]
    it.close()
    assert ds.start().stats()["shared"]["pid"] == pid  # it stays between epochs
    del ds, it
    gc.collect()
    wait_for_end(pid)


def test_a_forked_child_makes_its_own_iterator(dataset, name):
    ds = sf.share(CHAINS["sequential"](dataset, 0, 1), name=name, ranks=1)
    it = iter(ds)
    first = digest(next(it))
    pid = it.stats()["shared"]["pid"]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(it)
        except RuntimeError as error:
            text = str(error)
        ds.set_epoch(0)
        os.write(writer, json.dumps([text, digest(next(iter(ds)))]).encode())
        time.sleep(60)  # the server must not wait for it
        os._exit(0)
    text, same = json.loads(os.read(reader, 10_000))
    assert "made before a fork" in text and same == first
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(it)) == RECORDS // 8 - 1
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    it.close()
    del ds, it
    gc.collect()
    wait_for_end(pid)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
