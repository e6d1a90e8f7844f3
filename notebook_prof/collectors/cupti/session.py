"""One recording through libcupti: claim, start, stop, columns."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from ...errors import RecordingError
from ...readers.kineto import assemble
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..devices import driver, of_devices, primary_context
from . import layouts as kinds
from .align import Alignment, Reading, read
from .arena import MOST_BYTES, Arena, arena
from .columns import columns
from .devices import Device, read_devices
from .driver_memory import driver_memory
from .find import find_library
from .library import Cupti, CuptiError
from .walk import Words, since, walk


def short_numbers() -> dict[int, int]:
    """Return the system's number of each thread by the lower half of pthread's, told before CUPTI 12.0."""
    tid_of = {thread.ident: thread.native_id for thread in threading.enumerate()}
    return {short & 0xFFFFFFFF: tid for short, tid in tid_of.items() if short is not None and tid is not None}


def thread_names() -> dict[tuple[int, int], str]:
    """Return names by process and the system's number."""
    pid = os.getpid()
    name_of = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {(pid, tid): name for tid, name in name_of.items() if tid is not None}


_NOT_IN_USE: Final = (3, 201)
"""CUDA was never initialised in this process; this thread has no context. Source: ``cuda.h``."""


def settle(devices: Sequence[int] | None = None, load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Wait until the cards have done what this process gave them, as torch's profiler does when it stops.

    CUPTI writes a kernel's record when the kernel has ended, and its own flush waits for none: what still
    runs at the end of a cell would be missing. Cards that this process does not use are left alone, and CUDA
    is not initialised.

    Parameters
    ----------
    devices : sequence of int, optional
        Numbers of the cards to wait for; all unless given.
    load : callable, optional
        From a name to a loaded library.

    Returns
    -------
    str
        The driver's words for each wait that failed, as on a lost device; empty if none did.
    """
    cuda = driver(load)
    if cuda is None:
        return ""
    codes = [("this thread's context", int(cuda.cuCtxSynchronize()))] if devices is None else []
    codes += _cards(cuda, devices)
    return "; ".join(f"{what}: {_words(cuda, code)}" for what, code in codes if code not in (0, *_NOT_IN_USE))


def _cards(cuda: Any, devices: Sequence[int] | None) -> Iterator[tuple[str, int]]:
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)):
        return
    for number in range(count.value):
        if devices is None or number in devices:
            yield f"GPU {number}", _card(cuda, number)


def _card(cuda: Any, number: int) -> int:
    """Wait for the card's primary context, if it is active."""
    primary = primary_context(cuda, number)
    if not primary.active:
        return primary.code
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    if code := int(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), primary.device)):
        return code
    try:
        if code := int(cuda.cuCtxPushCurrent_v2(context)):
            return code
        try:
            return int(cuda.cuCtxSynchronize())
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(before))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(primary.device)


def _words(cuda: Any, code: int) -> str:
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return f"{(name.value or b'error').decode(errors='replace')} ({code})"


NEEDED: Final = (kinds.RUNTIME, kinds.DRIVER, kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET)
"""Recorded from `CuptiSession.warm` on, so that no kernel of the window meets a CUPTI that still attaches."""
WELCOME: Final = (*(kinds.MEMCPY_P2P, kinds.MEMORY2, kinds.MARKER, kinds.SYNCHRONIZATION, kinds.OVERHEAD),)
"""Recorded where the driver allows; what is refused is told."""
ON_DEVICE: Final = (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET, kinds.MEMCPY_P2P)
"""Recorded until the cards are idle; the other kinds end before, so that the wait is no part of them."""
_INJECTION: Final = "NVTX_INJECTION64_PATH"
"""Where NVTX looks for who wants its ranges, at the first range of the process."""


