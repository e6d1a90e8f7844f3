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
"""Kinds of processes: file and function that they run, their name, and the number of the first one."""

_BY_COMMAND: Final = (("popen_loky", "joblib {}", 1), ("torch/_inductor/compile_worker", "compiler {}", 0))
_SILENT: Final = (
    "multiprocessing.resource_tracker",
    "loky.backend.resource_tracker",
    "multiprocessing.forkserver",
)


class Process(NamedTuple):
    """A sampled child process."""

    pid: int
    command: str  # its command line
    frames: Sequence[Frame]  # all of its frames in the samples
    rank: int = -1  # from its environment; -1 for none


def name_processes(children: Sequence[Process], named: Mapping[int, str] | None = None) -> dict[int, str]:
    """Name child processes by the work they do, in order of pid."""
    counts: Counter[str] = Counter()
    names: dict[int, str] = {}
    for child in sorted(children, key=lambda child: child.pid):
        if any(word in child.command for word in _SILENT):
            # these only serve other processes
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
    """Return a command in one line, without the program's folder: "python3 -c import time"."""
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
