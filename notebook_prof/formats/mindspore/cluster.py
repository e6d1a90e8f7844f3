"""A MindSpore cluster: its steps, the traffic between ranks, and the findings of MindInsight's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from ...analysis.scope import recorded_table
from ...errors import OptionError
from ...trace import Trace

AVERAGE: Final = -1
_PARTS: Final = (
    "computation_ns",
    "communication_alone_ns",
    "stage_ns",
    "receive_alone_ns",
    "collective_communication_alone_ns",
)


def cluster_steps(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Compare the ranks of a MindSpore folder, as MindInsight's cluster page does.

    Parameters
    ----------
    trace : Trace
        From a folder with the files of several ranks.
    step : int, optional
        Number of one step, from 1. By default the average, which the files contain.

    Returns
    -------
    DataFrame
        One row per rank; no rows without cluster files. All times are float64 ns, missing where the files do
        not contain them.

        - ``rank`` int32; ``interval_ns``: from the end of a step to the next one's FP point;
        - ``computation_ns``; ``communication_alone_ns``: while nothing is computed;
        - ``stage_ns``: time of the pipeline stage, without waiting for other stages; ``receive_alone_ns``:
          the part of the communication that waits for other stages; ``collective_communication_alone_ns``:
          the rest of it.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> row = {"rank": [0], "step": [-1], "interval_ns": [3.0], "computation_ns": [5.0]}
    >>> tables = {"cluster_steps": pd.DataFrame(row), "step_trace_average": pd.DataFrame(row)}
    >>> cluster_steps(TraceBuilder(metadata={"tables": tables}).seal())["interval_ns"].tolist()
    [3.0]
    """
    chosen = AVERAGE if step is None else step
    parts = recorded_table(trace, "cluster_steps")
    gaps = recorded_table(trace, "step_trace_average" if step is None else "step_trace")
    columns = ["rank", "interval_ns", *_PARTS]
    if parts is None:
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in columns}).astype({"rank": "int32"})
    table = parts[parts["step"] == chosen]
    if gaps is not None:
        intervals = gaps.loc[gaps["step"] == chosen, ["rank", "interval_ns"]]
        table = table.merge(intervals, on="rank", how="left", suffixes=("_", ""))
    table = table.reindex(columns=columns).astype(dict.fromkeys(columns[1:], "float64"))
    return table.astype({"rank": "int32"}).sort_values("rank", kind="stable").reset_index(drop=True)


_LINK_KINDS: Final = {
    **dict.fromkeys(("rank", "src", "dst"), "int32"),
    "link": "str",
    **dict.fromkeys(("time_ns", "kilobytes", "kilobytes_per_s"), "float64"),
}


