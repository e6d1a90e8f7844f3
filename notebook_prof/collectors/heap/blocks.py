"""The result of a heap tracer: the blocks at the peak and at the end, by the stack that allocated them."""

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
    """Blocks allocated by one stack."""

    stack: Sequence[StackLine]  # innermost first; empty if unknown
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class HeapBlocks:
    """Allocations since the recording began."""

    tool: str  # name and version of the tracer
    peak_bytes: int  # highest sum of blocks, exact
    at_peak: list[Blocks]  # at the peak, or at the highest level that was observed
    kept: list[Blocks]  # still there at the end


def blocks_table(blocks: HeapBlocks, cells: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per line of user code and allocating function, with columns ``KEYS`` and ``NUMBERS``."""
    # ``bytes`` sums to the peak. ``line`` is the innermost line of user code, empty if there is none on the
    # stack. ``allocated_by`` is the innermost Python function, empty for memory allocated between the highest
    # observed level and the peak.
    unseen = blocks.peak_bytes - sum(one.bytes for one in blocks.at_peak)
    at_peak = [*blocks.at_peak, Blocks((), unseen, 0)] if unseen > 0 else blocks.at_peak
    rows = [(*_keys_of(one.stack, cells), one.bytes, one.count, 0, 0) for one in at_peak]
    rows += [(*_keys_of(one.stack, cells), 0, 0, one.bytes, one.count) for one in blocks.kept]
    table = pd.DataFrame(rows, columns=[*KEYS, *NUMBERS]).astype(dict.fromkeys(NUMBERS, "int64"))
    return table.groupby(list(KEYS), sort=False)[list(NUMBERS)].sum().reset_index()


def _keys_of(stack: Sequence[StackLine], cells: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the innermost line of user code, its source, and the allocating function."""
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
