"""Trains with JAX on two processes: each reads its own records, which together form a global array.

    python examples/python/jax_processes.py        starts both processes
"""

import pathlib
import socket
import subprocess
import sys
import tempfile

import numpy as np
import shardfeed as sf

PROCESSES, GLOBAL_BATCH, STEPS = 2, 64, 30


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for n in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum()), "n": n})


def work(spec: str, coordinator: str, process: int) -> None:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    jax.distributed.initialize(coordinator, PROCESSES, process)
    rows = NamedSharding(Mesh(np.array(jax.devices()), "rows"), PartitionSpec("rows"))
    local = GLOBAL_BATCH // PROCESSES
    batches = iter(sf.read(spec, batch=local)
                   .shuffle(seed=1)
                   .shard()  # by jax.process_index()
                   .repeat()
                   .parse({"x": sf.fixed(4), "y": sf.float32, "n": sf.int64})
                   .batch(local)
                   .jax(sharding=rows))

    @jax.jit
    def step(w, x, y):
        loss, grad = jax.value_and_grad(lambda w: jax.numpy.mean((x @ w - y) ** 2))(w)
        return w - 0.1 * grad, loss

    w = jax.numpy.zeros(4)
    for number in range(STEPS):
        batch = next(batches)
        assert batch["x"].shape == (GLOBAL_BATCH, 4)
        w, loss = step(w, batch["x"], batch["y"])
        read = [int(n) for part in batch["n"].addressable_shards for n in np.asarray(part.data)]
        print(f"step {number} loss {loss:.6f} records {','.join(map(str, read))}", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        return
    with socket.create_server(("127.0.0.1", 0)) as s:
        coordinator = "127.0.0.1:%d" % s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        spec = str(pathlib.Path(folder) / "train@4")
        write_dataset(spec)
        workers = [subprocess.Popen([sys.executable, __file__, spec, coordinator, str(process)],
                                    stdout=subprocess.PIPE, text=True)
                   for process in range(PROCESSES)]
        for process, worker in enumerate(workers):
            for line in worker.communicate()[0].splitlines():
                print(f"worker {process} {line}")
        sys.exit(max(worker.returncode for worker in workers))


if __name__ == "__main__":
    main()
