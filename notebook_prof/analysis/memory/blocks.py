"""Blocks of memory: their kind, birth, death and lifetime; what each operator allocates and releases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import PHASES, Trace, Window
from ...trace.arrays import BoolArray, IntArray, optional
from ...trace.nesting import climb
from ...trace.schema import Table
from ...units import parse_ns
from ..grouping import group, sums
from ..scope import Numbers, Texts, WindowLike, checked_numbers, checked_words, ints, recorded_table, texts

FOREVER: Final = np.iinfo(np.int64).max
"""Time of death of a block that outlived the recording."""
_MERELY_ALLOCATE: Final = (
    *(f"aten::{x}" for x in ("empty", "empty_like", "empty_strided", "resize_")),
    "[memory]",
)


class Lives(NamedTuple):
    """One row per block."""

    # Row of the allocation or, for a block older than the recording, of the event that freed it.
    event: IntArray
    # ns; birth is -1 if it was before the recording, death is `FOREVER` if it was after it.
    birth: IntArray
    death: IntArray
    # Row of the event that ended the block; -1 if it outlived the recording.
    end_event: IntArray


def lives(events: pd.DataFrame) -> Lives:
    """Pair the events at each address: a block lives from its allocation to the next event there."""
    addr, device, ts, size = (events[name].to_numpy() for name in ("addr", "device", "ts", "bytes"))
    order = np.lexsort((addr, device))
    same = (np.diff(addr[order]) == 0) & (np.diff(device[order]) == 0)
    after, first = np.full(len(order), -1), np.ones(len(order), dtype=bool)
    after[:-1][same], first[1:] = order[1:][same], ~same
    born, orphan = size[order] > 0, (size[order] < 0) & first
    return Lives(
        np.concatenate([order[born], order[orphan]]),
        np.concatenate([ts[order[born]], np.full(int(orphan.sum()), -1)]),
        np.concatenate([np.append(ts, FOREVER)[after[born]], ts[order[orphan]]]),
        np.concatenate([after[born], order[orphan]]),
    )


def meaningful(trace: Trace, rows: IntArray) -> IntArray:
    """Replace slices that only allocate for the slice around them by that slice; return the rows."""
    return climb(ints(trace.slices["parent"]), rows, trace.slices["name"].isin(_MERELY_ALLOCATE).to_numpy())


KINDS: Final = ("activation", "gradient", "optimizer", "input", "temporary", "parameter", "earlier", "other")


def block_kinds(trace: Trace, events: pd.DataFrame, blocks: Lives) -> npt.NDArray[np.int8]:
    """Return each block's index into `KINDS` (activation, gradient, …), judged by its life."""
    # earlier: born before the recording, mostly parameters and state; parameter: born before all work of
    # these phases and alive two steps later (whatever belongs to a model made during the recording, including
    # its buffers); input: born in phase data; activation: born in forward and alive when the forward is over;
    # gradient: the same for backward; optimizer: born in phase optimizer and alive after it (the optimizer's
    # state); temporary: born in forward, backward or optimizer, and freed in the same phase of the same step;
    # other: anything else.
    words = list(trace.slices["phase"].cat.categories)
    of_slice = np.append(trace.slices["phase"].cat.codes.to_numpy(), -1)
    rows = ints(events["slice"])
    birth = of_slice[rows[blocks.event]]
    ended = blocks.end_event >= 0
    death = np.where(ended, of_slice[rows[np.where(ended, blocks.end_event, 0)]], -1) if len(rows) else birth
    same_step = step_index(trace, blocks.birth) == step_index(trace, blocks.death)
    brief = (birth == death) & same_step & ended
    kind = np.full(len(birth), KINDS.index("other"), dtype=np.int8)
    lasts = {"forward": "activation", "backward": "gradient", "optimizer": "optimizer", "data": "input"}
    for phase, lasting in lasts.items():
        born_in = birth == (words.index(phase) if phase in words else -2)
        kind[born_in] = KINDS.index(lasting)
        if phase != "data":
            kind[born_in & brief] = KINDS.index("temporary")
    kind[_lasting(trace, blocks) & (kind == KINDS.index("other"))] = KINDS.index("parameter")
    kind[blocks.birth < 0] = KINDS.index("earlier")
    return kind


