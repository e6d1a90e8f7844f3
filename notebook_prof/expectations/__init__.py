"""Expectations: what a run shall hold, in a line each, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .outcomes import expect as expect

__all__ = lazy(__name__, {"outcomes": "expect"})
