"""Polls memory and CPU time in a thread of this process, and turns the records into counters and tables."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from array import array
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ... import own_processes
from ...trace.arrays import IntArray
from ...units import cut
from ..machine import live_children, live_threads
from ..patches import OWN_THREADS
from . import process_tree
from .process_tree import FIELDS, PASS, PROCESS, REAPED, RSS, ProcessTree

_FIELDS: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


def _libc() -> Any:
    """Return this process's C library; None if it lacks mallinfo2 (glibc before 2.33)."""
    libc = own_processes.libc() if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo2
    return libc


def freed_bytes() -> int:
    """Return the number of freed bytes that malloc has not returned to the system; 0 if unknown."""
    libc = _libc()
    return 0 if libc is None else int(libc.mallinfo2().fordblks)


def trim() -> None:
    """Make malloc return free pages to the system, even those between used blocks."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


MOVED_BYTES: Final = 2**19
"""Smallest change of memory that is worth a reading of its own."""


def resident_bytes() -> int:
    """Return how many bytes of this process are in physical memory (RSS)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split(None, 2)[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import psutil

        return int(psutil.Process().memory_info().rss)


class UsageReader:
    """Reads this process into records, from ``/proc`` or, without that, as a whole."""

    def __init__(self) -> None:
        self.data = array("q")  # the records, for `decode`
        self.threads: dict[int, str] = {}  # names of Python threads, and of processes of ``multiprocessing``
        self.children: dict[int, str] = {}
        self.tree: ProcessTree | None = None
        self._pid, self._reaped_ns = os.getpid(), -1
        with suppress(OSError):
            self.tree = ProcessTree("/proc", self._pid, self.data.extend, own_processes.pids())

    def memory(self, now: int) -> int:
        """Emit resident memory, and return it in bytes."""
        if self.tree is not None:
            return self.tree.memory(now)
        level = resident_bytes()
        self._put(RSS, now, level)
        return level

    def look(self, now: int) -> None:
        """Emit CPU times."""
        if self.tree is not None:
            self.tree.look(now)
            if self.tree.has_news:
                self.tree.has_news = False
                self.learn_names()
        else:
            self._put(PROCESS, now, time.process_time_ns())
            self._put(PASS, now, 0)
        # read after the tree, so that the sum includes every child that it reports as ended
        if (reaped_ns := _reaped_ns()) != self._reaped_ns:
            self._reaped_ns = reaped_ns
            self._put(REAPED, now, reaped_ns)

    def edge(self, now: int) -> None:
        """Emit exact CPU times of the calling thread and the process."""
        if self.tree is not None:
            self.tree.edge(now, threading.get_native_id())

    def learn_names(self) -> None:
        """Remember the names of the live threads and children."""
        self.threads |= live_threads()
        self.children |= live_children()

    def facts(self) -> ProcessFacts:
        """Return what the tables need to know about the process."""
        if self.tree is not None:
            self.tree.name_threads()
        names = {} if self.tree is None else self.tree.names
        return ProcessFacts(self._pid, own_processes.pids(), self.threads, self.children, names)

    def close(self) -> None:
        if self.tree is not None:
            self.tree.close()
        else:
            self.learn_names()

    def _put(self, kind: int, now: int, number: int) -> None:
        self.data.extend((kind, self._pid, -1, now, number, 0, 0))


def _reaped_ns() -> int:
    """Return the CPU time of the user's child processes that were reaped."""
    try:
        import resource
    except ImportError:
        return 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9) - own_processes.reaped_cpu_ns()


Records = npt.NDArray[np.void]
_TYPE: Final = np.dtype([(name, np.int64) for name in FIELDS])
_TIMES: Final = (process_tree.PROCESS, process_tree.THREAD, process_tree.CHILD)

ENDED: Final = -1
"""Process number of the row with the sum over children that ended between two readings."""
_THREAD: Final = ["pid", "tid"]
COLUMNS: Final = ("pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns")
"""Kinds are ``process`` and ``child``, each as a whole, and ``python native profiler`` for threads."""


