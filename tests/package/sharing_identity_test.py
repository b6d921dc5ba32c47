"""sf.share: processes that share have the same data, functions, and files that names stand for."""

import os
import subprocess
import sys

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

from sharing_data import name  # noqa: F401


def write(spec, first, records=8):
    with sf.write(spec, overwrite=True) as writer:
        for i in range(first, first + records):
            writer.write({"x": i})


def chain(spec, **options):
    return sf.read(spec, **options).parse({"x": sf.int64}).batch(4)


def numbers(batches):
    return [int(x) for batch in batches for x in batch["x"]]


# ---- Data


def test_a_dataset_that_was_replaced_is_read_anew(tmp_path, name):
    spec = tmp_path / "a@1"
    write(spec, 0)
    old = sf.share(chain(spec), name=name, ranks=1)
    pid = iter(old).stats()["shared"]["pid"]
    assert numbers(old) == list(range(8))
    write(spec, 500)
    new = sf.share(chain(spec), name=name, ranks=1)
    it = iter(new)
    assert it.stats()["shared"]["pid"] == pid and numbers(it) == list(range(500, 508))
    with pytest.raises(OSError, match=r"share: read\(.*a@1'\).*: the dataset was replaced while it .* open it again"):
        iter(old)
    assert numbers(new) == list(range(500, 508))
    state = sf.share(chain(tmp_path / "a@*"), name=name, ranks=1).start().state_dict()
    write(spec, 500)  # equal
    with sf.share(chain(spec), name=name, ranks=1).start() as it:
        it.load_state_dict(state)
        assert numbers(it) == list(range(500, 508))


def test_ranks_do_not_mix_a_dataset_with_its_replacement(tmp_path, name):
    """One has begun when the dataset is replaced."""
    spec = tmp_path / "a@1"
    write(spec, 0)
    ranks = [sf.share(chain(spec), name=name, ranks=2) for _ in range(2)]
    begun = ranks[0].start()
    write(spec, 500)
    assert numbers(sf.share(chain(spec), name=name, ranks=2)) == list(range(500, 508))
    with pytest.raises(OSError, match="the dataset was replaced while it was in use"):
        ranks[1].start()
    assert numbers(begun) == list(range(8))


def test_a_server_that_starts_later_checks_the_data(tmp_path, name):
    spec = tmp_path / "a@1"
    write(spec, 0)
    it = sf.share(chain(spec), name=name, ranks=1).start()
    write(spec, 500)
    os.kill(it.stats()["shared"]["pid"], 9)
    with pytest.raises(OSError, match="the dataset was replaced while it was in use"):
        numbers(it.__class__(it._link, it._order, it._core, it._structure, None))


def test_few_tables_of_shards_are_kept(tmp_path):
    from shardfeed import sharing_server
    write(tmp_path / "a@1", 0)
    server = sharing_server.Server()
    chains = [chain(tmp_path / "a@1", batch=i + 1) for i in range(100)]
    for ds in chains:
        server._with_common_sources(ds, False)
    assert len(server._sources) == 64
    last = chains[-1]._inputs[0]._inputs[0]
    same = chain(tmp_path / "a@1", batch=100)
    server._with_common_sources(same, False)
    assert same._inputs[0]._inputs[0] is last
    server.forget(same)
    assert len(server._sources) == 63


# ---- Paths


@pytest.mark.parametrize("spec", ["t@1", "./t@*", "t-*", "{u,t}-00000-of-00001"])
def test_relative_names_are_those_of_each_process(tmp_path, name, monkeypatch, spec):
    """Also in folders whose names are patterns."""
    expected = []
    for i, folder in enumerate([tmp_path / "a", tmp_path / "b [x] {1,2}*"]):
        folder.mkdir()
        monkeypatch.chdir(folder)
        write("t@1", 100 * i)
        write("u@1", 1000 + 100 * i)
        expected.append(numbers(chain(spec)))
        ds = sf.share(chain(spec), name=name, ranks=1)
        held = iter(ds)  # the process that reads stays, in the first folder
        assert numbers(ds) == expected[-1] and repr(ds) == f"sf.share({ds.dataset!r})"
    assert expected[0] != expected[1] and held.epoch() == 0
    monkeypatch.chdir(tmp_path)
    ds.set_epoch(0)
    assert numbers(ds) == expected[1]


