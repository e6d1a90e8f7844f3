"""The device's own records (r0.5), before MindSpore made tables of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, IntArray
from ...trace.report import ImportReport
from .staging import ns_of
from .steps import COUNT_NS, parted

_NODE: Final = re.compile(
    rb"Node:(\S{1,200}?), Run s?tart:(\d{1,18}), Run end:(\d{1,18})[^\x00]{0,20}\x00"
    rb"[^\x00]{0,2000}?dispatchTime=(\d{1,12}) us, totalTime=(\d{1,12}) us"
)
_LINE: Final = re.compile(rb"^[ \t]*(\d{1,9})[ \t]+(\S{1,200})((?:[ \t]+[\d.]{1,20}){4,5})[ \t]*\r?$", re.M)
_RECORD: Final = np.dtype([("tag", "<u8"), ("task", "<u2"), ("stream", "<u2"), ("count", "<u8")])
_FP, _BP, _END, _MAX_TAG = 1, 2, 255, 255


def training_trace(data: bytes, report: ImportReport) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read ``training_trace.*.slice_<n>``: steps and blocks of gradient exchange.

    Records of 20 bytes, little endian: tag, task, stream, count of 10 ns. Tags: 0 and those above 255 begin a
    step, 1 is the forward's begin, 2 the backward's end, 255 the step's end; others come in pairs around
    an exchange. The first step has no begin of its own: it begins with its forward.

    Returns
    -------
    steps, reduces : DataFrame
        As `steps.step_trace` gives them.
    """
    n, leftover = divmod(len(data), _RECORD.itemsize)
    report.add("broken-row", "loss", int(leftover > 0), f"{leftover} bytes", "the last record is cut off")
    records = np.frombuffer(data, _RECORD, n)
    ns = (records["count"].astype(np.float64) < 4e17) * records["count"].astype(np.int64) * int(COUNT_NS)
    stream = records["stream"].astype(np.int64)
    tag = records["tag"].astype(np.int64)
    ends = np.flatnonzero(tag == _END)
    owner = np.searchsorted(ends, np.arange(n))
    inside = owner < len(ends)
    table = pd.DataFrame({"step": np.arange(1, len(ends) + 1), "end_ns": ns[ends]})
    for name, code in (("fp_ns", _FP), ("bp_ns", _BP)):
        rows = np.flatnonzero((tag == code) & inside)
        first = pd.Series(ns[rows], index=owner[rows])
        table[name] = first.groupby(level=0).agg("min" if code == _FP else "max").reindex(table.index)
    whole = table["fp_ns"].notna() & table["bp_ns"].notna()
    report.add_where(
        "broken-row",
        "loss",
        ~whole.to_numpy(),
        lambda i: f"step {i + 1}",
        "steps without forward or backward are left out",
    )
    begin = table["end_ns"].shift().where(table.index > 0, table["fp_ns"])
    table["start_ns"] = begin
    table = table[whole].astype("int64")
    return parted(table).assign(points="file"), _exchanges(stream, tag, ns, owner, inside)


def _exchanges(
    stream: IntArray, tag: IntArray, ns: IntArray, owner: IntArray, inside: BoolArray
) -> pd.DataFrame:
    rows = np.flatnonzero((tag > _BP) & (tag < _END) & inside)
    frame = pd.DataFrame({"step": owner[rows] + 1, "stream": stream[rows], "ns": ns[rows]})
    nth = frame.groupby(["step", "stream"]).cumcount()
    begin, end = frame[nth % 2 == 0], frame[nth % 2 == 1]
    pairs = begin.assign(pair=nth[begin.index] // 2).merge(
        end.assign(pair=nth[end.index] // 2), on=["step", "stream", "pair"], suffixes=("", "_end")
    )
    name = "stream_" + pairs["stream"].astype(str) + "_parallel_" + pairs["pair"].astype(str)
    return pd.DataFrame(
        {
            "step": pairs["step"],
            "name": name,
            "stream": pairs["stream"],
            "start_ns": pairs["ns"],
            "dur_ns": (pairs["ns_end"] - pairs["ns"]).clip(lower=0),
        }
    )


def aicpu_records(data: bytes) -> pd.DataFrame:
    """Read ``DATA_PREPROCESS.dev.AICPU.<id>.slice_<n>``: columns as in the table ``aicpu``.

    Examples
    --------
    >>> record = b"Node:InitData, Run tart:20, Run end:50\\0Thread dispatchTime=100 us, totalTime=1567 us."
    >>> aicpu_records(record).values.tolist()
    [[1, 'InitData', 1567000.0, 100000.0, 20000, 50000]]
    """
    rows = [match.groups() for match in _NODE.finditer(data)]
    return _aicpu_table([(str(i + 1).encode(), n, t, d, a, b) for i, (n, a, b, d, t) in enumerate(rows)], 1e3)


def aicpu_lines(data: bytes) -> pd.DataFrame:
    """Read ``output_data_preprocess_aicpu_<id>.txt``, times in ms: as `aicpu_records`."""
    rows = []
    for match in _LINE.finditer(data):
        total, dispatch, *_, start, end = match[3].split()
        rows.append((match[1], match[2], total, dispatch, start, end))
    return _aicpu_table(rows, 1e6)


def _aicpu_table(rows: Sequence[tuple[bytes, ...]], unit_ns: float) -> pd.DataFrame:
    texts = pd.DataFrame([[cell.decode(errors="replace") for cell in row] for row in rows], columns=range(6))
    start, begun = ns_of(texts[4], 1e3)
    end, ended = ns_of(texts[5], 1e3)
    numbers = {column: pd.to_numeric(texts[column], errors="coerce") for column in (0, 2, 3)}
    table = pd.DataFrame(
        {
            "serial": numbers[0],
            "type": texts[1],
            "total_ns": numbers[2] * unit_ns,
            "dispatch_ns": numbers[3] * unit_ns,
            "start_ns": start,
            "end_ns": np.maximum(start, end),
        }
    )
    return table[begun & ended].astype({"total_ns": "float64", "dispatch_ns": "float64"})
