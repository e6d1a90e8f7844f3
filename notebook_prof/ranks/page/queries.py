"""Answers for the ranks' page; questions about an opened timeline are passed on to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import bokeh

from ...errors import NotebookProfError
from ...views.dashboard import dashboard_document, dashboard_settings
from ...views.page_queries import PageQueries
from .columns import page_columns, rank_rows
from .figures import PANELS, page_document, page_settings
from .frames import PageFrames

if TYPE_CHECKING:
    from .board import RankBoard

MOST_ROWS: Final = 200


class RankProtocol:
    """Answer the questions of every page that shows one set of ranks."""

    def __init__(self, source: RankBoard) -> None:
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
        panels = page_columns(frames, state, self.panels)
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
