"""Stops our tool when the user's code starts another one that cannot run at the same time."""

from __future__ import annotations

import _lsprof
import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..optional import installed, require


class GivingWay:
    """Stops our tool just before the user's code starts one that needs the profile function or memray."""

    # `end` is called at most once, in the thread that starts the other tool. `slot` is our tool number in
    # `sys.monitoring`, or -1. `to` names the other tool, and is empty while there is none. `armed` is set
    # while our tool runs. `hook` is the function that we passed to `threading.setprofile`; each new thread
    # calls `sys.setprofile` with it. Both are plain attributes, since our tool might trace method calls.
    def __init__(self, end: Callable[[], object], slot: int = -1) -> None:
        self.to = ""
        self.armed = False
        self.hook: object = None
        self._slot, self._end, self._pid = slot, end, os.getpid()
        self._lock = threading.RLock()
        self._undo: list[Callable[[], None]] = []

    def watch(self) -> None:
        """Start watching for such tools. Called before ours starts."""
        self._before(sys, "setprofile", "sys.setprofile")
        self._before(_lsprof.Profiler, "enable", "cProfile")
        if installed("memray"):
            self._before(require("memray", extra="heap", purpose="").Tracker, "__enter__", "memray.Tracker")
        if self._slot >= 0:
            self._before(vars(sys)["monitoring"], "use_tool_id", "sys.monitoring")

    def unwatch(self) -> None:
        """Restore everything; safe to repeat."""
        self.armed = False
        while self._undo:
            self._undo.pop()()

    def _before(self, owner: Any, name: str, tool: str) -> None:
        # patch the type's dictionary, since code that imported the type earlier uses that too
        attributes = gc.get_referents(owner.__dict__)[0] if isinstance(owner, type) else vars(owner)
        original = attributes[name]

        def start(*arguments: Any, **named: Any) -> Any:
            first = arguments[:1]
            if not self.armed or (self.hook is not None and first == (self.hook,)):
                return original(*arguments, **named)
            if tool == "sys.setprofile" and first == (None,):
                return None  # this call would end our profiling; without us, it would do nothing
            if tool != "sys.monitoring" or first == (self._slot,):
                self._give_way(tool)
            return original(*arguments, **named)

        def undo() -> None:
            if attributes.get(name) is start:
                attributes[name] = original
                _forget_cached(owner)

        attributes[name] = start
        _forget_cached(owner)
        self._undo.append(undo)

    def _give_way(self, tool: str) -> None:
        with self._lock:
            if self.to or self._pid != os.getpid():
                return
            self.to = tool
            self.unwatch()
            self._end()


def _forget_cached(owner: Any) -> None:
    if isinstance(owner, type):
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
