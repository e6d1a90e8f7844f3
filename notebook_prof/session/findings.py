"""Issues about the steps of a recording, and facts that are kept for later recordings."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Final

from ..trace.report import ImportReport
from ..trace.trace import Trace
from ..units import format_items, format_ns, format_share
from .records import EarlyEnd, StepRecords
from .schedule import ScheduleFunction, StepRange, WholeRun
from .ticks import SHORTEST_NS
from .window import StepWindow, TickSource

_first_delay_ns: int | None = None
_TEXTS: Final = ("out of memory", "can't allocate memory", "RESOURCE_EXHAUSTED")
_MOST_CHARACTERS: Final = 400
_WORDS: Final = {
    TickSource.MARK: "nbp.step()",
    TickSource.LOOP: "the training loop",
    TickSource.HOOK: "optimizer.step()",
    TickSource.WEAK_LOOP: "the loop of the cell",
}


def steps_missing(
    report: ImportReport, schedule: ScheduleFunction, window: StepWindow, error: str = ""
) -> None:
    """Report that fewer steps ran than requested, or that no warm-up could precede the first step."""
    if isinstance(schedule, WholeRun):
        return
    steps_text, step_count = str(schedule), window.step_count
    ran = "1 step ran" if step_count == 1 else f"{step_count} steps ran" if step_count else "no step was seen"
    if error:
        ran += f", and the code ended with {error}"
    advice = "request steps that run: --steps 0:1 records the only one"
    if step_count > 1:
        recorded = format_items(step_count - 1, "step")
        advice = f"request steps that run: --steps 1:{step_count} records {recorded}"
    if not step_count:
        advice = (
            "count steps with nbp.step(), by batches with --step-by dataloader, "
            "or by a loop of the cell with --loop LINE"
        )
    if isinstance(schedule, StepRange):
        requested = f"steps {steps_text} were requested, {ran}"
        if step_count <= schedule.first and (schedule.first or schedule.end is not None):
            effect = "nothing was recorded" if not window.cycles else "no complete step was recorded"
            report.add("steps-not-reached", "loss", 1, requested, effect, advice)
        elif schedule.end is not None and step_count < schedule.end:
            effect = f"steps {schedule.first} to {step_count - 1} are recorded"
            report.add("fewer-steps", "info", 1, requested, effect)
        if schedule.first == 0:
            example = "step 0 is the first recorded one, so none could warm up before it"
            effect, advice = "one-time costs count in step 0", "begin at step 1 or later"
            report.add("no-warmup", "info", 1, example, effect, advice)
    elif not window.cycles:
        report.add("steps-not-reached", "loss", 1, f"{steps_text}; {ran}", "nothing was recorded", advice)


def ended_early(report: ImportReport, end: EarlyEnd, recorded: Sequence[StepRecords]) -> bool:
    """Report why a recording ended early, or that its median step is uncertain; return whether it did end."""
    precision = ""
    if end.until is not None and recorded:
        width = end.half_width(recorded[-1])
        median, low, high = end.interval or (0.0, 0.0, 0.0)
        precision = (
            f"the median step is known to ±{format_share(width)}: {format_ns(low)} … {format_ns(high)}"
            if math.isfinite(width)
            else f"too few steps ran to know it{f', about {format_ns(median)}' if median else ''}"
        )
    if not end.reason:
        if precision:
            asked_for = f"known to {format_share(end.until or 0.0)} was requested; {precision}"
            report.add("median-not-known", "info", 1, asked_for, "all steps were recorded")
        return False
    if end.reason == "size":
        report.add(
            "ended-early",
            "loss",
            example=f"PyTorch's profiler had collected {end.events:,} events, allocations included: "
            "with more, it would take gigabytes when it stops",
            effect="later code is in the account only",
            advice="record a few steps only: --steps 3:14, or steps=(3, 14)",
        )
        return True
    why = "it was stopped by hand" if end.reason == "asked" else f"as requested, since {precision}"
    report.add(
        "ended-early", "info", 1, f"{why}; {format_items(end.step, 'step')} had ended",
        "later steps, and the code after them, are in the account only",
    )  # fmt: skip
    return True


def operators_ended(report: ImportReport, events: int, after_ns: int) -> None:
    """Report that PyTorch's profiler was stopped before the end of the recording."""
    report.add(
        "operators-ended",
        "loss",
        example=f"the process grew steadily, so PyTorch's profiler was ended after {format_ns(after_ns)}; "
        f"it had collected {events:,} events",
        effect="later operators are not recorded",
        advice="record a few steps only: --steps 3:14, or steps=(3, 14)",
    )


