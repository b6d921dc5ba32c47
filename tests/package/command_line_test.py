"""The command line as the package runs it: whether Python or the program does the work, it ends in the same way
and takes the same options."""

import argparse
import os
import re
import signal
import subprocess
import sys

import harness
import pytest
from harness import DONE, INTERRUPTED, IO_FAILED, USAGE
from tables_test import ENVIRONMENT, pa, pq, shardfeed

from shardfeed.command_line import Misuse
from shardfeed.tables import KINDS
from shardfeed.tables import program as tables
from shardfeed.viewer import program as viewer

COMMANDS = {"the program's": ["cat", "t@1"], "view": ["view", "t@1"], "report": ["report", "t@1", "r.html"],
            "a table": ["convert", "parquet", "t.parquet", "u@1"], "help": ["report", "--help"],
            "help of tables": ["convert", "parquet", "--help"]}


@pytest.fixture
def folder(tmp_path):
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "t.parquet")
    assert shardfeed("convert", "parquet", "t.parquet", "t@1", cwd=tmp_path).status == DONE
    return tmp_path


def run(arguments, cwd, out, **options):
    done = subprocess.run([sys.executable, "-m", "shardfeed", *arguments], cwd=cwd, env=ENVIRONMENT, stdout=out,
                          stderr=subprocess.PIPE, text=True, timeout=120, **options)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_that_nobody_reads_ends_it_silently(folder, command):
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert run(COMMANDS[command], folder, theirs) == (-signal.SIGPIPE, "")
    finally:
        os.close(theirs)


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written_is_told(folder, command):
    with open("/dev/full", "wb") as full:
        assert run(COMMANDS[command], folder, full) == (IO_FAILED, "shardfeed: cannot write to standard output\n")
    again = ["--overwrite"] if command in ("report", "a table") else []
    closed = run([*COMMANDS[command], *again], folder, None, preexec_fn=lambda: os.close(1))
    assert closed == (IO_FAILED, "shardfeed: cannot write to standard output\n")


@pytest.mark.parametrize("arguments", [["report", "t@1"], ["convert", "parquet", "--nix"]])
def test_standard_error_may_be_closed(folder, arguments):
    done = subprocess.run([sys.executable, "-m", "shardfeed", *arguments], cwd=folder, env=ENVIRONMENT,
                          preexec_fn=lambda: os.close(2))
    assert done.returncode == USAGE


