"""Without threads or memory, the program reports an error; it is never killed by a signal."""

import os
import random
import resource
import signal

import harness
import pytest

THREADS = 8
# Allocations that fail, one in each run: the first ones of a command, and some of all others.
FIRST_ALLOCATIONS = 40
OTHER_ALLOCATIONS = 40


def commands(folder, out):
    """Every command that works on several threads."""
    raw, gzip = folder / "raw@3", folder / "gzip@3"
    return {
        "verify": ["verify", raw, gzip],
        "index": ["index", gzip],
        "read": ["bench", raw, gzip],
        "read shuffled": ["bench", gzip, "--shuffle", "1"],
        "read by threads": ["bench", raw, "--io", "threads", "--page-cache", "bypass"],
        "sample": ["sample", gzip, out / "x@2", "--share", "0.5"],
        "reshard": ["reshard", raw, out / "x@2"],
        "merge": ["merge", raw, gzip, out / "x@2", "--compression", "gzip"],
        "convert": ["convert", "text", folder / "lines", out / "x@2"],
        "convert tfrecord": ["convert", "tfrecord", gzip, out / "x@2"],
    }


NAMES = list(commands(harness.pathlib.Path(), harness.pathlib.Path()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exhausted")
    (folder / "lines").write_text("".join(f"a line, number {i}\n" for i in range(20000)))
    harness.convert("text", folder / "lines", folder / "raw@3")
    harness.convert("text", folder / "lines", folder / "gzip@3", "--compression", "gzip")
    return folder


def run(name, folder, out, **options):
    """Returns the exit status, which must be that of success or a failure of the system."""
    arguments = [*commands(folder, out)[name], "-q", "-j", "3"]
    result = harness.run(*arguments, **options)
    told = (name, result.status, result.err[-500:])
    assert result.status in (harness.DONE, harness.IO_FAILED), told
    if result.status == harness.IO_FAILED:
        assert result.err.startswith("shardfeed: ") or result.out, told
        assert "terminate" not in result.err, told
    return result


@pytest.mark.parametrize("name", NAMES)
def test_without_threads(name, folder, tmp_path, faults):
    """Fewer threads do the same work; it is an error only if none can start."""
    for threads in range(THREADS):
        out = tmp_path / str(threads)
        out.mkdir()
        env = {**os.environ, "LD_PRELOAD": str(faults), "THREADS": str(threads)}
        result = run(name, folder, out, env=env)
        if result.status == harness.IO_FAILED:
            assert "cannot start a thread: Resource temporarily unavailable" in result.err
        if threads >= 4:
            assert result.status == harness.DONE, result.err


@pytest.mark.parametrize("name", NAMES)
def test_without_memory(name, folder, tmp_path):
    """Tries limits from what the program itself needs upwards."""
    def limit(bytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))

    statuses = []
    size = 16 << 20
    while harness.run("--version", preexec=limit(size)).status != harness.DONE:
        size += 2 << 20
    while size < 4 << 30:
        out = tmp_path / str(size)
        out.mkdir()
        statuses.append(run(name, folder, out, preexec=limit(size)).status)
        size = size * 5 // 4
    assert statuses[-1] == harness.DONE


def run_without(allocation, name, folder, out, library, **environment):
    """Runs the command, whose allocation of that number fails; 0: none does."""
    return harness.run(*commands(folder, out)[name], "-q", "-j", "3", env={
        **os.environ, "LD_PRELOAD": str(library), "FAIL_AT": str(allocation), **environment})


@pytest.mark.parametrize("name", NAMES)
def test_without_memory_for_one_thing(name, folder, tmp_path, no_memory):
    """Every allocation may fail, also one by a library or within the start of a thread."""
    counted = tmp_path / "count"

    def out_of(number):
        out = tmp_path / str(number)
        out.mkdir()
        return out

    # What is allocated before main, in the constructors of libraries, is not tried.
    harness.run("--version", env={**os.environ, "LD_PRELOAD": str(no_memory),
                                  "COUNT_TO": str(counted)})
    start = int(counted.read_text())
    done = run_without(0, name, folder, out_of(0), no_memory, COUNT_TO=str(counted))
    assert done.status == harness.DONE, done.err
    first = range(start, start + FIRST_ALLOCATIONS)
    others = range(first.stop, int(counted.read_text()))
    aborted = 0
    for number in [*first, *random.Random(1).sample(others, min(OTHER_ALLOCATIONS, len(others)))]:
        done = run_without(number, name, folder, out_of(number), no_memory)
        told = (name, number, done.status, done.err[-500:])
        if done.status in (-signal.SIGABRT, -signal.SIGSEGV) and "shardfeed: " not in done.err:
            aborted += 1  # in nlohmann/json, whose destructor allocates, and frees what operator[] did not
            continue
        assert done.status in (harness.DONE, harness.IO_FAILED), told
        if done.status == harness.IO_FAILED:
            reported = done.err + done.out.decode()
            assert "out of memory" in reported or "Cannot allocate memory" in reported, told
    # About one in a hundred of the allocations is such a one.
    assert aborted <= 5
