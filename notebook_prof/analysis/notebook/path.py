"""Which cells depend on which, what is stale, what must run again, and which cells made a name."""

from __future__ import annotations

import re
from typing import Any, Final

import pandas as pd

from ...errors import OptionError
from ...trace import Trace
from ...trace.schema import Table
from .names import Names, names_of
from .recorded import CELL_BUFFERS, cell_runs

DELETED: Final = "deleted"
PATH: Final = Table.of(
    "path",
    "cell:int64 number:int64 needs:Int64 needs_number:Int64 names:str wall_ns:int64 name:str",
)


def path(trace: Trace, after: int | None = None) -> pd.DataFrame:
    """List which cells of a notebook read from which, or what must run again after an edit.

    Parameters
    ----------
    after : int, optional
        The execution count of a cell: list only it and the cells that directly or indirectly read its names.

    Returns
    -------
    DataFrame
        One row per pair of a cell and a cell that its latest run read from, in order of time; empty for a
        Trace that is not a notebook's. With `after`, one row per cell, in order of first runs.

        - ``cell``, ``number`` int64: as in `cells`; ``name`` str; ``wall_ns`` int64: of its latest run;
        - ``needs``, ``needs_number`` Int64: the cell that it read from, and its execution count then; missing
          if it read from none, and with `after`;
        - ``names`` str: the names, separated by spaces.

    Raises
    ------
    OptionError
        If `after` is not the execution count of a cell that ran.

    Notes
    -----
    Names are those of the syntax tree: read (also in functions), assigned, imported, deleted, or changed by
    an assignment to an item or an attribute. Importing again what a name already holds changes nothing.
    Changes by a method, as in ``df.insert(…)``, by ``%run`` or by ``exec`` are not seen.
    """
    runs = cell_runs(trace)
    if not len(runs):
        return PATH.empty()
    rows = []
    reads = _reads(runs)
    latest = runs.drop_duplicates("cell", keep="last")
    for row in latest.to_dict("records"):
        same = {"cell": row["cell"], "number": row["number"], "wall_ns": row["dur"], "name": row["name"]}
        by_run: dict[int, list[str]] = {}
        for name, run in reads[row["run"]].items():
            by_run.setdefault(run, []).append(name)
        for run, names in sorted(by_run.items()):
            source = runs.iloc[run]
            needs = {"needs": int(source["cell"]), "needs_number": int(source["number"])}
            rows.append({**same, **needs, "names": " ".join(sorted(names))})
        if not by_run:
            rows.append({**same, "needs": None, "needs_number": None, "names": ""})
    table = PATH.of_rows(rows)
    if after is None:
        return table
    if after not in runs["number"].tolist():
        counts = ", ".join(map(str, runs["number"].tolist()[-9:]))
        raise OptionError(f"no cell ran as In[{after}]; the last ones were {counts}")
    dirty = {int(runs.loc[runs["number"] == after, "cell"].iloc[-1])}
    while not (more := set(table.loc[table["needs"].isin(dirty), "cell"].tolist())) <= dirty:
        dirty |= more
    kept = table[table["cell"].isin(dirty)].drop_duplicates("cell").sort_values("cell")
    nothing = pd.array([pd.NA] * len(kept), dtype="Int64")
    return kept.assign(needs=nothing, needs_number=nothing, names="").reset_index(drop=True)


def _reads(runs: pd.DataFrame) -> list[dict[str, int]]:
    """Return, for each run, the names that it read, with the run that had set each."""
    writer: dict[str, int] = {}
    found = []
    for run, (source, written) in enumerate(zip(runs["source"].tolist(), _written(runs), strict=True)):
        found.append({name: writer[name] for name in names_of(source).reads if name in writer})
        writer.update(dict.fromkeys(written, run))
    return found


def _written(runs: pd.DataFrame) -> list[set[str]]:
    """Return the names that each run changed; importing what a name already holds changes nothing."""
    held: dict[str, str | None] = {}
    found = []
    for source in runs["source"].tolist():
        names = names_of(source)
        new = {name: names.imports.get(name) for name in names.writes}
        found.append({name for name, one in new.items() if one is None or one != held.get(name)})
        held.update(new)
    return found


