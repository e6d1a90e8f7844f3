"""Memory and CPU times of a process, its threads and its children, read from a folder like /proc."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.collectors.system import polling, process_tree
from notebook_prof.collectors.system.polling import (
    ProcessFacts,
    child_memory,
    cpu_table,
    decode,
    resident,
    total_bytes,
)
from notebook_prof.collectors.system.process_tree import ProcessTree

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MAIN = 9_000_001
pytestmark = pytest.mark.skipif(
    not hasattr(os, "pread"), reason="/proc is read where files can be read in place"
)


class Proc:
    """A folder like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def process(self, pid: int, pages: int, command: str = "python\0train.py\0", shared: int = 0) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "statm").write_text(f"9 {pages} {shared} 0 0 0 0\n")
        (folder / "cmdline").write_text(command)

    def thread(self, pid: int, tid: int, ran: int, waited: int, children: tuple[int, ...] = ()) -> None:
        folder = self.root / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{ran} {waited} 7\n")
        (folder / "children").write_text(" ".join(map(str, children)))
        (folder / "comm").write_text(f"name {tid}\n")

    def child(self, pid: int, pages: int, ran: int, waited: int = 0) -> None:
        """Make this the main thread's only child."""
        self.process(pid, pages)
        self.thread(pid, pid, ran, waited)
        self.thread(MAIN, MAIN, 1000, 10, (pid,))

    def flags(self, pid: int, flags: int) -> None:
        """Write the kernel's flags of a process: 0x40 until it executes a program."""
        (self.root / str(pid) / "stat").write_text(f"{pid} (a ) b) S {MAIN} 1 1 0 -1 {flags} 0 0 0\n")

    def end(self, path: str) -> None:
        for file in sorted((self.root / path).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        (self.root / path).rmdir()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.process(MAIN, 100)
    made.thread(MAIN, MAIN, 1000, 10)
    return made


NAMES: dict[tuple[int, int], str] = {}
"""The names that `watched` read last."""


def watched(proc: Proc, *changes: object) -> np.ndarray:  # type: ignore[type-arg]
    """Records of a look at every 100 ns, each after one more change."""
    data = array("q")
    tree = ProcessTree(str(proc.root), MAIN, data.extend)
    tree.names = NAMES
    NAMES.clear()
    for turn, change in enumerate((None, *changes)):
        if callable(change):
            change()
        tree.memory(100 * turn)
        tree.look(100 * turn)
    tree.close()
    return decode(data)


def reaped(*readings: tuple[int, int]) -> np.ndarray:  # type: ignore[type-arg]
    """Records of the CPU time of all children that were waited for."""
    rows = ((process_tree.REAPED, MAIN, -1, ts, ran, 0, 0) for ts, ran in readings)
    return decode(array("q", chain.from_iterable(rows)))


def process_facts(**more: object) -> ProcessFacts:
    facts = {"ours": (), "threads": {MAIN: "MainThread"}, "children": {}, "names": NAMES, **more}
    return ProcessFacts(MAIN, **facts)  # type: ignore[arg-type]


def of(table: object, pid: int, tid: int = -1) -> list[list[int]]:
    rows = table[(table["pid"] == pid) & (table["tid"] == tid)]  # type: ignore[index]
    return rows[["ts", "cpu_ns", "wait_ns"]].values.tolist()  # type: ignore[no-any-return]


def test_only_what_changed_is_reported_and_idle_time_stays_idle(proc: Proc) -> None:
    records = watched(proc, None, None, lambda: proc.thread(MAIN, MAIN, 1090, 12), None)
    assert (records["kind"] == process_tree.THREAD).sum() == 2
    table = cpu_table(records, process_facts())
    assert of(table, MAIN, MAIN) == [[0, 1000, 10], [200, 1000, 10], [300, 1090, 12], [400, 1090, 12]]
    assert of(table, MAIN) == of(table, MAIN, MAIN)  # one thread is the whole process
    assert table[table["tid"] == MAIN]["name"].unique().tolist() == ["MainThread"]
    assert set(table["kind"]) == {"process", "python"}


def test_a_thread_that_comes_and_goes(proc: Proc) -> None:
    come, work = (partial(proc.thread, MAIN, 7, ran, 5) for ran in (50, 140))
    records = watched(proc, None, come, work, lambda: proc.end(f"{MAIN}/task/7"), None)
    table = cpu_table(records, process_facts())
    # files of a folder can be read after they were removed; those of /proc cannot
    assert of(table, MAIN, 7)[:4] == [[0, 0, 0], [100, 0, 0], [200, 50, 5], [300, 140, 5]]
    assert of(table, MAIN, 7)[-1] == [500, 140, 5]
    assert table.loc[table["tid"] == 7, "name"].unique().tolist() == ["name 7"]
    assert of(table, MAIN)[-1] == [500, 1140, 15]


def test_children_and_their_children_are_whole_processes(proc: Proc) -> None:
    child, grandchild, ours = MAIN + 1, MAIN + 2, MAIN + 3

    def fork() -> None:
        proc.process(child, 30, "/usr/bin/python3\0worker.py\0")
        proc.thread(child, child, 400, 3, (grandchild,))
        proc.thread(child, child + 10, 100, 1)
        proc.process(grandchild, 5)
        proc.thread(grandchild, grandchild, 9, 0)
        proc.process(ours, 99)
        proc.thread(ours, ours, 10**6, 0)
        proc.thread(MAIN, MAIN, 1000, 10, (child, ours))

    end = partial(proc.thread, MAIN, MAIN, 1000, 10)
    records = np.append(watched(proc, fork, end, None), reaped((0, 40), (200, 640)))
    records = records[np.argsort(records["ts"], kind="stable")]
    table = cpu_table(records, process_facts(ours=(ours,)))
    assert of(table, child) == [[0, 0, 0], [100, 500, 4], [300, 500, 4]]
    assert of(table, grandchild)[-1] == [300, 9, 0]
    assert of(table, ours) == []
    assert of(table, polling.ENDED) == [[0, 0, 0], [100, 0, 0], [200, 91, 0], [300, 91, 0]]
    names = table.drop_duplicates("pid").set_index("pid")["name"].to_dict()
    assert names[child] == "python3 worker.py"
    memory = child_memory(records, process_facts(ours=(ours,)))
    assert set(memory["name"]) == {"python3 worker.py", "python train.py"}
    # what was there at a look and is gone at the next one does not last until that
    assert total_bytes(memory).to_dict() == {100: 35 * PAGE, 101: 0}


def test_a_forked_child_has_no_pages_of_its_parent(proc: Proc) -> None:
    child, levels = MAIN + 1, []
    proc.process(MAIN, 1000, shared=100)

    def reads(pages: int, shared: int = 0, flags: int = 0x400040) -> Callable[[], None]:
        def change() -> None:
            proc.process(child, pages, "sh\0-c\0true\n true\0", shared)
            proc.flags(child, flags)
            proc.thread(child, child, len(levels), 0)
            proc.thread(MAIN, MAIN, 1000, 10, (child,))
            levels.append(pages)

        return change

    turns = (reads(905), reads(1405), reads(1420, 20), reads(300), reads(350), reads(40, 30, 0x400000))
    memory = child_memory(watched(proc, *turns), process_facts())
    # 900 of its parent's; 500 more; shared memory; 605 freed, so that at most 300 are its parent's; 50 more;
    # a program of its own
    at = [(100, 5), (200, 505), (300, 500), (400, 0), (500, 50), (600, 10)]
    falls = {300: 201, 400: 301, 600: 501}
    assert memory[["ts", "bytes"]].values.tolist() == [[falls.get(ts, ts), n * PAGE] for ts, n in at]
    assert set(memory["name"]) == {"sh -c true true"}


def test_a_child_that_starts_a_program_by_vfork_is_not_its_parent_again(proc: Proc) -> None:
    def vfork() -> None:
        proc.child(MAIN + 1, 100, 0)
        proc.flags(MAIN + 1, 0x40)

    assert child_memory(watched(proc, vfork, None), process_facts()).empty


def test_a_child_that_ended_between_its_reading_and_the_sum_counts_once(proc: Proc) -> None:
    fork, end = partial(proc.child, MAIN + 1, 30, 400, 3), partial(proc.thread, MAIN, MAIN, 1000, 10)
    records = watched(proc, fork, end)
    records = np.append(records, reaped((0, 0), (100, 400)))
    assert of(cpu_table(records, process_facts()), polling.ENDED) == []


def test_kernels_without_scheduler_statistics_count_ticks(proc: Proc) -> None:
    folder = proc.root / str(MAIN) / "task" / str(MAIN)
    (folder / "schedstat").unlink()
    (folder / "stat").write_text(f"{MAIN} (py) R " + " ".join(str(n) for n in range(4, 14)) + " 30 20 0 0")
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    table = cpu_table(watched(proc), process_facts())
    assert of(table, MAIN)[0] == [0, 50 * tick, 0]


def test_a_peak_between_two_readings_is_the_systems(proc: Proc) -> None:
    def highest(pages: int, now: int) -> None:
        (proc.root / str(MAIN) / "status").write_text(f"VmHWM:\t{pages * PAGE // 1024} kB\nThreads:\t1\n")
        proc.process(MAIN, now)

    highest(900, 100)
    below = watched(proc, lambda: highest(900, 500), lambda: highest(900, 200))
    ts, level, is_exact = resident(below)
    assert (level.tolist(), is_exact) == ([100 * PAGE, 500 * PAGE, 200 * PAGE], False)
    highest(900, 100)
    above = watched(proc, lambda: highest(950, 950), lambda: highest(2000, 200), lambda: highest(2000, 100))
    ts, level, is_exact = resident(above)
    assert ts.tolist() == [0, 100, 150, 200, 300]
    assert (level / PAGE).tolist() == [100, 950, 2000, 200, 100]
    assert is_exact
