"""Take the events of a file, a handful at a time, each decoded as the one before needed it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...trace.report import ImportReport
from .collect import Collector
from .decode import Decoded, again, decode
from .ranges import Ranges
from .rows import Arguments, Variant
from .sundries import Sundries


class Part(NamedTuple):
    """A stretch of the file, as one taker took it.

    Attributes
    ----------
    rows : int
        Events with a duration that this taker has kept up to the end of this part.
    distinct : tuple of int
        How many values each of ``Collector.numbers`` had then.
    sundries : Sundries
        All other events of this part.
    ranges : Ranges
        Counters of ranges of this part.
    report : ImportReport
        What was to be said of this part.
    """

    rows: int
    distinct: tuple[int, ...]
    sundries: Sundries
    ranges: Ranges
    report: ImportReport


class Taken(NamedTuple):
    """All that one taker has taken.

    Attributes
    ----------
    columns : dict of ndarray
        The columns of its collector.
    distinct : list of list
        The values of each of ``Collector.numbers``.
    parts : list of Part
        In the order of the file.
    """

    columns: dict[str, npt.NDArray[Any]]
    distinct: list[list[Any]]
    parts: list[Part]


class Taker:
    """Decodes and collects.

    Parameters
    ----------
    small : type of Arguments
        As for `Collector`.
    array : bool
        Whether the file is a bare list, which may lack its end.

    Attributes
    ----------
    collector : Collector
    report : ImportReport
        What is to be said of the part that is being taken.
    """

    def __init__(self, small: type[Arguments], array: bool) -> None:
        self.report = ImportReport()
        self.collector = Collector(self.report, small)
        self.small, self.array = small, array
        self._variant = self.collector.next_variant(Variant(None, text_times=False))
        self._parts: list[Part] = []

    def take(self, listed: memoryview, last: bool) -> Decoded | None:
        """Take what `EventText.peek` gave; None if more of the text is needed."""
        decoded = decode(listed, last, self.array, self._variant, self.report)
        return None if decoded is None else self._collected(decoded)

    def _collected(self, decoded: Decoded) -> Decoded:
        while (needed := self.collector.take(decoded.rows, decoded.variant)) != decoded.variant:
            decoded = again(decoded, needed, self.report)
        if self.collector.range_count:
            self.collector.ranges.take(decoded.text, self.collector.range_count, self.report)
        self._variant = self.collector.next_variant(decoded.variant)
        return decoded

    def end_part(self) -> None:
        """What follows is another part."""
        distinct = tuple(map(len, self.collector.numbers))
        told, self.report = self.report, ImportReport()
        sundries, ranges = self.collector.next_part(self.report)
        self._parts.append(Part(self.collector.count(), distinct, sundries, ranges, told))

    def taken(self) -> Taken:
        """All of it, given away."""
        columns = self.collector.give_columns()
        return Taken(columns, [list(numbers) for numbers in self.collector.numbers], self._parts)


def in_order(
    takers: list[Taken], order: list[int], small: type[Arguments], report: ImportReport
) -> Collector:
    """What several takers took of one file, as if one had taken all.

    Parameters
    ----------
    takers : list of Taken
    order : list of int
        Who took each part of the file.
    small : type of Arguments
    report : ImportReport
        Told what the parts have to say.

    Returns
    -------
    Collector
    """
    collector = Collector(report, small)
    parts = [iter(taken.parts) for taken in takers]
    before = [0] * len(takers)
    codes = [[np.empty(len(values), np.int32) for values in taken.distinct] for taken in takers]
    known = [[0] * len(taken.distinct) for taken in takers]
    stretches: list[tuple[int, slice]] = []
    for who in order:
        part = next(parts[who])
        stretches.append((who, slice(before[who], part.rows)))
        before[who] = part.rows
        for i, numbers in enumerate(collector.numbers):
            new = slice(known[who][i], part.distinct[i])
            if new.start < new.stop:
                codes[who][i][new] = numbers.column(takers[who].distinct[i][new], new.stop - new.start)
        known[who] = list(part.distinct)
        collector.sundries.extend(part.sundries)
        collector.ranges.extend(part.ranges)
        report.extend(part.report)
    renumbered = [_renumbered(taken.columns, own) for taken, own in zip(takers, codes, strict=True)]
    for who, rows in stretches:
        if rows.start < rows.stop:
            columns = {name: column[rows] for name, column in renumbered[who].items()}
            collector.add_columns(columns, rows.stop - rows.start)
    return collector


_NUMBERED = ("name", "kind", "dims", "dtypes", "concrete", "extra", "stack", "path")
"""The columns that hold numbers of ``Collector.numbers``; ``old_dims`` holds those of ``dims``."""


def _renumbered(
    columns: dict[str, npt.NDArray[Any]], codes: list[npt.NDArray[np.int32]]
) -> dict[str, npt.NDArray[Any]]:
    if not columns:
        return {}
    lookup = dict(zip(_NUMBERED, codes, strict=True))
    lookup["old_dims"] = lookup["dims"]
    return {name: lookup[name][column] if name in lookup else column for name, column in columns.items()}
