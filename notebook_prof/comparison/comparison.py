"""``nbp.compare``: did the change help, by how much, and where?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..expectations.language import Expectation
from ..expectations.outcomes import Expectations, judge
from ..expectations.quantities import Measured, missing
from ..profiles.display import display
from ..trace.redaction import Redaction
from .linked import LinkedSides
from .run import Recording, Side
from .verdict import moved, sentences, undecided


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
        from .page.queries import can_be_shown, comparison_report
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
        return display(self, as_widget=True)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the linked page. For sides without timelines, IPython falls back to `_repr_mimebundle_`."""
        from .page.queries import can_be_shown

        if not can_be_shown(self):
            raise NotImplementedError
        display(self, **kwargs)
