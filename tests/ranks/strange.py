"""Ranks whose names would run in a page that took them for code, and selections of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .piped import write_gpipe

EVIL = "</script><img src=x onerror='window.hacked=1'>"
SELECTIONS: list[dict[str, Any]] = [
    {},
    {"rank": [2, 3]},
    {"step": [1]},
    {"window": (3_000_000, 3_500_000)},
    {"rank": [0], "step": [0, 2]},
    {"group": ["1"]},
    {"group": [EVIL]},
    {"group": ["1", EVIL], "rank": [1, 5], "step": [2]},
    {"group": ["no such group"]},
    {"step": [77]},
]


def write_strange(folder: Path) -> Path:
    """Two pipelines, of which the second has other process groups, and no size of its messages."""
    write_gpipe(folder, 4, 2, 3, world=6)
    write_gpipe(folder, 2, 3, 3, first_rank=4, world=6)
    for rank in range(6):
        path = folder / f"rank{rank}.json"
        text = path.read_text().replace('"forward"', f'"{EVIL}"')
        if rank >= 4:
            text = text.replace('"Process Group Name": "1"', f'"Process Group Name": "{EVIL}"')
            text = text.replace('"dtype": "Float", ', "")
        path.write_text(text)
    return folder
