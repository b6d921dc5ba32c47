"""Trains with TensorFlow's MultiWorkerMirroredStrategy on two processes, each with its own records.

    python examples/python/tf_multi_worker.py        starts both processes, each with a TF_CONFIG

If TF_CONFIG is set, the program runs as one of the processes.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import numpy as np
import shardfeed as sf

WORKERS, BATCH, STEPS = 2, 32, 30


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for n in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum()), "n": n})


def work(spec: str) -> None:
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def feed(context):
        return sf.tf.dataset(
            sf.read(spec, batch=BATCH)
            .shuffle(seed=1)
            .shard(context.input_pipeline_id, context.num_input_pipelines)
            .repeat()
            .parse({"x": sf.fixed(4), "y": sf.float32, "n": sf.int64})
            .batch(BATCH))

    with strategy.scope():
        w = tf.Variable(tf.zeros([4, 1]))
    batches = iter(strategy.distribute_datasets_from_function(feed))

    @tf.function
    def step(batch):
        def replica(b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.squeeze(b["x"] @ w, 1) - b["y"]) ** 2)
            context = tf.distribute.get_replica_context()
            grad = context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, w))
            w.assign_sub(0.1 * grad)
            return loss
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica, args=(batch,)),
                               axis=None)

    for number in range(STEPS):
        batch = next(batches)
        records = strategy.experimental_local_results(batch["n"])[0].numpy()
        print(f"step {number} loss {step(batch).numpy():.6f} "
              f"records {','.join(map(str, records))}", flush=True)


def main() -> None:
    if "TF_CONFIG" in os.environ:
        work(sys.argv[1])
        return
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(WORKERS)]
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    with tempfile.TemporaryDirectory() as folder:
        spec = str(pathlib.Path(folder) / "train@4")
        write_dataset(spec)
        workers = []
        for index in range(WORKERS):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            workers.append(subprocess.Popen([sys.executable, __file__, spec],
                                            env={**os.environ, "TF_CONFIG": json.dumps(config)},
                                            stdout=subprocess.PIPE, text=True))
        for index, worker in enumerate(workers):
            for line in worker.communicate()[0].splitlines():
                print(f"worker {index} {line}")
        sys.exit(max(worker.returncode for worker in workers))


if __name__ == "__main__":
    main()
