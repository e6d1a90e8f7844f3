"""Reports of Nsight Systems made by hand: what samples do not have, and what they may lack."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.errors import FormatError
from notebook_prof.formats.nsys.ranges import phase_of_range, step_of_range
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace

START = 1_700_000_000_000_000_000
PROCESS, OTHER = 100 << 24, 200 << 24
STRINGS = (
    "gemm(int)",
    "ncclDevKernel_AllReduce_Sum",
    "cudaLaunchKernel_v7000",
    "cudaStreamSynchronize_v3020",
)
STRINGS += ("cuLaunchKernel", "forward", "read", "pthread_mutex_lock", "main", "python", "cudaMalloc_v3020")
ID = {text: number for number, text in enumerate(STRINGS, 1)}
Row = dict[str, Any]
Tables = dict[str, list[Row]]


def call(
    name: str, start: int, end: int, correlation: int, thread: int = PROCESS + 101, kind: int = 0
) -> Row:
    keys = ("nameId", "start", "end", "correlationId", "globalTid", "eventClass")
    return dict(zip(keys, (ID[name], start, end, correlation, thread, kind), strict=True))


def kernel(name: str, start: int, end: int, correlation: int, pid: int = PROCESS, **more: Any) -> Row:
    row = {"demangledName": ID[name], "start": start, "end": end, "correlationId": correlation}
    return {**row, "globalPid": pid, "deviceId": 0, "streamId": 7, **more}


def nvtx(text: str | None, start: int, end: int | None, kind: int = 59, **more: Any) -> Row:
    return {"text": text, "start": start, "end": end, "eventType": kind, "globalTid": PROCESS + 101, **more}


def report(**more: list[Row]) -> Tables:
    tables: Tables = {
        "StringIds": [{"id": number, "value": text} for text, number in ID.items()],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": START}],
        "ANALYSIS_DETAILS": [{"duration": 5_000}],
        "ThreadNames": [{"nameId": ID["main"], "priority": 20, "globalTid": PROCESS + 101}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel("gemm(int)", 300, 700, 1, gridX=8, gridY=1, gridZ=1)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call("cudaLaunchKernel_v7000", 100, 200, 1),
            call("cuLaunchKernel", 110, 190, 1, kind=1),
            call("cudaStreamSynchronize_v3020", 210, 720, 2),
            call("cudaMalloc_v3020", 10, 90, 3),
        ],
        "NVTX_EVENTS": [nvtx(None, 50, 250, textId=ID["forward"]), nvtx("step 4", 40, 900)],
        "OSRT_API": [
            {"nameId": ID["read"], "start": 1_000, "end": 1_100, "globalTid": PROCESS + 102},
            {"nameId": ID["pthread_mutex_lock"], "start": 1_200, "end": None, "globalTid": PROCESS + 102},
        ],
    }
    return {**tables, **more}


def written(path: Path, tables: Tables) -> Path:
    database = sqlite3.connect(path)
    for name, rows in tables.items():
        columns = list(dict.fromkeys(key for row in rows for key in row)) or ["start"]
        database.execute(f"create table {name} ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        database.executemany(
            f"insert into {name} values ({marks})", [[row.get(key) for key in columns] for row in rows]
        )
    database.commit()
    database.close()
    return path


def read(folder: Path, **more: list[Row]) -> Trace:
    return read_trace(written(folder / "report.sqlite", report(**more)))


def row(trace: Trace, name: str) -> Any:
    rows = trace.slices[trace.slices["name"] == name]
    assert len(rows) == 1, name
    return rows.iloc[0]


def test_a_report_becomes_threads_streams_arrows_steps_and_phases(tmp_path: Path) -> None:
    trace = read(tmp_path)
    assert trace.metadata["source"] == "nsys"
    assert trace.metadata["start_unix_ns"] == START + 10
    gemm = row(trace, "gemm(int)")
    columns = ["ts", "dur", "category", "step", "phase"]
    assert gemm[columns].tolist() == [290, 400, "kernel", 4, "forward"]
    kinds = dict(zip(trace.slices["name"], trace.slices["category"], strict=True))
    assert kinds["cudaLaunchKernel_v7000"] == kinds["cuLaunchKernel"] == "launch"
    assert (kinds["cudaStreamSynchronize_v3020"], kinds["cudaMalloc_v3020"]) == ("sync", "overhead")
    assert (kinds["read"], kinds["pthread_mutex_lock"], kinds["forward"]) == ("io", "io", "annotation")
    # one arrow, from the innermost call
    assert trace.flows[["src", "dst"]].values.tolist() == [[row(trace, "cuLaunchKernel").name, gemm.name]]
    assert trace.steps[["step", "ts", "dur"]].values.tolist() == [[4, 30, 860]]
    # what has no end lasts until that of the session
    assert row(trace, "pthread_mutex_lock")["dur"] == 5_000 - 1_200
    assert trace.report["unclosed-begin"].count == 1
    events = trace.metadata["tables"]["device_events"]
    assert events["grid"].tolist() == ["[8, 1, 1]"]
    assert trace.tracks["name"].tolist()[:2] == ["GPU 0 stream 7", "main"]


@pytest.mark.parametrize("table", report())
def test_any_table_may_be_absent(table: str, tmp_path: Path) -> None:
    tables = report()
    del tables[table]
    path = written(tmp_path / "report.sqlite", tables)
    if table == "StringIds":
        with pytest.raises(FormatError, match="SQLite database with the tables"):
            read_trace(path)
        assert len(read_trace(path, format="nsys").slices) == 9
        return
    rows = 0 if table.startswith(("TARGET_INFO", "ANALYSIS", "ThreadNames")) else len(report()[table])
    assert len(read_trace(path).slices) == 9 - rows


def test_two_processes_are_ranks_and_their_numbers_do_not_mix(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel("gemm(int)", 300, 700, 1),
            kernel("ncclDevKernel_AllReduce_Sum", 350, 600, 1, OTHER),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call("cudaLaunchKernel_v7000", 100, 200, 1),
            call("cuLaunchKernel", 120, 220, 1, OTHER + 201),
        ],
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 0, "cudaId": 0, "pid": 100},
            {"gpuId": 1, "cudaId": 0, "pid": 200},
        ],
    )
    gemm, reduce = row(trace, "gemm(int)"), row(trace, "ncclDevKernel_AllReduce_Sum")
    assert (gemm["device"], reduce["device"], reduce["category"]) == (0, 1, "collective")
    rank = trace.tracks.set_index("track")["rank"]
    assert (rank[gemm["track"]], rank[reduce["track"]]) == (0, 1)
    names = trace.slices["name"]
    launches = dict(zip(names[trace.flows["src"]], names[trace.flows["dst"]], strict=True))
    expected = {"cudaLaunchKernel_v7000": "gemm(int)", "cuLaunchKernel": "ncclDevKernel_AllReduce_Sum"}
    assert launches == expected
    assert rank[row(trace, "cuLaunchKernel")["track"]] == 1


def test_names_of_emit_nvtx_are_split(tmp_path: Path) -> None:
    backward = "MmBackward0, seq = 3, op_id = 6, sizes = [[2, 3], []], input_op_ids = [[1,0]]"
    texts = enumerate(("aten::mm, op_id = 5", backward, "mine"))
    trace = read(tmp_path, NVTX_EVENTS=[nvtx(text, 10 * i, 10 * i + 5) for i, text in texts])
    found = {name: row(trace, name) for name in ("aten::mm", "MmBackward0", "mine")}
    assert [each["category"] for each in found.values()] == ["operator", "operator", "annotation"]
    shapes = {name: each["shapes"] for name, each in found.items() if isinstance(each["shapes"], str)}
    assert shapes == {"MmBackward0": "[[2, 3], []]"}


def test_ranges_that_overlap_lie_beside_their_thread(tmp_path: Path) -> None:
    free = [nvtx("a", 0, 50, 60), nvtx("b", 20, 90, 60), nvtx("c", 60, 80, 60), nvtx("open", 95, None, 60)]
    more = [nvtx("mark", 30, None, 34), nvtx("train", 1, None, 75, domainId=3)]
    more += [nvtx("io", 2, None, 33, category=9)]
    more += [nvtx("inner", 100, 120, 59, domainId=3, category=9, int64Value=42), nvtx("odd", 1, 2, 99)]
    more += [nvtx("MPI Rank 3", 1, None, 39)]
    trace = read(tmp_path, NVTX_EVENTS=free + more)
    kinds = trace.tracks.set_index("track")
    lanes = [kinds.loc[row(trace, name)["track"], "name"] for name in ("a", "b", "c")]
    assert lanes == ["MPI Rank 3 101 · NVTX", "MPI Rank 3 101 · NVTX 2", "MPI Rank 3 101 · NVTX"]
    assert ", 2 processes" in repr(trace)
    assert row(trace, "mark")["dur"] == 0
    assert row(trace, "open")["dur"] == 5_000 - 95
    assert trace.report["row-not-used"].example == "NVTX eventType 99"
    arguments = trace.metadata["tables"]["event_arguments"]
    assert arguments["arguments"].tolist() == ['{"domain":"train","category":"io","payload":42}']


def test_copies_are_named_like_kinetos_and_migrations_were_launched_by_nobody(tmp_path: Path) -> None:
    base = {"deviceId": 0, "streamId": 7, "globalPid": PROCESS, "bytes": 1 << 40}
    trace = read(
        tmp_path,
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            dict(base, start=800, end=900, copyKind=1, srcKind=1, dstKind=2, correlationId=3),
            dict(base, start=810, end=890, copyKind=11, srcKind=4, dstKind=4, correlationId=1),
        ],
        CUPTI_ACTIVITY_KIND_MEMSET=[{**base, "start": 950, "end": 960, "memKind": 2, "correlationId": 9}],
    )
    pinned = row(trace, "Memcpy HtoD (Pinned -> Device)")
    migrated = row(trace, "Memcpy HtoD (unified memory)")
    assert pinned["track"] != migrated["track"]
    assert set(trace.flows["dst"]) == {pinned.name, row(trace, "gemm(int)").name}
    assert row(trace, "Memset (Device)")["category"] == "memset"
    events = trace.metadata["tables"]["device_events"]
    assert events["bytes"].dropna().tolist() == [1 << 40] * 3


def test_graphs_waits_metrics_memory_and_switches(tmp_path: Path) -> None:
    where = {"deviceId": 0, "streamId": 7, "globalPid": PROCESS}
    wait = dict(where, start=705, end=715, syncType=2, eventId=5, eventSyncId=8, correlationId=2)
    memory = {"globalPid": PROCESS, "deviceId": 0, "address": 1 << 40, "bytes": 4096, "memKind": 2}
    trace = read(
        tmp_path,
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[
            {**where, "start": 800, "end": 950, "graphId": 3, "correlationId": 3}
        ],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            wait,
            {**wait, "syncType": 4, "eventId": 0xFFFFFFFF, "streamId": 0xFFFFFFFF},
        ],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
            {**where, "streamId": 9, "eventId": 5, "eventSyncId": 8, "correlationId": 77}
        ],
        GPU_METRICS=[
            {"timestamp": 10 * i, "typeId": 0x0201, "metricId": 4, "value": 50 + i} for i in range(3)
        ],
        TARGET_INFO_GPU_METRICS=[
            {"typeId": 0x0201, "metricId": 4, "metricName": "SMs Active [Throughput %]"}
        ],
        CUDA_GPU_MEMORY_USAGE_EVENTS=[
            {**memory, "start": 20, "memoryOperationType": 0},
            {**memory, "start": 900, "memoryOperationType": 1},
            {**memory, "start": 30, "memoryOperationType": 0, "memKind": 1},
        ],
        SCHED_EVENTS=[
            {"start": start, "isSchedIn": on, "globalTid": PROCESS + thread}
            for start, on, thread in ((10, 0, 101), (20, 1, 102), (30, 1, 101), (40, 0, 102))
        ],
        DIAGNOSTIC_EVENT=[
            {"severity": 1, "text": "all is well"},
            {"severity": 2, "text": "CUDA events collected but dropped"},
        ],
        MYSTERY=[{"start": 1}] * 3,
    )
    assert row(trace, "CUDA graph 3")["category"] == "kernel"
    assert trace.report["graph-as-kernel"].count == 1
    assert row(trace, "Stream Wait Event")["category"] == row(trace, "Context Sync")["category"] == "sync"
    events = trace.metadata["tables"]["device_events"]
    recorded = events[events["wait_on_event"].notna()]
    assert recorded[["wait_on_stream", "wait_on_correlation"]].values.tolist() == [[9, 77]]
    counters = trace.tracks.set_index("name")
    active, running = counters.loc["GPU 1 SMs Active"], counters.loc["threads on processors"]
    assert active["unit"] == "1"
    values = trace.counters.groupby("track")["value"].apply(list)
    assert values[active["track"]] == [0.5, 0.51, 0.52]
    assert values[running["track"]] == [0, 1, 2, 1]
    allocations = trace.allocations[["device", "bytes", "allocated"]].values.tolist()
    assert allocations == [[0, 4096, 4096], [-1, 4096, 4096], [0, -4096, 0]]
    assert trace.report["nsight-warning"].example == "CUDA events collected but dropped"
    assert trace.report["table-not-used"].example == "MYSTERY (3 rows)"


def test_network_cards_and_page_faults_are_counters(tmp_path: Path) -> None:
    """Metrics of a card by its name and their unit; faults as how many there were so far."""
    metric = {"globalId": 77, "portId": 1, "metricsListId": 2, "metricsIdx": 3}
    fault = {"globalPid": PROCESS, "address": 1 << 40}
    trace = read(
        tmp_path,
        NET_NIC_METRIC=[
            {**metric, "start": 100, "end": 200, "value": 5.5},
            {**metric, "start": 200, "end": 300, "value": 7.0},
            {**metric, "start": 200, "end": 300, "globalId": 78, "metricsIdx": 9, "value": 1.0},
        ],
        TARGET_INFO_NETWORK_METRICS=[
            {"metricsListId": 2, "metricsIdx": 3, "name": "Bytes sent", "unit": "B/ms"}
        ],
        NIC_ID_MAP=[{"nicId": 4, "globalId": 77}],
        TARGET_INFO_NIC_INFO=[{"nicId": 4, "name": "mlx5_0"}],
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=[
            {**fault, "start": start, "end": start + 9, "deviceId": 0, "numberOfPageFaults": count}
            for start, count in ((400, 5), (300, 2))
        ],
        CUDA_UM_CPU_PAGE_FAULT_EVENTS=[{**fault, "start": start} for start in (700, 500, 600)],
    )
    tracks = trace.tracks.set_index("track")
    name = trace.counters["track"].map(tracks["name"])
    values = trace.counters.groupby(name)["value"].apply(list).to_dict()
    assert values == {
        "mlx5_0 Bytes sent": [5.5, 7.0],
        "NIC 78 metric 9": [1.0],
        "GPU 0 page faults": [2, 7],
        "page faults of managed memory": [1, 2, 3],
    }
    assert tracks.set_index("name").loc["mlx5_0 Bytes sent", "unit"] == "B/ms"
    assert "table-not-used" not in trace.report


def test_samples_stand_beside_their_thread_and_end_where_it_sleeps(tmp_path: Path) -> None:
    chain = [(1, "read", 0), (1, "main", 1), (2, "main", 0), (3, "read", 0), (3, "main", 1)]
    trace = read(
        tmp_path,
        COMPOSITE_EVENTS=[
            {"id": number, "start": start, "globalTid": PROCESS + 101}
            for number, start in ((1, 100), (2, 200), (3, 300), (4, 400), (3, 4_000))
        ],
        SAMPLING_CALLCHAINS=[
            {"id": number, "symbol": ID[name], "module": ID["python"], "stackDepth": depth}
            for number, name, depth in chain
        ],
    )
    sampled = trace.slices[trace.slices["category"] == "python"]
    table = sampled[["ts", "dur", "name"]].sort_values(["ts", "dur"], ascending=[True, False]).values.tolist()
    assert table == [
        [90, 400, "main (python)"],
        [90, 100, "read (python)"],
        [290, 200, "read (python)"],
        [3_990, 100, "main (python)"],
        [3_990, 100, "read (python)"],
    ]
    assert trace.report["sample-without-stack"].count == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_report_that_is_cut_is_refused(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    kernels = [kernel("gemm(int)", 10 * i, 10 * i + 5, i) for i in range(2_000)]
    path = written(tmp_path / "report.sqlite", report(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    data = path.read_bytes()
    for size in (100, len(data) // 2, len(data) - 1):
        path.write_bytes(pack(data[:size]))
        with pytest.raises(FormatError, match=r"report.sqlite: it is an SQLite database that was cut or"):
            read_trace(path)


def test_a_closed_report_says_how_to_export_it(tmp_path: Path) -> None:
    for head in (b"NVIDIA Tegra Profiler Report 4", b'{"data":["[Unknown]","x"]}\n{"Type":27}'):
        path = tmp_path / "report1"
        path.write_bytes(head + bytes(100))
        with pytest.raises(
            FormatError, match=r"only Nsight reads\. .*nsys export --type sqlite --include-blobs"
        ):
            read_trace(path)
    path.write_text('{"a": 1}')
    with pytest.raises(FormatError, match="it is neither SQLite nor Arrow of nsys export"):
        read_trace(path, format="nsys")


def test_a_report_without_events_says_so(tmp_path: Path) -> None:
    texts = report()["StringIds"]
    tables = {"StringIds": texts, "NVTX_EVENTS": [], "TARGET_INFO_GPU": [{"id": 0, "name": "A"}]}
    with pytest.raises(FormatError, match="--trace=cuda,nvtx,osrt"):
        read_trace(written(tmp_path / "report.sqlite", tables))


def test_rows_in_a_log_beside_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "report.sqlite", report())
    path.with_name("report.sqlite-wal").write_bytes(b"7" * 100)
    assert read_trace(path).report["write-ahead-log"].severity == "loss"


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("forward", "forward"),
        ("Model.forward", "forward"),
        ("bwd pass 12", "backward"),
        ("backward-compute", "backward"),
        ("optimizer.step", "optimizer"),
        ("Optimizer.step#Adam.step", "optimizer"),
        ("load_batch", "data"),
        ("batch-generator", "data"),
        ("all-reduce", "communication"),
        ("validation", "evaluation"),
        ("database", None),
        ("forward-backward", None),
        ("step 3", None),
    ],
)
def test_phases_by_the_names_of_ranges(name: str, phase: str | None) -> None:
    assert phase_of_range(name) == phase


def test_steps_by_the_names_of_ranges(tmp_path: Path) -> None:
    assert step_of_range("Training step: 7") == ("step", 7)
    assert step_of_range("iter(3)") == ("iter", 3)
    assert step_of_range("batchnorm2") is None
    twice = [nvtx(f"batch {i % 2}", 10 * i, 10 * i + 8) for i in range(4)]
    trace = read(tmp_path, NVTX_EVENTS=twice)
    assert trace.steps["step"].tolist() == [0, 1, 2, 3]
    assert trace.report["steps-renumbered"].count == 4
