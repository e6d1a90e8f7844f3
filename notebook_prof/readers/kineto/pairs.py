"""Events that are told by their beginning and their end, and marks, as events with a duration."""

from __future__ import annotations

import numpy as np

from ...trace.pairing import pair
from ...trace.report import ImportReport
from ..codec.numbers import to_ns
from .column_builder import Collector
from .event_types import Begin
from .identifiers import number_of


def settle(collector: Collector, report: ImportReport) -> None:
    """Turn what is left in ``collector.sundries`` into events of `collector`.

    PyTorch writes complete events only; tools that rewrite its files split them. A beginning without an
    end lasts to the end of the file (``unclosed-begin``); an end without a beginning is left out
    (``end-without-begin``).

    Parameters
    ----------
    collector : Collector
    report : ImportReport
    """
    marks = collector.sundries.marks
    if marks:
        ts = np.array([mark[3] for mark in marks], np.int64)
        collector.add([("instant", name, pid, tid) for name, pid, tid, _ in marks], ts, np.zeros_like(ts))
    _pair(collector, report)


def _pair(collector: Collector, report: ImportReport) -> None:
    rows = collector.sundries.begins_and_ends
    ts, ok = to_ns([row.ts for row in rows])
    report.add_where("broken-row", "loss", ~ok, lambda i: rows[i], "these rows are left out")
    rows, ts = [row for row, good in zip(rows, ok.tolist(), strict=True) if good], ts[ok]
    if not rows:
        return
    threads: dict[tuple[int, int], int] = {}
    track = [threads.setdefault((number_of(row.pid), number_of(row.tid)), len(threads)) for row in rows]
    pairs = pair(np.array(track), ts, np.array([isinstance(row, Begin) for row in rows]))
    last = max(int(ts.max()), collector.end())
    begin = np.concatenate([pairs.begin, pairs.unclosed])
    end = np.concatenate([ts[pairs.end], np.full(len(pairs.unclosed), last)])
    opened = [row for row in (rows[i] for i in begin.tolist()) if isinstance(row, Begin)]
    told = [(row.cat or "", row.name or "", row.pid, row.tid) for row in opened]
    collector.add(told, ts[begin], end - ts[begin])
    shown = rows.__getitem__
    report.add_where("unclosed-begin", "loss", pairs.unclosed, shown, "kept until the end of the trace")
    report.add_where("end-without-begin", "loss", pairs.unopened, shown, "ignored")
