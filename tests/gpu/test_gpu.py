"""Recordings on a real card; counts are known beforehand. Not run yet: written where there was no card."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.collectors.torch.no_kernels import ask_cupti

from ..new_process import run_python

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

LOST = tuple(f"kernels-lost-{where}" for where in ("at-start", "between", "at-end"))
LOSSES = (*LOST, "no-device-work", "clock-shift")


def kernels(trace: Any) -> Any:
    return trace.slices[trace.slices["category"] == "kernel"]


def relu(torch: Any, x: Any, count: int) -> None:
    """One kernel a call."""
    for _ in range(count):
        torch.relu(x)
    torch.cuda.synchronize()


def test_every_kernel_is_there(cuda_torch: Any) -> None:
    x = cuda_torch.ones(1 << 20, device="cuda")
    relu(cuda_torch, x, 10)
    with nbp.profile("torch") as p:
        relu(cuda_torch, x, 100)
    assert len(kernels(p.trace)) == 100
    table = p.kernels(category="kernel")
    assert table["occupancy"].between(0, 1).all()
    assert (table["registers_per_thread"] > 0).all()
    assert not set(p.trust["code"]) & {*LOSSES, "kernels-before-launch", "operator-unknown"}


def test_repeated_recordings_with_idle_between(cuda_torch: Any) -> None:
    """The known fault (pytorch#175790, pytorch#192021): if this torch has it, the trust report tells."""
    x = cuda_torch.ones(1 << 20, device="cuda")
    for number in range(5):
        with nbp.profile("torch") as p:
            relu(cuda_torch, x, 100)
        lost = 100 - len(kernels(p.trace))
        assert number or not lost
        reported = int(p.trust.loc[p.trust["code"].isin(LOSSES[:4]), "count"].sum())
        assert reported == lost
        time.sleep(3)


def test_asking_cupti_takes_no_kernels_away(cuda_torch: Any) -> None:
    """It is asked after a recording whether it records kernels."""
    x = cuda_torch.ones(1 << 20, device="cuda")
    counts = []
    for _ in range(2):
        with nbp.profile("torch") as p:
            relu(cuda_torch, x, 100)
        counts.append(len(kernels(p.trace)))
        cupti = ask_cupti()
        assert (cupti.refusal, cupti.version > 0) == (None, True)
    assert counts[0] == 100
    assert counts[1] > 0  # some versions of CUPTI lose the first ones of a later recording


def test_a_cuda_graph_owns_its_kernels(cuda_torch: Any) -> None:
    x = cuda_torch.ones(1 << 16, device="cuda")
    relu(cuda_torch, x, 3)
    graph = cuda_torch.cuda.CUDAGraph()
    with cuda_torch.cuda.graph(graph):
        for _ in range(8):
            x.add_(1)
    with nbp.profile("torch") as p:
        for _ in range(5):
            graph.replay()
        cuda_torch.cuda.synchronize()
    assert len(kernels(p.trace)) == 40
    assert "no-device-work" not in set(p.trust["code"])
    nodes = p.device.graph_nodes()
    assert nodes["count"].sum() == 40
    numbered = nodes["node"].notna()  # by Kineto of 2026 on
    assert numbered.all() or not numbered.any()
    if numbered.all():
        assert nodes["replays"].tolist() == [5] * 8


def test_two_streams_are_two_tracks(cuda_torch: Any) -> None:
    x = cuda_torch.ones(1 << 22, device="cuda")
    streams = [cuda_torch.cuda.Stream(), cuda_torch.cuda.Stream(priority=-1)]
    with nbp.profile("torch") as p:
        for stream in streams:
            with cuda_torch.cuda.stream(stream):
                cuda_torch.relu(x)
        cuda_torch.cuda.synchronize()
    assert kernels(p.trace)["track"].nunique() == 2
    assert "stream-overlap" not in set(p.trust["code"])
    names = p.trace.tracks.loc[p.trace.tracks["kind"] == "stream", "name"]
    marked = names.str.contains("priority -").sum()
    has_priority = "priority" in p.trace.metadata["tables"]["device_events"]  # by builds for CUDA 13.1 on
    assert marked == (1 if has_priority else 0)


def test_cupy_kernels_without_a_line_of_torch(cupy: Any, cuda_torch: Any) -> None:
    code = """
import cupy, notebook_prof as nbp
x = cupy.ones(1 << 20, dtype=cupy.float32)
x + x; cupy.cuda.Device().synchronize()
with nbp.profile("cuda", "cupy") as p:
    for _ in range(50):
        y = x + x
    cupy.cuda.Device().synchronize()
table = p.kernels()
row = table[table["name"].str.startswith("cupy_add__")]
print(p.trace.metadata.get("cuda_route"), int(row["count"].sum()), len(p.trace.allocations) >= 50)
"""
    assert run_python(code).stdout.split() == ["kineto", "50", "True"]


def test_the_pools_curve_is_the_pools_own(cupy: Any) -> None:
    with nbp.profile("cupy") as p:
        arrays = [cupy.ones(1 << 20) for _ in range(8)]
        used = cupy.get_default_memory_pool().used_bytes()
    assert p.trace.allocations["allocated"].iloc[-1] == used
    assert "allocations-unseen" not in p.trace.report
    del arrays


def test_arrays_of_cupy_have_names(cupy: Any) -> None:
    code = """
import cupy, notebook_prof as nbp
with nbp.profile("cupy", "system") as p:
    kept = [cupy.ones(1 << 20, dtype=cupy.float32) for _ in range(4)]
    view = kept[0][10:]
    dropped = cupy.ones(1 << 20, dtype=cupy.float32)
    del dropped
table = p.memory.names(device=0)
arrays = table[table["kind"] == "array"]
free, total = cupy.cuda.runtime.memGetInfo()
print(*arrays["name"], int(arrays["buffers"].sum()), int(arrays["bytes"].sum()))
print(int(table.set_index("kind").loc["cached", "bytes"]), int(table["bytes"].sum()), total - free)
"""
    *names, buffers, size, cached, summed, used = run_python(code).stdout.split()
    assert (sorted(names), int(buffers), int(size)) == (["kept[]", "view"], 4, 4 << 22)
    assert int(cached) >= 1 << 22
    assert int(summed) == pytest.approx(int(used), rel=0.05)


@pytest.mark.clock("10 to 25 readings in a second")
def test_counters_of_the_card(card: None) -> None:
    with nbp.profile("nvml", "system") as p:
        time.sleep(1)
    names = set(p.trace.tracks["name"])
    assert {"GPU 0 memory", "GPU 0 power", "GPU 0 temperature"} <= names
    values = p.trace.counters.merge(p.trace.tracks, on="track")
    power = values[values["name"] == "GPU 0 power"]
    assert 10 <= len(power) <= 25  # every 50 ms
    assert np.isfinite(power["value"]).all()
