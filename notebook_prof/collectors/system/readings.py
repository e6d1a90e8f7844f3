"""Turns records into counters and the table of CPU time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import IntArray
from . import process_tree
from .process_tree import FIELDS

Records = npt.NDArray[np.void]
_TYPE: Final = np.dtype([(name, "<i4" if place < 4 else "<i8") for place, name in enumerate(FIELDS)])
_TIMES: Final = (process_tree.PROCESS, process_tree.THREAD, process_tree.CHILD)

ENDED: Final = -1
"""Process number of the row that sums up children that ended between two readings."""
COLUMNS: Final = ("pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns")
KINDS: Final = ("process", "python", "native", "profiler", "child")
"""Kinds of rows: the process as a whole, its threads, and child processes as a whole."""


def decode(data: bytes | bytearray) -> Records:
    """Return records with a column for each field; a cut record at the end is left out."""
    whole = len(data) // _TYPE.itemsize
    return np.frombuffer(bytes(data[: whole * _TYPE.itemsize]), dtype=_TYPE)


def resident(records: Records) -> tuple[IntArray, IntArray, bool]:
    """Return times and bytes of resident memory, and whether their maximum is exact."""
    # where the system's maximum rose above the readings on both sides, it is put halfway between them
    rows = records[records["kind"] == process_tree.RSS]
    ts, level, highest = (rows[name].astype(np.int64) for name in ("ts", "a", "b"))
    hidden = np.flatnonzero(
        (highest[1:] > highest[:-1]) & (highest[1:] > np.maximum(level[1:], level[:-1])) & (np.diff(ts) > 1)
    )
    is_exact = len(highest) > 0 and bool(highest[-1] > highest[0])
    ts_between = ts[hidden] + np.diff(ts)[hidden] // 2
    level = np.insert(level, hidden + 1, highest[hidden + 1])
    return np.insert(ts, hidden + 1, ts_between), level, is_exact


def longest_gap_ns(records: Records) -> int:
    """Return the longest time between two readings of memory."""
    return int(np.diff(records["ts"][records["kind"] == process_tree.RSS]).max(initial=0))


def busy_share(records: Records, cores: float, interval_ns: int) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return times, and shares of all cores that the process used since the previous time."""
    rows = records[records["kind"] == process_tree.PROCESS]
    passes = np.unique(records["ts"][records["kind"] == process_tree.PASS])
    if len(rows) == 0 or len(passes) < 2:
        return np.empty(0, np.int64), np.empty(0)
    every = (passes - passes[0]) // interval_ns
    last = np.append(every[1:] != every[:-1], True)
    at = np.unique(np.append(passes[0], passes[last]))
    cpu = np.interp(at, rows["ts"], np.maximum.accumulate(rows["a"]))
    return at[1:], np.clip(np.diff(cpu) / np.diff(at) / cores, 0.0, 1.0)


