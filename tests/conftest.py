"""Fixtures of the tests that run the program and compare it with TensorFlow.

    bazel build --config=opt //cli:shardfeed
    python3 -m pytest tests/program tests/package

Needs pytest, Pillow and, for all tests to run, TensorFlow. SHARDFEED_BIN names another binary. Root
also tests full and read-only disks.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

# Set before anything imports TensorFlow: no GPU, no log messages.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Tests of caches do not depend on how full the disk is.
os.environ["SHARDFEED_CACHE_RESERVE"] = "0"

import harness

# Programs in the background may have been told to ignore SIGINT, which their children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "folder_only(why): what only folders have, in a suite HERE_AND_IN_STORE")
    if not harness.BINARY.exists():
        pytest.exit(f"{harness.BINARY} is missing: build it with 'bazel build --config=opt "
                    "//cli:shardfeed', or set SHARDFEED_BIN", returncode=3)


def pytest_generate_tests(metafunc):
    """Suites that say HERE_AND_IN_STORE = True run twice: over folders, and over a store."""
    if getattr(metafunc.module, "HERE_AND_IN_STORE", False):
        only_folders = metafunc.definition.get_closest_marker("folder_only")
        metafunc.parametrize("folder_or_store", ["folder"] if only_folders else ["folder", "store"], indirect=True)


@pytest.fixture(scope="session")
def bucket():
    """The endpoint of a store whose bucket "files" has the files of this machine."""
    with harness.served("/", "delay-2", bucket=("--bucket", "files")) as url:
        yield url


@pytest.fixture(autouse=True)
def folder_or_store(request, monkeypatch):
    """Where the datasets of a test are: "store" makes URLs of the paths that the program and the package get."""
    if getattr(request, "param", "folder") == "folder":
        return
    # Writers that are killed leave their indexes in the folder for temporary files.
    temporary = request.getfixturevalue("tmp_path_factory").mktemp("temporary")
    for name, value in {"AWS_ENDPOINT_URL": request.getfixturevalue("bucket"), "AWS_ACCESS_KEY_ID": "key",
                        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "here", "TMPDIR": str(temporary)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(harness, "STORE", "s3://files")
    sf = sys.modules.get("shardfeed")
    for name in ("read", "write", "verify", "index", "inspect") if sf else ():
        def over_store(dataset, *arguments, of=getattr(sf, name), **options):
            if isinstance(dataset, (list, tuple)):
                return of([harness.in_store(each) for each in dataset], *arguments, **options)
            return of(harness.in_store(dataset), *arguments, **options)
        monkeypatch.setattr(sf, name, over_store)


@pytest.fixture(scope="session")
def tf():
    """TensorFlow, imported by the first test that needs it."""
    return pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


@pytest.fixture(scope="session")
def large(tf, tmp_path_factory):
    """Three shards of 20,000 small records each, raw and GZIP (one member): the records in order,
    and the folder, whose subfolders are named after the compression."""
    folder = tmp_path_factory.mktemp("large")
    records = [harness.example(tf, number=[i], text=[b"x" * (i % 97)]) for i in range(60_000)]
    for kind in ("", "GZIP"):
        for shard in range(3):
            path = folder / (kind or "none") / f"train-{shard:05}-of-00003"
            path.parent.mkdir(exist_ok=True)
            harness.write_by_tensorflow(tf, path, records[shard * 20_000:(shard + 1) * 20_000],
                                        kind)
    return records, folder


@pytest.fixture
def out(tmp_path) -> pathlib.Path:
    """A folder to write datasets to, which does not exist yet."""
    return tmp_path / "out"


@pytest.fixture
def open_folder():
    """A folder that, unlike tmp_path, every user may access and write to."""
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name).chmod(0o777)
        yield pathlib.Path(name)


@pytest.fixture
def run_without_privilege(open_folder):
    """Runs shardfeed as a user that, unlike root, may not read everything."""
    become = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("run by root, and setpriv is missing to become another user")
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    binary = shutil.copy(harness.BINARY, open_folder / "shardfeed")

    def run(*arguments):
        return subprocess.run([*become, binary, *map(str, arguments)], capture_output=True, text=True)
    return run


@pytest.fixture
def copy_of(tmp_path):
    """Copies a file of testdata to where indexes may be written beside it."""
    def copy(name):
        target = tmp_path / pathlib.Path(name).name
        target.write_bytes((harness.TESTDATA / name).read_bytes())
        return target
    return copy


def library_to_preload(folder, name):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip(f"no C compiler for {name}.c")
    library = folder / f"{name}.so"
    source = harness.REPOSITORY / "tests/program" / f"{name}.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
                   check=True)
    return library


@pytest.fixture(scope="session")
def faults(tmp_path_factory):
    """A library to preload, see faults.c."""
    return library_to_preload(tmp_path_factory.mktemp("faults"), "faults")


@pytest.fixture(scope="session")
def no_memory(tmp_path_factory):
    """A library to preload, see no_memory.c."""
    return library_to_preload(tmp_path_factory.mktemp("no_memory"), "no_memory")
