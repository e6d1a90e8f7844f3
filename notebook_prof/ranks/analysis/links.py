"""Messages from one rank to another: the matrix of sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.distributed.collectives import collectives
from ...analysis.grouping import covered_by_code
from ...analysis.scope import on_device
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Table

POINT_TO_POINT: Final = ("send", "recv")


def point_to_point(collectives: pd.DataFrame) -> pd.DataFrame:
    """Return the sends and receives with a recorded peer, with ``src`` and ``dst`` int64."""
    if "peer" not in collectives:
        return collectives.iloc[:0].assign(src=np.empty(0, np.int64), dst=np.empty(0, np.int64))
    directed = collectives[collectives["operation"].isin(POINT_TO_POINT) & collectives["peer"].notna()]
    own, other = directed["rank"].to_numpy(np.int64), directed["peer"].to_numpy(np.int64)
    sends = (directed["operation"] == "send").to_numpy()
    return directed.assign(src=np.where(sends, own, other), dst=np.where(sends, other, own))


def links(matched: pd.DataFrame, arrived: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Sum the messages between each pair of ranks.

    Parameters
    ----------
    matched : DataFrame
        Collectives of all ranks, numbered by ``match``.
    arrived : DataFrame
        Arrivals of all ranks at shared collectives.
    by : sequence of str
        Columns that separate messages (``step group operation``), as recorded at one end.

    Returns
    -------
    DataFrame
        One row for each pair that exchanged messages, by `src` and `dst`; empty without recorded peers (torch
        records them for NCCL's send and receive).

        - ``src``, ``dst`` int64: ranks; the columns of `by`; ``count`` int64: messages;
        - ``bytes`` Int64: sum of their sizes, missing without recorded sizes;
        - ``total_ns`` int64: the longer of both ends' durations; ``wait_ns`` int64: waiting for the other
          end; ``transfer_ns`` int64: time with both ends in the message, or the whole duration if the other
          end is unknown;
        - ``bytes_per_s`` float64: over the transfer; NaN without sizes.

    Examples
    --------
    >>> rows = {"rank": [0, 1], "unix_ns": [0, 5], "dur": [15, 10], "operation": ["send", "recv"]}
    >>> frame = pd.DataFrame({**rows, "peer": [1, 0], "bytes": 100, "match": 0})
    >>> shared = frame.assign(wait_ns=[5, 0], transfer_ns=10)
    >>> links(frame, shared)[["src", "dst", "count", "wait_ns", "transfer_ns"]].values.tolist()
    [[0, 1, 1, 5, 10]]
    """
    rows = point_to_point(matched)
    parts = arrived[["rank", "unix_ns", "match", "wait_ns", "transfer_ns"]]
    rows = rows.merge(parts, on=["rank", "unix_ns", "match"], how="left")
    alone = rows["match"].isna().to_numpy()
    single = alone & ~_has_other_end(rows)
    message = np.where(alone, -1 - np.arange(len(rows)), rows["match"].fillna(0).to_numpy(np.int64))
    transfer = rows["transfer_ns"].fillna(rows["dur"])
    rows = rows.assign(message=message, transfer_ns=transfer, wait_ns=rows["wait_ns"].fillna(0))
    rows = rows[~alone | single]
    each: Any = rows.groupby(["src", "dst", "message"], as_index=False).agg(
        bytes=("bytes", "max"),
        total_ns=("dur", "max"),
        wait_ns=("wait_ns", "max"),
        transfer_ns=("transfer_ns", "min"),
        **{name: (name, "first") for name in by},
    )
    each["told"] = each["bytes"].notna()
    each["timed_ns"] = each["transfer_ns"].where(each["told"])
    table = each.groupby(["src", "dst", *by], as_index=False, dropna=False).agg(
        count=("message", "size"),
        bytes=("bytes", "sum"),
        told=("told", "any"),
        total_ns=("total_ns", "sum"),
        wait_ns=("wait_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
        timed_ns=("timed_ns", "sum"),
    )
    kinds = dict.fromkeys(["src", "dst", "count", "total_ns", "wait_ns", "transfer_ns"], "int64")
    table = table.astype({**kinds, "bytes": "Int64"})
    table["bytes"] = table["bytes"].where(table["told"])
    seconds = table["timed_ns"].where(table["timed_ns"] > 0) / 1e9
    table["bytes_per_s"] = table["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan) / seconds
    return table.drop(columns=["timed_ns", "told"])


def _has_other_end(rows: pd.DataFrame) -> Any:
    """Return unmatched receives whose sender has as many recorded sends, where they are counted."""
    sends = rows[rows["operation"] == "send"].groupby(["src", "dst"]).size()
    count = pd.MultiIndex.from_arrays([rows["src"], rows["dst"]]).map(sends).to_numpy()
    return (rows["operation"] == "recv").to_numpy() & (np.nan_to_num(count.astype(np.float64)) > 0)


# Pipelines of ranks: stages, computation and bubbles.

_DIRECT: Final = ("send", "recv", "send_recv")
_STAGES: Final = Table.of(
    "stages",
    "step:int32 first_ns:int64 last_ns:int64 compute_ns:int64 other_ns:int64 sends:int64 receives:int64",
)


def stage_work(trace: Trace) -> pd.DataFrame:
    """Return the work and messages of each step, of ranks that send to or receive from single other ranks."""
    # ``first_ns`` and ``last_ns`` are the start of the first and the end of the last kernel in the trace's
    # time; ``other_ns`` is collectives between them (no sends and receives) without computation.
    work = on_device(trace)
    step = work.ints("step")
    communicates = work.among("category", ("collective",))
    moves = work.among("category", ("memcpy", "memset"))
    computes = ~communicates & ~moves & (step >= 0)
    table = collectives(trace)
    direct = table[table["operation"].isin(_DIRECT) & (table["device"] >= 0)]
    if not computes.any() or not len(direct):
        return _STAGES.empty()
    steps, code = np.unique(step, return_inverse=True)
    first, last = np.full(len(steps), np.iinfo(np.int64).max), np.full(len(steps), np.iinfo(np.int64).min)
    np.minimum.at(first, code[computes], work.ts[computes])
    np.maximum.at(last, code[computes], work.end[computes])
    others = communicates & ~np.isin(work.rows, direct["slice"].to_numpy()) & (last[code] > first[code])
    start = np.maximum(work.ts, np.where(others, first[code], work.ts))
    end = np.minimum(work.end, np.where(others, last[code], work.end))
    others &= end > start

    def during(keep: BoolArray) -> IntArray:
        return covered_by_code(code[keep], start[keep], end[keep], len(steps))

    table = _STAGES.frame(
        {
            "step": steps.astype(np.int32),
            "first_ns": first,
            "last_ns": last,
            "compute_ns": during(computes),
            "other_ns": during(computes | others) - during(computes),
            "sends": _count(direct, "send", steps),
            "receives": _count(direct, "recv", steps),
        }
    )
    return table[last > first].reset_index(drop=True)


def _count(direct: pd.DataFrame, operation: str, steps: IntArray) -> IntArray:
    counts = direct.loc[direct["operation"] == operation, "step"].value_counts()
    return as_ints(counts.reindex(steps).fillna(0).to_numpy(np.int64))


_PARTS: Final = ("warmup_ns", "between_ns", "drain_ns")
_PIPELINES: Final = Table.of(
    "pipeline",
    "pipeline:int64 stage:int64 rank:int32 step:int32 window_ns:int64 compute_ns:int64 warmup_ns:int64 "
    "between_ns:int64 drain_ns:int64 other_ns:int64 bubble_share:float64 microbatches:int64 "
    "ideal_share:float64",
)


def pipeline(work: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Find the bubbles of pipeline parallelism.

    Parameters
    ----------
    work : DataFrame
        One row per rank and step: ``rank step compute_ns other_ns sends receives``, ``first_ns`` and
        ``last_ns`` (first and last kernel) on one clock, and ``aligned`` bool: whether that clock is the
        common one.
    links : DataFrame
        Who sends to whom: ``src dst``; see `notebook_prof.ranks.analysis.links.links`.

    Returns
    -------
    DataFrame
        One row per rank and step, by `pipeline`, `stage` and `step`; empty if no rank sends to another.

        - ``pipeline`` int64: lowest of the ranks connected by messages; ``stage`` int64: index in the
          pipeline, by first computation; ``rank`` int32; ``step`` int32;
        - ``window_ns`` int64: from the step's first kernel on any of the pipeline's ranks to the end of the
          last kernel; for a rank whose clock cannot be compared, its own;
        - ``compute_ns`` int64; ``warmup_ns``, ``between_ns``, ``drain_ns`` int64: idle before the rank's
          first kernel, between its first and last, and after its last; ``other_ns`` int64: collectives in
          between. These five sum to `window_ns`;
        - ``bubble_share`` float64: warm-up, between and drain as a share of the window; ``microbatches``
          int64: messages from the first stage to the next in a step; ``ideal_share`` float64: ``(p - 1) / (m
          + p - 1)`` for *p* stages and *m* microbatches; NaN without counted messages.

    Notes
    -----
    Source of the ideal share: Huang et al., *GPipe* (2019), section 2.3, for stages of equal length.

    Examples
    --------
    >>> work = pd.DataFrame({"rank": [0, 1], "step": 0, "first_ns": [0, 10], "last_ns": [60, 50]})
    >>> work = work.assign(compute_ns=[20, 20], other_ns=0, sends=2, receives=2, aligned=True)
    >>> table = pipeline(work, pd.DataFrame({"src": [0, 1], "dst": [1, 0], "count": 2}))
    >>> table[["stage", "warmup_ns", "between_ns", "drain_ns"]].values.tolist()
    [[0, 0, 40, 0], [1, 10, 20, 10]]
    """
    if not len(work) or not len(links):
        return _PIPELINES.empty()
    group = _connected(np.unique(work["rank"].to_numpy(np.int64)), links)
    table = work.assign(pipeline=work["rank"].map(group))
    table = table[table["pipeline"].notna()].reset_index(drop=True)
    if not len(table):
        return _PIPELINES.empty()
    table["pipeline"] = table["pipeline"].astype("int64")
    table["stage"] = _stages(table)
    groups = table.groupby(["pipeline", "step", np.where(table["aligned"], -1, table["rank"])])
    start, end = as_ints(groups["first_ns"].transform("min")), as_ints(groups["last_ns"].transform("max"))
    first, last = table["first_ns"].to_numpy(np.int64), table["last_ns"].to_numpy(np.int64)
    table["window_ns"] = end - start
    table["warmup_ns"], table["drain_ns"] = first - start, end - last
    busy = table["compute_ns"].to_numpy(np.int64) + table["other_ns"].to_numpy(np.int64)
    table["between_ns"] = last - first - busy
    idle = table[list(_PARTS)].sum(axis=1)
    table["bubble_share"] = idle / table["window_ns"].where(table["window_ns"] > 0)
    table["microbatches"] = _microbatches(table, links)
    many = table["microbatches"].where(table["microbatches"] > 0)
    more = table.groupby("pipeline")["rank"].transform("nunique") - 1
    table["ideal_share"] = (more / (many + more)).astype("float64")
    ordered = table.sort_values(["pipeline", "stage", "rank", "step"], kind="stable", ignore_index=True)
    return _PIPELINES.frame({name: ordered[name] for name in _PIPELINES.names})


def _connected(ranks: IntArray, links: pd.DataFrame) -> dict[int, int]:
    """Return, for every rank with messages, the lowest rank that messages connect it to."""
    lowest = {int(rank): int(rank) for rank in {*links["src"], *links["dst"]} & set(ranks.tolist())}
    changed = True
    while changed:
        changed = False
        for src, dst in zip(links["src"].tolist(), links["dst"].tolist(), strict=True):
            if src in lowest and dst in lowest and lowest[src] != lowest[dst]:
                lowest[src] = lowest[dst] = min(lowest[src], lowest[dst])
                changed = True
    sizes = pd.Series(lowest).value_counts()
    return {rank: group for rank, group in lowest.items() if sizes[group] > 1}


def _stages(table: pd.DataFrame) -> Any:
    """Return the stage of each row's rank in its pipeline, by its median start after the step's first."""
    after = table["first_ns"] - table.groupby(["pipeline", "step"])["first_ns"].transform("min")
    middle = after.groupby([table["pipeline"], table["rank"]]).median().rename("after").reset_index()
    middle = middle.sort_values(["pipeline", "after", "rank"], kind="stable")
    stage_of_rank = dict(zip(middle["rank"], middle.groupby("pipeline").cumcount(), strict=True))
    return table["rank"].map(stage_of_rank).to_numpy(np.int64)


def _microbatches(table: pd.DataFrame, links: pd.DataFrame) -> Any:
    """Count messages of the first stage to its most frequent partner in a step, for each row."""
    heads = table[table["stage"] == 0]
    partners = links.groupby("src")["dst"].nunique()
    sends = heads["sends"] / heads["rank"].map(partners)
    by_step = dict(zip(zip(heads["pipeline"], heads["step"], strict=True), sends, strict=True))
    keys = zip(table["pipeline"], table["step"], strict=True)
    return np.nan_to_num(np.array([by_step.get(key, 0.0) for key in keys], np.float64)).astype(np.int64)
