"""Records DataLoaders in the main process: their iterators, and the tasks they sent, received and awaited."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType
from typing import Any, Final

from ....trace.report import ImportReport
from ...patches import Patches, drop_frame
from . import ring as rings
from .fetching import FetchHook, WorkerInit, inherited, innermost, restore_fetcher
from .ring import Ring, clock

_STATE: Final = "_notebook_prof_iterator"
_MOST_EVENTS: Final = 1_000_000
_MOST_LOADERS: Final = 1000

Event = tuple[int, ...]


@dataclass
class LoaderIterator:
    """One iterator of a DataLoader."""

    number: int
    loader: int  # row in the settings of loaders; -1 if unknown
    workers: int
    in_order: bool = True
    late: bool = False  # its workers started before the recording, so nothing is known about them
    epoch: int = 0  # number of restarts
    created_ns: int = field(default_factory=clock)
    sent: list[Event] = field(default_factory=list)
    # Each begins with epoch and number of a task. `sent` continues with worker and instant; `arrived` with
    # begin, end and CPU ns; `taken`, whose task is the one that was due, with begin and end.
    arrived: list[Event] = field(default_factory=list)
    taken: list[Event] = field(default_factory=list)
    rings: dict[int, Any] = field(default_factory=dict)  # content by worker, read at the end
    # the same at the start of the recording, for older iterators
    rings_before: dict[int, Any] = field(default_factory=dict)
    exits: dict[int, int] = field(default_factory=dict)  # exit status of workers that have ended
    thread: tuple[int, str] = (0, "")
    path: str = ""
    iterator: Any = None

    def read_rings(self, *, end: bool = False) -> dict[int, Any]:
        """Return what each worker has recorded. With `end`, the workers record no more."""
        found = {}
        for worker in range(self.workers if self.path else 0):
            with suppress(OSError, ValueError):
                ring = Ring(self.path.format(worker))
                if end:
                    ring.put(rings.ARMED, rings.OVER)
                found[worker] = ring.read()
                ring.close()
        return found

    def note_exits(self, iterator: Any) -> None:
        """Read the exit status of workers without reaping them, which is left to torch."""
        for number, process in enumerate(getattr(iterator, "_workers", ())):
            with suppress(Exception):
                status = _exit_status(process)
                if status is not None:
                    self.exits[number] = status


def _exit_status(process: Any) -> int | None:
    status = getattr(process._popen, "returncode", None)
    if status is None and hasattr(os, "waitid"):
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    return status


class LoaderWatch:
    """Watches all DataLoaders whose iterators are made or used between `watch` and `unwatch`."""

    # Functions of torch's iterators are replaced on the classes, never on an iterator, which would then
    # outlive its last reference. Datasets, samplers and ``collate_fn`` always remain the user's objects.
    def __init__(self) -> None:
        self.loaders: list[dict[str, Any]] = []  # settings, see `notebook_prof.analysis.loaders`
        self.report = ImportReport()
        self.iterators: list[LoaderIterator] = []
        self.in_process: dict[int, Any] = {}  # rings of this process by loader, read at the end
        self.in_process_before: dict[int, Any] = {}  # the same at the start of the recording
        self._rings: dict[int, Ring] = {}
        self.start_ns = 0  # monotonic clock; work that ended earlier is left out
        self._folder = ""
        self._pid = os.getpid()
        self._patches: Patches | None = None
        self._hook: FetchHook | None = None
        self._making: dict[int, LoaderIterator] = {}

    def watch(self) -> None:
        if self._patches is not None:
            return
        torch_side = import_module("torch.utils.data.dataloader")
        patches = self._patches = Patches()
        several = torch_side._MultiProcessingDataLoaderIter
        patches.replace(torch_side.DataLoader, "_get_iterator", self._get_iterator)
        patches.watch(several, "_reset", self._begin_again, lambda *_: None)
        patches.watch(several, "_try_put_index", lambda iterator: iterator._send_idx, self._after_put)
        patches.watch(
            several, "_try_get_data", lambda *_, **__: (clock(), time.thread_time_ns()), self._after_get
        )
        patches.watch(
            several, "_next_data", lambda one: (clock(), getattr(one, "_rcvd_idx", -1)), self._after_next
        )
        hook = self._hook = FetchHook(self._ring_of)
        hook.install()
        inherited[:] = [*inherited, patches, hook.patches]

    def begin_recording(self) -> None:
        """Record work that ends from now on. The workers' earlier work is left out."""
        for state in self.iterators:
            state.rings_before |= state.read_rings()
        self.in_process_before = {loader: ring.read() for loader, ring in self._rings.items()}
        self.start_ns = clock()

    def unwatch(self) -> None:
        """Stop watching. Workers stop writing at their next batch. Safe to repeat."""
        patches, self._patches = self._patches, None
        if patches is None:
            return
        patches.restore()
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.restore()
            inherited[:] = [each for each in inherited if each not in (patches, hook.patches)]
        for state in self.iterators:
            self._close(state)
        self.in_process = {loader: ring.read() for loader, ring in self._rings.items()}
        for ring in self._rings.values():
            ring.put(rings.ARMED, rings.OVER)
            ring.close()
        self._rings.clear()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _close(self, state: LoaderIterator) -> None:
        iterator = state.iterator() if state.iterator is not None else None
        state.iterator = None
        if iterator is not None:
            iterator.__dict__.pop(_STATE, None)
            fetcher = iterator.__dict__.get("_dataset_fetcher")
            if fetcher is not None:
                restore_fetcher(fetcher)
                fetcher.__dict__.pop(_STATE, None)
            state.note_exits(iterator)
        state.rings |= state.read_rings(end=True)

    def _get_iterator(self, original: Any) -> Any:
        watch = self

        def _get_iterator(self: Any) -> Any:
            if os.getpid() != watch._pid:
                return original(self)
            state = watch._begin(self)
            if state is None:
                return original(self)
            before = self.__dict__.get("worker_init_fn", watch)
            if state.path:
                self.__dict__["worker_init_fn"] = WorkerInit(state.path, self.worker_init_fn)
            me = threading.get_ident()
            watch._making[me] = state
            try:
                iterator = original(self)
            except BaseException as error:
                drop_frame(error)
                raise
            finally:
                watch._making.pop(me, None)
                if state.path:
                    if before is watch:
                        del self.__dict__["worker_init_fn"]
                    else:
                        self.__dict__["worker_init_fn"] = before
            watch._bind(state, iterator)
            return iterator

        return _get_iterator

    def _after_put(self, iterator: Any, number: int, *_: Any) -> None:
        state = self._state_of(iterator)
        if state is not None and iterator._send_idx != number and len(state.sent) < _MOST_EVENTS:
            state.sent.append((state.epoch, number, iterator._task_info[number][0], clock()))

    def _after_get(self, iterator: Any, before: Any, result: Any, failed: bool) -> None:
        state = self._state_of(iterator)
        if state is None:
            return
        if failed:
            state.note_exits(iterator)
        elif result[0] and type(result[1][0]) is int and len(state.arrived) < _MOST_EVENTS:
            (begin, cpu), (number, batch) = before, result[1]
            if type(batch).__name__ != "_IterableDatasetStopIteration":
                spent = time.thread_time_ns() - cpu
                state.arrived.append((state.epoch, number, begin, clock(), spent))

    def _after_next(self, iterator: Any, before: Any, result: Any, failed: bool) -> None:
        state, (begin, due) = self._state_of(iterator), before
        if not failed and state is not None and len(state.taken) < _MOST_EVENTS:
            state.taken.append((state.epoch, due, begin, clock()))

    def _begin(self, loader: Any) -> LoaderIterator | None:
        """Note that a loader is about to make an iterator, and make the rings of its workers."""
        try:
            state = self._state(loader)
            if state.workers:
                state.path = self._make_rings(state)
            self.iterators.append(state)
        except Exception as error:  # the user's loop must go on
            self.report.failed("loader-unread", "info", error)
            return None
        return state

    def _make_rings(self, state: LoaderIterator) -> str:
        try:
            if not self._folder:
                self._folder = rings.private_folder(state.workers * rings.LAYOUT.itemsize)
            path = os.path.join(self._folder, f"{state.number}-{{}}")
            for worker in range(state.workers):
                Ring.create(path.format(worker))
        except OSError as error:
            effect = "the work of a DataLoader's workers is unknown"
            advice = "make room in the temporary folder"
            self.report.failed("loader-workers-unwatched", "loss", error, effect, advice)
            return ""
        return path

    def _bind(self, state: LoaderIterator, iterator: Any) -> None:
        """Attach the state to the iterator, and restore the user's init function."""
        with suppress(Exception):
            state.iterator = weakref.ref(iterator)
            iterator.__dict__[_STATE] = state
            fetcher = iterator.__dict__.get("_dataset_fetcher")
            if fetcher is not None:
                fetcher.__dict__[_STATE] = state
            init = iterator.__dict__.get("_worker_init_fn")
            if isinstance(init, WorkerInit):
                iterator._worker_init_fn = init.inner
            elif isinstance(init, functools.partial) and init.args and isinstance(init.args[0], WorkerInit):
                iterator._worker_init_fn = functools.partial(init.func, init.args[0].inner, *init.args[1:])

    def _begin_again(self, iterator: Any, loader: Any, first_iter: bool = False) -> None:
        """Note the next epoch of persistent workers."""
        if first_iter or os.getpid() != self._pid:
            return
        state = iterator.__dict__.get(_STATE)
        if state is not None:
            state.epoch += 1
            return
        state = self._state(loader)
        state.late = True
        self.iterators.append(state)
        iterator.__dict__[_STATE] = state
        state.iterator = weakref.ref(iterator)

    def _state(self, loader: Any) -> LoaderIterator:
        state = LoaderIterator(
            len(self.iterators),
            note_loader(self.loaders, loader),
            int(loader.num_workers),
            bool(getattr(loader, "in_order", True)),
        )
        state.thread = threading.get_native_id(), threading.current_thread().name
        return state

    def _state_of(self, iterator: Any) -> LoaderIterator | None:
        state = iterator.__dict__.get(_STATE)
        if state is None and self._making:
            state = self._making.get(threading.get_ident())
        return state if os.getpid() == self._pid else None

    def _ring_of(self, fetcher: Any) -> tuple[Ring, int] | None:
        """Return the ring of a fetcher in this process. All iterators of a loader share one."""
        state = fetcher.__dict__.get(_STATE)
        if not isinstance(state, LoaderIterator):
            return None
        ring = self._rings.get(state.loader)
        if ring is None:
            ring = self._rings[state.loader] = Ring()
        return ring, state.number


def note_loader(rows: list[dict[str, Any]], loader: Any) -> int:
    """Count an iterator of a loader. Returns the row of its settings; -1 if there are too many rows."""
    # only numbers and names are kept; no object of the user is called
    row = _facts(loader)
    for number, earlier in enumerate(rows):
        if {**earlier, "iterators": 0} == {**row, "iterators": 0}:
            earlier["iterators"] += 1
            return number
    if len(rows) >= _MOST_LOADERS:
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
