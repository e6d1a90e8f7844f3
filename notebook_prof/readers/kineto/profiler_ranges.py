"""Hardware counters of CUPTI's range profiler: one row per kernel, with its counters as arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw, Struct

from ...trace.arrays import IntArray
from ...trace.nesting import nest
from ...trace.report import ImportReport
from ...trace.taxonomy import LAUNCH_CALL
from ..codec.numbers import identifiers, to_ns
from .activity_types import rows_of
from .columns import MAX_DEVICE, CounterColumns, KinetoColumns
from .event_types import NOTHING, UNDECODABLE

if TYPE_CHECKING:
    import pandas as pd

ACTIVITY_TYPE: Final = "cuda_profiler_range"


class _Row(Struct, gc=False):
    cat: Any = ""
    name: Any = None
    pid: Any = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Raw = NOTHING


_ROWS: Final = msgspec.json.Decoder(list[_Row])
_ARGS: Final = msgspec.json.Decoder(dict[str, Any])


class RangeColumns(Struct):
    """The profiler's ranges, in the order of the file."""

    ts: IntArray  # Unix nanoseconds
    dur: IntArray
    device: IntArray
    names: list[str]  # the kernel of each range, as CUPTI names it
    values: pd.DataFrame  # a float64 column for each counter, by its full name; NaN if it was not measured


class ProfilerRanges:
    """Collects ranges while a file is read."""

    def __init__(self) -> None:
        self._rows: list[tuple[_Row, dict[str, float]]] = []

    def add(self, text: bytes | memoryview, expected: int, report: ImportReport) -> None:
        """Read the counters of the `expected` ranges in a list of events."""
        # `text` is empty if the events could not be read as a list.
        read = 0
        try:
            rows = [row for row in _ROWS.decode(text) if row.cat == ACTIVITY_TYPE] if text else []
        except UNDECODABLE:
            rows = []
        for row in rows:
            try:
                args = _ARGS.decode(row.args) if row.args else {}
            except UNDECODABLE:
                continue
            values = {name: float(value) for name, value in args.items() if _is_number(value)}
            if values:  # the text from which it was decoded is not kept
                row.ts, row.dur, row.args = row.ts.copy(), row.dur.copy(), NOTHING
                self._rows.append((row, values))
                read += 1
        report.add(
            "range-without-counters",
            "loss",
            expected - read,
            example=ACTIVITY_TYPE,
            effect="these ranges are slices, but have no row in the table profiler_ranges",
        )

    def columns(self, base: int) -> RangeColumns | None:
        """Return all ranges, shifted by `base`; None if there are none."""
        import pandas as pd

        ts, ts_ok = to_ns([row.ts for row, _ in self._rows])
        dur, dur_ok = to_ns([row.dur for row, _ in self._rows])
        keep = np.flatnonzero(ts_ok & dur_ok)
        if not len(keep):
            return None
        rows = [self._rows[i] for i in keep.tolist()]
        device = identifiers([row.pid if isinstance(row.pid, int | str) else None for row, _ in rows])
        return RangeColumns(
            ts=ts[keep] + base,
            dur=dur[keep],
            device=np.clip(device, 0, MAX_DEVICE),
            names=[str(row.name) for row, _ in rows],
            values=pd.DataFrame([values for _, values in rows]).astype("float64"),
        )


def range_counters(ranges: RangeColumns) -> list[CounterColumns]:
    """Return a counter for each metric of each device: the value of a range while it lasts, otherwise 0."""
    counters = []
    for device in np.unique(ranges.device).tolist():
        of_device = np.flatnonzero(ranges.device == device)
        of_device = of_device[np.argsort(ranges.ts[of_device], kind="stable")]
        start = ranges.ts[of_device]
        end = start + ranges.dur[of_device]
        gap = np.append(end[:-1] < start[1:], True)
        ts = np.concatenate([start, end[gap]])
        order = np.argsort(ts, kind="stable")
        for name in ranges.values.columns:
            values = ranges.values[name].to_numpy()[of_device]
            if not np.isnan(values).all():
                value = np.concatenate([np.nan_to_num(values), np.zeros(int(gap.sum()))])
                counters.append(CounterColumns(str(name), -1, ts[order], value[order], device))
    return counters


def range_table(ranges: RangeColumns, columns: KinetoColumns) -> pd.DataFrame:
    """Return the table for ``metadata["tables"]["profiler_ranges"]``, by start."""
    # `top_operator` and `operator` are the outermost and the innermost one around the call that launched the
    # kernel, missing if unknown. Ranges have no correlation, and their times are not those of the run. CUPTI
    # replays kernels one by one. So if a file has as many launch calls as ranges, they are matched in order
    # of time, as HTA does.
    import pandas as pd

    order = np.argsort(ranges.ts, kind="stable")
    outer, inner = _operators(columns, len(order))
    key = {"device": ranges.device, "start_unix_ns": ranges.ts, "dur_ns": ranges.dur}
    table = pd.DataFrame({name: values[order] for name, values in key.items()})
    table["name"] = pd.Categorical([ranges.names[i] for i in order.tolist()])
    table["top_operator"] = pd.Categorical(outer)
    table["operator"] = pd.Categorical(inner)
    return pd.concat([table, ranges.values.iloc[order].reset_index(drop=True)], axis=1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _operators(columns: KinetoColumns, count: int) -> list[list[str | None]]:
    """Return the outermost and innermost operator of each launch; all None without `count` launches."""
    launches = np.array([LAUNCH_CALL.fullmatch(name) is not None for name in columns.name.values])
    call = np.flatnonzero(rows_of(columns.name, launches) & (columns.device < 0))
    if len(call) != count:
        return [[None] * count] * 2
    call = call[np.argsort(columns.ts[call], kind="stable")]
    is_operator = np.array([kind == "cpu_op" for kind in columns.kind.values], bool)
    operator = np.flatnonzero(rows_of(columns.kind, is_operator))
    both = np.concatenate([operator, call])
    thread = columns.tid[both]
    _, parent, _ = nest(thread, columns.ts[both], columns.dur[both])
    inner = parent[len(operator) :].copy()
    outer = inner.copy()
    while (higher := (outer >= 0) & (parent[outer] >= 0)).any():
        outer[higher] = parent[outer[higher]]
    names = [columns.name.values[i] for i in columns.name.codes[operator].tolist()]
    return [[names[i] if i >= 0 else None for i in at.tolist()] for at in (outer, inner)]
