"""Executions of operators from the files that are exact: host times and device times."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...readers.codec.columns import per_group
from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import Coded, by_value
from .staging import Staging, csv_frame, ns_of

# The parts of MindSpore's names: ``Gradients/Default/network-Net/conv1-Conv2d/Conv2D-op93``.

_NUMBER: Final = re.compile(r"-op\d+$")
_GRADIENT: Final = re.compile(r"(?:grad[A-Z]\w*(?:-\w+)*|Grad_\w+|grad_\w+)")
_GRAPHS: Final = ("Gradients", "Default", "recompute_Default")
_FEEDING: Final = ("GetNext", "InitData", "EndOfSequence", "DynamicGetNext", "PullWeight")
_COLLECTIVE: Final = re.compile(
    r"(?:All(?:Reduce|Gather|toAll)\w*|ReduceScatter\w*|Broadcast|NeighborExchange\w*|Send|Receive|Recv|hcom_\w+"
    r"|Alltoall\w*|allreduce_\w+)(?:[-_]|$)"
)


class NameParts(NamedTuple):
    """The parts of a full name."""

    name: str  # its last part: the operator with its number
    type: str  # the operator without its number
    module: str  # dotted path of attributes; empty outside of any module
    phase: str | None  # None if the name does not contain it


def split(full: str) -> NameParts:
    """Split a full name: graph, scopes (``attribute-Class``) and operator, separated by ``/``.

    >>> split("Gradients/Default/network-WithLossCell/_backbone-Net/fc1-Dense/gradMatMul-expand/MatMul-op9")
    NameParts(name='MatMul-op9', type='MatMul', module='network._backbone.fc1', phase='backward')
    """
    *scopes, name = full.split("/")
    backward = scopes[:1] == ["Gradients"]
    inner = [scope for scope in scopes if scope not in _GRAPHS and not _GRADIENT.fullmatch(scope)]
    attributes = [scope.partition("-")[0] for scope in inner]
    kind = _NUMBER.sub("", name)
    return NameParts(name, kind, ".".join(filter(None, attributes)), _phase(kind, attributes, backward))


def is_collective(name: str) -> bool:
    """Return whether an operator moves data between ranks, by its own name."""
    return _COLLECTIVE.match(name) is not None


def _phase(kind: str, attributes: list[str], backward: bool) -> str | None:
    if is_collective(kind):
        return "communication"
    if kind.startswith(_FEEDING):
        return "data"
    if any(attribute.startswith(("optimizer", "_optimizer")) for attribute in attributes):
        return "optimizer"
    if backward:
        return "backward"
    return "forward" if attributes else None


_INPUT: Final = re.compile(r"input_\d+:(\[[\d, -]*\]|NoShape)")
_DIMS: Final = re.compile(r"-?\d+")


def input_shapes(info: Any) -> str:
    """Return shapes of the inputs in the ``op_info`` of a framework file or the ``args`` of a timeline row.

    >>> input_shapes({"input_0": {"shape": "32,3,224,224"}, "input_1": {"shape": [1]}, "output_0": {}})
    '[[32, 3, 224, 224], [1]]'
    """
    if not isinstance(info, dict):
        return ""
    shapes = [
        f"[{', '.join(_DIMS.findall(str(value.get('shape', ''))))}]"
        for key, value in info.items()
        if str(key).startswith("input_") and isinstance(value, dict)
    ]
    return f"[{', '.join(shapes)}]" if shapes else ""


def executed_shapes(data: bytes, name: list[str], ts: IntArray, report: ImportReport) -> Coded:
    """Return shapes of executions on the host from ``cpu_framework_<id>.txt``; code -1 where unknown."""
    # A line is `type;name;graph;input_1:[16, 3];input_2:NoShape;`, in the order in which they ran: the n-th
    # line of a name belongs to its n-th execution. Inputs without a shape are `[]`.
    lines = pd.Series(data.decode(errors="replace").splitlines(), dtype="object")
    parts = lines.str.split(";", n=3, expand=True)
    if len(lines) == 0 or parts.shape[1] < 4:
        return Coded(np.full(len(ts), -1), [])
    codes, texts = pd.factorize(parts[3].fillna(""))
    # `NoShape` contains no numbers
    inputs = ([f"[{', '.join(_DIMS.findall(part))}]" for part in _INPUT.findall(text)] for text in texts)
    spelled = [f"[{', '.join(parts)}]" for parts in inputs]
    executions = pd.DataFrame({"name": parts[1], "nth": parts.groupby(1).cumcount(), "code": codes})
    run = pd.DataFrame({"name": pd.Series(name, dtype="object"), "ts": ts}).sort_values("ts", kind="stable")
    run["nth"] = run.groupby("name").cumcount()
    merged = run.reset_index().merge(executions, on=["name", "nth"], how="left").set_index("index")
    shape_code = merged["code"].reindex(range(len(ts))).fillna(-1).to_numpy(np.int64)
    report.add("shapes-missing", "info", int((shape_code < 0).sum()), effect="these operators have no shapes")
    return Coded(shape_code, spelled)


_MS: Final = 1e6


def host_executions(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read executions on the host, by line and time, from ``cpu_op_execute_timestamp_<id>.txt``."""
    # A line is `<full name>;HostCpuOps;<start ns>,<ms>,<thread> <start ns>,<ms>,<thread> …`.
    lines = pd.Series(data.decode(errors="replace").splitlines(), dtype="object")
    lines = lines[lines.str.strip() != ""]
    parts = lines.str.split(";", n=2, expand=True).reindex(columns=range(3))
    report.broken_rows(parts[2].isna().to_numpy(), lambda i: lines.iloc[i], "these lines are left out")
    parts = parts[parts[2].notna()]
    runs = parts[2].str.split().explode().dropna()
    fields = runs.str.split(",", n=3, expand=True).reindex(columns=range(3))
    table = pd.DataFrame({"full": parts[0].reindex(runs.index).to_numpy()})
    return _timed(table, fields, 1.0, report)


