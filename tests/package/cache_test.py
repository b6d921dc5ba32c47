"""A cache on disk (read(cache=), --cache): what is read through it, how often the store is asked, and
what a kill or a failing disk leaves."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from harness import DONE, REPOSITORY, USAGE, command, fail, run, succeed
from servers import answering

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

BLOCK = 8 << 20
BLOCK_FILE = BLOCK + 4096
RECORDS = 1000
RECORD_BYTES = 40_000  # 5 blocks in 2 shards


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "30")
    # The tests count requests.
    monkeypatch.setenv("SHARDFEED_NET_HEDGED_PERCENT", "0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    with sf.write(str(root / "train@2")) as writer:
        for n in range(RECORDS):
            writer.write({"n": n, "x": rng.bytes(RECORD_BYTES)})
    return root


class Store:
    """Serves a folder, and counts what is asked of its shards."""

    def __init__(self, root, delay=0.0):
        self.root = root
        self.delay = delay
        self.lock = threading.Lock()
        self.forget()

    def forget(self):
        with self.lock:
            self.ranges = []

    def __call__(self, request, _body):
        path = self.root / request.path.lstrip("/")
        if not path.is_file():
            return 404, {}, b""
        size = path.stat().st_size
        tag = f'"{path.stat().st_mtime_ns}-{size}"'
        if request.headers.get("If-Match", tag) != tag:
            return 412, {}, b""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if match is None:
            headers = {"ETag": tag}
            if request.command == "HEAD":
                return 200, {**headers, "Content-Length": str(size)}, b""
            return 200, headers, path.read_bytes()
        first, last = int(match[1]), min(int(match[2]), size - 1)
        with self.lock:
            if "/.shardfeed/" not in request.path:  # the index pack is not cached
                self.ranges.append((request.path, first, last + 1))
        time.sleep(self.delay)
        with path.open("rb") as file:
            file.seek(first)
            body = file.read(last + 1 - first)
        return 206, {"ETag": tag, "Content-Range": f"bytes {first}-{last}/{size}"}, body

    @property
    def moved(self):
        with self.lock:
            return sum(end - first for _, first, end in self.ranges)


@pytest.fixture
def store(folder):
    return Store(folder)


@pytest.fixture
def url(store):
    with answering(store) as found:
        yield found + "/train@2"


@pytest.fixture(scope="module")
def shard_bytes(folder):
    return sum(p.stat().st_size for p in folder.glob("train-*"))


def blocks(cache):
    return [p for p in cache.glob("*/*") if p.is_file()]


def digest(ds):
    return [(int(n), bytes(x)) for batch in ds.parse({"n": sf.int64, "x": sf.bytes}).batch(50)
            for n, x in zip(batch["n"], batch["x"])]


ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(cycle=2, block=5),
    "shuffle": lambda ds: ds.shuffle(seed=3),
    "small chunks": lambda ds: ds.shuffle(seed=3, chunk=3),
    "exact shuffle": lambda ds: ds.shuffle(seed=3, window=None),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_second_epoch_asks_for_nothing(folder, store, url, tmp_path, shard_bytes, order):
    ordered = ORDERS[order]
    local = digest(ordered(sf.read(str(folder / "train@2"))))
    before = sf.cache_stats()
    assert digest(ordered(sf.read(url, cache=tmp_path / "c"))) == local
    assert store.moved == shard_bytes
    assert len(store.ranges) == len(blocks(tmp_path / "c"))
    store.forget()
    assert digest(ordered(sf.read(url, cache=str(tmp_path / "c")))) == local
    assert store.ranges == []
    after = sf.cache_stats()
    assert after["stored_bytes"] - before["stored_bytes"] == shard_bytes
    assert after["hit_bytes"] > before["hit_bytes"]
    assert after["trouble"] == ""


def test_data_counts_as_cached_if_all_of_it_is(url, tmp_path):
    """Reads of a disk's size would fetch what is missing too slowly."""
    def reason():
        return run("bench", url, "--cache", tmp_path / "c", "--json").json["io_reason"]
    assert reason() == "the data is in a store"
    assert reason() == "the data is in the cache on disk"
    blocks(tmp_path / "c")[1].unlink()
    assert reason() == "the data is in a store"


