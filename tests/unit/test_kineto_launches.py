"""What a file tells of kernels elsewhere than on their own rows: AMD's launches, CUPTI's range profiler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.analysis import trust
from notebook_prof.collectors.torch import result
from notebook_prof.readers import read_trace
from notebook_prof.readers.kineto.activity_metadata import named_calls
from notebook_prof.trace.report import ImportReport
from notebook_prof.trace.taxonomy import LAUNCH_CALL, call_category
from tests.played_kineto import Event, Result
from tests.unit.test_kineto_reader import op, write

FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
SHAPE = {"grid": [3, 1, 1], "block": [128, 1, 1], "shared memory": 64}


def kernel(ts: str, correlation: int, **arguments: object) -> str:
    return op("k", ts, "5", tid=0, cat="kernel", device=0, stream=0, correlation=correlation, **arguments)


def test_amd_tells_the_grid_on_the_call(tmp_path: Path) -> None:
    rows = (
        op("hipLaunchKernel", "1", "1", cat="cuda_runtime", correlation=3, kernel="k", cid=1, **SHAPE),
        op("hipGraphLaunch", "3", "1", cat="cuda_runtime", correlation=4),
        kernel("10", 3, kind="Dispatch Kernel"),
        kernel("20", 4),
        kernel("30", 3, grid=[9, 9, 9], block=[1, 1, 1]),
        op("copy", "40", "5", tid=0, cat="gpu_memcpy", device=0, stream=0, correlation=3, bytes=8),
        kernel("50", 99),
    )
    events = read_trace(write(tmp_path, *rows)).metadata["tables"]["device_events"].set_index("correlation")
    own, other = events[events["kind"] == "kernel"].loc[3].to_dict("records")
    assert (own["grid"], own["block"], own["shared_memory_bytes"]) == ("[3, 1, 1]", "[128, 1, 1]", 64)
    assert (other["grid"], other["block"], other["shared_memory_bytes"]) == ("[9, 9, 9]", "[1, 1, 1]", 64)
    assert events[events["kind"] == "gpu_memcpy"]["grid"].isna().all()
    assert set(events.index) == {3}, "a graph's kernels and those launched before tell nothing"


def test_kernels_of_mi250_have_the_grids_of_their_calls(shared_traces: Path) -> None:
    path = shared_traces / "hta" / "amd_trace" / "mi250_minitoy_train_ROCm6_2_kineto.json.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    calls = {row["args"]["correlation"]: row["args"] for row in rows if "grid" in row.get("args", {})}
    events = read_trace(path).metadata["tables"]["device_events"]
    kernels = events[events["kind"] == "kernel"]
    assert len(kernels) == 14
    for name in ("grid", "block"):
        want = [str(calls[number][name]) for number in kernels["correlation"]]
        assert kernels[name].astype(object).tolist() == want


def ranged(name: str, ts: str, device: int = 0, **values: object) -> str:
    text = op(name, ts, "10", tid=0, cat="cuda_profiler_range", **values)
    return text.replace('"pid": 5', f'"pid": {device}') if '"pid": 5' in text else text


def test_ranges_among_events_that_are_read_one_by_one_are_counted(tmp_path: Path) -> None:
    odd = '{"ph": "X", "name": ["no"], "ts": {}, "dur": 1}'
    trace = read_trace(write(tmp_path, ranged("fft", "1", **{FADD: 86}), odd))
    assert trace.report["range-without-counters"].count == 1
    assert len(trace.slices) == 1


def test_hta_reads_the_same_counters(shared_traces: Path) -> None:
    """Its test of the counters of a recording on A100: 77 rows, and what the sixth of them is."""
    folder = shared_traces / "hta" / "cupti_profiler"
    table = read_trace(next(folder.glob("*.json.gz"))).metadata["tables"]["profiler_ranges"]
    assert len(table) == 77
    sixth = table.iloc[5]
    assert str(sixth["name"]).startswith("void fft2d_r2c_32x32")
    assert sixth[FADD] == 86_114_304
    assert (sixth["top_operator"], sixth["operator"]) == ("aten::conv2d", "aten::cudnn_convolution")
    assert sum(name.startswith("smsp__") for name in table) == 9
    trace = read_trace(next(folder.glob("*.json.gz")))
    counted = trace.counters.merge(trace.tracks[["track", "name"]], on="track").groupby("name")["value"].sum()
    for name in counted.index:
        assert counted[name] == pytest.approx(float(np.nansum(table[name])))


def test_calls_that_kineto_cannot_name_have_cuptis_numbers(tmp_path: Path) -> None:
    """Of CUDA 13's launches, and of a call that nobody knows but that starts a kernel each time."""
    rows = [op("aten::relu", "0", "900", cat="cpu_op")]
    for at, number in enumerate((505, 505, 9999, 9999, 9999, 430, 998)):
        start = str(10 + 20 * at)
        rows.append(op("INVALID", start, "2", cat="cuda_runtime", cbid=number, correlation=at))
        if at not in (1, 4, 6):
            rows.append(kernel(f"{15 + 20 * at}", at))
    rows.append(op("INVALID", "300", "2", cat="cuda_driver", cbid=652, correlation=50))
    rows.append(op("INVALID", "310", "2", cat="cuda_driver", correlation=51))
    trace = read_trace(write(tmp_path, *rows))
    calls = trace.slices[trace.slices["category"] == "launch"]
    assert calls["name"].astype(str).value_counts().to_dict() == {
        "__cudaLaunchKernel": 2,
        "CUDA runtime call 9999": 3,
        "cudaLaunchKernelExC": 1,
        "CUDA runtime call 998": 1,
        "cuLaunchKernelEx": 1,
        "INVALID": 1,
    }
    lost = trust(trace).set_index("code")["count"]
    assert lost["kernels-lost-between"] + lost["kernels-lost-at-end"] == 3


