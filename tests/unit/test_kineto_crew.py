"""Several processes read one file: the same comes out, whoever takes what, and whatever happens to them."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from notebook_prof.errors import NotebookProfError
from notebook_prof.readers import processes, read_trace
from notebook_prof.readers.kineto import crew, mate, parser
from notebook_prof.readers.kineto.split import EventText
from notebook_prof.readers.kineto.taking import Taken, Taker
from notebook_prof.readers.processes import ShareLost, further_processes, one_process
from notebook_prof.readers.stream import in_pieces
from notebook_prof.trace import TABLES, ImportReport, Trace
from notebook_prof.trace.strings import Coded
from tests import samples

PATIENCE_S = 60
LARGE_BYTES = 300_000
SAMPLES = [
    name
    for name, told in samples.expected().items()
    if told["source"] == "kineto"
    and not (samples.path_of(name).exists() and samples.path_of(name).stat().st_size > LARGE_BYTES)
]
"""Of each kind of file there is a small one."""
OLD = "shared/kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"


class Inside:
    """Stands for a process: takes what it is given in this one, and is free by chance."""

    def __init__(self, taker: Taker) -> None:
        self._taker = Taker(taker.small, taker.array)
        self._chance = random.Random(taker.array)

    def is_free(self) -> bool:
        return self._chance.random() < 0.4

    def give(self, text: EventText, at_least: int) -> bool:
        some = False
        for _ in range(self._chance.randint(1, 3)):
            part, last = text.peek(at_least)
            if last:
                break
            decoded = self._taker.take(memoryview(bytes(part)), last=False)
            if decoded is None or decoded.tail is not None:
                raise ShareLost
            text.skip()
            some = True
        if some:
            self._taker.end_part()
        return some

    def taken(self) -> Taken:
        found: Taken = pickle.loads(pickle.dumps(self._taker.taken()))
        return found

    def end(self) -> None:
        pass


def exactly(value: Any) -> Any:
    """Something that is equal only if all is: also numbers of texts, and types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [exactly(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [exactly(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, pd.DataFrame):
        return [(name, exactly(column.to_numpy())) for name, column in value.items()]
    if isinstance(value, Coded):
        return [exactly(np.asarray(value.codes)), list(value.values)]
    if isinstance(value, msgspec.Struct):
        return [exactly(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, pd.DataFrame):
        return [list(value.columns), exactly(value.to_numpy())]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes()]
    return [exactly(each) for each in value] if isinstance(value, list | tuple) else value


def parsed(path: Path, processes: int) -> Any:
    report = ImportReport()
    try:
        found = parser.parse(in_pieces(path, ImportReport()) or (), report, path.name, processes=processes)
    except NotebookProfError as error:
        return repr(error)
    return exactly(found.columns), found.facts, list(report)


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_does_not_matter_who_takes_what(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = samples.path_of(sample)
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    size = len(next(in_pieces(path, ImportReport()) or iter([b""]), b""))
    monkeypatch.setattr(parser, "CHUNK_BYTES", max(size // 40, 200))
    monkeypatch.setattr(crew, "Mate", Inside)
    assert parsed(path, 2) == parsed(path, 0)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[subprocess.Popen[bytes]]]]:
    """Small files are shared by three processes, each of which gets work; tells the processes started."""
    monkeypatch.setattr(processes, "WORTH_BYTES", 0)
    monkeypatch.setattr(processes, "cpus", lambda: 3)
    monkeypatch.setattr(processes, "_can_start", lambda: True)
    monkeypatch.setattr(parser, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(mate, "SHARE_BYTES", 60_000)
    monkeypatch.setattr(mate, "SLOT_BYTES", 90_000)
    started: list[subprocess.Popen[bytes]] = []
    share, start = crew.Crew.share, mate._started

    def patiently(self: crew.Crew, text: EventText, at_least: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while not all(each.is_free() for each in self._mates if each._process) and time.monotonic() < end:
            time.sleep(0.001)
        share(self, text, at_least)

    def noted(memory: int, told: list[Any]) -> subprocess.Popen[bytes]:
        started.append(start(memory, told))
        return started[-1]

    monkeypatch.setattr(crew.Crew, "share", patiently)
    monkeypatch.setattr(mate, "_started", noted)
    yield lambda: started
    assert all(process.returncode is not None for process in started), "none is left behind"


@pytest.fixture
def large(data: Path) -> Path:
    return data / "torch213_cpu" / "cnn_adam.pt.trace.json.gz"


def assert_same(one: Trace, other: Trace) -> None:
    assert list(one.report) == list(other.report)
    assert {k: v for k, v in one.metadata.items() if k != "tables"} == {
        k: v for k, v in other.metadata.items() if k != "tables"
    }
    tables = [(getattr(one, table.name), getattr(other, table.name)) for table in TABLES]
    tables += [(table, other.metadata["tables"][name]) for name, table in one.metadata["tables"].items()]
    for ours, theirs in tables:
        assert ours.equals(theirs)
        assert ours.dtypes.equals(theirs.dtypes)  # of a category: the same texts in the same order


@pytest.mark.parametrize("name", [None, OLD])
def test_processes_give_the_same_trace(
    shared: Callable[[], list[subprocess.Popen[bytes]]],
    large: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
) -> None:
    path = large if name is None else samples.path_of(name)
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    together = read_trace(path)
    assert len(shared()) == 2
    with one_process():
        alone = read_trace(path)
    assert len(shared()) == 2
    assert_same(together, alone)


def test_a_process_that_dies_costs_nothing_but_time(
    shared: Callable[[], list[subprocess.Popen[bytes]]], large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give = mate.Mate.give

    def and_kill(self: mate.Mate, text: EventText, at_least: int) -> bool:
        given = give(self, text, at_least)
        shared()[0].kill()
        return given

    monkeypatch.setattr(mate.Mate, "give", and_kill)
    together = read_trace(large)
    assert shared()[0].returncode == -signal.SIGKILL
    with one_process():
        assert_same(together, read_trace(large))


@pytest.mark.parametrize("executable", ["/nowhere/python3", "/bin/false"])
def test_where_no_python_can_be_started_one_process_reads(
    shared: Callable[[], list[subprocess.Popen[bytes]]],
    large: Path,
    monkeypatch: pytest.MonkeyPatch,
    executable: str,
) -> None:
    monkeypatch.setattr(mate.sys, "executable", executable)
    together = read_trace(large)
    with one_process():
        assert_same(together, read_trace(large))


def test_what_seems_to_end_where_it_does_not_is_read_by_one_process(
    shared: Callable[[], list[subprocess.Popen[bytes]]], large: Path, tmp_path: Path
) -> None:
    text = gzip.decompress(large.read_bytes())
    at = text.index(b'"ph": "X"', len(text) // 2)
    at = text.rindex(b"{", 0, at)
    trick = (
        b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"x": ['
    )
    trick += b'{"name": 1}, {"name": 2}, ' * 4000 + b"0]}},"
    file = tmp_path / "tricked.json"
    file.write_bytes(text[:at] + trick + text[at:])
    together = read_trace(file)
    with one_process():
        alone = read_trace(file)
    assert_same(together, alone)
    assert len(alone.slices) == len(read_trace(large).slices) + 1


def test_an_interrupt_ends_all(
    shared: Callable[[], list[subprocess.Popen[bytes]]], large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: crew.Crew, report: ImportReport) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(crew.Crew, "gather", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_trace(large)
    assert len(shared()) == 2


def test_a_process_whose_parent_is_killed_ends(large: Path) -> None:
    code = (
        "import os, signal; from notebook_prof.readers.kineto import mate; "
        "from notebook_prof.readers.kineto.rows import Arguments; "
        "from notebook_prof.readers.kineto.taking import Taker; "
        "one = mate.Mate(Taker(Arguments, False)); one._listen(); "
        "print(one._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    end = time.monotonic() + PATIENCE_S
    while _lives(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:  # one that nobody waits for stays as a zombie
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            return not Path("/proc/self").exists()
        return False


def test_the_script_of_the_user_runs_once(large: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('begins')\n"
        "from notebook_prof import read_trace\n"
        "from notebook_prof.readers import processes\n"
        "from notebook_prof.readers.kineto import mate\n"
        "processes.WORTH_BYTES, processes.cpus, start = 0, lambda: 3, mate._started\n"
        "mate._started = lambda *told: print('starts') or start(*told)\n"
        f"print(len(read_trace({str(large)!r}).slices) > 0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["begins", "starts", "starts", "True"]


def test_a_process_starts_without_pandas() -> None:
    ask = "import sys; print(sorted({'pandas', 'numpy'} & set(sys.modules)))"
    code = mate._START.format(package=mate.__package__).replace("work(*told)", ask)
    told = mate.json.dumps([*mate._imports(), 0])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, told], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['numpy']"


def test_files_are_shared_only_where_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cpus", lambda: 2)
    assert further_processes(processes.WORTH_BYTES) == 1
    assert further_processes(processes.WORTH_BYTES - 1) == 0
    with one_process():
        assert further_processes(1 << 40) == 0
    assert further_processes(1 << 40) == 1
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(further_processes(1 << 40)))
    thread.start()
    thread.join()
    assert found == [0]
    monkeypatch.setattr(processes, "cpus", lambda: 1)
    assert further_processes(1 << 40) == 0
    monkeypatch.setattr(processes, "cpus", lambda: 64)
    assert further_processes(1 << 40) == processes.MOST
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert further_processes(1 << 40) == 0


@pytest.mark.parametrize(
    ("quota", "cpus"), [("max 100000", 5), ("250000 100000", 2), ("50000 100000", 1), ("", 5)]
)
def test_a_quota_of_the_container_counts(
    quota: str, cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    monkeypatch.setattr(processes, "_QUOTA", file)
    monkeypatch.setattr(processes, "_OLD_QUOTA", (tmp_path / "none",))
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda pid: set(range(5)), raising=False)
    assert processes.cpus() == cpus
