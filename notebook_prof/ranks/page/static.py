"""The ranks as static HTML: for readers without a kernel."""

from __future__ import annotations

from html import escape
from typing import Final

from ...views.report.static_html import without_kernel
from .columns import rank_rows
from .frames import PageFrames

_ROWS: Final = 16
_CELL: Final = "padding:2px 10px;text-align:right;white-space:nowrap"


def rank_fragment(frames: PageFrames, headline: str, uid: str = "") -> str:
    """What the ranks show and the table of the ranks, without script or SVG; texts are escaped.

    Parameters
    ----------
    frames : PageFrames
    headline : str
        Lines to put on top.
    uid : str
        Marks the fragment, so that a live view beside it can hide it.
    """
    table = rank_rows(frames.ranks, _ROWS)
    first, *rest = headline.split("\n")
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    lines = ["".join(f'<th style="{_CELL}">{escape(head)}</th>' for head in ["rank", *table["heads"]])]
    for rank, cells in zip(table["ranks"], table["rows"], strict=True):
        lines.append("".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in [str(rank), *cells]))
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>and {table['more']} more</p>" if table["more"] else ""
    said = f"<p><b>{escape(first)}</b>{''.join('<br>' + escape(line) for line in rest)}</p>"
    again = "<p>Run the cell again for the linked figures.</p>" if uid else ""
    alone = without_kernel(uid) if uid else ""
    return f'{alone}<div class="{mark}" style="font-size:13px">{said}<table>{rows}</table>{more}{again}</div>'
