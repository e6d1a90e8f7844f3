"""Turns packed stacks into frames: lines, files, and the owner of the code."""

from __future__ import annotations

import linecache
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

CELL, USER, LIBRARY, MACHINERY, OURS, NOTEBOOK = range(6)
"""Owner of a frame's code: a notebook cell, the user's modules, an installed package, the code that starts
threads, tasks and programs, notebook_prof, or the notebook's kernel (including its display of values).
"""

_CELL_FILE: Final = re.compile(r"[\\/]ipykernel_\d+[\\/]-?\d+\.py$|^<ipython-input-\d+")
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STANDARD: Final = tuple(
    {os.path.join(sysconfig.get_paths()[key], "") for key in ("stdlib", "platstdlib")}
    | {os.path.join(os.path.realpath(sysconfig.get_paths()["stdlib"]), "")}
)
_OTHER_STANDARD: Final = re.compile(r"[\\/]lib[\\/]python3\.\d+t?[\\/]|[\\/]Python3\d+[\\/]Lib[\\/]")
_OWNER_OF_UNNAMED: Final = {"<stdin>": USER, "<string>": USER, "<frozen runpy>": MACHINERY}
_KERNEL: Final = frozenset(
    {"IPython", "ipykernel", "ipykernel_launcher.py", "traitlets", "tornado", "zmq", "jupyter_client"}
    | {"debugpy", "_pydevd_bundle", "nest_asyncio.py", "nest_asyncio2.py"}
)
_RUNNERS: Final = frozenset(
    {"asyncio", "concurrent", "runpy.py", "threading.py", "selectors.py", "contextlib.py"}
)
_POOLS: Final = frozenset({"multiprocessing", "concurrent", "threading.py", "queue.py", "selectors.py"})
_STARTERS: Final = (
    ("multiprocessing/process.py", ("_bootstrap", "run")),
    ("multiprocessing/popen_fork.py", ("_launch",)),
    ("/subprocess.py", ("_execute_child",)),  # before the child runs another program
    ("multiprocessing/spawn.py", ("spawn_main", "_main")),
    ("torch/multiprocessing/spawn.py", ("_wrap",)),
)
MARKERS: Final = ("b'%%profile", 'b"%%profile', "# %%profile")
"""How the line begins that replaces a ``%%profile`` line in the cell's source: a constant, which tracebacks
show as a comment.
"""
_GENERATED: Final = re.compile(r"[\\/](torchinductor_[^\\/]*|\.triton|torch_compile_debug)[\\/]")
"""Folders of sources that a compiler wrote."""


class Frame(NamedTuple):
    """One line of one function."""

    function: str
    file: str
    first_line: int
    line: int
    owner: int


KEPT_FRAMES: Final = 250
"""How many outermost and how many innermost frames of a deep stack are kept."""
FOLDED: Final = Frame("frames left out", "<deep recursion>", 1, 1, LIBRARY)
"""Replaces the frames between them."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """Distinct stacks, root first, concatenated."""

    frames: IntArray  # positions in `distinct`
    lengths: IntArray  # number of frames of each stack
    distinct: list[Frame]

    @property
    def offsets(self) -> IntArray:
        """Where each stack begins in `frames`."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths, dtype=np.int64)


def tell_folded(report: ImportReport, stacks: int, deepest: int) -> None:
    """Report how many stacks lack frames in the middle."""
    report.add(
        "deep-stacks-folded",
        "info",
        stacks,
        example=f"the deepest has {deepest:,} frames",
        effect=f"the outermost {KEPT_FRAMES} and the innermost {KEPT_FRAMES} frames of each are kept; "
        f"'{FOLDED.function}' replaces the others",
    )


