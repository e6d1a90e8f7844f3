"""Displayed names of the processes and threads of a recording."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from .frames import Frame

COMMAND_CHARACTERS: Final = 60

_FORMS: Final = (
    ("multiprocessing/pool.py", "worker", "Pool worker {}", 1),
    ("torch/utils/data/_utils/worker.py", "_worker_loop", "loader {}", 0),
    ("loky/process_executor.py", "_process_worker", "joblib {}", 1),
    ("concurrent/futures/process.py", "_process_worker", "ProcessPool worker {}", 1),
    ("torch/multiprocessing/spawn.py", "_wrap", "rank {}", 0),
)
"""For the function that a kind of process runs: the name of that kind, and the number of its first
process."""

_BY_COMMAND: Final = (("popen_loky", "joblib {}", 1), ("torch/_inductor/compile_worker", "compiler {}", 0))
_SILENT: Final = (
    "multiprocessing.resource_tracker",
    "loky.backend.resource_tracker",
    "multiprocessing.forkserver",
)


class Process(NamedTuple):
    """A child process, as sampled."""

    pid: int
    command: str  # how it was started
    frames: Sequence[Frame]  # every frame seen
    rank: int = -1  # from its environment; -1 for none


def name_processes(children: Sequence[Process], named: Mapping[int, str] | None = None) -> dict[int, str]:
    """Name child processes by what they run, in order of pid. Processes that only serve others are left out.

    >>> worker = Frame("worker", "/lib/python3/multiprocessing/pool.py", 1, 2, 2)
    >>> name_processes([Process(8, "python", [worker]), Process(7, "python", [worker])])
    {7: 'Pool worker 1', 8: 'Pool worker 2'}
    """
    counts: Counter[str] = Counter()
    names: dict[int, str] = {}
    for child in sorted(children, key=lambda child: child.pid):
        if any(word in child.command for word in _SILENT):
            continue
        form, first = _name_form(child)
        if form == "rank {}" and child.rank >= 0:
            names[child.pid] = form.format(child.rank)
            continue
        if form is None:
            own = (named or {}).get(child.pid, "")
            if own:
                names[child.pid] = own
                continue
            counts["process"] += 1
            names[child.pid] = f"process {counts['process']}: {short_command(child.command)}".rstrip(": ")
            continue
        names[child.pid] = form.format(first + counts[form])
        counts[form] += 1
    return names


def short_command(command: str) -> str:
    """Return a command on one line, with the program's name but not its folder: "python3 -c import time"."""
    program, _, arguments = " ".join(command.split()).partition(" ")
    text = f"{os.path.basename(program)} {arguments}".strip()
    return text if len(text) <= COMMAND_CHARACTERS else text[: COMMAND_CHARACTERS - 1] + "…"


def _name_form(child: Process) -> tuple[str | None, int]:
    functions = {
        (frame.file.replace(os.sep, "/"), frame.function.rpartition(".")[2]) for frame in child.frames
    }
    for file, function, form, first in _FORMS:
        if any(name == function and path.endswith(file) for path, name in functions):
            return form, first
    for word, form, first in _BY_COMMAND:
        if word in child.command:
            return form, first
    return ("rank {}", 0) if child.rank >= 0 else (None, 0)
