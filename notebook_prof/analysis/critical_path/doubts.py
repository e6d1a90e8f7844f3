"""Doubts about a critical path, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import BoolArray
from ..scope import Numbers, WindowLike, sharing
from .classes import CLASSES, class_codes
from .dependences import Dependences
from .path import End, PathPieces, Span, path_pieces, spans_of
from .resources import EVENTS, WAITS
from .segments import FAR
from .tables import DOUBTS
from .walk import HOPS


@sharing
def critical_path_doubts(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> pd.DataFrame:
    """List doubts about the critical path: how often each applies, to how much of it, and with what effect.

    Parameters
    ----------
    trace : Trace
    window, step, end
        As `critical_path`.

    Returns
    -------
    DataFrame
        ``code count of path_ns share effect``; empty without doubts. ``of`` int64: the total that `count`
        refers to; ``path_ns`` int64, ``share`` float64: affected time of the paths. `code` is one of

        - ``no-launches``: device work was recorded, but no launch of any;
        - ``launch-not-recorded``: device work on the path whose start has no recorded cause;
        - ``device-behind``: paths that end on the host while device work of their step still runs;
        - ``events-inferred``: waits of streams on the path that were inferred from times, not recorded;
        - ``waits-not-recorded``: calls on the path that wait for a device, without a recorded stream;
        - ``hand-overs``: changes of thread on the path that were inferred from times;
        - ``near-ties``: starts and waits with a second candidate closer than twice the noise;
        - ``collectives``: communication, which includes waiting for other ranks;
        - ``clock``: device work that begins before the call that launched it.

    Raises
    ------
    OptionError, SelectionError
        As `critical_path`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:    [gemm    ]
    ... ''', categories={"sync": "sync"})
    >>> critical_path_doubts(trace)[["code", "count", "of"]].values.tolist()
    [['no-launches', 1, 1]]
    """
    graph, spans = spans_of(trace, window, step, end)
    return doubts_table(graph, spans)


def doubts_table(graph: Dependences, spans: Sequence[Span]) -> pd.DataFrame:
    """Return the table of `critical_path_doubts` for these paths."""
    every = path_pieces(graph, spans)
    total = sum(one.path.end - one.path.begin for one in spans)
    rows = [row for row in _rows(graph, spans, every) if row[1]]
    data = {
        name: [row[i] for row in rows] for i, name in enumerate(("code", "count", "of", "path_ns", "effect"))
    }
    return DOUBTS.frame({**data, "share": [row[3] / max(total, 1) for row in rows]})


def _rows(
    graph: Dependences, spans: Sequence[Span], every: PathPieces
) -> Iterator[tuple[str, int, int, int, str]]:
    pieces = every.pieces
    spent = pieces.end - pieces.start
    kinds = np.concatenate([one.path.hops.kind for one in spans]) if spans else np.empty(0, np.int64)
    waited = np.concatenate([one.path.hops.slice for one in spans]) if spans else np.empty(0, np.int64)

    def hops(kind: str) -> BoolArray:
        return np.asarray(kinds == HOPS.index(kind), dtype=bool)

    def around(kind: str) -> int:
        return int(spent[np.isin(pieces.row, waited[hops(kind)]) & (pieces.row >= 0)].sum())

    work = sum(len(stream.rows) for stream in graph.streams.values())
    launches = sum(int((stream.call >= 0).sum()) for stream in graph.streams.values())
    if work and not launches:
        effect = (
            "work of devices and the calls that asked for it are not linked: the path cannot follow launches"
        )
        yield "no-launches", work, work, int(spent.sum()), effect
    else:
        yield (
            "launch-not-recorded", int(hops("unrecorded").sum()), len(kinds), around("unrecorded"),
            "nothing on record tells why this work began: the main thread is taken for the cause",
        )  # fmt: skip
    behind = [one for one in spans if one.end == "host" and one.behind]
    yield (
        "device-behind", len(behind), len(spans), sum(one.path.end - one.path.begin for one in behind),
        "device work of these steps ends after them: ask with end=\"device\" for the path that ends with it",
    )  # fmt: skip
    events = sum(int(hops(kind).sum()) for kind in EVENTS[1:])
    yield (
        "events-inferred", int(hops("inferred-event").sum()), events, around("inferred-event"),
        "the file does not tell which work a stream waited for: what ended last before is taken",
    )  # fmt: skip
    if not graph.scopes_recorded and len(graph.streams) > 1:
        yield (
            "waits-not-recorded", int(hops("wait").sum()), int((kinds < len(WAITS)).sum()), around("wait"),
            "the file does not tell which stream a call waited for: what ended last inside it is taken",
        )  # fmt: skip
    yield (
        "hand-overs", int(hops("hand-over").sum()), len(kinds), 0,
        "one thread rested while another was busy: that it waited for it follows from times alone",
    )  # fmt: skip
    near = every.margin < 2 * graph.latencies.noise
    yield (
        "near-ties", int(near.sum()), int((every.margin < FAR).sum()), int(spent[near].sum()),
        "a second candidate was closer than twice the noise of starts: the path before may be another",
    )  # fmt: skip
    communication = class_codes(graph, pieces) == CLASSES.index("communication")
    yield (
        "collectives", int(communication.sum()), len(spent), int(spent[communication].sum()),
        "the length of communication is, in part, waiting for other ranks, which one recording does not tell",
    )  # fmt: skip
    early = [(s.call >= 0) & (graph.resources.ts[s.call] > s.start) for s in graph.streams.values()]
    yield (
        "clock", sum(int(one.sum()) for one in early), launches, 0,
        "device work begins before the call that launched it: the clocks of host and device are apart",
    )  # fmt: skip
