"""SPDL: its FFmpeg decoders on threads, which decode whole images, since it has no random crop; and its threads
with OpenCV. Needs FFmpeg's libraries."""

import random
import sys

from peers import protocol
from peers.protocol import IMAGE_BATCH, IMAGE_SIZE, opencv_load

NAME = "SPDL"
INSTALL = ["spdl", "spdl-io", "opencv-python-headless", "numpy"]
IMPORTS = ["spdl.io", "spdl.pipeline", "cv2"]
CRC = False
UNAVAILABLE = "FFmpeg's libraries are missing: apt-get install libavdevice59"


def available():
    from ctypes.util import find_library
    return all(find_library(name) for name in ("avcodec", "avdevice", "avfilter", "avformat"))


def image(run, crops=False):
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    found = run.images()
    paths = [found[i % len(found)][0] for i in range(run.count("large"))]

    def source(without_end):
        while True:
            random.shuffle(paths)
            for i in range(0, len(paths), IMAGE_BATCH):
                yield paths[i:i + IMAGE_BATCH]
            if not without_end:
                return

    middle = spdl.io.get_video_filter_desc(scale_width=IMAGE_SIZE, scale_height=IMAGE_SIZE,
                                           scale_algo="bilinear", scale_mode="crop",
                                           crop_width=IMAGE_SIZE, crop_height=IMAGE_SIZE,
                                           pix_fmt="rgb24")

    def load_whole(batch):
        buffer = spdl.io.load_image_batch(batch, width=None, height=None, pix_fmt=None,
                                          filter_desc=middle, strict=True)
        return spdl.io.to_numpy(buffer)

    def load_crops(batch):
        import numpy as np
        return np.stack([opencv_load(path) for path in batch])

    def make(without_end):
        pipeline = (PipelineBuilder().add_source(source(without_end))
                    .pipe(load_crops if crops else load_whole, concurrency=run.threads, output_order="completion").add_sink(2)
                    .build(num_threads=run.threads + 1))
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=60)

    run.columns(make, len, lambda batch: {"image": batch})


WORKLOADS = {
    "image": {"whole images": image, "OpenCV": lambda run: image(run, True)},
    "image_paced": {"whole images": image, "OpenCV": lambda run: image(run, True)},
}

if __name__ == "__main__":
    protocol.main(sys.modules["__main__"])
