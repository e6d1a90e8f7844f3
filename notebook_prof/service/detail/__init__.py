"""Level of detail: indexes that answer any window of ten million slices in a few milliseconds."""

from .curve import StepCurve
from .density import Density, density
from .drawn import DrawnIndex, EarlyIndex, PictureCache, RowPicture, WideSlices
from .groups import GroupIndex, GroupTotals
from .launched import LaunchedIndex
from .rows import RowIndex

__all__ = [
    "Density",
    "DrawnIndex",
    "EarlyIndex",
    "GroupIndex",
    "GroupTotals",
    "LaunchedIndex",
    "PictureCache",
    "RowIndex",
    "RowPicture",
    "StepCurve",
    "WideSlices",
    "density",
]  # fmt: skip