def stale_cells(runs: pd.DataFrame) -> dict[int, str]:
    """Return why results are out of date, by run. Only the latest run of each cell is judged."""
    reads, setters = _reads(runs), dict[str, list[int]]()
    for run, written in enumerate(_written(runs)):
        for name in written:
            setters.setdefault(name, []).append(run)
    place = runs["position"].where(runs["position"] >= 0, runs["cell"]).tolist()
    number = runs["number"].tolist()
    why: dict[int, str] = {}
    for row in runs.drop_duplicates("cell", keep="last").to_dict("records"):
        run, now = row["run"], row["now"]
        if isinstance(now, str) and now.strip() != row["source"].strip():
            why[run] = "edited" if now else DELETED
            continue
        for name, before in sorted(reads[run].items()):
            # a later cell that sets the name again does not change the result of *Run All*
            newer = [one for one in setters[name] if one > run and place[one] < place[run]]
            if newer:
                why[run] = f"{name} changed in In[{number[newer[-1]]}]"
            elif place[before] > place[run]:
                why[run] = f"{name} is of In[{number[before]}], a cell below"
            elif before in why:
                why[run] = f"{name} is of In[{number[before]}], which is stale"
            if run in why:
                break
    return why


def last_uses(trace: Trace) -> tuple[dict[str, int], dict[str, int]]:
    """Return the execution counts of the cells that last set each name, and that last read it."""
    made: dict[str, int] = {}
    used: dict[str, int] = {}
    runs = cell_runs(trace)
    for number, source in zip(runs["number"].tolist(), runs["source"].tolist(), strict=True):
        names: Names = names_of(source)
        used.update(dict.fromkeys(names.reads, number))
        made.update(dict.fromkeys(names.writes, number))
    return made, used


_ROOT: Final = re.compile(r"[^\W\d]\w*")


def with_cells(trace: Trace, names: pd.DataFrame) -> pd.DataFrame:
    """Add the columns ``made_in`` and ``used_in`` (``In[4]``, or missing) to the names that hold memory."""
    runs = cell_runs(trace)
    number = dict(zip(runs["run"].tolist(), runs["number"].tolist(), strict=True))
    made, used = last_uses(trace)
    by_name, sources = _runs_of_buffers(trace), dict(zip(runs["run"], runs["source"], strict=True))
    made_in, used_in = [], []
    for name, device in zip(names["name"].tolist(), names["device"].tolist(), strict=True):
        root = _ROOT.match(name)[0] if isinstance(name, str) and _ROOT.match(name) else ""  # type: ignore[index]
        run = _maker(root, sources, *by_name.get((name, device), (-1, -1, False)))
        made_in.append(_shown(number.get(run) if run is not None else made.get(root)))
        used_in.append(_shown(used.get(root)))
    return names.assign(
        made_in=pd.Series(made_in, dtype="object"), used_in=pd.Series(used_in, dtype="object")
    )


def _shown(number: int | None) -> str | None:
    return None if number is None else f"In[{number}]"


def _maker(root: str, sources: dict[int, str], since: int, run: int, grew: bool) -> int | None:
    """Return the run that made a buffer: of those between two walks, the last that sets or reads its name."""
    between = range(run, max(since, 0) - 1, -1) if run >= 0 else ()
    found = [(one, names_of(sources.get(one, ""))) for one in between]
    # a run that sets the name is preferred to one that reads it
    setting = [one for one, names in found if root in names.writes]
    reading = [one for one, names in found if root in names.reads]
    return next(iter(setting + reading), run if grew or since == run >= 0 else None)


def _runs_of_buffers(trace: Trace) -> dict[tuple[Any, ...], tuple[int, int, bool]]:
    """Return the first and last run between the walks before and after each name's largest buffer came."""
    tables = trace.metadata.get("tables") or {}
    made, buffers = tables.get(CELL_BUFFERS), tables.get("memory_names")
    if made is None or buffers is None or "since" not in made:
        return {}
    both = buffers.merge(made, on=["device", "address", "bytes"])
    both = both[both["run"] >= 0].sort_values("bytes").drop_duplicates(["name", "device"], keep="last")
    keys = zip(both["name"].tolist(), both["device"].tolist(), strict=True)
    runs = zip(*(both[column].tolist() for column in ("since", "run", "grew")), strict=True)
    return dict(zip(keys, runs, strict=True))
