"""Nodes of execution traces, from PyTorch and, in two forms, from MLCommons Chakra."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct, field

from ...errors import FormatError
from ...readers.codec.protobuf import PADDING, Fields, WireError, text_column, varint
from ...readers.codec.tolerant_json import decode_object
from ...trace.arrays import BoolArray, IntArray, numbered, positions
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import Coded

_COLLECTIVE: Final = 7
_MESSAGES: Final = (5, 6)
_MOST_NS: Final = 1 << 61
TABLE: Final = "execution_graph"


class Graph(NamedTuple):
    """Nodes with durations, and the nodes on which each depends."""

    node: IntArray  # number of each node
    kind: IntArray  # 4 for computation, 5 and 6 for messages, 7 for collectives
    name: Coded
    start_ns: IntArray  # all 0 if none was recorded
    dur_ns: IntArray
    on_host: BoolArray
    waits: IntArray  # positions of nodes that depend on another; one for each dependency
    needs: IntArray  # the numbers of the nodes on which they depend


def add_graph(graph: Graph, builder: TraceBuilder) -> None:
    """Put nodes on a lane for the host and one for devices, with their dependencies as arrows."""
    if not len(graph.node):
        raise FormatError("the execution trace has no nodes")
    order = np.argsort(graph.node, kind="stable")
    node, kind, on_host = graph.node[order], graph.kind[order], graph.on_host[order]
    dur = np.clip(graph.dur_ns[order], 0, _MOST_NS // max(len(node), 1))
    start = np.clip(graph.start_ns[order], 0, _MOST_NS)
    if not start.any():
        # without starts, the nodes of a lane are placed one after another in the order of their numbers
        for lane in (on_host, ~on_host):
            start[lane] = np.cumsum(dur[lane]) - dur[lane]
        builder.metadata["time_line"] = False
        builder.report.add(
            "no-time-line",
            "info",
            example="all starts are 0",
            effect="the file contains how long each node takes but not when: on each lane they are in the "
            "order of their numbers, and waits between them are unknown",
            advice="open the profiler's trace of the same run for the timeline",
        )
    codes = graph.name.codes[order]
    words = [*graph.name.values, "(unnamed)"]
    codes = np.where(codes < 0, len(words) - 1, codes)
    host, devices = (builder.track(f"{where} nodes", "process") for where in ("host", "device"))
    is_message = np.isin(kind, (_COLLECTIVE, *_MESSAGES))
    category = Coded(is_message.astype(np.int64), ("operator", "collective"))
    name, track = Coded(codes, words), np.where(on_host, host, devices)
    handles = builder.slices(ts=start, dur=dur, track=track, name=name, category=category)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    at = positions(node, graph.needs)
    exists = at >= 0
    builder.flows("link", handles[at[exists]], handles[position[graph.waits[exists]]])
    effect = "dependencies on nodes that are not in the file have no arrow"
    builder.report.add("dependency-without-node", "info", int((~exists).sum()), effect=effect)
    table = pd.DataFrame(
        {
            "node": node,
            "name": pd.Categorical.from_codes(codes, pd.Index(words)),
            "type": kind,
            "on_host": on_host,
            "dur_ns": dur,
        }
    )
    builder.metadata.setdefault("tables", {})[TABLE] = table


_ID, _NAME, _TYPE, _CONTROL, _DATA, _START, _DURATION, _ATTRIBUTE = 1, 2, 3, 4, 5, 6, 7, 10
_BOOL: Final = 27
_US: Final = 1_000
_MOST_US: Final = 1 << 50


class _TorchNode(Struct):
    id: int = -1
    name: str = ""
    parent: int | None = None
    ctrl_deps: int | None = None
    rf_id: int = -1
    tid: int = -1
    op_schema: str = ""
    input_shapes: Any = None
    inputs: Any = None
    attrs: list[dict[str, Any]] = field(default_factory=list)


class _TorchFile(Struct):
    nodes: list[_TorchNode]
    schema: str = ""
    pid: int = -1


class _WorkloadNode(Struct, rename={"node": "Id", "name": "Name", "kind": "NodeType", "control": "ctrlDeps"}):
    node: int = -1
    name: str = ""
    kind: int = 0
    control: list[int] = field(default_factory=list)
    data_deps: list[int] = field(default_factory=list)
    runtime: float = 0
    is_cpu_op: bool = True


class _WorkloadFile(Struct):
    workload_graph: list[_WorkloadNode]


def chakra(data: bytes, report: ImportReport) -> Graph:
    """Return the nodes in Chakra's protocol buffers."""
    begins, ends, at = [], [], 0
    try:
        while at < len(data):
            size, at = varint(data, at, len(data))
            if at + size > len(data):
                raise WireError(f"the node at byte {at} ends beyond the end of the file")
            begins.append(at)
            ends.append(at + size)
            at += size
    except WireError as error:
        report.truncated(str(error), "nodes from there on are missing")
    raw = np.frombuffer(data + bytes(PADDING), np.uint8)
    nodes = Fields(raw, np.array(begins[1:], np.int64), np.array(ends[1:], np.int64))
    effect = "the rest of these nodes is missing"
    report.add("broken-message", "loss", nodes.broken, "a field that reaches beyond its node", effect)
    needs = [nodes.repeated(number) for number in (_CONTROL, _DATA)]
    waits, numbers = (np.concatenate(parts) for parts in zip(*needs, strict=True))
    start, dur = (np.clip(nodes.ints(number, 0), 0, _MOST_US) * _US for number in (_START, _DURATION))
    on_host = _attribute(nodes, "is_cpu_op") != 0
    node, kind, name = nodes.ints(_ID, -1), nodes.ints(_TYPE, 0), text_column(nodes, _NAME)
    return Graph(node, kind, name, start, dur, on_host, waits, numbers)


