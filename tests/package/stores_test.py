"""Datasets in stores, over HTTP from a server that fails on demand (tests/net)."""

import gzip
import itertools
import os
import shutil
import sys
import zlib

import numpy as np
import pytest
from harness import DEFECTS, DONE, IO_FAILED, REPOSITORY, USAGE, run, served, succeed
from servers import forget_credentials

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

RECORDS = 3000


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of this machine's own credentials, and little patience."""
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "20")


def write(spec, records=RECORDS, **options):
    rng = np.random.default_rng(0)
    with sf.write(str(spec), **options) as writer:
        for n in range(records):
            writer.write({"n": n, "x": rng.normal(size=int(rng.integers(1, 60))).astype(np.float32)})


def compress_as_others(root, stem, name, compress):
    """Compresses each shard as one stream, as TensorFlow does."""
    shards = sorted(root.glob(f"{stem}-*"))
    for n, shard in enumerate(shards):
        (root / f"{name}-{n:05}-of-{len(shards):05}").write_bytes(compress(shard.read_bytes()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    write(root / "raw@4")
    write(root / "gzip@3.tfrecord.gz", compression="gzip")
    return root


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """60 MB, raw and compressed in each way: of several restart points and ranges."""
    root = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, size=1 << 20, dtype=np.uint8).tobytes()
    for name, options in (("raw@2", {}), ("own@2", {"compression": "gzip"})):
        with sf.write(str(root / name), **options) as writer:
            for n in range(RECORDS):
                at = n * 7919 % (1 << 19)
                writer.write({"n": n, "x": noise[at:at + 20_000 + n % 100] + b"%06d" % n * 50})
    compress_as_others(root, "raw", "gz", lambda data: gzip.compress(data, 1))
    compress_as_others(root, "raw", "zlib", lambda data: zlib.compress(data, 1))
    for name in ("gz@2", "zlib@2"):
        succeed("index", root / name)
    return root


LARGE = ["raw@2", "own@2", "gz@2", "zlib@2"]
BUDGET = ["--budget", "600MiB"]
ORDER_FLAGS = {
    "sequential": [],
    "interleave": ["--order", "interleave", "--cycle", "2", "--block", "3"],
    "shuffle": ["--shuffle", "3", "--window", "16MiB", "--lanes", "4"],
    # Each record is inflated from the restart point before it.
    "exact": ["--shuffle", "3", "--window", "all", "--records", "100-299"],
    "rank": ["--shuffle", "3", "--window", "16MiB", "--lanes", "4", "--rank", "1", "--world", "3"],
}


@pytest.fixture(scope="module")
def url(folder):
    with served(folder) as found:
        yield found


def numbers(ds):
    return [int(n) for batch in ds.parse({"n": sf.int64}).batch(100) for n in batch["n"]]


SPECS = ["raw@4", "gzip@3.tfrecord.gz"]
ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(cycle=3, block=5),
    "shuffle": lambda ds: ds.shuffle(seed=3),
    "exact shuffle": lambda ds: ds.shuffle(seed=3, window=None),
    "rank": lambda ds: ds.shuffle(seed=3).shard(1, 3),
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_read_is_what_is_read_locally(folder, url, spec, order):
    read = ORDERS[order]
    assert numbers(read(sf.read(f"{url}/{spec}"))) == numbers(read(sf.read(str(folder / spec))))


def test_records_by_number_and_lengths(folder, url):
    for spec in SPECS:
        remote, local = (sf.read(place).parse() for place in (f"{url}/{spec}", str(folder / spec)))
        assert len(remote) == len(local) == RECORDS
        for number in (0, 7, 1500, RECORDS - 1):
            assert remote[number]["n"] == local[number]["n"]
        assert [row["n"] for row in remote[[5, 2000, 6]]] == [row["n"] for row in local[[5, 2000, 6]]]


LARGE_ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(cycle=2, block=3),
    "shuffle": lambda ds: ds.shuffle(seed=3, window=800, lanes=4),
    "exact shuffle": lambda ds: ds.shuffle(seed=3, window=None),
    "rank": lambda ds: ds.shuffle(seed=3, window=800, lanes=4).shard(1, 3),
}


