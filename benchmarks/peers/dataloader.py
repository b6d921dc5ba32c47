"""PyTorch's DataLoader over files, with two persistent workers, as in its documentation and torchvision's
references; and its order and state (torchdata's StatefulDataLoader)."""

import sys

from peers import protocol
from peers.protocol import FEATURES, IMAGE_BATCH, IMAGE_SIZE, opencv_load

NAME = "DataLoader"
INSTALL = ["torch", "torchvision", "torchdata", "opencv-python-headless", "pillow", "numpy"]
IMPORTS = ["torch", "torchvision", "torchvision.io", "torchvision.transforms.v2", "cv2"]
CRC = False


class Images:
    """The images of the records, read as files in class folders."""

    def __init__(self, paths, load):
        self.paths = paths
        self.load = load

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path, label = self.paths[i]
        return self.load(path), label


class Torchvision:
    """torchvision v2 on tensors, which decodes with libjpeg-turbo; antialiased."""

    def __init__(self):
        from torchvision.transforms import v2
        self.transform = v2.Compose([v2.RandomResizedCrop(IMAGE_SIZE, antialias=True),
                                     v2.RandomHorizontalFlip()])

    def __call__(self, path):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        return self.transform(decode_jpeg(read_file(path), mode=ImageReadMode.RGB))


class Pillow:
    """torchvision on Pillow's images; antialiased."""

    def __init__(self):
        from torchvision import transforms
        self.transform = transforms.Compose([transforms.RandomResizedCrop(IMAGE_SIZE),
                                             transforms.RandomHorizontalFlip(),
                                             transforms.PILToTensor()])

    def __call__(self, path):
        from PIL import Image
        return self.transform(Image.open(path).convert("RGB"))


def image_paths(run):
    """One path for each record of an image."""
    found = run.images()
    return [found[i % len(found)] for i in range(run.count("large"))]


def image(run, load):
    import torch
    torch.set_num_threads(1)
    dataset = Images(image_paths(run), load())

    loader = torch.utils.data.DataLoader(dataset, IMAGE_BATCH, shuffle=True, num_workers=run.threads,
                                         persistent_workers=True, prefetch_factor=4)
    run.columns(protocol.epochs(lambda: loader), lambda batch: len(batch[0]),
                lambda batch: {"image": batch[0].numpy(), "label": batch[1].numpy()})


class Rows:
    """Arrays in memory: the best case of a map dataset, which gathers batches at once."""

    def __init__(self, count):
        import numpy as np
        rng = np.random.default_rng(1)
        self.x = rng.standard_normal((min(count, 4096), FEATURES)).astype(np.float32)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.x[i % len(self.x)], i


def resume(run):
    import pickle
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader
    torch.manual_seed(1)
    dataset = Rows(run.count("small"))

    def loader():
        return StatefulDataLoader(dataset, 16, shuffle=True, num_workers=run.threads)

    first = loader()
    iterator = iter(first)
    for _ in range(run.batches_before_resume):
        next(iterator)
    state = first.state_dict()
    expected = next(iterator)[1]
    run.result["state_bytes"] = len(pickle.dumps(state))

    def work():
        again = loader()
        again.load_state_dict(state)
        return protocol.begin(again)

    found, _ = run.job(work, 1)
    run.result["same"] = bool((found[1] == expected).all())


def permute(run, count):
    """RandomSampler draws the permutation of all numbers."""
    import torch
    run.job(lambda: next(iter(torch.utils.data.RandomSampler(range(count)))), 1)


WORKLOADS = {
    "image": {"OpenCV": lambda run: image(run, lambda: opencv_load)},
    "image_antialiased": {"torchvision v2": lambda run: image(run, Torchvision),
                          "Pillow": lambda run: image(run, Pillow)},
    "image_paced": {"torchvision v2": lambda run: image(run, Torchvision),
                    "OpenCV": lambda run: image(run, lambda: opencv_load)},
    "resume": {"": resume},
    "permute_10k": {"": lambda run: permute(run, 10_000)},
    "permute_1m": {"": lambda run: permute(run, 1_000_000)},
    "permute_100m": {"": lambda run: permute(run, 100_000_000)},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
