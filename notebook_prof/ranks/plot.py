"""``ranks.plot``: pictures of many ranks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

if TYPE_CHECKING:
    from bokeh.models import UIElement


class Answers(Protocol):
    """The analyses behind the pictures."""

    def breakdown(self, by: str = "step") -> pd.DataFrame:
        """Return a row a rank and step."""
        ...

    def steps(self) -> pd.DataFrame:
        """Return the steps on one clock."""
        ...

    def stragglers(self) -> pd.DataFrame:
        """Return the latest rank first."""
        ...

    def links(self) -> pd.DataFrame:
        """Return a row for each sender and receiver."""
        ...

    def pipeline(self) -> pd.DataFrame:
        """Return a row a rank and step of pipelines."""
        ...

    def fold(self) -> Any:
        """Return groups of ranks: ``ranks`` and ``bands``."""
        ...


class RankPlot:
    """Pictures of many ranks as Bokeh models, for ``bokeh.io.show`` or your own layout."""

    def __init__(self, ranks: Answers) -> None:
        self._ranks = ranks

    def bars(self) -> UIElement:
        """Draw a bar per rank: its median step, divided into parts."""
        return self._views().rank_bars(self._ranks.breakdown())

    def heat(self, value: str = "step_ns") -> UIElement:
        """Draw ranks × steps, coloured by a column of `breakdown`; OptionError for an unknown column."""
        return self._views().rank_heat(self._ranks.breakdown(), value)

    def marey(self) -> UIElement:
        """Draw ranks as rows, time to the right, a line through the starts of each step."""
        return self._views().marey(self._ranks.steps())

    def lateness(self) -> UIElement:
        """Draw how late each rank arrives at shared collectives."""
        return self._views().lateness(self._ranks.stragglers())

    def matrix(self) -> UIElement:
        """Draw messages from rank to rank."""
        return self._message_pictures().rank_matrix(self._ranks.links())

    def bubbles(self) -> UIElement:
        """Draw pipeline bubbles of each rank."""
        return self._message_pictures().rank_bubbles(self._ranks.pipeline())

    def spread(self) -> UIElement:
        """Draw groups of equal ranks, each with spread, representative and outliers."""
        folded = self._ranks.fold()
        metrics = list(dict.fromkeys(folded.bands["metric"]))
        middle = self._ranks.breakdown().groupby("rank")[metrics].median().reset_index()
        return self._message_pictures().rank_spread(
            folded.ranks, folded.bands, middle.melt("rank", var_name="metric")
        )

    def dashboard(self) -> UIElement:
        """Draw four of them, linked in any page; ``ranks.dashboard()`` is linked with Python too."""
        ranks = self._ranks
        return self._views().rank_dashboard(ranks.breakdown(), ranks.steps(), ranks.stragglers())

    def _message_pictures(self) -> Any:
        return importlib.import_module("notebook_prof.ranks.message_pictures")

    def _views(self) -> Any:
        return importlib.import_module("notebook_prof.ranks.pictures")  # loads Bokeh

    def __repr__(self) -> str:
        return "ranks.plot: bars(), heat(), marey(), lateness(), matrix(), bubbles(), spread(), dashboard()"
