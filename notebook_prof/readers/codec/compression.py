"""Decompresses piece by piece, up to a limit. The first bytes determine the compression, never the name."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, BinaryIO, Final

from ...errors import FormatError
from ...trace.report import ImportReport
from ...units import format_bytes

MAX_BYTES: Final = 8 << 30
"""Size that a decompressed file may reach by default, 8 GiB."""

MAX_RATIO: Final = 300
"""Factor by which a file may grow. Recordings grow 5 to 30 times, a repeated byte a thousand times."""

SMALL_BYTES: Final = 256 << 20
"""Size up to which the factor does not matter."""

PIECE_BYTES: Final = 1 << 20
"""Size of a piece. Only the last piece is shorter."""

_MAGIC: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00"}
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED: Final = (*_MAGIC.values(), *_ZIP)
_LONGEST_MAGIC: Final = 6
_MAX_LAYERS: Final = 4

_HEAD: Final = 64 * 1024
_STEP: Final = 16 * 1024  # what is lost before damage
_MAX_MEMBERS: Final = 1000
_DAMAGE: Final[dict[str, tuple[type[Exception], ...]]] = {
    "gzip": (EOFError, zlib.error, gzip.BadGzipFile),
    "zstd": (OSError,),
    "xz": (EOFError, lzma.LZMAError),
    "zip": (),  # see `_zip_member`
}
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
    # counted as ``archive-files-not-read``. `stack` closes archives. Memory holds some pieces, and an archive
    # that is itself compressed, never the whole content.
    content: io.BufferedReader[Any] = io.BufferedReader(file, PIECE_BYTES)
    for _ in range(_MAX_LAYERS):
        magic = content.peek(_LONGEST_MAGIC)
        kind = next((name for name, start in _MAGIC.items() if magic.startswith(start)), "zip")
        if kind != "zip":
            inner = _open_stream(content, kind)
        elif magic.startswith(_ZIP):
            archive = content if content.seekable() else io.BytesIO(content.read())
            inner = stack.enter_context(_zip_member(archive, report, accepts))
        else:
            break
        content = io.BufferedReader(_Layer(inner, kind, report, limit), PIECE_BYTES)
    return iter(lambda: content.read(PIECE_BYTES), b"")


def first_bytes(start: bytes) -> bytes:
    """Return the first 64 KiB of content from the start of a file that may be gzip; empty if damaged."""
    if not start.startswith(_MAGIC["gzip"]):
        return start
    try:
        return zlib.decompressobj(wbits=31).decompress(start, _HEAD)
    except zlib.error:
        return b""


def _open_stream(file: BinaryIO, kind: str) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file)
    if kind == "xz":
        return lzma.LZMAFile(file)
    import pyarrow

    return pyarrow.CompressedInputStream(file, "zstd")


class _Layer(io.RawIOBase):
    """The content of a compressed file, as far as it is whole; FormatError beyond a limit."""

    def __init__(self, file: Any, kind: str, report: ImportReport, limit: int) -> None:
        self._read = file.read1 if kind != "zstd" else file.read
        self._kind, self._report, self._limit = kind, report, limit
        self._size = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer) and (piece := self._next(min(_STEP, len(buffer) - filled))):
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled

    def _next(self, count: int) -> bytes:
        if self._ended:
            return b""
        try:
            piece: bytes = self._read(count)
        except _DAMAGE[self._kind] as error:
            self._ended = True
            if "Not a gzipped file" in str(error):
                self._report.add("bytes-after-gzip", "info", example=str(error), effect="ignored")
                return b""
            effect = "the last events are missing"
            advice = "copy the file again, or look for a full disk where it was written"
            self._report.add(f"truncated-{self._kind}", "loss", 1, str(error), effect, advice)
            return b""
        self._size += len(piece)
        if self._size > self._limit:
            raise FormatError(
                f"it is compressed, and becomes larger than {format_bytes(self._limit)}; if the file is "
                "trusted, give a higher limit with max_bytes="
            )
        return piece


@contextmanager
def _zip_member(file: BinaryIO, report: ImportReport, accepts: Accepts | None) -> Iterator[IO[bytes]]:
    """Open the trace file in a zip archive."""
    with _readable_zip(), zipfile.ZipFile(file) as archive:
        members = [info for info in archive.infolist() if not info.is_dir() and info.file_size]
        if not members:
            raise FormatError("it is a zip archive without files")
        chosen = members[0] if len(members) == 1 else _choose(archive, members, report, accepts)
        with archive.open(chosen) as member:
            yield member  # errors while it is read end here too


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
