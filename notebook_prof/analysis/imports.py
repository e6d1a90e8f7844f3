"""What is done once: imports, compilation, and what makes the first step longer than the others."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pandas as pd

from ..trace import Trace, inherit, length, overlap, subtract, union
from ..trace.intervals import IntArray, Intervals
from ..trace.schema import Column, Table
from .frames import Frames, frames
from .line_calls import module_of
from .lines import LINE
from .scope import Mask, Scope, WindowLike, ints, on_host
from .spans import step_spans

COLUMNS: Final = Table(
    "one_time",
    (
        Column("kind", "str", "", "`import`, `compilation` or `first-step`"),
        Column("what", "str", "", "module, compiling function, or the step"),
        Column("ts", "int64", "ns", "first instant"),
        Column("dur", "int64", "ns", "time that would not be spent again"),
        Column("step", "Int64", "", "the step, for `first-step`"),
    ),
)
COMPILERS: Final = (
    *("_compile.compile", "compile_fx", "compile_to_module", "backend_compile", "async_compile"),
    *("triton/compiler", "cumoduleload", "cudamoduleload", "culibraryload", "dynamo_timed", "compile_inner"),
)
SLOW: Final = 1.5
"""A first step that takes so many times as long as the others, and is the longest, has one-time work in it."""
_ENOUGH: Final = 4
_NONE: Final[Intervals] = (np.empty(0, np.int64), np.empty(0, np.int64))


def one_time(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the time that goes to what is done once.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        By `dur`, longest first; no rows where nothing was seen.

        - ``kind`` str: ``import``, ``compilation`` or ``first-step``;
        - ``what`` str: the imported module, the longest compiling function, or ``step 0``;
        - ``ts`` int64 ns: where it begins; ``dur`` int64 ns: no instant counts twice, so that the sum is what
          a second run would not spend. A first step counts with what it took more than the median of the
          others, less the imports and the compilation in it;
        - ``step`` Int64: the first step's number.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0      ][1 ][2 ][3 ]
    ... main:  [mm     ][mm][mm][mm]
    ... ''')
    >>> one_time(trace)[["kind", "what", "dur"]].values.tolist()
    [['first-step', 'step 0', 5]]
    """
    host = on_host(trace, window)
    rows: list[dict[str, Any]] = []
    imported = _imports(trace, host, rows)
    compiled = _compiled(host, imported, rows)
    taken = union(*(np.concatenate(part) for part in zip(imported, compiled, strict=True)))
    _first_step(trace, window, taken, rows)
    table = COLUMNS.frame({name: [row[name] for row in rows] for name in COLUMNS.names})
    return table.sort_values("dur", ascending=False, kind="stable").reset_index(drop=True)


def importing(trace: Trace, where: Frames) -> IntArray:
    """For each slice the row of the outermost import around it; -1 outside of imports."""
    slices = trace.slices
    starts = np.array(
        [
            function == "_find_and_load" and str(file).startswith("<frozen importlib")
            for function, file in zip(where.function, where.file, strict=True)
        ],
        dtype=bool,
    )
    if not starts.any():
        return np.full(len(slices), -1, dtype=np.int64)
    is_import = starts[where.code] & (slices["category"] == "python").to_numpy()
    parent = ints(slices["parent"])
    around = inherit(parent, np.where(is_import, np.arange(len(slices)), -1))
    inner = is_import & (np.append(around, -1)[parent] >= 0)
    return inherit(parent, np.where(is_import & ~inner, np.arange(len(slices)), -1))


def _imports(trace: Trace, host: Scope, rows: list[dict[str, Any]]) -> Intervals:
    where = frames(trace)
    around = importing(trace, where)[host.rows]
    inside = host.only(around >= 0)
    around = around[around >= 0]
    if not len(around):
        return _NONE
    names = _modules(trace, inside, around, where)
    top = inside.rows == around
    what = np.array([names[int(row)] for row in inside.rows[top]], dtype=object)
    ts, end = inside.ts[top], inside.end[top]
    taken = _NONE
    for name in dict.fromkeys(what):
        mine = what == name
        own = subtract(union(ts[mine], end[mine]), taken)
        _add(rows, "import", str(name), own)
        taken = union(np.concatenate([taken[0], own[0]]), np.concatenate([taken[1], own[1]]))
    return taken


def _modules(trace: Trace, inside: Scope, around: IntArray, where: Frames) -> dict[int, str]:
    """The first module whose top level runs in each import; else the line that imports."""
    slices = trace.slices
    top_level = (where.function == "<module>")[where.code[inside.rows]]
    found: dict[int, str] = {}
    # a loop over imports of the user's own lines, of which there are few
    for row in dict.fromkeys(around.tolist()):
        mine = inside.rows[(around == row) & top_level]
        file = str(where.file[where.code[mine[0]]]) if len(mine) else ""
        name = module_of(file).split(".")[0] or PurePath(file).stem
        above = slices["parent"].iloc[row]
        if not name and not pd.isna(above):
            line = LINE.fullmatch(str(slices["name"].iloc[int(above)]))
            name = line["text"] if line else ""
        found[row] = name or "a module"
    return found


def _compiled(host: Scope, imported: Intervals, rows: list[dict[str, Any]]) -> Intervals:
    words = [str(word).lower() for word in host.slices["name"].cat.categories]
    wanted = [any(part in word for part in COMPILERS) for word in words]
    compiles: Mask = np.append(np.array(wanted, dtype=bool), False)[host.codes("name")]
    if not compiles.any():
        return _NONE
    work = host.only(compiles)
    own = subtract(union(work.ts, work.end), imported)
    longest = int(work.rows[int(np.argmax(work.end - work.ts))])
    _add(rows, "compilation", str(host.slices["name"].iloc[longest]), own)
    return own


def _first_step(trace: Trace, window: WindowLike, taken: Intervals, rows: list[dict[str, Any]]) -> None:
    steps = step_spans(trace, window)
    loops = steps.groupby("loop", sort=False) if "loop" in steps else [(0, steps)]
    for _, loop in loops:
        if (excess := slow_first_step(loop)) is None:
            continue
        first = loop.sort_values("ts").iloc[0]
        number, ts, end = int(first["step"]), int(first["ts"]), int(first["ts"] + first["dur"])
        known = length(overlap(taken, (np.array([ts]), np.array([end]))))
        if excess > known:
            rows.append(
                {
                    "kind": "first-step",
                    "what": f"step {number}",
                    "ts": ts,
                    "dur": excess - known,
                    "step": number,
                }
            )


def slow_first_step(steps: pd.DataFrame) -> int | None:
    """What the first of these steps took more than the median of the others; None where it is as they are."""
    if len(steps) < _ENOUGH:
        return None
    dur = steps.sort_values("ts")["dur"].to_numpy()
    usual = float(np.median(dur[1:]))
    if dur[0] < SLOW * usual or dur[0] < dur[1:].max():
        return None
    return int(dur[0] - usual)


def _add(rows: list[dict[str, Any]], kind: str, what: str, own: Intervals) -> None:
    if length(own):
        rows.append({"kind": kind, "what": what, "ts": int(own[0][0]), "dur": length(own), "step": None})
