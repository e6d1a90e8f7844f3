"""Turns packed stacks into frames: lines, files, and the owner of the code."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.report import ImportReport
from ...trace.taxonomy import passes_on
from ..line_sources import lines_now

CELL, USER, LIBRARY, MACHINERY, OURS, NOTEBOOK = range(6)
"""Owners of a frame's code: a notebook cell, the user's modules, an installed package, the code that starts
threads, tasks and programs, notebook_prof, and the notebook's kernel (including its display of values).
"""

_MAGIC_FILE: Final = re.compile(r"^<timed (?:exec|eval)>$|^<magic-timeit>$")
"""File names of the code that ``%time`` and ``%timeit`` run."""
_CELL_FILE: Final = re.compile(
    rf"[\\/]ipykernel_\d+[\\/]-?\d+\.py$|^<ipython-input-\d+|{_MAGIC_FILE.pattern}"
)
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STANDARD: Final = tuple(
    {os.path.join(sysconfig.get_paths()[key], "") for key in ("stdlib", "platstdlib")}
    | {os.path.join(os.path.realpath(sysconfig.get_paths()["stdlib"]), "")}
)
_OTHER_STANDARD: Final = re.compile(r"[\\/]lib[\\/]python3\.\d+t?[\\/]|[\\/]Python3\d+[\\/]Lib[\\/]")
DYNAMIC: Final = "<dynamic-code>"
"""File of functions that cloudpickle sent, as for distributed, joblib and Ray."""
_OWNER_OF_UNNAMED: Final = {"<stdin>": USER, "<string>": USER, DYNAMIC: USER, "<frozen runpy>": MACHINERY}
_KERNEL: Final = frozenset(
    {"IPython", "ipykernel", "ipykernel_launcher.py", "traitlets", "tornado", "zmq", "jupyter_client"}
    | {"debugpy", "_pydevd_bundle", "nest_asyncio.py", "nest_asyncio2.py"}
)
_SHOWS: Final = ("IPython/core/formatters.py", "IPython/core/pylabtools.py")
"""Files that call the user's own display of a value, or draw a figure."""
_FIGURES: Final = "matplotlib_inline/backend_inline.py"
"""The file that draws the figures of a cell after its last statement."""
_RUNNERS: Final = frozenset(
    {"asyncio", "concurrent", "runpy.py", "threading.py", "selectors.py", "contextlib.py"}
)
_POOLS: Final = frozenset({"multiprocessing", "concurrent", "threading.py", "queue.py", "selectors.py"})
_STARTERS: Final = (
    ("multiprocessing/process.py", ("_bootstrap", "run")),
    ("multiprocessing/popen_fork.py", ("_launch",)),
    ("/subprocess.py", ("_execute_child",)),  # until the child runs another program
    ("multiprocessing/spawn.py", ("spawn_main", "_main")),
    ("torch/multiprocessing/spawn.py", ("_wrap",)),
)
MARKERS: Final = ("b'%%profile", 'b"%%profile', "# %%profile")
"""Beginnings of the line that replaces a ``%%profile`` line in the cell's source. It is a constant, which
tracebacks show as a comment.
"""
_GENERATED: Final = re.compile(r"[\\/](torchinductor_[^\\/]*|\.triton|torch_compile_debug)[\\/]")
"""Matches folders of sources that a compiler wrote."""


class PythonFrame(NamedTuple):
    """One line of one function."""

    function: str
    file: str
    first_line: int
    line: int
    owner: int


KEPT_FRAMES: Final = 250
"""Number of outermost frames, and also of innermost frames, that are kept of a deep stack."""
FOLDED: Final = PythonFrame("frames left out", "<deep recursion>", 1, 1, LIBRARY)
"""Replaces the frames in between."""


