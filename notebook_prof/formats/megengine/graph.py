"""MegEngine's profile of a static graph: ``trace(symbolic=True, profiling=True).get_profile()``."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.codec.tolerant_json import decode_object
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from .nodes import PHASE_OF_SCOPE, Nodes, shapes_text, short_name

_NS: Final = 1_000_000_000
_LATEST_S: Final = 1e9


def read_times(entries: dict[str, Any], report: ImportReport) -> pd.DataFrame:
    """Read ``{operator: {place: {"start", "kern", "end"}}}``, in seconds, into a table in ns."""
    # a place is a computing node or a thread of the host
    operator, node, values = [], [], []
    for key, times_of_node in entries.items():
        for where, times in times_of_node.items() if isinstance(times_of_node, dict) else ():
            row = [times.get(part) for part in ("start", "kern", "end")] if isinstance(times, dict) else []
            if len(row) == 3 and all(isinstance(t, int | float) and abs(t) < _LATEST_S for t in row):
                operator.append(key)
                node.append(where)
                values.append(row)
            else:
                report.broken_rows(1, f"operator {key}: {times!r}"[:200], "left out")
    seconds = np.array(values, np.float64).reshape(-1, 3)
    start, kern, end = np.rint(seconds * _NS).astype(np.int64).T
    places = {"id": pd.Series(operator, dtype=object), "node": pd.Series(node, dtype=object)}
    return pd.DataFrame({**places, "start": start, "kern_ns": kern - start, "ns": end - start})


_SCOPE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def read_graph(data: bytes, builder: TraceBuilder) -> None:
    # Every operator is a slice on its computing node (category kernel, from its start to its end), and one on
    # the host thread that dispatched it (category launch); `correlation` is the operator's id.
    file = decode_object(data, Any, "MegEngine's")
    profiler, graph = _part(file, "profiler"), _part(file, "graph_exec")
    if not profiler:
        raise FormatError("there is no 'profiler' in it: this is not a get_profile() of MegEngine")
    operators = _part(graph, "operator")
    device = read_times(_part(profiler, "device"), builder.report)
    host = read_times(_part(profiler, "host"), builder.report)
    # A row an operator, in the order of execution. `device_ns device_kern_ns host_ns host_kern_ns` are the
    # longest over computing nodes or threads; kern counts from the start of the kernel call to where it
    # returned, as `--top-end-key kern`. `flop_count memory_bytes` are of one execution, missing where
    # MegEngine does not know. `in_shapes out_shapes in_layouts param` are JSON text; `in_dtypes out_dtypes`
    # lists, where known.
    table = _table(graph, profiler, device, host)
    builder.metadata.setdefault("tables", {})["operators"] = table
    builder.metadata["operator_count"] = len(operators)
    without = set(operators) - set(device["id"])
    effect = "constants and copies that were not executed have no slices"
    builder.report.add("operator-without-time", "info", len(without), effect=effect)
    launched = _slices(device, table, builder, on_device=True)
    calls = _slices(host, table, builder, on_device=False)
    first_call = host.assign(call=calls).drop_duplicates("id").set_index("id")["call"]
    source = first_call.reindex(device["id"], fill_value=-1).to_numpy(np.int64)
    builder.flows("launch", source[source >= 0], launched[source >= 0])


def _part(value: Any, key: str) -> dict[str, Any]:
    part = value.get(key) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _table(
    graph: dict[str, Any], profiler: dict[str, Any], device: pd.DataFrame, host: pd.DataFrame
) -> pd.DataFrame:
    operators, var = _part(graph, "operator"), _part(graph, "var")
    footprints = _part(profiler, "opr_footprint")
    sequence = graph.get("comp_seq")
    order = {str(key): i for i, key in enumerate(sequence if isinstance(sequence, list) else [])}
    keys = list(dict.fromkeys([*device["id"], *host["id"], *footprints, *operators]))
    rows = [_operator(key, _part(operators, key), _part(footprints, key), var) for key in keys]
    table = pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object)
    table = table.astype({"flop_count": "Int64", "memory_bytes": "Int64"})
    table.insert(3, "order", pd.array([order.get(key) for key in keys], dtype="Int64"))
    for name, times in (("device", device), ("host", host)):
        longest = times.groupby("id", sort=False)[["ns", "kern_ns"]].max().astype("Int64").reindex(keys)
        for part in ("ns", "kern_ns"):
            table[f"{name}_{part}"] = longest[part].array
    texts = device["node"].map(short_name).groupby(device["id"], sort=False).agg(" ".join)
    table["comp_node"] = texts.astype(object).reindex(keys).array
    return table.sort_values("order", kind="stable", ignore_index=True)


_COLUMNS: Final = (
    "id", "name", "type", "flop_count", "memory_bytes", "in_shapes", "out_shapes", "in_layouts", "param",
    "in_dtypes", "out_dtypes",
)  # fmt: skip


def _operator(
    key: str, operator: dict[str, Any], footprint: dict[str, Any], var: dict[str, Any]
) -> tuple[Any, ...]:
    name = operator.get("name")
    return (
        key,
        name if isinstance(name, str) else f"operator {key}",
        str(operator.get("type", "")),
        _count(footprint.get("computation")) or None,
        _count(footprint.get("memory")),
        *(_json(footprint.get(part)) for part in ("in_shapes", "out_shapes", "in_layouts", "param")),
        _dtypes(operator.get("input"), var),
        _dtypes(operator.get("output"), var),
    )


def _count(value: Any) -> int | None:
    valid = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return int(value) if valid else None


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _dtypes(keys: Any, var: dict[str, Any]) -> list[str | None]:
    """Return the element types of an operator's inputs or outputs, known only for planned memory."""
    plans = (_part(_part(var, str(key)), "mem_plan") for key in (keys if isinstance(keys, list) else []))
    dtypes = (_part(plan, "layout").get("dtype") for plan in plans)
    return [dtype if isinstance(dtype, str) else None for dtype in dtypes]


