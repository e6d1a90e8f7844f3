"""Files in pieces, so that one larger than memory can be read; decompressed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...trace.report import ImportReport
from ..progress import Progress
from .compression import GZIP_MAGIC, LAYERS, XZ_MAGIC, ZIP_MAGICS, ZSTD_MAGIC, Wanted, limit_for
from .unpack import PIECE_BYTES, Pieces, Unpacked, Window, gunzip, joined, unxz, unzip, unzstd, zip_member

__all__ = ["PIECE_BYTES", "Pieces", "in_one_piece", "in_pieces"]

_HEAD: int = 64 * 1024
_PACKED = (GZIP_MAGIC, ZSTD_MAGIC, XZ_MAGIC, *ZIP_MAGICS)


def in_pieces(
    path: Path,
    report: ImportReport,
    max_bytes: int | None = None,
    *,
    wanted: Wanted | None = None,
    progress: Progress | None = None,
) -> Pieces | None:
    """The content of a file, piece by piece, without its layers of gzip, zstd, xz and zip.

    A stream that breaks off gives what comes before, and an issue ``truncated-gzip``,
    ``truncated-zstd`` or ``truncated-xz``, as `compression.decompress` does.

    Parameters
    ----------
    path : Path
    report : ImportReport
    max_bytes : int, optional
        Limit of what a compressed file may become; `limit_for` when not given.
    wanted : callable, optional
        As for `compression.decompress`. A zip archive that is itself wanted is not taken apart.
    progress : Progress, optional
        Is told how far the file has been read.

    Returns
    -------
    iterator of bytes or None
        None for a zip archive that is wanted itself, or inside another compression: these need the whole
        file. Close it to close the file early.

    Raises
    ------
    FormatError
        If an archive cannot be read; while iterating, if the content becomes larger than `max_bytes`.
    """
    limit = limit_for(path.stat().st_size, max_bytes)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        head = file.read(_HEAD)
        file.seek(0)
        if head.startswith(ZIP_MAGICS) and wanted is not None and wanted(head):
            return None
        pieces = _unpacked(file, head, report, limit, wanted, stack)
        return None if pieces is None else _kept(pieces, file, progress, stack.pop_all())
    return None


def in_one_piece(data: bytes) -> Pieces:
    """Content that is in memory already."""
    yield data


def _unpacked(
    file: Any, head: bytes, report: ImportReport, limit: int, wanted: Wanted | None, stack: ExitStack
) -> Iterator[bytes] | None:
    if not head.startswith(_PACKED):
        return iter(lambda: file.read(PIECE_BYTES), b"")
    if head.startswith(ZIP_MAGICS):
        window = Window(Unpacked(unzip(stack.enter_context(zip_member(file, report, wanted)), limit)))
    else:
        window = Window(file)
    for _ in range(LAYERS):
        start = window.peek(len(XZ_MAGIC))
        if start.startswith(ZIP_MAGICS):
            return None
        if start.startswith(GZIP_MAGIC):
            window = Window(Unpacked(gunzip(window, report, limit)))
        elif start.startswith(ZSTD_MAGIC):
            window = Window(Unpacked(unzstd(window, report, limit)))
        elif start.startswith(XZ_MAGIC):
            window = Window(Unpacked(unxz(window, report, limit)))
        else:
            break
    return window.pieces()


def _kept(pieces: Iterator[bytes], file: Any, progress: Progress | None, stack: ExitStack) -> Pieces:
    """The pieces, with the file open until the last of them."""
    with stack:
        for piece in joined(pieces):
            if progress is not None:
                progress.at(file.tell())
            yield piece
