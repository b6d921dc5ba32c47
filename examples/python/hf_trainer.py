"""Trains with the Trainer of Hugging Face Transformers, which samples records by number.

    python examples/python/hf_trainer.py
"""

import tempfile

import numpy as np
import shardfeed as sf
import torch
from transformers import Trainer, TrainingArguments


def write_dataset(spec: str) -> None:
    rng = np.random.default_rng(0)
    with sf.write(spec) as writer:
        for _ in range(1000):
            x = rng.normal(size=4).astype(np.float32)
            writer.write({"x": x, "y": float(x.sum())})


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        logits = self.layer(x)[:, 0]
        return {"loss": torch.mean((logits - labels) ** 2), "logits": logits}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(f"{folder}/train@4")
        ds = (sf.read(f"{folder}/train@4")
              .parse({"x": sf.fixed(4), "y": sf.float32})
              .map(lambda row: {"x": row["x"], "labels": row["y"]}))
        trainer = Trainer(
            model=Model(),
            args=TrainingArguments(f"{folder}/out", num_train_epochs=2, use_cpu=True, logging_steps=1,
                                   per_device_train_batch_size=32, learning_rate=0.1, optim="sgd",
                                   lr_scheduler_type="constant", save_strategy="no", report_to=[],
                                   remove_unused_columns=False, disable_tqdm=True),
            # The dataset delivers records by number, a batch at a time.
            train_dataset=sf.torch.MapDataset(ds))
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        print(f"{len(losses)} steps; error: {float(losses[0]):.4f} at first, "
              f"{float(losses[-1]):.4f} after")


if __name__ == "__main__":
    main()
