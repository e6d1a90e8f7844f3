"""The selection, shared by Python and by every view. It is thread-safe."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import SelectionError
from .clauses import DIMENSIONS, Clause, check, normalise, whole
from .history import History

Patch = dict[str, Any]
Watcher = Callable[["Selection", Patch, Hashable], object]

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_UNKNOWN: Final = object()
_TRANSPORT: Final = {"apply_patch", "to_state"}
"""Methods meant for the page, not for users."""


class Selection:
    """The shared selection: one clause per dimension, the slice in focus, and the pinned tracks.

    Clauses of different dimensions intersect. A new clause of a dimension replaces the old one. Each clause
    keeps its source, so a view is not filtered by its own clauses (cross-filter). *Focus* is the slice under
    inspection, and *pinned* tracks stay at the top of the timeline. Neither filters anything.

    Parameters
    ----------
    **values
        Initial clauses, by dimension: ``window name category track step phase rank group line``.

    Raises
    ------
    SelectionError
        For an unknown dimension or a value that it cannot hold.

    Notes
    -----
    Every change increments `revision` and calls every watcher once, outside the lock and in the order of the
    changes. If two threads write at once, or a watcher writes itself, one thread reports both in turn.

    Examples
    --------
    >>> selection = Selection()
    >>> selection.window = ("2ms", "5ms")
    >>> selection.update("table", name="aten::mm", step=4)
    True
    >>> selection
    Selection(2 ms – 5 ms · aten::mm · step 4)
    >>> selection.clear()
    True
    """

    def __init__(self, **values: object) -> None:
        first = {dimension: normalise(dimension, value) for dimension, value in values.items()}
        clauses = {d: Clause(d, first[d]) for d in DIMENSIONS if first.get(d) is not None}  # type: ignore[arg-type]
        self._clauses: Mapping[str, Clause] = MappingProxyType(clauses)
        self._focus: int | None = None
        self._pinned: tuple[int, ...] | None = None
        self._revision = 0
        self._lock = threading.RLock()
        self._watchers: list[Watcher] = []
        self._history = History({d: clause.value for d, clause in clauses.items()})
        self._queue: deque[tuple[Patch, Hashable, tuple[Watcher, ...]]] = deque()
        self._telling = False

    # -- writing -----------------------------------------------------------------------------------

    def update(self, source: Hashable = None, **values: object) -> bool:
        """Replace the clauses of several dimensions at once.

        Parameters
        ----------
        source : hashable
            The writer: a view's name or object; None for Python.
        **values
            A value or an iterable of values per dimension. None, or an empty iterable, removes the clause.
            ``window`` takes a pair of times in ns or as text (``"2ms"``).

        Returns
        -------
        bool
            Whether anything changed. Setting the current value changes nothing and calls no watcher.

        Raises
        ------
        SelectionError
            For an unknown dimension or an invalid value. Nothing changes then.
        """
        changed = self._change(source, {d: normalise(d, value) for d, value in values.items()})
        self._tell()
        return changed

    def clear(self, *dimensions: str, source: Hashable = None) -> bool:
        """Remove the clauses of these dimensions or, if none are given, all clauses and the focus. Pins stay.

        Returns
        -------
        bool
            Whether anything changed.

        Raises
        ------
        SelectionError
            For an unknown dimension.
        """
        for dimension in dimensions:
            check(dimension)
        change: dict[str, Any] = dict.fromkeys(dimensions or (*DIMENSIONS, "focus"))
        changed = self._change(source, change)
        self._tell()
        return changed

    def apply_patch(
        self, patch: Mapping[str, Any], source: Hashable = None, base_revision: int | None = None
    ) -> bool:
        """Merge a page's changes, with the keys of `to_state`; returns whether anything changed."""
        # `base_revision` is the revision that the sender knew. A dimension that has changed here since then
        # keeps its newer value if the patch only repeats the old one: simultaneous changes of different
        # dimensions both survive, and for the same dimension the last change wins.
        values = {key: value for key, value in patch.items() if key != "revision"}
        base = patch.get("revision") if base_revision is None else base_revision
        change = {
            key: _FILTERING_NOTHING.get(key, partial(normalise, key))(value) for key, value in values.items()
        }
        with self._lock:
            if base is not None:
                before = self._changed_since(int(base))
                change = {k: v for k, v in change.items() if k not in before or before[k] != v}
            changed = self._change(source, change)
        self._tell()
        return changed

    def undo(self) -> bool:
        """Undo the last change, made in Python or in a page. Returns whether there was one.

        Examples
        --------
        >>> selection = Selection(step=4)
        >>> selection.step = 5
        >>> selection.undo(), selection.step
        (True, (4,))
        """
        return self._go(-1)

    def redo(self) -> bool:
        """Redo the last undone change. Returns whether there was one."""
        return self._go(1)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def clauses(self) -> Mapping[str, Clause]:
        """The current clauses by dimension; read-only."""
        return self._clauses

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return self._revision

    @property
    def focus(self) -> int | None:
        """Row in ``trace.slices`` of the slice under inspection. It filters nothing."""
        return self._focus

    @focus.setter
    def focus(self, row: int | None) -> None:
        self._change(None, {"focus": _row(row)})
        self._tell()

    @property
    def pinned(self) -> tuple[int, ...]:
        """Tracks that stay at the top of the timeline, in order, as keys of ``trace.tracks``.

        Can be set to one, several, or None. Unknown keys are not shown.

        Examples
        --------
        >>> selection = Selection()
        >>> selection.pinned = [7, 0]
        >>> selection.pinned
        (7, 0)
        """
        return self._pinned or ()

    @pinned.setter
    def pinned(self, tracks: int | Iterable[int] | None) -> None:
        self._change(None, {"pinned": _tracks(tracks)})
        self._tell()

    def mask(self, table: pd.DataFrame, *, viewer: Hashable = None) -> NDArray[np.bool_]:
        """Return a mask of the selected rows of a table.

        Parameters
        ----------
        table : DataFrame
            ``trace.slices`` or any table with some of the columns ``ts dur name category track step phase
            rank``; clauses on columns that it lacks do not restrict it.
        viewer : hashable, optional
            Ignore the clauses set by this source (cross-filter).

        Returns
        -------
        ndarray of bool, shape (len(table),)
            All True if nothing is selected.

        Examples
        --------
        >>> steps = pd.DataFrame({"step": [0, 1, 2], "ts": [0, 10, 20], "dur": [10, 10, 10]})
        >>> Selection(step=1, window=(0, 15)).mask(steps).tolist()
        [False, True, False]
        """
        keep = np.ones(len(table), dtype=bool)
        for clause in self._clauses.values():
            if viewer is None or clause.source != viewer:
                keep &= clause.mask(table)
        return keep

    def to_state(self) -> Patch:
        """Return everything as one dict for JSON: dimensions, ``focus``, ``pinned`` and ``revision``."""
        # a list for each dimension (``window``: ``[start, end]``), a row, a list of tracks; None without
        with self._lock:
            return {**self._as_patch((*DIMENSIONS, *_FILTERING_NOTHING)), "revision": self._revision}

    def describe(self) -> str:
        """Describe the selection: ``2.1 ms – 5 ms · aten::mm · step 4``, or ``everything`` if it is empty."""
        clauses = self._clauses
        return " · ".join(clauses[d].describe() for d in DIMENSIONS if d in clauses) or "everything"

    # -- watching ----------------------------------------------------------------------------------

    def watch(self, callback: Watcher) -> Callable[[], None]:
        """Call ``callback(selection, patch, source)`` after each change.

        Parameters
        ----------
        callback : callable
            `patch` maps the changed dimensions to a list of values or None. Errors in `callback` are logged
            (logger ``notebook_prof.selection``), and affect neither the writer nor other watchers.

        Returns
        -------
        callable
            Removes the watcher. It is safe to call it twice.
        """
        with self._lock:
            self._watchers.append(callback)

        def unwatch() -> None:
            with self._lock:
                if callback in self._watchers:
                    self._watchers.remove(callback)

        return unwatch

    # -- inside ------------------------------------------------------------------------------------

    def _change(self, source: Hashable, change: Mapping[str, Any]) -> bool:
        with self._lock:
            now = self._values()
            real = {key: value for key, value in change.items() if now[key] != value}
            if not real:
                return False
            clauses = {d: c for d, c in self._clauses.items() if d not in real}
            clauses.update(
                {d: Clause(d, v, source) for d, v in real.items() if d in DIMENSIONS and v is not None}
            )
            self._clauses = MappingProxyType(clauses)
            self._focus = real.get("focus", self._focus)
            self._pinned = real.get("pinned", self._pinned)
            self._revision += 1
            after = {d: clause.value for d, clause in clauses.items()}
            self._history.note(self._revision, {key: now[key] for key in real}, after)
            self._queue.append((self._as_patch(real), source, tuple(self._watchers)))
        return True

    def _tell(self) -> None:
        """Deliver queued changes in order, unless another thread is already doing so."""
        while True:
            with self._lock:
                if self._telling or not self._queue:
                    return
                self._telling = True
                patch, source, watchers = self._queue.popleft()
            try:
                for watcher in watchers:
                    try:
                        watcher(self, dict(patch), source)
                    except Exception:
                        _log.exception("a watcher of the selection failed; the others are still called")
            finally:
                with self._lock:
                    self._telling = False

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = dict.fromkeys((*DIMENSIONS, *_FILTERING_NOTHING))
        values.update({d: clause.value for d, clause in self._clauses.items()})
        values["focus"], values["pinned"] = self._focus, self._pinned
        return values

    def _as_patch(self, keys: Iterable[str]) -> Patch:
        values = self._values()
        return {k: list(values[k]) if isinstance(values[k], tuple) else values[k] for k in keys}

    def _changed_since(self, revision: int) -> dict[str, Any]:
        """Return the dimensions that changed since `revision`, with their values at that revision."""
        known = self._history.changed_since(revision)
        return dict.fromkeys((*DIMENSIONS, *_FILTERING_NOTHING), _UNKNOWN) if known is None else known

    def _go(self, step: int) -> bool:
        with self._lock:
            state = self._history.state(step)
            changed = state is not None and self._change(None, {d: state.get(d) for d in DIMENSIONS})
        self._tell()
        return changed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in DIMENSIONS:
            try:
                check(name)
            except SelectionError as error:
                raise AttributeError(str(error)) from None
        clause = self._clauses.get(name)
        return None if clause is None else clause.value

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FILTERING_NOTHING or name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.update(**{name: value})

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *DIMENSIONS} - _TRANSPORT)

    def __repr__(self) -> str:
        return f"Selection({self.describe()})"


def _row(value: object) -> int | None:
    return None if value is None else whole("focus", value)


def _tracks(value: object) -> tuple[int, ...] | None:
    several = () if value is None else value if isinstance(value, Iterable | str) else (value,)
    return tuple(dict.fromkeys(whole("pinned", track) for track in several)) or None


_FILTERING_NOTHING: Final[Mapping[str, Callable[[object], Any]]] = {"focus": _row, "pinned": _tracks}
