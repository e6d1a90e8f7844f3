"""``nbp.compare``: did the change help, by how much, and where? Compares two notebooks cell by cell, too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.notebook.cells import cells
from ..analysis.notebook.recorded import cell_runs
from ..expectations.language import Expectation
from ..expectations.outcomes import Expectations, judge
from ..expectations.quantities import Measured, missing
from ..profiles.display import display, widget_of
from ..trace import Trace
from ..trace.redaction import Redaction
from ..trace.schema import Column, Table
from ..units import format_ns
from .linked import LinkedSides
from .run import Recording, Side
from .verdict import moved, sentences, signed_ns, undecided


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


class Comparison(LinkedSides):
    """Two sides of recordings and their differences. Made by `compare`.

    Every table has times of a mean step in ns, with the largest differences first; its column ``delta_ns``
    sums to `delta_ns`.
    """

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
        from .page.queries import can_be_shown
        from .page.report import comparison_report
        from .page.static_html import page

        c = self if source else self._without_source()
        text = comparison_report(c) if can_be_shown(c) else page(c)
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

    def __repr__(self) -> str:
        from .verdict import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from .page.static_html import fragment

        return fragment(self)

    def _display_(self) -> Any:
        """Return the linked page; marimo calls this."""
        return widget_of(self)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the linked page. For sides without timelines, IPython falls back to `_repr_mimebundle_`."""
        from .page.queries import can_be_shown

        if not can_be_shown(self):
            raise NotImplementedError
        display(self, **kwargs)


COMPARED: Final = Table(
    "compared_cells",
    (
        Column("name", "str", "", "`In[7]` and its longest statement, in b unless it is gone"),
        Column("status", "str", "", "same, edited, new or gone"),
        Column("a_ns", "int64", "ns", "time of the latest run in a; 0 if new"),
        Column("b_ns", "int64", "ns", "in b; 0 if gone"),
        Column("delta_ns", "int64", "ns", "b − a"),
        Column("a_kept_bytes", "int64", "bytes", "memory kept by the cell in a"),
        Column("b_kept_bytes", "int64", "bytes", "in b"),
    ),
)
_ALIKE: Final = 0.6


def compare_cells(a: Trace, b: Trace) -> pd.DataFrame:
    """Compare the cells of two sessions.

    Parameters
    ----------
    a, b : Trace
        Sessions of a notebook.

    Returns
    -------
    DataFrame
        One row per cell of either session, with the largest differences first: ``name status a_ns b_ns
        delta_ns a_kept_bytes b_kept_bytes``. ``delta_ns`` sums to the difference of the sessions' *Run All*.
        Cells are matched by their text, even if they moved, then by their id, then by similar text.
    """
    sides = [_side(trace) for trace in (a, b)]
    rows = []
    for one, other in _matched(*sides):
        shown: dict[str, Any] = other or one or {}
        a_ns, b_ns = (0 if side is None else int(side["wall_ns"]) for side in (one, other))
        if one is None or other is None:
            status = "new" if one is None else "gone"
        else:
            status = "same" if one["source"] == other["source"] else "edited"
        kept = [0 if side is None else int(side["kept_bytes"]) for side in (one, other)]
        rows.append(
            {"name": shown["name"], "status": status, "a_ns": a_ns, "b_ns": b_ns, "delta_ns": b_ns - a_ns,
             "a_kept_bytes": kept[0], "b_kept_bytes": kept[1]}
        )  # fmt: skip
    table = COMPARED.of_rows(rows)
    order = np.argsort(-table["delta_ns"].abs().to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def matched_sources(a: Trace, b: Trace) -> list[tuple[str, str, str]]:
    """Return the name in b and both texts of each cell that both sessions have."""
    pairs = _matched(_side(a), _side(b))
    return [(other["name"], one["source"], other["source"]) for one, other in pairs if one and other]


def cells_text(a: Trace, b: Trace, rows: int) -> str:
    """Return the comparison as text: the sums, and the cells that changed most."""
    table = compare_cells(a, b)
    before, after = int(table["a_ns"].sum()), int(table["b_ns"].sum())
    lines = [f"Run All: {format_ns(before)} → {format_ns(after)} ({signed_ns(after - before)})"]
    for row in table.head(rows).to_dict("records"):
        note = "" if row["status"] == "same" else f"  ({row['status']})"
        times = f"{format_ns(row['a_ns'])} → {format_ns(row['b_ns'])}"
        lines.append(f"  {signed_ns(row['delta_ns']):>10}  {times}  {row['name']}{note}")
    return "\n".join(lines)


def _side(trace: Trace) -> list[dict[str, Any]]:
    """Return the cells of a session with their texts."""
    texts = cell_runs(trace).drop_duplicates("cell", keep="last").set_index("cell")["source"]
    table = cells(trace)
    source = table["cell"].map(texts).astype("str").str.strip()
    made: list[dict[str, Any]] = table.assign(source=source).to_dict("records")
    return made


def _matched(
    a: list[dict[str, Any]], b: list[dict[str, Any]]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    left, right = list(a), list(b)

    def take(fits: Any) -> None:
        for one in list(left):
            if (other := next((row for row in right if fits(one, row)), None)) is not None:
                pairs.append((one, other))
                left.remove(one)
                right.remove(other)

    take(lambda one, other: one["source"] == other["source"])
    take(lambda one, other: one["cell_id"] and one["cell_id"] == other["cell_id"])
    take(lambda one, other: SequenceMatcher(None, one["source"], other["source"]).ratio() >= _ALIKE)
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]
