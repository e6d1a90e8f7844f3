"""Measures each quantity that an expectation can name, with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from ..analysis.device.busy import device
from ..analysis.device.idle import idle_causes
from ..analysis.device.kernels import kernels
from ..analysis.memory.curve import memory_peak
from ..analysis.notebook.cells import cells
from ..analysis.notebook.recorded import is_notebook
from ..analysis.scope import once
from ..analysis.source.annotated import line_steps
from ..analysis.source.lines import CELL, lines
from ..analysis.time.operators import operators
from ..analysis.time.phases import phases
from ..errors import nearest
from ..statistics import (
    LEAST,
    LEVEL,
    FloatArray,
    block_means,
    block_starts,
    counted_steps,
    dependence,
    quantile_interval,
    steps_for_quantile,
    t_quantile,
)
from ..trace import Trace
from ..units import format_ns, format_share
from .language import Expectation

_SAMPLED: Final = "it was sampled, so the number of calls is unknown"
_NOT_COUNTED: Final = "only operators such as aten::copy_ are counted: samples miss calls of Python functions"
_SHOWN: Final = 3
_NO_STEPS: Final = "no steps were recorded: --steps, or nbp.step() in the loop"


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, the ends of its 95 % interval, the call that returns it, and why there is none."""

    value: float
    low: float
    high: float
    call: str
    reason: str = ""
    # its parts, largest first, each with its call; used only if the expectation does not pass
    parts: Callable[[], list[str]] = list


def measured(trace: Trace, expectation: Expectation) -> Measured:
    # counted values have no interval: both ends are the value; an unknown value is nan, with a reason
    result = _MEASURES[expectation.quantity](trace, expectation)
    is_known = not math.isnan(result.value)
    return replace(result, parts=lambda: _parts(trace, expectation)) if is_known else result


def _parts(trace: Trace, expectation: Expectation) -> list[str]:
    """Return the rows with the largest shares of the measured value."""
    used = _used(trace)
    step = [int(one) for one in used["step"]] if len(used) else None
    if expectation.quantity == "step":
        table = phases(trace, step=step).groupby("phase", observed=True)["host_ns"].sum()
        return _largest(table, "phase", _call_of_steps("p.phases", used))
    if expectation.quantity == "phase":
        table = operators(trace, phase=expectation.of, step=step).set_index("name")["self_ns"]
        call = _call_of_steps("p.operators", used).removesuffix(")")
        return _largest(table, "own time of", f"{call}, phase={expectation.of!r})")
    if expectation.quantity == "device":
        table = idle_causes(trace).groupby("cause", observed=True)["idle_ns"].sum()
        return _largest(table, "idle,", "p.device.idle_causes()")
    if expectation.quantity == "sync":
        slices = trace.slices
        rows = slices[(slices["category"] == "sync") & slices["step"].notna()]
        counts = rows["name"].astype(str).value_counts()
        return [f"{count} × {name} (p.trace.slices)" for name, count in counts.head(_SHOWN).items()]
    return []


def _largest(values: pd.Series[int], what: str, call: str) -> list[str]:
    """Format the largest of some times, and their shares of all."""
    whole = max(int(values.sum()), 1)
    shown = values[values > 0].sort_values(ascending=False, kind="stable").head(_SHOWN)
    return [
        f"{what} {name}: {format_ns(spent)}, {format_share(spent / whole)} ({call})"
        for name, spent in zip(shown.index.astype(str), shown.tolist(), strict=True)
    ]


def missing(call: str, reason: str) -> Measured:
    return Measured(math.nan, -math.inf, math.inf, call, reason)


def _exact(value: float, call: str, reason: str = "") -> Measured:
    return Measured(float(value), float(value), float(value), call, reason)


def _shared(trace: Trace, table: Callable[[Trace], pd.DataFrame]) -> pd.DataFrame:
    """Return a table that several expectations use, built once for all that are judged together."""
    return once(trace, ("expectations", table), lambda: table(trace))


def _used(trace: Trace) -> pd.DataFrame:
    steps = _shared(trace, counted_steps)
    return steps[steps["used"] & (steps["step"] >= 0)]


def _call_of_steps(call: str, used: pd.DataFrame) -> str:
    """Return the call with only the steps that count."""
    steps = [int(step) for step in used["step"]]
    whole = bool(steps) and steps == list(range(steps[0], steps[0] + len(steps)))
    return f"{call}(step={f'range({steps[0]}, {steps[-1] + 1})' if whole else steps})"


