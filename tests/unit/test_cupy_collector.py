"""The cupy collector, with a module that plays CuPy; and the names of kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.collectors import cupy as cupy_room
from notebook_prof.collectors.base import Recording
from notebook_prof.collectors.cupy import CupyCollector
from notebook_prof.trace import Trace

from ..pretended.cupy import MemoryHook, Pool
from ..recorded import in_threads, sealed


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    pool = Pool()
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda device: {"name": b"Played GPU"}
    )
    cupy = SimpleNamespace(
        __version__="13.6.0",
        __spec__=SimpleNamespace(),
        cuda=SimpleNamespace(
            runtime=runtime,
            MemoryHook=MemoryHook,
            MemoryPool=Pool,
            Device=lambda number: nullcontext(),
            get_allocator=lambda: pool.malloc,
        ),
        get_default_memory_pool=lambda: pool,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cupy_room, "installed", lambda name: True)
    MemoryHook.hooks.clear()
    yield pool
    assert not MemoryHook.hooks


def begun() -> Recording:
    recording = Recording([CupyCollector()])
    recording.start()
    return recording


def finished(recording: Recording) -> Trace:
    recording.stop()
    return sealed(recording)


def test_allocations_with_totals_of_the_pool(pool: Pool) -> None:
    before = pool.malloc(1024)
    recording = begun()
    block = pool.malloc(1000)
    pool.free(block)
    again = pool.malloc(100)
    pool.free(before)
    trace = finished(recording)
    table = trace.allocations
    assert table["bytes"].tolist() == [1024, -1024, 512, -1024]
    assert table["allocated"].tolist() == [2048, 1024, 1536, 512]
    assert table["reserved"].tolist() == [2048, 2048, 2048, 2048]
    assert table["addr"].tolist() == [block[0], block[0], again[0], before[0]]
    assert set(table["device"]) == {0}
    assert trace.metadata["devices"] == ["Played GPU"]
    assert trace.metadata["cupy_version"] == "13.6.0"
    assert not trace.report


def test_cards_that_are_not_used_are_left_alone(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing a card makes a context there, which takes hundreds of megabytes."""
    chosen: list[int] = []
    cupy = sys.modules["cupy"]
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 3)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: chosen.append(number) or nullcontext())
    monkeypatch.setattr(cupy_room, "in_use", lambda: {0, 2} if chosen else {2})
    pool.malloc(700, hooked=False)
    trace = finished(begun())
    assert chosen == [2, 0, 2]
    assert trace.metadata["devices"] == ["Played GPU"] * 3


class MemoryAsyncPool:
    """As CuPy's, and as RMM's allocator is a function: neither calls hooks."""

    def malloc(self, size: int) -> None:
        raise NotImplementedError


def rmm_cupy_allocator(size: int) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("allocator", "name"),
    [(MemoryAsyncPool().malloc, "MemoryAsyncPool"), (rmm_cupy_allocator, "rmm_cupy"), (None, "no pool")],
)
@pytest.mark.parametrize("when", ["before", "in the cell"])
def test_an_allocator_that_hooks_cannot_see_is_named(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, allocator: Any, name: str, when: str
) -> None:
    recording = Recording([CupyCollector()])
    if when == "in the cell":
        recording.start()
    monkeypatch.setattr(sys.modules["cupy"].cuda, "get_allocator", lambda: allocator)
    if when == "before":
        recording.start()
    issue = finished(recording).report["allocator-unseen"]
    assert (issue.severity, issue.count, name in issue.example) == ("loss", 1, True)


def test_what_other_threads_take_is_reported(pool: Pool) -> None:
    recording = begun()
    pool.malloc(2048, hooked=False)
    issue = finished(recording).report["allocations-unseen"]
    assert (issue.severity, "2,048 bytes more" in issue.example) == ("loss", True)


def test_stopped_by_another_thread(pool: Pool) -> None:
    collector = CupyCollector()
    recording = Recording([collector])
    recording.start()
    pool.malloc(512)
    in_threads(recording.stop)
    pool.malloc(512)
    trace = finished(recording)
    assert len(trace.allocations) == 1
    assert "cupy-hook-left" in trace.report
    for size in (512, 1024):  # later recordings of that thread take the hook away
        recording = begun()
        assert len(MemoryHook.hooks) == 1
        pool.malloc(size)
        again = finished(recording)
        assert again.allocations["bytes"].tolist() == [size]
        assert "collector-failed" not in again.report
    assert not MemoryHook.hooks


def test_abandoned_recordings_leave_no_hook(pool: Pool) -> None:
    begun().abandon()
    assert not MemoryHook.hooks


def test_out_of_memory_in_the_cell_keeps_the_profile(pool: Pool) -> None:
    p = nbp.profile(CupyCollector())

    @p
    def cell() -> None:
        pool.malloc(512)
        raise MemoryError("out of memory")

    with pytest.raises(MemoryError):
        cell()
    assert len(p.trace.allocations) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient"), "insufficient"),
        (RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected"), "no CUDA-capable device"),
    ],
)
def test_without_a_gpu_the_reason_is_reported(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail() -> int:
        raise error

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDeviceCount", fail)
    assert words in CupyCollector.availability().reason
    trace = finished(begun())
    assert words in trace.report["collector-failed"].example


@pytest.mark.parametrize(("cuda", "extra"), [("12.8", 12), ("13.2", 13), (None, 13)])
def test_not_installed(monkeypatch: pytest.MonkeyPatch, cuda: str | None, extra: int) -> None:
    """The extra is for the CUDA of torch, since a library of another one cannot be loaded beside it."""
    torch = SimpleNamespace(version=SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cupy_room, "installed", lambda name: False)
    reason = cupy_room.CupyCollector.availability().reason
    assert reason == f'cupy is not installed: pip install "notebook-prof[gpu-cuda{extra}]"'
