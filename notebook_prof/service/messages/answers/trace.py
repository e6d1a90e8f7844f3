"""Answers about the whole recording: facts, names, doubts, the account."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ..base import F8, I4, U1, U4, Columns, Declared, Grouping, Tint


class Track(Declared):
    """A thread, a stream or another track with slices; `row` is the first of its drawn rows."""

    track: int
    name: str
    label: str
    outer_rows: int
    quiet: bool
    marks: int
    """Number of its first rows whose ranges only annotate the work below them."""
    folded: int
    """Number of rows at the end that hold folded library frames and are not drawn."""
    group: str
    kind: str
    row: int
    depths: int
    rank: int
    busy: float


class Counter(Declared):
    """A counter that has values, from `low` to `high`; `unit`: ``bytes``, ``1`` (share), ``W`` … or empty."""

    track: int
    name: str
    group: str
    unit: str
    low: float
    high: float


class AccountColours(Declared):
    """Colours of the account, for steps and for code, used in turn."""

    steps: list[str]
    code: list[str]


class Colours(Declared):
    """Colours of everything (``#RRGGBB``): by code (`names phases categories`) or by name."""

    names: list[str]
    phases: list[str]
    categories: list[str]
    phase: dict[str, str]
    step: str
    resource: Annotated[dict[str, str], Meta(extra={"ts": "Record<'device' | 'host', string>"})]
    account: AccountColours
    memory: Annotated[
        dict[str, str], Meta(extra={"ts": "Record<'allocated' | 'reserved' | 'selected' | 'peak', string>"})
    ]
    counter: str


class StepColumns(Columns):
    """Steps."""

    step: I4
    ts: F8
    dur: F8


class Raised(Declared):
    """The exception that ended the cell: its name, its line, and when."""

    error: str
    line: int
    ts: int


Doubts = Annotated[
    dict[str, dict[str, str]], Meta(extra={"ts": "Record<'host' | 'device', Record<string, string>>"})
]


class MetaContent(Declared, kw_only=True):
    """The facts of the trace; `work` is from the first slice to the end of the last."""

    data = StepColumns
    span: tuple[int, int]
    work: tuple[int, int]
    slices: int
    names: int
    tracks: list[Track]
    unfolded: list[Track]
    """The tracks of a timeline that shows all frames; empty if no frames are folded."""
    hidden: list[int] | UnsetType = UNSET
    categories: list[str]
    phases: list[str]
    lines: list[str]
    tints: list[Tint]
    groupings: list[Grouping]
    device: bool
    memory: list[int]
    resident: bool
    counters: list[Counter]
    steps: int
    steps_source: str
    raised: Raised | UnsetType = UNSET
    doubts: Doubts | UnsetType = UNSET
    colours: Colours


class DoubtsAnswer(Declared):
    """The doubts of the trust report, as sentences by name."""

    doubts: Doubts


class NameColumns(Columns):
    """Colour of each name."""

    colour: U1


class NamesAnswer(Declared):
    """Names from code `start` on, and the next code to request; `short` is empty if it equals the name."""

    data = NameColumns
    start: int
    names: list[str]
    short: list[str]
    next: int | None


class AccountPart(Declared):
    """A part of the cell: see `notebook_prof.analysis.account`."""

    part: str
    kind: str
    share: float
    text: str
    line: int | None
    dur: int
    steps: int
    cpu_ns: int | None
    wait_ns: int | None
    device_ns: int | None
    loop: int | None


class AccountColumns(Columns):
    """Stretches of time, ascending."""

    ts: F8
    dur: F8
    part: U4
    steps: U4


class AccountAnswer(Declared):
    """The account of the cell."""

    data = AccountColumns
    parts: list[AccountPart]
    shown: bool
    thinned: bool
