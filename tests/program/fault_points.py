"""Makes every call on files fail in every way that it can, and kills the process at it.

    python3 tests/program/fault_points.py [--share 1/10] [SCENARIO ...]

Each scenario is a command. It is run once to count its calls (faults.c), and then once for each call
and each fault. After each run of a command that writes, the name of the dataset must refer to the
whole old or the whole new dataset, byte for byte; after the command is run again, the folder must hold
the new dataset and nothing else. A command that reads must print the content, or a part and an error.
"""

import argparse
import concurrent.futures
import dataclasses
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Callable

import harness

# All paths are relative to the folder in which a run is made, so that runs can be compared.
FOLDER = "o"
PYTHON = [sys.executable, "-c"]
WRITE = """
import sys
sys.path.insert(0, {package!r})
import shardfeed as sf
with sf.write("o/d@3", overwrite={overwrite}) as writer:
    for n in range(300):
        writer.write({{"n": n, "t": b"%d" % n}})
""".replace("{package!r}", repr(str(harness.REPOSITORY / "python")))

# What each call may fail with. All may fail with EIO, and the process may be killed at each.
MOVES_BYTES = {"pread", "pread64", "pwrite", "pwrite64", "copy_file_range"}
NEEDS_SPACE = {"pwrite", "pwrite64", "copy_file_range", "mkdir", "fsync", "rename", "open", "open64"}
OPENS = {"open", "open64", "openat", "openat64", "opendir"}
MAPS = {"mmap", "mmap64"}


def faults_of(call):
    yield "kill"
    yield str(errno.EIO)
    if call in NEEDS_SPACE:
        yield str(errno.ENOSPC)
    if call in OPENS:
        yield str(errno.EMFILE)
    if call in MAPS:
        yield str(errno.ENOMEM)
    if call in MOVES_BYTES:
        yield str(errno.EINTR)
        yield "short"


# These are not failures: the command must still do its work.
HARMLESS = {str(errno.EINTR), "short"}


@dataclasses.dataclass
class Scenario:
    """A command, its preparation, and the expected result."""
    name: str
    command: list
    stems: list  # stems of the datasets that it writes
    prepare: Callable = lambda folder: None  # called with the folder that the command runs in
    overwrites: bool = False  # whether a second run succeeds after a successful one
    reads: bool = False  # writes nothing; its output is right up to the failure
    environment: dict = dataclasses.field(default_factory=dict)
    done: int = harness.DONE  # the exit status without a fault


def shardfeed(*arguments):
    return harness.command(*arguments, "-q", "-j", "1")


def run_in(folder, command, **environment):
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=60, env={**os.environ, **environment})


def under(folder):
    """The folder of datasets; jobs name it by its absolute path."""
    return f"{FOLDER}:{folder / FOLDER}"


def must(folder, *arguments):
    done = run_in(folder, shardfeed(*arguments))
    assert done.returncode == harness.DONE, done.stderr.decode()


def write_sources(folder):
    (folder / "src").mkdir()
    for name, count in (("a", 200), ("b", 150)):
        lines = "".join('{"n": %d, "t": "%s %d"}\n' % (n, name * (n % 40), n) for n in range(count))
        (folder / "src" / f"{name}.jsonl").write_text(lines)
    data = (harness.TESTDATA / "tensorflow/examples.tfrecord").read_bytes()
    (folder / "src/foreign.tfrecord").write_bytes(data)


def old_dataset(*arguments):
    return lambda folder: must(folder, "convert", *arguments)


def damaged_dataset(folder):
    """A dataset with two flipped bits and a truncated shard."""
    must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@8")
    shards = sorted((folder / FOLDER).glob("d-*"))
    harness.flip(shards[1], 40)
    harness.flip(shards[2], 3)
    os.truncate(shards[4], 200)


def incomplete_dataset(folder):
    """The same dataset with a missing shard."""
    damaged_dataset(folder)
    (folder / FOLDER / "d-00006-of-00008").unlink()


def two_datasets(folder):
    must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/a@2")
    must(folder, "convert", "jsonl", "src/b.jsonl", f"{FOLDER}/b@3")


def killed_run(library, seconds_call):
    """Leaves the files of a run with --resume that is killed before its dataset is committed."""
    def prepare(folder):
        done = run_in(folder, shardfeed(*RESUMED), LD_PRELOAD=library, FAULTS_UNDER=FOLDER,
                      FAULTS_CALLS="changes", KILL_AT=str(seconds_call))
        assert done.returncode == -signal.SIGKILL
    return prepare


def foreign_shard(with_index):
    def prepare(folder):
        (folder / FOLDER).mkdir()
        shutil.copy(folder / "src/foreign.tfrecord", folder / FOLDER / "x.tfrecord")
        if with_index:
            must(folder, "index", f"{FOLDER}/x.tfrecord")
    return prepare


