"""Counters and CPU times of the process, its threads and its children."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from notebook_prof.collectors.machine import usable_cores, usable_cpus
from notebook_prof.collectors.system import CHILDREN_TRACK, RSS_TRACK, SystemCollector
from notebook_prof.collectors.system.polling import resident_bytes
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock
from notebook_prof.units import format_bytes

from ..new_process import run_python
from ..recorded import recorded as recorded_by

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux' /proc")
pytestmark = pytest.mark.clock("reads a real process at equal times: a busy machine gives fewer readings")

MB = 2**20


@pytest.fixture(autouse=True)
def _no_other_children() -> None:
    """End what multiprocessing keeps running in this process after tests of DataLoaders."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def recorded(body: Callable[[], object] = lambda: time.sleep(0.3)) -> Trace:
    return recorded_by(SystemCollector(), body)


def counter(trace: Trace, name: str) -> np.ndarray:  # type: ignore[type-arg]
    key = trace.tracks.set_index("name").loc[name, "track"]
    return trace.counters.loc[trace.counters["track"] == key, "value"].to_numpy()


def cpu(trace: Trace) -> pd.DataFrame:
    table: pd.DataFrame = trace.metadata["tables"]["cpu"]
    return table


def used(table: pd.DataFrame) -> pd.Series:
    each = table.groupby(["pid", "tid", "name"])["cpu_ns"]
    return (each.last() - each.first()).groupby("name").sum() / 1e6


def spin(seconds: float = 0.25) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def in_c(size: int, seconds: float) -> None:
    """Take memory and give it back in C code that holds the GIL all the time."""
    library = ctypes.PyDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.usleep.argtypes = [ctypes.c_uint]
    address = library.malloc(size)
    library.memset(address, 1, size)
    library.usleep(int(seconds * 1e6))
    library.free(address)


def highest_bytes() -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


@linux
def test_a_new_peak_inside_c_code_is_the_systems() -> None:
    free = highest_bytes() - resident_bytes()
    trace = recorded(lambda: in_c(free + 300 * MB, 0.05))
    assert counter(trace, RSS_TRACK).max() == pytest.approx(highest_bytes(), rel=0.005)
    assert not trace.report


@linux
def test_a_peak_below_an_earlier_one_is_said_to_be_sampled() -> None:
    in_c(300 * MB, 0.0)
    before = highest_bytes()
    trace = recorded(lambda: in_c(200 * MB, 0.2))
    assert highest_bytes() == before
    assert [issue.code for issue in trace.report] == ["memory-peak-sampled"]
    assert format_bytes(before) in next(iter(trace.report)).effect


SPIN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def kernels() -> set[int]:
    """Return the children that earlier tests keep for later ones."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def memory_of_children(trace: Trace) -> np.ndarray:
    """Return the memory of children, less that of the kernels."""
    memory = counter(trace, CHILDREN_TRACK)
    return memory - memory[0] if kernels() else memory


@linux
def test_children_are_counted_whole_also_when_they_have_ended() -> None:
    trace = recorded(lambda: run_python(SPIN.format(0.3)))
    children = cpu(trace)[cpu(trace)["kind"] == "child"]
    total = used(children).sum()
    assert 300 < total < 450, children
    assert children["name"].str.contains("python").any()
    memory = memory_of_children(trace)
    assert memory.max() > 2 * MB
    assert abs(memory[-1]) <= (MB if kernels() else 0)  # a kernel breathes


FORKED = """
    import json, os, time
    from notebook_prof.analysis import memory_processes
    from notebook_prof.collectors.system import SystemCollector
    from tests.recorded import recorded

    shared, (seen, told), (stay, leave) = b"x" * (300 << 20), os.pipe(), os.pipe()

    def body():
        global child
        child = os.fork()
        if not child:
            own = b"y" * (100 << 20)
            os.write(told, own[:1])
            os.close(leave)
            os.read(stay, 1)
            os._exit(0)
        os.read(seen, 1)
        time.sleep(1)  # where there are many processes, children are looked for every half second

    trace = recorded(SystemCollector(), body)
    os.close(leave)
    os.waitpid(child, 0)
    print(json.dumps({"child": child, "rows": memory_processes(trace).to_dict("records")}))
"""


@linux
def test_memory_of_a_forked_child_is_what_it_has_of_its_own() -> None:
    """Runs in a new process: leftovers of earlier tests in this one may change during the measurement."""
    found = json.loads(run_python(FORKED).stdout)
    first, child = found["rows"]
    assert child["pid"] == found["child"]
    assert 90 * MB < child["bytes"] < 120 * MB, found
    assert first["kind"] == "process"
    assert first["bytes"] > 300 * MB


def test_without_proc_the_process_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def closed(path: object, *more: object, **named: object) -> int:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return opened(path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("os.open", closed)
    trace = recorded(lambda: spin(0.5))
    assert len(counter(trace, RSS_TRACK)) > 2
    assert used(cpu(trace).query("kind == 'process'"))["process"] == pytest.approx(500, abs=100)
    assert not trace.report


def test_without_proc_children_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.collectors.system.polling.ProcessTree", _no_tree)
    trace = recorded(lambda: run_python("sum(range(5_000_000))"))
    assert [issue.code for issue in trace.report] == ["children-not-read"]


def _no_tree(*_: object) -> None:
    raise FileNotFoundError


def test_fifty_recordings_leave_no_thread_no_file_and_no_process() -> None:
    before = set(threading.enumerate())
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for turn in range(50):
        collector = SystemCollector()
        collector.start(Clock())
        if turn % 2:
            collector.stop()
            collector.result(TraceBuilder())
        collector.abandon()
        collector.abandon()
    assert set(threading.enumerate()) <= before
    if files:  # files of other tests may be closed meanwhile
        assert len(os.listdir("/proc/self/fd")) <= files


@linux
def test_a_quota_leaves_fewer_cores(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/pod/box\n")
    (tmp_path / "pod" / "box").mkdir(parents=True)
    (tmp_path / "pod" / "box" / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path, own) == usable_cpus()
    (tmp_path / "pod" / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path, own) == 0.5
    own.write_text("4:cpu,cpuacct:/a\n3:memory:/b\n")
    (tmp_path / "cpu" / "a").mkdir(parents=True)
    (tmp_path / "cpu" / "a" / "cpu.cfs_quota_us").write_text("25000\n")
    (tmp_path / "cpu" / "a" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path, own) == 0.25