def children_bytes(records: Records, ours: Collection[int], main: int) -> tuple[IntArray, IntArray]:
    """Return times and resident bytes of all child processes together; empty without any."""
    of_children = np.isin(records["kind"], (process_tree.CHILD, process_tree.GONE)) & (records["tid"] == -1)
    of_children &= ~np.isin(records["pid"], [*ours, main])
    rows = records[of_children]
    if not (rows["kind"] == process_tree.CHILD).any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    last = records["ts"][-1]
    here = rows["pid"][(rows["ts"] == last) & (rows["kind"] == process_tree.CHILD)]
    ended = np.unique(rows["pid"][~np.isin(rows["pid"], here)])
    ends = np.zeros(len(ended), rows.dtype)
    ends["kind"], ends["pid"], ends["ts"] = process_tree.GONE, ended, last
    rows = np.concatenate([rows, ends])
    order = np.lexsort((rows["ts"], rows["pid"]))
    pid, level = rows["pid"][order], np.where(rows["kind"] == process_tree.CHILD, rows["c"], 0)[order]
    before = np.where(np.append(False, pid[1:] == pid[:-1]), np.append(0, level[:-1]), 0)[: len(level)]
    ts = rows["ts"][order].astype(np.int64)
    moments, moment_index = np.unique(ts, return_inverse=True)
    change = np.bincount(moment_index, weights=level - before, minlength=len(moments))
    return moments, np.rint(np.cumsum(change)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Facts about the process itself."""

    pid: int
    ours: Collection[int]  # our own processes, which are left out
    threads: Mapping[int, str]  # name of each Python thread, by native number
    children: Mapping[int, str]  # name of each process started by ``multiprocessing``, by number
    ended_ns: int  # CPU time of all children reaped meanwhile


def cpu_table(records: Records, processes: ProcessFacts) -> pd.DataFrame:
    """Return the table of cumulative CPU time and waits (`COLUMNS`), sorted by process, thread and time."""
    # `tid` is -1 for a process as a whole; each has a row at the first and last instant, and where its times
    # changed
    passes = np.unique(records["ts"][records["kind"] == process_tree.PASS]).astype(np.int64)
    times = records[np.isin(records["kind"], _TIMES) & ~np.isin(records["pid"], [*processes.ours])]
    if not len(passes) or not len(times):
        return pd.DataFrame(columns=list(COLUMNS))
    names = last_names(records)
    keys = pd.MultiIndex.from_arrays([times["pid"], times["tid"]])
    parts = []
    for (pid, tid), rows in pd.Series(np.arange(len(times))).groupby(keys, sort=True).groups.items():
        own = times[np.asarray(rows)]
        name, kind = _name_and_kind(int(pid), int(tid), names, processes)
        parts.append(_changes(own, passes).assign(pid=pid, tid=tid, name=name, kind=kind))
    table = pd.concat(parts, ignore_index=True)
    if unseen_ns := _ended_unseen(table, records, processes):
        edges = pd.DataFrame({"ts": passes[[0, -1]], "cpu_ns": [0, unseen_ns], "wait_ns": [0, 0]})
        edges = edges.assign(pid=ENDED, tid=-1, name="children that ended at once", kind="child")
        table = pd.concat([table, edges], ignore_index=True)
    types = dict.fromkeys(("pid", "tid", "ts", "cpu_ns", "wait_ns"), "int64")
    return table[list(COLUMNS)].astype(types)


def _changes(own: Records, passes: IntArray) -> pd.DataFrame:
    """Return the rows of one thread or process. Extra rows keep its times flat until just before a change."""
    ts = own["ts"].astype(np.int64)
    cpu, wait = (np.maximum.accumulate(own[name]).astype(np.int64) for name in ("a", "b"))
    before = np.searchsorted(passes, ts, side="left") - 1
    unchanged = np.flatnonzero((before[1:] >= 0) & (passes[np.maximum(before[1:], 0)] > ts[:-1]))
    columns = {"ts": passes[before[1:][unchanged]], "cpu_ns": cpu[unchanged], "wait_ns": wait[unchanged]}
    frames = [pd.DataFrame({"ts": ts, "cpu_ns": cpu, "wait_ns": wait}), pd.DataFrame(columns)]
    if ts[0] > passes[0]:  # it began meanwhile, from 0
        born = np.unique(passes[[0, max(int(before[0]), 0)]])
        frames.append(pd.DataFrame({"ts": born, "cpu_ns": 0, "wait_ns": 0}))
    if ts[-1] < passes[-1]:
        frames.append(pd.DataFrame({"ts": passes[-1:], "cpu_ns": cpu[-1:], "wait_ns": wait[-1:]}))
    table = pd.concat(frames).sort_values(["ts", "cpu_ns"], kind="stable")
    return table.drop_duplicates("ts", keep="last")


def _ended_unseen(table: pd.DataFrame, records: Records, processes: ProcessFacts) -> int:
    """Return the CPU time of reaped children, minus what was seen of those that ended."""
    here = records["pid"][(records["kind"] == process_tree.CHILD) & (records["ts"] == records["ts"][-1])]
    final = table[table["kind"] == "child"].groupby("pid")["cpu_ns"].max()
    return max(0, processes.ended_ns - int(final[~final.index.isin(here)].sum()))


def last_names(records: Records) -> dict[tuple[int, int], str]:
    """Return the last name read of each thread and process."""
    rows = records[records["kind"] == process_tree.NAME]
    names: dict[tuple[int, int], bytes] = {}
    numbers = np.stack([rows[name] for name in ("a", "b", "c")], axis=1).astype("<i8")
    for i, first in enumerate(rows["place"].tolist()):  # a few per thread
        key = int(rows["pid"][i]), int(rows["tid"][i])
        names[key] = (names.get(key, b"") if first else b"") + numbers[i].tobytes()
    return {key: name.rstrip(b"\0").decode("utf-8", "replace") for key, name in names.items()}


def _name_and_kind(pid: int, tid: int, names: Mapping[Any, str], processes: ProcessFacts) -> tuple[str, str]:
    if pid == processes.pid and tid < 0:
        return "process", "process"
    if pid == processes.pid:
        name = processes.threads.get(tid)
        if name is None:
            return names.get((pid, tid)) or f"thread {tid}", "native"
        return name, "profiler" if name.startswith("notebook_prof") else "python"
    if pid in processes.children:
        return processes.children[pid], "child"
    return command_name(names.get((pid, -1), "")) or f"process {pid}", "child"


_COMMANDS: Final = {
    "multiprocessing.resource_tracker": "multiprocessing's resource tracker",
    "multiprocessing.forkserver": "multiprocessing's fork server",
    "multiprocessing.spawn": "multiprocessing's spawned process",
    "joblib.externals.loky": "joblib worker",
}


def command_name(command: str) -> str:
    """Shorten a command line: the program without its folder, and its arguments."""
    for word, name in _COMMANDS.items():
        if word in command:
            return name
    program, _, arguments = command.partition(" ")
    text = f"{program.rpartition('/')[2]} {arguments}".strip()
    return text if len(text) <= 60 else text[:59] + "…"
