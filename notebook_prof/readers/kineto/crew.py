"""Processes that share the events of one file."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from ...trace.report import ImportReport
from .collect import Collector
from .mate import Mate
from .split import EventText
from .taking import Taker, in_order

_OWN: Final = 0


class Crew:
    """Gives stretches of a file to further processes, and puts together what all have taken.

    The first process reads the file, decompresses it, and looks for the ends of events; text passes
    through shared memory. Whoever is free takes the next stretch, so that nobody waits for a process that
    starts slowly, or never. The others run no code of the user, whatever ``__main__`` is: they are fresh
    interpreters, which end when their input does, thus also when the first process is killed.

    Parameters
    ----------
    taker : Taker
        Of this process.
    workers : int
        How many further processes to start.

    Examples
    --------
    >>> from .rows import Arguments
    >>> with Crew(Taker(Arguments, array=False), workers=0) as crew:
    ...     crew.gather(ImportReport()).count()
    0
    """

    def __init__(self, taker: Taker, workers: int) -> None:
        self._taker = taker
        self._order: list[int] = []
        self._mates = [Mate(taker) for _ in range(workers)]

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mate in self._mates:
            mate.end()

    def share(self, text: EventText, at_least: int) -> None:
        """Give the next stretches to those who are free.

        Parameters
        ----------
        text : EventText
        at_least : int
            How much text is decoded at once.

        Raises
        ------
        ShareLost
            If one of them ended, or its stretch does not end where it seemed to.
        """
        for number, mate in enumerate(self._mates, start=1):
            while mate.is_free():
                if not mate.give(text, at_least):
                    return
                self._end_own_part()
                self._order.append(number)

    def gather(self, report: ImportReport) -> Collector:
        """All events, in the order of the file.

        Raises
        ------
        ShareLost
            As for `share`.
        """
        if not any(self._order):
            report.extend(self._taker.report)
            return self._taker.collector
        self._end_own_part()
        takers = [self._taker.taken(), *(mate.taken() for mate in self._mates)]
        return in_order(takers, self._order, self._taker.small, report)

    def _end_own_part(self) -> None:
        self._taker.end_part()
        self._order.append(_OWN)
