"""Writes rows in a background thread while the user works on. Never shows or raises anything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..analysis.scope import sharing
from ..background import UNSEEN_S, IdleTime, JobQueue, checkpoint
from ..errors import NotebookProfError
from ..own_processes import at_exit
from ..units import format_items
from .folder import history_folder, notebook_path, start_folder
from .identity import Identity, is_dirty, kernel_id, load_now, of_run, revision_of
from .previous_run import PreviousRun
from .store import Store

if TYPE_CHECKING:
    from ..profiles.profile import Profile

THREAD: Final = "notebook_prof history"
_MOST_WAITING: Final = 16
"""If more rows wait, they are written without pauses, because each keeps a recording in memory."""
_LEAVES_S: Final = 2.0
_LOOK_S: Final = 0.05


def remember(
    profile: Profile,
    *,
    source: str = "",
    cell: str = "",
    name: str = "",
    options: str = "",
    failed: bool = False,
    kept: bool = False,
    hold: Callable[[], bool] = bool,
) -> Callable[[], None]:
    """Let the verdict of a recording mention the previous run; return a function that writes its row."""
    # Call that function when the recording has been shown. A thread then writes the row, except while `hold`
    # returns True. The trace need not be built yet. `options` are part of the key, since runs with different
    # options do not show the noise between runs. `kept` keeps the recording too. Nothing here raises.
    try:
        path = notebook_path()
        folder = history_folder(path)
        if folder is None:
            return lambda: None
        notebook = os.path.relpath(path or start_folder(), folder.parent).replace(os.sep, "/")
        me = Identity(time.time_ns(), kernel_id(), notebook, cell, name, source)
        previous = PreviousRun(Store(folder), me, options, failed, load=load_now())
        profile._history = previous
        at = Path(path).parent if path else start_folder()
        return lambda: _writer.put(profile, lambda: write(profile, previous, kept, at), hold)
    except Exception as error:  # the user's cell has run: it must not fail because of us
        _writer.lose(error)
        return lambda: None


def missing() -> str:
    """Return which runs of this process are missing from the history; empty if none are."""
    left, lost = _writer.left, _writer.lost
    said = [f"{format_items(lost, 'run')} of this process: {_writer.reason}"] if lost else []
    said += [f"{format_items(left, 'run')} of this process: still being written, try again"] if left else []
    return f"the history lacks {'; and '.join(said)}" if said else ""


def losses() -> dict[str, Any]:
    """Return how many runs of this process are missing from the history, and why the last one is."""
    return {"lost": _writer.lost, "reason": _writer.reason}


def wait(seconds: float | None = None) -> bool:
    """Wait until all rows are written. Returns whether they are."""
    return _writer.wait(seconds)


class _Writer:
    def __init__(self) -> None:
        self._queue = JobQueue(THREAD)
        self._hold: Callable[[], bool] = bool
        self._idle = IdleTime(lambda: self._hold(), UNSEEN_S, lambda: self.left > _MOST_WAITING)
        self.lost, self.reason = 0, ""

    @property
    def left(self) -> int:
        """Number of rows that are not written yet."""
        return self._queue.left

    def put(self, profile: Profile, add: Callable[[], int], hold: Callable[[], bool]) -> None:
        """Queue the row of a recording; a thread adds it."""
        self._hold = hold
        at_exit(_leave)
        self._queue.put(partial(self._write, profile, add))

    def lose(self, error: BaseException) -> None:
        """Count a row that was not written."""
        self.lost += 1
        self.reason = (
            str(error) if isinstance(error, NotebookProfError) else f"{type(error).__name__}: {error}"
        )

    def wait(self, seconds: float | None) -> bool:
        """Wait until all rows are written, without the writer pausing. Returns whether they are."""
        with self._idle.hurried():
            return self._queue.wait(seconds)

    def _write(self, profile: Profile, add: Callable[[], int]) -> None:
        try:
            if (pending := profile.pending) is not None:
                with self._idle.used():
                    checkpoint()
                pending.start()
                while not pending.wait(_LOOK_S) and not self._idle.is_hurried:
                    pass
            trace = profile.trace
            with self._idle.used():
                sharing(lambda _: add())(trace)
        except BaseException as error:  # the next row must be written regardless
            self.lose(error)


def write(profile: Profile, previous: PreviousRun, kept: bool, at: Path) -> int:
    """Build the row of a recording and add it. Returns its number."""
    # `at` is the folder whose revision is stored
    from ..comparison.run import core_share
    from .entry import keep, packed

    trace, me = profile.trace, previous.me
    checkpoint()
    summary = previous.summary(profile)
    checkpoint()
    previous.look_again()
    pair = previous.earlier()
    noise = previous.ratio(profile)
    checkpoint()
    verdict = profile.verdict.sentence
    trust = profile.trust
    checkpoint()
    revision = revision_of(at)
    source, content = packed(summary)
    used = summary.steps.loc[summary.steps["used"], "dur_ns"]
    memory = summary.memory
    # the peak of a device or, without a device, of the host
    peaks = memory.loc[memory["device"] >= 0, "bytes"] if (memory["device"] >= 0).any() else memory["bytes"]
    row = {
        **of_run(me, None if pair is None else pair[0]),
        "options": previous.options,
        "environment": previous.environment(profile),
        "revision": revision,
        "dirty": is_dirty(at) if revision else None,
        "failed": previous.failed,
        "steps": int(summary.phases().steps),
        "p50_ns": float(used.median()) if len(used) else None,
        "mean_ns": float(used.mean()) if len(used) else None,
        "total_ns": int(trace.span.dur),
        "peak_bytes": int(peaks.max()) if len(peaks) else None,
        "load": previous.load,
        "core_share": core_share(trace),
        "verdict": verdict,
        "trust": " ".join(trust.loc[trust["severity"] != "info", "code"]),
        "noise": noise,
        "kept": keep(previous.store.folder, profile, f"{me.at_ns:x}-{me.kernel[:6]}") if kept else "",
        "source": source,
        "content": content,
    }
    return previous.store.add(row)


_writer = _Writer()


def _leave() -> None:
    _writer.wait(_LEAVES_S)


def _forget() -> None:
    global _writer
    _writer = _Writer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
