"""The torch_memory collector: the history of PyTorch's CUDA allocator, with stacks. Used only on request."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ...errors import RecordingError
from ...formats.torch.memory_snapshot import read_snapshot
from ...optional import installed, require
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..cuda import survey
from ..devices import tell_left_out
from ..options import CollectorOptions

MOST_EVENTS: Final = 1_000_000
"""Size of the allocator's ring buffer, which keeps the latest events."""


class TorchMemoryCollector(Collector):
    """Records each of PyTorch's allocations and frees on GPUs, with its Python stack."""

    # Uses the history of ``torch.cuda.memory``, which is in Unix time like the recording, and its snapshot at
    # the end. So blocks allocated earlier are known too. It costs one walk of the Python stack per
    # allocation. If the user's code already keeps a history, it stays on, and its events from before the
    # recording are dropped.
    name: ClassVar[str] = "torch_memory"
    holds: ClassVar[frozenset[str]] = frozenset({"PyTorch memory history"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        self._keep = None if options is None else options.devices
        self._torch: Any = None
        self._ours = False
        self._start_us = 0
        self._snapshot: dict[str, Any] | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Return whether a CUDA build of torch is installed and, once imported, finds a GPU."""
        if not installed("torch"):
            return Availability(False, 'torch is not installed: pip install "notebook-prof[torch]"')
        facts = survey()
        if facts.torch_cuda == "":
            return Availability(False, "the installed torch is built without CUDA")
        if facts.torch_sees_gpu is False:
            return Availability(False, "the installed torch cannot use a GPU")
        if not facts.driver.ok:
            return facts.driver
        return Availability(True, "blocks of the CUDA allocator with stacks, by its own history")

    def start(self, clock: Clock) -> None:
        torch = self._torch = require("torch", extra="torch", purpose="the torch_memory collector")
        if not torch.cuda.is_available():
            raise RecordingError(
                "the installed torch cannot use a GPU, and it keeps a history of GPU memory only"
            )
        self._start_us = clock.now_ns() // 1000
        enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        if enabled is None or not enabled():
            torch.cuda.memory._record_memory_history(
                "all", context="all", stacks="python", max_entries=MOST_EVENTS
            )
            self._ours = True

    def stop(self) -> None:
        if self._torch is None or self._snapshot is not None:
            return
        try:
            self._snapshot = self._torch.cuda.memory._snapshot()
        finally:
            self.abandon()

    def result(self, builder: TraceBuilder) -> None:
        """Add allocations, slices named after the allocating frame, and the tables of blocks and events."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        traces = snapshot.get("device_traces") or []
        for number, events in enumerate(traces):
            if len(events) >= MOST_EVENTS:
                example = f"device {number}: {len(events):,} events, as many as the ring holds"
                effect = "earlier ones of the recording are missing"
                advice = "record fewer steps"
                self.report.add("memory-history-full", "loss", example=example, effect=effect, advice=advice)
        inside = [
            [event for event in events if event.get("time_us", 0) >= self._start_us] for events in traces
        ]
        read_snapshot(self._of_devices({**snapshot, "device_traces": inside}), builder)

    def abandon(self) -> None:
        if self._ours:
            self._ours = False
            self._torch.cuda.memory._record_memory_history(None)

    def _of_devices(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Return the snapshot of the selected devices only."""
        if self._keep is None:
            return snapshot
        traces, segments = snapshot["device_traces"], snapshot.get("segments") or []
        kept_segments = [segment for segment in segments if segment.get("device") in self._keep]
        inside = [events if number in self._keep else [] for number, events in enumerate(traces)]
        tell_left_out(self.report, self._keep, "blocks", sum(map(len, traces)) - sum(map(len, inside)))
        return {**snapshot, "segments": kept_segments, "device_traces": inside}
