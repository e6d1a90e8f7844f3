"""The Profile: a trace, a selection, the analyses as methods, and views."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import pandas as pd

from .. import analysis
from ..compat.paddle_summary import Events
from ..compat.paddle_summary.text import event_text
from ..compat.torch_table import torch_text
from ..errors import OptionError, nearest
from ..selection import Selection
from ..trace.saving import format_of
from ..trace.trace import Trace
from ..writers.stacks import export_stacks
from .deferred_trace import DeferredTrace
from .display import display
from .methods import method
from .plot import Plot
from .text import Text, operator_table, profile_text, summary_text, trust_lines

_STYLES: Final = ("short", "paddle", "torch")


class Profile:
    """A recording and everything that can be asked of it.

    Parameters
    ----------
    trace : Trace or DeferredTrace
        What is still being made is waited for when it is asked for.
    selection : Selection, optional
        One to share with others; of its own unless given.

    Notes
    -----
    The methods `operators`, `kernels`, `steps`, `phases`, `memory`, `memory_peak`, `memory_live`,
    `hotspots` and `device` are the functions of `notebook_prof.analysis` with the trace filled in. They
    answer for the whole trace unless told otherwise, as in ``p.operators(window=p.selection.window)``.
    `export_stacks` is `notebook_prof.writers.export_stacks` likewise.

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

    _trace: Trace | DeferredTrace
    _selection: Selection
    _verdict: analysis.Verdict | None
    _trust: tuple[int, pd.DataFrame] | None

    def __init__(self, trace: Trace | DeferredTrace, selection: Selection | None = None) -> None:
        self._trace = trace
        self._selection = Selection() if selection is None else selection
        self._verdict = None
        self._trust = None

    @property
    def trace(self) -> Trace:
        """What was recorded; after a cell that has just ended, this waits until it is put together."""
        trace = self._trace
        if isinstance(trace, DeferredTrace):
            self._trace = trace = trace.get()
        return trace

    @property
    def pending(self) -> DeferredTrace | None:
        """What is still being put together; None when `trace` is there."""
        trace = self._trace
        return None if isinstance(trace, Trace) or trace.ready else trace

    @property
    def selection(self) -> Selection:
        """What is selected, in every view of this Profile and here; see `Selection`."""
        return self._selection

    @property
    def selected(self) -> pd.DataFrame:
        """The slices under the selection.

        Returns
        -------
        DataFrame
            Rows of ``trace.slices`` with their row numbers as index, whole: a slice that only touches the
            selected window keeps its `ts` and `dur`.
        """
        slices = self.trace.slices
        return slices[self.selection.mask(slices)]

    @property
    def verdict(self) -> analysis.Verdict:
        """What bounds this run; ``str()`` of it is the verdict in at most five lines."""
        trace = self.trace
        if self._verdict is None:
            self._verdict = analysis.verdict(trace)
        return self._verdict

    @property
    def trust(self) -> pd.DataFrame:
        """What of this recording cannot be trusted, how much of it, and what to do: `analysis.trust`.

        Returns
        -------
        DataFrame
            ``code severity count device_share effect advice example``, errors and losses first; no rows
            where nothing was found.
        """
        trace = self.trace
        if self._trust is None or self._trust[0] != len(trace.report):
            self._trust = len(trace.report), analysis.trust(trace)
        return self._trust[1].copy()

    @property
    def headline(self) -> str:
        """The verdict and, where the trust report has losses or errors, one line for all and one for each."""
        return "\n".join([str(self.verdict), *trust_lines(self.trust)])

    @property
    def plot(self) -> Plot:
        """Single views, as in ``p.plot.timeline()``; also ``operators``, ``memory`` and ``phases``."""
        return Plot(self.trace, self.selection)

    account = method(analysis.account)
    level_growth = method(analysis.level_growth)
    lines = method(analysis.lines)
    thread_time = method(analysis.thread_time)
    line_calls = method(analysis.line_calls)
    imports = method(analysis.imports)
    loaders = method(analysis.loaders)
    operators = method(analysis.operators)
    kernels = method(analysis.kernels)
    steps = method(analysis.steps)
    phases = method(analysis.phases)
    memory = method(analysis.memory)
    memory_peak = method(analysis.memory_peak)
    memory_live = method(analysis.memory_live)
    memory_blocks = method(analysis.memory_blocks)
    hotspots = method(analysis.hotspots)
    device = method(analysis.device)
    cpu = method(analysis.cpu)
    cpu_use = method(analysis.cpu_use)
    copies = method(analysis.copies)
    device_idle = method(analysis.device_idle)
    idle_causes = method(analysis.idle_causes)
    host_waits = method(analysis.host_waits)
    one_time = method(analysis.one_time)
    distributed = method(analysis.distributed)
    step_breakdown = method(analysis.step_breakdown)
    step_trace = method(analysis.step_trace)
    memory_by = method(analysis.memory_by)
    memory_operators = method(analysis.memory_operators)
    memory_growth = method(analysis.memory_growth)
    layers = method(analysis.layers)
    flame = method(analysis.flame)
    overhead = method(analysis.overhead)
    kernel_origins = method(analysis.kernel_origins)
    input_pipeline = method(analysis.input_pipeline)
    input_queues = method(analysis.input_queues)
    input_operators = method(analysis.input_operators)
    overview = method(analysis.overview)
    roofline = method(analysis.roofline)
    operator_work = method(analysis.operator_work)
    calls = method(analysis.calls)
    advice = method(analysis.advice)
    kernel_launches = method(analysis.kernel_launches)
    graph_nodes = method(analysis.graph_nodes)
    breakdown = method(analysis.breakdown)
    collectives = method(analysis.collectives)
    cluster_steps = method(analysis.cluster_steps)
    cluster_links = method(analysis.cluster_links)
    cluster_advice = method(analysis.cluster_advice)
    export_stacks = method(export_stacks)

    def summary(
        self, by: str | None = None, rows: int = 10, *, style: str | None = None, **paddle: Any
    ) -> Text:
        """Write the Profile as a short text: verdict, account, hottest lines, operators, memory.

        Parameters
        ----------
        by : str, optional
            Only a table of operators, grouped by ``name``, ``module``, ``phase``, ``category`` or ``shapes``.
        rows : int
            How many lines and operators to show.
        style : {"short", "paddle", "torch"}, optional
            ``paddle``: what ``paddle.profiler.Profiler.summary`` prints, see `paddle_summary`; ``torch``:
            what ``prof.key_averages().table()`` prints, see `table`.
        **paddle
            Arguments of `paddle_summary`; with any of them, Paddle's text is meant.

        Returns
        -------
        Text
            A str that shows itself without quotes in a notebook.

        Raises
        ------
        OptionError
            If there is no such grouping, style or argument.
        """
        if by is not None:
            return operator_table(self.operators(by=by), by, rows)
        chosen = style if style is not None else "paddle" if paddle else "short"
        if chosen == "paddle":
            return self.paddle_summary(**paddle)
        if paddle or chosen not in _STYLES:
            wrong = f"style={chosen!r}" if chosen not in _STYLES else ", ".join(paddle)
            raise OptionError(f"summary cannot be written with {wrong}: {nearest(chosen, _STYLES)}")
        if chosen == "torch":
            return self.table(row_limit=rows)
        return summary_text(self.verdict, self.account(), self.lines(), self.operators(), rows)

    def paddle_summary(
        self,
        *,
        sorted_by: str = "CPUTotal",
        views: str | Iterable[str] | None = None,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
    ) -> Text:
        """Write the tables that ``paddle.profiler.Profiler.summary`` prints, for any recording.

        Parameters
        ----------
        sorted_by : str
            ``CPUTotal CPUAvg CPUMax CPUMin GPUTotal GPUAvg GPUMax GPUMin``, or Paddle's ``SortedKeys``; from
            largest to smallest, minima from smallest to largest.
        views : str or iterable of str, optional
            ``DeviceView OverView ModelView DistributedView KernelView OperatorView MemoryView
            MemoryManipulationView UDFView``, or Paddle's ``SummaryView``; all unless given. Views without
            rows are left out.
        op_detail, thread_sep : bool
            Whether to list what is inside operators, and operators by thread.
        time_unit : str
            ``s ms us ns``.

        Returns
        -------
        Text
            For Paddle's recordings the very text, to the character.

        Raises
        ------
        OptionError
            If there is no such sort key, view or unit.
        """
        return Text(
            event_text(
                Events(self.trace),
                sorted_by=sorted_by,
                views=views,
                op_detail=op_detail,
                thread_sep=thread_sep,
                time_unit=time_unit,
            )
        )

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, *, time_unit: str | None = None
    ) -> Text:
        """Write operators as PyTorch's ``prof.key_averages().table()`` does.

        Parameters
        ----------
        sort_by : str, optional
            ``self_cpu_time_total cpu_time_total cpu_time count self_device_time_total device_time_total
            device_time`` (or ``cuda`` for ``device``), largest first; in order of appearance unless given.
        row_limit : int
            How many rows; -1 for all.
        time_unit : str, optional
            ``s ms us``; each time in the unit that fits unless given.

        Returns
        -------
        Text

        Raises
        ------
        OptionError
            If there is no such key or unit.
        """
        return Text(torch_text(self.trace, sort_by=sort_by, row_limit=row_limit, time_unit=time_unit))

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the trace, or a report, to a file.

        Parameters
        ----------
        path : path
            ``.nbprof``, or no suffix: a folder in our own format, which loses nothing and opens at once;
            ``.nbprof.zip``: the same as a single file. ``.json`` or ``.json.gz``: Chrome trace JSON, which
            Perfetto opens. `open_profile` opens all of these. ``.html``: the report of `to_html`.
        format : str, optional
            ``native``, ``chrome`` or another writer, whatever the suffix.

        Raises
        ------
        OptionError
            For a suffix or format that is not known.
        """
        if format is None and os.fspath(path).endswith(".html"):
            self.to_html(path)
        else:
            self.trace.save(path, format_of(path, ".html") if format is None else format)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML file with the four linked views.

        It needs no kernel and no network; the selection at the time of writing is in it.
        """
        from ..views.report.static_html import write_report

        claims = self.verdict.claims
        write_report(self.trace, self.selection, path, verdict=self.headline, claims=claims)

    def to_png(
        self, path: str | os.PathLike[str], view: str = "all", *, width: int = 1000, theme: str = "light"
    ) -> None:
        """Write the views as a picture, without a browser; what is not selected is pale.

        Parameters
        ----------
        path : path
        view : str
            ``timeline``, ``operators``, ``memory``, ``phases``, or ``all`` of them.
        width : int
            Pixels of the layout, at least 480; the picture has two dots a pixel.
        theme : str
            ``light`` or ``dark``.

        Raises
        ------
        OptionError
            If there is no such view or theme, or `width` is too small.
        """
        from ..views.pictures import write_png

        write_png(self.trace, self.selection, path, view, width, theme)

    def to_svg(
        self, path: str | os.PathLike[str], view: str = "all", *, width: int = 1000, theme: str = "light"
    ) -> None:
        """Write the views as a vector picture, without a browser; arguments as for `to_png`."""
        from ..views.pictures import write_svg

        write_svg(self.trace, self.selection, path, view, width, theme)

    def __repr__(self) -> str:
        return profile_text(self.trace, self.verdict, self.trust, self.lines())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and static HTML, for front-ends without widgets and notebooks reopened without a kernel."""
        from ..views.report.static_html import fragment

        return {
            "text/plain": repr(self),
            "text/html": fragment(self.trace, self.selection, verdict=self.headline),
        }

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the linked views where there is a front-end for them; IPython calls this.

        The floor above registers what shows a Profile as an entry point. NotImplementedError sends
        IPython on to `_repr_mimebundle_`.
        """
        display(self, **kwargs)
