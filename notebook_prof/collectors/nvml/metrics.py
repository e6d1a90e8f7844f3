"""The GPU metrics that the nvml collector reads, and the GPUs in CUDA's order."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...trace.builder import TraceBuilder
from ..devices import driver


@dataclass(frozen=True, slots=True)
class Metric:
    """One counter of a GPU."""

    name: str
    unit: str
    # maps (pynvml, device handle) to a number or None
    read: Callable[[Any, Any], float | None]
    slow: bool = False  # read every fourth time only
    total: bool = False  # for a total that only grows, its growth per second is shown


class Readings:
    """Times and values of one counter, appended by one thread."""

    def __init__(self) -> None:
        self.ts = array("q")
        self.values = array("d")
        self.answered = False  # whether the driver has answered at all
        self.failures = self.gaps = 0  # failures in a row, and how many such rows ended
        self.error: Exception | None = None  # of the last failure; None after a success
        self.left_out = ""  # why it is not read any more

    def add(self, ts: int, value: float) -> None:
        self.ts.append(ts)
        self.values.append(value)

    def put(self, builder: TraceBuilder, number: int, metric: Metric) -> None:
        """Add the readings so far as a counter of a GPU."""
        # a thread that is blocked in the driver may add more later
        values = np.array(self.values.tolist(), dtype=np.float64)
        ts = np.array(self.ts.tolist(), dtype=np.int64)[: len(values)]
        if metric.total:  # 0 where it was reset
            values = np.maximum(np.diff(values), 0) / np.maximum(np.diff(ts), 1) * 1e9
        track = builder.track(f"GPU {number} {metric.name}", "counter", device=number, unit=metric.unit)
        builder.counter(track, ts[: len(values)], values)


def _memory(nvml: Any, handle: Any) -> float:
    """Return the bytes in use, without the driver's reserve if both are reported."""
    try:
        return float(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    except (TypeError, AttributeError):  # an older pynvml
        pass
    except nvml.NVMLError as error:
        if getattr(error, "value", None) not in (FUNCTION_NOT_FOUND, _VERSION_MISMATCH):
            raise
    return float(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def _own_memory(nvml: Any, handle: Any) -> float | None:
    """Return the bytes held by this process; None in containers that hide its pid from the driver."""
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return next((process.usedGpuMemory for process in processes if process.pid == os.getpid()), None)


HARMFUL: Final = 0x04 | 0x08 | 0x20 | 0x40 | 0x80 | 0x200 | 0x400
"""Bits of NVML's harmful reasons for lower clocks: power cap, hardware slowdown, heat (software, hardware),
power brake, board limits, reliability.

Left out: idle, clocks set by the user, clocks that follow another GPU, display. Source: ``nvml.h``.
"""


NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, _VERSION_MISMATCH = 3, 4, 13, 25
"""NVML's return codes for a value that the GPU does not have, a missing permission, and a function or
structure that the driver's library lacks. Source: ``nvml.h``.
"""
_UNTOLD: Final = {
    "memory": "this card reports no figure, for example because it shares the system's memory",
    "memory of this process": "the driver lists no process of this number, as in most containers",
}


def why_missing(metric: str, error: Exception | None, card: str) -> str:
    """Return why a metric has no value; `error` is None if the last reading returned no value.

    >>> why_missing("power", AttributeError("nvmlDeviceGetPowerUsage"), "H100")
    'the installed nvidia-ml-py does not know it: update it'
    """
    number = getattr(error, "value", None)
    if error is None:
        return _UNTOLD.get(metric, "")
    if isinstance(error, AttributeError):
        return "the installed nvidia-ml-py does not know it: update it"
    if number == NOT_SUPPORTED:
        return _UNTOLD["memory"] if metric == "memory" else f"not supported by {card or 'this card'}"
    if number == NO_PERMISSION:
        return "no permission: the driver reports it to administrators only"
    if number == FUNCTION_NOT_FOUND:
        return "this driver is too old for it"
    return str(error)


_REASONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""Names of the same call, new and old: it was renamed in driver 535 and in the matching pynvml. Either of the
two may be newer than the other."""


def _throttled(nvml: Any, handle: Any) -> float | None:
    """Return the bits of `HARMFUL` that are currently lowering the clocks."""
    for name in _REASONS:
        if (read := getattr(nvml, name, None)) is None:
            continue
        try:
            return float(read(handle) & HARMFUL)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != FUNCTION_NOT_FOUND:
                raise
    return None


def _other_processes(nvml: Any, handle: Any) -> float:
    """Return how many other processes have a context on the GPU."""
    # one of them is assumed to be this process, since containers may hide its pid from the driver
    return float(max(len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) - 1, 0))


ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of a field that stands for the sum over all NVLinks. Source: ``nvml.h``."""


def _nvlink(field: str) -> Callable[[Any, Any], float | None]:
    """Make a reader of a total of bytes over all NVLinks. It returns None for GPUs without NVLink."""

    def read(nvml: Any, handle: Any) -> float | None:
        total = nvml.nvmlDeviceGetFieldValues(handle, [(getattr(nvml, field), ALL_LINKS)])[0]
        return None if total.nvmlReturn else float(total.value.ullVal) * 1024

    return read


def _clock(name: str) -> Callable[[Any, Any], float]:
    return lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, getattr(nvml, f"NVML_CLOCK_{name}"))


def _pcie(name: str) -> Callable[[Any, Any], float]:
    return lambda nvml, gpu: (
        1000 * nvml.nvmlDeviceGetPcieThroughput(gpu, getattr(nvml, f"NVML_PCIE_UTIL_{name}_BYTES"))
    )


METRICS: Final = (
    Metric("memory", "bytes", _memory),
    Metric("memory of this process", "bytes", _own_memory),
    Metric("power", "W", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
    Metric(
        "utilisation", "share", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100, slow=True
    ),
    Metric("SM clock", "MHz", _clock("SM"), slow=True),
    Metric("memory clock", "MHz", _clock("MEM"), slow=True),
    Metric("temperature", "°C", lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, 0), slow=True),
    Metric("energy", "J", lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000, slow=True),
    Metric("throttle reasons", "", _throttled, slow=True),
    Metric("other processes", "", _other_processes, slow=True),
    Metric("NVLink sent", "bytes/s", _nvlink("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"), slow=True, total=True),
    Metric(
        "NVLink received", "bytes/s", _nvlink("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"), slow=True, total=True
    ),
)

PCIE: Final = (
    Metric("PCIe to the GPU", "bytes/s", _pcie("RX"), slow=True),
    Metric("PCIe from the GPU", "bytes/s", _pcie("TX"), slow=True),
)
"""Metrics of PCIe throughput. Reading each takes 20 ms, in which the driver measures."""

LANE_BYTES_PER_S: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.9846e9, 4: 1.9692e9, 5: 3.9385e9, 6: 7.5625e9}
"""Bytes per second of a lane in one direction, by PCIe generation, after line coding (8b/10b or
128b/130b)."""


