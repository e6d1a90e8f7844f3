"""The process that reads memory and CPU time from outside: on a folder like /proc, and on real processes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.collectors.system import readings, watcher
from notebook_prof.collectors.system.readings import ProcessFacts, cpu_table, decode, resident
from notebook_prof.collectors.system.watcher import Tree, Watcher
from notebook_prof.collectors.system.watching import Spare

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MAIN = 9_000_001
linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux' /proc")
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the watcher is for systems with fork"),
    pytest.mark.clock("a real process reads another at equal times"),
]


class Proc:
    """A folder like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def process(self, pid: int, pages: int, command: str = "python\0train.py\0") -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "statm").write_text(f"9 {pages} 0 0 0 0 0\n")
        (folder / "cmdline").write_text(command)

    def thread(self, pid: int, tid: int, ran: int, waited: int, children: tuple[int, ...] = ()) -> None:
        folder = self.root / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{ran} {waited} 7\n")
        (folder / "children").write_text(" ".join(map(str, children)))
        (folder / "comm").write_text(f"name {tid}\n")

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


def watched(proc: Proc, *changes: object) -> np.ndarray:  # type: ignore[type-arg]
    """Records of a look at every 100 ns, each after one more change."""
    data = bytearray()
    tree = Tree(str(proc.root), MAIN, data.extend)
    for turn, change in enumerate((None, *changes)):
        if callable(change):
            change()
        tree.memory(100 * turn)
        tree.look(100 * turn)
    tree.close()
    return decode(data)


def process_facts(**more: object) -> ProcessFacts:
    facts = {"ours": (), "threads": {MAIN: "MainThread"}, "children": {}, "ended_ns": 0, **more}
    return ProcessFacts(MAIN, **facts)  # type: ignore[arg-type]


def of(table: object, pid: int, tid: int = -1) -> list[list[int]]:
    rows = table[(table["pid"] == pid) & (table["tid"] == tid)]  # type: ignore[index]
    return rows[["ts", "cpu_ns", "wait_ns"]].values.tolist()  # type: ignore[no-any-return]


def test_only_what_changed_is_reported_and_idle_time_stays_idle(proc: Proc) -> None:
    records = watched(proc, None, None, lambda: proc.thread(MAIN, MAIN, 1090, 12), None)
    assert (records["kind"] == watcher.THREAD).sum() == 2
    table = cpu_table(records, process_facts())
    assert of(table, MAIN, MAIN) == [[0, 1000, 10], [200, 1000, 10], [300, 1090, 12], [400, 1090, 12]]
    assert of(table, MAIN) == of(table, MAIN, MAIN)  # one thread is the whole process
    assert table[table["tid"] == MAIN]["name"].unique().tolist() == ["MainThread"]
    assert set(table["kind"]) == {"process", "python"}


def test_a_thread_that_comes_and_goes(proc: Proc) -> None:
    def come() -> None:
        proc.thread(MAIN, 7, 50, 5)

    def work() -> None:
        proc.thread(MAIN, 7, 140, 5)

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

    def end() -> None:
        proc.thread(MAIN, MAIN, 1000, 10)

    records = watched(proc, fork, end, None)
    table = cpu_table(records, process_facts(ours=(ours,), ended_ns=600))
    assert of(table, child) == [[0, 0, 0], [100, 500, 4], [300, 500, 4]]
    assert of(table, grandchild)[-1] == [300, 9, 0]
    assert of(table, ours) == []
    assert of(table, readings.ENDED) == [[0, 0, 0], [300, 600 - 509, 0]]
    names = table.drop_duplicates("pid").set_index("pid")["name"].to_dict()
    assert names[child] == "python3 worker.py"
    ts, level = readings.children_bytes(records, (ours,), MAIN)
    assert (ts.tolist(), level.tolist()) == ([100, 200, 300], [35 * PAGE, 0, 0])


def test_kernels_that_do_not_list_children_are_searched(proc: Proc) -> None:
    (proc.root / str(MAIN) / "task" / str(MAIN) / "children").unlink()
    proc.process(MAIN + 1, 5)
    proc.thread(MAIN + 1, MAIN + 1, 5, 0)
    (proc.root / str(MAIN + 1) / "stat").write_text(f"{MAIN + 1} (a ) b) S {MAIN} 1 1")
    data = bytearray()
    tree = Tree(str(proc.root), MAIN, data.extend)
    tree.look(10**10)
    assert list(tree.descendants) == [MAIN + 1]
    tree.close()


def test_kernels_without_scheduler_statistics_count_ticks(proc: Proc) -> None:
    folder = proc.root / str(MAIN) / "task" / str(MAIN)
    (folder / "schedstat").unlink()
    (folder / "stat").write_text(f"{MAIN} (py) R " + " ".join(str(n) for n in range(4, 14)) + " 30 20 0 0")
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    table = cpu_table(watched(proc), process_facts())
    assert of(table, MAIN)[0] == [0, 50 * tick, 0]


