"""Expectations: requirements for a run, one per line, and whether the run meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .outcomes import expect as expect

__all__ = lazy(__name__)
