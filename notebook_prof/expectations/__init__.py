"""Expectations: requirements for a run, one a line, and whether it meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .outcomes import expect as expect

__all__ = lazy(__name__, {"outcomes": "expect"})
