"""The page's code and style, which come on top of the dashboard's."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

PARTS: Final = ("ranks", "ranks_panel")
"""Files of ``views/static`` that only this page needs."""
_STYLE: Final = Path(__file__).parent.parent / "static" / "ranks.css"


@cache
def style() -> str:
    """The CSS of the ranks' page."""
    return _STYLE.read_text(encoding="utf-8")
