"""Two sides of a comparison under one selection, aligned at a step of each."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import OptionError, SelectionError, nearest
from ..profiles.profile import Profile
from .run import Side, TraceRun
from .selected import LINKED, Counterparts, LinkedSelection, Selected, selected_table
from .tables import ComparedTables


@dataclass(frozen=True, slots=True)
class AlignedStep:
    """A side's step at which the timelines are aligned. Times are ns in its recording; without steps, `step`
    is -1."""

    run: int
    step: int
    ts: int
    dur_ns: int


def median_step(side: Side, run: int | None = None) -> AlignedStep:
    """Return the first of the counted steps nearest to their median, over all runs or in one."""
    table = side.steps if run is None else side.steps[side.steps["run"] == run]
    rows = table[table["used"]] if table["used"].any() else table
    far = (rows["dur_ns"] - float(rows["dur_ns"].median())).abs().to_numpy()
    return _of_row(rows.iloc[int(np.argmin(far))])


def step_of(side: Side, step: int | tuple[int, int]) -> AlignedStep:
    """Return a step by its number, or by the numbers of its run and of the step in it. OptionError if there
    is none."""
    table = side.steps
    rows = table[table["step"] == (step if isinstance(step, int) else step[1])]
    if not isinstance(step, int):
        rows = rows[rows["run"] == step[0]]
    if not len(rows):
        there = ", ".join(map(str, table["step"].unique().tolist()[:20]))
        text = step if isinstance(step, int) else f"{step[1]} in run {step[0]}"
        raise OptionError(f"{side.name} has no step {text}: there are {there}")
    return _of_row(rows.iloc[0])


def _of_row(row: Any) -> AlignedStep:
    return AlignedStep(int(row["run"]), int(row["step"]), int(row["ts"]), int(row["dur_ns"]))


class LinkedSides(ComparedTables):
    """The two sides of a comparison, linked by aligned steps and one selection."""

    def __init__(self, a: Side, b: Side, paired: bool = False, noise: float | None = None) -> None:
        super().__init__(a, b, paired, noise)
        self._aligned = median_step(a), median_step(b)

    @property
    def has_recordings(self) -> bool:
        """Whether the runs of the aligned steps are full recordings, not totals kept by the history."""
        return all(
            isinstance(side.runs[at.run], TraceRun)
            for side, at in zip((self._a, self._b), self._aligned, strict=True)
        )

    @property
    def several_runs(self) -> bool:
        """Whether a side has more recordings than the one shown."""
        return max(len(self._a.runs), len(self._b.runs)) > 1

    def median_steps(self, side: int) -> list[AlignedStep]:
        """Return the step nearest to the median of each full recording of a side, by run."""
        of = (self._a, self._b)[side]
        return [
            median_step(of, number)
            for number, run in enumerate(of.runs)
            if isinstance(run, TraceRun) and len(run.trace.slices)
        ]

    @property
    def shown(self) -> tuple[Profile, Profile]:
        """The recordings of the aligned steps.

        Raises
        ------
        OptionError
            For runs of which only totals were kept.
        """
        a, b = self._aligned
        return self.recording(0, a.run), self.recording(1, b.run)

    def recording(self, side: int, run: int) -> Profile:
        """Return one of the recordings of a side.

        Raises
        ------
        OptionError
            If it has only totals.
        """
        of = (self._a, self._b)[side]
        kept = of.runs[run]
        if not isinstance(kept, TraceRun):
            raise OptionError(f"{of.name} has totals only: %%profile --keep saves the recording too")
        return kept.profile

    def counted_steps(self, side: int) -> list[int]:
        """Return the numbers of the counted steps in the recording shown; none without steps."""
        table = (self._a, self._b)[side].steps
        rows = table[(table["run"] == self._aligned[side].run) & table["used"]]
        return [step for step in rows["step"].tolist() if step >= 0]

    @functools.cached_property
    def selection(self) -> LinkedSelection:
        """The selection of both sides; ``.a`` and ``.b`` are its counterparts in each recording."""
        a, b = self.aligned
        return LinkedSelection(self._counterparts, (a.ts, b.ts), (a.run, b.run))

    @property
    def aligned(self) -> tuple[AlignedStep, AlignedStep]:
        """The steps at whose starts the timelines are aligned; initially those nearest to the medians."""
        return self._aligned

    def align(self, a: int | tuple[int, int] | None = None, b: int | tuple[int, int] | None = None) -> None:
        """Align the timelines at other steps; a selected window is then measured from their starts.

        With several runs per side, the runs of these steps are shown.

        Parameters
        ----------
        a, b : int, or (int, int), optional
            Number of a step, or of a run and a step in it; a side that is left out keeps its step.

        Raises
        ------
        OptionError
            If there is no such step.
        """
        pairs = zip((self._a, self._b), (a, b), self._aligned, strict=True)
        first, second = (now if step is None else step_of(side, step) for side, step, now in pairs)
        self._aligned = first, second
        self.selection._align(self._counterparts, (first.ts, second.ts), (first.run, second.run))

    def select(self, **clauses: object) -> Selected:
        """Select the counterparts in both sides, and nothing else.

        Parameters
        ----------
        **clauses
            ``name`` (as in `operators` and `kernels`), ``phase``, ``category``, ``line`` (as ``cell:12``),
            one or several, and ``window``: a pair of times from the start of the `aligned` step.

        Returns
        -------
        Selected

        Raises
        ------
        SelectionError
            For any other dimension, or an invalid value.

        Examples
        --------
        >>> import notebook_prof as nbp
        >>> from notebook_prof.testing import draw
        >>> c = nbp.compare(draw("main: [mm      ][add ]"), draw("main: [mm    ][add   ]"))
        >>> c.select(name="add").delta[["name", "a_ns", "b_ns", "delta_ns"]].values.tolist()
        [['add', 6, 8, 2]]
        >>> c.selection.a, c.selection.b
        (Selection(add), Selection(add))
        """
        check_linked(clauses)
        self.selection.update(None, **{**dict.fromkeys(LINKED), **clauses})
        return self.selected

    @property
    def selected(self) -> Selected:
        """The selected slices: tables of both sides, and their difference.

        Raises
        ------
        OptionError
            For runs of which only totals were kept.
        """
        selection, (a, b), (of_a, of_b) = self.selection, self.aligned, self.shown
        return Selected(selected_table(of_a, selection.a, a.step), selected_table(of_b, selection.b, b.step))

    @property
    def _counterparts(self) -> Counterparts:
        return Counterparts(
            self.source, [self._a.runs[self._aligned[0].run], self._b.runs[self._aligned[1].run]]
        )


def check_linked(clauses: Iterable[str]) -> None:
    """Raise SelectionError for dimensions that a comparison cannot select by."""
    for name in clauses:
        if name not in LINKED:
            raise SelectionError(f"a comparison cannot select by {name!r}: {nearest(name, LINKED)}")
