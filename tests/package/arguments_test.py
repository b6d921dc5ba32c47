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
