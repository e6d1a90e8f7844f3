"""The selection: one clause per dimension, and watchers that are notified once per change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .clauses import DIMENSIONS as DIMENSIONS
    from .clauses import Clause as Clause
    from .frames import filtered as filtered
    from .frames import passing as passing
    from .query import Query as Query
    from .selection import Selection as Selection

__all__ = lazy(__name__)
