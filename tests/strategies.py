"""A hypothesis strategy for Traces."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from notebook_prof.trace import PHASES, Trace, TraceBuilder

_NAMES: Final = ("mm", "add", "conv", "relu", "step")
_LINES: Final = ("cell:2  f(x)", "cell:5  g(x)", "model.py:3  h(x)", "mm", "add")
_OF_LINES: Final = ("python", "python", "operator", "launch")
_HOST: Final = ("operator", "python", "annotation", "module", "launch", "sync", "collective")
_DEVICE: Final = ("kernel", "memcpy", "memset", "collective")
_END: Final = 120


@st.composite
def traces(
    draw: st.DrawFn, *, max_slices: int = 24, steps: bool = True, devices: bool = True, lines: bool = False
) -> Trace:
    """Draw small Traces with all features of real ones."""
    # Slices of few names on up to three threads and two streams, which may nest, overlap in part, repeat and
    # be instants; phases, modules and launches on some; disjoint steps; allocations. All within 120 ns, so
    # that laws can be checked instant by instant.
    builder = TraceBuilder()
    threads = [builder.track(f"thread {i}", pid=1, tid=i) for i in range(3)]
    categories, names = (_OF_LINES, _LINES) if lines else (_HOST, _NAMES)
    host = _added(builder, draw(_rows(threads, categories, max_slices, names)))
    if lines:
        pairs = draw(st.lists(st.tuples(st.sampled_from(host), st.sampled_from(host)))) if host else []
        builder.flows(
            "fwdbwd", [src for src, dst in pairs if src < dst], [dst for src, dst in pairs if src < dst]
        )
        looks = draw(
            st.lists(st.tuples(st.integers(0, _END), st.integers(1, 40), st.integers(1, 4)), max_size=9)
        )
        table = pd.DataFrame(looks, columns=["ts", "dur", "count"], dtype="int64")
        builder.table("samples", table.assign(track=threads[0]))
    if devices:
        streams = [builder.track(f"stream {i}", "stream", device=0, stream=i) for i in range(2)]
        work = _added(builder, draw(_rows(streams, _DEVICE, max_slices)))
        if host and work:
            picked = draw(st.lists(st.sampled_from(work), unique=True))
            builder.flows("launch", [draw(st.sampled_from(host)) for _ in picked], picked)
    if steps:
        edges = sorted(draw(st.sets(st.integers(0, _END), max_size=7)))
        for number, (start, end) in enumerate(zip(edges[::2], edges[1::2], strict=False)):
            builder.steps(number, start, end - start, "loop")
    events = sorted(draw(st.lists(_EVENTS, max_size=12)))
    if events:
        ts, address, size = (np.array(column) for column in zip(*events, strict=True))
        builder.allocations(
            ts=ts, addr=address, bytes=size, device=-1, allocated=size.cumsum(), reserved=0, track=threads[0]
        )
    return builder.seal(window=(0, _END))


_EVENTS: Final = st.tuples(st.integers(0, _END - 1), st.integers(1, 4), st.sampled_from([64, -64, 8, -8]))


def _rows(
    tracks: list[int], categories: tuple[str, ...], count: int, names: tuple[str, ...] = _NAMES
) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(0, _END - 1),
            "dur": st.integers(0, _END // 2),
            "track": st.sampled_from(tracks),
            "name": st.sampled_from(names),
            "category": st.sampled_from(categories),
            "phase": st.sampled_from([None, *PHASES]),
            "module": st.sampled_from([None, "net", "net.0"]),
        }
    )
    return st.lists(row, max_size=count)


def _added(builder: TraceBuilder, rows: list[dict[str, Any]]) -> list[int]:
    """Add slices, one mapping each; returns their handles."""
    if not rows:
        return []
    handles: list[int] = builder.slices(**{key: [row[key] for row in rows] for key in rows[0]}).tolist()
    return handles
