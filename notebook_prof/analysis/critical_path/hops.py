"""Hops of the critical path between threads and streams, and doubts about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray, optional
from ...trace.schema import Table
from ..scope import Numbers, WindowLike, sharing
from .dependences import Dependences
from .path import End, PathPieces, PathSpan, path_pieces, spans_of
from .resources import EVENTS, FAR, WAITS, stacked
from .walk import CLASSES, HOPS, Hops, class_codes, resource_names

HOP_TABLE: Final = Table.of(
    "critical_path_hops",
    "step:Int32 at_ns:int64 why:category resource:str slice:Int64 name:str cause_resource:str "
    "cause_slice:Int64 cause_name:str margin_ns:Int64 near_tie:bool",
)
DOUBTS: Final = Table.of(
    "critical_path_doubts", "code:str count:int64 of:int64 path_ns:int64 share:float64 effect:str"
)


@sharing
def critical_path_hops(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> pd.DataFrame:
    """List where the critical path changes thread or stream, why, and by what margin.

    Parameters
    ----------
    window, step, end
        As `critical_path`.

    Returns
    -------
    DataFrame
        One row per hop, by step, then time: ``step at_ns why resource slice name cause_resource cause_slice
        cause_name margin_ns near_tie``. `why` is one of

        - ``wait``: a call that waits for a device; ``copy``: a call that waits for its own copy; ``queue``: a
          launch that found the queue full; ``hand-over``: a thread that was idle while another was busy;
          ``loader``: a batch of a DataLoader, or a request to a worker;
        - ``launch``: device work began when it was launched; ``event``: when work of another stream was done,
          by the file, ``inferred-event``: by times and host calls; ``graph``: a node of the same graph;
          ``unrecorded``: no recorded cause, so the main thread is assumed.

        ``near_tie`` bool: the next candidate was closer than twice the noise of starts.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> critical_path_hops(trace)[["at_ns", "why", "name", "cause_name", "margin_ns"]].values.tolist()
    [[4, 'launch', 'gemm', 'mm', <NA>], [14, 'wait', 'sync', 'gemm', 8]]
    """
    graph, spans = spans_of(trace, window, step, end)
    return hops_table(graph, spans)


def hops_table(graph: Dependences, spans: Sequence[PathSpan]) -> pd.DataFrame:
    """Return the table of `critical_path_hops` for these paths."""
    hops = stacked(Hops, [[column[::-1] for column in one.path.hops] for one in spans])
    counts = [len(one.path.hops.when) for one in spans]
    number = np.repeat(np.array([one.step for one in spans], np.int32), counts)
    slices = graph.resources.trace.slices
    words = np.array([*slices["name"].cat.categories.astype(str), ""], dtype=object)
    codes = np.append(slices["name"].cat.codes.to_numpy(), -1)
    keys, labels = resource_names(graph.resources.trace)
    names = np.array([*labels, ""], dtype=object)

    def resource(track: IntArray) -> Any:
        return names[np.where(track >= 0, np.searchsorted(keys, track), -1)]

    return HOP_TABLE.frame(
        {
            "step": optional(number, "Int32"),
            "at_ns": hops.when,
            "why": pd.Categorical.from_codes(hops.kind, categories=list(HOPS)),
            "resource": resource(hops.track),
            "slice": optional(hops.slice),
            "name": words[codes[hops.slice]],
            "cause_resource": resource(hops.cause_track),
            "cause_slice": optional(hops.cause),
            "cause_name": words[codes[hops.cause]],
            "margin_ns": pd.arrays.IntegerArray(hops.margin, hops.margin >= FAR),
            "near_tie": hops.margin < 2 * graph.latencies.noise,
        }
    )


@sharing
def critical_path_doubts(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> pd.DataFrame:
    """List doubts about the critical path: how often each applies, to how much of it, and with what effect.

    Parameters
    ----------
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
    every = path_pieces(graph, spans)
    total = sum(one.path.end - one.path.begin for one in spans)
    rows = [row for row in _counted(graph, spans, every) if row[1]]
    return DOUBTS.of_tuples([(*row, row[3] / max(total, 1), _EFFECTS[row[0]]) for row in rows])


_EFFECTS: Final = {
    "no-launches": "device work and the calls that launched it are not linked: the path cannot follow "
    "launches",
    "launch-not-recorded": "why this work began was not recorded: the main thread is assumed to be the cause",
    "device-behind": 'device work of these steps ends after them: end="device" gives the path that ends with '
    "it",
    "events-inferred": "the file does not say what work a stream waited for: the last work to end before it "
    "is assumed",
    "waits-not-recorded": "the file does not say which stream a call waited for: the last work to end inside "
    "is assumed",
    "hand-overs": "one thread was idle while another was busy: the wait is inferred from times alone",
    "near-ties": "a second candidate was closer than twice the noise of starts: the earlier path may be "
    "different",
    "collectives": "part of communication is waiting for other ranks, which one recording does not show",
    "clock": "device work begins before the call that launched it: the clocks of host and device disagree",
}


def _counted(
    graph: Dependences, spans: Sequence[PathSpan], every: PathPieces
) -> list[tuple[str, int, int, int]]:
    """Return, for each doubt, its code, count, total time and affected time of the path, in ns."""
    pieces, streams = every.pieces, graph.streams.values()
    spent = pieces.end - pieces.start
    every_hop = stacked(Hops, [one.path.hops for one in spans])
    kinds = every_hop.kind
    count = dict(zip(HOPS, np.bincount(kinds, minlength=len(HOPS)).tolist(), strict=True))

    def around(kind: str) -> int:
        rows = every_hop.slice[kinds == HOPS.index(kind)]
        return int(spent[np.isin(pieces.row, rows) & (pieces.row >= 0)].sum())

    work, launches = sum(len(s.rows) for s in streams), sum(int((s.call >= 0).sum()) for s in streams)
    behind = [one.path.end - one.path.begin for one in spans if one.end == "host" and one.behind]
    unsaid = 0 if graph.scopes_recorded or len(streams) < 2 else count["wait"]
    near = every.margin < 2 * graph.latencies.noise
    talks = class_codes(graph, pieces) == CLASSES.index("communication")
    early = sum(int(((s.call >= 0) & (graph.resources.ts[s.call] > s.start)).sum()) for s in streams)
    first = ("launch-not-recorded", count["unrecorded"], len(kinds), around("unrecorded"))
    return [
        ("no-launches", work, work, int(spent.sum())) if work and not launches else first,
        ("device-behind", len(behind), len(spans), sum(behind)),
        ("events-inferred", count["inferred-event"], sum(count[kind] for kind in EVENTS[1:]),
         around("inferred-event")),
        ("waits-not-recorded", unsaid, sum(count[kind] for kind in WAITS), around("wait")),
        ("hand-overs", count["hand-over"], len(kinds), 0),
        ("near-ties", int(near.sum()), int((every.margin < FAR).sum()), int(spent[near].sum())),
        ("collectives", int(talks.sum()), len(spent), int(spent[talks].sum())),
        ("clock", early, launches, 0),
    ]  # fmt: skip
