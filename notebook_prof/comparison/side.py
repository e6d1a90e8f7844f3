"""One side of a comparison: its runs, and which of their steps count."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..analysis.time.phases import phases
from ..errors import OptionError
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from ..trace import PHASES, Trace
from ..trace.arrays import IntArray
from .parts import Owned, Parts, joined, owned
from .statistics import LEAST_RUNS, FloatArray, block_starts, slow_steps, warm_up

Recording: TypeAlias = "Profile | Trace | str | os.PathLike[str]"


class Side:
    """The runs of one side.

    Parameters
    ----------
    recordings : Profile, Trace, path, or iterable of them
    name : str
        What to call it in sentences.

    Attributes
    ----------
    name : str
    profiles : list of Profile
    steps : DataFrame
        ``run step ts dur_ns used slow``: every step of the loop that took longest, by run; a recording
        without steps has one, the whole of it, numbered -1.
    """

    def __init__(self, recordings: Recording | Iterable[Recording], name: str) -> None:
        several = isinstance(recordings, Iterable) and not isinstance(recordings, str | os.PathLike | Profile)
        listed: Iterable[Any] = recordings if several else [recordings]  # type: ignore[assignment]
        self.profiles = [_profile(one) for one in listed]
        if not self.profiles:
            raise OptionError(f"there is nothing to compare: {name} has no recording")
        self.name = name
        self._owned_by_view: dict[str, list[Owned]] = {}
        self.steps = pd.concat(
            [_steps(profile.trace).assign(run=run) for run, profile in enumerate(self.profiles)],
            ignore_index=True,
        )

    @property
    def traces(self) -> list[Trace]:
        """Of its runs."""
        return [profile.trace for profile in self.profiles]

    def times(self, run: int | None = None) -> FloatArray:
        """Return the durations of the steps that count, in ns; of one run or of all."""
        used = self.steps[self.steps["used"]]
        rows = used if run is None else used[used["run"] == run]
        return np.maximum(np.asarray(rows["dur_ns"], np.float64), 1.0)  # a recording of no length

    @property
    def runs(self) -> list[FloatArray]:
        """Durations of the steps that count, by run."""
        return [self.times(run) for run in range(len(self.profiles))]

    def parts(self, by: Sequence[str], view: str, lines: Mapping[str, str] | None = None) -> Parts:
        """Divide the steps that count; blocks are runs where there are at least three."""
        return self._blocks([run.parts(by, lines) for run in self._owned(view)])

    def phases(self) -> Parts:
        """Divide the steps that count among their phases, by the rule of `analysis.phases`."""
        runs = []
        for (trace, spans, blocks), run in zip(self._spans(), self._owned("host"), strict=True):
            table = phases(trace, step=spans["step"].tolist()) if len(trace.steps) else None
            if table is None or not len(table):
                runs.append(run.parts(("phase",)))
                continue
            of_step = {step: i for i, step in enumerate(table["step"].unique().tolist())}
            every = table["host_ns"].to_numpy(np.int64).reshape(-1, len(PHASES))
            sums = np.add.reduceat(every[[of_step[step] for step in spans["step"]]], blocks, axis=0)
            sizes = np.diff(np.append(blocks, len(spans)))
            keys: list[tuple[str, ...]] = [(name,) for name in PHASES]
            runs.append(Parts(keys, sums, np.full(len(keys), len(spans), np.int64), sizes))
        return self._blocks(runs)

    def _owned(self, view: str) -> list[Owned]:
        if view not in self._owned_by_view:
            self._owned_by_view[view] = [owned(*span, view) for span in self._spans()]
        return self._owned_by_view[view]

    def _blocks(self, runs: list[Parts]) -> Parts:
        return runs[0] if len(runs) == 1 else joined(runs)

    def _spans(self) -> list[tuple[Trace, pd.DataFrame, IntArray]]:
        used = self.steps[self.steps["used"]]
        out = []
        for run, trace in enumerate(self.traces):
            spans = used[used["run"] == run].sort_values("ts").rename(columns={"dur_ns": "dur"})
            times = spans["dur"].to_numpy(np.float64)
            few = len(self.profiles) >= LEAST_RUNS or len(times) < 2
            blocks = np.zeros(1, np.int64) if few else block_starts(np.log(np.maximum(times, 1)))
            out.append((trace, spans, blocks))
        return out


def _profile(recording: Any) -> Profile:
    if isinstance(recording, Profile):
        return recording
    if isinstance(recording, Trace):
        return Profile(recording)
    if isinstance(recording, str | os.PathLike):
        return open_profile(recording)
    raise OptionError(
        f"compare() takes Profiles, Traces, paths, or lists of them; not a {type(recording).__name__}"
    )


def _steps(trace: Trace) -> pd.DataFrame:
    """Return the steps of the loop that took longest; the whole recording where there are none."""
    table = trace.steps
    if not len(table):
        whole = pd.DataFrame({"step": [-1], "ts": [trace.span.start], "dur_ns": [trace.span.dur]})
        return whole.assign(used=True, slow=False)
    longest = table.groupby("loop")["dur"].sum().idxmax()
    rows = table[(table["loop"] == longest) & (table["dur"] > 0)].sort_values("ts")
    times = rows["dur"].to_numpy(np.float64)
    used = ~rows["step"].isin(trace.metadata.get("partial_steps") or []).to_numpy()
    counted = np.flatnonzero(used)
    used[counted[: warm_up(times[counted])]] = False
    slow = np.zeros(len(rows), bool)
    slow[used] = slow_steps(times[used])
    columns = {"step": rows["step"].astype("int64"), "ts": rows["ts"], "dur_ns": rows["dur"]}
    return pd.DataFrame(columns).assign(used=used, slow=slow).reset_index(drop=True)
