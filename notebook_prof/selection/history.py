"""Past values of a selection: what changed since a revision, and the states for undo and redo."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

_CHANGES: Final = 512
_STATES: Final = 100


class History:
    """Changed values by revision, and the states of all clauses with a current position."""

    def __init__(self, clauses: Mapping[str, Any]) -> None:
        self._changes: deque[tuple[int, str, Any]] = deque(maxlen=_CHANGES)
        self._states = [dict(clauses)]
        self._at = 0

    def note(self, revision: int, before: Mapping[str, Any], clauses: Mapping[str, Any]) -> None:
        """Note a change: the values it replaced, and all clauses after it."""
        self._changes.extend((revision, key, value) for key, value in before.items())
        if clauses == self._states[self._at]:
            return
        # a page undoes by itself: a change to a neighbouring state is an undo or a redo
        for step in (-1, 1):
            if self.state(step) == clauses:
                self._at += step
                return
        self._states = [*self._states[: self._at + 1][-_STATES:], dict(clauses)]
        self._at = len(self._states) - 1

    def state(self, step: int) -> dict[str, Any] | None:
        """Return the previous (-1) or next (1) state; None if there is none."""
        at = self._at + step
        return self._states[at] if 0 <= at < len(self._states) else None

    def changed_since(self, revision: int) -> dict[str, Any] | None:
        """Return the values that changed since a revision, as they were then; None if that is unknown."""
        if len(self._changes) == _CHANGES and self._changes[0][0] > revision:
            return None
        then: dict[str, Any] = {}
        for at, key, value in reversed(self._changes):
            if at <= revision:
                break
            then[key] = value
        return then
