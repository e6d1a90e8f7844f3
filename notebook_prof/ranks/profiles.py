"""Profiles of a run's ranks, and ``ranks.plot``: their pictures."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..errors import NotebookProfError, SelectionError
from ..profiles.profile import Profile
from ..selection import Selection
from ..trace.redaction import Redaction
from .analysis.answers import RankAnswers
from .files import Paths
from .page.board import RankBoard, page_sums
from .page.frames import PageFrames, frames_under
from .rankset import find_ranks
from .reduction import Progress

if TYPE_CHECKING:
    from bokeh.models import UIElement


class RankPlot:
    """Pictures of many ranks as Bokeh models, for ``bokeh.io.show`` or your own layout."""

    def __init__(self, ranks: RankAnswers) -> None:
        self._ranks = ranks

    def bars(self) -> UIElement:
        """Draw a bar per rank: its median step, divided into parts."""
        return self._figure("bars")

    def heat(self, value: str = "step_ns") -> UIElement:
        """Draw ranks × steps, coloured by a column of `breakdown`; OptionError for an unknown column."""
        return self._views().rank_heat(self._frames(), self._ranks.breakdown(), value)

    def marey(self) -> UIElement:
        """Draw ranks as rows, time to the right, a line through the starts of each step."""
        return self._figure("marey")

    def lateness(self) -> UIElement:
        """Draw how late each rank arrives at shared collectives."""
        return self._figure("late")

    def matrix(self) -> UIElement:
        """Draw messages from rank to rank."""
        return self._figure("links")

    def bubbles(self) -> UIElement:
        """Draw pipeline bubbles of each rank."""
        return self._figure("bubbles")

    def spread(self) -> UIElement:
        """Draw groups of equal ranks, each with spread, representative and outliers."""
        folded = self._ranks.fold()
        metrics = list(dict.fromkeys(folded.bands["metric"]))
        middle = self._ranks.breakdown().groupby("rank")[metrics].median().reset_index()
        return self._views().rank_spread(folded.ranks, folded.bands, middle.melt("rank", var_name="metric"))

    def _figure(self, name: str) -> UIElement:
        return self._views().rank_figure(name, self._frames())

    def _frames(self) -> PageFrames:
        return frames_under(page_sums(self._ranks), {})

    def _views(self) -> Any:
        return importlib.import_module("notebook_prof.ranks.page.figures")  # loads Bokeh

    def __repr__(self) -> str:
        return "ranks.plot: bars(), heat(), marey(), lateness(), matrix(), bubbles(), spread()"


_MOST: Final = 8
_NUMBERED: Final = ("rank", "step", "group", "window")
"""Dimensions of a selection that contain no name from the user."""


class Ranks(RankAnswers):
    """The ranks of a run: ``ranks[3]`` is an ordinary Profile, ``ranks.map(analysis)`` one frame of all.

    Made by `read_ranks`.
    """

    _chosen: Selection | None = None

    @property
    def selection(self) -> Selection:
        """The selection that the ranks' dashboard, stacked timelines and Python share; see `Selection`."""
        if self._chosen is None:
            self._chosen = Selection()
        return self._chosen

    def timeline(self, ranks: int | Iterable[int] | None = None) -> Profile:
        """Stack the timelines of several ranks on one aligned axis, as an ordinary Profile.

        Parameters
        ----------
        ranks : int or iterable of int, optional
            Default: the selected ones (``ranks.selection.rank``), or at most 8 if none are selected. They are
            in memory together.

        Returns
        -------
        Profile
            It shares the ranks' selection.

        Raises
        ------
        SelectionError
            If one of the ranks does not exist, or none is given and there are many.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from notebook_prof.testing import draw
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for rank in range(3):
        ...     draw("stream 7: [gemm ]").to_chrome(folder / f"rank{rank}.json")
        >>> p = read_ranks(folder).timeline([0, 2])
        >>> p.trace.tracks["rank"].tolist()
        [0, 2]
        """
        if ranks is None:
            ranks = self.selection.rank or list(self)
            if len(ranks) > _MOST and self.selection.rank is None:
                raise SelectionError(
                    f"{len(self)} ranks are too many to stack: choose some, as in timeline([0, 7])"
                )
        return Profile(self.stacked(ranks), self.selection)

    def dashboard(self) -> RankBoard:
        """Return the linked dashboard, which displays itself in a notebook.

        Choosing ranks, steps, a process group or a time window filters the other figures. A double click on a
        rank, or *open timelines*, shows the timelines of the chosen ranks below. The choice is `selection`,
        which Python can read and set, as in ``ranks.selection.group = "1"``.
        """
        return RankBoard(self, self.selection, self.timeline)

    def to_html(
        self,
        path: str | os.PathLike[str],
        timelines: Iterable[int] | None = None,
        *,
        source: bool = True,
    ) -> None:
        """Write the linked dashboard into one HTML file, for a browser without kernel and network.

        Parameters
        ----------
        path : path
            An existing file is replaced. The figures and the table show the current selection, and do not
            change.
        timelines : iterable of int, optional
            Ranks whose timelines are in the file; they are read again, and in memory together. Default: all
            of up to eight ranks with 1.5 million slices together; otherwise the selected ones, the latest,
            the earliest, outliers, and one for each group of equal ranks, as far as they fit. The file says
            which. Its size is at most 15 MB: for longer timelines it contains the longest slices, and sums of
            the others.
        source : bool
            False leaves out source, file names, values of strings, and names of annotations; every rank is
            read for that.

        Raises
        ------
        SelectionError
            If there is no such rank.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from notebook_prof.testing import draw
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for rank in range(2):
        ...     draw("stream 7: [gemm ]").to_chrome(folder / f"rank{rank}.json")
        >>> read_ranks(folder).to_html(folder / "ranks.html")
        >>> "<script" in (folder / "ranks.html").read_text()
        True
        """
        numbers = None if timelines is None else list(self.chosen(list(timelines)))
        if source:
            self.dashboard().to_html(path, numbers)
            return
        names = Redaction()
        with tempfile.TemporaryDirectory() as folder:
            files = {}
            for rank in self:
                with suppress(NotebookProfError, OSError):  # the report has a line about it
                    trace = self.trace(rank)
                    files[rank] = os.path.join(folder, f"rank{rank}.nbprof")
                    names.of(trace).save(files[rank])
            hidden = read_ranks(files, processes=self._processes, progress=False)
            hidden.selection.update(**{name: getattr(self.selection, name) for name in _NUMBERED})
            hidden.dashboard().to_html(path, numbers)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return text and static HTML of the dashboard."""
        return self.dashboard()._repr_mimebundle_()

    def _display_(self) -> Any:
        """Return the dashboard's page; marimo calls this."""
        return self.dashboard()._display_()

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the dashboard if the front-end supports it, as a Profile does."""
        self.dashboard()._ipython_display_(**kwargs)

    @property
    def plot(self) -> RankPlot:
        """Pictures, as in ``ranks.plot.bars()``; see `RankPlot`."""
        return RankPlot(self)


def read_ranks(
    paths: Paths,
    client: Any = None,
    *,
    processes: int | None = None,
    progress: Progress = None,
) -> Ranks:
    """Find the recordings of a distributed job's ranks, without reading them.

    Parameters
    ----------
    paths : str, path, iterable of them, or mapping of int to path
        A pattern (``"run/*.json.gz"``), a folder, or files, one per rank. The rank comes from the file
        (``distributedInfo``), or else from its name (``rank3``, ``worker3``), or else from its position.
    client : distributed.Client, optional
        A Dask cluster that reads and reduces each rank next to its file. `paths` are then paths of the
        workers. Needs the extra ``ranks``.
    processes : int, optional
        Number of processes without a client. Default: one per core, if there is enough to read; 1 means this
        process.
    progress : callable or bool, optional
        Called with the number of ranks done and the total. Default: a text bar after two seconds in an
        interactive session.

    Returns
    -------
    Ranks
        An ordered mapping from rank to Profile. Its ``report`` lists missing and duplicate ranks, unreadable
        files, and differences between ranks; the other ranks stay usable.

    Raises
    ------
    FormatError
        If no file matches.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from notebook_prof.testing import draw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> drawings = "stream 7: [gemm ][ncclAllReduce    ]", "stream 7: [gemm    ][ncclAllReduce ]"
    >>> for rank, drawing in enumerate(drawings):
    ...     draw(drawing, categories={"ncclAllReduce": "collective"}).to_chrome(folder / f"rank{rank}.json")
    >>> ranks = read_ranks(folder)
    >>> ranks.stragglers()[["rank", "late_ns", "before"]].values.tolist()[0]
    [1, 3, 'gemm']
    >>> ranks[1].device()["busy_ns"].tolist()
    [26]
    """
    files, report = find_ranks(paths, client)
    return Ranks(files, report, client=client, processes=processes, progress=progress)


def merge_trace_events(paths: Paths, path: str | os.PathLike[str], *, progress: Progress = None) -> None:
    """Merge the recordings of several ranks into one Chrome trace on one clock, for Perfetto.

    Parameters
    ----------
    paths : str, path, iterable of them, or mapping of int to path
        As for `read_ranks`.
    path : path
        Compressed with gzip if it ends in ``.gz``; an existing file is replaced.
    progress : callable or bool, optional
        As for `read_ranks`.

    Raises
    ------
    FormatError
        If no file matches.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from notebook_prof import read_trace
    >>> from notebook_prof.testing import draw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for rank in range(2):
    ...     draw("stream 7: [gemm ]").to_chrome(folder / f"rank{rank}.json")
    >>> merge_trace_events(folder, folder / "all.json.gz", progress=False)
    >>> len(read_trace(folder / "all.json.gz"))
    2
    """
    read_ranks(paths, progress=progress).to_chrome(path)
