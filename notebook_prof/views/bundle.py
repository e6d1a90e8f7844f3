"""The page's code and styles: what ``make js`` builds of ``js/src``, and BokehJS from the installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, Literal

import bokeh

PAGE: Final = Path(__file__).parent / "page"
"""Folder of the built scripts, the styles and the figures of the page."""
_BOKEH: Final = Path(bokeh.__file__).parent / "server" / "static" / "js"

BOKEHJS: Final = ("bokeh",)
VERSION: Final[str] = bokeh.__version__
"""Of Bokeh and BokehJS."""

Entry = Literal[
    "profile_widget",
    "profile_report",
    "rank_widget",
    "rank_report",
    "comparison_widget",
    "comparison_report",
    "live_widget",
]
"""The files of ``js/src/entries``: views and report of a profile, of ranks and of a comparison, and those of
a recording that runs."""


@cache
def script(entry: Entry) -> str:
    """Return one ES module that needs no other."""
    return (PAGE / f"{entry}.js").read_text(encoding="utf-8")


@cache
def stylesheet(name: Literal["dashboard", "ranks", "comparison", "live"] = "dashboard") -> str:
    """Return the page's CSS, what another page has on top of it, or that of a recording that runs."""
    return (PAGE / f"{name}.css").read_text(encoding="utf-8")


def bokehjs() -> list[bytes]:
    """Return the BokehJS files that the page needs, of the version that made the document."""
    return [(_BOKEH / f"{name}.min.js").read_bytes() for name in BOKEHJS]
