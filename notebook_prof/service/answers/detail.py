"""Everything about the one slice in focus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ..packing import Answer, pack
from ..store import ViewStore
from .arguments import arguments_of
from .find import location

_MOST_FRAMES: Final = 40
_MOST_LINKS: Final = 20
_LONGEST: Final = 2000


def detail(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the slice in row ``request["id"]``: arguments, stack (root first) and launch links."""
    c = store.columns
    row = request.get("id")
    if row is None or not 0 <= int(row) < c.n:
        return pack({"found": False}, {})
    row = int(row)
    info = store.trace.slices.iloc[row]
    track = next(track for track in c.tracks if track.track == int(info["track"]))
    parent = None if pd.isna(info["parent"]) else int(info["parent"])
    content = {
        "found": True,
        "id": row,
        "name": str(info["name"])[:_LONGEST],
        "category": _text(info["category"]),
        "track_name": f"{track.name}",
        "group": track.group,
        "row": int(c.row[row]),
        "depth": int(info["depth"]),
        "ts": int(info["ts"]),
        "dur": int(info["dur"]),
        "self_ns": int(info["self_ns"]),
        "step": None if pd.isna(info["step"]) else int(info["step"]),
        "phase": _text(info["phase"]),
        "module": _text(info["module"]),
        "line": store.line_labels[int(c.line[row])],
        "shapes": _text(info["shapes"]),
        "parent": None if parent is None else {"id": parent, "name": c.names[c.name[parent]]},
        "arguments": arguments_of(store.trace, row),
        "stack": _stack(store.trace.stacks, info["stack"]),
        "links": _links(store, row),
    }
    return pack(content, {})


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)[:_LONGEST]


def _stack(stacks: pd.DataFrame, leaf: Any) -> list[str]:
    if pd.isna(leaf) or not len(stacks):
        return []
    table = stacks.set_index("stack")
    frames: list[str] = []
    key: Any = int(leaf)
    while not pd.isna(key) and len(frames) < _MOST_FRAMES and int(key) in table.index:
        frame = table.loc[int(key)]
        line = "" if pd.isna(frame["line"]) else f":{int(frame['line'])}"
        frames.append(f"{frame['name']} ({frame['file']}{line})" if frame["file"] else str(frame["name"]))
        key = frame["parent"]
    return frames[::-1]


def _links(store: ViewStore, row: int) -> list[dict[str, Any]]:
    flows, c = store.trace.flows, store.columns
    src, dst = flows["src"].to_numpy(), flows["dst"].to_numpy()
    kinds = flows["kind"].astype("str").to_numpy()
    out: list[dict[str, Any]] = []
    for own, other, direction in ((src, dst, "to"), (dst, src, "from")):
        for k in np.flatnonzero(own == row)[:_MOST_LINKS].tolist():
            end = int(other[k])
            out.append(
                {
                    "kind": str(kinds[k]),
                    "direction": direction,
                    "name": c.names[c.name[end]][:200],
                    **location(store, end),
                }
            )
    return out
