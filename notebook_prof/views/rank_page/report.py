"""The ranks' page as one HTML file, that needs neither kernel nor network."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, Final

import numpy as np
import pandas as pd

from ..bundle import PAGE, bokehjs, script, stylesheet
from ..html_file import data_blocks, html_page, json_text
from ..ranks import MAX_CELLS, PARTS
from .code import PARTS as CODE
from .code import style
from .columns import CLICK, FADED, MAX_LINES, MAX_TALK, NOBODY, ROOM
from .figures import BUBBLES, TALK
from .frames import PageSums
from .protocol import MOST_ROWS, RankProtocol, RankSource
from .static import rank_fragment
from .under import MIDDLE

_MODULES: Final = (*CODE, *PAGE, "local_ranks", "glue_ranks")
_STYLE: Final = (
    "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
    "#nbp-static table { border-collapse: collapse; } "
)


def rank_report(source: RankSource) -> str:
    """The whole HTML file as text.

    Parameters
    ----------
    source : RankSource
        What is selected in it is selected when the file is opened.

    Notes
    -----
    The file holds the sums that the figures are made of, not the recordings: timelines are opened in a
    notebook. What comes from recordings is JSON with ``<`` escaped, base64 or escaped HTML, and the file's
    Content-Security-Policy allows only its own scripts, by their hashes.
    """
    page = RankProtocol(source)
    given = {**_limits(), "panels": page.panels, **_columns(source.sums)}
    packed = zlib.compress(json.dumps(given, separators=(",", ":")).encode("utf-8"), 9)
    data = {
        "nbp-document": json_text(json.loads(page.document())),
        "nbp-selection": json_text(source.selection.to_state()),
        "nbp-settings": json_text({**page.settings(), "uid": "", "timelines": False}),
        "nbp-given": json_text(base64.b64encode(packed).decode("ascii")),
    }
    static = rank_fragment(source.frames({}), source.headline)
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    scripts = [part.decode("utf-8") for part in bokehjs()]
    look = _STYLE + stylesheet() + style()
    return html_page(scripts, [script(_MODULES)], body + data_blocks(data), look, "notebook_prof: ranks")


def _limits() -> dict[str, Any]:
    """What ``local_ranks.js`` shares with `page_columns`."""
    limits = {"faded": FADED, "cells": MAX_CELLS, "lines": MAX_LINES, "talk": MAX_TALK, "room": ROOM}
    parts = {"bars": PARTS, "talk": TALK, "bubbles": BUBBLES}
    return {
        "limits": {**limits, "rows": MOST_ROWS, "middle": list(MIDDLE)},
        "parts": {panel: [[name, label] for name, (label, _) in of.items()] for panel, of in parts.items()},
        "click": CLICK,
        "nobody": NOBODY,
    }


def _columns(sums: PageSums) -> dict[str, dict[str, list[Any]]]:
    names = ("steps", "talk", "late", "before", "links", "bubbles", "ranks")
    return {name: _listed(getattr(sums, name)) for name in names}


def _listed(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns as JSON carries them; None where a number is missing."""
    return {str(name): _values(table[name]) for name in table}


def _values(column: pd.Series[Any]) -> list[Any]:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return [str(value) for value in column]
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        return list(column.to_numpy(np.int64).tolist())
    numbers = column.to_numpy(np.float64, na_value=np.nan).tolist()
    return [None if x != x else int(x) if x == int(x) else x for x in numbers]
