"""Removes what a recording shows of the user's source: for files that are shared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd

from .report import ImportReport
from .source_lines import LINE
from .trace import Trace

_FUNCTION: Final = re.compile(r"(?P<function>.+) \((?P<file>[^()]+)\)")
_OF_CELL: Final = re.compile(r"(In\[[ \d]*\]).*", re.DOTALL)
_PLACE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)")
_CELLS: Final = re.compile(r"cell|In\[\d+\]")
_FOREIGN: Final = re.compile(r"ProfilerStep#|nn\.Module|Optimizer|DataLoader|enumerate\(|## ")
_THREAD: Final = re.compile(
    r"cells|MainThread|(Thread|Dummy)-\d+( \(\w+\))?|(ThreadPoolExecutor-\d+|asyncio)_\d+|thread \d+.*|pt_\w+"
)
"""Names of threads that the user did not choose."""
_FACTS: Final = (
    "start_unix_ns", "source", "collectors", "python", "machine", "steps_requested", "steps_seen",
    "steps_source", "recorded_ns", "partial_steps", "freed_bytes", "cpu", "python_engine", "py_spy_since_ns",
    "time_line", "time_unit", "sample_counts",
    "table_times", "watch_ns", "rank", "world_size", "overhead", "clock_jump_ns",
)  # fmt: skip
"""Keys of metadata without text from the user."""
_KEPT: Final = frozenset(
    ["kind", "type", "error", "status", "category", "phase", "moment", "device_name", "grid", "block"]
)
"""Text columns of other tables that are kept."""


def without_source(trace: Trace) -> Trace:
    """Return the recording without source, file names, values of strings, and names that the user chose.

    Names of functions, modules, operators and kernels stay, and so do line numbers. Files become ``file 1``,
    variables ``name 1``, annotations ``annotation 1``, threads that the user named ``named thread 1``; the
    computer's name is removed.
    """
    return Redaction().of(trace)


class Redaction:
    """`without_source` for several recordings: a name has the same number in all of them."""

    def __init__(self) -> None:
        self._files, self._annotations = _Numbered("file"), _Numbered("annotation")
        self.variables, self.threads = _Numbered("name"), _Numbered("named thread")

    def of(self, trace: Trace) -> Trace:
        """Return the recording without source."""
        slices = trace.slices
        category = slices["category"].astype("str").to_numpy()
        renamed = slices["name"].astype("object").to_numpy(copy=True)
        for word, rename in (("python", self.python), ("annotation", self.annotation)):
            rows = category == word
            renamed[rows] = _each(renamed[rows], rename)
        lines = slices["line"].astype("object")
        lines = lines.where(lines.isna(), pd.Series(_each(lines.to_numpy(), self.python), index=lines.index))
        slices = slices.assign(name=pd.Categorical(renamed), line=pd.Categorical(lines))
        stacks, tracks = trace.stacks, trace.tracks
        for column, replace in (("file", self.file), ("name", self.python)):
            texts = _each(stacks[column].to_numpy(), replace)
            stacks = stacks.assign(
                **{column: pd.Series(texts, index=stacks.index, dtype=stacks[column].dtype)}
            )
        pid = (trace.metadata.get("cpu") or {}).get("pid")
        own = (tracks["pid"] == (-1 if pid is None else pid)).fillna(False).to_numpy(bool)
        chosen = (tracks["kind"] == "thread") & ~tracks["name"].str.fullmatch(_THREAD)
        named = own & chosen.to_numpy(bool)
        child = ~own & (tracks["pid"].notna() & tracks["kind"].isin(["thread", "process"])).to_numpy(bool)
        shown = np.where(child, "process " + tracks["pid"].astype("str"), tracks["name"])
        shown[named] = _each(shown[named], self.threads)
        tracks = tracks.assign(name=pd.Series(shown, index=tracks.index, dtype=tracks["name"].dtype))
        metadata = {key: trace.metadata[key] for key in _FACTS if key in trace.metadata}
        metadata["tables"] = {
            name: _scrubbed(name, table, self)
            for name, table in (trace.metadata.get("tables") or {}).items()
            if isinstance(table, pd.DataFrame)
        }
        report = ImportReport()
        for issue in trace.report:
            report.add(issue.code, issue.severity, issue.count)
        tables = {"slices": slices, "stacks": stacks, "tracks": tracks}
        rest = {name: getattr(trace, name) for name in ("counters", "flows", "steps", "allocations")}
        return Trace({**tables, **rest}, metadata=metadata, report=report, span=trace.span)

    def file(self, name: str) -> str:
        """Replace the name of a file, except of a cell."""
        return name if _CELLS.fullmatch(name) or not name else self._files(name)

    def python(self, name: str) -> str:
        """Replace the file in the name of a frame or line."""
        if (line := LINE.fullmatch(name)) is not None or (line := _PLACE.fullmatch(name)) is not None:
            return f"{self.file(line['file'])}:{line['line']}"
        if (function := _FUNCTION.fullmatch(name)) is not None:
            return f"{function['function']} ({self.file(function['file'])})"
        return name

    def annotation(self, name: str) -> str:
        """Replace an annotation, except PyTorch's; a cell keeps only its number."""
        if (cell := _OF_CELL.fullmatch(name)) is not None:
            return cell[1]
        return name if _FOREIGN.match(name) else self._annotations(name)


class _Numbered:
    """Replaces each distinct text with a word and a number."""

    def __init__(self, word: str) -> None:
        self._word, self._known = word, {"": ""}

    def __call__(self, text: str) -> str:
        return self._known.setdefault(text, f"{self._word} {len(self._known)}")


def _each(values: Any, rename: Callable[[str], str]) -> list[Any]:
    known = {value: rename(value) if isinstance(value, str) else value for value in pd.unique(values)}
    return [known[value] if isinstance(value, str) else value for value in values]


def _scrubbed(table_name: str, table: pd.DataFrame, names: Redaction) -> pd.DataFrame:
    """Return a table without the user's texts: names of memory are numbered, all others are empty."""
    made: dict[str, Any] = {}
    for column, values in table.items():
        if values.dtype.kind in "iufbM" or str(values.dtype).startswith(("Int", "Float", "bool")):
            continue
        if column in _KEPT or table_name == "collectives":
            continue
        texts: list[Any] = [""] * len(values)
        if column == "name" and table_name == "memory_names":
            texts = _each(values.to_numpy(), names.variables)
        elif column == "name" and table_name == "cell_runs":
            texts = _each(values.to_numpy(), names.annotation)
        elif column == "now":
            texts = [None] * len(values)
        made[str(column)] = pd.Series(texts, index=table.index, dtype="object")
    return table.assign(**made)
