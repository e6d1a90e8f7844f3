"""One finding of the trust report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.report import Severity
from ...trace.schema import Column, Table

TRUST: Final = Table(
    "trust",
    (
        Column("code", "str", "", "stable name"),
        Column("severity", "str", "", "`info`, `loss` or `error`, as in a trace's report"),
        Column("count", "int64", "", "how often"),
        Column("device_share", "float64", "1", "share of device time affected; NaN where it is none"),
        Column("effect", "str", "", "what it does to the numbers"),
        Column("advice", "str", "", "what to do"),
        Column("example", "str", "", "the first or the worst one"),
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the trust report; see `TRUST` for the columns."""

    code: str
    severity: Severity
    count: int = 1
    device_share: float = float("nan")
    effect: str = ""
    advice: str = ""
    example: str = ""
    # Rows of the affected slices, if the finding is about slices.
    slices: IntArray = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    # The unrepresentative step, if the finding is about a step; else -1.
    step: int = -1
