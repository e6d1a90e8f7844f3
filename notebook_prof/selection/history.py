"""What a selection was: since a revision, for a page that lags behind, and step by step, for undo."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

_CHANGES: Final = 512
_STATES: Final = 100


class History:
    """Changes of single values, and the states of all clauses, of which one is the present one."""

    def __init__(self, clauses: Mapping[str, Any]) -> None:
        self._changes: deque[tuple[int, str, Any]] = deque(maxlen=_CHANGES)
        self._states = [dict(clauses)]
        self._at = 0

    def note(self, revision: int, before: Mapping[str, Any], clauses: Mapping[str, Any]) -> None:
        """Note a change: the values it replaced, and all clauses after it."""
        self._changes.extend((revision, key, value) for key, value in before.items())
        if clauses == self._states[self._at]:
            return
        # whoever goes back to the state before, as a page does by itself, has undone the last change
        for step in (-1, 1):
            if self.state(step) == clauses:
                self._at += step
                return
        self._states = [*self._states[: self._at + 1][-_STATES:], dict(clauses)]
        self._at = len(self._states) - 1

    def state(self, step: int) -> dict[str, Any] | None:
        """Return all clauses one state before (-1) or after (1) the present one, if there is one."""
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
