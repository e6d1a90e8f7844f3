"""The line that takes most of a cell's time outside of steps, and what it does."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_items
from ..source.frames import frames
from ..source.hotspots import hot_lines
from ..source.lines import LINE
from ..time.cpu import cpu
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from .claims import Claim, Finding, Sentence, Source, cite, cite_ns, cite_share, joined, say
from .code_lines import line_select, line_words
from .facts import MOST, Facts
from .lines import short
from .python import library_of, python_verdict, spelled

_SHOWN: Final = 3
_STATEMENTS: Final = ("code", "steps", "outside-window")
_CALLED: Final = 2
_WORTH: Final = 0.1
"""Lines below the hottest one are reported from this share of the cell."""
_IMPORT: Final = re.compile(r"(?:import|from)\s+(?P<module>[\w.]+)")


def judge_code(facts: Facts) -> Finding | None:
    """Judge the line that takes most of a cell or of recorded Python, as `verdict`; None without a known
    line.
    """
    if not len(facts.hot.table):
        return None
    if not facts.is_cell:
        return python_verdict(facts) if facts.top_is_python and facts.top["self_ns"].any() else None
    part = _part(facts)
    row, calls = _hottest(facts, part)
    if row is None:
        return _spread(facts)
    kind, doing, select = _doing(facts, part, row)
    share = _share(facts, row)
    took = cite_ns(int(row["total_ns"]), _line(facts, row), line_select(row))
    whole = cite_ns(facts.account["dur"].sum(), Source("account", "dur"))
    line_name, text = line_words(row)
    sentence = say(
        line_name[:1].upper() + line_name[1:] if line_name.startswith("line ") else line_name,
        " takes ",
        share,
        " of the cell (",
        took,
        " of ",
        whole,
        ")",
        text.replace(", ", ": ", 1) if text else "",
        _outside(facts),
        doing if doing.parts else _called_lines(facts, calls),
        ".",
    )
    evidence = {"file": str(row["file"]), "line": int(row["line"]), "line_ns": int(row["total_ns"])}
    return Finding(kind, sentence, share.value, evidence, select or line_select(row))


def _part(facts: Facts) -> Any:
    """Return the longest statement outside of steps, as its row of the account; None without one."""
    code = facts.account[facts.account["kind"] == "code"]
    return code.loc[code["dur"].idxmax()] if len(code) else None


def _hottest(facts: Facts, part: Any) -> tuple[Any, list[Any]]:
    """Return the innermost line that takes most, and the lines it calls, as rows; None below half."""
    cell_ns = int(facts.account["dur"].sum())
    hottest = facts.hot
    if part is not None and pd.notna(part["line"]) and int(part["dur"]) >= MOST * cell_ns:
        below = hot_lines(facts.trace, below=int(part["line"]))
        hottest = below if below.path else hottest
    if not hottest.path:
        return None, []
    at = [row for row in hottest.path if hottest.table["total_ns"].iloc[row] >= MOST * cell_ns]
    if not at:
        return None, []
    calls = hottest.inner[:_CALLED] if at[-1] == hottest.path[-1] else hottest.inner[:0]
    return hottest.table.iloc[at[-1]], [hottest.table.iloc[row] for row in calls]


def _called_lines(facts: Facts, rows: list[Any]) -> Sentence:
    """Return the lines that it calls, unless one of them takes most of it."""
    big = [row for row in rows if int(row["total_ns"]) >= _WORTH * int(facts.account["dur"].sum())]
    if not big:
        return say()
    pieces = [say(line_words(row)[0], " ", _share(facts, row), line_words(row)[1]) for row in big]
    return say("; in it ", joined(pieces, " and "))


def _line(facts: Facts, row: Any) -> Source:
    return Source("lines", "total_ns", {"file": str(row["file"]), "line": int(row["line"])}, facts.arguments)


def _share(facts: Facts, row: Any) -> Claim:
    whole = max(int(facts.account["dur"].sum()), 1)
    return cite_share(
        int(row["total_ns"]) / whole, _line(facts, row), Source("account", "dur"), line_select(row)
    )


def _spread_over_parts(parts: pd.DataFrame) -> Finding:
    """Name the longest parts of the account: time outside the recorded steps has no lines."""
    whole = Source("account", "dur")
    pieces, shares = [], []
    for row in parts.to_dict("records"):
        source = Source("account", "dur", {"part": str(row["part"]), "ts": int(row["ts"])})
        shares.append(cite_share(float(row["share"]), source, whole))
        text = f", `{short(str(row['text']), 60)}`" if row["kind"] == "code" and row["text"] else ""
        pieces.append(say(str(row["part"]), " ", shares[-1], text))
    begin = "Most of the cell is " if float(shares[0].value) > MOST else "Nothing takes most of the cell: "
    first = parts.iloc[0]
    evidence = {"part": str(first["part"]), "part_ns": int(first["dur"])}
    return Finding("mixed", say(begin, joined(pieces, "; "), "."), float(shares[0].value), evidence)


def _spread(facts: Facts) -> Finding:
    """Name the first three lines, none inside another, if no line takes most; or longer parts."""
    table = facts.hot.table.iloc[facts.hot.outer[:_SHOWN]]
    parts = facts.account[facts.account["kind"].isin(_STATEMENTS)].nlargest(_SHOWN, "dur")
    if len(parts) and (not len(table) or int(parts["dur"].iloc[0]) > int(table["total_ns"].iloc[0])):
        return _spread_over_parts(parts)
    if not len(table):
        return Finding("mixed", say("Nothing was seen of the cell's lines."), 0.0)
    pieces = [
        say(line_words(row)[0], " ", _share(facts, row), line_words(row)[1])
        for row in table.to_dict("records")
    ]
    first = table.iloc[0]
    sentence = say("No line takes most of the cell: ", joined(pieces, "; "), ".")
    evidence = {"file": str(first["file"]), "line": int(first["line"]), "line_ns": int(first["total_ns"])}
    return Finding("mixed", sentence, float(_share(facts, first).value), evidence, line_select(first))


def _outside(facts: Facts) -> Sentence:
    """If there are steps, too, say how small a part of the cell they are."""
    if not len(facts.steps):
        return say()
    stepping = facts.account[facts.account["kind"].isin(["steps", "outside-window"])]
    spent = int(stepping["dur"].sum())
    source = Source("account", "dur", {"kind": ("steps", "outside-window")})
    count = cite(
        format_items(len(facts.steps), "step"), len(facts.steps), Source("steps", "step", reduce="count")
    )
    return say(", outside of the ", count, ", which take ", cite_ns(spent, source))


def _doing(facts: Facts, part: Any, row: Any) -> tuple[str, Sentence, dict[str, Any]]:
    """Return the kind, what the line does in words, and the evidence."""
    text = str(row["text"])
    if (imported := _IMPORT.match(text.strip())) is not None:
        return "import-bound", say(f"; it imports {imported['module']}"), {}
    name, spent, operators, total = _most_below(facts, row)
    if _waits(part, row, text, name[0]):
        return "wait-bound", say("; it waits") + _workers_meanwhile(facts, part, row), {}
    if operators > MOST * max(total, 1):
        return "compute-bound", say("; operators of the framework run most of it"), {}
    file = name[1]
    if (library := library_of(file, name[0])) and spent > MOST * max(total, 1):
        by = {"by": ("name", "track")}
        source = Source("operators", "self_ns", {"name": name[0], "track": stepping_track(facts.trace)}, by)
        own = int(source.value(facts.trace))
        whole = int(facts.account["dur"].sum())
        share = cite_share(min(own / max(whole, 1), 1.0), source, Source("account", "dur"), {"name": name[0]})
        words = f"; {short(name[0], 60)} of {spelled(library)} takes "
        return "library-bound", say(words, share, " of the cell by itself"), {}
    return "python-bound", say(), {}


def _waits(part: Any, row: Any, text: str, below: str) -> bool:
    """Return whether the line waits, by its name and its callees' names, or by recorded CPU time."""
    # On a shared machine, a thread that wakes often is mostly ready to run, so its CPU time alone does not
    # show that it waits.
    if part is not None and part["line"] == row["line"] and pd.notna(part["wait_ns"]):
        asleep = int(part["wait_ns"]) >= MOST * int(part["dur"])
        return asleep or waits_by_name(f"cell:1  {text}") or waits_by_name(below)
    return waits_by_name(f"cell:1  {text}") or waits_by_name(below)


