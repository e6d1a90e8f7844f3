"""Decompresses piece by piece, up to a limit. The first bytes determine the compression, never the name."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from ...errors import ExtraNotInstalledError, FormatError
from ...optional import require
from ...trace.report import ImportReport
from ...units import format_bytes

if TYPE_CHECKING:
    from zlib import _Decompress

MAX_BYTES: Final = 8 << 30
"""Size that a decompressed file may reach by default, 8 GiB."""

MAX_RATIO: Final = 300
"""Factor by which a file may grow. Recordings grow 5 to 30 times, a repeated byte a thousand times."""

SMALL_BYTES: Final = 256 << 20
"""Size up to which the factor does not matter."""

PIECE_BYTES: Final = 1 << 20
"""Approximate size of a piece. The first piece is shorter only if the file is."""

_GZIP, _ZSTD, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED: Final = (_GZIP, _ZSTD, _XZ, *_ZIP)
_LONGEST_MAGIC: Final = 6
_MAX_LAYERS: Final = 4

_HEAD: Final = 64 * 1024
_READ_BYTES: Final = 128 * 1024
_FIRST_READ: Final = 4096
# A zstd block of 4 bytes can expand to 128 KiB, so a step yields at most 8 MiB. Damage costs a whole step.
_STEP: Final = 256
_GZIP_WINDOW: Final = 31
_XZ_PADDING: Final = b"\0" * 4
_XZ_MEMORY: Final = 256 << 20
_MAX_MEMBERS: Final = 1000
_BROKEN_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,  # encrypted
    NotImplementedError,  # a method that Python does not know
    ValueError,
)

Pieces = Generator[bytes, None, None]
Accepts = Callable[[bytes], bool]


def limit_for(packed_bytes: int, max_bytes: int | None) -> int:
    """Return the limit on the decompressed size of a file: `max_bytes`, or a default without it."""
    if max_bytes is not None:
        return max_bytes
    return min(MAX_BYTES, max(MAX_RATIO * packed_bytes, SMALL_BYTES), max(_free_bytes(), SMALL_BYTES))


def _free_bytes() -> int:
    """Return the amount of free memory; `MAX_BYTES` if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as rows:
            return next(int(row.split()[1]) << 10 for row in rows if row.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        import psutil
    except ImportError:
        return MAX_BYTES
    return int(psutil.virtual_memory().available)


def decompress(raw: bytes, report: ImportReport, *, max_bytes: int | None = None) -> bytes:
    """Decompress gzip, zstd, xz and zip; return anything else unchanged."""
    # FormatError if the result exceeds `max_bytes` (by default that of `limit_for`), or an archive is
    # unreadable or empty; see `decompressed_pieces`.
    if not raw.startswith(_PACKED):
        return raw
    with ExitStack() as stack:
        limit = limit_for(len(raw), max_bytes)
        return b"".join(decompressed_pieces(io.BytesIO(raw), report, limit, None, stack))


def decompressed_pieces(
    file: BinaryIO, report: ImportReport, limit: int, accepts: Accepts | None, stack: ExitStack
) -> Iterator[bytes]:
    """Remove the layers of gzip, zstd, xz and zip around a file, such as a zip of a ``.json.gz``."""
    # A valid file may contain several gzip members, zstd frames or xz streams in sequence. A stream that
    # breaks off yields the content up to there, and an issue such as ``truncated-gzip``. `limit` holds for
    # each layer: FormatError while iterating if it is exceeded. Of several files in an archive, the largest
    # that `accepts` recognises by its first 64 KiB is read (without `accepts`, the largest); others are
    # counted as ``archive-files-not-read``. `stack` closes archives. Memory holds some pieces of up to about
    # `PIECE_BYTES`, and an archive that is itself compressed, never the whole content.
    window = _Window(file)
    if not window.peek(_LONGEST_MAGIC).startswith(_PACKED):
        file.seek(0)
        return iter(lambda: file.read(PIECE_BYTES), b"")
    archive: BinaryIO | None = file
    for _ in range(_MAX_LAYERS):
        magic = window.peek(_LONGEST_MAGIC)
        if magic.startswith(_GZIP):
            layer = _gunzip(window, report, limit)
        elif magic.startswith(_ZSTD):
            layer = _unpack(window, report, limit, "zstd", _ZSTD, *_zstd_library())
        elif magic.startswith(_XZ):
            layer = _unpack(window, report, limit, "xz", _XZ, _new_xz, lzma.LZMAError)
        elif magic.startswith(_ZIP):
            member = _zip_member(archive or io.BytesIO(b"".join(window.pieces())), report, accepts)
            layer = _unzip(stack.enter_context(member), limit)
        else:
            break
        window, archive = _Window(_PiecesFile(layer)), None
    return window.pieces()


def first_bytes(start: bytes) -> bytes:
    """Return the first 64 KiB of content from the start of a file that may be gzip; empty if damaged."""
    if not start.startswith(_GZIP):
        return start
    try:
        return zlib.decompressobj(wbits=_GZIP_WINDOW).decompress(start, _HEAD)
    except zlib.error:
        return b""


class _Source(Protocol):
    def read(self, count: int, /) -> bytes:
        """Return about `count` bytes. They are empty only at the end."""


class _PiecesFile:
    """Makes decompressed pieces readable as a file, for the next layer of decompression."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, count: int, /) -> bytes:
        parts: list[bytes] = []
        while count > 0 and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            count -= len(piece)
        return b"".join(parts)


class _Window:
    """A buffered part of a source, and the position up to which it was consumed."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._data, self._at = b"", 0

    def peek(self, count: int) -> bytes:
        """Return the next bytes without consuming them; fewer only at the end of the source."""
        if len(self._data) - self._at < count:
            self._data, self._at = self._data[self._at :] + self._source.read(max(_READ_BYTES, count)), 0
        return self._data[self._at : self._at + count]

    def skip(self, count: int) -> None:
        self._at += count

    def pieces(self) -> Pieces:
        """Yield everything that is left, unchanged."""
        while piece := self.peek(PIECE_BYTES):
            self.skip(len(piece))
            yield piece


class _SizeLimit:
    """Adds up the sizes of pieces, and raises FormatError beyond the limit."""

    def __init__(self, limit: int) -> None:
        self._size, self._limit = 0, limit

    def room(self) -> int:
        """Return the largest useful size of the next piece: one byte over the limit refuses the file."""
        return min(PIECE_BYTES, self._limit - self._size + 1)

    def count(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise FormatError(
                f"it is compressed, and becomes larger than {format_bytes(self._limit)}; if the file is "
                "trusted, give a higher limit with max_bytes="
            )


def _gunzip(window: _Window, report: ImportReport, limit: int) -> Pieces:
    size = _SizeLimit(limit)
    while window.peek(len(_GZIP)) == _GZIP:
        problem = yield from _gunzip_member(window, size)
        if problem:
            _truncated(report, "gzip", problem)
            return
    if trailing := window.peek(_READ_BYTES).strip(b"\x00"):
        report.add("bytes-after-gzip", "info", example=repr(trailing[:20]), effect="ignored")


def _gunzip_member(window: _Window, size: _SizeLimit) -> Generator[bytes, None, str]:
    """Decompress one member of a gzip file. Returns the problem with it; empty if there was none."""
    member, step = zlib.decompressobj(wbits=_GZIP_WINDOW), _FIRST_READ
    while not member.eof:
        if not (packed := window.peek(step)):
            return "the compressed stream ends in the middle"
        fed = len(packed)
        while not member.eof:
            before = member.copy()
            try:
                piece = member.decompress(packed, size.room())
            except zlib.error as error:
                piece = _before_damage(before, packed)
                size.count(piece)
                yield piece
                return str(error)
            size.count(piece)
            if piece:
                yield piece
            packed = member.unconsumed_tail
            if not piece and not packed:
                break
        # at its end, a member keeps the unused part of its last input
        window.skip(fed - len(member.unused_data))
        # small members should not cost a large copy each, and large ones not many calls
        step = min(2 * step, _READ_BYTES)
    return ""


def _before_damage(member: _Decompress, packed: bytes) -> bytes:
    """Return what can be decompressed before the damage, by feeding the bytes one by one."""
    parts = []
    try:
        for i in range(len(packed)):
            parts.append(member.decompress(packed[i : i + 1]))
    except zlib.error:
        pass
    return b"".join(parts)


def _unpack(
    window: _Window,
    report: ImportReport,
    limit: int,
    kind: str,
    magic: bytes,
    new_stream: Callable[[], Any],
    broken: type[Exception],
) -> Pieces:
    """Decompress frames of zstd or streams of xz."""
    size = _SizeLimit(limit)
    while window.peek(len(magic)) == magic:
        stream = new_stream()
        while not stream.eof:
            is_hungry = kind == "zstd" or stream.needs_input
            packed = window.peek(_STEP) if is_hungry else b""
            if is_hungry and not packed:
                _truncated(report, kind, "the compressed stream ends in the middle")
                return
            try:
                piece = stream.decompress(packed, *([size.room()] if kind == "xz" else []))
            except broken as error:
                _truncated(report, kind, str(error))
                return
            window.skip(len(packed) - len(stream.unused_data))
            size.count(piece)
            if piece:
                yield piece
        while kind == "xz" and window.peek(len(_XZ_PADDING)) == _XZ_PADDING:
            window.skip(len(_XZ_PADDING))


def _zstd_library() -> tuple[Callable[[], Any], type[Exception]]:
    """Return a maker of frame decompressors, and their error: Python's from 3.14 on, or a library's."""
    try:
        own = require("compression.zstd", extra="zstd", purpose="reading zstd")
        return own.ZstdDecompressor, own.ZstdError
    except ExtraNotInstalledError:
        library = require("zstandard", extra="zstd", purpose="reading a file compressed with zstd")
        return lambda: library.ZstdDecompressor().decompressobj(), library.ZstdError


def _new_xz() -> lzma.LZMADecompressor:
    # the limit refuses dictionaries larger than any recording needs
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


@contextmanager
def _zip_member(file: BinaryIO, report: ImportReport, accepts: Accepts | None) -> Iterator[_Source]:
    """Open the trace file in a zip archive."""
    with _readable_zip(), zipfile.ZipFile(file) as archive:
        members = [info for info in archive.infolist() if not info.is_dir() and info.file_size]
        if not members:
            raise FormatError("it is a zip archive without files")
        chosen = members[0] if len(members) == 1 else _choose(archive, members, report, accepts)
        with archive.open(chosen) as member:
            yield member


def _unzip(member: _Source, limit: int) -> Pieces:
    size = _SizeLimit(limit)
    while True:
        with _readable_zip():
            piece = member.read(size.room())
        if not piece:
            return
        size.count(piece)
        yield piece


@contextmanager
def _readable_zip() -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except _BROKEN_ZIP as error:
        damaged = isinstance(error, zipfile.BadZipFile | zlib.error | EOFError)
        advice = ": it was cut or is damaged, copy it again" if damaged else ""
        raise FormatError(f"it is a zip archive that cannot be read ({error}){advice}") from error


def _choose(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], report: ImportReport, accepts: Accepts | None
) -> zipfile.ZipInfo:
    """Return the trace file in an archive. Nothing is written to disk, so file names can do no harm."""
    members = sorted(members[:_MAX_MEMBERS], key=lambda info: -info.file_size)
    traces = members if accepts is None else [info for info in members if accepts(_head(archive, info))]
    if not traces:
        names = ", ".join(repr(info.filename) for info in members[:5])
        raise FormatError(f"none of the {len(members)} files in the zip archive is a trace: {names}")
    report.add(
        "archive-files-not-read",
        "loss" if accepts is not None and len(traces) > 1 else "info",
        len(members) - 1,
        example=f"{traces[0].filename!r} is read",
        effect="one trace is one file" if accepts is not None else "the largest file is read",
        advice="unpack the archive and read each file",
    )
    return traces[0]


def _head(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(info) as file:
            return first_bytes(file.read(_HEAD))
    except _BROKEN_ZIP:
        return b""


def _truncated(report: ImportReport, kind: str, problem: str) -> None:
    """Report a stream that breaks off or is damaged."""
    effect = "the last events are missing"
    advice = "copy the file again, or look for a full disk where it was written"
    report.add(f"truncated-{kind}", "loss", example=problem, effect=effect, advice=advice)
