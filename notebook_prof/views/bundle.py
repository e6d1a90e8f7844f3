"""The page's code: ES modules of ``static/`` joined in order, and BokehJS from the installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import bokeh

STATIC: Final = Path(__file__).parent / "static"
"""Folder of the page's files."""
_BOKEH: Final = Path(bokeh.__file__).parent / "server" / "static" / "js"

PAGE: Final = (
    "units",
    "theme",
    "packing",
    "store",
    "transport",
    "bokeh_host",
    "tooltip",
    "counters",
    "lanes",
    "gutter",
    "paint",
    "timeline",
    "gestures",
    "account",
    "overview",
    "memory",
    "phases",
    "table",
    "header",
    "detail",
    "keyboard",
    "finder",
    "panel_parts",
    "panel_picture",
    "panels",
    "ruler",
    "toolbar",
    "wiring",
    "controller",
)
LIVE: Final = (*PAGE, "glue_widget")
LOCAL: Final = (
    "local_columns",
    "local_left_out",
    "local_bins",
    "patterns",
    "local_query",
    "local_table",
    "local_find",
    "local_panel",
    "local_arguments",
    "local",
    "local_given",
)
"""What answers in a file instead of the kernel."""
REPORT: Final = (*PAGE, *LOCAL, "glue_report")
BOKEHJS: Final = ("bokeh",)
VERSION: Final[str] = bokeh.__version__
"""Of Bokeh and BokehJS."""


@cache
def script(parts: tuple[str, ...] = LIVE) -> str:
    """One ES module made of the named files; imports between them are not needed."""
    return "\n".join((STATIC / f"{part}.js").read_text(encoding="utf-8") for part in parts)


@cache
def stylesheet() -> str:
    """The page's CSS."""
    return (STATIC / "dashboard.css").read_text(encoding="utf-8")


def bokehjs() -> list[bytes]:
    """The BokehJS files that the page needs, of the version that made the document."""
    return [(_BOKEH / f"{name}.min.js").read_bytes() for name in BOKEHJS]