def sources_that_lost(report: ImportReport, window: StepWindow, loop_line: int | None) -> None:
    """Report that sources other than the chosen one also saw steps."""
    for source, count in sorted(window.ignored.items(), reverse=True):
        if window.source is None and loop_line is not None and source is TickSource.HOOK:
            example = f"the loop in line {loop_line} did not run, {_WORDS[source]} did, {count} times"
            effect = "steps were not counted"
            advice = "use --step-by optimizer"
            report.add("loop-never-ran", "loss", example=example, effect=effect, advice=advice)
        elif window.source is not None and source > window.source:
            example = f"{_WORDS[source]} came after the window had been placed"
            effect = f"steps are those of {_WORDS[window.source]}"
            advice = f"use --step-by {'mark' if source is TickSource.MARK else 'loop'}"
            report.add("better-steps-ignored", "info", count, example, effect, advice)


def loops_given_up(report: ImportReport, window: StepWindow) -> None:
    """Report loops whose iterations were too short to be counted."""
    for run in window.given_up:
        example = f"iterations of line {run.line}, {run.text}, take less than {SHORTEST_NS // 1000} µs"
        effect = "counting them would cost more than they do: the loop went on without steps"
        advice = "count the steps of an enclosing loop with --loop LINE"
        report.add("steps-too-short", "info", example=example, effect=effect, advice=advice)


def steps_elsewhere(report: ImportReport, thread: threading.Thread | None, cell: int) -> None:
    """Report that steps ran in a thread other than the cell's, in which torch records no operators."""
    if thread is not None and thread.ident != cell:
        example = f"steps ran in thread {thread.name!r}, not in the cell's thread"
        effect = "torch records operators of other threads only if it does not record memory"
        advice = "use --no-memory, or train in the cell's own thread"
        report.add("steps-in-another-thread", "loss", example=example, effect=effect, advice=advice)


def partial_steps(report: ImportReport, steps: StepRecords) -> None:
    if steps.partial:
        first, why = min(steps.partial), " ended with an exception"
        if first in steps.halted:
            why = ": PyTorch's events were counted in it, since the process grew steadily"
        effect = "it is kept, and shorter than a complete one"
        report.add("partial-step", "info", len(steps.partial), f"step {first}{why}", effect)


def torch_came_late(report: ImportReport, collectors: Sequence[str]) -> None:
    """Report that torch was imported during the recording and not recorded."""
    if "torch" not in collectors:
        example = "torch was imported by another thread, or after the recorded steps"
        effect = "the profile has no operators"
        advice = "import torch before the recording, or in the thread that it began in"
        report.add("torch-imported-late", "loss", example=example, effect=effect, advice=advice)


def first_launch_delay() -> dict[str, int]:
    """Return metadata about this process's first recording with device work; empty in that recording."""
    return {} if _first_delay_ns is None else {"first_launch_delay_ns": _first_delay_ns}


def remember_launch_delay(trace: Trace) -> None:
    """Store the shortest launch delay of a recording, if none is stored yet."""
    # later recordings are compared with the first one, not with each other, so a lasting shift is reported in
    # each of them
    global _first_delay_ns
    if _first_delay_ns is None:
        from ..analysis.device.kernel_launches import least_launch_delay  # imports all analyses

        _first_delay_ns = least_launch_delay(trace)


def out_of_memory(error: BaseException | None) -> dict[str, str]:
    """Return the type and text of an out-of-memory error; empty for any other error."""
    if error is None:
        return {}
    cls = type(error)
    arguments = BaseException.__dict__["args"].__get__(error)  # not str(error), which may run user code
    text = arguments[0] if arguments and type(arguments[0]) is str else ""
    name_of = type.__dict__["__name__"].__get__
    names = [name_of(one) for one in type.__dict__["__mro__"].__get__(cls)]
    is_of_memory = "MemoryError" in names or "OutOfMemoryError" in names
    if not is_of_memory and not ("RuntimeError" in names and any(words in text for words in _TEXTS)):
        return {}
    return {"error": names[0], "text": text[:_MOST_CHARACTERS]}
