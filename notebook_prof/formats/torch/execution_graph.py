"""Graphs of operators: their nodes as a table, and on lanes where they have durations."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded

_COLLECTIVE: Final = 7
_MESSAGES: Final = (5, 6)
_MOST_NS: Final = 1 << 61
TABLE: Final = "execution_graph"


class Graph(NamedTuple):
    """Nodes with durations, and what each waits for.

    Attributes
    ----------
    node, kind : ndarray of int64, shape (n,)
        Number and type: 4 for computation, 5 and 6 for messages, 7 for collectives.
    name : Coded
    start_ns, dur_ns : ndarray of int64
        All starts are 0 where none was recorded.
    on_host : ndarray of bool
    waits, needs : ndarray of int64, shape (m,)
        Position of a node, and the number of one that it depends on.
    """

    node: IntArray
    kind: IntArray
    name: Coded
    start_ns: IntArray
    dur_ns: IntArray
    on_host: BoolArray
    waits: IntArray
    needs: IntArray


def add_graph(graph: Graph, builder: TraceBuilder) -> None:
    """Put nodes on a lane of the host and one of devices, and their dependencies as arrows.

    Where no starts are recorded, the nodes of a lane lie one behind another in the order of their numbers.
    """
    if not len(graph.node):
        raise FormatError("the execution trace holds no nodes")
    order = np.argsort(graph.node, kind="stable")
    node, kind, on_host = graph.node[order], graph.kind[order], graph.on_host[order]
    dur = np.clip(graph.dur_ns[order], 0, _MOST_NS // max(len(node), 1))
    start = np.clip(graph.start_ns[order], 0, _MOST_NS)
    if not start.any():
        for lane in (on_host, ~on_host):
            start[lane] = np.cumsum(dur[lane]) - dur[lane]
        builder.metadata["time_line"] = False
        builder.report.add(
            "no-time-line",
            "info",
            example="all starts are 0",
            effect="the file tells how long each node takes and not when: on each lane they lie one behind "
            "another in the order of their numbers, and waits between them are not known",
            advice="open the profiler's trace of the same run for the time line",
        )
    codes = graph.name.codes[order]
    words = [*graph.name.values, "(unnamed)"]
    lanes = np.where(
        on_host, builder.track("host nodes", "process"), builder.track("device nodes", "process")
    )
    is_message = np.isin(kind, (_COLLECTIVE, *_MESSAGES))
    handles = builder.slices(
        ts=start,
        dur=dur,
        track=lanes,
        name=Coded(np.where(codes < 0, len(words) - 1, codes), words),
        category=Coded(is_message.astype(np.int64), ("operator", "collective")),
    )
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    at = np.searchsorted(node, graph.needs)
    exists = (at < len(node)) & (node[np.minimum(at, len(node) - 1)] == graph.needs)
    builder.flows("link", handles[at[exists]], handles[position[graph.waits[exists]]])
    builder.report.add(
        "dependency-without-node",
        "info",
        int((~exists).sum()),
        effect="nodes that others depend on and that are not in the file have no arrow",
    )
    table = pd.DataFrame(
        {
            "node": node,
            "name": pd.Categorical.from_codes(np.where(codes < 0, len(words) - 1, codes), pd.Index(words)),
            "type": kind,
            "on_host": on_host,
            "dur_ns": dur,
        }
    )
    builder.metadata.setdefault("tables", {})[TABLE] = table
