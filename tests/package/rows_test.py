"""Work on rows: results come promptly, work ends when it is not needed any more, and finished rows are
not lost to errors, signals, or a generator that never returns. Conditions are counted, not timed."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

THREADS = 2
ROWS = 5000
OUTPUT = {"n": sf.int64}


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupts():
    """SIGUSR1 raises Interrupted."""
    def handler(*_):
        raise Interrupted
    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def numbers(rows=ROWS):
    return sf.from_arrays({"n": np.arange(rows)})


# Chains whose function is called with each number, one after another.
CHAINS = {
    "map": lambda fn: numbers().map(lambda row: fn(int(row["n"])) or row, output=OUTPUT),
    "flat_map": lambda fn: numbers().flat_map(lambda row: fn(int(row["n"])) or [row],
                                              output=OUTPUT),
    "filter": lambda fn: numbers().filter(lambda row: not fn(int(row["n"]))),
    "batches": lambda fn: numbers().map(lambda row: fn(int(row["n"])) or row,
                                        output=OUTPUT).batch(100),
}


@pytest.mark.parametrize("name", ["map", "flat_map", "filter"])
def test_the_first_row_needs_its_own_call_alone(name):
    opened = threading.Event()
    it = CHAINS[name](lambda n: n > 0 and not opened.wait(60)).start(threads=THREADS)
    assert next(it)["n"] == 0
    opened.set()
    assert [row["n"] for row in it] == list(range(1, ROWS))


@pytest.mark.parametrize("name", CHAINS)
def test_close_waits_for_the_calls_that_run(name):
    # Cheap rows, so that many are taken at a time; then some expensive ones.
    calls = []
    blocked = threading.Event()
    opened = threading.Event()

    def fn(n):
        if n >= 600:
            calls.append(n)
            blocked.set()
            opened.wait(60)

    it = CHAINS[name](fn).start(threads=THREADS)
    next(it)
    taker = threading.Thread(target=lambda: pytest.raises(ValueError, list, it), daemon=True)
    taker.start()
    assert blocked.wait(60)
    threading.Timer(0.1, opened.set).start()
    it.close()
    taker.join(60)
    # As many as there are threads, plus those that had just begun.
    assert len(calls) <= 2 * THREADS


@pytest.mark.parametrize("name", CHAINS)
def test_an_interrupt_ends_a_wait(name, interrupts):
    opened = threading.Event()
    calls = []

    def fn(n):
        calls.append(n)
        if len(calls) == 1:
            interrupts()
        opened.wait(60)

    it = CHAINS[name](fn).start(threads=THREADS)
    with pytest.raises(Interrupted):
        next(it)
    threading.Timer(0.1, opened.set).start()
    it.close()
    assert len(calls) <= THREADS


@pytest.mark.parametrize("form", ["rows", "tuples", "batches", "asked"])
def test_a_signal_that_is_pending_loses_nothing(form, interrupts):
    """The signal is sent while next() waits for an element, and handled when the element arrives."""
    elements = 12
    turn = 0
    sent = set()
    started = False  # what is learned of the chain before needs a call, too

    def fn(row):
        n = int(row["n"])
        time.sleep(0.01)  # too slow for two rows to be taken at a time
        if started and n > 0 and n not in sent:
            deadline = time.monotonic() + 60
            while turn < n and time.monotonic() < deadline:
                time.sleep(0.001)
            sent.add(n)
            time.sleep(0.01)  # until next() waits
            interrupts()
        return {"n": n, "some": [n] * n}

    ds = numbers(elements).map(fn, output={"n": sf.int64, "some": sf.var(sf.int64)})
    if form == "tuples":
        ds = ds.map(lambda row: (row["n"], row["n"]))
    if form in ("batches", "asked"):
        ds = ds.batch(1)
    if form == "asked":
        ds = ds.shuffle(1, window=1)
    started = True
    it = ds.start(threads=1)
    seen = []
    interrupted = 0
    while True:
        turn = len(seen)
        try:
            element = next(it)
        except Interrupted:
            interrupted += 1
            continue
        except StopIteration:
            break
        seen.append(int(np.ravel(element[0] if form == "tuples" else element["n"])[0]))
        if len(seen) == 5:
            state = it.state_dict()
    assert seen == list(range(elements))
    assert interrupted > 0
    it.load_state_dict(state)
    turn = elements
    element = next(it)
    assert np.ravel(element[0] if form == "tuples" else element["n"])[0] == 5


@pytest.mark.parametrize("name", ["map", "flat_map", "filter"])
@pytest.mark.parametrize("bad", [0, 1, 700, 1024])
def test_rows_before_an_error_are_delivered(name, bad):
    def fn(n):
        if n == bad:
            raise ValueError("this one is bad")

    it = CHAINS[name](fn).start(threads=THREADS)
    seen = []
    with pytest.raises((ValueError, RuntimeError), match="this one is bad"):
        for row in it:
            seen.append(row["n"])
    assert seen == list(range(bad))


def test_batches_before_an_error_are_delivered():
    def fn(n):
        if n == 700:
            raise ValueError("this one is bad")

    it = CHAINS["batches"](fn).start(threads=THREADS)
    seen = []
    with pytest.raises(ValueError, match="this one is bad"):
        for batch in it:
            seen.append(len(batch["n"]))
    assert seen == [100] * 7


MIB = 1 << 20
LARGE = {
    "fixed": ("map", {"v": sf.fixed([MIB], sf.uint8)}, lambda: np.ones(MIB, np.uint8)),
    "ragged": ("map", {"v": sf.var(sf.uint8)}, lambda: np.ones(MIB, np.uint8)),
    "bytes": ("map", {"v": sf.bytes}, lambda: b"x" * MIB),
    "flat_map": ("flat_map", {"v": sf.bytes}, lambda: b"x" * MIB),
}


@pytest.mark.parametrize("kind", LARGE)
def test_the_budget_holds_for_what_functions_make(kind):
    step, output, make = LARGE[kind]
    calls = []

    def fn(row):
        calls.append(1)
        return [{"v": make()}] if step == "flat_map" else {"v": make()}

    it = getattr(numbers(), step)(fn, output=output).start(threads=THREADS, budget_bytes=16 * MIB)
    for delivered in range(1, 40):
        next(it)
        time.sleep(0.005)
        # If shards are read, half of the budget is for batches; and some were begun before their
        # size was known.
        assert len(calls) - delivered <= 16 + 2 * THREADS
    it.close()


# ---- generators


def blocking(source):
    def generate():
        while True:
            yield {"n": source.get()}
    return sf.from_generator(generate, output=OUTPUT)


@pytest.mark.parametrize("behind", ["nothing", "map", "batch"])
def test_elements_of_a_generator_are_handed_on_one_by_one(behind):
    source = queue.Queue()
    ds = blocking(source)
    if behind == "map":
        ds = ds.map(lambda row: row, output=OUTPUT)
    if behind == "batch":
        ds = ds.batch(1)
    it = ds.start(threads=THREADS)
    for n in range(200):
        source.put(n)
        assert np.ravel(next(it)["n"])[0] == n
    it.close()


@pytest.mark.parametrize("behind", ["nothing", "map", "batch", "shuffle", "zip"])
def test_close_does_not_wait_for_a_generator(behind):
    source = queue.Queue()
    ds = blocking(source)
    if behind == "map":
        ds = ds.map(lambda row: row, output=OUTPUT)
    elif behind == "batch":
        ds = ds.batch(2)
    elif behind == "shuffle":
        ds = ds.shuffle(1, window=3)
    elif behind == "zip":
        ds = ds.zip(sf.from_arrays({"m": np.arange(9)}))
    it = ds.start(threads=THREADS)
    taker = threading.Thread(target=lambda: pytest.raises(Exception, next, it), daemon=True)
    taker.start()
    time.sleep(0.05)
    it.close()  # before, this never returned
    taker.join(60)
    assert not taker.is_alive()


BLOCKED = """
import queue, sys, threading, time
sys.path.insert(0, {package!r})
import shardfeed as sf
def generate():
    yield {{"n": 1}}
    while True:
        {wait}
