"""The types of Kineto's JSON events, which determine the fields to decode."""

from __future__ import annotations

from functools import reduce
from operator import attrgetter, or_
from typing import Any, Final, Union

import msgspec
from msgspec import Raw, Struct, field

from ..codec.tolerant_json import NOTHING

Scalar = Union[int, float, str, None]  # noqa: UP007
Vector = Union[tuple[int | float, ...], str, int, None]  # noqa: UP007


class Arguments(Struct, gc=False, frozen=True):
    """Arguments of events with a duration."""

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
    # launch settings of kernels, bytes of copies, the exchange of collectives
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


EXTRA: Final = Arguments.__struct_fields__[Arguments.__struct_fields__.index("grid") :]
"""Fields that become the column `extra` of `KinetoColumns`."""
extra_of: Final = attrgetter(*EXTRA)
"""Returns the fields `EXTRA` of an event's arguments as a tuple."""

NO_ARGUMENTS: Final = Arguments()


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


class Complete(Event, gc=False, tag="X"):
    """A slice. Times stay text, since some are not exact as numbers."""

    cat: str | None = ""
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Arguments = NO_ARGUMENTS


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
_ARROWS: Final = (msgspec.defstruct(f"Arrow_{tag}", [], bases=(Event,), tag=tag, gc=False) for tag in "stf")
_EVENT: Any = reduce(or_, (Begin, End, Instant, Counter, Metadata, *_ARROWS), Complete)

list_decoder: Final = msgspec.json.Decoder(list[_EVENT])
event_decoder: Final = msgspec.json.Decoder(_EVENT)
loose_decoder: Final = msgspec.json.Decoder(LooseEvent)
