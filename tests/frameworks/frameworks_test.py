"""Programs of torch, torchdata, Lightning, Accelerate, Keras, TFDS and JAX, which count the records
that they get over epochs, ranks, workers and resumes. The programs are beside this file.

    scripts/test --frameworks       installs the frameworks, and runs these

There are 997 records, so that nothing is divided evenly by chance. Records that cannot be divided
evenly are left out of an epoch, as `end` of sf.read says: less than a batch for each rank's worker.
"""

import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

import common  # noqa: E402  which imports shardfeed
from common import RECORDS, flat  # noqa: E402

SECONDS = 300  # time limit of a program
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",
             "SLURM_PROCID", "SLURM_NTASKS")


def needs(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: scripts/test --frameworks installs it")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    spec = tmp_path_factory.mktemp("data") / f"train@{common.SHARDS}"
    common.write(spec)
    return str(spec)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(command, output, **environment):
    """Starts a program in a process group of its own, which can be killed."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    kept.update(PYTHONPATH=str(REPOSITORY / "python"), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1",
                TF_CPP_MIN_LOG_LEVEL="3", ACCELERATE_USE_CPU="true", JAX_PLATFORMS="cpu",
                PYTHONWARNINGS="ignore", PYTHONFAULTHANDLER="1", **environment)
    with open(output, "wb") as out:
        return subprocess.Popen([sys.executable, *map(str, command)], stdin=subprocess.DEVNULL,
                                stdout=out, stderr=subprocess.STDOUT, env=kept,
                                start_new_session=True)


def finish(started):
    """Waits for the processes of [(process, output)], and ends those that remain."""
    until = time.monotonic() + SECONDS
    try:
        for process, output in started:
            try:
                status = process.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = f"no end within {SECONDS} s"
            assert status == 0, f"{status}: {output.read_text(errors='replace')}"
    finally:
        for process, _ in started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def run(program, folder, dataset, *arguments, processes=0):
    """Runs a program to its end, with `processes` ranks (0: a single process without ranks). Returns
    their reports in the order of the ranks."""
    for told in folder.glob("rank-*.jsonl"):
        told.unlink()
    port = free_port()
    started = []
    for rank in range(max(processes, 1)):
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if processes:
            environment.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
        output = folder / f"output-{rank}.txt"
        started.append((start([HERE / program, folder, dataset, *arguments], output, **environment),
                        output))
    finish(started)
    return [json.loads(line) for path in sorted(folder.glob("rank-*.jsonl"))
            for line in path.read_text().splitlines()]


def shared_out(parts, batch=1):
    """How many of the records remain in whole rounds of a batch for each part."""
    return RECORDS // (parts * batch) * parts * batch


def check_once(numbers, count=RECORDS):
    """Checks that each number appears once, and that there are `count`."""
    assert len(numbers) == len(set(numbers)) == count
    assert set(numbers) <= set(range(RECORDS))


def check_epochs(epochs, count=RECORDS):
    """Checks three epochs [epoch][batch][record]: each record once, in another order each time."""
    assert len(epochs) == 3
    orders = [tuple(flat(epoch)) for epoch in epochs]
    for order in orders:
        check_once(order, count)
    assert len(set(orders)) == 3


def together(told):
    """[epoch][batch][record] of all ranks, with their batches concatenated."""
    return [sum(parts, []) for parts in zip(*[line["epochs"] for line in told])]


# ---- torch's DataLoader

LOADERS = [("fork", 0, False), ("fork", 1, True), ("fork", 2, False), ("fork", 3, True),
           ("spawn", 2, False), ("spawn", 3, True)]


@pytest.mark.parametrize("kind", ["iterable", "batches", "by_number"])
@pytest.mark.parametrize("context, workers, persistent", LOADERS)
def test_a_loader_gives_each_record_once_an_epoch(dataset, tmp_path, kind, context, workers,
                                                  persistent):
    """IterableDataset by rows and by batches, MapDataset by torch's sampler."""
    needs("torch")
    told, = run("torch_loaders.py", tmp_path, dataset, kind, context, workers, persistent)
    count = RECORDS if kind == "by_number" else shared_out(max(workers, 1))
    check_epochs(told["epochs"], count)


@pytest.mark.parametrize("context, workers, persistent", LOADERS)
def test_take_skip_and_enumerate_count_for_all_workers(dataset, tmp_path, context, workers,
                                                       persistent):
    """The loader delivers the same as the chain alone, with any number of workers; after enumerate
    that is everything, because nothing is left out there."""
    needs("torch")
    told = run("torch_loaders.py", tmp_path, dataset, "counted", context, workers, persistent)
    assert [line["step"] for line in told] == ["take", "skip", "enumerate"]
    for line, count in zip(told, [100, RECORDS - 900, RECORDS]):
        for epoch, first in zip(line["epochs"], line["first"]):
            check_once(epoch, count)
            assert set(epoch) == set(first)
        assert len({tuple(epoch) for epoch in line["epochs"]}) == 3
    for places in told[2]["places"]:
        assert sorted(places) == list(range(RECORDS))


@pytest.mark.parametrize("workers", [0, 2])
def test_distributed_samplers_cover_all_records(dataset, tmp_path, workers):
    """torch's DistributedSampler and shardfeed's, on three ranks: the same records, all of them, and
    the same number for each rank."""
    needs("torch")
    told = run("torch_loaders.py", tmp_path, dataset, "sampler", "fork", workers, False)
    assert [line["rank"] for line in told] == [0, 1, 2]
    for line in told:
        assert line["ours"] == line["epochs"]
        assert [len(flat(epoch)) for epoch in line["epochs"]] == [333] * 3
    orders = [tuple(flat(epoch)) for epoch in together(told)]
    assert len(set(orders)) == 3
    for order in orders:
        assert set(order) == set(range(RECORDS))  # two appear twice, so that all ranks have 333


# ---- torchdata


@pytest.mark.parametrize("kind", ["iterable", "batches", "by_number"])
@pytest.mark.parametrize("workers", [0, 2])
def test_another_process_goes_on_with_a_stateful_loader(dataset, tmp_path, kind, workers):
    """Stopped within the first epoch: the second process delivers the batches that the first one did
    not deliver, then the next epoch, as if there had been no stop."""
    needs("torch", "torchdata")

    def epochs(stop):
        told, = run("torchdata_resume.py", tmp_path, dataset, kind, workers, stop)
        return told["epochs"]

    whole = epochs("whole")
    count = RECORDS if kind == "by_number" else shared_out(max(workers, 1))
    for stop in (1, 37):
        first, = epochs(stop)
        assert len(first) == stop
        rest, following = epochs("rest")
        check_once(flat(first + rest), count)
        assert [first + rest, following] == whole
    check_once(flat(whole[1]), count)
    # The sampler's epochs depend on set_epoch alone.
    assert (whole[0] == whole[1]) == (kind == "by_number")


# ---- torch.distributed


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("kind, workers", [("chain", 0), ("loader", 0), ("loader", 2), ("pad", 0)])
def test_ranks_have_as_many_records_and_none_twice(dataset, tmp_path, processes, kind, workers):
    """shard() of a chain, and IterableDataset in a loader, with gloo; end="pad" leaves no record out."""
    needs("torch")
    told = run("distributed.py", tmp_path, dataset, kind, workers, processes=processes)
    assert [line["rank"] for line in told] == list(range(processes))
    for sizes in zip(*[[[len(batch) for batch in epoch] for epoch in line["epochs"]]
                       for line in told]):
        assert all(size == sizes[0] for size in sizes)  # the same number and sizes of batches
    if kind == "pad":
        for epoch in together(told):
            assert set(flat(epoch)) == set(range(RECORDS))
            assert len(flat(epoch)) == -(-RECORDS // processes) * processes
    else:
        count = shared_out(processes, 8) if kind == "chain" else shared_out(
            processes * max(workers, 1))
        check_epochs(together(told), count)


@pytest.mark.parametrize("first, then", [(3, 2), (2, 3), (2, 1)])
def test_other_ranks_go_on(dataset, tmp_path, first, then):
    """A state of some number of ranks within an epoch, and its rest by another number of ranks."""
    needs("torch")
    before = run("distributed.py", tmp_path, dataset, "stop", 20, processes=first)
    after = run("distributed.py", tmp_path, dataset, "rest", "-", processes=then)
    check_goes_on(before, after)


def check_goes_on(before, after):
    """Batches of 8: 20 for each rank before; the rest comes once, divided evenly among ranks."""
    delivered = flat(together(before)[0])
    assert len(delivered) == len(before) * 20 * 8
    left = (RECORDS - len(delivered)) // (len(after) * 8) * len(after) * 8
    assert len({len(line["epochs"][0]) for line in after}) == 1
    check_once(delivered + flat(together(after)[0]), len(delivered) + left)


# ---- Lightning


def lightning_epochs(told):
    """[epoch][batch][record] of both ranks, whose numbers of steps must be equal."""
    assert [(line["rank"], line["world"]) for line in told] == [(0, 2), (1, 2)]
    assert len({tuple(epoch for epoch, _ in line["seen"]) for line in told}) == 1
    numbers = sorted({epoch for epoch, _ in told[0]["seen"]})
    return [[batch for line in told for at, batch in line["seen"] if at == epoch]
            for epoch in numbers]


@pytest.mark.parametrize("kind, workers", [("iterable", 0), ("iterable", 2)])
def test_lightning_with_ddp_trains_and_goes_on(dataset, tmp_path, kind, workers):
    """Three epochs on two ranks; then from a checkpoint within the second epoch, and from one at
    the end of the first: each rank gets the same batches as without the stop."""
    needs("torch", "torchdata", "lightning")
    whole = run("lightning_fit.py", tmp_path, dataset, kind, workers)
    parts = 2 * max(workers, 1)
    check_epochs(lightning_epochs(whole), shared_out(parts, 16))
    steps = shared_out(parts, 16) // 2 // 16
    for checkpoint, done in [("step=40.ckpt", 40), ("epoch=0.ckpt", steps)]:
        rest = run("lightning_fit.py", tmp_path, dataset, kind, workers, checkpoint)
        for line, other in zip(rest, whole):
            assert line["seen"] == other["seen"][done:], checkpoint


def test_lightning_without_a_loader(dataset, tmp_path):
    """fit accepts a chain that shards itself as its loader."""
    needs("torch", "torchdata", "lightning")
    told = run("lightning_fit.py", tmp_path, dataset, "chain", 0)
    check_epochs(lightning_epochs(told), shared_out(2, 16))


def test_lightning_shares_records_by_number_out(dataset, tmp_path):
    """Lightning's own DistributedSampler over a MapDataset delivers all records; one appears twice, so
    that both ranks have the same number."""
    needs("torch", "torchdata", "lightning")
    epochs = lightning_epochs(run("lightning_fit.py", tmp_path, dataset, "by_number", 0))
    assert len({tuple(flat(epoch)) for epoch in epochs}) == 3
    for epoch in epochs:
        assert set(flat(epoch)) == set(range(RECORDS)) and len(flat(epoch)) == RECORDS + 1


# ---- Accelerate


def accelerated(told):
    """The results of gather_for_metrics, which are the same on all ranks."""
    assert all(line["gathered"] == told[0]["gathered"] for line in told)
    return told[0]["gathered"]


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("kind, dispatch", [("rows", "default"), ("rows", "share"),
                                            ("batches", "default"), ("by_number", "default")])
def test_prepared_loaders_share_all_records_out(dataset, tmp_path, processes, kind, dispatch):
    """Accelerate divides what a loader delivers among the ranks, on the first rank (the default for
    an IterableDataset) or on each of them; then the dataset must not divide it as well."""
    needs("torch", "accelerate")
    told = run("accelerate_fit.py", tmp_path, dataset, kind, dispatch, 0, "-", processes=processes)
    check_accelerated(told, processes, RECORDS, dispatch)


@pytest.mark.parametrize("kind, dispatch, context", [
    ("rows", "default", "fork"), ("rows", "share", "fork"), ("rows", "share", "spawn"),
    ("batches", "default", "spawn")])
def test_prepared_loaders_with_workers(dataset, tmp_path, kind, dispatch, context):
    """The workers also know that Accelerate divides the data."""
    needs("torch", "accelerate")
    told = run("accelerate_fit.py", tmp_path, dataset, kind, dispatch, 2, context, processes=2)
    check_accelerated(told, 2, shared_out(2), dispatch)


def check_accelerated(told, processes, count, dispatch):
    assert [(line["rank"], line["world"]) for line in told] == [
        (rank, processes) for rank in range(processes)]
    for line in told:
        assert [len(epoch) for epoch in line["epochs"]] == [line["length"]] * 3
    if dispatch == "share":
        # Accelerate fills up the last batches from the epoch's beginning, and gather_for_metrics
        # keeps that.
        orders = [tuple(flat(epoch)) for epoch in together(told)]
        assert len(set(orders)) == 3
        for order in orders:
            assert len(set(order)) == count
            assert len(order) == -(-count // (10 * processes)) * 10 * processes
    else:
        check_epochs(accelerated(told), count)


@pytest.mark.parametrize("workers, context", [(0, "-"), (2, "fork"), (2, "spawn")])
def test_a_loader_that_accelerate_does_not_prepare(dataset, tmp_path, workers, context):
    """The dataset divides the data: each rank reads only its own part."""
    needs("torch", "accelerate")
    told = run("accelerate_fit.py", tmp_path, dataset, "unprepared", "default", workers, context,
               processes=2)
    check_epochs(together(told), shared_out(2 * max(workers, 1)))


@pytest.mark.parametrize("first, then", [(2, 2), (2, 3)])
def test_accelerate_goes_on_from_its_checkpoint(dataset, tmp_path, first, then):
    """A loader that is registered for checkpointing: the same number of ranks, or another one."""
    needs("torch", "torchdata", "accelerate")
    before = run("accelerate_resume.py", tmp_path, dataset, 20, processes=first)
    after = run("accelerate_resume.py", tmp_path, dataset, "rest", processes=then)
    check_goes_on(before, after)


# ---- Keras


@pytest.mark.parametrize("steps", [0, 10])
def test_keras_sees_each_record_once_an_epoch(dataset, tmp_path, steps):
    """fit with validation_data; with steps_per_epoch the epochs are parts of one continuous run, so
    that no record comes twice before all have come."""
    needs("keras", "tensorflow")
    told, = run("keras_fit.py", tmp_path, dataset, steps)
    if steps:
        assert [len(epoch) for epoch in told["epochs"]] == [steps] * 3
        check_once(flat(flat(told["epochs"])), 3 * steps * 32)
    else:
        check_epochs(told["epochs"])
    validation = sf.read(dataset, records="0-99").parse(common.COLUMNS)
    assert [flat(tested) for tested in told["tested"]] == [[row["n"] for row in validation]] * 3


# ---- TensorFlow Datasets


def test_tfds_reads_what_convert_writes(tmp_path):
    """A folder of convert --tfds in builder_from_directory: each record once per epoch, and each
    half of a split."""
    needs("tensorflow", "tensorflow_datasets")
    table = tmp_path / "t.csv"
    table.write_text("n,name\n" + "".join(f"{i},name {i}\n" for i in range(RECORDS)))
    spec = tmp_path / "numbers/1.0.0/train@5"
    sf.convert("csv", table, spec, tfds=True)
    told, = run("tfds_folder.py", tmp_path, spec, "ours")
    assert told["examples"] == RECORDS
    for epoch in told["epochs"]:
        check_once(epoch)
    check_once(flat(told["halves"]))
    assert abs(len(told["halves"][0]) - len(told["halves"][1])) <= 1


def test_what_tfds_writes_is_read(tmp_path):
    """Each record of a split once per epoch, in shardfeed's orders."""
    needs("tensorflow", "tensorflow_datasets")
    told, = run("tfds_folder.py", tmp_path, "-", "theirs")
    check_epochs([[epoch] for epoch in told["epochs"]])
    assert told["test"] == 10


# ---- JAX


@pytest.mark.parametrize("processes", [1, 2])
def test_jax_processes_have_their_parts(dataset, tmp_path, processes):
    """shard() by jax.process_index(); the global arrays made of the parts hold each record once, as
    their sums over all devices show."""
    needs("jax")
    coordinator = f"127.0.0.1:{free_port()}"
    outputs = [tmp_path / f"output-{process}.txt" for process in range(processes)]
    finish([(start([HERE / "jax_processes.py", tmp_path, dataset, coordinator, processes, process],
                   outputs[process]), outputs[process]) for process in range(processes)])
    told = [json.loads((tmp_path / f"rank-{process}.jsonl").read_text())
            for process in range(processes)]
    check_epochs(together(told), shared_out(processes, 8))
    for line in told:
        assert line["arrays"]
        assert line["sums"] == [sum(flat(epoch)) for epoch in together(told)]