def _lasting(trace: Trace, blocks: Lives) -> npt.NDArray[np.bool_]:
    """Return which blocks are older than the work of all phases and outlive two steps; none without steps."""
    slices, steps = trace.slices, trace.steps
    words = slices["phase"].cat.categories.isin(["data", "forward", "backward", "optimizer"])
    work = np.append(words, False)[slices["phase"].cat.codes.to_numpy()]
    calls = work & (slices["category"] == "module").to_numpy()
    work = calls if calls.any() else work  # setting up a module may look like a forward pass
    if not len(steps) or not work.any():
        return np.zeros(len(blocks.birth), dtype=bool)
    start = int(slices["ts"].to_numpy()[int(work.argmax())])  # slices are sorted by start
    ends = np.sort((steps["ts"] + steps["dur"]).to_numpy())
    ends = ends[ends > start]
    return (blocks.birth < start) & (blocks.death > (ends[:2].max() if len(ends) else start))


def step_index(trace: Trace, instants: IntArray) -> IntArray:
    """Return how many steps have begun by each instant, which is equal for instants in the same step."""
    start = np.sort(trace.steps["ts"].to_numpy())
    return np.where(instants == FOREVER, -1, np.searchsorted(start, instants, side="right"))


def memory_blocks(
    trace: Trace,
    *,
    window: WindowLike = None,
    device: int | None = None,
    min_bytes: int = 0,
    min_lifetime: int | str = 0,
) -> pd.DataFrame:
    """List the blocks with the operators of their birth and death.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: keep blocks that are alive at some instant of it.
    device : int, optional
        Keep this one; -1 is the host.
    min_bytes : int
        Keep blocks of at least this size.
    min_lifetime : int or str
        Keep blocks that lived at least this long: ns, or text such as ``"2ms"``. If birth or death was not
        recorded, only the recorded time counts.

    Returns
    -------
    DataFrame
        By birth; empty if no allocator was recorded.

        - ``addr`` uint64, ``device`` int16 (-1: host), ``bytes`` int64;
        - ``birth_ts`` Int64 ns: missing for a block from before the recording; ``death_ts`` Int64 ns: missing
          if it outlived the recording; ``lifetime_ns`` int64: between the two, as far as recorded;
        - ``operator``, ``freed_by`` str: the innermost slices at birth and death, except ``aten::empty``
          and the like; ``module``, ``phase`` str and ``step`` Int32 of its birth;
        - ``slice``, ``freed_slice`` Int64: rows of the two in ``trace.slices``;
        - ``kind`` category, as in `memory_live`.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=0,
    ...               allocated=[64, 72, 8], reserved=128)
    >>> memory_blocks(b.seal(), min_bytes=10)[["bytes", "lifetime_ns"]].values.tolist()
    [[64, 9]]
    """
    events = trace.allocations
    if device is not None:
        events = events[events["device"] == device].reset_index(drop=True)
    blocks = lives(events)
    order = np.lexsort((blocks.event, blocks.birth))
    blocks = Lives(*(column[order] for column in blocks))
    size = np.abs(events["bytes"].to_numpy()[blocks.event])
    last = int(max(trace.span.end, events["ts"].max())) if len(events) else 0
    lifetime = np.where(blocks.death == FOREVER, last, blocks.death) - np.maximum(blocks.birth, 0)
    keep = (size >= min_bytes) & (lifetime >= parse_ns(min_lifetime))
    if window is not None:
        cut = Window.of(window)
        keep &= (blocks.birth < cut.end) & ((blocks.death > cut.start) | (blocks.birth >= cut.start))
    kept = Lives(*(column[keep] for column in blocks))
    table = block_table(trace, events, kept).assign(lifetime_ns=lifetime[keep])
    columns = [
        "lifetime_ns", "operator", "freed_by", "module", "phase", "step", "slice", "freed_slice", "kind",
    ]  # fmt: skip
    return table[["addr", "device", "bytes", "birth_ts", "death_ts", *columns]]


