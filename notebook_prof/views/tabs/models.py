"""The pictures of a tab as Bokeh models, for a page that is not ours."""

from __future__ import annotations

from typing import Any

from bokeh.models import Column, Div, UIElement

from ...errors import OptionError, nearest
from ...selection import Selection
from ...trace import Trace
from .. import figures
from ..figures.drawn import Drawn, standalone
from . import PANELS
from .base import Panel, Picture


def tab_pictures(trace: Trace, selection: Selection, name: str) -> UIElement:
    """What the tab draws, under the selection.

    Parameters
    ----------
    trace : Trace
    selection : Selection
    name : str
        A key of `PANELS`.

    Returns
    -------
    UIElement
        Each picture under its title; the sentence why there is none, where there is none.

    Raises
    ------
    OptionError
        If there is no such tab.
    """
    if name not in PANELS:
        raise OptionError(f"no tab {name!r}: {nearest(name, PANELS)}")
    made = PANELS[name].build(trace, selection.to_state())
    if not isinstance(made, Panel):
        return _text(made.sentence)
    drawn = [Drawn(part.figure, part.title, part.legend) for part in made.parts if isinstance(part, Picture)]
    if not drawn:
        return _text(f"{made.title}: there is nothing to draw.")
    return Column(children=[standalone(one) for one in drawn], sizing_mode="stretch_width")


def one_figure(trace: Trace, selection: Selection, name: str, **options: Any) -> UIElement:
    """What a function of `notebook_prof.views.figures` draws, or a sentence where it has nothing to draw."""
    drawn: Drawn | None = getattr(figures, name)(trace, selection, **options)
    return _text("Nothing of this was recorded.") if drawn is None else standalone(drawn)


def _text(text: str) -> Div:
    return Div(text=text, render_as_text=True)