ds = sf.from_generator(generate, output={{"n": sf.int64}})
it = ds{behind}.start()
print(next(it)["n"])
"""


@pytest.mark.parametrize("behind", ["", ".map(lambda row: row)", ".batch(1)"])
@pytest.mark.parametrize("wait", ["queue.Queue().get()", "time.sleep(0.0005)",
                                  "threading.Event().wait(0.25)"])
def test_the_interpreter_ends_without_a_generator(wait, behind):
    for _ in range(3):
        code = BLOCKED.format(package=str(REPOSITORY / "python"), wait=wait, behind=behind)
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                               timeout=60)
        assert ended.returncode == 0 and ended.stderr == "", ended.stderr


def test_rows_of_a_generator_before_its_error_are_delivered():
    def generate():
        for n in range(100):
            yield {"n": n}
        raise ValueError("no more")

    seen = []
    with pytest.raises(ValueError, match="no more"):
        for row in sf.from_generator(generate, output=OUTPUT):
            seen.append(row["n"])
    assert seen == list(range(100))


def test_a_generator_may_write_to_its_array_again():
    def generate():
        array = np.zeros(3, np.int64)
        for n in range(300):
            array[:] = n
            yield {"v": array}

    ds = sf.from_generator(generate, output={"v": sf.fixed([3], sf.int64)})
    assert [row["v"].tolist() for row in ds] == [[n] * 3 for n in range(300)]


def test_generators_give_columns_of_any_kind():
    def generate():
        for n in range(50):
            yield {"text": b"t%d" % n, "words": [b"w"] * (n % 3), "some": np.full(n % 4, n),
                   "pair": np.array([n, -n], np.float32)}

    ds = sf.from_generator(generate, output={
        "text": sf.bytes, "words": sf.var(sf.bytes), "some": sf.var(sf.int64),
        "pair": sf.fixed([2], sf.float32)})
    for n, row in enumerate(ds):
        assert row["text"] == b"t%d" % n and row["words"] == [b"w"] * (n % 3)
        assert row["some"].tolist() == [n] * (n % 4) and row["pair"].tolist() == [n, -n]
    assert n == 49


# ---- snapshots


SNAPSHOT = """
import sys, time
sys.path.insert(0, {package!r})
import shardfeed as sf, numpy as np
ds = sf.from_arrays({{"n": np.arange(3000)}}).batch(10).snapshot({path!r})
it = iter(ds)
for _ in range(100):
    next(it)
