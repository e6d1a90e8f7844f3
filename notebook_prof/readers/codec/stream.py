"""Files in pieces, so that one larger than memory can be read; decompressed on the way."""

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
    """Open a file, and return its content piece by piece, without its layers of compression.

    Parameters
    ----------
    path : Path
    report : ImportReport
        Told of streams that break off; see `compression.decompressed_pieces`.
    max_bytes : int, optional
        Limit of what a compressed file may become; `limit_for` when not given.
    accepts : callable, optional
        Which file of an archive is a trace; see `compression.decompressed_pieces`.
    progress : Progress, optional
        Is told how far the file has been read.

    Returns
    -------
    generator of bytes
        Close it to close the file early.

    Raises
    ------
    FormatError
        If an archive cannot be read; while iterating, if the content becomes larger than `max_bytes`.
    """
    limit = limit_for(path.stat().st_size, max_bytes)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        pieces = decompressed_pieces(file, report, limit, accepts, stack)
        return _until_closed(pieces, file, progress, stack.pop_all())


def _until_closed(
    pieces: Iterator[bytes], file: BinaryIO, progress: Progress | None, stack: ExitStack
) -> Pieces:
    """Yield the pieces, and keep the file open until the last of them."""
    with stack:
        for piece in _joined(pieces):
            if progress is not None:
                progress.at(file.tell())
            yield piece


def _joined(parts: Iterator[bytes]) -> Pieces:
    """Join small parts until they are a piece."""
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
