"""Details of activities: how kernels were launched, what collectives exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.event_tables import DEVICE_TABLES
from ...trace.strings import Coded
from ..codec.columns import ValueInterner, marked
from ..codec.tolerant_json import UNDECODABLE, decoded
from .columns import UNNAMED, KinetoColumns
from .event_types import EXTRA, NO_ARGUMENTS, AllArguments, extra_of
from .instant_events import launch_links

LAUNCH_NUMBERS: Final = {
    "runtime": {
        13: "cudaLaunch",
        211: "cudaLaunchKernel",
        213: "cudaLaunch_ptsz",
        214: "cudaLaunchKernel_ptsz",
        269: "cudaLaunchCooperativeKernel",
        270: "cudaLaunchCooperativeKernel_ptsz",
        272: "cudaLaunchCooperativeKernelMultiDevice",
        311: "cudaGraphLaunch",
        312: "cudaGraphLaunch_ptsz",
        430: "cudaLaunchKernelExC",
        431: "cudaLaunchKernelExC_ptsz",
        505: "__cudaLaunchKernel",
        506: "__cudaLaunchKernel_ptsz",
    },
    "driver": {
        115: "cuLaunch",
        116: "cuLaunchGrid",
        117: "cuLaunchGridAsync",
        307: "cuLaunchKernel",
        442: "cuLaunchKernel_ptsz",
        477: "cuLaunchCooperativeKernel",
        478: "cuLaunchCooperativeKernel_ptsz",
        480: "cuLaunchCooperativeKernelMultiDevice",
        514: "cuGraphLaunch",
        515: "cuGraphLaunch_ptsz",
        652: "cuLaunchKernelEx",
        653: "cuLaunchKernelEx_ptsz",
    },
}
"""Launch calls by CUPTI's number (``cupti_runtime_cbid.h``, ``cupti_driver_cbid.h``, which only grow)."""
_KERNEL_TYPES: Final = ("kernel", "concurrent_kernel")
_ON_LAUNCH: Final = ("grid", "block", "shared_memory")
_CHUNK: Final = 4096
_list_decoder: Final = msgspec.json.Decoder(list[AllArguments])
_LAUNCH: Final = {
    "grid": "text",  # such as ``[40, 1, 1]``, and so is `block`
    "block": "text",
    "registers_per_thread": "Int64",
    "shared_memory_bytes": "Int64",
    "blocks_per_sm": "float64",
    "warps_per_sm": "float64",
    "occupancy": "float64",  # achieved, estimated by CUPTI; a share from 0 to 1, as is the theoretical one
    "theoretical_occupancy": "float64",
    "bytes": "Int64",
    "wait_on_stream": "Int64",  # of waits, and so are the next three
    "wait_on_event": "Int64",
    "wait_on_correlation": "Int64",  # that of the call that recorded the event
    "sync_kind": "text",
    "graph": "Int64",  # for work launched by a CUDA graph
    "graph_node": "Int64",
    "priority": "Int64",  # of the launch: usually 0; lower numbers go first
}
_COLLECTIVE: Final = {
    "operation": "text",
    "dtype": "text",
    "in_elements": "Int64",
    "out_elements": "Int64",
    "group": "text",
    "group_size": "Int64",
    "group_description": "text",
    "group_ranks": "text",  # such as ``[0, 1]``, and so are the splits
    "in_split": "text",
    "out_split": "text",
    "sequence": "Int64",
    "src_rank": "Int64",  # the source of a receive
    "dst_rank": "Int64",  # the target of a send
}
_OUR_NAMES: Final = {
    "registers": "registers_per_thread",
    "shared_memory": "shared_memory_bytes",
    "collective": "operation",
    "collective_sequence": "sequence",
}
_ZERO_IS_NONE: Final = frozenset({"graph", "graph_node"})
"""Kineto writes 0 for work that no graph launched."""
_PERCENT: Final = frozenset({"occupancy", "theoretical_occupancy"})


def extra_text(values: Sequence[Any]) -> str:
    """Return an event's details as a JSON object; empty if there are none.

    >>> extra_text([(1, 1, 1)] + [None] * (len(EXTRA) - 1))
    '{"grid":[1,1,1]}'
    """
    present = {
        name: value
        for name, value in zip(EXTRA, values, strict=True)
        if value is not None and not (value == 0 and name in _ZERO_IS_NONE)
    }
    return msgspec.json.encode(present).decode() if present else ""


