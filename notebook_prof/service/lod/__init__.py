"""Level of detail: indexes that answer any window of ten million slices in a few milliseconds."""

from .curve import StepCurve
from .density import Density, density
from .drawn import DrawnIndex, EarlyIndex
from .groups import GroupIndex, GroupTotals
from .launched import LaunchedIndex
from .pictures import Picture, Pictures
from .rows import RowIndex
from .wide import WideSlices

__all__ = [
    "Density",
    "DrawnIndex",
    "EarlyIndex",
    "GroupIndex",
    "GroupTotals",
    "LaunchedIndex",
    "Picture",
    "Pictures",
    "RowIndex",
    "StepCurve",
    "WideSlices",
    "density",
]