def trim(stacks: Stacks, context: Sequence[Frame] = ()) -> Stacks:
    """Keep the user's frames and those they called, in the thread that started the recording."""
    # - Stacks with a cell begin at the outermost frame of the recorded cell. That is the innermost cell of
    #   `context`, since a cell may run another one; if it is not in the stack, any cell.
    # - Stacks without a cell lose the machinery at their root, and then the frames that they share with
    #   `context`, the stack that started the recording. If that was a cell, they begin at the first frame of
    #   the user's modules. Those without such a frame show the notebook's own work and become empty.
    # - Frames of notebook_prof are removed together with everything that they called, unless that led back to
    #   user code. So are the notebook's frames after the last frame of user code.
    if not len(stacks.frames):
        return stacks
    own = _Owners(stacks)
    begin = own.first(own.owner != MACHINERY)
    if any(frame.owner == NOTEBOOK for frame in context):
        begin = own.first(own.owner == USER)
    begin = np.maximum(begin, own.offsets + _shared(stacks, context))
    cell = own.first(own.owner == CELL)
    recorded = [frame.file for frame in context if frame.owner == CELL][-1:]
    inner = own.first(own.of(lambda frame: frame.owner == CELL and frame.file in recorded))
    cell = np.where(inner < own.ends, inner, cell)
    marker = np.array([frame.owner == CELL and _is_marker(frame) for frame in stacks.distinct], dtype=bool)
    at_marker = (cell < own.ends) & marker[stacks.frames[np.minimum(cell, len(own.owner) - 1)]]
    begin = np.where(at_marker, own.ends, np.where(cell < own.ends, cell, begin))
    return own.kept(begin)


