"""From packed stacks to frames: lines, files, and whose code it is."""

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
"""Whose code a frame runs: a notebook cell's, the user's modules', an installed package's, what starts
threads, tasks and programs, notebook_prof's, or the notebook's kernel's (its display of values too)."""

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
    ("/subprocess.py", ("_execute_child",)),  # before another program runs in it
    ("multiprocessing/spawn.py", ("spawn_main", "_main")),
    ("torch/multiprocessing/spawn.py", ("_wrap",)),
)
MARKERS: Final = ("b'%%profile", 'b"%%profile', "# %%profile")
"""How the line begins that holds the place of a ``%%profile`` line in the cell's source: a constant, which
tracebacks show as a comment."""
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
"""Outermost frames kept of a deep stack; as many innermost ones are kept."""
FOLDED: Final = Frame("frames left out", "<deep recursion>", 1, 1, LIBRARY)
"""Stands for the frames between them."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """Distinct stacks, root first, one after another.

    Attributes
    ----------
    frames : ndarray of int64
        Positions in `distinct`.
    lengths : ndarray of int64
        Number of frames of each stack.
    distinct : list of Frame
    """

    frames: IntArray
    lengths: IntArray
    distinct: list[Frame]

    @property
    def offsets(self) -> IntArray:
        """Where each stack begins in `frames`."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths, dtype=np.int64)


def tell_folded(report: ImportReport, stacks: int, deepest: int) -> None:
    """Say how many stacks lack frames in their middle."""
    report.add(
        "deep-stacks-folded",
        "info",
        stacks,
        example=f"the deepest has {deepest:,} frames",
        effect=f"of each, the outermost {KEPT_FRAMES} and the innermost {KEPT_FRAMES} frames are kept; "
        f"'{FOLDED.function}' stands for those between",
    )