print("half", flush=True)
sys.stdin.readline()
print(sum(int(batch["n"].sum()) for batch in it))
"""


@pytest.fixture
def start_snapshot(tmp_path):
    """Starts a run that has written some of the snapshot; it continues after a line of input."""
    started = []

    def start():
        code = SNAPSHOT.format(package=str(REPOSITORY / "python"), path=str(tmp_path / "s"))
        process = subprocess.Popen([sys.executable, "-c", code], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == "half\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


REST = sum(range(1000, 3000))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_run_left_of_a_snapshot_is_taken_over(start_snapshot, tmp_path):
    for _ in range(3):
        process = start_snapshot()
        process.kill()
        process.wait()
        assert names(tmp_path) == ["s.tmp"]
    assert start_snapshot().communicate("\n")[0] == f"{REST}\n"
    assert names(tmp_path) == ["s"]


def test_two_runs_do_not_spoil_each_others_snapshot(start_snapshot, tmp_path):
    one, other = start_snapshot(), start_snapshot()
    assert names(tmp_path) == ["s.1.tmp", "s.tmp"]
    assert one.communicate("\n")[0] == f"{REST}\n"
    assert names(tmp_path) == ["s", "s.1.tmp"]
    assert other.communicate("\n")[0] == f"{REST}\n"
    assert names(tmp_path) == ["s"]
    # Both are killed: the next run removes what they left.
    (tmp_path / "s").unlink()
    for process in (start_snapshot(), start_snapshot()):
        process.kill()
        process.wait()
    assert start_snapshot().communicate("\n")[0] == f"{REST}\n"
    assert names(tmp_path) == ["s"]
