"""What a rewritten loop calls: found through ``sys.modules``, so that the code runs anywhere."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from . import current

if TYPE_CHECKING:
    from .window import Source, StepWindow


class LoopTicker:
    """Holds the body of a rewritten loop: a step ends when the body is left, however it is left."""

    __slots__ = ("_source", "_window")

    def __init__(self, window: StepWindow, source: Source) -> None:
        self._window, self._source = window, source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._window.tick(self._source, failed=kind is not None and kind is not GeneratorExit)

    def __reduce__(self) -> tuple[Any, ...]:
        # it is a name in the user's namespace: if that is pickled, it becomes something harmless
        return nullcontext, ()


def loop(token: int) -> AbstractContextManager[None]:
    """Begin the loop with this token: gives its `LoopTicker`, or what does nothing where nothing records.

    Parameters
    ----------
    token : int
        Number of the rewritten loop, negative for a loop without any sign of training.
    """
    session = current.running()
    ticker = None if session is None else session.loop(token)
    return nullcontext() if ticker is None else ticker


def past() -> bool:
    """Whether the running recording was asked to stop after its window and has passed it."""
    session = current.running()
    return session is not None and session.leave_loop()
