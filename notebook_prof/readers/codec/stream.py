"""Reads and decompresses files in pieces, so they may be larger than memory, and shows a progress bar."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from ...background import start_thread
from ...trace.report import ImportReport
from .compression import Accepts, Pieces, decompressed_pieces, limit_for

PATIENCE_S: Final = 2.0
_BEAT_S: Final = 0.5


class ReadingProgress:
    """Shows how much of a file has been read, and then that it is being processed, after two seconds."""

    # Nothing is imported or shown earlier. The bar is a widget in a notebook and a line that disappears in a
    # terminal; output that goes to a file gets none.

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name, self._size = Path(path).name, _size(Path(path))
        self._begin = time.monotonic()
        self._position = 0
        self._bar: Any = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._beat: threading.Thread | None = None  # updates the elapsed time while a reader is busy

    def __enter__(self) -> ReadingProgress:
        self._beat = start_thread(self._beats, "notebook_prof progress")
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._beat is not None:
            self._beat.join()
        if self._bar is not None:
            self._bar.close()

    def at(self, position: int) -> None:
        """Set the number of bytes read so far."""
        self._position = position
        self._show()

    def _beats(self) -> None:
        wait = PATIENCE_S
        while not self._over.wait(max(wait, 0)):
            self._show()
            wait = _BEAT_S

    def _show(self) -> None:
        if self._bar is None and time.monotonic() - self._begin < PATIENCE_S:
            return
        with self._lock:
            if self._over.is_set():
                return
            if self._bar is None:
                self._bar = _bar(self._name, self._size)
            bar, position = self._bar, self._position
            if position < self._size:
                bar.update(position - bar.n)
                return
            if bar.total is not None:
                bar.total, bar.n = None, position
                bar.set_description(f"{self._name}: making tables", refresh=False)
            bar.refresh()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _bar(name: str, size: int) -> Any:
    from tqdm.auto import tqdm

    in_notebook = any(base.__name__ == "tqdm_notebook" for base in tqdm.__mro__)
    return tqdm(
        total=size,
        desc=name,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        disable=not in_notebook and not sys.stderr.isatty(),
    )


def in_pieces(
    path: Path,
    report: ImportReport,
    max_bytes: int | None = None,
    *,
    accepts: Accepts | None = None,
    progress: ReadingProgress | None = None,
) -> Pieces:
    """Yield the decompressed content of a file piece by piece; closing the generator closes the file."""
    # For `accepts` and the errors see `decompressed_pieces`.
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        limit = limit_for(path.stat().st_size, max_bytes)
        for piece in decompressed_pieces(file, report, limit, accepts, stack):
            if progress is not None:
                progress.at(file.tell())
            yield piece