@pytest.mark.parametrize("spec", LARGE)
@pytest.mark.parametrize("order", LARGE_ORDERS)
def test_large_shards_in_every_order(large, spec, order):
    """Raw or compressed, in the same order: over a server that fails now and then, too."""
    def rows(place):
        chain = LARGE_ORDERS[order](sf.read(place)).parse({"n": sf.int64, "x": sf.bytes}).batch(100)
        some = itertools.islice(chain, 1 if order == "exact shuffle" else None)
        return [(int(n), hash(x)) for batch in some for n, x in zip(batch["n"], batch["x"])]
    expected = rows(str(large / spec))
    for fault in ((), ("503", 5), ("short", 7)):
        with served(large, *fault) as place:
            assert rows(f"{place}/{spec}") == expected


@pytest.mark.parametrize("spec", LARGE)
def test_large_shards_by_number(large, spec):
    with served(large) as place:
        remote, local = (sf.read(p).parse() for p in (f"{place}/{spec}", str(large / spec)))
        for rows in ([0], [RECORDS - 1], [5, 2000, 6, 900, 7], list(range(0, RECORDS, 97))):
            assert [(row["n"], row["x"]) for row in remote[rows]] == \
                [(row["n"], row["x"]) for row in local[rows]]


@pytest.mark.parametrize("spec", LARGE)
@pytest.mark.parametrize("order", ORDER_FLAGS)
def test_the_plan_tells_the_requests(large, spec, order):
    """What is planned is what is read; in order, it is ranges of 8 MiB."""
    with served(large) as place:
        arguments = [f"{place}/{spec}", *ORDER_FLAGS[order], *BUDGET, "--json"]
        plan = succeed("plan", *arguments, "--price", "2").json["store"]
        bench = succeed("bench", *arguments).json
        assert not plan["estimated"]
        assert (plan["requests"], plan["bytes"]) == (bench["reads"], bench["bytes_read"])
        assert plan["price"] == pytest.approx(plan["requests"] / 1000 * 2)
        assert bench["store"]["requests"] >= bench["reads"]
        assert bench["store"]["bytes_moved"] >= bench["store"]["bytes_wanted"] >= bench["bytes_read"]
        size = sum(f.stat().st_size for f in large.glob(spec.split("@")[0] + "-*"))
        if order == "sequential":
            assert bench["reads"] <= max(1.1 * size / (8 << 20), 8)
            assert bench["bytes_read"] <= 1.02 * size
        if order == "interleave":
            assert bench["bytes_read"] <= 1.02 * size


def test_the_plan_tells_of_larger_chunks(large):
    with served(large) as place:
        arguments = [f"{place}/raw@2", "--shuffle", "--window", "32MiB", "--lanes", "4", *BUDGET]
        plan = succeed("plan", *arguments, "--json").json["store"]
        assert 2 * plan["requests_with_chunks_of_8MiB"] <= plan["requests"]
        assert 1 <= plan["lanes_with_chunks_of_8MiB"] <= 4
        out = succeed("plan", *arguments).out.decode()
        assert "for an epoch of this rank, by $0.0004 for 1,000 requests (--price)" in out
        assert f"note: --chunk 8MiB --lanes {plan['lanes_with_chunks_of_8MiB']} takes " in out
        again = succeed("plan", *arguments, "--chunk", "8MiB", "--json").json["store"]
        assert "requests_with_chunks_of_8MiB" not in again
        assert "store" not in succeed("plan", large / "raw@2", "--shuffle", "--json").json


def test_chains_tell_what_they_asked_of_the_store(url):
    it = iter(sf.read(f"{url}/raw@4").parse({"n": sf.int64}).batch(100))
    for _ in it:
        pass
    store = it.stats()["store"]
    assert store["requests"] >= 4 and store["bytes_moved"] > 0 and store["bytes_wanted"] > 0
    assert {"retries", "throttled", "hedges", "hedges_won"} < store.keys()


def test_states_are_those_of_local_runs(folder, url):
    def chain(place):
        return sf.read(place).shuffle(seed=1).parse({"n": sf.int64}).batch(50)
    whole = [batch["n"].tolist() for batch in chain(str(folder / "raw@4"))]
    it = iter(chain(f"{url}/raw@4"))
    for expected in whole[:10]:
        assert next(it)["n"].tolist() == expected
    local = iter(chain(str(folder / "raw@4")))
    local.load_state_dict(it.state_dict())
    assert [batch["n"].tolist() for batch in local] == whole[10:]
    it.load_state_dict(it.state_dict())
    assert [batch["n"].tolist() for batch in it] == whole[10:]


