"""Cut the text of a trace into its head, handfuls of events, and its tail; the whole is never needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

CHUNK_BYTES: Final = 256 * 1024
"""What is decoded at once. Rows of so much text stay in the processor's cache."""

_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_LONGEST_KEY: Final = 256
_BETWEEN: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s)"\s*:)')
_ARRAY: Final = re.compile(rb"\s*\[")
_OPEN, _CLOSE = b"[]"


class EventText:
    """Cut the text of a list of events into lists of some events each, from its start to its end.

    Parameters
    ----------
    pieces : iterable of bytes
        The file, in order. A piece is asked for when it is needed.

    Attributes
    ----------
    head : bytes
        Up to and with the bracket that opens the list; the whole text if there is no list.
    has_list : bool
        Whether there is a list of events.

    Examples
    --------
    >>> text = EventText([b'{"traceEvents": [{"ph": "X"}, ', b'{"ph": "X"}]}'])
    >>> events, last = text.peek(1)
    >>> bytes(events), last
    (b'[{"ph": "X"}]', False)
    >>> text.skip()
    >>> events, last = text.peek(1)
    >>> bytes(events), last
    (b'[{"ph": "X"}]}', True)
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffer = bytearray()
        self._at = self._next = 0
        self._closed = (-1, 0)  # where a bracket stands in place of another character, and that one
        self.head, self.has_list = self._find_list()

    def peek(self, at_least: int) -> tuple[memoryview, bool]:
        """Return the next events as a list, and whether that is all that is left.

        The list ends with an event, or goes on to the end of the file, whatever stands there. That an
        event ends there is an assumption, which decoding the text proves. The view holds until the next
        call.
        """
        begin, (closed, instead) = at_least, self._closed
        if closed >= 0:
            self._buffer[closed] = instead
        while True:
            if begin < len(self._buffer) - self._at:
                if match := _BETWEEN.search(self._buffer, self._at + begin):
                    self._next = match.end()
                    # behind an event is a comma or a space, before it too: room for the brackets
                    self._closed = match.start() + 1, self._buffer[match.start() + 1]
                    self._buffer[self._at - 1], self._buffer[match.start() + 1] = _OPEN, _CLOSE
                    return memoryview(self._buffer)[self._at - 1 : match.start() + 2], False
                begin = max(begin, len(self._buffer) - self._at - _LONGEST_KEY)
            if not self._grow(begin + 2 * _LONGEST_KEY - len(self._buffer) + self._at):
                self._next = len(self._buffer)
                self._buffer[self._at - 1] = _OPEN
                return memoryview(self._buffer)[self._at - 1 :], True

    def skip(self) -> None:
        """Go on behind what `peek` gave."""
        self._at = self._next

    def remaining(self) -> Iterator[bytes]:
        """Iterate over everything behind what `peek` gave, to the end of the file."""
        yield bytes(self._buffer[self._next :])
        yield from self._pieces

    def _grow(self, at_least: int = 0) -> bool:
        """Add to the buffer and forget what was skipped; False at the end.

        It grows by at least a half, so that an event of any length is copied few times.
        """
        first = max(self._at - 1, 0)
        parts: list[bytes | bytearray] = [self._buffer[first:]] if self._buffer else []
        missing = max((len(self._buffer) - first) // 2, at_least)
        while (piece := next(self._pieces, None)) is not None:
            parts.append(piece)  # one that is empty changes nothing
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
