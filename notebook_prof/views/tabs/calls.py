"""The calls tab: call tree, bottom-up and event log under the selection, and the heaviest stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.source.call_tree import from_below, heaviest_of
from ...analysis.source.stack_nodes import working_threads
from ...labels import track_label
from ...trace import Trace
from .analyses import arguments, followed
from .base import MOST_ROWS, Absent, Choice, Note, Panel, StackTable, Tab, Table, TreeTable
from .flame import without_stacks

_TREE: Final = "call_tree"
_EVERY_FRAME: Final = "every_frame"
_BOTTOM_UP: Final = "bottom_up"
_LOG: Final = "event_log"
_MODES: Final = {
    _TREE: "Call tree", _EVERY_FRAME: "Every frame", _BOTTOM_UP: "Bottom-up", _LOG: "Event log",
}  # fmt: skip
_LEAST_SHARE: Final = 1e-4
"""Callers are listed for entries with at least this share of the time or of the device work."""
_NUMBERS: Final = {
    _TREE: ("total_ns", "self_ns", "share", "count", "device_ns", "device_self_ns"),
    _BOTTOM_UP: ("self_ns", "total_ns", "share", "count", "device_self_ns", "device_ns"),
}
_WEIGHTS: Final = {_TREE: ("total_ns", "device_ns"), _BOTTOM_UP: ("self_ns", "device_self_ns")}
_MEANING: Final = {
    _TREE: "What called what, outermost callers first. Total includes everything below, self does not. "
    "→ opens a row, ← closes it.",
    _BOTTOM_UP: "Names by self time, and below each the callers for which it took that time. → opens a "
    "row, ← closes it.",
    _LOG: "The selected slices in order of start. A click shows the slice in the timeline.",
}
_HEADS: Final = {"share": "of thread time", "device_ns": "device", "track_name": "track", "ts": "start"}


def calls(trace: Trace, state: Mapping[str, Any], *, mode: str = _TREE) -> Panel | Absent:
    """Show one of the four, with the heaviest stack next to it."""
    narrowed = arguments(analysis.call_tree, state)
    options: dict[str, Any] = {"fold_libraries": True} if mode == _TREE else {}
    mode = _TREE if mode == _EVERY_FRAME else mode
    threads = None if "track" in narrowed else working_threads(trace)
    if threads is not None:
        options["track"] = threads
    tree = analysis.call_tree(trace, **narrowed, **options)
    if not len(tree):
        if sentence := without_stacks(trace):
            return Absent(sentence)
        if mode != _LOG:
            return Absent("There is no stack in the selection.")
    part = _log(trace, state) if mode == _LOG else _tree(tree, mode, {**narrowed, **options})
    # a single selected name filters the log, not the trees
    names = list(state.get("name") or [])
    name = str(names[0]) if mode == _LOG and len(names) == 1 else None
    stack = heaviest_of(tree, name)
    shown = StackTable(
        stack[["name", "total_ns", "share"]],
        units={"name": "name"},
        heads=_HEADS,
        title="Heaviest stack" if name is None else "Heaviest stack of the name",
        call=_call("heaviest_stack", {**({} if name is None else {"name": name}), **narrowed, **options}),
    )
    notes = [Note(_MEANING[mode])]
    if "fold_libraries" in options:
        notes.append(
            Note("A library is one row, except for functions with 1 % of the time; every frame shows all.")
        )
    if threads is not None and mode != _LOG:
        notes.append(Note("Threads on which no operator ran are left out; select one to see it."))
    under = followed(analysis.event_log if mode == _LOG else analysis.call_tree)
    return Panel("Calls", (part, *((shown,) if len(stack) else ()), *notes), under)


def _tree(tree: pd.DataFrame, mode: str, options: Mapping[str, Any]) -> TreeTable:
    table = tree
    if mode == _BOTTOM_UP:
        table = from_below(tree, least_share=_LEAST_SHARE)
        options = {**options, "least_share": _LEAST_SHARE}
    device = bool(table["device_ns"].any())
    numbers = [name for name in _NUMBERS[mode] if device or not name.startswith("device")]
    return TreeTable(
        table[["parent", "depth", "name", *numbers, "category"]],
        units={"name": "name", "category": "text"},
        heads=_HEADS,
        call=_call(mode, options),
        weights=_WEIGHTS[mode] if device else _WEIGHTS[mode][:1],
    )


def _log(trace: Trace, state: Mapping[str, Any]) -> Table:
    table = analysis.event_log(trace, **arguments(analysis.event_log, state))
    tracks = trace.tracks[["track", "name", "kind", "pid", "tid"]].fillna({"pid": -1, "tid": -1})
    labels = {
        number: name if kind == "stream" else track_label(name, pid, tid)
        for number, name, kind, pid, tid in tracks.to_numpy().tolist()
    }
    return Table(
        table[["ts", "dur", "self_ns", "name"]].assign(track=table["track"].map(labels)),
        units={"name": "name"},
        heads=_HEADS,
        select=[{"focus": int(row)} for row in table["slice"].head(MOST_ROWS)],
        call="p.event_log()",
        of=analysis.event_log,
    )


def _call(name: str, options: Mapping[str, Any]) -> str:
    """Return the Python call that returns the same."""
    return f"p.{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"


TAB: Final = Tab(
    "Calls",
    calls,
    without_stacks,
    place=25,
    summary="Call tree, bottom-up and event log of the selection, with its heaviest stack.",
    calls=("p.call_tree()", "p.bottom_up()", "p.event_log()", "p.heaviest_stack()"),
    choices=(Choice("mode", "view", _MODES),),
)
