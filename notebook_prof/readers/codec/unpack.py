"""Undo compression piece by piece, so that the text need not be in memory as a whole."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...errors import FormatError
from ...trace.report import ImportReport
from .compression import (
    BROKEN_ZIP,
    GZIP_MAGIC,
    XZ_MAGIC,
    XZ_PADDING,
    ZSTD_MAGIC,
    ZSTD_STEP,
    Output,
    Wanted,
    chosen_member,
    lost,
    xz_stream,
    zstd_frames,
)

if TYPE_CHECKING:
    from zlib import _Decompress as _Decompressor

Pieces = Generator[bytes, None, None]

PIECE_BYTES: Final = 1 << 20
"""Pieces are about as long; the first one is no shorter unless the file is."""

_STEP: Final = 128 * 1024
_SMALL: Final = 4096
_GZIP_WINDOW: Final = 31


class Source(Protocol):
    """What bytes can be read from."""

    def read(self, count: int, /) -> bytes:
        """The next bytes; about as many as `count`, and none only at the end."""


class Unpacked:
    """Pieces as a source, so that another layer of compression can be taken off."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, count: int, /) -> bytes:
        """At least `count` bytes, fewer only at the end."""
        parts: list[bytes] = []
        while count > 0 and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            count -= len(piece)
        return b"".join(parts)


class Window:
    """A stretch of a source, and how far it has been used."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._data, self._at = b"", 0
        self.broken = False

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer only at the end of the source."""
        if len(self._data) - self._at < count:
            self._data, self._at = self._data[self._at :] + self._source.read(max(_STEP, count)), 0
        return self._data[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Go on behind them."""
        self._at += count

    def pieces(self) -> Pieces:
        """All that is left, as it is."""
        while piece := self.peek(PIECE_BYTES):
            self.skip(len(piece))
            yield piece


def gunzip(window: Window, report: ImportReport, limit: int) -> Pieces:
    """All members of a gzip file."""
    size = Output(limit)
    while window.peek(len(GZIP_MAGIC)) == GZIP_MAGIC:
        for part in _member(window, report):
            size.count(part)
            yield part
        if window.broken:
            return
    if rest := window.peek(_STEP).strip(b"\x00"):
        report.add("bytes-after-gzip", "info", example=repr(rest[:20]), effect="ignored")


def unzstd(window: Window, report: ImportReport, limit: int) -> Pieces:
    """All frames of a zstd file."""
    size = Output(limit)
    frame, broken = zstd_frames()
    while window.peek(len(ZSTD_MAGIC)) == ZSTD_MAGIC:
        stream = frame()
        while not stream.eof:
            if not (piece := window.peek(ZSTD_STEP)):
                lost(report, "zstd", "the compressed stream ends in the middle")
                return
            try:
                part = stream.decompress(piece)
            except broken as error:
                lost(report, "zstd", str(error))
                return
            window.skip(len(piece) - len(stream.unused_data))
            size.count(part)
            if part:
                yield part


def unxz(window: Window, report: ImportReport, limit: int) -> Pieces:
    """All streams of an xz file."""
    size = Output(limit)
    while window.peek(len(XZ_MAGIC)) == XZ_MAGIC:
        stream = xz_stream()
        while not stream.eof:
            piece = window.peek(_STEP) if stream.needs_input else b""
            if stream.needs_input and not piece:
                lost(report, "xz", "the compressed stream ends in the middle")
                return
            try:
                part = stream.decompress(piece, min(PIECE_BYTES, size.room()))
            except lzma.LZMAError as error:
                lost(report, "xz", str(error))
                return
            window.skip(len(piece) - len(stream.unused_data))
            size.count(part)
            if part:
                yield part
        while window.peek(len(XZ_PADDING)) == XZ_PADDING:
            window.skip(len(XZ_PADDING))


@contextmanager
def zip_member(file: Any, report: ImportReport, wanted: Wanted | None) -> Iterator[Source]:
    """The file of a zip archive that is a trace, as a source."""
    with (
        _sound_zip(),
        zipfile.ZipFile(file) as archive,
        archive.open(chosen_member(archive, report, wanted)) as member,
    ):
        yield member


def unzip(member: Source, limit: int) -> Pieces:
    """A file of a zip archive."""
    size = Output(limit)
    while True:
        with _sound_zip():
            part = member.read(min(PIECE_BYTES, size.room()))
        if not part:
            return
        size.count(part)
        yield part


@contextmanager
def _sound_zip() -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except BROKEN_ZIP as error:
        raise FormatError(f"it is a zip archive that cannot be read ({error})") from error


def joined(parts: Iterator[bytes]) -> Pieces:
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


def _member(window: Window, report: ImportReport) -> Pieces:
    member, step = zlib.decompressobj(wbits=_GZIP_WINDOW), _SMALL
    while not member.eof:
        piece = window.peek(step)
        if not piece:
            window.broken = True
            lost(report, "gzip", "the compressed stream ends in the middle")
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
            lost(report, "gzip", str(error))
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
