"""Reduce ranks on this machine's cores, each process with one rank in memory, or on a Dask cluster."""

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
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, Final, TypeAlias

from tqdm import tqdm

from ..optional import require
from ..trace import ImportReport
from .files import RankFile, inspected, listed
from .one_rank import Analyses, Reduction, reduce_rank

Progress: TypeAlias = Callable[[int, int], None] | bool | None
"""Called with ranks done and the total; True shows a bar, None only in an interactive session."""

_QUIET_S: Final = 2.0


def with_bar(results: Iterable[Reduction], total: int, progress: Progress) -> Iterable[Reduction]:
    """Return the results; a text bar is drawn as they come, if one is wanted."""
    # without `progress=`, only where stdout is a terminal or a notebook's, not captured
    watched = sys.stdout.isatty() or type(sys.stdout).__module__.startswith("ipykernel.")
    shown = progress is True or (progress is None and watched)
    delay = 0.0 if progress else _QUIET_S
    bar: Iterable[Reduction] = tqdm(
        results, "ranks", total, leave=False, file=sys.stdout, delay=delay, disable=not shown, mininterval=0
    )
    return bar


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
                effect="unfinished ranks were read again",
                advice="if memory ran out, give processes=1",
            )
            if processes == 1:
                done |= {file.rank for file in culprits}
                why, advice = ("the process that read it died, twice", "it may need more memory")
                yield from (_lost_rank(file, why, advice) for file in culprits)
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
    finally:  # release the processes; busy ones are terminated
        own = list((getattr(executor, "_processes", None) or {}).values())
        executor.shutdown(wait=not flight, cancel_futures=True)
        for process in own if flight else ():
            process.terminate()


def _unpack_and_work(packed: bytes, file: RankFile) -> Reduction:
    work: Any = pickle.loads(packed)
    result: Reduction = work(file)
    return result


def _begin() -> None:
    """Leave Ctrl-C to the main process, which ends the workers, and exit when it does."""
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


def _lost_rank(file: RankFile, why: str, advice: str, code: str = "rank-lost") -> Reduction:
    result = Reduction(file.rank, read=False)
    effect = "these ranks are missing from all figures"
    result.report.add(code, "error", example=f"rank {file.rank}: {why}", effect=effect, advice=advice)
    return result


_CHUNK: Final = 32
_RETRIES: Final = 2
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 10.0
_ENDED: Final = frozenset({"closed", "closing"})
_ASK_AGAIN: Final = "check whether the cluster is up and its workers have enough memory, and try again"
_OVER: Final = frozenset({"finished", "error", "cancelled"})


def find_there(paths: Sequence[str], client: Any) -> list[RankFile]:
    """Return the files visible to the workers, with the facts in their headers."""
    # `workers` of a file names the workers that see it, unless all do, as on a shared file system.
    workers_of_file: dict[str, list[str]] = {}
    by_worker = client.run(listed, list(paths))
    for address, names in by_worker.items():
        for name in names:
            workers_of_file.setdefault(name, []).append(address)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, addresses in workers_of_file.items():
        everywhere = len(addresses) == len(by_worker)
        groups.setdefault(() if everywhere else tuple(addresses), []).append(name)
    futures = []
    for where, own in groups.items():
        chunks = [own[i : i + _CHUNK] for i in range(0, len(own), _CHUNK)]
        mapped = client.map(_look, chunks, workers=list(where) or None, pure=False)
        futures += [(future, where) for future in mapped]
    files = [replace(file, workers=where) for future, where in futures for file in future.result()]
    order = {name: i for i, name in enumerate(listed(list(workers_of_file)))}
    return sorted(files, key=lambda file: order.get(file.path, 0))


def run_there(
    files: Iterable[RankFile], analyses: Analyses, client: Any, report: ImportReport
) -> Iterator[Reduction]:
    """Yield results in order of completion."""
    # Dask itself runs a lost worker's tasks again on another one that sees the file, and `report` gets
    # ``worker-lost``. If Dask gives up, or its scheduler is gone, the rank comes back as not read, with the
    # reason. An interrupt cancels the tasks that have not begun.
    as_completed = require("distributed", extra="ranks", purpose="reading ranks on a cluster").as_completed
    name = f"notebook-prof-{uuid.uuid4().hex[:8]}"
    waiting = {
        client.submit(
            reduce_rank, file, analyses,
            key=f"{name}-{file.rank}", pure=False, retries=_RETRIES, workers=list(file.workers) or None,
        ): file
        for file in files
    }  # fmt: skip
    workers = set(client.nthreads())
    try:
        completed = as_completed(list(waiting))
        for future in _as_completed(completed, client):
            file = waiting.pop(future)
            yield _result(future, file)
            future.release()
        if client.status == "running":
            lost = workers - set(client.nthreads())
            effect = "workers were lost: their unfinished ranks were read again elsewhere"
            advice = "if this was not intended, check whether they had enough memory"
            report.add("worker-lost", "info", len(lost), min(lost, default=""), effect, advice)
        for file in waiting.values():
            yield _lost_rank(file, "the scheduler was lost", _ASK_AGAIN, "scheduler-lost")
        waiting.clear()
    finally:
        if waiting and client.status not in _ENDED:
            client.cancel(list(waiting), force=True)


def _as_completed(completed: Any, client: Any) -> Iterator[Any]:
    """Yield futures as they end; stop early if no worker is left to end them."""
    alone_since: float | None = None
    while not completed.is_empty():
        if completed.has_ready():
            future = next(completed)
            if future.status in _OVER:
                yield future
            else:  # its worker died with the result: Dask computes it again
                completed.add(future)
            continue
        if client.status in _ENDED:
            return
        if client.status == "running":
            alone_since = None
        else:
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _PATIENCE_S:
                return
        time.sleep(_PAUSE_S)


def _result(future: Any, file: RankFile) -> Reduction:
    if future.status == "cancelled":
        return _lost_rank(file, "the cluster gave up on the task", _ASK_AGAIN, "scheduler-lost")
    if future.status == "error":
        return _lost_rank(file, f"{future.exception()!r}", _ASK_AGAIN)
    result: Reduction = future.result()  # waits if the result has just been lost
    return result


def _look(names: Sequence[str]) -> list[RankFile]:
    return [inspected(name) for name in names]
