"""How steps got their data, and how full the queues on the way were."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from bokeh.models import Range1d

from ... import analysis
from ...analysis.time.recorded_steps import recorded_table
from ...selection import Selection
from ...service.palette import NAMES, PHASES
from ...trace import Trace
from .drawn import Drawn, canvas, label_axis, scope, shortened, source, tell, tip_columns
from .steps import stacked

_HEIGHT: Final = 220
_POINTS: Final = 4000
_FETCH: Final = {
    "wait_ns": ("waiting", PHASES["data"]),
    "work_ns": ("loading", NAMES[0]),
    "push_ns": ("pushing to the device", NAMES[2]),
}


def input_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw the time that each step spent on getting its data.

    Parameters
    ----------
    trace : Trace
    selection : Selection
        The window narrows what is drawn; other steps than the selected are pale.

    Returns
    -------
    Drawn or None
        A bar a step: waiting for the batch, working on it, and pushing it to the device. A click selects a
        step. None where no step fetched any.
    """
    table = analysis.input_pipeline(trace, **scope(selection, "window"))
    table["work_ns"] = (table["fetch_ns"] - table["wait_ns"] - table["push_ns"]).clip(lower=0)
    return stacked(table, _FETCH, selection, "Time to get the data, by step")


def queues_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw how full each queue of a data pipeline was, over time.

    Parameters
    ----------
    trace : Trace
        Recorded by MindSpore's MindData.
    selection : Selection
        Steps narrow the queues before the device.

    Returns
    -------
    Drawn or None
        A line a queue, as a share of its capacity, from the first sample to the last. None without queues.
    """
    lines = _lines(trace, selection)
    if not lines:
        return None
    plot = canvas(_HEIGHT, x_range=Range1d(0, 100), y_range=Range1d(-3, 106))
    label_axis(plot.xaxis, "samples of each queue in their order, %")
    label_axis(plot.yaxis, "filled, %")
    legend = {}
    for place, (name, (sizes, capacity)) in enumerate(lines.items()):
        colour, n = NAMES[place % len(NAMES)], len(sizes)
        told = {
            "": [shortened(name, 80)] * n,
            "filled": [f"{size:g} of {capacity:g}" for size in sizes.tolist()],
        }
        spots = {"x": 100 * (np.arange(n) + 0.5) / n, "y": 100 * sizes / max(capacity, 1)}
        data = source({**spots, **tip_columns(told)})
        plot.step("x", "y", source=data, mode="center", line_color=colour, line_width=1.5)
        dots = plot.scatter("x", "y", source=data, size=4, fill_color=colour, line_color=None)
        tell(plot, dots, told)
        legend[shortened(name, 40)] = colour
    return Drawn(plot, "How full the queues were", legend)


def _lines(trace: Trace, selection: Selection) -> dict[str, tuple[Any, float]]:
    """Name → sizes in the order of time, and the capacity."""
    lines: dict[str, tuple[Any, float]] = {}
    for name, key in (("before the device", "minddata_queue"), ("on the device", "minddata_next")):
        table = recorded_table(trace, key)
        if table is None:
            continue
        if selection.step is not None and "step" in table:
            table = table[table["step"].isin(list(selection.step))]
        sizes = table["size"].to_numpy(dtype=np.float64, na_value=0)
        top = table["capacity"].max() if "capacity" in table else np.nan
        if len(sizes):
            lines[name] = _thin(sizes), float(top) if top == top else float(sizes.max())
    pipeline = recorded_table(trace, "minddata_pipeline")
    if pipeline is not None:
        columns = ("op_type", "op_id", "sizes", "queue_length")
        for kind, number, sizes, length in zip(*(pipeline[name] for name in columns), strict=True):
            if isinstance(sizes, list | tuple | np.ndarray) and len(sizes) and length == length:
                lines[f"{kind}_{number}"] = _thin(np.asarray(sizes, dtype=np.float64)), float(length)
    return lines


def _thin(sizes: Any) -> Any:
    return sizes[:: -(-len(sizes) // _POINTS)]