def test_a_share_of_the_data_saves_that_share(folder, store, url, tmp_path, shard_bytes):
    kept = 2
    chain = sf.read(url, cache=tmp_path / "c", cache_size=kept * BLOCK_FILE).shuffle(seed=1)
    local = digest(sf.read(str(folder / "train@2")).shuffle(seed=1))
    assert digest(chain) == local
    for _ in range(2):
        store.forget()
        digest(chain)
        held = sum(p.stat().st_size - 4096 for p in blocks(tmp_path / "c"))
        assert held > (kept - 1) * BLOCK
        # What is asked for beyond that is what lies between records that are read together.
        assert store.moved <= 1.02 * (shard_bytes - held)


def test_states_and_fingerprints_do_not_depend_on_it(folder, url, tmp_path):
    def chain(place, **options):
        return sf.read(place, **options).shuffle(seed=1).parse({"n": sf.int64}).batch(50)
    plain = chain(str(folder / "train@2"))
    cached = chain(url, cache=tmp_path / "c", cache_size="1GiB")
    assert plain._core.fingerprint() == cached._core.fingerprint()
    whole = [batch["n"].tolist() for batch in plain]
    it = iter(cached)
    for expected in whole[:7]:
        assert next(it)["n"].tolist() == expected
    local = iter(chain(str(folder / "train@2")))
    local.load_state_dict(it.state_dict())
    assert [batch["n"].tolist() for batch in local] == whole[7:]


def test_local_data_is_not_kept(folder, tmp_path):
    assert len(digest(sf.read(str(folder / "train@2"), cache=tmp_path / "c"))) == RECORDS
    assert not (tmp_path / "c").exists()


def test_wrong_arguments(url, tmp_path):
    with pytest.raises(ValueError, match="cache_size: there is no cache"):
        sf.read(url, cache_size=1 << 30)
    with pytest.raises(ValueError, match="cache: expected a folder"):
        sf.read(url, cache="")
    for size in ("", "x", "-1GB", "1PB", "1 G iB", "1e9"):
        with pytest.raises(ValueError, match="cache_size must be a number of bytes or a size"):
            sf.read(url, cache=tmp_path / "c", cache_size=size)
    with pytest.raises(ValueError, match="cache_size"):
        sf.read(url, cache=tmp_path / "c", cache_size=0)
    with pytest.raises(TypeError, match="cache"):
        sf.read(url, cache=7)
    (tmp_path / "file").write_text("x")
    for cache, size, said in [(tmp_path / "file", None, "a cache is a folder, not a file"),
                              (tmp_path, None, "not a cache of shardfeed, and not empty"),
                              (tmp_path / "c", 1 << 20, "has no room for a block")]:
        with pytest.raises(ValueError, match=said):
            len(sf.read(url, cache=cache, cache_size=size))


def test_sizes():
    from shardfeed.sources import size_of
    assert [size_of("s", text) for text in (7, "7", "7B", "1K", "1KiB", "1KB", "1.5 GiB", "200GB")] == [
        7, 7, 7, 1024, 1024, 1000, 3 << 29, 200 * 10 ** 9]


READ = """
import sys, zlib
sys.path.insert(0, {package!r})
import shardfeed as sf
crc = 0
for batch in sf.read({url!r}, cache={cache!r}).parse({{"x": sf.bytes}}).batch(50):
    for x in batch["x"]:
        crc = zlib.crc32(bytes(x), crc)
print(crc, sf.cache_stats()["waits"])
"""


def test_processes_fetch_each_block_once(folder, store, url, tmp_path, shard_bytes):
    store.delay = 0.3
    code = READ.format(package=str(REPOSITORY / "python"), url=url, cache=str(tmp_path / "c"))
    readers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
               for _ in range(3)]
    results = [reader.communicate(timeout=120)[0].split() for reader in readers]
    assert len({crc for crc, _ in results}) == 1
    assert store.moved == shard_bytes
    assert len(store.ranges) == len({first for first in store.ranges})
    assert sum(int(waits) for _, waits in results) > 0


