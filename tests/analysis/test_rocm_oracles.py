"""AMD's databases, against what sqlite3 alone counts in them."""

import json
import lzma
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.trace import length, union

from .. import samples

FOLDER = samples.ROOTS["shared"] / "rocprof"
DATABASES = ("rocpd_decode_results.db", "rpd_matmul_2020.rpd", "rpd_torch_autograd.rpd")
shared = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")


@cache
def trace_of(name: str) -> Trace:
    return read_trace(FOLDER / f"{name}.xz")


def oracle_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.oracle.json").read_text())


def named_tasks(name: str, folder: Path) -> int:
    """Ops of type Task that have the name of a kernel: those that a graph launched."""
    path = folder / name
    path.write_bytes(lzma.decompress((FOLDER / f"{name}.xz").read_bytes()))
    database = sqlite3.connect(path)
    (count,) = database.execute(
        "select count(*) from rocpd_op o join rocpd_string d on d.id = o.description_id "
        "join rocpd_string t on t.id = o.opType_id where t.string = 'Task' and d.string != ''"
    ).fetchone()
    database.close()
    return int(count)


@shared
def test_rocpd_has_the_kernels_calls_and_copies_of_its_process() -> None:
    trace, expected = trace_of("rocpd_decode_results.db"), oracle_of("rocpd_decode_results.db")
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    assert (len(kernels), kernels["dur"].sum()) == (144, 1_857_381)
    ts = kernels["ts"].to_numpy()
    assert length(union(ts, ts + kernels["dur"].to_numpy())) == expected["kernels"]["busy_ns"]
    copies = trace.slices[trace.slices["category"] == "memcpy"]
    assert copies["name"].astype("str").value_counts().to_dict() == {"Memcpy HtoD": 2, "Memcpy DtoH": 1}
    assert copies["dur"].sum() == expected["memory_copies"]["total_ns"]
    calls = trace.slices[~trace.slices["category"].isin(["kernel", "memcpy"])]
    assert (len(calls), calls["dur"].sum()) == (expected["regions"]["count"], expected["regions"]["total_ns"])
    sums = trace.slices.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    for row in [*expected["kernels"]["top5"], *expected["regions"]["top5"]]:
        assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]
    events = trace.metadata["tables"]["device_events"]
    assert events["bytes"].sum() == expected["memory_copies"]["bytes"]
    # 24,576 work-items in groups of 256
    assert (events["grid"].iloc[0], events["block"].iloc[0]) == ("[96, 1, 1]", "[256, 1, 1]")
    assert trace.metadata["start_unix_ns"] == 342_331_487_543_011


@shared
@pytest.mark.parametrize("name", DATABASES[1:])
def test_rpd_has_the_ops_and_calls_of_its_database(name: str, tmp_path: Path) -> None:
    trace, expected = trace_of(name), oracle_of(name)
    ops, api = expected["ops"], expected["api"]
    of_type = ops["by_type"]
    work = trace.slices[trace.slices["device"].notna()]
    counts = work["category"].value_counts()
    named = named_tasks(name, tmp_path)
    assert counts["kernel"] == of_type["KernelExecution"] + named
    assert counts["memcpy"] == sum(count for kind, count in of_type.items() if kind.startswith("Copy"))
    assert len(work) == ops["count"] - of_type.get("Task", 0) + named
    calls = trace.slices[trace.slices["device"].isna()]
    assert (len(calls), calls["dur"].sum()) == (api["count"], api["total_ns"])
    launched = trace.flows.loc[trace.flows["kind"] == "launch", "dst"]
    kernels = work[work["category"] == "kernel"]
    assert kernels.index.isin(launched).sum() == ops["linked_to_kernel_launch"] + named
    sums = trace.slices.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    for row in ops["top5_description"]:
        if row["name"] and not row["name"].startswith("Copy"):
            assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]
    events = trace.metadata["tables"]["device_events"]
    assert events["bytes"].sum() == expected["copy_bytes"]
    assert len(trace.counters) == expected["tables"]["rocpd_monitor"]


@shared
def test_pytorchs_operators_of_rpd_have_shapes(tmp_path: Path) -> None:
    trace = trace_of("rpd_torch_autograd.rpd")
    operators = trace.slices[trace.slices["category"] == "operator"]
    assert len(operators) == 11_816
    assert "aten::as_strided" in set(operators["name"])
    assert named_tasks("rpd_torch_autograd.rpd", tmp_path) == 7_720
    assert "barrier-not-used" not in trace.report  # all of them have the name of a kernel


def test_processes_of_one_database_are_ranks_and_their_numbers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    database = sqlite3.connect(path)
    for process, suffix in ((11, "_a"), (22, "_b")):
        tables = {
            "metadata": "(id, tag, value)",
            "string": "(id integer primary key, string)",
            "info_process": "(id integer primary key, pid)",
            "info_thread": "(id integer primary key, tid, name)",
            "info_agent": "(id integer primary key, type, type_index)",
            "info_kernel_symbol": "(id integer primary key, kernel_name)",
            "event": "(id integer primary key, category_id, correlation_id, stack_id)",
            "region": "(pid, tid, start, end, name_id, event_id)",
            "kernel_dispatch": "(agent_id, kernel_id, queue_id, start, end, event_id)",
            "memory_allocate": "(start, type, agent_id, address, size)",
        }
        for name, columns in tables.items():
            database.execute(f"create table rocpd_{name}{suffix} {columns}")
        texts = enumerate(("HIP_RUNTIME_API_EXT", "hipLaunchKernel", "MARKER_CORE_RANGE_API", "step"), 1)
        database.executemany(f"insert into rocpd_string{suffix} values (?, ?)", texts)
        for text in (
            f"rocpd_info_process{suffix} values (1, {process})",
            f"rocpd_info_thread{suffix} values (1, {process + 1}, 'main')",
            f"rocpd_info_agent{suffix} values (1, 'CPU', 0), (2, 'GPU', 0), (3, 'GPU', 1)",
            f"rocpd_info_kernel_symbol{suffix} values (1, 'gemm_{process}.kd')",
            f"rocpd_event{suffix} values (1, 1, 7, 0), (2, null, 7, 0), (3, 3, 0, 0)",
            f"rocpd_region{suffix} values (1, 1, 100, 200, 2, 1), (1, 1, 90, 500, 4, 3)",
            f"rocpd_kernel_dispatch{suffix} values (3, 1, 1, 250, 400, 2)",
            f"rocpd_memory_allocate{suffix} values (95, 'ALLOC', 3, 64, 10), (490, 'FREE', 3, 64, null)",
        ):
            database.execute(f"insert into {text}")
    database.commit()
    database.close()
    trace = read_trace(path)
    names = trace.slices["name"].astype("str")
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    rank = trace.tracks.set_index("track")["rank"]
    found = sorted(zip(kernels["name"], rank[kernels["track"]], kernels["device"], strict=True))
    assert found == [("gemm_11", 0, 1), ("gemm_22", 1, 1)]
    for flow in trace.flows[["src", "dst"]].to_numpy():
        assert names[flow[0]] == "hipLaunchKernel"
    assert len(trace.flows) == 2
    assert trace.slices.loc[names == "step", "category"].tolist() == ["annotation"] * 2
    assert trace.allocations["bytes"].tolist() == [10, 10, -10, -10]
