"""Every scene on a real card, against torch.profiler's own export and against what is known beforehand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.analysis import copies as copy_table
from notebook_prof.collectors.cuda import choose, cupti, routes, survey

from ..new_process import run_python
from . import scenes
from .test_gpu import LOSSES, kernels

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def needed(scene: scenes.Scene) -> None:
    """Skip where a library is not there, or not for this card."""
    if reason := scene.missing():
        pytest.skip(reason)


def body_of(scene: scenes.Scene) -> Any:
    needed(scene)
    return scene.make("cuda")


def goes(route: str) -> None:
    """Skip where a route leads to no kernels here."""
    if route == "kineto":
        needed(scenes.BY_NAME["torch-cnn"])
    elif not (state := cupti.availability()).ok:
        pytest.skip(state.reason)


ROUTES = """
import sys, json
from tests.gpu import scenes
import notebook_prof as nbp
from notebook_prof.collectors.cuda import CudaCollector
scene = scenes.BY_NAME[sys.argv[1]]
body = scene.make("cuda")
rounds, route = [], sys.argv[2]
for _ in range(int(sys.argv[3])):
    with nbp.profile(*(scene.collectors if route == "own" else [CudaCollector(route=route)])) as p:
        body()
    work = p.kernels()
    rounds.append({
        "route": p.trace.metadata.get("cuda_route"), "told": p.trace.metadata.get("cupti"),
        "counts": dict(zip(work["name"], work["count"].tolist())), "total_ns": int(work["total_ns"].sum()),
        "kernels": int(p.kernels(category="kernel")["count"].sum()),
        "trust": p.trust["code"].tolist(), "report": [str(issue) for issue in p.trace.report],
    })
print(json.dumps(rounds))
"""
WITHOUT_CLAIMS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""JAX takes three quarters of the card's memory otherwise."""


def by_route(scene: str, route: str, rounds: int = 1) -> list[dict[str, Any]]:
    """Record in a process of its own, as CUPTI has one client; route ``own`` is the scene's collectors."""
    root, env = Path(__file__).parents[2], os.environ | WITHOUT_CLAIMS
    done = run_python(ROUTES, scene, route, rounds, cwd=root, env=env, timeout=120)
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.name)
def test_a_scene_is_whole(scene: scenes.Scene) -> None:
    needed(scene)
    if "cuda" in scene.collectors:
        goes(choose(routes(survey())).name)
    (one,) = by_route(scene.name, "own")
    assert sum(one["counts"].values())
    assert one["kernels"] or scene.name == "torch-copies"
    assert not set(one["trust"]) & {*LOSSES, "kernels-before-launch", "no-device-records", "collector-failed"}


COUNTED = {"cupy-raw": "own", "cupy-unfinished": "cupy_add", "numba": "add_one"}


@pytest.mark.parametrize("route", ["kineto", "cupti"])
@pytest.mark.parametrize("name", COUNTED)
def test_kernels_of_every_library_are_counted(name: str, route: str, card: None) -> None:
    """Without a line of torch; those that still run when the cell ends are waited for."""
    scene = scenes.BY_NAME[name]
    needed(scene)
    goes(route)
    (one,) = by_route(name, route)
    calls = sum(count for kernel, count in one["counts"].items() if COUNTED[name] in kernel)
    assert calls == scenes.ELEMENTWISE, one
    assert not set(one["trust"]) & {*LOSSES, "kernels-before-launch"}, one


@pytest.mark.parametrize("name", ["torch-cnn", "torch-transformer", "torch-graph", "cupy-and-torch"])
def test_counts_and_times_are_those_of_torch_profiler(name: str, cuda_torch: Any, tmp_path: Path) -> None:
    scene = scenes.BY_NAME[name]
    body = body_of(scene)
    with nbp.profile(*scene.collectors) as p:
        body()
    activity = cuda_torch.profiler.ProfilerActivity
    with cuda_torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as other:
        body()
    other.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    theirs = [event for event in events if event.get("cat") == "kernel"]
    ours = kernels(p.trace)
    assert len(ours) == len(theirs) > 0
    assert ours["dur"].sum() == pytest.approx(1000 * sum(event["dur"] for event in theirs), rel=0.25)


def test_copies_tell_pinned_from_pageable(cuda_torch: Any) -> None:
    body = body_of(scenes.BY_NAME["torch-copies"])
    with nbp.profile("torch", "nvml") as p:
        body()
    table = copy_table(p.trace)
    to_device = table[table["direction"] == "HtoD"].set_index("pinned")
    assert to_device["bytes"].sum() == 2 * scenes.COPIES * scenes.COPY_BYTES
    assert to_device.loc[True, "bytes_per_s"] > to_device.loc[False, "bytes_per_s"]
    assert ((table["link_share"].dropna() > 0) & (table["link_share"].dropna() <= 1.05)).all()


def test_growth_is_found(cuda_torch: Any) -> None:
    body = body_of(scenes.BY_NAME["torch-growth"])
    with nbp.profile("torch", memory=True) as p:
        body()
    assert p.memory.growth()["bytes_per_step"].max() == scenes.LEAK_BYTES


def test_who_held_the_memory_when_it_ran_out(cuda_torch: Any) -> None:
    cuda_torch.cuda.empty_cache()
    p = nbp.profile("torch", memory=True)

    @p
    def cell() -> None:
        kept = []
        while True:
            with nbp.annotate("hoard"):
                kept.append(cuda_torch.ones(1 << 28, device="cuda"))

    with pytest.raises(cuda_torch.cuda.OutOfMemoryError):
        cell()
    live = p.memory.live()
    assert live["bytes"].sum() > 1 << 30


def test_memory_with_stacks(cuda_torch: Any) -> None:
    with nbp.profile("torch", "torch_memory") as p:
        leak = cuda_torch.ones(LEAK := 1 << 22, device="cuda")
        cuda_torch.cuda.synchronize()
    leaked = p.trace.allocations[p.trace.allocations["bytes"] == 4 * LEAK]
    assert len(leaked) == 1
    assert "test_memory_with_stacks" in set(p.trace.stacks["name"])
    work = kernels(p.trace)
    assert abs(int(work["ts"].iloc[0]) - int(leaked["ts"].iloc[0])) < 1_000_000_000  # one clock
    del leak


@pytest.mark.parametrize("name", ["cupy", "torch-cnn", "torch-graph"])
def test_libcupti_sees_what_kineto_sees(name: str, cuda_torch: Any) -> None:
    needed(scenes.BY_NAME[name])
    goes("cupti")
    (direct,), (kineto,) = by_route(name, "cupti"), by_route(name, "kineto")
    assert direct["route"] == "cupti", direct["report"]
    assert sum(direct["counts"].values()) == sum(kineto["counts"].values()) > 0
    assert direct["counts"] == kineto["counts"]  # names demangled alike
    assert direct["total_ns"] == pytest.approx(kineto["total_ns"], rel=0.25)
    assert direct["told"]["dropped"] == 0
    assert direct["told"]["clock_residual_ns"] < 10_000
    assert not set(direct["trust"]) & {*LOSSES, "kernels-before-launch"}


@pytest.mark.parametrize("route", ["cupti", "kineto"])
def test_many_recordings_of_one_process(route: str, cuda_torch: Any) -> None:
    """The known fault of later rounds: whatever is lost must be told."""
    goes(route)
    rounds = by_route("torch-graph", route, rounds=6)
    expected = scenes.REPLAYS * scenes.IN_GRAPH
    assert sum(rounds[0]["counts"].values()) == expected
    for one in rounds:
        if sum(one["counts"].values()) < expected:
            assert set(one["trust"]) & set(LOSSES)
