"""What changed between two recordings: their conditions, and their source, matched line by line."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from ..trace import Trace
from ..trace.schema import Table
from ..units import format_items

CONDITIONS: Final = Table.of("conditions", "what:str a:str b:str effect:str")


def _machine(trace: Trace, name: str) -> str:
    machine = trace.metadata.get("machine")
    value = machine.get(name) if isinstance(machine, dict) else None
    return "" if value is None else str(value)


def _text(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    counts = Counter(map(str, value))
    return ", ".join(f"{count} × {one}" if count > 1 else one for one, count in counts.items())


def _metadata(name: str) -> Callable[[Trace], str]:
    return lambda trace: _text(trace.metadata.get(name, ""))


def _loops(trace: Trace) -> str:
    loops = trace.steps["loop"].nunique()
    return format_items(int(loops), "loop") if loops > 1 else ""


_CONDITIONS: Final[tuple[tuple[str, Callable[[Trace], str], str], ...]] = (
    ("computer", _metadata("host"), "another machine is faster or slower by itself"),
    ("devices", _metadata("devices"), "another device is faster or slower by itself"),
    ("cores", lambda trace: _machine(trace, "cpus"), "operators use more or fewer threads"),
    ("torch threads", lambda trace: _machine(trace, "torch_threads"), "operators use more or fewer threads"),
    ("Python", _metadata("python"), "another interpreter is faster or slower by itself"),
    ("PyTorch", _metadata("torch_version"), "operators may differ"),
    ("collectors", _metadata("collectors"), "they cost time, and record different things"),
    ("source", _metadata("source"), "other profilers divide time differently"),
    ("format", _metadata("format"), "other profilers divide time differently"),
    ("steps", _metadata("steps_source"), "a step may do different work"),
    ("loops with steps", _loops, "only steps of the loop that took longest are compared"),
)


def facts_of(trace: Trace) -> dict[str, str]:
    """Return the facts that `conditions` compares, by name; empty if not recorded."""
    return {what: of(trace) for what, of, _ in _CONDITIONS}


def conditions(a: Mapping[str, str], b: Mapping[str, str]) -> pd.DataFrame:
    """List the recorded conditions, apart from the code, in which two recordings' `facts_of` differ."""
    rows = []
    for what, _, effect in _CONDITIONS:
        left, right = a.get(what, ""), b.get(what, "")
        if left != right and ((left and right) or what == "loops with steps"):
            rows.append((what, left, right, effect))
    return CONDITIONS.of_tuples(rows)


LINE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)")
OF_B: Final = " of b"
"""Suffix of the label of a line that only b has."""
SOURCE_CHANGES: Final = Table.of(
    "source",
    "file:str change:str a_line:Int64 b_line:Int64 a_text:str b_text:str",
)


def source_changes(a: Mapping[str, Sequence[str]], b: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Match the lines of the cell and of common files, in the order of b, gone lines at their old place."""
    # Equal lines are matched by ``difflib.SequenceMatcher``. If both sides have the same number of lines
    # between two of them, these count as changed, in order; otherwise they count as gone and new. The line
    # with the magic is left out.
    rows: list[tuple[Any, ...]] = []
    for file in a:
        if file in b:
            rows += [(file, *row) for row in _changes(a[file], b[file])]
    return SOURCE_CHANGES.of_tuples(rows)


def labels_of_b(changes: pd.DataFrame, labels: Iterable[str]) -> dict[str, str]:
    """Return the label in a of each line label in b; lines that only b has are marked by `OF_B`."""
    matched = changes.dropna(subset=["a_line", "b_line"])
    old_number = {
        (str(file), int(new)): int(old)
        for file, new, old in zip(matched["file"], matched["b_line"], matched["a_line"], strict=True)
    }
    files = set(changes["file"])
    renamed: dict[str, str] = {}
    for word in labels:
        match = LINE.fullmatch(str(word))
        if match is None:
            continue
        file = _file_of(match["file"], files)
        if file is None:
            continue
        old = old_number.get((file, int(match["line"])))
        renamed[str(word)] = f"{match['file']}:{old}" if old is not None else f"{word}{OF_B}"
    return renamed


def placed(table: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Add ``file a_line b_line text`` to an attribution by line; rows that are not lines have no file."""
    matched: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in changes.to_dict("records"):
        numbers = {side: row[f"{side}_line"] for side in "ab"}
        matched |= {(side, row["file"], number): row for side, number in numbers.items() if pd.notna(number)}
    rows: list[tuple[Any, ...]] = []
    for label, change in zip(table["line"], table["change"], strict=True):
        place = LINE.fullmatch(label.removesuffix(OF_B))
        if place is None:
            rows.append(("", pd.NA, pd.NA, label))
            continue
        side, number = "b" if label.endswith(OF_B) else "a", int(place["line"])
        row = matched.get((side, place["file"], number), {"a_text": "", "b_text": "", "b_line": pd.NA})
        b_line = number if side == "b" else pd.NA if change == "gone" else row["b_line"]
        text = str(row["a_text" if pd.isna(b_line) else "b_text"]).strip()
        rows.append((place["file"], number if side == "a" else pd.NA, b_line, text))
    frame = pd.DataFrame(rows, columns=["file", "a_line", "b_line", "text"])
    frame = frame.astype({"file": "str", "a_line": "Int64", "b_line": "Int64", "text": "str"})
    return pd.concat([frame, table.drop(columns=["line", "matched"])], axis=1)


def _file_of(name: str, files: set[str]) -> str | None:
    if name in files:
        return name
    return next((file for file in files if file.replace("\\", "/").endswith(f"/{name}")), None)


def _changes(a: Sequence[str], b: Sequence[str]) -> list[tuple[Any, ...]]:
    old, new = ([_without_magic(i, text) for i, text in enumerate(side)] for side in (a, b))
    rows: list[tuple[Any, ...]] = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            how = "same" if tag == "equal" else "changed"
            rows += [(how, i + k + 1, j + k + 1, a[i + k], b[j + k]) for k in range(i_end - i)]
        else:
            rows += [("gone", k + 1, pd.NA, a[k], "") for k in range(i, i_end)]
            rows += [("new", pd.NA, k + 1, "", b[k]) for k in range(j, j_end)]
    return [row for row in rows if not (row[3] or row[4]).lstrip().startswith("%%profile")]


def _without_magic(row: int, text: str) -> str:
    return "%%profile" if not row and text.lstrip().startswith("%%profile") else text.rstrip()
