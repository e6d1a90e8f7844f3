"""What the kernel needs for the views: 64 tracks, up to 5,000 names, 10 k to 10 M slices, and 2,000 lanes.

Whole: the whole recording in 28 lanes and 1,100 pixels. Window: random windows of it, from 0.001 % to all, as
a hand that zooms and pans asks for them. Brush: the table of a random window. Name: the whole recording after
a name was selected, another one each time. p50 and p95 in ms; the update is the largest answer in kB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from notebook_prof.selection import Selection
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.builder import Coded
from notebook_prof.views.page_queries import PageQueries

TITLE = "Views: the kernel's part"
LANES = list(range(28))


def long_trace(n: int, tracks: int = 64, names: int = 5_000, seed: int = 0) -> Trace:
    """Nested slices in blocks of eight on every track, 200 steps, and memory events, one a ten slices."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder(metadata={"source": "drawn"})
    vocabulary = [f"aten::operator_{k}" for k in range(names)]
    each = max(8, n // tracks)
    begin = np.array([0, 1, 15, 16, 22, 28, 34, 38]) / 50
    part = np.array([50, 12, 26, 4, 4, 4, 3, 10]) / 50
    end = 1
    for k in range(tracks):
        width = rng.integers(100, 2_000, -(-each // 8)) * 50
        at = np.cumsum(width + rng.integers(0, 4_000, len(width))) - width
        builder.slices(
            ts=np.rint(at[:, None] + begin * width[:, None]).astype(np.int64).ravel()[:each],
            dur=np.rint(part * width[:, None]).astype(np.int64).ravel()[:each],
            name=Coded((names * rng.random(each) ** 3).astype(np.int32), vocabulary),
            track=builder.track(f"worker {k}", pid=1, tid=k + 1),
        )
        end = max(end, int(at[-1] + width[-1]))
    step = np.arange(200)
    builder.steps(step=step, ts=step * (end // 200), dur=np.full(200, end // 200), source="loop")
    size = rng.integers(1, 2**20, max(n // 10, 10)) * np.where(rng.random(max(n // 10, 10)) < 0.5, 1, -1)
    builder.allocations(
        ts=np.sort(rng.integers(0, end, len(size))),
        addr=rng.integers(1, len(size), len(size)),
        bytes=size,
        device=-1,
        allocated=np.abs(np.cumsum(size)),
        reserved=0,
    )
    return builder.seal()


def _answer_ms(
    protocol: PageQueries, make: Callable[[], dict[str, Any]], times: int
) -> tuple[float, float, float]:
    spent, largest = [], 0
    for _ in range(times):
        content, buffers = protocol.answer(make())
        spent.append(content["ms"])
        largest = max(largest, sum(map(len, buffers)))
    return float(np.median(spent)), float(np.percentile(spent, 95)), largest / 1e3


def measured(trace: Trace) -> dict[str, Any]:
    """One row: what a trace costs."""
    rng = np.random.default_rng(1)
    n, end = len(trace.slices), float(trace.span.end)
    protocol = PageQueries(trace, Selection())
    start = time.perf_counter()
    protocol.prefetcher.start()
    for question in ("meta", "names", "strip", "memory", "timeline"):
        protocol.answer(
            {"t": question, "doubts": "later", "a": -end / 2, "b": 1.5 * end, "px": 2200, "rows": LANES}
        )
    first = time.perf_counter() - start
    for question in ("table", "phases"):
        protocol.answer({"t": question})
    protocol.prefetcher.wait()
    protocol.answer({"t": "table"})
    index = time.perf_counter() - start
    store = protocol.store
    indexes = (store.rows, store.wide, *store.choices._runs.values())
    arrays = (part for index in indexes for part in vars(index).values() if isinstance(part, np.ndarray))
    size = sum(array.nbytes for array in arrays) + store.groups("name", (), "host").nbytes
    columns = store.columns
    size += columns.row.nbytes + columns.step.nbytes + columns.parent.nbytes

    def window() -> tuple[float, float]:
        width = end * 10 ** rng.uniform(-5, 0)
        begin = rng.uniform(0, end - width)
        return begin, begin + width

    def timeline() -> dict[str, Any]:
        a, b = window()
        return {"t": "timeline", "a": a - (b - a) / 2, "b": b + (b - a) / 2, "px": 2200, "rows": LANES}

    def brush() -> dict[str, Any]:
        a, b = window()
        protocol.selection.window = (int(a), int(b) + 1)
        return {"t": "table", "top": 60}

    names = iter(rng.permutation(store.columns.names)[:30].tolist())

    def named() -> dict[str, Any]:
        protocol.selection.update(name=next(names), window=None)
        return whole

    whole = {"t": "timeline", "a": -end / 2, "b": 1.5 * end, "px": 2200, "rows": LANES}
    texts = {
        "whole p50, p95": _answer_ms(protocol, lambda: whole, 30),
        "window p50, p95": _answer_ms(protocol, timeline, 100),
        "brush p50, p95": _answer_ms(protocol, brush, 40),
        "name p50, p95": _answer_ms(protocol, named, len(store.columns.names[:30])),
    }
    update = max(kb for *_, kb in texts.values())
    return {
        "slices": n,
        "lanes": store.columns.n_rows,
        "first view s": round(first, 2),
        "all indexes s": round(index, 2),
        "s a million": round(1e6 * index / n, 2),
        "bytes a slice": round(size / n),
        **{name: f"{p50:.1f}, {p95:.1f}" for name, (p50, p95, _) in texts.items()},
        "update kB": round(update),
    }


def run() -> list[dict[str, Any]]:
    """Rows: a trace each."""
    shapes = [
        (10_000, 64),
        (100_000, 64),
        (1_000_000, 64),
        (10_000_000, 64),
        (1_000_000, 16),
        (1_000_000, 660),
    ]
    return [measured(long_trace(n, tracks)) for n, tracks in shapes]
