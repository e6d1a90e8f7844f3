"""The ranks' page as one HTML file that needs no kernel or network, and its static form."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from ...views.bundle import bokehjs, script, stylesheet
from ...views.report.html_file import data_blocks, deflated_json, html_page, json_text
from ...views.report.report import MOST_BYTES, trace_blocks
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
_AROUND: Final = 20_000
"""Bytes of tags, policy and settings around the parts."""
_STYLE: Final = (
    "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
    "#nbp-static table { border-collapse: collapse; } "
)


def rank_report(source: RankBoard, timelines: Profile | None = None, note: str = "") -> str:
    """Return the whole HTML file as text, opened under the source's selection."""
    # The file contains the figures and the table under the current selection, and the columns of `timelines`
    # within the size limit of a single profile's report. Data of recordings is JSON with ``<`` escaped,
    # base64 or escaped HTML, and the Content-Security-Policy allows only the file's own scripts, by their
    # hashes.
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
    scripts = [part.decode("utf-8") for part in bokehjs()]
    look = _STYLE + stylesheet() + stylesheet("ranks")
    if timelines is not None and shown:
        used_bytes = sum(
            len(t.encode()) for t in (*scripts, script("rank_report"), look, static, *data.values())
        )
        room = MOST_BYTES - _AROUND - used_bytes
        data |= trace_blocks(timelines.trace, timelines.headline, room, _TIMELINES)
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    return html_page(scripts, [script("rank_report")], body + data_blocks(data), look, "notebook_prof: ranks")
