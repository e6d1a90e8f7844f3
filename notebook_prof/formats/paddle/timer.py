"""Writes what Paddle's profiler prints with ``timer_only=True``: reader cost, batch cost and ips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...analysis.time.phases import phases
from ...analysis.work.training import step_counts
from ...errors import OptionError
from ...trace import Trace
from ...trace.arrays import FloatArray

SKIPPED: Final = 10
"""Number of iterations that Paddle leaves out of its summary."""


def paddle_timer(
    trace: Trace, *, samples: float | Sequence[float] | None = None, unit: str = "samples"
) -> str:
    """Write the text of ``Profiler.step_info(unit)`` and the final one of ``Profiler(timer_only=True)``.

    Parameters
    ----------
    trace : Trace
        Its steps are Paddle's iterations, and their time in the data phase is the reader cost.
    samples : number or sequence of them, optional
        Samples per step. By default those found by `notebook_prof.analysis.work.training.step_counts`;
        without any, ips are steps per second.
    unit : str
        What a sample is called.

    Returns
    -------
    str
        One line about all steps and, with more than ten steps, the summary; empty without steps.

    Raises
    ------
    OptionError
        If `samples` are not positive numbers, or not as many as there are steps.

    Notes
    -----
    The output equals Paddle's to the character, including its peculiarities: the summary leaves out ten
    iterations for the reader and nine for batches, divides both by the number left after ten, and never
    counts the first value as a minimum (``inf`` if none is smaller). Source:
    ``python/paddle/profiler/timer.py`` of Paddle 2.4 and later.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.steps(range(2), [0, 500_000_000], [500_000_000] * 2, "mark")
    >>> _ = b.slices(ts=0, dur=1_000_000_000, name="train", track=b.track("main"))
    >>> paddle_timer(b.seal(), samples=16, unit="images")
    ' batch_cost: 0.50000 s ips: 32.000 images/s'
    """
    table = trace.steps.sort_values("ts").rename(columns={"dur": "dur_ns"})
    if not len(table):
        return ""
    batch = table["dur_ns"].to_numpy(np.float64) / 1e9
    by_phase = phases(trace)
    data = by_phase[(by_phase["phase"] == "data").to_numpy()].set_index("step")["host_ns"]
    reader = data.reindex(table["step"], fill_value=0).to_numpy(np.float64) / 1e9
    batch_samples = _samples(trace, table, samples)
    speed_unit = "steps/s" if batch_samples is None else f"{unit}/s"
    count = np.ones(len(batch)) if batch_samples is None else batch_samples
    line = f" reader_cost: {reader[reader > 0].mean():.5f} s" if (reader > 0).any() else ""
    line += f" batch_cost: {batch.mean():.5f} s ips: {count.sum() / batch.sum():.3f} {speed_unit}"
    return "\n".join([line, *_summary(reader, batch, count, speed_unit)])


def _samples(trace: Trace, table: Any, samples: float | Sequence[float] | None) -> FloatArray | None:
    count = len(table)
    if samples is None:
        recorded = step_counts(trace, table, "samples").values
        return recorded if np.isfinite(recorded).all() else None
    values = np.atleast_1d(np.asarray(samples, dtype=np.float64))
    if not (np.isfinite(values) & (values > 0)).all() or len(values) not in (1, count):
        raise OptionError(f"samples={samples!r} is not a positive number, nor one for each of {count} steps")
    return np.asarray(np.broadcast_to(values, count), dtype=np.float64)


def _summary(reader: FloatArray, batch: FloatArray, count: FloatArray, speed_unit: str) -> list[str]:
    """Return the lines of the block *Perf Summary*; none for up to ten steps."""
    left = len(batch) - SKIPPED
    if left <= 0:
        return []
    read, cost, moved = reader[SKIPPED:], batch[SKIPPED - 1 :], count[SKIPPED - 1 :]
    read = read[read > 0]
    reader_average, batch_average = read.sum() / left, cost.sum() / left
    # for steps per second, Paddle divides the steps that are left by the time of one more
    moved_in_all = left if speed_unit == "steps/s" else moved.sum()
    lines = ["Perf Summary".center(100, "=")]
    if reader_average:
        lines.append(f"Reader Ratio: {100 * reader_average / batch_average:.3f}%")
    lines.append(f"Time Unit: s, IPS Unit: {speed_unit}")
    lines.append(_line("", "avg", "max", "min"))
    if reader_average:
        lines.append(_line("reader_cost", *_numbers(reader_average, read)))
    lines.append(_line("batch_cost", *_numbers(batch_average, cost)))
    lines.append(_line("ips", *_numbers(moved_in_all / cost.sum(), moved / cost)))
    return lines


def _numbers(average: float, values: FloatArray) -> list[str]:
    """Return the average, the largest and the smallest."""
    # a value that is a new largest is not considered as a smallest
    before = np.concatenate([[0.0], np.maximum.accumulate(values)[:-1]])
    other = values[values <= before]
    return [f"{number:.5f}" for number in (average, values.max(), other.min() if len(other) else np.inf)]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.center(15) for cell in cells) + " |"
