"""Finds the function that contains a line from source or byte code, for stacks sampled from outside the
process."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import marshal
import warnings
from collections import defaultdict
from types import CodeType
from typing import Final, NamedTuple

from ....trace.strings import readable
from ..frames import CELL, Frame, owner_of

_HEADER_BYTES: Final = 16
"""Size of the header of a byte code file."""


class Span(NamedTuple):
    """The lines of a function in its file."""

    first_line: int
    last_line: int
    qualified_name: str


class Functions:
    """Finds functions by file, name and executed line. Reads each file once."""

    # Python's cached byte code is tried first, then the source. A file that cannot be read is taken to have
    # one function of each name, which begins at the first requested line.
    def __init__(self) -> None:
        self._spans: dict[str, dict[str, list[Span]]] = {}
        self._frames: dict[tuple[str, str, int], Frame] = {}
        self._unknown: dict[tuple[str, str], int] = {}

    def frame(self, function: str, file: str, line: int) -> Frame:
        """Return the frame of an executed line. `function` may or may not be qualified."""
        key = (function, file, line)
        if (existing := self._frames.get(key)) is None:
            function, file = readable(function), readable(file)
            span = self._find(function, file, line)
            existing = Frame(span.qualified_name, file, span.first_line, line, owner_of(file))
            self._frames[key] = existing
        return existing

    def _find(self, function: str, file: str, line: int) -> Span:
        if (spans := self._spans.get(file)) is None:
            spans = self._spans[file] = spans_of(file)
        name = function.rpartition(".")[2]
        holding = [span for span in spans.get(name, ()) if span.first_line <= line <= span.last_line]
        if holding:
            return max(holding)
        return Span(self._unknown.setdefault((function, file), line), line, function)


def spans_of(file: str) -> dict[str, list[Span]]:
    """Return every function of a file, by its plain name; empty for a file that cannot be read."""
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    if (code := _code(file)) is not None:
        waiting = [(code, "")]
        while waiting:
            code, outer = waiting.pop()
            lines = [line for _, _, line in code.co_lines() if line]
            name = getattr(code, "co_qualname", f"{outer}{code.co_name}")
            last = max(lines, default=code.co_firstlineno)
            spans[code.co_name].append(Span(code.co_firstlineno, last, name))
            inner = f"{name}.<locals>." if code.co_flags & 1 else f"{name}."  # 1: CO_OPTIMIZED, a function
            inner = "" if code.co_name == "<module>" else inner
            waiting += [(part, inner) for part in code.co_consts if isinstance(part, CodeType)]
    return dict(spans)


def _code(file: str) -> CodeType | None:
    if owner_of(file) != CELL and (cached := _cached(file)) is not None:
        return cached
    lines = linecache.getlines(file)
    if not lines:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = "".join(lines)
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code: CodeType = compile(source, file, "exec", flags=flags, dont_inherit=True)
            return code
    except (SyntaxError, ValueError, RecursionError):
        return None


def _cached(file: str) -> CodeType | None:
    """Return the byte code that Python keeps beside a module."""
    try:
        with open(importlib.util.cache_from_source(file), "rb") as stream:
            data = stream.read()
        if data[:4] != importlib.util.MAGIC_NUMBER:
            return None
        code = marshal.loads(data[_HEADER_BYTES:])
    except (OSError, ValueError, EOFError, TypeError, NotImplementedError):
        return None
    return code if isinstance(code, CodeType) else None
