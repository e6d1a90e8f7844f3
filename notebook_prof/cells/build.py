"""The watched notebook of this process (at most one), and its Trace."""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ..analysis.notebook.recorded import CELL_BUFFERS, CELL_RUNS
from ..analysis.time.account import ACCOUNT
from ..collectors.machine import machine, usable_cores
from ..collectors.python.assemble import OTHER_CELLS, Exact, TimedStacks, put
from ..collectors.python.engine import since_last_look
from ..collectors.python.frames import trim, trim_thread
from ..collectors.python.thread_stacks import ObservedThread, decode
from ..collectors.statements import Statements
from ..collectors.system import put_readings
from ..collectors.system.names.watch import put_names
from ..errors import NotRecordedError
from ..profiles.profile import Profile
from ..trace.arrays import IntArray
from ..trace.builder import TraceBuilder
from ..trace.source_lines import SOURCE_FILES, text_lines
from ..trace.trace import Trace
from ..units import cut
from .watch import LONG_NS, SAMPLE_NS, CellRun, NotebookWatch

_LONGEST: Final = 40
_TRACK: Final = "cells"
_latest: NotebookWatch | None = None


def latest() -> NotebookWatch | None:
    """Return the running watch, or the last one."""
    return _latest


def remember(watch: NotebookWatch) -> None:
    """Make this the watch that `notebook` returns."""
    global _latest
    _latest = watch


def notebook() -> Profile:
    """Return the session of this notebook so far, as watched by ``%profile_notebook``.

    Returns
    -------
    Profile
        Like that of a cell: its timeline has a track of the cells with their statements below, the threads,
        memory and devices, and all analyses work on it. ``nb.cells()`` lists the cells, ``nb.path()`` their
        dependences, ``nb.memory.names()`` what holds memory now. Times are in ns, memory in bytes.

    Raises
    ------
    NotRecordedError
        If this notebook is not watched.

    Examples
    --------
    >>> from notebook_prof.cells.watch import NotebookWatch
    >>> watch = NotebookWatch(dict, threads=False)
    >>> remember(watch)
    >>> watch.end(watch.begin("x = 1", 1))
    >>> notebook().cells()["name"].tolist()
    ['In[1] x = 1']
    >>> watch.stop()
    """
    if _latest is None or _latest.is_of_parent:
        raise NotRecordedError("this notebook is not watched: run %profile_notebook, then its cells")
    return Profile(build(_latest, saved_notebook()))


class Saved(NamedTuple):
    """The saved notebook: texts of its code cells by id, in order, and when it was saved (Unix ns)."""

    texts: Mapping[str, str]
    at_ns: int


def build(watch: NotebookWatch, saved: Saved | None = None) -> Trace:
    """Return the session so far."""
    watch.read_now()
    walked = watch.walk(watch.current)
    now_ns = watch.end_ns or watch.clock.now_ns()
    runs = list(watch.runs)
    builder = TraceBuilder(metadata=_described(watch))
    begins, ends = _times(runs, now_ns)
    lines, names = _texts(runs, ends)
    tracks = {tid: _track(builder, watch, tid) for tid in dict.fromkeys([run.thread for run in runs])}
    builder.slices(
        ts=begins, dur=ends - begins, track=np.array([tracks[run.thread] for run in runs], np.int32),
        name=names, category="annotation",
    )  # fmt: skip
    _put_statements(builder, runs, ends, lines, tracks)
    _put_samples(builder, watch, runs, ends, tracks)
    put_readings(builder, watch.reader)
    watch.gpus.put(builder)
    cells = _identities(runs)
    builder.table(
        CELL_RUNS.name,
        CELL_RUNS.frame(
            _columns(runs, begins, ends, cells, names, saved)
            | {"track": [tracks[run.thread] for run in runs]}
        ),
    )
    if walked is not None:
        put_names([walked], builder)
        rows = [(*key, *runs) for key, runs in watch.made.items()]
        columns = ["device", "address", "bytes", "since", "run", "grew"]
        made = pd.DataFrame(rows, columns=columns, dtype="int64")
        builder.table(CELL_BUFFERS, made, times=())
    builder.table(ACCOUNT, _account(watch.begin_ns, now_ns, begins, ends, cells, names))
    for failure in dict.fromkeys(watch.failures):
        builder.report.add("watch-failed", "loss", example=failure, effect="readings are missing")
    return builder.seal(window=(watch.begin_ns, max(now_ns, watch.begin_ns + 1)))


