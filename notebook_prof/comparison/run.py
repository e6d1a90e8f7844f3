"""One side of a comparison: its runs and their counted steps.

A run is a Trace, or the totals kept from one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
import pandas as pd

from ..analysis.source.annotated import source_texts
from ..analysis.source.lines import CELL, lines
from ..analysis.time.cpu import cpu_within
from ..analysis.time.phases import phases
from ..errors import OptionError
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from ..statistics import FloatArray, block_starts, counted_steps
from ..trace import PHASES, Trace
from ..trace.arrays import IntArray
from ..trace.source_lines import text_lines
from .changes import facts_of
from .parts import (
    MOST_KEYS,
    OwnedTime,
    StepParts,
    joined,
    limited,
    owned_time,
    renamed,
    undivided,
)

if TYPE_CHECKING:
    from ..expectations.language import Expectation
    from ..expectations.quantities import Measured

TOTALS: Final = {
    "phases": (("phase",), "host"),
    "operators": (("phase", "name"), "host"),
    "lines": (("line",), "host"),
    "kernels": (("name",), "device"),
}
"""Tables of a `Comparison` whose totals are kept: keys and view."""
MOST_STEPS: Final = 1000
"""Maximum number of steps that are kept. Of more, only every n-th is kept."""
MOST_SLICES: Final = 2_000_000
"""Recordings with more slices are divided by phase only, since other keys take seconds."""
_MOSTLY: Final = 0.5


def core_share(trace: Trace) -> float | None:
    """Return the share of the recorded thread's ready time with a core; None if unknown or mostly blocked."""
    if not isinstance(trace.metadata.get("cpu"), dict):
        return None
    within = cpu_within(trace, np.array([trace.span.start]), np.array([trace.span.end]))
    if within is None or within[1] is None or within[2] is None:
        return None
    on_core, ready = int(within[1][0]), trace.span.dur - int(within[2][0])
    return min(on_core / ready, 1.0) if on_core and ready >= _MOSTLY * trace.span.dur else None