def block_table(trace: Trace, events: pd.DataFrame, blocks: Lives) -> pd.DataFrame:
    """Describe blocks: their life, kind, and the slices in which they were born and freed."""
    slices, row = trace.slices, np.append(ints(events["slice"]), -1)
    early, late = blocks.birth < 0, blocks.death == FOREVER
    born = meaningful(trace, np.where(early, -1, row[blocks.event]))
    died = meaningful(trace, row[blocks.end_event])  # -1 (death not recorded) reads the last entry
    data: dict[str, Any] = {
        "addr": events["addr"].to_numpy()[blocks.event],
        "device": events["device"].to_numpy()[blocks.event],
        "bytes": np.abs(events["bytes"].to_numpy()[blocks.event]),
        "birth_ts": pd.arrays.IntegerArray(np.where(early, 0, blocks.birth), early),
        "death_ts": pd.arrays.IntegerArray(np.where(late, 0, blocks.death), late),
        "slice": optional(born),
        "freed_slice": optional(died),
        "kind": pd.Categorical.from_codes(block_kinds(trace, events, blocks), categories=list(KINDS)),
    }
    labels = {"operator": ("name", born), "freed_by": ("name", died)}
    labels |= {name: (name, born) for name in ("module", "phase", "line")}
    for column, (source, at) in labels.items():
        data[column] = texts(slices[source], np.append(slices[source].cat.codes.to_numpy(), -1)[at])
    data["step"] = optional(np.append(ints(slices["step"]), -1)[born], "Int32")
    return pd.DataFrame(data)


def chosen_events(trace: Trace, window: WindowLike, step: Numbers, phase: Texts) -> BoolArray:
    """Return a mask: True for allocations and releases in the window and in these steps and phases."""
    slices, events = trace.slices, trace.allocations
    row, keep = ints(events["slice"]), np.ones(len(events), dtype=bool)
    if window is not None:
        cut = Window.of(window)
        keep &= ((events["ts"] >= cut.start) & (events["ts"] < cut.end)).to_numpy()
    if step is not None:
        keep &= np.append(np.isin(ints(slices["step"]), checked_numbers("step", step)), False)[row]
    if phase is not None:
        words = checked_words("phase", phase, PHASES)
        keep &= np.append(slices["phase"].isin(words).to_numpy(), False)[row]
    return keep


# Where the host's heap at its peak was allocated, and what remains at the end.

By = Literal["line", "function"]

HEAP: Final = Table.of(
    "memory_heap",
    "line:str text:str allocated_by:str bytes:int64 count:int64 share:float64 kept_bytes:int64 "
    "kept_count:int64",
)