def _attribute(nodes: Fields, name: str) -> IntArray:
    """Return a flag of each node; 1 if missing."""
    rows = nodes.occurrences(_ATTRIBUTE)
    attributes = nodes.inside(rows)
    names = text_column(attributes, 1)
    own = np.array([*(text == name for text in names.values), False])[names.codes]
    result = np.ones(nodes.count, np.int64)
    result[rows.owner[own]] = attributes.ints(_BOOL, 0)[own]
    return result


def workload(data: bytes) -> Graph:
    """Return the nodes in Chakra's JSON."""
    nodes = decode_object(data, _WorkloadFile, "Chakra's").workload_graph
    needs = [[*node.control, *node.data_deps] for node in nodes]
    dur = np.array([node.runtime for node in nodes], np.float64)
    return Graph(
        _ints([node.node for node in nodes]),
        _ints([node.kind for node in nodes]),
        Coded(*numbered(node.name for node in nodes)),
        np.zeros(len(nodes), np.int64),
        np.rint(np.nan_to_num(np.clip(dur, 0, _MOST_US)) * _US).astype(np.int64),
        np.array([node.is_cpu_op for node in nodes], bool),
        np.repeat(np.arange(len(nodes)), [len(each) for each in needs]),
        _ints([number for each in needs for number in each]),
    )


def _ints(values: list[int]) -> IntArray:
    return np.array([value if abs(value) < 1 << 62 else -1 for value in values], np.int64)


def read_torch(data: bytes, builder: TraceBuilder) -> None:
    """Put the nodes of PyTorch's file into a table: it contains no durations."""
    file = decode_object(data, _TorchFile, "PyTorch's execution trace")
    nodes = file.nodes
    if not nodes:
        raise FormatError("PyTorch's execution trace has no nodes")
    attributes = [{str(each.get("name")): each.get("value") for each in node.attrs} for node in nodes]

    def numbers(name: str) -> IntArray:
        values = [facts.get(name, getattr(node, name)) for node, facts in zip(nodes, attributes, strict=True)]
        return _ints([value if isinstance(value, int) else -1 for value in values])

    above = [node.ctrl_deps if node.ctrl_deps is not None else node.parent for node in nodes]
    shapes = [n.inputs.get("shapes") if isinstance(n.inputs, dict) else n.input_shapes for n in nodes]
    texts = [msgspec.json.encode(shape).decode() if shape else "" for shape in shapes]
    schemas = [facts.get("op_schema", node.op_schema) for node, facts in zip(nodes, attributes, strict=True)]
    table = pd.DataFrame(
        {
            "node": _ints([node.id for node in nodes]),
            "parent": _ints([-1 if number is None else number for number in above]),
            "name": pd.Categorical([node.name for node in nodes]),
            "tid": numbers("tid"),
            "rf_id": numbers("rf_id"),
            "schema": pd.Categorical([text if isinstance(text, str) else "" for text in schemas]),
            "shapes": pd.Categorical(texts),
        }
    )
    builder.metadata.setdefault("tables", {})[TABLE] = table
    builder.metadata["execution_trace"] = {"schema": file.schema, "pid": file.pid, "nodes": len(nodes)}
    builder.report.add(
        "no-durations",
        "info",
        len(nodes),
        example=nodes[-1].name,
        effect="PyTorch's execution trace has calls of operators, but neither their starts nor durations: "
        f"there is no timeline; the nodes are the table {TABLE!r} of the metadata",
        advice="open the profiler's trace of the same run: its 'Record function id' is rf_id",
    )
