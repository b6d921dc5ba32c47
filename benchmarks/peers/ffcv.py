"""FFCV: a memory mapped beton file with the original JPEGs, and its compiled crops (INTER_AREA)."""

import io
import os
import sys

from peers import protocol
from peers.protocol import IMAGE_BATCH, IMAGE_SIZE

NAME = "FFCV"
INSTALL = ["ffcv", "torch", "torchvision", "opencv-python-headless", "numba", "pillow", "numpy"]
IMPORTS = ["ffcv.loader", "ffcv.transforms"]
CRC = False
FOLDERS = ["ffcv"]


class Images:
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        import numpy as np
        from PIL import Image
        path, label = self.paths[i]
        with open(path, "rb") as file:
            return np.array(Image.open(io.BytesIO(file.read())).convert("RGB")), label


def prepare(run):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    found = run.images()
    paths = [found[i % len(found)] for i in range(run.count("large"))]
    out = f"{run.folder('ffcv/large')}/images.beton"
    if os.path.exists(out):
        return
    DatasetWriter(out, {"image": RGBImageField(write_mode="jpg", jpeg_quality=95),
                        "label": IntField()}, num_workers=2).from_indexed_dataset(Images(paths))


def image(run):
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor
    loader = Loader(f"{run.data}/ffcv/large/images.beton", batch_size=IMAGE_BATCH,
                    num_workers=run.threads, order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                    pipelines={"image": [RandomResizedCropRGBImageDecoder((IMAGE_SIZE, IMAGE_SIZE)),
                                         RandomHorizontalFlip(), ToTensor()],
                               "label": [IntDecoder(), ToTensor()]})
    run.columns(protocol.epochs(lambda: loader),
                lambda batch: len(batch[0]), lambda batch: {"image": batch[0].numpy()})


WORKLOADS = {
    "image_antialiased": {"": image},
    "image_paced": {"": image},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
