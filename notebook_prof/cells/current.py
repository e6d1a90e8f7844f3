"""The watched notebook of this process, of which there is at most one."""

from __future__ import annotations

from ..errors import NotRecordedError
from ..profiles.profile import Profile
from .build import build, saved_notebook
from .watch import NotebookWatch

_latest: NotebookWatch | None = None


def latest() -> NotebookWatch | None:
    """Return the running watch, or the last one."""
    return _latest


def remember(watch: NotebookWatch) -> None:
    """Make this the watch that `notebook` returns."""
    global _latest
    _latest = watch


def notebook() -> Profile:
    """Return the session of this notebook so far, as watched by ``%profile_notebook``.

    Returns
    -------
    Profile
        Like that of a cell: its timeline has a track of the cells with their statements below, the threads,
        memory and devices, and all analyses work on it. ``nb.cells()`` lists the cells, ``nb.path()`` their
        dependences, ``nb.memory.names()`` what holds memory now. Times are in ns, memory in bytes.

    Raises
    ------
    NotRecordedError
        If this notebook is not watched.

    Examples
    --------
    >>> from notebook_prof.cells.watch import NotebookWatch
    >>> watch = NotebookWatch(dict, threads=False)
    >>> remember(watch)
    >>> watch.end(watch.begin("x = 1", 1))
    >>> notebook().cells()["name"].tolist()
    ['In[1] x = 1']
    >>> watch.stop()
    """
    if _latest is None or _latest.is_of_parent:
        raise NotRecordedError("this notebook is not watched: run %profile_notebook, then its cells")
    return Profile(build(_latest, saved_notebook()))
