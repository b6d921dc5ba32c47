"""scripts/setup and scripts/demo are not silent for long."""

import re
import subprocess

from harness import REPOSITORY


def bash(code, **environment):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", **environment}, timeout=60)


PATIENTLY = re.search(r"(?ms)^patiently\(\) \{.*?^\}\n", (REPOSITORY / "scripts/setup").read_text())[0]


def test_long_silence_is_broken_every_few_seconds():
    done = bash(PATIENTLY + "patiently 'installing packages' sleep 2.5; echo done", SETUP_TICK="0.5")
    *ticks, last = done.stdout.splitlines()
    assert done.returncode == 0 and last == "done" and not done.stderr
    assert 2 <= len(ticks) <= 5
    assert all(re.fullmatch(r"   installing packages: [0-3] s so far", tick) for tick in ticks), ticks


def test_short_work_says_nothing_and_its_status_stays():
    done = bash(PATIENTLY + "patiently x true && patiently x bash -c 'exit 7' || echo status $?")
    assert (done.stdout, done.stderr) == ("status 7\n", "")


def test_the_demo_shows_the_progress_of_its_build():
    code = (REPOSITORY / "scripts/demo").read_text()
    build, = re.findall(r"bazel build [^|\n]*", code)
    assert "noshow_progress" not in build and '"${progress[@]}"' in build
    assert "--show_progress_rate_limit=10" in code
