"""Paddle's event types, phases and device time from a Trace with plain pandas."""

from typing import Any

import numpy as np
import pandas as pd

from notebook_prof import Trace
from notebook_prof.trace.intervals import length, overlap, union

PHASES = ("Dataloader", "Forward", "Backward", "Optimization")


def typed(trace: Trace) -> pd.DataFrame:
    """The slices with Paddle's event type, and time on the device below each (kernels; all device work)."""
    slices = trace.slices
    types = trace.metadata["tables"]["event_types"]
    table = slices.assign(name=slices["name"].astype(str), category=slices["category"].astype(str))
    table = table.merge(types[["name", "category", "type"]], on=["name", "category"], how="left")
    parent = table["parent"].to_numpy(dtype=np.int64, na_value=-1)
    flows = trace.flows[trace.flows["kind"] == "launch"]
    up = parent.copy()
    up[flows["dst"]] = flows["src"]
    for column, counted in (("kernel_ns", ["Kernel"]), ("gpu_ns", ["Kernel", "Memcpy", "Memset"])):
        total = np.zeros(len(table), np.int64)
        work = np.flatnonzero(table["type"].isin(counted).to_numpy())
        above, dur = up[work], table["dur"].to_numpy()[work]
        while (above >= 0).any():
            dur, above = dur[above >= 0], above[above >= 0]
            np.add.at(total, above, dur)
            above = up[above]
        table[column] = total
    table["up"] = up
    return table


def outermost(table: pd.DataFrame, types: tuple[str, ...]) -> pd.DataFrame:
    """Rows of these types that are inside no other one of them."""
    selected = table["type"].isin(types).to_numpy()
    inside = np.zeros(len(table), bool)
    up = table["up"].to_numpy()
    above = up.copy()
    while (above >= 0).any():
        inside |= np.append(selected, False)[above]
        above = np.append(up, -1)[above]
    return table[selected & ~inside]


def busy(table: pd.DataFrame) -> tuple[Any, Any]:
    return union(table["ts"], table["ts"] + table["dur"])


def distribution(table: pd.DataFrame) -> dict[str, int]:
    """Communication, computation and their overlap in ns, by Paddle's rule."""
    names = table["name"]
    collective = table["category"] == "collective"
    called = names.str.contains("allreduce|broadcast|rpc") & (table["type"] == "Operator")
    communication = busy(table[(table["type"] == "Communication") | called | collective])
    computation = busy(table[(table["type"] == "Kernel") & ~collective])
    return {
        "Communication": length(communication),
        "Computation": length(computation),
        "Overlap": length(overlap(communication, computation)),
    }


def close(values: list[float], reported: list[float]) -> bool:
    """Equal to the two decimals that Paddle prints."""
    return len(values) == len(reported) and all(
        abs(a - b) < 0.0051 for a, b in zip(values, reported, strict=True)
    )
