"""torch.distributed with gloo: each rank's part of three epochs, and a state from which another
number of ranks resumes.

    distributed.py FOLDER DATASET KIND WORKERS     three epochs
    distributed.py FOLDER DATASET stop STEPS       STEPS batches of the first epoch; saves the state
    distributed.py FOLDER DATASET rest -           the rest of that epoch, with any number of ranks
"""

import common
import shardfeed as sf
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

EPOCHS = 3


def main():
    folder, spec, (kind, number) = common.arguments()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = folder / "state.pt"
    # `end` of sf.read determines what happens to records that cannot be divided evenly.
    chain = (sf.read(spec, batch=8).shuffle(seed=1).shard().parse(common.COLUMNS).batch(8))
    if kind == "chain":
        common.tell(folder, rank, epochs=[common.numbers(chain.torch()) for _ in range(EPOCHS)])
    elif kind == "loader":
        loader = DataLoader(sf.torch.IterableDataset(common.parsed(spec).batch(8)),
                            batch_size=None, num_workers=int(number))
        common.tell(folder, rank, epochs=[common.numbers(loader) for _ in range(EPOCHS)])
    elif kind == "pad":
        padded = common.parsed(spec, end="pad")
        loader = DataLoader(sf.torch.IterableDataset(padded.batch(8)), batch_size=None)
        common.tell(folder, rank, epochs=[common.numbers(loader) for _ in range(EPOCHS)])
    else:
        it = iter(chain.torch())
        if kind == "stop":
            found = common.numbers(next(it) for _ in range(int(number)))
            if rank == 0:  # the state is the same on all ranks
                torch.save(it.state_dict(), state)
        else:
            it.load_state_dict(torch.load(state))
            found = common.numbers(it)
        common.tell(folder, rank, epochs=[found])
        it.close()
    # Checks that collective operations still work, and that all ranks get here.
    total = torch.tensor([1])
    dist.all_reduce(total)
    assert total.item() == dist.get_world_size()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
