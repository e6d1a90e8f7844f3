"""Time by kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from ...errors import OptionError
from ...trace import Trace
from ...trace.schema import SLICES
from ..grouping import group
from ..scope import Numbers, Texts, WindowLike, many, on_device
from .busy import device_attributes, uses_tensor_cores

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
    line: Texts = None,
) -> pd.DataFrame:
    """Count and time everything that ran on device streams, grouped by name: kernels, copies, fills.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; durations are cut at its edges.
    by : str or sequence of str
        ``name``, or any of ``name category module phase line step track device stream`` together and, if
        launch attributes were recorded, of ``grid block registers_per_thread shared_memory_bytes graph
        graph_node priority``; missing for work without one.
    name, phase, category, line : str or iterable of str, optional
        Keep only these; `name` does not change any `share`.
    step : int or iterable of int, optional
        Keep only work launched by these steps.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows for a trace without device work.

        - the columns of `by`;
        - ``count`` int64; ``total_ns`` int64: sum of durations, over all streams; ``mean_ns`` float64;
          ``min_ns``, ``max_ns`` int64;
        - ``share`` float64: of the summed durations in the same window, steps, phases and categories;
        - if launch attributes were recorded: ``blocks_per_sm``, ``occupancy`` (0–1) float64, weighted by
          duration, ``registers_per_thread``, ``shared_memory_bytes`` float64: the largest; NaN for copies;
        - with `name` in `by`: ``tensor_cores`` bool, by the kernel's name;
        - ``doubt`` str, only if there is any, and not by launch attributes: codes of `trust` that affect at
          least 1 % of the row's time, like ``throttled``; empty for other rows.

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
    device = on_device(trace, window).where(step=step, phase=phase, category=category, line=line)
    if not len(device.rows) and not launched:
        return _without_rows(tuple(columns)).copy(deep=False)
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
    keys = groups.keys.reindex(codes).reset_index(drop=True)  # without columns, `keys` has no rows
    table = pd.concat([keys, table.drop(columns="code")], axis=1)
    if len(table) and not launched:  # without attributes, each row is one of `groups`
        from ..trust.doubts import kernel_doubts, mark

        doubts = kernel_doubts(trace, device, groups.code[device.rows], len(groups.keys), window)
        mark(table, [doubts[code] for code in codes])
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    if "name" in table:
        table["tensor_cores"] = table["name"].map(uses_tensor_cores).astype("bool")
    if name is not None and "name" in table:
        table = table[table["name"].isin(many(name))]
    first = [*columns, "count", "total_ns", "mean_ns", "share", "min_ns", "max_ns"]
    first += ["doubt"] * ("doubt" in table)
    table = table[[*first, *(column for column in table if column not in first)]]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


@functools.cache
def _without_rows(columns: tuple[str, ...]) -> pd.DataFrame:
    """Return the table of a trace without device work."""
    dtypes = dict.fromkeys(("count", "total_ns"), "int64") | dict.fromkeys(("mean_ns", "share"), "float64")
    dtypes |= dict.fromkeys(("min_ns", "max_ns"), "int64")
    dtypes |= {"tensor_cores": "bool"} if "name" in columns else {}
    keys = group(SLICES.empty(), columns).keys
    return keys.assign(**{name: pd.Series([], dtype=dtype) for name, dtype in dtypes.items()})


def _sums(frame: pd.DataFrame, launched: list[str]) -> pd.DataFrame:
    """Return the count, durations and attributes of each group, in the order of codes."""
    by, dur = ["code", *launched], frame["dur"].astype("float64")
    attributes: dict[str, Any] = {}
    for name in ("blocks_per_sm", "occupancy"):  # weighted by duration
        if name in frame:
            value = frame[name].astype("float64")
            attributes |= {name: (value * dur).fillna(0), f"{name} weight": dur.where(value.notna(), 0)}
    for name in ("registers_per_thread", "shared_memory_bytes"):
        if name in frame and name not in launched:
            attributes[name] = frame[name].astype("float64")
    groups = frame[[*by, "dur"]].assign(**attributes).groupby(by, dropna=False, sort=True)
    table = groups["dur"].agg(count="count", total_ns="sum", mean_ns="mean", min_ns="min", max_ns="max")
    for name in attributes:
        if (weight := f"{name} weight") in attributes:
            whole = groups[weight].sum()
            table[name] = groups[name].sum() / whole.where(whole > 0)
        elif not name.endswith(" weight"):
            table[name] = groups[name].max()
    whole_numbers = dict.fromkeys(("count", "total_ns", "min_ns", "max_ns"), "int64")
    return table.reset_index().astype({**whole_numbers, "mean_ns": "float64"})