def test_killed_at_any_time_leaves_what_later_readers_use(folder, store, url, tmp_path):
    """Beside the kills at each call below: while the store answers."""
    cache = tmp_path / "c"
    expected = succeed("cat", str(folder / "train@2"), "--format", "payload").out
    store.delay = 0.05
    rng = np.random.default_rng(1)
    for _ in range(6):
        with subprocess.Popen(command("cat", url, "--format", "payload", "--cache", cache),
                              stdout=subprocess.DEVNULL) as reader:
            time.sleep(float(rng.uniform(0.02, 0.6)))
            reader.kill()
    store.delay = 0
    assert succeed("cat", url, "--format", "payload", "--cache", cache).out == expected
    assert all(p.suffix != ".tmp" for p in blocks(cache))
    store.forget()
    assert succeed("cat", url, "--format", "payload", "--cache", cache).out == expected
    assert store.ranges == []


def test_every_call_on_the_cache_fails_or_is_the_last(folder, url, tmp_path, faults):
    """The reader gets its records whatever the disk does; after a kill, the next one does."""
    cache = tmp_path / "c"
    arguments = ["cat", url, "--format", "payload", "--records", "0-99", "--cache", cache]
    expected = succeed("cat", str(folder / "train@2"), *arguments[2:6]).out
    surroundings = {**os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(cache),
                    "FAULTS_CALLS": "all"}

    def reader(**more):
        return run(*arguments, env={**surroundings, **more})

    def clean():
        subprocess.run(["rm", "-rf", str(cache)], check=True)

    # Filling it, and reading from it.
    for filled in (False, True):
        clean()
        if filled:
            succeed(*arguments)
        counted = reader(COUNT_TO=str(tmp_path / "calls"))
        assert counted.status == DONE and counted.out == expected
        calls = (tmp_path / "calls").read_text().split()
        assert ("rename" in calls) != filled
        opened = calls.index("pread64" if "pread64" in calls else "pread")
        for number, call in enumerate(calls, 1):
            for fault in (errno.EIO, errno.ENOSPC, "kill"):
                if fault == errno.ENOSPC and call not in ("mkdir", "open", "pwrite", "rename"):
                    continue
                # Most of the calls read blocks, and one is like the other.
                if call.startswith(("pread", "close")) and number > opened + 20:
                    continue
                if not filled:
                    clean()
                more = {"KILL_AT": str(number)} if fault == "kill" else {
                    "FAIL_AT": str(number), "FAIL_WITH": str(fault)}
                done = reader(**more)
                if fault == "kill":
                    assert done.status in (-signal.SIGKILL, DONE), (number, call)
                elif number <= opened + 2 and done.status != DONE:
                    # The cache cannot be opened: the user named it, and is told.
                    assert str(cache) in done.err, (number, call, fault, done.err)
                else:
                    assert done.status == DONE, (number, call, fault, done.err)
                    assert done.out == expected, (number, call, fault)
                again = run(*arguments)
                assert again.status == DONE and again.out == expected, (number, call, fault,
                                                                       again.err)


def test_trouble_is_told_once(folder, url, tmp_path, faults):
    code = READ.format(package=str(REPOSITORY / "python"), url=url, cache=str(tmp_path / "c"))
    env = {**os.environ, "LD_PRELOAD": str(faults), "FAULTS_UNDER": str(tmp_path / "c"),
           "FAIL_CALL": "rename", "FAIL_WITH": str(errno.ENOSPC)}
    told = []
    for at in range(1, 40):
        done = subprocess.run([sys.executable, "-c", code], env={**env, "FAIL_AT": str(at)},
                              capture_output=True, text=True, check=True)
        subprocess.run(["rm", "-rf", str(tmp_path / "c")], check=True)
        if "RuntimeWarning" in done.stderr:
            told = done.stderr
            break
    assert told.count("the cache was not used for everything") == 1
    assert "cannot rename" in told