def _step(trace: Trace, expectation: Expectation) -> Measured:
    """Measure the steps that count: the main loop's, without warm-up."""
    used = _used(trace)
    call, times = _call_of_steps("p.steps", used), used["dur_ns"].to_numpy(np.float64)
    if not len(times):
        return missing("p.steps()", _NO_STEPS)
    of = expectation.of
    if of in ("min", "max"):
        return _exact(float(times.min() if of == "min" else times.max()), call)
    if of == "mean":
        return _mean(times, call, 0.0)
    q = float(of[1:]) / 100
    tau = dependence(times)
    low, high = quantile_interval(times, q, tau)
    few = "" if math.isfinite(high - low) else _few(len(times), math.ceil(tau * steps_for_quantile(q)))
    return Measured(float(np.quantile(times, q)), max(low, 0.0), high, call, few)


def _few(count: int, needed: int) -> str:
    return f"that needs at least {needed} steps, and {count} count here"


def _mean(values: FloatArray, call: str, least: float = -math.inf) -> Measured:
    """Return the mean with Student's t over the means of blocks of neighbours."""
    value = float(values.mean())
    if len(values) < LEAST:
        return Measured(value, least, math.inf, call, _few(len(values), LEAST))
    means = block_means(values, block_starts(values))
    half = t_quantile((1 + LEVEL) / 2, len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
    return Measured(value, max(value - half, least), value + half, call)


def _phase(trace: Trace, expectation: Expectation) -> Measured:
    """Measure the time of a mean step, or its share: then by each step's residual from the common ratio."""
    used, table = _used(trace), _shared(trace, phases)
    if not len(used) or not len(table):
        return missing("p.phases()", _NO_STEPS)
    call = _call_of_steps("p.phases", used)
    if not table.loc[table["phase"] != "other", "host_ns"].any():
        return missing("p.phases()", "no phases were recorded")
    names = sorted(set(table["phase"].astype(str)))
    if expectation.of not in names:
        return missing(call, f"no phase {expectation.of!r} was recorded; {nearest(expectation.of, names)}")
    own = table[table["phase"] == expectation.of].set_index("step")["host_ns"]
    times = own.reindex(used["step"], fill_value=0).to_numpy(np.float64)
    if expectation.unit == "ns":
        return _mean(times, call, 0.0)
    whole = used["dur_ns"].to_numpy(np.float64)
    share, mean_step = times.sum() / whole.sum(), whole.mean()
    off = _mean(times - share * whole, call)
    low, high = (float(share + end / mean_step) for end in (off.low, off.high))
    return Measured(float(share), max(low, 0.0), min(high, 1.0), call, off.reason)


def _device(trace: Trace, expectation: Expectation) -> Measured:
    table = _shared(trace, device)
    if not len(table):
        return missing("p.device()", "no device was recorded")
    share = table[f"{expectation.of}_ns"] / table["window_ns"]
    return _exact(float(share.max() if expectation.operator[0] == "<" else share.min()), "p.device()")


def _peak(trace: Trace, expectation: Expectation) -> Measured:
    table, call = _shared(trace, memory_peak), "p.memory.peak()"
    on_device = table["device"] >= 0
    side = expectation.of or ("device" if on_device.any() else "host")
    rows = table[on_device if side == "device" else ~on_device]
    if not len(rows):
        return missing(call, f"no memory of a {side} was recorded: --memory")
    return _exact(float(rows["peak_bytes"].max()), call)


def _sync(trace: Trace, expectation: Expectation) -> Measured:
    call = "p.trace.slices.query(\"category == 'sync' and step >= 0\")"
    slices = trace.slices
    if not len(_shared(trace, device)):
        return missing(call, "no device was recorded")
    if not slices["category"].isin(("launch", "sync")).any():
        return missing(call, "no calls to the device's runtime were recorded")
    if not slices["step"].notna().any():
        return missing(call, _NO_STEPS)
    return _exact(int(((slices["category"] == "sync") & slices["step"].notna()).sum()), call)


def _operator(trace: Trace, expectation: Expectation) -> Measured:
    """Measure calls of a name on the host; not of Python functions, since samples miss some."""
    call, name, slices = "p.operators()", expectation.of, trace.slices
    if expectation.unit == "count" and len(slices):
        own, python = slices["name"].isin(_names(name)), slices["category"] == "python"
        if (own & python).any():
            return missing(call, _NOT_COUNTED)
        if not own.any() and (python.all() if "::" in name else python.any()):
            return missing(call, _NOT_COUNTED)
    return _of_name(trace, expectation, operators, "self_ns", call)


def _of_name(
    trace: Trace, expectation: Expectation, analysis: Callable[..., pd.DataFrame], column: str, call: str
) -> Measured:
    """Return the count of a name, or its share with an interval."""
    table = _shared(trace, analysis)
    result = _named(table, expectation, call)
    if expectation.unit == "count" or math.isnan(result.value):
        return result
    rows = once(trace, ("by step", analysis), lambda: analysis(trace, by=("name", "step")))
    rows = rows[rows["step"].notna()]
    whole = rows.groupby("step")[column].sum()
    own = rows[rows["name"].astype(str).isin(_names(expectation.of))].groupby("step")[column].sum()
    return _interval_of_share(result, _used(trace), own, whole, int(table[column].sum()))


def _interval_of_share(
    result: Measured, used: pd.DataFrame, spent: pd.Series[int], whole: pd.Series[int], total: float
) -> Measured:
    """Return a share with Student's t over blocks of each step's residual from the common ratio."""
    # time outside of the steps that count is counted, not sampled, and has no part in the interval
    if len(used) < LEAST or not total:
        return result
    own, all_ = (one.reindex(used["step"], fill_value=0).to_numpy(np.float64) for one in (spent, whole))
    ratio = own.sum() / max(all_.sum(), 1.0)
    off = _mean(own - ratio * all_, result.call)
    half = (off.high - off.value) * len(whole) / total  # of all steps, including warm-up
    low, high = max(result.value - half, 0.0), min(result.value + half, 1.0)
    return replace(result, low=low, high=high)


def _names(name: str) -> tuple[str, str]:
    return name, f"aten::{name}"


def _named(table: pd.DataFrame, expectation: Expectation, call: str) -> Measured:
    if not len(table):
        return missing(call, f"no {expectation.quantity}s were recorded")
    names = table["name"].astype(str)
    rows = table[names.isin(_names(expectation.of))]
    none = ""
    if not len(rows):
        none = f"nothing is called {expectation.of!r} in {call}"
        close = nearest(expectation.of, names)
        none += f"; {close}" if close.startswith("did") else ""
    return _column(rows, expectation, call, none)


def _line(trace: Trace, expectation: Expectation) -> Measured:
    table = _shared(trace, lines)
    if not len(table):
        return missing("p.lines()", "no lines were recorded")
    rows = table[(table["file"] == CELL) & (table["line"] == int(expectation.of))]
    if not len(rows) and not table["exact"].all():
        return missing("p.lines()", "lines were sampled, and no sample shows that one")
    if not len(rows):
        return _column(rows, expectation, "p.lines()", "that line did not run")
    result = _column(rows, expectation, "p.lines()", "" if rows["exact"].all() else _SAMPLED)
    if expectation.unit == "count" or not rows["share"].sum():
        return result
    used, by_step = _used(trace), _shared(trace, line_steps)
    own = by_step[(by_step["file"] == CELL) & (by_step["line"] == int(expectation.of))]
    spent = own.groupby("step")["total_ns"].sum()
    span = float(rows["total_ns"].sum() / rows["share"].sum())
    return _interval_of_share(result, used, spent, trace.steps.set_index("step")["dur"], span)


def _column(rows: pd.DataFrame, expectation: Expectation, call: str, reason: str) -> Measured:
    if not len(rows) and expectation.unit == "share":
        return missing(call, reason)  # a wrong name must not pass
    values = rows[expectation.unit]
    return missing(call, reason) if values.isna().any() else _exact(float(values.sum()), call, reason)


def _notebook(trace: Trace, expectation: Expectation) -> Measured:
    call = "p.cells()"
    if not is_notebook(trace):
        return missing(call, "this is not the session of a notebook: %profile_notebook, or notebook-prof run")
    table = cells(trace)
    if expectation.quantity == "notebook":
        return _exact(int(table["wall_ns"].sum()), call)
    row = table[table["number"] == int(expectation.of)]
    if not len(row):
        return missing(call, f"no cell ran as In[{expectation.of}]")
    return _exact(int(row["wall_ns"].iloc[0]), call)


_MEASURES: Final[dict[str, Callable[[Trace, Expectation], Measured]]] = {
    "step": _step,
    "steps": lambda trace, _: _exact(len(trace.steps), "p.steps()"),
    "phase": _phase,
    "device": _device,
    "peak": _peak,
    "sync": _sync,
    "operator": _operator,
    "kernel": lambda trace, one: _of_name(trace, one, kernels, "total_ns", "p.kernels()"),
    "line": _line,
    **dict.fromkeys(("notebook", "cell"), _notebook),
    **dict.fromkeys(
        ("slower", "faster"),
        lambda *_: missing("nbp.compare(a, b)", "one run cannot tell: nbp.compare(a, b).expect(…)"),
    ),
}
