"""The JSON of Paddle, typed: what of a row is read."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType, field

_NOTHING: Final = Raw(b"")


class Args(Struct, gc=False):
    """The arguments of a row; each kind of row has some of them."""

    start_time: str | None = None
    correlation: int | None = field(name="correlation id", default=None)
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    registers: int | None = field(name="registers per thread", default=None)
    shared: int | None = field(name="shared memory", default=None)
    blocks_per_sm: float | None = field(name="blocks per SM", default=None)
    warps_per_sm: float | None = field(name="warps per SM", default=None)
    grid: Raw = _NOTHING
    block: Raw = _NOTHING
    occupancy: float | None = field(name="theoretical achieved occupancy %", default=None)
    bytes: int | None = None
    value: int | None = None
    place: str = ""
    addr: str | int = 0
    increase_bytes: int = 0
    current_allocated: int = 0
    current_reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    input_shapes: Raw = _NOTHING
    input_dtypes: Raw = _NOTHING
    callstack: str | None = None
    name: str | int | None = None


class Row(Struct, gc=False):
    """One element of ``traceEvents``; the last one is empty. Times stay text."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = _NOTHING
    dur: Raw = _NOTHING
    args: Args | None = None


class File(Struct):
    """The object around the rows. The span number changed its spelling between 2.6.2 and 3.3.1."""

    rows: list[Row] | UnsetType = field(name="traceEvents", default=UNSET)
    schema: Any = field(name="schemaVersion", default=None)
    span: Any = field(name="span_index", default=None)
    old_span: Any = field(name="span_indx", default=None)
    devices: Any = field(name="deviceProperties", default=None)
    extra: Any = field(name="ExtraInfo", default=None)
