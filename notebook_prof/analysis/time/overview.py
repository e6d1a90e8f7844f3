"""The whole run at a glance: what it ran on, and where its time went, in a few tables."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import PHASES, Trace
from ..scope import WindowLike, sharing
from ..spans import step_spans
from .operators import operators
from .overview_devices import overview_devices
from .overview_events import overview_events
from .phases import phases

_STEP_PREFIXES: Final = ("ProfilerStep#", "ProfileStep#")
_SHOWN: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True, repr=False)
class Overview:
    """A run at a glance. Times int64 ns, shares 0–1.

    Attributes
    ----------
    configuration : DataFrame
        ``item value``, both str: what is known of the recording, and what it holds.
    devices : DataFrame
        A row for the host and each device, see `overview_devices`.
    phases : DataFrame
        A row for the step, then one a phase: ``phase calls host_ns host_mean_ns host_min_ns host_max_ns
        host_share device_ns device_mean_ns device_min_ns device_max_ns device_share``; over steps. Phases sum
        to the steps on the host; on a device they may overlap, and ``step`` is their sum.
    steps : DataFrame
        As `analysis.phases`: ``step phase host_ns device_ns share``.
    events : DataFrame
        By side, category and phase, see `overview_events`.
    annotations : DataFrame
        The user's own ranges: ``name count total_ns self_ns device_ns share``; without steps and loaders.
    """

    configuration: pd.DataFrame
    devices: pd.DataFrame
    phases: pd.DataFrame
    steps: pd.DataFrame
    events: pd.DataFrame
    annotations: pd.DataFrame

    def __repr__(self) -> str:
        parts = [(field.name, getattr(self, field.name)) for field in fields(self) if field.name != "steps"]
        return "\n\n".join(f"{name}\n{table.to_string(index=False)}" for name, table in parts if len(table))


@sharing
def overview(trace: Trace, *, window: WindowLike = None) -> Overview:
    """Sum the run up: configuration, devices, phases, steps, events and the user's own ranges.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut at its edges.

    Returns
    -------
    Overview
        A few DataFrames; those of which nothing was recorded have no rows.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0               ]
    ... main:  [next/data][mm/forward]
    ... ''')
    >>> overview(trace).phases[["phase", "calls", "host_ns"]].head(3).values.tolist()
    [['step', 1, 18], ['data', 1, 11], ['forward', 1, 7]]
    """
    steps = phases(trace, window=window)
    return Overview(
        _configuration(trace),
        overview_devices(trace, window=window),
        _phases(trace, steps, window),
        steps,
        overview_events(trace, window=window),
        _annotations(trace, window),
    )


def _configuration(trace: Trace) -> pd.DataFrame:
    rows = {key: str(value) for key, value in trace.metadata.items() if isinstance(value, _SHOWN)}
    devices = trace.metadata.get("devices")
    if isinstance(devices, list | tuple):
        rows["devices"] = ", ".join(dict.fromkeys(map(str, devices)))
    kinds = trace.tracks["kind"].astype("str").value_counts()
    rows["processes"] = str(trace.tracks["pid"].dropna().nunique())
    rows |= {f"{kind}s": str(kinds.get(kind, 0)) for kind in ("thread", "stream")}
    rows |= {"steps": str(len(trace.steps)), "slices": str(len(trace.slices))}
    rows["recorded_ns"] = str(trace.span.dur)
    table = pd.DataFrame({"item": list(rows), "value": list(rows.values())})
    return table.astype({"item": "str", "value": "str"})


def _phases(trace: Trace, steps: pd.DataFrame, window: WindowLike) -> pd.DataFrame:
    columns: dict[str, Any] = {"phase": ["step", *PHASES]}
    size = len(PHASES)
    spans = step_spans(trace, window)
    for side in ("host", "device"):
        each = steps[f"{side}_ns"].to_numpy().reshape(-1, size)
        whole = spans["dur"].to_numpy() if side == "host" else each.sum(axis=1)
        each = np.column_stack([whole, each])
        if "calls" not in columns:
            columns["calls"] = (each > 0).sum(axis=0)
        columns[f"{side}_ns"] = each.sum(axis=0)
        columns[f"{side}_mean_ns"] = each.sum(axis=0) / max(len(each), 1)
        columns[f"{side}_min_ns"] = each.min(axis=0) if len(each) else 0
        columns[f"{side}_max_ns"] = each.max(axis=0) if len(each) else 0
        columns[f"{side}_share"] = each.sum(axis=0) / max(int(whole.sum()), 1)
    table = pd.DataFrame(columns)
    return table if len(spans) else table.iloc[:0]


def _annotations(trace: Trace, window: WindowLike) -> pd.DataFrame:
    table = operators(trace, window=window, category="annotation")
    own = ~table["name"].str.startswith((*_STEP_PREFIXES, "enumerate(DataLoader)#"))
    names = ["name", "count", "total_ns", "self_ns", "device_ns", "share"]
    return (
        table.loc[own, names].sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    )
