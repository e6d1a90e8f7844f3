"""Writers: Traces as files for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .chrome import write_chrome as write_chrome
    from .native import write_native as write_native
    from .stacks import export_stacks as export_stacks

__all__ = lazy(__name__)
