"""Answers for the ranks' page; questions about an opened timeline are passed on to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import bokeh

from ...errors import NotebookProfError
from ...selection import Selection
from ...trace import Trace
from ...views.dashboard import dashboard_document, dashboard_settings
from ...views.page_queries import PageQueries
from .columns import page_columns, rank_rows
from .figures import PANELS, page_document, page_settings
from .frames import PageFrames

MOST_ROWS: Final = 200


class Opened(Protocol):
    """The stacked timelines of some ranks: a Profile."""

    @property
    def trace(self) -> Trace:
        """The Trace of all these ranks."""

    @property
    def headline(self) -> str:
        """The verdict."""


class RankSource(Protocol):
    """The data of the page."""

    @property
    def selection(self) -> Selection:
        """Shared by the page, the timelines and Python."""

    @property
    def headline(self) -> str:
        """Findings about the ranks, as lines."""

    @property
    def groups(self) -> list[tuple[str, str, list[int]]]:
        """Groups that can be chosen at once: label, explanation, ranks."""

    def frames(self, state: Mapping[str, Any]) -> PageFrames:
        """Return the tables of all figures under a selection."""

    def timeline(self, ranks: Sequence[int] | None = None) -> Opened:
        """Read some ranks and stack them."""


class RankProtocol:
    """Answer the questions of every page that shows one set of ranks."""

    def __init__(self, source: RankSource) -> None:
        self.source, self.selection = source, source.selection
        self._lock = threading.RLock()
        self._opened: PageQueries | None = None
        self._number = 0
        self.panels = _worth_showing(source.frames({}))

    def document(self) -> str:
        """Return the figures, empty."""
        return page_document(self.panels)

    def settings(self) -> dict[str, Any]:
        """Return small facts for the page."""
        panels = page_settings(self.panels)
        facts = {"verdict": self.source.headline, "groups": self.source.groups}
        return {"page": "ranks", "bokeh": bokeh.__version__, "panels": panels, **facts}

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer a question: ``ranks``, ``open`` (stack timelines), or one ``of`` an opened timeline."""
        # in the form of `notebook_prof.service.executor.QueryService.answer`
        if "of" in request:
            opened = self._opened
            if opened is None or request["of"] != self._number:
                return {"failed": "this timeline has been replaced by another one", "columns": []}, []
            return opened.answer(request)
        try:
            with self._lock:
                return (self._open(request) if request.get("t") == "open" else self._drawn()), []
        except (NotebookProfError, OSError, MemoryError) as error:
            return {"failed": str(error), "columns": []}, []

    def select(self, patch: Mapping[str, Any], source: str, base_revision: int | None) -> dict[str, Any]:
        """Apply a page's patch; see `notebook_prof.service.executor.QueryService.select`."""
        try:
            self.selection.apply_patch(patch, source, base_revision)
        except NotebookProfError as error:
            return {"failed": str(error), "state": self.selection.to_state()}
        return {"state": self.selection.to_state()}

    def _drawn(self) -> dict[str, Any]:
        state = self.selection.to_state()
        frames = self.source.frames(state)
        drawn = page_columns(frames, state)
        panels = {name: drawn[name] for name in self.panels}
        return {"panels": panels, "table": rank_rows(frames.ranks, MOST_ROWS), "columns": []}

    def _open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        ranks = [int(rank) for rank in request.get("ranks") or []]
        profile = self.source.timeline(ranks or None)
        self._opened = PageQueries(profile.trace, self.selection)
        self._number += 1
        self.selection.clear("track")
        self.selection.focus = None
        self.selection.pinned = ()
        settings = dashboard_settings(profile.trace, profile.headline)
        return {
            "of": self._number,
            "ranks": list(profile.trace.metadata.get("ranks", ranks)),
            "document": dashboard_document(profile.trace),
            "settings": settings,
            "columns": [],
        }


def _worth_showing(frames: PageFrames) -> list[str]:
    empty = {
        "late": not len(frames.late),
        "marey": not frames.steps["start_ns"].notna().any(),
        "talk": not len(frames.talk),
        "links": not len(frames.links),
        "bubbles": not len(frames.bubbles),
    }
    return [name for name in PANELS if not empty.get(name, False)]
