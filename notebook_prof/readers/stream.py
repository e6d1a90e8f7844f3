"""Files in pieces, so that one larger than memory can be read; decompressed on the way."""

from __future__ import annotations

import zlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from ..trace.report import ImportReport
from .compression import GZIP_MAGIC, MAX_BYTES, ZIP_MAGICS, ZSTD_MAGIC, _lost, _Output
from .progress import Progress

Pieces = Generator[bytes, None, None]

PIECE_BYTES: Final = 1 << 20
"""Pieces are about as long; the first one is no shorter unless the file is."""

_STEP: Final = 128 * 1024
_MAGICS: Final = (GZIP_MAGIC, ZSTD_MAGIC, *ZIP_MAGICS)
_SMALL: Final = 4096
_GZIP_WINDOW: Final = 31

if TYPE_CHECKING:
    from zlib import _Decompress as _Decompressor


def in_pieces(path: Path, report: ImportReport, max_bytes: int | None = None) -> Pieces | None:
    """The content of a plain or gzipped file, piece by piece.

    A progress bar appears after two seconds. A stream that breaks off gives what comes before, and an
    issue ``truncated-gzip``, as `compression.decompress` does.

    Parameters
    ----------
    path : Path
    report : ImportReport
    max_bytes : int, optional
        Limit of what a compressed file may become; `MAX_BYTES` when not given.

    Returns
    -------
    iterator of bytes or None
        None for other compressions, which need the whole file. Close it to close the file early.

    Raises
    ------
    FormatError
        While iterating, if it becomes larger than `max_bytes`.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head.startswith(GZIP_MAGIC):
        return _joined(_gunzip(path, report, MAX_BYTES if max_bytes is None else max_bytes))
    return None if head.startswith(_MAGICS) else _plain(path)


def _plain(path: Path) -> Pieces:
    with path.open("rb") as file, Progress(path) as progress:
        while piece := file.read(PIECE_BYTES):
            progress.at(file.tell())
            yield piece


def _joined(parts: Pieces) -> Pieces:
    """Small parts together, until they are a piece."""
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


def _gunzip(path: Path, report: ImportReport, limit: int) -> Pieces:
    """All members of a gzip file."""
    size = _Output(limit)
    with path.open("rb") as file, Progress(path) as progress:
        window = _Window(file)
        while window.peek(len(GZIP_MAGIC)) == GZIP_MAGIC:
            for part in _member(window, report):
                size.add(part)
                size.parts.clear()
                progress.at(file.tell())
                yield part
            if window.broken:
                return
        if rest := window.peek(_STEP).strip(b"\x00"):
            report.add("bytes-after-gzip", "info", example=repr(rest[:20]), effect="ignored")


class _Window:
    """A stretch of a file, and how far it has been used."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._data, self._at = b"", 0
        self.broken = False

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer only at the end of the file."""
        if len(self._data) - self._at < count:
            self._data, self._at = self._data[self._at :] + self._file.read(max(_STEP, count)), 0
        return self._data[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Go on behind them."""
        self._at += count


def _member(window: _Window, report: ImportReport) -> Pieces:
    member, step = zlib.decompressobj(wbits=_GZIP_WINDOW), _SMALL
    while not member.eof:
        piece = window.peek(step)
        if not piece:
            window.broken = True
            _lost(report, "gzip", "the compressed stream ends in the middle")
            return
        before = member.copy()
        try:
            parts = [member.decompress(piece, PIECE_BYTES)]
            # at its end a member keeps the tail that it was fed last
            while member.unconsumed_tail and not member.eof:
                yield parts.pop()
                before, piece = member.copy(), member.unconsumed_tail
                parts.append(member.decompress(piece, PIECE_BYTES))
        except zlib.error as error:
            window.broken = True
            _lost(report, "gzip", str(error))
            yield _until_damage(before, piece)
            return
        window.skip(len(window.peek(step)) - len(member.unused_data))
        # small members must not cost a large copy each, large ones not many calls
        step = min(2 * step, _STEP)
        yield from parts


def _until_damage(member: _Decompressor, piece: bytes) -> bytes:
    """What a damaged piece still gives, fed byte by byte."""
    parts = []
    try:
        for i in range(len(piece)):
            parts.append(member.decompress(piece[i : i + 1]))
    except zlib.error:
        pass
    return b"".join(parts)
