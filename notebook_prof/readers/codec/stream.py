"""Reads and decompresses files in pieces, so they may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from ...trace.report import ImportReport
from ..progress import Progress
from .compression import PIECE_BYTES, Accepts, Pieces, decompressed_pieces, limit_for


def in_pieces(
    path: Path,
    report: ImportReport,
    max_bytes: int | None = None,
    *,
    accepts: Accepts | None = None,
    progress: Progress | None = None,
) -> Pieces:
    """Open a file, and return its decompressed content piece by piece, as a generator to be closed."""
    # For `accepts` and the errors see `decompressed_pieces`; closing the generator closes the file early.
    limit = limit_for(path.stat().st_size, max_bytes)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        pieces = decompressed_pieces(file, report, limit, accepts, stack)
        return _until_closed(pieces, file, progress, stack.pop_all())


def _until_closed(
    pieces: Iterator[bytes], file: BinaryIO, progress: Progress | None, stack: ExitStack
) -> Pieces:
    """Yield the pieces, and keep the file open until the last one."""
    with stack:
        for piece in _joined(pieces):
            if progress is not None:
                progress.at(file.tell())
            yield piece


def _joined(parts: Iterator[bytes]) -> Pieces:
    """Join small parts into pieces."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