class CuptiSession:
    """Records activity of the whole process; `warm start stop result`, or `abandon` from anywhere.

    Ranges of `nbp.annotate` need no correlation of their own: calls carry the operating system's thread
    number, so that they lie inside the ranges on the same track.

    Parameters
    ----------
    open_library : callable, optional
        Makes the binding. Called in `prepare`.
    most_bytes : int
        Bound of the buffers.
    devices : callable, optional
        Tells the cards.
    keep : sequence of int, optional
        Numbers of the cards whose work is kept; all unless given.
    wait : callable, optional
        Waits for the cards, and says in words what went wrong.
    """

    def __init__(
        self,
        open_library: Callable[[], Cupti] | None = None,
        most_bytes: int = MOST_BYTES,
        devices: Callable[[], dict[int, Device]] = read_devices,
        keep: Sequence[int] | None = None,
        wait: Callable[[Sequence[int] | None], str] = settle,
    ) -> None:
        self.report = ImportReport()
        self._open = open_library if open_library is not None else open_users
        self._most_bytes = most_bytes
        self._arena: Arena | None = None
        self._filled: list[Words] = []
        self._losses = (0, 0, 0)
        self._devices = devices
        self._keep = keep
        self._wait = wait
        self._cupti: Cupti | None = None
        self._on: list[int] = []
        self._threads: dict[int, int] = {}
        self._claimed = self._injected = False
        self._first: Reading | None = None
        self._last: Reading | None = None
        self._dropped = 0
        self._now: Callable[[], int] = Clock().now_ns

    def prepare(self) -> None:
        """Load the library, check its layouts, claim the process's place, and let CUPTI attach.

        Raises
        ------
        RecordingError
            In words, if any of it fails.
        """
        if self._cupti is not None:
            return
        cupti = self._open()
        cupti.subscribe()
        self._cupti, self._claimed = cupti, True
        if not cupti.system_threads():
            self._threads = short_numbers()
        self._arena = arena(self._most_bytes)
        cupti.register(self._arena.request, self._arena.complete)
        self._arena.open()
        atexit.register(self.abandon)
        for kind in NEEDED:
            cupti.enable(kind)
            self._on.append(kind)

    def warm(self, clock: Clock) -> None:
        """Prepare."""
        self.prepare()

    def start(self, clock: Clock) -> None:
        """Begin to record; the clocks are compared first."""
        self.prepare()
        assert self._cupti is not None
        if _INJECTION not in os.environ:
            os.environ[_INJECTION] = self._cupti.path
            self._injected = True
        for kind in WELCOME:
            try:
                self._cupti.enable(kind)
            except CuptiError as error:
                self.report.add("activity-refused", "info", example=str(error), effect="not recorded")
            else:
                self._on.append(kind)
        self._now = clock.now_ns
        self._first = read(self._now, self._cupti.timestamp_ns)

    def stop(self) -> None:
        """End: wait for the cards, and have every buffer given back."""
        if self._cupti is None or self._first is None or self._last is not None:
            return
        self._disable(kind for kind in self._on if kind not in ON_DEVICE)
        failed = self._wait(self._keep)
        self._last = read(self._now, self._cupti.timestamp_ns)
        self._disable(kind for kind in self._on if kind in ON_DEVICE)
        self._on.clear()
        if failed:
            self.report.add(
                "device-not-waited-for",
                "loss",
                example=failed,
                effect="what ran last on it may be missing",
                advice="a lost device or a sticky CUDA error does this: restart the kernel",
            )
        try:
            self._cupti.flush()
            self._dropped = self._cupti.dropped()
        except CuptiError as error:
            self.report.add(
                "buffers-not-given-back",
                "error",
                example=str(error),
                effect="the end of the recording is missing",
                advice="a lost device or a sticky CUDA error does this: restart the kernel",
            )
        if self._arena is not None:
            filled_arena = self._arena
            self._losses = filled_arena.refused, filled_arena.wasted_bytes, filled_arena.outstanding
            self._filled = filled_arena.take()
        self._release()

    def result(self, builder: TraceBuilder) -> None:
        """Put slices, flows, attributes and the driver's allocations into `builder`."""
        if self._cupti is None or self._first is None or self._last is None:
            return
        self._tell_losses()
        clock = Alignment(self._first, self._last)
        filled, self._filled = self._filled, []
        records = since(walk(filled, self._cupti.strides), self._first.device_ns)
        if records.lost_bytes:
            self.report.add(
                "records-unreadable",
                "loss",
                example=f"{records.lost_bytes:,} bytes of CUPTI's buffers begin with no known record",
                effect="what lay behind them in their buffers is missing",
            )
        devices = self._devices()
        table = columns(
            records,
            clock,
            self._cupti.api_name,
            self.report,
            pid=os.getpid(),
            thread_names=thread_names(),
            threads=self._threads,
            devices=devices,
        )
        assemble(of_devices(table, self._keep, self.report), builder)
        driver_memory(records, clock, builder)
        _tell_devices(devices, builder)
        builder.metadata["cupti"] = {
            "version": self._cupti.version,
            "records": sum(len(rows) for rows in records.of.values()),
            "buffers": len(filled),
            "dropped": self._dropped,
            "clock_offset_ns": clock.offset_ns,
            "clock_drift_ns": clock.drift_ns,
            "clock_residual_ns": clock.residual_ns,
        }

    def abandon(self) -> None:
        """Give everything back."""
        if self._cupti is not None and self._first is not None and self._last is None:
            with suppress(RecordingError):
                self.stop()
        self._release()

    def _disable(self, which: Iterable[int]) -> None:
        assert self._cupti is not None
        for kind in which:
            with suppress(CuptiError):
                self._cupti.disable(kind)

    def _release(self) -> None:
        atexit.unregister(self.abandon)
        if self._on:  # warm, and never started
            self._disable(self._on)
            self._on.clear()
            if self._cupti is not None:
                with suppress(CuptiError):
                    self._cupti.flush()
        if self._injected:
            self._injected = False
            os.environ.pop(_INJECTION, None)
        if self._cupti is not None and self._claimed:
            self._claimed = False
            with suppress(CuptiError):
                self._cupti.unsubscribe()
        if self._arena is not None and not self._arena.outstanding:
            self._arena.close()
        self._arena = None

    def _tell_losses(self) -> None:
        refused, wasted, outstanding = self._losses
        self.report.add(
            "records-dropped",
            "loss",
            self._dropped or refused,
            example=f"CUPTI dropped {self._dropped:,} records; {wasted:,} bytes of others lay behind the "
            f"bound of {self._most_bytes >> 20:,} MiB",
            effect="kernels and calls of the later part are missing",
            advice="record fewer steps: --steps 3:14",
        )
        self.report.add(
            "buffers-kept",
            "loss",
            outstanding,
            example="buffers that CUPTI did not give back",
            effect="what they hold is missing",
        )


def open_users() -> Cupti:
    """Return the user's own library; looked for, loaded and checked.

    Some releases of it crash without a driver (13.2 in ``cuptiGetVersion``), so the driver comes first.

    Raises
    ------
    RecordingError
        Where there is none, or it cannot be used, in words.
    """
    path = find_library()
    if path is None:
        raise RecordingError(
            "there is no libcupti: it comes with the CUDA toolkit, and as a wheel: "
            "pip install nvidia-cuda-cupti-cu12 (or nvidia-cuda-cupti for CUDA 13)"
        )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RecordingError(f"there is no NVIDIA driver: {error}") from error
    return Cupti(path)


def _tell_devices(devices: dict[int, Device], builder: TraceBuilder) -> None:
    """Put names and properties of the cards, in the words of Kineto's files."""
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
