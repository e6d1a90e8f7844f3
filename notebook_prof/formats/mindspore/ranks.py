"""All files of one rank: which of them is used for what, if several have the same data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd

from . import minddata, operators
from .placement import Placement, place_timeline
from .rows import Timeline, aicpu_lines, aicpu_records, lanes, timeline, training_trace
from .staging import Staging, json_value, ns_of
from .summaries import aicpu_table, summary_tables

_REDUNDANT: Final = ("compute_time", "compute_time_detail", "hwts", "pipeline_summary_csv")
_REDUNDANT_EFFECT: Final = "not read: other files have the same data, more exactly"


class Rank:
    """The files of one rank, by kind."""

    # Of files with the same data, the exact one is used: executions in nanoseconds before timelines in
    # microseconds, unless the timeline has the full names; msprof's whole timeline before its parts.

    def __init__(
        self, files: dict[str, str], content: Callable[[str], bytes], staging: Staging, rank: int
    ) -> None:
        self.files, self.content, self.staging, self.rank = files, content, staging, rank
        self.report = staging.builder.report
        self.shapes: dict[str, str] = {}
        self._host_steps: pd.DataFrame | None = None
        self._host_clock = "host"
        self._host: int | None = None

    def read(self) -> None:
        self._facts()
        for kind, name in self.files.items():
            for key, table in summary_tables(kind, self._data(kind), name, self.report).items():
                if key == "framework":
                    named = dict(zip(table["full_name"], table["shapes"], strict=True))
                    self.shapes = {name: text for name, text in named.items() if text}
                if key == "aicpu":
                    self._aicpu(table)
                else:
                    self.staging.table(key, table, self.rank)
        if "aicpu" not in self.files:
            # the files behind MindSpore's table
            lines, records = aicpu_lines(self._data("aicpu_text")), aicpu_records(self._data("raw_aicpu"))
            table = aicpu_table(lines if len(lines) else records, self.report)
            self._aicpu(table.astype({"serial": "int64"}))
        runs = self._executions()
        self._step_trace(runs)
        self._msprof_parts()
        self._data_pipeline()
        unused = [name for kind, name in self.files.items() if kind in _REDUNDANT]
        self.report.add("redundant-file", "info", len(unused), ", ".join(unused[:3]), _REDUNDANT_EFFECT)

    def _data(self, kind: str) -> bytes:
        return self.content(self.files[kind]) if kind in self.files else b""

    def _facts(self) -> None:
        metadata = self.staging.builder.metadata
        for kind, key in (("profiler_info", "profiler"), ("step_points", "step_points")):
            if kind in self.files:
                value = json_value(self._data(kind), self.report, self.files[kind])
                if isinstance(value, dict):
                    metadata.setdefault(key, value)
        version = metadata.get("profiler", {}).get("ms_version")
        if isinstance(version, str):
            metadata["mindspore"] = version

    def _aicpu(self, table: pd.DataFrame) -> None:
        start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()

        def emit(shift: int) -> None:
            self.staging.builder.slices(
                ts=start + shift,
                dur=end - start,
                track=self.staging.track(self.rank, f"NPU {self.rank} AI CPU", "stream"),
                name=table["type"],
                category="kernel",
                phase=[operators.split(name).phase for name in table["type"]],
                device=self.rank,
            )
            moved = table.assign(start_ns=start + shift, end_ns=end + shift)
            self.staging.table("aicpu", moved, self.rank)

        self.staging.at("device", start, end, emit)

    def _executions(self) -> pd.DataFrame:
        """Stage operators, and return the executions for the points of the step trace."""
        parts = []
        drawn = {
            kind: timeline(self._data(kind), self.report)
            for kind in ("timeline", "cpu_timeline", "gpu_timeline", "trace_view", "msprof")
            if kind in self.files
        }
        skip: set[str] = {"aicpu"} if "aicpu" in self.files else set()
        host = pd.DataFrame()
        if "cpu_times" in self.files:
            host = operators.host_executions(self._data("cpu_times"), self.report)
        if any(_tells_more(lines, len(host)) for lines in drawn.values()):
            host = host[:0]
        if len(host):
            parts.append(host[["full", "ts", "dur"]])
            skip.add("host")
            threads = host["lane"].unique()
            self._host = int(threads[0]) if len(threads) == 1 else None
        device = pd.DataFrame()
        if "operator_times" in self.files:
            device = operators.device_executions(self._data("operator_times"), self.report)
        if len(device):
            operators.stage_device(device, self.shapes, self.staging, self.rank)
            parts.append(device[["full", "ts", "dur"]])
            skip |= {"device"}
        if "step_trace" in self.files:
            skip |= {"communication", "steps"}
        for kind, lines in drawn.items():
            own = skip if kind == "timeline" else skip - {"device"}
            parts.append(self._timeline(kind, lines, own, device))
        if len(host):
            # after the timelines: of slices that start and end together, the scope is the outer one
            operators.stage_host(host, self._data("cpu_framework"), self.staging, self.rank)
        none = pd.DataFrame({"full": [], "ts": [], "dur": []})
        return pd.concat(parts, ignore_index=True) if parts else none

    def _msprof_parts(self) -> None:
        """Put parts of msprof's timeline; its steps cover all iterations, the others are in the whole one."""
        in_whole = {"msprof_tasks": ("device",), "msprof_hccl": ("communication",)}
        for kind in ("msprof_steps", *in_whole):
            if kind in self.files:
                lines = timeline(self._data(kind), self.report)
                skip = in_whole.get(kind, ()) if "msprof" in self.files else ()
                place_timeline(lines, self.staging, Placement(self.rank, "msprof", 0, skip))

    def _timeline(self, kind: str, lines: Timeline, skip: set[str], device: pd.DataFrame) -> pd.DataFrame:
        slices = lines.slices
        roles = pd.Series("", index=slices.index, dtype="object")
        for lane in lanes(lines):
            roles[lane.rows.index] = lane.role
        clock, offset = self._clock(kind, slices, roles, device)
        if kind == "msprof" and "msprof_steps" in self.files:
            skip = skip | {"steps"}
        runs = slices[roles.isin(["host", "device"]) & ~roles.isin(list(skip))]
        steps = slices[(roles == "steps") & slices["name"].str.fullmatch(r"\d{1,9}")]
        if len(steps) and "step_trace" not in self.files:
            self._host_steps = pd.DataFrame(
                {
                    "step": steps["name"].astype("int64"),
                    "start_ns": steps["ts"] + offset,
                    "end_ns": steps["ts"] + steps["dur"] + offset,
                }
            ).reset_index(drop=True)
            self._host_clock = clock
            skip = skip | {"steps"}
        how = Placement(self.rank, clock, offset, frozenset(skip), self.shapes, self._host)
        place_timeline(lines, self.staging, how)
        return runs[["full", "ts", "dur"]].assign(ts=runs["ts"] + offset)

    def _clock(
        self, kind: str, slices: pd.DataFrame, roles: pd.Series, device: pd.DataFrame
    ) -> tuple[str, int]:
        """Return the clock and offset of a timeline: on Ascend it starts near 0; another file has it."""
        if kind == "msprof":
            return "msprof", 0
        if not roles.isin(["device", "aicpu", "communication"]).any() or roles.isin(["python", "host"]).any():
            return operators.clock_of(slices["ts"].to_numpy()), 0
        if len(slices) and int(slices["ts"].min()) > 10**18:
            return "unix", 0
        count, valid = ns_of([self._data("min_cycle").decode(errors="replace").strip()], operators.COUNT_NS)
        if valid[0]:
            return "device", int(count[0])
        drawn = slices["ts"][roles == "device"]
        if len(device) and len(drawn):
            return "device", int(device["ts"].min() - drawn.min())
        return "timeline", 0

    def _step_trace(self, runs: pd.DataFrame) -> None:
        clock = "device"
        if "step_trace" in self.files:
            steps, average, reduces = operators.step_trace(self._data("step_trace"), self.report)
            self.staging.table("step_trace_average", average, self.rank)
        elif "raw_training_trace" in self.files:
            steps, reduces = training_trace(self._data("raw_training_trace"), self.report)
        elif self._host_steps is not None:
            steps, clock = self._host_steps, self._host_clock
            reduces = pd.DataFrame({"start_ns": [], "dur_ns": []})
        else:
            return
        named = bool(self.staging.fp_point or self.staging.bp_point)
        if len(steps) and (named or "fp_ns" not in steps):
            phases = [operators.split(str(full)).phase for full in runs["full"]]
            steps = operators.named_points(steps, runs, self.staging, phases)
        if len(steps):
            operators.stage_steps(steps, reduces, self.staging, self.rank, clock)

    def _data_pipeline(self) -> None:
        staging, rank = self.staging, self.rank
        # the queue of the sink mode is the one that counts where both were recorded
        if queue := next((kind for kind in ("host_queue", "feed_queue") if kind in self.files), ""):
            table = minddata.host_queue(self._data(queue), self.report)
            if len(table):
                minddata.stage_host_queue(table, staging, rank)
        for kind, unit in (("next_queue_us", 1e3), ("next_queue_ns", 1.0)):
            if kind in self.files:
                waits = minddata.next_queue(self._data(kind), unit, self.report)
                minddata.stage_next_queue(waits, staging, rank)
        pipeline = pd.DataFrame()
        if "pipeline" in self.files:
            pipeline = minddata.pipeline(self._data("pipeline"), self.report, self.files["pipeline"])
        elif "pipeline_raw" in self.files:
            pipeline = minddata.pipeline_raw(self._data("pipeline_raw"), self.report)
        cpu, facts = pd.DataFrame(), dict[str, Any]()
        if "minddata_cpu" in self.files:
            name = self.files["minddata_cpu"]
            cpu, facts = minddata.processor(self._data("minddata_cpu"), self.report, name)
        if facts:
            staging.builder.metadata.setdefault("processor", facts)
        minddata.stage_samples(pipeline, cpu, staging, rank)


def _tells_more(lines: Timeline, n: int) -> bool:
    """Return whether a timeline has the host's operators too, all of them and with full names."""
    hosts = [lane.rows["name"] for lane in lanes(lines) if lane.role == "host"]
    names = pd.concat(hosts) if hosts else lines.slices["name"][:0]
    return len(names) >= n and bool(np.mean(names.str.contains("/")) > 0.5)
