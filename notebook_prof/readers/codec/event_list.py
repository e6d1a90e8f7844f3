"""Cuts the text of a trace into its head, short lists of events, and its tail, without holding it all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

CHUNK_BYTES: Final = 256 * 1024
"""Characters decoded at once. The rows of so much text stay in the processor's cache."""

_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_LONGEST_KEY: Final = 256
_BETWEEN: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s)"\s*:)')
_ARRAY: Final = re.compile(rb"\s*\[")
_OPEN, _CLOSE = b"[]"


class EventText:
    """Cuts the text of a list of events into shorter lists, from start to end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)  # the file in order; a piece is requested only when it is needed
        self._buffer = bytearray()
        self._at = self._next = 0
        self._closed = (-1, 0)  # position of a character that is replaced by a bracket, and the character
        # the text up to the list's opening bracket, or all of it without a list
        self.head, self.has_list = self._find_list()

    def peek(self, at_least: int) -> tuple[memoryview, bool]:
        """Return the next events as a list, and whether nothing is left after them."""
        # The list ends after an event, or else contains everything up to the end of the file. Whether an
        # event really ends there is a guess, which decoding the text confirms. The view is valid until the
        # next call.
        begin, (closed, instead) = at_least, self._closed
        if closed >= 0:
            self._buffer[closed] = instead
        while True:
            if begin < len(self._buffer) - self._at:
                if match := _BETWEEN.search(self._buffer, self._at + begin):
                    self._next = match.end()
                    # the comma or space before and after an event makes room for the brackets
                    self._closed = match.start() + 1, self._buffer[match.start() + 1]
                    self._buffer[self._at - 1], self._buffer[match.start() + 1] = _OPEN, _CLOSE
                    return memoryview(self._buffer)[self._at - 1 : match.start() + 2], False
                begin = max(begin, len(self._buffer) - self._at - _LONGEST_KEY)
            if not self._grow(begin + 2 * _LONGEST_KEY - len(self._buffer) + self._at):
                self._next = len(self._buffer)
                self._buffer[self._at - 1] = _OPEN
                return memoryview(self._buffer)[self._at - 1 :], True

    def skip(self) -> None:
        """Continue after the text that `peek` returned."""
        self._at = self._next

    def remaining(self) -> Iterator[bytes]:
        """Iterate over everything after the text that `peek` returned, up to the end of the file."""
        yield bytes(self._buffer[self._next :])
        yield from self._pieces

    def _grow(self, at_least: int = 0) -> bool:
        """Read more into the buffer, and drop what was skipped; return False at the end."""
        # The buffer grows by at least a half, so even a very long event is copied only a few times.
        first = max(self._at - 1, 0)
        parts: list[bytes | bytearray] = [self._buffer[first:]] if self._buffer else []
        missing = max((len(self._buffer) - first) // 2, at_least)
        while (piece := next(self._pieces, None)) is not None:
            parts.append(piece)  # an empty piece changes nothing
            missing -= len(piece)
            if missing <= 0:
                break
        if len(parts) == bool(self._buffer):
            return False
        self._buffer = bytearray().join(parts)
        self._at -= first
        self._next = self._at
        self._closed = (-1, 0)
        return True

    def _find_list(self) -> tuple[bytes, bool]:
        searched = 0
        while self._grow():
            if opening := _ARRAY.match(self._buffer):
                return self._start(opening.end())
            if match := _EVENTS.search(self._buffer, max(0, searched - _LONGEST_KEY)):
                return self._start(match.end())
            searched = len(self._buffer)
        return bytes(self._buffer), False

    def _start(self, at: int) -> tuple[bytes, bool]:
        self._at = at
        return bytes(self._buffer[:at]), True
