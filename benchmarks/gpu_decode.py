"""Measures whether a GPU decodes JPEGs faster than this machine's processors: nvJPEG, as torchvision calls it, beside
decode_image with 1, 2, 4 ... threads. Batches of 256 images from memory, alternating in one process.

    python benchmarks/gpu_decode.py FOLDER [--rounds N]

FOLDER has JPEG files. "nvjpeg" decodes whole images on the GPU and does nothing else: an upper bound for decoding there.
"nvjpeg_resized" resizes them too. "shardfeed" crops at random, resizes to 224 x 224, and delivers to the GPU. Needs
torch with torchvision, and shardfeed on Python's path. Prints one JSON object per line.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

BATCH = 256
SIZE = 224


def say(**fields):
    print(json.dumps({"benchmark": "gpu_decode", **fields}), flush=True)


def nvjpeg(torch, files, count, resize):
    """Decodes `count` batches; returns images per second."""
    from torchvision.io import ImageReadMode, decode_jpeg
    encoded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]
    start = time.perf_counter()
    for i in range(count):
        batch = [encoded[(i * BATCH + j) % len(encoded)] for j in range(BATCH)]
        images = decode_jpeg(batch, mode=ImageReadMode.RGB, device="cuda")
        if resize:
            out = torch.empty(BATCH, 3, SIZE, SIZE, dtype=torch.uint8, device="cuda")
            for j, image in enumerate(images):
                out[j] = torch.nn.functional.interpolate(
                    image[None].float(), (SIZE, SIZE), mode="bilinear", antialias=True)[0]
    torch.cuda.synchronize()
    return count * BATCH / (time.perf_counter() - start)


def shardfeed(torch, files, count, threads):
    import numpy as np
    import shardfeed as sf
    ds = sf.from_arrays({"image/encoded": np.array(files, object)}).repeat()
    view = (ds.decode_image(size=SIZE, crop="random", flip=0.5).batch(BATCH).take(count + 4)
            .with_options(threads=threads).cuda().torch())
    with iter(view) as batches:
        for i, batch in enumerate(batches):
            if i == 3:
                torch.cuda.synchronize()
                start = time.perf_counter()
    torch.cuda.synchronize()
    assert batch["image"].shape == (BATCH, SIZE, SIZE, 3)
    return count * BATCH / (time.perf_counter() - start)


def check(torch, files):
    """nvJPEG's pixels must be about those of the reference."""
    import numpy as np
    from torchvision.io import ImageReadMode, decode_jpeg
    for data in files[:20]:
        encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        host = decode_jpeg(encoded, mode=ImageReadMode.RGB).numpy().astype(int)
        there = decode_jpeg(encoded, mode=ImageReadMode.RGB, device="cuda").cpu().numpy().astype(int)
        off = float(np.abs(host - there).mean())
        if off > 2:
            raise SystemExit(f"gpu_decode: nvJPEG's pixels are {off} from libjpeg's on average")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
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
    files = [path.read_bytes() for path in paths]
    say(device=torch.cuda.get_device_name(0), torchvision=torchvision.__version__, images=len(files),
        mean_bytes=round(statistics.mean(map(len, files))), processors=os.cpu_count())
    check(torch, files)
    feeds = {"nvjpeg": lambda n: nvjpeg(torch, files, n, False),
             "nvjpeg_resized": lambda n: nvjpeg(torch, files, n, True)}
    threads = 1
    while threads <= os.cpu_count():
        feeds[f"shardfeed_{threads}"] = lambda n, t=threads: shardfeed(torch, files, n, t)
        threads *= 2
    # About a second's worth.
    counts = {}
    for name, feed in feeds.items():
        feed(1)
        counts[name] = max(2, min(40, int(feed(1) / BATCH)))
    found = {name: [] for name in feeds}
    for _ in range(arguments.rounds):
        for name, feed in feeds.items():
            found[name].append(feed(counts[name]))
    best = statistics.median(found["nvjpeg"])
    for name, rates in found.items():
        say(feed=name, images_per_second=round(statistics.median(rates)),
            over_nvjpeg=round(statistics.median(rates) / best, 3), all=[round(r) for r in rates])


if __name__ == "__main__":
    main()
