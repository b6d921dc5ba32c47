"""Runs the tests of this folder against servers that others wrote; scripts/stores builds first.

    run.py [radosgw] [nginx]        by default, both"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import servers_of_others as servers

HERE = pathlib.Path(__file__).resolve().parent


def count(results):
    passed = failed = 0
    for case in ElementTree.parse(results).iter("testcase"):
        outcomes = {child.tag for child in case}
        failed += bool(outcomes & {"failure", "error"})
        passed += not outcomes
    return passed, failed


def tests(name, folder, variables):
    """(passed, failed) of the tests of this server."""
    results = folder / f"{name}.xml"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / f"{name}_test.py",
                           f"--junitxml={results}"], env={**os.environ, **variables})
    if not results.exists():
        return 0, 1
    passed, failed = count(results)
    return passed, failed or int(done.returncode != 0)


def radosgw(cache, folder):
    with servers.radosgw(cache, folder) as url:
        return tests("radosgw", folder, {"SHARDFEED_STORE": url, "SHARDFEED_STORE_KEY": servers.KEY,
                                         "SHARDFEED_STORE_SECRET": servers.SECRET})


def nginx(cache, folder):
    servers.unpack(servers.NGINX, cache)
    return tests("nginx", folder, {"SHARDFEED_STORES_CACHE": str(cache)})


SERVERS = {"radosgw": radosgw, "nginx": nginx}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=", ".join(SERVERS))
    chosen = parser.parse_args().servers or list(SERVERS)
    for name in chosen:
        if name not in SERVERS:
            sys.exit(f"stores: there is no server {name}; there are: {', '.join(SERVERS)}")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "shardfeed/stores"
    cache.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for name in chosen:
        print(f"\n== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"shardfeed-{name}-") as folder:
            try:
                some = SERVERS[name](cache, pathlib.Path(folder))
            except servers.CannotRun as e:
                print(f"stores: {name}: {e}", file=sys.stderr)
                some = (0, 1)
        passed, failed = passed + some[0], failed + some[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
