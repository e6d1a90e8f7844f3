"""Runs inside a DataLoader's worker before its first batch. Imports only the standard library."""

from __future__ import annotations

import multiprocessing.queues
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from . import ring as rings
from .fetching import FetchHook
from .patches import Patches, drop_frame
from .ring import Ring, clock

_cpu: Final = time.thread_time_ns

inherited: list[Patches] = []
"""Patches made by the main process. A forked worker restores the originals."""


class WorkerInit:
    """A ``worker_init_fn`` that opens the worker's ring and then calls the user's function `inner`."""

    # pickled by its import path, so it works with every start method
    def __init__(self, pattern: str, inner: Any) -> None:
        self.pattern, self.inner = pattern, inner

    def __call__(self, worker: int) -> None:
        ring = None
        try:
            ring = _arm(self.pattern.format(worker), worker)
        except Exception:  # a failure of ours must not affect the user's code
            ring = None
        if self.inner is not None:
            try:
                self.inner(worker)
            except BaseException as error:
                drop_frame(error)
                raise
        if ring is not None:
            ring.put(rings.INIT_END, clock())


def _arm(path: str, worker: int) -> Ring:
    opened = clock()
    for patches in inherited:
        patches.restore()
    ring = Ring(path)
    for field, value in ((rings.PID, os.getpid()), (rings.WORKER, worker), (rings.OPENED, opened)):
        ring.put(field, value)
    ring.begin_item(-1, 0)
    epochs = iter(range(sys.maxsize))
    pickling = _time_pickling(ring)

    def over() -> None:
        pickling()
        ring.close()

    FetchHook(lambda fetcher: (ring, next(epochs)), over).install()
    return ring


def _time_pickling(ring: Ring) -> Callable[[], None]:
    """Time how long the sending thread pickles batches. Call the returned function to stop."""
    original: Any = multiprocessing.queues._ForkingPickler  # type: ignore[attr-defined]
    epoch = sender = 0

    class _ForkingPickler(original):  # type: ignore[misc]
        @classmethod
        def dumps(cls, obj: Any, protocol: Any = None) -> Any:
            nonlocal epoch, sender
            begin, cpu = clock(), _cpu()
            try:
                data = original.dumps(obj, protocol)
            except BaseException as error:
                drop_frame(error)
                raise
            if type(obj) is tuple and len(obj) == 2 and ring.recording:
                if type(obj[0]) is int:
                    if not sender:
                        sender = threading.get_native_id()
                        ring.put(rings.SENDER, sender)
                    ring.send(epoch, obj[0], begin, clock(), _cpu() - cpu, len(data))
                elif type(obj[0]).__name__ == "_ResumeIteration":
                    epoch += 1
            return data

    def restore() -> None:
        if multiprocessing.queues._ForkingPickler is _ForkingPickler:  # type: ignore[attr-defined]
            multiprocessing.queues._ForkingPickler = original  # type: ignore[attr-defined]

    multiprocessing.queues._ForkingPickler = _ForkingPickler  # type: ignore[attr-defined]
    return restore
