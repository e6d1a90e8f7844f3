"""Unreliable parts of a recording, and what to do about them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window, add, contains, length, overlap, union
from ...trace.arrays import IntArray
from ...trace.intervals import NOTHING
from ...trace.report import Statement
from ...trace.schema import Table
from ...trace.source_lines import SAMPLE_COUNTS
from ...units import format_items, format_ns, format_share
from ..scope import WindowLike, bounds, length_within, on_device, on_host, once, recorded_table, step_spans
from ..source.samples import SINCE, sample_times, sampled_slices
from ..time.account import ACCOUNT
from ..time.cpu import cores_were_lost, cpu_use
from ..time.one_time import COMPILATION, LOADING, SLOW
from ..time.phases import stepping_thread, stepping_track
from .device import device_findings

TRUST: Final = Table.of(
    "trust",
    "code:str severity:str count:int64 device_share:float64 finding:str effect:str advice:str example:str",
)

# Whether the run was representative: steps, warm-up, the card's condition.

FEW: Final = 0.8
"""A first or last step with less than this share of the median step's work counts as partial."""
NOTICEABLE: Final = 0.01

_MANY_SAMPLES: Final = 100
"""Samples that suffice to know a share within ten points."""
_SAMPLED: Final = 0.05
"""Sampled share of a thread's time. Below it, nearly all of the time was measured exactly."""

_LATE: Final = 1 / 3
"""py-spy began late if it began after this share of the cell."""

_ENOUGH: Final = 3
_GPU: Final = re.compile(r"GPU (\d+) (.+)")


def run_findings(trace: Trace, window: WindowLike = None) -> Iterator[Statement]:
    """Yield the problems of the recording, in the order of `trust`."""
    yield from _partial_steps(trace, window)
    yield from _compiling(trace, window)
    yield from _slow_first_step(trace, window)
    yield from card_findings(trace, window)
    yield from _lost_cores(trace, window)
    yield from few_samples(trace, window)
    yield from _late_samples(trace)


def step_findings(trace: Trace, window: WindowLike = None) -> Iterator[Statement]:
    """Yield the findings about single steps."""
    yield from _partial_steps(trace, window)
    yield from _slow_first_step(trace, window)


def _partial_steps(trace: Trace, window: WindowLike) -> tuple[Statement, ...]:
    """Find a first or last step that lacks some of the work of other steps."""
    key = ("partial steps", window and tuple(window))
    return once(trace, key, lambda: tuple(_steps_that_lack_work(trace, window)))


