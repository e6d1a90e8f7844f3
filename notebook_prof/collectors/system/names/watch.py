"""Records the names of memory before a recording, at its end, and at the end of its cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from inspect import CO_OPTIMIZED
from types import FrameType, TracebackType
from typing import Any, Final

import numpy as np
import pandas as pd

from ....trace.builder import TraceBuilder
from ....trace.report import ImportReport
from ....trace.schema import Table
from ..polling import freed_bytes, resident_bytes
from .arrays import ArrayObjects, DeviceArrays, device_levels
from .buffers import EARLIER, HOST, NEW, NOT_COMPARED, BufferLog, derives, type_dict
from .torch_objects import TorchObjects
from .walk import BUDGET_NS, Walk

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
        waiting: list[Any] = [self.error, getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)]
        visited: list[BaseException] = []
        while waiting and len(visited) < _MOST_ERRORS:
            error = waiting.pop(0)
            if not derives(type(error), BaseException) or any(one is error for one in visited):
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


MOMENTS: Final = ("recording", "cell")
"""Moments with results: the end of the recording, and the end of the cell if that is later."""
_GRAPHS_NS: Final = 10_000_000
"""Part of the budget that is reserved for autograd's graphs."""
_MOST_WAITING: Final = 5

# `moment` is a place in `MOMENTS`, and device -1 is the host
NAMES: Final = Table.of(
    "memory_names",
    # `address` is 0 for Python objects, whose sizes are summed by name. `bytes` are those of the buffer, not
    # of the elements that a view shows. `name` leads to it first, and the names in `kept_by` do too.
    # `earlier`: 1 if it was named when the cell began, 0 if not, -1 if not compared. `first_step_bytes`: of
    # its name before the recorded steps; -1 if unknown.
    "moment:int8 address:int64 bytes:int64 device:int64 name:str kind:str type:str kept_by:str "
    "earlier:int8 first_step_bytes:int64",
)
LEVELS: Final = Table.of(
    "memory_levels",
    # `used` by the process or on a device; `allocated` by allocators, -1 if unknown; `cached`: freed, kept
    "moment:int8 device:int64 used:int64 allocated:int64 cached:int64",
)
WALKS: Final = Table.of(
    "memory_walks",
    # `walk_ns` is CPU time. `left` objects were not visited in time, and `left_names` lead to some of them.
    # `frames_left` are functions with unread locals, `saved_left` saved tensors that this torch does not
    # show.
    "moment:int8 ts:int64 walk_ns:int64 objects:int64 left:int64 left_names:str frames_left:int64 "
    "saved_left:int64",
)


@dataclass
class Walked:
    """The result of a walk, without references to user objects."""

    log: BufferLog
    levels: list[dict[str, int]]
    facts: dict[str, Any]
    # complete walks before the cell, and before the first recorded step
    before: Walked | None = None
    at_first_step: Walked | None = None

    @cached_property
    def buffers(self) -> pd.DataFrame:
        """One row per buffer: `BUFFER_COLUMNS`, ``earlier`` and ``first_step_bytes``."""
        # computed on demand, so that the prompt does not wait for it
        table = self.log.table()
        table["earlier"] = NOT_COMPARED if self.before is None else _earlier(table, self.before.buffers)
        table["first_step_bytes"] = -1
        if self.at_first_step is not None:
            first = self.at_first_step.buffers.groupby(["name", "device"])["bytes"].sum()
            keys = pd.MultiIndex.from_frame(table[["name", "device"]])
            table["first_step_bytes"] = first.reindex(keys, fill_value=0).to_numpy()
        return table


