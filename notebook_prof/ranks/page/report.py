"""The ranks' page as one HTML file that needs neither kernel nor network, and its static form."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from typing import Any, Final

import numpy as np
import pandas as pd

from ...views.bundle import bokehjs, script, stylesheet
from ...views.report.html_file import data_blocks, html_page, json_text
from ...views.report.report import MOST_BYTES, trace_blocks
from ...views.report.static_html import without_kernel
from ..pictures import MAX_CELLS, PARTS
from .columns import CLICK, FADED, MAX_LINES, MAX_TALK, NOTES, ROOM, rank_rows
from .figures import BUBBLES, TALK
from .frames import PageFrames, PageSums
from .queries import MOST_ROWS, Opened, RankProtocol, RankSource
from .selected_tables import MIDDLE

_ROWS: Final = 16
_CELL: Final = "padding:2px 10px;text-align:right;white-space:nowrap"


def rank_fragment(frames: PageFrames, headline: str, uid: str = "") -> str:
    """Return what the ranks show and the table of the ranks, without script or SVG; texts are escaped.

    Parameters
    ----------
    frames : PageFrames
    headline : str
        Lines to put on top.
    uid : str
        Marks the fragment, so that a live view beside it can hide it.
    """
    table = rank_rows(frames.ranks, _ROWS)
    first, *further = headline.split("\n")
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    lines = ["".join(f'<th style="{_CELL}">{escape(head)}</th>' for head in ["rank", *table["heads"]])]
    for rank, cells in zip(table["ranks"], table["rows"], strict=True):
        lines.append("".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in [str(rank), *cells]))
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>and {table['more']} more</p>" if table["more"] else ""
    said = f"<p><b>{escape(first)}</b>{''.join('<br>' + escape(line) for line in further)}</p>"
    again = "<p>Run the cell again for the linked figures.</p>" if uid else ""
    alone = without_kernel(uid) if uid else ""
    return f'{alone}<div class="{mark}" style="font-size:13px">{said}<table>{rows}</table>{more}{again}</div>'


_TIMELINES: Final = "nbp-timelines-"
_AROUND: Final = 20_000
"""Bytes of tags, policy and settings around the parts."""
_STYLE: Final = (
    "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
    "#nbp-static table { border-collapse: collapse; } "
)


def rank_report(source: RankSource, timelines: Opened | None = None, note: str = "") -> str:
    """Return the whole HTML file as text.

    Parameters
    ----------
    source : RankSource
        What is selected in it is selected when the file is opened.
    timelines : Opened, optional
        Stacked timelines of some ranks, to be opened in the page.
    note : str
        What the file holds of the timelines, in a sentence.

    Notes
    -----
    The file holds the sums that the figures are made of, and the columns of `timelines` as far as the file
    does not become longer than that of one profile (`notebook_prof.views.report.report`). What comes from
    recordings is JSON with ``<`` escaped, base64 or escaped HTML, and the file's Content-Security-Policy
    allows only its own scripts, by their hashes.
    """
    page = RankProtocol(source)
    settings = {**_limits(), "panels": page.panels, **_columns(source.sums)}
    packed = zlib.compress(json.dumps(settings, separators=(",", ":")).encode("utf-8"), 9)
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
        "nbp-given": json_text(base64.b64encode(packed).decode("ascii")),
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


def _limits() -> dict[str, Any]:
    """Return what ``js/src/ranks`` shares with `page_columns`."""
    limits = {"faded": FADED, "cells": MAX_CELLS, "lines": MAX_LINES, "talk": MAX_TALK, "room": ROOM}
    parts = {"bars": PARTS, "talk": TALK, "bubbles": BUBBLES}
    return {
        "limits": {**limits, "rows": MOST_ROWS, "middle": list(MIDDLE)},
        "parts": {panel: [[name, label] for name, (label, _) in of.items()] for panel, of in parts.items()},
        "click": CLICK,
        "notes": NOTES,
    }


def _columns(sums: PageSums) -> dict[str, dict[str, list[Any]]]:
    names = ("steps", "talk", "late", "before", "links", "bubbles", "ranks")
    return {name: _json_columns(getattr(sums, name)) for name in names}


def _json_columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns as JSON carries them; None where a number is missing."""
    return {str(name): _values(table[name]) for name in table}


def _values(column: pd.Series[Any]) -> list[Any]:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return [str(value) for value in column]
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        return list(column.to_numpy(np.int64).tolist())
    numbers = column.to_numpy(np.float64, na_value=np.nan).tolist()
    return [None if x != x else int(x) if x == int(x) else x for x in numbers]