def activity_metadata(texts: Sequence[str]) -> tuple[Coded, int]:
    """Parse the metadata of activities in a live recording into `KinetoColumns.extra`."""
    # Each text is a JSON object without its braces, with the keys of Kineto's files. Also returned: how many
    # could not be decoded; their code is -1.
    distinct, unreadable = ValueInterner(), 0
    codes = np.empty(len(texts), np.int64)
    for start in range(0, len(texts), _CHUNK):
        part = ["{" + text + "}" for text in texts[start : start + _CHUNK]]
        try:
            arguments: list[AllArguments] = _list_decoder.decode("[" + ",".join(part) + "]")
        except UNDECODABLE:
            arguments = [decoded(text, AllArguments) or NO_ARGUMENTS for text in part]
            unreadable += sum(one is NO_ARGUMENTS for one in arguments)
        codes[start : start + len(part)] = distinct.column(map(extra_of, arguments))
    values = ValueInterner({"": 0})
    lookup = values.column(map(extra_text, distinct)) - 1
    return Coded(lookup[codes].astype(np.int64), list(values)[1:]), unreadable


def attribute_tables(columns: KinetoColumns) -> dict[str, pd.DataFrame]:
    """Return ``device_events`` and ``collectives`` for ``metadata["tables"]``, if they have rows."""
    # ``device_events`` is device work whose launch the file describes: ``device stream start_unix_ns`` int64,
    # which identify the slice, ``correlation`` int64, ``name kind`` category, and the columns of `_LAUNCH`.
    # ``collectives`` are kernels and operators whose exchange the file describes: ``device stream`` (-1 on
    # the host) and ``start_ns`` (Unix) int64, and the columns of `_COLLECTIVE`. Rows are in the order of
    # `columns`; unknown values are missing.
    extra = _with_launches(columns)
    if extra is None:
        return {}
    distinct = [_in_our_units(msgspec.json.decode(text)) for text in extra.values]
    tables: dict[str, pd.DataFrame] = {}
    for name, kinds in (("device_events", _LAUNCH), ("collectives", _COLLECTIVE)):
        start = DEVICE_TABLES[name]
        rows, facts = _facts(extra, distinct, kinds)
        if name == "device_events":
            facts, rows = facts[columns.device[rows] >= 0], rows[columns.device[rows] >= 0]
        if not len(rows):
            continue
        key = {"device": columns.device[rows], "stream": columns.stream[rows], start: columns.ts[rows]}
        table = pd.DataFrame({column: value.astype(np.int64) for column, value in key.items()})
        if name == "device_events":
            table["correlation"] = columns.correlation[rows]
            table["name"], table["kind"] = (_words(part, rows) for part in (columns.name, columns.kind))
        tables[name] = pd.concat([table, facts.reset_index(drop=True)], axis=1)
    return tables


