"""Colors: only on terminals, unless --color or the environment says otherwise."""

import os
import pty
import re
import subprocess

import harness
import pytest
from harness import DEFECTS, DONE, USAGE, command

ERROR, NOTE, GOOD, BAD = "\x1b[1;31m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[1;31m"
VARIABLES = ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE")


def environment(**given):
    """The environment without the variables that decide, but for those given."""
    return {**{key: value for key, value in os.environ.items() if key not in VARIABLES}, "TERM": "xterm", **given}


def on_terminal(*arguments, **given):
    """What the command prints to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(*arguments), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env=environment(**given))
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # the process has ended
            break
        if not data:
            break
        seen += data
    os.close(ours)
    process.wait()
    return seen.decode()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n2\n")
    return path


def test_errors_notes_and_verdicts_have_colors_on_terminals(table, out):
    said = on_terminal("convert", "csv", table, out / "x@1", "--no-sync")
    assert f"{NOTE}note:\x1b[0m read as CSV: one column, header, UTF-8" in said
    assert ERROR not in said
    assert f"{ERROR}shardfeed:\x1b[0m {out}/" in on_terminal("convert", "csv", table, out / "x@1")
    assert f"{GOOD}all intact and as in the manifest\x1b[0m" in on_terminal("verify", out / "x@1")
    (out / "x-00000-of-00001").write_bytes(b"")
    assert re.search(re.escape(BAD) + r"\d+ defects\x1b\[0m, ", on_terminal("verify", out / "x@1"))


def test_elsewhere_there_are_none(table, out):
    done = harness.run("convert", "csv", table, out / "x@1", env=environment())
    assert done.status == DONE and b"\x1b" not in done.out and "\x1b" not in done.err
    again = harness.run("convert", "csv", table, out / "x@1", env=environment())
    assert again.status == USAGE and again.err.startswith("shardfeed: ")


@pytest.mark.parametrize("options, given, colored", [
    ([], {"NO_COLOR": "1"}, False), ([], {"NO_COLOR": ""}, True), ([], {"CLICOLOR": "0"}, False),
    ([], {"CLICOLOR": "1"}, True), ([], {"TERM": "dumb"}, False),
    ([], {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
    (["--color", "never"], {"CLICOLOR_FORCE": "1"}, False), (["--color", "always"], {"NO_COLOR": "1"}, True),
    (["--color=auto"], {}, True)])
def test_options_and_environment_decide(options, given, colored, tmp_path):
    for arguments in ([*options, "verify", tmp_path / "none@1"], ["verify", tmp_path / "none@1", *options]):
        assert (ERROR in on_terminal(*arguments, **given)) == colored, arguments


def test_colors_can_be_asked_for_elsewhere(tmp_path, table, out):
    for options, given in ([["--color", "always"], {}], [[], {"CLICOLOR_FORCE": "1"}]):
        done = harness.run("convert", "csv", table, out / "x@1", "--overwrite", *options, env=environment(**given))
        assert NOTE in done.out.decode()
    # Never in what programs read.
    done = harness.run("convert", "csv", table, out / "x@1", "--overwrite", "--json", "--color", "always",
                       env=environment())
    assert b"\x1b" not in done.out
    assert harness.run("--color", "blue", "verify", out / "x@1").status == USAGE
    (table.parent / "t.csv").write_text("a\n1,2\n")
    done = harness.run("--color", "always", "convert", "csv", table, out / "y@1", env=environment())
    assert done.status == DEFECTS and done.err.startswith(f"{ERROR}shardfeed:\x1b[0m {table}:2: expected 1 cells")
