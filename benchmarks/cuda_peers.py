"""Measures delivery to the GPU beside PyTorch's and SPDL's: the same images in memory, in batches of
256 x 224 x 224 x 3 bytes, normalized to float16 [256, 3, 224, 224] on the device, alternating in one process.

    python benchmarks/cuda_peers.py [--batches N] [--rounds N]

"loop" is their upper bound: a bare loop of copies from pinned memory. DataLoader uses workers, pinned memory and
.to(non_blocking=True); SPDL transfers in a thread of its own. Needs torch, and shardfeed on Python's path; peers that
are missing are skipped with a reason. Prints one JSON object per line. scripts/gpu_check runs it if torch is installed.
"""

import argparse
import json
import os
import statistics
import time

IMAGES = 1024
BATCH = 256
SHAPE = (224, 224, 3)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
WORKERS = min(4, os.cpu_count() or 1)


def say(**fields):
    print(json.dumps({"benchmark": "peers", **fields}), flush=True)


class Batches:
    """A dataset for DataLoader, each item of which is a batch of the images."""

    def __init__(self, images, count):
        self.images = images
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        begin = i * BATCH % IMAGES
        return self.images[begin:begin + BATCH].clone()


class Feeds:
    """Generators of `count` batches on the device."""

    def __init__(self, torch, device):
        self.torch = torch
        self.device = device
        self.images = torch.randint(0, 256, (IMAGES, *SHAPE), dtype=torch.uint8)
        self.images.share_memory_()
        scale = torch.tensor([1 / (255 * s) for s in STD])
        bias = torch.tensor([-m / s for m, s in zip(MEAN, STD)])
        self.scale, self.bias = (v.to(device, torch.float16).view(1, 3, 1, 1) for v in (scale, bias))

    def normalize(self, images):
        planes = images.permute(0, 3, 1, 2).to(self.torch.float16,
                                                 memory_format=self.torch.contiguous_format)
        return planes.mul_(self.scale).add_(self.bias)

    def loop(self, count):
        pinned = [self.images[i * BATCH:(i + 1) * BATCH].pin_memory() for i in range(2)]
        there = [self.torch.empty((BATCH, *SHAPE), dtype=self.torch.uint8, device=self.device)
                 for _ in range(2)]
        for i in range(count):
            yield there[i % 2].copy_(pinned[i % 2], non_blocking=True)

    def shardfeed(self, count):
        import shardfeed as sf
        ds = sf.from_arrays({"image": self.images.numpy()}).repeat().batch(BATCH).take(count)
        view = ds.cuda(0, normalize={"image": sf.Normalize(MEAN, STD, "float16")}).torch()
        with iter(view) as batches:
            for batch in batches:
                yield batch["image"]

    def dataloader(self, count):
        loader = self.torch.utils.data.DataLoader(
            Batches(self.images, count), batch_size=None, num_workers=WORKERS, pin_memory=True)
        for batch in loader:
            yield self.normalize(batch.to(self.device, non_blocking=True))

    def spdl(self, count):
        import spdl.io
        from spdl.pipeline import PipelineBuilder
        transfer = getattr(spdl.io, "transfer_tensor_h2d", None) or spdl.io.transfer_tensor
        batches = Batches(self.images, count)
        pipeline = (PipelineBuilder().add_source(batches[i] for i in range(count)).pipe(transfer)
                    .add_sink(2).build(num_threads=1))
        with pipeline.auto_stop():
            for batch in pipeline.get_iterator(timeout=60):
                yield self.normalize(batch)


def measure(feed, count, warm, synchronize):
    """Images per second after the first `warm` batches."""
    start = None
    total = 0
    for i, batch in enumerate(feed(warm + count)):
        # Consume the values on the device.
        total = total + batch[:, 0, 0, 0].sum()
        if i + 1 == warm:
            synchronize()
            start = time.perf_counter()
    synchronize()
    return count * BATCH / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        return say(skipped=f"torch is not installed: {error}")
    if not torch.cuda.is_available():
        return say(skipped=f"torch {torch.__version__} sees no GPU")
    run(torch, "cuda:0", arguments.batches, arguments.rounds)


def run(torch, device, count, rounds):
    feeds = Feeds(torch, device)
    say(torch=torch.__version__, device=torch.cuda.get_device_name(0), batches=count,
        workers=WORKERS)
    wanted = feeds.normalize(feeds.images[:BATCH].to(device)).float()
    names = []
    for name in ("loop", "shardfeed", "dataloader", "spdl"):
        try:
            for first in getattr(feeds, name)(1):
                off = (first.float() - wanted).abs().max().item() if name != "loop" else 0
        except Exception as error:
            say(feed=name, skipped=f"{type(error).__name__}: {error}")
            continue
        if off > 0.01:
            raise SystemExit(f"cuda_peers: {name} differs by {off} from torch's result")
        names.append(name)
    found = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(measure(getattr(feeds, name), count, 10, torch.cuda.synchronize))
    median = {name: statistics.median(values) for name, values in found.items()}
    for name in names:
        ours = {"shardfeed_over_it": round(median["shardfeed"] / median[name], 3)} \
            if "shardfeed" in median and name != "shardfeed" else {}
        say(feed=name, images_per_second=round(median[name]),
            gb_per_second=round(median[name] * 224 * 224 * 3 * 1e-9, 2), **ours,
            all=[round(v) for v in found[name]])


if __name__ == "__main__":
    main()
