"""Formats that are opened where they lie, and are Traces already."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from ..trace.trace import Trace
from .base import Reader


class PlaceReader(Reader):
    """A reader that is given the path itself: it maps files into memory, and builds nothing anew."""

    @abstractmethod
    def holds(self, path: Path) -> bool:
        """Whether this file or folder is of the format, by its content; never raises."""

    @abstractmethod
    def open(self, path: Path, max_bytes: int | None = None) -> Trace:
        """Open it.

        Raises
        ------
        FormatError
            If it is not complete, damaged, of an unknown version, or larger than `max_bytes`.
        """
