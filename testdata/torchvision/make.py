"""Writes augment.json: images, and what torchvision.transforms.v2.functional makes of them.

    pip install torch torchvision    (the CPU's is enough)
    python3 testdata/torchvision/make.py [FILE [SIZE]]

Each case: the function, its arguments, the image [height, width, channels] in hexadecimal, and the
result. The images are made here, waves and noise.
"""

import json
import math
import pathlib
import sys

import torch
import torchvision
from torchvision.transforms.v2 import functional as F

CORNERS = [[2, 1], [-2, 2], [-1, -3], [1, -1]]  # from their places


def make_image(height, width, channels, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(height).reshape(1, -1, 1) / height
    x = torch.arange(width).reshape(1, 1, -1) / width
    phase = torch.rand(channels, 1, 1, generator=generator) * 6.3
    waves = 110 + 90 * torch.sin(6 * x + phase) * torch.cos(5 * y + 2 * phase)
    noise = torch.randn(channels, height, width, generator=generator) * 25
    return (waves + noise).clamp(0, 255).to(torch.uint8)


def corners(image):
    height, width = image.shape[-2:]
    start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    return start, [[sx + dx, sy + dy] for (sx, sy), (dx, dy) in zip(start, CORNERS)]


def warp(function, interpolation, fill):
    def call(image, **arguments):
        return function(image, interpolation=interpolation, fill=fill, **arguments)
    return call


def perspective(interpolation, fill):
    def call(image):
        return F.perspective(image, *corners(image), interpolation=interpolation, fill=fill)
    return call


def erase(image, i, j, h, w, v):
    return F.erase(image, i, j, h, w, torch.tensor(v).reshape(-1, 1, 1))


CASES = [
    *(("adjust_brightness", F.adjust_brightness, {"brightness_factor": f}) for f in (0, 0.7, 1.9)),
    *(("adjust_contrast", F.adjust_contrast, {"contrast_factor": f}) for f in (0, 0.55, 1.7)),
    *(("adjust_saturation", F.adjust_saturation, {"saturation_factor": f}) for f in (0, 0.3, 1.8)),
    *(("adjust_hue", F.adjust_hue, {"hue_factor": f}) for f in (-0.5, -0.13, 0, 0.21, 0.5)),
    *(("adjust_sharpness", F.adjust_sharpness, {"sharpness_factor": f}) for f in (0, 0.4, 1.9)),
    ("rgb_to_grayscale", lambda i: F.rgb_to_grayscale(i, i.shape[0]), {}),
    ("invert", F.invert, {}),
    *(("posterize", F.posterize, {"bits": b}) for b in (0, 3, 8)),
    *(("solarize", F.solarize, {"threshold": t}) for t in (0, 100.5, 255)),
    ("autocontrast", F.autocontrast, {}),
    ("equalize", F.equalize, {}),
    *(("gaussian_blur", F.gaussian_blur, {"kernel_size": k, "sigma": [s, s]})
      for k, s in (([3, 3], 0.5), ([5, 3], 1.3), ([1, 7], 2.0))),
    ("horizontal_flip", F.horizontal_flip, {}),
    ("vertical_flip", F.vertical_flip, {}),
    ("erase", erase, {"i": 2, "j": 1, "h": 4, "w": 3, "v": [7.9]}),
    *(("pad", F.pad, {"padding": [1, 2, 3, 0], "padding_mode": m, "fill": 9})
      for m in ("constant", "edge", "reflect", "symmetric")),
    *((f"rotate {i}", warp(F.rotate, i, fill), {"angle": a})
      for i, fill in (("nearest", None), ("bilinear", None), ("bilinear", 0), ("bilinear", 77))
      for a in (31.0, -101.5)),
    *((f"affine {i}", warp(F.affine, i, fill),
       {"angle": a, "translate": t, "scale": s, "shear": shear, "center": center})
      for i, fill in (("nearest", 12), ("bilinear", None), ("bilinear", 200))
      for a, t, s, shear, center in (
          (0.0, [3, -2], 1.0, [0.0, 0.0], None), (25.0, [1, 2], 1.4, [8.0, -12.0], None),
          (0.0, [0, 0], 1.0, [math.degrees(math.atan(0.23)), 0.0], [0, 0]))),
    *((f"perspective {i}", perspective(i, fill), {})
      for i, fill in (("nearest", 5), ("bilinear", None), ("bilinear", 60))),
]


def cases(sizes):
    for number, (name, function, arguments) in enumerate(CASES):
        for height, width, channels in sizes:
            image = make_image(height, width, channels, number)
            case = {"function": name, "arguments": arguments, "shape": [height, width, channels],
                    "fill": None}
            if " " in name:
                fills = [c.cell_contents for c in function.__closure__]
                case["fill"] = next((f for f in fills if type(f) is int), None)
            result = function(image, **arguments)
            case["picture"] = image.permute(1, 2, 0).contiguous().numpy().tobytes().hex()
            case["result_shape"] = [*result.shape[1:], channels]
            case["result"] = result.permute(1, 2, 0).contiguous().numpy().tobytes().hex()
            yield case


def main(path=pathlib.Path(__file__).with_name("augment.json"), size=None):
    sizes = [(9, 12, 3), (11, 7, 1)] if size is None else [(int(size), int(size) + 31, 3)]
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases(sizes)) + "\n]\n")
    print(f"{path}: by torchvision {torchvision.__version__}")


main(*sys.argv[1:])
