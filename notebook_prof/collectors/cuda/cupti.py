"""CUDA kernels, copies and calls recorded through NVIDIA's ``cupti-python``, for use without torch."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import compress
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import RecordingError
from ...readers.kineto import KinetoColumns, assemble
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..base import Availability
from ..devices import settle
from ..machine import live_threads
from ..torch.no_kernels import MEANING, loaded_cupti
from ..torch.result import of_devices
from . import driver
from .records import FIELDS, ON_DEVICE, DeviceProperties, joined, named, read, read_devices

MOST_RECORDS: Final = 4_000_000
BUFFER_BYTES: Final = 8 << 20
"""Size of a buffer, which fits about 30,000 launches, like in NVIDIA's examples. CUPTI clears it on the
launching thread."""

_FIRST_CUDA: Final = 12_060
_NEEDED: Final = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "DRIVER")
_PER_THREAD_BUFFER: Final = 9
_SYSTEM_THREADS: Final = 1
_FORCED: Final = 1

_CODES: Final = {"MULTIPLE_SUBSCRIBERS": 39, "VIRTUALIZED_DEVICE": 40, "INSUFFICIENT_PRIVILEGES": 35}
"""Maps the words in an error message of cupti-python to CUPTI's return code."""


class ClockReading(NamedTuple):
    """The recording's clock and CUPTI's, read at the same instant, and the error of their offset."""

    wall: int
    device: int
    error: int


