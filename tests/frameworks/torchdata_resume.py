"""torchdata's StatefulDataLoader, stopped in the middle of an epoch by one process and resumed by
another.

    torchdata_resume.py FOLDER DATASET KIND WORKERS STOP     STOP batches; then saves the state
    torchdata_resume.py FOLDER DATASET KIND WORKERS rest     the rest of the epoch, and the next
    torchdata_resume.py FOLDER DATASET KIND WORKERS whole    two epochs without a stop
"""

import common
import shardfeed as sf
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


def make(kind, spec, workers):
    if kind == "iterable":
        return StatefulDataLoader(sf.torch.IterableDataset(common.parsed(spec)), batch_size=10,
                                  num_workers=workers)
    if kind == "batches":
        return StatefulDataLoader(sf.torch.IterableDataset(common.parsed(spec).batch(10)),
                                  batch_size=None, num_workers=workers)
    data = sf.torch.MapDataset(sf.read(spec).parse(common.COLUMNS))
    return StatefulDataLoader(data, batch_size=10, num_workers=workers,
                              sampler=sf.torch.DistributedSampler(data, 1, 0))


def main():
    folder, spec, (kind, workers, stop) = common.arguments()
    loader = make(kind, spec, int(workers))
    state = folder / "state.pt"
    if stop == "rest":
        loader.load_state_dict(torch.load(state, weights_only=False))
    if stop in ("rest", "whole"):
        common.tell(folder, epochs=[common.numbers(loader) for _ in range(2)])
        return
    it = iter(loader)
    found = common.numbers(next(it) for _ in range(int(stop)))
    torch.save(loader.state_dict(), state)
    common.tell(folder, epochs=[found])


if __name__ == "__main__":
    main()
