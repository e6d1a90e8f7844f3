"""Which rank sent how much to which, and how fast, in a MindSpore cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...trace import Trace
from ..time.recorded_steps import recorded_table
from .cluster_steps import AVERAGE

_KINDS = {
    "rank": "int32",
    "src": "int32",
    "dst": "int32",
    "link": "str",
    "time_ns": "float64",
    "kilobytes": "float64",
    "kilobytes_per_s": "float64",
}


def cluster_links(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """List the links between ranks, as MindInsight's communication page does.

    Parameters
    ----------
    trace : Trace
        Of a folder with ``hccl_raw`` files.
    step : int, optional
        One step, from 1; default the average that the files bring.

    Returns
    -------
    DataFrame
        By recording rank, in the order of its file; no rows without such files.

        - ``rank`` int32: whose file tells it; ``src``, ``dst`` int32: numbers within its communication group;
          ``link`` str: ``SDMA``, ``RDMA`` …;
        - ``time_ns`` float64; ``kilobytes``, ``kilobytes_per_s`` float64: as the file counts them.

        ``table.pivot_table("kilobytes", "src", "dst", "sum")`` is the matrix.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> row = {"rank": [0], "step": [-1], "links": [{"0-1": {"SDMA": [2.0, 8.0, 4000.0]}}]}
    >>> trace = TraceBuilder(metadata={"tables": {"communication": pd.DataFrame(row)}}).seal()
    >>> cluster_links(trace)[["src", "dst", "time_ns", "kilobytes"]].values.tolist()
    [[0.0, 1.0, 2000000.0, 8.0]]
    """
    table = recorded_table(trace, "communication")
    rows: list[list[Any]] = []
    if table is not None and "links" in table:
        chosen = table[table["step"] == (AVERAGE if step is None else step)]
        for rank, links in zip(chosen["rank"], chosen["links"], strict=True):
            rows += _rows(int(rank), links)
    return pd.DataFrame(rows, columns=list(_KINDS)).astype(_KINDS)


def _rows(rank: int, links: Any) -> list[list[Any]]:
    """One row a link and kind; a rank has a few of them."""
    rows: list[list[Any]] = []
    if not isinstance(links, Mapping):
        return rows
    for pair, kinds in links.items():
        source, _, target = str(pair).partition("-")
        if not (source.isdigit() and target.isdigit() and isinstance(kinds, Mapping)):
            continue
        for kind, (cost_ms, size, speed, *_) in kinds.items():
            rows.append(
                [rank, int(source), int(target), str(kind), float(cost_ms) * 1e6, float(size), float(speed)]
            )
    return rows
