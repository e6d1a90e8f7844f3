"""``nbp.compare``: did the change help, by how much, and where?"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import OptionError, SelectionError, nearest
from ..expectations.language import Expectation
from ..expectations.outcomes import Expectations, judge
from ..expectations.quantities import Measured, missing
from ..profiles.display import Displayed
from ..profiles.profile import Profile
from ..trace.redaction import Redaction
from .run import Recording, Side, TraceRun
from .selected import LINKED, Counterparts, LinkedSelection, Selected, selected_table
from .tables import ComparedTables
from .verdict import comparison_text, moved, sentences, undecided


def compare(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    *,
    names: tuple[str, str] = ("a", "b"),
    paired: bool = False,
    noise: float | None = None,
) -> Comparison:
    """Compare two recordings, or several runs per side: how much faster or slower is b, and where.

    Parameters
    ----------
    a, b : Profile, Trace, run of the history, path, or iterable of them
        Before and after. With three or more runs per side, best recorded alternately (a b b a a b), runs are
        compared; with fewer, steps are compared, and their interval is widened for the noise between two
        runs.
    names : (str, str)
        Names of the two sides.
    paired : bool
        Whether runs at the same index in both lists were recorded in succession, as by ``%%profile_ab``; then
        their common noise cancels.
    noise : float, optional
        Factor that widens the interval of two runs. Default: an assumed one.

    Returns
    -------
    Comparison
        For runs of the history without a full recording, `attribution` has only some keys.

    Raises
    ------
    OptionError
        For anything that is not a recording, and for incomplete pairs.
    FormatError, FileNotFoundError
        For a path that cannot be read.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> c = compare(draw("main: [mm      ]"), draw("main: [mm      ][add ]"))
    >>> c.delta_ns > 0, c.operators["name"].tolist()[0], c.operators["change"].tolist()[0]
    (True, 'add', 'new')
    >>> c.significant  # one step per side shows nothing
    False
    """
    return Comparison(Side(a, names[0]), Side(b, names[1]), paired, noise)


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


class Comparison(ComparedTables, Displayed):
    """Two sides of recordings and their differences, linked by aligned steps and one selection. Made by
    `compare`.

    Every table has times of a mean step in ns, with the largest differences first; its column ``delta_ns``
    sums to `delta_ns`.
    """

    def __init__(self, a: Side, b: Side, paired: bool = False, noise: float | None = None) -> None:
        super().__init__(a, b, paired, noise)
        self._aligned = median_step(a), median_step(b)

    @property
    def verdict(self) -> str:
        """The effect of the change, in at most six sentences; every figure is in the tables."""
        return " ".join(sentences(self))

    def expect(self, *expectations: str, check: bool = True) -> Expectations:
        """Check expectations about the change, such as ``slower < 3%`` or ``faster > 10%``.

        Parameters
        ----------
        *expectations : str
            ``slower`` and ``faster`` compare the time of a step of b with one of a; all others, as in
            `p.expect`, apply to b, if it is a single recording.
        check : bool
            Whether to raise unless everything passes.

        Raises
        ------
        ExpectationError
            If one failed or is undecided: the interval contains the limit, there are too few steps, or
            `starved`.
        OptionError
            For a malformed expectation.

        Examples
        --------
        >>> from notebook_prof.testing import draw
        >>> trace = draw("main: [mm      ]")
        >>> outcomes = compare(trace, trace).expect("slower < 3%", "operator mm > 90%", check=False)
        >>> outcomes.table["outcome"].tolist()
        ['inconclusive', 'pass']
        """
        return judge(expectations, self._measured, check)

    def _measured(self, expectation: Expectation) -> Measured:
        if expectation.quantity not in ("slower", "faster"):
            return self._b.measured(expectation)
        if reason := undecided(self):
            return missing("nbp.compare(a, b)", reason)
        sign = 1 if expectation.quantity == "slower" else -1
        low, high = sorted(sign * end for end in self.interval)
        return Measured(sign * self.change, low, high, "nbp.compare(a, b)", parts=lambda: moved(self))

    def to_html(self, path: str | os.PathLike[str], *, source: bool = True) -> None:
        """Write one HTML file: the linked page, which needs no kernel or network, and its static form.

        Without scripts, and for runs with totals only, the file shows the verdict, the steps, the phases, the
        source and the tables.

        Parameters
        ----------
        path : path
            An existing file is replaced.
        source : bool
            False leaves out source, file names, values of strings, and names of variables and annotations;
            then nothing is selected in the file.

        Raises
        ------
        OptionError
            If the history has only totals of a run that is to be written without source.
        """
        from ..atomic_files import atomic_file
        from .page.static_html import page

        queries = importlib.import_module("notebook_prof.comparison.page.queries")
        c = self if source else self._without_source()
        text = queries.comparison_report(c) if queries.can_be_shown(c) else page(c)
        with atomic_file(path) as file:
            file.write(text.encode("utf-8"))

    def _without_source(self) -> Comparison:
        names = Redaction()
        a, b = (
            Side([names.of(self.recording(number, run).trace) for run in range(len(side.runs))], side.name)
            for number, side in enumerate((self._a, self._b))
        )
        c = Comparison(a, b, self.paired, self.noise)
        c._aligned = self._aligned
        return c

    @property
    def has_recordings(self) -> bool:
        """Whether the runs of the aligned steps are full recordings, not totals kept by the history."""
        return all(
            isinstance(side.runs[at.run], TraceRun)
            for side, at in zip((self._a, self._b), self._aligned, strict=True)
        )

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
        for name in clauses:
            if name not in LINKED:
                raise SelectionError(f"a comparison cannot select by {name!r}: {nearest(name, LINKED)}")
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

    def __repr__(self) -> str:
        return comparison_text(self)

    def _repr_html_(self) -> str:
        from .page.static_html import fragment

        return fragment(self)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the linked page. For sides without timelines, IPython falls back to `_repr_mimebundle_`."""
        if not importlib.import_module("notebook_prof.comparison.page.queries").can_be_shown(self):
            raise NotImplementedError
        super()._ipython_display_(**kwargs)

    def _page(self) -> Any:
        return importlib.import_module("notebook_prof.comparison.page.queries").ComparisonProtocol(self)

    @property
    def _counterparts(self) -> Counterparts:
        a, b = self._aligned
        return Counterparts(self.source, [self._a.runs[a.run], self._b.runs[b.run]])
