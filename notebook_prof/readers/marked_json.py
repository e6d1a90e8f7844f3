"""Formats that are one JSON object, known by some of its keys."""

from __future__ import annotations

import re
from typing import ClassVar, TypeVar

import msgspec

from ..errors import FormatError
from .base import Probe, Reader

T = TypeVar("T")


class MarkedJsonReader(Reader):
    """A reader of a JSON object in whose head each of `marks` is found.

    Attributes
    ----------
    marks : tuple of patterns
    """

    marks: ClassVar[tuple[re.Pattern[bytes], ...]]

    def recognises(self, probe: Probe) -> bool:
        """Whether the head is an object with this format's keys."""
        head = probe.head
        return head.lstrip()[:1] == b"{" and all(mark.search(head) is not None for mark in self.marks)


def decode_object(data: bytes, kind: type[T], whose: str) -> T:
    """Decode a whole file, whatever padding is around it.

    Parameters
    ----------
    data : bytes
    kind : type
        A msgspec Struct.
    whose : str
        For the message, as in ``Scalene's``.

    Raises
    ------
    FormatError
        If it is not JSON of this form.

    Examples
    --------
    >>> decode_object(b'{"a": [1]}  ', dict[str, list[int]], "our")
    {'a': [1]}
    """
    try:
        return msgspec.json.decode(data.strip(b"\x00 \t\r\n"), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"it cannot be read as {whose} JSON ({error})") from error