def walk_names(roots: Roots, budget_ns: int = BUDGET_NS) -> Walked:
    """Walk from names to buffers in bounded time, without keeping anything alive."""
    walk = Walk(budget_ns)
    torch = TorchObjects(walk)
    for library in (torch, ArrayObjects(walk), DeviceArrays(walk)):
        walk.use(library.plan)
    now = time.time_ns()
    with torch.quiet():
        for name, value in roots.names():  # modules first: optimizers have parameters only as keys
            if torch.is_module(value) and not name.startswith("_"):
                walk.add(value, name)
        walk.run(budget_ns - _GRAPHS_NS)
        roots.add_to(walk)
        walk.run(budget_ns - _GRAPHS_NS)
        roots.add_kept(walk)
        walk.run(budget_ns - _GRAPHS_NS)
        torch.follow_graphs()
    roots.frames.clear()
    roots.error = None
    facts = {
        "ts": now,
        "walk_ns": walk.spent_ns,
        "objects": walk.objects,
        "left": walk.waiting + torch.left,
        "left_names": ", ".join(walk.waiting_names[:_MOST_WAITING]),
        "frames_left": roots.skipped,
        "saved_left": torch.unread,
    }
    walk.forget()
    return Walked(walk.log, levels(), facts)


class NameWatch:
    """Walks the names before a cell, before its recorded steps and after them, and compares the results."""

    # `roots` returns the current names. `error` is the exception of the code, and is released by the next
    # walk.
    def __init__(self, roots: Callable[[], Roots]) -> None:
        self._roots = roots
        self._before: Walked | None = None
        self._at_first_step: Walked | None = None
        self.error: BaseException | None = None
        self.report = ImportReport()

    def before(self) -> None:
        """Record the names before anything else is recorded."""
        self._before = self._complete()

    def at_first_step(self) -> None:
        """Record the size of each name before the first recorded step, if unrecorded steps precede it."""
        if self._at_first_step is None:
            self._at_first_step = self._complete()

    def now(self) -> Walked | None:
        """Return the current names, compared with those before. Failure is reported and returns None."""
        walked = self._walk()
        if walked is None:
            return None
        walked.before = self._before
        if not walked.facts["left"]:
            walked.at_first_step = self._at_first_step
        return walked

    def _complete(self) -> Walked | None:
        walked = self._walk()
        return None if walked is None or walked.facts["left"] else walked

    def _walk(self) -> Walked | None:
        try:
            roots = self._roots()
            roots.error, self.error = self.error, None
            return walk_names(roots)
        except Exception as error:  # the user's code must run in any case
            advice = "please report it, with this text"
            self.report.failed("names-failed", "loss", error, "memory has no names", advice)
            return None


def _earlier(table: pd.DataFrame, before: pd.DataFrame) -> Any:
    """Return which buffers were named before, with the same address and size."""
    keys = ["device", "address", "bytes"]
    buffers = pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(before[keys]))
    # objects without an address: at least the same size
    objects = before[before["address"] == 0].groupby("name")["bytes"].sum()
    same = table["name"].map(objects).fillna(-1).to_numpy() >= table["bytes"].to_numpy()
    return np.where(np.where(table["address"] == 0, same, buffers), EARLIER, NEW)


def put_names(walks: Sequence[Walked | None], builder: TraceBuilder) -> None:
    """Put the results of walks, in the order of `MOMENTS`, into tables of a trace."""
    # both moments may have the same walk
    distinct = {id(one): (moment, one) for moment, one in reversed([*enumerate(walks)]) if one is not None}
    brought = [*distinct.values()]
    if not brought:
        return
    buffers = pd.concat([one.buffers.assign(moment=moment) for moment, one in brought], ignore_index=True)
    builder.table(NAMES.name, NAMES.frame({name: buffers[name] for name in NAMES.names}), times=())
    rows = [{**level, "moment": moment} for moment, one in brought for level in one.levels]
    builder.table(LEVELS.name, LEVELS.of_rows(rows), times=())
    facts = [{**one.facts, "moment": moment} for moment, one in brought]
    builder.table(WALKS.name, WALKS.of_rows(facts))


def levels() -> list[dict[str, int]]:
    """Return how much memory the process and its devices use, and how much of that their allocators keep."""
    used, rows = 0, []
    with suppress(ImportError, OSError):
        used = resident_bytes()
    if used:
        rows.append({"device": HOST, "used": used, "allocated": -1, "cached": min(freed_bytes(), used)})
    return rows + [{"device": device, **level} for device, level in device_levels().items()]