def _read_clocks(wall: Callable[[], int], device: Callable[[], int]) -> ClockReading:
    """Read wall, device and wall clock 32 times, and return the tightest reading."""
    times = [(wall(), device(), wall()) for _ in range(32)]
    before, between, after = min(times, key=lambda one: one[2] - one[0])
    return ClockReading((before + after) // 2, between, max(after - before + 1, 0) // 2)


def to_wall(first: ClockReading, last: ClockReading, device: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Convert CUPTI's timestamps to the recording's clock."""
    # If both readings agree within their errors, all times are shifted by the same integer, so durations and
    # delays stay exactly as CUPTI measured them. Otherwise the clocks drift, and times follow the line
    # through both readings.
    offsets = [one.wall - one.device for one in (first, last)]
    least = max(offset - one.error for offset, one in zip(offsets, (first, last), strict=True))
    most = min(offset + one.error for offset, one in zip(offsets, (first, last), strict=True))
    shift: Any = (least + most) // 2
    if least > most:
        slope = (offsets[1] - offsets[0]) / max(last.device - first.device, 1)
        shift = offsets[0] + np.rint((device - first.device) * slope).astype(np.int64)
    return np.asarray(device + shift)


def fitting(version: int) -> str:
    """Return how to install the newest package for a driver's CUDA version (13040 for 13.4; 0 if unknown)."""
    # according to NVIDIA's documentation, a driver supports the CUPTI of its CUDA release and of older ones
    if not version:
        return "pip install cupti-python"
    if version < _FIRST_CUDA:
        return "update the driver, as cupti-python begins with CUDA 12.6"
    return f'pip install "cupti-python<{version // 1000}.{version % 1000 // 10 + 1}"'


def unusable(installed: str, state: driver.DriverState) -> str:
    """Return why the package cannot record here and what to do; empty if it can."""
    if state.problem:
        return state.problem
    if not installed:
        return f"cupti-python is not installed: {fitting(state.version)}"
    needed, has = int(installed.partition(".")[0]), state.version // 1000
    if 0 < has < needed:
        return (
            f"cupti-python {installed} needs a driver for CUDA {needed}, but this one is for CUDA "
            f"{has}.{state.version % 1000 // 10}: {fitting(state.version)}"
        )
    return _refusal(installed, state, state.refused) if state.refused else ""


def _refusal(installed: str, state: driver.DriverState, words: str) -> str:
    fix = f"the installed libcupti may not fit the driver; update the driver, or {fitting(state.version)}"
    if code := next((code for part, code in _CODES.items() if part in words), 0):
        fix = ": ".join(MEANING[code])
    return f"cupti-python {installed} cannot record ({words}): {fix}"


def availability() -> Availability:
    """Return whether this route works. Loads neither CUDA nor the package."""
    version = driver.package_version()
    problem = unusable(version, driver.ask_in_child() if version else driver.ask(version_only=True))
    return Availability(not problem, problem or f"cupti-python {version}, by NVIDIA")


_active: CuptiSession | None = None


def _requested() -> tuple[int, int]:
    return BUFFER_BYTES, 0


def _completed(activities: Sequence[Any]) -> None:
    if _active is not None:
        _active.take(activities)


class CuptiSession:
    """Records what the whole process does on its GPUs; `keep` selects GPUs by number."""

    def __init__(self, keep: Sequence[int] | None = None, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        # Calls have the system's thread number, so they nest in the ranges of `nbp.annotate` on the track of
        # their thread.
        self.report = ImportReport()
        self._keep, self._load = keep, load
        self._cupti: Any = None
        self._subscriber: Any = None
        self._pid = 0
        self._on: list[str] = []
        self._kind_of: dict[int, str] = {}
        self._parts: dict[str, list[pd.DataFrame]] = {}
        self._records = self._dropped = 0
        self._failed = ""
        self._first: ClockReading | None = None
        self._last: ClockReading | None = None
        self._now: Callable[[], int] = Clock().now_ns
        self._thread_names: dict[tuple[int, int], str] = {}

    def warm(self, clock: Clock) -> None:
        """Check the driver and subscribe to CUPTI. On failure, RecordingError says what to do."""
        global _active
        if self._cupti is not None:
            return
        version, state = driver.package_version(), driver.ask_in_child(self._load)
        if problem := unusable(version, state) or driver.ask(self._load).problem:
            raise RecordingError(problem)
        try:
            cupti = importlib.import_module("cupti.cupti")
            self._subscriber = cupti.subscribe(lambda *_: None, None)  # a callback that is never enabled
            self._cupti, self._pid, _active = cupti, os.getpid(), self
            atexit.register(self.abandon)
            cupti.set_thread_id_type(_SYSTEM_THREADS)
            with suppress(Exception):  # unknown before CUDA 12.1; buffers per thread would lose launches
                size, off = ctypes.c_size_t(1), ctypes.c_uint8(0)
                cupti.activity_set_attribute(
                    _PER_THREAD_BUFFER, ctypes.addressof(size), ctypes.addressof(off)
                )
            cupti.activity_register_callbacks(_requested, _completed)
            for kind in _NEEDED:
                self._enable(kind)
        except Exception as error:  # the package's error types
            self._release()
            self._cupti = None
            raise RecordingError(_refusal(version, state, str(error))) from error

    def start(self, clock: Clock) -> None:
        """Start recording, and read the clocks."""
        self.warm(clock)
        for kind in FIELDS:
            if kind in self._on:
                continue
            try:
                self._enable(kind)
            except Exception as error:  # 12.8 lacks runtime calls, but launches are driver calls too
                other = "; calls of the driver have the launches" if kind == "RUNTIME" else ""
                self.report.add("activity-refused", "info", example=str(error), effect=f"not recorded{other}")
        self._now = clock.now_ns
        self._first = _read_clocks(self._now, self._cupti.get_timestamp)

    def stop(self) -> None:
        """Stop recording: wait for the GPUs and flush every buffer. Does nothing in a forked child."""
        if self._first is None or self._subscriber is None or self._pid != os.getpid():
            return
        # before the wait, which should not be recorded
        self._disable([kind for kind in self._on if kind not in ON_DEVICE])
        failed = settle(self._keep, self._load)
        self._last = _read_clocks(self._now, self._cupti.get_timestamp)
        self._disable(list(self._on))
        try:
            self._cupti.activity_flush_all(_FORCED)
            lost = ctypes.c_size_t()
            self._cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(lost))
            self._dropped += lost.value
        except Exception as error:
            failed = failed or str(error)
        if failed:
            effect = "its last work may be missing"
            advice = "a lost device or a sticky CUDA error does this: restart the kernel"
            self.report.add("device-not-waited-for", "loss", example=failed, effect=effect, advice=advice)
        self._thread_names = {(self._pid, tid): name for tid, name in live_threads().items()}
        self._release()

    def take(self, activities: Sequence[Any]) -> None:
        """Copy the records of a buffer before CUPTI reuses it. Runs on CUPTI's thread."""
        if self._records + len(activities) > MOST_RECORDS:
            self._dropped += len(activities)
            return
        self._records += len(activities)
        try:
            kinds = np.fromiter(map(attrgetter("kind"), activities), np.int64, len(activities))
            for kind in np.unique(kinds).tolist():
                if (name := self._kind_of.get(kind)) is not None:
                    frame = read(list(compress(activities, kinds == kind)), FIELDS[name])
                    self._parts.setdefault(name, []).append(frame)
        except Exception as error:  # exceptions must not reach CUPTI
            self._failed = f"{type(error).__name__}: {error}"

    def result(self, builder: TraceBuilder) -> None:
        """Put slices, flows and attributes into `builder`."""
        if self._first is None or self._last is None:
            return
        self._report_losses()
        parts, self._parts = self._parts, {}
        frames = {kind: self._timed(kind, pd.concat(parts[kind])) for kind in FIELDS if kind in parts}
        devices = read_devices(self._load)
        table = joined(named(frames, devices, self._name_of_call), self._pid)
        times = to_wall(self._first, self._last, np.stack([table.pop("start"), table.pop("end")]))
        columns = KinetoColumns(
            **table, ts=times[0], dur=times[1] - times[0], thread_names=self._thread_names
        )
        assemble(of_devices(columns, self._keep, self.report), builder)
        _put_devices(devices, builder)
        builder.metadata["cupti"] = {
            "version": driver.package_version(),
            "records": self._records,
            "dropped": self._dropped,
            "clock_residual_ns": max(self._first.error, self._last.error),
        }
        if version := loaded_cupti()[1]:
            builder.metadata["cupti_version"] = version

    def abandon(self) -> None:
        self.stop()
        self._release()

    def _enable(self, kind: str) -> None:
        number = int(self._cupti.ActivityKind[kind])
        self._cupti.activity_enable(number)
        self._kind_of[number] = kind
        self._on.append(kind)

    def _disable(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self._on.remove(kind)
            with suppress(Exception):
                self._cupti.activity_disable(int(self._cupti.ActivityKind[kind]))

    def _release(self) -> None:
        global _active
        if self._subscriber is None or self._pid not in (0, os.getpid()):
            return
        atexit.unregister(self.abandon)
        if self._on:  # warmed but never started
            self._disable(list(self._on))
            with suppress(Exception):
                self._cupti.activity_flush_all(_FORCED)
        if _active is self:
            _active = None
        subscriber, self._subscriber = self._subscriber, None
        with suppress(Exception):
            self._cupti.unsubscribe(subscriber)

    def _timed(self, kind: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Drop records that ended before the window or that have no times."""
        assert self._first is not None
        start, end = frame["start"], frame["end"]
        bare = (start <= 0) | (end < start)
        example = f"{kind} records without start and end"
        effect = "they are left out"
        self.report.add(
            "records-without-times", "loss" if kind in ON_DEVICE else "info", int(bare.sum()), example, effect
        )
        return frame[~bare & (end >= self._first.device)]

    def _name_of_call(self, domain: int, number: int) -> str:
        try:
            name = str(self._cupti.get_callback_name(domain, number))
        except Exception:  # this CUPTI does not know the number
            return f"call {number}"
        return name.partition("_v")[0]

    def _report_losses(self) -> None:
        example = f"beyond {MOST_RECORDS:,} records, or by CUPTI itself"
        effect = "kernels and calls of the later part are missing"
        advice = "record fewer steps: --steps 3:14"
        self.report.add("records-dropped", "loss", self._dropped, example, effect, advice)
        effect = "a buffer of records is missing"
        advice = "report it to the maintainers, with the version of cupti-python"
        self.report.add("records-unreadable", "loss", int(bool(self._failed)), self._failed, effect, advice)


def _put_devices(devices: dict[int, DeviceProperties], builder: TraceBuilder) -> None:
    """Add names and properties of the GPUs in the form of Kineto's files."""
    if not devices:
        return
    builder.metadata.setdefault("devices", [devices[number].name for number in sorted(devices)])
    properties = [
        {
            "id": number,
            "name": device.name,
            "totalGlobalMem": device.memory_bytes,
            "computeMajor": device.major,
            "computeMinor": device.minor,
            "numSms": device.multiprocessors,
        }
        for number, device in sorted(devices.items())
    ]
    builder.metadata.setdefault("device_properties", properties)
