"""Without threads or memory, the program reports an error; it is never killed by a signal."""

import os
import resource

import harness
import pytest

THREADS = 8


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
