"""The inputs of a verdict, gathered once, each with its public table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from ...labels import merged_name
from ...trace import Trace, Window, length, union
from ...trace.intervals import contains
from ...units import format_share
from ..device.busy import device
from ..device.kernels import kernels
from ..grouping import merged_names
from ..memory.curve import memory_peak
from ..memory.growth import level_growth, matters
from ..name_labels import name_labels
from ..scope import Scope, WindowLike, bounds, on_device, on_host, once, step_spans, texts
from ..source.hotspots import HotLines, hot_lines
from ..time.account import ACCOUNT, account, account_spans
from ..time.phases import phases, stepping_thread, stepping_track
from ..time.thread_time import thread_time
from ..trust.trust import few_samples
from .claims import Claim, Sentence, Source, cite, cite_count, cite_ns, say

OPERATORS: Final = ("operator", "collective")
KERNELS: Final = ("kernel", "collective")
_ENOUGH_STEPS: Final = 4
_RUNTIME_CALLS: Final = ("kineto", "recording")
"""Sources that record all runtime calls, so that waits for a device do not look like host work."""
LITTLE: Final = 0.1
NEARLY_ALL: Final = 0.9
MOST: Final = 0.5
"""Minimum share of a part that is most of a whole."""
WAITING: Final = 0.25
"""Data, communication or synchronisation bounds a run if it takes at least this share of the time."""
FEWEST: Final = 10
"""Minimum number of samples to show which part is longest: half gets two to seven of nine samples."""
_LINKED: Final = 0.9
_MOST_UNKNOWN: Final = 0.5
_MOST_SLICES: Final = 2_000_000
"""Maximum slices for a critical path: with more it takes seconds, and users read the verdict first."""
_MOST_REPLAYED: Final = 200_000
"""Maximum slices for a replay, for the same reason."""


@dataclass(frozen=True)
class VerdictInputs:
    """Measurements in the steps of a trace or, without steps, in all of it."""

    trace: Trace
    window: WindowLike
    # Wall time that shares refer to: the steps, else the cell, else from the first work to the last.
    total_ns: int
    # Where `total_ns` comes from: a public table.
    total: Source
    # From the first step to the last, or the extent of `total_ns`.
    extent: Window
    steps: pd.DataFrame
    # Host time by phase, over all steps; without steps, only that of phase data, if there is any.
    phase_ns: dict[str, int]
    # Operators on the thread of the steps.
    calls: int
    # Self time during which that thread waits for a device.
    sync_ns: int
    # That thread's operators by self time: ``name count self_ns``; or everything that it ran, if it ran
    # mostly no operators (`top_is_python`).
    top: pd.DataFrame
    top_is_python: bool
    kernels: pd.DataFrame
    device: pd.DataFrame
    peak: pd.DataFrame
    # Growth of memory per step, if certain, by device and source; only if the whole trace is judged.
    growth_bytes: dict[tuple[int, str], int]
    # Slices of the thread of the steps.
    thread: Scope

    @property
    def count(self) -> int:
        """Number of steps, at least 1."""
        return max(len(self.steps), 1)

    @property
    def whole(self) -> str:
        """What 100 % stands for, in words: the steps, the cell, the window, the recording or its thread."""
        if len(self.steps):
            return "the steps"
        if self.window is None and "no-time-line" in self.trace.report:  # threads lie beside one another
            tracks = self.trace.tracks
            if (tracks["kind"] == "thread").sum() > 1:
                return "the longest thread"
        return "the cell" if self.is_cell else "the recording" if self.window is None else "the window"

    @property
    def has_time_unit(self) -> bool:
        """Whether durations are times. Otherwise they are weights without a unit."""
        return self.trace.metadata.get("time_unit", True) is not False

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each name, as in the views."""
        return name_labels(self.trace)

    def label(self, name: object) -> str:
        """Return the label of a name, unique in the trace."""
        return self.labels.get(str(name), str(name))

    @cached_property
    def own(self) -> tuple[int, Source, str]:
        """The denominator of shares of self time: ns, source, and name in words."""
        # The thread's self time may exceed the steps, since work that begins in a step may end after it.
        spent = int(self.thread.self_ns.sum())
        if not len(self.steps) or spent <= self.total_ns:
            return self.total_ns, self.total, self.whole
        source = Source("operators", "self_ns", {"track": stepping_track(self.trace)}, self._by_name)
        return spent, source, "the work begun in the steps"

    @property
    def _by_name(self) -> dict[str, Any]:
        return {"by": ("name", "track"), **self.in_steps}

    def self_time(self, name: str | tuple[str, ...]) -> Source:
        """The source of the self time in `top` of one name or several."""
        kinds = {} if self.top_is_python else {"category": OPERATORS}
        merged = merged_name(name) if isinstance(name, str) else tuple(map(merged_name, name))
        where = {"name": merged, "track": stepping_track(self.trace)}
        return Source("operators", "self_ns", where, {**self._by_name, **kinds})

    def part_of_whole(self, ns: int, source: Source, select: Mapping[str, Any]) -> Sentence:
        """Write a part of `total_ns`, like ``79.5 % of the steps (79 ms of 100 ms)``."""
        share = self.sampled_share(ns / max(self.total_ns, 1), source, self.total, select)
        of = cite_ns(self.total_ns, self.total)
        if not self.has_time_unit:
            return say(share, f" of {self.whole}")
        if self.few is not None:
            return say(share, f" of {self.whole} (", self.samples(), " in ", of, ")")
        return say(share, f" of {self.whole} (", cite_ns(ns, source), " of ", of, ")")

    @cached_property
    def few(self) -> Any:
        """The trust report's statement that the thread has few samples; None if it has enough."""
        return next(iter(few_samples(self.trace, self.window)), None)

    def samples(self) -> Claim:
        """Return the number of samples, as a claim. Only valid if `few` is not None."""
        return cite_count(
            self.few.count, "sample", Source("trust", "count", {"code": self.few.code}, self.arguments)
        )

    def sampled_share(
        self, share: float, source: Source, of: Source, select: Mapping[str, Any], *, exact: bool = False
    ) -> Claim:
        """Return a share of sampled time, without decimals if there are few samples."""
        digits = 1 if exact or self.few is None else 0
        return cite(format_share(share, digits), share, source, of, select)

    def in_phase(self, phase: str) -> Source:
        if len(self.steps):
            return Source("phases", "host_ns", {"phase": phase}, self.arguments)
        where = {"phase": phase, "track": stepping_track(self.trace)}
        return Source("operators", "total_ns", where, {"by": ("phase", "track"), **self.arguments})

    def of_kernels(self, column: str, **where: Any) -> Source:
        return Source("kernels", column, where, {**self.in_steps, "category": KERNELS})

    @property
    def is_cell(self) -> bool:
        """Whether a recorded cell has an account, and all of the cell is judged."""
        return self.window is None and ACCOUNT in (self.trace.metadata.get("tables") or {})

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments that restrict an analysis to the same part of the trace."""
        return {} if self.window is None else {"window": tuple(self.window)}

    @property
    def in_steps(self) -> Mapping[str, Any]:
        """The same for analyses that take steps: also their numbers."""
        steps = {"step": tuple(self.steps["step"].tolist())} if len(self.steps) else {}
        return {**self.arguments, **steps}

    @cached_property
    def account(self) -> pd.DataFrame:
        return account(self.trace)

    @cached_property
    def cell_ns(self) -> int:
        return int(self.account["dur"].sum())

    @cached_property
    def thread_time(self) -> pd.DataFrame:
        return thread_time(self.trace, window=self.window).set_index("state")

    @cached_property
    def path(self) -> pd.DataFrame | None:
        """Critical path by class, to the end of the last step or later device work; None if not reliable."""
        # See `verdict`; work queued before the recording need not be linked to a launch.
        trace = self.trace
        if trace.metadata.get("source") not in _RUNTIME_CALLS or len(trace.slices) > _MOST_SLICES:
            return None
        if not (self._is_linked if len(self.device) else self.calls):
            return None
        from ..critical_path.path import critical_path

        path = critical_path(trace, **self.path_arguments).set_index("class")
        return path if path["share"].get("idle", 0.0) <= _MOST_UNKNOWN else None

    @property
    def _is_linked(self) -> bool:
        """Whether the launch of nearly all device work is known."""
        from ..device.kernel_launches import launch_calls

        trace, work = self.trace, on_device(self.trace, self.extent)
        linked, track = launch_calls(trace)[work.rows] >= 0, work.ints("track")
        first = np.full(int(track.max(initial=0)) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, track[linked], work.ts[linked])
        earlier = np.isin(track, track[linked]) & (work.ts < first[track])
        return bool(len(linked) and (linked | earlier).mean() >= _LINKED)

    @cached_property
    def next_class(self) -> dict[str, Any] | None:
        """The path's largest class if the present one took no time; None if unknown."""
        # Unknown for communication: it waits for other ranks, which a single recording does not contain.
        if self.path is None or len(self.trace.slices) > _MOST_REPLAYED:
            return None
        if self.path.index[0] == "communication":
            return None
        from ..critical_path.replay.what_if import critical_path_next

        table = critical_path_next(self.trace, **self.next_arguments)
        if not len(table) or table["class"].iloc[0] != self.path.index[0]:
            return None
        if table["next"].iloc[0] in ("", table["class"].iloc[0]):  # gaps of the class remain
            return None
        row: dict[str, Any] = table.iloc[0].to_dict()
        return row

    @property
    def next_arguments(self) -> dict[str, Any]:
        """Arguments of `critical_path_next` for `next_class`."""
        return {"count": 1, "window": tuple(self.extent), "end": "last"}

    @property
    def path_arguments(self) -> dict[str, Any]:
        return {"by": "class", "window": tuple(self.extent), "end": "last"}

    @cached_property
    def hot(self) -> HotLines:
        """Lines of the judged part of the trace, hottest first."""
        return hot_lines(self.trace, window=self.window)


