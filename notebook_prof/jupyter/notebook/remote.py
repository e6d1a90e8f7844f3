"""What ``notebook-prof run`` asks of the kernel in which it runs a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from IPython import get_ipython

from ...cells.build import build
from .. import extension
from . import events


def begin() -> None:
    """Watch every cell from here on."""
    shell = get_ipython()
    extension.load(shell)
    events.register(shell)


def finish(path: str, ids: Mapping[int, str]) -> None:
    """Save the session, and end the watch. `ids` has the ids of cells by execution count."""
    shell = get_ipython()
    watching = events.events_of(shell)
    if watching is None:  # a cell has ended it
        return
    watch = watching.watch
    watch.stop()
    for run in watch.runs:
        run.cell = run.cell or ids.get(run.number, "")
    build(watch).save(path)
    events.unregister(shell)