class TraceRun:
    """A run with its Trace."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        # ``step ts dur_ns used slow``: every step of the longest loop; a recording without steps has one that
        # covers all of it, numbered -1
        self.steps = counted_steps(profile.trace)
        self._owned_by_view: dict[str, OwnedTime] = {}

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.profile.trace

    @property
    def has_time_unit(self) -> bool:
        """Whether durations are times. Otherwise they are weights without a unit."""
        return self.trace.metadata.get("time_unit", True) is not False

    @functools.cached_property
    def core_share(self) -> float | None:
        """The share of its thread's ready time with a core, 0–1; None if unknown."""
        return core_share(self.trace)

    def parts(self, by: Sequence[str], view: str, lines: Mapping[str, str] | None = None) -> StepParts:
        """Divide the counted steps by key."""
        return self._owned(view).parts(by, lines)

    def phases(self) -> StepParts:
        """Divide the counted steps into phases, by the rule of `analysis.phases`."""
        spans, blocks = self._spans()
        table = phases(self.trace, step=spans["step"].tolist()) if len(self.trace.steps) else None
        if table is None or not len(table):
            return self._owned("host").parts(("phase",))
        of_step = {step: i for i, step in enumerate(table["step"].unique().tolist())}
        every = table["host_ns"].to_numpy(np.int64).reshape(-1, len(PHASES))
        sums = np.add.reduceat(every[[of_step[step] for step in spans["step"]]], blocks, axis=0)
        sizes = np.diff(np.append(blocks, len(spans)))
        keys: list[tuple[str, ...]] = [(name,) for name in PHASES]
        return StepParts(keys, sums, np.full(len(keys), len(spans), np.int64), sizes)

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Return the lines of each recorded source."""
        return source_texts(self.trace)

    def line_labels(self) -> list[str]:
        return list(map(str, self.trace.slices["line"].cat.categories))

    @functools.cached_property
    def sampled_lines(self) -> frozenset[str]:
        """Labels of sampled lines, each with the full path and with the file name only."""
        table = lines(self.trace)
        files = table.loc[~table["exact"], ["file", "line"]].astype(str).to_numpy().tolist()
        return frozenset(f"{one}:{line}" for file, line in files for one in (file, os.path.basename(file)))

    def facts(self) -> Mapping[str, str]:
        """Return the conditions apart from the code, named as in `conditions`."""
        return facts_of(self.trace)

    def peaks(self) -> pd.DataFrame:
        """Return ``device source bytes``: the peak above the initial level."""
        peaks = self.profile.memory.peak()
        above = peaks.assign(bytes=peaks["peak_bytes"] - peaks["base_bytes"])
        return above[["device", "source", "bytes"]]

    def _owned(self, view: str) -> OwnedTime:
        if view not in self._owned_by_view:
            self._owned_by_view[view] = owned_time(self.trace, *self._spans(), view)
        return self._owned_by_view[view]

    def _spans(self) -> tuple[pd.DataFrame, IntArray]:
        """Return the counted steps, and the starts of their blocks."""
        used = self.steps[self.steps["used"]].sort_values("ts").rename(columns={"dur_ns": "dur"})
        times = used["dur"].to_numpy(np.float64)
        few = len(times) < 2
        return used, np.zeros(1, np.int64) if few else block_starts(np.log(np.maximum(times, 1)))


@dataclass(frozen=True, eq=False)
class Summary:
    """The totals of a run without its Trace, as kept by the history."""

    # As for a TraceRun, but of more than 1000 steps only evenly spaced ones. Starts are not kept: steps are
    # contiguous.
    steps: pd.DataFrame
    # By `TOTALS`; the smallest keys beyond 100 are merged into `parts.SMALLER`.
    totals: Mapping[str, StepParts]
    source: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    memory: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["device", "source", "bytes"]))
    # Name of the run in messages.
    title: str = "this run"
    has_time_unit: ClassVar = True

    @property
    def core_share(self) -> float | None:
        """None: it is not known."""
        return None

    def parts(self, by: Sequence[str], view: str, lines: Mapping[str, str] | None = None) -> StepParts:
        """Return the totals by these keys; OptionError if they were not kept."""
        name = next((name for name, how in TOTALS.items() if how == (tuple(by), view)), "")
        if name in ("", "phases"):
            there = ", ".join(f"{' and '.join(keys)} on the {side}" for keys, side in TOTALS.values())
            raise OptionError(
                f"{self.title} has totals by {there}; not by {' and '.join(by)} on the {view}: "
                "%%profile --keep saves the recording too, which has them all"
            )
        return renamed(self.totals[name], lines or {})

    def phases(self) -> StepParts:
        return self.totals["phases"]

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Return the lines of the cell."""
        text = self.source.strip("\n")
        return {CELL: text_lines(text)} if text else {}

    def line_labels(self) -> list[str]:
        return [key[0] for key in self.totals["lines"].keys]

    def facts(self) -> Mapping[str, str]:
        """Return the conditions apart from the code."""
        return self.conditions

    def peaks(self) -> pd.DataFrame:
        """Return ``device source bytes``."""
        return self.memory


def summary_of(run: TraceRun, source: str = "", *, most_keys: int = MOST_KEYS) -> Summary:
    """Return the totals of a run as small as the history keeps them, at most `most_keys` of each kind."""
    by_phase = run.phases()
    small = len(run.trace.slices) <= MOST_SLICES
    totals = {"phases": by_phase}
    for name in ("operators", "lines", "kernels"):
        totals[name] = run.parts(*TOTALS[name]) if small else undivided(by_phase, *TOTALS[name])
    totals = {name: limited(whole, most_keys) for name, whole in totals.items()}
    steps = run.steps
    if len(steps) > MOST_STEPS:
        steps = steps.iloc[np.linspace(0, len(steps) - 1, MOST_STEPS).astype(np.int64)].reset_index(drop=True)
    texts = run.texts().get(CELL, ())
    return Summary(steps, totals, source or "\n".join(texts), dict(run.facts()), run.peaks())


