"""Wrong arguments from Python raise exceptions that name them: they never end the interpreter."""

import resource
import subprocess
import sys
import textwrap

import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

LIMIT = 4 << 30

START = """
import sys
sys.path.insert(0, FOLDER)
import numpy as np
import shardfeed as sf
path = PATH

def written():
    with sf.write(path + "/x@2") as w:
        for i in range(100):
            w.write({"t": [i] * (i % 5 + 1), "n": i})
    return sf.read(path + "/x@2")

def tokens():
    return written().parse({"t": sf.var(dtype="int64"), "n": sf.fixed(dtype="int64")})
"""


def run(code, tmp_path):
    """Runs `code` in a process of its own, in bounded memory: the line of its exception, which
    must be one of Python's."""
    start = START.replace("PATH", repr(str(tmp_path)))
    start = start.replace("FOLDER", repr(str(REPOSITORY / "python")))
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)], capture_output=True, timeout=120,
        text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)))
    assert done.returncode == 1, (done.returncode, done.stderr[-2000:])
    assert "Traceback" in done.stderr
    return done.stderr.strip().splitlines()[-1]


CASES = {
    "list forgotten": ("sf.read(path).augment('image', sf.augment.RandAugment())",
                       "TypeError: augment: steps must be a list, each of type Augmentation, not Rand"),
    "none for an augmentation": ("sf.read(path).augment('image', [None])",
                                 "TypeError: augment: steps must be a list, each of type Augmentation, not [None]"),
    "name of an augmentation": ("sf.read(path).augment('image', ['RandAugment'])",
                                "TypeError: augment: steps must be a list, each of type Augmentation, not "),
    "list forgotten inside": ("sf.augment.RandomApply(sf.augment.RandAugment())",
                              "TypeError: RandomApply: transforms must be a list, each of type "),
    "a date": ("sf.write(path + '/y@1').write({'v': np.datetime64('2020-01-01')})",
               "TypeError: record 0: feature 'v': "),
    "dates": ("sf.write(path + '/y@1').write({'v': np.array(['2020-01-01'], 'M8[D]')})",
              "TypeError: record 0: feature 'v': "),
    "long rows": ("list(tokens().pack('t', 1 << 40))",
                  "ValueError: pack: the length 1099511627776 and "),
    "rows longer than memory": ("list(tokens().pack('t', 1 << 30).batch(100))",
                                "out of memory"),
    "long padding": ("list(tokens().padded_batch(4, {'t': (1 << 61, 0)}))",
                     "ValueError: pad: column 't': the length must lie between 0 and 2147483647"),
    "padding longer than memory": ("list(tokens().padded_batch(4, {'t': (1 << 30, 0)}))",
                                   "out of memory"),
    "a large batch": ("list(tokens().batch(1 << 63))", "ValueError: batch: size must be at most "),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments_raise(name, tmp_path):
    code, expected = CASES[name]
    if "sf.read(path)" in code:
        code = "written()\n" + code.replace("sf.read(path)", "sf.read(path + '/x@2')")
    assert expected.lower() in run(code, tmp_path).lower()


class Place:
    """A path that is no string, and does not become one with str()."""

    def __init__(self, path):
        self.path = path if isinstance(path, bytes) else str(path)

    def __fspath__(self):
        return self.path


class Nowhere:
    def __fspath__(self):
        raise KeyError("no path")


def test_paths_may_be_objects(tmp_path):
    """Every function that takes a path takes what has __fspath__."""
    at = lambda name: Place(tmp_path / name)  # noqa: E731
    with sf.write(at("x@2")) as writer:
        for i in range(20):
            writer.write({"n": i})
    job = sf.write_job(at("job@1"))
    with job.shard(0) as part:
        part.write({"n": 1})
    job.commit([part.message])
    sf.index(at("x@2"))
    assert sf.verify(at("x@2")).records == 20 and sf.verify([at("job@1")]).records == 1
    assert sf.inspect(at("x@2")).records == 20 and not sf.diff(at("x@2"), at("x@2")).schema
    assert sf.index_shard(at("x-00000-of-00002")) > 0
    assert len(sf.splits(at("x@2"), 2)) == 2
    (tmp_path / "elements").mkdir()
    trace = sf.Trace()
    ds = sf.read(at("x@2"), cache=at("blocks")).parse().cache(path=at("elements")).snapshot(at("snapshot"))
    assert len(list(ds.start(trace=trace, flight_recorder=at("flight")))) == 20
    trace.write(at("trace.json"))
    trace.write(tmp_path / "same.json")
    assert (tmp_path / "trace.json").read_bytes() == (tmp_path / "same.json").read_bytes()
    assert (tmp_path / "snapshot").exists() and (tmp_path / "flight").is_dir()
    with pytest.raises(TypeError):
        trace.write(7)
    for path in (b"t.json", Place(b"t.json")):
        with pytest.raises(TypeError, match="^Trace.write: the path must be a str, or an os.PathLike of one, not bytes$"):
            trace.write(path)
    for path in ("t\0.json", Place("t\0.json")):
        with pytest.raises(ValueError, match="^Trace.write: the path must be a str without NUL$"):
            trace.write(path)
    with pytest.raises(KeyError, match="no path"):
        trace.write(Nowhere())
    (tmp_path / "t.csv").write_text("n\n1\n")
    (tmp_path / "kinds.json").write_text('{"n": "int64"}')
    assert sf.convert("csv", at("t.csv"), at("csv@1"), schema=at("kinds.json"))["records"] == 1
    sf.convert("csv", [at("t.csv")], at("like@1"), like=at("csv@1"), only_shards=[0], job="1")
    assert sf.commit(at("like@1"), job="1")["records"] == 1