def without_sidecars(folder):
    must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@3")
    shutil.rmtree(folder / FOLDER / ".shardfeed")


def with_old_pack(folder):
    """One shard was rewritten by hand, and neither its index nor the pack is its own any more."""
    must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@3")
    shards = sorted((folder / FOLDER).glob("d-*"))
    shutil.copy(shards[0], shards[1])


def finished_parts(*more, old=None):
    """What the tasks of a job leave that is to be committed: some parts twice."""
    def prepare(folder):
        if old is not None:
            old(folder)
        for shards in ("0-1", "1-2"):
            must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@3", "--only-shards", shards,
                 "--job", "7", *more)
            # As if they had run at the same time: no task writes what is finished.
            for part in folder.glob(f"{FOLDER}/.shardfeed/d.jobs/7/00000-*"):
                shutil.copytree(part, part.with_name(part.name + "0"), dirs_exist_ok=True)
    return prepare


RESUMED = ["convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@3", "--resume"]
COMMIT = shardfeed("commit", f"{FOLDER}/d@3", "--job", "7")


def scenarios(library):
    jsonl = ["convert", "jsonl", "src/a.jsonl"]
    old = old_dataset("jsonl", "src/b.jsonl", f"{FOLDER}/d@2")
    eight = old_dataset("jsonl", "src/a.jsonl", f"{FOLDER}/d@8")
    zipped = old_dataset("jsonl", "src/a.jsonl", f"{FOLDER}/e@2.gz", "--compression", "gzip",
                         "--member-size", "1KiB")
    return [
        Scenario("convert", shardfeed(*jsonl, f"{FOLDER}/d@3"), ["d"]),
        Scenario("convert_over", shardfeed(*jsonl, f"{FOLDER}/d@3", "--overwrite"), ["d"], old, True),
        Scenario("convert_over_same_names", shardfeed(*jsonl, f"{FOLDER}/d@2", "--overwrite"), ["d"],
                 old, True),
        Scenario("convert_over_other_suffix",
                 shardfeed(*jsonl, f"{FOLDER}/d@2.gz", "--overwrite", "--compression", "gzip"),
                 ["d"], old, True),
        Scenario("convert_splits",
                 shardfeed(*jsonl, f"{FOLDER}/d@3", "--split", "x=0.5,y=0.5", "--resume"),
                 ["d-x", "d-y"], overwrites=True),
        Scenario("convert_resume", shardfeed(*RESUMED), ["d"], killed_run(library, 30), True),
        Scenario("commit_parts", COMMIT, ["d"], finished_parts(), True),
        Scenario("commit_parts_over", [*COMMIT, "--overwrite"], ["d"],
                 finished_parts("--overwrite", old=old), True),
        Scenario("reshard", shardfeed("reshard", f"{FOLDER}/d@8", f"{FOLDER}/c@3"), ["c"], eight),
        Scenario("reshard_in_place",
                 shardfeed("reshard", f"{FOLDER}/d@*", f"{FOLDER}/d@3", "--overwrite"), ["d"], eight,
                 True),
        Scenario("reshard_gzip", shardfeed("reshard", f"{FOLDER}/e@*.gz", f"{FOLDER}/c@3"), ["c"],
                 zipped),
        Scenario("merge", shardfeed("merge", f"{FOLDER}/a@2", f"{FOLDER}/b@3", f"{FOLDER}/c"), ["c"],
                 two_datasets),
        Scenario("split",
                 shardfeed("split", f"{FOLDER}/d@8", f"{FOLDER}/c", "--shares", "x=0.5,y=0.5",
                           "--overwrite"), ["c-x", "c-y"], eight, True),
        Scenario("repair", shardfeed("repair", f"{FOLDER}/d@8", f"{FOLDER}/c"), ["c"], eight),
        Scenario("repair_damaged", shardfeed("repair", f"{FOLDER}/d@8", f"{FOLDER}/c", "--overwrite"),
                 ["c"], incomplete_dataset, True, done=harness.DEFECTS),
        Scenario("convert_skipping",
                 shardfeed("convert", "tfrecord", f"{FOLDER}/d@8", f"{FOLDER}/c@2",
                           "--on-error", "skip", "--max-skipped", "100%", "--overwrite"),
                 ["c"], damaged_dataset, True, done=harness.DEFECTS),
        Scenario("read_skipping",
                 shardfeed("bench", f"{FOLDER}/d@8", "--skip-damaged", "--max-skipped",
                           "100%"), [], damaged_dataset, reads=True,
                 environment={"SHARDFEED_IO": "threads"}, done=harness.DEFECTS),
        Scenario("index", shardfeed("index", f"{FOLDER}/x.tfrecord"), [], foreign_shard(False), True),
        Scenario("index_again", shardfeed("index", f"{FOLDER}/x.tfrecord"), [],
                 foreign_shard(True), True),
        Scenario("index_set", shardfeed("index", f"{FOLDER}/d@3"), [], without_sidecars, True),
        Scenario("index_set_again", shardfeed("index", f"{FOLDER}/d@3"), [], with_old_pack, True),
        Scenario("index_lengths", shardfeed("index", f"{FOLDER}/d@3", "--length", "t"), [], with_old_pack, True),
        Scenario("cat", shardfeed("cat", f"{FOLDER}/d@8"), [], eight, reads=True),
        Scenario("cat_gzip", shardfeed("cat", f"{FOLDER}/e@*.gz", "--records", "150-170"), [], zipped,
                 reads=True),
        Scenario("verify", shardfeed("verify", f"{FOLDER}/d@8"), [], eight, reads=True),
        Scenario("read", shardfeed("bench", f"{FOLDER}/d@8", "--shuffle", "1"), [], eight, reads=True,
                 environment={"SHARDFEED_IO": "threads"}),
        Scenario("read_parsed", shardfeed("bench", f"{FOLDER}/e@*.gz", "--parse", "--batch", "16"), [],
                 zipped, reads=True, environment={"SHARDFEED_IO": "threads"}),
        Scenario("python_write", PYTHON + [WRITE.format(overwrite=False)], ["d"]),
        Scenario("python_overwrite", PYTHON + [WRITE.format(overwrite=True)], ["d"], old, True),
    ]


