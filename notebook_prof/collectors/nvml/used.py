"""Use and memory of GPUs, read now and then: for a watch that runs for hours."""

from __future__ import annotations

import importlib
import sys
from array import array
from contextlib import suppress
from typing import Any, Final

import numpy as np

from ...trace.builder import TraceBuilder
from .metrics import METRICS, Card, Metric, visible

READ: Final = tuple(metric for metric in METRICS if metric.name in ("memory", "utilisation"))


class Gpus:
    """Counters of the visible GPUs. Nothing is loaded before a library of the user's has loaded CUDA."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._cards: list[Card] = []
        self._failed = False
        self._readings: dict[tuple[int, Metric], tuple[array[int], array[float]]] = {}

    @staticmethod
    def allocated_bytes() -> int:
        """Return what torch's allocators have handed out on all GPUs; 0 before CUDA is initialised."""
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
        with suppress(Exception):
            if cuda is not None and cuda.is_initialized():
                return sum(int(cuda.memory_allocated(device)) for device in range(cuda.device_count()))
        return 0

    def read(self, now_ns: int) -> None:
        """Read the counters. The first reading loads the driver's library, in up to 100 ms."""
        if self._failed or not (self._nvml or self._is_used()):
            return
        try:
            if self._nvml is None:
                self._nvml = importlib.import_module("pynvml")
                self._nvml.nvmlInit()
                self._cards = visible(self._nvml)[0]
            for card in self._cards:
                for metric in READ:
                    if (value := metric.read(self._nvml, card.handle)) is not None:
                        ts, values = self._readings.setdefault(
                            (card.number, metric), (array("q"), array("d"))
                        )
                        ts.append(now_ns)
                        values.append(float(value))
        except Exception:  # no such library, or a GPU without these figures
            self._failed = True

    def put(self, builder: TraceBuilder) -> None:
        """Add the counters, named like those of the nvml collector."""
        for (number, metric), (ts, values) in self._readings.items():
            track = builder.track(f"GPU {number} {metric.name}", "counter", device=number, unit=metric.unit)
            builder.counter(track, np.array(ts, np.int64), np.array(values))

    def close(self) -> None:
        """Let go of the driver's library."""
        nvml, self._nvml, self._failed = self._nvml, None, True
        if nvml is not None:
            with suppress(Exception):
                nvml.nvmlShutdown()

    @staticmethod
    def _is_used() -> bool:
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
        return "cupy" in sys.modules or bool(cuda is not None and cuda.is_initialized())
