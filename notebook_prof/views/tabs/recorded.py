"""Quick looks at what a trace holds, for tabs that would have nothing to show."""

from __future__ import annotations

import numpy as np

from ... import analysis
from ...analysis.time.recorded_steps import recorded_table
from ...trace import Trace

NO_STEPS = (
    "No steps were found. Mark them with nbp.step(), iterate nbp.steps(loader), or choose a loop with --loop."
)


def without_steps(trace: Trace) -> str:
    """Why there are no steps to divide."""
    return "" if len(trace.steps) or recorded_table(trace, "step_trace") is not None else NO_STEPS


def without_memory(trace: Trace) -> str:
    """Why there is no memory to account for."""
    if len(trace.allocations) or len(analysis.memory(trace)):
        return ""
    return "No memory events were recorded. Record with --memory (or memory=True) to see them."


def without_input(trace: Trace) -> str:
    """Why nothing is known of how the data came."""
    if recorded_table(trace, "minddata_queue") is not None or (
        _has(trace, "phase", "data") and len(trace.steps)
    ):
        return ""
    return (
        "Nothing was recorded of how steps got their data: no DataLoader and no phase data. "
        "Use a DataLoader, or put nbp.annotate('load', phase='data') around what loads."
    )


def without_collectives(trace: Trace) -> str:
    """Why there is nothing to say about communication."""
    if _has(trace, "category", "collective") or recorded_table(trace, "collectives") is not None:
        return ""
    return "No communication was recorded: this run used one process, or its collectives were not recorded."


def without_device(trace: Trace) -> str:
    """Why there is no device to account for."""
    if (trace.tracks["kind"] == "stream").any():
        return ""
    return (
        "No work of a GPU or other device was recorded: this run used the host, "
        "or its kernels were not recorded."
    )


def has_category(trace: Trace, category: str) -> bool:
    """Whether any slice is of the category."""
    return _has(trace, "category", category)


def _has(trace: Trace, column: str, value: str) -> bool:
    values = trace.slices[column]
    code = int(values.cat.categories.get_indexer([value])[0])
    return code >= 0 and bool(np.any(values.cat.codes.to_numpy() == code))
