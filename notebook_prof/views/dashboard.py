"""The four views on one page: figures for every display, and the settings to mount them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import numpy as np

from ..analysis import Claim
from ..analysis.notebook.recorded import is_notebook
from ..service.headline import headline_pieces
from ..trace import DEVICE_CATEGORIES, Trace
from .bundle import PAGE, VERSION
from .figures import AXIS_PX, GUTTER_PX, LANE_PX, MARGIN_PX
from .tabs import TABS
from .tabs.analyses import NO_STEPS, without_memory

CELLS: Final = "cells"
"""The tab that only a notebook's session has."""
FIGURES: Final = ("overview", "timeline", "memory", "phases")
TEMPLATE: Final = PAGE / "dashboard.json"
"""The figures of a trace of one nanosecond; ``python -m tests.generated`` writes it."""
SHORTEST_VIEW_NS: Final = 20
_SOME: Final = 1 << 20
_SPANNED: Final = ("view", "whole")
"""Ranges that initially span the recording."""


def dashboard_document(trace: Trace) -> str:
    """Return the four figures as the JSON of one Bokeh document; roots in the order of `FIGURES`."""
    # Every display mounts its own models. The document's only data from the trace is its span, so it stays
    # under 50 kB; the page asks for what it draws. The figures are the same for every trace and for Bokeh 3.5
    # to 3.9: they are read from a file, so that the first view need not wait for Bokeh's models.
    start, end = float(trace.span.start), float(max(trace.span.end, trace.span.start + SHORTEST_VIEW_NS))

    def spanned(part: dict[str, Any]) -> dict[str, Any]:
        if part.get("name") == "Range1d" and part.get("attributes", {}).get("name") in _SPANNED:
            part["attributes"].update(start=start, end=end)
        return part

    roots = json.loads(_figures(), object_hook=spanned)
    return json.dumps({"version": VERSION, "title": "", "roots": roots}, separators=(",", ":"))


@cache
def _figures() -> str:
    return TEMPLATE.read_text(encoding="utf-8")


def dashboard_settings(trace: Trace, verdict: str, claims: Iterable[Claim] = ()) -> dict[str, Any]:
    """Return small facts for the page: versions, sizes, the headline, and why a view may be empty."""
    return {
        "bokeh": VERSION,
        "gutter": GUTTER_PX,
        "margin": MARGIN_PX,
        "lane": LANE_PX,
        "axis": AXIS_PX,
        "figures": list(FIGURES),
        "verdict": verdict,
        "headline": headline_pieces(trace, verdict, claims),
        "empty": empty_reasons(trace),
        "tabs": (tabs := rail(trace)),
        **recorded_cell(trace),
        "open": _first_tab(trace, tabs),
    }


def _first_tab(trace: Trace, tabs: list[dict[str, Any]]) -> str:
    """Return the tab that is open first: memory if memory ran out; without steps, the source."""
    if "out_of_memory" in trace.metadata and not TABS["memory"].missing(trace):
        return "memory"
    first = str(tabs[0]["name"])
    return first if first in ("source", CELLS) and not len(trace.steps) else "operators"


def recorded_cell(trace: Trace) -> dict[str, dict[str, str]]:
    """Return the text of the recorded cell, and its id as ``cell``; empty if unknown."""
    source = trace.metadata.get("cell_source")
    if not isinstance(source, str) or TABS["source"].missing(trace):
        return {}
    return {"cell": {"id": str(trace.metadata.get("cell_id") or ""), "source": source}}


def rail(trace: Trace) -> list[dict[str, Any]]:
    """List the tabs from top to bottom: ``name title``, ``missing`` (why a tab is empty), and ``choices``."""
    # If lines were recorded, the source comes first for a cell, and for code without steps.
    tabs: list[dict[str, Any]] = [
        {
            "name": name,
            "title": tab.title,
            "missing": tab.missing(trace),
            "choices": [[one.key, one.label, [*map(list, one.options.items())]] for one in tab.choices],
        }
        for name, tab in TABS.items()
        if name != CELLS or is_notebook(trace)
    ]
    tabs.insert(1, {"name": "operators", "title": table_title(trace), "missing": "", "choices": []})
    source = next(tab for tab in tabs if tab["name"] == "source")
    first = [tab for tab in tabs if tab["name"] == CELLS]
    if not (source["missing"] or (len(trace.steps) and "cell_source" not in trace.metadata)):
        first.append(source)
    return [*first, *(tab for tab in tabs if tab not in first)]


def table_title(trace: Trace) -> str:
    """Return what the table lists: operators, Python functions, or slices of any kind."""
    category = trace.slices["category"].cat
    codes = category.codes.to_numpy()
    used = np.zeros(len(category.categories) + 1, bool)
    called = np.append(np.isin(category.categories, ["operator", *DEVICE_CATEGORIES]), False)
    for first in range(0, len(codes), _SOME):  # usually the first chunk is enough
        used[codes[first : first + _SOME]] = True  # -1, a missing name, uses the last entry
        if used[called].any():
            return "Operators"
    categories = set(category.categories[used[:-1]])
    return "Functions" if "python" in categories else "Slices"


def empty_reasons(trace: Trace) -> dict[str, str]:
    """Return a sentence for every view without data."""
    out: dict[str, str] = {}
    if not len(trace.slices):
        out["timeline"] = "Nothing was recorded: the trace has no slices."
    if missing := without_memory(trace):
        out["memory"] = missing
    if not len(trace.steps):
        out["phases"] = NO_STEPS
    return out
