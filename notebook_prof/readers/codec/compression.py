"""Decompresses piece by piece, up to a limit. The first bytes determine the compression, never the name."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Final

from ...errors import ExtraNotInstalledError, FormatError
from ...optional import require
from ...trace.report import ImportReport
from ...units import format_bytes

MAX_BYTES: Final = 8 << 30
"""Size that a decompressed file may reach by default, 8 GiB."""

MAX_RATIO: Final = 300
"""Factor by which a file may grow. Recordings grow 5 to 30 times, a repeated byte a thousand times."""

SMALL_BYTES: Final = 256 << 20
"""Size up to which the factor does not matter."""

PIECE_BYTES: Final = 1 << 20
"""Approximate size of a piece. The first piece is shorter only if the file is."""

_STREAMS: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00"}
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED: Final = (*_STREAMS.values(), *_ZIP)
_LONGEST_MAGIC: Final = 6
_MAX_LAYERS: Final = 4

_HEAD: Final = 64 * 1024
# A zstd block of 4 bytes can expand to 128 KiB, so a step yields at most 8 MiB. Damage costs a whole step.
_STEP: Final = 256
_GZIP_WINDOW: Final = 31
_PADDING: Final = b"\0" * 4
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
    window = _Window(iter(lambda: file.read(PIECE_BYTES), b""))
    archive: BinaryIO | None = file
    for _ in range(_MAX_LAYERS):
        magic = window.peek(_LONGEST_MAGIC)
        if magic.startswith(_ZIP):
            packed = archive or io.BytesIO(b"".join(window.pieces()))
            layer = _zip_pieces(packed, report, accepts, stack)
        elif kind := next((kind for kind, sign in _STREAMS.items() if magic.startswith(sign)), ""):
            layer = _unpacked(window, kind, report)
        else:
            break
        window, archive = _Window(_limited(layer, limit)), None
    return window.pieces()


def first_bytes(start: bytes) -> bytes:
    """Return the first 64 KiB of content from the start of a file that may be gzip; empty if damaged."""
    if not start.startswith(_STREAMS["gzip"]):
        return start
    try:
        return zlib.decompressobj(wbits=_GZIP_WINDOW).decompress(start, _HEAD)
    except zlib.error:
        return b""


class _Window:
    """Pieces, and the position up to which they were consumed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data, self._at = b"", 0

    def peek(self, count: int) -> bytes:
        """Return the next bytes without consuming them; fewer only at the end."""
        while len(self._data) - self._at < count and (piece := next(self._pieces, b"")):
            self._data, self._at = self._data[self._at :] + piece, 0
        return self._data[self._at : self._at + count]

    def skip(self, count: int) -> None:
        self._at += count

    def pieces(self) -> Iterator[bytes]:
        """Yield everything that is left, unchanged."""
        if self._at < len(self._data):
            yield self._data[self._at :]
        yield from self._pieces


def _limited(pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Pass the pieces on, and raise FormatError beyond the limit."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise FormatError(
                f"it is compressed, and becomes larger than {format_bytes(limit)}; if the file is trusted, "
                "give a higher limit with max_bytes="
            )
        yield piece


def _unpacked(window: _Window, kind: str, report: ImportReport) -> Iterator[bytes]:
    """Decompress the streams of a kind that follow one another, up to damage."""
    new_stream, broken = _library(kind)
    while window.peek(_LONGEST_MAGIC).startswith(_STREAMS[kind]):
        stream = new_stream()
        while not stream.eof:
            problem, piece = "the compressed stream ends in the middle", b""
            if packed := window.peek(_STEP):
                try:
                    problem, piece = "", stream.decompress(packed)
                except broken as error:
                    problem = str(error)
            if problem:
                effect = "the last events are missing"
                advice = "copy the file again, or look for a full disk where it was written"
                report.add(f"truncated-{kind}", "loss", example=problem, effect=effect, advice=advice)
                return
            window.skip(len(packed) - len(stream.unused_data))
            if piece:
                yield piece
        while window.peek(len(_PADDING)) == _PADDING:
            window.skip(len(_PADDING))
    if trailing := window.peek(_STEP).strip(b"\0"):
        report.add(f"bytes-after-{kind}", "info", example=repr(trailing[:20]), effect="ignored")


def _library(kind: str) -> tuple[Callable[[], Any], type[Exception]]:
    """Return a maker of decompressors of one stream, and their error."""
    if kind == "gzip":
        return lambda: zlib.decompressobj(wbits=_GZIP_WINDOW), zlib.error
    if kind == "xz":  # the limit refuses dictionaries larger than any recording needs
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY), lzma.LZMAError
    try:  # from Python 3.14 on
        own = require("compression.zstd", extra="zstd", purpose="reading zstd")
        return own.ZstdDecompressor, own.ZstdError
    except ExtraNotInstalledError:
        library = require("zstandard", extra="zstd", purpose="reading a file compressed with zstd")
        return lambda: library.ZstdDecompressor().decompressobj(), library.ZstdError


def _zip_pieces(
    file: BinaryIO, report: ImportReport, accepts: Accepts | None, stack: ExitStack
) -> Iterator[bytes]:
    """Read the trace file in a zip archive; `stack` closes both, and explains errors of reading."""
    stack.enter_context(_readable_zip())
    archive = stack.enter_context(zipfile.ZipFile(file))
    members = [info for info in archive.infolist() if not info.is_dir() and info.file_size]
    if not members:
        raise FormatError("it is a zip archive without files")
    chosen = members[0] if len(members) == 1 else _choose(archive, members, report, accepts)
    member = stack.enter_context(archive.open(chosen))
    return iter(lambda: member.read(PIECE_BYTES), b"")


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
