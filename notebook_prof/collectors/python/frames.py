"""From packed stacks to frames: lines, files, and whose code it is."""

from __future__ import annotations

import os
import re
import sysconfig
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final, NamedTuple

import numpy as np

from ...trace.intervals import IntArray

CELL, USER, LIBRARY, MACHINERY, OURS = range(5)
"""Whose code a frame runs: a notebook cell's, the user's modules', an installed package's, the
notebook's own event loop and cell runner, or notebook_prof's."""

_CELL_FILE: Final = re.compile(r"[\\/]ipykernel_\d+[\\/]-?\d+\.py$|^<ipython-input-\d+")
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STANDARD: Final = tuple(
    {os.path.join(sysconfig.get_paths()[key], "") for key in ("stdlib", "platstdlib")}
    | {os.path.join(os.path.realpath(sysconfig.get_paths()["stdlib"]), "")}
)
_OWNER_OF_UNNAMED: Final = {"<stdin>": USER, "<frozen runpy>": MACHINERY}
_RUNNERS: Final = frozenset(
    {"IPython", "ipykernel", "ipykernel_launcher.py", "traitlets", "tornado", "zmq", "jupyter_client"}
    | {"debugpy", "_pydevd_bundle", "nest_asyncio.py", "nest_asyncio2.py", "asyncio", "concurrent"}
    | {"runpy.py", "threading.py", "selectors.py", "contextlib.py"}
)

_Lines = tuple[list[int], list[int]]


class Frame(NamedTuple):
    """One line of one function."""

    function: str
    file: str
    first_line: int
    line: int
    owner: int


