"""The Profile: a trace, a selection, the analyses as methods, and views."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, Final

import pandas as pd

from .. import analysis, expectations
from ..analysis.notebook.recorded import is_notebook
from ..analysis.verdict.claims import Sentence
from ..errors import OptionError, nearest
from ..selection import Selection
from ..trace.trace import Trace, format_of
from . import topics
from .deferred_trace import DeferredTrace
from .display import Displayed, Plot
from .namespace import method, topic
from .text import PlainText, operator_table, profile_text, summary_text, trust_lines

if TYPE_CHECKING:
    from .brief import Brief
    from .export import Export
    from .replay import Replayed

_STYLES: Final = ("short", "paddle", "torch")


def _replay() -> Callable[Concatenate[Trace, ...], Replayed]:
    from .replay import replay

    return replay


class Profile(Displayed):
    """A recording, with all its analyses and views.

    Parameters
    ----------
    trace : Trace or DeferredTrace
        The first use of a deferred trace waits until it is built.
    selection : Selection, optional
        A selection that is shared with other Profiles. By default, a new one.

    Notes
    -----
    The methods are functions of `notebook_prof.analysis` with the trace filled in; those of a topic are in a
    namespace, as in ``p.memory.peak()``, and ``p.memory`` lists them. They cover the whole trace unless they
    are restricted, as in ``p.operators(window=p.selection.window)``.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2, 6], dur=[10, 3, 3], name=["linear", "mm", "mm"], track=b.track("main"))
    >>> p = Profile(b.seal())
    >>> p.operators()["name"].tolist()
    ['mm', 'linear']
    >>> p.selection.name = "mm"
    >>> p.selected["ts"].tolist()
    [2, 6]
    """

    def __init__(self, trace: Trace | DeferredTrace, selection: Selection | None = None) -> None:
        self._trace = trace
        self._selection = Selection() if selection is None else selection
        self._verdict: analysis.Verdict | None = None
        self._trust: tuple[int, pd.DataFrame] | None = None
        self._history: Any = None  # a `PreviousRun`, from the layer above; set by `runs.writing.remember`

    @property
    def trace(self) -> Trace:
        """The recording. If its cell has just ended, this blocks until the recording is assembled."""
        trace = self._trace
        if isinstance(trace, DeferredTrace):
            self._trace = trace = trace.get()
        return trace

    @property
    def pending(self) -> DeferredTrace | None:
        """The recording while it is still being assembled; None once `trace` is ready."""
        trace = self._trace
        return None if isinstance(trace, Trace) or trace.ready else trace

    @property
    def selection(self) -> Selection:
        """The selection, shared by every view of this Profile; see `Selection`."""
        return self._selection

    @property
    def selected(self) -> pd.DataFrame:
        """The selected slices.

        Returns
        -------
        DataFrame
            Rows of ``trace.slices`` with their row numbers as index. In a selected window, `ts`, `dur` and
            `self_ns` are cut exactly at its edges, so that sums are those of the views.
        """
        from ..analysis.scope import cut_slices

        slices = self.trace.slices
        if self.selection.window is not None:
            slices = cut_slices(slices, self.selection.window)
        return slices[self.selection.mask(slices)]

    def sql(self, query: str | None = None, *, timeout: str | float = "30s") -> pd.DataFrame:
        """Run an SQL query over the tables of the Trace and of the analyses, using DuckDB.

        Parameters
        ----------
        query : str, optional
            One SELECT or EXPLAIN. Tables are those of the Trace (``slices`` with its row number ``slice``,
            ``tracks counters flows stacks allocations``), ``selected``, and the analyses without arguments:
            ``operators lines memory_names`` …
        timeout : str or float
            A duration such as ``"30s"``, or nanoseconds.

        Returns
        -------
        DataFrame
            The answer, in DuckDB's order. Without a query: the tables, and the pandas call for each.

        Raises
        ------
        OptionError
            If the query is invalid, names an unknown table, takes too long, or does more than read. It has no
            access to files, the network, extensions or Python variables.
        ExtraNotInstalledError
            Without DuckDB: ``pip install "notebook-prof[sql]"``.

        Examples
        --------
        >>> from notebook_prof.testing import draw
        >>> Profile(draw("main: [mm][relu]")).sql("select name from slices order by ts").values.tolist()
        [['mm'], ['relu']]
        """
        from . import sql

        return sql.overview(self) if query is None else sql.query(self, query, timeout)

    def select(self, query: str, *, timeout: str | float = "30s") -> pd.DataFrame:
        """Select the result of a query in every view, by its columns ``name category phase line track step
        rank``.

        Parameters, errors and result are those of `sql`. OptionError is also raised for an answer without
        rows or without any of these columns. The query replaces the whole selection.

        Examples
        --------
        >>> from notebook_prof.testing import draw
        >>> p = Profile(draw("main: [mm][relu]"))
        >>> _ = p.select("select name from operators order by name limit 1")
        >>> p.selection.name
        ('mm',)
        """
        from . import sql

        rows = self.sql(query, timeout=timeout)
        clauses = sql.clauses_of(rows)
        self.selection.clear()
        self.selection.update(**clauses)
        return rows

    @property
    def verdict(self) -> analysis.Verdict:
        """What bounds this run. Its ``str()`` is the verdict in a few lines.

        The second line compares this run with the previous one, if the history has one; see `previous`.
        """
        trace = self.trace
        if self._verdict is None:
            verdict = analysis.verdict(trace)
            if verdict.kind != "nothing-recorded" and (since := self._of_history("sentence")):
                verdict = replace(verdict, further=(Sentence(since), *verdict.further))
            self._verdict = verdict
        return self._verdict

    @property
    def previous(self) -> Any:
        """This run compared with the previous one of the history, by `compare`; None without one."""
        self.trace  # noqa: B018 (waits until it is built)
        return self._of_history("comparison")

    def _of_history(self, what: str) -> Any:
        try:
            return None if self._history is None else getattr(self._history, what)(self)
        except Exception:  # an error of the history must not break the Profile
            return None

    @property
    def trust(self) -> pd.DataFrame:
        """What cannot be trusted in this recording, how much of it is affected, and what to do; see
        `analysis.trust`.

        Returns
        -------
        DataFrame
            ``code severity count device_share finding effect advice example``, errors and losses first; no
            rows if nothing was found.
        """
        trace = self.trace
        if self._trust is None or self._trust[0] != len(trace.report):
            self._trust = len(trace.report), analysis.trust(trace)
        return self._trust[1].copy()

    @property
    def headline(self) -> str:
        """The verdict and, if the trust report has losses or errors, a line for all and a line for each."""
        return "\n".join([str(self.verdict), *trust_lines(self.trust)])

    @property
    def plot(self) -> Plot:
        """Single views, as in ``p.plot.timeline()``; also ``operators``, ``memory`` and ``phases``."""
        return Plot(self.trace, self.selection)

    account = method(lambda: analysis.account)
    cells = method(lambda: analysis.cells)
    path = method(lambda: analysis.path)
    metrics = method(lambda: analysis.metrics)
    overview = method(lambda: analysis.overview)
    advice = method(lambda: analysis.advice)
    phases = method(lambda: analysis.phases)
    layers = method(lambda: analysis.layers)
    kernels = method(lambda: analysis.kernels)
    hotspots = method(lambda: analysis.hotspots)
    flame = method(lambda: analysis.flame)
    sandwich = method(lambda: analysis.sandwich)
    call_tree = method(lambda: analysis.call_tree)
    bottom_up = method(lambda: analysis.bottom_up)
    heaviest_stack = method(lambda: analysis.heaviest_stack)
    event_log = method(lambda: analysis.event_log)
    why = method(lambda: analysis.why)
    what_if = method(lambda: analysis.what_if)
    replay = method(_replay)
    training = method(lambda: analysis.training)
    expect = method(lambda: expectations.expect)

    operators = topic(topics.Operators)
    steps = topic(topics.Steps)
    memory = topic(topics.Memory)
    input = topic(topics.Input)
    device = topic(topics.Device)
    critical_path = topic(topics.CriticalPath)
    lines = topic(topics.Lines)
    compilations = topic(topics.Compilations)
    cpu = topic(topics.Cpu)
    distributed = topic(topics.Distributed)
    mindspore = topic(topics.MindSpore)
    compat = topic(topics.Compat)

    if not TYPE_CHECKING:  # so type checkers still report unknown attributes

        def __getattr__(self, name: str) -> Any:
            """A topic that another package has registered."""
            if name[0] == "_" or name not in topics.registered():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return topics.registered_topic(name)(self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *topics.registered()})

    @property
    def export(self) -> Export:
        """Files for other programs: ``html``, ``png``, ``svg``, ``chrome``, ``stacks``."""
        from .export import Export

        return Export(self)

    def brief(self, rows: int = 5) -> Brief:
        """Write the Profile as Markdown: the verdict, the source of its numbers, lines, advice and doubts.

        Parameters
        ----------
        rows : int
            Number of rows per table.

        Returns
        -------
        Brief
            ``print()`` shows it. ``to_dict()`` and ``to_json()`` return its numbers unrounded.

        Examples
        --------
        >>> from notebook_prof import Profile
        >>> from notebook_prof.testing import draw
        >>> p = Profile(draw("main: [mm      ][add]"))
        >>> p.brief().absent[:2]
        ('p.steps()', 'p.lines()')
        """
        from .brief import brief_of

        return brief_of(self.trace, self.verdict, self.trust, rows)

    def summary(
        self, by: str | None = None, rows: int = 10, *, style: str | None = None, **paddle: Any
    ) -> PlainText:
        """Write the Profile as a short text: `headline`, account, hottest lines, operators.

        Parameters
        ----------
        by : str, optional
            Write only a table of operators, grouped by ``name``, ``module``, ``phase``, ``category`` or
            ``shapes``.
        rows : int
            Number of lines and operators.
        style : {"short", "paddle", "torch"}, optional
            ``paddle``: the tables of ``paddle.profiler.Profiler.summary``, see `p.compat.paddle_summary`;
            ``torch``: that of ``prof.key_averages().table()``, see `p.compat.torch_table`.
        **paddle
            Arguments of `p.compat.paddle_summary`; any of them implies Paddle's style.

        Returns
        -------
        PlainText
            A str that notebooks show without quotes.

        Raises
        ------
        OptionError
            For an unknown grouping, style or argument.
        """
        if by is not None:
            return operator_table(self.operators(by=by), by, rows)
        chosen = style if style is not None else "paddle" if paddle else "short"
        if chosen == "paddle":
            return PlainText(self.compat.paddle_summary(**paddle))
        if paddle or chosen not in _STYLES:
            wrong = f"style={chosen!r}" if chosen not in _STYLES else ", ".join(paddle)
            raise OptionError(f"summary cannot be written with {wrong}: {nearest(chosen, _STYLES)}")
        if chosen == "torch":
            return PlainText(self.compat.torch_table(row_limit=rows))
        tables = self.account(), self.lines(), self.operators()
        return summary_text(self.headline, *tables, rows, of_notebook=is_notebook(self.trace))

    def save(self, path: str | os.PathLike[str], format: str | None = None, *, source: bool = True) -> None:
        """Write the trace, or a report, to a file.

        Parameters
        ----------
        path : path
            ``.nbprof``, or no suffix: a folder in our native format, which loses nothing and opens at once;
            ``.nbprof.zip``: the same as a single file. For other tools, ``.json`` or ``.json.gz``: Chrome
            trace JSON, which Perfetto shows and `open_profile` opens like PyTorch's files. ``.html``: the
            report of ``p.export.html``.
        format : str, optional
            ``native``, ``chrome`` or another writer, regardless of the suffix.
        source : bool
            False leaves out source, file names, values of strings, and names of variables and annotations.

        Raises
        ------
        OptionError
            For an unknown suffix or format.
        """
        if format is None and os.fspath(path).endswith(".html"):
            self.export.html(path, source=source)
        else:
            from ..trace.redaction import without_source

            trace = self.trace if source else without_source(self.trace)
            trace.save(path, format_of(path, ".html") if format is None else format)

    def __repr__(self) -> str:
        return profile_text(self.trace, self.verdict, self.trust, self.lines())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return text and static HTML, for notebooks without a kernel."""
        from ..views.report.static_html import fragment

        html = fragment(self.trace, self.selection, verdict=self.headline)
        return {"text/plain": repr(self), "text/html": html}