def _slices(times: pd.DataFrame, table: pd.DataFrame, builder: TraceBuilder, *, on_device: bool) -> IntArray:
    nodes = Nodes(builder)
    code, node_names = pd.factorize(times["node"])
    tracks = [
        nodes.track(node) if on_device else builder.track(node.removeprefix("comp_node_dispatch:"))
        for node in map(str, node_names)
    ]
    devices = [nodes.device(str(node)) if on_device else -1 for node in node_names]
    row = pd.Index(table["id"]).get_indexer(times["id"])
    names = table["name"].to_numpy()[row]
    shapes = [shapes_text(msgspec.json.decode(text)) if text else None for text in table["in_shapes"]]
    kinds = table["type"].tolist()
    scopes = [_scope(name, kind) for name, kind in zip(table["name"], kinds, strict=True)]
    work = np.array(["memcpy" if "Copy" in str(kind) else "kernel" for kind in kinds], dtype=object)
    ids = [int(key) if key.isdecimal() and len(key) < 19 else -1 for key in table["id"]]
    return builder.slices(
        ts=times["start"],
        dur=times["ns"],
        track=np.array([*tracks, -1], np.int64)[code],
        name=names,
        category=work[row] if on_device else "launch",
        phase=np.array([phase for _, phase in scopes], dtype=object)[row],
        module=np.array([module for module, _ in scopes], dtype=object)[row],
        correlation=np.array(ids, np.int64)[row],
        device=np.array([*devices, -1], np.int64)[code],
        shapes=np.array([*shapes, None], dtype=object)[row],
    )


def _scope(name: str, kind: str) -> tuple[str | None, str | None]:
    """Return the module and phase by an operator's name: ``conv1.Convolution``, ``backward.MatrixMul``."""
    phase = "backward" if "Backward" in kind else None
    if not _SCOPE.fullmatch(name) or "." not in name:
        return None, phase
    path = name.split(".")[:-1]
    phase = next((PHASE_OF_SCOPE[part] for part in path if part in PHASE_OF_SCOPE), phase)
    module = ".".join(part for part in path if part not in PHASE_OF_SCOPE)
    return module or None, phase or "forward"
