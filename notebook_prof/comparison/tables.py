"""The tables of a comparison: the parts of a mean step of both sides, and their difference."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

import pandas as pd

from ..errors import OptionError, check_option
from ..labels import short_names
from ..statistics import LEAST, LEAST_RUNS, Shift, factor_of_runs, shift_of_runs, shift_of_steps, widened
from ..trace.schema import Table
from .attribution import attribution, missed_lines, share_of_both, undecided_lines
from .changes import conditions, labels_of_b, placed, source_changes
from .parts import IDLE, KEYS, VIEWS, folded
from .run import Side, TraceRun, stalls_of

LITTLE_CORE: Final = 0.5
"""If a thread has a smaller share of a core than this, its times depend on the machine, not on the code."""
_MEMORY: Final = Table.of("memory", "device:int16 source:str a_bytes:int64 b_bytes:int64 delta_bytes:int64")


class ComparedTables:
    """Two sides of recordings, and the parts of their steps; see `Comparison`."""

    def __init__(self, a: Side, b: Side, paired: bool = False, noise: float | None = None) -> None:
        self._a, self._b, self.paired, self.noise = a, b, paired, noise
        self._attributions: dict[tuple[tuple[str, ...], str], pd.DataFrame] = {}
        if paired and self.runs[0] != self.runs[1]:
            raise OptionError(
                f"pairs need as many runs of {b.name} as of {a.name}: "
                f"there are {self.runs[1]} and {self.runs[0]}"
            )

    @functools.cached_property
    def shift(self) -> Shift:
        """The factor by which a step of b is longer, as a logarithm with its 95 % interval."""
        runs_a, runs_b = self._a.run_times, self._b.run_times
        if min(len(runs_a), len(runs_b)) >= LEAST_RUNS and min(map(len, [*runs_a, *runs_b])):
            return shift_of_runs(runs_a, runs_b, paired=self.paired)
        a, b = self._a.times(), self._b.times()
        shift = shift_of_steps(a, b)
        return widened(shift, factor_of_runs(min(len(a), len(b))) if self.noise is None else self.noise)

    @property
    def whole(self) -> tuple[bool, bool]:
        """Whether each side has no steps, and is compared as a whole."""
        # such a side has a single row, whose step is -1
        a, b = ((self.steps.loc[self.steps["side"] == name, "step"] == -1).all() for name in self.names)
        return bool(a), bool(b)

    @property
    def delta_words(self) -> str:
        """The heading of a column of changes."""
        return "Δ" if all(self.whole) else "Δ a step"

    @property
    def change(self) -> float:
        """Relative change of a step: 0.05 means that b takes 5 % longer."""
        return math.expm1(self.shift.value)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `change`; nan if there are too few steps."""
        return math.expm1(self.shift.low), math.expm1(self.shift.high)

    @property
    def significant(self) -> bool:
        """Whether 0 is outside `interval`, and the steps depend on the code, not on a busy machine."""
        return self.shift.significant and not self.starved

    @property
    def core_share(self) -> float | None:
        """The share of their threads' ready time with a core: the minimum over all runs."""
        shares = [run.core_share for side in (self._a, self._b) for run in side.runs]
        return min((share for share in shares if share is not None), default=None)

    @property
    def without_unit(self) -> list[str]:
        """Names of the sides that have a file with weights without a unit."""
        return [side.name for side in (self._a, self._b) if not all(run.has_time_unit for run in side.runs)]

    @property
    def starved(self) -> bool:
        """Whether compared steps had a core for less than half of the time in which they could run.

        If runs are compared, they show by themselves how much they vary with the machine.
        """
        share = self.core_share
        return not self.by_runs and share is not None and share < LITTLE_CORE

    @property
    def by_runs(self) -> bool:
        """Whether runs were compared, not their steps."""
        return self.shift.n == self.runs and min(self.runs) >= LEAST_RUNS

    @property
    def matched_share(self) -> float:
        """Share of both sides' time in common operators or lines, 0–1; 1 if there are none."""
        operators = self.operators[self.operators["name"] != IDLE["host"]]
        shares = [share_of_both(operators), share_of_both(self.lines[self.lines["file"] != ""])]
        return max((share for share in shares if share is not None), default=1.0)

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        """The label of each name of `operators` and `kernels`: short and distinct."""
        kernels = set(self.kernels["name"])
        names = list(dict.fromkeys([*self.operators["name"], *self.kernels["name"]]))
        return dict(zip(names, short_names(names, [name in kernels for name in names]), strict=True))

    @property
    def names(self) -> tuple[str, str]:
        """The names of the sides."""
        return self._a.name, self._b.name

    @property
    def runs(self) -> tuple[int, int]:
        """The number of recordings of each side."""
        return len(self._a.runs), len(self._b.runs)

    @property
    def delta_ns(self) -> int:
        """Mean of b's steps minus mean of a's."""
        return int(self.phases["delta_ns"].sum())

    @functools.cached_property
    def steps(self) -> pd.DataFrame:
        """Every step of both sides.

        Returns
        -------
        DataFrame
            ``side run step ts dur_ns used slow``, by side, run and time. Steps do not count if they are
            partial or warm-up: the first, and slow ones after it. ``slow`` marks steps more than five
            deviations above the median.
        """
        sides = [side.steps.assign(side=side.name) for side in (self._a, self._b)]
        order = ["side", "run", "step", "ts", "dur_ns", "used", "slow"]
        return pd.concat(sides, ignore_index=True)[order]

    @functools.cached_property
    def stalls(self) -> pd.DataFrame:
        """The exact parts of the difference in usual and in slow steps.

        Returns
        -------
        DataFrame
            Two rows: ``part a_ns b_ns delta_ns a_steps b_steps``; ``usual steps`` has their means, ``slow
            steps`` what slow ones add to the overall mean.
        """
        return stalls_of((self._a, self._b))

    def attribution(self, by: str | Sequence[str] = ("phase", "name"), view: str = "host") -> pd.DataFrame:
        """Divide the difference of a mean step among its parts, to the nanosecond.

        Parameters
        ----------
        by : str or sequence of str
            Out of ``phase module name shapes line statement category``. A statement is a line of the
            outermost frame of the user's source, such as a line of the cell, with everything it calls.
        view : {"host", "device"}
            The activity of the thread that runs the steps, or of the devices; each instant belongs to one
            key.

        Returns
        -------
        DataFrame
            One row per key, with the columns of `by` and ``change matched a_ns b_ns delta_ns low_ns high_ns
            significant a_calls b_calls``. ``change`` is ``slower faster more-often less-often new gone``, or
            ``same`` within the noise; ``matched`` is ``same``, or what differs (``shapes module phase``),
            empty for new and gone keys. ``delta_ns`` sums to `delta_ns`. Sampled calls do not count. New
            and gone keys are facts, except for sampled ones, which are judged by their interval, and lines
            that samples may have missed, which are ``same``, without an interval. Of the other
            ``significant`` rows, on average at most 5 % are false.

        Raises
        ------
        OptionError
            If there is no such key or view.
        """
        keys = (by,) if isinstance(by, str) else tuple(by)
        for key in keys or ("",):
            check_option("compare() cannot divide by", key, KEYS)
        check_option("there is no view", view, VIEWS)
        return self._attribution(keys, view).copy()

    @functools.cached_property
    def operators(self) -> pd.DataFrame:
        """`attribution` by phase and name, of the host."""
        return self.attribution(("phase", "name"))

    @functools.cached_property
    def kernels(self) -> pd.DataFrame:
        """`attribution` by name, of the devices; empty without device work."""
        table = self.attribution("name", "device")
        return table if (table["name"] != IDLE["device"]).any() else table.iloc[:0]

    @functools.cached_property
    def phases(self) -> pd.DataFrame:
        """`attribution` by phase, by the rule of ``p.steps.phases``."""
        return attribution(*folded(self._a.phases(), self._b.phases()), ("phase",), self._factor)

    @functools.cached_property
    def source(self) -> pd.DataFrame:
        """Changes of the lines of the cell and of common files; see `lines` for their times.

        Returns
        -------
        DataFrame
            ``file change a_line b_line a_text b_text``, in the order of b, gone lines at their old place.
        """
        return source_changes(self._a.runs[0].texts(), self._b.runs[0].texts())

    @functools.cached_property
    def lines(self) -> pd.DataFrame:
        """`attribution` by line of the user's source; lines of b are matched with those of a.

        Returns
        -------
        DataFrame
            ``file a_line b_line text`` and the columns of `attribution`. Rows without a file are time outside
            any line, and unrecorded time.
        """
        return placed(self._attribution(("line",), "host"), self.source)

    @functools.cached_property
    def statements(self) -> pd.DataFrame:
        """`attribution` by statement: like `lines`, but a line of the cell includes everything it calls.

        Returns
        -------
        DataFrame
            As for `lines`; empty for runs of the history with totals only.

        Examples
        --------
        >>> from notebook_prof import compare
        >>> from notebook_prof.testing import draw
        >>> c = compare(draw("main: [mm]"), draw("main: [mm ]"))
        >>> len(c.statements)
        1
        """
        if not all(isinstance(run, TraceRun) for side in (self._a, self._b) for run in side.runs):
            return self.lines.iloc[:0]
        table = self._attribution(("statement",), "host").rename(columns={"statement": "line"})
        return placed(table, self.source)

    @functools.cached_property
    def memory(self) -> pd.DataFrame:
        """Peak memory of each device above its initial level, by device.

        Returns
        -------
        DataFrame
            ``device source a_bytes b_bytes delta_bytes``; with several runs, the highest of each side.
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
        """Differences other than the code: ``what a b effect``."""
        return conditions(self._a.runs[0].facts(), self._b.runs[0].facts())

    @property
    def _factor(self) -> float:
        return self.shift.factor if min(self.shift.n) >= min(LEAST, LEAST_RUNS) else 1.0

    def _attribution(self, by: tuple[str, ...], view: str) -> pd.DataFrame:
        if (by, view) not in self._attributions:
            of_lines = [key for key in ("line", "statement") if key in by]
            labels = labels_of_b(self.source, self._b.runs[0].line_labels()) if of_lines else {}
            a, b = folded(self._a.parts(by, view), self._b.parts(by, view, labels))
            table = attribution(a, b, by, self._factor)
            for key in of_lines if view == "host" else ():
                missed = missed_lines(table, self.source, (self._a, self._b), labels, key)
                table = undecided_lines(table, missed, key)
            self._attributions[by, view] = table
        return self._attributions[by, view]
