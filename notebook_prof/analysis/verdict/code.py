"""The line that takes most of a cell's time outside of steps, and what it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ..scope import recorded_table
from ..source.frames import frames
from ..source.hotspots import hot_lines
from ..source.lines import LINE
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from .claims import Claim, Sentence, Source, Verdict, cite_count, cite_ns, cite_share, fill, say, short
from .inputs import FEWEST, MOST, VerdictInputs
from .python import awaited, engine, library_of, line_select, line_words, meanwhile, python_verdict, spelled

_CELL: Final = Source("account", "dur")
_SHOWN: Final = 3
_STATEMENTS: Final = ("code", "steps", "outside-window", "display")
_CALLED: Final = 2
_WORTH: Final = 0.1
"""Minimum share of the cell for which lines below the hottest one, and worker threads, are reported."""
_IMPORT: Final = re.compile(r"(?:import|from)\s+(?P<module>[\w.]+)[^;]*")
_WAITS: Final = "; it waits"


def judge_code(facts: VerdictInputs) -> Verdict | None:
    """Judge the longest line of a cell or of recorded Python, as `verdict` says; None if no line is known."""
    if (displayed := _displayed(facts)) is not None:
        return displayed
    if not len(facts.hot.table):
        return None
    if not facts.is_cell:
        return python_verdict(facts) if facts.top_is_python and facts.top["self_ns"].any() else None
    code = facts.account[facts.account["kind"] == "code"]
    part = code.loc[code["dur"].idxmax()] if len(code) else None
    row, calls = _hottest(facts, part)
    if row is None:
        return _spread(facts)
    kind, doing = _doing(facts, part, row)
    if not doing or (doing == _WAITS and not _too_few(facts)):
        doing += _called_lines(facts, calls)
    share = _share(facts, row)
    name, text = line_words(row)
    sentence = fill(
        "{} takes {} of the cell ({}){}{}{}.",
        name[:1].upper() + name[1:] if name.startswith("line ") else name,
        share,
        _seen(facts, row),
        text.replace(", ", ": ", 1),
        _outside(facts, row),
        doing,
    )
    return Verdict(kind, sentence, share.value, line_select(row))


def _displayed(facts: VerdictInputs) -> Verdict | None:
    """Judge the display of the result, or of figures, if it takes most of the cell."""
    rows = facts.account[facts.account["kind"] == "display"]
    if not len(rows) or float(rows["share"].iloc[0]) < MOST:
        return None
    part = rows.iloc[0]
    source, words = Source("account", "dur", {"kind": "display"}), str(part["part"])
    share = cite_share(float(part["share"]), source, _CELL)
    window = (int(part["ts"]), int(part["ts"]) + int(part["dur"]))
    hot = hot_lines(facts.trace, window=window)
    longest = _called_lines(facts, [hot.table.iloc[row] for row in hot.path[:1]], {"window": window})
    took, whole = cite_ns(int(part["dur"]), source), cite_ns(facts.cell_ns, _CELL)
    words = words[:1].upper() + words[1:]
    sentence = fill("{} takes {} of the cell ({} of {}){}.", words, share, took, whole, longest)
    return Verdict("display-bound", sentence, share.value)


def _hottest(facts: VerdictInputs, part: Any) -> tuple[Any, list[Any]]:
    """Return the row of the innermost line that takes most of the cell (else None), and of lines it calls."""
    cell_ns, hottest = facts.cell_ns, facts.hot
    if part is not None and pd.notna(part["line"]) and int(part["dur"]) >= MOST * cell_ns:
        below = hot_lines(facts.trace, below=int(part["line"]))
        hottest = below if below.path else hottest
    if not hottest.path:
        return None, []
    at = [row for row in hottest.path if hottest.table["total_ns"].iloc[row] >= MOST * cell_ns]
    if _too_few(facts):
        at = [row for row in at if hottest.table["exact"].iloc[row]]
    if not at:
        return None, []
    inner = [*hottest.path[hottest.path.index(at[-1]) + 1 :], *hottest.inner.tolist()]
    calls = inner[:_CALLED] if _too_few(facts) or at[-1] == hottest.path[-1] else []
    return hottest.table.iloc[at[-1]], [hottest.table.iloc[row] for row in calls]


def _too_few(facts: VerdictInputs) -> bool:
    """Return whether there are too few samples to distinguish lines."""
    return facts.few is not None and facts.few.count < FEWEST


def _seen(facts: VerdictInputs, row: Any) -> Sentence:
    """Return the time of a line, or how many samples there are if they are few, and the time of the cell."""
    whole = cite_ns(facts.cell_ns, _CELL)
    if row["exact"] or facts.few is None:
        return say(cite_ns(int(row["total_ns"]), _line(facts, row), line_select(row)), " of ", whole)
    return say(facts.samples(), " in ", whole)


def _called_lines(
    facts: VerdictInputs, rows: list[Any], arguments: Mapping[str, Any] | None = None
) -> Sentence:
    """Return the lines that a line calls, unless one of them takes most of it."""
    if rows and _too_few(facts):
        return say("; ", facts.samples(), " cannot tell the lines in it apart")
    big = [row for row in rows if int(row["total_ns"]) >= _WORTH * facts.cell_ns]
    if not big:
        return say()
    pieces = [say(line_words(row)[0], " ", _share(facts, row, arguments), line_words(row)[1]) for row in big]
    return say("; in it ", say(*pieces, between=" and "))


def _line(facts: VerdictInputs, row: Any, arguments: Mapping[str, Any] | None = None) -> Source:
    where = {"file": str(row["file"]), "line": int(row["line"])}
    return Source("lines", "total_ns", where, facts.arguments if arguments is None else arguments)


def _share(facts: VerdictInputs, row: Any, arguments: Mapping[str, Any] | None = None) -> Claim:
    share, source = int(row["total_ns"]) / max(facts.cell_ns, 1), _line(facts, row, arguments)
    return facts.sampled_share(share, source, _CELL, line_select(row), exact=bool(row["exact"]))


def _spread(facts: VerdictInputs) -> Verdict:
    """Name the three longest lines, none inside another, if no line takes most; or longer parts."""
    table = facts.hot.table.iloc[facts.hot.outer]
    table = (table[table["exact"].to_numpy(bool)] if _too_few(facts) else table).head(_SHOWN)
    parts = facts.account[facts.account["kind"].isin(_STATEMENTS)].nlargest(_SHOWN, "dur")
    if len(parts) and (not len(table) or int(parts["dur"].iloc[0]) > int(table["total_ns"].iloc[0])):
        pieces: list[Sentence] = []
        most = float(parts["share"].iloc[0])
        for row in parts.to_dict("records"):  # time outside the recorded steps has no lines
            source = Source("account", "dur", {"part": str(row["part"]), "ts": int(row["ts"])})
            words, share = str(row["part"]), cite_share(float(row["share"]), source, _CELL)
            text = f", `{short(str(row['text']), 60)}`" if row["kind"] == "code" and row["text"] else ""
            if most > MOST and not pieces:
                takes = "take" if " steps" in words else "takes"
                pieces.append(
                    fill("{} {} {} of the cell{}", words[:1].upper() + words[1:], takes, share, text)
                )
            else:
                pieces.append(say(f"{words} ", share, text))
        begin = "" if most > MOST else "Nothing takes most of the cell: "
        return Verdict("mixed", fill("{}{}.", begin, say(*pieces, between="; ")), most)
    if not len(table):
        return Verdict("mixed", say("No line of the cell was seen to run."))
    pieces = [
        say(line_words(row)[0], " ", _share(facts, row), line_words(row)[1])
        for row in table.to_dict("records")
    ]
    first = table.iloc[0]
    sentence = fill("No line takes most of the cell: {}.", say(*pieces, between="; "))
    return Verdict("mixed", sentence, float(_share(facts, first).value), line_select(first))


def _outside(facts: VerdictInputs, row: Any) -> Sentence:
    """Return how much of the cell the steps take, if the line does not run them."""
    stepping = facts.account[facts.account["kind"].isin(["steps", "outside-window"])]
    if not len(facts.steps) or (row["file"] == "cell" and (stepping["line"] == row["line"]).any()):
        return say()
    where = {"kind": ("steps", "outside-window")}
    steps, spent = int(stepping["steps"].sum()), int(stepping["dur"].sum())
    count = cite_count(steps, "step", Source("account", "steps", where))
    takes = ", which takes " if steps == 1 else ", which take "
    return say(", outside of the ", count, takes, cite_ns(spent, Source("account", "dur", where)))


def _doing(facts: VerdictInputs, part: Any, row: Any) -> tuple[str, Sentence]:
    """Return the kind of verdict, and what the line does in words."""
    text = str(row["text"])
    if (imported := _IMPORT.fullmatch(text.strip())) is not None:
        return "import-bound", say(f"; it imports {imported['module']}")
    if (compiled := _compiled(facts, row)) is not None:
        return "one-time", compiled
    name, file, spent, operators, total = _most_below(facts, row)
    if _waits(part, row, text, name, facts.cell_ns):
        if part is None or (part["line"] != row["line"] and part["dur"] < MOST * facts.cell_ns):
            return "wait-bound", say(_WAITS)
        window = (int(part["ts"]), int(part["ts"]) + int(part["dur"]))
        return "wait-bound", engine(facts, part) or say(
            _WAITS, awaited(facts, window, row), meanwhile(facts, window, row)
        )
    if operators > MOST * max(total, 1):
        return "compute-bound", say("; operators of the framework run most of it")
    library = "" if _too_few(facts) else library_of(file, name)
    if library and spent > MOST * max(total, 1):
        by = {"by": ("name", "track")}
        source = Source("operators", "self_ns", {"name": name, "track": stepping_track(facts.trace)}, by)
        own = int(source.evaluate(facts.trace))
        share = facts.sampled_share(min(own / max(facts.cell_ns, 1), 1.0), source, _CELL, {"name": name})
        words = f"; {short(name, 60)} of {spelled(library)} takes "
        others = ", also in other lines" if own > int(row["total_ns"]) else ""
        return "library-bound", say(words, share, f" of the cell by itself{others}")
    return "python-bound", say()


def _compiled(facts: VerdictInputs, row: Any) -> Sentence | None:
    """Return how long ``torch.compile`` took, if that is most of the line's time."""
    if recorded_table(facts.trace, "compilations") is None:
        return None
    from ..source.compilations import compilations

    spent = int(compilations(facts.trace)["dur"].sum())
    if spent < MOST * int(row["total_ns"]):
        return None
    return say("; one-time work: torch.compile took ", cite_ns(spent, Source("compilations", "dur")))


