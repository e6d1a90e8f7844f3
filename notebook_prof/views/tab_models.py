"""The pictures of a tab as Bokeh models, for other pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bokeh.models import Column, Div, UIElement

from ..errors import OptionError, check_option
from ..selection import Selection
from ..trace import Trace
from . import figures
from .figures.drawn import Drawn, standalone
from .tabs import TABS
from .tabs.base import Panel, Picture


def tab_pictures(trace: Trace, selection: Selection, name: str) -> UIElement:
    """Return a tab's titled pictures, or a sentence that says why there are none; OptionError if unknown."""
    check_option("no tab", name, TABS)
    made = TABS[name].build(trace, selection.to_state())
    if not isinstance(made, Panel):
        return _text(made.sentence)
    drawn = [Drawn(part.figure, part.title, part.legend) for part in made.parts if isinstance(part, Picture)]
    if not drawn:
        return _text(f"{made.title}: there is nothing to draw.")
    return Column(children=[standalone(one) for one in drawn], sizing_mode="stretch_width")


PLOTS: Final = {plot: name for name, tab in TABS.items() for plot in tab.plots}
"""Name on ``p.plot`` → the tab that declares it."""


def plot(trace: Trace, selection: Selection, name: str) -> Callable[..., UIElement]:
    """Return the function behind a name of ``p.plot``."""
    # Without options, the tab's own name draws all its pictures; otherwise it draws the one picture that the
    # tab declares, with these options. A sentence replaces an empty picture.
    drawing = TABS[PLOTS[name]].plots[name]

    def plotted(**options: Any) -> UIElement:
        if name == PLOTS[name] and not options:
            return tab_pictures(trace, selection, name)
        if not drawing:
            raise OptionError(f"p.plot.{name}() takes no options: {', '.join(options)}")
        drawn: Drawn | None = getattr(figures, drawing)(trace, selection, **options)
        return _text("No data for this was recorded.") if drawn is None else standalone(drawn)

    plotted.__name__ = plotted.__qualname__ = name
    plotted.__doc__ = getattr(figures, drawing).__doc__ if drawing else TABS[PLOTS[name]].summary
    return plotted


def _text(text: str) -> Div:
    return Div(text=text, render_as_text=True)
