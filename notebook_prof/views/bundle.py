"""The page's code: ES modules of ``js/src`` joined in order, and BokehJS from the installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import bokeh

STATIC: Final = Path(__file__).parent / "page"
"""Folder of the page's figures and styles."""
_SOURCES: Final = Path(__file__).parents[2] / "js" / "src"
_BOKEH: Final = Path(bokeh.__file__).parent / "server" / "static" / "js"

PAGE: Final = (
    "shared/units",
    "page/theme",
    "shared/packing",
    "shared/store",
    "shared/asker",
    "figures/document",
    "page/tooltip",
    "timeline/counters",
    "timeline/lanes",
    "timeline/gutter",
    "timeline/painter",
    "timeline/timeline",
    "timeline/gestures",
    "charts/account",
    "charts/overview",
    "charts/memory",
    "charts/phases",
    "table/table",
    "page/header",
    "page/detail",
    "page/keyboard",
    "page/finder",
    "tabs/parts",
    "tabs/picture",
    "tabs/rail",
    "page/ruler",
    "page/toolbar",
    "page/wiring",
    "page/mount",
)
LIVE: Final = (*PAGE, "widget/widget")
LOCAL: Final = (
    "report/columns",
    "report/left_out",
    "report/density",
    "filter/patterns",
    "filter/query",
    "report/table",
    "report/find",
    "report/tabs",
    "report/arguments",
    "report/answers",
    "report/unpack",
)
"""What answers in a file instead of the kernel."""
REPORT: Final = (*PAGE, *LOCAL, "entries/profile_report")
BOKEHJS: Final = ("bokeh",)
VERSION: Final[str] = bokeh.__version__
"""Of Bokeh and BokehJS."""


@cache
def script(parts: tuple[str, ...] = LIVE) -> str:
    """One ES module made of the named files; imports between them are not needed."""
    return "\n".join((_SOURCES / f"{part}.js").read_text(encoding="utf-8") for part in parts)


@cache
def stylesheet() -> str:
    """The page's CSS."""
    return (STATIC / "dashboard.css").read_text(encoding="utf-8")


def bokehjs() -> list[bytes]:
    """The BokehJS files that the page needs, of the version that made the document."""
    return [(_BOKEH / f"{name}.min.js").read_bytes() for name in BOKEHJS]