def memory_heap(trace: Trace, *, by: By = "line") -> pd.DataFrame:
    """List what allocated the host's heap at its peak, and what remains at the end.

    Parameters
    ----------
    trace : Trace
        A recording that traced the heap: ``%%profile --heap``, ``nbp.profile(heap=True)``.
    by : {"line", "function"}
        One row for each line of your code, or for each function that allocated.

    Returns
    -------
    DataFrame
        By `bytes`, most first, then by `kept_bytes`; empty if the heap was not traced.

        - ``line`` str: the innermost line of the cell, or of your modules, on the stack, like ``cell:12``;
          missing if there is none, as in other threads; with ``by="function"``, the line with the most bytes;
        - ``text`` str: its source; ``allocated_by`` str: the innermost Python function, such as
          ``concatenate (multiarray.py)``, the one with the most bytes; ``import`` for loaded modules; missing
          for threads without Python code;
        - ``bytes``, ``count`` int64: at the peak; ``share`` float64 of it;
        - ``kept_bytes``, ``kept_count`` int64: allocated during the recording and not freed in it.

    Notes
    -----
    ``bytes`` sum to the peak of blocks allocated since the recording began. Resident memory
    (``p.memory.peak()``) differs: it includes earlier blocks and memory that the allocator keeps for later.
    memray (https://bloomberg.github.io/memray/) traces it: Python objects count as the arenas that hold them.
    """
    if by not in get_args(By):
        raise OptionError(f"by={by!r} is not a grouping of the heap: {nearest(by, get_args(By))}")
    table = recorded_table(trace, "heap")
    if table is None:
        return HEAP.empty()
    key = "line" if by == "line" else "allocated_by"
    table = table.sort_values(["bytes", "kept_bytes"], ascending=False, kind="stable")
    numbers = ["bytes", "count", "kept_bytes", "kept_count"]
    groups = table.groupby(key, sort=False)
    out = groups[["line", "text", "allocated_by"]].first().join(groups[numbers].sum())
    out = out.sort_values(["bytes", "kept_bytes"], ascending=False, kind="stable").reset_index(drop=True)
    out["share"] = out["bytes"] / max(int(out["bytes"].sum()), 1)
    out[["line", "text", "allocated_by"]] = out[["line", "text", "allocated_by"]].replace("", None)
    return HEAP.frame({name: out[name] for name in HEAP.names})


def memory_operators(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    step: Numbers = None,
    phase: Texts = None,
    device: int | None = None,
) -> pd.DataFrame:
    """Sum the allocations and releases inside each operator.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.
    by : str or sequence of str
        ``name``, or any of ``name shapes module phase category line step track`` together.
    step : int or iterable of int, optional
        Keep these steps.
    phase : str or iterable of str, optional
        Keep these phases.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        One row per group and device, by `increase_bytes`, most first; empty if no allocator was recorded.

        - the columns of `by`, missing for events outside every slice; ``device`` int16 (-1: host);
        - ``allocation_count``, ``free_count``, ``allocated_bytes``, ``freed_bytes`` int64, none negative;
        - ``increase_bytes`` int64: their difference. Over all rows it sums to the total change.

    Notes
    -----
    An event belongs to the innermost slice around it, as in PyTorch's ``self_cpu_memory_usage`` and in
    Paddle's memory summary.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> main = b.track("main")
    >>> _ = b.slices(ts=[0, 20], dur=[10, 10], name=["mm", "free"], track=main)
    >>> sizes = dict(bytes=[64, -64], allocated=[64, 0], reserved=0)
    >>> b.allocations(ts=[5, 25], addr=[1, 1], device=-1, track=main, **sizes)
    >>> memory_operators(b.seal())[["name", "allocated_bytes", "increase_bytes"]].values.tolist()
    [['mm', 64, 64], ['free', 0, -64]]
    """
    events, keep = trace.allocations, chosen_events(trace, window, step, phase)
    if device is not None:
        keep &= (events["device"] == device).to_numpy()
    groups = group(trace.slices, by)
    code = np.append(groups.code, -1)[ints(events["slice"])[keep]]
    size = events["bytes"].to_numpy()[keep]
    where = events["device"].to_numpy()[keep].astype(np.int64)
    used, inverse = np.unique(code * 2**16 + where + 1, return_inverse=True)

    keys = groups.keys.reindex(np.where(used < 0, len(groups.keys), used // 2**16)).reset_index(drop=True)
    table = keys.assign(
        device=(used % 2**16 - 1).astype(np.int16),
        allocation_count=sums(inverse, size > 0, len(used)),
        free_count=sums(inverse, size < 0, len(used)),
        allocated_bytes=sums(inverse, np.maximum(size, 0), len(used)),
        freed_bytes=sums(inverse, np.maximum(-size, 0), len(used)),
    )
    table["increase_bytes"] = table["allocated_bytes"] - table["freed_bytes"]
    order = ["increase_bytes", "allocated_bytes"]
    return table.sort_values(order, ascending=False, kind="stable").reset_index(drop=True)
