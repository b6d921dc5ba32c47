"""Ctrl-C and close() while a store does not answer: they do not wait for it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import harness
import pytest
from harness import INTERRUPTED, REPOSITORY
from servers import S3, Object, answering, error, forget_credentials

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

DATASET = "s3://data/d@4"
MANIFEST = ".shardfeed/d.manifest.json"
PATIENCE = 40  # of the network, in seconds
SOON = 15  # less than that, though the machine may be busy
RECORDS = 3000


class Store(S3):
    """Does not answer requests for keys that begin with one of `silent`; "" is all of them, listings too."""

    def __init__(self):
        super().__init__("data")
        self.silent = ()
        self.answered = 0  # how many of the silent requests still have an answer
        self.refused_writes = False  # only writes are silent, and at last refused
        self.asked, self.released = threading.Event(), threading.Event()

    def answer(self, request, body):
        key = request.path.partition("?")[0].lstrip("/").partition("/")[2]
        silent = key.startswith(self.silent) and (request.command == "PUT" or not self.refused_writes)
        if silent:
            self.answered -= 1
        if silent and self.answered < 0:
            self.asked.set()
            self.released.wait(PATIENCE)
            if self.refused_writes:
                return error(403, "AccessDenied")
        return super().answer(request, body)


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    with sf.write(str(folder / "d@4")) as writer:
        for n in range(RECORDS):
            writer.write({"n": n})
    return {str(path.relative_to(folder)): Object(path.read_bytes(), f'"{path.name}"', None)
            for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def store(objects, monkeypatch, tmp_path):
    forget_credentials(monkeypatch, tmp_path)
    made = Store()
    made.objects.update(objects)
    with answering(made.answer) as endpoint:
        for name, value in {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_REGION": "here",
                            "AWS_SECRET_ACCESS_KEY": "secret", "SHARDFEED_NET_SECONDS": str(PATIENCE),
                            "PYTHONPATH": str(REPOSITORY / "python")}.items():
            monkeypatch.setenv(name, value)
        try:
            yield made
        finally:
            made.released.set()


@contextlib.contextmanager
def interrupted(store, later=0.2):
    """Sends this process a SIGINT once the store was asked and does not answer, and some seconds are over."""
    def interrupt():
        assert store.asked.wait(PATIENCE)
        time.sleep(later)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        yield
    assert time.monotonic() - began < SOON
    thread.join()


COMMANDS = [["cat", DATASET], ["bench", DATASET], ["bench", DATASET, "--parse"], ["bench", DATASET, "--shuffle", "1"],
            ["verify", DATASET], ["inspect", DATASET], ["reshard", DATASET, "OUT/d@2"], ["plan", DATASET, "--shuffle", "1"]]
CASES = [(words, ("",)) for words in COMMANDS]
CASES += [(words, ("d-",)) for words in COMMANDS if words[0] not in ("inspect", "plan")]


@pytest.mark.parametrize("words, silent", CASES, ids=lambda value: "-".join(value).replace("s3://", ""))
def test_ctrl_c_ends_commands(store, tmp_path, words, silent):
    """The requests for shards, or all, have no answer."""
    store.silent = silent
    out = tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen([str(harness.BINARY), *(word.replace("OUT", str(out)) for word in words)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert store.asked.wait(PATIENCE), process.communicate()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=SOON)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, error
    assert error.endswith("interrupted\n")
    assert not harness.tree(out)


@pytest.mark.parametrize("words", [["verify", DATASET], ["inspect", DATASET], ["reshard", DATASET, "OUT/d@2"],
                                   ["bench", DATASET, "--shuffle", "1"]], ids=lambda words: words[0])
def test_ctrl_c_at_each_look_at_the_manifest(store, tmp_path, words):
    """What is broken off counts neither as replaced nor as unreadable."""
    store.silent = (MANIFEST,)
    looks = 0
    while True:
        store.answered = looks
        store.asked.clear()
        process = subprocess.Popen([str(harness.BINARY), *(word.replace("OUT", str(tmp_path)) for word in words)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while process.poll() is None and not store.asked.wait(0.02):
                pass
            if not store.asked.is_set():
                break
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=SOON)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == INTERRUPTED, (looks, error)
        looks += 1
    assert process.returncode == 0
    assert looks > 1


@pytest.mark.parametrize("silent", ["out/d-", "out/"])
def test_ctrl_c_ends_writing(store, silent):
    """The store does not take what is written, or does not even say what is there."""
    store.silent = (silent,)
    process = subprocess.Popen([str(harness.BINARY), "reshard", DATASET, "s3://data/out/d@2"],
                               stderr=subprocess.PIPE, text=True)
    try:
        assert store.asked.wait(PATIENCE)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=SOON)[1]
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, error
    assert re.search("shardfeed: interrupted(; nothing was kept)?\n$", error)
    store.released.set()
    assert store.files("out/") == {}


def in_time(condition):
    """Whether it becomes true soon."""
    until = time.monotonic() + SOON
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def nothing_stays(store):
    """What was given up is removed as soon as the store answers."""
    store.released.set()
    return in_time(lambda: store.uploads == {} and store.files("out/") == {})


def write_until_there_is_no_room(writer):
    piece = bytes(8 << 20)
    while True:
        writer.write(piece)


def write_and_close(writer):
    writer.write({"n": 1})
    writer.close()


def write_and_do_something_else(writer):
    writer.write(bytes(16 << 20))
    time.sleep(PATIENCE)


@pytest.mark.parametrize("is_part", [False, True], ids=["whole", "part"])
@pytest.mark.parametrize("use, answered", [
    (write_until_there_is_no_room, 0), (write_and_close, 0), (write_and_close, 1), (write_and_do_something_else, 0),
    (write_and_do_something_else, 1)])
def test_ctrl_c_ends_a_writer(store, use, answered, is_part):
    """Wherever it meets the writer, and whether an upload has begun or not, the end of the `with` does not wait for the
    store, either."""
    if is_part:
        writer = sf.write_job("s3://data/out/d@1").shard(0)
    else:
        writer = sf.write("s3://data/out/d@1", threads=1)
    store.silent, store.answered = ("out/",), answered
    with interrupted(store, later=3 if use is write_until_there_is_no_room else 0.5):
        with writer:
            use(writer)
    with pytest.raises(ValueError, match="the writer (is closed|was aborted)"):
        writer.write({"n": 1})
    store.released.set()
    assert in_time(lambda: store.uploads == {} and all(name.endswith("/job") for name in store.files("out/")))
    assert sf.write("s3://data/out/d@1").close()["shards"] == 1


def test_a_writer_that_is_dropped_does_not_wait(store):
    writer = sf.write("s3://data/out/d@1")
    writer.write(bytes(16 << 20))
    store.silent = ("out/",)
    writer.write(bytes(16 << 20))
    assert store.asked.wait(PATIENCE)
    began = time.monotonic()
    with pytest.warns(ResourceWarning):
        del writer
    assert time.monotonic() - began < SOON
    assert nothing_stays(store)


def test_ctrl_c_comes_before_the_error_of_a_request_that_was_waited_for(store):
    """A handler around the call gets it. If Python raised it later, it would cut the handler of the error off."""
    job = sf.write_job("s3://data/out/d@1")
    with job.shard(0) as writer:
        writer.write({"n": 1})
    store.silent, store.refused_writes = ("out/.shardfeed/d.commit",), True

    def release():
        assert store.asked.wait(PATIENCE)
        time.sleep(1.5)
        store.released.set()

    thread = threading.Thread(target=release)
    thread.start()
    handled = []
    with interrupted(store):
        try:
            job.commit([writer.message])
        except BaseException as raised:
            handled += [type(raised), type(raised.__context__)]
            raise
    thread.join()
    assert handled == [KeyboardInterrupt, PermissionError]


@pytest.mark.parametrize("after, waits", [(KeyboardInterrupt(), False), (ValueError(), True)], ids=["ctrl-c", "error"])
def test_aborting_a_job_after_an_error(store, after, waits):
    job = sf.write_job("s3://data/out/d@1")
    with job.shard(0) as writer:
        writer.write({"n": 1})
    store.silent = ("out/",)
    ended = threading.Event()

    def abort():
        job._abort_after(after)
        ended.set()

    thread = threading.Thread(target=abort)
    thread.start()
    assert ended.wait(5) != waits
    assert nothing_stays(store)
    thread.join()


def test_ctrl_c_ends_opening(store):
    store.silent = ("",)
    with interrupted(store):
        sf.read(DATASET)
    store.silent = ()
    assert len(list(sf.read(DATASET))) == RECORDS


def test_ctrl_c_ends_random_access(store):
    ds = sf.read(DATASET).parse({"n": sf.int64})
    store.silent = ("d-",)
    with interrupted(store):
        ds[7]
    store.silent = ()
    assert ds[7]["n"] == 28  # shards take turns


def test_ctrl_c_ends_building_indexes(store, objects):
    """Threads read the shards, and the one that is interrupted waits for them."""
    ds = without_indexes(store, objects)
    store.silent = ("d-",)
    with interrupted(store):
        len(ds)


def without_indexes(store, objects):
    store.objects = {key: value for key, value in objects.items() if not key.startswith(".shardfeed")}
    return sf.read(DATASET)


def test_ctrl_c_while_another_thread_builds_indexes(store, objects):
    ds = without_indexes(store, objects)
    store.silent = ("d-",)
    lengths = []
    other = threading.Thread(target=lambda: lengths.append(len(ds)))
    other.start()
    assert store.asked.wait(PATIENCE)
    with interrupted(store):
        len(ds)
    store.silent = ()
    store.released.set()
    other.join()
    assert lengths == [RECORDS]


@pytest.mark.parametrize("use", [len, lambda ds: len(list(ds)), lambda ds: len(list(ds.batch(10))) * 10],
                         ids=["len", "records", "batches"])
def test_handlers_of_signals_may_use_the_dataset_that_they_interrupt(store, objects, use):
    """Neither they nor the threads they wait for wait for what is interrupted."""
    ds = without_indexes(store, objects)
    store.silent = ("d-",)
    lengths = []

    def handle(*_):
        store.silent = ()
        lengths.append(use(ds))
        store.released.set()

    def interrupt():
        assert store.asked.wait(PATIENCE)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    previous = signal.signal(signal.SIGTERM, handle)
    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    try:
        assert len(ds) == RECORDS
    finally:
        signal.signal(signal.SIGTERM, previous)
    thread.join()
    assert lengths == [RECORDS]
    assert time.monotonic() - began < SOON


def test_ctrl_c_while_the_manifest_is_looked_up_again(store, objects):
    """What is broken off does not count as a dataset that was replaced."""
    store.objects = {key: value for key, value in objects.items() if ".index" not in key}
    ds = sf.read(DATASET)
    store.silent = (MANIFEST,)
    with interrupted(store):
        len(ds)


def test_ctrl_c_while_arrow_pulls_batches(store):
    """Its libraries raise OSError whatever has happened."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    split = sf.splits(DATASET)[0]
    store.silent = ("d-",)
    with interrupted(store):
        with contextlib.suppress(OSError):
            pa.RecordBatchReader.from_stream(split.arrow({"n": sf.int64})).read_all()
        time.sleep(PATIENCE)


