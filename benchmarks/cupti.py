"""Reading CUPTI's buffers: from mixed records to slices, launches and attributes, a million records.

The buffers are made of real structures (``tests/data/gpu/cupti_28.bin``), repeated with later times. CPU
seconds of the process; the median of three.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from notebook_prof.collectors.cupti import names
from notebook_prof.collectors.cupti.align import Alignment, Reading
from notebook_prof.collectors.cupti.columns import columns
from notebook_prof.collectors.cupti.layouts import STRUCTS, sizes
from notebook_prof.collectors.cupti.walk import Records, walk
from notebook_prof.readers.kineto import assemble
from notebook_prof.trace import TraceBuilder
from notebook_prof.trace.report import ImportReport

TITLE: Final = "Reading CUPTI's records"
_FILE: Final = Path(__file__).parents[1] / "tests" / "data" / "gpu" / "cupti_28.bin"
_EVERY_NS: Final = 1_000_000
_RECORDS: Final = 1_000_000
_BUFFER_WORDS: Final = (4 << 20) // 8
_CLOCK: Final = Alignment(Reading(0, 0, 1), Reading(1, 1, 1))


def run() -> list[dict[str, Any]]:
    """Rows: one a stage."""
    strides = {kind: sizes(28)[struct] for kind, struct in STRUCTS.items()} | {37: 24}
    one = np.frombuffer(_FILE.read_bytes(), np.uint64)
    count = sum(len(rows) for rows in walk([one], strides).of.values())
    turns = _RECORDS // count
    whole = max(_BUFFER_WORDS // len(one), 1)
    buffers = [np.tile(one, min(whole, turns - at)) for at in range(0, turns, whole)]
    walked: list[Records] = []
    rows = [_row("buffers → records", turns * count, lambda: walked.append(walk(buffers, strides)))]
    records = _spread(walked[-1], turns)
    old, names.text_at = names.text_at, lambda address: f"kernel {address}"
    try:
        rows.append(_row("records → slices, launches, attributes", turns * count, lambda: _built(records)))
    finally:
        names.text_at = old
    return rows


def _spread(records: Records, turns: int) -> Records:
    """Every repetition a millisecond after the one before, with correlations of its own."""
    for rows in records.of.values():
        each = np.arange(len(rows)) // (len(rows) // turns)
        for name in ("start", "end", "timestamp"):
            if name in (rows.dtype.names or ()):
                rows[name] += (rows[name] > 0) * (each * _EVERY_NS).astype(np.uint64)
        if "correlationId" in (rows.dtype.names or ()):
            rows["correlationId"] += (each * 1_000).astype(np.uint32)
    return records


def _built(records: Records) -> None:
    table = columns(records, _CLOCK, lambda domain, number: f"call {number}", ImportReport(), pid=1)
    assemble(table, TraceBuilder())


def _row(stage: str, records: int, action: Callable[[], object]) -> dict[str, Any]:
    spent = []
    for _ in range(3):
        begun = time.process_time()
        action()
        spent.append(time.process_time() - begun)
    middle = statistics.median(spent)
    return {
        "stage": stage,
        "records": records,
        "CPU s": round(middle, 3),
        "ns a record": round(1e9 * middle / records),
    }