def decode(data: array[int]) -> Records:
    """Return records with one column per field. An incomplete record at the end is left out."""
    return np.frombuffer(data[: len(data) // len(FIELDS) * len(FIELDS)], _TYPE)


def resident(records: Records) -> tuple[IntArray, IntArray, bool]:
    """Return times and bytes of resident memory, and whether their maximum is exact."""
    # if the system's maximum rose above the readings on both sides, it is put halfway between them
    rows = records[records["kind"] == process_tree.RSS]
    ts, level, highest = (rows[name] for name in ("ts", "a", "b"))
    hidden = np.flatnonzero(
        (highest[1:] > highest[:-1]) & (highest[1:] > np.maximum(level[1:], level[:-1])) & (np.diff(ts) > 1)
    )
    is_exact = len(highest) > 0 and bool(highest[-1] > highest[0])
    ts_between = ts[hidden] + np.diff(ts)[hidden] // 2
    level = np.insert(level, hidden + 1, highest[hidden + 1])
    return np.insert(ts, hidden + 1, ts_between), level, is_exact


def busy_share(records: Records, cores: float, interval_ns: int) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return times, and the share of all cores that the process used since the previous time."""
    rows = records[records["kind"] == process_tree.PROCESS]
    passes = np.unique(records["ts"][records["kind"] == process_tree.PASS])
    if len(rows) == 0 or len(passes) < 2:
        return np.empty(0, np.int64), np.empty(0)
    every = (passes - passes[0]) // interval_ns
    last = np.append(every[1:] != every[:-1], True)
    at = np.unique(np.append(passes[0], passes[last]))
    cpu = np.interp(at, rows["ts"], np.maximum.accumulate(rows["a"]))
    return at[1:], np.clip(np.diff(cpu) / np.diff(at) / cores, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Facts about the recorded process."""

    pid: int
    ours: Collection[int]  # our processes, which are left out
    threads: Mapping[int, str]  # name of each Python thread, by native number
    children: Mapping[int, str]  # name of each process started by ``multiprocessing``, by number
    names: Mapping[tuple[int, int], str]  # the system's names of threads, and commands of processes


def cpu_table(records: Records, processes: ProcessFacts) -> pd.DataFrame:
    """Return the table of cumulative CPU time and waits (`COLUMNS`), sorted by process, thread and time."""
    # `tid` is -1 for a process as a whole. Each thread or process has a row at the first and last instant,
    # and where its times changed.
    passes = np.unique(records["ts"][records["kind"] == process_tree.PASS])
    times = records[np.isin(records["kind"], _TIMES) & ~np.isin(records["pid"], [*processes.ours])]
    if not len(passes) or not len(times):
        return pd.DataFrame(columns=list(COLUMNS))
    table = _changes(times, passes)
    own = table[_THREAD].drop_duplicates()
    named = [_name_and_kind(pid, tid, processes) for pid, tid in own.to_numpy().tolist()]
    table = table.merge(own.assign(**dict(zip(("name", "kind"), zip(*named, strict=True), strict=True))))
    unseen_ns = _ended_unseen(table, records, passes)
    if unseen_ns[-1]:
        unseen = pd.DataFrame({"ts": passes, "cpu_ns": unseen_ns, "wait_ns": 0})
        changes = unseen["cpu_ns"].diff(-1).ne(0) | unseen["cpu_ns"].diff().ne(0)
        unseen = unseen[changes].assign(pid=ENDED, tid=-1, name="children that ended at once", kind="child")
        table = pd.concat([table, unseen], ignore_index=True)
    types = dict.fromkeys(("pid", "tid", "ts", "cpu_ns", "wait_ns"), "int64")
    return table[list(COLUMNS)].astype(types)


def child_memory(records: Records, processes: ProcessFacts) -> pd.DataFrame:
    """Return each child's own resident bytes over time: ``pid name ts bytes``, a step function."""
    of_children = np.isin(records["kind"], (process_tree.CHILD, process_tree.GONE)) & (records["tid"] == -1)
    rows = records[of_children & ~np.isin(records["pid"], [*processes.ours, processes.pid])]
    rows = rows[np.argsort(rows["pid"], kind="stable")]
    pid, ts, level = (rows[name] for name in ("pid", "ts", "c"))
    before = pd.Series(level).groupby(pid).shift(fill_value=0).to_numpy()
    # date a decrease right after the previous reading: until the next one, the parent may use that memory
    passes = np.unique(records["ts"][records["kind"] == process_tree.PASS])
    last = passes[np.maximum(np.searchsorted(passes, ts, side="left") - 1, 0)]
    table = pd.DataFrame({"pid": pid, "ts": np.where(level < before, last + 1, ts), "bytes": level})
    table = table[level != before].reset_index(drop=True)
    named = {one: _name_and_kind(one, -1, processes)[0] for one in table["pid"].unique().tolist()}
    table.insert(1, "name", table["pid"].map(named).astype("object"))
    return table


def total_bytes(table: pd.DataFrame) -> pd.Series[int]:
    """Return the sum over all children of `child_memory`, by time."""
    change = table["bytes"] - table.groupby("pid")["bytes"].shift(fill_value=0)
    return change.groupby(table["ts"]).sum().cumsum()


def _changes(times: Records, passes: IntArray) -> pd.DataFrame:
    """Return the rows at which times changed, with extra ones that keep them constant until just before."""
    spent = ["cpu_ns", "wait_ns"]
    table = pd.DataFrame(times)[[*_THREAD, "ts", "a", "b"]].set_axis([*_THREAD, "ts", *spent], axis=1)
    table[spent] = table.groupby(_THREAD)[spent].cummax()
    own = table.groupby(_THREAD)
    previous = own[["ts", *spent]].shift(fill_value=0)
    before = np.searchsorted(passes, table["ts"]) - 1
    until = table[_THREAD].assign(ts=passes[np.maximum(before, 0)], **previous[spent])
    until = until[(before >= 0) & (until["ts"] > previous["ts"])]
    # what began during the recording began at 0
    first = own.head(1).loc[lambda rows: rows["ts"] > passes[0]].assign(ts=passes[0], cpu_ns=0, wait_ns=0)
    last = own.tail(1).loc[lambda rows: rows["ts"] < passes[-1]].assign(ts=passes[-1])
    table = pd.concat([table, until, first, last]).sort_values([*_THREAD, "ts", "cpu_ns"])
    return table.drop_duplicates([*_THREAD, "ts"], keep="last")


def _ended_unseen(table: pd.DataFrame, records: Records, passes: IntArray) -> IntArray:
    """Return, at each pass, the CPU time of reaped children, minus the recorded times of those that ended."""
    reaped = records[records["kind"] == process_tree.REAPED]
    if not len(reaped):
        return np.zeros(len(passes), np.int64)
    total = reaped["a"][np.maximum(np.searchsorted(reaped["ts"], passes, side="right") - 1, 0)]
    gone = records[(records["kind"] == process_tree.GONE) & (records["tid"] == -1)]
    final = table[table["kind"] == "child"].groupby("pid")["cpu_ns"].max()
    seen_ns = final.reindex(gone["pid"], fill_value=0).to_numpy(np.int64)
    until = np.append(0, np.cumsum(seen_ns))[np.searchsorted(gone["ts"], passes, side="right")]
    unseen = total - reaped["a"][0] - until
    # a child may be reaped after its end was read and before the sum is read
    return np.maximum(np.minimum.accumulate(unseen[::-1])[::-1], 0)


def _name_and_kind(pid: int, tid: int, processes: ProcessFacts) -> tuple[str, str]:
    if pid == processes.pid and tid < 0:
        return "process", "process"
    if pid == processes.pid:
        name = processes.threads.get(tid)
        if name is None:
            return processes.names.get((pid, tid)) or f"thread {tid}", "native"
        return name, "profiler" if name.startswith(OWN_THREADS) else "python"
    if pid in processes.children:
        return processes.children[pid], "child"
    return short_command(processes.names.get((pid, -1), "")) or f"process {pid}", "child"


def short_command(command: str) -> str:
    """Return a command in one line, without the program's folder: "python3 -c import time"."""
    program, _, arguments = " ".join(command.split()).partition(" ")
    return cut(f"{os.path.basename(program)} {arguments}".strip(), 60)
