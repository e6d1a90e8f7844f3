"""Tabs that lie in a report: of the whole recording, small enough for a file."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Final

from ...selection import Selection
from ...service.packing import Answer
from ...service.palette import name_styles
from ...trace import Trace
from ..tab_answers import packed
from ..tabs import TABS, Panel, Tab

MOST_ROWS: Final = 50
MOST_BYTES: Final = 14_000
"""Of a tab in the file, as base64; pictures that do not fit are left out, the largest first."""


def embedded(trace: Trace) -> dict[str, dict[str, str]]:
    """Return every tab, of the whole recording.

    Returns
    -------
    dict
        By name of the tab: ``{"missing": sentence}``, or ``{"data": text}``: base64 of a deflated JSON object
        ``{"content", "data"}`` that ``js/src/report/tabs.js`` answers with.
    """
    return {name: _embedded(name, tab, trace) for name, tab in TABS.items()}


def _embedded(name: str, tab: Tab, trace: Trace) -> dict[str, str]:
    if missing := tab.missing(trace):
        return {"missing": missing}
    try:
        made = tab.build(trace, Selection().to_state())
    except Exception as error:  # one tab must not cost the file
        return {"missing": f"This tab could not be worked out ({type(error).__name__}: {error})."}
    return (
        {"data": _text_that_fits(packed(name, made, name_styles(trace), MOST_ROWS))}
        if isinstance(made, Panel)
        else {"missing": made.sentence}
    )


def _text_that_fits(answer: Answer) -> str:
    parts = answer.content["parts"]
    while len(text := _text(answer)) > MOST_BYTES:
        drawn = [i for i, part in enumerate(parts) if part["kind"] == "picture"]
        if not drawn:
            break
        largest = max(drawn, key=lambda i: len(parts[i]["document"]))
        note = (
            f"{parts[largest]['title']}: too large for this file; open the profile in a notebook to see it."
        )
        parts[largest] = {"kind": "note", "text": note, "warns": False}
    return text


def _text(answer: Answer) -> str:
    columns = answer.arrays().items()
    data = {key: [None if x != x else _rounded(x) for x in values.tolist()] for key, values in columns}
    content = {key: value for key, value in answer.content.items() if key != "columns"}
    raw = json.dumps({"content": content, "data": data}, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(raw.encode("utf-8"), 9)).decode("ascii")


def _rounded(value: float) -> float | int:
    return int(value) if value == int(value) else float(f"{value:.7g}")
