"""A module with the interface of ``cupti-python``, a driver, and cards that run what is launched.

Functions, kinds and attributes of records are those that the package documents, and that its wheels 12.8.0,
13.0.1 and 13.4.0 showed when they ran over a library that plays libcupti.
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

T0 = 1_700_000_000_000_000_000


class ActivityKind(enum.IntEnum):
    """As in ``cupti_activity.h``."""

    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    OVERHEAD = 17
    MEMCPY2 = 22
    SYNCHRONIZATION = 38


class cuptiError(Exception):
    """Written as the package writes it."""

    def __init__(self, name: str, status: int) -> None:
        self.status = status
        super().__init__(f"{name} ({status})")


class Driver:
    """libcuda: what it says of itself, and the waits for it."""

    def __init__(self, code: int = 0, cards: int = 1, version: int = 13_040) -> None:
        self.code, self.cards, self.version = code, cards, version
        self.initialised = False
        self.waits: Callable[[], None] = lambda: None

    def load(self, name: str) -> Driver:
        if self.version == 0:
            raise OSError(f"{name}: cannot open shared object file")
        return self

    def cuInit(self, flags: int) -> int:
        self.initialised = not self.code
        return self.code

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.cards
        return 0 if self.initialised else 3

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = self.version
        return 0

    def cuGetErrorName(self, code: Any, name: Any) -> int:
        name._obj.value = {100: b"CUDA_ERROR_NO_DEVICE", 719: b"CUDA_ERROR_LAUNCH_FAILED"}.get(code.value)
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDevicePrimaryCtxGetState(self, device: Any, flags: Any, active: Any) -> int:
        active._obj.value = 0
        return 0

    def cuCtxSynchronize(self) -> int:
        self.waits()
        return 0

    def cuDeviceGetName(self, name: Any, size: int, handle: Any) -> int:
        name.value = b"NVIDIA H100"
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, handle: Any) -> int:
        memory._obj.value = 80 << 30
        return 0

    def cuDeviceGetAttribute(self, value: Any, code: int, handle: Any) -> int:
        h100 = {16: 132, 39: 2048, 75: 9, 76: 0, 81: 233_472, 82: 65_536, 106: 32, 111: 1024}
        value._obj.value = h100[code]
        return 0


class Cupti:
    """``cupti.cupti`` of one version, with a clock that its test moves."""

    ActivityKind = ActivityKind
    cuptiError = cuptiError
    NAMES: ClassVar = {
        (1, 307): "cuLaunchKernel",
        (2, 211): "cudaLaunchKernel_v7000",
        (2, 505): "__cudaLaunchKernel_v13000",
        (2, 131): "cudaStreamSynchronize_v3020",
    }

    def __init__(self, version: str = "13.4.0") -> None:
        self.version = version
        self.old = version.startswith("12")
        self.fails: dict[str, Exception] = {}
        self.enabled: set[int] = set()
        self.waiting: list[Any] = []
        self.journal: list[str] = []
        self.subscribed = False
        self.lost = 0
        self.shift_ns = 0
        self.now: Callable[[], int] = lambda: T0
        self._correlation = 0

    def _does(self, what: str) -> None:
        self.journal.append(what)
        if what in self.fails:
            raise self.fails[what]

    # what the package offers

    def subscribe(self, callback: Any, userdata: Any) -> int:
        self._does("subscribe")
        if self.subscribed:
            raise cuptiError("ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", 39)
        self.subscribed = True
        return 1

    def unsubscribe(self, subscriber: int) -> None:
        self._does("unsubscribe")
        self.subscribed = False

    def set_thread_id_type(self, type: int) -> None:
        self._does(f"threads {type}")

    def activity_set_attribute(self, attr: int, value_size: int, value: int) -> None:
        self._does(f"attribute {attr} = {ctypes.c_uint8.from_address(value).value}")

    def activity_register_callbacks(self, requested: Any, completed: Any) -> None:
        self._does("register")
        self.requested, self.completed = requested, completed

    def activity_enable(self, kind: int) -> None:
        name = ActivityKind(kind).name
        if self.old and kind == ActivityKind.RUNTIME:
            raise NotImplementedError("Activity Kind RUNTIME not supported")
        self._does(f"enable {name}")
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self._does(f"disable {ActivityKind(kind).name}")
        self.enabled.discard(kind)

    def activity_flush_all(self, flag: int) -> None:
        self._does("flush")
        if self.waiting:
            thread = threading.Thread(target=self.completed, args=(self.waiting,))  # as CUPTI's own
            thread.start()
            thread.join()
            self.waiting = []

    def activity_get_num_dropped_records(self, context: int, stream_id: int, dropped: int) -> None:
        ctypes.c_size_t.from_address(dropped).value = self.lost

    def get_timestamp(self) -> int:
        return self.now() + self.shift_ns

    def get_callback_name(self, domain: int, cbid: int) -> str:
        if (domain, cbid) not in self.NAMES:
            raise cuptiError("ERROR_INVALID_PARAMETER", 1)
        return self.NAMES[domain, cbid]

    # what the program does

    def put(self, kind: ActivityKind, **facts: Any) -> None:
        if kind in self.enabled:
            self.waiting.append(SimpleNamespace(kind=int(kind), **facts))

    def call(self, kind: ActivityKind, cbid: int, start: int, end: int, correlation: int) -> None:
        self.put(
            kind,
            **self._times(start, end),
            cbid=cbid,
            correlation_id=correlation,
            process_id=os.getpid(),
            thread_id=threading.get_native_id(),
            return_value=0,
        )

    def _times(self, start: int, end: int) -> dict[str, int]:
        return {"start": start + self.shift_ns, "end": end + self.shift_ns} if end else {"start": 0, "end": 0}

    def next(self) -> int:
        self._correlation += 1
        return self._correlation

    def launch(
        self,
        name: str,
        start: int,
        end: int,
        *,
        device: int = 0,
        grid: Sequence[int] = (4, 1, 1),
        shared: int = 0,
        graph: tuple[int, int] = (0, 0),
        cbid: int = 211,
    ) -> None:
        """Launch a kernel by the runtime, which calls the driver."""
        number = self.next()
        self.call(ActivityKind.RUNTIME, cbid, start - 4_000, start - 1_000, number)
        self.call(ActivityKind.DRIVER, 307, start - 3_000, start - 2_000, number)
        facts = {
            **self._times(start, end),
            **self._place(device, number),
            "name": name,
            "graph_id": graph[0],
            "graph_node_id": graph[1],
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict.fromkeys(("block_y", "block_z"), 1),
            "block_x": 128,
            "registers_per_thread": 32,
            "static_shared_memory": 0,
            "dynamic_shared_memory": shared,
        }
        if not self.old:
            facts["priority"] = -3
        self.put(ActivityKind.CONCURRENT_KERNEL, **facts)

    def _place(self, device: int, number: int, stream: int = 7) -> dict[str, int]:
        return {
            "device_id": device,
            "context_id": device + 1,
            "stream_id": stream,
            "correlation_id": number,
        }

    def copy(self, start: int, end: int, *, device: int = 0, peer: bool = False) -> None:
        kind = ActivityKind.MEMCPY2 if peer else ActivityKind.MEMCPY
        words = (10, 3, 3) if peer else (1, 2, 3)
        self.put(
            kind,
            **self._times(start, end),
            **self._place(device, self.next()),
            **dict(zip(("copy_kind", "src_kind", "dst_kind"), words, strict=True)),
            bytes=1024,
            flags_=1,
            graph_id=0,
            graph_node_id=0,
        )

    def fill(self, start: int, end: int) -> None:
        where = self._place(0, self.next())
        sizes = {"bytes": 512, "value": 7, "memory_kind": 3, "graph_id": 0, "graph_node_id": 0}
        self.put(ActivityKind.MEMSET, **self._times(start, end), **where, **sizes)

    def wait(self, start: int, end: int, *, context: int = 1, stream: int = 7, type: int = 3) -> None:
        where = {"context_id": context, "stream_id": stream, "correlation_id": self.next()}
        self.put(ActivityKind.SYNCHRONIZATION, **self._times(start, end), **where, type=type)

    def overhead(self, kind: int, start: int, end: int) -> None:
        thread = threading.get_native_id()
        ids = (
            SimpleNamespace(threadId=thread)
            if self.old
            else SimpleNamespace(pt=SimpleNamespace(thread_id=thread))
        )
        facts = {"overhead_kind": kind, "object_kind": 2, "object_id": ids, "correlation_id": 0}
        self.put(ActivityKind.OVERHEAD, **self._times(start, end), **facts)
