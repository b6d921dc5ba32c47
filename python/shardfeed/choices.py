"""The types of step arguments that take one of a few words."""

from typing import Literal

Crop = Literal["none", "center", "random"]
Interpolation = Literal["bilinear", "bicubic", "area", "nearest"]
Layout = Literal["NHWC", "NCHW"]
BoxFormat = Literal["xyxy", "yxyx", "xywh", "cxcywh"]
OnDamage = Literal["fail", "replace", "zero", "accept"]
Exhausted = Literal["drop", "stop", "repeat"]
PackHow = Literal["best_fit", "first_fit", "concatenate"]
PackCost = Literal["linear", "quadratic"]
StepEnds = Literal["repeat", "drop"]
End = Literal["drop", "pad", "wrap"]
Io = Literal["auto", "uring", "threads", "mmap"]
