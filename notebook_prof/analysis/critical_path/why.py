"""Why a thread or stream was idle, waited or began to work: a paragraph and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...labels import track_label, variants
from ...trace import Trace
from ...units import format_items, format_ns, format_share
from ..source.annotated import source_texts
from .dependences import dependences
from .hops import hops_table
from .path import PathSpan, pieces_table
from .walk import Kind, Stretch, of_instant, of_slice, resource_names, walk

_HOPS_IN_TEXT: Final = 3
"""Maximum number of hops in the text; the table has all."""

_CLASSES_IN_TEXT: Final = 3
_LINE_IN_TEXT: Final = 60
"""Maximum number of characters of a source line in the text."""


@dataclass(frozen=True)
class Why:
    """Why a thread or stream was idle, waited or began to work when it did."""

    # "idle", "wait" or "work"
    kind: Kind
    track: int
    resource: str
    # The stretch: the idle time, the wait, or the length of a thread's slice; for device work, the time up to
    # its start from its launch or the end of the previous work, whichever is earlier.
    start_ns: int
    end_ns: int
    # Row of the waiting call, of the work that begins next, or of the running slice; -1 if there is none.
    slice: int
    # The critical path of the stretch, as in `critical_path`: ``dur_ns`` sums to its length.
    pieces: pd.DataFrame = field(repr=False)
    # As in `critical_path_hops`, by time.
    hops: pd.DataFrame = field(repr=False)
    # The paragraph; both tables together contain everything that it says.
    text: str

    def __repr__(self) -> str:
        return self.text


def why(
    trace: Trace, ts: int | None = None, track: int | str | None = None, *, slice: int | None = None
) -> Why:
    """Explain why a thread or stream was idle, waited or began to work when it did.

    Parameters
    ----------
    ts : int, optional
        ns from the start of the trace.
    track : int or str, optional
        Key or name of a thread or stream. Default: the thread that runs the steps.
    slice : int, optional
        Row of a slice to explain, instead of an instant.

    Returns
    -------
    Why
        Its ``text`` is a paragraph that ends at a line of the user's source, if one was recorded.

    Raises
    ------
    SelectionError
        If there is no such thread, stream or slice, or nothing was recorded at this time.
    OptionError
        If neither an instant nor a slice is given, or both are.

    Notes
    -----
    The causes are those of `critical_path`, followed back from the end of the stretch to its start.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> print(why(trace, 10).text)
    sync on main waited for 11 ns, from 6 ns on.
    sync on main waited for gemm on stream 7, which ended at 14 ns.
    Of these 11 ns: 72.7 % kernel (the most in gemm), 27.3 % wait-wakeup (the most in sync).
    """
    graph = dependences(trace)
    if (ts is None) == (slice is None):
        raise OptionError("why() needs an instant, as in why(12_000, track), or a slice, as in why(slice=7)")
    stretch = of_instant(graph, int(ts or 0), track) if slice is None else of_slice(graph, slice)
    path = walk(graph, stretch.begin, stretch.end, stretch.from_track, stretch.from_row)
    spans = [PathSpan(-1, "host", stretch.from_track, 0, path)] if stretch.end > stretch.begin else []
    pieces, hops = pieces_table(graph, spans), hops_table(graph, spans)
    keys, labels = resource_names(trace)
    resource = labels[int(np.searchsorted(keys, stretch.track))]
    text = "\n".join(_sentences(trace, stretch, resource, pieces, hops))
    of = stretch.kind, stretch.track, resource, stretch.begin, stretch.end, stretch.row
    return Why(*of, pieces, hops, text)


_CAUSES: Final = {
    "wait": "{it} waited for {cause}, which ended at {at}.",
    "copy": "{it} waited for its own copy, {cause}, which ended at {at}.",
    "queue": "{it} found the launch queue full until {cause} began at {at}.",
    "hand-over": "{it} was idle while {cause} was busy until {at}; the wait is inferred from times.",
    "loader": "{it} waited for {cause}, which ended at {at}.",
    "launch": "{it} began {after}when {cause} had launched it.",
    "event": "{it} waited for {cause}, which ended at {at}.",
    "inferred-event": "{it} waited for {cause}, which ended at {at}; the wait is inferred from times.",
    "graph": "{it} followed {cause} of the same graph, which ended at {at}.",
    "collective": "{it} waited for {cause}, the last rank to arrive, until {at}.",
    "host-collective": "{it} waited for {cause}, the last rank to arrive, until {at}.",
    "unrecorded": "What {it} waited for was not recorded.",
}
"""Sentence for each `why` of `critical_path_hops`."""


def _sentences(
    trace: Trace, stretch: Stretch, resource: str, pieces: pd.DataFrame, hops: pd.DataFrame
) -> list[str]:
    label = _ShortLabels(trace)
    said = [_first(trace, stretch, resource, label), *_of_hops(trace, hops, label)]
    length = stretch.end - stretch.begin
    unlaunched = stretch.from_row >= 0 and dependences(trace).resources.call[stretch.from_row] < 0
    if unlaunched and not (hops["why"] == "unrecorded").any():
        it = label.of(stretch.from_row)
        said.append(f"No launch of {it} was recorded: what it waited for is unknown.")
    if length:
        said.append(f"Of these {format_ns(length)}: {_shares(pieces, label, length)}.")
    said.extend(_of_line(trace, stretch, pieces, length))
    return said


class _ShortLabels:
    """Short names of slices and threads, as in the timeline."""

    def __init__(self, trace: Trace) -> None:
        self.slices, tracks = trace.slices, trace.tracks
        keys, labels = resource_names(trace)
        tracks = tracks.set_index("track").loc[keys]
        pid, tid = (tracks[name].fillna(-1).astype(np.int64).tolist() for name in ("pid", "tid"))
        streams = (tracks["kind"] == "stream").tolist()
        short = [track_label(*what) for what in zip(tracks["name"].astype(str), pid, tid, strict=True)]
        self.streams = {key for key, is_stream in zip(keys.tolist(), streams, strict=True) if is_stream}
        self.resources = {
            name: name if is_stream or short.count(label) > 1 else label
            for name, label, is_stream in zip(labels, short, streams, strict=True)
        }

    def of(self, row: int) -> str:
        """Return the label of a row's slice."""
        name, track = str(self.slices["name"].iloc[row]), int(self.slices["track"].iloc[row])
        return variants(name, track in self.streams)[0]

    def on(self, row: Any, resource: str) -> str:
        """Return the label of a row's slice with its resource or, without a row, that of the resource."""
        where = self.resources[resource]
        return where if pd.isna(row) or row < 0 else f"{self.of(int(row))} on {where}"


