"""The nvml collector: NVIDIA GPUs as counters, through NVIDIA's management library."""

from __future__ import annotations

import importlib
import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from ...optional import installed
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from .metrics import METRICS, PCIE, Metric, NoSamplesError, pcie_link, samples_since

FAST_S: Final = 0.05
"""Between two readings of memory and power."""

SLOW_EVERY: Final = 4
"""Use and clocks, which the driver itself averages over longer, are read every fourth time."""


class Readings:
    """Times and values of one counter, appended to by one thread."""

    def __init__(self) -> None:
        self.ts = array("q")
        self.values = array("d")

    def add(self, ts: int, value: float) -> None:
        """Append one reading."""
        self.ts.append(ts)
        self.values.append(value)

    def put(self, builder: TraceBuilder, track: int) -> None:
        """Give the readings to a counter track."""
        builder.counter(track, np.array(self.ts, dtype=np.int64), np.array(self.values, dtype=np.float64))


@dataclass(slots=True)
class _Gpu:
    device: int
    handle: Any
    metrics: list[Metric]
    link: dict[str, float] | None = None
    readings: dict[str, Readings] = field(default_factory=dict)
    since_us: dict[str, int] = field(default_factory=dict)
    """Time of the last value that was taken from a buffer of the driver."""
    polled: set[str] = field(default_factory=set)
    """Counters for which the driver keeps no buffer."""
    ended: dict[str, str] = field(default_factory=dict)
    """Counters that gave values and then failed, as when the GPU falls off the bus."""


class NvmlCollector(Collector):
    """Counts use, memory, power and clocks of the GPUs that CUDA may use, in its own thread.

    Memory and power every 50 ms; temperature, energy, throttling, the number of other processes and what goes
    over NVLink every 200 ms, and as often what the driver has put into its own buffers of utilisation and
    clocks; where it keeps none, they are asked for. The driver averages utilisation over 0.2 to 1 s. The
    thread loads the library itself, so that starting takes no time.

    Parameters
    ----------
    pcie : bool
        PCIe throughput too; each reading takes the thread 20 ms.
    devices : sequence of int, optional
        CUDA's numbers of the GPUs to read; all unless given.
    """

    name: ClassVar[str] = "nvml"

    def __init__(self, pcie: bool = False, devices: Sequence[int] | None = None) -> None:
        self._keep = devices
        self._metrics = (*METRICS, *PCIE) if pcie else METRICS
        self._gpus: list[_Gpu] = []
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Return whether nvidia-ml-py is installed and finds a driver with a GPU; asked once a process."""
        return _availability()

    def start(self, clock: Clock) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(clock,), name="notebook_prof nvml", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Join the thread, after its last readings."""
        self._quit.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def result(self, builder: TraceBuilder) -> None:
        """Add one counter a GPU and metric, such as ``GPU 0 power`` in W, and its ``pcie_links``."""
        if self._failure is not None:
            self.report.add("gpu-counters-failed", "loss", example=repr(self._failure))
        links = [{"device": gpu.device, **gpu.link} for gpu in self._gpus if gpu.link]
        if links:
            builder.metadata["pcie_links"] = links
        for gpu in self._gpus:
            for name, reason in gpu.ended.items():
                self.report.add(
                    "gpu-counters-ended",
                    "loss",
                    example=f"GPU {gpu.device} {name}: {reason}",
                    effect="these counters end before the recording does",
                    advice="see the kernel's log (dmesg) for a lost GPU or a reset driver",
                )
            for metric in self._metrics:
                readings = gpu.readings.get(metric.name)
                if readings is not None and len(readings.ts):
                    name = f"GPU {gpu.device} {metric.name}"
                    track = builder.track(name, "counter", device=gpu.device, unit=metric.unit)
                    (_rates(readings) if metric.total else readings).put(builder, track)

    def abandon(self) -> None:
        """Join the thread."""
        self.stop()

    def _run(self, clock: Clock) -> None:
        try:
            with _library() as nvml:
                self._gpus = [
                    _Gpu(device, handle, list(self._metrics), pcie_link(nvml, handle))
                    for device, handle in _visible(nvml)
                    if self._keep is None or device in self._keep
                ]
                self._loop(nvml, clock)
        except Exception as error:
            self._failure = error

    def _loop(self, nvml: Any, clock: Clock) -> None:
        round_ = 0
        running = True
        while running:
            for gpu in self._gpus:
                _read(nvml, gpu, clock, slow=round_ % SLOW_EVERY == 0)
            running = not self._quit.wait(FAST_S)
            round_ += 1
        for gpu in self._gpus:
            _read(nvml, gpu, clock, slow=False)


