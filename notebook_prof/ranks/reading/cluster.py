"""Reduce ranks on a Dask cluster, each close to its file; only the results travel."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ...optional import require
from ...trace import ImportReport
from .cache import Analyses, Cache, Reduction, reduce_rank
from .files import RankFile, inspected, listed

_CHUNK: Final = 32
_RETRIES: Final = 2
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 10.0
_ENDED: Final = frozenset({"closed", "closing"})
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
    files: Iterable[RankFile], analyses: Analyses, cache: Cache, client: Any, report: ImportReport
) -> Iterator[Reduction]:
    """Yield results in order of completion."""
    # Dask itself runs a lost worker's tasks again on another one that sees the file, and `report` gets
    # ``worker-lost``. If Dask gives up, or its scheduler is gone, the rank comes back as not read, with the
    # reason. An interrupt cancels the tasks that have not begun.
    as_completed = require("distributed", extra="ranks", purpose="reading ranks on a cluster").as_completed
    name = f"notebook-prof-{uuid.uuid4().hex[:8]}"
    waiting = {
        client.submit(
            reduce_rank, file, analyses, cache,
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
            _tell_lost(workers - set(client.nthreads()), report)
        yield from (
            _lost_rank(file, "the scheduler went away", "scheduler-lost") for file in waiting.values()
        )
        waiting.clear()
    finally:
        if waiting and client.status not in _ENDED:
            client.cancel(list(waiting), force=True)


def _tell_lost(workers: set[str], report: ImportReport) -> None:
    report.add(
        "worker-lost",
        "info",
        len(workers),
        example=min(workers, default=""),
        effect="workers went away in between: what they had not finished was read again elsewhere",
        advice="see whether they had enough memory, if this was not meant",
    )


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
        return _lost_rank(file, "the cluster gave the task up", "scheduler-lost")
    if future.status == "error":
        return _lost_rank(file, f"{future.exception()!r}", "rank-lost")
    result: Reduction = future.result()  # waits if the result has just been lost
    return result


def _lost_rank(file: RankFile, why: str, code: str) -> Reduction:
    result = Reduction(file.rank, read=False)
    result.report.add(
        code,
        "error",
        example=f"rank {file.rank}: {why}",
        effect="these ranks are missing from all figures",
        advice="see whether the cluster lives and its workers have enough memory, and ask again",
    )
    return result


def _look(names: Sequence[str]) -> list[RankFile]:
    return [inspected(name) for name in names]
