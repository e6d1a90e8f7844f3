"""What a tracer of the heap gives: blocks at the peak and at the end, by the stack that allocated them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pandas as pd

from ..python.frames import CELL, OURS, USER, Frame, owner_of
from ..python.line_names import line_name, short_file

KEYS: Final = ("line", "text", "allocated_by")
NUMBERS: Final = ("bytes", "count", "kept_bytes", "kept_count")
_IMPORTING: Final = "<frozen importlib"


class StackLine(NamedTuple):
    """A line of a Python stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks that one stack has allocated.

    Attributes
    ----------
    stack : sequence of StackLine
        Innermost first; empty where it is not known.
    bytes, count : int
    """

    stack: Sequence[StackLine]
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class HeapBlocks:
    """What was allocated since the recording began.

    Attributes
    ----------
    tool : str
        Name and version of the tracer.
    peak_bytes : int
        Highest sum of blocks, exact.
    at_peak, kept : list of Blocks
        Those at the peak, or at the highest moment that was seen, and those that are still there at the end.
    """

    tool: str
    peak_bytes: int
    at_peak: list[Blocks]
    kept: list[Blocks]


def blocks_table(blocks: HeapBlocks, cells: Mapping[str, str]) -> pd.DataFrame:
    """Return one row a line of the user's code and function that allocated for it.

    Parameters
    ----------
    blocks : HeapBlocks
    cells : mapping of str to str
        What files of cells other than the profiled one are called, as ``In[3]``.

    Returns
    -------
    DataFrame
        ``line text allocated_by bytes count kept_bytes kept_count``; ``bytes`` sum to the peak. ``line`` is
        the innermost one of the user's own code, empty where none is on the stack; ``allocated_by`` is the
        innermost function of Python, empty of what was there between the highest moment seen and the peak.
    """
    unseen = blocks.peak_bytes - sum(one.bytes for one in blocks.at_peak)
    at_peak = [*blocks.at_peak, Blocks((), unseen, 0)] if unseen > 0 else blocks.at_peak
    rows = [(*_keys_of(one.stack, cells), one.bytes, one.count, 0, 0) for one in at_peak]
    rows += [(*_keys_of(one.stack, cells), 0, 0, one.bytes, one.count) for one in blocks.kept]
    table = pd.DataFrame(rows, columns=[*KEYS, *NUMBERS]).astype(dict.fromkeys(NUMBERS, "int64"))
    return table.groupby(list(KEYS), sort=False)[list(NUMBERS)].sum().reset_index()


def _keys_of(stack: Sequence[StackLine], cells: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the innermost line of the user's code, its source, and the function that allocated."""
    own = next((one for one in stack if owner_of(one.file) in (CELL, USER)), None)
    line = text = ""
    if own is not None:
        frame = Frame(own.function, own.file, own.line, own.line, owner_of(own.file))
        line, _, text = line_name(frame, cells).partition("  ")
    if not stack:
        return line, text, ""
    if any(one.file.startswith(_IMPORTING) for one in stack):
        return line, text, "import"
    innermost = next((one for one in stack if owner_of(one.file) != OURS), stack[0])
    owner = owner_of(innermost.file)
    file = short_file(Frame(*innermost[:2], innermost.line, innermost.line, owner), cells)
    return line, text, f"{innermost.function} ({file})"
