"""Remembers expensive recordings of a cell, so that the next one leaves out what made them so.

Torch writes the shapes of all inputs when it stops, which takes 15 µs per operator instead of 5. In a cell of
many small operators, stopping then takes longer than the cell itself. That is known only after the cell has
run, so it is remembered under the text of the cell.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final

from ..collectors.options import CollectorOptions
from ..trace.report import ImportReport
from ..units import format_ns

LONG_STOP_NS: Final = 1_000_000_000
"""A stop that is no longer than this is always acceptable."""
_MOST_CELLS: Final = 1000

_lock = threading.Lock()
_dear: dict[str, tuple[int, int]] = {}
"""For each cell whose stop took longer than the cell itself, by its text: both durations."""


def within(options: CollectorOptions, source: str | None, report: ImportReport) -> CollectorOptions:
    """Fill in the options left unset: record `shapes` unless an earlier recording of this cell took too long
    to stop."""
    if options.shapes is not None:
        return options
    dear = None if source is None else _dear.get(_body(source))
    if dear is None:
        return replace(options, shapes=True)
    stop_ns, recorded_ns = dear
    report.add(
        "shapes-left-out",
        "info",
        example=f"an earlier recording of this cell took {format_ns(stop_ns)} to stop, the cell "
        f"{format_ns(recorded_ns)}: it makes many small operators, and shapes are two thirds of that",
        effect="operators are not split by shape, and their work in FLOP is not known",
        advice="%%profile --shapes records them again",
    )
    return replace(options, shapes=False)


def spent(source: str | None, recorded_ns: int, stop_ns: int) -> None:
    """Remember how long a recording of this cell took to stop, if that was too long."""
    if source is None or stop_ns <= max(LONG_STOP_NS, recorded_ns):
        return
    with _lock:
        while len(_dear) >= _MOST_CELLS:
            del _dear[next(iter(_dear))]
        _dear.setdefault(_body(source), (stop_ns, recorded_ns))


def _body(source: str) -> str:
    """Return the cell without its ``%%profile`` line, which may have other options."""
    first, _, body = source.lstrip().partition("\n")
    return body if first.startswith("%%profile") else source
