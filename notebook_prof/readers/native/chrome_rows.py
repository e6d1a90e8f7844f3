"""The JSON of ``Trace.to_chrome``, typed."""

from __future__ import annotations

from typing import Any, Final, Literal, Union

import msgspec
from msgspec import Raw, Struct, field

NOTHING: Final = Raw(b"")
UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TrackRow(Struct, gc=False):
    """A row of `tracks`, and the process and thread that stand for it in events."""

    name: str
    kind: str
    place: tuple[int, int]
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    stream: int | None = None
    rank: int | None = None
    unit: str = ""


class IssueRow(Struct, gc=False):
    """An entry of the import report."""

    code: str
    severity: Literal["info", "loss", "error"]
    count: int = 1
    example: str = ""
    effect: str = ""
    advice: str = ""


class ColumnPart(Struct, gc=False):
    """A column of a table of the metadata."""

    name: str
    dtype: str
    values: list[Any]
    categories: list[Any] = []


class TablePart(Struct, gc=False):
    """A table of the metadata, or the part of it that no event tells."""

    columns: list[ColumnPart] | None = None
    slices: list[int] | None = None
    value: Any = None


class Tables(Struct, gc=False):
    """What Chrome's events have no place for."""

    tracks: list[TrackRow] = []
    steps: list[tuple[int, int, int, str]] = []
    loops: list[int] = []
    window: tuple[int, int] | None = None
    values: list[tuple[int, int, str]] = []
    report: list[IssueRow] = []
    metadata: dict[str, TablePart] = {}


class FrameRow(Struct, gc=False):
    """A frame of call stacks, in Chrome's words."""

    name: str = ""
    category: str = ""
    line: int = -1
    parent: str = ""


class Head(Struct):
    """The object around the events."""

    base: int = field(name="baseTimeNanoseconds", default=0)
    tables: Tables = field(name="notebook_prof_tables", default_factory=Tables)
    metadata: dict[str, Any] = field(name="notebook_prof", default_factory=dict)
    frames: dict[str, FrameRow] = field(name="stackFrames", default_factory=dict)


class SliceArguments(Struct, gc=False):
    """What a slice is, besides its name and times."""

    category: str = ""
    phase: str = ""
    module: str | None = None
    dims: Raw = field(name="Input Dims", default=NOTHING)
    shapes: str = field(name="Input shapes", default="")
    step: int = -1
    correlation: int = -1
    device: int = -1
    stream: int = -1
    track: int = -1
    arguments: Raw = NOTHING
    device_events: Raw = NOTHING
    collectives: Raw = NOTHING


class MemoryArguments(Struct, gc=False):
    """An allocation, or a free."""

    addr: int = field(name="Addr", default=0)
    size: int = field(name="Bytes", default=0)
    allocated: int = field(name="Total Allocated", default=-1)
    reserved: int = field(name="Total Reserved", default=-1)
    device: int = field(name="Device Id", default=-1)
    track: int = -1


class ValueArguments(Struct, gc=False):
    """The value of a counter."""

    value: float = 0.0


class ArrowArguments(Struct, gc=False):
    """The slice at an end of an arrow, as a row number."""

    slice: int = -1


class Row(Struct, gc=False, tag_field="ph"):
    """Any event."""


class Slice(Row, gc=False, tag="X"):
    """A slice."""

    name: str
    pid: int
    tid: int
    ts: Raw
    dur: Raw
    sf: int = -1
    args: SliceArguments = field(default_factory=SliceArguments)


class Memory(Row, gc=False, tag="i"):
    """An allocation, or a free."""

    ts: Raw
    pid: int
    tid: int
    args: MemoryArguments


class Value(Row, gc=False, tag="C"):
    """A value of a counter."""

    name: str
    pid: int
    ts: Raw
    args: ValueArguments


class Source(Row, gc=False, tag="s"):
    """The start of an arrow."""

    id: int
    cat: str = ""
    args: ArrowArguments = field(default_factory=ArrowArguments)


class Target(Row, gc=False, tag="f"):
    """The end of an arrow."""

    id: int
    args: ArrowArguments = field(default_factory=ArrowArguments)


class Name(Row, gc=False, tag="M"):
    """The name of a process or thread, which the tables tell too."""


AnyRow = Union[Slice, Memory, Value, Source, Target, Name]  # noqa: UP007
list_decoder: Final = msgspec.json.Decoder(list[AnyRow])
row_decoder: Final = msgspec.json.Decoder(AnyRow)
