"""What the main process knows of DataLoaders: their settings, and the batches copied into pinned memory.

torch starts this thread for an iterator with workers and ``pin_memory=True``, if there is an accelerator. The
thread may pin before the iterator is complete, so `PinWatch` recognises it by its target function. Copies by
other threads, such as the loop's without workers, are not counted.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from ...patches import drop_frame
from .fetching import innermost
from .ring import clock

_MOST: Final = 1000


def note_loader(rows: list[dict[str, Any]], loader: Any) -> int:
    """Count another iterator of a loader. Returns the row of its settings; -1 if there are too many."""
    # settings are numbers and names: no object of the user is called or kept
    row = _facts(loader)
    for number, earlier in enumerate(rows):
        if {**earlier, "iterators": 0} == {**row, "iterators": 0}:
            earlier["iterators"] += 1
            return number
    if len(rows) >= _MOST:
        return -1
    rows.append(row)
    return len(rows) - 1


def _facts(loader: Any) -> dict[str, Any]:
    dataset = innermost(vars(loader).get("dataset"))
    kind = type(dataset)
    method = "__iter__" if _defined(kind, "__getitem__") is None else "__getitem__"
    code = getattr(inspect.unwrap(made), "__code__", None) if (made := _defined(kind, method)) else None
    batch_size = vars(loader).get("batch_size")
    sampler = getattr(loader, "batch_sampler", None)
    if batch_size is None and sampler is not None:
        batch_size = getattr(sampler, "batch_size", None)
    return {
        "dataset": kind.__qualname__,
        "method": method,
        "file": code.co_filename if code is not None else "",
        "line": int(code.co_firstlineno) if code is not None else -1,
        "in_memory": kind.__name__ == "TensorDataset",
        "batched": _defined(kind, "__getitems__") is not None or sampler is None,
        "batch_size": int(batch_size) if isinstance(batch_size, int) else 0,
        "num_workers": int(loader.num_workers),
        "prefetch_factor": int(loader.prefetch_factor or 0),
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "iterators": 1,
    }


def _defined(kind: type, name: str) -> FunctionType | None:
    """Return a method that is written in Python, without running the object's code."""
    for base in kind.__mro__:
        if name in vars(base):
            made = vars(base)[name]
            return made if isinstance(made, FunctionType) and base.__name__ != "Dataset" else None
    return None


_NO_BATCHES: Final = ("_IterableDatasetStopIteration", "_ResumeIteration")
_MOST_EVENTS: Final = 1_000_000

Pinned = list[tuple[int, int]]
"""Begin and end of each batch's copy."""


class PinWatch:
    """Times torch's ``pin_memory``, which is called for each batch and then for each of its parts."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._pinned: dict[int, Pinned] = {}
        self._inside: set[int] = set()

    def of(self, thread: threading.Thread) -> Pinned:
        """Return the list of a thread's copies, which grows while the thread pins."""
        return self._pinned.setdefault(thread.ident or 0, [])

    def timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of ``pin_memory``."""

        def pin_memory(data: Any, device: Any = None) -> Any:
            me = threading.get_ident()
            if me in self._inside or not self._is_of_a_loader(me):
                return original(data, device)
            begin = clock()
            self._inside.add(me)
            try:
                return original(data, device)
            except BaseException as error:
                drop_frame(error)
                raise
            finally:
                self._inside.discard(me)
                pinned = self._pinned.setdefault(me, [])
                if type(data).__name__ not in _NO_BATCHES and len(pinned) < _MOST_EVENTS:
                    pinned.append((begin, clock()))

        return pin_memory

    def _is_of_a_loader(self, me: int) -> bool:
        """Return whether a thread pins for an iterator, even one that is not complete yet."""
        if os.getpid() != self._pid:
            return False
        if me in self._pinned:
            return True
        target = vars(threading.current_thread()).get("_target")
        if getattr(target, "__name__", "") != "_pin_memory_loop":
            return False
        self._pinned[me] = []
        return True
