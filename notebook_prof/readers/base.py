"""The interface of readers: the base classes of formats, and the parts of a file by which one is chosen."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ..errors import OptionError
from ..trace.builder import TraceBuilder
from ..trace.trace import Trace
from .codec.compression import decompress
from .codec.sqlite import Database

__all__ = [
    "HEAD_BYTES",
    "DatabaseReader",
    "MarkedJsonReader",
    "MmapReader",
    "PiecesReader",
    "Probe",
    "Reader",
    "decompress",
    "pieces_of",
]

HEAD_BYTES: Final = 64 * 1024
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """The parts of a file that a reader may inspect to recognise its format.

    Attributes
    ----------
    path : Path
        For messages; a name proves nothing.
    head : bytes
        The first 64 KiB after decompression, without a byte-order mark.
    tables : frozenset of str
        Names of the tables of an SQLite database; empty for other files, and if only the head is known.
    """

    path: Path
    head: bytes
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
    """

    name: ClassVar[str]
    priority: ClassVar[int]
    describes: ClassVar[str]

    def configured(self, **options: object) -> Reader:
        """Return this reader with the options given to `read_trace`. The base class accepts none.

        Raises
        ------
        OptionError
            If the format has no such option.
        """
        if options:
            raise OptionError(
                f"the reader {self.name!r} takes no option {', '.join(map(repr, options))}: leave it out"
            )
        return self

    @abstractmethod
    def recognises(self, probe: Probe) -> bool:
        """Return whether the bytes look like this format."""

    @abstractmethod
    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Add everything in the file to `builder`.

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


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Yield data from memory in pieces, as if it were read from a file."""
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


class PiecesReader(Reader):
    """A reader that reads a file piece by piece, so the file may be larger than memory."""

    @abstractmethod
    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        """Put everything that the file holds into `builder`.

        Parameters
        ----------
        pieces : iterable of bytes
            The file after decompression, in order.
        builder : TraceBuilder
            As for `read`.

        Raises
        ------
        FormatError
            If nothing can be read.
        """

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put everything that the file holds into `builder`; see `Reader.read`."""
        self.read_pieces(pieces_of(data), builder)


class MmapReader(Reader):
    """A reader that opens the path itself: it maps files into memory instead of building a new Trace."""

    @abstractmethod
    def holds(self, path: Path) -> bool:
        """Return whether this file or folder has the format, judging by its content. Never raises."""

    @abstractmethod
    def open(self, path: Path, max_bytes: int | None = None) -> Trace:
        """Open the recording; FormatError if it is damaged, of an unknown version or above `max_bytes`."""


class DatabaseReader(Reader):
    """A reader of SQLite databases. Other files that it recognises are passed to `read`."""

    @abstractmethod
    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        """Add everything in the database to `builder`.

        Raises
        ------
        FormatError
            If nothing can be read.
        """


class MarkedJsonReader(Reader):
    """A reader of a single JSON object whose head matches every pattern in `marks`."""

    marks: ClassVar[tuple[re.Pattern[bytes], ...]]

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head begins a JSON object with this format's keys."""
        head = probe.head
        return head.lstrip()[:1] == b"{" and all(mark.search(head) is not None for mark in self.marks)