def dataset_of(tree, stem):
    """The files of one dataset, and its index and manifest."""
    own = (f"{stem}-0", f".shardfeed/{stem}-0", f".shardfeed/{stem}.indexes",
           f".shardfeed/{stem}.manifest.json")
    return {name: data for name, data in tree.items() if name.startswith(own)}


class Trial:
    """A scenario and its expected result."""

    def __init__(self, scenario, library, work):
        self.scenario = scenario
        self.library = library
        self.work = work
        self.template = work / scenario.name
        self.template.mkdir()
        write_sources(self.template)
        scenario.prepare(self.template)
        self.old = harness.tree(self.template / FOLDER)
        whole = self.copy("whole")
        count_to = work / f"{scenario.name}.calls"
        done = self.run(whole, COUNT_TO=str(count_to))
        assert done.returncode == scenario.done, (scenario.name, done.stderr.decode())
        self.calls = count_to.read_text().split()
        self.new = harness.tree(whole / FOLDER)
        self.printed = done.stdout
        self.told = sorted(done.stderr.splitlines())
        shutil.rmtree(whole)

    def copy(self, name):
        folder = self.work / f"{self.scenario.name}-{name}"
        shutil.copytree(self.template, folder, symlinks=True)
        return folder

    def run(self, folder, **environment):
        return run_in(folder, self.scenario.command, LD_PRELOAD=str(self.library),
                      FAULTS_UNDER=under(folder), FAULTS_CALLS="all", **self.scenario.environment,
                      **environment)

    def points(self):
        return [(number, call, fault) for number, call in enumerate(self.calls, 1)
                for fault in faults_of(call)]

    def check(self, number, call, fault):
        """Returns what is wrong after this fault, or nothing."""
        folder = self.copy(f"{number}-{fault}")
        try:
            return self.find_wrong(folder, number, call, fault)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def find_wrong(self, folder, number, call, fault):
        if fault == "kill":
            done = self.run(folder, KILL_AT=str(number))
            if done.returncode not in (-signal.SIGKILL, self.scenario.done):
                return f"status {done.returncode} where it was to be killed"
        else:
            done = self.run(folder, FAIL_AT=str(number), FAIL_WITH=fault, FAIL_CALL=call)
            statuses = (self.scenario.done,)
            if fault not in HARMLESS:
                statuses += (harness.IO_FAILED,)
            if "-c" in self.scenario.command and fault not in HARMLESS:
                statuses += (1,)  # a Python exception
            if done.returncode not in statuses:
                return f"status {done.returncode}: {done.stderr.decode()[-300:]}"
        if self.scenario.reads:
            # An index that the command began to write; the next writer replaces it.
            there = {name: data for name, data in harness.tree(folder / FOLDER).items()
                     if not name.endswith(".index.tmp")}
            if there != self.old:
                return "a command that reads has changed files"
            if (done.returncode == self.scenario.done
                    and sorted(done.stderr.splitlines()) != self.told):
                return f"it told of other damage: {done.stderr[-300:]}"
            right = (done.stdout == self.printed if done.returncode == self.scenario.done else
                     self.printed.startswith(done.stdout) or
                     all(line.startswith(b"unreadable: ") for line in done.stdout.splitlines()))
            return None if right else f"it printed what is not there: {done.stdout[-300:]}"
        for stem in self.scenario.stems:
            run_in(folder, shardfeed("verify", f"{FOLDER}/{stem}@*"))
            run_in(folder, shardfeed("verify", f"{FOLDER}/{stem}@*.gz"))
            there = dataset_of(harness.tree(folder / FOLDER), stem)
            old, new = dataset_of(self.old, stem), dataset_of(self.new, stem)
            if there not in (old, new):
                return f"{stem} is neither the old nor the new dataset: {sorted(there)}"
            if done.returncode == self.scenario.done and there != new:
                return f"status {done.returncode}, and {stem} is not the new dataset"
        again = run_in(folder, self.scenario.command)
        is_new = harness.tree(folder / FOLDER) == self.new
        if again.returncode != self.scenario.done and not (is_new and not self.scenario.overwrites):
            return f"run again: status {again.returncode}: {again.stderr.decode()[-300:]}"
        if not is_new:
            there = harness.tree(folder / FOLDER)
            differ = [n for n in there.keys() | self.new.keys() if there.get(n) != self.new.get(n)]
            return f"run again, these files differ: {sorted(differ)}"
        return None