def test_a_live_recording_tells_the_numbers_too(tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "cuda_runtime", "pid": 9, "tid": 9, "dur": 5, "name": "INVALID", "ts": 100}
    arguments = {"device": 0, "stream": 7, "correlation": 3}
    work = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "dur": 5, "name": "k", "ts": 110}
    rows = [call | {"args": {"cbid": 505, "correlation": 3}}, work | {"args": arguments}]
    path, options = tmp_path / "trace.json", {"shapes": False, "memory": False, "device": True, "threads": {}}
    path.write_text(json.dumps({"traceEvents": rows}))
    columns = result.take(Result(path), Event, ImportReport(), pid=9, **options)
    assert named_calls(columns).name.values == ["INVALID", "k", "__cudaLaunchKernel"]


@pytest.mark.parametrize(
    ("category", "names"),
    {
        "launch": """cudaLaunchKernel cudaLaunchKernel_ptsz cudaLaunchKernel_ptsz_v7000 __cudaLaunchKernel
            __cudaLaunchKernel_ptsz_v13000 cudaLaunchKernelExC cudaLaunchKernelExC_v11060 cuLaunchKernel
            cuLaunchKernelEx_ptsz cudaLaunchCooperativeKernel cudaLaunchCooperativeKernelMultiDevice_v9000
            cudaGraphLaunch_v10000 cudaGraphLaunch_ptsz cuGraphLaunch hipLaunchKernel hipExtModuleLaunchKernel
            hipHccModuleLaunchKernel hipModuleLaunchCooperativeKernel hipLaunchByPtr cudaLaunch_v3020
            urEnqueueKernelLaunch hipDrvLaunchKernelEx""",
        "sync": "cudaStreamSynchronize_ptsz cudaStreamSynchronize_v3020 cuCtxSynchronize",
        "overhead": "cudaGetDevice cudaGetLastError_v3020 cudaPeekAtLastError cudaStreamIsCapturing_ptsz",
        "": "cudaLaunchHostFunc_v10000 cudaMemcpyAsync cudaMemsetAsync cudaEventRecord cuModuleLoadData",
    }.items(),
)
def test_calls_by_their_names(category: str, names: str) -> None:
    for name in names.split():
        assert (LAUNCH_CALL.fullmatch(name) is not None) == (category == "launch"), name
        assert call_category(name) == (category or "launch"), name


def test_an_event_of_cuda_is_no_kernel(tmp_path: Path) -> None:
    marks = {"tid": 7, "device": 0, "stream": 7, "correlation": 3}
    event = op("cudaEvent", "30", "0", cat="cuda_event", **marks)
    trace = read_trace(write(tmp_path, kernel("10", 3), event))
    assert trace.slices.set_index("name")["category"].to_dict() == {"k": "kernel", "cudaEvent": "annotation"}
    assert trace.slices["device"].tolist() == [0, 0]