def runs_table(watch: NotebookWatch, saved: Saved | None) -> pd.DataFrame:
    """Return only the table `CELL_RUNS`, without tracks."""
    runs = list(watch.runs)
    begins, ends = _times(runs, watch.end_ns or watch.clock.now_ns())
    columns = _columns(runs, begins, ends, _identities(runs), _texts(runs, ends)[1], saved)
    return CELL_RUNS.frame(columns | {"track": [-1] * len(runs)})


def _times(runs: list[CellRun], now_ns: int) -> tuple[IntArray, IntArray]:
    begins = np.array([run.begin_ns for run in runs], np.int64)
    return begins, np.array([run.end_ns or max(now_ns, run.begin_ns) for run in runs], np.int64)


def _texts(runs: list[CellRun], ends: IntArray) -> tuple[list[list[str]], list[str]]:
    """Return the lines and the name of each run."""
    texts: dict[str, list[str]] = {}
    lines = [texts.setdefault(run.source, _lines(run.source)) for run in runs]
    return lines, [_name(run, own, end) for run, own, end in zip(runs, lines, ends.tolist(), strict=True)]


def _described(watch: NotebookWatch) -> dict[str, Any]:
    return {
        "source": "notebook",
        "collectors": [],
        "host": platform.node(),
        "python": platform.python_version(),
        "machine": machine(),
        "cpu": {"pid": watch.pid, "tid": watch.tid, "cores": usable_cores()},
        "watch_ns": watch.own_ns,
        OTHER_CELLS: dict(watch.others),
        SOURCE_FILES: {
            f"In[{run.number}]": "\n".join(_lines(run.source)) for run in watch.runs if run.number
        },
    }


def _lines(source: str) -> list[str]:
    """Return the lines of a cell as the interpreter counts them: without empty lines at the top."""
    lines = text_lines(source)
    blank = next((i for i, text in enumerate(lines) if text.strip()), 0)
    return lines[blank:]


def _shown(run: CellRun) -> str:
    return f"In[{run.number or ' '}]"


def _name(run: CellRun, lines: list[str], end_ns: int) -> str:
    """Return the number of a cell and its longest statement, or its first line of code."""
    code = [text for text in lines if text.strip() and not text.lstrip().startswith("#")]
    text = next((line for line in code if not line.startswith("%%")), "".join(code[:1]))
    ts, line = run.statements.T
    if len(ts):
        took = np.diff(np.append(ts, end_ns))
        number = int(line[int(np.argmax(took))])
        text = lines[number - 1] if 0 < number <= len(lines) else text
    return f"{_shown(run)} {cut(' '.join(text.split()), _LONGEST)}".rstrip()


def _track(builder: TraceBuilder, watch: NotebookWatch, tid: int) -> int:
    name = _TRACK if tid == watch.tid else f"{_TRACK}: {watch.reader.threads.get(tid, tid)}"
    return builder.track(name, pid=watch.pid, tid=tid)


def _put_statements(
    builder: TraceBuilder,
    runs: list[CellRun],
    ends: IntArray,
    lines: list[list[str]],
    tracks: Mapping[int, int],
) -> None:
    """Add a slice for each top-level statement of each cell, named like a line."""
    for run, end, own in zip(runs, ends.tolist(), lines, strict=True):
        rows = _rows(run, end)
        file, shown = next(iter(run.files), _shown(run)), _shown(run)
        texts = [
            (line, " ".join(own[line - 1].split()) if 0 < line <= len(own) else "")
            for line in rows.line.tolist()
        ]
        if texts:
            builder.slices(
                ts=rows.ts,
                dur=rows.end - rows.ts,
                track=tracks[run.thread],
                name=[f"{shown}:{line}  {cut(text, 60)}".rstrip() for line, text in texts],
                category="python",
                stack=[builder.stack([("<module>", file, line)]) for line, _ in texts],  # noqa: PD013
            )


def _rows(run: CellRun, end_ns: int) -> Statements:
    ts = np.clip(np.maximum.accumulate(run.statements[:, 0]), run.begin_ns, end_ns)
    return Statements(ts, np.append(ts[1:], end_ns)[: len(ts)], run.statements[:, 1].copy())