def run_all(library, work, names=(), share=(1, 1), progress=lambda text: None):
    """Returns the number of points tried, and what is wrong."""
    tried, wrong = 0, []
    for scenario in scenarios(library):
        if names and scenario.name not in names:
            continue
        trial = Trial(scenario, library, work)
        points = trial.points()[share[0] - 1::share[1]]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda point: trial.check(*point), points))
        found = [f"{scenario.name}: {call} (call {number}), {fault}: {what}"
                 for (number, call, fault), what in zip(points, results) if what]
        tried += len(points)
        wrong += found
        progress(f"{scenario.name}: {len(points)} points of {len(trial.calls)} calls, "
                 f"{len(found)} wrong")
    return tried, wrong


# io_uring makes its system call directly, so no function can be preloaded in its place; strace can
# make it fail, if the kernel allows it.
RING_ERRORS = ["EINTR", "EAGAIN", "EBUSY", "ENOMEM", "EIO", "kill"]


def ring_faults(work, share=(1, 1)):
    """Reads through io_uring while each of its calls fails. Returns the number of calls tried, what is
    wrong, and why nothing was tried, if so."""
    if shutil.which("strace") is None:
        return 0, [], "strace is not installed"
    folder = work / "ring"
    folder.mkdir()
    write_sources(folder)
    must(folder, "convert", "jsonl", "src/a.jsonl", f"{FOLDER}/d@40")

    def read(*options):
        command = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=io_uring_enter", *options,
                   *harness.command("bench", f"{FOLDER}/d@40", "--shuffle", "1", "--json")]
        return run_in(folder, command, SHARDFEED_IO="uring")

    whole = read()
    if whole.returncode != harness.DONE or b'"io": "uring"' not in whole.stdout:
        return 0, [], "io_uring or strace cannot be used here"
    calls = (folder / "trace").read_text().count("io_uring_enter(")
    points = [(n, e) for n in range(1, calls + 1) for e in RING_ERRORS][share[0] - 1::share[1]]
    wrong = []
    for number, error in points:
        inject = f"signal=SIGKILL:when={number}" if error == "kill" else f"error={error}:when={number}"
        done = read("-e", f"inject=io_uring_enter:{inject}")
        good = done.returncode == harness.DONE and b'"records": 200,' in done.stdout
        told = done.returncode == harness.IO_FAILED and done.stderr.count(b"shardfeed: ") == 1
        if not (good or told or error == "kill"):
            wrong.append(f"io_uring_enter (call {number}), {error}: status {done.returncode}: "
                         f"{done.stderr.decode()[-300:]}")
    return len(points), wrong, None


def build_library(folder):
    library = pathlib.Path(folder) / "faults.so"
    source = pathlib.Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scenarios", nargs="*", help="names, or ring for io_uring; all without any")
    parser.add_argument("--share", default="1/1", help="k/n: every nth point, from the kth on")
    arguments = parser.parse_args()
    first, step = map(int, arguments.share.split("/"))
    with tempfile.TemporaryDirectory() as work:
        library = build_library(work)
        tried, wrong = run_all(library, pathlib.Path(work), arguments.scenarios, (first, step),
                               lambda text: print(text, flush=True))
        if not arguments.scenarios or "ring" in arguments.scenarios:
            more, found, skipped = ring_faults(pathlib.Path(work), (first, step))
            tried, wrong = tried + more, wrong + found
            print(f"ring: {skipped}" if skipped else f"ring: {more} points, {len(found)} wrong")
    for what in wrong:
        print(what)
    print(f"{tried - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
