"""Answers that are drawn over time: slices and cells, curves, bars of steps."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from ..base import F8, I4, U1, U2, U4, Columns, Declared


class LegendAnswer(Declared):
    """The meaning of the colours: text, colour and share of all self time; and the number of further ones."""

    items: list[tuple[str, str, float]]
    more: int


class KeptPicture(Declared, kw_only=True):
    """A picture that the page keeps; `picture` identifies its part that is independent of the selection."""

    filtered: bool
    picture: int | UnsetType = UNSET
    same: Literal[False] | UnsetType = UNSET


class DensityPlace(KeptPicture, kw_only=True):
    """Cells (rows × bins) of slices too narrow to be drawn one by one."""

    mode: Literal["dense"]
    bins: int
    bin_start: float
    bin_ns: float
    sums: bool | UnsetType = UNSET
    """Whether the bins include slices that a report has only as sums."""


class SliceColumns(Columns):
    """Slices that are drawn one by one."""

    x0: F8
    dur: F8
    slot: U2
    name: U2 | U4
    tint: U1
    id: U4
    match: U1
    found: U1 | UnsetType = UNSET
    line: I4 | UnsetType = UNSET


class DensityColumns(Columns):
    """Cells, row by row."""

    busy: U1
    bright: U1
    count: U4
    dname: U2 | U4
    dtint: U1


class LodColumns(SliceColumns, kw_only=True):
    """Slices and cells."""

    busy: U1
    bright: U1
    count: U4
    dname: U2 | U4
    dtint: U1


class LodCells(DensityPlace, kw_only=True):
    """Some rows, with cells for narrow slices."""

    data = LodColumns
    total: int
    quads: int


class LodSlices(KeptPicture, kw_only=True):
    """Some rows in which every slice is drawn."""

    data = SliceColumns
    mode: Literal["all"]
    bins: Literal[0]
    total: int
    quads: int


LodPicture = LodCells | LodSlices


class MarkColumns(Columns):
    """The selected part of a picture."""

    match: U1
    bright: U1 | UnsetType = UNSET
    found: U1 | UnsetType = UNSET


class LodMarks(Declared):
    """The page already has this picture: only its marks are sent."""

    data = MarkColumns
    total: int
    quads: int
    filtered: bool
    picture: int
    same: Literal[True]


class StripColumns(Columns):
    """Cells of the overview."""

    busy: U1
    bright: U1
    dname: U2 | U4
    dtint: U1


class StripAnswer(DensityPlace, kw_only=True):
    """The whole recording.

    `tracks` has the ordinal of each row's track; the first `busy_rows` rows show how busy the tracks are.
    """

    data = StripColumns
    tracks: list[int]
    busy_rows: int


class StripMarkColumns(Columns):
    """Selected part of every cell."""

    bright: U1


class StripMarks(Declared):
    """The page already has this strip."""

    data = StripMarkColumns
    tracks: list[int]
    busy_rows: int
    filtered: bool
    picture: int
    same: Literal[True]


class Peak(Declared):
    """An instant, and the bytes allocated then."""

    ts: float
    bytes: float


class MemoryColumns(Columns):
    """Points of the curves: allocated, reserved and selected."""

    x: F8
    y: F8
    rx: F8
    ry: F8
    sx: F8
    sy: F8


class MemoryAnswer(Declared):
    """Memory of one device; -1 is the host."""

    data = MemoryColumns
    device: int
    part: Literal["blocks", "selection"]
    peak: Peak
    window_peak: Peak | None
    highest: float
    lowest: float


class NoMemory(Declared):
    """Nothing was allocated; the columns are empty."""

    data = MemoryColumns
    device: None


class CounterColumns(Columns):
    """Points, one track after the other."""

    x: F8
    y: F8


class CountersAnswer(Declared):
    """Counters, with the number of points of each."""

    data = CounterColumns
    tracks: list[int]
    sizes: list[int]


class PhaseColumns(Columns):
    """Bars; `total` and `part` are bars × phases."""

    total: F8
    part: F8
    first: F8 | I4
    last: F8 | I4
    ts: F8
    end: F8


class PhasesAnswer(Declared):
    """Time by step and phase."""

    data = PhaseColumns
    bars: int
    phases: list[str]
    filtered: bool
    estimate: bool | UnsetType = UNSET


class SelectedColumns(Columns):
    """Drawn rows with selected slices, and the number of these before, in and after a window.

    `end_before` is the end of the last one before it, `start_after` the start of the first one after it; -1
    for none.
    """

    row: U4
    before: U4
    inside: U4
    after: U4
    end_before: F8
    start_after: F8


class SelectedAnswer(Declared):
    """Number and rows of selected slices; with `estimate`, a report has only sums of further ones."""

    data = SelectedColumns
    count: int
    estimate: bool | UnsetType = UNSET
