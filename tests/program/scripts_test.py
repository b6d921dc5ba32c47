"""scripts/setup and scripts/demo are not silent for long; scripts/lint finds what has changed."""

import re
import subprocess

from harness import REPOSITORY


def bash(code, **environment):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", **environment}, timeout=60)


def function_of(script, name):
    return re.search(rf"(?ms)^{name}\(\) \{{.*?^\}}\n", (REPOSITORY / "scripts" / script).read_text())[0]


PATIENTLY = function_of("setup", "patiently")
CHANGED_FILES = function_of("lint", "changed_files")
GIT = "git -c user.name=x -c user.email=x@example.org -c init.defaultBranch=main -C"


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


def repository(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = bash(f"{GIT} {folder} init -q && {GIT} {folder} add . && {GIT} {folder} commit -q -m first")
    assert done.returncode == 0, done.stderr


def changed(folder):
    return bash(CHANGED_FILES + f"cd {folder} && changed_files")


def test_clang_tidy_checks_a_changed_header_with_a_file_that_includes_it(tmp_path):
    repository(tmp_path, {
        "io/a.h": "", "io/a.cc": "", "io/same.cc": "", "io/gone.cc": "",
        "io/b.h": "", "io/uses_b.cc": '#include "io/b.h"\n', "tests/b_test.cc": '#include "io/b.h"\n',
        "include/shardfeed/c.h": "", "io/uses_c.cc": '#include "shardfeed/c.h"\n',
        "io/unused.h": ""})
    for name in ("io/a.h", "io/b.h", "include/shardfeed/c.h", "io/unused.h"):
        (tmp_path / name).write_text("// changed\n")
    (tmp_path / "io/gone.cc").unlink()
    (tmp_path / "io/new.cc").write_text("")
    done = bash(f"{GIT} {tmp_path} add . && {GIT} {tmp_path} commit -q -m second")
    assert done.returncode == 0, done.stderr
    done = changed(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["io/a.cc", "io/new.cc", "io/uses_b.cc", "io/uses_c.cc"]


def test_clang_tidy_checks_what_differs_from_origin_main(tmp_path):
    repository(tmp_path, {"a.cc": "", "b.cc": ""})
    code = f"{GIT} {tmp_path} update-ref refs/remotes/origin/main HEAD"
    for name in ("a.cc", "b.cc"):
        (tmp_path / name).write_text("// changed\n")
        code += f"; {GIT} {tmp_path} commit -q -m {name} {name}"
    assert bash(code).returncode == 0
    assert changed(tmp_path).stdout.split() == ["a.cc", "b.cc"]
    # On main itself, the last commit counts.
    assert bash(f"{GIT} {tmp_path} update-ref refs/remotes/origin/main HEAD").returncode == 0
    assert changed(tmp_path).stdout.split() == ["b.cc"]


def test_lint_says_that_without_history_nothing_counts_as_changed(tmp_path):
    repository(tmp_path, {"a.cc": ""})
    done = changed(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == ("lint: clang-tidy has no earlier commit to compare with here, and checks nothing; "
                           "scripts/lint --all checks everything\n")


def test_lint_names_the_argument_that_it_does_not_know():
    done = bash(f"{REPOSITORY}/scripts/lint --everything || echo status $?")
    assert done.stdout == "status 1\n"
    assert done.stderr == "lint: unknown argument '--everything'; see scripts/lint --help\n"
