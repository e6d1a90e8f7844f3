"""Rows for tests of the history, without a recording."""

from __future__ import annotations

import time
from typing import Any

from notebook_prof.comparison.run import Summary
from notebook_prof.runs.entry import packed


def row(kept: Summary | None = None, **columns: Any) -> dict[str, Any]:
    """A row of a run that nobody has recorded."""
    source, content = (b"", b"x" * 100) if kept is None else packed(kept)
    values: dict[str, Any] = {
        "at_ns": time.time_ns(),
        "kernel": "k",
        "notebook": "a.ipynb",
        "cell": "c",
        "cell_hash": "h",
        "environment": {"computer": "here"},
        "failed": False,
        "steps": 12,
        "p50_ns": 5e6,
        "mean_ns": 5e6,
        "total_ns": 60_000_000,
        "load": 0.5,
        "source": source,
        "content": content,
        **dict.fromkeys(("name", "options", "revision", "verdict", "trust", "link", "kept"), ""),
        **dict.fromkeys(("dirty", "peak_bytes", "overhead", "core_share", "lineage", "earlier", "noise")),
    }
    return {**values, **columns}
