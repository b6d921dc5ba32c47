"""Training by several processes, with checkpoints that any number of them can go on from.

    torchrun --nproc-per-node 2 examples/python/ddp.py DATASET CHECKPOINT [STEPS] [STOP_AT]

DATASET has Examples with x (4 floats) and y (a float). The batch of all ranks together has 64 records,
whatever their number, and the same records come at the same step: the loss is the same too, but for
rounding. STOP_AT ends the run behind that step's checkpoint.
"""

import os
import sys

import shardfeed as sf
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 64


def main() -> None:
    dataset, checkpoint = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    stop_at = int(sys.argv[4]) if len(sys.argv) > 4 else steps
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    it = iter(sf.read(dataset)
              .shuffle(seed=1)
              .shard()
              .repeat()
              .parse({"x": sf.fixed(4), "y": sf.float32, "n": sf.int64})
              .batch(GLOBAL_BATCH // world)
              .torch())
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.module.load_state_dict(saved["model"])
        it.load_state_dict(saved["data"])
        step = saved["step"]
    while step < stop_at:
        batch = next(it)
        optimizer.zero_grad()
        loss = torch.mean((model(batch["x"])[:, 0] - batch["y"]) ** 2)
        loss.backward()
        optimizer.step()
        step += 1
        dist.all_reduce(loss := loss.detach())
        records = [torch.zeros_like(batch["n"]) for _ in range(world)]
        dist.all_gather(records, batch["n"].contiguous())
        if rank == 0:
            # A number that tells which records the step had.
            print(f"step {step} loss {loss / world:.6f} records {int(torch.cat(records).sum())}",
                  flush=True)
            torch.save({"model": model.module.state_dict(), "data": it.state_dict(), "step": step},
                       checkpoint)
    it.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
