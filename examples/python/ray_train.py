"""Prepares a dataset with Ray Data, and trains on it with Ray Train, whose workers read their own parts of the shards.
It takes Ray and pyarrow (pip install 'shardfeed[ray]' 'ray[train]').

    python examples/python/ray_train.py [OUT@N]
"""

import pathlib
import sys
import tempfile
from typing import Any, Dict

import numpy as np
import ray
import shardfeed as sf
import shardfeed.ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

WEIGHTS = np.array([0.5, -1.0, 2.0], np.float32)


def prepare(batch: Dict[str, np.ndarray]) -> Dict[str, Any]:
    x = np.stack([np.sin(batch["id"] * k) for k in (1, 2, 3)], axis=1).astype(np.float32)
    return {"x": x, "y": x @ WEIGHTS}


def train(settings: Dict[str, Any]) -> None:
    """Runs in each worker: gradient descent on a linear model."""
    weights = np.zeros(3, np.float32)
    ds = sf.read(settings["spec"], batch=32).shuffle(seed=1).parse({"x": sf.fixed(3), "y": sf.float32}).batch(32)
    # feed() knows this worker's rank and their number, so each row of an epoch goes to one worker.
    rows = 0
    for batch in shardfeed.ray.feed(ds.repeat(20)):
        x, y = np.asarray(batch["x"]), np.asarray(batch["y"])
        weights -= 0.5 * x.T @ (x @ weights - y) / len(y)
        rows += len(y)
    rank = ray.train.get_context().get_world_rank()
    error = float(np.abs(weights - WEIGHTS).max())
    pathlib.Path(settings["results"], f"rank{rank}").write_text(f"rank {rank}: {rows} rows, error {error:.4f}")


def main(spec: str, folder: str) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        report = shardfeed.ray.write(ray.data.range(2048).map_batches(prepare), spec)
        print(f"{report['records']} records in {report['shards']} shards")
        DataParallelTrainer(train, train_loop_config={"spec": spec, "results": folder},
                            scaling_config=ScalingConfig(num_workers=2),
                            run_config=RunConfig(storage_path=f"{folder}/runs")).fit()
    finally:
        ray.shutdown()
    for result in sorted(pathlib.Path(folder).glob("rank*")):
        print(result.read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/train@4", folder)
