"""Undo compression, told by the first bytes and never by the name, within a limit."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final

from ...errors import ExtraNotInstalledError, FormatError
from ...optional import require
from ...trace.report import ImportReport
from ...units import format_bytes

MAX_BYTES: Final = 8 << 30
"""How large a file may become by default; 8 GiB."""

MOST_TIMES: Final = 300
"""How many times larger: recordings become 5 to 30 times larger, one repeated byte a thousand times."""

SMALL_BYTES: Final = 256 << 20

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
XZ_MAGIC: Final = b"\xfd7zXZ\x00"
ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")

_HEAD: Final = 64 * 1024
_CHUNK: Final = 1 << 20
_SMALL: Final = 4096
ZSTD_STEP: Final = 256  # a block of 4 bytes can become 128 KiB: 8 MiB a step at most
_GZIP_WINDOW: Final = 31
XZ_PADDING: Final = b"\0" * 4
_XZ_MEMORY: Final = 256 << 20
LAYERS: Final = 4
_MEMBERS: Final = 1000
BROKEN_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,  # encrypted
    NotImplementedError,  # a method that Python does not know
    ValueError,
)

Wanted = Callable[[bytes], bool]


def limit_for(packed_bytes: int, max_bytes: int | None) -> int:
    """How large a file of so many bytes may become.

    Parameters
    ----------
    packed_bytes : int
    max_bytes : int, optional
        What the caller allows. Otherwise `MAX_BYTES`, `MOST_TIMES` the size of the file (small ones may
        become `SMALL_BYTES`), and the memory that is free: the least of these.

    Examples
    --------
    >>> limit_for(3000, None) == SMALL_BYTES, limit_for(3000, 2**40) == 2**40
    (True, True)
    """
    if max_bytes is not None:
        return max_bytes
    import psutil

    free = max(int(psutil.virtual_memory().available), SMALL_BYTES)
    return min(MAX_BYTES, max(MOST_TIMES * packed_bytes, SMALL_BYTES), free)


def decompress(
    raw: bytes, report: ImportReport, *, max_bytes: int | None = None, wanted: Wanted | None = None
) -> bytes:
    """Undo gzip, zstd, xz and zip; anything else comes back as it is.

    Layers are taken off one after another, as in a zip of a ``.json.gz``. Several gzip members or zstd
    frames follow one another in a valid file. A stream that breaks off gives what came before, and an
    issue ``truncated-gzip``, ``truncated-zstd`` or ``truncated-xz``.

    Parameters
    ----------
    raw : bytes
    report : ImportReport
    max_bytes : int, optional
        Limit of the result's size; `limit_for` when not given.
    wanted : callable, optional
        Whether the first 64 KiB of a file in an archive of several are those of a trace; the first
        such file is taken, and further ones are counted as ``archive-files-not-read``. Without it, the
        largest file is taken.

    Returns
    -------
    bytes

    Raises
    ------
    FormatError
        If it becomes larger than `max_bytes`, or an archive cannot be read or holds nothing.
    ExtraNotInstalledError
        For zstd, where no library for it is installed.

    Examples
    --------
    >>> import gzip
    >>> decompress(gzip.compress(b"{") + gzip.compress(b"}"), ImportReport())
    b'{}'
    """
    limit = limit_for(len(raw), max_bytes)
    for _ in range(LAYERS):
        if raw.startswith(GZIP_MAGIC):
            raw = _gunzip(raw, report, limit)
        elif raw.startswith(ZSTD_MAGIC):
            raw = _unzstd(raw, report, limit)
        elif raw.startswith(XZ_MAGIC):
            raw = _unxz(raw, report, limit)
        elif raw.startswith(ZIP_MAGICS):
            raw = _unzip(raw, report, limit, wanted)
        else:
            break
    return raw


class Output:
    """Collects or counts pieces, and refuses more than the limit."""

    def __init__(self, limit: int) -> None:
        self.parts: list[bytes] = []
        self.size, self.limit = 0, limit

    def room(self) -> int:
        """How much the next piece may have: one byte over the limit is enough to know."""
        return min(_CHUNK, self.limit - self.size + 1)

    def add(self, part: bytes) -> None:
        """Keep a piece."""
        if part:
            self.count(part)
            self.parts.append(part)

    def count(self, part: bytes) -> None:
        """Refuse a piece that is too much."""
        self.size += len(part)
        if self.size > self.limit:
            raise FormatError(
                f"it is compressed, and becomes larger than {format_bytes(self.limit)}; if the file is "
                "trusted, give a higher limit with max_bytes="
            )

    def joined(self) -> bytes:
        """All pieces that were kept."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


def _gunzip(raw: bytes, report: ImportReport, limit: int) -> bytes:
    out, view, at = Output(limit), memoryview(raw), 0
    while raw.startswith(GZIP_MAGIC, at):
        at, problem = _member(view, at, out)
        if problem:
            lost(report, "gzip", problem)
            return out.joined()
    if raw[at:].strip(b"\x00"):
        report.add("bytes-after-gzip", "info", example=repr(raw[at : at + 20]), effect="ignored")
    return out.joined()


def _member(view: memoryview, at: int, out: Output) -> tuple[int, str]:
    """One member of a gzip file: where the next one begins, and what was wrong."""
    member, begin, step, kept = zlib.decompressobj(wbits=_GZIP_WINDOW), at, _SMALL, 0
    while not member.eof:
        if at >= len(view):
            return at, "the compressed stream ends in the middle"
        piece: memoryview | bytes = view[at : at + step]
        size = len(piece)
        try:
            while not member.eof:
                part = member.decompress(piece, out.room())
                kept += len(part)
                out.add(part)
                piece = member.unconsumed_tail
                if not part and not piece:
                    break
        except zlib.error as error:
            out.add(_before_damage(view[begin : at + step], kept))
            return len(view), str(error)
        at += size - len(member.unused_data)
        # small members must not cost a large copy each, large ones not many calls
        step = min(2 * step, _CHUNK)
    return at, ""