def gather(trace: Trace, window: WindowLike = None) -> VerdictInputs:
    """Measure everything that `verdict` needs."""
    return once(trace, ("verdict inputs", window and tuple(window)), lambda: _gather(trace, window))


def _gather(trace: Trace, window: WindowLike) -> VerdictInputs:
    spans = step_spans(trace, window)
    thread = stepping_thread(trace, window)
    arguments: dict[str, Any] = {} if window is None else {"window": tuple(window)}
    extent = _extent(trace, window, spans)
    if len(spans):
        thread = thread.only(contains(union(*bounds(spans)), thread.ts))
        total_ns, total = int(spans["dur"].sum()), Source("steps", "dur", arguments=arguments)
        by_phase = phases(trace, window=window).groupby("phase", observed=True)["host_ns"].sum()
        phase_ns = {str(name): int(spent) for name, spent in by_phase.items()}
    else:
        total_ns, total = extent.dur, Source("thread_time", "ns", arguments={"window": tuple(extent)})
        has_account = ACCOUNT in (trace.metadata.get("tables") or {})
        is_ours = trace.metadata.get("source") == "recording" and len(trace.slices) > 0
        if window is None and (has_account or is_ours):
            total_ns, total = int(account_spans(trace)["dur"].sum()), Source("account", "dur")
        loading = length(thread.open(thread.among("phase", ("data",))))
        phase_ns = {"data": loading} if loading else {}
    own_operators = thread.only(thread.among("category", OPERATORS))
    python = int(thread.self_ns[thread.among("category", ("python",))].sum())
    mostly_python = not own_operators.self_ns.sum() or python > int(own_operators.self_ns.sum())
    longest = thread if mostly_python else own_operators
    code = merged_names(map(str, trace.slices["name"].cat.categories))[longest.codes("name")]
    by_name = pd.Series(longest.self_ns).groupby(code).agg(count="size", self_ns="sum")
    top = by_name.sort_values("self_ns", ascending=False, kind="stable")
    top.insert(0, "name", texts(longest.slices["name"], top.index.to_numpy()).array)
    number = spans["step"].tolist() if len(spans) else None
    return VerdictInputs(
        trace=trace,
        window=window,
        total_ns=total_ns,
        total=total,
        extent=extent,
        steps=spans,
        phase_ns=phase_ns,
        calls=len(own_operators.rows),
        sync_ns=int(thread.self_ns[thread.among("category", ("sync",))].sum()),
        top=top.reset_index(drop=True),
        top_is_python=bool(mostly_python),
        kernels=kernels(trace, window=window, step=number, category=KERNELS),
        device=device(trace, window=extent),
        peak=memory_peak(trace, window=window),
        growth_bytes=_growth(trace) if window is None else {},
        thread=thread,
    )