def pcie_link(nvml: Any, handle: Any) -> dict[str, float] | None:
    """Return the fastest PCIe link that GPU and machine support, in one direction; None if unknown."""
    # ``bytes_per_s`` does not account for packet overhead; ``width`` is in lanes
    try:
        generation = int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
        width = int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
    except (nvml.NVMLError, AttributeError):
        return None
    lane = LANE_BYTES_PER_S.get(generation)
    return None if lane is None else {"generation": generation, "width": width, "bytes_per_s": lane * width}


# Matches NVML's GPUs to CUDA's numbers by UUID, since the two count in different orders.


@dataclass(slots=True)
class NvmlCard:
    """A GPU, or a MIG slice of one."""

    handle: Any  # NVML's
    uuid: str  # as NVML spells it; empty if unknown
    name: str
    number: int = -1  # CUDA's, as far as known
    counters: dict[Metric, Readings] = field(default_factory=dict, compare=False)
    link: dict[str, float] | None = None  # see `pcie_link`

    @property
    def key(self) -> str:
        """The 32 digits of the UUID, which CUDA also reports."""
        return self.uuid.partition("-")[2].replace("-", "").lower()


def cuda_uuids(load: Callable[[str], Any] = ctypes.CDLL) -> list[str] | None:
    """Return the digits of the UUIDs in CUDA's order; None if CUDA has not been initialised."""
    # this does not initialise CUDA
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return None
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    uuids = []
    for number in range(count.value):
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if ask is None or cuda.cuDeviceGet(ctypes.byref(device), number) or ask(ctypes.byref(raw), device):
            return None
        uuids.append(bytes(raw).hex())
    return uuids


