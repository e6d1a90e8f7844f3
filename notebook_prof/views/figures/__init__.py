"""The four figures that the page fills, and those of the tabs, which bring their data.

A tab's figure is a function ``(trace, selection, **options) -> Drawn | None``: None where there is nothing to
draw. The rail, `p.plot` and the report show the same one.

Bokeh's models take most of a second to import, and the first view needs none of them: names are resolved when
they are first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from .sizes import AXIS_PX, GUTTER_PX, LANE_PX, MARGIN_PX

if TYPE_CHECKING:
    from .bars import kernels_figure, operators_figure
    from .canvas import memory_figure, overview_figure, phase_figure, timeline_figure
    from .drawn import Drawn, standalone
    from .flame import flame_difference, flame_figure
    from .idle import idle_figure
    from .input import input_figure, pipeline_figure, queues_figure
    from .layers import layers_figure
    from .memory import levels_figure, memory_flow_figure
    from .roofline import roofline_figure
    from .steps import distributed_figure, steps_figure

_HOMES: Final = {
    "Drawn": "drawn",
    "distributed_figure": "steps",
    "flame_difference": "flame",
    "flame_figure": "flame",
    "idle_figure": "idle",
    "input_figure": "input",
    "kernels_figure": "bars",
    "layers_figure": "layers",
    "levels_figure": "memory",
    "memory_figure": "canvas",
    "memory_flow_figure": "memory",
    "operators_figure": "bars",
    "overview_figure": "canvas",
    "phase_figure": "canvas",
    "pipeline_figure": "input",
    "queues_figure": "input",
    "roofline_figure": "roofline",
    "standalone": "drawn",
    "steps_figure": "steps",
    "timeline_figure": "canvas",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


__all__ = [
    "AXIS_PX",
    "GUTTER_PX",
    "LANE_PX",
    "MARGIN_PX",
    "Drawn",
    "distributed_figure",
    "flame_difference",
    "flame_figure",
    "idle_figure",
    "input_figure",
    "kernels_figure",
    "layers_figure",
    "levels_figure",
    "memory_figure",
    "memory_flow_figure",
    "operators_figure",
    "overview_figure",
    "phase_figure",
    "pipeline_figure",
    "queues_figure",
    "roofline_figure",
    "standalone",
    "steps_figure",
    "timeline_figure",
]
