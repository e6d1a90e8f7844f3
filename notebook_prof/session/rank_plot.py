"""``ranks.plot``: pictures of many ranks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

if TYPE_CHECKING:
    from bokeh.models import UIElement


class Answers(Protocol):
    """What the pictures are made of."""

    def breakdown(self, by: str = "step") -> pd.DataFrame:
        """A row a rank and step."""
        ...

    def steps(self) -> pd.DataFrame:
        """Steps on one clock."""
        ...

    def stragglers(self) -> pd.DataFrame:
        """The latest rank first."""
        ...


class RankPlot:
    """Pictures of many ranks as Bokeh models, for ``bokeh.io.show`` or a layout of one's own.

    Parameters
    ----------
    ranks : Answers
    """

    def __init__(self, ranks: Answers) -> None:
        self._ranks = ranks

    def bars(self) -> UIElement:
        """A bar a rank: its median step, divided into what its time went to."""
        return self._views().rank_bars(self._ranks.breakdown())

    def heat(self, value: str = "step_ns") -> UIElement:
        """Ranks × steps, coloured by a column of `breakdown`.

        Raises
        ------
        OptionError
            If there is no such column of times.
        """
        return self._views().rank_heat(self._ranks.breakdown(), value)

    def marey(self) -> UIElement:
        """Ranks as rows, time to the right, a line through the starts of each step."""
        return self._views().marey(self._ranks.steps())

    def lateness(self) -> UIElement:
        """How late each rank comes to shared collectives."""
        return self._views().lateness(self._ranks.stragglers())

    def dashboard(self) -> UIElement:
        """All four, linked: ranks that are chosen in one stand out in all."""
        ranks = self._ranks
        return self._views().rank_dashboard(ranks.breakdown(), ranks.steps(), ranks.stragglers())

    def _views(self) -> Any:
        return importlib.import_module("notebook_prof.views.ranks")  # loads Bokeh

    def __repr__(self) -> str:
        return "ranks.plot: bars(), heat(), marey(), lateness(), dashboard()"
