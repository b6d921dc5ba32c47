"""The package in a process: imports, signals, exit, fork, threads, and the program."""

import gc
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import zlib

import pytest
from harness import DEFECTS, IO_FAILED, REPOSITORY, TESTDATA, USAGE
from package_data import RECORDS, dataset, double, parsed, python, run_python, sf


# ---- In a process


def test_the_import_is_light(dataset):
    out = run_python("""
import sys
import numpy, shardfeed
print([m for m in ("torch", "tensorflow", "jax", "cv2", "google.protobuf", "multiprocessing.pool",
                   "concurrent.futures") if m in sys.modules])
print(len([l for l in open("/proc/self/maps") if "opencv" in l or "protobuf" in l]))
""")
    assert out.split("\n") == ["[]", "0"]


@pytest.mark.parametrize("order", [["tensorflow", "shardfeed"], ["shardfeed", "tensorflow"],
                                   ["torch", "tensorflow", "shardfeed"], ["shardfeed", "torch"]])
def test_any_order_of_imports(dataset, order):
    for name in order:
        pytest.importorskip(name, reason=f"{name} is not installed")
    code = "\n".join(f"import {name}" for name in order) + """
import sys, shardfeed as sf
print(sum(b["n"].sum() for b in sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(64)))
"""
    if "tensorflow" in order:
        code += """
print(sum(int(tensorflow.io.parse_single_example(r, {"n": tensorflow.io.FixedLenFeature(
    [], tensorflow.int64)})["n"]) for r in list(sf.read(sys.argv[1]))[:9]) >= 0)
"""
    assert run_python(code, dataset, timeout=120).split()[0] == str(sum(range(RECORDS)))


def extension():
    return pathlib.Path(sf._core.__file__)


def symbols(*options):
    """Pairs of kind and name."""
    lines = subprocess.run(["nm", "-D", *options, extension()], capture_output=True, text=True, check=True).stdout
    return {tuple(line.split()[-2:]) for line in lines.splitlines()}


def test_the_extension_shows_nothing():
    # Instances of std::string that the C++ library requires to be unique in the process.
    assert {name for _, name in symbols("--defined-only", "--extern-only")
            if not name.startswith(("_ZNSt7__cxx1112basic_string", "_ZNKSt7__cxx1112basic_string"))} == {
        "PyInit__core", "shardfeed_program"}


def test_the_extension_needs_only_the_interpreter():
    """What no library has is null in the program's process, which may be so only for Python's symbols."""
    weak = {name for kind, name in symbols("--undefined-only") if kind == "w" and "@" not in name}
    tools = {"__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable",
             "ZSTD_trace_decompress_begin", "ZSTD_trace_decompress_end"}
    assert {name for name in weak - tools if not name.startswith(("Py", "_Py"))} == set()
    assert "PyErr_SetString" in weak


SLOW = """
import os, sys, time, threading, shardfeed as sf
def slow(element):
    time.sleep(30)
    return element
ds = sf.range(1000).map(slow, output={"value": sf.int64})
it = iter(ds)
"""


def test_ctrl_c_is_seen_while_waiting():
    code = SLOW + """
import signal
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    next(it)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 5, flush=True)
os._exit(0)
"""
    assert run_python(code) == "interrupted True"


def test_an_interrupted_call_loses_nothing(dataset):
    code = """
import signal, sys, time, threading, os, shardfeed as sf
def slow(element):
    time.sleep(0.3 if element["value"] < 2 else 0)
    return element
it = iter(sf.range(10).map(slow, output={"value": sf.int64}))
class Seen(Exception): pass
def handler(*_): raise Seen
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    next(it)
except Seen:
    pass
print([e["value"] for e in it])
"""
    assert run_python(code) == str(list(range(10)))


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "sys.exit(0)", "it.close()", "del it",
                                 "threading.Thread(target=lambda: list(it), daemon=True).start()",
                                 "for _ in range(9):\n"
                                 "    threading.Thread(target=lambda: list(it), daemon=True).start()",
                                 "keep = [it]; keep.append(keep); del it"])
