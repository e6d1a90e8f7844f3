"""The interface of readers: the base classes of formats, and the parts of a file by which one is chosen."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final

from ..errors import FormatError, OptionError
from ..trace.builder import TraceBuilder
from ..trace.report import ImportReport
from .codec.compression import decompress, first_bytes
from .codec.sqlite import Database

HEAD_BYTES: Final = 64 * 1024
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """The parts of a file that a reader may inspect to recognise its format."""

    path: Path  # for messages; a name proves nothing
    head: bytes  # the first 64 KiB after decompression, without a byte-order mark
    # names of the tables of an SQLite database; empty for other files, and if only the head is known
    tables: frozenset[str] = frozenset()


class Reader(ABC):
    """Recognises and reads one format.

    Attributes
    ----------
    name : str
        As in ``read_trace(path, format=name)``.
    priority : int
        Unique; of several readers that recognise a file, the highest one reads it.
    describes : str
        One line for `list_formats`.
    reads : str
        ``.module:function``: what `read` calls, imported when there is a file to read.
    """

    name: ClassVar[str]
    priority: ClassVar[int]
    describes: ClassVar[str]
    reads: ClassVar[str]

    def configured(self, **options: object) -> Reader:
        """Return this reader with the options given to `read_trace`; OptionError for unknown ones."""
        if options:
            raise OptionError(
                f"the reader {self.name!r} takes no option {', '.join(map(repr, options))}: leave it out"
            )
        return self

    @abstractmethod
    def recognises(self, probe: Probe) -> bool:
        """Return whether the bytes look like this format."""

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Add everything in the file to `builder`. The base class calls the function that `reads` names.

        Parameters
        ----------
        data : bytes
            The whole file after decompression.
        builder : TraceBuilder
            Its report counts every row that is not used.

        Raises
        ------
        FormatError
            If nothing can be read.
        """
        module, function = self.reads.split(":")
        getattr(import_module(module, type(self).__module__), function)(data, builder)


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Yield data from memory in pieces, as if it were read from a file."""
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


class PiecesReader(Reader):
    """A reader that reads a file piece by piece, so the file may be larger than memory."""

    @abstractmethod
    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        """Add everything in the file to `builder`, as `read`. Its pieces are decompressed and in order."""

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        self.read_pieces(pieces_of(data), builder)


class DatabaseReader(Reader):
    """A reader of SQLite databases. Other files that it recognises are passed to `read`."""

    @abstractmethod
    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        """Add everything in the database to `builder`, as `read`."""


class MarkedJsonReader(Reader):
    """A reader of a single JSON object whose head matches every pattern in `marks`."""

    marks: ClassVar[tuple[re.Pattern[bytes], ...]]

    def recognises(self, probe: Probe) -> bool:
        head = probe.head
        return head.lstrip()[:1] == b"{" and all(mark.search(head) is not None for mark in self.marks)


MAX_FILES: Final = 20_000
MAX_DEPTH: Final = 8
BOM: Final = b"\xef\xbb\xbf"


class Folder:
    """The regular files in a folder and its subfolders.

    Links to files are followed only if they lead to a file inside the folder. Links to folders are never
    followed. Pipes, sockets and devices are not files.

    Parameters
    ----------
    path : Path
        An existing folder.
    report : ImportReport
        Gets issues about files that are left out (``link-outside``, ``too-many-files``, ``unreadable-file``).
    max_bytes : int, optional
        Limit on the decompressed size of a file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     _ = Path(name, "a.txt").write_text("hello")
    ...     folder = Folder(Path(name), ImportReport())
    ...     folder.names, folder.read("a.txt")
    (('a.txt',), b'hello')
    """

    def __init__(self, path: Path, report: ImportReport, max_bytes: int | None = None) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._root = path.resolve()
        self._report = report
        # paths relative to the folder, separated by ``/``
        self.names = tuple(sorted(self._walk()))

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def read(self, name: str) -> bytes:
        """Return the whole file after decompression, without a byte-order mark; see `path_of`."""
        return decompress(
            self.path_of(name).read_bytes(), self._report, max_bytes=self._max_bytes
        ).removeprefix(BOM)

    def head(self, name: str) -> bytes:
        """Return the first 64 KiB after decompression; empty if the file cannot be read."""
        try:
            with self.path_of(name).open("rb") as file:
                start = file.read(HEAD_BYTES)
        except OSError:
            return b""
        return first_bytes(start).removeprefix(BOM)

    def describe(self, most: int = 6) -> str:
        """Return the number of files and the names of some, for messages."""
        if not self.names:
            return "no files"
        shown = ", ".join(self.names[:most]) + (", …" if len(self.names) > most else "")
        return f"{len(self.names)} file{'s' if len(self.names) > 1 else ''}: {shown}"

    def path_of(self, name: str) -> Path:
        """Return the path of a file; FormatError if there is no such file inside the folder."""
        # checked again at every read, since the link may have changed meanwhile
        target = (self._root / name).resolve()
        if not target.is_relative_to(self._root) or not target.is_file():
            raise FormatError(f"{self.path.name}: there is no file {name!r} inside the folder")
        return target

    def _walk(self) -> Iterator[str]:
        count = 0
        for path, folders, files in os.walk(self._root, followlinks=False, onerror=self._unreadable):
            here = Path(path).relative_to(self._root)
            if len(here.parts) >= MAX_DEPTH:
                folders.clear()
            folders.sort()
            for file in sorted(files):
                name = (here / file).as_posix()
                if not self._usable(name):
                    continue
                if count >= MAX_FILES:
                    example = f"more than {MAX_FILES:,}"
                    effect = "the rest of the folder is left out"
                    advice = "open the folder of one recording"
                    self._report.add("too-many-files", "loss", example=example, effect=effect, advice=advice)
                    return
                count += 1
                yield name

    def _usable(self, name: str) -> bool:
        try:
            target = (self._root / name).resolve()
            if not target.is_relative_to(self._root):
                self._report.add("link-outside", "loss", 1, name, "links out of the folder are not followed")
                return False
            return target.is_file()
        except (OSError, RuntimeError):
            self._report.add("unreadable-file", "loss", example=name, effect="left out")
            return False

    def _unreadable(self, error: OSError) -> None:
        name = os.path.basename(error.filename or "")
        self._report.add("unreadable-file", "loss", example=f"{name}: {error.strerror}", effect="left out")


class FolderReader(Reader):
    """A reader of a format that consists of a folder of files. Single files may be readable too."""

    @abstractmethod
    def recognises_folder(self, folder: Folder) -> bool:
        """Return whether the folder contains files of this format. File names are part of such formats."""

    @abstractmethod
    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        """Add everything in the folder to `builder`, as `read`."""
        # ``Path(folder) / name`` is a path, but only `Folder.read` never leaves the folder.
