"""Trains with Hugging Face Accelerate: it prepares the model and the optimizer, not a loader.

    accelerate launch examples/python/accelerate_loop.py        or run it with python
"""

import tempfile

import numpy as np
import shardfeed as sf
import torch
from accelerate import Accelerator


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for _ in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum())})


def main() -> None:
    accelerator = Accelerator(cpu=True)
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(f"{folder}/train@4")
        # Accelerate's ranks are those of torch.distributed, which shard() finds: there is no loader
        # to prepare.
        ds = (sf.read(f"{folder}/train@4")
              .shuffle(seed=1)
              .shard()
              .repeat(2)
              .parse({"x": sf.fixed(4), "y": sf.float32})
              .batch(32))
        model = torch.nn.Linear(4, 1)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
        losses = []
        for batch in ds.torch():
            optimizer.zero_grad()
            loss = torch.mean((model(batch["x"])[:, 0] - batch["y"]) ** 2)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        accelerator.print(f"{len(losses)} steps; error: {losses[0]:.4f} at first, "
                          f"{losses[-1]:.4f} after")


if __name__ == "__main__":
    main()
