"""Displayed names: of functions and lines, with the text of their files, and of processes and threads."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from ...trace.builder import TraceBuilder
from ...trace.report import Severity
from ...trace.source_lines import SOURCE_FILES, text_lines
from ...units import cut
from ..line_sources import Place, lines_now, newest_file
from ..statements import sources
from ..system.polling import short_command
from .frames import CELL, DYNAMIC, USER, PythonFrame, is_generated, owner_of

_SOURCE_CHARACTERS: Final = 60
EDITED: Final = "(the file was edited after it was imported)"
"""Shown for lines whose text is unknown."""
_IPYTHON_CALL: Final = re.compile(
    r"(?P<before>.*?)get_ipython\(\)\.(?P<call>run_line_magic|run_cell_magic|system|getoutput)\((?P<given>.*)\)"
)
_FUSED: Final = re.compile(r"^\s+(?P<kernel>\w+_fused_\w+)(?:\.run)?\(")


def short_file(frame: PythonFrame, cells: Mapping[str, str]) -> str:
    """Return the displayed name of a frame's file: ``cell``, ``In[3]``, or its name."""
    if frame.owner == CELL:
        return cells.get(frame.file, "cell")
    return os.path.basename(frame.file)


def as_typed(source: str) -> str:
    """Return a line as typed in the cell, before IPython replaced a magic or a shell command with a call.

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
    if match["call"] == "run_cell_magic":
        words = words[:2]  # without its body
    sign = {"run_line_magic": "%", "run_cell_magic": "%%"}.get(match["call"], "!")
    return f"{match['before']}{sign}{' '.join(words)}".rstrip()


def fused_kernel(frame: PythonFrame) -> str:
    """Return the fused kernel that a line of Inductor's module calls; empty for any other line."""
    if not is_generated(frame.file):
        return ""
    match = _FUSED.search("".join(lines_now(frame.file)[frame.line - 1 : frame.line]))
    return match["kernel"] if match else ""


def cell_lines(builder: TraceBuilder) -> list[str]:
    """Return the recorded cell's lines as the interpreter counts them: without empty ones at the top."""
    return text_lines(str(builder.metadata.get("cell_source") or "").lstrip())


def line_name(frame: PythonFrame, cells: Mapping[str, str], cell: Sequence[str] = ()) -> str:
    """Return the name of a line's slice: its place and its source. `cell` is the recorded cell's text."""
    texts = sources()
    lines = texts.lines(frame.file)
    source = as_typed(" ".join("".join(lines[max(frame.line - 1, 0) : frame.line]).split()))
    if (frame.file, _place(frame)) in texts.lost:
        source = EDITED
    if frame.owner == CELL and frame.file not in cells and 0 < frame.line <= len(cell):
        # the body of a magic in the cell, such as %%time, has no file or one of its own, but the cell's lines
        written = " ".join(cell[frame.line - 1].split())
        if not source or written in (" ".join(text.split()) for text in lines):
            source = written
    return f"{short_file(frame, cells)}:{frame.line}  {cut(source, _SOURCE_CHARACTERS)}".rstrip()


def _place(frame: PythonFrame) -> Place:
    return Place(frame.function, frame.first_line, frame.line)


def placed(frames: Sequence[PythonFrame], first_ns: Sequence[int] = ()) -> list[PythonFrame]:
    """Return frames with current line numbers, for code that has moved in its file."""
    # `first_ns` has the time when each frame was first seen, 0 if unknown
    texts = sources()
    if any(frame.file == DYNAMIC for frame in frames):
        cells = [file for file in list(linecache.cache) if owner_of(file) == CELL]
        frames = [_in_cell(frame, cells) if frame.file == DYNAMIC else frame for frame in frames]
    return [
        frame._replace(**texts.place(frame.file, _place(frame), ts)._asdict())
        if frame.owner == USER
        else frame
        for frame, ts in zip(frames, first_ns or repeat(0, len(frames)), strict=True)
    ]


def _in_cell(frame: PythonFrame, cells: Sequence[str]) -> PythonFrame:
    file = newest_file(frame.function, frame.line, cells)
    return frame if file is None else frame._replace(file=file, owner=CELL)


_MOST_CHARACTERS: Final = 1_000_000
"""Limit on the total length of a recording's files."""


def keep_source_files(builder: TraceBuilder, frames: Iterable[PythonFrame], cells: Mapping[str, str]) -> None:
    """Put the texts of the user's files into the metadata, while there is room."""
    # skip the recorded cell, whose text is there already
    files = {
        frame.file: cells.get(frame.file, "") if frame.owner == CELL else frame.file
        for frame in frames
        if frame.owner in (CELL, USER)
    }
    kept: dict[str, str] = builder.metadata.setdefault(SOURCE_FILES, {})
    room = _MOST_CHARACTERS - sum(map(len, kept.values()))
    texts = sources()
    lost = {file for file, _ in texts.lost}
    for file, name in files.items():
        if not name or name in kept:
            continue
        if file in lost:
            if file not in texts.told:
                _tell_edited(builder, file, "its lines have no text, since an older version ran", "loss")
            texts.told.add(file)
            continue
        if texts.is_older(file):
            _tell_edited(builder, file, "its lines show the text that ran, not the current one", "info")
        text = "".join(texts.lines(file))
        if not text:
            continue
        if len(text) > room:
            effect = "its lines are shown without the lines between them"
            builder.report.add("source-not-kept", "info", example=file, effect=effect)
            continue
        kept[name] = text
        room -= len(text)


def _tell_edited(builder: TraceBuilder, file: str, effect: str, severity: Severity) -> None:
    example = f"{file} was edited after it was imported"
    advice = "reload the module, or restart the kernel, and record again"
    builder.report.add("source-edited", severity, 1, example, effect, advice)


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


class SampledProcess(NamedTuple):
    """A sampled child process."""

    pid: int
    command: str  # its command line
    frames: Sequence[PythonFrame]  # all of its frames in the samples
    rank: int = -1  # from its environment; -1 for none


def name_processes(children: Sequence[SampledProcess], named: Mapping[int, str]) -> dict[int, str]:
    """Name child processes by the work they do, in order of pid."""
    counts: Counter[str] = Counter()
    names: dict[int, str] = {}
    for child in sorted(children, key=lambda child: child.pid):
        if any(word in child.command for word in _SILENT):
            continue  # it only serves other processes
        form, first = _name_form(child)
        if form == "rank {}" and child.rank >= 0:
            names[child.pid] = form.format(child.rank)
        elif form is not None:
            names[child.pid] = form.format(first + counts[form])
            counts[form] += 1
        elif own := named.get(child.pid, ""):
            names[child.pid] = own
        else:
            counts["process"] += 1
            names[child.pid] = f"process {counts['process']}: {short_command(child.command)}".rstrip(": ")
    return names


def _name_form(child: SampledProcess) -> tuple[str | None, int]:
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
