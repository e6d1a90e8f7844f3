"""The ranks' page as one HTML file that needs no kernel or network, and its static form."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from ...views.bundle import stylesheet
from ...views.report.html_file import deflated_json, json_text
from ...views.report.report import bytes_left, report_file, trace_blocks
from ...views.report.static_html import AGAIN, without_kernel
from .columns import rank_rows
from .frames import PageFrames
from .queries import RankProtocol

if TYPE_CHECKING:
    from ...profiles.profile import Profile
    from .board import RankBoard

_ROWS: Final = 16
_CELL: Final = "padding:2px 10px;text-align:right;white-space:nowrap"


def rank_fragment(frames: PageFrames, headline: str, uid: str = "") -> str:
    """Return headline and table of the ranks as escaped HTML without script or SVG."""
    table = rank_rows(frames.ranks, _ROWS)
    first, *further = headline.split("\n")
    # lets a live view hide the fragment
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    lines = ["".join(f'<th style="{_CELL}">{escape(head)}</th>' for head in ["rank", *table["heads"]])]
    for rank, cells in zip(table["ranks"], table["rows"], strict=True):
        lines.append("".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in [str(rank), *cells]))
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>and {table['more']} more</p>" if table["more"] else ""
    said = f"<p><b>{escape(first)}</b>{''.join('<br>' + escape(line) for line in further)}</p>"
    again = AGAIN if uid else ""
    alone = without_kernel(uid) if uid else ""
    return f'{alone}<div class="{mark}" style="font-size:13px">{said}<table>{rows}</table>{more}{again}</div>'


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