def trim_thread(stacks: Stacks) -> Stacks:
    """Keep a thread's own work: cut the code that starts threads, and empty the stack while a pool waits for
    work."""
    own = _Owners(stacks)
    cell = own.first(own.owner == CELL)
    begin = own.first((own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(cell < own.ends, np.minimum(cell, begin), begin))


def trim_process(stacks: Stacks) -> Stacks:
    """Keep a child process's own work. Stacks are empty while the process waits for work."""
    # A forked child still has its parent's frames. Everything up to the function that runs a process's work
    # is cut, then all frames before the first one of user code or, if there is none, a pool's wait for work.
    own = _Owners(stacks)
    bottom = own.last(own.of(_starts_process)) + 1
    behind = own.position >= bottom[own.home]
    user = own.first(behind & ((own.owner == CELL) | (own.owner == USER)))
    others = own.first(behind & (own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(user < own.ends, user, others))


class _Owners:
    """Owners and positions of the frames in stacks."""

    def __init__(self, stacks: Stacks) -> None:
        n = len(stacks.lengths)
        self._stacks = stacks
        self.owner = np.array([frame.owner for frame in stacks.distinct], dtype=np.int64)[stacks.frames]
        self.offsets, self.home = stacks.offsets, np.repeat(np.arange(n), stacks.lengths)
        self.ends = self.offsets + stacks.lengths
        self.position = np.arange(len(self.home))

    def of(self, is_it: Callable[[Frame], bool]) -> BoolArray:
        """Return a mask of the frames that satisfy a predicate."""
        kinds = np.array([is_it(frame) for frame in self._stacks.distinct], dtype=bool)
        return np.asarray(kinds[self._stacks.frames], dtype=bool)

    def first(self, mask: BoolArray) -> IntArray:
        """Return the first position in each stack where `mask` is true, or the stack's end if there is
        none."""
        return _first(mask, self.home, self.ends)

    def last(self, mask: BoolArray) -> IntArray:
        """Return the last position in each stack where `mask` is true, or the position before its start if
        there is none."""
        result = self.offsets - 1
        np.maximum.at(result, self.home, np.where(mask, self.position, -1))
        return result

    def kept(self, begin: IntArray) -> Stacks:
        """Return the stacks from `begin` on, without our frames, the notebook's, and what they called."""
        # if such frames led back to user code, as ``%run`` does, only they are removed
        n, owner = len(self.ends), self.owner
        own = self.last((owner == CELL) | (owner == USER))
        foreign = ((owner == OURS) | (owner == NOTEBOOK)) & (self.position > own[self.home])
        end = self.first(foreign & (self.position >= begin[self.home]))
        keep = (self.position >= begin[self.home]) & (self.position < end[self.home])
        keep &= (owner != OURS) & (owner != NOTEBOOK) & ~self.of(_imports)
        lengths = np.bincount(self.home[keep], minlength=n).astype(np.int64)
        return Stacks(self._stacks.frames[keep], lengths, self._stacks.distinct)


def _is_marker(frame: Frame) -> bool:
    return frame.line == 1 and linecache.getline(frame.file, 1).startswith(MARKERS)


def _is_pool(frame: Frame) -> bool:
    """Return whether this is where a pool of threads or processes waits for work or passes it on."""
    path = _installed_path(frame.file)
    return path is not None and (path.split(os.sep)[0] in _POOLS or "externals" in path.split(os.sep))


def _imports(frame: Frame) -> bool:
    """Return whether this is a frame of Python's import system, which tracebacks leave out too."""
    return frame.file.startswith("<frozen importlib")


def _starts_process(frame: Frame) -> bool:
    """Return whether this function runs the work of a child process, or is the last one before it."""
    function = frame.function.rpartition(".")[2]
    file = frame.file.replace(os.sep, "/")
    return any(file.endswith(ending) and function in names for ending, names in _STARTERS)


def _first(mask: BoolArray, home: IntArray, otherwise: IntArray) -> IntArray:
    """Return the first position in each stack where `mask` is true."""
    positions = np.flatnonzero(mask)
    owners, first = np.unique(home[positions], return_index=True)
    result = otherwise.copy()
    result[owners] = positions[first]
    return result


def _shared(stacks: Stacks, context: Sequence[Frame]) -> IntArray:
    """Return how many frames from the root each stack shares with `context`."""
    number = {frame: i for i, frame in enumerate(stacks.distinct)}
    shared = np.zeros(len(stacks.lengths), np.int64)
    for depth, frame in enumerate(context):
        alive = np.flatnonzero((shared == depth) & (stacks.lengths > depth))
        same = stacks.frames[stacks.offsets[alive] + depth] == number.get(frame, -1)
        shared[alive[same]] += 1
    return shared


def context_of(stacks: Stacks) -> list[Frame]:
    """Return the frames of the only stack in `stacks`, up to our first frame after the innermost cell."""
    frames = [stacks.distinct[i] for i in stacks.frames.tolist()]
    cell = max((i for i, frame in enumerate(frames) if frame.owner == CELL), default=0)
    ours = next((i for i in range(cell, len(frames)) if frames[i].owner == OURS), len(frames))
    return frames[:ours]


def owner_of(file: str) -> int:
    """Return the owner of a file's code, judging by the file's name.

    >>> owner_of("<ipython-input-3-abc>") == CELL, owner_of("train.py") == USER
    (True, True)
    >>> owner_of("/tmp/torchinductor_me/c7/c7t4.py") == LIBRARY
    True
    """
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
    """Return whether a compiler wrote the file, as Inductor writes "/tmp/torchinductor_me/c7/c7t4.py"."""
    return _GENERATED.search(file) is not None


def is_watched(file: str) -> bool:
    """Return whether the lines of a file are timed where the interpreter supports it: cells and user
    modules."""
    owner = owner_of(file)
    return owner == CELL or (owner == USER and not file.startswith("<"))


def _installed_path(file: str) -> str | None:
    """Return the path below the folder of installed packages; None if the file is not installed."""
    for folder in ("site-packages", "dist-packages"):
        _, separator, path = file.rpartition(f"{os.sep}{folder}{os.sep}")
        if separator:
            return path
    if (
        standard := next((file[len(prefix) :] for prefix in _STANDARD if file.startswith(prefix)), None)
    ) is not None:
        return standard
    other = _OTHER_STANDARD.search(file)  # a file of a child that runs another Python
    return file[other.end() :] if other else None


def cell_runner(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of IPython's cell runner among `frame` and its callers; None without one."""
    ending = os.path.join("core", "interactiveshell.py")
    while frame is not None and not frame.f_code.co_filename.endswith(ending):
        frame = frame.f_back
    return frame
