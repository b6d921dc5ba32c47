"""Trains a small language model on packed rows with several processes, with checkpoints from which any
number of processes can continue.

    python examples/python/language_model.py --make TEXT DATASET    a document for each line, a token for each byte
    torchrun --nproc-per-node 2 examples/python/language_model.py DATASET CHECKPOINT [STEPS]

The rows of an epoch are planned from the lengths of the documents, so all processes have equally many, and the
batch of all of them together has the same 8 rows for any number of processes. The program can be killed at any
time: the next run continues from the last checkpoint, on any number of processes that divides 8.
"""

import argparse
import os
import pathlib

import numpy as np
import shardfeed as sf
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 8
LENGTH = 128
TOKENS = 257  # 0 is the padding
WIDTH = 16


def make(text: str, dataset: str) -> None:
    """Writes a dataset of tokens, with their number in its indexes."""
    with sf.write(dataset, features={"tokens": sf.var(sf.int64), "document": sf.int64}) as writer:
        lines = filter(None, pathlib.Path(text).read_bytes().splitlines())
        for number, line in enumerate(lines):
            writer.write({"tokens": np.frombuffer(line, np.uint8).astype(np.int64) + 1,
                          "document": number})
    sf.index(dataset, lengths=["tokens"])


def make_batches(dataset: str, world: int):
    """Returns the batches of this rank."""
    return (sf.read(dataset, batch=GLOBAL_BATCH // world)
            .shuffle(seed=1)
            .shard()
            .repeat()
            .parse({"tokens": sf.var(sf.int64), "document": sf.int64})
            .pack("tokens", LENGTH, lengths="tokens", split=True, keep=["document"])
            .batch(GLOBAL_BATCH // world))


class Model(torch.nn.Module):
    """One layer of attention, in which a token sees the tokens before it in its own document."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(TOKENS, WIDTH)
        self.positions = torch.nn.Embedding(LENGTH, WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens, segments, positions):
        x = self.tokens(tokens) + self.positions(positions)
        query, key, value = self.attention(x).chunk(3, dim=-1)
        same = segments[:, :, None] == segments[:, None, :]
        mask = same & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        return self.out(x + functional.scaled_dot_product_attention(query, key, value, attn_mask=mask))


def loss_of(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the losses of all tokens that have a next one in their document, and their number."""
    tokens, segments, positions = (torch.from_numpy(np.asarray(batch[name]).astype(np.int64)) for name in (
        "tokens", "tokens_segment_ids", "tokens_positions"))
    counts = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    losses = functional.cross_entropy(model(tokens, segments, positions)[:, :-1].transpose(1, 2),
                                      tokens[:, 1:], reduction="none")
    return (losses * counts).sum(), counts.sum()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--make", metavar="TEXT")
    parser.add_argument("dataset")
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("steps", type=int, nargs="?", default=20)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make, arguments.dataset)
        return
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    it = iter(make_batches(arguments.dataset, world))
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
        loss, count = loss_of(model, batch)
        total = torch.stack([loss.detach(), count.to(loss.dtype)])
        dist.all_reduce(total)
        # DistributedDataParallel takes the mean of the ranks' gradients.
        (loss * world / total[1]).backward()
        optimizer.step()
        step += 1
        documents: list[list[int]] = [[]] * world
        dist.all_gather_object(documents, [int(n) for row in batch["document"] for n in row])
        if rank == 0:
            print(f"step {step} loss {(total[0] / total[1]).item():.7f} records "
                  + " | ".join(",".join(map(str, part)) for part in documents), flush=True)
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                        "data": it.state_dict(), "step": step}, arguments.checkpoint + ".new")
            # A process that is killed before this leaves the previous checkpoint.
            os.replace(arguments.checkpoint + ".new", arguments.checkpoint)
    it.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