def test_the_process_ends_whatever_runs(dataset, end):
    code = """
import os, sys, threading, shardfeed as sf
def busy(element):
    return {"n": sum(range(1000)) + element["n"]}
it = iter(sf.read(sys.argv[1]).parse({"n": sf.int64}).map(busy).batch(8).repeat())
for _ in range(3):
    next(it)
print("end", flush=True)
""" + end
    done = python(code, dataset, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")


def test_exit_handlers_find_iterators_closed(dataset):
    code = """
import atexit, sys
def look():
    try:
        next(it)
    except ValueError as error:
        print(error)
atexit.register(look)  # runs after the package's
import shardfeed as sf
it = iter(sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(8))
next(it)
"""
    assert run_python(code, dataset) == "the iterator is closed"


def test_threads_that_make_iterators_while_the_program_ends(dataset):
    code = """
import sys, threading, shardfeed as sf
ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).map(lambda e: {"n": e["n"] + 1}).batch(8)
begun = threading.Semaphore(0)
def make():
    begun.release()
    while True:
        next(iter(ds))
for _ in range(4):
    threading.Thread(target=make, daemon=True).start()
for _ in range(4):
    begun.acquire()
print("end", flush=True)
"""
    done = python(code, dataset, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")


def test_children_after_fork(dataset):
    code = """
import os, sys, shardfeed as sf
ds = sf.read(sys.argv[1]).parse({"n": sf.int64}).batch(10)
it = iter(ds)
next(it)
child = os.fork()
if child == 0:
    try:
        next(it)
    except RuntimeError as error:
        ok = "fork" in str(error)
    it.close()
    del it
    # A run of its own.
    ok = ok and sum(len(b["n"]) for b in ds) == 1000
    sys.exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(1 + sum(1 for _ in it))
"""
    assert run_python(code, dataset) == "100"


def test_the_gil_is_free_while_waiting():
    out = run_python(SLOW.replace("30", "1").replace("1000", "2") + """
began = time.monotonic()
waiter = threading.Thread(target=lambda: next(it))
waiter.start()
spins = 0
while waiter.is_alive():
    spins += 1
print(spins > 1000)
""")
    assert out == "True"


def test_many_threads_share_an_iterator(parsed):
    it = iter(parsed)
    found = []

    def take():
        for row in it:
            found.append(row["n"])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(RECORDS))


def test_iterators_that_are_dropped_leave_nothing(parsed):
    def threads():
        return len(os.listdir("/proc/self/task"))

    ds = parsed.map(double).batch(10)
    next(iter(ds))
    gc.collect()
    before = threads()
    for _ in range(50):
        next(iter(ds))
    gc.collect()
    assert threads() <= before + 1


# ---- The program


def test_the_command_line():
    path = str(REPOSITORY / "python")
    done = subprocess.run([sys.executable, "-m", "shardfeed", "--version"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.strip() == f"shardfeed {sf.__version__}"


PROGRAM = REPOSITORY / "python/shardfeed/bin/shardfeed"


def test_the_package_has_the_library_once():
    """The program is in the extension; bin/shardfeed only calls it."""
    assert PROGRAM.stat().st_size < 50_000
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, env={})
    assert (done.returncode, done.stdout) == (0, f"shardfeed {sf.__version__}\n")


def test_the_package_is_small():
    """scripts/wheel refuses 10 MB; what wheels add are libraries of 1 MB and the Python code."""
    assert len(zlib.compress(extension().read_bytes(), 9)) < 7_500_000


def test_a_program_without_its_extension(tmp_path):
    program = tmp_path / "bin/shardfeed"
    program.parent.mkdir()
    shutil.copy(PROGRAM, program)
    missing = tmp_path / extension().name

    def message():
        done = subprocess.run([program, "--version"], capture_output=True, text=True)
        assert done.returncode == IO_FAILED
        return done.stderr

    assert re.fullmatch(rf"shardfeed: {tmp_path}/bin/../{missing.name}: cannot open .*; reinstall the "
                        "Python package\n", message())
    shutil.copy(next(pathlib.Path("/lib/x86_64-linux-gnu").glob("libz.so.1")), missing)  # another library
    assert re.fullmatch(rf"shardfeed: {tmp_path}/bin/../{missing.name}: undefined symbol: shardfeed_program; "
                        "reinstall the Python package\n", message())


def test_the_program_of_the_package_has_exceptions_and_errors(tmp_path):
    """They cross from the extension to the program as they do within one file."""
    def run(*arguments):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
        return done.returncode, done.stderr

    status, error = run("verify", "--threads", "none")  # CLI11 throws
    assert status == USAGE and "--jobs: 'none' is not an integer of at least 1" in error
    status, error = run("verify", tmp_path / "nothing")
    assert status == IO_FAILED and str(tmp_path / "nothing") in error
    (tmp_path / "x.tfrecord").write_bytes(b"no frame, just some text of more than 12 bytes")
    status, error = run("verify", tmp_path / "x.tfrecord")
    assert status == DEFECTS


def test_convert_verify_index_inspect(tmp_path):
    out = tmp_path / "images@2"
    report = sf.convert("imagefolder", TESTDATA / "images", out, limit=8, no_sync=True)
    assert report["records"] == 8
    assert sf.verify(out)
    assert sf.index(out, export="dali")["records"] == 8
    seen = sf.inspect(out)
    assert seen.records == 8 and "feature" in repr(seen)
    assert "data:image/" in seen._repr_html_()
    assert list(seen.classes["image/class/label"].values()) == [
        "circles", "gradients", "stripes", "triangles"]
    assert "4 classes of image/class/label: 'circles', 'gradients'" in repr(seen)
    sf.convert("imagefolder", TESTDATA / "images", tmp_path / "again@1", like=out, no_sync=True)
    (tmp_path / "t.csv").write_text("a;b\n" + "1;x\n" * 200 + "2,5;y\n")
    (tmp_path / "kinds").write_text('{"a": "float"}')
    with pytest.raises(sf.DataLossError, match='got "2,5"; pass decimal=\',\' to read it as a number$'):
        sf.convert("csv", tmp_path / "t.csv", tmp_path / "t@1", schema=tmp_path / "kinds")
    with pytest.raises(ValueError, match="; pass overwrite=True to replace it$"):
        sf.convert("imagefolder", TESTDATA / "images", out)
    with pytest.raises(OSError, match="No such file"):
        sf.convert("csv", tmp_path / "nothing.csv", tmp_path / "b@1")
    assert "intact" in repr(sf.verify(out)) and "<table>" not in sf.verify(out)._repr_html_()
    # The images are gone by the time they are shown.
    for path in tmp_path.glob("images-*"):
        path.unlink()
    assert "<table>" in seen._repr_html_() and "data:image/" not in seen._repr_html_()


def test_records_that_are_left_out_are_no_error(tmp_path):
    """The program's exit status says so; the result has their number."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n4,5\n")
    with pytest.raises(sf.DataLossError, match="t.csv:3: expected 2 cells"):
        sf.convert("csv", tmp_path / "t.csv", tmp_path / "x@1")
    done = sf.convert("csv", tmp_path / "t.csv", tmp_path / "x@1", on_error="skip")
    assert (done["records"], done["skipped"]) == (2, 1)
    seen = sf.convert("csv", tmp_path / "t.csv", tmp_path / "y@1", on_error="skip", dry_run=True)
    assert (seen["dry_run"], seen["skipped"]) == (True, 1)


def test_an_iterator_may_be_collected_on_a_thread_of_its_own(tmp_path):
    # Its cycle is found while the function of the run allocates, so the thread would wait for itself.
    script = tmp_path / "cycle.py"
    script.write_text(f"""
import gc, sys, time, weakref
sys.path.insert(0, {str(REPOSITORY / "python")!r})
import shardfeed as sf

class Cycle:
    pass

def fn(row):
    return {{"x": len([[i] for i in range(3000)])}}

cycle = Cycle()
cycle.iterator = iter(sf.range(10 ** 6).map(fn, output={{"x": sf.int64}}))
cycle.itself = cycle
next(cycle.iterator)
gone = weakref.ref(cycle)
gc.disable()
del cycle
gc.enable()
for _ in range(1000):
    if gone() is None:
        break
    time.sleep(0.01)
assert gone() is None, "not collected"
print(list(sf.range(3).map(fn, output={{"x": sf.int64}}))[-1]["x"])
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3000\n"), done.stderr
