"""Counters of the process."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from notebook_prof.collectors.system import (
    CPU_INTERVAL_S,
    CPU_TRACK,
    RSS_TRACK,
    ResidentMemory,
    SystemCollector,
    usable_cpus,
)
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock


def recorded(collector: SystemCollector, body: object = None, seconds: float = 0.3) -> Trace:
    collector.start(Clock())
    if callable(body):
        body()
    else:
        time.sleep(seconds)
    collector.stop()
    builder = TraceBuilder()
    collector.result(builder)
    return builder.seal()


def counter(trace: Trace, name: str) -> np.ndarray:  # type: ignore[type-arg]
    key = trace.tracks.set_index("name").loc[name, "track"]
    return trace.counters.loc[trace.counters["track"] == key, "value"].to_numpy()


def test_memory_follows_an_allocation() -> None:
    kept = []

    def body() -> None:
        for count in (3, 6):
            until = time.monotonic() + 60
            while len(collector._rss_bytes.ts) < count and time.monotonic() < until:
                time.sleep(0.005)
            kept.append(np.ones(20 * 2**20 if count == 3 else 1))

    collector = SystemCollector()
    values = counter(recorded(collector, body), RSS_TRACK)
    assert len(values) >= 5
    assert values[-1] - values[0] > 100 * 2**20


def test_cpu_share_of_a_busy_and_an_idle_process() -> None:
    taken: list[float] = []

    def busy() -> None:
        began, end = time.perf_counter(), time.process_time() + 0.25
        while time.process_time() < end:
            pass
        taken.append(0.25 / (time.perf_counter() - began))  # less than 1 where other jobs compute too

    idle = counter(recorded(SystemCollector()), CPU_TRACK)
    working = counter(recorded(SystemCollector(), busy), CPU_TRACK)
    assert ((idle >= 0) & (idle <= 1)).all()
    assert idle.min() < working.max() <= 1.0
    assert working.max() > 0.7 * taken[0] / usable_cpus()


def test_without_memory_only_the_cpu_is_counted() -> None:
    began = time.perf_counter()
    trace = recorded(SystemCollector(rss=False))
    most = (time.perf_counter() - began) / CPU_INTERVAL_S + 1
    assert list(trace.tracks["name"]) == [CPU_TRACK]
    assert len(trace.counters) <= most


def test_a_short_recording_still_has_both() -> None:
    trace = recorded(SystemCollector(), seconds=0.001)
    assert sorted(trace.tracks["name"]) == sorted([CPU_TRACK, RSS_TRACK])


def test_other_systems_are_read_through_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = ResidentMemory()
    monkeypatch.setattr("os.open", lambda *args: (_ for _ in ()).throw(FileNotFoundError()))
    slow = ResidentMemory()
    assert slow.read_bytes() == pytest.approx(fast.read_bytes(), rel=0.2)
    fast.close()
    fast.close()
    slow.close()


def test_fifty_recordings_leave_no_thread_and_no_file() -> None:
    before = set(threading.enumerate())
    for _ in range(50):
        collector = SystemCollector()
        collector.start(Clock())
        collector.abandon()
        collector.abandon()
    assert set(threading.enumerate()) <= before
