"""The examples of the Python package."""

import functools
import importlib.util
import json
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

EXAMPLES = REPOSITORY / "examples/python"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
STEPS = 12  # of ddp.py: four epochs


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
    """Skips a test whose modules are not installed, as in CI."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (pip install {module})")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    # A number that no number of processes divides, so that the rest of an epoch is tested.
    sf.convert("imagefolder", REPOSITORY / "testdata/images", folder / "train@3", limit=23,
               no_sync=True)
    return folder / "train@3"


@pytest.fixture(scope="module")
def training():
    """Trains: training(program, *datasets)(processes, checkpoint, kill_at=STEP) returns its steps. See ddp_runs.py."""
    needs("torch")
    script = REPOSITORY / "tests/examples/ddp_runs.py"
    with subprocess.Popen([sys.executable, script], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=ENVIRONMENT) as runs:
        def run(program, datasets, processes, checkpoint, kill_at=None):
            request = {"program": program, "processes": processes, "kill_at": kill_at,
                       "arguments": [*map(str, datasets), str(checkpoint), str(STEPS)]}
            runs.stdin.write(json.dumps(request) + "\n")
            runs.stdin.flush()
            done = json.loads(runs.stdout.readline())
            assert done["statuses"] == [0 if kill_at is None else -9] * processes
            return steps_of(done["out"])
        yield lambda program, *datasets: functools.partial(run, program, datasets)
        runs.stdin.close()


@pytest.fixture(scope="module")
def ddp(training, images):
    return training("ddp", images)


def steps_of(out):
    """The records of each step, and its loss."""
    found = re.findall(r"step (\d+) loss ([\d.]+) records (.*)", out)
    parts = [[part.split(",") for part in records.split("|")] for _, _, records in found]
    records = [(int(step), sorted(name.strip() for names in part for name in names))
               for (step, _, _), part in zip(found, parts)]
    return records, [float(loss) for _, loss, _ in found]


@pytest.fixture(scope="module")
def alone(ddp, tmp_path_factory):
    """The training with one process: its steps, and their losses."""
    steps, losses = ddp(1, tmp_path_factory.mktemp("alone") / "checkpoint")
    assert [step for step, _ in steps] == list(range(1, STEPS + 1))
    assert all(len(set(records)) == 8 for _, records in steps)
    return steps, losses


def test_ddp_by_torchrun(images, alone, tmp_path):
    out = example("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
                  EXAMPLES / "ddp.py", images, tmp_path / "checkpoint", STEPS)
    steps, losses = steps_of(out)
    assert steps == alone[0] and np.allclose(losses, alone[1], rtol=1e-4)
    # Both ranks have the same number of records, and no record in common.
    for line in re.findall("^step.*", out, re.M):
        first, second = [set(part.split(",")) for part in line.split("records ")[1].split(" | ")]
        assert len(first) == len(second) == 4 and not first & second


def check_goes_on(train, alone, checkpoint, processes):
    """Kills two processes that train and continues with another number; the losses are those of `alone`, which ran on."""
    start, _ = train(2, checkpoint, kill_at=random.randint(2, STEPS - 3))
    rest, losses = train(processes, checkpoint)
    first = rest[0][0]  # after the last complete checkpoint
    assert 1 < first <= len(start) + 2
    assert start[:first - 1] + rest == alone[0]
    assert np.allclose(losses, alone[1][first - 1:], rtol=1e-4)


@pytest.mark.parametrize("processes", [1, 4])
def test_ddp_goes_on_with_any_number_of_processes(ddp, alone, tmp_path, processes):
    check_goes_on(ddp, alone, tmp_path / "checkpoint", processes)


# ---- A language model on packed rows of a mixture


@pytest.fixture(scope="module")
def language_model(training, tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    poem = (REPOSITORY / "testdata/tables/poem.txt").read_text()
    for name, text in (("web", poem), ("curated", poem.swapcase())):
        (folder / f"{name}.txt").write_text(text)
        example(EXAMPLES / "language_model.py", "--make", folder / f"{name}.txt", folder / f"{name}@2")
    return training("language_model", folder / "web@2", folder / "curated@2")


@pytest.fixture(scope="module")
def lines_alone(language_model, tmp_path_factory):
    steps, losses = language_model(1, tmp_path_factory.mktemp("lines") / "checkpoint")
    assert [step for step, _ in steps] == list(range(1, STEPS + 1))
    assert losses[-1] < losses[0] * 0.9
    return steps, losses


def test_language_model_anneals_its_mixture(lines_alone):
    """A step has about 182 documents, and weights change after 1,024: within steps 6 and 12."""
    for first, last, share in ((1, 5, 0.1), (7, 11, 0.4), (12, 12, 0.7)):
        names = [name for step, names in lines_alone[0] if first <= step <= last for name in names]
        assert abs(sum(name.startswith("1:") for name in names) / len(names) - share) < 0.05


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_language_model_goes_on_with_any_number_of_processes(language_model, lines_alone, tmp_path, processes):
    check_goes_on(language_model, lines_alone, tmp_path / "checkpoint", processes)


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
