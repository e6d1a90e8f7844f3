"""Starting points of a walk: names in a namespace, locals of frames, results and errors kept by IPython."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from types import FrameType, TracebackType
from typing import Any, Final

from .buffers import derives, type_dict
from .walk import Walk

_OF_SHELL: Final = ("In", "Out", "get_ipython", "exit", "quit", "open")
_READS_LOCALS: Final = frozenset(("locals", "vars", "eval", "exec", "dir"))
_FOREIGN: Final = ("IPython", "ipykernel", "notebook_prof", "runpy", "asyncio", "tornado")
_MOST_ERRORS: Final = 8
_COPIES: Final = sys.version_info < (3, 13)
"""Whether reading the locals of a frame leaves a copy of them in the frame."""
_traceback_of: Final = BaseException.__dict__["__traceback__"].__get__
_cause_of: Final = BaseException.__dict__["__cause__"].__get__
_context_of: Final = BaseException.__dict__["__context__"].__get__


@dataclass
class Roots:
    """The names from which a walk starts."""

    namespace: Mapping[str, Any]  # namespace of the cell or of the recording module
    # running functions, with their displayed names
    frames: list[tuple[str, FrameType]] = field(default_factory=list)
    error: BaseException | None = None  # the error raised by the cell
    skipped: int = 0
    """Number of frames whose locals were not read."""

    def names(self) -> list[tuple[str, Any]]:
        """Return the names of the namespace, without those of the shell."""
        space: Any = self.namespace
        items = list(dict.items(space) if derives(type(space), dict) else space.items())
        return [(name, value) for name, value in items if type(name) is str and name not in _OF_SHELL]

    def add_to(self, walk: Walk) -> None:
        """Queue variables, attributes of classes defined in the notebook, and locals of running functions."""
        for name, value in self.names():
            if name.startswith("_"):
                continue
            if derives(type(value), type) and type_dict(value).get("__module__") == "__main__":
                for attribute, one in list(type_dict(value).items()):
                    walk.add(one, f"{name}.{attribute}")
            else:
                walk.add(value, name)
        for name, frame in self.frames:
            self._add_frame(walk, frame, f"{name} › ")

    def add_kept(self, walk: Walk) -> None:
        """Queue objects that are kept without a variable: locals in tracebacks, results, and ``_``."""
        for name, frame in self._frames_of_errors():
            self._add_frame(walk, frame, f"{name} › ")
        results = self.namespace.get("Out")
        if type(results) is dict:
            for number, value in list(results.items()):
                walk.add(value, f"Out[{number}]" if type(number) is int else "Out[]")
        for name, value in self.names():
            if name.startswith("_") and value is not results:
                walk.add(value, name)

    def _frames_of_errors(self) -> Iterator[tuple[str, FrameType]]:
        # sys.last_exc from Python 3.12 on
        waiting = [self.error, getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)]
        visited: list[BaseException] = []
        while waiting and len(visited) < _MOST_ERRORS:
            error = waiting.pop(0)
            if (
                error is None
                or not derives(type(error), BaseException)
                or any(one is error for one in visited)
            ):
                continue
            visited.append(error)
            step: TracebackType | None = _traceback_of(error)
            while step is not None:
                yield f"traceback: {step.tb_frame.f_code.co_name}:{step.tb_lineno}", step.tb_frame
                step = step.tb_next
            waiting += [_cause_of(error), _context_of(error)]

    def _add_frame(self, walk: Walk, frame: FrameType, name: str) -> None:
        """Queue the locals of a frame, unless reading them would change what its function sees."""
        module = dict.get(frame.f_globals, "__name__")
        if type(module) is str and module.partition(".")[0] in _FOREIGN:
            return
        code = frame.f_code
        optimized = bool(code.co_flags & CO_OPTIMIZED)
        if _COPIES and optimized and (sys.gettrace() is not None or _READS_LOCALS & {*code.co_names}):
            self.skipped += 1
            return
        values: Any = frame.f_locals
        if values is frame.f_globals or (not optimized and type(values) is not dict):
            return  # a module, or `exec` with a mapping of the user's
        items = list(values.items())
        if _COPIES and optimized:
            values.clear()  # otherwise, the copy would keep every local alive until the frame ends
        for local, value in items:
            walk.add(value, f"{name}{local}")


def roots_of_process() -> Roots:
    """Return the names of the program's main module, and of the functions running in this thread."""
    namespace = vars(sys.modules["__main__"])
    return Roots(namespace, running_frames(namespace, anywhere=True))


def running_frames(namespace: Mapping[str, Any], *, anywhere: bool = False) -> list[tuple[str, FrameType]]:
    """Return the functions running in this thread, innermost first, up to the code of the namespace."""
    # Unless `anywhere` is set, the result is empty if that code did not call them.
    frames: list[tuple[str, FrameType]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is namespace and not frame.f_code.co_flags & CO_OPTIMIZED:
            return frames
        frames.append((f"in {frame.f_code.co_name}", frame))
        frame = frame.f_back
    return frames if anywhere else []  # called from elsewhere, so no function of the namespace is running