def test_a_high_water_mark_that_moved_is_the_peak(proc: Proc) -> None:
    records = watched(proc, lambda: proc.process(MAIN, 500), lambda: proc.process(MAIN, 200))
    assert resident(records, (900, 900))[1].tolist() == [100 * PAGE, 500 * PAGE, 200 * PAGE]
    assert resident(records, (0, 777 * PAGE))[1].tolist() == [100 * PAGE, 777 * PAGE, 200 * PAGE]


def test_it_serves_until_the_socket_closes(proc: Proc) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    thread = threading.Thread(target=Watcher(theirs, MAIN, str(proc.root)).serve)
    thread.start()
    for _ in range(2):
        ours.send(b"s")
        time.sleep(0.06)
        ours.send(b"e")
        data = b""
        while not data or decode(data)["kind"][-1] != watcher.END:
            data += ours.recv(2**16)
        records = decode(data)
        memory = records[records["kind"] == watcher.RSS]
        assert len(memory) >= 3  # every 20 ms, as nothing moves
        assert set(memory["a"]) == {100 * PAGE}
        assert len(np.unique(memory["ts"])) == len(memory)
    ours.close()
    thread.join(10)
    assert not thread.is_alive()
    theirs.close()


def test_it_ends_by_itself_when_nobody_asks(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "IDLE_S", 0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Watcher(theirs, MAIN, str(proc.root)).serve()


def test_intervals_double_in_a_long_recording(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "DOUBLE_EVERY", 10)
    monkeypatch.setattr(watcher, "STILL_EVERY", 1)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    thread = threading.Thread(target=Watcher(theirs, MAIN, str(proc.root)).serve)
    thread.start()
    ours.send(b"s")
    time.sleep(0.4)
    ours.send(b"e")
    data = b""
    while not data or decode(data)["kind"][-1] != watcher.END:
        data += ours.recv(2**16)
    ours.close()
    thread.join(10)
    theirs.close()
    memory = decode(data)
    memory = memory[memory["kind"] == watcher.RSS]
    assert 10 < len(memory) < 60  # 100 at 4 ms


def watchers_of(pid: int) -> list[int]:
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        ours = any(word.endswith(b"watcher.py") for word in words) and str(pid).encode() in words
        if ours and parent != pid:  # else it is the one that starts the watcher
            pids.append(int(folder.name))
    return pids


def states(pid: int) -> list[str]:
    """What the watchers that are left wait for."""
    return [Path(f"/proc/{one}/{file}").read_text() for one in watchers_of(pid) for file in ("stat", "wchan")]


def started(pid: int, but: Collection[int] = ()) -> list[int]:
    """The one watcher of a process that is not among `but`, once it is there."""
    end = time.monotonic() + 20
    while len(pids := [one for one in watchers_of(pid) if one not in but]) != 1:
        if time.monotonic() >= end:
            break
        time.sleep(0.01)
    return pids


def gone(pid: int, seconds: float, but: Collection[int] = ()) -> bool:
    """Whether no watcher of a process is left but those of `but`, within so many seconds."""
    end = time.monotonic() + seconds
    while (left := set(watchers_of(pid)) - set(but)) and time.monotonic() < end:
        time.sleep(0.01)
    return not left


@linux
@pytest.mark.parametrize("how", ["killed", "killed while a child holds its files", "ends", "dropped"])
def test_it_dies_with_the_process(how: str) -> None:
    code = (
        "import os, time, subprocess, sys\n"
        "from notebook_prof.collectors.system.watching import spare\n"
        "spare.prepare(); connection = spare.take(); connection.tell(b's')\n"
        "if 'child' in sys.argv[1] and os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "if sys.argv[1] == 'dropped': spare.give(connection); spare.drop()\n"
        "print('ready', flush=True)\n"
        "time.sleep(0 if sys.argv[1] == 'ends' else 60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, how], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        if how.startswith("killed"):
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        elif how == "ends":
            process.wait()
        assert gone(process.pid, 20), states(process.pid)  # at once, but machines that run tests are slow
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@linux
def test_it_is_nobodys_child_and_hears_no_interrupt() -> None:
    others = watchers_of(os.getpid())  # of recordings of other tests in this process
    spare = Spare()
    spare.prepare()
    assert spare._spare is not None
    spare._spare.settle(20)
    (pid,) = started(os.getpid(), others)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    children = [
        Path(f"/proc/{one}/cmdline")
        for task in Path("/proc/self/task").iterdir()
        for one in (task / "children").read_text().split()
    ]
    assert not [one for one in children if b"watcher.py" in one.read_bytes()], "what started it is waited for"
    assert os.getpgid(pid) != os.getpgid(0)
    connection = spare.take()
    assert spare._spare is None
    spare.give(connection)
    spare.prepare()
    assert started(os.getpid(), others) == [pid], "the one that waits is used again"
    os.kill(pid, signal.SIGKILL)
    assert gone(os.getpid(), 20, others)
    select.select([connection.socket], [], [], 20)
    spare.prepare()
    assert started(os.getpid(), others) != [pid]
    spare.drop()
    assert gone(os.getpid(), 20, others)
