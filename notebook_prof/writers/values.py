"""Values of any kind as JSON: an object with a tag for types that JSON lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace import Trace
from ..trace.arrays import MAX_NESTING, TAG
from ..trace.event_tables import ARGUMENTS, DEVICE_TABLES, distinct_facts, event_table, slice_rows_of

# Further attributes of each slice, from the other tables, as text for its event.

_OF_SLICE: Final = frozenset({"device", "stream", "name", "kind", "correlation", "start_unix_ns", "start_ns"})
"""Columns that the event contains anyway."""
_IN_KINETO: Final = {
    "registers_per_thread": "registers per thread",
    "shared_memory_bytes": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "occupancy": "est. achieved occupancy %",
    "theoretical_occupancy": "theoretical occupancy %",
    "wait_on_event": "wait_on_cuda_event_id",
    "wait_on_correlation": "wait_on_cuda_event_record_corr_id",
    "sync_kind": "cuda_sync_kind",
    "graph": "graph id",
    "graph_node": "graph node id",
    "operation": "Collective name",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "in_split": "In split size",
    "out_split": "Out split size",
    "group": "Process Group Name",
    "group_size": "Group size",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "sequence": "Seq",
    "src_rank": "Src Rank",
    "dst_rank": "Dst Rank",
}
"""Names of arguments that other tools read."""
_PERCENT: Final = frozenset({"occupancy", "theoretical_occupancy"})
_LISTS: Final = frozenset({"grid", "block"})


def event_texts(trace: Trace) -> npt.NDArray[np.object_] | None:
    """Return members for the ``args`` of every slice, each after a comma; None if there are none."""
    # ``arguments`` is an object with the call's arguments; launches of kernels and collectives have
    # Kineto's names
    texts: npt.NDArray[np.object_] | None = None
    for name in (ARGUMENTS, *DEVICE_TABLES):
        table = event_table(trace, name)
        if table is None:
            continue
        rows = slice_rows_of(trace, name)
        told = _arguments(table) if name == ARGUMENTS else _attributes(table)
        with_text = np.flatnonzero((rows >= 0) & (told != ""))
        if texts is None:
            texts = np.full(len(trace.slices), "", dtype=object)
        texts[rows[with_text]] = texts[rows[with_text]] + told[with_text]
    return texts


def _arguments(table: pd.DataFrame) -> npt.NDArray[np.object_]:
    column = table["arguments"].astype("category")
    words = [f',"arguments":{text}' for text in column.cat.categories]
    return np.asarray(np.array([*words, ""], dtype=object)[column.cat.codes.to_numpy()])


def _attributes(table: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Write each distinct row once."""
    code, facts = distinct_facts(table, _OF_SLICE)
    return np.array([*map(_members, facts), ""], dtype=object)[code]


def _members(facts: dict[str, Any]) -> str:
    told = {}
    for name, value in facts.items():
        if isinstance(value, float) and not math.isfinite(value):  # not expressible in JSON
            continue
        if name in _LISTS and isinstance(value, str):
            value = json.loads(value)
        told[_IN_KINETO.get(name, name)] = 100 * value if name in _PERCENT else value
    return "," + json.dumps(told, separators=(",", ":"))[1:-1] if told else ""


class ValueEncoder:
    """Turns metadata into JSON for `ValueDecoder`; `put` stores a DataFrame and returns its name."""

    # `lost` names values that can only be kept as text
    def __init__(self, put: Callable[[pd.DataFrame], str]) -> None:
        self._put = put
        self.lost: list[str] = []

    def encode(self, value: Any, where: str = "metadata", depth: int = 0) -> Any:
        """Encode a value as JSON; `where` names it in `lost`."""

        def inner(part: Any, at: str = "") -> Any:
            return self.encode(part, f"{where}{at}", depth + 1)

        if isinstance(value, np.bool_ | np.integer | np.floating):
            value = value.item()
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, pd.DataFrame) and _has_names(value):
            return {TAG: "frame", "v": self._put(value)}
        if depth < MAX_NESTING and isinstance(value, Mapping):
            if all(type(key) is str for key in value) and TAG not in value:
                return {key: inner(part, f"[{key!r}]") for key, part in value.items()}
            pairs = [[inner(key), inner(part, f"[{key!r}]")] for key, part in value.items()]
            return {TAG: "dict", "v": pairs}
        if depth < MAX_NESTING and isinstance(value, list | tuple):
            parts = [inner(part) for part in value]
            return parts if isinstance(value, list) else {TAG: "tuple", "v": parts}
        self.lost.append(f"{where}: {type(value).__name__}")
        return str(value)


def _has_names(frame: pd.DataFrame) -> bool:
    return frame.columns.is_unique and all(type(label) is str for label in frame.columns)
