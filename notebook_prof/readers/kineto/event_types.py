"""The types of Kineto's JSON events, which determine the fields to decode."""

from __future__ import annotations

from functools import cache, reduce
from operator import attrgetter, or_
from typing import Any, Final, NamedTuple, Union

import msgspec
from msgspec import Raw, Struct, field

from ..codec.tolerant_json import NOTHING

Scalar = Union[int, float, str, None]  # noqa: UP007
Vector = Union[tuple[int | float, ...], str, int, None]  # noqa: UP007


class Arguments(Struct, gc=False, frozen=True):
    """Arguments that link events, and the inputs of operators."""

    sequence: int = field(name="Sequence number", default=-1)
    fwd_thread: int = field(name="Fwd thread id", default=0)
    dims: Raw = field(name="Input Dims", default=NOTHING)
    types: Raw = field(name="Input type", default=NOTHING)
    strides: Raw = field(name="Input Strides", default=NOTHING)
    concrete: Raw = field(name="Concrete Inputs", default=NOTHING)
    correlation: int = -1
    device: int | str | None = -1
    stream: int | str | None = -1
    # written until 2023: another spelling, stacks and modules of operators
    old_dims: Raw = field(name="Input dims", default=NOTHING)
    call_stack: str = field(name="Call stack", default="")
    hierarchy: str = field(name="Module Hierarchy", default="")


class AllArguments(Arguments, gc=False, frozen=True):
    """Also launch settings of kernels, bytes of copies, and the exchange of collectives."""

    grid: Vector = None
    block: Vector = None
    registers: Scalar = field(name="registers per thread", default=None)
    shared_memory: Scalar = field(name="shared memory", default=None)
    blocks_per_sm: Scalar = field(name="blocks per SM", default=None)
    warps_per_sm: Scalar = field(name="warps per SM", default=None)
    occupancy: Scalar = field(name="est. achieved occupancy %", default=None)
    theoretical_occupancy: Scalar = field(name="theoretical occupancy %", default=None)
    bytes: Scalar = None
    collective: Scalar = field(name="Collective name", default=None)
    in_elements: Scalar = field(name="In msg nelems", default=None)
    out_elements: Scalar = field(name="Out msg nelems", default=None)
    in_split: Vector = field(name="In split size", default=None)
    out_split: Vector = field(name="Out split size", default=None)
    dtype: Scalar = None
    group_size: Scalar = field(name="Group size", default=None)
    group: Scalar = field(name="Process Group Name", default=None)
    group_description: Scalar = field(name="Process Group Description", default=None)
    group_ranks: Vector = field(name="Process Group Ranks", default=None)
    collective_sequence: Scalar = field(name="Seq", default=None)
    src_rank: Scalar = field(name="Src Rank", default=None)
    dst_rank: Scalar = field(name="Dst Rank", default=None)
    wait_on_stream: Scalar = None
    wait_on_event: Scalar = field(name="wait_on_cuda_event_id", default=None)
    wait_on_correlation: Scalar = field(name="wait_on_cuda_event_record_corr_id", default=None)
    sync_kind: Scalar = field(name="cuda_sync_kind", default=None)
    graph: Scalar = field(name="graph id", default=None)
    graph_node: Scalar = field(name="graph node id", default=None)
    priority: Scalar = None
    kernel_backend: Scalar = None
    kernel_hash: Scalar = None
    kernel_file: Scalar = None
    kernel_kwargs: Scalar = None
    num_warps: Scalar = None
    num_stages: Scalar = None
    cbid: Scalar = None


EXTRA: Final = AllArguments.__struct_fields__[len(Arguments.__struct_fields__) :]
"""Fields that become the column `extra` of `KinetoColumns`."""
extra_of: Final = attrgetter(*EXTRA)
"""Returns the fields `EXTRA` of an event's arguments as a tuple."""

NO_ARGUMENTS: Final = AllArguments()


class MemoryArguments(Struct, gc=False, frozen=True):
    """Arguments of ``[memory]`` instants."""

    device: int = field(name="Device Id", default=-1)
    address: int = field(name="Addr", default=0)
    size: int = field(name="Bytes", default=0)
    allocated: int = field(name="Total Allocated", default=-1)
    reserved: int = field(name="Total Reserved", default=-1)


NO_MEMORY: Final = MemoryArguments()


class NameArguments(Struct, gc=False, frozen=True):
    """Arguments of metadata events."""

    name: Any = None


NO_NAME: Final = NameArguments()


class Event(Struct, gc=False, tag_field="ph"):
    """Any element of ``traceEvents``."""


class Begin(Event, gc=False, tag="B"):
    """Begin of a slice."""

    cat: str | None = ""
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING


class End(Event, gc=False, tag="E"):
    """End of the latest open slice of its thread."""

    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING


class Instant(Event, gc=False, tag="i"):
    """An allocation, a free, or a mark."""

    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    args: MemoryArguments = NO_MEMORY


class Counter(Event, gc=False, tag="C"):
    """Values of counters at an instant."""

    name: str | None = None
    pid: int | str | None = None
    ts: Raw = NOTHING
    args: dict[str, Any] = field(default_factory=dict)


class Metadata(Event, gc=False, tag="M"):
    """The name of a process or thread."""

    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: NameArguments = NO_NAME


class LooseEvent(Struct, gc=False):
    """Any object that may be an event, for events with fields of unexpected types."""

    ph: Any = ""
    cat: Any = ""
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Raw = NOTHING


# arrows are not read, but computed from the events' numbers
_FLOWS: Final = (msgspec.defstruct(f"Flow_{tag}", [], bases=(Event,), tag=tag, gc=False) for tag in "stf")
OTHERS: Final = (Begin, End, Instant, Counter, Metadata, *_FLOWS)


class Variant(NamedTuple):
    """How events are decoded."""

    text_times: bool  # keep times of slices as text, because some are not exact as numbers
    all_arguments: bool  # decode `AllArguments`, which has many fields and takes longer


MOST: Final = Variant(text_times=True, all_arguments=True)


@cache
def complete_type(variant: Variant) -> type[Any]:
    """Return the type of events with a duration (``X``)."""
    time = Raw if variant.text_times else int | float
    fields: list[tuple[str, Any, Any]] = [
        ("cat", str | None, ""),
        ("name", str | None, None),
        ("pid", int | str | None, None),
        ("tid", int | str | None, None),
        ("ts", time, NOTHING),
        ("dur", time, NOTHING),
        ("args", AllArguments if variant.all_arguments else Arguments, NO_ARGUMENTS),
    ]
    return msgspec.defstruct("Complete", fields, bases=(Event,), tag="X", gc=False)


@cache
def decoder(variant: Variant, listed: bool = True) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a list of events, or of a single one."""
    event: Any = reduce(or_, OTHERS, complete_type(variant))
    return msgspec.json.Decoder(list[event] if listed else event)


loose_decoder: Final = msgspec.json.Decoder(LooseEvent)
