"""MindSpore and MindInsight: profiler folders of versions r0.5 to 2.10, and Ascend's msprof timelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from ...errors import FormatError, OptionError, nearest
from ...readers.base import Folder, FolderReader, Probe, Reader
from ...trace.builder import TraceBuilder

# Kinds of files of a profiler folder, by name in a folder, or by content.

_ID: Final = r"(?P<rank>\d+)"

_NAMES: Final = {
    "profiler_info": rf"profiler_info_{_ID}\.json",
    "step_trace": rf"step_trace_raw_{_ID}_detail_time\.csv",
    "step_points": rf"step_trace_point_info(?:_{_ID})?\.json",
    "raw_training_trace": r"training_trace\.\d+\.dev\..*\.slice_\d+",
    "raw_aicpu": r"DATA_PREPROCESS\.dev\.AICPU\.(?P<rank>\d+)\.slice_\d+",
    "operator_times": rf"output_timeline_data_{_ID}\.txt",
    "min_cycle": rf"min_cycle_counter_{_ID}\.txt",
    "aicore_types": rf"aicore_intermediate_{_ID}_type\.csv",
    "aicore_details": rf"aicore_intermediate_{_ID}_detail\.csv",
    "framework": rf"framework_raw_{_ID}\.csv",
    "aicpu": rf"aicpu_intermediate_{_ID}\.csv",
    "aicpu_text": rf"output_data_preprocess_aicpu_{_ID}\.txt",
    "compute_time": rf"output_op_compute_time_{_ID}\.txt",
    "compute_time_detail": rf"output_op_compute_time_detail_{_ID}\.txt",
    "hwts": rf"output_format_data_hwts_{_ID}\.txt",
    "flops": rf"flops_{_ID}\.txt",
    "flops_summary": rf"flops_summary_{_ID}\.json",
    "flops_scope": rf"flops_scope_{_ID}\.json",
    "cpu_types": rf"cpu_op_type_info_{_ID}\.csv",
    "cpu_details": rf"cpu_op_detail_info_{_ID}\.csv",
    "cpu_times": rf"cpu_op_execute_timestamp_{_ID}\.txt",
    "cpu_framework": rf"cpu_framework_{_ID}\.txt",
    "gpu_types": rf"gpu_op_type_info_{_ID}\.csv",
    "gpu_details": rf"gpu_op_detail_info_{_ID}\.csv",
    "gpu_activity": rf"gpu_activity_data_{_ID}\.csv",
    "timeline": rf"(?:ascend_)?timeline_display_{_ID}\.json",
    "cpu_timeline": rf"cpu_timeline_display_{_ID}\.json",
    "gpu_timeline": rf"gpu_timeline_display_{_ID}\.json",
    "timeline_summary": rf"(?:ascend_)?timeline_summary_{_ID}\.json",
    "cpu_timeline_summary": rf"cpu_timeline_summary_{_ID}\.json",
    "gpu_timeline_summary": rf"gpu_timeline_summary_{_ID}\.json",
    "host_queue": rf"device_queue_profiling_{_ID}\.txt",
    "feed_queue": rf"dataset_iterator_profiling_{_ID}\.txt",
    "next_queue_us": rf"minddata_aicpu_{_ID}\.txt",
    "next_queue_ns": rf"minddata_getnext_profiling_{_ID}\.txt",
    "pipeline": rf"pipeline_profiling_{_ID}\.json",
    "pipeline_raw": rf"minddata_pipeline_raw_{_ID}\.csv",
    "pipeline_summary": rf"minddata_pipeline_summary_{_ID}\.json",
    "pipeline_summary_csv": rf"minddata_pipeline_summary_{_ID}\.csv",
    "minddata_cpu": rf"minddata_cpu_utilization_{_ID}\.json",
    "dynamic_shapes": rf"dynamic_shape_info_{_ID}\.json",
    "hccl": rf"hccl_raw_{_ID}\.csv",
    "cluster": rf"(?:ascend|gpu)_cluster_analyse_[a-z-]+_\d+_\d+_{_ID}\.csv",
    "memory_summary": rf"memory_usage_summary_{_ID}\.json",
    "parallel_strategy": rf"parallel_strategy_{_ID}\.json",
    "msprof": rf"msprof_{_ID}_(?P<part>\d+_\d+)\.json",
    "msprof_steps": rf"step_trace_{_ID}_(?P<part>\d+_\d+)\.json",
    "msprof_tasks": rf"task_time_{_ID}_(?P<part>\d+_\d+)\.json",
    "msprof_hccl": rf"hccl_{_ID}_(?P<part>\d+_\d+)\.json",
    "trace_view": r"trace_view\.json",
    "kernel_details": r"kernel_details\.csv",
    "operator_details": r"operator_details\.csv",
    "step_trace_time": r"step_trace_time\.csv",
    "cluster_step_trace_time": r"cluster_step_trace_time\.csv",
    "communication": r"communication\.json",
    "cluster_communication": r"cluster_communication\.json",
}
_NAME_PATTERNS: Final = {kind: re.compile(pattern + r"(?:\.gz)?") for kind, pattern in _NAMES.items()}

_CONTENTS: Final = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "step_trace": rb"step_num, ?start_point, ?end_point",
        "operator_times": rb"op_name, ?stream_id, ?start_time ?\(ms\)",
        "aicore_types": rb"(?:op|kernel)_type, ?(?:execution|total)_time, ?execution_frequency",
        "aicore_details": rb"full_(?:op|kernel)_(?:name|time), ?execution_time",
        "framework": rb"task_id, ?stream_id, ?block_dim, ?full_",
        "aicpu": rb"serial_number, ?(?:kernel_type|node_type_name)",
        "cpu_types": rb"op_type, ?type_occurrences, ?execution_frequency",
        "gpu_types": rb"op_type, ?type_occurrences, ?total_time",
        "cpu_details": rb"op_side, ?op_type, ?op_name, ?full_op_name, ?op_occurrences, ?op_total_time\(ms",
        "gpu_details": rb"op_side, ?op_type, ?op_name, ?op_full_name",
        "cpu_times": rb"[^;\n]{1,4000};HostCpuOps;\d+,[\d.]+,\d+",
        "cpu_framework": rb"\w{1,200};[\w-]{1,200};\d+;(?:input_\d|[^\n]{0,20}\n)",
        "next_queue_us": rb"GetNext_dequeue_wait \d+ \d+ \d+",
        "pipeline_raw": rb"op_id, ?op_type, ?num_workers, ?output_queue_size",
        "pipeline": rb'\{\s*"(?:op_info|sampling_interval)":[\s\S]{0,2000}"output_queue"',
        "minddata_cpu": rb'\{[\s\S]{0,80}"cpu_processor_num"',
        "flops": rb"full_kernel_name, ?M?FLOPs",
        "cluster": rb"computation_time, ?communication_alone_time",
        "aicpu_text": rb"serial_number +node_type_name",
        "hccl": rb"step_num, ?communication_cost, ?wait_cost",
        "kernel_details": rb"(?:Step Id,|Device_id,)[^\n]{0,200}Start Time\(us\)",
        "step_trace_time": rb"Step,[^\n]{0,40}Computing,Communication\(Not Overlapped\)",
    }.items()
}
_TIMELINE: Final = re.compile(
    rb'"(?:Ascend Hardware|CANN|HCCL|Overlap Analysis|Op Overlap Analyse|HostCpuOps\d*|Host CPU OP|AICPU OP)"'
    rb'|"fullname": ?"(?:Default|Gradients)/|"op_full_name": ?"(?:Default|Gradients)/'
    rb'|"type": ?"HostCpuOps"|"cat": ?"Iteration Time"|"pid": ?9000'
    rb'|"tid": ?10000[01], ?"ts": ?0, ?"ph": ?"M", ?"cat": ?"__metadata"'
)
_TEXT_TIME: Final = re.compile(rb'"ph": ?"X"[^{}]{0,6000}?"ts": ?"\d{13,17}\.\d{3}"')

_SIGNS: Final = frozenset(_NAMES) - {"trace_view", "communication", "pipeline_summary_csv", "min_cycle"}


class File(NamedTuple):
    """A file of a profile, recognised by its name."""

    kind: str  # one of the kinds above
    name: str  # in the folder; empty for a single file
    rank: int = -1  # device or rank in the name; -1 where there is none
    folder: str = ""
    part: str = ""  # model and iteration of an msprof file


def profile_files(names: Iterable[str]) -> list[File]:
    """Return the files that belong to a profiler folder, by name, in the order given."""
    files = []
    for name in names:
        path = PurePosixPath(name)
        for kind, pattern in _NAME_PATTERNS.items():
            if match := pattern.fullmatch(path.name):
                groups = match.groupdict()
                rank, part = int((groups.get("rank") or "-1")[:9]), groups.get("part") or ""
                files.append(File(kind, name, rank, str(path.parent), part))
                break
    return files


def is_profile(files: Iterable[File]) -> bool:
    """Return whether any file is one that only the profilers of MindSpore and Ascend write."""
    kinds = {file.kind for file in files}
    return bool(kinds & _SIGNS) or {"trace_view"} == kinds


def kind_of(head: bytes) -> str | None:
    """Return the kind of a single file by its first bytes; None if it is unknown."""
    start = head.lstrip()
    if start.startswith(b"["):
        return "trace_view" if _TIMELINE.search(head) or _TEXT_TIME.search(head) else None
    return next((kind for kind, pattern in _CONTENTS.items() if pattern.match(start)), None)


_OPTIONS: Final = ("fp_point", "bp_point")


class MindSporeReader(FolderReader):
    """Reads a MindSpore profiler folder as one Trace, or a single file of it.

    >>> MindSporeReader().configured(fp="Conv2D-op1")
    Traceback (most recent call last):
    notebook_prof.errors.OptionError: no option 'fp' of the reader 'mindspore': choose from fp_point, bp_point
    """

    # Options: the operators that begin the forward and end the backward of a step.
    name = "mindspore"
    priority = 640
    describes = (
        "MindSpore and MindInsight profiler folders (CPU, GPU, Ascend), and Ascend msprof trace_view.json"
    )

    def __init__(self, points: Mapping[str, str] | None = None) -> None:
        self._points = dict(points or {})

    def configured(self, **options: object) -> Reader:
        """Return this reader with ``fp_point`` and ``bp_point`` set."""
        for key, value in options.items():
            if key not in _OPTIONS:
                known = nearest(key, _OPTIONS)
                raise OptionError(f"no option {key!r} of the reader 'mindspore': {known}")
            if value is not None and not isinstance(value, str):
                raise OptionError(f"{key} must be the name of an operator, not {value!r}")
        return MindSporeReader({key: str(value) for key, value in options.items() if value is not None})

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is that of one of the known files."""
        return kind_of(probe.head) is not None

    def recognises_folder(self, folder: Folder) -> bool:
        return is_profile(profile_files(folder.names))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Add a single file to `builder`."""
        kind = kind_of(data[: 64 * 1024]) or ("trace_view" if data.lstrip().startswith(b"[") else None)
        if kind is None:
            raise FormatError(f"it is not a file of a MindSpore profile; it starts with {data[:40]!r}")
        self._read([File(kind, "")], lambda name: data, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        files = profile_files(folder.names)
        files_by_part: dict[tuple[str, int, str], list[File]] = {}
        for file in files:
            files_by_part.setdefault((file.kind, file.rank, file.part), []).append(file)
        folders = [{file.folder for file in same} for same in files_by_part.values()]
        if apart := sorted(set().union(*(several for several in folders if len(several) > 1))):
            raise FormatError(
                f"there are several MindSpore profiles in it; open one of them: {', '.join(apart[:8])}"
                + (" …" if len(apart) > 8 else "")
            )
        used = [same[0] for same in files_by_part.values()]
        self._read(used, folder.read, builder)
        used_names = {file.name for file in used}
        others = [name for name in folder.names if name not in used_names]
        effect = "files that do not belong to a profile, or of an unknown kind"
        builder.report.add("file-not-used", "info", len(others), ", ".join(others[:3]), effect)

    def _read(self, files: list[File], content: Callable[[str], bytes], builder: TraceBuilder) -> None:
        from .ranks import Rank
        from .staging import Staging

        numbers = {file.rank for file in files if file.rank >= 0}
        # files without a number (msprof's of 2.2 and later) belong to the only rank
        lowest = min(numbers, default=0)
        fp_point, bp_point = (self._points.get(option, "") for option in _OPTIONS)
        staging = Staging(builder, fp_point, bp_point, bool(numbers))
        for rank in sorted(numbers or {0}):
            own = {file.kind: file.name for file in files if (lowest if file.rank < 0 else file.rank) == rank}
            Rank(own, content, staging, rank).read()
        staging.pour()
        if not staging.used:
            raise FormatError("nothing in it can be read")