def _read(nvml: Any, gpu: _Gpu, clock: Clock, slow: bool) -> None:
    for metric in tuple(gpu.metrics):
        if metric.slow and not slow:
            continue
        if metric.samples and metric.name not in gpu.polled and _from_buffer(nvml, gpu, metric, clock):
            continue
        try:
            value = metric.read(nvml, gpu.handle)
        except (nvml.NVMLError, AttributeError) as error:
            if isinstance(error, AttributeError) and error.obj is not nvml:
                raise
            # not supported here, or not known to this pynvml
            gpu.metrics.remove(metric)
            if metric.name in gpu.readings:
                gpu.ended[metric.name] = str(error)
            continue
        if value is not None:
            gpu.readings.setdefault(metric.name, Readings()).add(clock.now_ns(), float(value))


def _from_buffer(nvml: Any, gpu: _Gpu, metric: Metric, clock: Clock) -> bool:
    """Take what is new in the driver's buffer; False where it keeps none."""
    name = metric.name
    since = gpu.since_us.setdefault(name, clock.now_ns() // 1000)
    try:
        samples = samples_since(nvml, gpu.handle, metric.samples, since)
    except NoSamplesError:
        gpu.polled.add(name)
        return False
    for at_us, value in samples:
        gpu.readings.setdefault(name, Readings()).add(at_us * 1000, value * metric.scale)
        gpu.since_us[name] = at_us
    return True


def _rates(totals: Readings) -> Readings:
    """Return how fast a total grew, a second, between readings; one that was reset grew by nothing."""
    ts, values = np.array(totals.ts), np.array(totals.values)
    grown = np.maximum(np.diff(values), 0) / np.maximum(np.diff(ts), 1) * 1e9
    rates = Readings()
    rates.ts.extend(ts[:-1].tolist())
    rates.values.extend(grown.tolist())
    return rates


def _visible(nvml: Any) -> list[tuple[int, Any]]:
    """Return CUDA's number and NVML's handle of every GPU that ``CUDA_VISIBLE_DEVICES`` leaves."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [(i, nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount())]
    handles: list[Any] = []
    for word in filter(None, (part.strip() for part in visible.split(","))):
        try:
            by_index = word.lstrip("-").isdigit()
            handles.append(
                nvml.nvmlDeviceGetHandleByIndex(int(word))
                if by_index
                else nvml.nvmlDeviceGetHandleByUUID(word.encode())
            )
        except nvml.NVMLError:
            break  # CUDA, too, ignores everything after the first entry that is not a device
    return list(enumerate(handles))


@contextmanager
def _library() -> Iterator[Any]:
    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


@lru_cache(maxsize=1)
def _availability() -> Availability:
    if not installed("pynvml"):
        return Availability(False, 'nvidia-ml-py is not installed: pip install "notebook-prof[gpu]"')
    try:
        with _library() as nvml:
            count = len(_visible(nvml))
    except Exception as error:
        return Availability(False, f"no NVIDIA driver: {error}")
    if count == 0:
        return Availability(False, "there is an NVIDIA driver, but no GPU that CUDA may use")
    return Availability(True, f"{count} GPU{'s' if count > 1 else ''}")
