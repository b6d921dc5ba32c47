"""Trains with Lightning's Trainer on an sf.torch.IterableDataset.

    python examples/python/lightning_fit.py
"""

import tempfile

import lightning
import numpy as np
import shardfeed as sf
import torch
from torch.utils.data import DataLoader


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for _ in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum())})


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.losses: list[float] = []

    def training_step(self, batch, _):
        loss = torch.mean((self.layer(batch["x"])[:, 0] - batch["y"]) ** 2)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(f"{folder}/train@4")
        ds = (sf.read(f"{folder}/train@4")
              .shuffle(seed=1)
              .parse({"x": sf.fixed(4), "y": sf.float32})
              .batch(32))
        # The dataset shares the elements out over ranks and workers, and its batches are passed on
        # unchanged.
        loader = DataLoader(sf.torch.IterableDataset(ds), batch_size=None)
        model = Model()
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False,
                                    enable_checkpointing=False, enable_progress_bar=False,
                                    enable_model_summary=False)
        trainer.fit(model, loader)
        print(f"{len(model.losses)} steps; error: {model.losses[0]:.4f} at first, "
              f"{model.losses[-1]:.4f} after")


if __name__ == "__main__":
    main()
