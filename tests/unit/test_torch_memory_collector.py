"""The history of the CUDA allocator, with a torch that plays a card."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from notebook_prof.collectors.base import Recording
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.registry import make
from notebook_prof.collectors.torch.allocator_history import TorchMemoryCollector
from notebook_prof.trace import TraceBuilder
from notebook_prof.trace.clocks import Clock

home_routes = sys.modules["notebook_prof.collectors.cuda"]
FRAMES = [{"name": "forward", "filename": "cell.py", "line": 3}]


class Card:
    """Two blocks of before, one of them freed within; one of within that stays."""

    __spec__ = SimpleNamespace(name="torch", origin=None)

    def __init__(self, clock: Clock, history: bool = False) -> None:
        self.calls: list[Any] = []
        self.history = history
        self._now = clock.now_ns
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            memory=SimpleNamespace(_record_memory_history=self._record, _snapshot=self._snapshot),
        )
        self._C = SimpleNamespace(_cuda_isHistoryEnabled=lambda: self.history)

    def _record(self, enabled: str | None, **options: Any) -> None:
        self.calls.append((enabled, options.get("stacks")))
        self.history = enabled is not None

    def _snapshot(self) -> dict[str, Any]:
        now = self._now() // 1000
        event = {"frames": FRAMES, "stream": 0}
        blocks = [
            {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
            {"address": 5120, "size": 2048, "requested_size": 2000, "state": "active_allocated"},
        ]
        segment = {"device": 0, "address": 4096, "total_size": 8192, "stream": 0, "segment_type": "small"}
        events = [
            event | {"action": "alloc", "addr": 4096, "size": 1000, "time_us": now - 9_000_000},
            event | {"action": "free_requested", "addr": 9216, "size": 500, "time_us": now},
            event | {"action": "alloc", "addr": 5120, "size": 2000, "time_us": now},
        ]
        return {"segments": [segment | {"blocks": blocks}], "device_traces": [events]}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = Card(Clock())
    monkeypatch.setitem(sys.modules, "torch", card)
    return card


def record() -> tuple[Recording, TraceBuilder]:
    recording, builder = Recording([TorchMemoryCollector()]), TraceBuilder()
    recording.start()
    recording.stop()
    recording.result(builder)
    return recording, builder


def test_blocks_with_stacks_on_the_recordings_clock(card: Card) -> None:
    recording, builder = record()
    assert card.calls == [("all", "python"), (None, None)]
    assert "collector-failed" not in recording.report
    trace = builder.seal()
    blocks = trace.allocations[trace.allocations["device"] == 0]
    assert {-500, 2000} <= set(blocks["bytes"])
    assert blocks["allocated"].iloc[-1] == 3000  # what the blocks at the end hold
    events = trace.metadata["tables"]["memory_events"]
    assert events["action"].astype(str).tolist() == ["free_requested", "alloc"]  # none from before
    assert trace.span.dur < 60_000_000_000, "two other clocks are farther apart"
    assert "forward" in set(trace.stacks["name"])


def test_the_users_own_history_stays(card: Card) -> None:
    card.history = True
    record()
    assert card.calls == []
    assert card.history


def test_a_failing_snapshot_turns_the_history_off(card: Card) -> None:
    card.cuda.memory._snapshot = lambda: (_ for _ in ()).throw(RuntimeError("device lost"))
    recording, _ = record()
    assert "device lost" in recording.report["collector-failed"].example
    assert not card.history


def test_without_a_gpu_the_reason_is_reported(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    card.cuda.is_available = lambda: False
    monkeypatch.setattr(home_routes, "_torch_build", lambda: "12.8")
    assert "cannot use a GPU" in TorchMemoryCollector.availability().reason
    recording, _ = record()
    assert "cannot use a GPU" in recording.report["collector-failed"].example


def test_memory_is_recorded_once(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {one.name: one for one in make(["torch", "torch_memory"], CollectorOptions(memory=True))}
    assert made["torch"]._options.memory is False  # type: ignore[attr-defined]
    alone = {one.name: one for one in make(["torch"], CollectorOptions(memory=True))}
    assert alone["torch"]._options.memory is True  # type: ignore[attr-defined]
    assert "torch_memory" not in [one.name for one in make()]  # only when asked for


@pytest.mark.parametrize(("devices", "kept"), [((0,), {0}), ((1,), {1}), ((0, 1), {0, 1})])
def test_only_the_cards_that_were_asked_for(card: Card, devices: tuple[int, ...], kept: set[int]) -> None:
    one = card._snapshot()
    block = one["segments"][0] | {"device": 1}
    two = one | {"segments": [*one["segments"], block], "device_traces": one["device_traces"] * 2}
    card.cuda.memory._snapshot = lambda: two  # its times are of just before the recording
    collector = TorchMemoryCollector(CollectorOptions(devices=devices))
    collector.start(Clock(wall=lambda: 1_000_000_000))
    collector.stop()
    collector.result(builder := TraceBuilder())
    trace = builder.seal()
    assert set(trace.allocations["device"]) == kept
    assert set(trace.metadata["tables"]["memory_blocks"]["device"]) == kept
    assert ("other-devices" in collector.report) == (len(kept) == 1)
    if len(kept) == 1:
        assert collector.report["other-devices"].count == 3
