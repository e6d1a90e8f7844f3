"""Slow answers, worked out beside the quick ones: the timeline goes on while a tab is made."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 0.08
"""How long a question waits at most before it is told to come again."""

_REMEMBERED: Final = 24


class Beside(Generic[T]):
    """Work that one thread does for those who ask again until it is done.

    Of what waits, only the newest is done: whoever asked before has gone on to something else. The last
    answers are kept.

    Parameters
    ----------
    patience_s : float

    Examples
    --------
    >>> beside: Beside[int] = Beside(patience_s=5)
    >>> beside.get("answer", lambda: 6 * 7)
    42
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._done: OrderedDict[Hashable, T | Exception] = OrderedDict()
        self._next: tuple[Hashable, Callable[[], T]] | None = None
        self._doing: Hashable = None
        self._working = False

    def get(self, key: Hashable, make: Callable[[], T]) -> T | None:
        """What `make` gives, or None where it is not ready yet.

        Raises
        ------
        Exception
            What `make` raised; the next one who asks tries again.
        """
        with self._changed:
            if key not in self._done and key != self._doing:
                self._next = (key, make)
                if not self._working:
                    self._working = True
                    threading.Thread(target=self._work, name="notebook_prof tabs", daemon=True).start()
            if not self._changed.wait_for(lambda: key in self._done, self._patience_s):
                return None
            found = self._done[key]
            if isinstance(found, Exception):
                del self._done[key]
                raise found
            self._done.move_to_end(key)
            return found

    def _work(self) -> None:
        while True:
            with self._changed:
                self._doing = None
                if self._next is None:
                    self._working = False
                    return
                (key, make), self._next = self._next, None
                self._doing = key
            found: T | Exception
            try:
                found = make()
            except Exception as error:
                found = error
            with self._changed:
                self._done[key] = found
                while len(self._done) > _REMEMBERED:
                    self._done.popitem(last=False)
                self._changed.notify_all()
