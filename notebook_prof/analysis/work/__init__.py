"""FLOPs and bytes of one operator call, from the recorded shapes, types and arguments."""

from .calls import Call, Work
from .formulas import work_of

__all__ = ["Call", "Work", "work_of"]
