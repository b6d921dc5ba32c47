"""Hugging Face Accelerate: loaders that it prepares, and one that it does not.

    accelerate_fit.py FOLDER DATASET KIND DISPATCH WORKERS CONTEXT
"""

import accelerate
import common
import shardfeed as sf
import torch
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader

EPOCHS = 3
BATCH = 10


def main():
    folder, spec, (kind, dispatch, workers, context) = common.arguments()
    options = {"num_workers": int(workers)}
    if options["num_workers"]:
        options.update(multiprocessing_context=context)
    choice = {"default": None, "dispatch": True, "share": False}[dispatch]
    accelerator = accelerate.Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=choice))
    chain = common.parsed(spec)
    if kind == "rows":
        loader = DataLoader(sf.torch.IterableDataset(chain), batch_size=BATCH, **options)
    elif kind in ("batches", "unprepared"):
        loader = DataLoader(sf.torch.IterableDataset(chain.batch(BATCH)), batch_size=None,
                            **options)
    else:
        loader = DataLoader(sf.torch.MapDataset(sf.read(spec).parse(common.COLUMNS)), shuffle=True,
                            batch_size=BATCH, **options)
    model = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    length = None
    if kind != "unprepared":
        loader = accelerator.prepare(loader)
        length = len(loader)
    epochs, gathered = [], []
    for _ in range(EPOCHS):
        mine, all_of_them = [], []
        for batch in loader:
            optimizer.zero_grad()
            loss = torch.mean((model(batch["x"])[:, 0] - batch["y"]) ** 2)
            accelerator.backward(loss)
            optimizer.step()
            mine.append(batch["n"].tolist())
            # Leaves out the records that Accelerate repeats to give all ranks the same number.
            all_of_them.append(accelerator.gather_for_metrics(batch["n"]).tolist())
        epochs.append(mine)
        gathered.append(all_of_them)
    common.tell(folder, accelerator.process_index, world=accelerator.num_processes, epochs=epochs,
                gathered=gathered, length=length)
    common.end_training(accelerator)


if __name__ == "__main__":
    main()