def test_relative_names_in_mixtures_and_of_snapshots(tmp_path, name, monkeypatch):
    for i, folder in enumerate([tmp_path / "a", tmp_path / "b"]):
        folder.mkdir()
        (folder / "cached").mkdir()
        write(folder / "t@1", 100 * i)
        monkeypatch.chdir(folder)
        kept = []
        mixed = sf.mix({"t": "t@1", "again": sf.read("t@1")}).parse({"x": sf.int64}).batch(4)
        for ds in (mixed, chain("t@1").snapshot("kept"), chain("t@1").cache(path="cached")):
            alone = numbers(ds)
            (folder / "kept").unlink(missing_ok=True)
            ds.set_epoch(0)
            ds = sf.share(ds, name=name, ranks=1)
            held = iter(ds)
            ds.set_epoch(0)
            assert numbers(ds) == alone and held.epoch() == 0
            kept.append((folder / "kept").exists())
        assert kept == [False, True, False]


# ---- Functions

PROGRAM = """
import sys, time
sys.path[:0] = [{package!r}]
import shardfeed as sf
{function}
if __name__ == "__main__":
    ds = sf.read({spec!r}).parse({{"x": sf.int64}}).map({call}, output={{"x": sf.int64}}).batch(4)
    it = iter(sf.share(ds, name={name!r}, ranks=1))
    print([int(x) for batch in it for x in batch["x"]], flush=True)
    sys.stdin.read()
"""


class Programs:
    def __init__(self, spec, name):
        self.options = {"package": str(REPOSITORY / "python"), "spec": str(spec), "name": name}
        self.started = []

    def write(self, path, function, call="f"):
        path.write_text(PROGRAM.format(function=function, call=call, **self.options))
        return path

    def start(self, path):
        """Starts a program, which stays, and returns what it says."""
        process = subprocess.Popen([sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process.stdout.readline().strip() or process.stderr.read()

    def end(self):
        for process in self.started:
            process.stdin.close()
        for process in self.started:
            process.wait()
            process.stdout.close()
            process.stderr.close()


@pytest.fixture
def programs(tmp_path, name):
    write(tmp_path / "a@1", 1, 4)
    made = Programs(tmp_path / "a@1", name)
    yield made
    made.end()


def function(factor):
    return f"def f(row):\n    return {{'x': row['x'] * {factor}}}\n"


def test_functions_of_another_main_program_are_refused(programs, tmp_path):
    first, second = tmp_path / "one.py", tmp_path / "two.py"
    assert programs.start(programs.write(first, function(10))) == "[10, 20, 30, 40]"
    assert programs.start(first) == "[10, 20, 30, 40]"
    said = programs.start(programs.write(second, function(20)))
    assert f"RuntimeError: share: module __main__ is {second} in this process, but the process that reads has " \
           f"imported {first}, which differs; pass another name= in each of two programs" in said
    # A copy of a program is the same.
    second.write_text(first.read_text())
    assert programs.start(second) == "[10, 20, 30, 40]"


def test_functions_of_another_module_of_the_same_name_are_refused(programs, tmp_path):
    for folder, factor in (("a", 10), ("b", 20)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "functions_here.py").write_text(function(factor))
        programs.write(tmp_path / folder / "main.py", "import functions_here", "functions_here.f")
    assert programs.start(tmp_path / "a/main.py") == "[10, 20, 30, 40]"
    said = programs.start(tmp_path / "b/main.py")
    assert f"module functions_here is {tmp_path}/b/functions_here.py in this process" in said
    assert f"imported {tmp_path}/a/functions_here.py, which differs" in said


def test_functions_that_have_changed_are_refused(programs, tmp_path):
    program = programs.write(tmp_path / "main.py", function(10))
    assert programs.start(program) == "[10, 20, 30, 40]"
    programs.write(program, function(20))
    said = programs.start(program)
    assert f"share: {program} was changed between its use by this process and by the process that reads" in said
    programs.end()
    programs.started.clear()
    assert programs.start(program) == "[20, 40, 60, 80]"


def test_functions_of_the_main_program_are_found_in_spawned_ranks(programs, tmp_path):
    program = programs.write(tmp_path / "main.py", function(10))
    text = program.read_text()
    head, tail = text.split('if __name__ == "__main__":\n')
    program.write_text(f"""{head}
import multiprocessing
def work():
{tail}
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
""")
    assert programs.start(program) == "[10, 20, 30, 40]"
