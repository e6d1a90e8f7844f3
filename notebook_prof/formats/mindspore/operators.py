"""Executions of operators from the files that are exact, on host and device; and the step trace."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
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


# The step trace has four points per step: its begin, the begin of the forward, the end of the backward, and
# its end.
#
# ``metadata["tables"]["step_trace"]`` has one row per step: ``step start_ns fp_ns bp_ns end_ns interval_ns
# fp_bp_ns tail_ns total_ns points``; times in the clock of ``metadata["start_unix_ns"]``. `points` is the
# source of the two points: ``file``, ``argument``, or ``names`` (the first operator of the step, and the last
# one of the graph Gradients). ``step_trace_average`` is the file's own row of averages,
# which may cover steps that are not in the file. ``reduces`` are the blocks of gradient exchange: ``step name
# stream start_ns dur_ns``.

COUNT_NS: Final = 10.0
"""Duration of one count of the system counter."""


_STREAM: Final = re.compile(r"(stream_(\d{1,9})_.*)_start_point")
_POINTS: Final = {"start_ns": "start_point", "fp_ns": "fp_point", "bp_ns": "bp_point", "end_ns": "end_point"}
_PARTS: Final = {"interval_ns": "iteration_interval", "fp_bp_ns": "fp_and_bp", "tail_ns": "tail"}
_BLOCKS: Final = (
    ("iteration_interval", "interval_ns", "start_ns", "data"),
    ("fp_and_bp", "fp_bp_ns", "fp_ns", None),
    ("tail", "tail_ns", "bp_ns", "optimizer"),
)


def step_trace(data: bytes, report: ImportReport) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read steps, their average and reduces (see above) from ``step_trace_raw_<id>_detail_time.csv``."""
    frame = csv_frame(data, report)
    if not {"step_num", "start_point", "end_point"} <= set(frame.columns):
        report.add("broken-file", "loss", example="no step_num", effect="the step trace is left out")
        return (pd.DataFrame(),) * 3
    # the inference form (`fp` only) has no backward: `bp_ns` is the end of the forward, `tail_ns` 0
    for column in ("fp_point", "bp_point"):
        if column not in frame:
            frame[column] = frame["start_point" if column == "fp_point" else "end_point"]
    number = pd.to_numeric(frame["step_num"], errors="coerce")
    average = (frame["step_num"].str.strip() == "-") | ((number == 0) & (frame["start_point"] == "0"))
    columns = {key: ns_of(frame[column], COUNT_NS) for key, column in _POINTS.items()}
    good = np.logical_and.reduce([ok for _, ok in columns.values()]) & (average | number.notna())
    report.broken_rows(
        ~np.asarray(good, bool), lambda i: f"step {frame['step_num'].iloc[i]}", "these steps are left out"
    )
    table = pd.DataFrame({key: values for key, (values, _) in columns.items()})
    table.insert(0, "step", number.fillna(-1).clip(-1, 2**31 - 1).astype("int64"))
    stored = {key: ns_of(frame.get(column, table["step"] * 0), COUNT_NS)[0] for key, column in _PARTS.items()}
    table = table.assign(**stored, total_ns=ns_of(frame.get("total", table["step"]), COUNT_NS)[0])
    is_step = good & ~average.to_numpy()
    steps = parted(table[is_step]).assign(points="file")
    return steps, table[good & average.to_numpy()], _reduces(frame[is_step], table[is_step])


