"""Reading from nginx with latency, a bound on each connection, refusals and slow answers."""

import os
import pathlib
import re
import sys

import numpy as np
import pytest
from harness import REPOSITORY, succeed

sys.path.insert(0, str(REPOSITORY / "python"))
import servers_of_others as servers  # noqa: E402
import shardfeed as sf  # noqa: E402

CACHE = os.environ.get("SHARDFEED_STORES_CACHE", "")
pytestmark = pytest.mark.skipif(not CACHE, reason="run by scripts/stores")
RECORDS = 4000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    for spec, options in (("raw@8", {}), ("gzip@3.tfrecord.gz", {"compression": "gzip"})):
        with sf.write(str(root / spec), **options) as writer:
            for n in range(RECORDS):
                writer.write({"n": n, "x": rng.bytes(int(rng.integers(1, 60_000)))})
    return root


SETTINGS = {
    "latency": {"milliseconds": 75, "rate": "90m"},
    "refusals": {"milliseconds": 5, "refused": 0.05},
    "slow answers": {"milliseconds": 20, "slow": 0.05},
}


@pytest.fixture(scope="module", params=SETTINGS)
def url(request, folder, tmp_path_factory):
    with servers.nginx(pathlib.Path(CACHE), tmp_path_factory.mktemp("nginx"), folder,
                       **SETTINGS[request.param]) as found:
        yield found


ORDERS = {
    "sequential": lambda ds: ds,
    "interleave": lambda ds: ds.interleave(cycle=3, block=5),
    "shuffle": lambda ds: ds.shuffle(seed=3),
}


def numbers(ds):
    return [int(n) for batch in ds.parse({"n": sf.int64}).batch(100) for n in batch["n"]]


@pytest.mark.parametrize("spec", ["raw@8", "gzip@3.tfrecord.gz"])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_read_is_what_is_read_locally(folder, url, spec, order):
    read = ORDERS[order]
    assert numbers(read(sf.read(f"{url}/{spec}"))) == numbers(read(sf.read(str(folder / spec))))


def test_verify_and_bench(url):
    assert succeed("verify", f"{url}/raw@8").out.endswith(b"all intact and as in the manifest\n")
    said = succeed("bench", f"{url}/raw@8").out.decode()
    assert re.search(r"store: \d+ ", said), said
    print(said)