@dataclass(frozen=True, slots=True)
class PackedStacks:
    """Distinct stacks, root first, concatenated."""

    frames: IntArray  # positions in `distinct`
    lengths: IntArray  # number of frames of each stack
    distinct: list[PythonFrame]

    @property
    def offsets(self) -> IntArray:
        """Where each stack begins in `frames`."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths, dtype=np.int64)


def tell_folded(report: ImportReport, stacks: int, deepest: int) -> None:
    """Report how many stacks lack frames in the middle."""
    example = f"the deepest has {deepest:,} frames"
    kept = f"the outermost {KEPT_FRAMES} and the innermost {KEPT_FRAMES} frames of each are kept"
    effect = f"{kept}; '{FOLDED.function}' replaces the others"
    report.add("deep-stacks-folded", "info", stacks, example, effect)


def trim(stacks: PackedStacks, context: Sequence[PythonFrame] = ()) -> PackedStacks:
    """Trim stacks of the thread that started the recording to the user's frames and those they called."""
    # - Stacks with a cell begin at the outermost frame of the recorded cell. This is the innermost cell in
    #   `context`, since a cell may run another one; if it is not in the stack, any cell counts.
    # - Stacks without a cell lose the machinery at their root, and then the frames that they share with
    #   `context`, the stack that started the recording. If that was a cell, they begin at the first frame of
    #   the user's modules. Stacks without such a frame show work of the notebook itself and become empty.
    # - Frames of notebook_prof are removed together with everything that they called, unless that led back to
    #   user code. So are the notebook's frames after the last frame of user code.
    if not len(stacks.frames):
        return stacks
    own = _Owners(stacks)
    begin = own.first(own.owner != MACHINERY)
    if any(frame.owner == NOTEBOOK for frame in context):
        draws = own.of(lambda frame: frame.file.replace(os.sep, "/").endswith(_FIGURES))
        begin = own.first((own.owner == USER) | draws)
    begin = np.maximum(begin, own.offsets + _shared(stacks, context))
    cell = own.first(own.owner == CELL)
    recorded = [frame.file for frame in context if frame.owner == CELL][-1:]
    inner = own.first(own.of(lambda frame: frame.owner == CELL and frame.file in recorded))
    cell = np.where(inner < own.ends, inner, cell)
    at_marker = (cell < own.ends) & own.of(_is_marker)[np.minimum(cell, len(own.owner) - 1)]
    begin = np.where(at_marker, own.ends, np.where(cell < own.ends, cell, begin))
    return own.kept(begin)


