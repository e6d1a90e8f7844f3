"""Runs of the history one by one: ``nbp.load``."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from ..comparison.run import Summary
from ..errors import HistoryError, NotRecordedError, OptionError, nearest
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from ..units import format_items, format_ns
from .folder import VARIABLE, history_folder, notebook_path
from .keeping import kept_path
from .packing import unpacked
from .store import Store

_COLUMNS = (
    "id, at_ns, kernel, notebook, cell, cell_hash, name, options, environment, load, core_share, p50_ns, "
    "steps, source, content"
)


_PATIENCE_S = 60.0


@dataclass(frozen=True, eq=False, repr=False)
class HistoryRun(Summary):
    """A run of the history: `notebook_prof.compare` takes it; its recording was not kept.

    Attributes
    ----------
    run : int
        Its number in `notebook_prof.history`.
    name, kernel, notebook, cell, cell_hash, options, environment : str
        As there.
    load, core_share, p50_ns : float or None
    at_ns, used_steps : int
    """

    run: int = 0
    name: str = ""
    kernel: str = ""
    notebook: str = ""
    cell: str = ""
    cell_hash: str = ""
    options: str = ""
    environment: str = ""
    load: float | None = None
    core_share: float | None = None
    p50_ns: float | None = None
    at_ns: int = 0
    used_steps: int = 0

    def __repr__(self) -> str:
        what = "its steps took" if self.used_steps > 1 else "it took"
        took = "" if self.p50_ns is None else f": {what} {format_ns(self.p50_ns)}"
        took += f" ({format_items(self.used_steps, 'step')}, median)" if self.used_steps > 1 else ""
        return f"{self.title}{took}. {_WITHOUT}"

    def __getattr__(self, name: str) -> NoReturn:
        # reached only for what a run of the history does not have; a Profile may have it
        if name.startswith("_") or not hasattr(Profile, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotRecordedError(f"{name} was asked of {self.title}. {_WITHOUT}")


_WITHOUT = "Its recording was not kept, %%profile --keep does that; nbp.compare() takes its totals."


def load(run: int | str) -> Profile | HistoryRun:
    """Give a run of the history: its recording where that was kept, else its totals.

    Parameters
    ----------
    run : int or str
        Its number in `history`, or its name: the newest run of that name.

    Returns
    -------
    Profile or HistoryRun
        `compare` takes both. A `HistoryRun` has ``steps`` and totals by phase, operator, line and kernel;
        whatever else a Profile has raises `NotRecordedError`, which says so.

    Raises
    ------
    OptionError
        If there is no such run; with the nearest name.
    HistoryError
        If the history is switched off, or cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> before = os.environ.get("NOTEBOOK_PROF_HISTORY", "")
    >>> os.environ["NOTEBOOK_PROF_HISTORY"] = tempfile.mkdtemp()
    >>> load("baseline")
    Traceback (most recent call last):
        ...
    notebook_prof.errors.OptionError: the history has no run 'baseline': no run has a name
    >>> os.environ["NOTEBOOK_PROF_HISTORY"] = before
    """
    store = open_store()
    warn_of_missing()
    if isinstance(run, str) and not run.isdecimal():
        rows = store.select("id", "WHERE name = ? ORDER BY at_ns DESC, id DESC LIMIT 1", (run,))
        if not rows:
            names = [name for (name,) in store.select("DISTINCT name", "WHERE name != ''")]
            close = nearest(run, names) if names else "no run has a name"
            raise OptionError(f"the history has no run {run!r}: {close}")
        run = int(rows[0][0])
    entry = read_run(store, int(run))
    kept = store.select("kept", "WHERE id = ?", (entry.run,))[0][0]
    path = kept_path(store.folder, kept) if kept else None
    return open_profile(path) if path is not None and path.exists() else entry


def warn_of_missing() -> None:
    """Warn of runs of this process that are not in the history, or not yet."""
    from .writing import missing

    if lacks := missing():
        warnings.warn(lacks, stacklevel=3)


def open_store() -> Store:
    """Open the history of this project; rows of this process are waited for, a minute at most.

    Raises
    ------
    HistoryError
        If it is switched off.
    """
    from .writing import wait  # whose rows know the run before, which is read here

    wait(_PATIENCE_S)
    try:
        folder = history_folder(notebook_path())
    except OSError as error:
        raise HistoryError(
            f"there is no history: the folder in which this began is gone ({error})"
        ) from error
    if folder is None:
        raise HistoryError(f"the history is switched off by {VARIABLE}")
    return Store(folder)


def read_run(store: Store, run: int) -> HistoryRun:
    """Read a run.

    Raises
    ------
    OptionError
        If there is none of this number.
    HistoryError
        If the file cannot be read, or the row is damaged.
    """
    rows = store.select(_COLUMNS, "WHERE id = ?", (run,))
    if not rows:
        numbers = store.select("min(id), max(id)")
        first, last = numbers[0] if numbers else (None, None)
        there = "it is empty" if first is None else f"it has {first} to {last}, less what was evicted"
        raise OptionError(f"the history has no run {run}: {there}")
    columns: dict[str, Any] = dict(zip(_COLUMNS.split(", "), rows[0], strict=True))
    number, name = columns.pop("id"), columns["name"]
    title = f"run {number} of the history" + (f" ({name})" if name else "")
    source, content, columns["used_steps"] = (
        columns.pop("source"),
        columns.pop("content"),
        columns.pop("steps"),
    )
    try:
        summary = unpacked(source, content, title)
    except (ValueError, KeyError, IndexError, zlib.error) as error:
        raise HistoryError(f"{title} is damaged: {type(error).__name__}: {error}") from error
    values = {field.name: getattr(summary, field.name) for field in fields(Summary)}
    return HistoryRun(**values, run=number, **columns)
