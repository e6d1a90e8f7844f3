"""``p.plot``, and the display of a Profile, whose code is in the layer above."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .. import extensions
from ..errors import nearest
from ..selection import Selection
from ..trace.trace import Trace

if TYPE_CHECKING:
    from bokeh.models import UIElement


def display(shown: Any, **options: Any) -> Any:
    """Show an object where it is evaluated, or return its live views if `as_widget` is set."""
    # without registered display code, IPython takes NotImplementedError to mean `_repr_mimebundle_`
    for entry in extensions.points("display").values():
        return entry.load()(shown, **options)
    raise NotImplementedError


class Displayed:
    """An object that front-ends show as a linked page: marimo, and IPython."""

    def _display_(self) -> Any:
        return display(self, as_widget=True)

    def _ipython_display_(self, **kwargs: Any) -> None:
        display(self, **kwargs)


VIEWS: Final = ("timeline", "operators", "memory", "phases")
"""Names of the views that are not tabs."""


class Plot:
    """Single views of a Profile as Bokeh models, for ``bokeh.io.show`` or a layout.

    Each call builds a new model from the current selection. If there is nothing to draw, the model is a
    sentence that says why. With an option, as in ``p.plot.flame(metric="device_ns")``, a tab becomes a single
    picture.
    """

    def __init__(self, trace: Trace, selection: Selection) -> None:
        self._trace, self._selection = trace, selection

    def timeline(self) -> UIElement:
        """Draw tracks over time, a lane for each depth."""
        return self._single("timeline")

    def operators(self) -> UIElement:
        """Return the operator table."""
        return self._single("operator_table")

    def memory(self) -> UIElement:
        """Draw allocated and reserved memory over time, with its peak."""
        return self._single("memory_curve")

    def phases(self) -> UIElement:
        """Return one bar per step, divided into its phases."""
        return self._single("phase_bars")

    def __getattr__(self, name: str) -> Callable[..., UIElement]:
        """Return a picture of a tab. The tabs are declared in `notebook_prof.views.tabs`."""
        models = importlib.import_module("notebook_prof.views.tab_models")  # loads Bokeh
        if name.startswith("_") or name not in models.PLOTS:
            raise AttributeError(f"p.plot has no {name!r}: {nearest(name, [*VIEWS, *models.PLOTS])}")
        made: Callable[..., UIElement] = models.plot(self._trace, self._selection, name)
        return made

    def __dir__(self) -> list[str]:
        models = importlib.import_module("notebook_prof.views.tab_models")
        return [*super().__dir__(), *models.PLOTS]

    def _single(self, function: str) -> Any:
        single = importlib.import_module("notebook_prof.views.pictures.single")  # loads Bokeh
        return getattr(single, function)(self._trace, self._selection)

    def __repr__(self) -> str:
        models = importlib.import_module("notebook_prof.views.tab_models")
        return "p.plot: " + ", ".join(f"{name}()" for name in (*VIEWS, *models.PLOTS))
