"""What the devices waited for."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.device.idle import CAUSES
from ...selection import Selection
from ...service.palette import CATEGORIES, IDLE, PHASES, RESOURCE
from ...trace import Trace
from ...units import format_ns, format_share
from .drawn import (
    Drawn,
    bar_ends,
    counts,
    row_figure,
    scope,
    shares,
    source,
    tell,
    time_unit,
    tip_columns,
    windows,
)

_COLOURS: Final = {
    "input": PHASES["data"],
    "sync": CATEGORIES["sync"],
    "memcpy": CATEGORIES["memcpy"],
    "communication": CATEGORIES["collective"],
    "host-bound": RESOURCE["host"],
    "launch-latency": CATEGORIES["launch"],
    "tail": IDLE[1],
    "unknown": IDLE[0],
}
"""The colour of each cause."""
_COLUMN: Final = {"host-bound": "host_ns", "launch-latency": "launch_ns"}


def idle_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw each device's idle time by cause; a click selects the largest gap. None without idle time."""
    table = analysis.device_idle(trace, **scope(selection, "window"))
    if not len(table):
        return None
    rows = pd.concat([_causes(own, number) for number, own in table.groupby("device")], ignore_index=True)
    rows = rows[rows["ns"] > 0].reset_index(drop=True)
    several = len(set(rows["device"])) > 1
    whole, spent = int(rows["ns"].sum()), rows["ns"].to_numpy()
    names = [
        f"device {number}: {cause}" if several else cause
        for number, cause in zip(rows["device"], rows["cause"], strict=True)
    ]
    share = shares(spent.tolist(), whole)
    tooltips = {
        "": names,
        "in all": [format_ns(value) for value in spent.tolist()],
        "of the idle time": share,
        "gaps with this as the largest part": counts(rows["gaps"]),
    }
    scale, unit = time_unit(int(spent.max()))
    data = source(
        {
            "place": np.arange(len(rows)),
            "length": spent / scale,
            "colour": [_COLOURS[cause] for cause in rows["cause"]],
            "share": share,
            "select": windows(rows["start"].to_numpy(), rows["end"].to_numpy()),
            **tip_columns(tooltips),
        }
    )
    measured = int(analysis.device(trace, **scope(selection, "window"))["window_ns"].sum())
    title = f"Idle {format_ns(whole)}, {format_share(whole / max(measured, 1))} of the time, by its causes"
    plot = row_figure(names, unit, int(spent.max()) / scale * 1.12)
    bars = plot.hbar(y="place", right="length", height=0.8, source=data, fill_color="colour", line_color=None)
    bar_ends(plot, data)
    tell(plot, bars, tooltips)
    return Drawn(plot, title)


def _causes(own: pd.DataFrame, device: object) -> pd.DataFrame:
    """Make a row per cause: its time, the gaps that it dominates, and the gap with most of it."""
    start, end = own["ts"].to_numpy(), (own["ts"] + own["dur"]).to_numpy()
    rows = []
    for cause in CAUSES:
        spent = own[_COLUMN.get(cause, f"{cause}_ns")].to_numpy()
        most = int(spent.argmax())
        gaps = int((own["cause"] == cause).sum())
        rows.append((device, cause, int(spent.sum()), gaps, int(start[most]), int(end[most])))
    table = pd.DataFrame(rows, columns=["device", "cause", "ns", "gaps", "start", "end"])
    return table.sort_values("ns", ascending=False, kind="stable")
