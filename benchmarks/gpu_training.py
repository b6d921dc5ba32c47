"""Trains a ResNet on this machine's GPU with images from shardfeed and from PyTorch's DataLoader, beside the same
training on one batch that is already there: what share of the GPU's speed does the data allow?

    python benchmarks/gpu_training.py FOLDER [--models resnet50,resnet18] [--seconds N] [--rounds N]

FOLDER has JPEG files, which are repeated: every feed decodes them from the page cache, crops at random to 224 x 224,
flips, and delivers batches of 256 (DataLoader from files with torchvision's decoder and transforms; shardfeed from
TFRecord shards). Both normalize on the GPU to bfloat16. Needs torch with torchvision, and shardfeed on Python's path.
Prints one JSON object per line.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

BATCH = 256
SIZE = 224
CLASSES = 1000
# So many that what happens once per epoch does not count, as in real training.
RECORDS = 32768
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def say(**fields):
    print(json.dumps({"benchmark": "gpu_training", **fields}), flush=True)


class Files:
    """A map-style dataset of JPEG files, as a script for torchvision has."""

    def __init__(self, paths, count):
        from torchvision.transforms import v2
        self.paths = paths
        self.count = count
        self.transform = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        from torchvision.io import ImageReadMode, decode_image
        path = self.paths[i % len(self.paths)]
        return self.transform(decode_image(path, mode=ImageReadMode.RGB)), i % CLASSES


class Feeds:
    """Iterables of (images in bfloat16, channels last, labels) on the device, without end."""

    def __init__(self, torch, paths, folder):
        import shardfeed as sf
        self.torch, self.sf = torch, sf
        self.paths = [str(path) for path in paths]
        self.spec = f"{folder}/train@16"
        with sf.write(self.spec) as writer:
            for i in range(RECORDS):
                writer.write({"image/encoded": paths[i % len(paths)].read_bytes(), "label": i % CLASSES})
        self.mean, self.std = (torch.tensor(v, device="cuda").view(1, 3, 1, 1) for v in (MEAN, STD))

    def synthetic(self):
        torch = self.torch
        images = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda").to(torch.bfloat16, memory_format=torch.channels_last)
        labels = torch.randint(0, CLASSES, (BATCH,), device="cuda")
        while True:
            yield images, labels

    def shardfeed(self):
        sf = self.sf
        ds = (sf.read(self.spec).shuffle(seed=1).repeat()
              .parse({"image/encoded": sf.bytes, "label": sf.int64})
              .decode_image(size=SIZE, crop="random", flip=0.5)
              .batch(BATCH, drop_remainder=True))
        normalize = {"image": sf.Normalize(MEAN, STD, "bfloat16", "NHWC")}
        with ds.cuda(0, normalize=normalize).torch().start() as batches:
            for batch in batches:
                yield batch["image"].permute(0, 3, 1, 2), batch["label"]

    def dataloader(self):
        torch = self.torch
        loader = torch.utils.data.DataLoader(
            Files(self.paths, 1 << 30), batch_size=BATCH, num_workers=os.cpu_count(), pin_memory=True,
            prefetch_factor=4)
        for images, labels in loader:
            images = images.to("cuda", non_blocking=True).float().div_(255).sub_(self.mean).div_(self.std)
            yield (images.to(torch.bfloat16, memory_format=torch.channels_last),
                   labels.to("cuda", non_blocking=True))


def train(torch, model_name, feed, seconds):
    """Images per second, after some batches to warm up."""
    import torchvision
    model = getattr(torchvision.models, model_name)().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start, taken, count = None, 0, 0
    for i, (images, labels) in enumerate(feed):
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if i == 10:
            torch.cuda.synchronize()
            start = time.perf_counter()
        elif i > 10:
            count += BATCH
            # The host may run ahead of the device by a few steps, as in any training.
            if i % 8 == 0:
                torch.cuda.synchronize()
                taken = time.perf_counter() - start
                if taken > seconds:
                    break
    feed.close()
    if not torch.isfinite(loss):
        raise SystemExit(f"gpu_training: the loss of {model_name} is {loss.item()}")
    return count / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="resnet50,resnet18")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        import torch
        import torchvision
    except ImportError as error:
        return say(skipped=f"torch and torchvision are needed: {error}")
    if not torch.cuda.is_available():
        return say(skipped=f"torch {torch.__version__} sees no GPU")
    paths = sorted(p for p in arguments.folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    torch.backends.cudnn.benchmark = True
    say(device=torch.cuda.get_device_name(0), torch=torch.__version__, torchvision=torchvision.__version__,
        images=len(paths), mean_bytes=round(statistics.mean(p.stat().st_size for p in paths)),
        processors=os.cpu_count())
    with tempfile.TemporaryDirectory() as folder:
        feeds = Feeds(torch, paths, folder)
        for model in arguments.models.split(","):
            found = {"synthetic": [], "shardfeed": [], "dataloader": []}
            for _ in range(arguments.rounds):
                for name, rates in found.items():
                    rates.append(train(torch, model, getattr(feeds, name)(), arguments.seconds))
            best = statistics.median(found["synthetic"])
            for name, rates in found.items():
                say(model=model, feed=name, images_per_second=round(statistics.median(rates)),
                    share=round(statistics.median(rates) / best, 3), all=[round(r) for r in rates])


if __name__ == "__main__":
    main()
