"""``nbp.compare``: did the change help, by how much, and where?"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pandas as pd

from ..errors import OptionError, nearest
from ..expectations.language import Expectation
from ..expectations.outcomes import Expectations, judge
from ..expectations.quantities import Measured, missing
from ..labels import short_names
from ..profiles.display import display, widget_of
from ..statistics.shift import LEAST_RUNS, Shift, factor_of_runs, shift_of_runs, shift_of_steps, widened
from ..statistics.steps import LEAST
from ..trace.schema import Column, Table
from .attribution import attribution, share_of_both
from .conditions import conditions
from .gain import noting_gain
from .linked import LinkedSides
from .missed_lines import missed_lines, undecided_lines
from .parts import IDLE, KEYS, VIEWS, folded
from .run import Recording, Side, stalls_of
from .sources import labels_of_b, placed, source_changes
from .verdict import LITTLE_CORE, moved, sentences, undecided

_MEMORY: Final = Table(
    "memory",
    (
        Column("device", "int16", "", "device index; -1 for the host"),
        Column("source", "str", "", "`rss`, `allocator` …, as in `p.memory.peak`"),
        Column("a_bytes", "int64", "bytes", "highest in a, above what was there before"),
        Column("b_bytes", "int64", "bytes", "highest in b, above what was there before"),
        Column("delta_bytes", "int64", "bytes", "b less a"),
    ),
)


def compare(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    *,
    names: tuple[str, str] = ("a", "b"),
    paired: bool = False,
    noise: float | None = None,
) -> Comparison:
    """Compare two recordings, or several runs a side: how much faster or slower is b, and where.

    Parameters
    ----------
    a, b : Profile, Trace, run of the history, path, or iterable of them
        Before and after. With three or more runs a side, best recorded in turns (a b b a a b), the runs are
        what counts; with less, the steps are, and their interval is widened for the noise between two runs.
    names : (str, str)
        What to call them.
    paired : bool
        Whether the runs of the same place in both lists were recorded next to one another, as
        ``%%profile_ab`` does; then the noise that both had cancels.
    noise : float, optional
        How many times as wide the interval of two runs is as their steps alone give; assumed unless given.

    Returns
    -------
    Comparison
        Of runs of the history that were not kept whole, `attribution` knows some keys only.

    Raises
    ------
    OptionError
        For anything that is no recording, and for pairs of which one is missing.
    FormatError, FileNotFoundError
        For a path that cannot be read.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> c = compare(draw("main: [mm      ]"), draw("main: [mm      ][add ]"))
    >>> c.delta_ns > 0, c.operators["name"].tolist()[0], c.operators["change"].tolist()[0]
    (True, 'add', 'new')
    >>> c.significant  # one step a side shows nothing
    False
    """
    return noting_gain(Comparison(Side(a, names[0]), Side(b, names[1]), paired, noise))


class Comparison(LinkedSides):
    """Two sides of recordings, and what differs between them. Made by `compare`.

    Every table has times of a mean step in ns, by size of the difference, the largest first; in each the
    column ``delta_ns`` sums to `delta_ns`.
    """

    def __init__(self, a: Side, b: Side, paired: bool = False, noise: float | None = None) -> None:
        super().__init__(a, b)
        self.paired, self.noise = paired, noise
        self._attributions: dict[tuple[tuple[str, ...], str], pd.DataFrame] = {}
        if paired and self.runs[0] != self.runs[1]:
            raise OptionError(
                f"pairs need as many runs of {b.name} as of {a.name}: "
                f"there are {self.runs[1]} and {self.runs[0]}"
            )

    @functools.cached_property
    def shift(self) -> Shift:
        """By which factor a step of b takes longer, as a logarithm with its interval at 95 %."""
        runs_a, runs_b = self._a.run_times, self._b.run_times
        if min(len(runs_a), len(runs_b)) >= LEAST_RUNS and min(map(len, [*runs_a, *runs_b])):
            return shift_of_runs(runs_a, runs_b, paired=self.paired)
        a, b = self._a.times(), self._b.times()
        shift = shift_of_steps(a, b)
        return widened(shift, factor_of_runs(min(len(a), len(b))) if self.noise is None else self.noise)

    @property
    def change(self) -> float:
        """Relative change of a step: 0.05 means that b takes 5 % longer."""
        return math.expm1(self.shift.value)

    @property
    def interval(self) -> tuple[float, float]:
        """Where `change` lies at 95 %; nan with too few steps to say."""
        return math.expm1(self.shift.low), math.expm1(self.shift.high)

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside of `interval`, and the steps tell of the code and not of a busy machine."""
        return self.shift.significant and not self.starved

    @property
    def core_share(self) -> float | None:
        """How much of the time in which their threads could run they had a core; the least of all runs."""
        shares = [run.core_share for side in (self._a, self._b) for run in side.runs]
        return min((share for share in shares if share is not None), default=None)

    @property
    def starved(self) -> bool:
        """Whether steps were compared of which some had a core for less than half of that time.

        Runs that are compared as such show by themselves how much the machine makes them differ.
        """
        share = self.core_share
        return not self.by_runs and share is not None and share < LITTLE_CORE

    @property
    def by_runs(self) -> bool:
        """Whether runs were compared, and not their steps."""
        return self.shift.n == self.runs and min(self.runs) >= LEAST_RUNS

    @property
    def delta_ns(self) -> int:
        """Mean of b's steps less mean of a's."""
        return int(self.phases["delta_ns"].sum())

    @functools.cached_property
    def steps(self) -> pd.DataFrame:
        """Every step of both sides.

        Returns
        -------
        DataFrame
            ``side run step ts dur_ns used slow``, by side, run and time. Steps that do not count are
            partial, or warm up: the first, and slow ones after it. ``slow`` marks steps over the median by
            more than five deviations.
        """
        sides = [side.steps.assign(side=side.name) for side in (self._a, self._b)]
        order = ["side", "run", "step", "ts", "dur_ns", "used", "slow"]
        return pd.concat(sides, ignore_index=True)[order]

    @functools.cached_property
    def stalls(self) -> pd.DataFrame:
        """How much of the difference is in usual steps and how much in slow ones, exactly.

        Returns
        -------
        DataFrame
            Two rows: ``part a_ns b_ns delta_ns a_steps b_steps``; ``usual steps`` has their means, ``slow
            steps`` what slow ones add to the mean of all.
        """
        return stalls_of((self._a, self._b))

    def attribution(self, by: str | Sequence[str] = ("phase", "name"), view: str = "host") -> pd.DataFrame:
        """Divide the difference of a mean step among what ran in it, to the nanosecond.

        Parameters
        ----------
        by : str or sequence of str
            Out of ``phase module name shapes line category``.
        view : {"host", "device"}
            What the thread that runs the steps was doing, or what the devices were; each instant belongs to
            one key.

        Returns
        -------
        DataFrame
            A row a key, columns of `by` and ``change matched a_ns b_ns delta_ns low_ns high_ns significant
            a_calls b_calls``. ``delta_ns`` sums to `delta_ns`. Sampled calls count none. New and gone keys
            are facts, but for sampled ones, which are judged by their interval, and lines that samples may
            have missed (`missed_lines`): these are ``same``, without an interval. Of the others that are
            ``significant`` at most 5 % are not, on average.

        Raises
        ------
        OptionError
            If there is no such key or view.
        """
        keys = (by,) if isinstance(by, str) else tuple(by)
        for key in keys or ("",):
            if key not in KEYS:
                raise OptionError(f"compare() tells nothing apart by {key!r}: {nearest(key, KEYS)}")
        if view not in VIEWS:
            raise OptionError(f"there is no view {view!r}: {nearest(view, VIEWS)}")
        return self._attribution(keys, view).copy()

    @functools.cached_property
    def operators(self) -> pd.DataFrame:
        """`attribution` by phase and name, of the host."""
        return self.attribution(("phase", "name"))

    @functools.cached_property
    def kernels(self) -> pd.DataFrame:
        """`attribution` by name, of the devices; no rows where neither side has device work."""
        table = self.attribution("name", "device")
        return table if (table["name"] != IDLE["device"]).any() else table.iloc[:0]

    @functools.cached_property
    def phases(self) -> pd.DataFrame:
        """`attribution` by phase, by the rule of ``p.steps.phases``."""
        return attribution(*folded(self._a.phases(), self._b.phases()), ("phase",), self._factor)

    @functools.cached_property
    def source(self) -> pd.DataFrame:
        """Lines of the cell and of files that both have: which became which; see `lines` for their times.

        Returns
        -------
        DataFrame
            ``file change a_line b_line a_text b_text``, in the order of b, what is gone where it was.
        """
        return source_changes(self._a.runs[0].texts(), self._b.runs[0].texts())

    @functools.cached_property
    def lines(self) -> pd.DataFrame:
        """`attribution` by line of the user's source; lines of b are matched with those of a.

        Returns
        -------
        DataFrame
            ``file a_line b_line text`` and the columns of `attribution`. Rows without a file hold what
            ran for no line, and what was not recorded.
        """
        return placed(self._attribution(("line",), "host"), self.source)

    @functools.cached_property
    def memory(self) -> pd.DataFrame:
        """Highest memory of each device above what was there before, by device.

        Returns
        -------
        DataFrame
            ``device source a_bytes b_bytes delta_bytes``; of several runs the highest.
        """
        key = ["device", "source"]
        each = []
        for side in (self._a, self._b):
            peaks = pd.concat([run.peaks() for run in side.runs])
            each.append(peaks.groupby(key, observed=True)["bytes"].max())
        both = pd.concat(each, axis=1, keys=["a_bytes", "b_bytes"], join="inner").reset_index()
        return _MEMORY.frame({**both, "delta_bytes": both["b_bytes"] - both["a_bytes"]})

    @functools.cached_property
    def conditions(self) -> pd.DataFrame:
        """What else than the code differs: ``what a b effect``."""
        return conditions(self._a.runs[0].facts(), self._b.runs[0].facts())

    @property
    def matched_share(self) -> float:
        """Share of both sides' time in operators or lines that both have, 0–1; 1 where there are none."""
        operators = self.operators[self.operators["name"] != IDLE["host"]]
        shares = [share_of_both(operators), share_of_both(self.lines[self.lines["file"] != ""])]
        return max((share for share in shares if share is not None), default=1.0)

    @property
    def verdict(self) -> str:
        """What the change did, in at most six sentences; every figure is in the tables."""
        return " ".join(sentences(self))

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        """What is written for each name of `operators` and `kernels`: short, and no two alike."""
        kernels = set(self.kernels["name"])
        names = list(dict.fromkeys([*self.operators["name"], *self.kernels["name"]]))
        return dict(zip(names, short_names(names, [name in kernels for name in names]), strict=True))

    @property
    def names(self) -> tuple[str, str]:
        """What the sides are called."""
        return self._a.name, self._b.name

    @property
    def runs(self) -> tuple[int, int]:
        """How many recordings each side has."""
        return len(self._a.runs), len(self._b.runs)

    def expect(self, *expectations: str, check: bool = True) -> Expectations:
        """Hold the change to what is expected of it, as in ``slower < 3%`` or ``faster > 10%``.

        Parameters
        ----------
        *expectations : str
            ``slower`` and ``faster`` are by how much a step of b takes more or less time than one of a; the
            rest, as in `p.expect`, is asked of b, where it is one recording.
        check : bool
            Whether to raise unless everything passes.

        Raises
        ------
        ExpectationError
            If one failed or was not decided: the interval holds the limit, too few steps, or `starved`.
        OptionError
            For an expectation that cannot be understood.

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

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file: the linked page, which needs neither kernel nor network, over its static form.

        Where scripts do not run, and of runs of which only totals were kept, it shows the verdict, the steps,
        the phases, the source and the tables.

        Parameters
        ----------
        path : path
            An existing file is replaced.
        """
        from ..atomic_files import atomic_file
        from .page.queries import can_be_shown
        from .page.report import comparison_report
        from .page.static_html import page

        text = comparison_report(self) if can_be_shown(self) else page(self)
        with atomic_file(path) as file:
            file.write(text.encode("utf-8"))

    def __repr__(self) -> str:
        from .text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from .page.static_html import fragment

        return fragment(self)

    def _display_(self) -> Any:
        """Return the linked page; marimo calls this."""
        return widget_of(self)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the linked page where there is a front-end for it; IPython shows what has no timelines."""
        from .page.queries import can_be_shown

        if not can_be_shown(self):
            raise NotImplementedError
        display(self, **kwargs)

    @property
    def _factor(self) -> float:
        return self.shift.factor if min(self.shift.n) >= min(LEAST, LEAST_RUNS) else 1.0

    def _attribution(self, by: tuple[str, ...], view: str) -> pd.DataFrame:
        if (by, view) not in self._attributions:
            labels = labels_of_b(self.source, self._b.runs[0].line_labels()) if "line" in by else {}
            a, b = folded(self._a.parts(by, view), self._b.parts(by, view, labels))
            table = attribution(a, b, by, self._factor)
            if "line" in by and view == "host":
                table = undecided_lines(table, missed_lines(table, self.source, (self._a, self._b), labels))
            self._attributions[by, view] = table
        return self._attributions[by, view]
