"""Level of detail: indexes that answer any window of ten million slices in a few milliseconds."""

from .curve import StepCurve
from .density import Density, density
from .groups import GroupIndex, GroupTotals
from .launched import LaunchedIndex
from .rows import RowIndex
from .wide import WideSlices

__all__ = [
    "Density",
    "GroupIndex",
    "GroupTotals",
    "LaunchedIndex",
    "RowIndex",
    "StepCurve",
    "WideSlices",
    "density",
]
