"""The examples of the Python package."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

EXAMPLES = REPOSITORY / "examples/python"


def example(*command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                          timeout=300,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tabular_mlp():
    first, last = re.search(r"error: ([\d.]+) at first, ([\d.]+) after",
                            example(EXAMPLES / "tabular_mlp.py")).groups()
    assert float(last) < float(first) / 2


def test_text_pack():
    assert "the first batch is (4, 256)" in example(EXAMPLES / "text_pack.py")


def test_ddp_goes_on_with_any_number_of_processes(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    with sf.write(tmp_path / "d@4") as writer:
        for n in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum()), "n": n})

    def train(processes, checkpoint, *limits):
        out = example("-m", "torch.distributed.run", f"--nproc-per-node={processes}",
                      EXAMPLES / "ddp.py", tmp_path / "d@4", tmp_path / checkpoint, *limits)
        found = re.findall(r"step (\d+) loss ([\d.]+) records (\d+)", out)
        return [(int(s), int(r)) for s, _, r in found], [float(loss) for _, loss, _ in found]

    whole, losses = train(2, "whole", 20)
    assert [step for step, _ in whole] == list(range(1, 21))
    alone, alone_losses = train(1, "alone", 20)
    assert alone == whole and np.allclose(losses, alone_losses, rtol=1e-4)
    for processes in (1, 4):
        start, _ = train(2, f"cut{processes}", 20, 7)
        rest, rest_losses = train(processes, f"cut{processes}", 20)
        assert start + rest == whole
        assert np.allclose(rest_losses, losses[7:], rtol=1e-4)
