"""Level of detail: indexes that answer any window of ten million slices in a few milliseconds."""

from .curve import StepCurve
from .density import Density, density
from .drawn import DrawnIndex, EarlyIndex, Picture, Pictures, WideSlices
from .groups import CrossesParent, GroupIndex, GroupTotals
from .launched import LaunchedIndex
from .rows import RowIndex

__all__ = [
    "CrossesParent", "Density", "DrawnIndex", "EarlyIndex", "GroupIndex", "GroupTotals", "LaunchedIndex",
    "Picture", "Pictures", "RowIndex", "StepCurve", "WideSlices", "density",
]  # fmt: skip
