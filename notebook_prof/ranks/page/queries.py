"""Answers for the ranks' page, live or as one HTML file that needs no kernel or network.

Questions about an opened timeline are passed on to it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

import bokeh

from ...errors import NotebookProfError
from ...service.executor import patched
from ...views.bundle import Style, stylesheet
from ...views.dashboard import dashboard_document, dashboard_settings
from ...views.page_queries import PageQueries
from ...views.report.html_file import deflated_json, json_text
from ...views.report.report import bytes_left, report_file, trace_blocks
from ...views.report.static_html import AGAIN, html_table, without_kernel
from .columns import page_columns, rank_rows
from .figures import PANELS, page_document, page_settings
from .frames import PageFrames

if TYPE_CHECKING:
    from ...profiles.profile import Profile
    from .board import RankBoard

MOST_ROWS: Final = 200


class RankProtocol:
    """Answer the questions of every page that shows one set of ranks."""

    entry: Final = "rank_widget"
    styles: Final[tuple[Style, ...]] = ("dashboard", "ranks")

    def __init__(self, source: RankBoard) -> None:
        self.source, self.selection = source, source.selection
        self._lock = threading.RLock()
        self._opened: PageQueries | None = None
        self._number = 0
        self.panels = _worth_showing(source.frames({}))

    def document(self) -> str:
        return page_document(self.panels)

    def settings(self) -> dict[str, Any]:
        """Return small facts for the page."""
        panels = page_settings(self.panels)
        facts = {"verdict": self.source.headline, "groups": self.source.groups}
        return {"page": "ranks", "bokeh": bokeh.__version__, "panels": panels, **facts}

    def static(self, uid: str) -> str:
        """Return the HTML for a notebook without a kernel; a live view next to it hides it by `uid`."""
        return rank_fragment(self.source.frames({}), self.source.headline, uid)

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
        """Apply a page's patch; see `notebook_prof.service.executor.patched`."""
        return patched(self.selection, patch, source, base_revision)

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
        return {
            "of": self._number,
            "ranks": list(profile.trace.metadata.get("ranks", ranks)),
            "document": dashboard_document(profile.trace),
            "settings": dashboard_settings(profile.trace, profile.headline),
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


_ROWS: Final = 16


def rank_fragment(frames: PageFrames, headline: str, uid: str = "") -> str:
    """Return headline and table of the ranks as escaped HTML without script or SVG."""
    table = rank_rows(frames.ranks, _ROWS)
    first, *further = headline.split("\n")
    # lets a live view hide the fragment
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    heads = ["rank", *map(escape, table["heads"])]
    named = zip(table["ranks"], table["rows"], strict=True)
    rows = html_table(heads, ([str(rank), *map(escape, cells)] for rank, cells in named), left=())
    more = f"<p>and {table['more']} more</p>" if table["more"] else ""
    said = f"<p><b>{escape(first)}</b>{''.join('<br>' + escape(line) for line in further)}</p>"
    again = AGAIN if uid else ""
    alone = without_kernel(uid) if uid else ""
    return f'{alone}<div class="{mark}" style="font-size:13px">{said}{rows}{more}{again}</div>'


_TIMELINES: Final = "nbp-timelines-"


def rank_report(source: RankBoard, timelines: Profile | None = None, note: str = "") -> str:
    """Return the whole HTML file as text, opened under the source's selection."""
    # The file contains the figures and the table under the current selection, and the columns of `timelines`
    # within the size limit of a single profile's report.
    # `note` says in a sentence which timelines the file contains.
    page = RankProtocol(source)
    drawn, _ = page.answer({"t": "ranks"})
    shown = timelines is not None and len(timelines.trace.slices) > 0
    inside = list(timelines.trace.metadata.get("ranks", ())) if timelines is not None and shown else []
    of_timelines = dict.fromkeys(("track", "focus", "pinned"))
    state = {**source.selection.to_state(), **of_timelines}
    data = {
        "nbp-document": json_text(json.loads(page.document())),
        "nbp-selection": json_text(state),
        "nbp-settings": json_text(
            {**page.settings(), "uid": "", "timelines": {"ranks": inside, "note": note}}
        ),
        "nbp-given": json_text(deflated_json(drawn)),
    }
    static = rank_fragment(source.frames({}), source.headline)
    look = "#nbp-static table { border-collapse: collapse; } " + stylesheet() + stylesheet("ranks")
    if timelines is not None and shown:
        room = bytes_left("rank_report", look, static, data)
        data |= trace_blocks(timelines.trace, timelines.headline, room, _TIMELINES)
    return report_file("rank_report", look, static, data, "notebook_prof: ranks")
