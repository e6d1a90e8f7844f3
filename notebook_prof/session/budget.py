"""What earlier recordings of the same cell cost, and what the next one leaves out for that.

Torch writes the shapes of all inputs down when it stops: 15 µs an operator, against 5 without. A cell of many
small operators then waits longer for its end than it has run. That cannot be known before it has run, and
cannot be changed while it runs; so it is remembered by the text of the cell.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final

from ..collectors.options import CollectorOptions
from ..trace.report import ImportReport
from ..units import format_ns

LONG_STOP_NS: Final = 1_000_000_000
"""Stopping may always take this long."""
_MOST_CELLS: Final = 1000

_lock = threading.Lock()
_dear: dict[str, tuple[int, int]] = {}
"""Texts of cells whose recording took longer to stop than the cell ran: how long both took."""


def within(options: CollectorOptions, source: str | None, report: ImportReport) -> CollectorOptions:
    """Decide what nobody asked for by name.

    Parameters
    ----------
    options : CollectorOptions
        Where `shapes` is None, they are recorded, unless that took too long before.
    source : str or None
        Text of the cell.
    report : ImportReport
        Told what is left out, why, and how to have it.

    Returns
    -------
    CollectorOptions
    """
    if options.shapes is not None:
        return options
    dear = None if source is None else _dear.get(_body(source))
    if dear is None:
        return replace(options, shapes=True)
    stop_ns, recorded_ns = dear
    report.add(
        "shapes-left-out",
        "info",
        example=f"the recording of this cell before took {format_ns(stop_ns)} to stop, the cell "
        f"{format_ns(recorded_ns)}: it makes many small operators, and shapes are two thirds of that",
        effect="operators are not told apart by shape, and their work in FLOP is not known",
        advice="%%profile --shapes records them again",
    )
    return replace(options, shapes=False)


def spent(source: str | None, recorded_ns: int, stop_ns: int) -> None:
    """Note how long a recording took to stop.

    Parameters
    ----------
    source : str or None
        Text of the cell; nothing is noted without.
    recorded_ns, stop_ns : int
        How long it recorded, and how long it then took to stop.
    """
    if source is None or stop_ns <= max(LONG_STOP_NS, recorded_ns):
        return
    with _lock:
        while len(_dear) >= _MOST_CELLS:
            del _dear[next(iter(_dear))]
        _dear.setdefault(_body(source), (stop_ns, recorded_ns))


def _body(source: str) -> str:
    """Return the cell without its ``%%profile`` line, whose options may differ."""
    first, _, body = source.lstrip().partition("\n")
    return body if first.startswith("%%profile") else source
