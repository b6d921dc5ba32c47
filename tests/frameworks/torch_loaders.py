"""torch's DataLoader over sf.torch's datasets, three epochs.

    torch_loaders.py FOLDER DATASET KIND CONTEXT WORKERS PERSISTENT
"""

import common
import shardfeed as sf
import torch
from torch.utils.data import DataLoader, DistributedSampler

EPOCHS = 3


def epochs_of(loader, before=lambda epoch: None):
    found = []
    for epoch in range(EPOCHS):
        before(epoch)
        found.append(common.numbers(loader))
    return found


def main():
    folder, spec, (kind, context, workers, persistent) = common.arguments()
    options = {"num_workers": int(workers)}
    if options["num_workers"]:
        options.update(multiprocessing_context=context, persistent_workers=persistent == "True")
    ds = common.parsed(spec)
    by_number = sf.torch.MapDataset(sf.read(spec).parse(common.COLUMNS))

    if kind == "iterable":  # rows, which the loader puts into batches
        loader = DataLoader(sf.torch.IterableDataset(ds), batch_size=10, **options)
        common.tell(folder, epochs=epochs_of(loader))
    elif kind == "batches":
        loader = DataLoader(sf.torch.IterableDataset(ds.batch(10)), batch_size=None, **options)
        common.tell(folder, epochs=epochs_of(loader))
    elif kind == "counted":  # steps that count elements count those of all workers
        for step, chain in [("take", ds.take(100)), ("skip", ds.skip(900)),
                            ("enumerate", ds.enumerate())]:
            loader = DataLoader(sf.torch.IterableDataset(chain), batch_size=None, **options)
            rows = [list(loader) for _ in range(EPOCHS)]
            first = [[int(row["n"]) for row in chain.start(epoch=epoch)] for epoch in range(EPOCHS)]
            common.tell(folder, step=step, first=first,
                        epochs=[[int(row["n"]) for row in epoch] for epoch in rows],
                        places=[[int(row["index"]) for row in epoch] for epoch in rows]
                        if step == "enumerate" else None)
    elif kind == "by_number":
        torch.manual_seed(5)
        loader = DataLoader(by_number, batch_size=10, shuffle=True, **options)
        common.tell(folder, epochs=epochs_of(loader))
    elif kind == "sampler":  # torch's and shardfeed's agree on each of three ranks
        for rank in range(3):
            found = []
            for sampler in (DistributedSampler(by_number, 3, rank, seed=7),
                            sf.torch.DistributedSampler(by_number, 3, rank, seed=7)):
                loader = DataLoader(by_number, batch_size=10, sampler=sampler, **options)
                found.append(epochs_of(loader, sampler.set_epoch))
            common.tell(folder, rank, epochs=found[0], ours=found[1])


if __name__ == "__main__":
    main()
