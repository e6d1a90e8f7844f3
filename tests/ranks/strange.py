"""Ranks whose names would run in a page that took them for code."""

from __future__ import annotations

from pathlib import Path

from .piped import write_gpipe

EVIL = "</script><img src=x onerror='window.hacked=1'>"


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
