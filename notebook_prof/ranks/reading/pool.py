"""Reduce ranks on this machine's cores: each process has one rank in memory."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, TypeAlias

from ...trace import ImportReport
from .cache import Reduction
from .files import RankFile

# A text bar while many ranks are read.

Progress: TypeAlias = Callable[[int, int], None] | bool | None
"""Called with ranks done and the total; True shows a bar, None only in an interactive session."""

_QUIET_S: Final = 2.0
_WIDTH: Final = 30


class Bar:
    """Write ``ranks ███░░░ 12/256 · 40 s left`` to standard output, after two seconds and on one line."""

    def __init__(self, total: int, show: Progress = None) -> None:
        self._total, self._done, self._started = total, 0, time.monotonic()
        self._call = show if callable(show) else None
        self._always = show is True
        self._text = show is True or (show is None and _watched())
        self._drawn = False

    def advance(self) -> None:
        """Count another rank as done."""
        self._done += 1
        if self._call is not None:
            self._call(self._done, self._total)
        passed = time.monotonic() - self._started
        if self._text and (self._always or passed > _QUIET_S):
            filled = _WIDTH * self._done // max(self._total, 1)
            left = passed / self._done * (self._total - self._done)
            bar = "█" * filled + "░" * (_WIDTH - filled)
            sys.stdout.write(f"\rranks {bar} {self._done}/{self._total} · {left:.0f} s left ")
            sys.stdout.flush()
            self._drawn = True

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            sys.stdout.write("\r" + " " * (_WIDTH + 40) + "\r")
            sys.stdout.flush()


def _watched() -> bool:
    return "ipykernel" in sys.modules or sys.stdout.isatty()


Work: TypeAlias = Callable[[RankFile], Reduction]
WORTH_BYTES: Final = 8 << 20
"""With fewer bytes per process, starting processes takes longer than reading."""


def processes_for(files: Iterable[RankFile], processes: int | None) -> int:
    """Return the number of processes: as requested, or as many as pay off."""
    sizes = [file.bytes for file in files]
    if processes is not None:
        return max(1, min(processes, len(sizes)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, len(sizes), sum(sizes) // WORTH_BYTES))


def run_here(
    files: Iterable[RankFile], work: Work, processes: int, report: ImportReport
) -> Iterator[Reduction]:
    """Yield results in order of completion; a single process means this one."""
    # After a process has died (``worker-died``), its ranks are read again, one at a time; a rank that kills a
    # process again is left out.
    todo = list(files)
    packed = pack(work) if processes > 1 else None
    if packed is None:
        yield from map(work, todo)
        return
    while todo:
        done: set[int] = set()
        culprits: list[RankFile] = []
        try:
            for result in _in_pool(todo, packed, processes, culprits):
                done.add(result.rank)
                yield result
        except BrokenProcessPool:
            report.add(
                "worker-died",
                "info",
                example=f"while reading {', '.join(f'rank {file.rank}' for file in culprits)}",
                effect="what it had not finished was read again",
                advice="if memory ran out, give processes=1",
            )
            if processes == 1:
                done |= {file.rank for file in culprits}
                yield from map(_lost_rank, culprits)
            processes = 1
        todo = [file for file in todo if file.rank not in done]


def pack(work: Work) -> bytes | None:
    """Return the work as bytes for another process; None if it cannot be pickled."""
    # Functions of a notebook are pickled by value if ``cloudpickle`` is installed, as with the extra
    # ``ranks``.
    with contextlib.suppress(Exception):
        return bytes(importlib.import_module("cloudpickle").dumps(work))
    with contextlib.suppress(Exception):
        packed = pickle.dumps(work)
        return None if b"__main__" in packed else packed
    return None


def _in_pool(
    files: list[RankFile], packed: bytes, processes: int, running: list[RankFile]
) -> Iterator[Reduction]:
    executor = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
    )
    waiting = iter(files)
    flight: dict[Future[Reduction], RankFile] = {}
    most = processes + 1 if processes > 1 else 1
    try:
        with _without_main():
            for warm in [executor.submit(os.getpid) for _ in range(processes)]:
                warm.result()
        while True:
            for file in waiting:
                flight[executor.submit(_unpack_and_work, packed, file)] = file
                if len(flight) >= most:
                    break
            if not flight:
                return
            ready, _ = wait(flight, return_when=FIRST_COMPLETED)
            for future in sorted(ready, key=lambda future: future.exception() is not None):
                running[:] = list(flight.values())
                result = future.result()
                del flight[future]
                yield result
    finally:
        _stop(executor, bool(flight))


def _stop(executor: ProcessPoolExecutor, busy: bool) -> None:
    """Release the processes; busy ones are terminated."""
    own = list((getattr(executor, "_processes", None) or {}).values())
    executor.shutdown(wait=not busy, cancel_futures=True)
    if busy:
        for process in own:
            process.terminate()


def _unpack_and_work(packed: bytes, file: RankFile) -> Reduction:
    work: Any = pickle.loads(packed)
    result: Reduction = work(file)
    return result


def _begin() -> None:
    """Leave Ctrl-C to the first process, which ends the others, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = multiprocessing.parent_process()
    if first is not None:
        threading.Thread(target=_end_with, args=(first,), name="notebook_prof parent", daemon=True).start()


def _end_with(first: Any) -> None:
    first.join()  # a worker that waits for work would not notice: the others hold its pipe open
    os._exit(1)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep new processes from running the user's script again, which they do not need."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _lost_rank(file: RankFile) -> Reduction:
    result = Reduction(file.rank, read=False)
    result.report.add(
        "rank-lost",
        "error",
        example=f"rank {file.rank}: the process that read it died, twice",
        effect="this rank is missing from all figures",
        advice="it may need more memory than there is",
    )
    return result
