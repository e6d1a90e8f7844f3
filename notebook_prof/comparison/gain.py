"""What a comparison measures of gains that were predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..profiles.predictions import Gain
from .run import TraceRun

if TYPE_CHECKING:
    from .comparison import Comparison


def gain_of(compared: Comparison, by: str) -> Gain:
    """Return by how much a mean step of the second side is shorter, and where that was measured."""
    table = compared.steps
    before = table.loc[(table["side"] == compared.names[0]) & table["used"], "dur_ns"].mean()
    return Gain.of_change(float(before), compared.change, compared.interval, by)


def noting_gain(compared: Comparison) -> Comparison:
    """Hold what was predicted of the only recording of the first side against a comparison; give it back."""
    first = compared._a.runs[0]
    if compared.runs[0] == 1 and isinstance(first, TraceRun):
        first.profile._ledger.measure(lambda: gain_of(compared, "nbp.compare"))
    return compared