def trim(stacks: Stacks, context: Sequence[Frame] = ()) -> Stacks:
    """Leave what the user wrote and what it called, in the thread in which the recording was started.

    Above the outermost frame of the recorded cell everything is cut: of the innermost cell of `context`,
    as a cell may run another one, or of any cell where that is not in the stack. Stacks without a cell
    lose the machinery at their root, and then what they share with `context`, the stack in which the
    recording was started; if that was a cell, they begin at the first frame of the user's own modules,
    and are empty without one, since they show the notebook's own work. Frames of notebook_prof are
    removed, and with them what they called, unless that led back to the user's own code; so are the
    notebook's, behind the last frame of the user's own code.

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
    """Leave what a thread was made for: what starts threads, and a pool's waiting for work, is cut.

    Returns
    -------
    Stacks
        As many stacks, empty where the thread waited for work.
    """
    own = _Owners(stacks)
    cell = own.first(own.owner == CELL)
    begin = own.first((own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(cell < own.ends, np.minimum(cell, begin), begin))


def trim_process(stacks: Stacks) -> Stacks:
    """Leave what a child process was made for.

    A forked child still has the frames of its parent: everything up to the function that runs a
    process's work is cut, and then what comes before the first frame of the user's own code; without
    one, a pool's waiting for work.

    Returns
    -------
    Stacks
        As many stacks, empty where the process waited for work.
    """
    own = _Owners(stacks)
    bottom = own.last(own.of(_starts_process)) + 1
    behind = own.position >= bottom[own.home]
    user = own.first(behind & ((own.owner == CELL) | (own.owner == USER)))
    others = own.first(behind & (own.owner != MACHINERY) & (own.owner != NOTEBOOK) & ~own.of(_is_pool))
    return own.kept(np.where(user < own.ends, user, others))


class _Owners:
    """Whose frames the stacks hold, and where."""

    def __init__(self, stacks: Stacks) -> None:
        n = len(stacks.lengths)
        self._stacks = stacks
        self.owner = np.array([frame.owner for frame in stacks.distinct], dtype=np.int64)[stacks.frames]
        self.offsets, self.home = stacks.offsets, np.repeat(np.arange(n), stacks.lengths)
        self.ends = self.offsets + stacks.lengths
        self.position = np.arange(len(self.home))

    def of(self, is_it: Callable[[Frame], bool]) -> BoolArray:
        """Return which frames are of a kind."""
        kinds = np.array([is_it(frame) for frame in self._stacks.distinct], dtype=bool)
        return np.asarray(kinds[self._stacks.frames], dtype=bool)

    def first(self, mask: BoolArray) -> IntArray:
        """Return the first position at which `mask` holds in every stack; its end without one."""
        return _first(mask, self.home, self.ends)

    def last(self, mask: BoolArray) -> IntArray:
        """Return the last position at which `mask` holds in every stack; before its begin without one."""
        result = self.offsets - 1
        np.maximum.at(result, self.home, np.where(mask, self.position, -1))
        return result

    def kept(self, begin: IntArray) -> Stacks:
        """Return the stacks from `begin` on, without our frames and the notebook's, and what they led to.

        Where they led back to the user's own code, as ``%run`` does, only they are missing.
        """
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
    """Return whether this is how a pool of threads or processes waits for work and hands it on."""
    path = _installed_path(frame.file)
    return path is not None and (path.split(os.sep)[0] in _POOLS or "externals" in path.split(os.sep))


def _imports(frame: Frame) -> bool:
    """Return whether this is how Python itself imports; tracebacks leave these out too."""
    return frame.file.startswith("<frozen importlib")


def _starts_process(frame: Frame) -> bool:
    """Return whether this function runs what a child process was made for, or is the last before that."""
    function = frame.function.rpartition(".")[2]
    file = frame.file.replace(os.sep, "/")
    return any(file.endswith(ending) and function in names for ending, names in _STARTERS)


def _first(mask: BoolArray, home: IntArray, otherwise: IntArray) -> IntArray:
    """Return the first position at which `mask` holds in every stack."""
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
    """Return frames of the one stack in `stacks`, up to our first one behind the innermost cell."""
    frames = [stacks.distinct[i] for i in stacks.frames.tolist()]
    cell = max((i for i, frame in enumerate(frames) if frame.owner == CELL), default=0)
    ours = next((i for i in range(cell, len(frames)) if frames[i].owner == OURS), len(frames))
    return frames[:ours]


def owner_of(file: str) -> int:
    """Say whose code a file holds, by its name.

    Examples
    --------
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
    """Say whether a compiler wrote a file: Inductor's modules.

    Examples
    --------
    >>> is_generated("/tmp/torchinductor_me/c7/c7t4.py"), is_generated("/home/me/model.py")
    (True, False)
    """
    return _GENERATED.search(file) is not None


def is_watched(file: str) -> bool:
    """Say whether lines of a file are timed where the interpreter tells of them: of cells, and of the user's.

    Examples
    --------
    >>> is_watched("/home/me/model.py"), is_watched("<string>")
    (True, False)
    """
    owner = owner_of(file)
    return owner == CELL or (owner == USER and not file.startswith("<"))


def _installed_path(file: str) -> str | None:
    """Return the path below the folder that packages are installed in; None if it is not installed."""
    for folder in ("site-packages", "dist-packages"):
        _, separator, path = file.rpartition(f"{os.sep}{folder}{os.sep}")
        if separator:
            return path
    if (
        standard := next((file[len(prefix) :] for prefix in _STANDARD if file.startswith(prefix)), None)
    ) is not None:
        return standard
    other = _OTHER_STANDARD.search(file)  # of a child that runs another Python
    return file[other.end() :] if other else None


def cell_runner(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of IPython's cell runner among `frame` and its callers; None without one."""
    ending = os.path.join("core", "interactiveshell.py")
    while frame is not None and not frame.f_code.co_filename.endswith(ending):
        frame = frame.f_back
    return frame
