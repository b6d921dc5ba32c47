"""The progress of long work: a line that is written again in place on a terminal, plain lines elsewhere."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata

import pytest
from harness import DEFECTS, TESTDATA, command, convert

ERASE = "\r\x1b[K"


def columns_of(text):
    """The columns that a terminal takes for the text, by Unicode's own data."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


class Terminal:
    """Runs a command whose standard error (and output) is a terminal of some width. Its standard input is
    a pipe, so that the test decides how long the command takes."""

    def __init__(self, arguments, columns, **environment):
        self.ours, theirs = pty.openpty()
        self.resize(columns)
        environment = {**os.environ, "TERM": "xterm", **environment}
        self.process = subprocess.Popen(command(*arguments), stdin=subprocess.PIPE, stdout=theirs,
                                        stderr=theirs, env=environment)
        os.close(theirs)
        self.seen = b""

    def resize(self, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self, seconds):
        """What the terminal gets within this time."""
        end = time.monotonic() + seconds
        got = b""
        while (left := end - time.monotonic()) > 0:
            if select.select([self.ours], [], [], left)[0]:
                try:
                    data = os.read(self.ours, 1 << 16)
                except OSError:  # the process has ended
                    break
                got += data
        self.seen += got
        return got.decode()

    def read_until(self, pattern, seconds=60):
        got = ""
        end = time.monotonic() + seconds
        while not re.search(pattern, got) and time.monotonic() < end:
            got += self.read(0.1)
        assert re.search(pattern, got), got
        return got

    def feed(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def finish(self):
        self.process.stdin.close()
        got = ""
        while self.process.poll() is None:
            got += self.read(0.1)
        got += self.read(0.2)
        os.close(self.ours)
        return got


def lines_of(text):
    """The status lines that were shown, each in place of the one before it."""
    return [line for line in text.split(ERASE)[1:] if line]


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_the_line_fits_the_terminal_and_does_not_scroll(columns, tmp_path):
    out = tmp_path / ("数据" * 20) / "train@2"
    terminal = Terminal(["convert", "text", "-", out], columns)
    shown = ""
    for _ in range(12):
        terminal.feed(b"a line of text\n" * 1000)
        shown += terminal.read(0.1)
    lines = lines_of(shown)
    assert 3 <= len(lines) <= 13, shown  # at most ten a second
    assert "\n" not in shown
    for line in lines:
        assert columns_of(line) < columns, line
        assert "KiB" in line
    rest = terminal.finish()
    assert terminal.process.returncode == 0, rest
    # Nothing of the line remains: what follows begins by erasing it.
    assert "12,000 records" in rest.split(ERASE)[-1]


def test_the_line_follows_the_width_and_cuts_names(tmp_path):
    stem = "日本語のとても長い名前" * 4
    source = tmp_path / f"{stem}.txt"
    # Enough for both phases to be seen.
    source.write_text("".join(f"line number {i} of a file\n" for i in range(3_000_000)))
    terminal = Terminal(["convert", "text", source, tmp_path / f"{stem}@4", "--no-sync", "-j1"], 120)
    first = lines_of(terminal.read_until(r"\.\.\."))
    assert all(columns_of(line) < 120 for line in first)
    assert any(re.match(r"(scanning|writing) \.\.\..*@4: ", line) for line in first), first
    terminal.resize(40)
    terminal.read(0.3)  # a line may be on its way
    rest = terminal.finish()
    for line in lines_of(rest):
        if "\n" not in line:
            assert columns_of(line) < 40, line
    assert terminal.process.returncode == 0


def test_every_phase_has_a_total_and_the_time_left(tmp_path):
    source = tmp_path / "t.txt"
    source.write_text("".join(f"line number {i} of a file\n" for i in range(3_000_000)))
    terminal = Terminal(["convert", "text", source, tmp_path / "x@4", "--split", "a=0.5,b=0.5", "--no-sync",
                         "-j1"], 200)
    lines = lines_of(terminal.finish())
    for phase, unit in (("selecting", "records"), ("writing", "records")):
        of_phase = [line for line in lines if line.startswith(phase)]
        assert of_phase, lines
        assert any(re.search(rf"[\d,]+ of [\d,]+ {unit} \(\d+ %\), [\d,]+ {unit}/s, [\d.]+ s left", line)
                   for line in of_phase), of_phase


def test_messages_do_not_tear_the_line(tmp_path):
    """Damaged records are told while the progress is shown."""
    (tmp_path / "lines").write_text("".join(f"this is line {i}\n" for i in range(4_000_000)))
    convert("text", tmp_path / "lines", tmp_path / "x@1", "--no-sync")
    shard = tmp_path / "x-00000-of-00001"
    data = bytearray(shard.read_bytes())
    size = len(data)
    for part in range(1, 20):
        data[size * part // 20] ^= 0xff
    shard.write_bytes(data)
    terminal = Terminal(["bench", tmp_path / "x@1", "--skip-damaged", "-j1", "--epochs", "20"], 100)
    shown = terminal.finish()
    assert terminal.process.returncode == DEFECTS, shown
    before_summary = shown[:shown.rfind(ERASE)]
    told = 0
    for line in before_summary.replace("\r\n", "\n").split("\n"):
        # A message begins its line, or follows the erased progress.
        text = line.split(ERASE)[-1] if "skipped:" in line else ""
        if text:
            assert text.startswith("shardfeed: skipped: "), line
            told += 1
    assert told >= 19
    assert lines_of(shown)


def test_verdicts_are_no_unit(tmp_path):
    convert("imagefolder", TESTDATA / "images", tmp_path / "x@2")
    terminal = Terminal(["bench", tmp_path / "x@2", "--image", "64", "--batch", "8", "--epochs", "1000"], 200)
    lines = [line for line in lines_of(terminal.finish()) if line.startswith("reading batches")]
    assert lines
    for line in lines:
        assert "limits)" not in line, line
        assert re.fullmatch(r"reading batches: [\d,]+ of 24,000 rows \(\d+ %\), [\d,]+ rows/s, [\d.]+ s left"
                            r"(, [a-z][a-z_+ ]* limits)?", line), line


def test_quiet_and_dumb_terminals(tmp_path):
    for options, environment in ((["-q"], {}), ([], {"TERM": "dumb"})):
        terminal = Terminal(["convert", "text", "-", tmp_path / "q@1", *options, "--overwrite"], 80,
                            **environment)
        terminal.feed(b"a line\n")
        assert terminal.read(0.5) == ""
        assert "\x1b" not in terminal.finish()


def test_plain_lines_every_ten_seconds(tmp_path):
    process = subprocess.Popen(command("convert", "text", "-", tmp_path / "x@1"), stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    process.stdin.write(b"a line\n" * 300)
    process.stdin.flush()
    time.sleep(11)
    process.stdin.close()
    told = process.stderr.read().decode()
    assert process.wait() == 0
    assert re.fullmatch(r"reading standard input: 2\.1 KiB, \d+ B/s\n", told), told


def test_shards_taken_over_are_done_but_no_speed(tmp_path):
    source = tmp_path / "t.txt"
    source.write_text("".join(f"line number {i} of a file\n" for i in range(4_000_000)))
    arguments = ["convert", "text", source, tmp_path / "x@40", "--resume", "-j1", "--compression", "gzip"]
    terminal = Terminal(arguments, 200)
    terminal.read_until(r"writing .*\([5-8]\d %\)")
    terminal.process.send_signal(2)
    terminal.finish()
    terminal = Terminal(arguments, 200)
    line = next(line for line in lines_of(terminal.read_until("writing ") + terminal.read(0.4))
                if line.startswith("writing "))
    done, rate = (int(n.replace(",", "")) for n in re.search(r": ([\d,]+) of .*, ([\d,]+) records/s",
                                                              line).groups())
    assert done > 1_000_000, line
    assert rate < done, line  # the taken-over ones would be millions a second
    terminal.process.send_signal(2)
    terminal.finish()
