"""Profile: a trace, a selection, the analyses as methods, and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .replay import replay as replay

__all__ = lazy(__name__)
