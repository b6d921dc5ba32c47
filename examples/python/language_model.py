"""Trains a small language model on packed rows of a mixture with several processes, with checkpoints from which
any number of processes can continue.

    python examples/python/language_model.py --make TEXT DATASET    a document for each line, a token for each byte
    torchrun --nproc-per-node 2 examples/python/language_model.py WEB CURATED CHECKPOINT [STEPS]

Most documents come from the dataset WEB at first. Then the weights are annealed: more and more of them come from
CURATED. The rows are planned from the lengths of the documents, so all processes have equally many, and the batch of
all of them together has the same 64 rows for any number of processes. The program can be killed at any time: the next
run continues from the last checkpoint, on any number of processes that divides 64.
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

GLOBAL_BATCH = 64
LENGTH = 128
DOCUMENTS = 4096  # of the whole run, which is one epoch: sources are repeated as often as necessary
# The weights of the sources, and their changes, by documents.
WEIGHTS = {"web": 0.9, "curated": 0.1}
ANNEAL = [(1024, {"web": 0.6, "curated": 0.4}), (2048, {"web": 0.2, "curated": 0.8})]
TOKENS = 257  # 0 is the padding
WIDTH = 16


def make(text: str, dataset: str) -> None:
    """Writes a dataset of tokens, with their number in its indexes."""
    with sf.write(dataset, features={"tokens": sf.var(sf.int64)}) as writer:
        for line in filter(None, pathlib.Path(text).read_bytes().splitlines()):
            writer.write({"tokens": np.frombuffer(line, np.uint8).astype(np.int64) + 1})
    sf.index(dataset, lengths=["tokens"])


def make_batches(web: str, curated: str, world: int):
    """Returns the batches of this rank."""
    return (sf.mix({"web": web, "curated": curated}, WEIGHTS, schedule=ANNEAL, length=DOCUMENTS,
                   source="source", number="document")
            .shuffle(seed=1)
            .shard()
            .parse({"tokens": sf.var(sf.int64)})
            # Rows have documents of one window, so a window that is longer than a stage would blur it.
            .pack("tokens", LENGTH, lengths="tokens", split=True, window=1024, keep=["source", "document"])
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
    parser.add_argument("web", help="a dataset, which --make writes")
    parser.add_argument("curated", nargs="?")
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("steps", type=int, nargs="?", default=20)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make, arguments.web)
        return
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    it = iter(make_batches(arguments.web, arguments.curated, world))
    step = 0
    if os.path.exists(arguments.checkpoint):
        saved = torch.load(arguments.checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        it.load_state_dict(saved["data"])
        step = saved["step"]
    while step < arguments.steps:
        batch = next(it, None)
        if batch is None:  # the run's documents are used up
            break
        optimizer.zero_grad()
        loss, count = loss_of(model, batch)
        total = torch.stack([loss.detach(), count.to(loss.dtype)])
        dist.all_reduce(total)
        # DistributedDataParallel takes the mean of the ranks' gradients.
        (loss * world / total[1]).backward()
        optimizer.step()
        step += 1
        documents: list[list[str]] = [[]] * world
        dist.all_gather_object(documents, [f"{source}:{number}" for source, number in zip(
            batch["source"].values, batch["document"].values)])
        if rank == 0:
            print(f"step {step} loss {(total[0] / total[1]).item():.7f} records "
                  + " | ".join(map(",".join, documents)), flush=True)
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                        "data": it.state_dict(), "step": step}, arguments.checkpoint + ".new")
            # A process that is killed before this leaves the previous checkpoint.
            os.replace(arguments.checkpoint + ".new", arguments.checkpoint)
    it.close()
    dist.barrier()
    del model  # before the process group: the last to hold that waits for its threads, and must not hold the GIL
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
