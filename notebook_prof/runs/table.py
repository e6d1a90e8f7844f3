"""``nbp.history``, the history as a table, and ``nbp.load``, which loads a run of it."""

from __future__ import annotations

import os
import warnings
import zlib
from typing import Any, Final

import pandas as pd

from ..errors import HistoryError, OptionError, nearest
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from ..trace.schema import Column, Table
from .entry import HistoryRun, kept_path, read_run
from .folder import VARIABLE, history_folder, notebook_path
from .store import Store, damaged_files
from .writing import losses, missing, wait

_PATIENCE_S: Final = 60.0

COLUMNS: Final = Table(
    "history",
    (
        Column("run", "int64", "", "number, for `load`"),
        Column("at", "datetime64[ns, UTC]", "", "when the recording ended"),
        Column("name", "str", "", "given by `--name`; empty without"),
        Column("notebook", "str", "", "path from the project's folder; the working folder if unknown"),
        Column("cell", "str", "", "the front-end's id of the cell; empty if unknown"),
        Column("lineage", "int64", "", "number of the cell's first run: equal for all of its runs"),
        Column("earlier", "Int64", "", "the run it was compared with; missing for the first"),
        Column("link", "str", "", "why it counts as the same cell: `cell name source`, or the similarity"),
        Column("cell_hash", "str", "", "equal for the same program, whatever its comments"),
        Column("kernel", "str", "", "equal for runs of one process"),
        Column("options", "str", "", "what was recorded, and how"),
        Column("environment", "str", "", "equal for the same computer, devices, threads and versions"),
        Column("revision", "str", "", "commit checked out in git; empty without git"),
        Column("dirty", "boolean", "", "whether tracked files differed from it; missing if unknown"),
        Column("failed", "bool", "", "whether the code ended with an exception"),
        Column("steps", "int64", "", "steps that count; 1 for a recording without steps"),
        Column("p50_ns", "float64", "ns", "median step"),
        Column("mean_ns", "float64", "ns", "mean step"),
        Column("total_ns", "int64", "ns", "the whole recording"),
        Column("peak_bytes", "Int64", "bytes", "peak above the start, of a device or else of the host"),
        Column("load", "float64", "", "mean number of threads that wanted a core, over a minute"),
        Column(
            "core_share", "float64", "1", "share of runnable time on a core; missing if the thread waited"
        ),
        Column("noise", "float64", "", "distance from an unchanged previous run, in half-widths"),
        Column("verdict", "str", "", "first line of the verdict"),
        Column("trust", "str", "", "codes of `p.trust` that are losses or errors"),
        Column("kept", "bool", "", "whether the recording was kept"),
        Column("source", "str", "", "text of the cell"),
    ),
)
_STORED: Final = {"run": "id", "at": "at_ns", "lineage": "coalesce(lineage, id)"}


def history(cell: str | None = None, *, name: str | None = None) -> pd.DataFrame:
    """List the recorded runs of this project.

    Parameters
    ----------
    cell : str, optional
        Only runs of this cell, given by its id or by text of its source.
    name : str, optional
        Only runs of this name.

    Returns
    -------
    DataFrame
        One row per run, the oldest first. The columns are those of `runs.table.COLUMNS`, with units in their
        names. No rows if nothing was recorded. Waits for rows that are being written, for at most a minute; a
        warning names missing runs of this process. ``attrs`` has the ``folder``, how many runs of this
        process were ``lost``, the ``reason`` for the last loss, and the files set ``aside`` as damaged.

    Raises
    ------
    HistoryError
        If the history is switched off, or the file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, NOTEBOOK_PROF_HISTORY=tempfile.mkdtemp()):
    ...     history()["p50_ns"].dtype
    dtype('float64')
    """
    store = open_store()
    warn_of_missing()
    table = runs_of(store)
    if cell is not None:
        table = table[(table["cell"] == cell) | table["source"].str.contains(cell, regex=False)]
    if name is not None:
        table = table[table["name"] == name]
    table = table.reset_index(drop=True)
    table.attrs = {
        "folder": str(store.folder),
        **losses(),
        "aside": [str(path) for path in damaged_files(store.folder)],
    }
    return table


def runs_of(store: Store) -> pd.DataFrame:
    """Return the rows of the history, oldest first."""
    names = COLUMNS.names
    rows = store.select(", ".join(_STORED.get(name, name) for name in names), "ORDER BY at_ns, id")
    table = pd.DataFrame(rows, columns=names)
    columns: dict[str, Any] = {
        **{name: table[name] for name in names},
        "at": pd.to_datetime(table["at"].astype("int64"), utc=True),
        "kept": table["kept"] != "",
        "source": [zlib.decompress(text).decode("utf-8") for text in table["source"]],
    }
    return COLUMNS.frame(columns)


def load(run: int | str) -> Profile | HistoryRun:
    """Load a run of the history: its recording if that was kept, otherwise its totals.

    Parameters
    ----------
    run : int or str
        Its number in `history`, or a name, which loads the newest run of that name.

    Returns
    -------
    Profile or HistoryRun
        `compare` accepts both. A `HistoryRun` has ``steps`` and totals by phase, operator, line and kernel;
        any other attribute of a Profile raises `NotRecordedError`, with the reason.

    Raises
    ------
    OptionError
        For an unknown run. The message gives the most similar name.
    HistoryError
        If the history is switched off, or cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, NOTEBOOK_PROF_HISTORY=tempfile.mkdtemp()):
    ...     load("baseline")
    Traceback (most recent call last):
        ...
    notebook_prof.errors.OptionError: the history has no run 'baseline': no run has a name
    """
    store = open_store()
    warn_of_missing()
    run = os.fspath(run) if isinstance(run, os.PathLike) else run
    if isinstance(run, str) and not run.isdecimal():
        rows = store.select("id", "WHERE name = ? ORDER BY at_ns DESC, id DESC LIMIT 1", (run,))
        if not rows and os.path.exists(run):
            raise OptionError(f"the history has no run {run!r}: it is a file, which nbp.open_profile opens")
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
    """Warn of runs of this process that are not, or not yet, in the history."""
    if lacks := missing():
        warnings.warn(lacks, stacklevel=3)


def open_store() -> Store:
    """Open the history of this project. Waits for rows of this process, for at most a minute."""
    wait(_PATIENCE_S)
    try:
        folder = history_folder(notebook_path())
    except OSError as error:
        raise HistoryError(
            f"there is no history: the folder in which this process started was deleted ({error})"
        ) from error
    if folder is None:
        raise HistoryError(f"the history is switched off by {VARIABLE}")
    return Store(folder)
