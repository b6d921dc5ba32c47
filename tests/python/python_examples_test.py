"""The examples of the Python package."""

import importlib.util
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

EXAMPLES = REPOSITORY / "examples/python"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}


def example(*command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                          timeout=600, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tabular_mlp():
    first, last = losses(example(EXAMPLES / "tabular_mlp.py"))
    assert last < first / 2


def test_text_pack():
    assert "the first batch is (4, 256)" in example(EXAMPLES / "text_pack.py")


def losses(out):
    first, last = re.search(r"error: ([\d.]+) at first, ([\d.]+) after", out).groups()
    return float(first), float(last)


# ---- Processes that train together


def needs(*modules):
    """What CI does not install is tested where it is."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (pip install {module})")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    # As many as no number of processes divides: the rest of an epoch is the same for all.
    sf.convert("imagefolder", REPOSITORY / "testdata/pictures", folder / "train@3", limit=23,
               no_sync=True)
    return folder / "train@3"


def torchrun(processes, *arguments):
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}",
            "--standalone", EXAMPLES / "ddp.py", *arguments]


def steps_of(out):
    """The records of each step, and its loss."""
    found = re.findall(r"step (\d+) loss ([\d.]+) records (.*)", out)
    parts = [[part.split(",") for part in records.split("|")] for _, _, records in found]
    records = [(int(step), sorted(name.strip() for names in part for name in names))
               for (step, _, _), part in zip(found, parts)]
    return records, [float(loss) for _, loss, _ in found]


def killed_at(step, processes, *arguments):
    """Starts the training, and kills all its processes once it tells of that step."""
    out = []
    with subprocess.Popen([str(a) for a in torchrun(processes, *arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as run:
        for line in run.stdout:
            out.append(line)
            if line.startswith(f"step {step} "):
                for pid in [*descendants(run.pid), run.pid]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass  # it ended with another
    return steps_of("".join(out))


def descendants(pid):
    try:
        own = [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [p for child in own for p in [*descendants(child), child]]


def test_ddp_goes_on_with_any_number_of_processes(pictures, tmp_path):
    needs("torch")
    whole, whole_losses = steps_of(example(*torchrun(2, pictures, tmp_path / "whole", 12)[1:]))
    assert [step for step, _ in whole] == list(range(1, 13))
    assert all(len(set(records)) == 8 for _, records in whole)  # the ranks' are disjoint
    alone, alone_losses = steps_of(example(*torchrun(1, pictures, tmp_path / "alone", 12)[1:]))
    assert alone == whole and np.allclose(alone_losses, whole_losses, rtol=1e-4)
    for processes in (1, 4):
        checkpoint = tmp_path / f"cut{processes}"
        start, _ = killed_at(random.randint(2, 9), 2, pictures, checkpoint, 12)
        rest, rest_losses = steps_of(example(*torchrun(processes, pictures, checkpoint, 12)[1:]))
        first = rest[0][0]  # behind the last checkpoint that was complete
        assert 1 < first <= len(start) + 2
        assert start[:first - 1] + rest == whole
        assert np.allclose(rest_losses, whole_losses[first - 1:], rtol=1e-4)


def check_two_processes(out, batch):
    found = re.findall(r"worker (\d) step (\d+) loss ([\d.]+) records (.*)", out)
    assert len(found) == 2 * 30
    by_worker = {w: [f[1:] for f in found if f[0] == w] for w in "01"}
    for (_, loss, records), (_, other_loss, others) in zip(by_worker["0"], by_worker["1"]):
        assert loss == other_loss
        both = records.split(",") + others.split(",")
        assert len(set(both)) == len(both) == 2 * batch
    epoch = [r for step in by_worker.values() for _, _, records in step[:15]
             for r in records.split(",")]
    assert len(set(epoch)) == len(epoch)
    assert float(by_worker["0"][-1][1]) < 0.01


def test_tensorflow_on_two_processes():
    needs("tensorflow")
    check_two_processes(example(EXAMPLES / "tf_multi_worker.py"), 32)


def test_jax_on_two_processes():
    needs("jax")
    check_two_processes(example(EXAMPLES / "jax_processes.py"), 32)


# ---- Frameworks


@pytest.mark.parametrize("name, modules", [
    ("lightning_fit", ["lightning"]), ("accelerate_loop", ["torch", "accelerate"]),
    ("hf_trainer", ["torch", "transformers", "accelerate"]), ("keras_fit", ["keras", "tensorflow"])])
def test_frameworks(name, modules):
    needs(*modules)
    first, last = losses(example(EXAMPLES / f"{name}.py"))
    assert last < first / 10