def trim_thread(stacks: PackedStacks) -> PackedStacks:
    """Trim another thread's stacks to its work, without the code that starts threads and a pool's waits."""
    own = _Owners(stacks)
    cell = own.first(own.owner == CELL)
    begin = own.first((own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(cell < own.ends, np.minimum(cell, begin), begin))


def trim_process(stacks: PackedStacks) -> PackedStacks:
    """Trim stacks of a child process to its work. They are empty while it waits for work."""
    # A forked child still has its parent's frames. Everything up to the function that runs the process's work
    # is cut, and then all frames before the first one of user code or, if there is none, a pool's wait for
    # work.
    own = _Owners(stacks)
    bottom = own.last(own.of(_starts_process)) + 1
    behind = own.position >= bottom[own.home]
    user = own.first(behind & ((own.owner == CELL) | (own.owner == USER)))
    others = own.first(behind & (own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(user < own.ends, user, others))


class _Owners:
    """Owners and positions of the frames in stacks."""

    def __init__(self, stacks: PackedStacks) -> None:
        n = len(stacks.lengths)
        self._stacks = stacks
        self.owner = np.array([frame.owner for frame in stacks.distinct], dtype=np.int64)[stacks.frames]
        self.offsets, self.home = stacks.offsets, np.repeat(np.arange(n), stacks.lengths)
        self.ends = self.offsets + stacks.lengths
        self.position = np.arange(len(self.home))

    def of(self, is_it: Callable[[PythonFrame], bool]) -> BoolArray:
        """Return a mask of the frames that satisfy a predicate."""
        kinds = np.array([is_it(frame) for frame in self._stacks.distinct], dtype=bool)
        return np.asarray(kinds[self._stacks.frames], dtype=bool)

    def first(self, mask: BoolArray) -> IntArray:
        """Return the first position in each stack where `mask` is true, or the stack's end."""
        positions = np.flatnonzero(mask)
        homes, first = np.unique(self.home[positions], return_index=True)
        result = self.ends.copy()
        result[homes] = positions[first]
        return result

    def last(self, mask: BoolArray) -> IntArray:
        """Return the last position in each stack where `mask` is true, or the position before its start."""
        result = self.offsets - 1
        np.maximum.at(result, self.home, np.where(mask, self.position, -1))
        return result

    def kept(self, begin: IntArray) -> PackedStacks:
        """Return the stacks from `begin` on, without our and the notebook's frames and their callees."""
        # if such frames led back to user code, like ``%run``, only they are removed
        n, owner = len(self.ends), self.owner
        own = self.last((owner == CELL) | (owner == USER) | self.of(_shows))
        foreign = ((owner == OURS) | (owner == NOTEBOOK)) & (self.position > own[self.home])
        end = self.first(foreign & (self.position >= begin[self.home]))
        keep = (self.position >= begin[self.home]) & (self.position < end[self.home])
        keep &= (owner != OURS) & (owner != NOTEBOOK) & ~self._of_line_magics()
        # as tracebacks do, omit the frames of Python's import system
        keep &= ~self.of(lambda frame: frame.file.startswith("<frozen importlib"))
        # an innermost wrapper is kept, since the time is its own
        keep &= (self.position >= self.last(keep)[self.home]) | ~self.of(
            lambda frame: passes_on(frame.function, frame.file)
        )
        lengths = np.bincount(self.home[keep], minlength=n).astype(np.int64)
        return PackedStacks(self._stacks.frames[keep], lengths, self._stacks.distinct)

    def _of_line_magics(self) -> BoolArray:
        """Return a mask of the frames between a line's ``%time`` or ``%timeit`` and the code that it runs."""
        # that code is part of the line, but its own lines are numbered from 1
        line, cell = self.last(self.of(_runs("run_line_magic"))), self.last(self.of(_runs("run_cell_magic")))
        body = self.last(self.of(lambda frame: _MAGIC_FILE.search(frame.file) is not None))
        inside = (self.position > line[self.home]) & (self.position <= body[self.home])
        return np.asarray(inside & (line > cell)[self.home])


def _runs(magic: str) -> Callable[[PythonFrame], bool]:
    return lambda frame: frame.owner == NOTEBOOK and frame.function.endswith(magic)


def _is_marker(frame: PythonFrame) -> bool:
    first = frame.owner == CELL and frame.line == 1
    return first and "".join(lines_now(frame.file)[:1]).startswith(MARKERS)


def _is_pool(frame: PythonFrame) -> bool:
    """Return whether this code of a pool of threads or processes waits for work or passes it on."""
    path = _installed_path(frame.file)
    return path is not None and (path.split(os.sep)[0] in _POOLS or "externals" in path.split(os.sep))


def _shows(frame: PythonFrame) -> bool:
    """Return whether this frame of the notebook calls the display of a value."""
    return frame.owner == NOTEBOOK and frame.file.replace(os.sep, "/").endswith(_SHOWS)


def _starts_process(frame: PythonFrame) -> bool:
    """Return whether this function runs a child process's work, or is the last one before it."""
    function, file = frame.function.rpartition(".")[2], frame.file.replace(os.sep, "/")
    return any(file.endswith(ending) and function in names for ending, names in _STARTERS)


def _shared(stacks: PackedStacks, context: Sequence[PythonFrame]) -> IntArray:
    """Return how many frames from the root each stack shares with `context`."""
    number = {frame: i for i, frame in enumerate(stacks.distinct)}
    shared = np.zeros(len(stacks.lengths), np.int64)
    for depth, frame in enumerate(context):
        alive = np.flatnonzero((shared == depth) & (stacks.lengths > depth))
        same = stacks.frames[stacks.offsets[alive] + depth] == number.get(frame, -1)
        shared[alive[same]] += 1
    return shared


def context_of(stacks: PackedStacks) -> list[PythonFrame]:
    """Return the frames of the single stack in `stacks`, up to our first frame after the innermost cell."""
    frames = [stacks.distinct[i] for i in stacks.frames.tolist()]
    cell = max((i for i, frame in enumerate(frames) if frame.owner == CELL), default=0)
    ours = next((i for i in range(cell, len(frames)) if frames[i].owner == OURS), len(frames))
    return frames[:ours]


def owner_of(file: str) -> int:
    """Return the owner of a file's code, judging by the file's name."""
    if _CELL_FILE.search(file):
        return CELL
    if file.startswith(_PACKAGE):
        return OURS
    if file.startswith("<"):
        return _OWNER_OF_UNNAMED.get(file, LIBRARY)
    if (path := _installed_path(file)) is None:
        return LIBRARY if _GENERATED.search(file) else USER
    top = path.split(os.sep)[0]
    return NOTEBOOK if top in _KERNEL else MACHINERY if top in _RUNNERS else LIBRARY


def is_generated(file: str) -> bool:
    """Return whether a compiler wrote the file, such as Inductor's "/tmp/torchinductor_me/c7/c7t4.py"."""
    return _GENERATED.search(file) is not None


def is_watched(file: str) -> bool:
    """Return whether a file's lines are timed, if the interpreter supports it: cells and user modules."""
    owner = owner_of(file)
    return owner == CELL or (owner == USER and not file.startswith("<"))


def _installed_path(file: str) -> str | None:
    """Return the path below the folder of installed packages; None if the file is not installed."""
    for folder in ("site-packages", "dist-packages"):
        _, separator, path = file.rpartition(f"{os.sep}{folder}{os.sep}")
        if separator:
            return path
    for prefix in _STANDARD:
        if file.startswith(prefix):
            return file.removeprefix(prefix)
    other = _OTHER_STANDARD.search(file)  # a file in a child process that runs another Python
    return file[other.end() :] if other else None


def cell_runner(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of IPython's cell runner among `frame` and its callers; None without one."""
    ending = os.path.join("core", "interactiveshell.py")
    while frame is not None and not frame.f_code.co_filename.endswith(ending):
        frame = frame.f_back
    return frame