# ---- Interruption


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("front", ["module", "script"])
@pytest.mark.parametrize("command", ["verify", "view", "report"])
def test_an_interruption_during_the_imports_is_no_traceback(tmp_path, how, front, command):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").write_text(f"import os\nos.kill(os.getpid(), {int(how)})\nos.stat('.')\n")
    script = tmp_path / "shardfeed"  # as pip makes it
    script.write_text("import sys\nfrom shardfeed.__main__ import main\nsys.exit(main())\n")
    begin = ["-m", "shardfeed"] if front == "module" else [script]
    done = subprocess.run([sys.executable, *begin, command, "t@1"], capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"})
    assert (done.returncode, done.stderr) == (INTERRUPTED, "shardfeed: interrupted\n")


def test_other_programs_keep_their_handlers():
    code = ("import signal, sys; sys.argv = [sys.argv[1]]; import shardfeed; "
            "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
    for name, kept in [("train.py", "True"), ("-c", "True"), ("/bin/shardfeed", "False")]:
        done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60,
                              env=ENVIRONMENT)
        assert done.stdout == f"{kept}\n", done.stderr


def test_the_program_begins_with_the_signals_of_a_program(tmp_path):
    """Interruptions wait until it handles them."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec grep -E 'Sig(Blk|Ign)' /proc/self/status\n")
    program.chmod(0o755)
    done = subprocess.run([sys.executable, "-m", "shardfeed", "verify"], capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, "SHARDFEED_BIN": str(program)})
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in done.stdout.splitlines()}
    assert [bool(masks["SigBlk"] >> one - 1 & 1) for one in (signal.SIGINT, signal.SIGTERM)] == [True, True]
    assert not masks["SigIgn"] >> signal.SIGPIPE - 1 & 1


def test_a_program_that_cannot_be_run_is_told(tmp_path):
    program = tmp_path / "program"
    program.write_text("")
    done = subprocess.run([sys.executable, "-m", "shardfeed", "verify"], capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, "SHARDFEED_BIN": str(program)})
    assert (done.returncode, done.stderr) == (
        IO_FAILED, f"shardfeed: {program}: cannot run: Permission denied; reinstall the package\n")


# ---- Options


OPTIONS = [["-j", "0"], ["-j", "-1"], ["-j", "x"], ["-j", "2147483648"], ["-j", "99999999999999999999999"], ["-j", ""],
           ["--max-record-bytes", "0"], ["--max-record-bytes", "much"], ["--max-record-bytes", "1e"],
           ["--max-record-bytes", "1e30"], ["--max-record-bytes", "-1"], ["--color", "alwyas"], ["--colr", "never"]]


PARSERS = {"view": viewer.parser("view"), "report": viewer.parser("report"), "parquet": tables.parser("parquet")}


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_wrong_options_are_wrong_in_the_same_words(options):
    wanted = harness.run("verify", "t@1", *options)
    assert wanted.status == USAGE
    for name, parser in PARSERS.items():
        with pytest.raises(Misuse) as error:
            parser.parse_args(["t", *options])
        assert wanted.err.splitlines()[0] == f"shardfeed: verify: {error.value}", name


@pytest.mark.parametrize("options", [["-j", "100000000"], ["-j", "007"], ["--max-record-bytes", "1e9"],
                                     ["--max-record-bytes", "5e-1K"], ["--max-record-bytes", ".1 MB"],
                                     ["--max-record-bytes", "8e18"]], ids=" ".join)
def test_right_options_are_right_for_all(folder, options):
    assert harness.run("verify", "t@1", *options, cwd=folder).status == DONE
    for parser in PARSERS.values():
        parser.parse_args(["t", *options])


ALL_PARSERS = {**{name: viewer.parser(name) for name in viewer.COMMANDS},
               **{f"convert {kind}": tables.parser(kind) for kind in KINDS}}


@pytest.mark.parametrize("name", ALL_PARSERS)
def test_completion_and_the_manual_page_have_the_options(name):
    """scripts/make_stubs has given the program the definitions that the package has now."""
    scripts = {shell: harness.succeed("completion", shell).out.decode() for shell in ("bash", "zsh", "fish")}
    page = harness.succeed("man").out.decode().replace("\\-", "-")
    actions = [action for action in ALL_PARSERS[name]._actions if action.help != argparse.SUPPRESS]
    options = [option for action in actions for option in action.option_strings]
    assert {"-h", "-q", "-j", "--json", "--color", "--max-record-bytes"} < set(options)
    offered = re.search(rf"'shardfeed {name}'\)\n +commands=''\n +options='([^']*)'", scripts["bash"])
    assert offered[1].split() == options
    function = re.search(rf"_shardfeed_{name.replace(' ', '_')}\(\) {{\n(.*?)\n}}\n", scripts["zsh"], re.DOTALL)[1]
    assert re.findall(r"'(?:\([^)]*\))?(-[\w-]+)[=+]?\[", function) == options
    lines = [line for line in scripts["fish"].splitlines() if f'= "shardfeed {name}"' in line]
    assert len(lines) == sum(bool(action.option_strings) for action in actions)
    section = page.split(f".SS shardfeed {name}\n")[1].partition("\n.SS ")[0]
    assert f"shardfeed {name}" in section and "(with the Python package)" in section
    shared = page.partition(".SS shardfeed convert csv")[0]
    for action in actions:
        words = getattr(action.type, "words", None)
        for option in action.option_strings:
            assert f"\\fB{option}\\fR" in section or f"\\fB{option}\\fR" in shared, option
            if words:
                assert re.search(rf"'shardfeed {name} {option}'\)\n +_shardfeed_reply -W '{' '.join(words)}'", scripts["bash"])


def test_completion_offers_these_kinds():
    script = harness.succeed("completion", "bash").out.decode()
    kinds = re.search(r"'shardfeed convert'\)\n +commands='([^']*)'", script)[1].split()
    assert kinds[-len(KINDS):] == list(KINDS) and "csv" in kinds
    for kind in KINDS:  # the help of the program alone lists what it has
        assert not re.search(rf"^  {kind} ", harness.succeed("convert", "--help").out.decode(), re.MULTILINE)


def test_any_number_of_threads_will_do(folder):
    for command in (["report", "t@1", "r.html"], ["convert", "parquet", "t.parquet", "u@1"]):
        given = shardfeed(*command, "-j", "2147483647", cwd=folder)
        assert given.status == DONE, given.err


@pytest.mark.parametrize("arguments, option", [
    (["--port", "1", "view", "t@1"], "--port"), (["--open", "view", "t@1"], "--open"),
    (["--port=1", "-q", "view", "t@1"], "--port"),
    (["--records", "2", "report", "t@1", "r.html"], "--records")])
def test_an_option_before_its_command_is_told_its_place(folder, arguments, option):
    command = "view" if "view" in arguments else "report"
    given = shardfeed(*arguments, cwd=folder)
    assert given.status == USAGE
    assert given.err == (f"shardfeed: {command}: there is no option {option} before '{command}'; "
                         f"place it after '{command}'\n"
                         f"Run 'shardfeed {command} --help' for usage.\n")


def test_names_of_files_are_no_commands(folder):
    os.rename(folder / "t-00000-of-00001", folder / "view")
    assert shardfeed("verify", "view", cwd=folder).status == DONE
    assert shardfeed("-j", "1", "cat", "view", "--records", "0", cwd=folder).status == DONE
    assert shardfeed("report", "view", "r.html", cwd=folder).status == DONE
