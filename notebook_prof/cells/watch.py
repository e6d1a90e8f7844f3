"""Watches each cell of a notebook: readings at its start and end, and by a thread while it runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..collectors import statements
from ..collectors.nvml.metrics import Gpus
from ..collectors.python.thread_stacks import ThreadStacks
from ..collectors.system.names.watch import Roots, Walked, walk_names
from ..collectors.system.polling import MOVED_BYTES, UsageReader, resident_bytes
from ..trace.arrays import IntArray
from ..trace.clocks import Clock

LINE_BITS: Final = 24
now: Final = time.time_ns
rows: Final[array[int]] = array("q")
note: Final[Callable[[Iterable[int]], None]] = rows.extend
"""Stores a mark of a watched cell. ``note((now(), mark))`` runs in C alone, so no traceback shows it."""
GROWN_BYTES: Final = 32 << 20
"""Growth of the process after which the names are walked."""
LARGE_BYTES: Final = 1 << 20
"""Smallest buffer whose cell is remembered."""
LONG_NS: Final = 1_000_000_000
"""Running time of a cell after which its stacks are sampled."""
SAMPLE_NS: Final = 20_000_000
"""Shortest interval between readings during a cell."""
_OWN_SHARE: Final = 160
"""The thread, which holds the GIL while it reads, uses at most 1/160 of the cell's time."""
_TICK_S: Final = 0.05
"""Interval at which the thread checks whether a cell runs."""
_PARKED_AFTER: Final = 40
"""Number of checks without a cell after which the thread waits for the next one."""
_LOOK_NS: Final = 250_000_000
_SHORT_NS: Final = 20_000_000
"""Consecutive cells that are shorter share a reading of threads and children."""
_OF_AGE: Final = 500
"""Readings are at least 1/500 of the running time of the cell apart, so hours give only thousands."""
MOST_SAMPLES: Final = 100_000
"""Maximum number of stack samples. Beyond it, every second one of the older half is dropped."""
MOST_BUFFERS: Final = 10_000
NO_STATEMENTS: Final = np.empty((0, 2), np.int64)


@dataclass(slots=True)
class CellRun:
    """One execution of a cell. Times are Unix ns."""

    run: int  # number in the session, from 0
    number: int  # execution count; 0 if it is not counted
    cell: str  # the front-end's id; may be empty
    source: str
    thread: int  # native id of its thread
    begin_ns: int
    rss_bytes: int
    high_bytes: int  # highest resident memory of the process until then
    end_ns: int = 0  # 0 while it runs
    kept_bytes: int = 0  # growth of resident memory
    peak_bytes: int = 0
    exact: bool = False  # whether the system has recorded the peak
    error: str = ""
    imports: str = ""
    full: bool = False  # whether ``%%profile`` recorded it
    files: tuple[str, ...] = ()  # names under which it was compiled
    lines: frozenset[int] = frozenset()  # first lines of its statements
    first: int = 0  # line of its first statement, which has no mark; 0 if none is known
    marked: bool = False
    device_bytes: int = 0  # growth of torch's memory on GPUs; while it runs, that memory at its begin
    # start and line of each, shape (n, 2)
    statements: IntArray = field(default_factory=lambda: NO_STATEMENTS)
    previous: CellRun | None = None  # the cell that ran around it, in the same thread


def mark_of(run: int, line: int) -> int:
    """Encode the run and the line of a mark in one number."""
    return run << LINE_BITS | line


def _take_rows() -> array[int]:
    """Return and clear the marks so far."""
    taken = rows[:]
    del rows[: len(taken)]
    return taken