def test_a_file_system_without_room_is_told(url, tmp_path):
    code = READ.format(package=str(REPOSITORY / "python"), url=url, cache=str(tmp_path / "c"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "SHARDFEED_CACHE_RESERVE": str(2**63)})
    assert done.stderr.count("the cache was not used for everything") == 1
    assert f"of which a cache leaves {2**63}" in done.stderr
    assert not blocks(tmp_path / "c")


def test_damaged_files_are_fetched_anew(folder, store, url, tmp_path):
    cache = tmp_path / "c"
    first = digest(sf.read(url, cache=cache))
    found = sorted(blocks(cache))
    with found[0].open("r+b") as file:
        file.seek(3_000_000)
        byte = file.read(1)
        file.seek(3_000_000)
        file.write(bytes([byte[0] ^ 1]))
    os.truncate(found[1], 5000)
    os.truncate(found[2], 0)
    assert digest(sf.read(url, cache=cache)) == first
    assert digest(sf.read(url, cache=cache)) == first
    store.forget()
    assert digest(sf.read(url, cache=cache)) == first
    assert store.ranges == []


def test_the_command(folder, store, url, tmp_path, shard_bytes):
    cache = tmp_path / "c"
    bench = succeed("bench", url, "--cache", cache, "--cache-size", "1GiB", "--json").json
    assert bench["cache_stored_bytes"] == shard_bytes
    again = succeed("bench", url, "--cache", tmp_path / "other", "--epochs", "2").out.decode()
    saved, read, _, fetched = re.search(
        r"cache: saved (\S+ MiB): (\S+ MiB) read from it in (\S+) reads, (\S+ MiB) fetched into it",
        again).groups()
    assert saved == fetched == f"{shard_bytes / 2**20:.0f} MiB" and read == f"{shard_bytes / 2**19:.0f} MiB"
    bench = succeed("bench", url, "--cache", cache, "--json", "--epochs", "2").json
    assert bench["cache_hit_bytes"] == 2 * shard_bytes and bench["cache_misses"] == 0
    assert f"cache: saved {shard_bytes / 2**20:.0f} MiB" in succeed("bench", url, "--cache", cache).out.decode()
    for name in (["verify", url], ["inspect", url, "--records", "2"], ["plan", url]):
        store.forget()
        succeed(*name, "--cache", cache)
        assert store.moved < 1 << 20
    listing = succeed("cache", "ls", cache, "--json").json
    dataset = next(d for d in listing["datasets"] if d["dataset"].endswith("/train"))
    assert not dataset["in_use"]
    shards = [o for o in dataset["objects"] if o["object_bytes"] > BLOCK]
    assert sum(o["object_bytes"] for o in shards) == shard_bytes
    assert listing["bytes"] >= shard_bytes
    text = succeed("cache", "ls", cache, "--objects").out.decode()
    assert "train-00000-of-00002" in text and "in all" in text
    assert succeed("cache", "trim", cache, "--cache-size", "20MB", "--json").json["bytes"] <= 20e6
    assert "removed" in succeed("cache", "clear", cache).out.decode()
    assert succeed("cache", "ls", cache, "--json").json["bytes"] == 0
    assert blocks(cache) == []


def test_wrong_use_of_the_command(url, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/y").write_text("z")
    for name in ("ls", "clear"):
        assert "not a cache of shardfeed" in fail(USAGE + 1, "cache", name, tmp_path / "x")
    assert (tmp_path / "x/y").exists()
    assert "expected a size" in fail(USAGE, "cache", "trim", tmp_path, "--cache-size", "x")
    assert "there is no cache" in fail(USAGE, "bench", url, "--cache-size", "1GB")
    assert "expected a size" in fail(USAGE, "bench", url, "--cache", tmp_path / "c",
                                     "--cache-size", "x")
    assert "not empty" in fail(USAGE, "bench", url, "--cache", tmp_path / "x")
