"""Trains a small convolutional network on images with several processes, with checkpoints from which
any number of processes can continue.

    shardfeed convert imagefolder photos/ DATASET        for example testdata/images
    torchrun --nproc-per-node 2 examples/python/ddp.py DATASET CHECKPOINT [STEPS] [--seed S]

The batch of all ranks together has 8 records for any number of ranks, and the same records come at the same
step with the same crops, so the loss is the same too, except for rounding. The program can be killed at any
time: the next run continues from the last checkpoint, on any number of processes that divides 8.
"""

import argparse
import os

import shardfeed as sf
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 8
CLASSES = 4


def make_batches(dataset: str, seed: int, world: int):
    """Returns the batches of this rank; all ranks have the same number. Only whole batches of all ranks
    together are read, so that an epoch ends at the same record for any number of ranks."""
    records = len(sf.read(dataset)) // GLOBAL_BATCH * GLOBAL_BATCH
    return (sf.read(dataset, records=[(0, records)])
            .shuffle(seed=seed)
            .shard()
            .repeat()
            .parse({"image/encoded": sf.bytes, "image/class/label": sf.int64,
                    "image/filename": sf.bytes})
            .decode_image("image/encoded", 32, crop="random", flip=0.5, layout="NCHW",
                          dtype="float32", mean=0.5, std=0.25, seed=seed)
            .batch(GLOBAL_BATCH // world)
            .torch())


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, CLASSES))


def save(checkpoint: str, state: dict) -> None:
    """Saves a checkpoint. A process that is killed here leaves the previous checkpoint."""
    torch.save(state, checkpoint + ".new")
    os.replace(checkpoint + ".new", checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("checkpoint")
    parser.add_argument("steps", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    it = iter(make_batches(arguments.dataset, arguments.seed, world))
    step = 0
    if os.path.exists(arguments.checkpoint):
        saved = torch.load(arguments.checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        it.load_state_dict(saved["data"])
        step = saved["step"]
    while step < arguments.steps:
        batch = next(it)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch["image"]),
                                                 batch["image/class/label"])
        loss.backward()
        optimizer.step()
        step += 1
        dist.all_reduce(loss := loss.detach())
        names: list[list[str]] = [[]] * world
        dist.all_gather_object(names, [name.decode() for name in batch["image/filename"]])
        if rank == 0:
            print(f"step {step} loss {(loss / world).item():.7f} records "
                  + " | ".join(",".join(part) for part in names), flush=True)
            save(arguments.checkpoint, {
                "model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                "data": it.state_dict(), "step": step})
    it.close()
    dist.barrier()
    del model  # before the process group: the last to hold that waits for its threads, and must not hold the GIL
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