def named_calls(columns: KinetoColumns) -> KinetoColumns:
    """Return the columns with names for CUDA calls that Kineto could not name, from CUPTI's numbers."""
    # Launch calls get their real names, others a name with their number, such as ``CUDA runtime call 517``.
    if UNNAMED not in columns.name.values or columns.extra is None:
        return columns
    unnamed = np.asarray(columns.name.codes) == columns.name.values.index(UNNAMED)
    unnamed &= (columns.device < 0) & (np.asarray(columns.extra.codes) >= 0)
    rows = np.flatnonzero(unnamed)
    numbers = np.array([int(msgspec.json.decode(text).get("cbid", -1)) for text in columns.extra.values])
    in_driver = marked(columns.kind, lambda kind: kind.lower().endswith("_driver"))[rows]
    pair, pairs = pd.factorize(2 * numbers[columns.extra.codes[rows]] + in_driver)
    words = [_call_name(int(key) // 2, bool(key % 2)) for key in pairs]
    codes = np.array(columns.name.codes, np.int64)
    codes[rows] = len(columns.name.values) + pair
    return replace(columns, name=Coded(codes, [*columns.name.values, *words]))


def _call_name(number: int, in_driver: bool) -> str:
    if number < 0:
        return UNNAMED
    domain = "driver" if in_driver else "runtime"
    return LAUNCH_NUMBERS[domain].get(number, f"CUDA {domain} call {number}")


def stream_priorities(device_events: pd.DataFrame | None) -> dict[tuple[int, int], int]:
    """Return the priority by device and stream, for streams whose launches all had the same priority.

    >>> table = pd.DataFrame({"device": [0, 0], "stream": [7, 9], "priority": [0, -5]})
    >>> stream_priorities(table)
    {(0, 7): 0, (0, 9): -5}
    """
    if device_events is None or "priority" not in device_events:
        return {}
    launches = device_events[["device", "stream", "priority"]].dropna().drop_duplicates()
    alone = launches[~launches.duplicated(["device", "stream"], keep=False)]
    rows = zip(*(alone[name].astype("int64").tolist() for name in alone), strict=True)
    return {(device, stream): priority for device, stream, priority in rows}


def _in_our_units(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metadata to our names and units."""
    renamed = {_OUR_NAMES.get(name, name): value for name, value in metadata.items()}
    return {name: _share(value) if name in _PERCENT else value for name, value in renamed.items()}


def _share(percent: Any) -> float | None:
    return percent / 100 if isinstance(percent, int | float) else None


def _facts(
    extra: Coded, distinct: list[dict[str, Any]], kinds: Mapping[str, str]
) -> tuple[IntArray, pd.DataFrame]:
    """Return the rows with any requested field, and these fields. Each distinct value is parsed once."""
    tells = np.array([*(not kinds.keys().isdisjoint(each) for each in distinct), False])
    codes = np.asarray(extra.codes)
    rows = np.flatnonzero(tells[codes])
    facts: dict[str, Any] = {}
    for name, kind in kinds.items():
        values = [each.get(name) for each in distinct]
        if any(value is not None for value in values):
            facts[name] = _column(values, kind)
    return rows, pd.DataFrame(facts, index=range(len(distinct))).iloc[codes[rows]]


def _column(values: list[Any], kind: str) -> pd.Series[Any]:
    if kind == "text":
        return pd.Series(pd.Categorical([None if value is None else str(value) for value in values]))
    if kind == "Int64" and all(value is None or isinstance(value, int) for value in values):
        fits = [value if value is not None and abs(value) < 1 << 63 else None for value in values]
        return pd.Series(fits, dtype="Int64")
    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").astype("float64")
    if kind == "float64":
        return numbers
    whole = numbers.where(numbers.abs() < float(1 << 53)).round()
    return whole.astype("Int64")


def _words(part: Coded, rows: IntArray) -> pd.Categorical:
    return pd.Categorical.from_codes(part.codes[rows], categories=pd.Index(part.values, dtype="object"))


def _with_launches(columns: KinetoColumns) -> Coded | None:
    """Return ``columns.extra``, completed for kernels from the runtime calls that launched them."""
    # Some versions of roctracer write a kernel's grid, block and shared memory only on the runtime call with
    # the same correlation.
    extra = columns.extra
    if extra is None or not len(columns):
        return extra
    metadata: list[dict[str, Any]] = [msgspec.json.decode(text) for text in extra.values]
    codes = np.asarray(extra.codes, np.int64)
    has_grid = np.array([*("grid" in each for each in metadata), False])[codes]
    whole = np.array([*(all(name in each for name in _ON_LAUNCH) for each in metadata), False])[codes]
    calls = (columns.device < 0) & has_grid
    if not calls.any():
        return extra
    of_kernel = marked(columns.kind, lambda kind: kind.lower() in _KERNEL_TYPES)
    call, rows = launch_links(columns, calls, (columns.device >= 0) & ~whole & of_kernel)
    return _merged(extra, metadata, codes, rows, call)


def _merged(
    extra: Coded, metadata: list[dict[str, Any]], codes: IntArray, rows: IntArray, calls: IntArray
) -> Coded:
    """Return `extra` with details of `calls` added to those of `rows`. Each distinct pair is merged once."""
    pair, pairs = pd.factorize((codes[rows] + 1) * (len(metadata) + 1) + codes[calls])
    values, result = list(extra.values), codes.copy()
    new = np.empty(len(pairs), np.int64)
    for number, key in enumerate(pairs.tolist()):
        own, call = key // (len(metadata) + 1) - 1, key % (len(metadata) + 1)
        launch = {name: metadata[call][name] for name in _ON_LAUNCH if name in metadata[call]}
        new[number] = len(values)
        values.append(msgspec.json.encode(launch | (metadata[own] if own >= 0 else {})).decode())
    result[rows] = new[pair]
    return Coded(result, values)