def visible(nvml: Any) -> tuple[list[NvmlCard], bool]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` allows, and whether their numbers are surely CUDA's."""
    # CUDA puts the fastest GPU first, while NVML follows the PCI bus. With different models, numbers are
    # known only if the variable contains UUIDs or ``CUDA_DEVICE_ORDER`` requests bus order. Otherwise all
    # GPUs are returned, so none is missing once CUDA is initialised.
    cards = [_card(nvml, nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount())]
    alike = len({card.name for card in cards}) <= 1 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = cards if variable is None else _chosen(nvml, cards, variable)
    by_uuid = variable is not None and not any(_is_number(word) for word in variable.split(","))
    sure = alike or by_uuid or not chosen
    if not sure:
        chosen = cards
    for number, card in enumerate(chosen):
        card.number = number
    return chosen, sure


def _chosen(nvml: Any, cards: list[NvmlCard], variable: str) -> list[NvmlCard]:
    """Return the GPUs in the order of the variable."""
    chosen: list[NvmlCard] = []
    # CUDA ignores everything from the first invalid entry on
    for word in (part.strip() for part in variable.split(",")):
        if _is_number(word):
            matches = cards[int(word) : int(word) + 1] if int(word) >= 0 else []
        else:
            matches = _named(nvml, cards, word)
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen += matches
    return chosen


def _is_number(word: str) -> bool:
    return word.strip().lstrip("-").isdigit()


def _named(nvml: Any, cards: list[NvmlCard], word: str) -> list[NvmlCard]:
    """Return the GPUs or slices whose UUIDs begin with `word`, since CUDA accepts prefixes."""
    if not word:
        return []
    if not word.startswith("GPU-"):
        cards = [each for card in cards for each in _slices(nvml, card)]
    return [card for card in cards if card.uuid.startswith(word)]


def _slices(nvml: Any, card: NvmlCard) -> list[NvmlCard]:
    slices = []
    try:
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle)):
            slices.append(_card(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, number)))
    except (nvml.NVMLError, AttributeError):
        pass  # no further slice, or none at all
    return slices


def _card(nvml: Any, handle: Any) -> NvmlCard:
    uuid, name = (_told(nvml, f"nvmlDeviceGet{what}", handle) for what in ("UUID", "Name"))
    return NvmlCard(handle, uuid, name)


def _told(nvml: Any, name: str, handle: Any) -> str:
    try:
        value = getattr(nvml, name)(handle)
    except (nvml.NVMLError, AttributeError):
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_WATCHED: Final = [metric for metric in METRICS if metric.name in ("memory", "utilisation")]


class Gpus:
    """Counters of the visible GPUs. Nothing is loaded before a library of the user's has loaded CUDA."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._cards: list[NvmlCard] = []
        self._failed = False

    @staticmethod
    def allocated_bytes() -> int:
        """Return what torch's allocators have handed out on all GPUs; 0 before CUDA is initialised."""
        with suppress(Exception):
            if cuda := _torch_cuda():
                return sum(int(cuda.memory_allocated(device)) for device in range(cuda.device_count()))
        return 0

    def read(self, now_ns: int) -> None:
        """Read the counters. The first reading loads the driver's library, in up to 100 ms."""
        if self._failed or not (self._nvml or "cupy" in sys.modules or _torch_cuda()):
            return
        try:
            if self._nvml is None:
                self._nvml = importlib.import_module("pynvml")
                self._nvml.nvmlInit()
                self._cards = visible(self._nvml)[0]
            for card in self._cards:
                for metric in _WATCHED:
                    if (value := metric.read(self._nvml, card.handle)) is not None:
                        card.counters.setdefault(metric, Readings()).add(now_ns, float(value))
        except Exception:  # no such library, or a GPU without these figures
            self._failed = True

    def put(self, builder: TraceBuilder) -> None:
        """Add the counters, named like those of the nvml collector."""
        for card in self._cards:
            for metric, readings in card.counters.items():
                readings.put(builder, card.number, metric)

    def close(self) -> None:
        """Release the driver's library."""
        nvml, self._nvml, self._failed = self._nvml, None, True
        if nvml is not None:
            with suppress(Exception):
                nvml.nvmlShutdown()


def _torch_cuda() -> Any:
    """Return ``torch.cuda``; None if the user's code has not initialised it."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None