Run: TypeAlias = TraceRun | Summary
Recording: TypeAlias = "Profile | Trace | Run | str | os.PathLike[str]"


def as_run(recording: Any) -> Run:
    """Make a run from any argument of `compare`; OptionError for anything else."""
    if isinstance(recording, Run):
        return recording
    if isinstance(getattr(recording, "trace", None), Trace):  # a Profile, or something with its interface
        return TraceRun(recording)
    if isinstance(recording, Trace):
        return TraceRun(Profile(recording))
    if isinstance(recording, str | os.PathLike):
        return TraceRun(open_profile(recording))
    raise OptionError(
        f"compare() takes Profiles, Traces, runs of the history, paths, or lists of them; "
        f"not a {type(recording).__name__}"
    )


class Side:
    """The runs of one side; its steps are those of all runs, by run."""

    def __init__(self, recordings: Recording | Iterable[Recording], name: str) -> None:
        several = isinstance(recordings, Iterable) and not isinstance(
            recordings, str | os.PathLike | Profile | Run
        )
        listed: Iterable[Any] = recordings if several else [recordings]  # type: ignore[assignment]
        self.runs = [as_run(recording) for recording in listed]
        if not self.runs:
            raise OptionError(f"there is nothing to compare: {name} has no recording")
        self.name = name
        self.steps = pd.concat(
            [run.steps.assign(run=number) for number, run in enumerate(self.runs)], ignore_index=True
        )

    def times(self, run: int | None = None) -> FloatArray:
        """Return the durations of the counted steps in ns, of one run or of all."""
        used = self.steps[self.steps["used"]]
        rows = used if run is None else used[used["run"] == run]
        return np.maximum(np.asarray(rows["dur_ns"], np.float64), 1.0)  # a recording may have no duration

    @property
    def run_times(self) -> list[FloatArray]:
        """Durations of the counted steps, by run."""
        return [self.times(run) for run in range(len(self.runs))]

    def parts(self, by: Sequence[str], view: str, lines: Mapping[str, str] | None = None) -> StepParts:
        """Divide the counted steps by key; if there are several runs, each is a block."""
        return self._blocks([run.parts(by, view, lines) for run in self.runs])

    def phases(self) -> StepParts:
        """Divide the counted steps into phases, by the rule of `analysis.phases`."""
        return self._blocks([run.phases() for run in self.runs])

    def measured(self, expectation: Expectation) -> Measured:
        """Check an expectation of the side's only recording."""
        from ..expectations.quantities import measured, missing

        run = self.runs[0]
        if len(self.runs) > 1 or not isinstance(run, TraceRun):
            return missing(self.name, f"{self.name} is not a single full recording")
        return measured(run.trace, expectation)

    def _blocks(self, runs: list[StepParts]) -> StepParts:
        return runs[0] if len(runs) == 1 else joined(runs)


def stalls_of(sides: Sequence[Side]) -> pd.DataFrame:
    """Divide the difference of mean steps into usual and slow steps; see `Comparison.stalls`."""
    table = pd.DataFrame({"part": ["usual steps", "slow steps"]})
    for name, side in zip("ab", sides, strict=True):
        used = side.steps[side.steps["used"]]
        usual = used.loc[~used["slow"], "dur_ns"]
        whole = float(used["dur_ns"].mean())
        middle = float(usual.mean()) if len(usual) else whole
        table[f"{name}_ns"] = [middle, whole - middle]
        table[f"{name}_steps"] = np.array([len(usual), len(used) - len(usual)], np.int64)
    table["delta_ns"] = table["b_ns"] - table["a_ns"]
    return table[["part", "a_ns", "b_ns", "delta_ns", "a_steps", "b_steps"]]
