"""The four views on one page: figures fresh for every display, and what the page must know to mount them."""

from __future__ import annotations

from typing import Any, Final

import bokeh
import numpy as np
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import Range1d

from .. import analysis
from ..trace import DEVICE_CATEGORIES, Trace
from .figures import (
    AXIS_PX,
    GUTTER_PX,
    LANE_PX,
    MARGIN_PX,
    memory_figure,
    overview_figure,
    phase_figure,
    timeline_figure,
)
from .panels import PANELS

FIGURES: Final = ("overview", "timeline", "memory", "phases")
_SHORTEST_VIEW_NS: Final = 20


def dashboard_document(trace: Trace) -> str:
    """The four figures as the JSON of one Bokeh document; roots in the order of `FIGURES`.

    Notes
    -----
    Models belong to one document: every display makes its own. No data of the trace is in it but its
    span, so that it stays under 30 kB; the page asks for what it draws.
    """
    start, end = float(trace.span.start), float(max(trace.span.end, trace.span.start + _SHORTEST_VIEW_NS))
    view = Range1d(start, end, name="view", min_interval=_SHORTEST_VIEW_NS)
    document = Document()
    for root in (overview_figure(start, end), timeline_figure(view, 6), memory_figure(view), phase_figure()):
        document.add_root(root)
    return str(serialize_json(document.to_json()))


def dashboard_settings(trace: Trace, verdict: str) -> dict[str, Any]:
    """Small facts for the page: versions, sizes, the verdict's text, and why a view may be empty."""
    return {
        "bokeh": bokeh.__version__,
        "gutter": GUTTER_PX,
        "margin": MARGIN_PX,
        "lane": LANE_PX,
        "axis": AXIS_PX,
        "figures": list(FIGURES),
        "verdict": verdict,
        "empty": empty_reasons(trace),
        "tabs": rail(trace),
    }


def rail(trace: Trace) -> list[dict[str, str]]:
    """The tabs from top to bottom: ``name title``, and ``missing``, a sentence where nothing was recorded."""
    tabs = [{"name": name, "title": tab.title, "missing": tab.missing(trace)} for name, tab in PANELS.items()]
    place = 1 if "overview" in PANELS else 0
    return [*tabs[:place], {"name": "operators", "title": table_title(trace), "missing": ""}, *tabs[place:]]


def table_title(trace: Trace) -> str:
    """What the table lists: operators, or functions of Python, or slices of any kind.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> table_title(draw("main: [mm]")), table_title(draw("main: [f]", categories={"f": "python"}))
    ('Operators', 'Functions')
    """
    category = trace.slices["category"].cat
    used = np.zeros(len(category.categories) + 1, bool)
    used[category.codes.to_numpy()] = True  # -1, a missing one, falls into the last place
    seen = {name for name, yes in zip(category.categories, used.tolist(), strict=False) if yes}
    if seen & {"operator", *DEVICE_CATEGORIES}:
        return "Operators"
    return "Functions" if "python" in seen else "Slices"


def empty_reasons(trace: Trace) -> dict[str, str]:
    """A sentence for every view that has nothing to draw."""
    out: dict[str, str] = {}
    if not len(trace.slices):
        out["timeline"] = "Nothing was recorded: no slice reached the trace."
    if not len(analysis.memory(trace)):
        out["memory"] = (
            "No memory events were recorded. Record with --memory (or memory=True) to see this curve."
        )
    if not len(trace.steps):
        out["phases"] = (
            "No steps were found. Mark them with nbp.step(), iterate nbp.steps(loader), "
            "or choose a loop with --loop."
        )
    return out