@pytest.mark.parametrize("silent", ["d-", MANIFEST])
def test_ctrl_c_and_close_leave_no_thread(store, silent):
    """The store sends no shard, or does not say whether those that it has sent are still the manifest's."""
    code = f"""
import os, sys, time, shardfeed as sf

def threads():
    return len(os.listdir("/proc/self/task"))

ds = sf.read({DATASET!r}).shuffle(seed=1).parse({{"n": sf.int64}}).batch(10)
assert len(list(ds)) == {RECORDS // 10}
ds = sf.read({DATASET!r}).shuffle(seed=1).parse({{"n": sf.int64}}).batch(10)
before = threads()
print("ready", flush=True)
sys.stdin.readline()
it = iter(ds)
try:
    next(it)
except KeyboardInterrupt:
    print("interrupted")
began = time.monotonic()
it.close()
while threads() > before and time.monotonic() < began + {PATIENCE}:
    time.sleep(0.01)
print("ended", time.monotonic() - began < {SOON})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        store.silent = (silent,)
        process.stdin.write("\n")
        process.stdin.flush()
        assert store.asked.wait(PATIENCE)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=2 * PATIENCE)[0] == "interrupted\nended True\n"
    finally:
        process.kill()


@pytest.mark.parametrize("silent", [("",), ("d-",), (MANIFEST,)])
def test_close_does_not_wait(store, silent):
    ds = sf.read(DATASET).parse({"n": sf.int64}).batch(10).prefetch(2)
    store.silent = silent
    it = iter(ds)
    taker = threading.Thread(target=lambda: pytest.raises((ValueError, sf.CancelledError), next, it))
    taker.start()
    assert store.asked.wait(PATIENCE)
    began = time.monotonic()
    it.close()
    taker.join()
    assert time.monotonic() - began < SOON


def test_what_the_handler_of_a_signal_raises_is_raised(store):
    class Enough(Exception):
        pass

    def enough(*_):
        raise Enough

    store.silent = ("",)
    previous = signal.signal(signal.SIGINT, enough)
    try:
        with pytest.raises(Enough):
            with pytest.raises(KeyboardInterrupt), interrupted(store):
                sf.read(DATASET)
    finally:
        signal.signal(signal.SIGINT, previous)
