"""``p.plot``: one view at a time."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..selection import Selection
from ..trace.trace import Trace

if TYPE_CHECKING:
    from bokeh.models import UIElement

VIEWS: Final = {
    "timeline": "timeline",
    "operators": "operator_table",
    "memory": "memory_curve",
    "phases": "phase_bars",
}
"""Method of `Plot` → function of `notebook_prof.views.pictures.single` that takes ``(trace, selection)``."""

TABS: Final = ("kernels", "steps", "input", "distributed", "device", "flame", "layers", "roofline")
"""Methods of `Plot` that draw what the tab of that name draws."""

FIGURES: Final = {
    "memory_flow": "memory_flow_figure",
    "top": "operators_figure",
    "flame": "flame_figure",
    "kernels": "kernels_figure",
    "layers": "layers_figure",
    "roofline": "roofline_figure",
    "steps": "steps_figure",
}
"""Method of `Plot` → function of `notebook_prof.views.figures`, whose options it takes."""


class Plot:
    """Single views of a Profile as Bokeh models, for ``bokeh.io.show`` or a layout of one's own.

    Each call builds a new model under the selection of that moment. Where there is nothing to draw, the model
    is the sentence why. With an option, as in ``p.plot.flame(metric="device_ns")``, a tab is one picture.

    Parameters
    ----------
    trace : Trace
    selection : Selection
    """

    def __init__(self, trace: Trace, selection: Selection) -> None:
        self._trace, self._selection = trace, selection

    def timeline(self) -> UIElement:
        """Tracks over time, a lane for each depth."""
        return self._build("timeline")

    def operators(self) -> UIElement:
        """The operator table."""
        return self._build("operators")

    def memory(self) -> UIElement:
        """Allocated and reserved memory over time, with its peak."""
        return self._build("memory")

    def phases(self) -> UIElement:
        """A bar a step, divided into its phases."""
        return self._build("phases")

    def top(self, **options: Any) -> UIElement:
        """A bar an operator, for the 20 that take most.

        Options: ``side`` (host or device), ``by``, ``top``.
        """
        return self._figure("top", options)

    def memory_flow(self, **options: Any) -> UIElement:
        """A rectangle a block: its life to the right, its addresses upwards, without gaps.

        Options: ``device``, ``min_bytes``.
        """
        return self._figure("memory_flow", options)

    def kernels(self, **options: Any) -> UIElement:
        """A bar a kernel, for those that take most.

        Options: ``by`` (name or launch), ``top``, ``category``.
        """
        return self._tab("kernels", options)

    def flame(self, **options: Any) -> UIElement:
        """What called what, as wide as the time it took: on the host, and launched on devices.

        Options: ``metric`` (self_ns, device_ns, count), ``category``, ``by_thread``.
        """
        return self._tab("flame", options)

    def layers(self, **options: Any) -> UIElement:
        """Time of each module: forward, backward, and what it launched.

        Options: ``depth``.
        """
        return self._tab("layers", options)

    def roofline(self, **options: Any) -> UIElement:
        """Operators by FLOPs a byte and FLOP/s, under the ceilings of the device where they are known.

        Options: ``flops_per_s``, ``bytes_per_s``, ``by``.
        """
        return self._tab("roofline", options)

    def steps(self, **options: Any) -> UIElement:
        """A bar a step, divided by what ran, and by its gap, forward and backward, and tail.

        Options: ``kind`` (breakdown or step_trace).
        """
        return self._tab("steps", options)

    def input(self) -> UIElement:
        """How steps got their data; of a data pipeline also its stages and queues."""
        return self._tab("input")

    def distributed(self) -> UIElement:
        """A bar a step: computation, communication, and both at once."""
        return self._tab("distributed")

    def device(self) -> UIElement:
        """Idle time of the devices by its causes."""
        return self._tab("device")

    def _build(self, view: str) -> Any:
        single = importlib.import_module("notebook_prof.views.pictures.single")  # loads Bokeh
        return getattr(single, VIEWS[view])(self._trace, self._selection)

    def _tab(self, name: str, options: Mapping[str, Any] = MappingProxyType({})) -> Any:
        if options:
            return self._figure(name, options)
        models = importlib.import_module("notebook_prof.views.tabs.models")  # loads Bokeh
        return models.tab_pictures(self._trace, self._selection, name)

    def _figure(self, view: str, options: Mapping[str, Any]) -> Any:
        models = importlib.import_module("notebook_prof.views.tabs.models")  # loads Bokeh
        return models.one_figure(self._trace, self._selection, FIGURES[view], **options)

    def __repr__(self) -> str:
        return "p.plot: " + ", ".join(f"{name}()" for name in dict.fromkeys((*VIEWS, *FIGURES, *TABS)))
