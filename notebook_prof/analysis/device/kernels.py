"""Time by kernel: what ran on the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from ...errors import OptionError
from ...trace import Trace
from ..grouping import group
from ..scope import Numbers, Texts, WindowLike, many, on_device
from ..trust.doubts import kernel_doubts, mark
from .device_attributes import device_attributes, uses_tensor_cores

LAUNCH: Final = (
    *("grid", "block", "registers_per_thread", "shared_memory_bytes"),
    *("graph", "graph_node", "priority"),
)
"""Launch attributes that kernels can be grouped by."""


def kernels(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
) -> pd.DataFrame:
    """Count and time of everything that ran on device streams, grouped by name: kernels, copies, fills.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; durations are cut at its edges.
    by : str or sequence of str
        ``name``, or any of ``name category module phase step track device stream`` together and, where launch
        attributes were recorded, of ``grid block registers_per_thread shared_memory_bytes graph graph_node
        priority``; missing where a piece of work has none.
    name, phase, category : str or iterable of str, optional
        Keep these; `name` does not change anyone's `share`.
    step : int or iterable of int, optional
        Keep what these steps launched.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows for a trace without device work.

        - the columns of `by`;
        - ``count`` int64; ``total_ns`` int64: sum of durations, over all streams; ``mean_ns`` float64;
          ``min_ns``, ``max_ns`` int64;
        - ``share`` float64: of the summed durations in the same window, steps, phases and categories;
        - where launch attributes were recorded: ``blocks_per_sm``, ``occupancy`` (0–1) float64, weighted by
          duration, ``registers_per_thread``, ``shared_memory_bytes`` float64: the largest; NaN for copies;
        - with `name` in `by`: ``tensor_cores`` bool, by the kernel's name;
        - ``doubt`` str, only where there is any, and not by launch attributes: codes of `trust` that make at
          least 1 % of the row's time wrong, as ``throttled``; empty for the others.

    Raises
    ------
    OptionError
        If it cannot be grouped by `by`.
    SelectionError
        If a phase or category does not exist.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> stream = b.track("stream 7", "stream", device=0, stream=7)
    >>> _ = b.slices(ts=[0, 5], dur=[3, 1], name=["gemm", "gemm"], category="kernel", track=stream)
    >>> kernels(b.seal())[["name", "count", "total_ns", "mean_ns", "share"]].values.tolist()
    [['gemm', 2, 4, 2.0, 1.0]]
    """
    columns = [by] if isinstance(by, str) else list(by)
    launched = [column for column in columns if column in LAUNCH]
    device = on_device(trace, window).where(step=step, phase=phase, category=category)
    groups = group(device.slices, [column for column in columns if column not in LAUNCH])
    attributes = device_attributes(trace, device)
    for column in launched:
        if attributes is None or column not in attributes:
            raise OptionError(f"{column!r} of launches was not recorded, so kernels cannot be grouped by it")
    frame = pd.DataFrame({"code": groups.code[device.rows], "dur": device.end - device.ts})
    if attributes is not None:
        frame = pd.concat([frame, attributes], axis=1)
    table = _sums(frame, launched)
    codes = table["code"].tolist()
    keys = groups.keys.reindex(codes).reset_index(drop=True)  # without columns it has no rows
    table = pd.concat([keys, table.drop(columns="code")], axis=1)
    if not launched:  # then groups of the table are those of names, in order
        doubts = kernel_doubts(trace, device, groups.code[device.rows], len(groups.keys), window)
        mark(table, [doubts[code] for code in codes])
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    if attributes is not None:
        table = pd.concat([table, _means(frame, launched)], axis=1)
    if "name" in table:
        table["tensor_cores"] = table["name"].map(uses_tensor_cores).astype("bool")
    if name is not None and "name" in table:
        table = table[table["name"].isin(many(name))]
    first = [*columns, "count", "total_ns", "mean_ns", "share", "min_ns", "max_ns"]
    table = table[[*first, *(column for column in table if column not in first)]]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _sums(frame: pd.DataFrame, launched: list[str]) -> pd.DataFrame:
    """Count and durations, a row a group in the order of codes."""
    each = frame.groupby(["code", *launched], dropna=False, sort=True)["dur"]
    table: pd.DataFrame = each.agg(["count", "sum", "mean", "min", "max"]).reset_index()
    table = table.rename(columns={"sum": "total_ns", "mean": "mean_ns", "min": "min_ns", "max": "max_ns"})
    whole = dict.fromkeys(("count", "total_ns", "min_ns", "max_ns"), "int64")
    return table.astype({**whole, "mean_ns": "float64"})


def _means(frame: pd.DataFrame, launched: list[str]) -> pd.DataFrame:
    """Attributes of each group, in the same order; those that it is grouped by are left to `_sums`."""
    by = ["code", *launched]
    means: dict[str, Any] = {}
    for name in ("blocks_per_sm", "occupancy"):
        if name in frame:
            value = frame[name].astype("float64")
            weight = frame["dur"].where(value.notna(), 0).astype("float64")
            sums = frame[by].assign(value=(value * weight).fillna(0), weight=weight)
            total = sums.groupby(by, dropna=False, sort=True)[["value", "weight"]].sum()
            means[name] = (total["value"] / total["weight"].where(total["weight"] > 0)).to_numpy()
    for name in ("registers_per_thread", "shared_memory_bytes"):
        if name in frame and name not in launched:
            value = frame[by].assign(value=frame[name].astype("float64"))
            means[name] = value.groupby(by, dropna=False, sort=True)["value"].max().to_numpy()
    return pd.DataFrame(means)
