"""Native copies of recordings beside their files, which open faster."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from ...errors import NotebookProfError
from ...readers import read_trace
from ...trace import ImportReport, Trace
from .files import RankFile

Cache: TypeAlias = str | os.PathLike[str] | bool | None
FOLDER: Final = ".notebook_prof"


def twin_path(file: RankFile, cache: Cache) -> Path | None:
    """Return the path of a file's native copy; None without a cache, and for native files."""
    # The name contains size and modification time, so that a changed file is read again.
    path = Path(file.path)
    if cache is None or cache is False or path.is_dir() or path.name.endswith(".nbprof.zip"):
        return None
    folder = path.parent / FOLDER if cache is True else Path(cache)
    status = path.stat()
    return folder / f"{path.name}-{file.rank}-{status.st_size:x}-{status.st_mtime_ns:x}.nbprof"


def open_rank(file: RankFile, cache: Cache = None) -> tuple[Trace, ImportReport]:
    """Read a rank from its native copy, or read it and write one; the report has problems of the cache."""
    report = ImportReport()
    twin = twin_path(file, cache)
    if twin is not None and twin.exists():
        try:
            return read_trace(twin), report
        except (NotebookProfError, OSError) as error:
            report.add("cache-damaged", "info", example=str(error), effect="the original was read again")
            _take_away(twin)
    trace = read_trace(file.path)
    if twin is not None:
        try:
            twin.parent.mkdir(parents=True, exist_ok=True)
            _keep(trace, twin)
        except (NotebookProfError, OSError) as error:
            report.add(
                "cache-not-written",
                "info",
                example=str(error),
                effect="the next look reads the original again",
                advice="give cache= a folder that can be written",
            )
    return trace, report


def _keep(trace: Trace, twin: Path) -> None:
    """Write a copy, unless another thread or process has done so: existing copies are never replaced."""
    own = _temporary_path(twin)
    try:
        trace.save(own, "native")
        try:
            own.rename(twin)
        except OSError:
            if not twin.exists():
                raise
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _take_away(twin: Path) -> None:
    aside = _temporary_path(twin)
    with suppress(OSError):  # another process was faster
        twin.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _temporary_path(twin: Path) -> Path:
    return twin.with_name(f".{secrets.token_hex(6)}.{twin.name}")
