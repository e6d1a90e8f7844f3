"""Runs of the history whose recording was not kept."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from ..comparison.run import Summary
from ..errors import HistoryError, NotRecordedError, OptionError
from ..profiles.profile import Profile
from ..units import format_items, format_ns
from .packing import unpacked
from .store import Store

_COLUMNS = (
    "id, at_ns, kernel, notebook, cell, cell_hash, name, options, environment, load, core_share, p50_ns, "
    "steps, source, content"
)


@dataclass(frozen=True, eq=False, repr=False)
class HistoryRun(Summary):
    """A run of the history, without its recording; accepted by `notebook_prof.compare`.

    Attributes
    ----------
    run : int
        Its number in `notebook_prof.history`.
    name, kernel, notebook, cell, cell_hash, options, environment : str
        As in `notebook_prof.history`.
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
        # reached only for attributes that this class lacks, which a Profile may have
        if name.startswith("_") or not hasattr(Profile, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotRecordedError(f"{name} is not available for {self.title}. {_WITHOUT}")


_WITHOUT = "Its recording was not kept, %%profile --keep does that; nbp.compare() takes its totals."


def read_run(store: Store, run: int) -> HistoryRun:
    """Read a run. Raises OptionError for an unknown number, HistoryError for an unreadable file or row."""
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
