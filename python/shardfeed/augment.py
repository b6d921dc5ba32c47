"""Random augmentations of images for Dataset.augment, with the names, parameters and defaults of
torchvision.transforms.v2. docs/augment.md lists the few differences.

    ds.augment("image", [sf.augment.RandomHorizontalFlip(),
                         sf.augment.ColorJitter(brightness=0.4, hue=0.1),
                         sf.augment.RandomErasing(p=0.25)], seed=1)

A range is (minimum, maximum). `interpolation` is "nearest" or "bilinear", or torchvision's
InterpolationMode. `fill` is a value for all channels, or one for each, or None as in
torchvision."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .arguments import checked, shown

Pair = Tuple[float, float]
Number = Union[int, float]
RangeLike = Union[Number, Sequence[Number]]
FillLike = Union[Number, Sequence[Number], None]


class Augmentation(NamedTuple):
    """The result of this module's functions: the name, and the parameters of the C++ struct."""

    name: str
    fields: Dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"


def _pair(name: str, value: Sequence[Number]) -> Pair:
    if len(value) != 2:
        raise ValueError(f"{name} must be two numbers, minimum and maximum, got {value!r}")
    return float(value[0]), float(value[1])


def _factor(name: str, value: RangeLike) -> Pair:
    """Returns (1 - b, 1 + b), at least 0, for a number b; returns a pair unchanged."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, or the minimum and maximum factor, got {value}")
        return max(0.0, 1.0 - value), 1.0 + value
    return _pair(name, value)


def _around_zero(name: str, value: RangeLike) -> Pair:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, or a minimum and a maximum, got {value}")
        return -float(value), float(value)
    return _pair(name, value)


def _fill(value: FillLike) -> List[float]:
    if value is None:
        return []
    return [float(v) for v in ([value] if isinstance(value, (int, float)) else value)]


def _interpolation(value: Any) -> str:
    chosen = getattr(value, "value", value)
    if not isinstance(chosen, str) or chosen not in ("nearest", "bilinear"):
        raise ValueError(f"interpolation must be one of 'nearest', 'bilinear', not {shown(value)}")
    return chosen


def _center(value: Optional[Sequence[Number]]) -> Optional[Pair]:
    return None if value is None else _pair("center", value)


@checked
def ColorJitter(brightness: RangeLike = 0, contrast: RangeLike = 0, saturation: RangeLike = 0,
                hue: RangeLike = 0) -> Augmentation:
    """Changes colors in random order. A factor b means (1 - b, 1 + b); a hue h, which is at most
    0.5, means (-h, h)."""
    return Augmentation("ColorJitter", {
        "brightness": _factor("brightness", brightness), "contrast": _factor("contrast", contrast),
        "saturation": _factor("saturation", saturation), "hue": _around_zero("hue", hue)})


@checked
def RandomGrayscale(p: float = 0.1) -> Augmentation:
    return Augmentation("RandomGrayscale", {"p": float(p)})


@checked
def GaussianBlur(kernel_size: Union[int, Sequence[int]],
                 sigma: RangeLike = (0.1, 2.0)) -> Augmentation:
    """`kernel_size` is odd, in pixels: one number or (width, height)."""
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else [int(k) for k in kernel_size]
    if len(size) != 2:
        raise ValueError(f"kernel_size must be one number, or (width, height), got {kernel_size!r}")
    both = (float(sigma),) * 2 if isinstance(sigma, (int, float)) else _pair("sigma", sigma)
    return Augmentation("GaussianBlur", {"kernel_size": size, "sigma": both})


@checked
def RandomErasing(p: float = 0.5, scale: Sequence[Number] = (0.02, 0.33),
                  ratio: Sequence[Number] = (0.3, 3.3),
                  value: Union[Number, Sequence[Number], str] = 0) -> Augmentation:
    """`value` is from 0 to 255, one for each channel, or "random" (drawn uniformly)."""
    if isinstance(value, str) and value != "random":
        raise ValueError(f"value must be a number, one for each channel, or 'random', got {value!r}")
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
    """`padding` is in pixels, for all sides, as [left and right, top and bottom], or as [left, top,
    right, bottom]. `padding_mode` is "constant", "edge", "reflect" or "symmetric"."""
    sides = [padding] if isinstance(padding, int) else [int(n) for n in padding]
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"padding must be 1, 2 or 4 numbers, got {padding!r}")
    return Augmentation("Pad", {"padding": sides * (4 // len(sides)), "fill": _fill(fill),
                                "padding_mode": padding_mode})


@checked
def RandomRotation(degrees: RangeLike, interpolation: Any = "nearest",
                   center: Optional[Sequence[Number]] = None, fill: FillLike = 0) -> Augmentation:
    """`degrees` are counterclockwise; d means (-d, d). `center` is (x, y)."""
    return Augmentation("RandomRotation", {
        "degrees": _around_zero("degrees", degrees), "interpolation": _interpolation(interpolation),
        "center": _center(center), "fill": _fill(fill)})


@checked
def RandomAffine(degrees: RangeLike, translate: Optional[Sequence[Number]] = None,
                 scale: Optional[Sequence[Number]] = None, shear: Optional[RangeLike] = None,
                 interpolation: Any = "nearest", fill: FillLike = 0,
                 center: Optional[Sequence[Number]] = None) -> Augmentation:
    """`degrees` are clockwise; d means (-d, d). `translate` has the maximum fractions of the
    width and the height. `shear` is in degrees: s along x, which means (-s, s); (minimum,
    maximum) along x; or minimum and maximum along x and then along y."""
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
        "shear": shears,
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
    """Applies `num_ops` of 14 operations, each drawn independently."""
    return Augmentation("RandAugment", {
        "num_ops": int(num_ops), "magnitude": int(magnitude),
        "num_magnitude_bins": int(num_magnitude_bins),
        "interpolation": _interpolation(interpolation), "fill": _fill(fill)})


@checked
def TrivialAugmentWide(num_magnitude_bins: int = 31, interpolation: Any = "nearest",
                       fill: FillLike = None) -> Augmentation:
    """Applies one of 14 operations with a random magnitude."""
    return Augmentation("TrivialAugmentWide", {
        "num_magnitude_bins": int(num_magnitude_bins),
        "interpolation": _interpolation(interpolation), "fill": _fill(fill)})


@checked
def RandomApply(transforms: Sequence[Augmentation], p: float = 0.5) -> Augmentation:
    """Applies all transforms with probability `p`, otherwise none."""
    return Augmentation("RandomApply", {
        "transforms": list(transforms), "p": float(p)})
