"""Called by ``notebook-prof run`` in the kernel of a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from IPython import get_ipython

from ...cells.build import build, latest
from .. import extension
from . import events


def begin() -> None:
    """Watch every cell from now on."""
    shell = get_ipython()
    extension.load(shell)
    events.register(shell)


def save(path: str, ids: Mapping[int, str]) -> None:
    """Save the session so far. `ids` has the ids of cells by execution count."""
    watch = latest()  # also of a watch that a cell has ended
    assert watch is not None
    for run in watch.runs:
        run.cell = run.cell or ids.get(run.number, "")
    build(watch).save(path)


def finish(path: str, ids: Mapping[int, str]) -> None:
    """End the watch, and save the session."""
    events.unregister(get_ipython())
    save(path, ids)
