"""Rows for tests of the history, without a recording."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from notebook_prof.comparison.run import Summary, TraceRun, summary_of
from notebook_prof.profiles.profile import Profile
from notebook_prof.runs.entry import packed
from notebook_prof.runs.store import Row
from notebook_prof.trace import TraceBuilder

SOURCE = "%%profile\nfor x in loader:\n    work(x)\n    step()\n"


def summary(times_ns: Any, *, slower: float = 1.0, source: str = SOURCE) -> Summary:
    """Steps of these times; two thirds of each are line 3, the rest line 4."""
    builder = TraceBuilder(metadata={"cell_source": source})
    main, now = builder.track("main", tid=1), 1_000
    spans = []
    for took in np.asarray(times_ns, np.int64).tolist():
        first = int(took * 2 / 3 * slower)
        for line, text, dur in ((3, "work(x)", first), (4, "step()", took - took * 2 // 3)):
            builder.slices(ts=now, dur=dur, name=f"cell:{line}  {text}", category="python", track=main)
            now += dur
        spans.append((now - first - took + took * 2 // 3, first + took - took * 2 // 3))
    ts, dur = zip(*spans, strict=True)
    builder.steps(list(range(len(ts))), ts, dur, "loop")
    return summary_of(TraceRun(Profile(builder.seal())))


def row(kept: Summary | None = None, **columns: Any) -> Row:
    """A row of a run that nobody has recorded."""
    source, content = (b"", b"x" * 100) if kept is None else packed(kept)
    values: dict[str, Any] = {
        "at_ns": time.time_ns(),
        "kernel": "k",
        "notebook": "a.ipynb",
        "cell": "c",
        "cell_hash": "h",
        "name": "",
        "options": "",
        "environment": {"computer": "here"},
        "revision": "",
        "dirty": None,
        "failed": False,
        "steps": 12,
        "p50_ns": 5e6,
        "mean_ns": 5e6,
        "total_ns": 60_000_000,
        "peak_bytes": None,
        "overhead": None,
        "load": 0.5,
        "core_share": None,
        "verdict": "",
        "trust": "",
        "lineage": None,
        "earlier": None,
        "link": "",
        "noise": None,
        "kept": "",
        "source": source,
        "content": content,
    }
    return Row(**{**values, **columns})
