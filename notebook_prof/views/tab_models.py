"""The pictures of a tab as Bokeh models, for a page that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bokeh.models import Column, Div, UIElement

from ..errors import OptionError, nearest
from ..selection import Selection
from ..trace import Trace
from . import figures
from .figures.drawn import Drawn, standalone
from .tabs import TABS
from .tabs.base import Panel, Picture


def tab_pictures(trace: Trace, selection: Selection, name: str) -> UIElement:
    """Return what the tab draws, under the selection.

    Parameters
    ----------
    trace : Trace
    selection : Selection
    name : str
        A key of `TABS`.

    Returns
    -------
    UIElement
        Each picture under its title; the sentence why there is none, where there is none.

    Raises
    ------
    OptionError
        If there is no such tab.
    """
    if name not in TABS:
        raise OptionError(f"no tab {name!r}: {nearest(name, TABS)}")
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
    """Return the function behind a name of ``p.plot``.

    Returns
    -------
    callable
        Without options it draws what the tab draws, if it has the tab's name; else the one picture that the
        tab declares, with its options. A sentence stands where there is nothing to draw.
    """
    drawing = TABS[PLOTS[name]].plots[name]

    def plotted(**options: Any) -> UIElement:
        if name == PLOTS[name] and not options:
            return tab_pictures(trace, selection, name)
        if not drawing:
            raise OptionError(f"p.plot.{name}() takes no options: {', '.join(options)}")
        drawn: Drawn | None = getattr(figures, drawing)(trace, selection, **options)
        return _text("Nothing of this was recorded.") if drawn is None else standalone(drawn)

    plotted.__name__ = plotted.__qualname__ = name
    plotted.__doc__ = getattr(figures, drawing).__doc__ if drawing else TABS[PLOTS[name]].summary
    return plotted


def _text(text: str) -> Div:
    return Div(text=text, render_as_text=True)