class NotebookWatch:
    """Watches the cells of one kernel until `stop`."""

    # `namespace` returns the user's names. Everything here runs in the thread of a cell, except `_poll`.
    # A forked child inherits the object, but neither the thread nor the right to write.
    def __init__(
        self, namespace: Callable[[], Mapping[str, Any]], clock: Clock | None = None, threads: bool = True
    ) -> None:
        self.clock = clock if clock is not None else Clock()
        self.pid, self.tid = os.getpid(), threading.get_native_id()
        self.runs: list[CellRun] = []
        # Keys: device, address and bytes of a buffer. Values: the first and last run since the previous walk,
        # one of which made it, and whether the process grew in the last.
        self.made: dict[tuple[int, int, int], tuple[int, int, bool]] = {}
        self.stacks = ThreadStacks(self.clock.now_ns)
        self.own_ns = 0  # time that the watch took between cells
        self.begin_ns, self.end_ns = self.clock.now_ns(), 0
        self.others: dict[str, str] = {}  # displayed names of cells by file
        self.failures: list[str] = []
        self._namespace = namespace
        self._texts: dict[str, str] = {}
        self._open: dict[int, CellRun] = {}  # by thread
        self._looked_ns = 0
        self._walked_bytes, self._walked_runs = resident_bytes(), 0
        self._modules = len(sys.modules)
        self._known = {name.partition(".")[0] for name in list(sys.modules)}
        self._lock = threading.Lock()
        self.reader = UsageReader()
        self.gpus = Gpus()
        self._parked = False
        self._wake, self._quit = threading.Event(), threading.Event()
        self._read(self.begin_ns)
        _take_rows()  # discard those of an earlier watch
        self.walk(None)  # no cell of the session made the objects that exist already
        self._thread: threading.Thread | None = None
        if threads:
            self._thread = threading.Thread(target=self._poll, name="notebook_prof watch", daemon=True)
            self._thread.start()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process was forked from the one that is watched."""
        return self.pid != os.getpid()

    @property
    def current(self) -> CellRun | None:
        """The cell that the calling thread runs."""
        return self._open.get(threading.get_ident())

    def begin(self, source: str, number: int, cell: str = "") -> CellRun:
        asked_ns = self.clock.now_ns()
        source = self._texts.setdefault(source, source)
        level, high = self._read(asked_ns, _SHORT_NS)
        me = threading.get_ident()
        run = CellRun(
            len(self.runs), number, cell, source, threading.get_native_id(), 0, level, high,
            previous=self._open.get(me), device_bytes=self.gpus.allocated_bytes(),
        )  # fmt: skip
        run.peak_bytes = level
        self.runs.append(run)
        self._open[me] = run
        run.begin_ns = self.clock.now_ns()
        self.own_ns += run.begin_ns - asked_ns
        if self._parked:  # waking the thread at every cell would make it compete with short cells for the GIL
            self._wake.set()
        return run

    def end(self, run: CellRun, error: str = "", *, full: bool = False) -> None:
        """End a cell. Does nothing if it has ended."""
        if run.end_ns:
            return
        run.end_ns = end_ns = max(self.clock.now_ns(), run.begin_ns)
        level, high = self._read(end_ns, _LOOK_NS if end_ns - run.begin_ns < _SHORT_NS else 0)
        run.error, run.full, run.lines = error, full, frozenset()
        self.others.update(dict.fromkeys(run.files, f"In[{run.number}]"))
        run.kept_bytes = level - run.rss_bytes
        run.exact = high > run.high_bytes > 0
        run.peak_bytes = high if run.exact else max(run.peak_bytes, level)
        run.device_bytes = self.gpus.allocated_bytes() - run.device_bytes
        for ident in [ident for ident, one in self._open.items() if one is run]:
            if run.previous is not None and not run.previous.end_ns:
                self._open[ident] = run.previous
            else:
                del self._open[ident]
        run.previous = None
        self._take_marks()
        if run.first and not full:
            first = np.array([[run.begin_ns, run.first]], np.int64)
            run.statements = np.concatenate([first, run.statements])
        if len(sys.modules) != self._modules:
            run.imports = self._imported()
        if level - self._walked_bytes > GROWN_BYTES:
            self.walk(run)
        elif level < self._walked_bytes:
            self._walked_bytes = level
        self.own_ns += self.clock.now_ns() - end_ns

    def walk(self, run: CellRun | None) -> Walked | None:
        """Walk the names, and assign new buffers to this run, if it is known."""
        self._walked_bytes = resident_bytes()
        since, self._walked_runs = self._walked_runs, len(self.runs)
        try:
            walked = walk_names(Roots(self._namespace(), []))
        except Exception as error:  # the user's code must run in any case
            self.failures.append(f"{type(error).__name__}: {error}")
            return None
        table = walked.buffers[walked.buffers["bytes"] >= LARGE_BYTES]
        keys = [*zip(*(table[name].tolist() for name in ("device", "address", "bytes")), strict=True)]
        run = run or (self.runs[-1] if self.runs else None)
        runs = (-1, -1, False) if run is None else (since, run.run, run.kept_bytes > GROWN_BYTES)
        made = self.made
        self.made = {key: made.get(key, runs) for key in keys[:MOST_BUFFERS]}
        return walked

    def stop(self) -> None:
        """End the open cells and the thread. Safe to repeat."""
        if self.end_ns or self.is_of_parent:
            return
        for run in list(self._open.values()):
            self.end(run)
        self.end_ns = self.clock.now_ns()
        self._quit.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.reader.facts()  # reads the names of threads while they live
        self.reader.close()
        self.gpus.close()
        self.stacks.let_go()

    def read_now(self) -> None:
        """Read memory and CPU times."""
        if not self.end_ns:
            self._read(self.clock.now_ns())
            self._take_marks()

    def _read(self, now: int, apart_ns: int = 0) -> tuple[int, int]:
        """Read memory and CPU times; threads and children only if last read `apart_ns` ago."""
        with self._lock:
            tree = self.reader.tree
            level = self.reader.memory(now)
            if tree is None or now - self._looked_ns >= apart_ns:
                self._looked_ns = now
                self.reader.look(now)
            self.reader.edge(now)
            return level, tree.high_bytes if tree is not None else 0

    def _take_marks(self) -> None:
        """Assign the marks to their runs."""
        left = np.array(_take_rows(), np.int64).reshape(-1, 2)
        while len(left):  # nearly always all of one run
            mine = left[:, 1] >> LINE_BITS == left[0, 1] >> LINE_BITS
            run, own = self.runs[int(left[0, 1]) >> LINE_BITS], left[mine]
            own[:, 1] &= (1 << LINE_BITS) - 1
            run.statements = np.concatenate([run.statements, own]) if len(run.statements) else own
            left = left[~mine]

    def _imported(self) -> str:
        names = {name.partition(".")[0] for name in list(sys.modules)}
        new = sorted(name for name in names - self._known if not name.startswith("_"))
        self._modules, self._known = len(sys.modules), names
        return " ".join(new)

    def _poll(self) -> None:
        still = 0
        while not self._quit.wait(_TICK_S):
            running = self.runs_open()
            still = 0 if running else still + 1
            if running:
                self._follow(max(running, key=lambda run: run.begin_ns))
            elif still > _PARKED_AFTER:  # nothing of ours runs while the user reads or writes
                self._parked = True
                if not self.runs_open():
                    self._wake.wait()
                self._parked = False
                self._wake.clear()
                still = 0

    def runs_open(self) -> list[CellRun]:
        return [run for run in list(self._open.values()) if not run.end_ns]

    def _follow(self, run: CellRun) -> None:
        """Read during a cell until it ends or another one begins."""
        pause_ns, shown, now_ns = 0, run.rss_bytes, self.clock.now_ns
        began_ns, own_ns = now_ns(), time.thread_time_ns()
        while not self._quit.wait(pause_ns / 1e9) and run in self.runs_open()[-1:]:
            now = now_ns()
            age_ns = now - run.begin_ns
            try:
                with self._lock:
                    tree = self.reader.tree
                    level = tree.main.rss_bytes() if tree is not None else resident_bytes()
                    if abs(level - shown) >= MOVED_BYTES:
                        level = shown = self.reader.memory(now)
                    if now - self._looked_ns >= max(_LOOK_NS, age_ns // _OF_AGE):
                        self._looked_ns = now
                        self.reader.look(now)
                        self.gpus.read(now)
                run.peak_bytes = max(run.peak_bytes, level)
                # the sampler of a running recording reads the stacks itself
                if age_ns >= LONG_NS and statements.running() is None:
                    self.stacks.look()
                    if self.stacks.count > MOST_SAMPLES:
                        self.stacks.thin(MOST_SAMPLES // 2)
            except Exception as error:  # for example too many open files
                self.failures.append(f"{type(error).__name__}: {error}")
                return
            ahead_ns = (time.thread_time_ns() - own_ns) * _OWN_SHARE - (now_ns() - began_ns)
            pause_ns = max(SAMPLE_NS, ahead_ns, age_ns // (100 * _OF_AGE))
