"""What runs tell about themselves: numbers to be logged, OpenMetrics over HTTP, and `shardfeed top`."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from harness import BINARY, IO_FAILED, USAGE
from package_data import dataset, parsed, sf  # noqa: F401


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def address():
    return f"127.0.0.1:{free_port()}"


def fetch(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        return answer.read().decode()


_SAMPLE = re.compile(r'(shardfeed_[a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? (\S+)')


def samples(text):
    """The samples of a text, by name and labels, after a check of what OpenMetrics demands."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found, families, family = {}, set(), None
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in families and kind in ("counter", "gauge", "info")
            families.add(family)
        elif line.startswith("# UNIT "):
            assert line.split(" ")[2] == family and family.endswith("_" + line.split(" ")[3])
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == family
        else:
            name, labels, value = _SAMPLE.fullmatch(line).groups()
            assert name == family + {"counter": "_total", "gauge": "", "info": "_info"}[kind]
            key = name, tuple(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', labels or ""))
            assert key not in found
            found[key] = float(value)
    return found


def test_metrics_are_served_while_runs_last(parsed, address):  # noqa: F811
    ds = parsed.map(lambda row: {"n": row["n"]}).batch(100)
    with ds.start(metrics=address) as it:
        for _ in range(3):
            next(it)
        found = samples(fetch(address))
        assert found["shardfeed_rows_total", (("run", "0"),)] == 300
        assert found["shardfeed_elements_total", (("run", "0"),)] == 3
        stats = it.stats()
        stages = {dict(labels)["stage"] for name, labels in found if name == "shardfeed_stage_threads"}
        assert stages == {stage["name"] for stage in stats["stages"]}
        limit, = (dict(labels)["limit"] for name, labels in found if name == "shardfeed_limit_info")
        assert limit
        with ds.with_options(metrics=address).start() as other:
            next(other)
            assert samples(fetch(address))["shardfeed_rows_total", (("run", "1"),)] == 100
    assert samples(fetch(address)) == {}
    with iter(ds.with_options(metrics=address)) as it:  # takes the number that is free
        assert samples(fetch(address))["shardfeed_rows_total", (("run", "0"),)] == 0


def test_prometheus_parses_the_metrics(parsed, address):  # noqa: F811
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus_client is not installed")
    with parsed.batch(100).start(metrics=address) as it:
        next(it)
        families = list(parser.text_string_to_metric_families(fetch(address)))
    assert {"shardfeed_rows", "shardfeed_stage_busy_seconds", "shardfeed_limit"} <= {f.name for f in families}


def test_only_metrics_are_served(parsed, address):  # noqa: F811
    with parsed.start(metrics=address):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address, "/etc/passwd")
        assert fetch(address, "/metrics?x=1").endswith("# EOF\n")
        asked = urllib.request.Request(f"http://{address}/metrics", method="HEAD")
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status == 200 and answer.read() == b""


def test_wrong_addresses(parsed, address):  # noqa: F811
    for wrong in ("", "9400", "127.0.0.1", "127.0.0.1:", ":9400", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x",
                  "[::1:9485", "::1]:9485", "::1:9485", "[127.0.0.1]:9485", "[]:9485", "127.0.0.1:9485\n"):
        with pytest.raises(ValueError, match=r"metrics must be HOST:PORT, such as '127.0.0.1:9400' or '\[::1\]:9400', not"):
            parsed.with_options(metrics=wrong)
        with pytest.raises(ValueError, match="metrics must be HOST:PORT"):
            parsed.start(metrics=wrong)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"metrics: 127.0.0.1:{port}: Address already in use; each process takes a port"):
            parsed.start(metrics=f"127.0.0.1:{port}")


