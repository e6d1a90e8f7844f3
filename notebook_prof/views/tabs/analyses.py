"""Analyses under the selection, and quick checks of a trace's content."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ... import analysis
from ...analysis.scope import recorded_table
from ...selection import Selection
from ...selection.frames import ARGUMENTS
from ...trace import Trace

NO_STEPS = (
    "No steps were found. Mark them with nbp.step(), iterate nbp.steps(loader), or choose a loop with --loop."
)


def unless(recorded: Callable[[Trace], object], sentence: str) -> Callable[[Trace], str]:
    """Return a function of a trace: the sentence, or an empty text if something was recorded."""
    return lambda trace: "" if recorded(trace) else sentence


without_steps: Final = unless(
    lambda trace: len(trace.steps) or recorded_table(trace, "step_trace") is not None, NO_STEPS
)
without_memory: Final = unless(
    lambda trace: len(trace.allocations) or len(analysis.memory(trace)),
    "No memory events were recorded. Record with --memory (or memory=True) to see them.",
)
without_input: Final = unless(
    lambda trace: (
        recorded_table(trace, "minddata_queue") is not None
        or (has_value(trace, "phase", "data") and len(trace.steps))
    ),
    "How steps got their data was not recorded: there is no DataLoader and no phase data. "
    "Use a DataLoader, or put nbp.annotate('load', phase='data') around the loading code.",
)
without_collectives: Final = unless(
    lambda trace: (
        has_value(trace, "category", "collective") or recorded_table(trace, "collectives") is not None
    ),
    "No communication was recorded: this run used one process, or its collectives were not recorded.",
)
without_device: Final = unless(
    lambda trace: (trace.tracks["kind"] == "stream").any(),
    "No work of a GPU or other device was recorded: this run used the host, or its kernels were not "
    "recorded.",
)


def has_value(trace: Trace, column: str, value: str) -> bool:
    """Return whether any slice has this value in a column such as `category` or `phase`."""
    values = trace.slices[column]
    code = int(values.cat.categories.get_indexer([value])[0])
    return code >= 0 and bool(np.any(values.cat.codes.to_numpy() == code))


def selection_of(state: Mapping[str, Any]) -> Selection:
    return Selection(**{name: state[name] for name in ARGUMENTS if state.get(name) is not None})


def arguments(analysis: Callable[..., Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the clauses of a selection that an analysis has parameters for.

    >>> from notebook_prof import analysis
    >>> arguments(analysis.steps, Selection(step=4, name="mm").to_state())
    {'step': [4]}
    """
    # `state` is as `Selection.to_state` gives it
    parameters = inspect.signature(analysis).parameters
    return {name: state[name] for name in ARGUMENTS if name in parameters and state.get(name) is not None}


def followed(*analyses: Callable[..., Any]) -> tuple[str, ...]:
    """Return the dimensions that any of the analyses has a parameter for, for `Panel.under`."""
    names = {name for analysis in analyses for name in inspect.signature(analysis).parameters}
    return tuple(name for name in ARGUMENTS if name in names)