def judged_extent(trace: Trace) -> Window:
    """Return the extent of a verdict: from the first step to the last, or from the first work to the last."""
    spans = step_spans(trace, None)
    return _extent(trace, None, spans)


def _extent(trace: Trace, window: WindowLike, spans: pd.DataFrame) -> Window:
    """Return the span from the first step to the last or, without steps, from the first work to the last."""
    if len(spans):
        start, end = bounds(spans)
    else:
        work = on_host(trace, window), on_device(trace, window)
        start, end = (np.concatenate([getattr(part, name) for part in work]) for name in ("ts", "end"))
    return Window(int(start.min()), int(end.max())) if len(start) else Window(0, 0)


def _growth(trace: Trace) -> dict[tuple[int, str], int]:
    """Return the median growth from step to step of each device and source with certain growth."""
    table = level_growth(trace)
    table = table[table["grows"] & (table["steps"] >= _ENOUGH_STEPS - 1)]
    if not len(table):
        return {}
    # If blocks are known, some must be left behind: a queue of batches that fills up over a few steps is no
    # leak. The growth must be worth reporting; see `matters`.
    with_blocks, staying = set(trace.allocations["device"].unique()), set()
    if (table["source"] == "allocator").any():
        from ..memory.growth import memory_growth

        blocks = memory_growth(trace)
        staying = set(blocks.loc[blocks["source"] == "allocator", "device"])
    peaks, growth = memory_peak(trace), {}
    for row in table.to_dict("records"):
        device, source, size = int(row["device"]), str(row["source"]), int(row["growth_bytes"])
        kept = source != "allocator" or device in staying or device not in with_blocks
        if kept and matters(size, int(row["steps"]), peaks, device, source):
            growth[device, source] = size
    return growth