def test_a_child_after_fork_reads(url):
    ds = sf.read(f"{url}/raw@4").parse({"n": sf.int64}).batch(100)
    expected = [batch["n"].tolist() for batch in ds]
    child = os.fork()
    if child == 0:
        again = [batch["n"].tolist() for batch in ds]
        os._exit(0 if again == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [batch["n"].tolist() for batch in ds] == expected


def test_the_programs_commands(folder, url):
    for spec in SPECS:
        there, here = f"{url}/{spec}", folder / spec
        assert succeed("cat", there, "--format", "payload").out == \
            succeed("cat", here, "--format", "payload").out
        assert succeed("cat", there, "--records", "7,100-110").out == \
            succeed("cat", here, "--records", "7,100-110").out
        assert succeed("verify", there, "--json").json["records"] == RECORDS
        assert succeed("verify", there, "--level", "examples").out.endswith(b"all intact and as in the manifest\n")
        assert succeed("inspect", there, "--json").json["records"] == RECORDS
        plan = succeed("plan", there, "--shuffle", *BUDGET, "--json").json
        assert plan.pop("store")["requests"] > 0
        assert plan == succeed("plan", here, "--shuffle", *BUDGET, "--json").json
        assert b"in a store" in succeed("bench", there).out
    assert succeed("cat", f"{url}/raw-00001-of-00004").out == \
        succeed("cat", folder / "raw-00001-of-00004").out


def test_shards_here_and_there_in_one_order(folder, url):
    mixed = [str(folder / "gzip@3.tfrecord.gz"), f"{url}/raw@4"]
    local = [str(folder / "gzip@3.tfrecord.gz"), str(folder / "raw@4")]
    for order in (lambda ds: ds, lambda ds: ds.shuffle(seed=3)):
        assert numbers(order(sf.read(mixed))) == numbers(order(sf.read(local)))


def test_reshard_takes_what_is_in_a_store(url, tmp_path):
    for spec in SPECS:
        stem = spec.split("@")[0]
        succeed("reshard", f"{url}/{spec}", tmp_path / f"{stem}@2")
        assert sorted(numbers(sf.read(str(tmp_path / f"{stem}@2")))) == list(range(RECORDS))


def test_http_servers_are_only_read(url, tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    for arguments in (["convert", "csv", tmp_path / "a.csv", f"{url}/out@2"],
                      ["reshard", f"{url}/raw@4", f"{url}/out@2"], ["repair", f"{url}/raw@4", f"{url}/out@2"],
                      ["index", f"{url}/raw@4"], ["clean", f"{url}/raw"]):
        result = run(*arguments)
        assert result.status == USAGE, arguments
        assert "HTTP servers are only read; write to a path, s3://, gs://, az:// or abfss://" in result.err, result.err
    with pytest.raises(ValueError, match="HTTP servers are only read"):
        with sf.write(f"{url}/out@2") as writer:
            writer.write({"a": 1})


# ---- Faults


PASSING = [("503", 5), ("retry-after", 60), ("reset", 5), ("short", 3), ("delay-50", 2), ("status-500", 4)]


@pytest.mark.parametrize("fault, every", PASSING)
@pytest.mark.parametrize("spec", SPECS)
def test_faults_that_pass_change_nothing(folder, spec, fault, every):
    with served(folder, fault, every) as place:
        assert numbers(sf.read(f"{place}/{spec}").shuffle(seed=3)) == \
            numbers(sf.read(str(folder / spec)).shuffle(seed=3))
        assert sf.verify(f"{place}/{spec}")
        assert succeed("cat", f"{place}/{spec}", "--format", "payload").out == \
            succeed("cat", folder / spec, "--format", "payload").out


def test_a_stall_passes(folder):
    with served(folder, "stall", 40) as place:
        assert numbers(sf.read(f"{place}/raw@4")) == numbers(sf.read(str(folder / "raw@4")))


STAYING = {
    "status-403": (OSError, "the server does not allow it"),
    "status-404": (FileNotFoundError, "no such object"),
    "status-412": (OSError, "the object was replaced since the dataset was opened; open it again"),
    "ignore-range": (RuntimeError, "does not serve parts of objects: it answered 200 to a range"),
    "503": (OSError, "the server answered 503 .the last of "),
}


@pytest.mark.parametrize("fault", STAYING)
def test_faults_that_stay_are_named(folder, fault, monkeypatch):
    monkeypatch.setenv("SHARDFEED_NET_SECONDS", "1")
    error, message = STAYING[fault]
    with served(folder, fault) as place:
        with pytest.raises(error, match=message) as raised:
            numbers(sf.read(f"{place}/raw@4"))
        # The index pack is read first, then the shards.
        assert any(f"{place}/{name}" in str(raised.value) for name in ("raw-0000", ".shardfeed/raw.indexes"))
        report = run("verify", f"{place}/raw@4")
        assert report.status in (DEFECTS, IO_FAILED)
        assert "intact" not in report.out.decode()


def test_a_shard_that_is_replaced_is_never_mixed(tmp_path):
    write(tmp_path / "a@1")
    with served(tmp_path) as place:
        ds = sf.read(f"{place}/a@1").parse({"n": sf.int64}).batch(10)
        it = iter(ds)
        assert next(it)["n"].tolist() == list(range(10))
        shutil.rmtree(tmp_path / ".shardfeed")
        (tmp_path / "a-00000-of-00001").unlink()
        write(tmp_path / "a@1", 100)
        with pytest.raises(OSError, match="replaced since|open it again"):
            list(ds)


def test_damage_is_found_as_it_is_locally(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "d")
    shard = tmp_path / "d/raw-00002-of-00004"
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(data)
    with served(tmp_path / "d") as place:
        there = run("verify", f"{place}/raw@4", "--json")
        here = run("verify", tmp_path / "d/raw@4", "--json")
        assert there.status == here.status == DEFECTS
        assert [d["offset"] for d in there.json["defects"]] == [d["offset"] for d in here.json["defects"]]
        with pytest.raises(Exception, match="raw-00002-of-00004.*record"):
            numbers(sf.read(f"{place}/raw@4"))
        lost = set(range(RECORDS)) - set(numbers(sf.read(f"{place}/raw@4", skip_damaged=True)))
        assert lost == set(range(RECORDS)) - set(
            numbers(sf.read(str(tmp_path / "d/raw@4"), skip_damaged=True)))
        assert len(lost) == 1


def test_without_indexes_and_manifest(folder, tmp_path):
    for spec in SPECS:
        stem = spec.split("@")[0]
        for file in folder.glob(f"{stem}-*"):
            shutil.copy(file, tmp_path)
    with served(tmp_path) as place:
        for spec in SPECS:
            for order in (lambda ds: ds, lambda ds: ds.shuffle(seed=3)):
                assert numbers(order(sf.read(f"{place}/{spec}"))) == \
                    numbers(order(sf.read(str(folder / spec))))
        assert "how many shards" in run("verify", f"{place}/raw@*").err
        assert "cannot be listed" in run("verify", f"{place}/").err


def test_a_window_that_does_not_fit_is_not_read_record_by_record(url):
    result = run("bench", f"{url}/raw@4", "--shuffle", "--budget", "1MiB")
    assert result.status != DONE
    assert "use a larger budget or a smaller window" in result.err
    with pytest.raises(RuntimeError, match="use a larger budget or a smaller window"):
        numbers(sf.read(f"{url}/raw@4", budget_bytes=1 << 20).shuffle(seed=1))


def test_the_program_tells_what_was_repeated(folder):
    with served(folder, "503", 3) as place:
        out = succeed("bench", f"{place}/raw@4").out.decode()
        assert "store: " in out and " 0 repeated" not in out


def test_names_that_cannot_be(url):
    for name, message in [
            ("ftp://bucket/a@2", "ftp:// is not supported; datasets are read from paths, s3://, gs://, az://, abfss://, http:// and"),
            ("http:///a@2", "the name of the host is missing"),
            ("s3:///a@2", "the name of the bucket is missing"),
            ("http://user:secret@host/a@2", "must not contain a password"),
            (f"{url}/nothing", "no such object"),
            (f"{url}/raw@0", "the number of shards must be at least 1"),
            (f"{url}/nothing@2", "no such object")]:
        result = run("verify", name)
        assert result.status != DONE
        assert message in result.err + result.out.decode(), result
        assert "secret" not in result.err


def test_file_urls_are_paths(folder):
    assert succeed("verify", f"file://{folder}/raw@4").out.endswith(b"all intact and as in the manifest\n")
    assert numbers(sf.read(f"file://{folder}/raw@4")) == numbers(sf.read(f"{folder}/raw@4"))