def _first(trace: Trace, stretch: Stretch, resource: str, label: _ShortLabels) -> str:
    """Describe what happened in the stretch."""
    length, at = format_ns(stretch.end - stretch.begin), format_ns(stretch.begin, 6)
    it = label.on(stretch.row, resource)
    if stretch.kind == "wait":
        if stretch.row < 0:  # no call waited: the wait was inferred from other threads
            return f"{it} was idle for {length}, from {at} on."
        return f"{it} waited for {length}, from {at} on."
    if stretch.kind == "idle":
        after = f"then {label.of(stretch.row)} began" if stretch.row >= 0 else "nothing began after that"
        return f"{label.resources[resource]} was idle for {length}, from {at} on; {after}."
    if stretch.from_row < 0:
        return f"{it} ran for {length}, from {at} on."
    ran, begins = format_ns(int(trace.slices["dur"].iloc[stretch.row])), format_ns(stretch.end, 6)
    if stretch.end == stretch.begin:
        return f"{it} ran for {ran}, from {begins} on, when the work before it ended."
    call = int(dependences(trace).resources.call[stretch.row])
    called = call >= 0 and int(trace.slices["ts"].iloc[call]) == stretch.begin
    first = not called and stretch.begin == 0
    after = "its launch was called" if called else "the trace began" if first else "the work before it ended"
    return f"{it} ran for {ran}, from {begins} on, {length} after {after}."


def _of_hops(trace: Trace, hops: pd.DataFrame, label: _ShortLabels) -> list[str]:
    """Describe what the path waited for, latest first."""
    said = []
    for hop in hops[::-1].head(_HOPS_IN_TEXT).to_dict("records"):
        it = label.on(hop["slice"], hop["resource"])
        cause, after = label.on(hop["cause_slice"], hop["cause_resource"]), ""
        if hop["why"] == "launch":
            late = int(trace.slices["ts"].iloc[int(hop["slice"])]) - hop["at_ns"]
            after = f"{format_ns(late)} after the instant " if late else ""
        text = _CAUSES[hop["why"]].format(it=it, cause=cause, at=format_ns(hop["at_ns"], 6), after=after)
        if hop["near_tie"]:
            margin = format_ns(int(hop["margin_ns"]))
            text = f"{text[:-1]}, by a margin of {margin}, which is within the noise."
        said.append(text)
    if len(hops) > _HOPS_IN_TEXT:
        more = format_items(len(hops) - _HOPS_IN_TEXT, "change")
        said.append(f"Before that, the path has {more} of thread or stream.")
    return said


def _shares(pieces: pd.DataFrame, label: _ShortLabels, length: int) -> str:
    """List the classes of the stretch's path, largest first."""
    by_class = pieces.groupby("class", observed=True)["dur_ns"].sum()
    by_class = by_class.sort_values(ascending=False, kind="stable")
    parts = []
    for name, spent in by_class.head(_CLASSES_IN_TEXT).items():
        own = pieces[(pieces["class"] == name) & pieces["slice"].notna()]
        by_name = own.groupby("name", observed=True)["dur_ns"].sum()
        most = ""
        if len(by_name):
            first = own.loc[own["name"] == by_name.idxmax(), "slice"].iloc[0]
            most = f" (the most in {label.of(int(first))})"
        parts.append(f"{format_share(spent / length)} {name}{most}")
    if len(by_class) > _CLASSES_IN_TEXT:
        others = int(by_class.iloc[_CLASSES_IN_TEXT:].sum())
        parts.append(f"{format_share(others / length)} other classes")
    return ", ".join(parts)


def _of_line(trace: Trace, stretch: Stretch, pieces: pd.DataFrame, length: int) -> list[str]:
    """Name the line that takes most of the stretch, else the line for which the work ran."""
    by_line = pieces.groupby("line", observed=True)["dur_ns"].sum()
    if len(by_line):
        line, spent = str(by_line.idxmax()), int(by_line.max())
        share = format_share(spent / length)
        return [f"The line with the largest part is {line}{_text(trace, line)}: {format_ns(spent)}, {share}."]
    own = trace.slices["line"].iloc[stretch.row] if stretch.row >= 0 else None
    return [] if own is None or pd.isna(own) else [f"It ran for {own}{_text(trace, str(own))}."]


def _text(trace: Trace, line: str) -> str:
    """Return the source of a line in backquotes; empty if not recorded."""
    file, _, number = line.rpartition(":")
    texts = source_texts(trace)
    names = [name for name in texts if name == file or name.replace("\\", "/").endswith(f"/{file}")]
    if len(names) != 1 or not 0 < int(number) <= len(texts[names[0]]):
        return ""
    text = texts[names[0]][int(number) - 1].strip()
    return f", `{text if len(text) <= _LINE_IN_TEXT else text[: _LINE_IN_TEXT - 1] + '…'}`"
