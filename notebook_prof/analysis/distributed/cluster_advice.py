"""What is conspicuous in a MindSpore cluster, by MindInsight's rules."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace
from ..time.recorded_steps import recorded_table
from .cluster_links import cluster_links
from .cluster_steps import cluster_steps

_APART: Final = 0.20
_SHARE: Final = 0.10
_KINDS: Final = {
    "rule": "str",
    "rank": "Int32",
    "stage": "Int32",
    "src": "Int32",
    "dst": "Int32",
    "link": "str",
    "value": "float64",
    "share": "float64",
}


def cluster_advice(trace: Trace, *, stages: int = 1) -> pd.DataFrame:
    """Name the ranks, links and stages that stand out.

    Parameters
    ----------
    trace : Trace
        Of a folder with the files of several ranks.
    stages : int
        How many stages the pipeline has; ranks are divided among them in order.

    Returns
    -------
    DataFrame
        No rows where nothing stands out. ``rule`` str, what it is about (``rank stage`` Int32; ``src dst``
        Int32 and ``link`` str), ``value`` and ``share`` float64:

        - ``step-interval``: the rank with the longest interval, `value` in ns, where it is more than 20 %
          above the mean (`share`);
        - ``flops``: the rank with the lowest FLOPS, more than 20 % below the mean;
        - ``link``: the slowest link between different devices, `value` in kB/s, more than 20 % below the mean
          of its kind;
        - ``communication``: the share of communication alone in all steps, above 10 % (one stage);
        - ``between-stages``: the share of receiving alone, above 10 %; ``within-stage``: the stage with the
          largest share of collectives alone, above 10 %; ``stage-flops``: the stage with most FLOPs, more
          than 20 % above the mean of the ranks (several stages).

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
        raise OptionError(f"a pipeline of {stages} stages cannot be: give 1 or more")
    steps, flops = cluster_steps(trace), recorded_table(trace, "flops_summary")
    rows = [
        _highest("step-interval", steps, "interval_ns"),
        _lowest("flops", flops, "FLOPS"),
        _slow_link(cluster_links(trace)),
    ]
    if stages > 1:
        rows += [_between(steps), _within(steps, stages), _stage_flops(flops, stages)]
    else:
        rows.append(_above("communication", _share(steps, "communication_alone_ns")))
    found = pd.DataFrame([row for row in rows if row], columns=list(_KINDS))
    return found.astype(_KINDS)


def _highest(rule: str, table: pd.DataFrame, column: str) -> dict[str, Any]:
    values = table[column].dropna()
    if not len(values) or values.mean() <= 0:
        return {}
    at = values.idxmax()
    share = float(values[at] / values.mean() - 1)
    return (
        {"rule": rule, "rank": table["rank"][at], "value": values[at], "share": share}
        if share > _APART
        else {}
    )


def _lowest(rule: str, table: pd.DataFrame | None, column: str) -> dict[str, Any]:
    if table is None or column not in table:
        return {}
    values = table[column].dropna()
    if not len(values) or values.mean() <= 0:
        return {}
    at = values.idxmin()
    share = float(1 - values[at] / values.mean())
    return (
        {"rule": rule, "rank": table["rank"][at], "value": values[at], "share": share}
        if share > _APART
        else {}
    )


def _slow_link(links: pd.DataFrame) -> dict[str, Any]:
    across = links[links["src"] != links["dst"]]
    if not len(across):
        return {}
    speed = across["kilobytes_per_s"]
    below = 1 - speed / speed.groupby(across["link"]).transform("mean")
    at = below.idxmax()
    if below[at] <= _APART:
        return {}
    row = across.loc[at]
    facts = {"src": row["src"], "dst": row["dst"], "link": row["link"], "rank": row["rank"]}
    return {"rule": "link", **facts, "value": speed[at], "share": float(below[at])}


def _share(steps: pd.DataFrame, column: str) -> float:
    whole = (steps["computation_ns"] + steps["communication_alone_ns"]).sum()
    return float(steps[column].sum() / whole) if whole > 0 else 0.0


def _above(rule: str, share: float, **facts: Any) -> dict[str, Any]:
    return {"rule": rule, "value": share, "share": share, **facts} if share > _SHARE else {}


def _between(steps: pd.DataFrame) -> dict[str, Any]:
    return _above("between-stages", _share(steps, "receive_alone_ns"))


def _within(steps: pd.DataFrame, stages: int) -> dict[str, Any]:
    if not len(steps):
        return {}
    whole = steps["computation_ns"] + steps["communication_alone_ns"]
    share = (steps["collective_communication_alone_ns"] / whole).groupby(_stage(steps, stages)).mean()
    return _above("within-stage", float(share.max()), stage=int(share.idxmax()))


def _stage_flops(flops: pd.DataFrame | None, stages: int) -> dict[str, Any]:
    if flops is None or "FLOPs" not in flops or not len(flops):
        return {}
    by_stage = flops["FLOPs"].groupby(_stage(flops, stages)).mean()
    share = float(by_stage.max() / flops["FLOPs"].mean() - 1)
    if share <= _APART:
        return {}
    return {"rule": "stage-flops", "stage": int(by_stage.idxmax()), "value": by_stage.max(), "share": share}


def _stage(table: pd.DataFrame, stages: int) -> Any:
    """Stage of each row, from 1: ranks in order, equally many a stage."""
    ranks = int(table["rank"].max()) + 1
    return table["rank"].to_numpy(np.int64) * stages // ranks + 1
