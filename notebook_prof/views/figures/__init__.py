"""The four figures, empty: the page (or `views.plots`) fills their sources."""

from .base import AXIS_PX, GUTTER_PX, LANE_PX, MARGIN_PX
from .memory import memory_figure
from .overview import overview_figure
from .phases import phase_figure
from .timeline import timeline_figure

__all__ = [
    "AXIS_PX",
    "GUTTER_PX",
    "LANE_PX",
    "MARGIN_PX",
    "memory_figure",
    "overview_figure",
    "phase_figure",
    "timeline_figure",
]