def _workers_meanwhile(facts: Facts, part: Any, row: Any) -> Sentence:
    """Return which threads and processes worked in the part of the cell in which its thread waited."""
    most = MOST * int(facts.account["dur"].sum())
    if part is None or (part["line"] != row["line"] and part["dur"] < most):
        return say()
    begin, spent = int(part["ts"]), int(part["dur"])
    during = {"window": (begin, begin + spent)}
    table = cpu(facts.trace, **during)
    if not len(table):
        return say()
    enough = table["cpu_ns"] >= _WORTH * spent
    main = table["tid"] == table["pid"]
    pieces = []
    for one, several, kinds in (
        ("other thread", "other threads", ("python", "native")),
        ("child process", "child processes", ("child",)),
    ):
        rows = table[enough & ~main & table["kind"].isin(kinds)]
        if len(rows):
            where = {"pid": tuple(rows["pid"].tolist()), "tid": tuple(rows["tid"].tolist()), "kind": kinds}
            source, spent = Source("cpu", "cpu_ns", where, during), int(rows["cpu_ns"].sum())
            count = cite(str(len(rows)), len(rows), Source("cpu", "cpu_ns", where, during, "count"))
            what = f" {one if len(rows) == 1 else several} used "
            pieces.append(say(count, what, cite_ns(spent, source), " of CPU time"))
    return say(", while ", joined(pieces, " and ")) if pieces else say()