def _before_damage(view: memoryview, known: int) -> bytes:
    """What a damaged member still gives after its first `known` bytes: fed byte by byte at the end."""
    member, seen, rest = zlib.decompressobj(wbits=_GZIP_WINDOW), 0, []
    safe = max(0, len(view) - 2 * _CHUNK)
    try:
        for start in [*range(0, safe, _HEAD), *range(safe, len(view))]:
            end = min(start + _HEAD, safe) if start < safe else start + 1
            part = member.decompress(view[start:end])
            if seen + len(part) > known:
                rest.append(part[max(0, known - seen) :])
            seen += len(part)
    except zlib.error:
        pass
    return b"".join(rest)


def _unzstd(raw: bytes, report: ImportReport, limit: int) -> bytes:
    out, view, at = Output(limit), memoryview(raw), 0
    frame, broken = zstd_frames()
    while raw.startswith(ZSTD_MAGIC, at):
        stream = frame()
        try:
            while not stream.eof and at < len(view):
                piece = view[at : at + ZSTD_STEP]
                out.add(stream.decompress(piece))
                at += len(piece) - len(stream.unused_data)
        except broken as error:
            lost(report, "zstd", str(error))
            return out.joined()
        if not stream.eof:
            lost(report, "zstd", "the compressed stream ends in the middle")
    return out.joined()


def _unxz(raw: bytes, report: ImportReport, limit: int) -> bytes:
    out, view, at = Output(limit), memoryview(raw), 0
    while raw.startswith(XZ_MAGIC, at):
        stream = xz_stream()
        try:
            while not stream.eof:
                piece = view[at : at + _CHUNK] if stream.needs_input else view[:0]
                if stream.needs_input and not len(piece):
                    lost(report, "xz", "the compressed stream ends in the middle")
                    return out.joined()
                at += len(piece)
                out.add(stream.decompress(piece, out.room()))
        except lzma.LZMAError as error:
            lost(report, "xz", str(error))
            return out.joined()
        at -= len(stream.unused_data)
        while raw.startswith(XZ_PADDING, at):
            at += len(XZ_PADDING)
    return out.joined()


def xz_stream() -> lzma.LZMADecompressor:
    """What undoes one stream of xz, with no larger dictionary than a recording needs."""
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def zstd_frames() -> tuple[Callable[[], Any], type[Exception]]:
    """What makes a decompressor of one frame: Python's own from 3.14 on, or a library."""
    try:
        own = require("compression.zstd", extra="zstd", purpose="reading zstd")
        return own.ZstdDecompressor, own.ZstdError
    except ExtraNotInstalledError:
        library = require("zstandard", extra="zstd", purpose="reading a file compressed with zstd")
        return lambda: library.ZstdDecompressor().decompressobj(), library.ZstdError


def _unzip(raw: bytes, report: ImportReport, limit: int, wanted: Wanted | None) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            out = Output(limit)
            with archive.open(chosen_member(archive, report, wanted)) as file:
                while part := file.read(out.room()):
                    out.add(part)
            return out.joined()
    except FormatError:
        raise
    except BROKEN_ZIP as error:
        raise FormatError(f"it is a zip archive that cannot be read ({error})") from error


def chosen_member(archive: zipfile.ZipFile, report: ImportReport, wanted: Wanted | None) -> zipfile.ZipInfo:
    """The file of an archive that `decompress` takes; see there."""
    members = [info for info in archive.infolist() if not info.is_dir() and info.file_size]
    if not members:
        raise FormatError("it is a zip archive without files")
    return members[0] if len(members) == 1 else _choose(archive, members, report, wanted)


def _choose(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], report: ImportReport, wanted: Wanted | None
) -> zipfile.ZipInfo:
    """The file of an archive that is a trace. Nothing is written to disk, so names cannot do harm."""
    members = sorted(members[:_MEMBERS], key=lambda info: -info.file_size)
    found = members if wanted is None else [info for info in members if wanted(_head(archive, info))]
    if not found:
        names = ", ".join(repr(info.filename) for info in members[:5])
        raise FormatError(f"none of the {len(members)} files in the zip archive is a trace: {names}")
    report.add(
        "archive-files-not-read",
        "loss" if wanted is not None and len(found) > 1 else "info",
        len(members) - 1,
        example=f"{found[0].filename!r} is read",
        effect="one trace is one file" if wanted is not None else "the largest file is read",
        advice="unpack the archive and read each file",
    )
    return found[0]


def _head(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The first bytes of a file in an archive, decompressed once more if it is a ``.gz``."""
    try:
        with archive.open(info) as file:
            head = file.read(_HEAD)
    except BROKEN_ZIP:
        return b""
    if head.startswith(GZIP_MAGIC):
        try:
            return zlib.decompressobj(wbits=_GZIP_WINDOW).decompress(head, _HEAD)
        except zlib.error:
            return b""
    return head


def lost(report: ImportReport, kind: str, problem: str) -> None:
    """Report a stream that breaks off, or is damaged."""
    report.add(
        f"truncated-{kind}",
        "loss",
        example=problem,
        effect="the last events are missing",
        advice="copy the file again, or look for a full disk where it was written",
    )
