"""One side of a comparison: its runs, and which of their steps count."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..errors import OptionError
from ..profiles.profile import Profile
from .parts import Parts, joined
from .run import Recording, Run, as_run
from .statistics import FloatArray


class Side:
    """The runs of one side.

    Parameters
    ----------
    recordings : Profile, Trace, Run, path, or iterable of them
    name : str
        What to call it in sentences.

    Attributes
    ----------
    name : str
    runs : list of Run
    steps : DataFrame
        ``run step ts dur_ns used slow``: every step of the loop that took longest, by run; a recording
        without steps has one, the whole of it, numbered -1.
    """

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
        """Return the durations of the steps that count, in ns; of one run or of all."""
        used = self.steps[self.steps["used"]]
        rows = used if run is None else used[used["run"] == run]
        return np.maximum(np.asarray(rows["dur_ns"], np.float64), 1.0)  # a recording of no length

    @property
    def run_times(self) -> list[FloatArray]:
        """Durations of the steps that count, by run."""
        return [self.times(run) for run in range(len(self.runs))]

    def parts(self, by: Sequence[str], view: str, lines: Mapping[str, str] | None = None) -> Parts:
        """Divide the steps that count; of several runs each is a block."""
        return self._blocks([run.parts(by, view, lines) for run in self.runs])

    def phases(self) -> Parts:
        """Divide the steps that count among their phases, by the rule of `analysis.phases`."""
        return self._blocks([run.phases() for run in self.runs])

    def _blocks(self, runs: list[Parts]) -> Parts:
        return runs[0] if len(runs) == 1 else joined(runs)
