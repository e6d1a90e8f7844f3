"""The collectives of a rank: which operation each is, and what ran before it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, inherit
from ...trace.arrays import BoolArray, IntArray, optional
from ...trace.intervals import as_ints
from ...trace.taxonomy import function_name
from ..busy_time import device_of
from ..device.kernel_launches import launch_calls
from ..scope import Numbers, Scope, WindowLike, ints, on_device, on_host, recorded_table, texts
from ..time.phases import stepping_thread
from ..work.formulas import element_bytes

_MARKS: Final = (
    "crossdevicereduce:all_reduce allreduce:all_reduce reducescatter:reduce_scatter allgather:all_gather "
    "alltoall:all_to_all sendrecv:send_recv broadcast:broadcast notify:notify dispatchlayout:layout "
    "putsignal:send waitsignal:recv barrier:barrier dispatch:dispatch combine:combine scatter:scatter "
    "gather:gather reduce:reduce send:send recv:recv receive:recv"
)
"""Part of a kernel's name, and the operation it means; the first match counts."""
_OPERATIONS: Final = tuple(pair.split(":") for pair in _MARKS.split())
SYMMETRIC: Final = frozenset(
    {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier", "send_recv"}
)
"""Operations that no rank can end before every rank has started."""

_SEPARATORS: Final = re.compile(r"[_\s-]")


def operation_of(name: str) -> str:
    """Return the collective that the name of a kernel, range or argument refers to; else the name itself."""
    bare = _SEPARATORS.sub("", function_name(name).lower())
    return next((word for mark, word in _OPERATIONS if mark in bare), name)


def elements(shapes: str) -> int:
    """Return how many elements the tensors with these shapes (JSON) have in total; -1 if unknown."""

    def count(shape: Any) -> int:
        if shape and isinstance(shape[0], list):
            return sum(map(count, shape))
        return math.prod(int(size) for size in shape)

    try:
        return sum(map(count, json.loads(shapes)))
    except (TypeError, ValueError):
        return -1


def bus_factor(operation: str, size: int) -> float:
    """Return how many bytes a link carries per byte of the message, with `size` ranks."""
    # Source: PERFORMANCE.md of NVIDIA's nccl-tests.
    if size < 1:
        return float("nan")
    if operation == "all_reduce":
        return 2 * (size - 1) / size
    if operation in ("all_gather", "reduce_scatter", "all_to_all"):
        return (size - 1) / size
    return 1.0


_NOT_WORK = ("annotation", "module", "collective", "overhead")


def preceding(trace: Trace, start: IntArray, end: IntArray) -> tuple[Any, IntArray]:
    """Return which name had most self time just before each collective (by start), and that time."""
    # Candidates are slices on the steps' thread or on a device, with their middle between the latest end of
    # earlier collectives and the start of this one. Ranges count only in phase *data*, as those around a
    # fetch that waits.
    count = len(start)
    parts = [_work(scope) for scope in (stepping_thread(trace), on_device(trace))]
    middle = np.concatenate([(scope.ts + scope.end) // 2 for scope in parts])
    name = np.concatenate([scope.codes("name") for scope in parts])
    spent = np.concatenate([scope.self_ns for scope in parts])
    into = np.searchsorted(start, middle, side="left")
    reached = np.maximum.accumulate(np.concatenate([np.full(1, np.iinfo(np.int64).min), end]))[:count]
    keep = into < count
    keep[keep] = middle[keep] >= reached[into[keep]]
    sums = pd.DataFrame({"into": into[keep], "name": name[keep], "spent": spent[keep]})
    sums = sums.groupby(["into", "name"], as_index=False)["spent"].sum()
    most = sums.sort_values("spent", kind="stable").drop_duplicates("into", keep="last")
    code, ns = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    code[most["into"]] = most["name"]
    ns[most["into"]] = most["spent"]
    return texts(trace.slices["name"], code), as_ints(ns)


def _work(scope: Scope) -> Scope:
    fetch = scope.among("category", ("annotation",)) & scope.among("phase", ("data",))
    return scope.only((~scope.among("category", _NOT_WORK) | fetch) & (scope.self_ns > 0))


HOST: Final = -1
_TEXTS: Final = ("operation", "group", "dtype")
_NUMBERS: Final = ("group_size", "in_elements", "out_elements", "src_rank", "dst_rank")


def collectives(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """List the collectives of a recording.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; collectives that touch it stay whole.
    step : int or iterable of int, optional
        Keep these steps.

    Returns
    -------
    DataFrame
        One row per collective, by start: those on devices or, if no device has any (gloo, MPI), on the host.

        - ``ts``, ``dur`` int64 ns; ``unix_ns`` int64: the start in Unix time, by the clock of this host;
        - ``operation`` str: ``all_reduce all_to_all all_gather reduce_scatter broadcast send_recv`` …;
          ``name`` str: that of the kernel or range;
        - ``group`` str: name of the process group, empty if not recorded; ``group_size`` Int64;
        - ``bytes`` Int64: the larger of input and output on this rank; ``dtype`` str;
        - ``peer`` Int64: the other rank of a send or receive, if recorded;
        - ``step`` Int32; ``device`` int16, -1 on the host; ``stream`` Int64; ``slice`` int64: row in
          ``trace.slices``;
        - ``before`` str, ``before_ns`` int64: the name with most self time since the previous collective.

    Notes
    -----
    A kernel's operation, group and size come from its own arguments (torch 2.3 and later), or else from those
    of the ``record_param_comms`` or range (``nccl:all_reduce``) that launched it, since an all-to-all runs as
    a kernel called SendRecv.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 9: [gemm ][ncclAllReduce]", categories={"ncclAllReduce": "collective"})
    >>> collectives(trace)[["ts", "dur", "operation", "before"]].values.tolist()
    [[7, 15, 'all_reduce', 'gemm']]
    """
    chosen = on_device(trace, window).where(category="collective", step=step)
    on_gpu = bool(len(chosen.rows))
    if not on_gpu:
        chosen = on_host(trace, window).where(category="collective", step=step)
    slices, rows = trace.slices, chosen.rows
    ts, dur = slices["ts"].to_numpy()[rows], slices["dur"].to_numpy()[rows]
    facts = _facts(trace, rows, on_gpu)
    before, before_ns = preceding(trace, ts, ts + dur)
    names = slices["name"].iloc[rows].astype(object).to_numpy()
    device = device_of(trace, chosen) if on_gpu else np.full(len(rows), HOST)
    return pd.DataFrame(
        {
            "ts": ts,
            "dur": dur,
            "unix_ns": ts + int(trace.metadata.get("start_unix_ns", 0)),
            "operation": pd.Series(facts["operation"], dtype="str"),
            "name": pd.Series(names, dtype="str"),
            "group": pd.Series(facts["group"], dtype="str").fillna(""),
            "group_size": optional(facts["group_size"]),
            "bytes": optional(facts["bytes"]),
            "dtype": pd.Series(facts["dtype"], dtype="str").fillna(""),
            "peer": optional(facts["peer"]),
            "step": slices["step"].iloc[rows].array,
            "device": device.astype(np.int16),
            "stream": slices["stream"].iloc[rows].array,
            "slice": rows,
            "before": before,
            "before_ns": before_ns,
        }
    )


def _facts(trace: Trace, rows: IntArray, on_gpu: bool) -> dict[str, Any]:
    """Return operation, group and sizes: recorded ones of the kernel or its launcher, else from names."""
    slices = trace.slices
    table = recorded_table(trace, "collectives")
    own = _recorded_facts(table, trace, rows)
    above = rows
    if on_gpu:  # the host range or operator that launched each
        ranges = (slices["category"] == "collective") | (slices["name"] == "record_param_comms")
        nearest = inherit(ints(slices["parent"]), np.where(ranges, np.arange(len(slices)), -1))
        parent = np.append(ints(slices["parent"]), -1)
        above = np.append(nearest, -1)[parent[launch_calls(trace)[rows]]]
    outer = _recorded_facts(table, trace, above)
    words = np.array([*slices["name"].cat.categories, None], dtype=object)
    code = as_ints(slices["name"].cat.codes.to_numpy())
    name = words[code[rows]]
    around = words[np.where(above >= 0, code[above], -1)]
    by_name = {word: operation_of(str(word)) for word in {*name, *around} - {None}}
    facts = {key: np.where(_is_present(own[key]), own[key], outer[key]) for key in own}
    guess = [by_name[outside or inside] for outside, inside in zip(around, name, strict=True)]
    said = {word: operation_of(str(word)) for word in set(facts["operation"]) - {None}}
    pairs = zip(facts["operation"], guess, strict=True)
    facts["operation"] = np.array([said.get(word, other) for word, other in pairs], dtype=object)
    sizes, dtypes = _from_shapes(trace, above)
    facts["dtype"] = np.where(_is_present(facts["dtype"]), facts["dtype"], dtypes)
    facts["bytes"] = np.where(facts["bytes"] >= 0, facts["bytes"], sizes)
    return facts


def _recorded_facts(table: pd.DataFrame | None, trace: Trace, rows: IntArray) -> dict[str, Any]:
    """Return what was recorded about these collectives; missing for row -1 and unknown rows."""
    slices, keys = trace.slices, ["start_ns", "device", "stream"]
    start = slices["ts"].to_numpy()[rows] + int(trace.metadata.get("start_unix_ns", 0))
    wanted = pd.DataFrame({"start_ns": np.where(rows >= 0, start, -1)})
    wanted["device"], wanted["stream"] = ints(slices["device"])[rows], ints(slices["stream"])[rows]
    recorded = pd.DataFrame(columns=keys) if table is None else table.drop_duplicates(keys)
    found = wanted.merge(recorded.astype(dict.fromkeys(keys, "Int64")), on=keys, how="left")
    found = found.reindex(columns=[*_TEXTS, *_NUMBERS])  # a file may have none of a kind
    facts: dict[str, Any] = {key: np.where(found[key].notna(), found[key], None) for key in _TEXTS}
    number = {key: found[key].astype("Int64").fillna(-1).to_numpy(np.int64) for key in _NUMBERS}
    size = np.array([element_bytes(str(dtype)) for dtype in facts["dtype"]], np.int64)
    most = np.maximum(number["in_elements"], number["out_elements"])
    facts["group_size"] = number["group_size"]
    facts["peer"] = np.maximum(number["src_rank"], number["dst_rank"])
    facts["bytes"] = np.where((size > 0) & (most >= 0), most * size, -1)
    return facts


def _is_present(values: Any) -> BoolArray:
    return np.asarray(values >= 0) if values.dtype != object else np.asarray(pd.notna(values))


def _from_shapes(trace: Trace, rows: IntArray) -> tuple[IntArray, Any]:
    """Return the bytes and element types of host ranges from their input shapes."""
    called = trace.slices[["name", "shapes"]].reindex(rows).astype(object).reset_index(drop=True)
    count = called["shapes"].map({text: elements(str(text)) for text in called["shapes"].dropna().unique()})
    dtype = pd.Series(None, called.index, object)
    if (arguments := recorded_table(trace, "operator_arguments")) is not None:
        first = arguments.dropna(subset=["dtypes"]).drop_duplicates(["name", "shapes"]).astype(object)
        types = called.merge(first, on=["name", "shapes"], how="left")["dtypes"]
        dtype = types.map(lambda text: str(text).strip("[]").partition(",")[0].strip('"'), na_action="ignore")
    words = np.where(dtype.notna(), dtype, None)
    width = np.array([element_bytes(str(word)) if word else 0 for word in words], np.int64)
    number = count.fillna(-1).to_numpy(np.int64)
    return as_ints(np.where((width > 0) & (number >= 0), number * width, -1)), words
