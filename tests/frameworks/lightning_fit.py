"""Lightning's Trainer with two processes, the second of which it starts itself (strategy "ddp").
Writes checkpoints within epochs (at MIDDLE) and at their ends.

    lightning_fit.py FOLDER DATASET KIND WORKERS [CHECKPOINT]      three epochs, or the rest of them
"""

import common
import lightning
import shardfeed as sf
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

EPOCHS = 3
BATCH = 16
MIDDLE = 40  # steps


class Model(lightning.LightningModule):
    def __init__(self, data, loader):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.data, self.loader = data, loader
        self.seen = []

    def train_dataloader(self):
        # A checkpoint at the end of an epoch has no state of the loader that Lightning would load,
        # and when it is loaded current_epoch still has that epoch's number.
        if hasattr(self.data, "set_epoch"):
            self.data.set_epoch(self.trainer.fit_loop.epoch_progress.current.processed)
        return self.loader

    def training_step(self, batch, _):
        self.seen.append((self.current_epoch, batch["n"].tolist()))
        return torch.mean((self.layer(batch["x"])[:, 0] - batch["y"]) ** 2)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def make_loader(kind, spec, workers):
    """Returns (the dataset with set_epoch, the loader for fit)."""
    if kind == "by_number":  # Lightning inserts a DistributedSampler of its own
        data = sf.torch.MapDataset(sf.read(spec).parse(common.COLUMNS))
        return data, DataLoader(data, shuffle=True, batch_size=BATCH, num_workers=workers)
    if kind == "chain":  # no loader at all
        data = (sf.read(spec, batch=BATCH).shuffle(seed=1).shard().parse(common.COLUMNS)
                .batch(BATCH))
        return data, data.torch()
    data = sf.torch.IterableDataset(common.parsed(spec, batch=BATCH).batch(BATCH))
    return data, StatefulDataLoader(data, batch_size=None, num_workers=workers)


def main():
    folder, spec, (kind, workers, *checkpoint) = common.arguments()
    model = Model(*make_loader(kind, spec, int(workers)))
    callbacks = [] if checkpoint else [
        ModelCheckpoint(folder, filename="{step}", every_n_train_steps=MIDDLE, save_top_k=-1),
        ModelCheckpoint(folder, filename="{epoch}", every_n_epochs=1, save_top_k=-1,
                        save_on_train_epoch_end=True)]
    trainer = lightning.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=2, strategy="ddp", callbacks=callbacks,
        enable_checkpointing=not checkpoint, default_root_dir=folder, logger=False,
        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, weights_only=False,
                ckpt_path=folder / checkpoint[0] if checkpoint else None)
    common.tell(folder, trainer.global_rank, world=trainer.world_size, seen=model.seen)


if __name__ == "__main__":
    main()
