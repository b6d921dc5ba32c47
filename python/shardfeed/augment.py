"""Random augmentations of images for Dataset.augment, named as in torchvision.transforms.v2, with
its parameters, their forms and defaults. docs/augment.md tells the few differences.

    ds.augment("image", [sf.augment.RandomHorizontalFlip(),
                         sf.augment.ColorJitter(brightness=0.4, hue=0.1),
                         sf.augment.RandomErasing(p=0.25)], seed=1)

A range is (least, most). interpolation: "nearest" or "bilinear", or torchvision's InterpolationMode.
fill: a value for all channels, or one for each; None as torchvision has it."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .arguments import checked, shown

Pair = Tuple[float, float]
Number = Union[int, float]
RangeLike = Union[Number, Sequence[Number]]
FillLike = Union[Number, Sequence[Number], None]


class Augmentation(NamedTuple):
    """What one of this module's functions gives: the name, and the parameters as C++ has them."""

    name: str
    fields: Dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"


def _pair(name: str, value: Sequence[Number]) -> Pair:
    if len(value) != 2:
        raise ValueError(f"{name} must be two numbers, minimum and maximum, got {value!r}")
    return float(value[0]), float(value[1])


def _factor(name: str, value: RangeLike) -> Pair:
    """A number b is (1 - b, 1 + b), at least 0."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} {value}: 0 or more, or the least and the most factor")
        return max(0.0, 1.0 - value), 1.0 + value
    return _pair(name, value)


def _around_zero(name: str, value: RangeLike) -> Pair:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} {value}: 0 or more, or the least and the most")
        return -float(value), float(value)
    return _pair(name, value)


def _fill(value: FillLike) -> List[float]:
    if value is None:
        return []
    return [float(v) for v in ([value] if isinstance(value, (int, float)) else value)]


def _interpolation(value: Any) -> str:
    chosen = getattr(value, "value", value)
    if not isinstance(chosen, str) or chosen not in ("nearest", "bilinear"):
        raise ValueError(f"interpolation is one of 'nearest', 'bilinear', not {shown(value)}")
    return chosen


def _center(value: Optional[Sequence[Number]]) -> Optional[Pair]:
    return None if value is None else _pair("center", value)


@checked
def ColorJitter(brightness: RangeLike = 0, contrast: RangeLike = 0, saturation: RangeLike = 0,
                hue: RangeLike = 0) -> Augmentation:
    """In random order. A factor b stands for (1 - b, 1 + b), a hue h for (-h, h), h up to 0.5."""
    return Augmentation("ColorJitter", {
        "brightness": _factor("brightness", brightness), "contrast": _factor("contrast", contrast),
        "saturation": _factor("saturation", saturation), "hue": _around_zero("hue", hue)})


@checked
def RandomGrayscale(p: float = 0.1) -> Augmentation:
    return Augmentation("RandomGrayscale", {"p": float(p)})


@checked
def GaussianBlur(kernel_size: Union[int, Sequence[int]],
                 sigma: RangeLike = (0.1, 2.0)) -> Augmentation:
    """kernel_size: odd, in pixels; (width, height)."""
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else [int(k) for k in kernel_size]
    if len(size) != 2:
        raise ValueError(f"kernel_size {kernel_size!r}: one number, or the width and the height")
    both = (float(sigma),) * 2 if isinstance(sigma, (int, float)) else _pair("sigma", sigma)
    return Augmentation("GaussianBlur", {"kernel_size": size, "sigma": both})


@checked
def RandomErasing(p: float = 0.5, scale: Sequence[Number] = (0.02, 0.33),
                  ratio: Sequence[Number] = (0.3, 3.3),
                  value: Union[Number, Sequence[Number], str] = 0) -> Augmentation:
    """value: 0 to 255, or "random" (evenly drawn)."""
    if isinstance(value, str) and value != "random":
        raise ValueError(f"value {value!r}: a number, one for each channel, or 'random'")
    drawn = value == "random"
    return Augmentation("RandomErasing", {
        "p": float(p), "scale": _pair("scale", scale), "ratio": _pair("ratio", ratio),
        "value": [0.0] if isinstance(value, str) else _fill(value), "random_value": drawn})


@checked
def RandomHorizontalFlip(p: float = 0.5) -> Augmentation:
    return Augmentation("RandomHorizontalFlip", {"p": float(p)})


@checked
def RandomVerticalFlip(p: float = 0.5) -> Augmentation:
    return Augmentation("RandomVerticalFlip", {"p": float(p)})


@checked
def Pad(padding: Union[int, Sequence[int]], fill: FillLike = 0,
        padding_mode: str = "constant") -> Augmentation:
    """padding: pixels on all sides, or [left and right, top and bottom], or [left, top, right,
    bottom]. padding_mode: "constant", "edge", "reflect" or "symmetric"."""
    sides = [padding] if isinstance(padding, int) else [int(n) for n in padding]
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"padding must be 1, 2 or 4 numbers, got {padding!r}")
    return Augmentation("Pad", {"padding": sides * (4 // len(sides)), "fill": _fill(fill),
                                "padding_mode": padding_mode})


@checked
def RandomRotation(degrees: RangeLike, interpolation: Any = "nearest",
                   center: Optional[Sequence[Number]] = None, fill: FillLike = 0) -> Augmentation:
    """degrees: counter-clockwise; d stands for (-d, d). center: x, y."""
    return Augmentation("RandomRotation", {
        "degrees": _around_zero("degrees", degrees), "interpolation": _interpolation(interpolation),
        "center": _center(center), "fill": _fill(fill)})


@checked
def RandomAffine(degrees: RangeLike, translate: Optional[Sequence[Number]] = None,
                 scale: Optional[Sequence[Number]] = None, shear: Optional[RangeLike] = None,
                 interpolation: Any = "nearest", fill: FillLike = 0,
                 center: Optional[Sequence[Number]] = None) -> Augmentation:
    """degrees: clockwise; d stands for (-d, d). translate: at most, parts of the width and of the
    height. shear: degrees s along x, for (-s, s); or the least and the most; or both along x and
    along y."""
    shears: Tuple[Pair, Pair] = ((0.0, 0.0), (0.0, 0.0))
    if isinstance(shear, (int, float)) or (shear is not None and len(shear) == 2):
        shears = (_around_zero("shear", shear), (0.0, 0.0))
    elif shear is not None:
        if len(shear) != 4:
            raise ValueError(f"shear must be 1, 2 or 4 numbers, got {shear!r}")
        shears = (_pair("shear", shear[:2]), _pair("shear", shear[2:]))
    return Augmentation("RandomAffine", {
        "degrees": _around_zero("degrees", degrees),
        "translate": (0.0, 0.0) if translate is None else _pair("translate", translate),
        "scale": (1.0, 1.0) if scale is None else _pair("scale", scale),
        "shear_x": shears[0], "shear_y": shears[1],
        "interpolation": _interpolation(interpolation), "fill": _fill(fill),
        "center": _center(center)})


@checked
def RandomPerspective(distortion_scale: float = 0.5, p: float = 0.5,
                      interpolation: Any = "bilinear", fill: FillLike = 0) -> Augmentation:
    return Augmentation("RandomPerspective", {
        "distortion_scale": float(distortion_scale), "p": float(p),
        "interpolation": _interpolation(interpolation), "fill": _fill(fill)})


@checked
def RandomInvert(p: float = 0.5) -> Augmentation:
    return Augmentation("RandomInvert", {"p": float(p)})


@checked
def RandomPosterize(bits: int, p: float = 0.5) -> Augmentation:
    return Augmentation("RandomPosterize", {"bits": int(bits), "p": float(p)})


@checked
def RandomSolarize(threshold: float, p: float = 0.5) -> Augmentation:
    return Augmentation("RandomSolarize", {"threshold": float(threshold), "p": float(p)})


@checked
def RandomAutocontrast(p: float = 0.5) -> Augmentation:
    return Augmentation("RandomAutocontrast", {"p": float(p)})


@checked
def RandomEqualize(p: float = 0.5) -> Augmentation:
    return Augmentation("RandomEqualize", {"p": float(p)})


@checked
def RandomAdjustSharpness(sharpness_factor: float, p: float = 0.5) -> Augmentation:
    return Augmentation("RandomAdjustSharpness", {"sharpness_factor": float(sharpness_factor),
                                                  "p": float(p)})


@checked
def RandAugment(num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
                interpolation: Any = "nearest", fill: FillLike = None) -> Augmentation:
    """num_ops of 14 operations, each drawn anew."""
    return Augmentation("RandAugment", {
        "num_ops": int(num_ops), "magnitude": int(magnitude),
        "num_magnitude_bins": int(num_magnitude_bins),
        "interpolation": _interpolation(interpolation), "fill": _fill(fill)})


@checked
def TrivialAugmentWide(num_magnitude_bins: int = 31, interpolation: Any = "nearest",
                       fill: FillLike = None) -> Augmentation:
    """One of 14 operations, its magnitude drawn too."""
    return Augmentation("TrivialAugmentWide", {
        "num_magnitude_bins": int(num_magnitude_bins),
        "interpolation": _interpolation(interpolation), "fill": _fill(fill)})


@checked
def RandomApply(transforms: Sequence[Augmentation], p: float = 0.5) -> Augmentation:
    """All of them, or none."""
    return Augmentation("RandomApply", {
        "transforms": list(transforms), "p": float(p)})