def parted(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the three parts and the total from the four points."""
    start, fp, bp, end = (table[name] for name in ("start_ns", "fp_ns", "bp_ns", "end_ns"))
    return table.assign(
        interval_ns=fp - start, fp_bp_ns=bp - fp, tail_ns=end - bp, total_ns=end - start
    ).reset_index(drop=True)


def _reduces(frame: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    matches = [_STREAM.fullmatch(column) for column in frame.columns]
    streams = {match[1]: int(match[2]) for match in matches if match and f"{match[1]}_end_point" in frame}
    n, names = len(frame), list(streams)
    start, begun = ns_of(frame[[f"{name}_start_point" for name in names]].to_numpy().ravel(), COUNT_NS)
    end, ended = ns_of(frame[[f"{name}_end_point" for name in names]].to_numpy().ravel(), COUNT_NS)
    blocks = pd.DataFrame(
        {
            "step": np.repeat(table["step"].to_numpy(), len(names)),
            "name": np.tile(np.array(names, dtype=object), n),
            "stream": np.tile(np.array([*streams.values()], np.int64), n),
            "start_ns": start,
            "dur_ns": end - start,
        }
    )
    return blocks[begun & ended & (end >= start) & (start > 0)].reset_index(drop=True)


def named_points(
    steps: pd.DataFrame, runs: pd.DataFrame, staging: Staging, phases: list[str | None]
) -> pd.DataFrame:
    """Set the begin of the forward and the end of the backward, by the options or by operators' names."""
    # `steps` has `step start_ns end_ns`, and the points of the file if it has them; `runs` has `full ts
    # dur` on the same clock, and `phases` a value for each of its rows. Steps in which a named operator did
    # not run keep their own point.
    from_file = "fp_ns" in steps
    begin, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    order = np.argsort(begin, kind="stable")
    at = np.searchsorted(begin[order], runs["ts"].to_numpy(), side="right") - 1
    step = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    inside = (step >= 0) & (runs["ts"].to_numpy() < end[np.maximum(step, 0)]) if len(steps) else step >= 0
    backward = np.array([phase == "backward" for phase in phases], bool)
    result = steps.assign(points="file" if from_file else "names")
    for column, operator, first in (("fp_ns", staging.fp_point, True), ("bp_ns", staging.bp_point, False)):
        if operator:
            exact = (runs["full"] == operator).to_numpy(bool)
            last = (runs["full"].str.rpartition("/")[2] == operator).to_numpy(bool)
            rows = (exact if exact.any() else last) & inside
            if not rows.any():
                raise _unknown(operator, runs["full"])
        elif from_file:
            continue
        else:
            rows = inside if first else inside & backward
        edges = runs["ts"] if first else runs["ts"] + runs["dur"]
        by_step = edges[rows].groupby(step[rows]).agg("min" if first else "max")
        value = by_step.reindex(range(len(steps)), fill_value=-1).to_numpy(np.int64)
        has_value = value >= 0
        old = steps[column].to_numpy() if from_file else (begin if first else end)
        result[column] = np.where(has_value, value, old)
        if operator:
            result.loc[has_value, "points"] = "argument"
    result["bp_ns"] = result[["bp_ns", "fp_ns"]].max(axis=1)
    return parted(result)


def _unknown(operator: str, fulls: pd.Series) -> OptionError:
    distinct = [str(name) for name in fulls.unique()[:2000]]
    # short names are suggested, or full names for one with a /
    names = distinct if "/" in operator else [name.rpartition("/")[2] for name in distinct]
    return OptionError(f"no operator {operator!r} runs in any step: {nearest(operator, names)[:400]}")


def stage_steps(steps: pd.DataFrame, reduces: pd.DataFrame, staging: Staging, rank: int, clock: str) -> None:
    """Put the step trace into `staging`: steps, reduces on streams, tables; on a device, its parts too."""
    builder = staging.builder
    starts = np.concatenate([steps["start_ns"].to_numpy(), reduces["start_ns"].to_numpy(np.int64)])
    ends = np.concatenate([steps["end_ns"], (reduces["start_ns"] + reduces["dur_ns"]).to_numpy(np.int64)])

    def emit(shift: int) -> None:
        moved = steps.assign(**{name: steps[name] + shift for name in _POINTS})
        staging.table("step_trace", moved, rank)
        staging.table("reduces", reduces.assign(start_ns=reduces["start_ns"] + shift), rank)
        first = not builder.metadata.get("steps_source")
        if first:
            builder.steps(moved["step"], moved["start_ns"], moved["total_ns"].clip(lower=0), "file")
        effect = "the table of steps is the first rank's; all are in metadata['tables']['step_trace']"
        builder.report.add("steps-of-other-ranks", "info", int(not first), effect=effect)
        # beside operators on the host the parts would be counted as operators; they are in the table
        for name, length, begin, phase in _BLOCKS if clock == "device" else ():
            rows = moved[moved[length] > 0]
            builder.slices(
                ts=rows[begin],
                dur=rows[length],
                track=staging.track(rank, "Step Trace", "thread"),
                name=name,
                category="annotation",
                phase=phase,
                step=rows["step"],
            )
        if len(reduces):
            builder.slices(
                ts=reduces["start_ns"].to_numpy(np.int64) + shift,
                dur=reduces["dur_ns"].to_numpy(np.int64),
                track=staging.streams(rank, rank, reduces["stream"].to_numpy()),
                name=reduces["name"],
                category="collective",
                phase="communication",
                step=reduces["step"],
                device=rank,
                stream=reduces["stream"],
            )

    staging.at(clock, starts, ends, emit)
