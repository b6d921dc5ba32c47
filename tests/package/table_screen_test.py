"""What the kinds of `convert` that Python reads show: as the program's kinds do."""

import json
import os
import re
import subprocess
import sys

import harness
import numpy as np
import pytest
from harness import DONE, USAGE
from tables_test import ENVIRONMENT, convert, pa, pq, shardfeed


# ---- Progress


def lines_of_progress(monkeypatch, capsys, terminal, columns=80, phases=("writing",)):
    from shardfeed.tables import screen
    now = [0.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(screen.os, "get_terminal_size", lambda stream: os.terminal_size((columns, 24)))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with screen.Progress(quiet=False) as progress:
        for number, phase in enumerate(phases):
            for second in range(41):
                now[0] = 40 * number + second
                progress(100 * second, 4000, phase)
    return capsys.readouterr().err


@pytest.mark.parametrize("columns, shown", [
    (80, "writing: 2,000 of 4,000 records (50 %), 100 records/s, 20.0 s left"),
    (60, "writing: 50 % of 4,000 records, 100/s, 20.0 s left"), (30, "writing: 50 %, 20.0 s left"), (20, "writing: 50 %"),
    (6, "50 %"), (4, "...")])
def test_progress_leaves_out_what_does_not_fit(monkeypatch, capsys, columns, shown):
    monkeypatch.setenv("TERM", "xterm")
    text = lines_of_progress(monkeypatch, capsys, True, columns)
    lines = text.split("\r\033[K")
    assert shown in lines and max(map(len, lines)) < columns and lines[-1] == "" and "\n" not in text


@pytest.mark.parametrize("terminal, kind", [(False, "xterm"), (True, "dumb"), (True, "")])
def test_progress_is_plain_lines_elsewhere(monkeypatch, capsys, terminal, kind):
    monkeypatch.setenv("TERM", kind)
    assert lines_of_progress(monkeypatch, capsys, terminal).splitlines() == [
        f"writing: {100 * s:,} of 4,000 records ({s * 100 // 40} %), 100 records/s" + f", {40 - s}.0 s left" * (s < 40)
        for s in (10, 20, 30, 40)]


def test_progress_has_the_speed_of_each_phase(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "dumb")
    lines = lines_of_progress(monkeypatch, capsys, False, phases=("reading", "writing")).splitlines()
    assert len(lines) == 8 and all(", 100 records/s" in line for line in lines)


def on_terminal(arguments, columns, out, **variables):
    """What is shown on a terminal of standard error, with standard output in a file."""
    import fcntl
    import pty
    import struct
    import termios
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    # Redraws that often show progress of what ends soon.
    code = ("import sys; from shardfeed.tables import program, screen; screen._REDRAW = 0.001; "
            "sys.exit(program.main(sys.argv[1], sys.argv[2:]))")
    with open(out, "wb") as stdout:
        process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=theirs, env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "200", **variables})
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 1 << 16):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return process.wait(), shown.decode()


def test_progress_fits_the_terminal_of_standard_error(tmp_path):
    pq.write_table(pa.table({"n": range(500_000)}), tmp_path / "t.parquet")
    status, shown = on_terminal(["parquet", tmp_path / "t.parquet", tmp_path / "out/t@4", "--no-sync"], 30, tmp_path / "report")
    lines = shown.split("\r\033[K")
    assert status == DONE and len(lines) > 3 and lines[-1] == "", shown
    assert all(re.fullmatch(r"writing: [0-9]+ %(, [0-9.]+ s left)?", line) and len(line) < 30 for line in lines[1:-1]), lines


# ---- Colors


@pytest.mark.parametrize("when, colored", [("always", True), ("never", False), ("auto", False)])
def test_words_before_notes_and_errors_have_colors(tmp_path, when, colored):
    pq.write_table(pa.table({"n": pa.nulls(2)}), tmp_path / "t.parquet")
    note, error = ("\033[1;36mnote:\033[0m", "\033[1;31mshardfeed:\033[0m") if colored else ("note:", "shardfeed:")
    for options in ((), ("--dry-run",)):
        shown = shardfeed("convert", "parquet", "t.parquet", "out/t@1", "--overwrite", "--color", when, *options, cwd=tmp_path)
        assert f"{note} column 'n': it has no value in any row\n" in shown.out.decode()
    failed = shardfeed("--color", when, "convert", "parquet", "no.parquet", "out/u@1", cwd=tmp_path)
    assert failed.err == f"{error} no.parquet: cannot open: No such file or directory\n"
    # As the program has it.
    ours = harness.run("--color", when, "convert", "csv", "no.csv", "out/u@1", cwd=tmp_path)
    assert ours.err == failed.err.replace("parquet", "csv")
    help_text = shardfeed("convert", "parquet", "--help").out.decode()
    assert "on terminals unless NO_COLOR" in " ".join(help_text.split())


def test_colors_of_terminals(tmp_path):
    def message(**variables):
        return on_terminal(["parquet", "no.parquet", tmp_path / "out/t@1"], 80, tmp_path / "report", **variables)[1]

    assert message().startswith("\033[1;31mshardfeed:\033[0m no.parquet")
    for variables in ({"NO_COLOR": "1"}, {"CLICOLOR": "0"}, {"TERM": "dumb"}):
        assert message(**variables).startswith("shardfeed: no.parquet")
    assert message(TERM="dumb", CLICOLOR_FORCE="1").startswith("\033[1;31mshardfeed:")


