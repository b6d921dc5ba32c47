"""Functions on processes: map(fn, processes=N)."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
import pytest
from harness import REPOSITORY, alive, open_files

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

import process_functions

RECORDS = 1000
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(
    [str(REPOSITORY / "python"), str(pathlib.Path(__file__).parent)])}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("processes") / "train@2"
    with sf.write(spec) as writer:
        for i in range(RECORDS):
            writer.write({"n": i, "x": np.full(100, i, np.float32), "text": b"%d " % i * 400,
                          "some": [i] * (i % 4)})
    return str(spec)


@pytest.fixture
def parsed(dataset):
    return sf.read(dataset).parse({"n": sf.int64, "x": sf.fixed(100), "text": sf.bytes,
                                   "some": sf.var(sf.int64)})


# ---- Values


@pytest.mark.parametrize("size", [1, 200])  # with the message, and through memory
def test_batches_go_there_and_back(parsed, size):
    ds = parsed.take(400).batch(size)
    count = 0
    for before, after in zip(ds, ds.map(process_functions.doubled, batched=True, processes=2)):
        assert np.array_equal(after["n"], before["n"])
        assert np.array_equal(after["x"], before["x"] * 2)
        assert after["text"].tolist() == [t + b"!" for t in before["text"]]
        assert after["some"].tolist() == before["some"].tolist()
        count += len(after["n"])
    assert count == 400


def test_rows_go_there_and_back(tmp_path):
    with sf.write(tmp_path / "a@1") as writer:
        for i in range(4):
            writer.write({"text": os.urandom(100_000 * i + 1), "x": np.arange(40_000) + i})
    ds = sf.read(tmp_path / "a@1").parse({"text": sf.bytes, "x": sf.fixed(40_000, sf.int64)})
    for before, after in zip(ds, ds.map(process_functions.row, processes=1)):
        assert after["text"] == before["text"] and after["length"] == len(before["text"])
        assert np.array_equal(after["x"], before["x"])


def test_what_a_function_keeps_stays(parsed):
    ds = parsed.batch(100).map(process_functions.keep, batched=True, processes=1)
    assert all(batch["same"].all() for batch in ds)


def test_arrays_that_are_kept_stay(parsed):
    ds = parsed.batch(100).map(process_functions.doubled, batched=True, processes=1)
    batches = list(ds)
    assert [b["x"][0, 0] for b in batches] == [2 * b["n"][0] for b in batches]
    assert [b["x"][-1, -1] for b in batches] == [2 * b["n"][-1] for b in batches]


def test_memory_is_used_again(parsed):
    ds = parsed.batch(100).map(process_functions.doubled, batched=True, processes=1)
    with ds.repeat(30).start(threads=1) as it:
        for i, _ in enumerate(it):
            if i % 50 == 0:
                assert sum("memfd:shardfeed" in file for file in open_files("self")) < 20


# ---- Errors


def test_exceptions_tell_where_they_come_from(parsed):
    ds = parsed.batch(100).map(process_functions.refuse, batched=True, processes=1,
                               output={"n": sf.int64})
    with pytest.raises(ValueError, match="not this one") as caught:
        list(ds)
    text = "".join(traceback.format_exception(caught.value))
    assert "process_functions.py" in text and "in refuse" in text
    if sys.version_info >= (3, 11):
        assert "record 0" in caught.value.__notes__[0]


def test_exceptions_and_results_that_cannot_be_sent(parsed):
    ds = parsed.batch(100)
    with pytest.raises(RuntimeError, match="Unsendable: odd"):
        list(ds.map(process_functions.refuse_oddly, batched=True, processes=1,
                    output={"n": sf.int64}))
    with pytest.raises(Exception, match="lambda"):
        list(ds.map(process_functions.unsendable, batched=True, processes=1,
                    output={"n": sf.int64}))


def test_functions_that_cannot_be_sent(parsed):
    with pytest.raises(TypeError, match="cannot be sent to other processes .* use a function"):
        parsed.batch(100).map(lambda b: b, batched=True, processes=1)


def test_a_process_that_dies_is_named_and_the_next_run_has_another(parsed):
    ds = parsed.batch(100).map(process_functions.die, batched=True, processes=1,
                               output={"n": sf.int64})
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"map\(processes=1\) died, SIGKILL"):
            list(ds)
    later = parsed.select("n").batch(100).map(process_functions.die_later, batched=True,
                                              processes=2)
    it = iter(later)
    assert len(next(it)["n"]) == 100
    with pytest.raises(RuntimeError, match="died, status 3"):
        list(it)


# ---- Nothing remains


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone_soon(pids):
    until = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


WAITING = """
import sys, shardfeed as sf, process_functions
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64, "x": sf.fixed(100)}).batch(200)
    it = iter(ds.map(process_functions.with_pid, batched=True, processes=2).repeat())
    print(sorted({int(next(it)["pid"][0]) for _ in range(20)}), flush=True)
    """


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent_however_it_ends(dataset, how):
    with subprocess.Popen([sys.executable, "-c", WAITING + "sys.stdin.read()", dataset],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT,
                          text=True) as process:
        workers = [int(n) for n in process.stdout.readline().strip("[]\n").split(",")]
        assert all(map(alive, workers))
        process.send_signal(how)
        process.wait(20)
    assert gone_soon(workers)


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "it.close()", "del it", "sys.exit(0)"])
def test_workers_end_with_the_interpreter(dataset, end):
    done = subprocess.run([sys.executable, "-c", "import os\n" + WAITING + end, dataset],
                          capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert gone_soon([int(n) for n in done.stdout.strip("[]\n").split(",")])


def test_a_child_after_fork_leaves_the_workers_alone(dataset):
    code = "import os\n" + WAITING + """
    child = os.fork()
    if child == 0:
        it.close()
        del it
        # Workers of its own.
        own = next(iter(ds.map(process_functions.with_pid, batched=True, processes=1)))
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(sum(len(next(it)["n"]) for _ in range(20)))
"""
    # Python 3.12 and later warn of every fork of a process that has threads.
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, dataset],
                          capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.split("\n")[1] == "4000"


def test_workers_end_when_nobody_has_the_dataset(parsed):
    ds = parsed.batch(100).map(process_functions.with_pid, batched=True, processes=1)
    workers = {int(p) for batch in ds for p in batch["pid"]}
    assert all(map(alive, workers))
    del ds
    list(sf.range(3))  # objects that the library drops go with the next call
    assert gone_soon(workers)


def test_ctrl_c_while_a_function_runs(dataset):
    code = """
import os, signal, sys, threading, shardfeed as sf, process_functions
if __name__ == "__main__":
    ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(200)
    ds = ds.map(process_functions.slow, batched=True, processes=1, output={"n": sf.int64})
    it = iter(ds)
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        next(it)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code, dataset], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=50)
    assert done.stdout == "interrupted\n", done.stderr
