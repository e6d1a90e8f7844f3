"""What other profilers print, to the character: PyTorch's table, Paddle's summary, MegEngine's ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .megengine import top_calls as top_calls
    from .paddle_summary import Events as Events
    from .paddle_summary.text import event_text as event_text
    from .paddle_timer import timer_text as timer_text
    from .torch_table import torch_text as torch_text

__all__ = lazy(
    __name__,
    {
        "megengine": "top_calls",
        "paddle_summary": "Events",
        "paddle_summary.text": "event_text",
        "paddle_timer": "timer_text",
        "torch_table": "torch_text",
    },
)
