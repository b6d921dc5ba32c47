"""What models expect from their images: arguments of Dataset.decode_image, and steps of
Dataset.augment, with the results of torchvision's transforms of the same names.

    ds.decode_image("image/encoded", **sf.presets.resnet50_v2())

    (ds.decode_image("image/encoded", **sf.presets.classification_train(dtype="uint8"))
       .augment("image", sf.presets.classification_augment("ta_wide", random_erase=0.1)))

The results are dicts and lists, which can be changed before they are used. docs/images.md says how
closely they agree."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Sequence

from . import augment
from .arguments import Size, checked
from .augment import Augmentation
from .choices import Interpolation, Layout
from .features import DTypeLike, dtype_name

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def _pixels(dtype: DTypeLike, layout: Optional[Layout], mean: Sequence[float],
            std: Sequence[float]) -> Dict[str, Any]:
    """Returns the arguments for the type of the pixels; levels are not normalized."""
    levels = dtype_name(dtype) == "uint8"
    pixels = {"dtype": dtype, "layout": layout or ("NHWC" if levels else "NCHW")}
    return pixels if levels else {**pixels, "mean": tuple(mean), "std": tuple(std)}


@checked
def classification_eval(size: Size = 224, resize: Size = 256, interpolation: Interpolation = "bilinear",
                        mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD,
                        dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """torchvision's ImageClassification: resizes the shorter side to `resize`, crops the middle to
    `size`, normalizes. With dtype="uint8" the levels are not normalized. `layout` is "NCHW" by
    default, for levels "NHWC"."""
    return {"size": size, "crop": "center", "resize_shorter": resize, "interpolation": interpolation,
            "dct_scaling": False, **_pixels(dtype, layout, mean, std)}


@checked
def resnet50_v1(dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """ResNet50_Weights.IMAGENET1K_V1, and most older weights."""
    return classification_eval(dtype=dtype, layout=layout)


@checked
def resnet50_v2(dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """ResNet50_Weights.IMAGENET1K_V2."""
    return classification_eval(resize=232, dtype=dtype, layout=layout)


@checked
def vit_b_16(dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """ViT_B_16_Weights.IMAGENET1K_V1."""
    return classification_eval(dtype=dtype, layout=layout)


@checked
def clip(size: Size = 224, dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """The preprocessing of OpenAI's CLIP; `size` is 336 for ViT-L/14@336px."""
    return classification_eval(size, size, "bicubic", CLIP_MEAN, CLIP_STD, dtype, layout)


@checked
def classification_train(size: Size = 224, interpolation: Interpolation = "bilinear", flip: float = 0.5,
                         mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD,
                         dtype: DTypeLike = "float32", layout: Optional[Layout] = None) -> Dict[str, Any]:
    """The first part of ClassificationPresetTrain in torchvision's reference scripts: a random
    resized crop and a flip. Use dtype="uint8" if augment follows, and normalize afterwards, as
    `Dataset.cuda` does.

    JPEGs may be decoded at 1/2, 1/4 or 1/8 of their size, which is faster; with dct_scaling=False
    in addition pixels are torchvision's."""
    return {"size": size, "crop": "random", "flip": flip, "interpolation": interpolation,
            **_pixels(dtype, layout, mean, std)}


@checked
def classification_augment(auto_augment: Optional[Literal["ra", "ta_wide"]] = None,
                           random_erase: float = 0.0, ra_magnitude: int = 9,
                           interpolation: Literal["nearest", "bilinear"] = "bilinear",
                           mean: Sequence[float] = IMAGENET_MEAN) -> List[Augmentation]:
    """The second part of ClassificationPresetTrain, for augment: RandAugment ("ra") or
    TrivialAugmentWide ("ta_wide"), and RandomErasing with the probability `random_erase`.

    torchvision erases after it has normalized, with 0; here this is the level next to `mean`."""
    steps: List[Augmentation] = []
    if auto_augment == "ra":
        steps.append(augment.RandAugment(magnitude=ra_magnitude, interpolation=interpolation))
    elif auto_augment == "ta_wide":
        steps.append(augment.TrivialAugmentWide(interpolation=interpolation))
    if random_erase > 0:
        steps.append(augment.RandomErasing(random_erase, value=[round(255 * m) for m in mean]))
    return steps
