"""FLOPs and bytes of one call of an operator, from the shapes, types and arguments that were recorded."""

from .calls import Call, Work
from .formulas import work_of

__all__ = ["Call", "Work", "work_of"]