def _most_below(facts: Facts, row: Any) -> tuple[tuple[str, str, str], int, int, int]:
    """Return the entry with most self time below a line, its time, and operator and total time there."""
    trace = facts.trace
    slices = trace.slices
    select = line_select(row)["name"]
    thread = facts.thread
    here = thread.among("name", (select,))
    if not here.any():
        return ("", "", ""), 0, 0, 0
    starts, ends = thread.ts[here], thread.end[here]
    order = np.argsort(starts, kind="stable")
    reach = np.maximum.accumulate(ends[order])
    at = np.maximum(np.searchsorted(starts[order], thread.ts, side="right") - 1, 0)
    inside = (thread.ts >= starts[order][at]) & (thread.end <= reach[at])
    below = thread.only(inside)
    operators = int(below.self_ns[below.among("category", ("operator", "collective"))].sum())
    python = below.among("category", ("python",)) & ~_lines(below)
    spent = np.bincount(below.codes("name")[python], below.self_ns[python], minlength=1)
    if not python.any() or not spent.max():
        return ("", "", ""), 0, operators, int(below.self_ns.sum())
    code = int(spent.argmax())
    source_lines = frames(trace)
    longest = below.rows[python][
        int(np.argmax(np.where(below.codes("name")[python] == code, below.self_ns[python], -1)))
    ]
    frame = source_lines.code[longest]
    name = (
        str(slices["name"].cat.categories[code]),
        str(source_lines.file[frame]),
        str(source_lines.function[frame]),
    )
    return name, int(spent[code]), operators, int(below.self_ns.sum())


def _lines(scope: Any) -> Any:
    words = scope.slices["name"].cat.categories.astype("str")
    is_line = np.array([*(LINE.fullmatch(word) is not None for word in words), False], dtype=bool)
    return is_line[scope.codes("name")]