def _steps_that_lack_work(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    steps = step_spans(trace, window)
    if len(steps) < _ENOUGH:
        return
    work = on_device(trace, window)
    counts, numbers = np.ones(len(work.rows), bool), work.ints("step")
    if not (numbers >= 0).any():
        work = on_host(trace, window)
        counts, numbers = work.among("category", ("operator", "collective")), work.ints("step")
    of_step = np.bincount(numbers[counts & (numbers >= 0)], minlength=int(steps["step"].max()) + 1)
    count = of_step[steps["step"].to_numpy()]
    usual = float(np.median(count[1:-1]))
    for at, which in ((0, "first"), (-1, "last")):
        if count[at] < FEW * usual:
            number = int(steps["step"].iloc[at])
            spent = np.where(counts, work.end - work.ts, 0)
            total = int(spent.sum())
            yield Statement(
                f"partial-{which}-step",
                f"the {which} step is incomplete",
                severity="loss",
                count=1,
                device_share=float(spent[numbers == number].sum()) / total if total else float("nan"),
                effect=f"step {number} looks shorter, and means over steps are too small",
                advice=f"leave step {number} out",
                example=f"step {number} has {count[at]} pieces of work, the middle ones {usual:g}",
                step=number,
            )


def _compiling(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    """Find compilation and loading of code during the recording."""
    host = on_host(trace, window)
    rows = host.only(host.named(COMPILATION.fullmatch) | host.named(LOADING.fullmatch))
    if len(rows.rows):
        spent = length(union(rows.ts, rows.end))
        extent = max(int(host.end.max()) - int(host.ts.min()), 1)
        first = rows.slices.loc[rows.rows[0]]
        yield Statement(
            "compilation-inside",
            "code was compiled or loaded during the recording",
            severity="loss" if spent >= NOTICEABLE * extent else "info",
            count=len(rows.rows),
            effect=f"{format_ns(spent)} ({format_share(spent / extent)} of the recording) is compiling and "
            "loading of code, which happens once",
            advice="record later steps, as in --steps 3:14",
            example=f"{first['name']} at {format_ns(first['ts'])}",
        )


def _slow_first_step(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    """Find a first step that is much longer than the others."""
    steps = step_spans(trace, window)
    if len(steps) < _ENOUGH + 1:
        return
    dur = steps["dur"].to_numpy()
    usual = float(np.median(dur[1:]))
    if dur[0] >= SLOW * usual and usual:
        yield Statement(
            "slow-first-step",
            "the first step took far longer than the others",
            severity="loss",
            count=1,
            effect="one-time costs are in the sums and means over steps",
            advice="begin a step later, as in --steps 3:14, or leave the first step out",
            example=f"step {int(steps['step'].iloc[0])} took {format_ns(dur[0])}, "
            f"the median of the others is {format_ns(usual)}",
            step=int(steps["step"].iloc[0]),
        )


def card_findings(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    """Find throttling, and other users of the card, from the counters of the `nvml` collector."""
    work = on_device(trace, window)
    if not len(work.rows):
        return
    busy = union(work.ts, work.end)
    total = max(length(busy), 1)
    cut = Window.of(window) if window is not None else trace.span
    tracks = trace.tracks[trace.tracks["kind"] == "counter"]
    matches = {
        int(key): _GPU.fullmatch(str(name)) for key, name in zip(tracks["track"], tracks["name"], strict=True)
    }
    readings = dict(list(trace.counters.groupby("track")))
    counters = [(match[2], readings[key]) for key, match in matches.items() if match and key in readings]
    if not counters:
        if trace.metadata.get("source") == "recording":
            yield Statement(
                "counters-missing",
                "no counters of the GPU were recorded",
                severity="info",
                effect="whether the card was throttled or shared with another process is unknown",
                advice="pip install nvidia-ml-py; see nbp.list_collectors()",
                example="no counters of a GPU were recorded",
            )
        return
    for code, text, counter, effect, advice in (
        (
            "throttled",
            "the GPU was slowed down",
            "throttle reasons",
            "kernels ran slower than the card allows: times are not comparable with other runs",
            "check the clocks, power and temperature; let the card cool, or raise its power limit",
        ),
        (
            "card-shared",
            "another process used the GPU",
            "other processes",
            "another process may have taken device time, which can cause gaps and slow kernels",
            "record on a card that is not shared",
        ),
    ):
        during = NOTHING  # the time in which the counter is above zero; a reading holds until the next one
        for values in (values for name, values in counters if name == counter):
            ts = np.clip(values["ts"].to_numpy(), cut.start, cut.end)
            on = values["value"].to_numpy() > 0
            during = add(during, union(ts[on], np.append(ts[1:], cut.end)[on]))
        if length(during):
            share = length(overlap(busy, during)) / total
            yield Statement(
                code,
                text,
                severity="loss" if share >= NOTICEABLE else "info",
                count=len(during[0]),
                device_share=share,
                effect=effect,
                advice=advice,
                example=f"from {format_ns(int(during[0][0]))} on, {format_ns(length(during))} in all",
                rows=work.rows[length_within(during, work.ts, work.end) > 0],
            )


def _lost_cores(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    """Find long waits of threads for cores that other programs had."""
    use = cpu_use(trace, window=window)
    if not cores_were_lost(use):
        return
    row = use.iloc[0]
    yield Statement(
        "cores-taken",
        "other programs used the cores",
        severity="info",  # the verdict has a line about it
        effect="times are longer than on an idle machine, and differ from run to run",
        advice="record again when the machine is less busy; %%profile_ab compares alternating runs",
        example=f"threads waited for {format_ns(int(row['lost_ns']))} while other programs had the cores, "
        f"{format_share(row['lost_ns'] / row['ready_ns'])} of the time in which they could run",
    )


def few_samples(trace: Trace, window: WindowLike) -> Iterator[Statement]:
    """Yield the error of sampled shares if there are few samples and not nearly all time was timed."""
    # With n independent samples, a share p has the standard error √(p (1 − p) / n); at p = ½, 95 % of them
    # are within 0.98 / √n.
    samples, thread, where = sample_times(trace, window), stepping_track(trace), "in all"
    if samples is None:  # of a file, only the total number of samples is kept
        counts = trace.metadata.get(SAMPLE_COUNTS, {}) if window is None else {}
        count = int(counts.get(str(thread), 0))
    else:
        where = "in the steps" if len(step_spans(trace, window)) else where
        count = len(_samples_that_count(trace, samples, window))
    if 0 < count < _MANY_SAMPLES:
        yield Statement(
            "few-samples",
            "few samples saw the code",
            severity="info",
            count=count,
            effect=f"a share of sampled time may be off by {98 / math.sqrt(count):.0f} points",
            advice="record for longer, or take the lines that were timed: p.lines().exact",
            example=f"{format_items(count, 'sample')} {where}",
        )


def _samples_that_count(trace: Trace, samples: tuple[IntArray, IntArray], window: WindowLike) -> IntArray:
    """Return when the steps' thread was sampled, in the steps if there are any; empty if it was timed."""
    at, track = samples
    steps, host = step_spans(trace, window), stepping_thread(trace, window)
    own = track == stepping_track(trace)
    if len(steps):
        own &= contains(union(*bounds(steps)), at)
        host = host.only(host.ints("step") >= 0)
    sampled_ns = int(host.self_ns[sampled_slices(trace, host)].sum())
    return at[own] if sampled_ns >= _SAMPLED * int(host.self_ns.sum()) else at[:0]


def _late_samples(trace: Trace) -> Iterator[Statement]:
    """Report that py-spy started late in a cell, so a thread of ours took the samples until then."""
    since, cell, samples = trace.metadata.get(SINCE), recorded_table(trace, ACCOUNT), sample_times(trace)
    if not isinstance(since, int) or cell is None or samples is None or "cell" in cell.columns:
        return
    begin, end = int(cell["ts"].min()), int((cell["ts"] + cell["dur"]).max())
    late_ns = since - int(trace.metadata.get("start_unix_ns", 0)) - begin
    at = _samples_that_count(trace, samples, None)
    if late_ns > _LATE * (end - begin) and len(at):
        yield Statement(
            "late-samples",
            "py-spy began late",
            severity="info",
            count=int((at < begin + late_ns).sum()),
            effect="until then a thread sampled, which sees neither calls that hold the GIL nor children: "
            "shares of lines below the cell's statements may be off",
            advice="record again, or longer: py-spy is kept ready between cells",
            example=f"{format_ns(late_ns)} after the cell began; the cell took {format_ns(end - begin)}",
        )


_ORDER = {"error": 0, "loss": 1, "info": 2}


def trust(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the unreliable parts of this recording.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: judge only this part. Findings about the whole recording are always listed.

    Returns
    -------
    DataFrame
        One row per finding: ``code severity count device_share finding effect advice example``; errors
        first, then losses, then information; empty if nothing was found. `device_share` (0–1) is the affected
        share of the summed time of device work, NaN if that does not apply.

        - Device: ``no-device-work``, ``kernels-lost-at-start``, ``kernels-lost-at-end``,
          ``kernels-lost-between``: launches without a kernel, by position; their time is estimated from the
          mean of recorded kernels. ``kernels-before-launch``, ``launch-not-recorded``,
          ``operator-unknown``, ``graph-launch-wrong``, ``clock-shift``, ``stream-overlap``.
        - Run: ``partial-first-step``, ``partial-last-step``, ``compilation-inside``, ``slow-first-step``,
          ``throttled``, ``card-shared``, ``counters-missing``, ``cores-taken``, ``few-samples``,
          ``late-samples``: `count` samples were taken before py-spy began.
        - Everything in ``trace.report`` that is a loss or an error, under its own code.

    Notes
    -----
    Launches are calls of the runtime that start a kernel or a graph: those of a known name, and those of a
    name most of whose calls started a kernel in this recording. Calls during a graph's capture do not count.
    Copies and fills are not checked: with zero bytes they start nothing. A finding is a loss if its share is
    at least 1 %.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [cudaLaunchKernel][cuLaunchKernel]
    ... stream 7:      [gemm       ]
    ... ''', categories={"cudaLaunchKernel": "launch", "cuLaunchKernel": "launch"},
    ...     launches=[("cudaLaunchKernel", "gemm")])
    >>> trust(trace)[["code", "count", "device_share"]].values.tolist()
    [['kernels-lost-at-end', 1, 0.5], ['operator-unknown', 1, 1.0]]
    """
    reported = (one for one in trace.report if one.severity != "info")
    findings = [*device_findings(trace, window), *run_findings(trace, window), *reported]
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    return TRUST.frame({name: [getattr(finding, name) for finding in findings] for name in TRUST.names})
