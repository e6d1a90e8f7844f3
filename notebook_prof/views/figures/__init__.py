"""The four figures that the page fills, and those of the tabs, which bring their data.

A tab's figure is a function ``(trace, selection, **options) -> Drawn | None``: None where there is nothing to
draw. The rail, `p.plot` and the report show the same one.
"""

from .bars import kernels_figure, operators_figure
from .base import AXIS_PX, GUTTER_PX, LANE_PX, MARGIN_PX
from .drawn import Drawn, standalone
from .flame import flame_figure
from .idle import idle_figure
from .input import input_figure, queues_figure
from .layers import layers_figure
from .memory import memory_figure
from .memory_flow import memory_flow_figure
from .overview import overview_figure
from .phases import phase_figure
from .pipeline import pipeline_figure
from .roofline import roofline_figure
from .steps import distributed_figure, steps_figure
from .timeline import timeline_figure

__all__ = [
    "AXIS_PX",
    "GUTTER_PX",
    "LANE_PX",
    "MARGIN_PX",
    "Drawn",
    "distributed_figure",
    "flame_figure",
    "idle_figure",
    "input_figure",
    "kernels_figure",
    "layers_figure",
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
