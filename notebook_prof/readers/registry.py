"""Chooses a reader by a file's bytes and reads the file, or describes a file that no reader recognises."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import pandas as pd

from .. import extensions
from ..errors import FormatError, OptionError, nearest
from ..trace.builder import TraceBuilder
from ..trace.report import ImportReport
from ..trace.trace import Trace
from .base import BOM, HEAD_BYTES, DatabaseReader, Folder, FolderReader, PiecesReader, Probe, Reader
from .codec.compression import Pieces
from .codec.sqlite import MAGIC, opened
from .codec.stream import ReadingProgress, in_pieces
from .native import NativeReader
from .native.storage import is_ours

_KEY: Final = re.compile(rb'"([^"\\\n]{1,40})"\s*:')
_UTF_16: Final = "text in UTF-16 or UTF-32; save it as UTF-8"
_GPERFTOOLS: Final = "perhaps an old CPU profile of gperftools; convert it by pprof -proto PROGRAM FILE"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05].{0,40}?(line_profiler|tracemalloc|yappi)", re.DOTALL)
_JSON_OF: Final = (
    (b'"timeDeltas"', "a CPU profile of V8; open it in speedscope.app and export it from there"),
    (b'"resourceSpans"', "OpenTelemetry spans, which describe requests, not a program"),
    (b'"nbformat"', "a notebook; profile its cells, or run it by 'notebook-prof run'"),
)
"""Phrases for JSON files without events, by a key that they contain."""
_TACHYON: Final = (
    "binary stacks of Tachyon; convert them by 'python -m profiling.sampling replay --gecko FILE'"
)
_SIGNS: Final = (
    (bytes(8) + b"\3", _GPERFTOOLS),
    (b"\x80", "a Python pickle"),
    (b"PK", "a zip archive"),
    (b"BZh", "bzip2; unpack it first"),
    (b"7z\xbc\xaf", "a 7-Zip archive; unpack it first"),
    (b"\x1f\x8b", "gzip"),
    (b"\x7fELF", "a program"),
    (b"MOJ", "MOJO, Austin's binary format; convert it by 'mojo2austin FILE OUT' of austin-python"),
    (b"HCAT", _TACHYON),
    (b"TACH", _TACHYON),
    (b"PAR1", "a Parquet table; a saved Trace is a folder or a zip of them"),
    (b"PERFILE2", "data of Linux's perf; convert it by 'perf script gecko'"),
    (b"JAVA PROFILE", "a dump of Java's heap, which has no times"),
    (b"FLR\0", "a recording of Java's Flight Recorder; async-profiler's jfrconv writes collapsed stacks"),
    (b"Nettrace", "a trace of .NET; convert it by 'dotnet-trace convert --format Speedscope'"),
    (b"\xff\xfe", _UTF_16),
    (b"\xfe\xff", _UTF_16),
    (b"<", "XML or HTML: a page for people; let the profiler write its data instead"),
)


def describe(head: bytes) -> str:
    """Describe a file by its first bytes in a phrase, which names the nearest format, if any."""
    text = head.lstrip()
    if not text:
        return "the file contains only white space"
    if text[:1] in (b"{", b"[") and text[1:2] == b"\0":
        return _UTF_16
    if text.startswith((b"{", b"[")):
        keys = list(dict.fromkeys(key.decode(errors="replace") for key in _KEY.findall(text[:2000])))[:5]
        if known := next((words for key, words in _JSON_OF if key in text), None):
            return known
        kind = "object" if text.startswith(b"{") else "list"
        named = f" with the key{'s' if len(keys) > 1 else ''} {', '.join(map(repr, keys))}" if keys else ""
        return f"a JSON {kind}{named}, without events; the nearest format is 'trace_event'"
    if head[257:262] == b"ustar":
        first = head[:100].rstrip(b"\0").decode(errors="replace")
        return f"a tar archive, of which the first file is {first!r}; unpack it, and open each trace in it"
    if found := _PICKLE.match(head):
        return f"a pickle of {found[1].decode()}; its statistics are not read"
    if re.match(rb"(?:#[^\n]*\n)*(?:version: |creator: |events: )", text):
        return "statistics of callgrind, which are not read; yappi saves pstats too"
    for sign, words in _SIGNS:
        if text.startswith(sign) or head.startswith(sign):
            return words
    if head.startswith(b"\n") and re.search(rb"[\0-\x08\x80-\xff]", head):
        return "perhaps a protocol buffer of an unknown format"
    return f"the file starts with {head[:40]!r}"


@cache
def readers() -> tuple[Reader, ...]:
    """Return all readers, also those of entry points ``notebook_prof.readers``, highest priority first."""
    registered: list[Reader] = [extensions.load("readers", name)() for name in extensions.names("readers")]
    registered.sort(key=lambda reader: -reader.priority)
    for label in ("name", "priority"):
        values = [str(getattr(reader, label)) for reader in registered]
        if twice := [value for value in values if values.count(value) > 1]:
            raise OptionError(f"two readers have the {label} {twice[0]}; uninstall one of the packages")
    return tuple(registered)


def list_formats() -> pd.DataFrame:
    """Return the formats that `read_trace` reads.

    Returns
    -------
    DataFrame
        ``format describes``, in the order in which they are tried.

    Examples
    --------
    >>> "kineto" in set(list_formats()["format"])
    True
    """
    return pd.DataFrame(
        [(reader.name, reader.describes) for reader in readers()], columns=["format", "describes"]
    )


def read_trace(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    max_bytes: int | None = None,
    **options: object,
) -> Trace:
    """Read a file, or a folder of files, that another profiler wrote.

    Parameters
    ----------
    path : str or path-like
        Compressed (gzip, zstd, xz, zip) or not, judging by the bytes, not the name. The files in a folder are
        read as one recording. Links out of the folder are not followed.
    format : str, optional
        One of `list_formats`; recognised by default.
    max_bytes : int, optional
        Limit on the size of a decompressed file. By default 8 GiB, 300 times its size (at least 256 MiB) or
        the free memory, whichever is least.
    **options
        Options of the format's reader, such as ``fp_point`` and ``bp_point`` of ``mindspore``.

    Returns
    -------
    Trace
        ``trace.report`` lists everything that could not be used; ``trace.metadata["source"]`` is the format.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FormatError
        If the format is not recognised, nothing could be read, or the content exceeds `max_bytes`.
    ExtraNotInstalledError
        If an optional library is missing, for example for zstd.
    OptionError
        If `format` is unknown, or its reader has no such option.

    Examples
    --------
    >>> read_trace("trace.json", format="kinetoo")
    Traceback (most recent call last):
    notebook_prof.errors.OptionError: no format 'kinetoo': did you mean 'kineto'?
    """
    if format is not None and format not in (names := [reader.name for reader in readers()]):
        raise OptionError(f"no format {format!r}: {nearest(format, names)}")
    if not os.fspath(path):
        raise OptionError("the path is empty: name a file or a folder")
    with ReadingProgress(path) as progress:
        return _read(Path(path), format, max_bytes, options, progress)


def _read(
    path: Path,
    name: str | None,
    max_bytes: int | None,
    options: Mapping[str, object],
    progress: ReadingProgress,
) -> Trace:
    if "\0" in str(path):
        raise OptionError(f"{str(path)!r} is not a path: it contains a null character")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FormatError(f"{path.name}: it is a pipe or a device; copy its content to a file first")
    if path.exists() and (name == NativeReader.name or (name is None and is_ours(path))):
        native = NativeReader()
        native.configured(**options)
        return native.open(path, max_bytes)
    report = ImportReport()
    if path.is_dir():
        return _read_folder(Folder(path, report, max_bytes), report, name, options)
    try:
        with closing(in_pieces(path, report, max_bytes, accepts=_is_recognised, progress=progress)) as pieces:
            return _read_pieces(path, pieces, report, name, options)
    except FormatError as error:
        raise FormatError(f"{path.name}: {error}") from error


def _read_pieces(
    path: Path, pieces: Pieces, report: ImportReport, name: str | None, options: Mapping[str, object]
) -> Trace:
    """Read a file, without holding all of it in memory if its reader supports that."""
    first = next(pieces, b"").removeprefix(BOM)
    if first.startswith(MAGIC):
        return _read_database(path, chain([first], pieces), report, name, options)
    reader = _choose(Probe(path, first[:HEAD_BYTES]), name).configured(**options)
    whole = chain([first], pieces)
    if isinstance(reader, PiecesReader):
        return _filled(reader, path, report, lambda builder: reader.read_pieces(whole, builder))
    return _filled(reader, path, report, lambda builder: reader.read(b"".join(whole), builder))


def _filled(reader: Reader, path: Path, report: ImportReport, fill: Callable[[TraceBuilder], None]) -> Trace:
    builder = TraceBuilder(metadata={"source": reader.name, "file": path.name})
    fill(builder)
    builder.report.extend(report)
    return builder.seal()


def _read_database(
    path: Path, pieces: Iterator[bytes], report: ImportReport, name: str | None, options: Mapping[str, object]
) -> Trace:
    """Read an SQLite file. Its tables determine the format."""
    with opened(path, pieces, report) as database:
        probe = Probe(path, MAGIC, frozenset(database.tables))
        reader = _choose(probe, name).configured(**options)
        if not isinstance(reader, DatabaseReader):
            raise FormatError(f"it is an SQLite database, and {reader.name!r} is a format of other files")
        return _filled(reader, path, report, lambda builder: reader.read_database(database, builder))


def _is_recognised(head: bytes) -> bool:
    if head.startswith(MAGIC):
        return True
    probe = Probe(Path(), head.removeprefix(BOM))
    return any(reader.recognises(probe) for reader in readers())


def _read_folder(
    folder: Folder, report: ImportReport, name: str | None, options: Mapping[str, object]
) -> Trace:
    reader = _choose_for_folder(folder, name).configured(**options)
    if not isinstance(reader, FolderReader):
        raise FormatError(
            f"{folder.path.name}: {reader.name!r} is a format of single files, and this is a folder with "
            f"{folder.describe()}. Open one of them."
        )
    try:
        return _filled(reader, folder.path, report, lambda builder: reader.read_folder(folder, builder))
    except FormatError as error:
        raise FormatError(f"{folder.path.name}: {error}") from error


def _choose_for_folder(folder: Folder, name: str | None) -> Reader:
    for reader in readers():
        if reader.name == name:
            return reader
        if name is None and isinstance(reader, FolderReader) and reader.recognises_folder(folder):
            return reader
    folder_formats = ", ".join(reader.name for reader in readers() if isinstance(reader, FolderReader))
    message = (
        f"{folder.path.name}: no format is recognised in this folder ({folder.describe()}). "
        f"Formats that are folders: {folder_formats}."
    )
    if single := _openable(folder):
        message += f" Open a single file of it instead: {', '.join(single)}."
        message += " nbp.read_ranks(folder) reads several as the ranks of one run." if len(single) > 1 else ""
    raise FormatError(message)


def _openable(folder: Folder) -> list[str]:
    """Return some files of the folder that a reader recognises, each with the name of the format."""
    openable: list[str] = []
    for name in folder.names[:200]:
        probe = Probe(folder.path / name, folder.head(name))
        openable += [f"{name} ({r.name})" for r in readers() if probe.head and r.recognises(probe)][:1]
        if len(openable) == 3:
            break
    return openable


def _choose(probe: Probe, name: str | None) -> Reader:
    for reader in readers():
        if reader.name == name or (name is None and reader.recognises(probe)):
            return reader
    if not probe.head:
        what = "the file is empty, or cut off at its start"
        raise FormatError(f"{what}: check that its writer finished and the disk is not full")
    names = ", ".join(reader.name for reader in readers())
    content = describe(probe.head)
    if probe.tables:
        content = f"an SQLite database with the tables {', '.join(map(repr, sorted(probe.tables)[:5]))}"
    raise FormatError(
        f"the format is not recognised ({content}). "
        f"Formats that can be read: {names}. Name one with format= if the file is one of them."
    )
