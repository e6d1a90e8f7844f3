"""The figures of the tabs, with their own data; those that the page fills are in ``page/dashboard.json``.

A tab's figure is a function ``(trace, selection, **options) -> Drawn | None`` for the rail, `p.plot` and the
report; None means that there is nothing to draw. Names are imported on first use (PEP 562): Bokeh's models
take most of a second to import, and the first view does not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...lazy import lazy

if TYPE_CHECKING:
    from .drawn import Drawn as Drawn
    from .drawn import standalone as standalone
    from .flame import flame_difference as flame_difference
    from .flame import flame_figure as flame_figure
    from .idle import idle_figure as idle_figure
    from .idle import layers_figure as layers_figure
    from .input import input_figure as input_figure
    from .input import pipeline_figure as pipeline_figure
    from .input import queues_figure as queues_figure
    from .memory import levels_figure as levels_figure
    from .memory import memory_flow_figure as memory_flow_figure
    from .roofline import roofline_figure as roofline_figure
    from .steps import distributed_figure as distributed_figure
    from .steps import kernels_figure as kernels_figure
    from .steps import operators_figure as operators_figure
    from .steps import steps_figure as steps_figure

GUTTER_PX: Final = 184
MARGIN_PX: Final = 14
LANE_PX: Final = 18
AXIS_PX: Final = 26
"""Sizes of the dashboard's figures that the page shares, in pixels."""

__all__ = [
    "AXIS_PX",
    "GUTTER_PX",
    "LANE_PX",
    "MARGIN_PX",
    *lazy(__name__),
]