def _put_samples(
    builder: TraceBuilder,
    watch: NotebookWatch,
    runs: list[CellRun],
    ends: IntArray,
    tracks: Mapping[int, int],
) -> None:
    """Add the sampled stacks of long cells, below their statements, and those of the other threads."""
    threads, looks = watch.stacks.threads, watch.stacks.ts
    if not len(looks):
        return
    nodes = np.unique(np.concatenate([np.array(one.node, np.int64) for one in threads]))
    stacks = decode(nodes, watch.stacks.tree)
    own, others = trim(stacks), trim_thread(stacks)
    for run, end in zip(runs, ends.tolist(), strict=True):
        if end - run.begin_ns < LONG_NS:
            continue
        files = {file: _shown(run) for file in run.files}
        builder.metadata[OTHER_CELLS] = {**watch.others, **files}
        for one in threads:
            mine = one.tid == run.thread
            if not mine and one.tid in tracks:
                continue
            trimmed = own if mine else others
            timed = _timed(one, looks, nodes, run.begin_ns + LONG_NS, end)
            seen = timed.stack[timed.stack >= 0]
            # another thread that stayed in a single call was only waiting
            if not (trimmed.lengths[seen] > 0).any() or (not mine and len(np.unique(seen)) == 1):
                continue
            track = builder.track(one.name or f"thread {one.tid}", pid=watch.pid, tid=one.tid)
            rows = _rows(run, end) if mine and len(run.statements) else None
            put(
                builder, track, timed, trimmed, Exact(statements=rows),
                interval_ns=2 * SAMPLE_NS, roots_are_lines=mine,
            )  # fmt: skip
    builder.metadata[OTHER_CELLS] = dict(watch.others)


def _timed(one: ObservedThread, looks: IntArray, nodes: IntArray, begin_ns: int, end_ns: int) -> TimedStacks:
    """Return a thread's samples within a cell; each covers the time since the previous one."""
    ts = one.ts
    inside = (ts >= begin_ns) & (ts <= end_ns)
    ts, node = ts[inside], np.array(one.node, np.int64)[: len(inside)][inside]
    return TimedStacks(*since_last_look(ts, np.searchsorted(nodes, node), looks, begin_ns))


def _identities(runs: list[CellRun]) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(run.cell or f"source:{run.source.strip()}", len(known)) for run in runs]


def _columns(
    runs: list[CellRun],
    begins: IntArray,
    ends: IntArray,
    cells: list[int],
    names: list[str],
    saved: Saved | None,
) -> dict[str, Any]:
    same = ("run", "number", "source", "error", "imports", "full", "rss_bytes")
    place = {cell: at for at, cell in enumerate(saved.texts if saved else ())}
    rss = [run.kept_bytes if run.end_ns else 0 for run in runs]
    return {
        **{name: [getattr(run, name) for run in runs] for name in same},
        "cell": cells,
        "cell_id": [run.cell for run in runs],
        "name": names,
        "ts": begins,
        "dur": ends - begins,
        "running": [not run.end_ns for run in runs],
        "kept_bytes": rss,
        "peak_bytes": [run.peak_bytes for run in runs],
        "peak_exact": [run.exact for run in runs],
        "device_bytes": [run.device_bytes if run.end_ns else 0 for run in runs],
        "position": [place.get(run.cell, -1) for run in runs],
        "now": [
            # a notebook saved before the run does not show whether its cell was edited since
            saved.texts.get(run.cell, "") if saved and run.cell and saved.at_ns > run.begin_ns else None
            for run in runs
        ],
    }


def _account(
    begin_ns: int, end_ns: int, begins: IntArray, ends: IntArray, cells: list[int], names: list[str]
) -> pd.DataFrame:
    """Divide the session among its cells and the time between them; of two running cells the later counts."""
    edges = np.unique(np.clip(np.concatenate([[begin_ns, end_ns], begins, ends]), begin_ns, end_ns))
    starts, owner = edges[:-1], np.full(max(len(edges) - 1, 0), -1, np.int64)
    for i in np.argsort(begins, kind="stable").tolist():
        first, last = np.searchsorted(edges, (begins[i], min(ends[i], end_ns)))
        owner[first:last] = i
    cell = np.append(np.array(cells, np.int64), -1)[owner]
    latest = {number: names[i] for i, number in enumerate(cells)}
    return pd.DataFrame(
        {
            "ts": starts,
            "dur": np.diff(edges),
            "kind": np.where(owner < 0, "not-recorded", "code"),
            "line": -1,
            "text": [latest.get(number, "between the cells") for number in cell.tolist()],
            "loop": -1,
            "steps": 0,
            "cell": cell,
        }
    )


def saved_notebook() -> Saved | None:
    """Return the saved notebook; None if the server does not name its file."""
    path = os.environ.get("JPY_SESSION_NAME", "")
    try:
        stat = os.stat(path)
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError, LookupError, TypeError):
        return None


@functools.lru_cache(maxsize=1)
def _read(path: str, at_ns: int, _size: int) -> Saved:
    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    return Saved(
        {str(cell["id"]): "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}, at_ns
    )
