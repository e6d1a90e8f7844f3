"""Names of the slices of functions and lines, and the text of their source files."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from ...trace.builder import TraceBuilder
from ...trace.source_lines import SOURCE_FILES
from .frames import CELL, USER, Frame, is_generated

_SOURCE_CHARACTERS: Final = 60
_IPYTHON_CALL: Final = re.compile(
    r"(?P<before>.*?)get_ipython\(\)\.(?P<call>run_line_magic|system|getoutput)\((?P<given>.*)\)"
)
_FUSED: Final = re.compile(r"^\s+(?P<kernel>\w+_fused_\w+)(?:\.run)?\(")


def short_file(frame: Frame, cells: Mapping[str, str]) -> str:
    """Return the displayed name of a frame's file: ``cell``, ``In[3]``, or its name."""
    if frame.owner == CELL:
        return cells.get(frame.file, "cell")
    return os.path.basename(frame.file)


def as_typed(source: str) -> str:
    """Return a line as it was typed in the cell, before IPython replaced a magic or a shell command with a
    call.

    >>> as_typed("x = get_ipython().getoutput('ls')")
    'x = !ls'
    """
    match = _IPYTHON_CALL.fullmatch(source)
    if match is None:
        return source
    try:
        words = ast.literal_eval(f"({match['given']},)")
    except (ValueError, SyntaxError):
        return source
    if not all(isinstance(word, str) for word in words):
        return source
    sign = "%" if match["call"] == "run_line_magic" else "!"
    return f"{match['before']}{sign}{' '.join(words)}".rstrip()


def fused_kernel(frame: Frame) -> str:
    """Return the fused kernel that a line of Inductor's module calls; empty for any other line."""
    if not is_generated(frame.file):
        return ""
    match = _FUSED.search(linecache.getline(frame.file, frame.line))
    return match["kernel"] if match else ""


def line_name(frame: Frame, cells: Mapping[str, str]) -> str:
    """Return the name of a line's slice: its place and its source."""
    source = as_typed(" ".join(linecache.getline(frame.file, frame.line).split()))
    if len(source) > _SOURCE_CHARACTERS:
        source = source[: _SOURCE_CHARACTERS - 1] + "…"
    return f"{short_file(frame, cells)}:{frame.line}  {source}".rstrip()


_MOST_CHARACTERS: Final = 1_000_000
"""Limit on all files of a recording together."""


def keep_source_files(builder: TraceBuilder, frames: Iterable[Frame], cells: Mapping[str, str]) -> None:
    """Put the text of each of the user's files into the metadata, while there is room."""
    # the recorded cell is skipped, since its text is there already
    files = {
        frame.file: cells.get(frame.file, "") if frame.owner == CELL else frame.file
        for frame in frames
        if frame.owner in (CELL, USER)
    }
    kept: dict[str, str] = builder.metadata.setdefault(SOURCE_FILES, {})
    room = _MOST_CHARACTERS - sum(map(len, kept.values()))
    for file, name in files.items():
        text = "".join(linecache.getlines(file)) if name and name not in kept else ""
        if not text:
            continue
        if len(text) > room:
            builder.report.add(
                "source-not-kept",
                "info",
                example=file,
                effect="its lines are shown without the lines between them",
            )
            continue
        kept[name] = text
        room -= len(text)
