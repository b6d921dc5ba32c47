"""`shardfeed completion SHELL` and `shardfeed man`: made from the definitions of the commands."""

import re
import shutil
import subprocess

import pytest
from harness import USAGE, run, succeed

COMMANDS = ["convert", "verify", "repair", "index", "inspect", "cat", "reshard", "merge", "split",
            "sample", "bench", "plan", "replay", "clean", "cache"]
SHELLS = ["bash", "zsh", "fish"]


def script(shell):
    return succeed("completion", shell).out.decode()


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def commands_of_help():
    return re.findall(r"^  (\w+) {2,}\w", succeed("--help").out.decode().split("Subcommands:")[1],
                      re.M)


def test_the_commands_of_the_program():
    assert set(COMMANDS) <= set(commands_of_help())


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """complete("bench", "--order", "s"): the words that bash offers in place of the last one."""
    file = tmp_path_factory.mktemp("bash") / "completion"
    file.write_text(script("bash"))

    def offered(*words, cwd=None):
        code = ('source "$0"; COMP_WORDS=(shardfeed "$@"); COMP_CWORD=$#; _shardfeed; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-u", "-c", code, file, *words], capture_output=True,
                              text=True, cwd=cwd)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []
    return offered


def test_bash_offers_all_commands(complete):
    assert complete("") == commands_of_help()
    assert complete("re") == [name for name in commands_of_help() if name.startswith("re")]
    assert "imagefolder" in complete("convert", "") and complete("convert", "im") == [
        "imagefolder", "images"]


def test_bash_offers_the_options_of_the_command(complete):
    assert complete("verify", "--le") == ["--level"]
    assert complete("convert", "csv", "--del") == ["--delimiter"]
    assert complete("convert", "--del") == []
    assert complete("index", "out/train@4", "--exp") == ["--export"]
    assert complete("bench", "--sh") == ["--shuffle"]
    assert {"--json", "-q", "--quiet", "--help"} <= set(complete("cat", "-"))


def test_bash_offers_the_values_of_options(complete):
    assert complete("bench", "--order", "") == ["sequential", "interleave", "shuffle"]
    assert complete("bench", "--order", "=", "sh") == ["shuffle"]
    assert complete("bench", "--order", "=") == ["sequential", "interleave", "shuffle"]
    assert complete("convert", "csv", "--compression", "g") == ["gzip"]
    assert complete("verify", "--level", "p") == ["payload"]
    assert complete("bench", "--epochs", "") == []  # a number


def test_bash_offers_paths_elsewhere(complete, tmp_path):
    (tmp_path / "my table.csv").write_text("")
    (tmp_path / "other.csv").write_text("")
    assert complete("convert", "csv", "my", cwd=tmp_path) == ["my table.csv"]
    assert complete("verify", "", cwd=tmp_path) == ["my table.csv", "other.csv"]
    assert complete("bench", "--trace", "oth", cwd=tmp_path) == ["other.csv"]


@pytest.mark.parametrize("shell, arguments", [("bash", ["-n"]), ("zsh", ["-n"]),
                                              ("fish", ["--no-execute"])])
def test_shells_parse_their_scripts(shell, arguments, tmp_path):
    needs(shell)
    (tmp_path / "script").write_text(script(shell))
    done = subprocess.run([shell, *arguments, tmp_path / "script"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_fish_completes(tmp_path):
    needs("fish")
    (tmp_path / "script").write_text(script("fish"))

    def offered(line):
        done = subprocess.run(["fish", "--no-config", "-c",
                               f"source {tmp_path}/script; complete -C '{line}'"],
                              capture_output=True, text=True, cwd=tmp_path, check=True)
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    assert sorted(offered("shardfeed ")) == sorted(commands_of_help())
    assert offered("shardfeed convert cs") == ["csv"]
    assert sorted(offered("shardfeed bench --order ")) == ["interleave", "sequential", "shuffle"]
    assert offered("shardfeed convert csv --delim") == ["--delimiter"]


def test_every_option_is_in_every_script():
    """What --help lists is completed, and described by the manual page."""
    page = succeed("man").out.decode().replace("\\-", "-")
    scripts = {shell: script(shell) for shell in SHELLS}
    for command in COMMANDS:
        names = re.findall(r"--[a-z][a-z-]+", re.sub(
            r"(?m)^ {4,}.*", "", succeed(command, "--help").out.decode().split("Options:")[1]
            .split("\n\n")[0]))
        assert "--help" in names
        for name in set(names):
            assert name in page and name in scripts["bash"] and name in scripts["zsh"], name
            assert f"-l {name[2:]} " in scripts["fish"], name


def test_every_command_has_the_common_options():
    """As the manual page says."""
    page = succeed("man").out.decode().replace("\\-", "-")
    common = page.split(".SH COMMON OPTIONS")[1].split(".SH ")[0].partition("--version")[0]
    names = set(re.findall(r"\\fB(-[\w-]+)\\fR", common.partition(".TP")[2]))
    assert names == {"-h", "--help", "--json", "-q", "--quiet", "-j", "--jobs", "--threads", "--color",
                     "--max-record-bytes"}
    described = re.findall(r"^\.SS (shardfeed .*)$", page, re.M)
    offered = dict(re.findall(r"'(shardfeed [^']+)'\)\n +commands='[^']*'\n +options='([^']*)'", script("bash")))
    assert set(offered) == set(described) and len(offered) > 40
    for command, options in offered.items():
        assert names <= set(options.split()), command


def test_the_manual_page_has_every_command_and_no_warnings(tmp_path):
    page = tmp_path / "shardfeed.1"
    page.write_bytes(succeed("man").out)
    for name in commands_of_help():
        assert f"\n.SS shardfeed {name}\n" in page.read_text()
    needs("man")
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "shardfeed convert csv [options] PATHS ..." in done.stdout


def test_both_are_left_out_of_help():
    assert not {"completion", "man"} & set(commands_of_help())
    assert "completion" not in run("nothing").err
    assert run("completion").status == USAGE
    wrong = run("completion", "tcsh")
    assert wrong.status == USAGE and "tcsh" in wrong.err
