"""What the system says of a kernel, read from outside: memory, threads, descriptors, processes, files."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

SHARED: Final = Path("/dev/shm")
OURS: Final = re.compile(r"py-spy|notebook_prof")


@dataclass(frozen=True)
class Observed:
    """One look; every field but the first lists what there is, by name."""

    memory_bytes: int
    threads: tuple[str, ...]
    descriptors: tuple[str, ...]
    timers: tuple[str, ...]
    children: tuple[str, ...]
    beside: tuple[str, ...]
    zombies: tuple[str, ...]
    shared: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """What is counted, under the names of the laws."""
        return {
            "threads": self.threads,
            "descriptors": self.descriptors,
            "timers": self.timers,
            "child processes": self.children,
            "other processes": self.beside,
            "zombies": self.zombies,
            "shared memory": self.shared,
            "temporary files": self.files,
        }


class KernelProcesses:
    """What belongs to one kernel: it, and all that inherits its folder for temporary files."""

    def __init__(self, pid: int, temporary: Path) -> None:
        self.pid, self.temporary = pid, temporary
        self._mark = f"TMPDIR={temporary}".encode()
        self._pids = {pid}
        self._before = set(_names(SHARED))
        self._mapped: set[str] = set()

    def observe(self) -> Observed:
        """Everything at this moment."""
        me = psutil.Process(self.pid)
        family = me.children(recursive=True)
        living = [one for one in family if _is_alive(one)]
        beside = [one for one in self.living() if one.pid != self.pid and one not in family]
        return Observed(
            memory_bytes(self.pid),
            threads(self.pid),
            descriptors(self.pid),
            timers(self.pid),
            tuple(sorted(_called(one) for one in living)),
            tuple(sorted(_called(one) for one in beside)),
            tuple(sorted(f"{_named(one)} ({one.pid})" for one in family if one not in living)),
            self.shared(),
            self.files(),
        )

    def living(self) -> list[psutil.Process]:
        """All processes that have this kernel's folder in their environment; it may have ended itself."""
        processes = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                words = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
                if self._mark in words and _is_alive(one):
                    processes.append(one)
                    self._pids.add(one.pid)
        return processes

    def shared(self) -> tuple[str, ...]:
        """Entries of shared memory that came after the kernel, and that it or a process of it has made."""
        for one in self.living():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{one.pid}/maps").read_text()
                self._mapped.update(re.findall(r"/dev/shm/(\S+)$", text, re.MULTILINE))
        new = set(_names(SHARED)) - self._before
        return tuple(sorted(name for name in new if name in self._mapped or self._names_us(name)))

    def files(self) -> tuple[str, ...]:
        """Temporary files."""
        paths = [path for path in self.temporary.rglob("*") if not path.is_dir()]
        return tuple(sorted(str(path.relative_to(self.temporary)) for path in paths))

    def _names_us(self, name: str) -> bool:
        return bool({int(word) for word in re.findall(r"\d+", name)} & self._pids)


def memory_bytes(pid: int) -> int:
    """Anonymous memory; unlike the resident one, it has no pages of files, which come and go."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    match = re.search(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)
    assert match is not None, "this system does not tell anonymous memory"
    return int(match[1]) * 1024


def threads(pid: int) -> tuple[str, ...]:
    """Names of its threads."""
    return tuple(sorted(_read(path / "comm") for path in Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> tuple[str, ...]:
    """What its open descriptors lead to, without numbers."""
    targets = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(re.sub(r"\[\d+\]", "", os.readlink(path)))
    return tuple(sorted(re.sub(r"#\d+ ", "# ", name) for name in targets))


def timers(pid: int) -> tuple[str, ...]:
    """Its POSIX timers; none where the system does not list them."""
    return tuple(re.findall(r"^ID: .*$", _read(Path(f"/proc/{pid}/timers")), re.MULTILINE))


def is_ours(process: psutil.Process) -> bool:
    """Whether it is a process of the profiler, and none that the user's code has started."""
    with contextlib.suppress(psutil.Error):
        return bool(OURS.search(" ".join(process.cmdline()[:6])))
    return False


def until(condition: Callable[[], bool], patience_s: float, pause_s: float = 0.1) -> bool:
    """Wait until something holds; whether it does."""
    end = time.monotonic() + patience_s
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(pause_s)
    return value


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _called(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return re.sub(r"\d{2,}", "N", " ".join(process.cmdline()))[-90:] or str(process.name())
    return "(ended)"


def _named(process: psutil.Process) -> str:
    """What a process that has ended was called."""
    with contextlib.suppress(psutil.Error):
        return str(process.name())
    return "(gone)"


def _names(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (entry.name for entry in os.scandir(folder))


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""
