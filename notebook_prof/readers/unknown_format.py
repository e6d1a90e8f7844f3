"""What a file that no reader recognises looks like, in words."""

from __future__ import annotations

import re
from typing import Final

from .python_profilers.austin import BINARY, BINARY_IS

_KEY: Final = re.compile(rb'"([^"\\\n]{1,40})"\s*:')
_SIGNS: Final = (
    (b"SQLite format 3\0", "an SQLite database, as Nsight Systems exports; export its trace as JSON instead"),
    (b"\x80", "a Python pickle"),
    (b"PK", "a zip archive"),
    (b"\x1f\x8b", "gzip"),
    (b"\x7fELF", "a program"),
    (BINARY, BINARY_IS),
    (b"PAR1", "a Parquet table; a saved Trace is a folder or a zip of them"),
    (b"\x0a", "perhaps a protocol buffer, of a format that is not known"),
    (b"<", "XML or HTML"),
)


def describe(head: bytes) -> str:
    """The first bytes of a file as a phrase, with the reader that is nearest where one is.

    Examples
    --------
    >>> describe(b'{"hello": [1, 2]}')
    "a JSON object with the key 'hello', without events; the nearest format is 'trace_event'"
    """
    if not head:
        return "the file is empty"
    text = head.lstrip()
    if text.startswith((b"{", b"[")):
        keys = list(dict.fromkeys(key.decode(errors="replace") for key in _KEY.findall(text[:2000])))[:5]
        kind = "object" if text.startswith(b"{") else "list"
        named = f" with the key{'s' if len(keys) > 1 else ''} {', '.join(map(repr, keys))}" if keys else ""
        return f"a JSON {kind}{named}, without events; the nearest format is 'trace_event'"
    for sign, words in _SIGNS:
        if head.startswith(sign):
            return words
    return f"the file starts with {head[:40]!r}"
