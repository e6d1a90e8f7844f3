"""Counters of NVIDIA GPUs, from NVIDIA's management library."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, ClassVar, Final

from ...optional import installed
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..devices import gpu_extra
from .metrics import METRICS, PCIE, Metric, NvmlCard, Readings, cuda_uuids, pcie_link, visible, why_missing

FAST_S: Final = 0.05
"""Time between two readings of memory and power."""

LIMIT_S: Final = 1.0
"""Longest wait for the driver. A counter that takes longer is not read again."""

RETRIES: Final = 3
"""Number of consecutive errors after which a counter is given up if it never had a value, or else read less
often."""

SLOW_EVERY: Final = 4
"""Slow counters are read every fourth time, since the driver averages use and clocks over longer."""


class NvmlCollector(Collector):
    """Reads utilisation, memory, power and clocks of the GPUs that CUDA may use, in a thread."""

    # The thread loads the library, so starting takes no time, and nothing waits longer than 1 s for a driver
    # that does not answer. GPUs get CUDA's numbers, which are found by UUID once CUDA is initialised.
    name: ClassVar[str] = "nvml"

    def __init__(self, pcie: bool = False, devices: Sequence[int] | None = None) -> None:
        self._keep = devices
        self._metrics = (*METRICS, *PCIE) if pcie else METRICS
        self._gpus: list[NvmlCard] = []
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._late = False
        self._sure = True
        self._uuids: list[str] | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Return whether nvidia-ml-py is installed and finds a driver with a GPU. Asked once per process."""
        return _availability()

    def start(self, clock: Clock) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(clock,), name="notebook_prof nvml", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let the thread read once more, without waiting for a driver that does not answer."""
        self._quit.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(LIMIT_S)
            self._late = thread.is_alive()
        self._uuids = cuda_uuids()

    def result(self, builder: TraceBuilder) -> None:
        """Add a counter per GPU and metric, such as ``GPU 0 power`` in W, and metadata ``pcie_links``."""
        if self._late:
            example = f"NVIDIA's driver did not answer within {LIMIT_S:g} s"
            effect = "the counters of GPUs end before the recording does, or are missing"
            advice = "check that nvidia-smi answers, and read the kernel's log (dmesg)"
            self.report.add("gpu-counters-late", "loss", example=example, effect=effect, advice=advice)
        if self._failure is not None:
            self.report.add("gpu-counters-failed", "loss", example=repr(self._failure))
        gpus = self._numbered()
        links = [{"device": gpu.number, **gpu.link} for gpu in gpus if gpu.link]
        if links:
            builder.metadata["pcie_links"] = links
        for gpu in gpus:
            self._tell(gpu)
            for metric, readings in gpu.counters.items():
                if readings.ts:
                    readings.put(builder, gpu.number, metric)
        missing = "; ".join(filter(None, map(self._missing, gpus)))
        if missing:
            self.report.add(
                "gpu-counters-missing", "info", example=missing, effect="these are not in the profile"
            )

    def abandon(self) -> None:
        self.stop()

    def _numbered(self) -> list[NvmlCard]:
        """Return the GPUs with CUDA's numbers, found by UUID. GPUs that CUDA does not see are left out."""
        gpus = self._gpus
        if self._uuids is not None and all(gpu.uuid for gpu in gpus):
            for gpu in gpus:
                gpu.number = self._uuids.index(gpu.key) if gpu.key in self._uuids else -1
            gpus = [gpu for gpu in gpus if gpu.number >= 0]
        elif not self._sure and len(gpus) > 1:
            example = f"cards of several kinds: {', '.join(gpu.name for gpu in gpus)}"
            effect = "they are numbered by PCI bus; CUDA, which was not used, may number them differently"
            advice = "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
            self.report.add("gpu-order-unknown", "info", example=example, effect=effect, advice=advice)
        gpus = [gpu for gpu in gpus if self._keep is None or gpu.number in self._keep]
        return sorted(gpus, key=lambda gpu: gpu.number)

    def _tell(self, gpu: NvmlCard) -> None:
        """Report counters that failed for good, and single readings that failed."""
        for metric, readings in gpu.counters.items():
            if readings.ts and (reason := readings.left_out or str(readings.error or "")):
                example = f"GPU {gpu.number} {metric.name}: {reason}"
                effect = "these counters end before the recording does"
                advice = "see the kernel's log (dmesg) for a lost GPU or a reset driver"
                self.report.add("gpu-counters-ended", "loss", example=example, effect=effect, advice=advice)
        example = f"GPU {gpu.number}: the driver failed occasionally"
        gaps = sum(readings.gaps for readings in gpu.counters.values())
        self.report.add("gpu-counters-gaps", "info", gaps, example, "single readings are missing")

    def _missing(self, gpu: NvmlCard) -> str:
        """Return one clause per reason for metrics without a value."""
        names: dict[str, list[str]] = {}
        for metric, readings in gpu.counters.items():
            if readings.answered and not readings.ts:
                reason = readings.left_out or why_missing(metric.name, readings.error, gpu.name)
                if reason:
                    names.setdefault(reason, []).append(metric.name)
        sentences = [f"{', '.join(each)}: {reason}" for reason, each in names.items()]
        return f"GPU {gpu.number}: {'; '.join(sentences)}" if sentences else ""

    def _run(self, clock: Clock) -> None:
        try:
            with _library() as nvml:
                cards, self._sure = visible(nvml)
                if self._sure and self._keep is not None:
                    cards = [card for card in cards if card.number in self._keep]
                for card in cards:
                    card.counters = {metric: Readings() for metric in self._metrics}
                    card.link = pcie_link(nvml, card.handle)
                self._gpus = cards
                self._loop(nvml, clock)
        except Exception as error:
            self._failure = error

    def _loop(self, nvml: Any, clock: Clock) -> None:
        round_ = 0
        running = True
        while running:
            for gpu in self._gpus:
                self._read(nvml, gpu, clock, slow=round_ % SLOW_EVERY == 0)
            running = not self._quit.wait(FAST_S)
            round_ += 1
        end = time.monotonic() + LIMIT_S
        for gpu in self._gpus:
            if time.monotonic() < end:
                self._read(nvml, gpu, clock, slow=False)

    def _read(self, nvml: Any, gpu: NvmlCard, clock: Clock, slow: bool) -> None:
        ending = self._quit.is_set()
        for metric, readings in gpu.counters.items():
            if self._quit.is_set() and not ending:
                return  # hurry, since `stop` waits for the last readings
            fails = readings.failures >= RETRIES
            if readings.left_out or (fails and not readings.ts) or ((metric.slow or fails) and not slow):
                continue
            begun = time.monotonic()
            _read_metric(nvml, gpu.handle, metric, readings, clock)
            readings.answered = True
            if (took := time.monotonic() - begun) > LIMIT_S:
                readings.left_out = f"the driver took {took:.1f} s for one reading"