def _waits(part: Any, row: Any, text: str, below: str, cell_ns: int) -> bool:
    """Return whether the line waits, judged by its text and its callees' names, or by recorded CPU time."""
    # On a shared machine, a thread that wakes often is mostly ready to run, so its CPU time alone does not
    # show that it waits. Words of the line alone do not either: they may be in a comment.
    asleep, named = False, waits_by_name(f"cell:1  {text}")
    if part is not None and pd.notna(part["wait_ns"]):
        # for a line within the part, a lower bound: all the time outside of the line is taken as asleep
        is_part = part["line"] == row["line"]
        whole_ns, elsewhere_ns = (
            (int(part["dur"]), 0) if is_part else (int(row["total_ns"]), cell_ns - int(row["total_ns"]))
        )
        asleep = int(part["wait_ns"]) - elsewhere_ns >= MOST * whole_ns
        named &= int(part["wait_ns"]) >= int(part["cpu_ns"])
    return asleep or named or waits_by_name(below)


def _most_below(facts: VerdictInputs, row: Any) -> tuple[str, str, int, int, int]:
    """Return name, file and time of the longest function below a line, and operators' and all time there."""
    thread = facts.thread
    starts, ends = thread.open(thread.among("name", (line_select(row)["name"],)))
    at = np.searchsorted(starts, thread.ts, side="right") - 1
    below = thread.only((at >= 0) & (thread.end <= np.append(ends, 0)[at]))
    operators = int(below.self_ns[below.among("category", ("operator", "collective"))].sum())
    python = below.only(below.among("category", ("python",)) & ~below.named(LINE.fullmatch))
    code = python.codes("name")
    spent = np.bincount(code, python.self_ns, minlength=1)
    most = int(spent.argmax())
    if not spent[most]:
        return "", "", 0, operators, int(below.self_ns.sum())
    longest = python.rows[int(np.argmax(np.where(code == most, python.self_ns, -1)))]
    source_lines = frames(facts.trace)
    name = str(below.slices["name"].cat.categories[most])
    file = str(source_lines.file[source_lines.code[longest]])
    return name, file, int(spent[most]), operators, int(below.self_ns.sum())
