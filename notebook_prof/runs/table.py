"""The history as a table: ``nbp.history``."""

from __future__ import annotations

import zlib
from typing import Any, Final

import pandas as pd

from ..trace.schema import Column, Table
from .entry import open_store, warn_of_missing
from .store import Store, damaged_files
from .writing import losses

COLUMNS: Final = Table(
    "history",
    (
        Column("run", "int64", "", "number, for `load`"),
        Column("at", "datetime64[ns, UTC]", "", "when the recording ended"),
        Column("name", "str", "", "as `--name` gave it; empty without"),
        Column(
            "notebook", "str", "", "path from the project's folder; the working folder where it is not known"
        ),
        Column("cell", "str", "", "the front-end's id of the cell; empty where it is not told"),
        Column("lineage", "int64", "", "first run of this cell: the same for all of its runs"),
        Column("earlier", "Int64", "", "run that it was compared with; missing for the first"),
        Column("link", "str", "", "why that is the same cell: `cell name source`, or how much is alike"),
        Column("cell_hash", "str", "", "the same for the same program, whatever its comments"),
        Column("kernel", "str", "", "the same for runs of one process"),
        Column("options", "str", "", "what was recorded, and how"),
        Column("environment", "str", "", "the same for the same computer, devices, threads and versions"),
        Column("revision", "str", "", "commit that git had checked out; empty without git"),
        Column("dirty", "boolean", "", "whether tracked files differed from it; missing if not known"),
        Column("failed", "bool", "", "whether the code ended with an exception"),
        Column("steps", "int64", "", "that count; 1 for a recording without steps"),
        Column("p50_ns", "float64", "ns", "median step"),
        Column("mean_ns", "float64", "ns", "mean step"),
        Column("total_ns", "int64", "ns", "the whole recording"),
        Column("peak_bytes", "Int64", "bytes", "highest above the start, of a device or else of the host"),
        Column("overhead", "float64", "1", "time of a recorded step over a bare one, where measured"),
        Column("load", "float64", "", "threads of the computer that wanted a core, over a minute"),
        Column(
            "core_share", "float64", "1", "of the time in which the thread could run; missing if it waited"
        ),
        Column("noise", "float64", "", "half widths between it and an unchanged run before; else missing"),
        Column("verdict", "str", "", "first line of what was said"),
        Column("trust", "str", "", "codes of `p.trust` that are losses or errors"),
        Column("kept", "bool", "", "whether the recording was kept"),
        Column("source", "str", "", "text of the cell"),
    ),
)
_STORED: Final = {
    "run": "id",
    "at": "at_ns",
    "lineage": "coalesce(lineage, id)",
}


def history(cell: str | None = None, *, name: str | None = None, notebook: str | None = None) -> pd.DataFrame:
    """List the runs of this project that were recorded.

    Parameters
    ----------
    cell : str, optional
        Only runs of this cell: its id, or a text that its source contains.
    name : str, optional
        Only runs of this name.
    notebook : str, optional
        Only runs of notebooks whose path ends so.

    Returns
    -------
    DataFrame
        A row a run, the oldest first; the columns are those of `runs.table.COLUMNS`, units are in their
        names. No rows where nothing was recorded. Rows that are being written are waited for, a minute at
        most; a warning says which runs of this process are missing.
        ``attrs`` has the ``folder``, how many runs were ``lost``
        in this process, the ``reason`` of the last loss, and files that were set ``aside`` as damaged.

    Raises
    ------
    HistoryError
        If the history is switched off, or the file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> before = os.environ.get("NOTEBOOK_PROF_HISTORY", "")
    >>> os.environ["NOTEBOOK_PROF_HISTORY"] = tempfile.mkdtemp()
    >>> table = history()
    >>> len(table), table["p50_ns"].dtype
    (0, dtype('float64'))
    >>> os.environ["NOTEBOOK_PROF_HISTORY"] = before
    """
    store = open_store()
    warn_of_missing()
    table = runs_of(store)
    if cell is not None:
        table = table[(table["cell"] == cell) | table["source"].str.contains(cell, regex=False)]
    if name is not None:
        table = table[table["name"] == name]
    if notebook is not None:
        table = table[table["notebook"].str.endswith(notebook)]
    table = table.reset_index(drop=True)
    table.attrs = {
        "folder": str(store.folder),
        **losses(),
        "aside": [str(path) for path in damaged_files(store.folder)],
    }
    return table


def runs_of(store: Store, where: str = "", parameters: tuple[Any, ...] = ()) -> pd.DataFrame:
    """Return rows of the history, the oldest first.

    Parameters
    ----------
    store : Store
    where : str
        A condition of SQL.
    parameters : tuple
        Of that condition.
    """
    names = COLUMNS.names
    condition = f"WHERE {where}" if where else ""
    rows = store.select(
        ", ".join(_STORED.get(name, name) for name in names), f"{condition} ORDER BY at_ns, id", parameters
    )
    values = zip(*rows, strict=True) if rows else [()] * len(names)
    columns: dict[str, Any] = dict(zip(names, map(list, values), strict=True))
    columns["at"] = pd.to_datetime(pd.Series(columns["at"], dtype="int64"), utc=True)
    columns["source"] = [zlib.decompress(text).decode("utf-8") for text in columns["source"]]
    columns["kept"] = [bool(text) for text in columns["kept"]]
    for name in ("earlier", "peak_bytes"):
        columns[name] = pd.array(columns[name], dtype="Int64")
    columns["dirty"] = pd.array(
        [None if value is None else bool(value) for value in columns["dirty"]], dtype="boolean"
    )
    return COLUMNS.frame(columns)