def _read_metric(nvml: Any, handle: Any, metric: Metric, readings: Readings, clock: Clock) -> None:
    try:
        value = metric.read(nvml, handle)
    except (nvml.NVMLError, AttributeError) as error:
        if isinstance(error, AttributeError) and error.obj is not nvml:
            raise
        readings.failures, readings.error = readings.failures + 1, error
        return
    readings.gaps += readings.failures > 0
    readings.failures, readings.error = 0, None
    if value is not None:
        readings.add(clock.now_ns(), float(value))


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
def _asked() -> Future[Availability]:
    """Ask the driver in a thread, once per process, so nobody waits long for a driver that hangs."""
    answer: Future[Availability] = Future()
    ask = threading.Thread(target=lambda: answer.set_result(_ask()), name="notebook_prof nvml", daemon=True)
    ask.start()
    ask.join(LIMIT_S)
    return answer


def _ask() -> Availability:
    try:
        with _library() as nvml:
            count = len(visible(nvml)[0])
    except Exception as error:
        return Availability(False, f"no NVIDIA driver: {error}")
    if not count:
        return Availability(False, "there is an NVIDIA driver, but no GPU that CUDA may use")
    return Availability(True, f"{count} GPU{'s' if count > 1 else ''}")


def _availability() -> Availability:
    if not installed("pynvml"):
        return Availability(
            False, f'nvidia-ml-py is not installed: pip install "notebook-prof[{gpu_extra()}]"'
        )
    if not (answer := _asked()).done():
        return Availability(False, f"NVIDIA's driver did not answer within {LIMIT_S:g} s")
    return answer.result()