def cluster_links(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """List the links between ranks, as MindInsight's communication page does.

    Parameters
    ----------
    trace : Trace
        From a folder with ``hccl_raw`` files.
    step : int, optional
        Number of one step, from 1. By default the average, which the files contain.

    Returns
    -------
    DataFrame
        Ordered by the rank that recorded them, then as in its file; no rows without such files.

        - ``rank`` int32: the rank whose file has the link; ``src``, ``dst`` int32: numbers within its
          communication group; ``link`` str: ``SDMA``, ``RDMA`` …;
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
    rows: list[tuple[Any, ...]] = []
    if table is not None and "links" in table:
        chosen = table[table["step"] == (AVERAGE if step is None else step)]
        for rank, pairs in zip(chosen["rank"], chosen["links"], strict=True):
            for pair, kinds in pairs.items() if isinstance(pairs, Mapping) else ():
                source, _, target = str(pair).partition("-")
                if source.isdigit() and target.isdigit() and isinstance(kinds, Mapping):
                    rows += [
                        (rank, int(source), int(target), str(kind), *map(float, facts[:3]))
                        for kind, facts in kinds.items()
                    ]
    links = pd.DataFrame(rows, columns=list(_LINK_KINDS)).astype(_LINK_KINDS)
    return links.assign(time_ns=links["time_ns"] * 1e6)


_APART: Final = 0.20
_SHARE: Final = 0.10
_KINDS: Final = {
    "rule": "str",
    **dict.fromkeys(("rank", "stage", "src", "dst"), "Int32"),
    "link": "str",
    **dict.fromkeys(("value", "share"), "float64"),
}


def cluster_advice(trace: Trace, *, stages: int = 1) -> pd.DataFrame:
    """Name the ranks, links and stages that stand out.

    Parameters
    ----------
    trace : Trace
        From a folder with the files of several ranks.
    stages : int
        Number of stages in the pipeline. Ranks are divided among them in order.

    Returns
    -------
    DataFrame
        No rows if nothing stands out. ``rule`` str, what it applies to (``rank stage`` Int32; ``src dst``
        Int32 and ``link`` str), ``value`` and ``share`` float64:

        - ``step-interval``: the rank with the longest interval, `value` in ns, if that is more than 20 %
          above the mean (`share`);
        - ``flops``: the rank with the lowest FLOPS, more than 20 % below the mean;
        - ``link``: the slowest link between different devices, `value` in kB/s, more than 20 % below the mean
          of its kind;
        - ``communication``: the share of all steps spent on communication alone, if above 10 % (one stage);
        - ``between-stages``: the share of receiving alone, if above 10 %; ``within-stage``: the stage with
          the largest share of collectives alone, if above 10 %; ``stage-flops``: the stage with the most
          FLOPs, if more than 20 % above the mean of the ranks (several stages).

    Raises
    ------
    OptionError
        If `stages` is below 1.

    Notes
    -----
    Source: ``ParallelProposer`` of MindInsight 2.3.1.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> rows = {"rank": [0, 1], "step": -1, "interval_ns": [1.0, 3.0], "computation_ns": 9.0}
    >>> tables = {"cluster_steps": pd.DataFrame(rows), "step_trace_average": pd.DataFrame(rows)}
    >>> trace = TraceBuilder(metadata={"tables": tables}).seal()
    >>> cluster_advice(trace)[["rule", "rank", "share"]].values.tolist()
    [['step-interval', 1, 0.5]]
    """
    if stages < 1:
        raise OptionError(f"a pipeline cannot have {stages} stages: give 1 or more")
    steps, flops = cluster_steps(trace), recorded_table(trace, "flops_summary")
    rows = [
        _extreme("step-interval", steps, "interval_ns"),
        _extreme("flops", flops, "FLOPS", -1),
        _slow_link(cluster_links(trace)),
    ]
    if stages > 1:
        rows.append(_share("between-stages", steps, "receive_alone_ns"))
        rows += [_parallel_finding(steps, stages), _stage_flops(flops, stages)]
    else:
        rows.append(_share("communication", steps, "communication_alone_ns"))
    return pd.DataFrame([row for row in rows if row], columns=list(_KINDS)).astype(_KINDS)


def _extreme(rule: str, table: pd.DataFrame | None, column: str, sign: Literal[1, -1] = 1) -> dict[str, Any]:
    """Return the rank with the highest value (or the lowest, for sign -1), if it is far from the mean."""
    values = table[column].dropna() if table is not None and column in table else pd.Series(dtype="float64")
    if table is None or not len(values) or values.mean() <= 0:
        return {}
    at = (sign * values).idxmax()
    share = float(sign * (values[at] / values.mean() - 1))
    if share <= _APART:
        return {}
    return {"rule": rule, "rank": table["rank"][at], "value": values[at], "share": share}


def _slow_link(links: pd.DataFrame) -> dict[str, Any]:
    across = links[links["src"] != links["dst"]]
    if not len(across):
        return {}
    speed = across["kilobytes_per_s"]
    below = 1 - speed / speed.groupby(across["link"]).transform("mean")
    at = below.idxmax()
    if below[at] <= _APART:
        return {}
    facts = across.loc[at, ["src", "dst", "link", "rank"]].to_dict()
    return {"rule": "link", **facts, "value": speed[at], "share": float(below[at])}


def _share(rule: str, steps: pd.DataFrame, column: str) -> dict[str, Any]:
    whole = (steps["computation_ns"] + steps["communication_alone_ns"]).sum()
    return _finding_above(rule, float(steps[column].sum() / whole) if whole > 0 else 0.0)


def _finding_above(rule: str, share: float, **facts: Any) -> dict[str, Any]:
    return {"rule": rule, "value": share, "share": share, **facts} if share > _SHARE else {}


def _parallel_finding(steps: pd.DataFrame, stages: int) -> dict[str, Any]:
    if not len(steps):
        return {}
    whole = steps["computation_ns"] + steps["communication_alone_ns"]
    share = (steps["collective_communication_alone_ns"] / whole).groupby(_stage(steps, stages)).mean()
    return _finding_above("within-stage", float(share.max()), stage=int(share.idxmax()))


def _stage_flops(flops: pd.DataFrame | None, stages: int) -> dict[str, Any]:
    if flops is None or "FLOPs" not in flops or not len(flops):
        return {}
    by_stage = flops["FLOPs"].groupby(_stage(flops, stages)).mean()
    share = float(by_stage.max() / flops["FLOPs"].mean() - 1)
    if share <= _APART:
        return {}
    return {"rule": "stage-flops", "stage": int(by_stage.idxmax()), "value": by_stage.max(), "share": share}


def _stage(table: pd.DataFrame, stages: int) -> Any:
    """Return the stage of each row, from 1: ranks in order, with equally many per stage."""
    ranks = int(table["rank"].max()) + 1
    return table["rank"].to_numpy(np.int64) * stages // ranks + 1