# ---- Dry runs


def test_a_dry_run_shows_what_those_of_the_program_show(tmp_path):
    data = [{"id": 1, "ok": True, "name": "rome", "x": 1.5}, {"id": 2, "ok": False, "name": "a \"long\" name", "x": 0.1},
            {"id": 3, "ok": True, "name": "é" * 40, "x": 3.0}, {"id": 4, "ok": True, "x": 1e10}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    pq.write_table(pa.Table.from_pylist(data), tmp_path / "t.parquet")
    wanted = harness.run("convert", "jsonl", tmp_path / "t.jsonl", tmp_path / "t@2", "--dry-run", "--json").json
    found = convert("parquet", tmp_path / "t.parquet", tmp_path / "t@2", "--dry-run")
    assert set(wanted) <= set(found)
    for field in ("datasets", "skipped", "sampled", "not_examples", "samples", "threads"):
        assert found[field] == wanted[field], field
    for name, one in wanted["features"].items():
        assert {**found["features"][name], **one} == found["features"][name]
    assert 0 < found["seconds"] < 60
    assert found["first"][0] == {"id": 1, "ok": 1, "name": "rome", "x": 1.5}
    theirs = harness.run("convert", "jsonl", tmp_path / "t.jsonl", tmp_path / "t@2", "--dry-run").out.decode().splitlines()
    ours = shardfeed("convert", "parquet", tmp_path / "t.parquet", tmp_path / "t@2", "--dry-run").out.decode().splitlines()
    assert ours[0] == theirs[0] and re.fullmatch("converting takes .* on .* threads?, if the disk keeps up", ours[1])
    begin = theirs.index("record 0 (61 B)")
    assert ours[ours.index("record 0 (61 B)"):] == theirs[begin:]
    table = ours[ours.index("features of the first 4 records:") + 1:][:5]
    assert [re.split(" {2,}", line.strip()) for line in table] == [
        ["feature", "kind", "from", "values", "records", "first value"], ["id", "int64", "int64", "scalar", "all", "1"],
        ["ok", "int64", "bool", "scalar", "all", "1"], ["name", "bytes", "string", "scalar", "3 of 4", '"rome"'],
        ["x", "float", "double", "scalar", "all", "1.5"]]


def test_a_dry_run_shows_shapes_and_bytes(tmp_path):
    np.savez(tmp_path / "t.npz", m=np.arange(12.0).reshape(2, 2, 3), image=np.zeros((2, 4, 4), np.uint8), nan=[np.nan, np.inf])
    shown = convert("npz", tmp_path / "t.npz", "--dry-run")
    assert (shown["features"]["m"]["shape"], shown["features"]["m"]["dtype"]) == ([2, 3], "float64")
    assert shown["features"]["image"]["max_bytes"] == 16 and shown["features"]["m"]["max_values"] == 6
    assert shown["samples"][0]["nan"] == ["NaN"] and shown["samples"][1]["nan"] == ["Infinity"]
    text = shardfeed("convert", "npz", tmp_path / "t.npz", "--dry-run").out.decode()
    assert re.search(r"\n  m +float +double in a list +\[2, 3\] +all +\[0, 1, 2, 3, 4, 5\]\n", text)
    assert "<16 bytes: 000000000000000000000000...>" in text


def test_notes_of_a_sample_say_so(tmp_path):
    pq.write_table(pa.table({"x": [0.123456789] * 70_000, "n": pa.array([None] * 69_999 + [1])}), tmp_path / "t.parquet")
    notes = convert("parquet", tmp_path / "t.parquet", tmp_path / "t@1", "--dry-run")["notes"]
    assert notes[0] == "of the first 65,536 records: column 'n': it has no value in any row"
    assert notes[1].startswith("of the first 65,536 records: column 'x': 65,536 of 65,536 values lose digits")
    assert not [note for note in convert("parquet", tmp_path / "t.parquet", tmp_path / "t@1")["notes"] if "'n'" in note]


# ---- Options of other kinds


def test_options_of_other_kinds_are_refused_with_what_to_do_instead(tmp_path):
    from shardfeed.tables import not_here, program
    own = {option for kind in ("parquet", "sqlite", "lmdb", "video") for action in program.parser(kind)._actions
           for option in action.option_strings} - set(not_here.NOT_HERE)
    kinds = re.findall(r"^  (\w+) {2,}", harness.run("convert", "--help").out.decode().split("Subcommands:")[1], re.MULTILINE)
    others = {option for kind in kinds
              for option in re.findall(r"^  .*?(--[a-z-]+)", harness.run("convert", kind, "--help").out.decode(), re.MULTILINE)}
    assert "csv" in kinds and "--like" in others
    assert others - own - {"--jobs"} == set(not_here.NOT_HERE)
    for option in not_here.NOT_HERE:
        for arguments in ([option, "x"], [option + "=x"], [option]):
            result = shardfeed("convert", "parquet", "t", "out/t@1", *arguments) if option == "--class-map" else None
            with pytest.raises(program.Misuse, match=f"this kind has no {option}; .{{10}}"):
                program.parse("parquet", ["t", "out/t@1", *arguments])
            if option == "--on-error":
                with pytest.raises(program.Misuse, match="mend in the source what the error names, or remove it there"):
                    program.parse("video", ["t", "out/t@1", *arguments])
            assert result is None or result.status == USAGE and "have the numbers of the classes in the source" in result.err
