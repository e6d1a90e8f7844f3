"""The step trace: where each step begins, its forward begins, its backward ends, and it ends.

``metadata["tables"]["step_trace"]`` has one row per step: ``step start_ns fp_ns bp_ns end_ns interval_ns
fp_bp_ns tail_ns total_ns points``; times in the clock of ``metadata["start_unix_ns"]``. `points` is the
source of the two points: ``file``, ``argument``, or ``names`` (the first operator of the step, and the last
one of the graph Gradients). ``step_trace_average`` is the file's own row of averages,
which may cover steps that are not in the file. ``reduces`` are the blocks of gradient exchange: ``step name
stream start_ns dur_ns``.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace.report import ImportReport
from .staging import Staging, csv_frame, ns_of

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
    """Set the two points by the operators that were named, or else by the names of the operators."""
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