@dataclass(frozen=True, slots=True)
class Stacks:
    """Distinct stacks, root first, one after another.

    Attributes
    ----------
    frames : ndarray of int64
        Positions in `known`.
    lengths : ndarray of int64
        Number of frames of each stack.
    known : list of Frame
    """

    frames: IntArray
    lengths: IntArray
    known: list[Frame]

    @property
    def offsets(self) -> IntArray:
        """Where each stack begins in `frames`."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths, dtype=np.int64)


def decode(packed: Sequence[bytes], codes: Mapping[int, CodeType]) -> Stacks:
    """Look up the lines of stacks from `Samples`.

    Returns
    -------
    Stacks
        One a packed stack, in the same order, root first.
    """
    lengths = np.fromiter((len(key) // 16 for key in packed), np.int64, len(packed))
    code_ids = np.frombuffer(b"".join(key[: len(key) // 2] for key in packed), dtype=np.int64)
    instructions = np.frombuffer(b"".join(key[len(key) // 2 :] for key in packed), dtype=np.int64)
    ids, code_of = np.unique(code_ids, return_inverse=True)
    places, frame_of = np.unique(code_of.ravel() * 2**32 + instructions + 1, return_inverse=True)
    numbers: dict[Frame, int] = {}
    lines: dict[int, _Lines] = {}
    line_of = []
    for place in places.tolist():
        code = codes[int(ids[place >> 32])]
        frame = _frame(code, (place & 0xFFFFFFFF) - 1, lines)
        line_of.append(numbers.setdefault(frame, len(numbers)))
    frames = np.array(line_of, dtype=np.int64)[frame_of.ravel()]
    begins = np.cumsum(lengths) - lengths
    mirrored = np.repeat(2 * begins + lengths - 1, lengths) - np.arange(len(frames))
    return Stacks(frames[mirrored], lengths, list(numbers))


def trim(stacks: Stacks, context: Sequence[Frame] = ()) -> Stacks:
    """Leave what the user wrote and what it called.

    Above the outermost frame of a notebook cell everything is cut. Stacks without a cell lose the
    machinery at their root, and then what they share with `context`, the stack in which the recording
    was started. Frames of notebook_prof are removed, and with them what they called, unless that led
    back to the user's own code.

    Parameters
    ----------
    stacks : Stacks
    context : sequence of Frame
        Root first, without notebook_prof's own frames.

    Returns
    -------
    Stacks
        As many stacks, some perhaps empty.
    """
    n = len(stacks.lengths)
    owner = np.array([frame.owner for frame in stacks.known], dtype=np.int64)[stacks.frames]
    offsets, home = stacks.offsets, np.repeat(np.arange(n), stacks.lengths)
    ends = offsets + stacks.lengths
    cell = _first(owner == CELL, home, ends)
    begin = np.maximum(_first(owner != MACHINERY, home, ends), offsets + _shared(stacks, context))
    begin = np.where(cell < ends, cell, begin)
    place = np.arange(len(home))
    own = np.full(n, -1, np.int64)
    np.maximum.at(own, home, np.where((owner == CELL) | (owner == USER), place, -1))
    end = _first((owner == OURS) & (place > own[home]), home, ends)
    keep = (place >= begin[home]) & (place < end[home]) & (owner != OURS)
    return Stacks(stacks.frames[keep], np.bincount(home[keep], minlength=n).astype(np.int64), stacks.known)


def _first(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], home: IntArray, otherwise: IntArray) -> IntArray:
    """For every stack the first position at which `mask` holds."""
    places = np.flatnonzero(mask)
    owners, first = np.unique(home[places], return_index=True)
    result = otherwise.copy()
    result[owners] = places[first]
    return result


def _shared(stacks: Stacks, context: Sequence[Frame]) -> IntArray:
    """How many frames from the root each stack shares with `context`."""
    number = {frame: i for i, frame in enumerate(stacks.known)}
    shared = np.zeros(len(stacks.lengths), np.int64)
    for depth, frame in enumerate(context):
        alive = np.flatnonzero((shared == depth) & (stacks.lengths > depth))
        same = stacks.frames[stacks.offsets[alive] + depth] == number.get(frame, -1)
        shared[alive[same]] += 1
    return shared


def context_of(stacks: Stacks) -> list[Frame]:
    """Frames of the one stack in `stacks`, up to the first of notebook_prof."""
    frames = [stacks.known[i] for i in stacks.frames.tolist()]
    ours = next((i for i, frame in enumerate(frames) if frame.owner == OURS), len(frames))
    return frames[:ours]


def owner_of(file: str) -> int:
    """Whose code a file holds, by its name.

    Examples
    --------
    >>> owner_of("<ipython-input-3-abc>") == CELL, owner_of("train.py") == USER
    (True, True)
    """
    if _CELL_FILE.search(file):
        return CELL
    if file.startswith(_PACKAGE):
        return OURS
    if file.startswith("<"):
        return _OWNER_OF_UNNAMED.get(file, LIBRARY)
    if (place := _installed_place(file)) is None:
        return USER
    return MACHINERY if place.split(os.sep)[0] in _RUNNERS else LIBRARY


def _installed_place(file: str) -> str | None:
    """Path below the folder that packages are installed in; None if it is not installed."""
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = file.rpartition(f"{os.sep}{folder}{os.sep}")
        if found:
            return rest
    return next((file[len(prefix) :] for prefix in _STANDARD if file.startswith(prefix)), None)


def cell_runner(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of IPython's cell runner among `frame` and its callers; None without one."""
    ending = os.path.join("core", "interactiveshell.py")
    while frame is not None and not frame.f_code.co_filename.endswith(ending):
        frame = frame.f_back
    return frame


def _frame(code: CodeType, instruction: int, lines: dict[int, _Lines]) -> Frame:
    if (table := lines.get(id(code))) is None:
        table = lines[id(code)] = _lines(code)
    at = bisect_right(table[0], instruction) - 1
    function = getattr(code, "co_qualname", code.co_name)
    line = table[1][at] if at >= 0 else code.co_firstlineno
    return Frame(function, code.co_filename, code.co_firstlineno, line, owner_of(code.co_filename))


def _lines(code: CodeType) -> _Lines:
    starts, lines, latest = [], [], code.co_firstlineno
    for start, _, line in code.co_lines():
        latest = line if line else latest
        starts.append(start)
        lines.append(latest)
    return starts, lines