def device_executions(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read executions on the device, from ``output_timeline_data_<id>.txt``: as `host_executions`."""
    frame = csv_frame(data, report)
    if frame.shape[1] < 4:
        return pd.DataFrame({"full": [], "ts": [], "dur": [], "lane": []}).astype({"full": "object"})
    fields = frame.iloc[:, [2, 3, 1]]
    fields.columns = range(3)
    return _timed(pd.DataFrame({"full": frame.iloc[:, 0].to_numpy(dtype=object)}), fields, _MS, report)


def _timed(
    table: pd.DataFrame, fields: pd.DataFrame, start_unit: float, report: ImportReport
) -> pd.DataFrame:
    ts, timed = ns_of(fields[0], start_unit)
    dur, lasting = ns_of(fields[1], _MS)
    lane, _ = ns_of(fields[2], 1.0)
    good = timed & lasting & (dur >= 0)
    report.broken_rows(~good, lambda i: fields.iloc[i].tolist(), "these executions are left out")
    return table.assign(ts=ts, dur=dur, lane=lane)[good].reset_index(drop=True)


def stage_host(runs: pd.DataFrame, framework: bytes, staging: Staging, rank: int) -> None:
    """Put host executions into `staging`: operators on threads, with shapes, modules and phases."""
    name, phase, module = described(runs["full"])
    short = [name.values[code] for code in name.codes]
    shapes = executed_shapes(framework, short, runs["ts"].to_numpy(), staging.builder.report)
    ts, dur, lane = (runs[column].to_numpy() for column in ("ts", "dur", "lane"))

    def emit(shift: int) -> None:
        staging.builder.slices(
            ts=ts + shift,
            dur=dur,
            track=per_group(lambda tid: host_thread(staging, rank, tid), lane),
            name=name,
            phase=phase,
            module=module,
            shapes=shapes,
        )

    staging.at(clock_of(ts), ts, ts + dur, emit)


def host_thread(staging: Staging, rank: int, tid: int) -> int:
    """Return the track of a thread that runs operators on the host."""
    return staging.track(rank, f"host operators {tid}", "thread", pid=rank, tid=tid)


def stage_device(runs: pd.DataFrame, shapes: dict[str, str], staging: Staging, rank: int) -> None:
    """Put device executions into `staging`: kernels and collectives on streams."""
    name, phase, module = described(runs["full"])
    kinds = [("collective" if is_collective(text) else "kernel") for text in name.values]
    ts, dur, lane = (runs[column].to_numpy() for column in ("ts", "dur", "lane"))

    def emit(shift: int) -> None:
        staging.builder.slices(
            ts=ts + shift,
            dur=dur,
            track=staging.streams(rank, rank, lane),
            name=name,
            category=Coded(name.codes, kinds),
            phase=phase,
            module=module,
            shapes=runs["full"].map(shapes) if shapes else None,
            device=rank,
            stream=lane,
        )

    staging.at("device", ts, ts + dur, emit)


def described(fulls: pd.Series) -> tuple[Coded, Coded, Coded]:
    """Return the short name, phase and module of a column of full names."""
    codes, distinct = pd.factorize(fulls)
    parts = [split(str(full)) for full in distinct]
    return (
        Coded(codes, [part.name for part in parts]),
        by_value(codes, [part.phase for part in parts]),
        by_value(codes, [part.module or None for part in parts]),
    )


def clock_of(ts: npt.NDArray[np.int64]) -> str:
    """Return ``unix`` for times after 2001, else ``host``: MindSpore 2.0 writes a monotonic clock."""
    return "unix" if len(ts) and int(ts.min()) > 10**18 else "host"
