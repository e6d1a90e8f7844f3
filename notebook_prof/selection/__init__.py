"""What is selected, by whom: one clause a dimension, told once per change to whoever watches."""

from .clauses import DIMENSIONS, Clause
from .filtered import filtered
from .frames import passing
from .query import Query
from .selection import Selection

__all__ = ["DIMENSIONS", "Clause", "Query", "Selection", "filtered", "passing"]