def test_names_of_one_address_are_served_together(parsed, address):  # noqa: F811
    port = address.rpartition(":")[2]
    with parsed.batch(100).start(metrics=address), parsed.batch(100).start(metrics=f"localhost:{port}"), \
            parsed.batch(100).start(metrics=f"127.1:{port}"):
        runs = {dict(labels)["run"] for name, labels in samples(fetch(address)) if name == "shardfeed_rows_total"}
        assert runs == {"0", "1", "2"}
        with pytest.raises(OSError, match=f"metrics: 0.0.0.0:{port}: Address already in use; this process serves its "
                                          f"metrics at 127.0.0.1:{port}, name that address"):
            parsed.start(metrics=f"0.0.0.0:{port}")
    with pytest.raises(OSError, match="metrics: nowhere.invalid:9400: "):
        parsed.start(metrics="nowhere.invalid:9400")


def test_children_after_fork_serve_their_own(parsed, address):  # noqa: F811
    other = f"127.0.0.1:{free_port()}"
    with parsed.batch(100).start(metrics=address) as it:
        next(it)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with parsed.batch(50).start(metrics=other) as mine:
                    next(mine)
                    status = 0 if samples(fetch(other))["shardfeed_rows_total", (("run", "0"),)] == 50 else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert samples(fetch(address))["shardfeed_rows_total", (("run", "0"),)] == 100


def test_scalars(parsed):  # noqa: F811
    with iter(parsed.batch(100)) as it:
        next(it)
        first = it.scalars()
        assert first["rows"] == 100 and first["damaged"] == first["ignored"] == 0
        assert first["rows_per_second"] > 0 and 0 <= first["wait"] <= 1.01
        names = {stage["name"] for stage in it.stats()["stages"]}
        assert {name.split("/")[0] for name in first if "/" in name} == names
        assert it.scalars()["rows_per_second"] == 0  # since the last call
        next(it)
        assert it.scalars()["rows"] == 200
    assert all(isinstance(value, float) for value in first.values())


# ---- shardfeed top

READER = """
import sys, time
import shardfeed as sf
ds = sf.read(sys.argv[1]).shard(int(sys.argv[2]), 2).parse().repeat().batch(10)
with iter(ds) as it:
    for _ in it:
        time.sleep(0.01)
"""


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDFEED_LIVE_DIR", str(tmp_path / "live"))


def top(*arguments):
    return subprocess.run([BINARY, "top", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def await_runs(count):
    while True:
        runs = json.loads(top("--json").stdout)["runs"]
        if len(runs) >= count:
            return runs
        time.sleep(0.1)


def test_top_shows_running_programs(dataset, live):  # noqa: F811
    result = top()
    assert (result.returncode, result.stdout) == (0, "no run on this machine has lasted for a second\n")
    python = os.path.dirname(os.path.dirname(sf.__file__))
    processes = [subprocess.Popen([sys.executable, "-c", READER, dataset, str(rank)],
                                  env={**os.environ, "PYTHONPATH": python}) for rank in range(2)]
    try:
        runs = await_runs(2)
        assert sorted(run["pid"] for run in runs) == sorted(p.pid for p in processes)
        assert sorted((run["rank"], run["world"]) for run in runs) == [(0, 2), (1, 2)]
        run = next(run for run in runs if run["pid"] == processes[1].pid)
        assert run["rank"] == 1 and run["all"]["rows"] > 0 and run["recent"]["rows"] > 0
        assert run["command"].startswith(sys.executable) and "parse" in run["chain"]
        table = top().stdout
        assert f"{processes[0].pid}" in table and "1 of 2" in table
        assert re.search(r"of 2 ranks of 2, rank [01] waits longest for its data: \d+ % of the time", table)
        one = top(processes[0].pid).stdout
        assert f"process {processes[0].pid}, run " in one and "rank 0 of 2, epoch 0" in one
        assert re.search(r"^parse\S* .* %", one, re.MULTILINE) and "limits" in one
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert top().stdout == "no run on this machine has lasted for a second\n"


def test_top_of_a_process_without_runs(live):
    result = top(os.getpid())
    assert result.returncode == IO_FAILED and re.fullmatch(
        rf"shardfeed: process {os.getpid()} has no run that has lasted for a second; .*\n", result.stderr)


def test_top_where_nothing_is_told(monkeypatch):
    monkeypatch.setenv("SHARDFEED_LIVE_DIR", "")
    result = top()
    assert result.returncode == USAGE and "SHARDFEED_LIVE_DIR is empty" in result.stderr
