"""Take the events of a file, a handful at a time, each decoded as the one before needed it."""

from __future__ import annotations

from ...trace.report import ImportReport
from .column_builder import Collector
from .event_decoder import Decoded, again, decode
from .event_types import Arguments, Variant


class Taker:
    """Decodes and collects.

    Parameters
    ----------
    small : type of Arguments
        As for `Collector`.
    array : bool
        Whether the file is a bare list, which may lack its end.
    report : ImportReport

    Attributes
    ----------
    collector : Collector
    """

    def __init__(self, small: type[Arguments], array: bool, report: ImportReport) -> None:
        self._report, self._array = report, array
        self.collector = Collector(report, small)
        self._variant = self.collector.next_variant(Variant(None, text_times=False))

    def take(self, listed: memoryview, last: bool) -> Decoded | None:
        """Take what `EventText.peek` gave; None if more of the text is needed."""
        decoded = decode(listed, last, self._array, self._variant, self._report)
        return None if decoded is None else self._collected(decoded)

    def _collected(self, decoded: Decoded) -> Decoded:
        while (needed := self.collector.take(decoded.rows, decoded.variant)) != decoded.variant:
            decoded = again(decoded, needed, self._report)
        if self.collector.range_count:
            self.collector.ranges.take(decoded.text, self.collector.range_count, self._report)
        self._variant = self.collector.next_variant(decoded.variant)
        return decoded
