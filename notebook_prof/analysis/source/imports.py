"""Time that goes to importing modules."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace, inherit
from ...trace.intervals import IntArray, as_ints
from ...trace.schema import Column, Table
from ..grouping import covered
from ..scope import Scope, WindowLike, ints, on_host
from .frames import Frames, frames
from .line_calls import module_of
from .lines import LINE

COLUMNS: Final = Table(
    "imports",
    (
        Column("module", "str", "", "what was imported, as `pandas`"),
        Column("text", "str", "", "the user's line that led to it; empty where it is not known"),
        Column("ts", "int64", "ns", "where it begins first"),
        Column("total_ns", "int64", "ns", "time until it was imported, with all that it imports itself"),
    ),
)


def imports(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the modules whose import took time, from the Python code that was recorded.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows where nothing was imported, or too quickly to be seen.

        - ``module`` str: package or module, as ``pandas``; ``text`` str: the line that led to it;
        - ``ts`` int64 ns: where it begins first;
        - ``total_ns`` int64: until it was imported, with all that it imports itself: those have no rows.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> find = b.stack([("_find_and_load", "<frozen importlib._bootstrap>", 1)])
    >>> run = b.stack([("<module>", "/lib/site-packages/pandas/__init__.py", 1)], above=find)
    >>> row = dict(name=["cell:2  import pandas", "_find_and_load", "<module>"], stack=[-1, find, run])
    >>> _ = b.slices(ts=[0, 0, 1], dur=[9, 8, 7], category="python", track=b.track("main"), **row)
    >>> imports(b.seal()).values.tolist()
    [['pandas', 'import pandas', 0, 8]]
    """
    host = on_host(trace, window)
    where = frames(trace)
    around = _outermost(trace, where)[host.rows]
    inside = host.only(around >= 0)
    around = around[around >= 0]
    if not len(around):
        return COLUMNS.empty()
    top = inside.only(inside.rows == around)
    told = _told(trace, inside, around, where)
    code, known = pd.factorize(pd.Series([told[row] for row in top.rows.tolist()], dtype="object"))
    order = np.argsort(top.ts, kind="stable")
    spent = covered(as_ints(code)[order], top.ts[order], top.end[order])
    table = COLUMNS.frame(
        {
            "module": [str(module) for module, _ in known],
            "text": [str(text) for _, text in known],
            "ts": pd.Series(top.ts).groupby(code).min().to_numpy(),
            "total_ns": np.bincount(code[order], spent, minlength=len(known)).astype(np.int64),
        }
    )
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _outermost(trace: Trace, where: Frames) -> IntArray:
    """For each slice the row of the outermost import around it; -1 outside of imports."""
    slices = trace.slices
    begins = (where.function == "_find_and_load") & np.array(
        [str(file).startswith("<frozen importlib") for file in where.file], dtype=bool
    )
    here = begins[where.code] & (slices["category"] == "python").to_numpy()
    if not here.any():
        return np.full(len(slices), -1, dtype=np.int64)
    parent = ints(slices["parent"])
    around = inherit(parent, np.where(here, np.arange(len(slices)), -1))
    inner = here & (np.append(around, -1)[parent] >= 0)
    return inherit(parent, np.where(here & ~inner, np.arange(len(slices)), -1))


def _told(trace: Trace, inside: Scope, around: IntArray, where: Frames) -> dict[int, tuple[str, str]]:
    """For each outermost import the first module whose top level runs in it, and the line that led to it."""
    slices = trace.slices
    top_level = (where.function == "<module>")[where.code[inside.rows]]
    first = pd.Series(inside.rows[top_level]).groupby(around[top_level]).first()
    found: dict[int, tuple[str, str]] = {}
    # a loop over the imports of the user's own lines, of which there are few
    for row in dict.fromkeys(around.tolist()):
        file = str(where.file[where.code[int(first[row])]]) if row in first.index else ""
        above = slices["parent"].iloc[row]
        line = None if pd.isna(above) else LINE.fullmatch(str(slices["name"].iloc[int(above)]))
        text = line["text"] if line else ""
        name = module_of(file).split(".")[0] or PurePath(file).stem
        found[row] = (name or text or "a module", text)
    return found
