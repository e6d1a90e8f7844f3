"""Profiles of a run's ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from ..errors import SelectionError
from ..profiles.profile import Profile
from ..selection import Selection
from ..trace import Trace
from .analysis.answers import RankAnswers
from .page.board import RankBoard
from .plot import RankPlot
from .rankset import find_ranks
from .reading.cache import Cache
from .reading.files import Paths
from .reading.progress import Progress

_MOST: Final = 8


class Ranks(RankAnswers[Profile]):
    """The ranks of a run: ``ranks[3]`` is an ordinary Profile, ``ranks.map(analysis)`` one frame of all.

    Made by `read_ranks`.
    """

    _chosen: Selection | None = None

    @property
    def selection(self) -> Selection:
        """What is selected, in the ranks' dashboard, in stacked timelines and here; see `Selection`."""
        if self._chosen is None:
            self._chosen = Selection()
        return self._chosen

    def timeline(self, ranks: int | Iterable[int] | None = None) -> Profile:
        """Stack the timelines of several ranks on one aligned axis, as an ordinary Profile.

        Parameters
        ----------
        ranks : int or iterable of int, optional
            The selected ones (``ranks.selection.rank``) unless given; at most 8 if nothing is selected. They
            are in memory together.

        Returns
        -------
        Profile
            Its selection is that of the ranks: what is chosen in one is chosen in the other.

        Raises
        ------
        SelectionError
            If one of the ranks is not there, or none is given and there are many.

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
                    f"{len(self)} ranks are too many to stack: name some, as in timeline([0, 7])"
                )
        return Profile(self.stacked(ranks), self.selection)

    def dashboard(self) -> RankBoard:
        """Return the linked dashboard: it shows itself in a notebook.

        Choosing ranks, steps, a process group or a stretch of time filters the other figures; clicking on a
        rank twice, or on *open timelines*, shows the timelines of the chosen ranks below. What is chosen is
        in `selection`, which Python may read and set, as in ``ranks.selection.group = "1"``.
        """
        return RankBoard(self, self.selection, self.timeline)

    def to_html(self, path: str | os.PathLike[str], timelines: Iterable[int] | None = None) -> None:
        """Write the linked dashboard into one HTML file, for a browser without kernel and network.

        Parameters
        ----------
        path : path
            An existing file is replaced. The figures answer every selection of ranks, steps, process groups
            and time, beginning with `selection`.
        timelines : iterable of int, optional
            Ranks whose timelines are in the file; they are read again, and in memory together. Default: all
            of up to eight ranks of 1.5 million slices together; else the selected ones, the latest, the
            earliest, those unlike the others, and one for each group of ranks that do the same, as far as
            they fit. The file says which. It does not become longer than 15 MB: of longer timelines it holds
            the longest slices one by one, and sums of the others.

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
        self.dashboard().to_html(path, numbers)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return text and static HTML of the dashboard."""
        return self.dashboard()._repr_mimebundle_()

    def _display_(self) -> Any:
        """Return the dashboard's page; marimo calls this."""
        return self.dashboard()._display_()

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Show the dashboard where there is a front-end for it, as a Profile shows itself."""
        self.dashboard()._ipython_display_(**kwargs)

    def _presented(self, trace: Trace) -> Profile:
        return Profile(trace)

    @property
    def plot(self) -> RankPlot:
        """Pictures, as in ``ranks.plot.bars()``; see `RankPlot`."""
        return RankPlot(self)


def read_ranks(
    paths: Paths,
    client: Any = None,
    *,
    cache: Cache = None,
    processes: int | None = None,
    progress: Progress = None,
) -> Ranks:
    """Find the recordings of a distributed job's ranks; nothing is read yet.

    Parameters
    ----------
    paths : str, path, iterable of them, or mapping of int to path
        A pattern (``"run/*.json.gz"``), a folder, or files, one a rank. The rank is the one that the file
        tells (``distributedInfo``), or else its name (``rank3``, ``worker3``), or else its place in order.
    client : distributed.Client, optional
        A Dask cluster that reads and reduces each rank where its file is. `paths` are then those of the
        workers. Needs the extra ``ranks``.
    cache : path or bool, optional
        Folder in which to keep the recordings in our own format, so that the second look is quick; True is
        ``.notebook_prof`` beside each file.
    processes : int, optional
        Without a client: how many processes to use. Default: as many as there are cores, if there is enough
        to read; 1 is this process.
    progress : callable or bool, optional
        Called with ranks done and in all. Default: a bar of text after two seconds, where someone watches.

    Returns
    -------
    Ranks
        An ordered mapping from rank to Profile. Its ``report`` tells of missing and doubled ranks, files that
        cannot be read, and what differs between ranks; the rest is shown all the same.

    Raises
    ------
    FormatError
        If no file fits.

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
    return Ranks(files, report, client=client, cache=cache, processes=processes, progress=progress)


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
        If no file fits.

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
